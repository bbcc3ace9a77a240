/* Present: the page's first explorer, or the figure that trains, as a slide that fills the window (`coefdyn/widgets/js/slide.js`). An address
   such as #deck=3 opens the demonstrations there, which stand in the page as JSON. */
(() => {
  "use strict";

  const button = document.querySelector("[data-cd=present]");
  const root = document.documentElement;
  const explorer = () => document.querySelector("[data-cd=explorer]:not(.cdx-unready)");
  const figure = () => explorer() ?? document.querySelector("[data-cd=trainer]");
  if (!button) return;

  const tell = (detail) => figure()?.dispatchEvent(new CustomEvent("cdx-present", { detail }));

  function leave() {
    if (!root.hasAttribute("data-present")) return;
    root.removeAttribute("data-present");
    tell(null);
    if (document.fullscreenElement) document.exitFullscreen();
    button.focus();
  }

  function present(more = {}) {
    root.setAttribute("data-present", "");
    tell({ leave, ...more });
  }

  // The slide fills the window in any case; the screen as well where a hand has asked and the browser lets it.
  button.addEventListener("click", () => {
    present();
    root.requestFullscreen?.().catch(() => {});
  });
  document.addEventListener("fullscreenchange", () => {
    if (!document.fullscreenElement) leave();
  });

  function openDeck() {
    const at = /^#deck=(\d+)$/.exec(location.hash);
    const deck = document.querySelector("[data-cd=deck]");
    if (!at || !deck) return;
    if (!explorer()) {
      setTimeout(openDeck, 50);
      return;
    }
    const told = (n) => {
      try {
        history.replaceState(history.state, "", `#deck=${n}`);
      } catch { /* a page without a history shows its slides all the same */ }
    };
    present({ deck: JSON.parse(deck.textContent), at: Number(at[1]), told });
  }

  addEventListener("hashchange", openDeck);
  openDeck();
})();
