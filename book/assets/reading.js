/* Ideas or Code: whether cells show their code. <html data-reading> is set before the first paint; here the
   folds follow it. A fold that a reader opens stays open until the switch moves. */
(() => {
  "use strict";

  const KEY = "coefdyn-reading";
  const root = document.documentElement;
  const choices = [...document.querySelectorAll("input[name=cd-reading]")];
  if (!choices.length) return;

  function choose(name) {
    root.dataset.reading = name;
    for (const choice of choices) choice.checked = choice.value === name;
    for (const fold of document.querySelectorAll("details.cd-says")) fold.open = name === "code";
    root.dataset.folded = "true";
    try { localStorage.setItem(KEY, name); } catch { /* private window: the choice lasts for this page */ }
  }

  choose(root.dataset.reading || "code");
  for (const choice of choices) choice.addEventListener("change", () => choose(choice.value));
})();
