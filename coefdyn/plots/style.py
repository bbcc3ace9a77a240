"""The look shared by every figure: one style file and one colour per ingredient.

The four colours are those of the book's equations and controls (``book/assets/coefdyn.css``). They
keep a contrast of at least 4.5 to 1 against their page, in light and in dark, and can be told apart
with the common colour-vision deficiencies. Book: "Notation".
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import matplotlib as mpl
import matplotlib.style
from matplotlib import font_manager
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from matplotlib.figure import Figure

INGREDIENT_COLORS: Mapping[str, str] = MappingProxyType(
    {
        "evolution": "#0B63B0",
        "scaling": "#8A5A00",
        "readout": "#C41E6E",
        "normalizer": "#00573F",
    }
)
"""Colour of each ingredient on a light page."""

INGREDIENT_COLORS_DARK: Mapping[str, str] = MappingProxyType(
    {
        "evolution": "#6CB6FF",
        "scaling": "#E8A93A",
        "readout": "#FF6B9C",
        "normalizer": "#8DEBCB",
    }
)
"""Colour of each ingredient on a dark page."""

DATA_COLORS = ("#2B3340", "#7C4DCC", "#0E96A8", "#C2562F", "#A3B545", "#8B95A3")
"""Colours of data: models, seeds, curves to compare. None of them is an ingredient's."""

COEFFICIENT_CMAP = LinearSegmentedColormap.from_list(
    "coefdyn_coefficients", ["#5B2A8C", "#B596D8", "#FFFFFF", "#5FB0B8", "#0A4F59"]
)
"""Diverging map for coefficients: violet below zero, white at zero, teal above."""

STYLE_NAME = "coefdyn.mplstyle"
FONTS = ("Inter-Regular.ttf", "Inter-Bold.ttf")


def use_style() -> None:
    """Apply the book's matplotlib style to the running session.

    Call it once, before the first figure. Later calls change nothing. Files that ``save_figure``
    writes are then the same in every run on the same matplotlib version.
    """
    _register_fonts()
    with resources.as_file(resources.files("coefdyn.plots") / STYLE_NAME) as path:
        matplotlib.style.use(path)
    _set_inline_backend()


@cache
def _register_fonts() -> None:
    """Inter, which the book's pages are set in, comes with the library (SIL Open Font License)."""
    for name in FONTS:
        with resources.as_file(resources.files("coefdyn.plots") / "fonts" / name) as path:
            font_manager.fontManager.addfont(path)


def _set_inline_backend() -> None:
    """In a notebook: figures twice as fine, with the style's own margins and no date."""
    try:
        from IPython import get_ipython
        from matplotlib_inline.backend_inline import set_matplotlib_formats
    except ImportError:
        return
    if get_ipython() is not None:
        set_matplotlib_formats("retina", bbox_inches=None, metadata={"Date": None})


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write ``figure`` as PNG or SVG so that two runs give identical bytes.

    Args:
        figure: the figure to write.
        path: target; its suffix, ``.png`` or ``.svg``, chooses the format.

    Returns:
        The path written.

    Raises:
        ValueError: for any other suffix.
    """
    target = Path(path)
    metadata = {".png": {"Software": None}, ".svg": {"Date": None, "Creator": None}}
    if target.suffix not in metadata:
        raise ValueError(
            f"save_figure writes .png or .svg; got {target.name!r}. Change the suffix of the path."
        )
    with mpl.rc_context({"svg.hashsalt": "coefdyn"}):
        figure.savefig(target, metadata=metadata[target.suffix])
    return target


def centered_norm(largest: float) -> TwoSlopeNorm:
    """Colour scale symmetric about zero, so that white always means a coefficient of zero.

    Args:
        largest: the largest magnitude to show, > 0 (coefficients carry no unit).

    Raises:
        ValueError: for a magnitude that is not positive.
    """
    if not largest > 0:
        raise ValueError(
            f"centered_norm needs a positive magnitude; got {largest!r}. "
            "An all-zero matrix has no scale of its own: pass 1.0."
        )
    return TwoSlopeNorm(vcenter=0.0, vmin=-largest, vmax=largest)
