/* What the book adds to Sphinx's search: chapters come before the reference, a page whose title is
   asked for comes first, and excerpts show sentences instead of code and numbers. */
"use strict";

window.Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score([page, title, , , score]) {
    const asked = (new URLSearchParams(location.search).get("q") || "").trim().toLowerCase();
    const own = title.toLowerCase();
    const named = own === asked ? 200 : own.startsWith(asked) ? 60 : own.includes(asked) ? 30 : 0;
    return score + named - (page.startsWith("api/") ? 1000 : 0);
  },
};

/* What a page shows beside its sentences. */
const BESIDE =
  "script, style, pre, table, math, svg, nav, .headerlink, .cell, .goal, .tableofcontents, [data-cd]";

document.addEventListener("DOMContentLoaded", () => {
  const text = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    for (const node of page.querySelectorAll(BESIDE)) node.remove();
    return text(page.documentElement.outerHTML, anchor);
  };
});
