"""The four colours are readable, told apart, and the same wherever they are written down."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import matplotlib
import matplotlib.colors
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties

from coefdyn.lab.experiments.figures import PALETTE
from coefdyn.plots import (
    COEFFICIENT_CMAP,
    DATA_COLORS,
    INGREDIENT_COLORS,
    INGREDIENT_COLORS_DARK,
    centered_norm,
    save_figure,
    use_style,
)

ROOT = Path(__file__).resolve().parents[2]
COLORS = {"light": INGREDIENT_COLORS, "dark": INGREDIENT_COLORS_DARK}
#: WCAG 2.1, 1.4.3 (AA).
LEAST_CONTRAST = 4.5
#: CIE76 distance in CIELAB below which two small patches are hard to tell apart.
LEAST_DISTANCE = 15.0
#: Linear RGB to linear RGB at full severity: Machado, Oliveira and Fernandes (2009).
VISION = {
    "full": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [[0.3673, 0.8606, -0.228], [0.2801, 0.6725, 0.0474], [-0.0118, 0.0429, 0.9689]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


def linear_rgb(color: str) -> np.ndarray:
    """Linear-light channels of "#rrggbb", each in [0, 1]."""
    channels = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """WCAG contrast ratio, from 1 to 21."""
    low, high = sorted(float(linear_rgb(c) @ TO_XYZ[1]) for c in (one, other))
    return (high + 0.05) / (low + 0.05)


def cielab(linear: np.ndarray) -> np.ndarray:
    xyz = np.array(TO_XYZ) @ linear.clip(0, 1) / [0.9505, 1.0, 1.089]
    root = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


def page_variables(mode: str) -> dict[str, str]:
    """The custom properties that the style sheet sets for a light or a dark page."""
    css = (ROOT / "book" / "assets" / "coefdyn.css").read_text(encoding="utf-8")
    blocks = re.findall(rf'html\[data-theme="{mode}"\] \{{([^}}]*--cd-evolution:[^}}]*)\}}', css)
    return dict(re.findall(r"--cd-([\w-]+):\s*(#[0-9a-f]{6})", blocks[0]))


@pytest.mark.parametrize("mode", COLORS)
def test_style_sheet_and_figures_use_the_same_colours(mode: str) -> None:
    variables = page_variables(mode)
    assert {name: variables[name] for name in COLORS[mode]} == {
        name: color.lower() for name, color in COLORS[mode].items()
    }


@pytest.mark.parametrize("mode", COLORS)
def test_widgets_fall_back_to_the_same_colours(mode: str) -> None:
    css = (ROOT / "coefdyn" / "widgets" / "css" / "explorer.css").read_text(encoding="utf-8")
    for name, color in COLORS[mode].items():
        assert f"var(--cd-{name}, {color.upper()})" in css


@pytest.mark.parametrize("mode", COLORS)
@pytest.mark.parametrize("surface", ["paper", "panel", "code-bg"])
def test_contrast_is_aa_on_every_surface(mode: str, surface: str) -> None:
    variables = page_variables(mode)
    for name in (*COLORS[mode], "ink", "soft"):
        assert contrast(variables[name], variables[surface]) >= LEAST_CONTRAST, name
    for name in COLORS[mode]:
        assert contrast(variables[name], variables[f"{name}-bg"]) >= LEAST_CONTRAST, name


@pytest.mark.parametrize("mode", COLORS)
@pytest.mark.parametrize("vision", VISION)
def test_colours_differ_for_every_kind_of_colour_vision(mode: str, vision: str) -> None:
    seen = {n: cielab(np.array(VISION[vision]) @ linear_rgb(c)) for n, c in COLORS[mode].items()}
    for one, other in itertools.combinations(seen, 2):
        assert np.linalg.norm(seen[one] - seen[other]) >= LEAST_DISTANCE, (one, other)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_figure_gives_the_same_file(suffix: str, tmp_path: Path) -> None:
    def draw(name: str) -> bytes:
        figure = Figure()
        figure.subplots().plot([0, 1], [1, 0], label=r"$\alpha_{i,j}$")
        return save_figure(figure, tmp_path / f"{name}{suffix}").read_bytes()

    assert draw("one") == draw("two")


def test_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"writes \.png or \.svg; got 'x\.jpg'"):
        save_figure(Figure(), tmp_path / "x.jpg")


def test_zero_is_white_and_needs_a_scale() -> None:
    assert centered_norm(2.0)(0.0) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="needs a positive magnitude; got 0"):
        centered_norm(0.0)


def apart(one: str, other: str) -> float:
    """Distance of two colours in CIELAB."""
    pair = [cielab(linear_rgb(color)) for color in (one, other)]
    return float(np.linalg.norm(pair[0] - pair[1]))


def test_data_never_wears_the_colour_of_an_ingredient() -> None:
    with matplotlib.rc_context():
        use_style()
        cycle = [
            f"#{entry['color'].lstrip('#')}" for entry in matplotlib.rcParams["axes.prop_cycle"]
        ]
    assert tuple(cycle) == DATA_COLORS == PALETTE[: len(DATA_COLORS)]
    ends = [matplotlib.colors.to_hex(COEFFICIENT_CMAP(end)) for end in (0.0, 1.0)]
    for color in (*PALETTE, *ends):
        nearest = min(apart(color, mine) for mine in INGREDIENT_COLORS.values())
        assert nearest > LEAST_DISTANCE, color


def test_figures_are_set_in_the_font_of_the_pages() -> None:
    with matplotlib.rc_context():
        use_style()
        for weight in ("normal", "bold"):
            found = matplotlib.font_manager.findfont(FontProperties(weight=weight))
            assert Path(found).name.startswith("Inter-"), found
