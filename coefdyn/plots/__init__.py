"""Figures: matplotlib only, drawn on axes that the caller gives."""

from importlib.util import find_spec

if find_spec("matplotlib") is None:
    raise ModuleNotFoundError(
        "coefdyn.plots needs matplotlib, an extra: pip install 'coefdyn[plots]' (in a checkout: "
        "pip install '.[plots]').",
        name="matplotlib",
    )

from coefdyn.plots.lens import (
    plot_effects,
    plot_head_maps,
    plot_head_table,
    plot_plans,
    plot_profile,
    plot_scores,
    plot_survival,
)
from coefdyn.plots.style import (
    COEFFICIENT_CMAP,
    DATA_COLORS,
    INGREDIENT_COLORS,
    INGREDIENT_COLORS_DARK,
    centered_norm,
    save_figure,
    use_style,
)
from coefdyn.plots.views import (
    plot_coefficients,
    plot_eigenvalues,
    plot_impulse_response,
    plot_moduli,
    plot_readout,
    plot_state_path,
    plot_variance,
)

__all__ = [
    "COEFFICIENT_CMAP",
    "DATA_COLORS",
    "INGREDIENT_COLORS",
    "INGREDIENT_COLORS_DARK",
    "centered_norm",
    "plot_coefficients",
    "plot_effects",
    "plot_eigenvalues",
    "plot_head_maps",
    "plot_head_table",
    "plot_impulse_response",
    "plot_moduli",
    "plot_plans",
    "plot_profile",
    "plot_readout",
    "plot_scores",
    "plot_state_path",
    "plot_survival",
    "plot_variance",
    "save_figure",
    "use_style",
]
