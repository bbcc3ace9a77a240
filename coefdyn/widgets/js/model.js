// From settings to everything on show. No page in here either.

import { blendIngredients, solve } from "./blend.js";
import { eigenvalues, spectrum } from "./eigenvalues.js";
import { ingredientsFrom, isGiven } from "./ingredients.js";
import { combinationClass, growthRate, largestMagnitude, nearZeroFraction, nearZeroInterval, overflowHorizon, READOUTS, rowClass, rowSums, states } from "./math.js";
import { withPreset } from "./state.js";

export function buildModel(s, data) {
  const from = ingredientsFrom(s, data);
  const morphing = s.morph_to && s.morph > 0 && !isGiven(data);
  const g = morphing ? blendIngredients(from, ingredientsFrom(withPreset(s, s.morph_to), data), s.morph) : from;
  const solved = solve(g);
  const row = Math.min(s.row, g.L) - 1;
  const column = Math.min(s.column, g.L) - 1;
  const shown = s.view === "normalized" ? solved.weights : solved.alpha;
  const model = {
    ...solved, g, data, row, column, cell: { row, column }, shown, settings: s,
    symbol: s.view === "normalized" ? "α/η" : "α",
    top: largestMagnitude(shown), epsilonShown: s.epsilon, path: states(g, column),
  };
  addReadoutCurve(model, s);
  addNumbers(model, s);
  model.answer = answerOf(model, row);
  return model;
}

// y_i of an output: how much of each word it holds, in the order of the words.
function answerOf({ g, weights }, i) {
  const found = new Map();
  for (let j = 0; j <= i; j++) {
    const word = g.values[j];
    if (word !== null) found.set(word, (found.get(word) || 0) + weights[i * g.L + j]);
  }
  return [...found];
}

// phi of the design; between two designs the mixture of both.
function addReadoutCurve(model, s) {
  const { g } = model;
  const parts = g.blend
    ? [[g.blend.from.readout, 1 - g.blend.t], [g.blend.to.readout, g.blend.t]]
    : [[g.readout, 1]];
  const curves = parts.map(([name]) => READOUTS[name].phi || READOUTS[name].psi);
  model.phi = (x) => parts.reduce((sum, [, share], m) => (share === 0 ? sum : sum + share * curves[m](x)), 0);
  model.readouts = parts.filter(([, share]) => share > 0).map(([name]) => name);
  model.isFeature = parts.every(([name]) => READOUTS[name].psi);
  model.nearZeroSets = parts.flatMap(([name, share]) => {
    const interval = nearZeroInterval(name, s.epsilon);
    return interval && share > 0 ? [[...interval, share]] : [];
  });
}

function addNumbers(model, s) {
  const { g, sums, scores, weights, row } = model;
  model.nearZero = nearZeroFraction(model.shown, g.L, s.epsilon, g.hidden);
  model.sumLeast = Math.min(...sums);
  model.sumMost = Math.max(...sums);
  model.weightSum = rowSums(weights, g.L)[row];
  model.eigenvalues = eigenvalues(g, row);
  model.spectrum = spectrum(g, row);
  model.className = designClass(g);
  model.dataClass = rowClass(weights, g.L, row);
  model.rate = growthRate(g);
  model.horizon = overflowHorizon(g, scores, model.rate);
}

// Between two designs only what both promise is promised. What goes into a sink is missing in the row's sum, and
// an own term below 0 takes a sign away.
function designClass(g) {
  if (g.blend) return classBetween(designClass(g.blend.from), designClass(g.blend.to), g.blend.t);
  const sunk = g.sink && g.normalizer === "row_sum";
  const promised = combinationClass(g.readout, sunk ? "one" : g.normalizer);
  return g.own && g.own.some((x) => x < 0) ? { convex: "affine", conical: "linear" }[promised] || promised : promised;
}

function classBetween(name, other, t) {
  if (t === 1 || other === name) return other;
  const nonnegative = ["convex", "conical"];
  return nonnegative.includes(name) && nonnegative.includes(other) ? "conical" : "linear";
}
