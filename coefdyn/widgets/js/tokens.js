// Tokens and gates from a seed. coefdyn/widgets/tokens.py holds the same arithmetic, operation for operation:
// integers below 2^36 and roundings to three decimals, so both languages get the same float64 numbers.

const STREAM = { query: 1, key: 2, word: 3, decay: 4, beta: 5, input: 6, output: 7, fact: 9 };
const VOCABULARY = 5;

function mix32(x) {
  x = Math.imul(x ^ (x >>> 16), 0x7feb352d);
  x = Math.imul(x ^ (x >>> 15), 0x846ca68b);
  return (x ^ (x >>> 16)) >>> 0;
}

function drawKey(seed, stream, token, channel) {
  let x = mix32((seed + 0x9e3779b9) >>> 0);
  x = mix32((x + stream) >>> 0);
  x = mix32((x + token) >>> 0);
  return mix32((x + channel) >>> 0);
}

function roundMilli(x) {
  return Math.floor(x * 1000 + 0.5) / 1000;
}

// Sum of twelve uniforms minus six: mean 0, variance 1.
function drawNormal(seed, stream, token, channel) {
  const x = drawKey(seed, stream, token, channel);
  let sum = 0;
  for (let m = 1; m <= 12; m++) sum += mix32((x + Math.imul(m, 0x9e3779b9)) >>> 0);
  return roundMilli(sum / 4294967296 - 6);
}

// Uniform in (-1, 1).
function drawUniform(seed, stream, token, channel) {
  return roundMilli((drawKey(seed, stream, token, channel) / 4294967296) * 2 - 1);
}

// What stands at each position. Equal numbers are equal inputs, gates included.
function tokenIdentities(s) {
  if (s.tokens === "facts") {
    const seen = new Map();
    return tokensOfFacts(s).map(({ word, key, query }) => {
      const name = JSON.stringify([word, key, query]);
      if (!seen.has(name)) seen.set(name, seen.size);
      return seen.get(name);
    });
  }
  const ids = [];
  for (let t = 0; t < s.length; t++) {
    ids.push(s.tokens === "repeating" ? drawKey(s.seed, STREAM.word, t, 0) % VOCABULARY : t);
  }
  return repeatToken(s, ids);
}

// With token j once more where the reader wants a copy.
function repeatToken(s, listed) {
  if (s.duplicate > 0 && s.duplicate <= s.length) listed[s.duplicate - 1] = listed[s.column - 1];
  return listed;
}

const tokensOfFacts = (s) => repeatToken(s, [...parseFacts(s.text).tokens]);

// What the axes of the matrix say at each position, and the word that each carries as its value (null: none).
function tokenWords(s, ids) {
  if (s.tokens === "facts") {
    const tokens = tokensOfFacts(s);
    return { words: tokens.map((token) => token.word), values: tokens.map((token) => token.value) };
  }
  const words = ids.map((id) => (s.tokens === "repeating" ? "abcde"[id] : String(id + 1)));
  return { words, values: words };
}

// Queries lean towards the key of the same token, so that repetitions show in the matrix.
function drawQueriesKeys(s, ids) {
  if (s.tokens === "facts") {
    const { q, k } = factQueriesKeys(s, tokensOfFacts(s));
    placePoints(s, q, k);
    return { q, k };
  }
  const { length: L, width: n, seed } = s;
  const q = new Float64Array(L * n);
  const k = new Float64Array(L * n);
  for (let t = 0; t < L; t++) {
    for (let c = 0; c < n; c++) {
      const key = drawNormal(seed, STREAM.key, ids[t], c);
      k[t * n + c] = key;
      q[t * n + c] = roundMilli(0.8 * key + 0.6 * drawNormal(seed, STREAM.query, ids[t], c));
    }
  }
  placePoints(s, q, k);
  return { q, k };
}

// Dragged points replace single queries and keys: {"q3": [x, y, ...], "k3": [...]}, positions from 1.
function placePoints(s, q, k) {
  for (const [name, values] of Object.entries(s.points || {})) {
    const t = Number(name.slice(1)) - 1;
    if (t >= s.length) continue;
    const target = name[0] === "q" ? q : k;
    for (let c = 0; c < Math.min(s.width, values.length); c++) target[t * s.width + c] = values[c];
  }
}
