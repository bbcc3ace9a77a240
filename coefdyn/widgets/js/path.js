// From one row to another, one ingredient a step, with what each step brings.

import { sliderControl } from "./controls.js";
import { element, freshId, oneTabStop, setAttribute, setText } from "./dom.js";
import { startFade } from "./numbers.js";
import { withPreset } from "./state.js";
import { DESIGN_PARTS, isMorphing, STOP_WORDS } from "./text.js";
import SCHEMA from "../schema.json" with { type: "json" };

export const PATH_ROWS = ["softmax_attention", "linear_attention", "mamba2", "deltanet", "gated_deltanet"];
const PATH_ORDER = ["readout", "normalizer", "beside", "structure", "scaling"];
const PATH_MS = 3200;

const STEP_WORDS = {
  structure: {
    identity: "what is stored stays as it was written",
    scalar: "the whole state now fades by the same factor every step",
    diagonal: "every channel of the state now fades at a pace of its own",
    householder: "writing under a key now erases what stood there, and nothing else",
    scaled_householder: "the state is erased along the key and fades as a whole",
    erased_diagonal: "every channel fades at a pace of its own, and then the key's direction is erased",
    erased_channels: "every channel fades at a pace of its own, and a gate for each channel decides how much of it is erased along the key",
    diagonal_rank_one: "fading and erasing stand side by side: what is erased is taken from the state before it fades",
  },
  scaling: {
    one: "keys are written as they are",
    inverse_sqrt_n: "keys are written with 1/√n, so that scores keep their size in any width",
    beta: "the strength that writes is the one that erases",
    step: "what is written is tied to how much fades",
    exponential: "an exponential gate decides how loudly each token is written",
  },
  readout: {
    identity: "the score itself is the coefficient, so it may be zero, or negative",
    exp: "the exponential makes every coefficient positive and large scores dominate",
    relu: "negative scores are silenced",
    softplus: "a softened ReLU keeps every coefficient positive",
    feature_elu: "features replace the exponential, so the past fits into one state",
    feature_relu: "ReLU features let the past fit into one state",
    feature_softplus: "softplus features let the past fit into one state",
    feature_exp: "exponential features let the past fit into one state",
  },
  beside: {
    none: "nothing stands beside φ any more",
    fade: "what φ has made of a score fades with age, so a forget gate acts outside the readout",
    own: "every token adds a fixed share of its own value",
    sink: "a sink takes part in the row sum, so a row need not hand out everything",
    window: "only the last w tokens are read; older pairs are exact zeros",
  },
  normalizer: {
    one: "nothing is divided any more, so a row may be as quiet or as loud as its scores",
    row_sum: "each row is divided by its sum, so that the answer is an average",
    floored: "each row is divided by its sum, but never by less than the floor",
    geometric: "row i is divided by a power of i",
    gate: "a gate of the token divides the row",
  },
};

// Designs from row to row, each one ingredient away from the one before: [{row, part, kinds}].
function pathStops(rows) {
  const stops = [{ row: rows[0], part: null, kinds: { ...SCHEMA.rows[rows[0]].kinds } }];
  for (const row of rows.slice(1)) {
    const end = SCHEMA.rows[row].kinds;
    let { kinds } = stops.at(-1);
    const differing = PATH_ORDER.filter((key) => kinds[key] !== end[key]);
    differing.forEach((part, m) => {
      kinds = { ...kinds, [part]: end[part] };
      if (m === differing.length - 1) kinds = { ...kinds, ...end };
      stops.push({ row: m === differing.length - 1 ? row : null, towards: row, part, kinds });
    });
  }
  return stops;
}

const pathRows = (from, to) => {
  const [start, end] = [PATH_ROWS.indexOf(from), PATH_ROWS.indexOf(to)];
  return start >= 0 && end > start ? PATH_ROWS.slice(start, end + 1) : [from, to];
};

// The settings of a stop: the start of the row it leads to, with the ingredients that have been exchanged so far.
function settingsOfStop(s, stop) {
  const start = withPreset(s, stop.row || stop.towards);
  return { ...start, ...stop.kinds, view: stop.kinds.normalizer === "one" ? "raw" : "normalized", preset: stop.row || "own", morph: 0, morph_to: "",
    scale: stop.kinds.readout === "exp" && s.tokens === "facts" ? withPreset(s, "softmax_attention").scale : start.scale };
}

function stopWords(stop) {
  const sign = DESIGN_PARTS.find(([key]) => key === stop.part);
  const step = stop.part ? `${sign[1]}: ${STEP_WORDS[stop.part][stop.kinds[stop.part]]}` : "";
  if (!stop.row) return `${step}.`;
  const name = `${SCHEMA.rows[stop.row].label}: ${STOP_WORDS[stop.row]}`;
  return step ? `${step}. ${name}.` : `${name}.`;
}

export function makePath(app) {
  const path = { from: PATH_ROWS[0], to: PATH_ROWS.at(-1), stops: [] };
  const list = element("ol", { class: "cdx-stops", "data-cd": "path-stops" });
  const caption = element("p", { class: "cdx-caption", "data-cd": "path-caption" });
  const fits = (stop, s) => DESIGN_PARTS.every(([key]) => stop.kinds[key] === s[key]);
  const here = () => path.stops.findIndex((stop) => fits(stop, app.settings));
  const go = (m) => {
    const stop = path.stops[m];
    if (!stop) return;
    startFade(app);
    app.change(settingsOfStop(app.settings, stop), true);
  };
  const play = makePlay(app, { here, last: () => path.stops.length - 1, go, text: "▶ play the path" });
  const step = (by, text, hook) => element("button", { type: "button", class: "cdx-button", "data-cd": hook, text,
    onclick: () => {
      play.stop();
      go(Math.min(Math.max(here() + by, 0), path.stops.length - 1));
    } });
  const ends = ["from", "to"].map((end) => pathEnd(path, end, () => {
    play.stop();
    fillStops();
    if (end === "to" && app.settings.morph_to) app.change({ morph_to: path.to }, true);
    app.schedule();
  }));
  const slide = slideTo(app, path);
  const fillStops = () => {
    path.stops = pathStops(pathRows(path.from, path.to));
    list.replaceChildren(...path.stops.map((stop, m) => stopButton(stop, () => {
      play.stop();
      go(m);
    })));
  };
  const tabTo = oneTabStop(list, () => [...list.querySelectorAll(".cdx-stop")]);
  fillStops();
  app.updaters.push(({ settings: s }) => {
    if (s.morph_to && s.morph_to !== path.to) {
      path.to = ends[1].lastChild.value = s.morph_to;
      fillStops();
    }
    slide.update(s);
    const at = isMorphing(s) ? -1 : path.stops.findIndex((stop) => fits(stop, s));
    [...list.children].forEach((item, m) => {
      setAttribute(item.firstChild, "aria-current", m === at ? "step" : "false");
      setAttribute(item, "data-done", m < at);
    });
    tabTo(at);
    setText(caption, at >= 0 ? stopWords(path.stops[at]) : "Not on this path: press a step, or play it.");
  });
  const bar = element("div", { class: "cdx-path-bar" }, play.button, step(-1, "←", "path-prev"), step(1, "→", "path-next"), ...ends);
  bar.querySelector("[data-cd=path-prev]").setAttribute("aria-label", "← one step back");
  bar.querySelector("[data-cd=path-next]").setAttribute("aria-label", "→ one step on");
  return element("div", { class: "cdx-path", role: "group", "aria-label": "The path, one ingredient a step", "data-cd": "path", "data-locks": true }, list, bar, element("div", { class: "cdx-path-foot" }, slide.node, caption));
}

// All the way at once: every structure is diag(a)(I − βzzᵀ)diag(a′), so log a, β, z and log b move in between, and
// α and η are mixed.
function slideTo(app, path) {
  const morph = { ...app, change: (patch, done) => app.change({ ...patch, morph_to: app.settings.morph_to || path.to }, done) };
  const { node, update } = sliderControl("morph", SCHEMA.ranges.morph, morph);
  const input = node.querySelector("input");
  node.querySelector("label").textContent = "slide";
  input.setAttribute("aria-label", "Slide from the design on show to the end of the path");
  return { node, update(s) {
    update(s.morph_to ? s : { ...s, morph: 0 });
    input.disabled = !s.morph_to && path.to === s.preset;
  } };
}

// Walks along the stops, from the first where the last is reached; a second press stops.
export function makePlay(app, { here, last, go, text, name }) {
  let timer = 0;
  const show = () => {
    setText(button, timer ? "■ stop" : text);
    setAttribute(button, "aria-pressed", timer !== 0);
    if (name) setAttribute(button, "aria-label", timer ? "■ stop" : `${text}: ${name}`);
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    show();
  };
  const button = element("button", { type: "button", class: "cdx-button cdx-play-path", "data-cd": "path-play", onclick: () => {
    if (timer) return stop();
    go(here() < 0 || here() === last() ? 0 : here() + 1);
    timer = setInterval(() => (here() >= 0 && here() < last() && !app.locked ? go(here() + 1) : stop()), PATH_MS);
    return show();
  } });
  show();
  app.cleanups.push(() => clearInterval(timer));
  return { button, stop };
}

function stopButton(stop, onclick) {
  const sign = stop.part && DESIGN_PARTS.find(([key]) => key === stop.part);
  const label = stop.row ? SCHEMA.rows[stop.row].short : "";
  const button = element("button", { type: "button", class: "cdx-stop", "data-cd": stop.row ? `stop-${stop.row}` : `stop-${stop.towards}-${stop.part}`,
    title: stopWords(stop), onclick },
  sign ? element("span", { class: `cdx-symbol cdx-${sign[2]}`, text: sign[1] }) : null, element("i", {}), label ? element("span", { text: label }) : null);
  if (!label) button.setAttribute("aria-label", stopWords(stop));
  return element("li", { "data-named": Boolean(stop.row) }, button);
}

function pathEnd(path, end, changed) {
  const id = freshId(`path-${end}`);
  const select = element("select", { id, "data-cd": `path-${end}`, onchange: () => {
    path[end] = select.value;
    changed();
  } }, ...Object.entries(SCHEMA.rows).map(([name, row]) => element("option", { value: name, text: row.short })));
  select.value = path[end];
  return element("span", { class: "cdx-path-end" }, element("label", { for: id, text: end }), select);
}
