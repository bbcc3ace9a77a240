// A training film: the coefficients of real runs, scrubbed over run, training step, layer and head.
// Matrices come as one byte per coefficient, lower triangles row after row, each with its own scale.

import { element } from "./dom.js";
import { drawFilm, filmLayout } from "./film_draw.js";
import { nearZeroFraction } from "./math.js";
import { renderSmall } from "./small.js";
import { formatNumber, formatPercent } from "./text.js";
import { sizeOf } from "./theme.js";

function filmIndex(film, { run, frame, layer, head }) {
  const { layers, heads, steps } = film;
  return ((Number(run) * steps.length + frame) * layers + layer - 1) * heads + head - 1;
}

function filmFrame(film, bytes, s) {
  const L = film.length;
  const index = filmIndex(film, s);
  const scale = film.scales[index];
  const values = new Float64Array(L * L);
  let at = (index * L * (L + 1)) / 2;
  for (let i = 0; i < L; i++) for (let j = 0; j <= i; j++) values[i * L + j] = (bytes.getInt8(at++) / 127) * scale;
  return values;
}

// One colour scale for all frames of a layer and head, so that colours compare between steps.
function filmTop(film, s) {
  let top = 0;
  film.runs.forEach((_, run) => film.steps.forEach((__, frame) => {
    top = Math.max(top, film.scales[filmIndex(film, { ...s, run, frame })]);
  }));
  return top || 1;
}

export function strongestIn(values, L, i) {
  let best = 0;
  for (let j = 1; j <= i; j++) if (Math.abs(values[i * L + j]) > Math.abs(values[i * L + best])) best = j;
  return best;
}

function tokenName(film, i) {
  return `${film.tokens[i]} at ${i + 1}`;
}

function filmControls(film) {
  const last = film.steps.length - 1;
  const step = (m) => film.steps[m].toLocaleString("en");
  const runs = Object.fromEntries(film.runs.map((run, m) => [m, run.name]));
  return [
    ...(film.runs.length > 1 ? [{ key: "run", label: "Run", options: runs }] : []),
    { key: "frame", label: "Training step", min: 0, max: last, format: step },
    ...(film.layers > 1 ? [{ key: "layer", label: "Layer", min: 1, max: film.layers }] : []),
    ...(film.heads > 1 ? [{ key: "head", label: "Head", min: 1, max: film.heads }] : []),
    { key: "row", label: "Reading token", min: 1, max: film.length, format: (i) => tokenName(film, i - 1) },
  ];
}

function filmResult(film, bytes, s) {
  const values = filmFrame(film, bytes, s);
  const L = film.length;
  const i = s.row - 1;
  const j = strongestIn(values, L, i);
  const run = film.runs[Number(s.run)];
  return { s, film, L, i, j, run, shown: values, top: filmTop(film, s), weight: values[i * L + j],
    nearZero: nearZeroFraction(values, L, film.epsilon),
    accuracy: run.accuracy[s.frame], loss: run.loss[s.frame] };
}

export function renderFilm({ model: widget, el }) {
  const film = widget.get("film");
  const bytes = widget.get("frames");
  const last = film.steps.length - 1;
  const design = {
    name: "film", title: film.title,
    defaults: { run: "0", frame: last, layer: 1, head: 1, row: film.length },
    controls: filmControls(film),
    numbers: ["accuracy", "loss", "strongest", "near-zero-fraction"],
    extra: (app) => filmButton(app, last),
    compute: (s) => filmResult(film, bytes, s),
    show: (r) => ({
      accuracy: ["test accuracy", r.accuracy.toFixed(3), r.accuracy],
      loss: ["test loss, nats", r.loss.toFixed(3), r.loss],
      strongest: [`${tokenName(film, r.i)} reads most from`, `${tokenName(film, r.j)}: ${formatNumber(r.weight)}`, r.weight],
      "near-zero-fraction": [`|coefficient| ≤ ${formatNumber(film.epsilon)}`, formatPercent(r.nearZero), r.nearZero],
    }),
    words: (r) => `${r.run.name ? `${r.run.name}: ` : ""}coefficients at training step ${film.steps[r.s.frame]}, layer ${r.s.layer}, head ${r.s.head}. `
      + `${tokenName(film, r.i)} reads most from ${tokenName(film, r.j)}, ${formatNumber(r.weight)}; ${formatPercent(r.nearZero)} near zero`
      + `; test accuracy ${r.accuracy.toFixed(3)}.`,
    draw: drawFilm,
    // A press on the matrix takes its row as the reading token.
    pointer({ x, y }, canvas) {
      const { matrix } = filmLayout(...sizeOf(canvas));
      const row = Math.floor(((y - matrix.y) / matrix.side) * film.length) + 1;
      return x < matrix.x + matrix.side && row >= 1 && row <= film.length ? { row } : null;
    },
  };
  const stop = renderSmall(design, { model: widget, el });
  el.querySelector("[data-cd=small]").append(element("p", { class: "cdx-hint", "data-cd": "provenance", text: film.provenance }));
  return stop;
}

function filmButton(app, last) {
  let timer = 0;
  const button = element("button", { type: "button", class: "cdx-button", "data-cd": "play", text: "Play", onclick: () => {
    if (timer) return stop();
    if (app.settings.frame >= last) app.change({ frame: 0 });
    button.textContent = "Stop";
    timer = setInterval(() => (app.settings.frame < last ? app.change({ frame: app.settings.frame + 1 }) : stop()),
      matchMedia("(prefers-reduced-motion: reduce)").matches ? 1200 : 400);
    return undefined;
  } });
  const stop = () => {
    clearInterval(timer);
    timer = 0;
    button.textContent = "Play";
  };
  app.cleanups.push(stop);
  return button;
}

export default { render: renderFilm };
