// Options of a model, checked; what cannot be is said in words.

import { DESIGN_CHOICES, DESIGN_DEFAULTS } from "./design_mixer.js";
import { KINDS } from "./space.js";

const MODEL_DEFAULTS = { width: 32, layers: 2, heads: 4, positions: "none", seed: 0, dtype: "float32" };

export const givenOnly = (given) => Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));

export function checkedOptions(given) {
  const options = { ...MODEL_DEFAULTS, ...givenOnly(given) };
  options.design = checkedDesign(options.design || {});
  const { width, heads } = options;
  if (options.mlp === undefined) options.mlp = 2 * width;
  if (options.classes === undefined) options.classes = options.vocabulary;
  const limits = { width: 256, layers: 8, heads: 64, vocabulary: 4096, classes: 4096, length: 1024 };
  for (const [name, most] of Object.entries(limits)) checkWhole(name, options[name], 1, most);
  if (options.mlp !== null) checkWhole("mlp", options.mlp, 1, 1024);
  checkWhole("seed", options.seed, 0, Number.MAX_SAFE_INTEGER);
  checkOneOf("positions", options.positions, ["none", "rotary", "learned"]);
  checkOneOf("dtype", options.dtype, Object.keys(KINDS));
  if (width % heads) throw new Error(`width ${width} is no multiple of heads ${heads}; choose another number of heads`);
  if (options.positions === "rotary" && (width / heads) % 2) {
    throw new Error(`rotary positions turn pairs of channels; width / heads = ${width / heads} is odd`);
  }
  return options;
}

function checkedDesign(given) {
  for (const name of Object.keys(given)) checkOneOf("a design's option", name, Object.keys(DESIGN_DEFAULTS));
  const design = { ...DESIGN_DEFAULTS, ...givenOnly(given) };
  for (const [name, known] of Object.entries(DESIGN_CHOICES)) {
    if (name === "scaling" && typeof design.scaling === "number") checkReal("scaling", design.scaling, (x) => x > 0, "positive");
    else checkOneOf(name, design[name], known);
  }
  checkReal("constant", design.constant, (x) => x !== 0, "not 0; to forget at once, take 1e-6");
  checkReal("ratio", design.ratio, (x) => x > 0, "positive");
  return design;
}

function checkOneOf(name, value, known) {
  if (!known.includes(value)) throw new Error(`${name} “${value}” is not known; it is one of ${known.join(", ")}`);
}

function checkWhole(name, value, least, most) {
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new Error(`${name} must be a whole number from ${least} to ${most}, got ${value}`);
  }
}

function checkReal(name, value, fits, words) {
  if (typeof value !== "number" || !Number.isFinite(value) || !fits(value)) {
    throw new Error(`${name} must be a finite number, ${words}; got ${value}`);
  }
}
