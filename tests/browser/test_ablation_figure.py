"""Buttons that switch heads off: what they show is what is kept, by hand and by key."""

from __future__ import annotations

import json
from typing import Any

import pytest
from browser.axe import findings
from browser.explorer_pages import Open, number, open_page, press, text  # noqa: F401

from book.tools.stills import still_of
from coefdyn.lab.places import data_file
from coefdyn.widgets import AblationView

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def kept() -> dict[str, Any]:
    return json.loads(data_file("lens/facts_switches.json").read_text())


def right(kept: dict[str, Any], model: str, off: int) -> int:
    answers = kept["models"][model]["answers"][off]
    return sum(a == q["right"] for a, q in zip(answers, kept["questions"], strict=True))


def test_each_button_takes_its_own_head_out(open_page: Open, kept: dict[str, Any]) -> None:
    page = open_page(AblationView(kept), ready="small")
    for model, one in kept["models"].items():
        page.select_option("[data-cd=control-model]", model)
        page.wait_for_selector(f"[data-cd=right-on-new][data-value='{one['accuracy'][0]:g}']")
        for bit, (layer, head) in enumerate(one["heads"]):
            press(page, f"head-{layer}-{head}")
            assert number(page, "right-on-new") == one["accuracy"][2**bit]
            assert number(page, "right-here") == right(kept, model, 2**bit)
            said = page.get_attribute("[data-cd=ablation]", "aria-label")
            assert said.startswith(f"Without layer {layer}, head {head}: ")
            for asked, answer in zip(kept["questions"], one["answers"][2**bit], strict=True):
                assert f"{asked['who']} in ? {answer}" in said
            assert page.get_attribute(f"[data-cd=head-{layer}-{head}]", "aria-pressed") == "false"
            press(page, f"head-{layer}-{head}")
        assert page.locator("[data-cd^=head-][aria-pressed=true]").count() == len(one["heads"])


def test_several_heads_off_by_keys_alone(open_page: Open, kept: dict[str, Any]) -> None:
    page = open_page(AblationView(kept), ready="small")
    model = next(iter(kept["models"]))
    page.focus("[data-cd=control-model]")
    off = 0
    for bit in range(len(kept["models"][model]["heads"])):
        page.keyboard.press("Tab")
        if bit % 3 != 1:
            page.keyboard.press("Space")
            off |= 1 << bit
    want = kept["models"][model]["accuracy"][off]
    page.wait_for_selector(f"[data-cd=right-on-new][data-value='{want:g}']")
    assert text(page, "right-here") == f"{right(kept, model, off)} of {len(kept['questions'])}"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # all on
    page.wait_for_selector(
        f"[data-cd=right-on-new][data-value='{kept['models'][model]['accuracy'][0]:g}']"
    )


def test_it_fits_a_phone_and_axe_finds_nothing(open_page: Open, kept: dict[str, Any]) -> None:
    page = open_page(AblationView(kept, off=2), ready="small", width=360, theme="dark")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    buttons = page.locator("[data-cd^=head-]")
    for place in range(buttons.count()):
        assert buttons.nth(place).bounding_box()["height"] >= 44
    assert findings(page) == []


def test_a_saved_figure_comes_back_and_says_what_it_shows(kept: dict[str, Any]) -> None:
    figure = AblationView(kept, off=2)
    again = AblationView.from_state(figure.get_state())
    assert (again.settings, again.kept) == (figure.settings, figure.kept)
    one = kept["models"]["qwen3_next"]
    assert f"without layer {one['heads'][1][0]}, head {one['heads'][1][1]}" in figure.words()
    assert f"{one['accuracy'][2]:.3f}" in figure.words()
    record = {"state": {**figure.get_state(), "_anywidget_id": "coefdyn.widgets.AblationView"}}
    assert still_of(record).words == figure.words()


def test_what_does_not_fit_is_told(kept: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="off must lie between 0 and 255, got 256"):
        AblationView(kept, off=256)
    with pytest.raises(ValueError, match="did you mean 'mamba2'"):
        AblationView(kept, model="mamba")
    with pytest.raises(ValueError, match="did you mean 'off'"):
        AblationView(kept).settings = {"of": 1}
    short = json.loads(json.dumps(kept))
    short["models"]["mamba2"]["shares"].pop()
    with pytest.raises(ValueError, match="shares needs an entry for each of the 256 sets"):
        AblationView(short)
    with pytest.raises(ValueError, match="questions is missing"):
        AblationView({**kept, "questions": []})
