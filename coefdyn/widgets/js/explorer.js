// The explorer itself: one state, one frame, parts that draw what the frame computed.

import { listenToAddress } from "./address.js";
import { answerWords, makeAnswer } from "./answer.js";
import { controlGroup, makeCards, makeDesign, makeMore, makePresets } from "./controls.js";
import { element, freshId, setAttribute, setText } from "./dom.js";
import { makeEquation } from "./equation.js";
import { makeFirst } from "./first.js";
import { isGiven } from "./ingredients.js";
import { advance, states } from "./math.js";
import { buildModel } from "./model.js";
import { makeMatrix, makeNumbers, readingWords } from "./numbers.js";
import { makePanels } from "./panels.js";
import { makePath } from "./path.js";
import { makePinned } from "./pin.js";
import { LOOKING, makeExplorerPredict, spokenOutcome } from "./predict.js";
import { makeSlide } from "./slide.js";
import { homeOf, normaliseSettings } from "./state.js";
import { formatNumber, formatPercent, titleOf } from "./text.js";
import { listenToTheme, readTheme, sizeOf, zoomOf } from "./theme.js";
import { drawImpulse, drawPlane, drawReadout, planeView } from "./views.js";
import SCHEMA from "../schema.json" with { type: "json" };

function createExplorer(widget, host) {
  const app = {
    widget, painters: [], updaters: [], settings: null, data: widget.get("data") || {}, predict: widget.get("predict") || {}, notes: [],
    change(patch, done) {
      if (app.locked && Object.keys(patch).some((key) => !LOOKING.includes(key))) return; // a question waits
      app.adopt({ ...app.settings, ...patch });
      if (done) app.commit();
    },
    adopt(raw, extraNotes = []) {
      const { settings, notes } = normaliseSettings(raw);
      const heads = app.data.heads ? app.data.heads.length : 1;
      if (settings.head > heads) notes.push(`head ${settings.head} is outside 1 to ${heads}; moved to the nearest`);
      app.settings = { ...settings, head: Math.min(settings.head, heads) };
      app.notes = [...extraNotes, ...notes];
      app.schedule();
    },
    restart() {
      app.change({ ...app.initial, all: app.settings.all }, true);
    },
    commit() {
      app.committed = true;
      app.schedule();
    },
    schedule() {
      if (!app.pending) app.pending = requestAnimationFrame(() => app.frame());
    },
    frame() {
      app.pending = 0;
      const start = performance.now();
      showParts(app);
      if (!app.theme.ink) app.theme = readTheme(app.root); // JupyterLab renders before it attaches
      app.model = buildModel(app.settings, app.data);
      if (app.hover && app.hover.row < app.model.g.L) app.model.cell = app.hover;
      // Pictures first: they ask for their sizes, and words written before would make the page lay itself out anew.
      for (const paint of app.painters) paint(app.model);
      for (const update of app.updaters) update(app.model);
      app.watchCanvases?.();
      app.frameMs = performance.now() - start;
      setAttribute(app.root, "data-cd-frame-ms", app.frameMs.toFixed(2));
      app.publish();
    },
    publish() {
      if (JSON.stringify(widget.get("settings")) !== JSON.stringify(app.settings)) {
        widget.set("settings", app.settings);
        widget.save_changes();
      }
      if (app.committed) {
        app.committed = false;
        app.onCommit.forEach((tell) => tell());
      }
    },
    onCommit: [],
    cleanups: [],
    ends: [], // of the parts on show
    first: widget.get("first") === true,
  };
  const saved = widget.get("settings");
  const { settings, notes } = normaliseSettings(saved && Object.keys(saved).length ? saved : {});
  Object.assign(app, { settings, notes });
  app.initial = app.settings; // what the page was written with, whatever its address says
  app.home = homeOf(app.settings);
  app.parts = element("div", {});
  const status = element("p", { class: "cdx-sr", role: "status", "aria-live": "polite", "data-cd": "status" });
  app.root = element("section", { class: "cdx", "data-cd": "explorer", "aria-label": rootName() }, app.parts, status);
  app.onCommit.push(() => setText(status, describe(app.model) + spokenOutcome(app)));
  app.root.addEventListener("cdx-present", ({ detail }) => present(app, detail));
  showParts(app);
  host.append(app.root);
  return app;
}

// Landmarks of one page have names of their own.
function rootName() {
  const before = document.querySelectorAll("[data-cd=explorer]").length;
  return `Coefficient dynamics explorer${before ? ` ${before + 1}` : ""}`;
}

// The first figure, or the lab that it opens. Either is built when it is asked for: what it shows is in the settings.
function showParts(app) {
  const lab = !app.present && (!app.first || app.settings.all);
  const view = app.present ? "slide" : lab ? "lab" : "first";
  if (app.view === view) return;
  const held = app.parts.contains(document.activeElement);
  const { cleanups } = app;
  app.ends.forEach((end) => end());
  Object.assign(app, { lab, view, painters: [], updaters: [], cleanups: [], shownLock: undefined });
  app.parts.replaceChildren();
  if (app.present) makeSlide(app, { note: makeNote(app), plane: makeFigure(app, ...SMALL_FIGURES[1]) });
  else if (lab) buildParts(app, app.widget.get("parts") || ALL_PARTS);
  else makeFirst(app, makeNote(app));
  Object.assign(app, { ends: app.cleanups, cleanups });
  app.root.dispatchEvent(new CustomEvent("cdx-layout", { bubbles: true })); // a page gives the lab its room
  if (held) app.parts.querySelector("[data-cd=all-controls], [data-cd=fewer-controls]")?.focus();
}

// A page makes a slide of its figure, and takes it back with null. A slide asks no question first.
function present(app, detail) {
  app.present = detail;
  app.view = ""; // another slide of the deck is built anew
  app.skip?.();
  app.locked = false;
  if (detail) app.root.tabIndex = -1;
  else app.root.removeAttribute("tabindex");
  app.frame();
  app.theme = readTheme(app.root); // letters and pictures are larger there
  app.schedule();
  if (!detail) app.commit(); // the address says what is left on show
  else if (!detail.bare) app.root.focus();
}

function listen(app) {
  listenToTheme(app);
  listenToWidget(app);
  listenToAddress(app, app.widget.get("name") || "");
}

function drawFirst(app) {
  app.frame();
  app.root.classList.remove("cdx-unready");
  performance.mark("cd-ready");
}

const LONG = 50; // ms after which a task is said to be long

// On a slow device a page lays out what was built and draws it in tasks of their own, so that it answers a hand in
// between. Until then nothing is seen: half a figure would push itself about.
async function startInPage(app, start) {
  let began = start;
  app.root.classList.add("cdx-unready");
  for (const step of [() => app.root.getBoundingClientRect(), () => listen(app), () => drawFirst(app)]) {
    if (performance.now() - began > LONG) {
      await new Promise((done) => setTimeout(done));
      began = performance.now();
    }
    step();
  }
}

const ALL_PARTS = ["presets", "path", "equation", "matrix", "answer", "impulse", "plane", "readout", "numbers", "panels", "controls", "tokens"];
const SMALL_FIGURES = [["impulse", "Impulse response", drawImpulse], ["plane", "Moving state", drawPlane], ["readout", "Readout", drawReadout]];

function buildParts(app, parts) {
  const has = (name) => parts.includes(name);
  const root = app.parts;
  if (has("presets")) root.append(makePresets(app));
  if (has("path")) root.append(makePath(app));
  root.append(makeDesign(app, has("presets")));
  if (has("equation")) root.append(makeEquation(app));
  if (app.predict.id) root.append(makeExplorerPredict(app));
  root.append(makeNote(app));
  if (app.data.heads) root.append(makeHeads(app));
  if (has("tokens")) root.append(element("div", { class: "cdx-tokens", "data-locks": true }, ...controlGroup(["tokens", "text", "length"], app), makeMore("tokens", app)));
  root.append(makeStage(app, parts));
  if (has("numbers")) root.append(makeNumbers(app));
}

// What is seen, the smaller figures or the panel that takes their place, and the cards in hand's reach.
function makeStage(app, parts) {
  const has = (name) => parts.includes(name);
  const small = SMALL_FIGURES.filter(([name]) => has(name)).map(([name, title, draw]) => makeFigure(app, name, title, draw));
  const seen = [has("matrix") ? makeMatrix(app) : null, has("answer") && (!isGiven(app.data) || app.data.words) ? makeAnswer(app) : null].filter(Boolean);
  const cards = parts.some((name) => name === "controls" || name.startsWith("card-")) ? makeCards(app, parts) : null;
  const full = has("matrix") && has("controls") && small.length > 0;
  setAttribute(app.root, "data-layout", full ? "full" : "plain");
  const pinned = has("panels") && has("matrix") && small.length ? makePinned(app) : null;
  const side = element("div", { class: "cdx-side" }, pinned, ...small);
  const panels = has("panels") ? makePanels(app, side) : null;
  const figures = element("div", { class: `cdx-figures cdx-figures-${seen.length + small.length}` },
    ...(seen.length ? [element("div", { class: "cdx-seen", "data-cd": "seen" }, ...seen)] : []), side);
  return element("div", { class: "cdx-stage" }, panels, figures, cards ? element("div", { class: "cdx-hand" }, cards) : null);
}

function makeNote(app) {
  const note = element("p", { class: "cdx-note", role: "status", "data-cd": "note", hidden: true });
  app.updaters.push(() => {
    note.hidden = app.notes.length === 0;
    setText(note, app.notes.length ? `${app.notes.join(". ")}.` : "");
  });
  return note;
}

// Which of several given heads is on show, by its index in Python.
function makeHeads(app) {
  const id = freshId("head");
  const select = element("select", { id, "data-cd": "control-head", onchange: () => app.change({ head: Number(select.value) }, true) },
    ...app.data.labels.map((text, m) => element("option", { value: m + 1, text })));
  app.updaters.push(({ settings }) => (select.value = settings.head));
  return element("div", { class: "cdx-heads" }, element("div", { class: "cdx-control cdx-choice" }, element("label", { for: id, text: "Head" }), select));
}

function makeFigure(app, name, title, draw) {
  const canvas = element("canvas", { class: "cdx-canvas", role: "img", "data-cd": name });
  const caption = element("figcaption", {}, title);
  const node = element("figure", { class: `cdx-figure cdx-figure-${name}` }, caption, canvas);
  if (name === "impulse") caption.append(shortSlider("column", "j =", app));
  if (name === "plane") caption.append(shortSlider("row", "i =", app), playButton(app));
  if (name === "impulse") dragAlong(app, canvas);
  if (name === "plane") dragPlane(app, canvas);
  app.painters.push((chosen) => draw(canvas, lookedAt(app, chosen), app.theme));
  app.updaters.push((chosen) => {
    const model = lookedAt(app, chosen);
    setAttribute(canvas, "aria-label", `${title}. ${FIGURE_WORDS[name](model)}`);
  });
  return node;
}

// The cell under the pointer drives the pictures; the chosen one stays chosen.
function lookedAt(app, model) {
  const { row, column } = model.cell;
  if (row === model.row && column === model.column) return model;
  if (app.looked?.model !== model) app.looked = { model, seen: { ...model, row, column, path: states(model.g, column) } };
  return app.looked.seen;
}

// Along the bars of the impulse response the output i follows the pointer.
function dragAlong(app, canvas) {
  const follow = (event, done) => {
    const { L } = app.model.g;
    const [width] = sizeOf(canvas);
    const i = Math.floor(((event.offsetX / zoomOf(canvas) - 8) / (width - 16)) * L) + 1;
    app.change({ row: Math.min(Math.max(i, 1), L) }, done);
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    follow(event, false);
  });
  canvas.addEventListener("pointermove", (event) => canvas.hasPointerCapture(event.pointerId) && follow(event, false));
  canvas.addEventListener("pointerup", () => app.commit());
}

// In the plane the query turns after the pointer, at its own length; taken at its tip, the state h goes with the hand.
const TIP = 16; // pixels around the tip of h

function dragPlane(app, canvas) {
  let hold = null;
  const placeOf = (event) => [event.offsetX, event.offsetY].map((at) => at / zoomOf(canvas));
  const change = (name, values) => app.change({ points: { ...app.settings.points, [name]: values.map((x) => Math.round(100 * x) / 100) } }, false);
  const turn = ([x, y], { cx, cy }) => {
    const { g, row } = app.model;
    const far = Math.hypot(x - cx, cy - y);
    if (far < 6) return;
    const length = Math.hypot(g.q[2 * row], g.q[2 * row + 1]) || 1;
    change(`q${row + 1}`, [x - cx, cy - y].map((v) => (length * v) / far));
  };
  const draw = ([x, y], { cx, cy, scale }) => {
    const key = keyFor(app.model, [(x - cx) / scale, (cy - y) / scale]);
    if (key && Math.max(...key.map(Math.abs)) <= 8) change(`k${app.model.column + 1}`, key);
  };
  const start = (event) => {
    const { model } = app;
    if (model.g.n !== 2 || isGiven(app.data) || model.g.blend) return;
    const view = planeView(model, ...sizeOf(canvas));
    const tip = view.points[model.row - model.column];
    const [x, y] = placeOf(event);
    const [tx, ty] = tip ? view.at(tip) : [Infinity, 0];
    const taken = Math.hypot(tx - x, ty - y) < TIP && Math.hypot(tx - view.cx, ty - view.cy) > 6;
    canvas.reach = taken ? view.reach : undefined;
    hold = { view, follow: taken ? draw : turn };
    canvas.setPointerCapture(event.pointerId);
  };
  const end = () => {
    if (!hold) return;
    hold = canvas.reach = undefined;
    app.commit();
  };
  canvas.addEventListener("pointerdown", start);
  canvas.addEventListener("pointermove", (event) => hold && hold.follow(placeOf(event), hold.view));
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
}

// The key of token j whose state at output i is h: what A_t and b_j made of the two axes, turned round. Null where
// erasing has left no way back.
function keyFor({ g, row, column }, [hx, hy]) {
  const images = [0, 1].map((c) => {
    const image = Float64Array.from([0, 1], (at) => (at === c ? g.b[column] : 0));
    for (let t = column + 1; t <= row; t++) advance(g, image, t);
    return image;
  });
  const [[a, c], [b, d]] = images;
  const det = a * d - b * c;
  return Math.abs(det) < 1e-9 ? null : [(d * hx - b * hy) / det, (a * hy - c * hx) / det];
}

function shortSlider(key, text, app) {
  const [node] = controlGroup([key], app);
  node.querySelector("label").textContent = text;
  node.querySelector("input").setAttribute("aria-label", SCHEMA.integers[key].label);
  return node;
}

// Walks output i from token j to the end, one step at a time; a second press stops.
function playButton(app) {
  let timer = 0;
  const show = (playing) => {
    button.textContent = playing ? "■" : "▶";
    button.setAttribute("aria-label", playing ? "Stop" : "Play the moving state");
  };
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    show(false);
    app.commit();
  };
  const step = () => (app.settings.row < app.model.g.L ? app.change({ row: app.settings.row + 1 }, false) : stop());
  const button = element("button", { type: "button", class: "cdx-play", "data-cd": "play", onclick: () => {
    if (timer) return stop();
    app.change({ row: app.settings.column }, false);
    timer = setInterval(step, matchMedia("(prefers-reduced-motion: reduce)").matches ? 600 : 140);
    return show(true);
  } });
  show(false);
  app.cleanups.push(() => clearInterval(timer));
  return button;
}

const FIGURE_WORDS = {
  impulse: (m) => `Coefficients of token ${m.column + 1}: ${formatNumber(m.shown[m.column * m.g.L + m.column])} at once, ${formatNumber(m.shown[(m.g.L - 1) * m.g.L + m.column])} at the end.`,
  plane: (m) => `State of token ${m.column + 1} at output ${m.row + 1}: ${stateWords(m)}.`,
  readout: (m) => (m.isFeature ? "One coordinate of the feature map." : m.nearZeroSets.map(([a, b]) => `Near zero for scores from ${formatNumber(a)} to ${formatNumber(b)}`).join("; ")),
};

function stateWords(m) {
  if (m.row < m.column) return "not written yet";
  const at = (m.row - m.column) * m.g.n;
  return Array.from(m.path.slice(at, at + m.g.n), (x) => formatNumber(x)).join(", ");
}

// What a screen reader hears once a change is done.
function describe(m) {
  return `${titleOf(m.settings)}. ${formatPercent(m.nearZero)} of the coefficients are near zero. Class ${m.className}. ${m.g.told ? `${answerWords(m)} ` : ""}${readingWords(m)}`;
}

function listenToWidget(app) {
  const take = () => {
    const raw = app.widget.get("settings");
    if (JSON.stringify(raw) !== JSON.stringify(app.settings)) app.adopt(raw);
  };
  const takeData = () => {
    app.data = app.widget.get("data") || {};
    app.schedule();
  };
  app.widget.on("change:settings", take);
  app.widget.on("change:data", takeData);
  app.cleanups.push(() => app.widget.off("change:settings", take), () => app.widget.off("change:data", takeData));
}

export default {
  render({ model, el }) {
    const start = performance.now();
    const app = createExplorer(model, el);
    const end = () => [...app.ends, ...app.cleanups].forEach((clean) => clean());
    if (model.get("_in_page") === true) return startInPage(app, start).then(() => end);
    listen(app);
    drawFirst(app);
    return end;
  },
};
