// Deeper views, one open at a time.

const PANELS = [];

function makePanels(app) {
  return element("div", { class: "cdx-panels" });
}
