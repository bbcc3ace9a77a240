// Training in the page: the run is a worker's, the page only draws. `data-cd` names what tests hold on to.

import { element, setAttribute, setText } from "../../../../widgets/js/dom.js";
import { formatNumber } from "../../../../widgets/js/text.js";
import { listenToTheme, readTheme } from "../../../../widgets/js/theme.js";
import { taskTokenName } from "../tasks/tasks.js";
import { drawCurves } from "./curves.js";
import { trainKeeping } from "./keep.js";
import { drawLook } from "./look.js";
import { mindBattery, Pace } from "./pace.js";
import { bindRuns, listenToTrainAddress, listenToVisibility } from "./run.js";
import { trainName } from "./settings.js";
import { trainButtons, trainContest, trainDesign, trainMore } from "./train_controls.js";
import { trainSlide } from "./train_slide.js";
import { sequenceWords, troubleWords } from "./words.js";
import STYLE from "coefdyn:style";
import TRAIN from "coefdyn:offered";

function renderTrainer({ model: widget, el }) {
  const home = { ...widget.get("settings") };
  const app = { widget, home, settings: { ...home }, lanes: [], cleanups: [], updaters: [], onBegin: [], running: false, hidden: false,
    pace: new Pace(), model: true, contests: widget.get("contests") };
  const sides = ["left", "right"].map((side, m) => makeSide(side, m, app));
  const curves = element("canvas", { class: "cdx-canvas", role: "img", "data-cd": "train-curves" });
  const status = element("p", { class: "cdx-sentence cdx-train-status", role: "status", "data-cd": "train-status" });
  app.tell = (words) => setText(status, words);
  bindRuns(app);
  const { film, weights } = trainKeeping(app);
  const slide = trainSlide(app);
  app.root = element("section", { class: "cdx cdx-train", "data-cd": "trainer", "aria-label": "Train in the page" },
    element("style", { text: STYLE }),
    trainContest(app), element("p", { class: "cdx-hint", "data-cd": "train-about" }),
    element("div", { class: "cdx-train-designs" }, trainDesign("left", app), trainDesign("right", app)),
    trainButtons(app), status, element("p", { class: "cdx-hint cdx-train-pace", "data-cd": "train-pace" }),
    trainMore(app, weights),
    element("div", { class: "cdx-train-stage" }, ...sides.map(({ node }) => node),
      element("figure", { class: "cdx-figure cdx-train-curves" }, element("figcaption", { text: "Loss and accuracy" }), curves)),
    ...film, slide.foot);
  app.root.addEventListener("cdx-present", slide.hear);
  const about = app.root.querySelector("[data-cd=train-about]");
  app.updaters.push((s) => setText(about, aboutWords(app.contests[s.task], TRAIN.tasks[s.task])));
  const slowed = app.root.querySelector("[data-cd=train-pace]");
  app.updaters.push(() => setText(slowed, app.running ? app.pace.words() : ""));
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  app.frame = () => {
    app.pending = 0;
    if (calm.matches && app.running && performance.now() - (app.drawn || 0) < 500) return;
    app.drawn = performance.now();
    if (!app.theme || !app.theme.ink) app.theme = readTheme(app.root);
    app.updaters.forEach((update) => update(app.settings));
    app.root.dataset.sides = app.settings.right ? 2 : 1;
    sides.forEach((side) => side.update());
    const contest = app.contests[app.settings.task];
    drawCurves(curves, app.lanes, { base: contest.base, classes: contest.config.vocab_size }, app.theme);
    setAttribute(curves, "aria-label", curveWords(app, contest));
  };
  app.schedule = () => {
    if (!app.pending) app.pending = requestAnimationFrame(app.frame);
  };
  el.append(app.root);
  listenToTheme(app);
  listenToTrainAddress(app, widget.get("name"));
  const take = () => app.adopt({ ...app.settings, ...widget.get("settings") });
  widget.on("change:settings", take);
  app.cleanups.push(() => widget.off("change:settings", take));
  listenToVisibility(app);
  mindBattery(app.pace).then(() => app.schedule());
  app.tell(app.greeting || "Press Train: everything is computed in this page.");
  app.begin();
  app.frame();
  return () => {
    app.pause("");
    app.lanes.forEach((lane) => lane.end());
    app.cleanups.forEach((clean) => clean());
  };
}

const aboutWords = (contest, { about }) => `${about} ${contest.config.vocab_size} ids; a guess scores ${contest.base.toFixed(2)} (${contest.guess}).`;

function curveWords({ lanes, settings }, contest) {
  const one = (lane, side) => {
    const mark = lane.marks.at(-1);
    return `${trainName(side ? settings.right : settings.left)}: step ${lane.t}, accuracy ${mark ? mark.accuracy.toFixed(2) : "unknown"}`;
  };
  return `Loss and accuracy against the training step. ${lanes.map(one).join("; ")}; base rate ${contest.base.toFixed(2)}.`;
}

// Numbers, matrix and answer of one design.
function makeSide(side, m, app) {
  const hook = (name) => (m ? `${name}-2` : name);
  const values = ["step", "loss", "accuracy", "speed"].map((key) => [key, element("dt"), element("dd", { "data-cd": hook(`train-${key}`) })]);
  const canvas = element("canvas", { class: "cdx-canvas", role: "img", "aria-label": "No matrix yet: nothing was trained.", "data-cd": hook("train-matrix") });
  const caption = element("figcaption", { "data-cd": hook("train-name") });
  const answer = element("p", { class: "cdx-sentence", "data-cd": hook("train-answer") });
  const node = element("figure", { class: `cdx-figure cdx-train-side cdx-train-${side}` }, caption,
    element("dl", { class: "cdx-numbers" }, ...values.map(([key, name, value]) => element("div", { class: `cdx-number cdx-number-${key}` }, name, value))),
    canvas, answer);
  return { node, update() {
    const lane = app.lanes[m];
    node.hidden = !app.settings[side];
    if (!lane || node.hidden) return;
    const mark = lane.marks.at(-1);
    const recent = lane.losses.slice(-20);
    const loss = recent.length ? recent.reduce((sum, x) => sum + x, 0) / recent.length : undefined;
    const shown = {
      step: ["step", lane.t.toLocaleString("en"), lane.t],
      loss: ["training loss, nats", loss === undefined ? "…" : loss.toFixed(3), loss ?? ""],
      accuracy: ["test accuracy", mark ? mark.accuracy.toFixed(3) : "…", mark?.accuracy ?? ""],
      speed: ["steps a second", app.running ? formatNumber(app.speedOf(lane), 2) : "–", app.speedOf(lane)],
    };
    values.forEach(([key, name, value]) => {
      setText(name, shown[key][0]);
      setText(value, shown[key][1]);
      setAttribute(value, "data-value", shown[key][2]);
    });
    setText(caption, trainName(app.settings[side]));
    const nameOf = (token) => taskTokenName(app.contests[app.settings.task].config, token);
    drawLook(canvas, lane, app.settings, nameOf, app.theme);
    if (lane.seen) setText(answer, lane.trouble ? troubleWords(lane.trouble, app.settings[side]) : sequenceWords(lane.seen, nameOf));
    setAttribute(answer, "role", lane.trouble ? "alert" : "note");
  } };
}

export default { render: renderTrainer };
