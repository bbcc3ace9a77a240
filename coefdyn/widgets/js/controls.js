// Controls are made from the schema: one select, slider, number or tick per setting.

// `hook` tells two controls of one setting apart: the card has control-decay, a question asked-decay.
function makeControl(key, app, hook = "control") {
  if (SCHEMA.choices[key]) return choiceControl(key, SCHEMA.choices[key], app, hook);
  if (SCHEMA.flags[key]) return flagControl(key, SCHEMA.flags[key], app, hook);
  return sliderControl(key, SCHEMA.ranges[key] || SCHEMA.integers[key], app, hook);
}

function choiceControl(key, spec, app, hook = "control") {
  const id = freshId(key);
  const select = element("select", { id, "data-cd": `${hook}-${key}`,
    onchange: () => app.change({ [key]: select.value }, true) },
    ...Object.entries(spec.options).map(([value, text]) => element("option", { value, text })));
  const node = element("div", { class: "cdx-control cdx-choice" }, element("label", { for: id, text: spec.label }), select);
  return { node, update(s) {
    node.hidden = !applies(key, s);
    if (select.value !== s[key]) select.value = s[key];
  } };
}

function flagControl(key, spec, app, hook = "control") {
  const id = freshId(key);
  const input = element("input", { id, type: "checkbox", "data-cd": `${hook}-${key}`,
    onchange: () => app.change({ [key]: input.checked }, true) });
  const node = element("div", { class: "cdx-control cdx-flag" }, input, element("label", { for: id, text: spec.label }));
  return { node, update(s) {
    node.hidden = !applies(key, s);
    input.checked = s[key];
  } };
}

// epsilon moves in powers of ten; everything else linearly.
function sliderControl(key, spec, app, hook = "control") {
  const id = freshId(key);
  const logarithmic = key === "epsilon";
  const forward = (x) => (logarithmic ? Math.log10(x) : x);
  const back = (x) => (logarithmic ? Number((10 ** x).toPrecision(2)) : x);
  const input = element("input", { id, type: "range", "data-cd": `${hook}-${key}`,
    min: forward(spec.min), max: forward(spec.max), step: logarithmic ? 0.1 : spec.step || 1 });
  const value = element("output", { for: id, "data-cd": hook === "control" ? `value-${key}` : `${hook}-value-${key}` });
  input.addEventListener("input", () => app.change({ [key]: back(Number(input.value)) }, false));
  input.addEventListener("change", () => app.commit());
  const node = element("div", { class: "cdx-control cdx-slider" },
    element("label", { for: id, text: spec.label }), value, input);
  return { node, update(s) {
    node.hidden = !applies(key, s);
    limitToLength(key, input, s);
    const number = String(forward(s[key]));
    if (input.value !== number) input.value = number;
    setText(value, formatSetting(key, s));
    setAttribute(input, "aria-valuetext", formatSetting(key, s));
  } };
}

function limitToLength(key, input, s) {
  if (key === "column" || key === "row" || key === "duplicate") setAttribute(input, "max", s.length);
}

const CARDS = [
  ["evolution", "A_t", "evolution", "what happens to a stored key"],
  ["scaling", "b_j", "scaling", "how strongly it is written"],
  ["readout", "φ", "readout", "how it becomes a coefficient"],
  ["normalizer", "η_i", "normalizer", "what the row is divided by"],
];

function keysOfGroup(group) {
  return SCALAR_KEYS.filter((key) => (SCHEMA.choices[key] || SCHEMA.ranges[key] || SCHEMA.integers[key] || SCHEMA.flags[key]).group === group);
}

function controlGroup(keys, app, hook = "control") {
  return keys.map((key) => {
    const control = makeControl(key, app, hook);
    app.updaters.push((model) => control.update(model.settings));
    return control.node;
  });
}

// All four cards, or those named among the parts ("card-readout").
function makeCards(app, parts) {
  const named = ([group]) => parts.includes("controls") || parts.includes(`card-${group}`);
  const free = ([group]) => !isGiven(app.data) || group === "readout" || group === "normalizer";
  const cards = CARDS.filter((card) => named(card) && free(card));
  return element("div", { class: `cdx-cards cdx-cards-${cards.length}` }, ...cards.map(([group, sign, name, hint]) =>
    element("fieldset", { class: `cdx-card cdx-card-${group}` },
      element("legend", {}, symbol(sign, group), ` ${name}`),
      element("p", { class: "cdx-hint", text: hint }),
      makeMix(group, app),
      element("div", { class: "cdx-card-controls" }, ...controlGroup(keysOfGroup(group), app)))));
}

function makeMix(group, app) {
  const [key] = DESIGN_PARTS.find(([, , ingredient]) => ingredient === group);
  const mix = element("p", { class: "cdx-mix", "data-cd": `mix-${group}`, hidden: true });
  app.updaters.push(({ settings }) => {
    const words = isGiven(app.data) ? "" : mixWords(key, settings);
    mix.hidden = words === "";
    setText(mix, words);
  });
  return mix;
}

function makePresets(app) {
  const buttons = Object.entries(SCHEMA.rows).map(([name, row]) => element("button", {
    type: "button", class: "cdx-chip", "data-cd": `preset-${name}`, title: row.label, text: row.short,
    onclick: () => {
      startFade(app);
      app.change({ ...withPreset(app.settings, name), morph: 0 }, true);
    } }));
  const names = Object.keys(SCHEMA.rows);
  app.updaters.push(({ settings }) => buttons.forEach((button, m) => {
    const share = shareOf(names[m], settings);
    setText(button, SCHEMA.rows[names[m]].short + (share > 0 && share < 1 ? ` ${Math.round(100 * share)} %` : ""));
    setAttribute(button, "aria-pressed", share > 0 && share < 1 ? "mixed" : share === 1);
  }));
  return element("div", { class: "cdx-chips cdx-presets", "data-locks": true, role: "group", "aria-label": "Rows of Table 1" }, ...buttons);
}

// How much of a row of Table 1 is on show, from 0 to 1.
function shareOf(name, s) {
  const share = isMorphing(s) ? s.morph : 0;
  return (name === s.preset ? 1 - share : 0) + (name === s.morph_to ? share : 0);
}

// The name of what is on show; between two designs how far, and the way back.
function makeDesign(app, always) {
  const words = element("span", { "data-cd": "design-words" });
  const end = element("button", { type: "button", class: "cdx-button cdx-end", "data-cd": "morph-end", text: "×",
    onclick: () => {
      startFade(app);
      app.change({ morph: 0, morph_to: "" }, true);
    } });
  const node = element("p", { class: "cdx-design", "data-cd": "design" }, words, end);
  app.updaters.push(({ settings }) => {
    const morphing = isMorphing(settings) && !isGiven(app.data);
    node.hidden = isGiven(app.data) || !(always || morphing);
    setText(words, designWords(settings));
    end.hidden = !morphing;
    setAttribute(node, "data-morphing", morphing);
    setAttribute(end, "aria-label", `× end the morph, back to ${nameOf(settings)}`);
  });
  return node;
}

function makeEquation() {
  const sub = (text) => element("sub", { text });
  const plain = (...parts) => element("span", { class: "cdx-symbol" }, ...parts);
  const first = element("span", { class: "cdx-formula" }, plain("α", sub("ij")), " = ", symbol("φ", "readout"), "( ",
    plain("q", sub("i"), element("sup", { text: "⊤" })), " ", symbol("A_i", "evolution"), " ⋯ ", symbol("A_j+1", "evolution"), " ",
    symbol("b_j", "scaling"), " ", plain("k", sub("j")), " )");
  const second = element("span", { class: "cdx-formula" }, plain("y", sub("i")), " = ", "Σ", sub("j ≤ i"), " ",
    plain("α", sub("ij")), " ", plain("v", sub("j")), " ∕ ", symbol("η_i", "normalizer"));
  return element("div", { class: "cdx-equation", role: "img",
    "aria-label": "alpha i j equals phi of q i transposed times A i down to A j plus 1 times b j times k j; y i equals the sum over j up to i of alpha i j times v j, divided by eta i" }, first, second);
}
