"""Random settings and random hands: page and Python agree wherever a reader may end up."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from browser.explorer_pages import Open, open_page  # noqa: F401

from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import ROWS, schema
from coefdyn.widgets.source import arithmetic_source

pytestmark = pytest.mark.browser

CASES = 80
SOLVE = """(cases) => cases.map((raw) => {
  const m = buildModel(normaliseSettings(raw).settings, {});
  return { alpha: [...m.alpha], weights: [...m.weights], path: [...m.path], rowSum: [m.sums[m.row]],
    eigenvalues: [...m.eigenvalues].sort((a, b) => a - b), growth: [m.rate], horizon: [m.horizon],
    curve: [-6, -1, 0, 0.5, 3].map(m.phi), combination: m.className };
})"""


def _draw(rng: random.Random) -> dict[str, Any]:
    """Every setting at random, the ends of its range more often than chance."""
    limits = schema()
    raw: dict[str, Any] = {
        key: rng.choice(list(spec["options"])) for key, spec in limits["choices"].items()
    }
    for key, spec in limits["ranges"].items():
        inside = round(rng.uniform(spec["min"], spec["max"]), 3)
        raw[key] = rng.choice([spec["min"], spec["max"], spec["default"], inside, inside, inside])
        raw[key] = min(max(raw[key], spec["min"]), spec["max"])
    raw |= {"length": rng.choice([2, 3, 9, 14]), "width": rng.choice([2, 2, 3, 5])}
    raw |= {key: rng.randint(1, raw["length"]) for key in ("column", "row", "duplicate")}
    raw |= {"seed": rng.randint(0, 999), "flip": rng.random() < 0.3}
    if rng.random() < 0.5:
        raw |= {"morph_to": rng.choice(ROWS), "morph": rng.choice([0.01, 0.5, 0.73, 1])}
    place = f"{rng.choice('qk')}{rng.randint(1, raw['length'])}"
    raw["points"] = {place: [rng.choice([0.0, 1.0, -2.5]) for _ in range(2)]}
    return raw


def _agree(got: list[float], want: list[float]) -> bool:
    return len(got) == len(want) and all(
        a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
        for a, b in zip(got, want, strict=True)
    )


def test_random_settings_give_python_s_numbers(browser: Any) -> None:
    rng = random.Random(5)
    cases = [_draw(rng) for _ in range(CASES)]
    page = browser.new_page()
    page.add_script_tag(content=arithmetic_source())
    answers = page.evaluate(SOLVE, cases)
    page.close()
    for case, answer in zip(cases, answers, strict=True):
        shown = Explorer(**case).shown()
        scores = shown.alpha.new_tensor([-6, -1, 0, 0.5, 3])
        want = {
            "alpha": shown.alpha.flatten().tolist(),
            "weights": shown.weights.flatten().tolist(),
            "path": shown.path.flatten().tolist(),
            "rowSum": [shown.row_sum],
            "eigenvalues": sorted(x.real for x in shown.eigenvalues),
            "growth": [shown.growth_nats],
            "horizon": [shown.overflow_tokens],
            "curve": shown.curve(scores).tolist(),
        }
        assert answer.pop("combination") == shown.combination, case
        assert [name for name in want if not _agree(answer[name], want[name])] == [], case


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


def test_a_careless_hand_never_parts_page_and_python(open_page: Open) -> None:
    question = {"id": "o", "question": "When?", "number": "overflow", "control": "decay"}
    starts = [{"preset": "mlstm", "length": 12}, {"preset": "gla"}]
    page = open_page(Explorer("mlstm", length=12), Explorer("gla", predict=question))
    page.wait_for_function("document.querySelectorAll('[data-cd=explorer]').length === 2")
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
