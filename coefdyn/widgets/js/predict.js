// Predict first: the controls wait until the reader has said which way a number will move.
// The answer stays in this browser; nothing is sent anywhere.

const PREDICTIONS = [["rises", "it rises"], ["stays", "it stays"], ["falls", "it falls"]];

function predictionStore(app) {
  const { id } = app.predict;
  const key = `coefdyn-predict:${window.location.pathname}:${id}`;
  return {
    load() {
      try {
        const kept = JSON.parse(window.localStorage.getItem(key));
        return PREDICTIONS.some(([answer]) => answer === kept?.answer) ? kept : null;
      } catch {
        return null;
      }
    },
    save(value) {
      try {
        if (value === null) window.localStorage.removeItem(key);
        else window.localStorage.setItem(key, JSON.stringify(value));
      } catch {
        // A browser that keeps nothing still asks and answers.
      }
    },
  };
}

function makePredict(app) {
  const store = predictionStore(app);
  const label = (SCHEMA.ranges[app.predict.control] || SCHEMA.choices[app.predict.control] || { label: app.predict.control }).label;
  const read = NUMBERS.find(([hook]) => hook === app.predict.number)[3];
  const buttons = PREDICTIONS.map(([answer, text]) => element("button", { type: "button", class: "cdx-button", text,
    "data-cd": `predict-${answer}`, onclick: () => {
      decide({ answer, from: String(read(app.model)[1]), at: app.settings[app.predict.control] });
      outcome.focus({ preventScroll: true }); // the buttons are about to rest, and would drop the focus
    } }));
  const outcome = element("p", { class: "cdx-sentence", tabindex: "-1", "data-cd": "predict-outcome" });
  const again = element("button", { type: "button", class: "cdx-button cdx-quiet", "data-cd": "predict-reset", text: "Ask me again",
    onclick: () => {
      app.change(app.initial, true);
      decide(null);
      app.frame();
      buttons[0].focus({ preventScroll: true });
    } });
  let state = store.load();
  const decide = (next) => {
    state = next;
    store.save(next);
    app.schedule();
  };
  app.updaters.push((model) => {
    app.root.querySelectorAll("fieldset.cdx-card").forEach((card) => (card.disabled = !state));
    buttons.forEach((button, m) => setAttribute(button, "aria-pressed", Boolean(state) && state.answer === PREDICTIONS[m][0]));
    buttons.forEach((button) => (button.disabled = Boolean(state)));
    again.hidden = !state;
    const moved = Boolean(state) && model.settings[app.predict.control] !== state.at;
    setText(outcome, state ? outcomeWords(state, read(model), label, moved) : `Say first; then “${label}” and the other controls wake up.`);
  });
  return element("div", { class: "cdx-predict", role: "group", "aria-label": "Predict first", "data-cd": "predict" },
    element("p", { class: "cdx-sentence" }, element("strong", { text: app.predict.question })),
    element("div", { class: "cdx-chips cdx-left" }, ...buttons, again), outcome);
}

// What a screen reader hears of it once a change is done, not while a slider moves.
function spokenOutcome(app) {
  const outcome = app.root.querySelector("[data-cd=predict-outcome]");
  return outcome ? ` ${outcome.textContent}` : "";
}

// Numbers may be infinite ("never"), which JSON has no word for, so `from` is a text.
function outcomeWords({ answer, from }, [text, value], label, moved) {
  const start = Number(from);
  const same = value === start || Math.abs(value - start) <= 1e-9 * Math.max(1, Math.min(Math.abs(start), Math.abs(value)));
  if (same && !moved) return `You said it ${answer}. Now move “${label}” and watch.`;
  const truth = same ? "stays" : value > start ? "rises" : "falls";
  return `It is now ${text}: it ${truth}. ${truth === answer ? "As you said." : `You said it ${answer}.`} Why?`;
}
