// From the design on show to a row. The cells that differ light up.

import { sliderControl } from "./controls.js";
import { element, freshId, setAttribute, setText, symbol } from "./dom.js";
import { withPreset } from "./state.js";
import SCHEMA from "../schema.json" with { type: "json" };

const MORPH_PARTS = [["structure", "A_t", "evolution"], ["scaling", "b_j", "scaling"], ["readout", "φ", "readout"], ["normalizer", "η_i", "normalizer"], ["beside", "+", "readout"]];

export function makeMorph(app, box) {
  const id = freshId("morph-to");
  const options = [["", "choose a row"], ...Object.entries(SCHEMA.rows).map(([name, row]) => [name, row.label])];
  const select = element("select", { id, "data-cd": "control-morph_to",
    onchange: () => app.change({ morph_to: select.value, morph: 0 }, true) },
    ...options.map(([value, text]) => element("option", { value, text })));
  const slider = sliderControl("morph", SCHEMA.ranges.morph, app);
  slider.node.querySelector("label").textContent = "Here to there";
  const head = element("tr", {}, element("td"), ...MORPH_PARTS.map(([, sign, ingredient]) => element("th", { scope: "col" }, symbol(sign, ingredient))));
  const here = morphRow();
  const there = morphRow();
  box.append(
    element("div", { class: "cdx-columns" },
      element("div", { class: "cdx-control cdx-choice" }, element("label", { for: id, text: "Towards" }), select), slider.node),
    element("div", { class: "cdx-scroll", tabindex: "0", role: "region", "aria-label": "Both designs, part by part" },
      element("table", { "data-cd": "morph-table" }, element("thead", {}, head), element("tbody", {}, here.node, there.node))),
    element("p", { class: "cdx-hint", text: "Every structure is diag(a)(I − βzzᵀ)diag(a′): log a, β, z and log b move in between; α and η are mixed." }));
  return ({ settings: s }) => {
    if (select.value !== s.morph_to) select.value = s.morph_to;
    slider.update(s);
    slider.node.querySelector("input").disabled = !s.morph_to;
    const end = s.morph_to ? withPreset(s, s.morph_to) : null;
    here.update(s.preset === "own" ? "Own design" : SCHEMA.rows[s.preset].label, s, end);
    there.node.hidden = !end;
    if (end) there.update(SCHEMA.rows[s.morph_to].label, end, s);
  };
}

function morphRow() {
  const title = element("th", { scope: "row" });
  const cells = MORPH_PARTS.map(([, , ingredient]) => element("td", { class: `cdx-cell-${ingredient}` }));
  return {
    node: element("tr", {}, title, ...cells),
    update(name, s, other) {
      setText(title, name);
      MORPH_PARTS.forEach(([key], m) => {
        setText(cells[m], SCHEMA.choices[key].options[s[key]]);
        setAttribute(cells[m], "data-differs", Boolean(other && other[key] !== s[key]));
      });
    },
  };
}
