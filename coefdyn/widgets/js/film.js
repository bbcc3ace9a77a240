// A training film: the coefficients of a real run, scrubbed over training step, layer and head.
// Matrices come as one byte per coefficient, lower triangles row after row, each with its own scale.

function filmFrame(film, bytes, step, layer, head) {
  const { length: L, layers, heads } = film;
  const size = (L * (L + 1)) / 2;
  const index = (step * layers + layer) * heads + head;
  const scale = film.scales[index];
  const values = new Float64Array(L * L);
  let at = index * size;
  for (let i = 0; i < L; i++) for (let j = 0; j <= i; j++) values[i * L + j] = (bytes.getInt8(at++) / 127) * scale;
  return { values, scale };
}

function renderFilm({ model: widget, el }) {
  const film = widget.get("film");
  const bytes = widget.get("frames");
  const last = film.steps.length - 1;
  const design = {
    name: "film", title: film.title,
    defaults: { frame: last, layer: 1, head: 1 },
    controls: [
      { key: "frame", label: "Training step", min: 0, max: last, format: (m) => film.steps[m].toLocaleString("en") },
      ...(film.layers > 1 ? [{ key: "layer", label: "Layer", min: 1, max: film.layers }] : []),
      ...(film.heads > 1 ? [{ key: "head", label: "Head", min: 1, max: film.heads }] : []),
    ],
    numbers: ["near-zero-fraction", "row-sum-last", "largest"],
    extra: (app) => filmButton(app, last),
    compute(s) {
      const { values, scale } = filmFrame(film, bytes, s.frame, s.layer - 1, s.head - 1);
      const L = film.length;
      return { s, shown: values, top: scale, epsilonShown: film.epsilon, L, nearZero: nearZeroFraction(values, L, film.epsilon),
        sum: rowSums(values, L)[L - 1] };
    },
    show: ({ nearZero, sum, top }) => ({
      "near-zero-fraction": [`|coefficient| ≤ ${formatNumber(film.epsilon)}`, formatPercent(nearZero), nearZero],
      "row-sum-last": ["sum of the last row", formatNumber(sum), sum],
      largest: ["largest", formatNumber(top), top],
    }),
    words: ({ s, nearZero }) => `Coefficients at training step ${film.steps[s.frame]}, layer ${s.layer}, head ${s.head}: ${formatPercent(nearZero)} near zero.`,
    draw(canvas, result, theme) {
      const { ctx, width, height } = openCanvas(canvas);
      const { L } = result;
      const side = Math.min(width, height) - 8;
      const [x, y] = [(width - side) / 2, 4];
      matrixBuffer.width = L;
      matrixBuffer.height = L;
      matrixBuffer.getContext("2d").putImageData(matrixPixels(result.shown, L, result.top || 1, result.epsilonShown, theme), 0, 0);
      ctx.imageSmoothingEnabled = false;
      ctx.drawImage(matrixBuffer, x, y, side, side);
      if (L <= 40) drawGaps(ctx, { x, y, side, cell: side / L }, L, theme);
      write(ctx, theme, `step ${film.steps[result.s.frame].toLocaleString("en")}`, x + side, y + 14, { align: "right", color: theme.ink, size: 14, weight: 600 });
      write(ctx, theme, `± ${formatNumber(result.top)}`, x + side, y + 31, { align: "right" });
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
    app.change({ frame: 0 });
    button.textContent = "Stop";
    timer = setInterval(() => (app.settings.frame < last ? app.change({ frame: app.settings.frame + 1 }) : stop()),
      matchMedia("(prefers-reduced-motion: reduce)").matches ? 900 : 250);
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
