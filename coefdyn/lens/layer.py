"""One mixer of somebody's model on one input."""

from __future__ import annotations

from dataclasses import dataclass

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.lens.documents import Document, alone, documents_of, shows_padding
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["LayerTrace"]


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerTrace:
    """One mixer of a model on one input, with the error of the coefficients.

    Attributes:
        name: the module's name in the model; a module that ran again has " (2)" and so on behind.
        mechanism: such as "gated deltanet".
        dynamics: batch shape ``(B, H)``, H the heads of the values (grouped keys are repeated). In
            float32 for a model in half precision.
        values: v, ``(B, H, L, d_v)``.
        output: y as the model's own operation returned it, ``(B, H, L, d_v)``.
        error: max abs(dynamics.apply(values) - output) / max abs(output), over the queries that
            may read at least one token.
        outside: what of this layer lies outside alpha.
        segments: number of the sequence that each token belongs to, 0 for padding, ``(B, L)``; None
            where each row is one sequence.
        start: place of the first query among the keys, 0 for a pass over a whole sequence. Where a
            cache holds earlier tokens, ``dynamics`` and ``values`` hold them, too; their queries
            are gone (0), and ``output`` begins here.
        probe_error: largest abs(alpha/eta - probe) / max abs(probe), where the probe is the
            model's own operation on v = I; None where it was not asked for.
    """

    name: str
    mechanism: str
    dynamics: CoefficientDynamics
    values: Float[Tensor, "B H L dv"]
    output: Float[Tensor, "B H rows dv"]
    error: float
    outside: str
    probe_error: float | None = None
    segments: Int[Tensor, "B L"] | None = None
    start: int = 0

    @property
    def heads(self) -> int:
        """Number of heads H."""
        return self.dynamics.batch_shape[1]

    def coefficients(self) -> Float[Tensor, "B H rows L"]:
        """alpha / eta, a row for each query of this pass."""
        return self.dynamics.coefficients(normalized=True)[..., self.start :, :]

    @property
    def documents(self) -> tuple[Document, ...]:
        """The sequences of the batch: one per row, but for padding and packing.

        Raises:
            ValueError: for a pass that continues an earlier one, which holds a part of a sequence,
                a mask that hides tokens amid a sequence, and one that hides tokens from all others
                where no argument that the lens knows names them as padding.
        """
        if self.start:
            raise ValueError(
                f"{self.name} continues {self.start} tokens of a cache, whose queries are gone; "
                "means over all queries would count them. Trace the whole sequence, or read "
                "layer.coefficients()."
            )
        if self.segments is not None:
            return documents_of(self.segments)
        if shows_padding(self.dynamics):
            raise ValueError(
                f"the mask of {self.name} hides some tokens from all others, as that of a padded "
                "batch does, and means would count them: the model has no attention_mask (B, L) "
                "that says which. Trace each sequence alone, without its padding."
            )
        batch, length = self.dynamics.batch_shape[0], self.dynamics.length
        return tuple(Document(row, 0, length) for row in range(batch))

    def sequences(self) -> tuple[CoefficientDynamics, ...]:
        """The dynamics of each of ``documents`` alone, (1, H); the whole batch where no token is
        padding and no row holds two."""
        documents = self.documents
        if self.segments is None:
            return (self.dynamics,)
        return tuple(alone(self.dynamics, document) for document in documents)

    def __repr__(self) -> str:
        batch, heads = self.dynamics.batch_shape
        return (
            f"LayerTrace({self.name}: {self.mechanism}, B={batch}, H={heads}, "
            f"L={self.dynamics.length}, error={self.error:.1e})"
        )
