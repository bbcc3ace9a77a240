// Predict first: the controls wait until the reader has said which way a number will move.
// The answer stays in this browser; nothing is sent anywhere.

import { controlGroup } from "./controls.js";
import { element, setAttribute, setText } from "./dom.js";
import { largestMagnitude } from "./math.js";
import { buildModel } from "./model.js";
import { NUMBERS } from "./numbers.js";
import { specOf } from "./state.js";
import { formatNumber } from "./text.js";

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

// Settings that a locked explorer still lets the reader choose, and that no answer depends on.
export const LOOKING = ["row", "column", "panel", "view", "head", "all"];

const ASKED_WAYS = { up: ["raise", (now, then) => now > then], down: ["lower", (now, then) => now < then] };

// What a question of the explorer can be about, beside the numbers it shows.
const ASKED_NUMBERS = () => [...NUMBERS,
  ["weight", "", "", ({ weights, g, row, column }) => numberPair(weights[row * g.L + column])],
  ["largest-weight", "", "", ({ weights }) => numberPair(largestMagnitude(weights))]];
const numberPair = (x) => [formatNumber(x), x];

// In the lab with the asked control; the first figure has it among its own.
export function makeExplorerPredict(app) {
  const { predict } = app;
  const read = ASKED_NUMBERS().find(([hook]) => hook === predict.number)[3];
  const [asked] = app.lab ? controlGroup([predict.control], app, "asked") : [null];
  return makePredict(app, { read, before: read(buildModel(app.initial, app.data)), asked, label: labelOf });
}

// The box of a question. `read` gives the asked number of a model in words and as a number, `before` what it gave as
// the figure was written, `asked` is the control.
export function makePredict(app, { read, before, asked, label }) {
  const { predict } = app;
  const baseline = Number(before[1]);
  const store = predictionStore(app);
  const start = app.initial;
  const restart = app.restart ?? (() => app.change(start, true));
  const buttons = PREDICTIONS.map(([answer, text]) => element("button", { type: "button", class: "cdx-button", text,
    "data-cd": `predict-${answer}`, onclick: () => {
      decide({ answer, date: today(), question: predict.question, page: document.title, about: aboutOf(asked, predict) });
      restart(); // the answer is about the figure as the question found it
      outcome.focus({ preventScroll: true }); // the buttons are about to rest, and would drop the focus
    } }));
  const skip = element("button", { type: "button", class: "cdx-button cdx-quiet", "data-cd": "predict-skip", text: "Skip, let me play",
    onclick: () => {
      app.skip();
      app.frame();
      again.focus({ preventScroll: true });
    } });
  const outcome = element("p", { class: "cdx-sentence", tabindex: "-1", "data-cd": "predict-outcome" });
  const moved = makeMoved(before);
  const back = element("button", { type: "button", class: "cdx-button", "data-cd": "predict-back", text: "Back to the question",
    onclick: () => {
      restart();
      outcome.focus({ preventScroll: true });
    } });
  const again = element("button", { type: "button", class: "cdx-button cdx-quiet", "data-cd": "predict-reset", text: "Ask me again",
    onclick: () => {
      app.skipped = false;
      restart();
      decide(null);
      app.frame();
      buttons[0].focus({ preventScroll: true });
    } });
  let state = app.answered === undefined ? store.load() : app.answered; // a second box, such as the lab's, knows the first
  app.locked = !state && !app.skipped;
  // For a reader who has come for something else, by a link or by saying so: the question is asked when wanted.
  app.skip = () => {
    app.skipped = true;
    app.locked = false;
    app.schedule();
  };
  const decide = (next) => {
    state = app.answered = next;
    app.locked = !next;
    store.save(next);
    app.schedule();
  };
  app.updaters.push((model) => {
    lockControls(app);
    buttons.forEach((button, m) => setAttribute(button, "aria-pressed", Boolean(state) && state.answer === PREDICTIONS[m][0]));
    const skipped = !state && Boolean(app.skipped);
    buttons.forEach((button) => {
      button.disabled = Boolean(state);
      button.hidden = skipped;
    });
    skip.hidden = skipped || Boolean(state);
    again.hidden = !state && !skipped;
    setText(again, skipped ? "Ask me" : "Ask me again");
    const seen = judge(app.settings, read(model), { start, baseline, predict });
    back.hidden = !state || !seen.others.length;
    outcome.hidden = skipped;
    moved.show(state && seen.truth ? seen : null);
    setText(outcome, state ? outcomeWords(state, seen, predict, label) : waitingWords(predict, label));
    if (state && seen.truth && state.truth !== seen.truth) store.save((state = { ...state, truth: seen.truth }));
  });
  return element("div", { class: "cdx-predict", role: "group", "aria-label": "Predict first", "data-cd": "predict" },
    element("p", { class: "cdx-sentence" }, element("strong", { text: predict.question })),
    element("div", { class: "cdx-asked" },
      element("div", { class: "cdx-chips cdx-left" }, ...buttons, skip, again),
      asked ? element("fieldset", { class: "cdx-lock" }, asked) : null),
    moved.node, outcome, back);
}

// The asked number on its way: what it was, what it is, and a bar that runs from the one to the other.
function makeMoved([text, value]) {
  const baseline = Number(value);
  const [was, now] = [element("span", {}), element("b", {})];
  const [bar, ghost] = [element("i", {}), element("s", {})];
  const node = element("div", { class: "cdx-moved", "aria-hidden": "true", "data-cd": "predict-moved", hidden: true },
    element("span", {}, was, " → ", now), element("span", { class: "cdx-track" }, bar, ghost));
  return { node, show(seen) {
    if (node.hidden && seen) bar.style.width = share(baseline, baseline, seen.now);
    node.hidden = !seen;
    if (!seen) return;
    if (bar.offsetWidth >= 0) setText(was, text); // laid out where it was, the bar runs from there
    setText(now, seen.text);
    setAttribute(bar, "data-negative", seen.now < 0);
    bar.style.width = share(seen.now, baseline, seen.now);
    ghost.style.left = share(baseline, baseline, seen.now);
  } };
}

// A length on an axis that ends at the larger of the two; what has no end fills it.
function share(x, ...all) {
  const size = Math.abs(x);
  if (!Number.isFinite(size)) return "100%";
  const top = Math.max(...all.map(Math.abs).filter(Number.isFinite));
  return `${top ? (all.every(Number.isFinite) ? 100 : 50) * (size / top) : 0}%`;
}

// Which ingredient a question is about, for the page that looks back on all of them.
const aboutOf = (asked, { control }) => asked?.dataset?.ingredient ?? specOf(control)?.group ?? "";

const today = () => {
  const now = new Date();
  return [now.getFullYear(), now.getMonth() + 1, now.getDate()].map((x) => String(x).padStart(2, "0")).join("-");
};

// What the reader may not change before the answer: the frame does nothing while nothing is locked or freed.
function lockControls(app) {
  if (app.shownLock === app.locked) return;
  app.shownLock = app.locked;
  app.root.querySelectorAll("fieldset.cdx-card, fieldset.cdx-lock").forEach((box) => (box.disabled = app.locked));
  app.root.querySelectorAll("[data-locks]").forEach((box) => (box.inert = app.locked));
}

// Has the asked control been moved, in the asked direction, and nothing else? Only then is there a truth.
function judge(s, [text, value], { start, baseline, predict }) {
  const { control, direction, number } = predict;
  const counted = { "row-sum": ["row"], "near-zero-fraction": ["view"], weight: ["row", "column"] }[number] || [];
  const asked = (key) => key === control || (LOOKING.includes(key) && !counted.includes(key));
  const others = Object.keys(start).filter((key) => key !== "preset" && !asked(key) && JSON.stringify(s[key]) !== JSON.stringify(start[key]));
  const moved = s[control] !== start[control];
  const wrongWay = moved && direction && !ASKED_WAYS[direction][1](s[control], start[control]);
  const now = Number(value);
  const same = now === baseline || Math.abs(now - baseline) <= 1e-9 * Math.max(1, Math.min(Math.abs(baseline), Math.abs(now)));
  const truth = others.length || !moved || wrongWay ? "" : same ? "stays" : now > baseline ? "rises" : "falls";
  return { others, moved, wrongWay, truth, text, now };
}

function labelOf(key) {
  const spec = specOf(key);
  return spec ? spec.label : key;
}

const orderWords = ({ control, direction }, label) => `${direction ? ASKED_WAYS[direction][0] : "move"} “${label(control)}”`;

const waitingWords = ({ control }, label) => `Say first; then “${label(control)}” and the other controls wake up.`;

function outcomeWords({ answer, date }, { others, moved, wrongWay, truth, text }, predict, label) {
  const said = `You said it ${answer}${date ? ` (${date})` : ""}.`;
  if (others.length) {
    const names = [...new Set(others.map(label))];
    return `${said} The question is about “${label(predict.control)}” alone, and ${names.slice(0, 3).join(", ")}${names.length > 3 ? " and more" : ""} changed too.`;
  }
  if (!moved) return `${said} Now ${orderWords(predict, label)} and watch.`;
  if (wrongWay) return `${said} The question asks you to ${orderWords(predict, label)}; this is the other way.`;
  return `It is now ${text}: it ${truth}. ${truth === answer ? "As you said." : said} ${predict.why || "Why?"}`;
}

// What a screen reader hears of it once a change is done, not while a slider moves.
export function spokenOutcome(app) {
  const outcome = app.root.querySelector("[data-cd=predict-outcome]");
  return outcome ? ` ${outcome.textContent}` : "";
}
