// The equation with the chosen ingredients written in. A symbol lights its card and its picture; what changed flashes.

import { showCard } from "./controls.js";
import { element, setAttribute } from "./dom.js";
import { isGiven } from "./ingredients.js";
import { mixWords } from "./text.js";

const INGREDIENT_WORDS = {
  structure: {
    identity: ["", "no A: a stored key stays as it is"],
    scalar: ["∏ a|t", "the product of a t, numbers"],
    diagonal: ["∏ diag(a|t|)", "the product of diagonals"],
    householder: ["∏ (I − β|t| z|t|z|t|ᵀ)", "the product of I minus beta z z transposed"],
    scaled_householder: ["∏ a|t| (I − β|t| z|t|z|t|ᵀ)", "the product of a times I minus beta z z transposed"],
    erased_diagonal: ["∏ (I − β|t| z|t|z|t|ᵀ) diag(a|t|)", "the product of I minus beta z z transposed, times a diagonal"],
    erased_channels: ["∏ (I − z|t| (β|t|∘z|t|)ᵀ) diag(a|t|)", "the product of I minus z times beta z, by channel, transposed, times a diagonal"],
    diagonal_rank_one: ["∏ (diag(a|t|) − (β|t|∘z|t|) z|t|ᵀ)", "the product of a diagonal minus beta z, by channel, times z transposed"],
  },
  scaling: {
    one: ["", "no b: keys are written as they are"],
    inverse_sqrt_n: ["1/√n", "one over root n"],
    beta: ["β|j|/√n", "beta j over root n"],
    step: ["Δ|j", "delta j"],
    exponential: ["e^i_j|/√n", "the exponential of an input gate over root n"],
  },
  readout: {
    identity: ["", "no phi: the score is the coefficient"],
    exp: ["exp", "the exponential of"],
    relu: ["ReLU", "ReLU of"],
    softplus: ["softplus", "softplus of"],
    feature_elu: ["ψ", "features elu plus 1"],
    feature_relu: ["ψ", "features ReLU"],
    feature_softplus: ["ψ", "features softplus"],
    feature_exp: ["ψ", "features exp"],
  },
  beside: {
    none: ["", "nothing beside phi"],
    fade: ["e^c", "times the exponential of a decay, summed from j plus 1 to i"],
    own: ["+ D [i = j]", "plus an own term on the diagonal"],
    sink: [", η|i| + e^s", "the exponential of a sink is added to the row sum"],
    window: [", i − j < w", "only within a window"],
  },
  normalizer: {
    one: ["", "no eta: nothing is divided"],
    row_sum: ["Σ|j| α|ij", "divided by the row sum"],
    floored: ["max(|Σ|j| α|ij||, floor)", "divided by the row sum, with a floor"],
    geometric: ["base^i", "divided by a power of the position"],
    gate: ["e^w_x", "divided by an output gate"],
  },
};

// What stands where an ingredient does nothing.
const NOTHING = { structure: "I", scaling: "1", readout: "id", beside: "·", normalizer: "1" };
const PICTURE_OF = { evolution: "plane", scaling: "impulse", readout: "readout", normalizer: "matrix" };

// "β|t|/√n" to β with a small t: every other piece between bars is small and low, ^ lifts.
function typeset(text) {
  if (text.startsWith("max(")) return ["max(|", sub("Σ", "j"), " ", sub("α", "ij"), "|, floor)"];
  if (text.startsWith("e^i")) return ["e", element("sup", {}, "i", element("sub", { text: "j" })), "/√n"];
  if (text === "e^c") return ["e", element("sup", {}, "c", element("sub", { text: "j+1" }), " + … + c", element("sub", { text: "i" }))];
  if (text.endsWith("e^s")) return [", ", sub("η", "i"), " + e", element("sup", { text: "s" })];
  if (text.startsWith("e^w")) return ["e", element("sup", { text: "wᵀxᵢ" })];
  if (text === "base^i") return ["base", element("sup", { text: "i" })];
  return text.split("|").map((piece, m) => (m % 2 ? element("sub", { text: piece }) : piece));
}

const sub = (head, low) => element("span", {}, head, element("sub", { text: low }));

// One ingredient of the equation: a button that lights its card.
function equationPart(app, key, ingredient, fallback) {
  const node = element("button", { type: "button", class: `cdx-symbol cdx-part cdx-${ingredient}`, "data-cd": `symbol-${key === "beside" ? key : ingredient}`,
    "data-ingredient": ingredient, onclick: () => {
      showCard(app, ingredient);
      light(app, ingredient, true);
    } });
  for (const [event, on] of [["pointerenter", true], ["pointerleave", false], ["focus", true], ["blur", false]]) {
    node.addEventListener(event, () => light(app, ingredient, on));
  }
  let shown = null;
  app.updaters.push(({ settings: s }) => {
    const mixed = !isGiven(app.data) && mixWords(key, s) !== "";
    const kind = isGiven(app.data) && (ingredient === "evolution" || ingredient === "scaling") ? "given" : s[key];
    const name = mixed ? `mixed ${s.morph_to}` : kind;
    if (shown === name) return;
    const [text, words] = mixed || kind === "given" ? [fallback, "in general"] : INGREDIENT_WORDS[key][kind];
    node.replaceChildren(...typeset(text || NOTHING[key]));
    node.hidden = key === "beside" && text === "";
    setAttribute(node, "data-empty", text === "");
    setAttribute(node, "title", words);
    if (shown !== null) flash(node);
    shown = name;
  });
  return node;
}

function light(app, ingredient, on) {
  for (const node of app.root.querySelectorAll(`.cdx-card-${ingredient}, .cdx-figure-${PICTURE_OF[ingredient]}, .cdx-tab[data-cd=tab-${ingredient}]`)) {
    node.classList.toggle("cdx-lit", on);
    node.style.setProperty("--cdx-light", `var(--cdx-${ingredient})`);
  }
}

function flash(node) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches || !node.animate) return;
  node.animate([{ backgroundColor: "rgb(255 214 90 / 0.85)" }, { backgroundColor: "transparent" }], { duration: 900, easing: "ease-out" });
}

export function makeEquation(app) {
  const plain = (...parts) => element("span", { class: "cdx-symbol" }, ...parts);
  const low = (text) => element("sub", { text });
  const a = equationPart(app, "structure", "evolution", "A|i| ⋯ A|j+1");
  const b = equationPart(app, "scaling", "scaling", "b|j");
  const phi = equationPart(app, "readout", "readout", "φ");
  const eta = equationPart(app, "normalizer", "normalizer", "η|i");
  const beside = equationPart(app, "beside", "readout", "…");
  const close = plain(")");
  const first = element("span", { class: "cdx-formula" }, plain("α", low("ij")), " = ", phi, plain("( "),
    plain("q", low("i"), element("sup", { text: "⊤" })), " ", a, " ", b, " ", plain("k", low("j")), " ", close, " ", beside);
  const second = element("span", { class: "cdx-formula" }, plain("y", low("i")), " = ", "Σ", low("j ≤ i"), " ",
    plain("α", low("ij")), " ", plain("v", low("j")), " ∕ ", eta);
  return element("div", { class: "cdx-equation", role: "group", "data-cd": "equation",
    "aria-label": "alpha i j equals phi of q i transposed times A i down to A j plus 1 times b j times k j; y i equals the sum over j up to i of alpha i j times v j, divided by eta i" }, first, second);
}
