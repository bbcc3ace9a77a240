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

function formatSetting(key, s) {
  const spec = SCHEMA.ranges[key] || SCHEMA.integers[key];
  if (key === "angle") return `${s.angle}°`;
  if (key === "morph") return `${Math.round(100 * s.morph)} %`;
  if (key === "duplicate" && s.duplicate === 0) return "off";
  return SCHEMA.integers[key] ? String(s[key]) : formatNumber(s[key], spec.step && spec.step < 0.01 ? 4 : 3);
}

function titleOf(s) {
  const name = s.preset === "own" ? "Own design" : SCHEMA.rows[s.preset].label;
  if (!s.morph_to || s.morph === 0) return name;
  return `${Math.round(100 * s.morph)} % of the way from ${name} to ${SCHEMA.rows[s.morph_to].label}`;
}
