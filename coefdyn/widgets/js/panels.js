// Deeper views, one open at a time, and the link to this very setting.

import { element, freshId, setAttribute, setText } from "./dom.js";
import { makeGeometry } from "./geometry.js";
import { isGiven } from "./ingredients.js";
import { makeInspect } from "./inspect.js";
import { pinButton } from "./pin.js";
import { makePositions } from "./positions.js";
import { makeStability } from "./stability.js";
import { addressPrefix, encodeSettings } from "./state.js";

const PANELS = [
  ["inspect", "Inspect a cell", makeInspect],
  ["stability", "Stability", makeStability],
  ["positions", "Positions", makePositions],
  ["geometry", "Geometry", makeGeometry],
];

// The bar of buttons; the panels themselves go into `side`, in place of the figures there.
export function makePanels(app, side) {
  const bar = element("div", { class: "cdx-panel-bar", role: "group", "aria-label": "More views" }, app.first ? allButton(app) : null);
  const useful = isGiven(app.data) ? ["inspect", "stability"] : PANELS.map(([name]) => name);
  for (const [name, label, make] of PANELS.filter(([name]) => useful.includes(name))) {
    const id = freshId(`panel-${name}`);
    const button = element("button", { type: "button", class: "cdx-button", "aria-controls": id, text: label,
      "data-cd": `panel-${name}`, onclick: () => app.change({ panel: app.settings.panel === name ? "none" : name }, true) });
    const box = element("div", { id, class: `cdx-panel cdx-panel-${name}`, hidden: true, role: "region", "aria-label": label,
      "data-locks": ["positions", "geometry"].includes(name) });
    let update = null;
    let drawn = null;
    bar.append(button);
    side.append(box);
    // One that stays open is a picture like the others; one that opens first has to be there.
    app.painters.push((model) => {
      if (!update || box.hidden || model.settings.panel !== name) return;
      update(model);
      drawn = model;
    });
    app.updaters.push((model) => {
      const open = model.settings.panel === name;
      setAttribute(button, "aria-expanded", open);
      // Words of facts stand at right angles, and most store nothing: drawn tokens have a geometry.
      button.hidden = name === "geometry" && model.g.told && !open;
      box.hidden = !open;
      if (!open || drawn === model) return;
      if (!update) update = make(app, box);
      update(model);
    });
  }
  if (side.children.length) bar.append(pinButton(app));
  bar.append(copyButton(app), resetButton(app));
  app.updaters.push(({ settings }) => setAttribute(app.root, "data-panel", useful.includes(settings.panel) ? settings.panel : "none"));
  return bar;
}

export function copyButton(app) {
  const button = element("button", { type: "button", class: "cdx-button cdx-quiet", "data-cd": "copy-link", text: "Copy link",
    onclick: async () => {
      const link = linkTo(app);
      try {
        await navigator.clipboard.writeText(link);
        button.textContent = "Copied";
        setText(app.root.querySelector("[data-cd=status]"), "The link is copied.");
      } catch {
        window.prompt("The link to this setting:", link);
      }
      setTimeout(() => (button.textContent = "Copy link"), 1500);
    } });
  return button;
}

function linkTo(app) {
  const page = app.widget.get("_in_page") === true ? window.location.href.split("#")[0] : "";
  return page + (app.prefix || addressPrefix(app.widget.get("name") || "")) + encodeSettings(app.settings, app.home);
}

export function resetButton(app) {
  return element("button", { type: "button", class: "cdx-button cdx-quiet", "data-cd": "reset", text: "Reset",
    onclick: app.restart });
}

// From the first figure to the lab, and back.
export function allButton(app) {
  const lab = app.settings.all;
  return element("button", { type: "button", class: "cdx-button cdx-quiet", "data-cd": lab ? "fewer-controls" : "all-controls", text: lab ? "← Fewer controls" : "All controls",
    onclick: () => app.change({ all: !lab, panel: "none" }, true) });
}
