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

  function decodeBuffers(state, buffers) {
    for (const { path, data, encoding } of buffers || []) {
      if (encoding !== "base64") continue;
      const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
      const parent = path.slice(0, -1).reduce((node, key) => node[key], state);
      parent[path.at(-1)] = new DataView(bytes.buffer);
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

  async function show(script, records) {
    const { model_id: id } = JSON.parse(script.textContent);
    const record = records[id];
    if (!record || !record.state || !record.state._esm) return;
    decodeBuffers(record.state, record.buffers);
    addStyle(record.state._anywidget_id || id, record.state._css);
    const el = document.createElement("div");
    el.className = "coefdyn-widget";
    script.after(el);
    const still = script.previousElementSibling;
    try {
      const module = await importText(record.state._esm);
      const widget = typeof module.default === "function" ? await module.default() : module.default;
      await widget.render({ model: makeModel(record.state), el });
    } catch (error) {
      el.setAttribute("role", "alert");
      if (still?.classList.contains("cd-still")) still.classList.add("cd-needed");
      el.textContent = `This interactive figure could not start (${error.message}).`;
      console.error(error);
    }
  }

  async function start() {
    const records = {};
    for (const script of document.querySelectorAll(`script[type="${STATE}"]`)) {
      Object.assign(records, JSON.parse(script.textContent).state);
    }
    followReferences(records);
    for (const script of document.querySelectorAll(`script[type="${VIEW}"]`)) await show(script, records);
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
