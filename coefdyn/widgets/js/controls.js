// Controls are made from the schema: one select, slider, number or tick per setting.

import { textControl } from "./answer.js";
import { element, freshId, oneTabStop, setAttribute, setText, symbol } from "./dom.js";
import { IDLE, makeIdle, withHelp } from "./help.js";
import { isGiven } from "./ingredients.js";
import { startFade } from "./numbers.js";
import { applies, defaultSettings, SCALAR_KEYS, SHIPPED_HOME, specOf, withPreset, withTokens } from "./state.js";
import { DESIGN_PARTS, designWords, formatSetting, halfLifeWords, isMorphing, mixWords, nameOf, STOP_WORDS } from "./text.js";
import SCHEMA from "../schema.json" with { type: "json" };

// `hook` tells two controls of one setting apart: the card has control-decay, a question asked-decay.
export function makeControl(key, app, hook = "control") {
  if (SCHEMA.choices[key]) return choiceControl(key, SCHEMA.choices[key], app, hook);
  if (SCHEMA.texts[key]) return textControl(key, SCHEMA.texts[key], app, hook);
  if (SCHEMA.flags[key]) return flagControl(key, SCHEMA.flags[key], app, hook);
  return sliderControl(key, SCHEMA.ranges[key] || SCHEMA.integers[key], app, hook);
}

function choiceControl(key, spec, app, hook = "control") {
  const id = freshId(key);
  const select = element("select", { id, "data-cd": `${hook}-${key}`,
    onchange: () => app.change(key === "tokens" ? withTokens(app.settings, select.value) : { [key]: select.value }, true) },
    ...Object.entries(spec.options).map(([value, text]) => element("option", { value, text })));
  const node = element("div", { class: "cdx-control cdx-choice" }, element("label", { for: id, text: spec.label }), select);
  return { node, update(s) {
    node.hidden = !applies(key, s);
    if (select.value !== s[key]) select.value = s[key];
  } };
}

function flagControl(key, spec, app, hook = "control") {
  const id = freshId(key);
  const input = element("input", { id, type: "checkbox", "data-cd": `${hook}-${key}`,
    onchange: () => app.change({ [key]: input.checked }, true) });
  const node = element("div", { class: "cdx-control cdx-flag" }, input, element("label", { for: id, text: spec.label }));
  return { node, update(s) {
    node.hidden = !applies(key, s);
    input.checked = s[key];
  } };
}

// epsilon moves in powers of ten; everything else linearly.
export function sliderControl(key, spec, app, hook = "control") {
  const id = freshId(key);
  const logarithmic = key === "epsilon";
  const forward = (x) => (logarithmic ? Math.log10(x) : x);
  const back = (x) => (logarithmic ? Number((10 ** x).toPrecision(2)) : x);
  const input = element("input", { id, type: "range", "data-cd": `${hook}-${key}`,
    min: forward(spec.min), max: forward(spec.max), step: logarithmic ? 0.1 : spec.step || 1 });
  const value = element("output", { for: id, "data-cd": hook === "control" ? `value-${key}` : `${hook}-value-${key}` });
  input.addEventListener("input", () => app.change({ [key]: back(Number(input.value)) }, false));
  input.addEventListener("change", () => app.commit());
  const node = element("div", { class: "cdx-control cdx-slider" },
    element("label", { for: id, text: spec.label }), value, input);
  const half = key === "decay" && hook === "control" ? element("span", { class: "cdx-half", "data-cd": "half-life" }) : null;
  if (half) node.append(half);
  return { node, update(s) {
    node.hidden = !applies(key, s);
    if (half) setText(half, halfLifeWords(Math.log(s.decay)));
    limitToLength(key, input, s);
    const number = String(forward(s[key]));
    if (input.value !== number) input.value = number;
    setText(value, formatSetting(key, s));
    setAttribute(input, "aria-valuetext", formatSetting(key, s));
  } };
}

function limitToLength(key, input, s) {
  if (key === "column" || key === "row" || key === "duplicate") setAttribute(input, "max", s.length);
}

export const CARDS = [
  ["evolution", "A_t", "evolution", "what happens to a stored key"],
  ["scaling", "b_j", "scaling", "how strongly it is written"],
  ["readout", "φ", "readout", "how it becomes a coefficient"],
  ["normalizer", "η_i", "normalizer", "what the row is divided by"],
];

function keysOfGroup(group) {
  return SCALAR_KEYS.filter((key) => specOf(key).group === group);
}

export function controlGroup(keys, app, hook = "control") {
  return keys.map((key) => {
    const control = makeControl(key, app, hook);
    if (hook === "control") withHelp(key, control.node);
    if (IDLE[key]) control.node.append(makeIdle(key, app));
    app.updaters.push((model) => control.update(model.settings));
    return control.node;
  });
}

// All four cards, or those named among the parts ("card-readout"). On a phone one at a time, chosen by a tab.
export function makeCards(app, parts) {
  const named = ([group]) => parts.includes("controls") || parts.includes(`card-${group}`);
  const free = ([group]) => !isGiven(app.data) || group === "readout" || group === "normalizer";
  const cards = CARDS.filter((card) => named(card) && free(card));
  const node = element("div", { class: `cdx-cards cdx-cards-${cards.length}`, "data-card": cards.length ? cards[0][0] : "" });
  const tabs = cards.map(([group, sign, name]) => element("button", { type: "button", class: "cdx-tab", "data-cd": `tab-${group}`,
    "aria-pressed": group === cards[0][0], onclick: () => showCard(app, group) }, symbol(sign, group), element("span", { text: name })));
  if (cards.length > 1) node.append(element("div", { class: "cdx-tabs", role: "group", "aria-label": "Ingredients" }, ...tabs));
  node.append(...cards.map((card) => makeCard(app, card)));
  return node;
}

export function showCard(app, group) {
  const cards = app.root.querySelector(".cdx-cards");
  if (!cards) return;
  cards.dataset.card = group;
  cards.querySelectorAll(".cdx-tab").forEach((tab) => setAttribute(tab, "aria-pressed", tab.dataset.cd === `tab-${group}`));
}

// Controls that a first look does without.
const RARE_KEYS = ["direction", "angle", "variation", "flip", "beside", "epsilon", "width", "seed"];

// What stands beside φ in a given design is given too.
function keysOfCard(group, app) {
  return keysOfGroup(group).filter((key) => key !== "beside" || !isGiven(app.data));
}

function makeCard(app, [group, sign, name, hint]) {
  const keys = keysOfCard(group, app);
  return element("fieldset", { class: `cdx-card cdx-card-${group}`, "data-ingredient": group },
    element("legend", {}, symbol(sign, group), ` ${name}`, element("span", { class: "cdx-hint", text: hint })),
    makeMix(group, app),
    element("div", { class: "cdx-card-controls" }, ...controlGroup(keys.filter((key) => !RARE_KEYS.includes(key)), app)), makeMore(group, app));
}

export function makeMore(group, app) {
  const rare = keysOfCard(group, app).filter((key) => RARE_KEYS.includes(key));
  if (rare.length === 0) return null;
  const more = element("details", { class: "cdx-more", "data-cd": `more-${group}` }, element("summary", { text: "more" }), ...controlGroup(rare, app));
  let opened = false;
  app.updaters.push(({ settings: s }) => {
    more.hidden = !rare.some((key) => applies(key, s));
    if (opened) return;
    // What a link or the page has moved away from its start is not hidden.
    const start = withPreset(defaultSettings({ ...SHIPPED_HOME, tokens: s.tokens, text: s.text }), s.preset);
    if (rare.some((key) => applies(key, s) && s[key] !== start[key])) more.open = opened = true;
  });
  return more;
}

function makeMix(group, app) {
  const [key] = DESIGN_PARTS.find(([, , ingredient]) => ingredient === group);
  const mix = element("p", { class: "cdx-mix", "data-cd": `mix-${group}`, hidden: true });
  app.updaters.push(({ settings }) => {
    const words = isGiven(app.data) ? "" : mixWords(key, settings);
    mix.hidden = words === "";
    setText(mix, words);
  });
  return mix;
}

export function makePresets(app) {
  const buttons = Object.entries(SCHEMA.rows).map(([name, row]) => element("button", {
    type: "button", class: "cdx-chip", "data-cd": `preset-${name}`, title: `${row.label}: ${STOP_WORDS[name]}`, text: row.short,
    onclick: () => {
      startFade(app);
      app.change({ ...withPreset(app.settings, name), morph: 0 }, true);
    } }));
  const names = Object.keys(SCHEMA.rows);
  const node = element("div", { class: "cdx-chips cdx-presets", "data-locks": true, role: "group", "aria-label": "Rows of Table 1, and since" }, ...buttons);
  const tabTo = oneTabStop(node, () => buttons);
  app.updaters.push(({ settings }) => {
    buttons.forEach((button, m) => {
      const share = shareOf(names[m], settings);
      setText(button, SCHEMA.rows[names[m]].short + (share > 0 && share < 1 ? ` ${Math.round(100 * share)} %` : ""));
      setAttribute(button, "aria-pressed", share > 0 && share < 1 ? "mixed" : share === 1);
    });
    tabTo(names.indexOf(settings.preset));
  });
  return node;
}

// How much of a row is on show, from 0 to 1.
function shareOf(name, s) {
  const share = isMorphing(s) ? s.morph : 0;
  return (name === s.preset ? 1 - share : 0) + (name === s.morph_to ? share : 0);
}

// The name of what is on show; between two designs how far, and the way back. A row since Table 1 says what it
// changed.
export function makeDesign(app, always) {
  const words = element("span", { "data-cd": "design-words" });
  const end = element("button", { type: "button", class: "cdx-button cdx-end", "data-cd": "morph-end", text: "×",
    onclick: () => {
      startFade(app);
      app.change({ morph: 0, morph_to: "" }, true);
    } });
  const node = element("p", { class: "cdx-design", "data-cd": "design" }, words, end);
  app.updaters.push(({ settings }) => {
    const morphing = isMorphing(settings) && !isGiven(app.data);
    node.hidden = isGiven(app.data) || !(morphing || (always && !(settings.preset in SCHEMA.rows && !SCHEMA.rows[settings.preset].since)));
    setText(words, designWords(settings));
    end.hidden = !morphing;
    setAttribute(node, "data-morphing", morphing);
    setAttribute(end, "aria-label", `× end the morph, back to ${nameOf(settings)}`);
  });
  return node;
}
