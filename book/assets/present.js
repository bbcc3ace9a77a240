/* Present: the page's first explorer on the whole screen, in large letters. The arrow keys step through the
   path where the explorer has one, else through its designs. */
(() => {
  "use strict";

  const button = document.querySelector("[data-cd=present]");
  const explorer = () => document.querySelector("[data-cd=explorer]");
  if (!button) return;

  /** The buttons that one steps through, in order. */
  function steps() {
    const path = explorer().querySelectorAll("[data-cd^=stop-]");
    return [...(path.length ? path : explorer().querySelectorAll("[data-cd^=preset-]"))];
  }

  /** From the last step to the first, and back: a class sees the path more than once. */
  function step(by) {
    const all = steps();
    const at = all.findIndex((one) => one.matches("[aria-pressed=true], [aria-current=step]"));
    const next = all[(Math.max(at, by > 0 ? -1 : 0) + by + all.length) % all.length];
    next?.click();
    next?.focus({ preventScroll: true });
  }

  function keys(event) {
    if (event.defaultPrevented || event.target.closest("input, select, textarea, canvas, [role=application]")) return;
    if (event.key === "ArrowRight" || (event.key === " " && !event.target.closest("button"))) step(1);
    else if (event.key === "ArrowLeft") step(-1);
    else return;
    event.preventDefault();
  }

  button.addEventListener("click", () => (explorer()?.closest(".cd-room") ?? explorer())?.requestFullscreen());
  document.addEventListener("fullscreenchange", () => {
    const on = document.fullscreenElement?.contains(explorer()) ?? false;
    document.documentElement.toggleAttribute("data-present", on);
    if (on) {
      document.addEventListener("keydown", keys);
      (explorer().querySelector("[data-cd=path-next], [data-cd^=stop-][tabindex='0']") ?? steps()[0])?.focus();
    } else {
      document.removeEventListener("keydown", keys);
      button.focus();
    }
  });
})();
