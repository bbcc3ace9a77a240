// What Python asks of the page's arithmetic (coefdyn/widgets/interpreter.py). There is no page in here.

import { DESIGNS } from "./designs.js";
import { cleanText, parseFacts } from "./facts.js";
import { buildModel } from "./model.js";
import { factPlaces } from "./state.js";
import { readoutRange } from "./views.js";

globalThis.asked = {
  // Everything on show at complete settings.
  model(s, data) {
    const model = buildModel(s, data);
    return { ...model, data: null, range: readoutRange(model) };
  },
  // A text as it can be shown, with its number of tokens (0 where it has no word) and where to look at first.
  told(raw) {
    const text = cleanText(raw);
    return { text, ...(parseFacts(text).tokens.length ? factPlaces(text) : { length: 0 }) };
  },
  // The numbers of a smaller figure by their hooks.
  figure(name, s) {
    const { defaults, compute, show } = DESIGNS[name];
    return Object.fromEntries(Object.entries(show(compute({ ...defaults, ...s }))).map(([hook, [, , value]]) => [hook, value]));
  },
  // An answer as JSON: arrays of numbers as lists, and a number without an end as an object with one nameless entry.
  json: (answer) => JSON.stringify(answer, (_, x) => {
    if (ArrayBuffer.isView(x)) return Array.from(x);
    return typeof x === "number" && !Number.isFinite(x) ? { "": String(x) } : x;
  }),
};
