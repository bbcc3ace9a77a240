// A text of the reader's own as tokens: what is told, and what is asked.
//   "the cat is black"   black is stored under cat; the other words store nothing and ask for the subject last named
//   "ask: cat", "cat?"   asks for cat
//   words without a verb each word is stored under the word before it and asks for itself

import { drawNormal, roundMilli, STREAM } from "./draws.js";

export const FACT_LIMITS = { words: 64, characters: 600, word: 20 };
const FACT_VERBS = ["is", "are", "was", "were", "has", "="];
const FACT_BLANKS = /[ \t\v\f\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]+/gu;
const FACT_HIDDEN = /[\u0000-\u0008\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]+/gu;
const FACT_ENDS = /([.;!?,\u3002\uff01\uff1f\uff0c\uff1b\u3001\u061f\u060c\u061b]+)/u;
const FACT_EDGES = /^[\u0022'\u201c\u201d\u2018\u2019\u00ab\u00bb()[\]{}<>*_:\u2026\u00bf\u00a1]+|[\u0022'\u201c\u201d\u2018\u2019\u00ab\u00bb()[\]{}<>*_:\u2026\u00bf\u00a1]+$/gu;

// What of a text can be shown: no control signs, no line ends, at most so many characters, whole words.
export function cleanText(raw) {
  const text = raw.slice(0, 4 * FACT_LIMITS.characters).replace(/[\r\n\u2028\u2029]+/gu, "; ").replace(FACT_HIDDEN, "").replace(FACT_BLANKS, " ").replace(/^ | $/gu, "");
  const signs = Array.from(text);
  if (signs.length <= FACT_LIMITS.characters) return text;
  const kept = signs.slice(0, FACT_LIMITS.characters).join("");
  const end = kept.lastIndexOf(" ");
  return end > 0 ? kept.slice(0, end) : kept;
}

function factWords(clause) {
  return clause.split(" ").map((word) => word.replace(FACT_EDGES, "").replace(/[A-Z]/gu, (c) => c.toLowerCase())).filter((word) => word !== "")
    .map((word) => {
      const signs = Array.from(word);
      return signs.length > FACT_LIMITS.word ? `${signs.slice(0, FACT_LIMITS.word - 1).join("")}…` : word;
    });
}

const askToken = (word) => ({ word: `${word}?`, key: null, query: word, value: null, asks: true });

// One clause as tokens; `subject` is the one last named.
function clauseTokens(words, subject) {
  const last = words.length - 1;
  const verb = words.findIndex((word, m) => m > 0 && m < last && FACT_VERBS.includes(word));
  if (verb < 0 && words.length !== 2) {
    return { told: false, subject, tokens: words.map((word, m) => ({ word, key: m ? words[m - 1] : null, query: word, value: m ? word : null })) };
  }
  const named = Math.max(verb - 1, 0);
  const tokens = words.map((word, m) => {
    const query = m < named ? subject : words[named];
    return m === last ? { word, key: words[named], query, value: word } : { word, key: null, query, value: null };
  });
  return { told: true, subject: words[named], tokens };
}

function readClauses(text) {
  const tokens = [];
  let [subject, told] = [null, false];
  const pieces = text.split(FACT_ENDS);
  for (let m = 0; m < pieces.length; m += 2) {
    const words = factWords(pieces[m]);
    if (words.length === 0) continue;
    if ((words[0] === "ask" && words.length > 1) || /[?\uff1f\u061f]/u.test(pieces[m + 1] || "")) {
      subject = words.at(-1);
      tokens.push(askToken(subject));
    } else {
      const found = clauseTokens(words, subject);
      [subject, told] = [found.subject, told || found.told];
      tokens.push(...found.tokens);
    }
  }
  return { tokens, subject, told };
}

const parsedTexts = new Map();

// {tokens, cut}: at most 64 tokens; at least two where there is a word, and a question at the end of what was told.
export function parseFacts(text) {
  if (parsedTexts.has(text)) return parsedTexts.get(text);
  if (parsedTexts.size > 40) parsedTexts.clear();
  const { tokens, subject, told } = readClauses(text);
  const cut = tokens.length > FACT_LIMITS.words;
  const kept = cut ? tokens.slice(0, FACT_LIMITS.words - 1) : tokens;
  const final = tokens.at(-1);
  if (cut && final.asks) kept.push(final);
  else if (final && !final.asks && (cut || told || kept.length < 2)) {
    if (kept.length === FACT_LIMITS.words) kept.pop();
    kept.push(askToken(subject ?? final.word));
  } else if (kept.length === 1) kept.push(final);
  const parsed = { tokens: kept, cut };
  parsedTexts.set(text, parsed);
  return parsed;
}

// Where to look at first: the question at the end, and the first word stored under what it asks for.
export function placesOfFacts(text) {
  const { tokens } = parseFacts(text);
  const asked = tokens.at(-1).query;
  return { row: tokens.length, column: Math.max(tokens.findIndex((token) => token.key === asked), 0) + 1 };
}

// Keys of length one: the first n words stand at right angles, later ones where chance puts them and so disturb the
// others. Queries have length √n, so that 1/√n leaves the score of a word with itself at 1.
export function factQueriesKeys(s, tokens) {
  const { length: L, width: n } = s;
  const q = new Float64Array(L * n);
  const k = new Float64Array(L * n);
  const place = new Map();
  for (const { query, key } of tokens) for (const word of [query, key]) if (word !== null && !place.has(word)) place.set(word, place.size);
  const root = Math.sqrt(n);
  tokens.forEach(({ query, key }, t) => {
    if (query !== null) factDirection(s, place.get(query)).forEach((x, c) => (q[t * n + c] = root * x));
    if (key !== null) factDirection(s, place.get(key)).forEach((x, c) => (k[t * n + c] = x));
  });
  return { q, k };
}

function factDirection({ width: n, seed }, m) {
  if (m < n) return Array.from({ length: n }, (_, c) => (c === m ? 1 : 0));
  const drawn = Array.from({ length: n }, (_, c) => drawNormal(seed, STREAM.fact, m, c));
  let square = 0;
  for (const x of drawn) square += x * x;
  const length = Math.sqrt(square);
  return drawn.map((x, c) => (length > 0 ? roundMilli(x / length) : c === 0 ? 1 : 0));
}
