// The smaller figures' common frame: sliders and selects above, one canvas, a row of numbers.

function renderSmall(design, { model: widget, el }) {
  const app = { widget, cleanups: [], settings: { ...design.defaults, ...widget.get("settings") } };
  const canvas = element("canvas", { class: "cdx-canvas", role: "img", "data-cd": design.name });
  const chosen = widget.get("controls") || [];
  const controls = design.controls.filter(({ key }) => !chosen.length || chosen.includes(key)).map((spec) => smallControl(spec, app));
  const title = widget.get("caption") || design.title;
  const values = design.numbers.map((hook) => [hook, element("dt"), element("dd", { "data-cd": hook })]);
  app.root = element("section", { class: "cdx cdx-small", "data-cd": "small", "aria-label": title },
    element("div", { class: "cdx-tokens" }, ...controls.map((control) => control.node), ...(design.extra ? [design.extra(app)] : [])),
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
    app.model = result;
  };
  app.schedule = () => {
    if (!app.pending) app.pending = requestAnimationFrame(app.frame);
  };
  app.change = (patch) => {
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
  listenToTheme(app);
  widget.on("change:settings", take);
  app.cleanups.push(() => widget.off("change:settings", take));
  app.frame();
  return () => app.cleanups.forEach((clean) => clean());
}

// A picture that can be taken in hand: where the pointer is, in drawing units, becomes a change of settings. One with
// `drag` follows the hand, one with `pointer` hears each press.
function listenToHand({ pointer, follows }, app, canvas) {
  const hear = (event) => {
    const patch = pointer({ x: event.offsetX / textZoom, y: event.offsetY / textZoom }, canvas, app.model);
    if (patch) app.change(patch);
  };
  canvas.classList.add(follows ? "cdx-held" : "cdx-pressed");
  canvas.addEventListener("pointerdown", (event) => {
    if (follows) canvas.setPointerCapture(event.pointerId);
    hear(event);
  });
  if (follows) canvas.addEventListener("pointermove", (event) => canvas.hasPointerCapture(event.pointerId) && hear(event));
}

function smallControl(spec, app) {
  const id = freshId(spec.key);
  const output = element("output", { for: id, "data-cd": `value-${spec.key}` });
  const isSelect = Boolean(spec.options);
  const input = isSelect
    ? element("select", { id, "data-cd": `control-${spec.key}` }, ...Object.entries(spec.options).map(([value, text]) => element("option", { value, text })))
    : element("input", { id, type: "range", min: spec.min, step: spec.step || 1, "data-cd": `control-${spec.key}` });
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
