/* Ideas or Code: whether cells show their code. <html data-reading> is set before the first paint, and the style
   sheet follows it. */
(() => {
  "use strict";

  const KEY = "coefdyn-reading";
  const root = document.documentElement;
  const choices = [...document.querySelectorAll("input[name=cd-reading]")];
  if (!choices.length) return;

  function choose(name) {
    root.dataset.reading = name;
    for (const choice of choices) choice.checked = choice.value === name;
    try { localStorage.setItem(KEY, name); } catch { /* private window: the choice lasts for this page */ }
  }

  choose(root.dataset.reading || "code");
  for (const choice of choices) choice.addEventListener("change", () => choose(choice.value));
})();
