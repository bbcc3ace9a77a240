// Where numbers stopped being finite: the parts of a model in the order in which they are computed.

export function troubleOf(model) {
  const rows = model.batch * model.length;
  const { width, heads, classes } = model.options;
  const steps = model.parameters.map(({ name, data }) => [data, data.length, { part: "parameter", name }]);
  model.blocks.forEach((block, layer) => {
    const { mixer } = block;
    for (const name of ["decay", "beta", "write"]) {
      if (mixer[name]) steps.push([mixer[name].logDecay || mixer[name].y, rows * (name === "decay" ? mixer.channels : heads), { part: name, layer }]);
    }
    if (mixer.eta) steps.push([mixer.eta.y, rows * heads, { part: "eta", layer }]);
    steps.push([mixer.kept.weights, rows * heads * model.length, { part: "coefficients", layer }]);
    steps.push([block.mixed, rows * width, { part: "mixer", layer }]);
    if (block.mlp) steps.push([block.fed, rows * width, { part: "mlp", layer }]);
  });
  steps.push([model.logits, rows * classes, { part: "logits" }]);
  for (const { name, grad } of [...model.parameters].reverse()) {
    steps.push([grad, grad.length, { part: "gradient", name }]);
  }
  for (const [numbers, size, found] of rows ? steps : []) {
    for (let at = 0; at < size; at++) {
      if (!Number.isFinite(numbers[at])) return { ...found, value: String(numbers[at]) };
    }
  }
  return null;
}
