// Overwrite: each key is written several times and its last value counts; `keeping.py` of coefdyn.lab.tasks.

function sampleOverwrite(c, n, generator) {
  const half = c.vocab_size / 2;
  const keys = orderedDistinct(1, half - 1, c.pairs, n, generator);
  const values = orderedDistinct(half, half, c.writes, n * c.pairs, generator);
  const slots = c.pairs * c.writes;
  const orders = generator.uniforms(n * slots);
  const asked = generator.uniforms(n * c.pairs);
  return batchOf(n, (m) => {
    const inputs = new Array(c.seq_len).fill(0);
    const targets = new Array(c.seq_len).fill(IGNORE);
    const places = argsort(orders.subarray(m * slots, (m + 1) * slots));
    keys[m].forEach((key, d) => {
      const own = places.slice(d * c.writes, (d + 1) * c.writes).sort((a, b) => a - b);
      own.forEach((place, w) => ([inputs[2 * place], inputs[2 * place + 1]] = [key, values[m * c.pairs + d][w]]));
    });
    argsort(asked.subarray(m * c.pairs, (m + 1) * c.pairs)).forEach((d, place) => {
      inputs[2 * slots + place] = keys[m][d];
      targets[2 * slots + place] = values[m * c.pairs + d][c.writes - 1];
    });
    return [inputs, targets];
  });
}
