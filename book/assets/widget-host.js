// Brings the book's widgets to life in the static page: no kernel, no other host, no library.
// The page carries each widget's state as JSON; this script imports its module and calls render.

(() => {
  const STATE = "application/vnd.jupyter.widget-state+json";
  const VIEW = "application/vnd.jupyter.widget-view+json";
  const modules = new Map();

  // Modules come as text; equal texts are loaded once.
  function importText(text) {
    if (!modules.has(text)) {
      const url = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
      modules.set(text, import(url).finally(() => URL.revokeObjectURL(url)));
    }
    return modules.get(text);
  }

  function bytesOf(base64) {
    const text = atob(base64);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    return bytes;
  }

  function opened(packed) {
    const stream = new Blob([bytesOf(packed)]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream);
  }

  const NUMBERS = { f4: Float32Array, f8: Float64Array };

  // Nested lists of numbers, as the notebook has them.
  function listOf({ "@numbers": kind, shape, at }, store) {
    const size = NUMBERS[kind].BYTES_PER_ELEMENT * shape.reduce((a, b) => a * b);
    let list = Array.from(new NUMBERS[kind](store.slice(at, at + size)));
    for (const width of shape.slice(1).reverse()) {
      list = Array.from({ length: list.length / width }, (_, i) => list.slice(i * width, (i + 1) * width));
    }
    return list;
  }

  // The saved state of a page; how it is packed stands in book/tools/figure_states.py.
  async function savedIn(script) {
    const saved = JSON.parse(script.textContent);
    if (!saved.packed) return saved.state;
    const { text, bytes } = saved.packed;
    const store = bytes ? await opened(bytes).arrayBuffer() : null;
    const revive = (key, value) => {
      if (value?.["@numbers"]) return listOf(value, store);
      return value?.["@bytes"] === undefined ? value : store.slice(value.at, value.at + value["@bytes"]);
    };
    return JSON.parse(await opened(text).text(), revive).state;
  }

  function decodeBuffers(state, buffers) {
    for (const { path, data, encoding } of buffers || []) {
      if (encoding !== "base64") continue;
      const buffer = typeof data === "string" ? bytesOf(data).buffer : data;
      const parent = path.slice(0, -1).reduce((node, key) => node[key], state);
      parent[path.at(-1)] = new DataView(buffer);
    }
  }

  // What an anywidget module expects of a model: get, set, on, off, save_changes.
  function makeModel(state) {
    const values = { ...state, _in_page: true };
    const listeners = new Map();
    const tell = (event) => (listeners.get(event) || []).forEach((call) => call());
    return {
      get: (key) => values[key],
      set(key, value) {
        values[key] = value;
        tell(`change:${key}`);
        tell("change");
      },
      on: (event, call) => listeners.set(event, [...(listeners.get(event) || []), call]),
      off: (event, call) => listeners.set(event, (listeners.get(event) || []).filter((kept) => call && kept !== call)),
      save_changes() {},
      send() {},
    };
  }

  function addStyle(key, css) {
    if (!css || document.querySelector(`style[data-widget="${key}"]`)) return;
    const style = document.createElement("style");
    style.dataset.widget = key;
    style.textContent = css;
    document.head.append(style);
  }

  // A page carries each module once; the other figures name the one that has it.
  function followReferences(records) {
    for (const { state } of Object.values(records)) {
      for (const part of ["_esm", "_css"]) {
        const place = /^@same:(\w+)$/.exec(state?.[part] ?? "");
        if (place) state[part] = records[place[1]].state[part];
      }
    }
  }

  // Where a chapter's column leaves room on its right, a figure with controls beside it takes up to 1090 pixels.
  const WIDEST = 1090;
  const BESIDE = 600; // a narrower column is a phone's: it has no room to leave

  function widthIn(column) {
    const room = document.documentElement.clientWidth - column.left - 24;
    return column.width >= BESIDE ? Math.max(column.width, Math.min(WIDEST, room)) : column.width;
  }

  // A full explorer has its controls beside its pictures.
  const SIDE = ["impulse", "plane", "readout"];

  function isFull({ parts, first }) {
    const has = (name) => Array.isArray(parts) && parts.includes(name);
    return !first && has("matrix") && has("controls") && SIDE.some(has);
  }

  function fit(el, column = el.parentElement.getBoundingClientRect()) {
    if (el.dataset.cdFull !== "true") {
      el.dataset.cdBreakout = "false";
      return;
    }
    const wide = widthIn(column);
    el.style.width = wide > column.width ? `${Math.floor(wide)}px` : "";
    el.dataset.cdBreakout = String(wide > column.width);
    const bar = document.querySelector(".bd-header-article, .header-article");
    const pinned = bar && ["sticky", "fixed"].includes(getComputedStyle(bar).position) ? bar.offsetHeight : 0;
    el.style.setProperty("--cdx-top", `${pinned}px`);
  }

  // The page's own table of contents stands where a wide figure goes: it makes room while the figure is in sight.
  const inSight = new Set();
  let hurry = () => {}; // ends the wait of the others, see `leisure`
  const makeRoom = () => {
    const wide = [...inSight].some((el) => el.dataset.cdBreakout === "true");
    document.documentElement.toggleAttribute("data-cd-wide", wide);
  };
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) inSight[isIntersecting ? "add" : "delete"](target);
    makeRoom();
    hurry();
  });

  function keepFitting(el) {
    fit(el);
    let width = 0;
    new ResizeObserver(([{ contentRect }]) => {
      if (contentRect.width === width) return;
      width = contentRect.width;
      fit(el);
      makeRoom();
    }).observe(el.parentElement);
  }

  // Places are made for all figures at once, with their usual heights, so that the text below is not pushed away later.
  const usualHeight = (width) => (width >= 992 ? 930 : width >= 640 ? 1260 : 2320);

  function reserve({ script, id, record, column }) {
    const el = document.createElement("div");
    el.className = "coefdyn-widget";
    el.dataset.cdFull = String(isFull(record.state));
    if (isFull(record.state)) el.style.minHeight = `${usualHeight(widthIn(column))}px`;
    // A first figure that becomes the lab needs the lab's room, and gives it back.
    el.addEventListener("cdx-layout", ({ target }) => {
      el.dataset.cdFull = String(target.dataset.layout === "full");
      el.style.width = "";
      fit(el);
      makeRoom();
    });
    script.after(el);
    watcher.observe(el);
    if (column.top < innerHeight) inSight.add(el); // until the page is drawn and the watcher knows
    return { id, record, el, column, still: script.previousElementSibling };
  }

  // The page answers a hand between two tasks.
  const nextTask = () => new Promise((done) => setTimeout(done));

  // Figures out of sight wait until the page has nothing else to do (true), or until one comes into sight.
  const leisure = () => new Promise((done) => {
    hurry = () => done(false);
    (window.requestIdleCallback ?? setTimeout)(() => done(true));
  });

  async function show({ id, record, el, column, still }) {
    decodeBuffers(record.state, record.buffers);
    fit(el, column);
    addStyle(record.state._anywidget_id || id, record.state._css);
    try {
      const module = await importText(record.state._esm);
      const widget = typeof module.default === "function" ? await module.default() : module.default;
      await widget.render({ model: makeModel(record.state), el });
      await nextTask();
      keepFitting(el);
    } catch (error) {
      refuse(el, still, error);
    }
    el.style.minHeight = "";
  }

  function refuse(el, still, error) {
    el.setAttribute("role", "alert");
    if (still?.classList.contains("cd-still")) still.classList.add("cd-needed");
    el.textContent = `This interactive figure could not start (${error.message}).`;
    console.error(error);
  }

  async function start() {
    const views = [...document.querySelectorAll(`script[type="${VIEW}"]`)];
    const records = {};
    try {
      for (const script of document.querySelectorAll(`script[type="${STATE}"]`)) {
        Object.assign(records, await savedIn(script));
      }
    } catch (error) {
      for (const script of views) {
        const still = script.previousElementSibling;
        script.after(document.createElement("div"));
        refuse(script.nextElementSibling, still, error);
      }
      return;
    }
    followReferences(records);
    const found = views.map((script) => {
      const { model_id: id } = JSON.parse(script.textContent);
      return { script, id, record: records[id] };
    }).filter(({ record }) => record?.state?._esm);
    importText(found[0]?.record.state._esm ?? "").catch(() => {}); // unpacked while the page is laid out
    for (const place of found) place.column = place.script.parentElement.getBoundingClientRect();
    const places = found.map(reserve);
    while (places.length) {
      const seen = places.findIndex(({ el }) => inSight.has(el));
      if (seen >= 0) await nextTask();
      else if (!(await leisure())) continue;
      await show(...places.splice(Math.max(seen, 0), 1));
    }
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
