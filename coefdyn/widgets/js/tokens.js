// Tokens, queries and keys from settings.

import { drawKey, drawNormal, roundMilli, STREAM } from "./draws.js";
import { factQueriesKeys, parseFacts } from "./facts.js";

const VOCABULARY = 5;

// What stands at each position. Equal numbers are equal inputs, gates included.
export function tokenIdentities(s) {
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

export const tokensOfFacts = (s) => repeatToken(s, [...parseFacts(s.text).tokens]);

// What the axes of the matrix say at each position, and the word that each carries as its value (null: none).
export function tokenWords(s, ids) {
  if (s.tokens === "facts") {
    const tokens = tokensOfFacts(s);
    return { words: tokens.map((token) => token.word), values: tokens.map((token) => token.value) };
  }
  const words = ids.map((id) => (s.tokens === "repeating" ? "abcde"[id] : String(id + 1)));
  return { words, values: words };
}

// Queries lean towards the key of the same token, so that repetitions show in the matrix.
export function drawQueriesKeys(s, ids) {
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
