// Colours come from the stylesheet, so that light, dark and print need no second list.

const THEME_NAMES = ["ink", "muted", "line", "surface", "panel", "evolution", "scaling", "readout", "normalizer",
  "positive", "positive-mid", "negative", "negative-mid", "zero", "near-zero", "overflow"];

// How much larger than 13 pixels the letters of a figure are; its pictures grow with them. A slide's are larger than its page's.
const zooms = new WeakMap();
export const zoomOf = (node) => zooms.get(node.closest(".cdx")) ?? 1;

export function readTheme(root) {
  const style = getComputedStyle(root);
  zooms.set(root, Math.max(1, Number.parseFloat(style.fontSize) / 13 || 1));
  const theme = { font: style.fontFamily };
  for (const name of THEME_NAMES) theme[name] = style.getPropertyValue(`--cdx-${name}`).trim();
  theme.ramps = { positive: ramp(theme, "positive"), negative: ramp(theme, "negative") };
  return theme;
}

// 256 packed RGBA steps from the colour of zero over the middle to the full colour.
function ramp(theme, side) {
  const stops = [theme.zero, theme[`${side}-mid`], theme[side]].map(parseColor);
  const table = new Uint32Array(256);
  for (let step = 0; step < 256; step++) {
    const at = (step / 255) * 2;
    const k = at < 1 ? 0 : 1;
    table[step] = packColor(stops[k].map((x, c) => x + (stops[k + 1][c] - x) * (at - k)));
  }
  return table;
}

export function parseColor(hex) {
  return [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
}

export function packColor([r, g, b]) {
  return ((255 << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;
}

// Width and height of a canvas in drawing units: CSS pixels, fewer of them where the text is enlarged.
export function sizeOf(canvas) {
  const zoom = zoomOf(canvas);
  return [(canvas.clientWidth || 300) / zoom, (canvas.clientHeight || 150) / zoom];
}

// Sizes the backing store to the element and returns a context in drawing units, cleared.
export function openCanvas(canvas) {
  const ratio = (window.devicePixelRatio || 1) * zoomOf(canvas);
  const [width, height] = sizeOf(canvas);
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const ctx = canvas.getContext("2d");
  ctx.setTransform(w / width, 0, 0, h / height, 0, 0);
  ctx.clearRect(0, 0, width, height);
  return { ctx, width, height };
}

export function write(ctx, theme, text, x, y, { align = "left", color = theme.muted, size = 11, weight = 400 } = {}) {
  ctx.font = `${weight} ${size}px ${theme.font}`;
  ctx.fillStyle = color;
  ctx.textAlign = align;
  ctx.fillText(text, x, y);
}

export function stroke(ctx, points, color, width = 1, dash = []) {
  ctx.beginPath();
  points.forEach(([x, y], i) => (i ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.strokeStyle = color;
  ctx.lineWidth = width;
  ctx.setLineDash(dash);
  ctx.stroke();
  ctx.setLineDash([]);
}

export function dot(ctx, x, y, radius, color, ring) {
  ctx.beginPath();
  ctx.arc(x, y, radius, 0, 2 * Math.PI);
  ctx.fillStyle = color;
  ctx.fill();
  if (ring) {
    ctx.strokeStyle = ring;
    ctx.lineWidth = 1.5;
    ctx.stroke();
  }
}

export function arrow(ctx, x0, y0, x1, y1, color, width = 2) {
  const length = Math.hypot(x1 - x0, y1 - y0);
  if (length < 1) return;
  const [ux, uy] = [(x1 - x0) / length, (y1 - y0) / length];
  const head = Math.min(8, length);
  stroke(ctx, [[x0, y0], [x1 - ux * head * 0.7, y1 - uy * head * 0.7]], color, width);
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x1 - head * ux + head * 0.45 * uy, y1 - head * uy - head * 0.45 * ux);
  ctx.lineTo(x1 - head * ux - head * 0.45 * uy, y1 - head * uy + head * 0.45 * ux);
  ctx.fillStyle = color;
  ctx.fill();
}

// Whether a canvas that is on show has the size it was drawn at.
function isDrawn(canvas) {
  if (!canvas.clientWidth || !canvas.clientHeight) return true;
  const ratio = (window.devicePixelRatio || 1) * zoomOf(canvas);
  return sizeOf(canvas).every((size, m) => [canvas.width, canvas.height][m] === Math.round(size * ratio));
}

// Draws anew when the page turns dark or light, gives a picture another size, or is printed.
export function listenToTheme(app) {
  const refresh = () => {
    app.theme = readTheme(app.root);
    if (app.model) app.schedule();
  };
  app.theme = readTheme(app.root);
  const watcher = new MutationObserver(refresh);
  watcher.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme", "data-mode"] });
  watcher.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"] });
  // What was drawn at another size is drawn anew, whatever has changed it.
  const sizes = new ResizeObserver((entries) => {
    if (app.model && entries.some(({ target }) => !isDrawn(target))) refresh();
  });
  const watched = new WeakSet();
  app.watchCanvases = () => app.root.querySelectorAll("canvas").forEach((canvas) => {
    if (watched.has(canvas)) return;
    watched.add(canvas);
    sizes.observe(canvas);
  });
  app.watchCanvases();
  // Paper waits for no frame: it is drawn as soon as the colours and widths of the page are those of paper.
  const paper = matchMedia("print");
  const print = () => {
    refresh();
    if (app.model) app.frame();
  };
  paper.addEventListener("change", print);
  app.cleanups.push(() => watcher.disconnect(), () => sizes.disconnect(), () => paper.removeEventListener("change", print));
}
