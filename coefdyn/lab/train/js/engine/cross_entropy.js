// Mean cross-entropy in nats over the scored positions, as `masked_loss` of coefdyn.lab.training.metrics.

const NOT_SCORED = -100;

// The loss, and its gradient written into dLogits; `weights` (one per position) makes it a weighted mean.
export function crossEntropy(logits, targets, classes, weights, dLogits) {
  let counted = 0, loss = 0;
  for (let m = 0; m < targets.length; m++) if (targets[m] !== NOT_SCORED) counted += weights ? weights[m] : 1;
  for (let m = 0, start = 0; m < targets.length; m++, start += classes) {
    if (targets[m] === NOT_SCORED) {
      dLogits.fill(0, start, start + classes);
      continue;
    }
    const weight = (weights ? weights[m] : 1) / counted;
    let top = -Infinity, total = 0;
    for (let c = start; c < start + classes; c++) top = Math.max(top, logits[c]);
    for (let c = start; c < start + classes; c++) total += Math.exp(logits[c] - top);
    loss += weight * (Math.log(total) + top - logits[start + targets[m]]);
    for (let c = start; c < start + classes; c++) dLogits[c] = (weight * Math.exp(logits[c] - top)) / total;
    dLogits[start + targets[m]] -= weight;
  }
  return loss;
}
