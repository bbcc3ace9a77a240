// What is told, what is asked, and what the mixer answers: y_i in words.

import { element, freshId, setAttribute, setText } from "./dom.js";
import { cleanText, parseFacts } from "./facts.js";
import { isGiven } from "./ingredients.js";
import { applies, factPlaces } from "./state.js";
import { formatNumber } from "./text.js";
import { tokensOfFacts } from "./tokens.js";

const ANSWER_ROWS = 5;

export function formatShare(x) {
  if (!Number.isFinite(x)) return x < 0 ? "−∞" : "∞";
  return Math.abs(x) < 100 ? x.toFixed(2).replace(/^-0\.00$/, "0.00").replace("-", "−") : formatNumber(x);
}

// The words with the largest part in y_i, in the order of the text.
function loudest(answer) {
  const size = ([, y]) => (Number.isNaN(y) ? Infinity : Math.abs(y));
  const kept = new Set([...answer].sort((a, b) => size(b) - size(a)).slice(0, ANSWER_ROWS));
  return answer.filter((pair) => kept.has(pair));
}

function askedWords({ g, data, settings: s, row }) {
  if (isGiven(data)) return `Output ${row + 1}, at “${g.words[row]}”, holds`;
  if (s.tokens !== "facts") return s.tokens === "repeating" ? `Output ${row + 1}, the letter ${g.words[row]}, holds` : `Output ${row + 1} holds`;
  const asked = tokensOfFacts(s)[row].query;
  return asked === null ? `“${g.words[row]}” at ${row + 1} asks for nothing yet` : `Asked for “${asked}”, this mixer answers`;
}

export function answerWords(model) {
  const heard = model.answer.filter(([, y]) => Math.abs(y) >= 0.005 || Number.isNaN(y)).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const parts = heard.slice(0, 3).map(([word, y]) => `${model.settings.tokens === "random" && !isGiven(model.data) ? "token " : ""}${word} ${formatShare(y)}`);
  return `${askedWords(model)}: ${parts.join(", ") || "nothing"}${heard.length > 3 ? ", …" : "."}`;
}

export function makeAnswer(app) {
  const words = element("p", { class: "cdx-said", "data-cd": "answer-words" });
  const slots = Array.from({ length: ANSWER_ROWS }, (_, m) => {
    const [word, bar, value] = [element("bdi", {}, "–"), element("i", {}), element("b", {})];
    const node = element("button", { type: "button", class: "cdx-answer", "data-cd": `answer-${m}`, onclick: () => app.change({ column: node.column + 1 }, true) },
      word, element("span", { class: "cdx-track" }, bar), value);
    return { node, word, bar, value };
  });
  app.updaters.push((model) => {
    setText(words, answerWords(model));
    const shown = loudest(model.answer);
    const top = Math.max(...shown.map(([, y]) => (Number.isFinite(y) ? Math.abs(y) : 0)), 1e-12);
    slots.forEach(({ node, word, bar, value }, m) => {
      node.hidden = m >= Math.max(shown.length, 1);
      if (m >= shown.length) return;
      const [name, y] = shown[m];
      setText(word, name);
      setText(value, formatShare(y));
      setAttribute(node, "data-value", y);
      setAttribute(node, "title", `Look at ${name}`);
      setAttribute(bar, "data-negative", y < 0);
      bar.style.width = `${Number.isFinite(y) ? Math.round((1000 * Math.abs(y)) / top) / 10 : 100}%`;
      node.column = model.g.values.lastIndexOf(name, model.row);
      setAttribute(node, "aria-pressed", node.column === model.column);
    });
  });
  return element("figure", { class: "cdx-figure cdx-figure-answer", "data-cd": "answer" },
    element("figcaption", { class: "cdx-sr" }, "The answer"), words, element("div", { class: "cdx-answers" }, ...slots.map(({ node }) => node)));
}

// The box for the reader's own words, and one button for each thing that can be asked.
export function textControl(key, spec, app, hook = "control") {
  const id = freshId(key);
  const input = element("input", { id, type: "text", spellcheck: "false", autocomplete: "off", dir: "auto", "data-cd": `${hook}-${key}` });
  const write = (text, done) => {
    const clean = cleanText(text);
    const places = parseFacts(clean).tokens.length ? factPlaces(clean) : factPlaces(spec.default);
    app.change({ text, duplicate: 0, points: {}, ...places }, done);
  };
  input.addEventListener("input", () => write(input.value, false));
  input.addEventListener("change", () => {
    app.commit();
    input.value = app.settings.text;
  });
  const asks = element("span", { class: "cdx-asks", role: "group", "aria-label": "Ask for" });
  const node = element("div", { class: "cdx-control cdx-text" }, element("label", { for: id, text: spec.label }), input, asks);
  return { node, update(s) {
    node.hidden = !applies(key, s);
    if (document.activeElement !== input && input.value !== s[key]) input.value = s[key];
    if (!node.hidden) offerQuestions(asks, s, write);
  } };
}

const LAST_QUESTION = /[;.,!?\s]*\bask:?\s[^;.!?,]*$/iu;

function offerQuestions(box, s, write) {
  const { tokens } = parseFacts(s.text);
  const subjects = [...new Set(tokens.map((token) => token.key).filter((word) => word !== null))].slice(0, 6);
  const asked = tokens.at(-1).query;
  const wanted = JSON.stringify([subjects, asked]);
  if (box.shown === wanted) return;
  box.shown = wanted;
  box.replaceChildren(...subjects.map((word) => element("button", { type: "button", class: "cdx-button", text: `ask: ${word}`, dir: "auto",
    "aria-pressed": word === asked, onclick: () => write(`${s.text.replace(LAST_QUESTION, "")}; ask: ${word}`, true) })));
}
