/* The convention switch: the same page in the paper's symbols, in those of flash-linear-attention, or in
   Mamba's. A symbol written with one of the \sym macros of _config.yml carries all three forms; the style
   sheet shows the one that <html data-convention> names. The choice stays on the reader's machine. */
(() => {
  "use strict";

  const KEY = "coefdyn-convention";
  const CHOICES = [["paper", "Paper"], ["fla", "flash-linear-attention"], ["mamba", "Mamba"]];

  function stored() {
    try { return localStorage.getItem(KEY); } catch { return null; }
  }

  function choose(name) {
    const known = CHOICES.some(([key]) => key === name) ? name : "paper";
    document.documentElement.dataset.convention = known;
    try { localStorage.setItem(KEY, known); } catch { /* private window: the choice lasts for this page */ }
    return known;
  }

  function control(current) {
    const label = document.createElement("label");
    label.className = "cd-convention";
    const caption = document.createElement("span");
    caption.textContent = "Symbols";
    const select = document.createElement("select");
    select.setAttribute("data-cd", "convention");
    select.setAttribute("aria-label", "Symbols of");
    for (const [key, name] of CHOICES) select.add(new Option(name, key, false, key === current));
    select.addEventListener("change", () => choose(select.value));
    label.append(caption, select);
    return label;
  }

  /** Only a page that has switchable symbols gets the switch. */
  function mount() {
    if (!document.querySelector(".cv-fla")) return;
    const bar = document.querySelector(".header-article-items__end, .article-header-buttons");
    bar?.prepend(control(document.documentElement.dataset.convention));
  }

  choose(stored());
  mount();
})();
