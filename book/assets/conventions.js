/* The convention switch: formulas in the paper's symbols, in those of flash-linear-attention, or in
   Mamba's. A symbol written with one of the \sym macros of _config.yml carries all three forms; the style
   sheet shows the one that <html data-convention> names. A line under the switch says what stays as it is.
   The choice stays on the reader's machine. */
(() => {
  "use strict";

  const KEY = "coefdyn-convention";
  const WHO = { fla: "flash-linear-attention", mamba: "Mamba" };
  const LETTERS = {
    fla: "o for y, G for A, β for b, d_k for n, T for L; q, k and v are the same",
    mamba: "C for q, B for k, x for v, Ā for A, Δ for b, N for n, P for d_v, T for L",
  };
  const select = document.querySelector("[data-cd=convention]");
  if (!select) return;

  /** How many of the page's formulas the switch rewrites, and what to read in the others. */
  function leftOut(name) {
    if (name === "paper") return "";
    const all = document.querySelectorAll(".bd-article math");
    const rewritten = [...all].filter((formula) => formula.querySelector(".cv-fla")).length;
    return `${rewritten} of the ${all.length} formulas of this page are now in the letters of ${WHO[name]}. `
      + `The others, the code and the figures keep the paper's: read ${LETTERS[name]}.`;
  }

  function choose(name) {
    document.documentElement.dataset.convention = name;
    document.querySelector("[data-cd=left-out]").textContent = leftOut(name);
    try { localStorage.setItem(KEY, name); } catch { /* private window: the choice lasts for this page */ }
  }

  select.value = document.documentElement.dataset.convention || "paper";
  choose(select.value);
  select.addEventListener("change", () => choose(select.value));
})();
