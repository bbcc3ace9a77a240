// Settings: defaults, limits, rows of Table 1, and their form in the page's address. SCHEMA is schema.json,
// the same file that Python reads.

// Names come from the address: "toString" is no setting and no row.
for (const table of Object.values(SCHEMA)) Object.setPrototypeOf(table, null);

const PLACES = ["column", "row", "duplicate"];
const SCALAR_KEYS = [SCHEMA.choices, SCHEMA.ranges, SCHEMA.integers, SCHEMA.flags].flatMap(Object.keys);

function defaultSettings() {
  const s = { preset: "own", morph_to: "", points: {} };
  for (const part of [SCHEMA.choices, SCHEMA.ranges, SCHEMA.integers, SCHEMA.flags]) {
    for (const [key, spec] of Object.entries(part)) s[key] = spec.default;
  }
  return withPreset(s, "gated_deltanet");
}

function withPreset(s, name) {
  const row = SCHEMA.rows[name];
  if (!row) return { ...s, preset: "own" };
  return { ...s, direction: "key", view: "raw", ...row.start, ...row.kinds, preset: name };
}

// The row of Table 1 these settings are a case of; the one named last wins, otherwise "own".
function rowOf(s) {
  const fits = (name) => Object.entries(SCHEMA.rows[name].kinds).every(([key, kind]) => s[key] === kind);
  if (SCHEMA.rows[s.preset] && fits(s.preset)) return s.preset;
  return Object.keys(SCHEMA.rows).find(fits) || "own";
}

// Any object to valid settings, with a note for everything that had to be changed.
function normaliseSettings(raw) {
  const notes = [];
  let s = defaultSettings();
  if (raw.preset !== undefined && raw.preset !== "own") {
    if (SCHEMA.rows[raw.preset]) s = withPreset(s, raw.preset);
    else notes.push(`preset “${raw.preset}” is not known; using ${SCHEMA.rows[s.preset].label}`);
  }
  for (const [key, value] of Object.entries(raw)) {
    if (key === "preset") continue;
    const fixed = checkSetting(key, value, notes);
    if (fixed !== undefined) s[key] = fixed;
  }
  const integers = SCHEMA.integers;
  for (const key of PLACES) {
    if (s[key] > s.length) s[key] = key === "duplicate" ? 0 : s.length;
    s[key] = Math.max(s[key], integers[key].min);
  }
  s.preset = rowOf(s);
  return { settings: s, notes };
}

function checkSetting(key, value, notes) {
  if (SCHEMA.choices[key]) {
    if (Object.hasOwn(SCHEMA.choices[key].options, value)) return value;
    notes.push(`${key} “${value}” is not known; left as it was`);
  } else if (SCHEMA.ranges[key] || SCHEMA.integers[key]) {
    return checkNumber(key, value, SCHEMA.ranges[key] || SCHEMA.integers[key], notes);
  } else if (SCHEMA.flags[key]) {
    return checkFlag(key, value, notes);
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

function applies(key, s) {
  const spec = SCHEMA.choices[key] || SCHEMA.ranges[key] || SCHEMA.integers[key] || SCHEMA.flags[key];
  if (!spec.needs) return true;
  return spec.needs.some((need) => Object.entries(need).every(([name, values]) => values.includes(s[name])));
}

// What differs from the preset's own start, as a query string; and back.
function encodeSettings(s) {
  const base = withPreset(defaultSettings(), s.preset);
  const parts = [`preset=${s.preset}`];
  for (const key of SCALAR_KEYS) if (s[key] !== base[key]) parts.push(`${key}=${encodeURIComponent(s[key])}`);
  if (s.morph_to) parts.push(`morph_to=${s.morph_to}`);
  for (const [name, values] of Object.entries(s.points)) parts.push(`${name}=${values.join(",")}`);
  return parts.join("&");
}

function decodeSettings(query) {
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
  const read = normaliseSettings(raw);
  const { length } = read.settings;
  for (const key of PLACES) {
    const far = Number(raw[key]) > length && Number(raw[key]) <= SCHEMA.integers[key].max;
    if (far) read.notes.push(`${key} ${raw[key]} is beyond the length ${length}; ${key === "duplicate" ? "left out" : "moved to the end"}`);
  }
  return read;
}

// "#cd?..." speaks to the first explorer of the page, "#cd-NAME?..." to the one of that name.
function addressPrefix(name) {
  return name ? `#cd-${name}?` : "#cd?";
}
