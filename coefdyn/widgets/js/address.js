// The settings in the page's address. Only in a page of the book: JupyterLab's address is its own.

import { setAttribute } from "./dom.js";
import { addressPrefix, decodeSettings, encodeSettings } from "./state.js";

// What every explorer of the page shows at this step of the browser's history, by its prefix. The step keeps it, so
// that Back undoes the change of one explorer although the address speaks of another.
let onShow = {};

export function listenToAddress(app, name) {
  if (app.widget.get("_in_page") !== true) return;
  setAttribute(app.root, "data-name", name);
  const all = [...document.querySelectorAll("[data-cd=explorer]")];
  const first = app.root === all.find((root) => root.dataset.name === "");
  app.prefix = addressPrefix(name || (first ? "" : String(all.indexOf(app.root) + 1)));
  const read = () => {
    const { hash } = window.location;
    const prefix = hash.startsWith(app.prefix) ? app.prefix : undefined;
    const kept = window.history.state?.explorers?.[app.prefix];
    if (prefix || kept !== undefined) {
      const { settings, notes } = decodeSettings(prefix ? hash.slice(prefix.length) : kept, app.home);
      // What the first figure has no place for, the lab shows.
      if (app.first && prefix && (settings.panel !== "none" || settings.tokens !== "facts")) settings.all = true;
      if (prefix) app.skip?.(); // a link has set what its reader came for
      app.adopt(settings, notes.length ? [`The address was not all readable: ${notes.join("; ")}`] : []);
    }
    onShow[app.prefix] = encodeSettings(app.settings, app.home);
    keepOnShow(app.prefix);
    return prefix !== undefined;
  };
  const go = () => {
    app.wroteAddress = -Infinity;
    if (read()) bringIntoView(app.root);
  };
  // Once at the start, and once more when the equations above have found their height.
  if (read()) [0, 900].forEach((wait) => setTimeout(() => bringIntoView(app.root), wait));
  window.addEventListener("hashchange", go);
  app.cleanups.push(() => window.removeEventListener("hashchange", go));
  app.onCommit.push(() => writeAddress(app));
}

// Every step of the history knows what it shows, also the first one and one that a link of the text has made: Back
// from there finds it.
function keepOnShow(prefix) {
  const { state } = window.history;
  try {
    window.history.replaceState({ ...state, explorers: { ...onShow, ...state?.explorers, [prefix]: onShow[prefix] } }, "");
  } catch {
    // A page without a history, such as one in a sandbox, still shows its figures.
  }
}

// A link in the text may be far from the figure it speaks of.
function bringIntoView(root) {
  const box = root.getBoundingClientRect();
  if (box.top >= 0 && box.top < window.innerHeight * 0.6) return;
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  root.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
}

// Changes that follow each other at once, such as a held arrow key, are one step of the browser's history.
const ADDRESS_PAUSE_MS = 600;

function writeAddress(app) {
  const encoded = encodeSettings(app.settings, app.home);
  if (app.present || encoded === onShow[app.prefix]) return; // a slide has an address of its own
  const { history, location } = window;
  const now = performance.now();
  const goesOn = now - app.wroteAddress < ADDRESS_PAUSE_MS;
  app.wroteAddress = now;
  const before = onShow;
  onShow = { ...onShow, [app.prefix]: encoded };
  try {
    if (!goesOn) history.replaceState({ ...history.state, explorers: before }, "");
    history[goesOn ? "replaceState" : "pushState"]({ explorers: onShow }, "", app.prefix + encoded);
  } catch {
    location.hash = app.prefix + encoded;
  }
}
