// Settings: defaults, limits, rows of Table 1, and their form in the page's address. SCHEMA is schema.json,
// the same file that Python reads.

import { cleanText, FACT_LIMITS, parseFacts, placesOfFacts } from "./facts.js";
import SCHEMA from "../schema.json" with { type: "json" };

// Names come from the address: "toString" is no setting and no row.
for (const table of Object.values(SCHEMA)) Object.setPrototypeOf(table, null);

const PLACES = ["column", "row", "duplicate"];
const SPECS = [SCHEMA.choices, SCHEMA.ranges, SCHEMA.integers, SCHEMA.flags, SCHEMA.texts];
export const SCALAR_KEYS = SPECS.flatMap(Object.keys);
export const specOf = (key) => SPECS.map((part) => part[key]).find(Boolean);

// Settings of the tokens: a link that does not name them leaves those that the page was written with.
const TOKEN_KEYS = ["tokens", "text", "length", "width", "seed"];
export const SHIPPED_HOME = Object.fromEntries(TOKEN_KEYS.map((key) => [key, specOf(key).default]));
export const homeOf = (s) => ({ ...Object.fromEntries(TOKEN_KEYS.map((key) => [key, s[key]])), ...(s.tokens === "facts" ? { length: SHIPPED_HOME.length } : {}) });

export function defaultSettings(home = SHIPPED_HOME) {
  const s = { preset: "own", morph_to: "", points: {} };
  for (const part of SPECS) for (const [key, spec] of Object.entries(part)) s[key] = spec.default;
  Object.assign(s, home);
  if (s.tokens === "facts") Object.assign(s, factPlaces(s.text));
  return withPreset(s, "gated_deltanet");
}

export const factPlaces = (text) => ({ length: parseFacts(text).tokens.length, ...placesOfFacts(text) });

// On facts all gates are alike, so that answers are round numbers; rows of Table 1 may add more.
const FACTS_START = { variation: 0, scale: 1 };

export function withPreset(s, name) {
  const row = SCHEMA.rows[name];
  if (!row) return { ...s, preset: "own" };
  const facts = s.tokens === "facts" ? { ...FACTS_START, ...row.facts } : {};
  return { ...s, direction: "key", view: "raw", ...row.start, ...facts, ...row.kinds, preset: name };
}

// On other tokens, with the gates and strengths that those start with.
export function withTokens(s, tokens) {
  if (tokens === s.tokens) return s;
  const fresh = defaultSettings({ ...SHIPPED_HOME, text: s.text, tokens });
  const changed = { ...s, tokens, points: {} };
  for (const key of ["variation", "scale", "length", "row", "column"]) changed[key] = fresh[key];
  return tokens === "facts" ? withPreset(changed, s.preset) : changed;
}

// The row of Table 1 these settings are a case of; the one named last wins, otherwise "own".
function rowOf(s) {
  const fits = (name) => Object.entries(SCHEMA.rows[name].kinds).every(([key, kind]) => s[key] === kind);
  if (SCHEMA.rows[s.preset] && fits(s.preset)) return s.preset;
  return Object.keys(SCHEMA.rows).find(fits) || "own";
}

// The tokens that an object of settings speaks of. A length belongs to drawn tokens: naming one alone leaves the facts.
function namedHome(raw, home, notes) {
  const silent = [];
  const named = { ...home };
  if (raw.tokens === undefined && raw.length !== undefined && home.tokens === "facts") named.tokens = "repeating";
  for (const key of TOKEN_KEYS) {
    const fixed = raw[key] === undefined ? undefined : checkSetting(key, raw[key], key === "text" ? notes : silent);
    if (fixed !== undefined) named[key] = fixed;
  }
  return named;
}

// Any object to valid settings, with a note for everything that had to be changed.
export function normaliseSettings(raw, home = SHIPPED_HOME) {
  const notes = [];
  let s = defaultSettings(namedHome(raw, home, notes));
  if (raw.preset !== undefined && raw.preset !== "own") {
    if (SCHEMA.rows[raw.preset]) s = withPreset(s, raw.preset);
    else notes.push(`preset “${raw.preset}” is not known; using ${SCHEMA.rows[s.preset].label}`);
  }
  for (const [key, value] of Object.entries(raw)) {
    if (key === "preset" || key === "text") continue;
    const fixed = checkSetting(key, value, notes);
    if (fixed !== undefined) s[key] = fixed;
  }
  if (s.tokens === "facts") s.length = parseFacts(s.text).tokens.length;
  const integers = SCHEMA.integers;
  for (const key of PLACES) {
    if (s[key] > s.length) s[key] = key === "duplicate" ? 0 : s.length;
    s[key] = Math.max(s[key], integers[key].min);
  }
  s.preset = rowOf(s);
  return { settings: s, notes };
}

function checkText(key, value, notes) {
  const raw = String(value);
  const text = cleanText(raw);
  const { tokens, cut } = parseFacts(text);
  if (tokens.length === 0) {
    notes.push("There is no word in the box; the example stands in");
    return SCHEMA.texts[key].default;
  }
  if (cut || raw.length > FACT_LIMITS.characters) notes.push(`That is a long text; its first ${tokens.length} words are used`);
  return text;
}

function checkSetting(key, value, notes) {
  if (SCHEMA.choices[key]) {
    if (Object.hasOwn(SCHEMA.choices[key].options, value)) return value;
    notes.push(`${key} “${value}” is not known; left as it was`);
  } else if (SCHEMA.ranges[key] || SCHEMA.integers[key]) {
    return checkNumber(key, value, SCHEMA.ranges[key] || SCHEMA.integers[key], notes);
  } else if (SCHEMA.flags[key]) {
    return checkFlag(key, value, notes);
  } else if (SCHEMA.texts[key]) {
    return checkText(key, value, notes);
  } else if (key === "morph_to") {
    if (value === "" || SCHEMA.rows[value]) return value;
    notes.push(`morph_to “${value}” is not known; left as it was`);
  } else if (key === "points") {
    return checkPoints(value, notes);
  } else {
    notes.push(`setting “${key}” is not known; ignored`);
  }
  return undefined;
}

function checkFlag(key, value, notes) {
  const known = { true: true, 1: true, false: false, 0: false };
  if (Object.hasOwn(known, value)) return known[value];
  notes.push(`${key} “${value}” is neither true nor false; left as it was`);
  return undefined;
}

// Number() takes an empty text for 0.
const readNumber = (value) => (String(value).trim() === "" ? NaN : Number(value));

function checkNumber(key, value, spec, notes) {
  let x = readNumber(value);
  if (!Number.isFinite(x)) {
    notes.push(`${key} “${value}” is not a number; left as it was`);
    return undefined;
  }
  if (SCHEMA.integers[key] && !Number.isInteger(x)) {
    notes.push(`${key} ${x} is not whole; rounded`);
    x = Math.round(x);
  }
  if (x < spec.min || x > spec.max) {
    notes.push(`${key} ${x} is outside ${spec.min} to ${spec.max}; moved to the nearest`);
    x = Math.min(Math.max(x, spec.min), spec.max);
  }
  return x;
}

function checkPoints(points, notes) {
  const kept = {};
  for (const [name, values] of Object.entries(points || {})) {
    const good = /^[qk][1-9]\d?$/.test(name) && Array.isArray(values) && values.length <= 16
      && values.every((x) => Number.isFinite(x) && Math.abs(x) <= 8);
    if (good) kept[name] = values;
    else notes.push(`point “${name}” cannot be read; ignored`);
  }
  return kept;
}

export function applies(key, s) {
  const spec = specOf(key);
  if (!spec.needs) return true;
  return spec.needs.some((need) => Object.entries(need).every(([name, values]) => values.includes(s[name])));
}

// What differs from the preset's own start and from the page's own tokens, as a query string; and back.
export function encodeSettings(s, home = SHIPPED_HOME) {
  const length = s.tokens === "facts" ? s.length : home.length;
  const base = withPreset(defaultSettings({ ...home, tokens: s.tokens, text: s.text }), s.preset);
  Object.assign(base, { tokens: home.tokens, length, text: s.tokens === "facts" ? home.text : s.text });
  const parts = [`preset=${s.preset}`];
  for (const key of SCALAR_KEYS) if (s[key] !== base[key]) parts.push(`${key}=${encodeURIComponent(s[key])}`);
  if (s.morph_to) parts.push(`morph_to=${s.morph_to}`);
  for (const [name, values] of Object.entries(s.points)) parts.push(`${name}=${values.join(",")}`);
  return parts.join("&");
}

export function decodeSettings(query, home = SHIPPED_HOME) {
  const raw = Object.assign(Object.create(null), { points: {} });
  for (const part of query.split("&").filter(Boolean)) {
    const [key, ...rest] = part.split("=");
    let value = rest.join("=");
    try {
      value = decodeURIComponent(value);
    } catch {
      value = "?";
    }
    if (/^[qk]\d+$/.test(key) || key === "points") raw.points[key] = value.split(",").map(readNumber);
    else raw[key] = value;
  }
  const read = normaliseSettings(raw, home);
  const { length } = read.settings;
  for (const key of PLACES) {
    const far = Number(raw[key]) > length && Number(raw[key]) <= SCHEMA.integers[key].max;
    if (far) read.notes.push(`${key} ${raw[key]} is beyond the length ${length}; ${key === "duplicate" ? "left out" : "moved to the end"}`);
  }
  return read;
}

// "#cd?..." speaks to the first explorer of the page that has no name, "#cd-NAME?..." to the one of that name.
export function addressPrefix(name) {
  return name ? `#cd-${name}?` : "#cd?";
}
