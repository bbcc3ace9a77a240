// What the figure is set to. A design is the name of a row, or "own" with its four ingredients.

import { formatNumber } from "../../../../widgets/js/text.js";
import TRAIN from "coefdyn:offered";

const TRAIN_KEYS = ["task", "left", "right", "rate", "seed", "positions", "layer", "head", "sequence", "speed"];
export const TRAIN_LIMITS = { seed: [0, 9999], layer: [1, TRAIN.size.layers], head: [1, TRAIN.size.heads], sequence: [1, TRAIN.sequences] };
const OWN_KEYS = ["evolution", "readout", "normalizer", "scaling"];

export const isRow = (design) => Object.hasOwn(TRAIN.rows, design.preset);

// The options of the model's mixer.
export function mixerOptions(design) {
  if (isRow(design)) return TRAIN.rows[design.preset].options;
  const four = Object.fromEntries(OWN_KEYS.map((key) => [key, design[key]]));
  return design.evolution === "constant" ? { ...four, constant: design.constant } : four;
}

// A design of one's own that starts where another one is.
export function asOwn(design) {
  if (!isRow(design)) return design;
  const { options } = TRAIN.rows[design.preset];
  return { preset: "own", constant: 0.7, ...Object.fromEntries(OWN_KEYS.map((key) => [key, options[key]])) };
}

export function trainName(design) {
  if (isRow(design)) return TRAIN.rows[design.preset].label;
  const { evolution, constant, readout, normalizer, scaling } = design;
  const choice = (key, value) => TRAIN.choices[key][value];
  const matrix = evolution === "constant" ? `${formatNumber(constant)} I` : choice("evolution", evolution);
  return `A = ${matrix}, φ = ${choice("readout", readout)}, η = ${choice("normalizer", normalizer)}, b = ${choice("scaling", scaling)}`;
}

// "gla" or "own,constant,0.7,exp,row_sum,inverse_sqrt".
export function encodeDesign(design) {
  if (isRow(design)) return design.preset;
  return ["own", design.evolution, design.constant, design.readout, design.normalizer, design.scaling].join(",");
}

// The design of a text, or null.
export function decodeDesign(text) {
  if (Object.hasOwn(TRAIN.rows, text)) return { preset: text };
  const [own, evolution, constant, readout, normalizer, scaling, ...rest] = text.split(",");
  const design = { preset: own, evolution, constant: Number(constant), readout, normalizer, scaling };
  const known = OWN_KEYS.every((key) => Object.hasOwn(TRAIN.choices[key], design[key] ?? ""));
  const fits = Math.abs(design.constant) <= TRAIN.most_constant && design.constant !== 0;
  return own === "own" && rest.length === 0 && known && fits ? design : null;
}

export function encodeTraining(s, home) {
  const text = (key, of) => (key === "left" || key === "right" ? (of[key] ? encodeDesign(of[key]) : "none") : String(of[key]));
  const changed = TRAIN_KEYS.filter((key) => text(key, s) !== text(key, home));
  return changed.map((key) => `${key}=${encodeURIComponent(text(key, s))}`).join("&");
}

// Settings of an address; what cannot be read stays as it is at home, and is told.
export function decodeTraining(query, home) {
  const settings = { ...home };
  const notes = [];
  for (const part of query.split("&").filter(Boolean).slice(0, 40)) {
    const [key, ...rest] = part.split("=");
    let value = rest.join("=").slice(0, 200);
    try {
      value = decodeURIComponent(value);
    } catch {
      value = "?";
    }
    const read = TRAIN_KEYS.includes(key) ? readSetting(key, value) : undefined;
    if (read === undefined) notes.push(`“${key.slice(0, 24)}=${value.slice(0, 40)}” is nothing that this figure can be set to`);
    else settings[key] = read;
  }
  return { settings, notes };
}

// The value that a text gives a setting; undefined where it gives none.
export function readSetting(key, text) {
  if (key === "right" && text === "none") return null;
  if (key === "left" || key === "right") return decodeDesign(text) || undefined;
  if (key === "rate") return TRAIN.rates.find((rate) => rate === Number(text));
  const lists = { task: TRAIN.tasks, positions: TRAIN.positions, speed: TRAIN.speeds };
  if (lists[key]) return Object.hasOwn(lists[key], text) ? text : undefined;
  const [low, high] = TRAIN_LIMITS[key];
  return /^\d{1,4}$/.test(text) && Number(text) >= low && Number(text) <= high ? Number(text) : undefined;
}
