// The first figure: what is told, the designs of the path, one matrix, one answer, and the few controls that the
// design on show has. The lab has the rest, from the same settings.

import { makeAnswer, makeTold } from "./answer.js";
import { CARDS, makeControl } from "./controls.js";
import { element, freshId, oneTabStop, setAttribute, setText, symbol } from "./dom.js";
import { makeEquation } from "./equation.js";
import { makeMatrix, startFade } from "./numbers.js";
import { allButton, copyButton, resetButton } from "./panels.js";
import { makePlay, PATH_ROWS } from "./path.js";
import { makeExplorerPredict } from "./predict.js";
import { applies, defaultSettings, encodeSettings, SHIPPED_HOME, specOf, withPreset } from "./state.js";
import { designWords, formatSetting, isMorphing, nearestRow, STOP_WORDS } from "./text.js";
import SCHEMA from "../schema.json" with { type: "json" };

export function makeFirst(app, note) {
  setAttribute(app.root, "data-layout", "first");
  setAttribute(app.root, "data-panel", "none");
  const sentence = element("p", { class: "cdx-caption", "data-cd": "path-caption" });
  app.updaters.push(({ settings }) => setText(sentence, firstWords(settings, app.initial)));
  app.parts.append(element("div", { class: "cdx-first" },
    app.predict.id ? makeExplorerPredict(app) : null, note, makeTold(app), makeStops(app),
    element("div", { class: "cdx-first-body" }, sentence, makeAnswer(app, true), makeMatrix(app, () => true), makeHand(app)), ...makeFoot(app)));
}

// The designs as stops: those of the path, and the figure's own.
export function makeStops(app) {
  const own = app.initial.preset;
  const names = Object.keys(SCHEMA.rows).filter((name) => PATH_ROWS.includes(name) || name === own);
  const here = () => (isMorphing(app.settings) ? -1 : names.indexOf(app.settings.preset));
  const go = (m) => {
    startFade(app);
    app.change({ ...withPreset(app.settings, names[m]), morph: 0, morph_to: "" }, true);
  };
  const play = makePlay(app, { here, last: () => names.length - 1, go, text: "▶ play", name: "one design after the other" });
  const buttons = names.map((name, m) => element("button", { type: "button", class: "cdx-chip", "data-cd": `stop-${name}`, text: SCHEMA.rows[name].short,
    onclick: () => {
      play.stop();
      go(m);
    } }));
  const chips = element("div", { class: "cdx-chips", role: "group", "aria-label": "Designs, each a step from the one before" }, ...buttons);
  const tabTo = oneTabStop(chips, () => buttons);
  app.updaters.push(() => {
    const at = here();
    buttons.forEach((button, m) => setAttribute(button, "aria-current", m === at ? "step" : "false"));
    tabTo(at);
  });
  return element("div", { class: "cdx-first-stops", "data-locks": true }, chips, play.button);
}

const SLIDERS = ["decay", "beta", "spread", "fade", "own", "sink", "window", "floor", "base"];
const STRAIGHT = ["identity", "relu"]; // with these a factor on the scores is one on the answer

// At most two: what the design has of A, then of the rest; the asked one in any case.
export function slidersOf(s, asked) {
  const own = SLIDERS.filter((key) => applies(key, s));
  if (s.normalizer === "gate") own.push("variation");
  if (!STRAIGHT.includes(s.readout) || own.length === 0) own.push("scale");
  const first = own.slice(0, 2);
  return !asked || first.includes(asked) || !applies(asked, s) ? first : [asked, first[0]];
}

// The sliders of the design on show, and the choices that the figure is about.
function makeHand(app) {
  const sliders = element("div", { class: "cdx-first-sliders" });
  const made = new Map();
  const controlOf = (key) => {
    if (!made.has(key)) {
      const control = makeControl(key, app);
      control.node.dataset.ingredient = specOf(key).group;
      made.set(key, control);
    }
    return made.get(key);
  };
  let shown = "";
  app.updaters.push(({ settings: s }) => {
    const keys = slidersOf(s, app.predict.control);
    if (shown !== keys.join()) sliders.replaceChildren(...keys.map((key) => controlOf(key).node));
    shown = keys.join();
    keys.forEach((key) => controlOf(key).update(s));
  });
  const choices = (app.widget.get("choices") || []).map((key) => makeKind(key, app));
  return element("div", { class: "cdx-first-hand", "data-locks": true }, sliders, element("div", { class: "cdx-first-kinds" }, ...choices));
}

function makeKind(key, app) {
  const { node, update } = makeControl(key, app);
  const [group, sign, name] = CARDS.find(([card]) => card === specOf(key).group);
  node.querySelector("label").replaceChildren(symbol(sign, group), ` ${name}`);
  app.updaters.push(({ settings }) => update(settings));
  return node;
}

function makeFoot(app) {
  const equation = makeEquation(app);
  equation.id = freshId("equation");
  equation.hidden = true;
  const see = element("button", { type: "button", class: "cdx-button cdx-quiet", "data-cd": "see-equation", "aria-expanded": "false", "aria-controls": equation.id, text: "See the equation",
    onclick: () => {
      equation.hidden = !equation.hidden;
      setAttribute(see, "aria-expanded", !equation.hidden);
    } });
  const reset = resetButton(app);
  const chip = (name) => app.parts.querySelector(`.cdx-chip${name}`);
  reset.addEventListener("click", () => (chip(`[data-cd=stop-${app.initial.preset}]`) ?? chip("")).focus()); // it is about to rest
  const start = encodeSettings(app.initial, app.home);
  app.updaters.push(({ settings }) => (reset.disabled = encodeSettings({ ...settings, all: false }, app.home) === start));
  return [element("div", { class: "cdx-panel-bar" }, see, allButton(app), reset, copyButton(app)), equation];
}

// One sentence: what the row does as the figure or the row starts, or what has been changed since.
export function firstWords(s, initial) {
  if (isMorphing(s)) return `${designWords(s)}.`;
  if (s.preset === "own") {
    const { label, signs } = nearestRow(s);
    return `A design of your own: ${label} with ${signs.length ? `another ${signs.join(" and another ")}` : "another direction z"}.`;
  }
  const { label } = SCHEMA.rows[s.preset];
  const start = s.preset === initial.preset ? initial : withPreset(defaultSettings({ ...SHIPPED_HOME, tokens: s.tokens, text: s.text }), s.preset);
  const moved = [...SLIDERS, "variation", "scale", "angle", "flip"].filter((key) => applies(key, s) && s[key] !== start[key]);
  if (moved.length === 0) return `${label}: ${STOP_WORDS[s.preset]}.`;
  const words = moved.map((key) => `${specOf(key).label.split(", ")[0].toLowerCase()} ${key === "flip" ? "on" : formatSetting(key, s)}`);
  return `${label}, now with ${words.join(", ")}.`;
}
