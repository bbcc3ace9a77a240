"""The base of every mixer: project x, build the coefficient dynamics, apply, project back.

A mixer chooses four ingredients in ``build``; everything else is here, once, so the file is a
little longer than 400 lines."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, cast

import torch
from torch import nn

from coefdyn import CoefficientDynamics
from coefdyn.dynamics.documents import Documents, NoDocuments, find
from coefdyn.mixers.initial import Resettable
from coefdyn.mixers.offered import offered, show_constructor
from coefdyn.mixers.projections import HeadProjection, OutputStage, head_sizes
from coefdyn.mixers.tokens import MixerState, Symbols, Tokens, check_kind, check_state, first
from coefdyn.options import did_you_mean
from coefdyn.shapes import Float, Tensor

__all__ = ["Mixer", "MixerState", "Past", "Symbols", "Tokens"]

#: what a mixer remembers of the tokens before, by name
Past = dict[str, Tensor]


class Mixer(Resettable, ABC):
    """One causal sequence mixer: x ``(..., L, d_model)`` to y of the same shape.

        x --tokens--> q, k, v --build--> CoefficientDynamics --apply--> y --finish--> output

    A subclass needs one method, ``build``; its q, k and v are then linear maps of x. With
    ``HeadMixer`` as its base it also has convolutions, norms, gates and positions. A mixer whose
    q, k, v come about in another way gives its own parts here and overrides ``tokens``.

    Args:
        d_model: width of x.
        n_heads: number of heads H.
        key_dim: n of ONE head (the papers' tables count all heads); d_model / n_heads if None.
        value_dim: d_v of ONE head; d_model / n_heads if None.
        project: modules from tokens to heads by name; linear maps "query", "key" and "value" if
            None.
        output: module from (heads y, x) to the output; one linear map if None.

    Half precision: ``mixer.half()`` or ``.bfloat16()``, or all parameters but ``float32_names()``.
    Norms, L2 norms and the dynamics sum in float32 either way.

    Linear maps are initialised as torch does; what the authors initialise otherwise is in the
    docstrings of the gates. Random numbers come from torch's current generator.

    Raises:
        ValueError: for sizes that do not fit.
    """

    #: symbols of the paper for the tables; a mixer of one's own needs none
    symbols: ClassVar[Symbols]
    #: parameters of this module that its authors exempt from weight decay
    no_weight_decay: ClassVar[tuple[str, ...]] = ()
    #: parameters of this module to keep in float32 where the others are of half precision
    keep_float32: ClassVar[tuple[str, ...]] = ()
    #: projections that are drawn after the output stage
    late: ClassVar[tuple[str, ...]] = ()
    #: options of a base class that this class fills itself
    filled: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        show_constructor(cls)

    def __new__(cls, *args: object, **given: object) -> Self:
        """Create an object without its parts, after checking the keywords that the class offers.

        Raises:
            TypeError: naming the nearest option that it has.
        """
        known = offered(cls)
        for option in given:
            if known is not None and option not in known:
                hint = did_you_mean(option, known)
                listing = ", ".join(sorted(known))
                raise TypeError(
                    f"{cls.__name__} has no option {option!r}{hint} It takes {listing}."
                )
        return super().__new__(cls)

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        project: Mapping[str, nn.Module] | None = None,
        output: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.key_dim, self.value_dim = head_sizes(d_model, n_heads, key_dim, value_dim)
        self.d_model, self.n_heads = d_model, n_heads
        if project is None:
            widths = {"query": self.key_dim, "key": self.key_dim, "value": self.value_dim}
            project = {
                name: HeadProjection(d_model=d_model, n_heads=n_heads, width=width)
                for name, width in widths.items()
            }
        self.project = nn.ModuleDict(project)
        if output is None:
            output = OutputStage(d_model=d_model, n_heads=n_heads, value_dim=self.value_dim)
        self.output = output

    def drawn(self) -> Iterable[nn.Module]:
        early = [part for name, part in self.project.items() if name not in self.late]
        rest = [part for part in self.children() if part not in (self.project, self.output)]
        return (*early, self.output, *(self.project[name] for name in self.late), *rest)

    @abstractmethod
    def build(self, tokens: Tokens) -> CoefficientDynamics:
        """Build the four ingredients for these tokens: the one part that differs by mixer."""

    def dynamics(
        self,
        x: Float[Tensor, "*batch L d"],
        *,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> tuple[CoefficientDynamics, Float[Tensor, "*heads rows dv"]]:
        """Coefficient dynamics of x, and the values; heads are the last leading axis.

        Args:
            x: ``(..., L, d_model)``.
            attention_mask, cu_seqlens: see ``forward``.

        Returns:
            dynamics with batch shape ``(..., H)``, and v ``(..., H, L, d_v)``; more heads or rows
            where ``collect`` says so.
        """
        found = self.documents(x, None, attention_mask, cu_seqlens)
        tokens = self._told(x, None, found)[0]
        return self._design(tokens), tokens.v

    def forward(
        self,
        x: Float[Tensor, "*batch L d"],
        method: str = "auto",
        *,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
        state: MixerState | None = None,
        return_state: bool = False,
    ) -> Float[Tensor, "*batch L d"] | tuple[Float[Tensor, "*batch L d"], MixerState | None]:
        """Apply the mixer to x; returns y ``(..., L, d_model)``, and the state if asked.

        With ``attention_mask`` or ``cu_seqlens`` every document gets the output that it would get
        alone: convolutions, positions, states and row sums begin anew with it. That takes O(L)
        memory more, no L x L mask. With a state, these tokens continue a sequence: pieces have the
        outputs and the gradients of the whole.

        Args:
            x: ``(..., L, d_model)``.
            method: as in ``CoefficientDynamics.apply``.
            attention_mask: ``(..., L)``, 1 for a token and 0 for padding, which stands on the left
                or on the right of a row; None for no padding. A state is returned after padding on
                the left, of the first pieces of a row; later pieces need no mask.
            cu_seqlens: boundaries of documents packed one after the other, whole numbers from 0 to
                at most L, for x ``(L, d_model)`` or ``(1, L, d_model)``; None for one document. A
                document may be empty, and the output of what follows the last one is 0. The first
                one continues that of the state, and the new state is that of the last one. A mask
                beside them must say the same.
            state: what an earlier call returned; None before the first token.
            return_state: whether to return the state after these tokens, too; that after no
                tokens is ``state``.

        Raises:
            ValueError: for masks that do not fit, a mixer that cannot tell documents apart, a state
                that another mixer or other sequences made, or padding before a state.
        """
        if isinstance(x, Tensor) and x.ndim > 1 and x.shape[-2] == 0:
            self.check_input(x, state)
            return (x.clone(), state) if return_state else x.clone()
        found = self.documents(x, state, attention_mask, cu_seqlens)
        state = self.resume(x, state)
        tokens, past = self._told(x, state, found)
        design, held = self._design(tokens), None if state is None else state.dynamics

        def finished(y: Tensor) -> Tensor:
            y = self.finish(self.collect(y), tokens)
            return y if found is None or cu_seqlens is None else found.without_padding(y)

        if not return_state:
            return finished(design.apply(tokens.v, method, state=held))
        y, inner = design.apply(tokens.v, method=method, state=held, return_state=True)
        after = tokens.start + x.shape[-2] if found is None else found.after()
        past = {name: one.clone() for name, one in past.items()}  # a view keeps all tokens alive
        return finished(y), MixerState(after, past, inner)

    def extend(
        self,
        x: Float[Tensor, "*batch L d"],
        state: MixerState | None = None,
        *,
        attention_mask: Tensor | None = None,
        cu_seqlens: Tensor | None = None,
    ) -> tuple[Float[Tensor, "*batch L d"], MixerState | None]:
        """Continue a sequence: ``forward(x, state=state, return_state=True)``."""
        masks: Any = {"attention_mask": attention_mask, "cu_seqlens": cu_seqlens}
        return self.forward(x, state=state, return_state=True, **masks)  # type: ignore[return-value]

    def resume(self, x: Float[Tensor, "*batch L d"], state: MixerState | None) -> MixerState | None:
        """Complete a state for these tokens; for mixers that look one token ahead."""
        return state

    def documents(
        self,
        x: Tensor,
        state: MixerState | None,
        attention_mask: Tensor | None,
        cu_seqlens: Tensor | None,
    ) -> Documents | None:
        """Starts of the documents of x; None if documents are not separated.

        Args:
            x: ``(..., L, d_model)``.
            state: what the previous call returned, or None.
            attention_mask, cu_seqlens: see ``forward``.

        Raises:
            ValueError: for masks that do not fit, or a state that was made without one.
        """
        asked = attention_mask is not None or cu_seqlens is not None
        before = None if state is None else getattr(state, "position", None)
        if not asked and not isinstance(before, Tensor):
            return None
        self.check_input(x)
        if state is not None and not isinstance(before, Tensor):
            raise ValueError(
                "the state was made without attention_mask or cu_seqlens, and cannot begin a "
                "document anew; give one to the first piece already (attention_mask of ones)."
            )
        return find(x.shape[:-1], x.device, before, attention_mask, cu_seqlens)

    def _design(self, tokens: Tokens) -> CoefficientDynamics:
        """Result of ``build`` for these tokens, with a new start at every document."""
        built = self.build(tokens)
        if not isinstance(built, CoefficientDynamics):
            got = "None (is a return missing?)" if built is None else type(built).__name__
            name = type(self).__name__
            raise ValueError(f"{name}.build must return a CoefficientDynamics, got {got}.")
        return tokens.apart(built)

    def _told(
        self, x: Tensor, state: MixerState | None, documents: Documents | None
    ) -> tuple[Tokens, dict[str, Tensor]]:
        """Call ``tokens`` with the documents only where there are some."""
        if documents is None:
            return self.tokens(x, state)
        if "documents" not in inspect.signature(self.tokens).parameters:
            raise NoDocuments(
                f"{type(self).__name__} cannot tell documents apart (attention_mask, cu_seqlens): "
                "its tokens() takes no documents. Give it one sequence at a time, or sequences of "
                "one length."
            )
        return self.tokens(documents.without_padding(x), state, documents=documents)

    def step(
        self, x_t: Float[Tensor, "*batch d"], state: MixerState | None = None
    ) -> tuple[Float[Tensor, "*batch d"], MixerState]:
        """Map one token ``(..., d_model)`` and the state (None at first) to y_t and the new state.

        Raises:
            ValueError: for something that is no token.
        """
        if not isinstance(x_t, Tensor) or x_t.ndim == 0:
            raise ValueError(f"step takes one token (..., d_model={self.d_model}), got {x_t!r}.")
        y, after = self.extend(x_t[..., None, :], state)
        return y[..., 0, :], cast(MixerState, after)

    def tokens(
        self,
        x: Float[Tensor, "*batch L d"],
        state: MixerState | None = None,
        documents: Documents | None = None,
    ) -> tuple[Tokens, dict[str, Tensor]]:
        """Project x to q, k, v (and z); also the convolutions' memory after these tokens."""
        self.check_input(x, state)
        parts, past = self.parts(x, state, documents=documents)
        q, k, v = parts["query"], parts["key"], parts["value"]
        tokens = Tokens(x=x, q=q, k=k, v=v, start=first(state), documents=documents)
        return self.arranged(tokens, None if state is None else state.past, past), past

    def arranged(self, tokens: Tokens, before: Past | None, past: Past) -> Tokens:
        """Queries, keys and values as ``build`` reads them; as they were projected by default.

        Args:
            tokens: as projected.
            before: memory after the piece before, by name; None at first.
            past: memory after this piece, to which a mixer adds its own.
        """
        return tokens

    def parts(
        self,
        x: Tensor,
        state: MixerState | None,
        *names: str,
        documents: Documents | None = None,
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Project x by the named projections (all if none is named); also returns their memory.

        With ``documents``, a convolution reads no token of another one.

        Raises:
            ValueError: for a state that another mixer made.
        """
        found: dict[str, Tensor] = {}
        past: dict[str, Tensor] = {}
        for name in names or self.project:
            before = None if state is None else state.past.get(name)
            places = () if documents is None else (documents.positions,)
            found[name], after = self.project[name](x, before, *places)
            if after is None:
                continue
            if state is not None and before is None:
                raise ValueError(
                    f"the state holds no memory of the {name} convolution: another mixer made it. "
                    "Start again with state=None, or continue with the mixer that made the state."
                )
            past[name] = after
        return found, past

    def collect(self, y: Float[Tensor, "*dynamics rows dv"]) -> Float[Tensor, "*heads L dv"]:
        """One output per head and token from those of the dynamics; the identity by default.

        A mixer may take several steps per token and read the last, or weigh the sum of several
        dynamics; its dynamics then have more positions, or more heads, than the mixer.
        """
        return y

    def finish(self, y: Float[Tensor, "*heads L dv"], tokens: Tokens) -> Tensor:
        """Apply the output norm and gate, merge the heads, and project."""
        return self.output(y, tokens.x)

    def state_size(self) -> int | None:
        """Numbers kept per sequence while generating; None if they grow with the length."""
        first, second = self._numbers_kept(1), self._numbers_kept(2)
        return first if first == second else None

    def state_growth(self) -> int:
        """Numbers added to the state by every further token (0 for a state of fixed size)."""
        return self._numbers_kept(2) - self._numbers_kept(1)

    @torch.no_grad()
    def _numbers_kept(self, length: int) -> int:
        after = self.extend(self._like().new_zeros(length, self.d_model))[1]
        return 0 if after is None else after.numbers()

    def no_weight_decay_names(self) -> set[str]:
        """Names (as in ``named_parameters``) of the parameters to exempt from weight decay."""
        return self._names_in("no_weight_decay")

    def float32_names(self) -> set[str]:
        """Names of the parameters to keep in float32 where a model is of half precision.

        Decays and their step sizes, eigenvalues, and weights of norms: bfloat16 holds a rate to
        8 bits, and a decay over a thousand tokens multiplies that error. A mixer takes them in
        float32 beside all others in half precision.
        """
        return self._names_in("keep_float32")

    def _names_in(self, attribute: str) -> set[str]:
        return {
            f"{prefix}.{name}" if prefix else name
            for prefix, module in self.named_modules()
            for name in getattr(module, attribute, ())
            if isinstance(getattr(module, name, None), nn.Parameter)
        }

    def _like(self) -> Tensor:
        """A parameter with the dtype of x, none of those that may stay in float32."""
        for part in (self.project, self.output, self):
            if (found := next(part.parameters(), None)) is not None:
                return found
        raise ValueError(f"{type(self).__name__} has no parameter.")

    def check_input(self, x: Tensor, state: MixerState | None = None) -> None:
        """Raise unless x fits this mixer and the state fits both.

        Raises:
            ValueError: naming the first thing that does not fit.
        """
        if not isinstance(x, Tensor) or not x.is_floating_point():
            got = x.dtype if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(
                f"x must be a floating-point tensor (..., L, d_model), got {got}; token ids pass "
                "through an embedding first (coefdyn.models), other numbers through .float()."
            )
        if x.ndim < 2 or x.shape[-1] != self.d_model:
            raise ValueError(
                f"x must have shape (..., L, d_model) with d_model={self.d_model}, "
                f"got {tuple(x.shape)}."
            )
        check_kind(x, self._like(), self)
        if state is not None:
            check_state(x, state)

    def extra_repr(self) -> str:
        return (
            f"d_model={self.d_model}, n_heads={self.n_heads}, key_dim={self.key_dim}, "
            f"value_dim={self.value_dim}"
        )


show_constructor(Mixer)
