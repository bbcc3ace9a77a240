// The controls: contest, designs, and what a run is pressed with.

import { element, freshId, setAttribute, setText, symbol } from "../../../../widgets/js/dom.js";
import { formatNumber } from "../../../../widgets/js/text.js";
import { asOwn, isRow, readSetting, TRAIN_LIMITS } from "./settings.js";
import TRAIN from "coefdyn:offered";

function trainSelect(key, label, options, app, { hook = key, read = (s) => s[key], write: put = (value) => ({ [key]: value }), ingredient = "" } = {}) {
  const id = freshId(hook);
  const select = element("select", { id, "data-cd": `control-${hook}`, onchange: () => app.change(put(select.value)) },
    ...Object.entries(options).map(([value, text]) => element("option", { value, text })));
  const node = element("div", { class: `cdx-control cdx-choice ${ingredient ? `cdx-card-${ingredient}` : ""}` }, element("label", { for: id }, label), select);
  app.updaters.push((s) => {
    const value = String(read(s) ?? "");
    if (select.value !== value) select.value = value;
  });
  return node;
}

// The task; and positions where the page's own run has some, since they are then what it is about.
export function trainContest(app) {
  const labels = (list) => Object.fromEntries(Object.entries(list).map(([name, one]) => [name, one.label || one]));
  return element("div", { class: "cdx-tokens" }, trainSelect("task", "Task", labels(TRAIN.tasks), app), isPlaced(app) ? trainPositions(app) : null);
}

const isPlaced = (app) => app.home.positions !== "none";
const trainPositions = (app) => trainSelect("positions", "Positions", TRAIN.positions, app);

// What a first run does without; what a link has moved is not hidden.
export function trainMore(app, ...keeping) {
  const rates = Object.fromEntries(TRAIN.rates.map((rate) => [String(rate), String(rate)]));
  const more = element("details", { class: "cdx-more", "data-cd": "train-more" }, element("summary", { text: "more" }),
    element("div", { class: "cdx-tokens" },
      trainSelect("rate", "Learning rate", rates, app, { write: (value) => ({ rate: Number(value) }) }),
      isPlaced(app) ? null : trainPositions(app), trainSeed(app), trainSelect("speed", "Speed", TRAIN.speeds, app)),
    trainLooking(app), ...keeping);
  let opened = false;
  app.updaters.push((s) => {
    if (opened || s.task !== app.home.task || !["rate", "positions", "seed", "speed", "layer", "head", "sequence"].some((key) => s[key] !== app.home[key])) return;
    more.open = opened = true;
  });
  return more;
}

function trainSeed(app) {
  const seedId = freshId("seed");
  const seed = element("input", { id: seedId, type: "number", min: 0, max: TRAIN_LIMITS.seed[1], step: 1, inputmode: "numeric", "data-cd": "control-seed",
    onchange: () => {
      const value = readSetting("seed", seed.value.trim());
      if (value === undefined) app.tell(`A seed is a whole number from 0 to ${TRAIN_LIMITS.seed[1]}; “${seed.value.slice(0, 20)}” is none.`);
      app.change({ seed: value ?? app.settings.seed });
      seed.value = app.settings.seed;
    } });
  app.updaters.push((s) => {
    if (document.activeElement !== seed) seed.value = s.seed;
  });
  return element("div", { class: "cdx-control cdx-choice" }, element("label", { for: seedId, text: "Seed" }), seed);
}

// Chips of the rows, and the four ingredients of one's own.
export function trainDesign(side, app) {
  const chips = [...Object.entries(TRAIN.rows).map(([name, row]) => [name, row.short, row.label]), ["own", "Your own", "Choose the four ingredients"]];
  const buttons = chips.map(([name, text, title]) => element("button", { type: "button", class: "cdx-chip", text, title, "data-cd": `${side}-${name}`,
    onclick: () => app.change({ [side]: name === "own" ? asOwn(app.settings[side]) : { preset: name } }) }));
  const patch = (more) => ({ [side]: { ...asOwn(app.settings[side]), ...more } });
  const four = [["evolution", "A_t", "evolution"], ["scaling", "b_j", "scaling"], ["readout", "φ", "readout"], ["normalizer", "η_i", "normalizer"]]
    .map(([key, sign, ingredient]) => trainSelect(key, symbol(sign, ingredient), TRAIN.choices[key], app,
      { hook: `${side}-${key}`, read: (s) => s[side]?.[key], write: (value) => patch({ [key]: value }), ingredient }));
  const id = freshId("constant");
  const value = element("output", { for: id, "data-cd": `value-${side}-constant` });
  const slider = element("input", { id, type: "range", min: 0.3, max: TRAIN.most_constant, step: 0.01, "data-cd": `control-${side}-constant`,
    onchange: () => app.change(patch({ constant: Number(slider.value) })),
    oninput: () => setText(value, formatNumber(Number(slider.value))) });
  const constant = element("div", { class: "cdx-control cdx-slider cdx-card-evolution" }, element("label", { for: id, text: "λ of A = λ I" }), value, slider);
  const own = element("div", { class: "cdx-tokens cdx-four" }, ...four, constant);
  const node = element("fieldset", { class: `cdx-card cdx-train-design cdx-train-${side}`, "data-cd": `design-${side}` },
    element("legend", {}, element("span", { class: "cdx-swatch", "aria-hidden": "true" }), side === "left" ? "Design" : "Beside it"),
    element("div", { class: "cdx-chips cdx-left", role: "group", "aria-label": side === "left" ? "Design" : "Second design" }, ...buttons), own);
  app.updaters.push((s) => {
    node.hidden = !s[side];
    if (!s[side]) return;
    buttons.forEach((button, m) => setAttribute(button, "aria-pressed", chips[m][0] === s[side].preset));
    own.hidden = isRow(s[side]);
    constant.hidden = s[side].evolution !== "constant";
    if (own.hidden) return;
    slider.value = s[side].constant;
    setText(value, formatNumber(s[side].constant));
    setAttribute(slider, "aria-valuetext", formatNumber(s[side].constant));
  });
  return node;
}

export function trainButton(hook, text, onclick, more = {}) {
  return element("button", { type: "button", class: "cdx-button", "data-cd": hook, text, onclick, ...more });
}

// Train or Pause, Step, Reset, and the second design.
export function trainButtons(app) {
  const start = trainButton("train-start", "Train", () => {
    if (app.running) return app.pause("Paused.");
    showStage(app.root, bar);
    return app.train();
  }, { class: "cdx-button cdx-train-start" });
  const one = trainButton("train-one", "Step", () => app.stepOnce());
  const reset = trainButton("train-reset", "Reset", () => app.reset("Reset: the weights are as the seed draws them."));
  const second = trainButton("train-compare", "", () => app.change({ right: app.settings.right ? null : app.settings.left.preset === "softmax_attention" ? { preset: "mamba2" } : { preset: "softmax_attention" } }));
  app.updaters.push((s) => {
    setText(start, app.running ? "Pause" : "Train");
    setAttribute(start, "aria-pressed", app.running);
    one.disabled = app.running || app.ended();
    start.disabled = app.ended();
    setText(second, s.right ? "One design only" : "A second design beside it");
  });
  const bar = element("div", { class: "cdx-train-bar" }, start, one, reset, second);
  return bar;
}

// What training changes is in sight when it begins, and so is the button that pauses it.
function showStage(root, bar) {
  const { top } = root.querySelector(".cdx-train-stage").getBoundingClientRect();
  if (root.dataset.layout === "slide" || top < window.innerHeight / 2) return;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  bar.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
}

function trainLooking(app) {
  const numbers = (most) => Object.fromEntries(Array.from({ length: most }, (_, m) => [String(m + 1), String(m + 1)]));
  const pick = (key, label, most) => trainSelect(key, label, numbers(most), app, { write: (value) => ({ [key]: Number(value) }) });
  return element("div", { class: "cdx-tokens cdx-looking" }, pick("layer", "Layer", TRAIN.size.layers), pick("head", "Head", TRAIN.size.heads),
    pick("sequence", "Test sequence", TRAIN.sequences));
}
