"""The first figure's settings: what stays choosable, what is refused, what a saved one keeps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from mixer_cases import build

from coefdyn.widgets import Explorer


@pytest.mark.parametrize(
    ("row", "choice"),
    [
        ("softmax_attention", "readout"),
        ("normalized_attention", "normalizer"),
        ("mamba2", "scaling"),
        ("gated_deltanet", "structure"),
    ],
)
def test_a_row_leaves_the_choice_that_it_is_about(row: str, choice: str) -> None:
    assert Explorer(row, view="first").choices == [choice]
    assert Explorer(row, view="first", choices=("scaling", "readout")).choices == [
        "scaling",
        "readout",
    ]
    assert Explorer(row).choices == []
    assert Explorer(row, view="first", scaling="exponential", beside="own").choices == ["readout"]


def test_what_cannot_be_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="did you mean 'readout'"):
        Explorer(view="first", choices=["redout"])
    with pytest.raises(ValueError, match="choices belong to view='first'"):
        Explorer(choices=["readout"])
    with pytest.raises(ValueError, match="did you mean 'first'"):
        Explorer(view="frist")
    x = torch.randn(3, 12, dtype=torch.float64)
    with pytest.raises(ValueError, match="leave view out"):
        Explorer.from_mixer(build("GLA"), x, (1,), view="first")


def test_a_saved_one_is_a_first_figure_again() -> None:
    explorer = Explorer("mamba2", view="first", decay=0.7)
    kept = {name: getattr(explorer, name) for name in explorer.trait_names(sync=True)}
    again = Explorer.from_state(kept)
    assert (again.first, again.choices, again.settings) == (True, ["scaling"], explorer.settings)
    del kept["first"], kept["choices"]
    assert not Explorer.from_state(kept).first, "a notebook from before has the lab"


def test_a_page_is_one_file_without_another_host(tmp_path: Path) -> None:
    page = Explorer("gla", text="</script><b>x is y").save(tmp_path / "a.html", title="a < b")
    text = page.read_text(encoding="utf-8")
    assert page == tmp_path / "a.html"
    assert "<title>a &lt; b</title>" in text
    assert text.count("</script>") == 2
    assert "http://" not in text and "https://" not in text
    assert "<noscript>Gated linear attention: " in text
