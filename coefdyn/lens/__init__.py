"""The lens: the mixers of other people's models as exact coefficient dynamics.

from coefdyn.lens import trace
seen = trace(model, input_ids)
for layer in seen: print(layer.name, layer.mechanism, layer.error)
"""

from typing import TYPE_CHECKING

from coefdyn.first_use import load_on_first_use
from coefdyn.versions import check_transformers

if TYPE_CHECKING:
    from coefdyn.lens.cache.cache_plan import CachePlan, HeadCost, MeasuredPlan
    from coefdyn.lens.cache.memory import MixerMemory, ModelMemory, memory, memory_table
    from coefdyn.lens.cache.plan import plan
    from coefdyn.lens.change.changes import Change, HeadsSeen, patched, using, window, without_decay
    from coefdyn.lens.change.effects import effects
    from coefdyn.lens.change.replace import replaced
    from coefdyn.lens.documents import Document
    from coefdyn.lens.layer import LayerTrace
    from coefdyn.lens.read.kept import KeptHeads, keep_heads, load_heads
    from coefdyn.lens.read.reading import (
        SCORES,
        HeadReading,
        Induction,
        head_scores,
        induction,
        looks,
        output_sizes,
        shares,
    )
    from coefdyn.lens.read.survival import Survival, survival, without_erasure
    from coefdyn.lens.read.tables import compare_traces
    from coefdyn.lens.run.check import CheckReport, Finding, check
    from coefdyn.lens.run.engine import Engine, install, running
    from coefdyn.lens.run.engine_report import EngineReport, LayerRuns
    from coefdyn.lens.run.record import Trace
    from coefdyn.lens.run.trace import torch_operations, trace, tracing

check_transformers("coefdyn.lens")

__all__ = [
    "SCORES",
    "CachePlan",
    "Change",
    "CheckReport",
    "Document",
    "Engine",
    "EngineReport",
    "Finding",
    "HeadCost",
    "HeadReading",
    "HeadsSeen",
    "Induction",
    "KeptHeads",
    "LayerRuns",
    "LayerTrace",
    "MeasuredPlan",
    "MixerMemory",
    "ModelMemory",
    "Survival",
    "Trace",
    "check",
    "compare_traces",
    "effects",
    "head_scores",
    "induction",
    "install",
    "keep_heads",
    "load_heads",
    "looks",
    "memory",
    "memory_table",
    "output_sizes",
    "patched",
    "plan",
    "replaced",
    "running",
    "shares",
    "survival",
    "torch_operations",
    "trace",
    "tracing",
    "using",
    "window",
    "without_decay",
    "without_erasure",
]
load_on_first_use(__name__)
