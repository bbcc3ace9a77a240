/* Check yourself: three choices, each a fold with its explanation. The first choice is kept in this browser, as the
   explorers keep predictions; nothing is sent anywhere. Without a script the folds open and explain as they are. */
(() => {
  "use strict";

  const today = () => {
    const now = new Date();
    return [now.getFullYear(), now.getMonth() + 1, now.getDate()].map((x) => String(x).padStart(2, "0")).join("-");
  };

  /** Where an answer is kept: by page and question, so that a question that moves keeps its answer. */
  function store(question, choices) {
    const key = `coefdyn-check:${location.pathname}:${question.slice(0, 60)}`;
    return {
      load() {
        try {
          const kept = JSON.parse(localStorage.getItem(key));
          return choices.some((one) => one.text === kept?.answer) ? kept : null;
        } catch {
          return null;
        }
      },
      save(value) {
        try {
          if (value) localStorage.setItem(key, JSON.stringify(value));
          else localStorage.removeItem(key);
        } catch { /* a browser that keeps nothing still asks and answers */ }
      },
    };
  }

  function wake(box) {
    const choices = [...box.querySelectorAll("details")].map((fold) => ({
      fold, summary: fold.querySelector("summary"), text: fold.querySelector("summary").textContent.trim(),
      right: fold.classList.contains("cd-right"),
    }));
    const question = box.querySelector("p:not(.admonition-title)").textContent.trim();
    const kept = store(question, choices);
    const line = document.createElement("p");
    line.className = "cd-answered";
    line.setAttribute("role", "status");
    const words = document.createElement("span");
    const again = Object.assign(document.createElement("button"), { type: "button", textContent: "Ask me again" });
    line.append(words, again);
    box.append(line);

    function show(answer) {
      box.dataset.answered = Boolean(answer);
      again.hidden = !answer;
      for (const one of choices) {
        one.fold.dataset.mark = !answer ? "" : one.right ? "right" : one.text === answer.answer ? "wrong" : "";
      }
      const chosen = answer && choices.find((one) => one.text === answer.answer);
      words.textContent = chosen
        ? `Your first answer (${answer.date}) was “${chosen.text}”: ${chosen.right ? "right" : "not quite"}. `
        : "Choose one; each explains itself. Your answer stays in this browser.";
    }

    // A click, by mouse or by keyboard: a fold that paper or a search opens is no answer.
    for (const one of choices) {
      one.summary.addEventListener("click", () => {
        if (box.dataset.answered === "true") return;
        const answer = { answer: one.text, date: today() };
        kept.save(answer);
        show(answer);
      });
    }
    again.addEventListener("click", () => {
      kept.save(null);
      for (const one of choices) one.fold.open = false;
      show(null);
      choices[0].summary.focus({ preventScroll: true });
    });
    show(kept.load());
  }

  document.querySelectorAll(".bd-article .admonition.selfcheck").forEach(wake);
})();
