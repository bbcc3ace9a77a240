"""Interactive figures that run in the page: no kernel, no server, no build step.

The arithmetic is JavaScript, in ``js/``. ``shown()`` and ``words()`` ask it by way of mini-racer,
and tests hold it to the library's float64 reference.
The file of a figure is loaded when its name is first used.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from coefdyn.first_use import load_on_first_use

if find_spec("anywidget") is None:
    raise ModuleNotFoundError(
        "coefdyn.widgets needs anywidget, an extra: pip install 'coefdyn[widgets]' (in a checkout: "
        "pip install '.[widgets]').",
        name="anywidget",
    )

if TYPE_CHECKING:
    from coefdyn.widgets.explorer import Explorer
    from coefdyn.widgets.shown import Shown
    from coefdyn.widgets.small import ChunkView, CostView, ScoreVariance, SmallFigure
    from coefdyn.widgets.small_ablation import AblationView
    from coefdyn.widgets.small_rows import (
        CapacityView,
        CombinationView,
        EmptyRowView,
        FactsView,
        GrowthView,
        ReadoutView,
    )
    from coefdyn.widgets.small_states import (
        DistanceView,
        EigenvalueView,
        ErasingView,
        MemoryView,
        StepView,
        StringView,
        TurningView,
    )
    from coefdyn.widgets.small_swing import SampledSwing

load_on_first_use(__name__)
