// Present: one figure in the whole window, for a room. The matrix is large, the answer beside it, and keys do the rest.

import { askFor, makeAnswer } from "./answer.js";
import { element, holdKeys, setAttribute, setText } from "./dom.js";
import { makeEquation } from "./equation.js";
import { firstWords, makeStops, slidersOf } from "./first.js";
import { isGiven } from "./ingredients.js";
import { makeMatrix, NUMBERS } from "./numbers.js";
import { makeEigenvalues } from "./stability.js";
import { decodeSettings, encodeSettings, factPlaces, SCALAR_KEYS, specOf } from "./state.js";
import { formatSetting } from "./text.js";

// `present` is what the page asks for: {leave()}, or of a deck of slides, which has words and keys of its own, {bare: true}.
export function makeSlide(app, { note, plane }) {
  setAttribute(app.root, "data-layout", "slide");
  setAttribute(app.root, "data-panel", "none");
  const { leave: left, bare } = app.present;
  const given = isGiven(app.data);
  const stops = bare || given ? null : makeStops(app);
  const caption = element("p", { class: "cdx-slide-caption", "data-cd": "slide-caption" });
  const near = element("p", { class: "cdx-slide-number" }, "near zero: ", element("b", { "data-cd": "near-zero-fraction" }));
  const eigenvalues = makeEigenvalues(app);
  const keys = element("p", { class: "cdx-slide-keys", "data-cd": "slide-keys" });
  const answer = !given || app.data.words ? makeAnswer(app, true) : null;
  const side = element("div", { class: "cdx-slide-side" }, answer, near, plane, eigenvalues, makeEquation(app));
  const leave = element("button", { type: "button", class: "cdx-button cdx-quiet", "data-cd": "slide-leave", text: "Leave", onclick: left });
  plane.hidden = eigenvalues.hidden = true; // until the first frame says which has room
  const readNear = NUMBERS[0][3];
  app.updaters.push((model) => {
    const { settings: s, g } = model;
    setText(caption, firstWords(s, app.initial));
    const stable = s.panel === "stability";
    near.hidden = Boolean(g.told);
    if (answer) answer.hidden = !g.told;
    eigenvalues.hidden = !stable;
    plane.hidden = stable || (g.told && app.first && !s.all);
    const [text, raw] = readNear(model);
    setText(near.lastChild, text);
    setAttribute(near.lastChild, "data-value", raw);
    setText(keys, keyWords(app, plane));
  });
  app.parts.append(element("div", { class: "cdx-slide" },
    bare ? null : element("header", { class: "cdx-slide-head", "aria-live": "polite" }, stops, caption), note,
    element("div", { class: "cdx-slide-body" }, makeMatrix(app, ({ g }) => Boolean(g.told) && app.first), side),
    bare ? null : element("footer", { class: "cdx-slide-foot" }, keys, leave)));
  app.parts.querySelectorAll("[data-cd=matrix], .cdx-chip, .cdx-play-path, .cdx-play").forEach((node) => setAttribute(node, "tabindex", -1));
  listenToKeys(app, { stops, plane });
  if (bare) lend(app);
}

const isMoving = (plane) => !plane.hidden;

function keyWords(app, plane) {
  const along = isGiven(app.data) ? "← → outputs" : "← → designs";
  const play = isMoving(plane) ? ["space plays the state"] : isGiven(app.data) ? [] : ["space plays the path"];
  const hands = slideHands(app).map((key, m) => `${m ? "shift " : ""}↑ ↓ ${handName(key)} ${formatSetting(key, app.settings)}`);
  return [along, ...hands, ...play, "F fills the screen", "Esc leaves"].join(" · ");
}

const handName = (key) => specOf(key).label.split(", ")[0];

// The two sliders that keys move: those of the first figure.
const slideHands = (app) => (isGiven(app.data) ? [] : slidersOf(app.settings, app.predict.control)).slice(0, 2);

const STEPS = 20; // of a key from one end of a slider to the other

function moveSlider(app, key, by) {
  const spec = specOf(key);
  const step = Math.max(spec.step, Math.round((spec.max - spec.min) / STEPS / spec.step) * spec.step);
  const next = Math.min(Math.max(app.settings[key] + by * step, spec.min), spec.max);
  app.change({ [key]: Math.round(next / spec.step) * spec.step }, true);
}

// Arrows, the Page Down and Page Up of a clicker, space and Escape. A deck has these keys but for up and down.
function listenToKeys(app, { stops, plane }) {
  const along = (by) => {
    if (!stops) return app.change({ row: Math.min(Math.max(app.settings.row + by, 1), app.model.g.L) }, true);
    const all = [...stops.querySelectorAll(".cdx-chip")];
    const at = all.findIndex((one) => one.matches("[aria-current=step]"));
    all[(Math.max(at, by > 0 ? -1 : 0) + by + all.length) % all.length].click();
    return undefined;
  };
  const slide = (by, { shiftKey }) => {
    const key = slideHands(app)[shiftKey ? 1 : 0];
    if (key) moveSlider(app, key, by);
  };
  const play = () => (isMoving(plane) ? plane.querySelector(".cdx-play") : stops?.querySelector(".cdx-play-path"))?.click();
  const own = app.present.bare ? {} : { ArrowRight: () => along(1), PageDown: () => along(1), ArrowLeft: () => along(-1), PageUp: () => along(-1),
    " ": play, Escape: app.present.leave };
  app.cleanups.push(holdKeys({ ...own, ArrowUp: (event) => slide(1, event), ArrowDown: (event) => slide(-1, event) }));
}

// What a deck asks of the figure in its hands: to take the settings of a link, to say what changes between two of them,
// and to be as it was.
function lend(app) {
  const was = app.settings;
  const start = encodeSettings(app.initial, app.home);
  const askedIn = (query) => new URLSearchParams(query).get("asked");
  const read = (query) => {
    const { settings } = decodeSettings(/(^|&)preset=/.test(query) ? query : `${start}&${query}`, app.home);
    const text = askedIn(query) ? askFor(settings.text, askedIn(query)) : settings.text;
    return text === settings.text ? settings : { ...settings, text, ...factPlaces(text) };
  };
  Object.assign(app.present, {
    set(query, slowly) {
      moveTo(app, read(query), slowly);
      if (!slowly) app.frame(); // paper does not wait
    },
    words(before, after) {
      if (askedIn(after) !== askedIn(before)) return `ask: ${askedIn(after)}`;
      const [now, then] = [read(before), read(after)];
      return SCALAR_KEYS.filter((key) => key !== "preset" && now[key] !== then[key])
        .map((key) => specOf(key).options?.[then[key]] ?? `${handName(key)} ${formatSetting(key, then)}`).join(", ");
    },
    keys: slideHands(app).map((key, m) => `${m ? "shift " : ""}↑ ↓ ${handName(key)}`),
    restore: () => app.adopt(was),
  });
}

const MOVE_MS = 800;

// What is done is seen to be done: one number on its way from what it was.
function moveTo(app, target, slowly) {
  cancelAnimationFrame(app.onItsWay);
  const numbers = SCALAR_KEYS.filter((key) => typeof target[key] === "number" && target[key] !== app.settings[key]);
  const [key] = numbers;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const end = () => {
    app.adopt(target);
    app.commit();
  };
  const asks = target.text !== app.settings.text; // another question has its answer at once
  if (!slowly || calm || asks || numbers.length !== 1) return end();
  const [from, start, step] = [app.settings[key], performance.now(), specOf(key).step ?? 1];
  const walk = () => {
    const t = Math.min((performance.now() - start) / MOVE_MS, 1);
    if (t === 1 || !app.present) return end();
    app.change({ [key]: Math.round((from + t * (target[key] - from)) / step) * step }, false);
    app.onItsWay = requestAnimationFrame(walk);
    return undefined;
  };
  app.cleanups.push(() => cancelAnimationFrame(app.onItsWay));
  return walk();
}
