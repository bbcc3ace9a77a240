// What the figure says: the answer on a test sequence, and why a run ended.

import { formatNumber } from "../../../../widgets/js/text.js";
import { IGNORE } from "../tasks/batch.js";
import { mixerOptions } from "./settings.js";
import TRAIN from "coefdyn:offered";

// "Asked at k2 (token 9): v1, which is right."
export function sequenceWords({ inputs, targets, said }, nameOf) {
  const asked = [...targets.keys()].filter((i) => targets[i] !== IGNORE);
  const right = asked.filter((i) => said[i] === targets[i]).length;
  const told = (i) => {
    const answer = said[i] < 0 ? "nothing, its numbers are gone" : nameOf(said[i]);
    const judged = said[i] === targets[i] ? "which is right" : `${nameOf(targets[i])} would be right`;
    return `at ${nameOf(inputs[i])} (token ${i + 1}) it says ${answer}, ${judged}`;
  };
  const shown = asked.slice(-3).map(told).join("; ");
  return `${right} of ${asked.length} right. ${asked.length > 3 ? "The last three: " : ""}${shown}.`;
}

const TROUBLE_PARTS = {
  coefficients: "the coefficients α/η", mixer: "the mixer's output", mlp: "the SwiGLU", eta: "the divisor η",
  decay: "the decay", beta: "β", write: "b", logits: "the logits", gradient: "the gradient", parameter: "a weight",
};

// Why a run ended, as Principle 6 would say it.
export function troubleWords(trouble, design) {
  const options = mixerOptions(design);
  const layer = trouble.layer === undefined ? "" : ` of layer ${trouble.layer + 1}`;
  const where = `${TROUBLE_PARTS[trouble.part] || "a number"}${layer}`;
  const growing = options.evolution === "constant" && Math.abs(options.constant) > 1;
  const bare = options.normalizer === "one";
  const rule = "If the readout is unbounded or the evolution is not stable, the normalizer η must counteract the growth of the coefficients (Principle 6).";
  const start = `Stopped at step ${trouble.t}: ${where} left the range of float32. ${rule}`;
  const phi = TRAIN.choices.readout[options.readout];
  const key = growing ? `A = ${formatNumber(options.constant)} I lengthens every stored key at every token, ` : "";
  if (bare && options.readout === "exp") {
    return `${start} Here ${key}exp makes of it a coefficient that grows faster than any power, and η = 1 takes nothing back. Choose the row sum for η${growing ? ", or |λ| ≤ 1" : ""}.`;
  }
  if (growing) return `${start} Here ${key}φ = ${phi} passes that on, and η = ${TRAIN.choices.normalizer[options.normalizer]} did not keep up. Choose the row sum for η, or |λ| ≤ 1.`;
  if (bare) return `${start} Here φ = ${phi} is unbounded and η = 1 takes nothing back. Choose the row sum for η, or a lower learning rate.`;
  return `${start} Here η does its part, so the weights themselves ran away: choose a lower learning rate.`;
}
