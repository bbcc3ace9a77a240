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
