"""CoefficientDynamics: queries, keys and the four ingredients, ready to be looked at or run."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from coefdyn.dynamics import checks
from coefdyn.dynamics.evolution import Evolution
from coefdyn.dynamics.mask import Mask
from coefdyn.dynamics.normalizer import Normalizer
from coefdyn.dynamics.readout import FeatureMap, Readout
from coefdyn.shapes import Float, Tensor

if TYPE_CHECKING:
    from coefdyn.execution.state import State

__all__ = ["CoefficientDynamics"]


@dataclass(frozen=True, kw_only=True, eq=False)
class CoefficientDynamics:
    r"""One causal sequence mixer on one input, as coefficient dynamics (paper, eq. 2-4).

        h_{i,j}     = A_i A_{i-1} ... A_{j+1} b_j k_j
        alpha_{i,j} = phi(q_i^T h_{i,j})   for j <= i, 0 otherwise
        y_i         = (1/eta_i) sum_{j <= i} alpha_{i,j} v_j

    One head per leading index: batch, heads and replicas are leading axes. A tensor has all of
    them (size 1 broadcasts) or none.

    Args:
        q: queries, ``(..., L, n)``, real floating point.
        k: keys, ``(..., L, n)``.
        evolution: A_t, from ``coefdyn.evolution``.
        scaling: b_j, a float or ``(..., L)``.
        readout: phi, from ``coefdyn.readout``.
        normalizer: eta_i, from ``coefdyn.normalizer``.
        log_scaling: None or ``(..., L)`` in nats: b_j is then scaling_j exp(log_scaling_j), kept in
            the log so that gates of some hundred nats stay finite where eta_i cancels them (mLSTM).
            With a readout that is not homogeneous (exp, softplus) they enter the scores themselves,
            which are then computed in float64 and must stay in its range.
        own: None or ``(..., L)``: alpha_{i,i} is increased by own_i after phi and before eta, what
            a token adds for itself alone (D of Mamba, the bonus of RWKV).
        outer_log_decay: None or c ``(..., L)`` in nats per token: a decay outside phi,
            alpha_{i,j} = exp(c_{j+1} + ... + c_i) phi(.) (ALiBi, forgetting attention). For a
            linear readout it is the same as a factor exp(c_t) of A_t.
        mask: None or one of ``coefdyn.mask``: pairs that may not meet are exact zeros.

    Raises:
        ValueError: for shapes, dtypes or devices that do not fit, L = 0, integer or complex input,
            non-finite values, or zeros in eta (both told only for plain CPU tensors that carry no
            gradient, and not under ``torch.no_grad()``: a trained model that has diverged is left
            alone).
    """

    q: Float[Tensor, "*#batch L n"]
    k: Float[Tensor, "*#batch L n"]
    evolution: Evolution
    scaling: float | Float[Tensor, "*#batch L"]
    readout: Readout
    normalizer: Normalizer
    log_scaling: Float[Tensor, "*#batch L"] | None = None
    own: Float[Tensor, "*#batch L"] | None = None
    outer_log_decay: Float[Tensor, "*#batch L"] | None = None
    mask: Mask | None = None

    def __post_init__(self) -> None:
        self._check_types()
        q = checks.check_tensor("q", self.q)
        if q.ndim < 2 or q.shape[-2] == 0 or q.shape[-1] == 0:
            raise ValueError(
                f"q must have shape (..., L, n) with L >= 1 and n >= 1, got {tuple(q.shape)}."
            )
        sizes = {"L": q.shape[-2], "n": q.shape[-1]}
        for name, (value, axes) in self._named_tensors().items():
            checks.check_tensor(name, value, like=q)
            checks.check_axes(name, value, axes, sizes)
            checks.check_finite(name, value)
            if name.endswith(".sign"):
                checks.check_sign(name, value)
            if name == "normalizer.eta":
                checks.check_nonzero(name, value)
        self._check_mask(sizes["L"])
        _ = self.batch_shape
        if isinstance(self.readout, FeatureMap) and checks.can_look_at(q):
            self.readout.check_tokenwise(q)

    def _check_types(self) -> None:
        kinds = {"evolution": Evolution, "readout": Readout, "normalizer": Normalizer}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ValueError(checks.wrong_kind(name, value, kind))
        scaling = self.scaling
        if isinstance(scaling, Tensor):
            return
        limit = sys.float_info.max  # an integer may lie beyond it
        if not isinstance(scaling, (int, float)) or not -limit <= scaling <= limit:
            raise ValueError(
                f"scaling must be a number or a tensor (..., L), finite, got {scaling!r}; "
                "use 1.0 for b_j = 1."
            )

    def _check_mask(self, length: int) -> None:
        if self.mask is not None and not isinstance(self.mask, Mask):
            raise ValueError(checks.wrong_kind("mask", self.mask, Mask))
        allowed = self.mask.tensors().get("allowed") if self.mask is not None else None
        if allowed is not None and allowed.shape[-2] != length:
            raise ValueError(
                f"mask.Given has {allowed.shape[-2]} rows, got L={length} tokens; it needs one row "
                "and one column per token."
            )
        if getattr(self.normalizer, "sink", None) is not None and self.readout.is_linear:
            raise ValueError(
                "RowSum(sink=) adds exp(sink) to a sum of coefficients, and those of a linear "
                "readout have any sign; use a readout that is positive, such as readout.exp, or "
                "RowSum() without a sink."
            )

    def _named_tensors(self) -> dict[str, tuple[Tensor, str]]:
        """Every tensor with its trailing axes."""
        named = {"q": (self.q, "Ln"), "k": (self.k, "Ln")}
        if isinstance(self.scaling, Tensor):
            named["scaling"] = (self.scaling, "L")
        if self.log_scaling is not None:
            named["log_scaling"] = (self.log_scaling, "L")
        for name in ("own", "outer_log_decay"):
            if (value := getattr(self, name)) is not None:
                named[name] = (value, "L")
        for name, value in self.evolution.tensors().items():
            named[f"evolution.{name}"] = (value, self.evolution.axes[name])
        for name, value in self.normalizer.tensors().items():
            named[f"normalizer.{name}"] = (value, "L")
        return named

    @property
    def length(self) -> int:
        """Sequence length L."""
        return self.q.shape[-2]

    @property
    def key_dim(self) -> int:
        """Key dimension n."""
        return self.q.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """The broadcast of all leading axes."""
        named = self._named_tensors().items()
        shapes = {name: tuple(x.shape[: x.ndim - len(axes)]) for name, (x, axes) in named}
        if self.mask is not None:
            held = self.mask.tensors().items()
            shapes |= {f"mask.{name}": tuple(x.shape[:-2]) for name, x in held}
        return checks.common_batch(shapes)

    @property
    def dtype(self) -> torch.dtype:
        return self.q.dtype

    @property
    def device(self) -> torch.device:
        return self.q.device

    def scaled_keys(self) -> Float[Tensor, "*batch L n"]:
        """b_j k_j without the factor exp(log_scaling_j)."""
        if isinstance(self.scaling, Tensor):
            return self.scaling[..., None] * self.k
        return self.scaling * self.k

    def to(self, target: torch.dtype | torch.device) -> CoefficientDynamics:
        """The same dynamics with every tensor converted to a dtype or moved to a device."""
        mask = None if self.mask is None else self.mask.to(target)
        return with_tensors(self, lambda name, axes, x: x.to(target), mask=mask)

    def narrow(self, start: int, length: int) -> CoefficientDynamics:
        """Return the ingredients of positions start .. start + length - 1, without their past."""
        mask = None if self.mask is None else self.mask.narrow(start, length)
        return with_tensors(
            self, lambda name, axes, x: x.narrow(x.ndim - len(axes), start, length), mask=mask
        )

    # The methods below call coefdyn.execution: the only imports that go upwards.

    def coefficients(
        self, normalized: bool = False, method: str = "auto"
    ) -> Float[Tensor, "*batch L L"]:
        """alpha_{i,j}, or alpha_{i,j} / eta_i; exact zeros above the diagonal.

        Args:
            normalized: divide each row by eta_i.
            method: "auto", "reference" or "parallel".

        Raises:
            ValueError: for another method.
        """
        from coefdyn.execution import apply

        return apply.coefficients(self, normalized=normalized, method=method)

    def states(self, j: int) -> Float[Tensor, "*batch rows n"]:
        """h_{i,j} for i = j .. L-1: the impulse response of token j (0-based).

        Raises:
            ValueError: if j is not a position.
        """
        from coefdyn.execution import reference

        return reference.states(self, j)

    @overload
    def apply(
        self,
        v: Tensor,
        method: str = "auto",
        *,
        state: State | None = None,
        return_state: Literal[False] = False,
    ) -> Tensor: ...

    @overload
    def apply(
        self,
        v: Tensor,
        method: str = "auto",
        *,
        state: State | None = None,
        return_state: Literal[True],
    ) -> tuple[Tensor, State]: ...

    def apply(
        self,
        v: Float[Tensor, "*#batch L dv"],
        method: str = "auto",
        *,
        state: State | None = None,
        return_state: bool = False,
    ) -> Float[Tensor, "*batch L dv"] | tuple[Float[Tensor, "*batch L dv"], State]:
        """y_i = (1/eta_i) sum_j alpha_{i,j} v_j.

        With a state, the sum is over the tokens before these as well: a sequence given in pieces
        has the values and the gradients of the whole. The state of a linear readout has a fixed
        size n x d_v; any other readout keeps every key and value (Lemma 1). Gradients flow to the
        state that is given and from the one that is returned.

        NaN or infinity at a token leaves the rows before it as they are. On CUDA and while a graph
        is recorded (torch.compile, torch.func) this holds for "reference" and "recurrent" alone:
        other methods would have to wait for their numbers, and lose the token's whole tile. It is
        said of values: a gradient through such a call may be NaN.

        Args:
            v: values, ``(..., L, d_v)``, dtype and device of q.
            method: "auto", "reference", "recurrent", "parallel", "chunked" or "triton". An explicit
                request that cannot be met raises; it never falls back. With a state, a linear
                readout is computed by "recurrent" or "chunked" ("auto": chunks from 64 tokens on),
                any other after a state token by token, by "auto" or "reference".
            state: what an earlier call returned, these tokens follow; None before the first one.
            return_state: whether to return the state after these tokens, too.

        Returns:
            y of these tokens; with ``return_state`` a pair of y and the state after them.

        Raises:
            ValueError: for a v that does not fit, or a method that cannot compute this readout and
                evolution (the message names one that can); for a state of other sizes, leading
                axes, dtype or kind than this design continues.
        """
        from coefdyn.execution import apply

        if state is None and not return_state:
            return apply.apply(self, v, method=method)
        y, after = apply.carry(self, v, method=method, state=state)
        return (y, after) if return_state else y

    def extend(
        self, v: Float[Tensor, "*#batch L dv"], state: State | None = None
    ) -> tuple[Float[Tensor, "*batch L dv"], State]:
        """Continue a sequence: ``apply(v, state=state, return_state=True)``."""
        return self.apply(v, state=state, return_state=True)

    def step(
        self, v_t: Float[Tensor, "*#batch dv"], state: State | None = None
    ) -> tuple[Float[Tensor, "*batch dv"], State]:
        """One token after those in ``state``: ``extend`` for L = 1, without the axis of tokens.

        Args:
            v_t: the value of the next token, ``(..., d_v)``.
            state: what the previous call returned; None before the first token.

        Returns:
            y_t ``(..., d_v)``, and the state after it.

        Raises:
            ValueError: if these are the ingredients of more than one token, and as ``extend``.
        """
        if self.length != 1 or not isinstance(v_t, Tensor) or v_t.ndim == 0:
            got = tuple(v_t.shape) if isinstance(v_t, Tensor) else repr(v_t)
            raise ValueError(
                f"step takes one token: the ingredients of L=1, got L={self.length}, and v_t of "
                f"shape (..., d_v), got {got}. Use narrow(t, 1).step(v[..., t, :], state), or "
                "extend(v, state) for several tokens at once."
            )
        y, state = self.extend(v_t[..., None, :], state)
        return y[..., 0, :], state

    def __repr__(self) -> str:
        scaling: Any = (
            tuple(self.scaling.shape) if isinstance(self.scaling, Tensor) else f"{self.scaling:.4g}"
        )
        return (
            f"CoefficientDynamics(L={self.length}, n={self.key_dim}, batch={self.batch_shape}, "
            f"A_t={type(self.evolution).__name__}, b_j={scaling}, phi={self.readout.name}, "
            f"eta_i={self.normalizer.name}{self._restrictions()})"
        )

    def _restrictions(self) -> str:
        """Names of the restrictions beside the four ingredients, in words."""
        parts = ["own" if self.own is not None else ""]
        parts.append("outer decay" if self.outer_log_decay is not None else "")
        parts.append(repr(self.mask) if self.mask is not None else "")
        return "".join(f", {part}" for part in parts if part)


def with_tensors(
    dynamics: CoefficientDynamics, change: Callable[[str, str, Tensor], Tensor], **others: Any
) -> CoefficientDynamics:
    """The same design with ``change(name, trailing axes, tensor)`` for each tensor but those of its
    mask, and with ``others``; what was one object stays one."""
    made: list[tuple[Tensor, Tensor]] = []
    parts: dict[str, dict[str, Any]] = {"evolution": {}, "normalizer": {}, "": others}
    for name, (value, axes) in dynamics._named_tensors().items():
        known = [new for old, new in made if old is value]
        new = known[0] if known else change(name, axes, value)
        made.append((value, new))
        owner, _, short = name.rpartition(".")
        parts[owner][short] = new
    own = parts.pop("")
    owners = {owner: replace(getattr(dynamics, owner), **held) for owner, held in parts.items()}
    return replace(dynamics, **owners, **own)
