"""Axis legend and tensor type aliases.

One layout everywhere. Leading axes (batch, heads, replicas) come first and are written ``*batch``;
a reader can call everything with none of them.

======  =======================================================================
``L``   sequence length; index i (output) or j (input), 0-based in code
``n``   key dimension: the size of q_i, k_j and of the state h_{i,j}
``dv``  value dimension
======  =======================================================================

``Float[Tensor, "*batch L n"]`` is jaxtyping's notation. It is checked at run time in the tests
only; without jaxtyping installed the annotations stay readable and do nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

__all__ = ["Bool", "Float", "Int", "Tensor", "broadcast_shapes"]

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int
else:
    try:
        from jaxtyping import Bool, Float, Int
    except ImportError:

        class _Annotation:
            """Substitute for jaxtyping's types: ``Float[Tensor, "..."]`` is then ``Tensor``."""

            def __class_getitem__(cls, item: Any) -> Any:
                return item[0] if isinstance(item, tuple) else item

        Bool = Float = Int = _Annotation


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Shape to which all of these broadcast.

    ``torch.broadcast_shapes`` gives the same, and imports sympy at its first call: about a second
    before the first output of a process.

    Raises:
        ValueError: if an axis has two sizes other than 1.
    """
    rank = max(len(shape) for shape in shapes)
    common = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, start=rank - len(shape)):
            if size != 1 and common[axis] not in (1, size):
                listing = ", ".join(str(tuple(one)) for one in shapes)
                raise ValueError(f"the shapes {listing} do not broadcast together.")
            if size != 1:
                common[axis] = size
    return tuple(common)
