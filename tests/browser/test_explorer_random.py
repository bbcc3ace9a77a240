"""Random hands: page and Python agree wherever a reader may end up."""

from __future__ import annotations

import math

import pytest
from browser.explorer_pages import Open, open_page, until_drawn  # noqa: F401

from coefdyn.widgets import Explorer
from coefdyn.widgets.source import arithmetic_source

pytestmark = pytest.mark.browser


def _agree(got: list[float], want: list[float]) -> bool:
    return len(got) == len(want) and all(
        a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
        for a, b in zip(got, want, strict=True)
    )


#: So many acts of a careless hand on every explorer of the page, and the frame that follows.
ACT = """async ([seed, count, starts]) => {
  const homes = starts.map((raw) => homeOf(normaliseSettings(raw).settings));
  let x = seed;
  const random = () => { x = mix32(x + 0x9e3779b9); return x / 4294967296; };
  const pick = (list) => list[Math.floor(random() * list.length)];
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const arrow = () => ({ key: `Arrow${pick(["Up", "Down", "Left", "Right"])}`, bubbles: true });
  const usable = (e) => e.checkVisibility() && !e.matches(":disabled, [data-cd=copy-link]");
  for (let m = 0; m < count; m++) {
    const root = pick([...document.querySelectorAll(".cdx")]);
    const all = [...root.querySelectorAll("input, select, button, canvas[tabindex='0']")];
    const e = pick(all.filter(usable));
    if (e.tagName === "CANVAS" || e.className.includes("cdx-handle")) {
      e.dispatchEvent(new KeyboardEvent("keydown", arrow()));
    } else if (e.tagName === "BUTTON" || e.type === "checkbox") {
      e.click();
    } else {
      if (e.tagName === "SELECT") e.value = pick([...e.options]).value;
      else e.value = Number(e.min) + pick([0, 1, random(), random()]) * (e.max - e.min);
      for (const kind of ["input", "change"]) e.dispatchEvent(new Event(kind, { bubbles: true }));
    }
    if (random() < 0.3) await frame();
  }
  document.querySelectorAll("[data-cd=play][aria-label=Stop]").forEach((e) => e.click());
  await frame();
  return [...document.querySelectorAll(".cdx")].map((root, m) => {
    const own = history.state.explorers[m ? `#cd-${m + 1}?` : "#cd?"];
    const named = [...root.querySelectorAll("[aria-label]")].map((e) => e.ariaLabel).join(" ");
    return { ...decodeSettings(own, homes[m]), words: root.innerText + named,
      hooks: Object.fromEntries([...root.querySelectorAll("dd[data-value]")]
        .map((e) => [e.dataset.cd, Number(e.dataset.value)])) };
  });
}"""


@pytest.mark.dear("two figures are moved 240 times, and Python is asked for each")
def test_a_careless_hand_never_parts_page_and_python(open_page: Open) -> None:
    question = {"id": "o", "question": "When?", "number": "overflow", "control": "decay"}
    starts = [{"preset": "mlstm", "length": 12}, {"preset": "gla"}]
    page = open_page(Explorer("mlstm", length=12), Explorer("gla", predict=question))
    until_drawn(page, 2)
    page.add_script_tag(content=arithmetic_source())
    for seed in range(12):
        for one in page.evaluate(ACT, [seed, 20, starts]):
            assert one["notes"] == []
            shown = Explorer(**one["settings"]).shown()
            got, want = one["hooks"], (shown.row_sum, shown.overflow_tokens)
            assert _agree([got["row-sum"], got["overflow"]], list(want)), one["settings"]
            count = got["near-zero-fraction"] - shown.near_zero_fraction
            assert count == pytest.approx(0, abs=1e-9), one["settings"]
            for word in ("NaN", "undefined", "Infinity", "not a number"):
                assert word not in one["words"], one["settings"]
