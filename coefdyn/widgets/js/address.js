// The settings in the page's address. Only in a page of the book: JupyterLab's address is its own.

function listenToAddress(app, name) {
  const inPage = app.widget.get("_in_page") === true;
  if (!inPage) return;
  const prefix = addressPrefix(name);
  const first = document.querySelectorAll("[data-cd=explorer]")[0] === app.root;
  const read = () => {
    const hash = window.location.hash;
    const mine = hash.startsWith(prefix) ? prefix : first && hash.startsWith(addressPrefix("")) ? addressPrefix("") : null;
    if (mine === null) return false;
    const { settings, notes } = decodeSettings(hash.slice(mine.length));
    app.adopt(settings, notes.length ? [`The address was not all readable: ${notes.join("; ")}`] : []);
    return true;
  };
  const initial = app.settings;
  const go = () => {
    const found = read();
    if (found) bringIntoView(app.root);
    if (!found && !window.location.hash.startsWith("#cd") && app.wroteAddress) app.adopt(initial);
  };
  // Once at the start, and once more when the equations above have found their height.
  if (read()) [0, 900].forEach((wait) => setTimeout(() => bringIntoView(app.root), wait));
  window.addEventListener("hashchange", go);
  app.cleanups.push(() => window.removeEventListener("hashchange", go));
  app.onCommit.push(() => writeAddress(app, prefix));
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

function writeAddress(app, prefix) {
  const hash = prefix + encodeSettings(app.settings);
  if (hash === window.location.hash) return;
  const now = performance.now();
  const goesOn = now - (app.wroteAddress || -Infinity) < ADDRESS_PAUSE_MS;
  app.wroteAddress = now;
  try {
    window.history[goesOn ? "replaceState" : "pushState"](null, "", hash);
  } catch {
    window.location.hash = hash;
  }
}
