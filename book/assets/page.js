/* Small services of every page: keyboard access to scrolled boxes, ingredient colours in code comments,
   open folds and light colours on paper. No request leaves the page. */
(() => {
  "use strict";

  const NAMES = new Map([
    ["evolution", "evolution"], ["a_t", "evolution"],
    ["scaling", "scaling"], ["b_j", "scaling"],
    ["readout", "readout"], ["phi", "readout"], ["φ", "readout"],
    ["normalizer", "normalizer"], ["normaliser", "normalizer"], ["eta_i", "normalizer"], ["eta", "normalizer"], ["η", "normalizer"],
  ]);
  const WORD = /(?<![\w])(evolution|A_t|scaling|b_j|readout|phi|φ|normali[sz]er|eta_i|eta|η)(?![\w])/gi;

  /** Wrap each word of a code comment that names an ingredient in that ingredient's class. */
  function colourComments() {
    for (const comment of document.querySelectorAll(".highlight .c1, .highlight .cm, .highlight .c")) {
      const text = comment.textContent;
      if (!WORD.test(text)) continue;
      WORD.lastIndex = 0;
      comment.replaceChildren(...pieces(text));
    }
  }

  function pieces(text) {
    const out = [];
    let from = 0;
    for (const match of text.matchAll(WORD)) {
      out.push(text.slice(from, match.index));
      const span = document.createElement("span");
      span.className = `cd-word cd-${NAMES.get(match[0].toLowerCase())}`;
      span.textContent = match[0];
      out.push(span);
      from = match.index + match[0].length;
    }
    return [...out, text.slice(from)];
  }

  /** A box that scrolls sideways can be reached and scrolled with the keyboard; others are no tab stop.
      Boxes are measured whenever they have been laid out at another size, so that none asks for a layout. */
  function watchScrollers() {
    const boxes = "div.math > .cd-formula, div.highlight pre, .cell_output > a.image-reference, .pst-scrollable-table-container, div.cell_output, div.output";
    const sizes = new ResizeObserver((entries) => markScrollers(entries.map(({ target }) => target)));
    document.querySelectorAll(`.bd-article :is(${boxes})`).forEach((box) => {
      box.addEventListener("scroll", () => { if (box.dataset.more) box.dataset.more = sidesOf(box); }, { passive: true });
      sizes.observe(box);
    });
  }

  function markScrollers(boxes) {
    const found = boxes.map((box) => {
      const scrolls = box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "visible";
      return [box, scrolls ? sidesOf(box) : null];
    });
    for (const [box, more] of found) {
      if (more) box.tabIndex = 0;
      else if (box.tabIndex === 0) box.removeAttribute("tabindex");
      if (more) box.dataset.more = more;
      else delete box.dataset.more;
    }
  }

  /** Which side of a scrolled box holds more; the style sheet fades that side. */
  function sidesOf(box) {
    const sides = [box.scrollLeft > 1 ? "left" : "", box.scrollLeft + box.clientWidth < box.scrollWidth - 1 ? "right" : ""];
    return sides.filter(Boolean).join(" ") || "none";
  }

  /** Solutions and hidden cells are printed: paper cannot be unfolded. */
  function openFoldsOnPaper() {
    let opened = [];
    addEventListener("beforeprint", () => {
      opened = [...document.querySelectorAll(".bd-article details:not([open], .cd-code, .cd-deck *)")];
      opened.forEach((fold) => { fold.open = true; });
    });
    addEventListener("afterprint", () => opened.forEach((fold) => { fold.open = false; }));
  }

  /** Paper is light: a dark page prints in the colours of the light one. */
  function printLight() {
    const root = document.documentElement;
    let kept = null;
    const begin = () => {
      if (root.dataset.theme !== "dark") return;
      kept = root.dataset.theme;
      root.dataset.theme = "light";
    };
    const end = () => {
      if (kept) root.dataset.theme = kept;
      kept = null;
    };
    addEventListener("beforeprint", begin);
    addEventListener("afterprint", end);
    matchMedia("print").addEventListener("change", ({ matches }) => (matches ? begin() : end()));
  }

  colourComments();
  watchScrollers();
  openFoldsOnPaper();
  printLight();
})();
