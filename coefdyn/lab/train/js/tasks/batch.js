// Sequences as one batch.

export const IGNORE = -100; // a target that is not scored

// n sequences as one batch: `row(m)` gives the inputs and the targets of sequence m.
export function batchOf(n, row) {
  const rows = Array.from({ length: n }, (_, m) => row(m));
  const length = rows[0][0].length;
  const gather = (part) => Int32Array.from({ length: n * length }, (_, at) => rows[Math.floor(at / length)][part][at % length]);
  return { n, length, inputs: gather(0), targets: gather(1) };
}
