// A trained model with heads switched off: its answers to the questions of one story, from kept runs.

import { element, setAttribute } from "./dom.js";
import { chart } from "./plot.js";
import { renderSmall } from "./small.js";
import { openCanvas, write } from "./theme.js";

const headName = ([layer, head]) => `layer ${layer}, head ${head}`;

// Entry m of a kept list is without the heads in m's bits.
function ablationResult({ questions, models }, s) {
  const kept = models[s.model];
  const [answers, shares, accuracy] = [kept.answers[s.off], kept.shares[s.off], kept.accuracy[s.off]];
  const right = answers.filter((answer, m) => answer === questions[m].right).length;
  return { s, questions, kept, answers, shares, accuracy, right, off: kept.heads.filter((_, m) => (s.off >> m) & 1) };
}

function ablationWords({ questions, answers, off, accuracy }) {
  const said = questions.map(({ who, right }, m) => `${who} in ? ${answers[m]}${answers[m] === right ? "" : ` (${right} is right)`}`);
  return `${off.length ? `Without ${off.map(headName).join("; ")}` : "As it is"}: ${said.join(", ")}. On new stories ${accuracy.toFixed(3)} of the answers are right.`;
}

// A button per head, layer by layer: pressed while the head is on.
function headButtons(app, models) {
  const box = element("div", { class: "cdx-switches", role: "group", "aria-label": "Heads that are on" });
  let shown = "";
  const build = ({ s, kept }) => {
    shown = s.model;
    const layers = [...new Set(kept.heads.map(([layer]) => layer))];
    const button = ([layer, head], m) => element("button", { type: "button", class: "cdx-chip", "data-cd": `head-${layer}-${head}`, "aria-label": headName([layer, head]),
      "data-bit": m, text: `head ${head}`, onclick: () => app.change({ off: app.settings.off ^ (1 << m) }) });
    const all = element("button", { type: "button", class: "cdx-button", "data-cd": "all-on", text: "All on", onclick: () => app.change({ off: 0 }) });
    box.replaceChildren(...layers.map((layer) => element("div", { class: "cdx-chips" }, element("span", { text: `layer ${layer}` }),
      ...kept.heads.map((place, m) => (place[0] === layer ? button(place, m) : null)))), all);
  };
  const update = (result) => {
    if (shown !== result.s.model) build(result);
    box.querySelectorAll("[data-bit]").forEach((node) => setAttribute(node, "aria-pressed", !((result.s.off >> Number(node.dataset.bit)) & 1)));
  };
  app.updaters.push(update);
  update({ s: app.settings, kept: models[app.settings.model] });
  return box;
}

function drawAblation(canvas, { questions, answers, shares }, theme) {
  const { ctx, width, height } = openCanvas(canvas);
  const seen = chart(ctx, theme, { x: 10, y: 54, w: width - 20, h: height - 76 }, [-0.5, questions.length - 0.5], [0, 1]);
  write(ctx, theme, "bars: probability of the right place", 10, 14);
  questions.forEach(({ who, right }, m) => {
    const wrong = answers[m] !== right;
    const style = { align: "center", color: wrong ? theme.negative : theme.ink, weight: 600 };
    seen.stem(m, shares[m], Math.min(54, seen.w / 8), wrong ? theme["negative-mid"] : theme.positive);
    write(ctx, theme, answers[m], seen.xAt(m), 32, { ...style, size: 13 });
    if (wrong) write(ctx, theme, `not ${right}`, seen.xAt(m), 46, style);
    seen.below(m, `${who} in ?`);
  });
}

export function renderAblation(page) {
  const kept = page.model.get("kept");
  const labels = Object.fromEntries(Object.entries(kept.models).map(([name, { label }]) => [name, label]));
  const stop = renderSmall({
    name: "ablation",
    title: "Heads switched on and off, and the answers to the story's questions",
    defaults: { model: Object.keys(kept.models)[0], off: 0 },
    controls: [{ key: "model", label: "Model", options: labels, patch: (model) => ({ model, off: 0 }) }],
    numbers: ["right-here", "right-on-new"],
    extra: (app) => headButtons(app, kept.models),
    compute: (s) => ablationResult(kept, s),
    show: ({ right, questions, accuracy }) => ({
      "right-here": ["right in this story", `${right} of ${questions.length}`, right],
      "right-on-new": ["right on new stories", accuracy.toFixed(3), accuracy],
    }),
    words: ablationWords,
    draw: drawAblation,
  }, page);
  page.el.querySelector("[data-cd=small]").append(element("p", { class: "cdx-hint", "data-cd": "story", text: kept.story }));
  return stop;
}
