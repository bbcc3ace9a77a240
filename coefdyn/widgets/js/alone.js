// One figure alone in a file: its state stands in the page, and this gives its module the model that it expects.

import { element } from "./dom.js";

const saved = JSON.parse(document.querySelector("#figure").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const shade = () => (document.documentElement.dataset.theme = dark.matches ? "dark" : "light");
const values = { ...saved.state, _in_page: true };
const told = new EventTarget();
const model = {
  get: (key) => values[key],
  set(key, value) {
    values[key] = value;
    told.dispatchEvent(new Event(`change:${key}`));
  },
  on: (event, call) => told.addEventListener(event, call),
  off: (event, call) => told.removeEventListener(event, call),
  save_changes() {},
};

shade();
dark.addEventListener("change", shade);
document.head.append(element("style", { text: saved.style }));
const address = URL.createObjectURL(new Blob([saved.module], { type: "text/javascript" }));
const figure = await import(address);
URL.revokeObjectURL(address);
figure.default.render({ model, el: document.querySelector("main") });
