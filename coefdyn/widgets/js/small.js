// The smaller figures' common frame: sliders and selects above, one canvas, a row of numbers.

import { element, freshId, setAttribute, setText } from "./dom.js";
import { makePredict } from "./predict.js";
import { formatNumber } from "./text.js";
import { listenToTheme, readTheme, zoomOf } from "./theme.js";

export function renderSmall(design, { model: widget, el }) {
  const app = { widget, cleanups: [], updaters: [], predict: widget.get("predict") || {}, settings: { ...design.defaults, ...widget.get("settings") } };
  app.initial = app.settings;
  const canvas = element("canvas", { class: "cdx-canvas", role: "img", "data-cd": design.name });
  const chosen = widget.get("controls") || [];
  const controls = design.controls.filter(({ key }) => key !== app.predict.control && (!chosen.length || chosen.includes(key))).map((spec) => smallControl(spec, app));
  const title = widget.get("caption") || design.title;
  const values = design.numbers.map((hook) => [hook, element("dt"), element("dd", { "data-cd": hook })]);
  app.root = element("section", { class: "cdx cdx-small", "data-cd": "small", "aria-label": title },
    app.predict.id ? askSmall(design, app) : null,
    element("div", { class: "cdx-tokens", "data-locks": true }, ...controls.map((control) => control.node), ...(design.extra ? [design.extra(app)] : [])),
    element("figure", { class: "cdx-figure" }, element("figcaption", { text: title }), canvas),
    element("dl", { class: "cdx-numbers" }, ...values.map(([, name, value]) => element("div", { class: "cdx-number" }, name, value))));
  app.frame = () => {
    app.pending = 0;
    if (!app.theme || !app.theme.ink) app.theme = readTheme(app.root);
    const result = design.compute(app.settings);
    controls.forEach((control) => control.update(app.settings));
    design.draw(canvas, result, app.theme);
    const shown = design.show(result);
    values.forEach(([hook, name, value]) => {
      const [label, text, raw] = shown[hook];
      setText(name, label);
      setText(value, text);
      setAttribute(value, "data-value", raw);
    });
    setAttribute(canvas, "aria-label", design.words(result));
    app.updaters.forEach((update) => update(result));
    app.model = result;
  };
  app.schedule = () => {
    if (!app.pending) app.pending = requestAnimationFrame(app.frame);
  };
  app.change = (patch) => {
    if (app.locked) return; // a question waits
    app.settings = { ...app.settings, ...patch };
    widget.set("settings", app.settings);
    widget.save_changes();
    app.schedule();
  };
  const take = () => {
    app.settings = { ...design.defaults, ...widget.get("settings") };
    app.schedule();
  };
  if (design.pointer) listenToHand(design, app, canvas);
  if (design.drag) listenToHand({ ...design, pointer: design.drag, follows: true }, app, canvas);
  el.append(app.root);
  app.root.addEventListener("cdx-present", ({ detail }) => lendSmall(design, app, detail));
  listenToTheme(app);
  widget.on("change:settings", take);
  app.cleanups.push(() => widget.off("change:settings", take));
  app.frame();
  return () => app.cleanups.forEach((clean) => clean());
}

// A deck of slides takes the figure in its hands (see `lend` in slide.js), and gives it back with null.
function lendSmall(design, app, detail) {
  setAttribute(app.root, "data-layout", detail ? "slide" : "plain");
  app.skip?.();
  const was = app.settings;
  const specOf = (key) => design.controls.find((spec) => spec.key === key) ?? { key, label: key };
  const take = (settings) => {
    app.settings = settings;
    app.theme = readTheme(app.root); // letters and pictures are larger there
    app.frame();
  };
  const read = (query) => Object.fromEntries([...new URLSearchParams(query)].map(([key, text]) => [key, specOf(key).options ? text : Number(text)]));
  if (detail) {
    Object.assign(detail, {
      set: (query) => take(Object.entries(read(query)).reduce((s, [key, value]) => ({ ...s, ...(specOf(key).patch?.(value) ?? { [key]: value }) }), app.initial)),
      words: (before, after) => Object.entries(read(after)).filter(([key, value]) => read(before)[key] !== value)
        .map(([key, value]) => `${specOf(key).label} ${specOf(key).options?.[value] ?? specOf(key).format?.(value) ?? formatNumber(value)}`).join(", "),
      keys: [],
      restore: () => take(was),
    });
  }
  take(was);
}

// A picture that can be taken in hand: where the pointer is, in drawing units, becomes a change of settings. One with
// `drag` follows the hand, one with `pointer` hears each press.
function listenToHand({ pointer, follows }, app, canvas) {
  const hear = (event) => {
    const zoom = zoomOf(canvas);
    const patch = pointer({ x: event.offsetX / zoom, y: event.offsetY / zoom }, canvas, app.model);
    if (patch) app.change(patch);
  };
  canvas.classList.add(follows ? "cdx-held" : "cdx-pressed");
  canvas.addEventListener("pointerdown", (event) => {
    if (follows) canvas.setPointerCapture(event.pointerId);
    hear(event);
  });
  if (follows) canvas.addEventListener("pointermove", (event) => canvas.hasPointerCapture(event.pointerId) && hear(event));
}

// Predict first, about one of the figure's own numbers; the asked control stands in the question's box.
function askSmall(design, app) {
  const { number, control } = app.predict;
  const labelled = (key) => design.controls.find((spec) => spec.key === key)?.label ?? key;
  const read = (result) => design.show(result)[number].slice(1);
  const asked = smallControl(design.controls.find(({ key }) => key === control), app, "asked");
  app.updaters.push(() => asked.update(app.settings));
  return makePredict(app, { read, before: read(design.compute(app.initial)), asked: asked.node, label: labelled });
}

function smallControl(spec, app, hook = "control") {
  const id = freshId(spec.key);
  const output = element("output", { for: id, "data-cd": hook === "control" ? `value-${spec.key}` : `${hook}-value-${spec.key}` });
  const isSelect = Boolean(spec.options);
  const input = isSelect
    ? element("select", { id, "data-cd": `${hook}-${spec.key}` }, ...Object.entries(spec.options).map(([value, text]) => element("option", { value, text })))
    : element("input", { id, type: "range", min: spec.min, step: spec.step || 1, "data-cd": `${hook}-${spec.key}` });
  input.addEventListener(isSelect ? "change" : "input", () => {
    const value = isSelect ? input.value : Number(input.value);
    app.change(spec.patch ? spec.patch(value) : { [spec.key]: value });
  });
  const label = element("label", { for: id, text: spec.label });
  const node = isSelect ? element("div", { class: "cdx-control cdx-choice" }, label, input)
    : element("div", { class: "cdx-control cdx-slider", "data-ingredient": spec.ingredient }, label, output, input);
  return { node, update(s) {
    const most = typeof spec.max === "function" ? spec.max(s) : spec.max;
    const value = isSelect ? s[spec.key] : Math.min(s[spec.key], most);
    if (!isSelect) setAttribute(input, "max", most);
    if (String(input.value) !== String(value)) input.value = value;
    const text = spec.format ? spec.format(value) : formatNumber(value, 6);
    setText(output, text);
    if (!isSelect) setAttribute(input, "aria-valuetext", text);
  } };
}
