// A small way to write elements.

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

// "A_t" to A with a small t.
export function symbol(text, ingredient) {
  const [head, sub] = text.split("_");
  return element("span", { class: `cdx-symbol cdx-${ingredient}` }, head, ...(sub ? [element("sub", { text: sub })] : []));
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

let cdxCounter = 0;
export function freshId(stem) {
  cdxCounter += 1;
  return `cdx-${stem}-${cdxCounter}`;
}

const ALONG = { ArrowRight: (m) => m + 1, ArrowDown: (m) => m + 1, ArrowLeft: (m) => m - 1, ArrowUp: (m) => m - 1, Home: () => 0, End: (_, last) => last };

// A row of buttons as one stop of the Tab key: arrow keys, Home and End go along it, and press. The function that
// comes back is told which one is on show (-1: none).
export function oneTabStop(box, list) {
  box.addEventListener("keydown", (event) => {
    const buttons = list();
    const at = buttons.indexOf(document.activeElement);
    const next = ALONG[event.key] && at >= 0 && !event.altKey && !event.ctrlKey && !event.metaKey ? buttons[ALONG[event.key](at, buttons.length - 1)] : null;
    if (!next || next === buttons[at]) return;
    event.preventDefault();
    next.focus();
    next.click();
  });
  return (at) => list().forEach((button, m) => setAttribute(button, "tabindex", m === Math.max(at, 0) ? 0 : -1));
}

// What a slide does at keys, wherever the focus is, until the function that comes back is called. Keys of a button
// that leaves stay its own; F asks for the whole screen.
export function holdKeys(does) {
  const all = { f: () => document.documentElement.requestFullscreen?.().catch(() => {}), ...does };
  const hear = (event) => {
    const act = Object.hasOwn(all, event.key) ? all[event.key] : null;
    if (!act || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === " " && event.target.closest?.("[data-cd=slide-leave]")) return;
    event.preventDefault();
    event.stopPropagation();
    act(event);
  };
  document.addEventListener("keydown", hear, true);
  return () => document.removeEventListener("keydown", hear, true);
}
