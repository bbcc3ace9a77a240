"""The lens: the mixers of other people's models as exact coefficient dynamics.

from coefdyn.lens import trace
seen = trace(model, input_ids)
for layer in seen: print(layer.name, layer.mechanism, layer.error)
"""

from coefdyn.lens.record import LayerTrace, Trace
from coefdyn.lens.trace import torch_operations, trace

__all__ = ["LayerTrace", "Trace", "torch_operations", "trace"]
