// Numbers and settings in words.

import SCHEMA from "../schema.json" with { type: "json" };

export const CLASS_WORDS = {
  convex: "all ≥ 0, rows sum to 1", conical: "all ≥ 0", affine: "rows sum to 1", linear: "no restriction",
};

export function formatNumber(x, digits = 3) {
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

export function superscript(k) {
  return String(k).replace(/[-\d]/g, (c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c]));
}

export function formatPercent(x) {
  return `${(100 * x).toFixed(1)} %`;
}

// Conjugate pairs are written once.
export function formatSpectrum(points) {
  const upper = points.filter(([, im]) => im > -1e-12);
  return formatCounted(upper.map(([re, im]) => (im > 1e-12 ? `${formatNumber(re)} ± ${formatNumber(im)} i` : formatNumber(re))));
}

export function formatEigenvalues(values) {
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
export function halfLifeWords(rate) {
  if (Math.abs(rate) < 1e-9) return "nothing fades";
  return `${rate < 0 ? "half is left after" : "doubles in"} ${formatNumber(Math.LN2 / Math.abs(rate), 2)} tokens`;
}

export function formatSetting(key, s) {
  const spec = SCHEMA.ranges[key] || SCHEMA.integers[key];
  if (key === "angle") return `${s.angle}°`;
  if (key === "morph") return `${Math.round(100 * s.morph)} %`;
  if (key === "duplicate" && s.duplicate === 0) return "off";
  return SCHEMA.integers[key] ? String(s[key]) : formatNumber(s[key], spec.step && spec.step < 0.01 ? 4 : 3);
}

export const nameOf = (s) => (s.preset === "own" ? "Own design" : SCHEMA.rows[s.preset].label);
export const isMorphing = (s) => Boolean(s.morph_to) && s.morph > 0;

export function titleOf(s) {
  if (!isMorphing(s)) return nameOf(s);
  return `${Math.round(100 * s.morph)} % of the way from ${nameOf(s)} to ${SCHEMA.rows[s.morph_to].label}`;
}

export const DESIGN_PARTS = [["structure", "A", "evolution"], ["scaling", "b", "scaling"], ["readout", "φ", "readout"], ["normalizer", "η", "normalizer"], ["beside", "+", "readout"]];

const kindWords = (key, kind) => SCHEMA.choices[key].options[kind].split(":")[0];

// The row that shares most kinds with a design, and the signs of those that differ.
export function nearestRow(s) {
  const differing = (name) => DESIGN_PARTS.filter(([key]) => SCHEMA.rows[name].kinds[key] !== s[key]);
  const nearest = Object.keys(SCHEMA.rows).reduce((best, name) => (differing(name).length < differing(best).length ? name : best));
  return { label: SCHEMA.rows[nearest].label, signs: differing(nearest).map(([, sign]) => sign) };
}

// The four kinds of a design of one's own, what stands beside φ, and the row that shares most of them.
function ownWords(s) {
  const { label, signs } = nearestRow(s);
  const shown = DESIGN_PARTS.filter(([key]) => key !== "beside" || s.beside !== "none");
  const parts = shown.map(([key, sign]) => `${sign} ${kindWords(key, s[key])}`).join(" · ");
  const gap = signs.length ? `which differs in ${signs.join(", ")}` : "which takes the key itself for z";
  return `Own design: ${parts}; nearest ${label}, ${gap}`;
}

// What is on show, always in one line; a row since Table 1 with what it changed.
export function designWords(s) {
  const since = s.preset !== "own" && SCHEMA.rows[s.preset].since && !isMorphing(s);
  const start = s.preset === "own" ? ownWords(s) : nameOf(s) + (since ? `: ${STOP_WORDS[s.preset]}` : "");
  return isMorphing(s) ? `${start}, ${Math.round(100 * s.morph)} % towards ${SCHEMA.rows[s.morph_to].label}` : start;
}

// What a card says between two designs: both kinds, with their shares.
export function mixWords(key, s) {
  if (!isMorphing(s)) return "";
  const there = SCHEMA.rows[s.morph_to].kinds[key];
  if (there === s[key]) return "";
  const share = Math.round(100 * s.morph);
  return `now ${100 - share} % ${kindWords(key, s[key])}, ${share} % ${kindWords(key, there)}`;
}

// What a row does to facts, in one line.
export const STOP_WORDS = {
  softmax_attention: "all facts that fit the question are averaged, old and new alike",
  linear_attention: "the past fits into one state, and the answer blurs",
  normalized_attention: "scores as they are, divided by a gate",
  gla: "each channel forgets at its own pace",
  mamba2: "newer facts speak louder than older ones",
  deltanet: "a new fact overwrites the old one under the same key",
  gated_deltanet: "a new fact overwrites the old one, and everything fades a little",
  mlstm: "facts fade, loud gates write, and a floor keeps rows from exploding",
  retnet: "linear attention without a divisor, and everything fades at one fixed pace",
  lightning_attention: "keys are written at full strength, and everything fades at one fixed pace",
  wall_attention: "softmax attention whose stored keys fade, every channel at a pace of its own",
  path_attention: "softmax attention in which every token turns the stored keys along a direction of its own",
  kda: "Gated DeltaNet with a pace of forgetting for each channel instead of one for all",
  gated_deltanet2: "KDA whose erasing has a gate for each channel, apart from how strongly it writes",
  rwkv7: "a delta rule that takes what it erases from the state before it fades, at a rate for each channel",
  mamba2_own: "Mamba-2 in which every token adds a fixed share of itself, past the state",
  forgetting_attention: "softmax attention whose weights fade, by a forget gate that acts after the exponential",
  alibi: "softmax attention whose weights fade at one fixed pace, whatever the words",
  softmax_sink: "softmax attention with one more place to put weight, so a row may keep silent",
  sliding_window: "softmax attention that reads the last few tokens only",
};
