"""Every control of the explorer in a newcomer's hands: keyboard, touch, mouse, a narrow screen."""

from __future__ import annotations

from typing import Any

import pytest
from browser.explorer_pages import (  # noqa: F401
    Open,
    hold_time,
    number,
    open_page,
    phone,
    press,
    text,
    write_page,
)

from coefdyn.widgets import Explorer
from coefdyn.widgets.settings import ROWS

pytestmark = pytest.mark.browser

PANELS = ("none", "inspect", "stability", "positions", "geometry")
PHONE = 360
NEXT_FRAME = "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"

#: What hangs over the right edge of its figure, card or panel, or is cut off there; rows of
#: buttons that scroll by themselves may go on.
CUT = """() => [...document.querySelectorAll(".cdx *")].filter((e) => e.checkVisibility()
  && !e.closest(".cdx-scroll, .cdx-sr, .cdx-presets > *, .cdx-stops > *")
  && e.getBoundingClientRect().right > innerWidth - 8)
  .map((e) => e.className || e.tagName)"""

NAMELESS = """() => [...document.querySelectorAll(".cdx :is(button, select, input, canvas)")]
  .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim()
    || document.querySelector(`label[for="${e.id}"]`)))
  .map((e) => e.dataset.cd)"""

STEP_ALL = """(part) => [...document.querySelectorAll(`${part} :is(input, select)`)]
  .filter((e) => e.checkVisibility() && !e.disabled).map((e) => e.dataset.cd)"""


@pytest.mark.parametrize("panel", PANELS)
def test_nothing_is_cut_off_on_a_phone(panel: str, open_page: Open) -> None:
    """Every row without a panel, and with one of the panels."""
    turn = PANELS.index(panel)
    explorer = Explorer("gated_deltanet", panel=panel, morph_to="mlstm", morph=0.4, duplicate=6)
    page = open_page(explorer, width=PHONE)
    for row in ROWS[turn - 1 :: len(PANELS) - 1] if turn else ROWS:
        press(page, f"preset-{row}")
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE, row
        assert page.evaluate(CUT) == [], row


@pytest.mark.parametrize("panel", PANELS)
def test_every_control_has_a_name_and_answers_the_keyboard(panel: str, open_page: Open) -> None:
    """A panel brings its own controls; those beside it are tried where none is open."""
    page = open_page(Explorer("mlstm", panel=panel, morph_to="gla", scaling="exponential"))
    assert page.evaluate(NAMELESS) == []
    for hook in page.evaluate(STEP_ALL, ".cdx" if panel == "none" else f".cdx-panel-{panel}"):
        control = page.locator(f"[data-cd={hook}]").first
        if not control.is_visible():
            continue  # another choice has taken it away
        control.focus()
        state = "e => e.type === 'checkbox' ? String(e.checked) : e.value"
        before = control.evaluate(state)
        kind = control.get_attribute("type")
        keys = ["Space"] if kind == "checkbox" else ["ArrowRight", "ArrowDown", "ArrowLeft"]
        seen = {before}
        for key in keys:
            page.keyboard.press(key)
            page.evaluate(NEXT_FRAME)
            seen.add(control.evaluate(state))
        assert len(seen) > 1, hook
        assert page.evaluate("h => document.activeElement.dataset.cd === h", hook), hook


EMPTY = """() => [...document.querySelectorAll(".cdx-figure")].map((e) =>
  e.getBoundingClientRect().bottom - e.lastElementChild.getBoundingClientRect().bottom)"""


@pytest.mark.parametrize("width", [700, 752, 900, 1140])
def test_no_blank_strip_below_a_figure(width: int, open_page: Open) -> None:
    """A chapter at 1280 pixels has 752 for its figures, the landing page up to 1100."""
    page = open_page(Explorer("gla"), width=width)
    assert max(page.evaluate(EMPTY)) <= 24


def test_a_finger_picks_cells_rows_and_panels(phone: Any) -> None:
    page = phone(Explorer("gla", length=8))
    box = page.locator("[data-cd=matrix]").bounding_box()
    side = box["width"] - 24
    page.touchscreen.tap(box["x"] + 20 + side * 1.5 / 8, box["y"] + 4 + side * 6.5 / 8)
    page.wait_for_selector("[data-cd=reading]:has-text('Output 7 reads token 2')")
    page.locator("[data-cd=preset-mlstm]").tap()
    page.wait_for_selector("[data-cd=preset-mlstm][aria-pressed=true]")
    page.locator("[data-cd=panel-stability]").tap()
    page.wait_for_selector("[data-cd=stability-verdict]")
    page.locator("[data-cd=control-decay]").scroll_into_view_if_needed()
    track = page.locator("[data-cd=control-decay]").bounding_box()
    before = number(page, "row-sum")
    page.touchscreen.tap(track["x"] + track["width"] * 0.25, track["y"] + track["height"] / 2)
    page.wait_for_function(
        "b => Number(document.querySelector('[data-cd=row-sum]').dataset.value) !== b", arg=before
    )


def test_a_held_key_is_one_step_back(open_page: Open) -> None:
    page = open_page(Explorer("gla"), clock=True)
    hold_time(page)
    length = page.evaluate("history.length")
    page.focus("[data-cd=control-decay]")
    for _ in range(8):
        page.keyboard.press("ArrowLeft")
        page.clock.run_for(30)
    assert text(page, "value-decay") == "0.88"
    assert "decay=0.88" in page.evaluate("location.hash")
    assert page.evaluate("history.length") == length + 1
    page.clock.run_for(700)
    page.keyboard.press("ArrowLeft")
    page.clock.run_for(30)
    assert page.evaluate("history.length") == length + 2, "after a pause, a step of its own"
    page.clock.resume()
    for decay in ("0.88", "0.92"):
        page.go_back()
        page.wait_for_selector(f"[data-cd=value-decay]:text-is('{decay}')")


def test_a_screen_reader_hears_a_change_once_it_is_done(open_page: Open) -> None:
    question = {
        "id": "a", "question": "Which way?", "number": "row-sum", "control": "decay"
    }  # fmt: skip
    page = open_page(Explorer("mamba2", predict=question))
    live = "() => document.querySelectorAll('.cdx [aria-live], .cdx [role=status]').length"
    assert page.evaluate(live) == 2, "the status and the note"
    press(page, "predict-rises")
    assert page.evaluate("document.activeElement.dataset.cd") == "predict-outcome"
    page.evaluate("""() => {
      window.heard = [];
      const status = document.querySelector("[data-cd=status]");
      const hear = () => heard.push(status.textContent);
      new MutationObserver(hear).observe(status, { childList: true });
      const input = document.querySelector("[data-cd=control-decay]");
      for (const value of [0.9, 0.8, 0.7]) {
        input.value = value;
        input.dispatchEvent(new Event("input", { bubbles: true }));
      }
    }""")
    page.evaluate(NEXT_FRAME)
    assert page.evaluate("heard") == []
    page.dispatch_event("[data-cd=control-decay]", "change")
    page.wait_for_function("heard.length === 1")
    assert page.evaluate("heard[0]").endswith("it rises. As you said. Why?")
    press(page, "predict-reset")
    assert page.evaluate("document.activeElement.dataset.cd") == "predict-rises"


def test_the_copied_link_opens_the_same_setting(open_page: Open) -> None:
    page = open_page(Explorer("deltanet", beta=1.5), clock=True)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    press(page, "panel-inspect")
    shown = number(page, "row-sum")
    hold_time(page)
    page.click("[data-cd=copy-link]")
    page.wait_for_selector("[data-cd=copy-link]:text-is('Copied')")
    page.clock.run_for(2000)
    assert text(page, "copy-link") == "Copy link"
    page.clock.resume()
    link = page.evaluate("navigator.clipboard.readText()")
    press(page, "preset-gla")
    assert number(page, "row-sum") != shown
    page.goto(link)
    page.wait_for_selector("[data-cd=panel-inspect][aria-expanded=true]")
    assert number(page, "row-sum") == shown


SLOW_STEP_MS = 600


def test_play_walks_to_the_end_slowly_where_motion_is_unwanted(browser: Any, tmp_path: Any) -> None:
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    page.clock.install()
    page.goto(write_page(tmp_path, Explorer("gla", length=6, column=4)))
    page.wait_for_selector("[data-cd=explorer]")
    hold_time(page)
    page.click("[data-cd=play]")
    for row in ("4", "5", "6"):
        page.clock.run_for(0.9 * SLOW_STEP_MS)
        assert text(page, "value-row") == row
        assert page.get_attribute("[data-cd=play]", "aria-label") == "Stop"
        page.clock.run_for(0.1 * SLOW_STEP_MS)
    page.clock.run_for(SLOW_STEP_MS)
    assert page.get_attribute("[data-cd=play]", "aria-label") == "Play the moving state"
    page.click("[data-cd=preset-mlstm]")
    page.clock.run_for(SLOW_STEP_MS)
    assert page.get_attribute("[data-cd=preset-mlstm]", "aria-pressed") == "true"
    context.close()
