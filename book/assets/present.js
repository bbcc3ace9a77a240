/* Present: a chapter, or the demonstrations of the landing, as slides; on another page its first explorer, or the figure that trains, as one
   slide (`coefdyn/widgets/js/slide.js`). The slides stand in the page as JSON (book/tools/deck.py) and show parts of the page itself: what is
   read is copied, figures are taken as they are. An address such as #deck=3 opens the third slide. */
(() => {
  "use strict";

  const button = document.querySelector("[data-cd=present]");
  const held = document.querySelector("[data-cd=deck]");
  const root = document.documentElement;
  if (!button) return;
  const article = document.querySelector(".bd-article");
  const isLanding = Boolean(document.querySelector(".cd-lead")); // its button shows the figure, its slides have an address
  const rootsOf = (node) => [...node.querySelectorAll("[data-cd=explorer]:not(.cdx-unready), [data-cd=small]")];
  const tell = (figure, detail) => figure?.dispatchEvent(new CustomEvent("cdx-present", { detail }));

  function make(tag, className, ...children) {
    const node = Object.assign(document.createElement(tag), { className });
    node.append(...children);
    return node;
  }

  /* ---- one figure */
  const figure = () => document.querySelector("[data-cd=explorer]:not(.cdx-unready)") ?? document.querySelector("[data-cd=trainer]");

  function leaveFigure() {
    if (!root.hasAttribute("data-present")) return;
    root.removeAttribute("data-present");
    tell(figure(), null);
    end();
  }

  function presentFigure() {
    root.setAttribute("data-present", "");
    tell(figure(), { leave: leaveFigure });
  }

  function end() {
    if (document.fullscreenElement) document.exitFullscreen();
    button.focus({ preventScroll: true });
  }

  /* ---- slides */
  const { slides: told = [], licence = "" } = held ? JSON.parse(held.textContent) : {};
  let deck = null; // what is on show: its slides, the place among them, and the figure in hand

  const places = () => [...document.querySelectorAll(".coefdyn-widget")];
  const record = (n) => article.querySelectorAll(".cd-record")[n];
  const partOf = (slide) => slide.show?.map((selector) => article.querySelectorAll(selector)).find((all) => all.length) ?? [];
  const anchorOf = (slide) => partOf(slide)[0] ?? record(slide.record);

  /** What lies between the prediction and its resolution has the order of the page. */
  function inOrder() {
    const inMiddle = ({ kind }) => ["picture", "figure", "equation"].includes(kind);
    const isBefore = (one, other) => anchorOf(one).compareDocumentPosition(anchorOf(other)) & Node.DOCUMENT_POSITION_FOLLOWING;
    const middle = told.filter(inMiddle);
    if (!isLanding) middle.sort((one, other) => (isBefore(one, other) ? -1 : 1));
    return told.map((slide) => (inMiddle(slide) ? middle.shift() : slide));
  }

  /** A copy to look at: its names and marks of the page's own stay there. */
  function copy(node) {
    const box = make("div", "", node.cloneNode(true));
    box.querySelectorAll(".headerlink, .cd-answered, button").forEach((one) => one.remove());
    box.querySelectorAll("[id]").forEach((one) => one.removeAttribute("id"));
    box.firstElementChild?.classList.remove("cd-record");
    return box.firstChild ?? "";
  }

  const NAMES = { prediction: "a prediction", resolution: "the prediction again", answer: "the chapter in a sentence" };
  const nameOf = (slide) => slide && (NAMES[slide.kind] ?? deck.sections[deck.all.indexOf(slide)].querySelector("h2").textContent);
  const titleOf = (slide) => slide.title ?? anchorOf(slide)?.closest("section")?.querySelector("h1, h2, h3") ?? article.querySelector("h1");

  /** The question of a chapter, or else its goal: the words behind that bold word. */
  function asked() {
    const bold = [...article.querySelectorAll(".goal strong")];
    const word = bold.find((one) => one.textContent === "Question.") ?? bold[0];
    const words = make("p", "cd-slide-large");
    for (let node = word.nextSibling; node && node.nodeName !== "STRONG"; node = node.nextSibling) words.append(copy(node));
    return words;
  }

  function bodyOf(slide) {
    if (slide.kind === "question") return [asked()];
    if (slide.kind === "answer") return [make("p", "cd-slide-large", slide.said), make("p", "cd-slide-licence", `Slides of “${document.title}”, quoted from it. ${licence}`)];
    const parts = [...partOf(slide)];
    if (parts[0]?.nodeName === "TR") {
      const whole = parts[0].closest("table");
      const table = copy(whole);
      table.tBodies[0].replaceChildren(...parts.filter((row) => row.parentElement === whole.tBodies[0]).map(copy));
      return [table];
    }
    const shown = parts.slice(0, slide.kind === "equation" && slide.show.length === 1 ? parts.length : 1).map(copy);
    if (slide.kind === "picture" && parts[0].nextElementSibling?.matches(".cd-caption")) shown.push(copy(parts[0].nextElementSibling));
    if (slide.kind === "resolution") shown[0].querySelectorAll("details").forEach((fold) => { fold.open = true; });
    return shown;
  }

  function build(slide, n, all) {
    const title = titleOf(slide);
    const sentence = slide.kind !== "figure" ? [] : slide.said ? [slide.said] : copy(record(slide.record)).childNodes;
    const head = make("h2", "", ...(typeof title === "string" ? [title] : [...title.childNodes].map(copy)));
    const place = make("span", "cd-slide-place", `${n + 1} of ${all.length}`);
    const said = make("div", "cd-slide-said", ...sentence);
    const body = make("div", `cd-slide-body${slide.kind === "picture" ? " cell_output" : ""}`, ...bodyOf(slide));
    const keys = make("p", "cd-slide-keys", make("b", ""), make("span", ""));
    const leave = Object.assign(make("button", "cd-present", "Leave"), { type: "button", title: "Esc", onclick: close });
    for (const [hook, node] of Object.entries({ title: head, place, caption: said, keys, leave })) node.dataset.cd = `slide-${hook}`;
    const section = make("section", "cd-slide", make("header", "", head, place), said, body, make("footer", "", keys, leave));
    Object.assign(section.dataset, { kind: slide.kind, record: slide.record ?? "" });
    section.setAttribute("aria-live", "polite");
    return section;
  }

  function open(at) {
    const all = inOrder();
    const box = make("div", "cd-deck bd-content", make("article", "bd-article"));
    deck = { all, box, at: -1, done: 0, hold: null, was: { scroll: scrollY, address: location.href }, sections: all.map(build) };
    box.tabIndex = -1;
    box.setAttribute("role", "dialog");
    box.setAttribute("aria-label", "Slides");
    box.firstChild.append(...deck.sections);
    document.body.append(box);
    root.setAttribute("data-deck", "");
    show(Math.min(Math.max(at, 1), all.length) - 1, 0);
    box.focus();
  }

  /** A slide, with so many of its moves done. */
  function show(at, done) {
    const slide = deck.all[at];
    const section = deck.sections[at];
    const there = slide.figure === undefined ? null : rootsOf(places()[slide.figure])[0];
    const isNew = deck.at !== at;
    if (deck.hold && deck.hold.figure !== there) letGo();
    Object.assign(deck, { at, done });
    deck.sections.forEach((one) => one.toggleAttribute("data-on", one === section));
    if (there) take(there, section, slide.states[done], isNew);
    else if (slide.figure === undefined) fit(section.querySelector(".cd-slide-body"));
    else setTimeout(() => deck?.at === at && show(at, done), 100); // the page is still waking its figures
    say(section, slide);
    try {
      history.replaceState(history.state, "", `#deck=${at + 1}`);
    } catch { /* a page without a history shows its slides all the same */ }
    writeNotes();
  }

  /** The figure itself lies over the empty body of its slide. */
  function take(there, section, state, isNew) {
    const { top, left, right, bottom } = section.querySelector(".cd-slide-body").getBoundingClientRect();
    root.style.setProperty("--cdx-slide", `${top}px ${root.clientWidth - right}px ${innerHeight - bottom}px ${left}px`);
    if (!deck.hold || isNew) {
      const { restore } = deck.hold ?? {};
      deck.hold = { figure: there, bare: true };
      tell(there, deck.hold);
      if (restore) deck.hold.restore = restore; // to what was before the first of its slides
    }
    deck.hold.set(state, false);
  }

  function letGo() {
    if (!isLanding) deck.hold?.restore();
    tell(deck.hold?.figure, null);
    deck.hold = null;
  }

  /** What does not fit at the size of a slide's letters is made smaller, down to what a room can read. */
  function fit(body) {
    for (let zoom = 1; zoom > 0.68; zoom -= 0.04) {
      body.style.setProperty("--cd-zoom", zoom);
      if (body.scrollHeight <= body.clientHeight + 1 && body.scrollWidth <= body.clientWidth + 1) return;
    }
  }

  function say(section, { states = [] }) {
    const { at, done, hold, all } = deck;
    const [now, then] = [states[done], states[done + 1]];
    const next = then === undefined ? nameOf(all[at + 1]) : hold?.words(now, then) || "as it is";
    const [bold, span] = section.querySelector(".cd-slide-keys").children;
    bold.textContent = next ? `→ ${next}` : "the last slide";
    span.textContent = [...(hold?.keys ?? []), "N notes", "F full screen"].join(" · ");
  }

  function go(by) {
    const { states = [""] } = deck.all[deck.at];
    const done = deck.done + by;
    if (done >= 0 && done < states.length) {
      deck.done = done;
      deck.hold?.set(states[done], by > 0);
      say(deck.sections[deck.at], deck.all[deck.at]);
    } else if (deck.all[deck.at + by]) show(deck.at + by, by > 0 ? 0 : (deck.all[deck.at + by].states?.length ?? 1) - 1);
  }

  /** Back to where the reader was: the address, the place in the page, and every figure as it was. */
  function close() {
    if (!deck) return;
    const { box, was } = deck;
    if (!isLanding) history.replaceState(history.state, "", was.address.replace(/#deck=\d+$/, ""));
    letGo();
    box.remove();
    deck = null;
    root.removeAttribute("data-deck");
    scrollTo({ top: was.scroll, behavior: "instant" });
    end();
  }

  /* ---- the speaker's notes: a window of their own, with the paragraphs around what is shown */
  let notes = null;

  function notesOf(slide) {
    if (slide.kind === "answer") return [...article.querySelectorAll(".selfcheck")].slice(0, 1);
    let top = anchorOf(slide);
    if (!top) return [];
    while (!top.parentElement.matches("section")) top = top.parentElement;
    return slide.kind === "question" ? [top.nextElementSibling] : [top.previousElementSibling, top.matches("p") ? null : top, top.nextElementSibling];
  }

  function writeNotes() {
    if (!notes || notes.closed) return;
    const { at, all } = deck;
    const said = notesOf(all[at]).filter((node) => node?.matches("p, ul, .selfcheck, .proof")).map(copy);
    const styles = [...document.querySelectorAll("link[rel=stylesheet]")].map(({ href }) => Object.assign(document.createElement("link"), { rel: "stylesheet", href }));
    notes.document.title = "Notes";
    notes.document.documentElement.dataset.theme = root.dataset.theme;
    notes.document.head.replaceChildren(...styles);
    const text = make("article", "bd-article cd-notes", make("h2", "", `${at + 1} of ${all.length}: ${nameOf(all[at])}`), ...said, make("p", "", `Next: ${nameOf(all[at + 1]) ?? "the end"}`));
    text.querySelectorAll("details").forEach((fold) => { fold.open = true; });
    notes.document.body.replaceChildren(text);
  }

  function openNotes() {
    notes = window.open("", "coefdyn-notes", "width=760,height=560");
    writeNotes();
  }

  /* ---- keys, a clicker, and a finger */
  const KEYS = { ArrowRight: () => go(1), PageDown: () => go(1), " ": () => go(1), ArrowLeft: () => go(-1), PageUp: () => go(-1), Home: () => show(0, 0),
    End: () => show(deck.all.length - 1, 0), Escape: close, n: openNotes, f: () => root.requestFullscreen?.().catch(() => {}) };

  document.addEventListener("keydown", (event) => {
    if (!deck || event.altKey || event.ctrlKey || event.metaKey || !Object.hasOwn(KEYS, event.key)) return;
    if (event.key === " " && event.target.closest?.("button, summary, select, input")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    KEYS[event.key]();
  }, true);

  let finger = null;
  addEventListener("touchstart", ({ touches, target }) => {
    finger = deck?.box.contains(target) && touches.length === 1 ? touches[0].clientX : null;
  }, { passive: true });
  addEventListener("touchend", ({ changedTouches }) => {
    const by = finger === null ? 0 : changedTouches[0].clientX - finger;
    if (deck && Math.abs(by) > 50) go(by < 0 ? 1 : -1);
    finger = null;
  }, { passive: true });

  addEventListener("resize", () => deck && !matchMedia("print").matches && show(deck.at, deck.done));

  /* ---- paper: every slide a page, a figure as it is at first */
  function still(there) {
    const drawn = [...there.querySelectorAll("canvas")];
    const same = there.cloneNode(true);
    same.querySelectorAll("canvas").forEach((canvas, m) => {
      const { clientWidth: width, clientHeight: height } = drawn[m];
      const picture = Object.assign(new Image(), { src: drawn[m].toDataURL(), className: canvas.className });
      picture.style.cssText = `width: ${width}px; height: ${height}px`;
      canvas.replaceWith(picture);
    });
    return same;
  }

  addEventListener("beforeprint", () => {
    if (!deck) return;
    deck.paper = [deck.at, deck.done];
    deck.sections.forEach((section, n) => {
      show(n, 0);
      deck.hold?.set(deck.all[n].states[0], false); // once more, now that what it shows has its place
      if (deck.hold) section.querySelector(".cd-slide-body").replaceChildren(still(deck.hold.figure));
    });
  });
  addEventListener("afterprint", () => {
    if (!deck?.paper) return;
    deck.sections.forEach((section, n) => deck.all[n].figure === undefined || section.querySelector(".cd-slide-body").replaceChildren());
    show(...deck.paper);
  });

  /* ---- the button and the address */
  // A slide fills the window in any case; the screen as well where a hand has asked and the browser lets it.
  button.addEventListener("click", () => {
    if (held && !isLanding) open(1);
    else presentFigure();
    root.requestFullscreen?.().catch(() => {});
  });
  document.addEventListener("fullscreenchange", () => {
    if (document.fullscreenElement) return;
    leaveFigure();
    if (!notes || notes.closed) close();
  });

  function openDeck() {
    const at = /^#deck=(\d+)$/.exec(location.hash);
    if (!at || !held) return;
    if (deck) {
      show(Math.min(Math.max(at[1], 1), deck.all.length) - 1, 0);
      return;
    }
    const needed = told.map(({ figure: one }) => one).filter((one) => one !== undefined);
    if (needed.every((one) => places()[one] && rootsOf(places()[one]).length)) open(Number(at[1]));
    else setTimeout(openDeck, 50);
  }

  addEventListener("hashchange", openDeck);
  openDeck();
})();
