// Numbers from a seed: integers below 2^36 and roundings to three decimals, so that every browser draws the same.

export const STREAM = { query: 1, key: 2, word: 3, decay: 4, beta: 5, input: 6, output: 7, fact: 9 };

function mix32(x) {
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return (x ^ (x >>> 16)) >>> 0;
}

export function drawKey(seed, stream, token, channel) {
  let x = mix32((seed + 0x9e3779b9) >>> 0);
  x = mix32((x + stream) >>> 0);
  x = mix32((x + token) >>> 0);
  return mix32((x + channel) >>> 0);
}

export function roundMilli(x) {
  return Math.floor(x * 1000 + 0.5) / 1000;
}

// Sum of twelve uniforms minus six: mean 0, variance 1.
export function drawNormal(seed, stream, token, channel) {
  const x = drawKey(seed, stream, token, channel);
  let sum = 0;
  for (let m = 1; m <= 12; m++) sum += mix32((x + Math.imul(m, 0x9e3779b9)) >>> 0);
  return roundMilli(sum / 4294967296 - 6);
}

// Uniform in (-1, 1).
export function drawUniform(seed, stream, token, channel) {
  return roundMilli((drawKey(seed, stream, token, channel) / 4294967296) * 2 - 1);
}
