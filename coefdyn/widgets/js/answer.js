// What is told, what is asked, and what the mixer answers: y_i in words.

import { element, freshId, setAttribute, setText } from "./dom.js";
import { cleanText, FACT_LIMITS, parseFacts } from "./facts.js";
import { isGiven } from "./ingredients.js";
import { applies, factPlaces } from "./state.js";
import { formatNumber } from "./text.js";
import { tokensOfFacts } from "./tokens.js";
import SCHEMA from "../schema.json" with { type: "json" };

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

// Bars from 0 to 1 whatever is said, so that two designs can be compared, with what was said before the last change
// as a mark. `plain` for the first figure, where words are no buttons.
export function makeAnswer(app, plain = false) {
  const words = element("p", { class: plain ? "cdx-sr" : "cdx-said", "data-cd": "answer-words" });
  const asked = plain ? element("p", { class: "cdx-said", "aria-hidden": "true" }) : null; // the bars say the rest
  const slots = Array.from({ length: ANSWER_ROWS }, (_, m) => {
    const [word, bar, value] = [element("bdi", {}, "–"), element("i", {}), element("b", {})];
    const ghost = element("s", { "aria-hidden": "true" });
    const parts = [word, element("span", { class: "cdx-track" }, bar, ghost), value];
    const node = plain ? element("div", { class: "cdx-answer" }, ...parts)
      : element("button", { type: "button", class: "cdx-answer", "data-cd": `answer-${m}`, onclick: () => app.change({ column: node.column + 1 }, true) }, ...parts);
    return { node, word, bar, ghost, value };
  });
  const before = answerBefore(app);
  app.updaters.push((model) => {
    setText(words, answerWords(model));
    if (plain) setText(asked, askedWords(model));
    const shown = loudest(model.answer);
    const old = before(model);
    slots.forEach(({ node, word, bar, ghost, value }, m) => {
      node.hidden = m >= Math.max(shown.length, 1);
      if (m >= shown.length) return;
      const [name, y] = shown[m];
      setText(word, name);
      setText(value, formatShare(y));
      setAttribute(node, "data-value", y);
      setAttribute(bar, "data-negative", y < 0);
      setAttribute(bar, "data-over", !(Math.abs(y) <= 1.0005));
      bar.style.width = barWidth(y);
      ghost.hidden = !old.has(name);
      ghost.style.left = barWidth(old.get(name));
      if (plain) return setAttribute(node, "data-cd", `answer-${name}`);
      setAttribute(node, "title", `Look at ${name}`);
      node.column = model.g.values.lastIndexOf(name, model.row);
      setAttribute(node, "aria-pressed", node.column === model.column);
    });
  });
  const axis = element("div", { class: "cdx-axis", "aria-hidden": "true" }, ...["0", "½", "1"].map((text) => element("span", { text })));
  return element("figure", { class: "cdx-figure cdx-figure-answer", "data-cd": "answer" },
    element("figcaption", { class: "cdx-sr" }, "The answer"), words, asked, element("div", { class: "cdx-answers" }, ...slots.map(({ node }) => node), axis));
}

const barWidth = (y) => `${Number.isFinite(y) ? Math.round(1000 * Math.min(Math.abs(y), 1)) / 10 : 100}%`;

// The answer to the same question before the change that is under way, or that was the last.
function answerBefore(app) {
  const none = new Map();
  let [kept, old, fresh] = [null, null, false];
  const about = ({ settings: s, row }) => [s.tokens, s.text, s.length, s.head, row].join("|");
  return (model) => {
    const now = { answer: new Map(model.answer), about: about(model), said: JSON.stringify(model.answer) };
    if (fresh && kept && now.said !== kept.said) [old, fresh] = [kept, false];
    if (app.committed || !kept) [kept, fresh] = [now, true];
    return old && old.about === now.about && old.said !== now.said ? old.answer : none;
  };
}

// A text of the reader's own; without a word in it the book's example stands in.
function writeText(app, text, done) {
  const clean = cleanText(text);
  const places = factPlaces(parseFacts(clean).tokens.length ? clean : SCHEMA.texts.text.default);
  app.change({ text, duplicate: 0, points: {}, ...places }, done);
}

// The box for the reader's own words, and one button for each thing that can be asked.
export function textControl(key, spec, app, hook = "control") {
  const id = freshId(key);
  const input = element("input", { id, type: "text", spellcheck: "false", autocomplete: "off", dir: "auto", "data-cd": `${hook}-${key}` });
  const write = (text, done) => writeText(app, text, done);
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

// What can be asked for, and what is.
function questionsOf(text, most) {
  const { tokens } = parseFacts(text);
  return { subjects: [...new Set(tokens.map((token) => token.key).filter((word) => word !== null))].slice(0, most), asked: tokens.at(-1)?.query ?? null };
}

export const askFor = (text, word) => `${text.replace(LAST_QUESTION, "")}; ask: ${word}`;

function offerQuestions(box, s, write) {
  const { subjects, asked } = questionsOf(s.text, 6);
  const wanted = JSON.stringify([subjects, asked]);
  if (box.shown === wanted) return;
  box.shown = wanted;
  box.replaceChildren(...subjects.map((word) => element("button", { type: "button", class: "cdx-button", text: `ask: ${word}`, dir: "auto",
    "aria-pressed": word === asked, onclick: () => write(askFor(s.text, word), true) })));
}

// What is told as sentences, and what is asked for as a choice beside them.
export function makeTold(app) {
  const [told, asked] = [freshId("told"), freshId("asked")];
  const input = element("textarea", { id: told, rows: 1, spellcheck: "false", autocomplete: "off", dir: "auto", "data-cd": "control-text" });
  const select = element("select", { id: asked, "data-cd": "control-asked", onchange: () => writeText(app, askFor(app.settings.text, select.value), true) });
  const node = element("div", { class: "cdx-told", "data-locks": true },
    element("div", {}, element("label", { for: told, text: "Tell it something" }), input),
    element("div", {}, element("label", { for: asked, text: "then ask for" }), select));
  input.addEventListener("input", () => {
    const { subjects } = questionsOf(cleanText(input.value), Infinity);
    const goesOn = subjects.includes(select.value) && !/[?\uff1f\u061f]\W*$|\bask\b/iu.test(input.value);
    writeText(app, goesOn ? askFor(input.value, select.value) : input.value, false);
  });
  const done = () => {
    app.commit();
    input.value = sentences(app.settings.text);
  };
  input.addEventListener("change", done);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault(); // sentences have no lines
    done();
  });
  app.updaters.push(({ settings: s }) => {
    node.hidden = s.tokens !== "facts";
    if (document.activeElement !== input && input.value !== sentences(s.text)) input.value = sentences(s.text);
    fillQuestions(select, questionsOf(s.text, FACT_LIMITS.words));
  });
  return node;
}

function fillQuestions(select, { subjects, asked }) {
  const words = subjects.includes(asked) || asked === null ? subjects : [...subjects, asked];
  if ([...select.options].map(({ value }) => value).join() !== words.join()) select.replaceChildren(...words.map((text) => element("option", { value: text, text })));
  if (select.value !== asked) select.value = asked;
}

// "the cat is black; ask: cat" to "The cat is black."
function sentences(text) {
  const parts = text.replace(LAST_QUESTION, "").split(/;\s*/u).filter((part) => part !== "");
  return parts.map((part) => part.charAt(0).toUpperCase() + part.slice(1) + (/[\p{L}\p{N}]$/u.test(part) ? "." : "")).join(" ");
}
