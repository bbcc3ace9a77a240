// Present: the matrices of the designs and their accuracies in the whole window; keys train and look about.

import { element, holdKeys, setAttribute } from "../../../../widgets/js/dom.js";
import { readTheme } from "../../../../widgets/js/theme.js";
import TRAIN from "coefdyn:offered";

// The line at the foot, and what the page's wish to present makes of the figure.
export function trainSlide(app) {
  const leave = element("button", { type: "button", class: "cdx-button cdx-quiet", "data-cd": "slide-leave", text: "Leave" });
  const foot = element("footer", { class: "cdx-slide-foot", hidden: true },
    element("p", { class: "cdx-slide-keys", "data-cd": "slide-keys", text: "space trains and pauses · ← → another head · R starts again · F fills the screen · Esc leaves" }), leave);
  let undo = () => {};
  app.cleanups.push(() => undo());
  const hear = ({ detail }) => {
    undo();
    undo = () => {};
    foot.hidden = !detail;
    setAttribute(app.root, "data-layout", detail ? "slide" : "plain");
    if (detail) {
      leave.onclick = detail.leave;
      undo = holdKeys({ ...slideKeys(app), Escape: detail.leave });
      app.root.tabIndex = -1;
      app.root.focus();
    } else app.root.removeAttribute("tabindex");
    app.theme = readTheme(app.root); // letters and pictures are larger there
    app.schedule();
  };
  return { foot, hear };
}

function slideKeys(app) {
  const press = (hook) => () => app.root.querySelector(`[data-cd=${hook}]`).click();
  const turn = (by) => () => {
    const { heads, layers } = TRAIN.size;
    const all = heads * layers;
    const at = ((app.settings.layer - 1) * heads + app.settings.head - 1 + by + all) % all;
    app.change({ layer: Math.floor(at / heads) + 1, head: (at % heads) + 1 });
  };
  return { " ": press("train-start"), r: press("train-reset"), ArrowRight: turn(1), PageDown: turn(1), ArrowLeft: turn(-1), PageUp: turn(-1) };
}
