/* The page of answered predictions: what this browser has kept, and a way to forget it. */
(() => {
  "use strict";

  const START = "coefdyn-predict:";
  const place = document.querySelector("[data-cd=predictions]");
  if (!place) return;

  const make = (tag, attributes = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), attributes);
    node.append(...children);
    return node;
  };

  /** All answers that can be read, the latest first; what is no answer is left alone. */
  function answers() {
    const found = [];
    for (const key of Object.keys(localStorage).filter((name) => name.startsWith(START))) {
      try {
        const { answer, date, question, page, truth, about } = JSON.parse(localStorage.getItem(key));
        if (["rises", "stays", "falls"].includes(answer)) found.push({ key, answer, date: String(date ?? ""), question: String(question ?? ""), page: String(page ?? ""), truth, about });
      } catch { /* not an answer */ }
    }
    return found.sort((a, b) => b.date.localeCompare(a.date) || a.page.localeCompare(b.page));
  }

  /** A path of this site only: the key is the reader's own, but an address is an address. */
  function addressOf(key) {
    const path = key.slice(START.length).replace(/:[^:]*$/, "");
    return path.startsWith("/") && !path.startsWith("//") ? path : "";
  }

  const titleOf = (page) => page.split(" \u2014 ")[0] || "a page of this book";

  function row({ key, answer, date, question, page, truth }) {
    const outcome = truth ? (truth === answer ? `it ${truth}, as you said` : `it ${truth}`) : "not tried yet";
    const address = addressOf(key);
    const chapter = address ? make("a", { href: address, textContent: titleOf(page) }) : titleOf(page);
    const forget = make("button", { type: "button", textContent: "Forget", ariaLabel: `Forget: ${question}` });
    forget.addEventListener("click", () => drop([key]));
    return make("tr", {}, make("td", { textContent: date }), make("td", {}, chapter), make("td", { textContent: question }),
      make("td", { textContent: `it ${answer}` }), make("td", { textContent: outcome }), make("td", {}, forget));
  }

  const ABOUT = { evolution: "A, what a step does to what is stored", scaling: "b, how strongly keys are written",
    readout: "φ, what is made of a score", normalizer: "η, what a row is divided by" };

  /** What more than half of the missed answers share; empty where that is nothing. */
  function shared(missed) {
    const most = (words) => {
      const found = Object.keys(words).map((key) => [words[key], missed.filter((one) => one.kind(key)).length]);
      return found.find(([, count]) => count >= 2 && count > missed.length / 2);
    };
    const said = [most(Object.fromEntries(Object.entries(ABOUT).map(([key, words]) => [`about:${key}`, `ask about ${words}`]))),
      most({ "truth:stays": "expect a change where the number stays", "answer:stays": "expect no change where there is one", "turned:": "turn the change round" })];
    return said.filter(Boolean).map(([words, count]) => `${count === missed.length ? "all" : count} of them ${words}`);
  }

  const kindOf = ({ about, truth, answer }) => (key) => [`about:${about}`, `truth:${truth}`, `answer:${answer}`, truth !== "stays" && answer !== "stays" ? "turned:" : ""].includes(key);

  /** The missed answers: what they have in common, and the chapters that asked. */
  function lesson(tried) {
    const missed = tried.filter(({ truth, answer }) => truth !== answer).map((one) => ({ ...one, kind: kindOf(one) }));
    if (!missed.length) return [];
    const chapters = new Map(missed.map((one) => [titleOf(one.page), addressOf(one.key)]));
    const links = [...chapters].flatMap(([title, address], m) => [m ? ", " : "", address ? make("a", { href: address, textContent: title }) : title]);
    const common = missed.length > 1 ? shared(missed) : [];
    const words = missed.length === 1 ? "One turned out otherwise." : `${missed.length} turned out otherwise${common.length ? `: ${common.join(", and ")}` : ", each in its own way"}.`;
    const told = make("p", {}, `${words} Read again: `, ...links, ".");
    told.dataset.cd = "lesson";
    return [told];
  }

  function drop(keys) {
    keys.forEach((key) => localStorage.removeItem(key));
    show();
    place.querySelector("button")?.focus();
  }

  function show() {
    let kept;
    try {
      kept = answers();
    } catch {
      place.replaceChildren(make("p", { textContent: "This browser keeps nothing for this page, so there is nothing to show." }));
      return;
    }
    if (!kept.length) {
      place.replaceChildren(make("p", { role: "status", textContent: "No prediction is kept. The first figure that asks stands in “Coefficient dynamics”." }));
      return;
    }
    const tried = kept.filter(({ truth }) => truth);
    const right = tried.filter(({ truth, answer }) => truth === answer).length;
    const all = make("button", { type: "button", textContent: "Forget all" });
    all.addEventListener("click", () => drop(kept.map(({ key }) => key)));
    const heads = ["date", "chapter", "question", "you said", "it turned out", ""].map((textContent) => make("th", { scope: "col", textContent }));
    heads.at(-1).append(make("span", { className: "cd-unseen", textContent: "forget one" }));
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...kept.map(row)));
    const box = make("div", { className: "pst-scrollable-table-container", tabIndex: 0, role: "region", ariaLabel: "Answered predictions" }, table);
    place.replaceChildren(make("p", { role: "status", textContent: `${kept.length} answered, ${tried.length} tried, ${right} as you said.` }), ...lesson(tried), box, all);
  }

  show();
  addEventListener("storage", show);
})();
