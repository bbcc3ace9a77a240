// Numbers and settings in words.

const CLASS_WORDS = {
  convex: "all ≥ 0, rows sum to 1", conical: "all ≥ 0", affine: "rows sum to 1", linear: "no restriction",
};

function formatNumber(x, digits = 3) {
  if (Number.isNaN(x)) return "not a number";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  if (size === 0) return "0";
  const text = size >= 1e4 || size < 1e-3 ? exponential(x, digits) : Number(x.toPrecision(digits)).toString();
  return text.replace(/-/g, "−");
}

function exponential(x, digits) {
  const [head, power] = x.toExponential(Math.max(digits - 2, 0)).split("e");
  return `${head}·10${superscript(Number(power))}`;
}

function superscript(k) {
  return String(k).replace(/[-\d]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
}

function formatPercent(x) {
  return `${(100 * x).toFixed(1)} %`;
}

// Conjugate pairs are written once.
function formatSpectrum(points) {
  const upper = points.filter(([, im]) => im > -1e-12);
  return formatCounted(upper.map(([re, im]) => (im > 1e-12 ? `${formatNumber(re)} ± ${formatNumber(im)} i` : formatNumber(re))));
}

function formatEigenvalues(values) {
  return formatCounted(values.map((value) => formatNumber(value)));
}

// Equal eigenvalues are counted, not repeated.
function formatCounted(texts) {
  const counts = new Map();
  for (const text of texts) {
    counts.set(text, (counts.get(text) || 0) + 1);
  }
  const parts = [...counts].map(([text, count]) => (count > 1 ? `${text} (${count}×)` : text));
  return parts.length > 4 ? `${parts.slice(0, 3).join(", ")}, … (${parts.length})` : parts.join(", ");
}

// A rate in nats a token as the tokens after which half is left, or twice as much.
function halfLifeWords(rate) {
  if (Math.abs(rate) < 1e-9) return "nothing fades";
  return `${rate < 0 ? "half is left after" : "doubles in"} ${formatNumber(Math.LN2 / Math.abs(rate), 2)} tokens`;
}

function formatSetting(key, s) {
  const spec = SCHEMA.ranges[key] || SCHEMA.integers[key];
  if (key === "angle") return `${s.angle}°`;
  if (key === "morph") return `${Math.round(100 * s.morph)} %`;
  if (key === "duplicate" && s.duplicate === 0) return "off";
  return SCHEMA.integers[key] ? String(s[key]) : formatNumber(s[key], spec.step && spec.step < 0.01 ? 4 : 3);
}

const nameOf = (s) => (s.preset === "own" ? "Own design" : SCHEMA.rows[s.preset].label);
const isMorphing = (s) => Boolean(s.morph_to) && s.morph > 0;

function titleOf(s) {
  if (!isMorphing(s)) return nameOf(s);
  return `${Math.round(100 * s.morph)} % of the way from ${nameOf(s)} to ${SCHEMA.rows[s.morph_to].label}`;
}

const DESIGN_PARTS = [["structure", "A", "evolution"], ["scaling", "b", "scaling"], ["readout", "φ", "readout"], ["normalizer", "η", "normalizer"], ["beside", "+", "readout"]];

const kindWords = (key, kind) => SCHEMA.choices[key].options[kind].split(":")[0];

// The four kinds of a design of one's own, what stands beside φ, and the row that shares most of them.
function ownWords(s) {
  const differing = (name) => DESIGN_PARTS.filter(([key]) => SCHEMA.rows[name].kinds[key] !== s[key]);
  const nearest = Object.keys(SCHEMA.rows).reduce((best, name) => (differing(name).length < differing(best).length ? name : best));
  const others = differing(nearest).map(([, sign]) => sign);
  const shown = DESIGN_PARTS.filter(([key]) => key !== "beside" || s.beside !== "none");
  const parts = shown.map(([key, sign]) => `${sign} ${kindWords(key, s[key])}`).join(" · ");
  const gap = others.length ? `which differs in ${others.join(", ")}` : "which takes the key itself for z";
  return `Own design: ${parts}; nearest ${SCHEMA.rows[nearest].label}, ${gap}`;
}

// What is on show, always in one line; a row since Table 1 with what it changed.
function designWords(s) {
  const since = s.preset !== "own" && SCHEMA.rows[s.preset].since && !isMorphing(s);
  const start = s.preset === "own" ? ownWords(s) : nameOf(s) + (since ? `: ${STOP_WORDS[s.preset]}` : "");
  return isMorphing(s) ? `${start}, ${Math.round(100 * s.morph)} % towards ${SCHEMA.rows[s.morph_to].label}` : start;
}

// What a card says between two designs: both kinds, with their shares.
function mixWords(key, s) {
  if (!isMorphing(s)) return "";
  const there = SCHEMA.rows[s.morph_to].kinds[key];
  if (there === s[key]) return "";
  const share = Math.round(100 * s.morph);
  return `now ${100 - share} % ${kindWords(key, s[key])}, ${share} % ${kindWords(key, there)}`;
}
