// Present: one figure in the whole window, for a room. The matrix is large, the answer beside it, and keys do the rest.

import { makeAnswer } from "./answer.js";
import { element, holdKeys, setAttribute, setText } from "./dom.js";
import { makeEquation } from "./equation.js";
import { firstWords, makeStops, slidersOf } from "./first.js";
import { isGiven } from "./ingredients.js";
import { makeMatrix, NUMBERS } from "./numbers.js";
import { makeEigenvalues } from "./stability.js";
import { decodeSettings, SCALAR_KEYS, specOf } from "./state.js";
import { formatSetting } from "./text.js";

// `present` is what the page asks for: {leave()}, and for a deck {deck: [{title, said, states}], at, told(n)}.
export function makeSlide(app, { note, plane }) {
  setAttribute(app.root, "data-layout", "slide");
  setAttribute(app.root, "data-panel", "none");
  const { present } = app;
  const deck = present.deck ? makeDeck(app) : null;
  const given = isGiven(app.data);
  const stops = deck || given ? null : makeStops(app);
  const caption = element("p", { class: "cdx-slide-caption", "data-cd": "slide-caption" });
  const near = element("p", { class: "cdx-slide-number" }, "near zero: ", element("b", { "data-cd": "near-zero-fraction" }));
  const eigenvalues = makeEigenvalues(app);
  const keys = element("p", { class: "cdx-slide-keys", "data-cd": "slide-keys" }, element("b", {}), element("span", {}));
  const answer = !given || app.data.words ? makeAnswer(app, true) : null;
  const side = element("div", { class: "cdx-slide-side" }, answer, near, plane, eigenvalues, makeEquation(app));
  const leave = element("button", { type: "button", class: "cdx-button cdx-quiet", "data-cd": "slide-leave", text: "Leave", onclick: present.leave });
  plane.hidden = eigenvalues.hidden = true; // until the first frame says which has room
  const readNear = NUMBERS[0][3];
  app.updaters.push((model) => {
    const { settings: s, g } = model;
    setText(caption, deck ? deck.said() : firstWords(s, app.initial));
    const stable = s.panel === "stability";
    near.hidden = Boolean(g.told);
    if (answer) answer.hidden = !g.told;
    eigenvalues.hidden = !stable;
    plane.hidden = stable || (g.told && !s.all);
    const [text, raw] = readNear(model);
    setText(near.lastChild, text);
    setAttribute(near.lastChild, "data-value", raw);
    setText(keys.firstChild, deck ? deck.next() : "");
    setText(keys.lastChild, keyWords(app, deck, plane));
  });
  app.parts.append(element("div", { class: "cdx-slide", "data-deck": Boolean(deck) },
    element("header", { class: "cdx-slide-head", "aria-live": "polite" }, deck ? deck.head : stops, caption), note,
    element("div", { class: "cdx-slide-body" }, makeMatrix(app, ({ g }) => Boolean(g.told)), side),
    element("footer", { class: "cdx-slide-foot" }, keys, leave)));
  app.parts.querySelectorAll("[data-cd=matrix], .cdx-chip, .cdx-play-path, .cdx-play").forEach((node) => setAttribute(node, "tabindex", -1));
  listenToKeys(app, { deck, stops, plane });
  deck?.go(0);
}

const isMoving = (plane) => !plane.hidden;

function keyWords(app, deck, plane) {
  const hands = slideHands(app).map((key, m) => `${m ? "shift " : ""}↑ ↓ ${specOf(key).label.split(", ")[0]} ${formatSetting(key, app.settings)}`);
  const along = deck ? [] : [isGiven(app.data) ? "← → outputs" : "← → designs"];
  const play = isMoving(plane) ? ["space plays the state"] : deck || isGiven(app.data) ? [] : ["space plays the path"];
  return [...along, ...hands, ...play, "F fills the screen", "Esc leaves"].join(" · ");
}

// The two sliders that keys move: those of the first figure.
const slideHands = (app) => (isGiven(app.data) ? [] : slidersOf(app.settings, app.predict.control)).slice(0, 2);

const STEPS = 20; // of a key from one end of a slider to the other

function moveSlider(app, key, by) {
  const spec = specOf(key);
  const step = Math.max(spec.step, Math.round((spec.max - spec.min) / STEPS / spec.step) * spec.step);
  const next = Math.min(Math.max(app.settings[key] + by * step, spec.min), spec.max);
  app.change({ [key]: Math.round(next / spec.step) * spec.step }, true);
}

// Arrows, the Page Down and Page Up of a clicker, space and Escape.
function listenToKeys(app, { deck, stops, plane }) {
  const along = (by) => {
    if (deck) return deck.go(by);
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
  app.cleanups.push(holdKeys({ ArrowRight: () => along(1), PageDown: () => along(1), ArrowLeft: () => along(-1), PageUp: () => along(-1), " ": play,
    ArrowUp: (event) => slide(1, event), ArrowDown: (event) => slide(-1, event), Escape: app.present.leave }));
}

// The deck: at each demonstration what it opens, then one thing done after the other, then the next.
function makeDeck(app) {
  const { deck: slides, told } = app.present;
  const title = element("h2", { "data-cd": "slide-title" });
  const place = element("span", { class: "cdx-slide-place", "data-cd": "slide-place" });
  let at = Math.min(Math.max(app.present.at, 1), slides.length) - 1;
  let done = 0;
  const stateAt = (n, step) => decodeSettings(slides[n].states[step], app.home).settings;
  const go = (by) => {
    const step = done + by;
    if (step >= 0 && step < slides[at].states.length) done = step;
    else {
      if (!slides[at + Math.sign(by)]) return;
      at += Math.sign(by);
      done = by > 0 ? 0 : slides[at].states.length - 1;
    }
    setText(title, slides[at].title);
    setText(place, `${at + 1} of ${slides.length}`);
    told(at + 1);
    moveTo(app, stateAt(at, done), by > 0 && done > 0);
  };
  const next = () => {
    if (done + 1 < slides[at].states.length) {
      const [now, then] = [stateAt(at, done), stateAt(at, done + 1)];
      const does = SCALAR_KEYS.filter((key) => key !== "preset" && now[key] !== then[key]).map((key) => specOf(key).options?.[then[key]] ?? `${specOf(key).label.split(", ")[0]} ${formatSetting(key, then)}`);
      return `→ ${does.join(", ")}`;
    }
    return slides[at + 1] ? `→ ${slides[at + 1].title}` : "the last slide";
  };
  return { go, next, said: () => slides[at].said, head: element("div", { class: "cdx-slide-title" }, title, place) };
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
  if (!slowly || calm || numbers.length !== 1 || !Object.hasOwn(target, key)) return end();
  const [from, start, { step }] = [app.settings[key], performance.now(), specOf(key)];
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
