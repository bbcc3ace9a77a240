// What a reader takes away: the weights as a file and back, and the film of a run.

import { element, setAttribute, setText } from "../../../../widgets/js/dom.js";
import { renderFilm } from "../../../../widgets/js/film.js";
import { IGNORE } from "../tasks/batch.js";
import { taskTokenName } from "../tasks/tasks.js";
import { decodeDesign, encodeDesign, trainName } from "./settings.js";
import { trainButton } from "./train_controls.js";
import TRAIN from "coefdyn:offered";

function offerFile(name, bytes, type) {
  const url = URL.createObjectURL(new Blob([bytes], { type }));
  const link = element("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

const runNotes = (app, design) => ({ made_by: "coefdyn, trained in the page", task: app.settings.task, design: encodeDesign(design),
  positions: app.settings.positions, seed: String(app.settings.seed) });

function saveTrained(app) {
  app.pause("");
  const [lane] = app.lanes;
  lane.ask("save", { notes: runNotes(app, app.settings.left) }, ({ file, error }) => {
    if (error) return app.tell(`The weights could not be saved: ${error}.`);
    offerFile(`coefdyn-${app.settings.task}-step-${lane.t}.safetensors`, file, "application/octet-stream");
    app.tell(`Saved the weights of ${trainName(app.settings.left)} at step ${lane.t}.`);
  });
}

const LARGEST_WEIGHTS = 16 * 2 ** 20;

// A file of this design and task goes in; any other is named in words and changes nothing.
async function loadTrained(app, file) {
  app.pause("");
  if (file.size > LARGEST_WEIGHTS) return app.tell("That file is larger than any model of this page. Choose one that “Save weights” made here.");
  const bytes = new Uint8Array(await file.arrayBuffer());
  const [lane] = app.lanes;
  lane.ask("notes", { bytes }, ({ notes, error }) => {
    if (error) return app.tell(`That file was not loaded. ${error}.`);
    const words = otherRun(app, notes);
    if (words) return app.tell(words);
    lane.ask("load", { bytes }, ({ error: wrong }) => app.tell(wrong ? `That file was not loaded. ${wrong}.` : `Loaded weights after ${lane.t} steps; training goes on from there.`));
  });
}

// How the run of a file differs from the one on show; empty where it does not.
function otherRun(app, notes) {
  const s = app.settings;
  const text = (value) => (typeof value === "string" ? value.slice(0, 120) : "");
  const design = decodeDesign(text(notes.design));
  const task = Object.hasOwn(TRAIN.tasks, text(notes.task)) ? notes.task : null;
  if (!design || !task) return "That file does not say which design and task it was trained with, so it is not loaded. Choose one that “Save weights” made here.";
  const differs = [];
  if (encodeDesign(design) !== encodeDesign(s.left)) differs.push(`the design ${trainName(design)}`);
  if (task !== s.task) differs.push(`the task “${TRAIN.tasks[task].label}”`);
  if (Object.hasOwn(TRAIN.positions, text(notes.positions)) && notes.positions !== s.positions) differs.push(`positions ${TRAIN.positions[notes.positions]}`);
  return differs.length ? `That file holds weights of ${differs.join(" and ")}; the figure shows another. Choose that first, then load the file again.` : "";
}

// The run as coefdyn.lab.films keeps it: frames that all runs share, one byte a coefficient.
function filmOf(app) {
  const shared = app.lanes[0].marks.filter(({ t }) => app.lanes.every(({ marks }) => marks.some((mark) => mark.t === t)));
  const { inputs, targets, length } = app.lanes[0].sequence;
  const nameOf = (token) => (token === IGNORE ? "" : taskTokenName(app.runs[0].task, token));
  const steps = shared.map(({ t }) => t);
  const runs = app.lanes.map((lane, side) => {
    const marks = steps.map((t) => lane.marks.find((mark) => mark.t === t));
    return { name: trainName(side ? app.settings.right : app.settings.left), marks };
  });
  return { title: `Trained in the page: ${TRAIN.tasks[app.settings.task].label}`, steps, layers: TRAIN.size.layers, heads: TRAIN.size.heads, length,
    tokens: Array.from(inputs, nameOf), targets: Array.from(targets, nameOf), runs };
}

function filmBytes(marks) {
  const size = marks[0].bytes.length;
  const all = new Int8Array(size * marks.length);
  marks.forEach(({ bytes }, m) => all.set(bytes, m * size));
  return all;
}

// What TrainingFilm's picture needs: settings, frames of all runs after each other.
function playFilm(app, el) {
  const made = filmOf(app);
  const film = { title: made.title, provenance: `Recorded in this page: seed ${app.settings.seed}, learning rate ${app.settings.rate}.`,
    steps: made.steps, layers: made.layers, heads: made.heads, length: made.length, epsilon: 0.01, tokens: made.tokens, targets: made.targets,
    scales: made.runs.flatMap(({ marks }) => marks.flatMap(({ scales }) => scales)),
    runs: made.runs.map(({ name, marks }) => ({ name, loss: marks.map(({ loss }) => loss), accuracy: marks.map(({ accuracy }) => accuracy) })) };
  const frames = new DataView(filmBytes(made.runs.flatMap(({ marks }) => marks)).buffer);
  const values = { film, frames, settings: { frame: 0, layer: app.settings.layer, head: app.settings.head } };
  const model = { get: (key) => values[key], set: (key, value) => (values[key] = value), on() {}, off() {}, save_changes() {} };
  return renderFilm({ model, el });
}

// The file that TrainingFilm.load reads.
function saveFilm(app) {
  const made = filmOf(app);
  const base64 = (bytes) => btoa(Array.from(new Uint8Array(bytes.buffer), (byte) => String.fromCharCode(byte)).join(""));
  const runs = made.runs.map(({ name, marks }, m) => ({ name, loss: marks.map(({ loss }) => loss), accuracy: marks.map(({ accuracy }) => accuracy),
    frames: base64(filmBytes(marks)), scales: marks.flatMap(({ scales }) => scales),
    config: app.runs[m],
    provenance: { device: "a browser", torch: "not used", timestamp: new Date().toISOString() } }));
  const { title, steps, layers, heads, tokens, targets } = made;
  const text = JSON.stringify({ title, steps, layers, heads, tokens, targets, runs });
  offerFile(`coefdyn-film-${app.settings.task}.json`, text, "application/json");
  app.tell("Saved the film; in Python, TrainingFilm.load(\"…/that file.json\") plays it.");
}

export function trainKeeping(app) {
  const input = element("input", { type: "file", accept: ".safetensors", hidden: true, "data-cd": "train-file", onchange: () => {
    const [file] = input.files;
    if (file) loadTrained(app, file);
    input.value = "";
  } });
  const room = element("div", { class: "cdx-film-room", hidden: true, "data-cd": "train-film-room" });
  let stop = null;
  const close = () => {
    if (stop) stop();
    stop = null;
    room.replaceChildren();
    room.hidden = true;
    setText(film, "Watch the film");
    setAttribute(film, "aria-expanded", false);
  };
  const film = trainButton("train-film", "Watch the film", () => {
    if (stop) return close();
    app.pause("Paused; below is the film of the run so far.");
    room.hidden = false;
    stop = playFilm(app, room);
    setText(film, "Close the film");
    return setAttribute(film, "aria-expanded", true);
  }, { "aria-expanded": false });
  const filmFile = trainButton("train-film-save", "Save the film", () => saveFilm(app));
  app.onBegin.push(close);
  app.cleanups.push(close);
  app.updaters.push(() => {
    const few = !app.lanes.length || app.lanes.some((lane) => lane.marks.length < 2 || lane.marks.some(({ scales }) => !scales.every(Number.isFinite)));
    film.disabled = filmFile.disabled = few;
  });
  return { film: [element("div", { class: "cdx-train-bar cdx-train-keep" }, film, filmFile), room],
    weights: element("div", { class: "cdx-train-bar" },
      trainButton("train-save", "Save weights", () => saveTrained(app)),
      trainButton("train-load", "Load weights", () => input.click()), input) };
}
