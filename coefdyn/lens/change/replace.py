"""``replaced``: a model with some of its heads changed in terms of their design."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.lens.adapters.base import CONTINUES, Call, ProjectedAdapter, Refused
from coefdyn.lens.change.changes import Change, HeadsSeen, as_change
from coefdyn.lens.documents import shows_padding, some_heads
from coefdyn.lens.run.listening import Heard, Listener, deviation, far_off, seen_rows
from coefdyn.lens.run.refusals import check_call
from coefdyn.options import did_you_mean
from coefdyn.shapes import Tensor

__all__ = ["Changes", "replaced"]

Layer = int | str
What = str | Change | Callable[[CoefficientDynamics], CoefficientDynamics]
Changes = Mapping[Layer | tuple[Layer, int | Sequence[int]], What]

#: names under which modules keep the projection behind the heads
OUTPUTS = (
    *("o_proj", "out_proj", "dense", "c_proj", "linear_out", "projection", "wo", "out", "proj"),
    *("output", "output_proj", "proj_out", "to_out", "attn_out", "W_o", "Wo", "fc_out", "o"),
)


@contextmanager
def replaced(model: nn.Module, changes: Changes) -> Iterator[None]:
    r"""Change some heads of a model inside the context; the model is unchanged after it.

        with replaced(model, {("model.layers.3.self_attn", 5): "ablate"}):
            logits = model(ids).logits
        with replaced(model, {0: lambda d: dataclasses.replace(d, evolution=Identity())}):
            text = model.generate(ids, use_cache=False)

    A function of a design is handed the ``CoefficientDynamics`` of the chosen heads, ``(B,
    heads)``. What it returns takes its place, y + (alpha'/eta' - alpha/eta) v, and goes on into
    norms, gates and projections. What a change leaves alone keeps the model's own bits. A change is
    exact or refused: where the coefficients do not give the model's own output, none is replaced.

    Changes by name: "ablate" (zero where the head enters the output projection, behind norms, gates
    and D), "mean" (there its mean over all real tokens of the batch), "silence" (y = 0), "without
    erasure", "without decay"; ``window(size, sink=...)``, ``using(readout=..., normalizer=...)``,
    ``patched(trace)``. A design without erasure, or decay, stays as it is; a change that finds
    nothing to change anywhere is told in a warning.

    With ``generate(use_cache=False)`` every change works. With a cache "ablate" does, for every
    mechanism; softmax attention takes all changes but "mean" and those of ``patched``; what needs
    the coefficients of a linear mixer is refused, as only its state is there. Contexts can be
    nested; of two changes of y of the same head the inner one holds.

    Args:
        model: as for ``trace``; in ``eval()`` unless it has no dropout.
        changes: what to do, by layer or by (layer, head) or (layer, heads). A layer is a number in
            the order in which they run, a module's name (it stands for everything below it), or
            "*" for all. Grouped keys: heads are those of the queries; Mamba-1 and RG-LRU have one
            per channel.

    Raises:
        ValueError: at once for a change that is none and what ``trace`` refuses; while the model
            runs for a layer or head that it does not have, a head changed twice, coefficients that
            are not those of the model, heads that do not enter a projection apart, and a cached
            step whose coefficients are not there.
    """
    check_call(model, (), {})
    with replacing(model, changes) as replacer:
        yield
    for one in replacer.asked:
        if one.idle and not one.acted:
            warnings.warn(f"{one.change.name} changed nothing: {one.told()}.", stacklevel=3)


@contextmanager
def replacing(model: nn.Module, changes: Changes) -> Iterator[Replacer]:
    """``replaced``, which also says what each change found to change."""
    replacer = Replacer(model, changes)
    try:
        with replacer.listening():
            yield replacer
        if replacer.ran:
            replacer.check_found()
    finally:
        replacer.forget()


class _Asked:
    """One entry of ``changes``."""

    def __init__(self, key: Any, what: What) -> None:
        pair = isinstance(key, tuple) and len(key) == 2
        layer, heads = key if pair else (key, None)
        if isinstance(layer, bool) or not isinstance(layer, (int, str)):
            raise Refused(
                "a layer is a number, a module's name or '*', and a head (layer, number); got "
                f"{key!r}."
            )
        self.layer, self.change, self.found = layer, as_change(what), False
        #: whether it changed anything, and where there was nothing to change
        self.acted, self.idle = False, dict[str, str]()
        several = isinstance(heads, Sequence) and not isinstance(heads, str)
        self.heads: tuple[Any, ...] | None = None
        if heads is not None:
            self.heads = tuple(heads) if several else (heads,)
        for head in self.heads or ():
            if isinstance(head, bool) or not isinstance(head, int) or head < 0:
                raise Refused(f"a head is a number from 0, got {head!r} for layer {layer!r}.")

    def told(self) -> str:
        """The ingredient that was missing, such as "no decay in softmax attention"."""
        return ", ".join(sorted(set(self.idle.values())))


class Replacer(Listener):
    """Acts on the calls that ``changes`` name."""

    def __init__(self, model: nn.Module, changes: Changes) -> None:
        self._sizes: dict[str, tuple[int, int]] = {}
        self._waiting: list[tuple[str, Any]] = []
        super().__init__(model)
        if not isinstance(changes, Mapping):
            raise Refused(
                "changes is a mapping from a layer, or (layer, head), to what is done there, such "
                f"as {{(0, 3): 'ablate'}}; got {type(changes).__name__}."
            )
        self.asked = [_Asked(key, what) for key, what in changes.items()]

    def on_call(self, call: Heard, y: Tensor | None) -> Tensor | None:
        asked = [one for one in self.asked if call.is_named(one.layer)]
        if not asked:
            return None
        with self.reading():
            read = self._read(call, asked)
            if read is not None:
                self._sizes[call.label] = (read.output.shape[1], read.output.shape[-1])
            heads, width = self._sizes[call.label]
            for entry, chosen in self._chosen(call, asked, heads):
                one = entry.change
                entry.acted |= not one.computes
                if one.behind and not one.stepwise and call.segments is None and read is not None:
                    self._check_all_real(call, one, read)
                if one.behind and not self._enters_as_it_is(call):
                    self._wait(call, one, chosen, heads, width, read)
                    continue
                assert read is not None, "a change of y needs the call"
                new = self._changed(call, entry, chosen, read)
                y = (read.output if y is None else y).clone()
                y[:, list(chosen)] = new.to(y.dtype)
        return y

    def on_end(self, output: Any) -> None:
        if self._waiting:
            left = ", ".join(dict.fromkeys(label for label, _ in self._waiting))
            self.forget()
            raise Refused(
                f"the projection behind the heads of {left} was not called as a module, so nothing "
                "could be changed there; use 'silence', which acts on y."
            )
        self.check_found()

    def _start(self, model: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        super()._start(model, args, kwargs)
        acts = self.asked and torch.is_grad_enabled() and self.hears() and not self._running
        if acts and any(
            part.training and getattr(part, "gradient_checkpointing", False)
            for part in model.modules()
        ):
            raise Refused(
                "gradient checkpointing runs layers again in the backward pass, where nothing is "
                "changed; call model.gradient_checkpointing_disable() first."
            )

    def check_found(self) -> None:
        """Raise for changes whose layer never ran."""
        missing = [one.layer for one in self.asked if not one.found]
        if missing:
            known = ", ".join(sorted(self.heard)) or "none that the lens can read"
            raise Refused(
                f"no layer {missing[0]!r} ran in {type(self.model).__name__}"
                f"{did_you_mean(missing[0], self.heard)} There are {known}."
            )

    def forget(self) -> None:
        """Drop the changes that still wait for a projection."""
        for _, hook in self._waiting:
            hook.remove()
        self._waiting.clear()

    def _begin(self) -> None:
        super()._begin()
        self.forget()  # of a pass that was broken off

    def _read(self, call: Heard, asked: Sequence[_Asked]) -> Call | None:
        """The call; None for a step whose coefficients are not there and not needed."""
        words = ", ".join(sorted({one.change.name for one in asked}))
        for one in asked:
            one.found = True
        try:
            return call.read()
        except Refused as reason:
            if call.label in self._sizes and all(one.change.stepwise for one in asked):
                return None
            raise Refused(
                f"{call.label} cannot be changed ({words}) in this step: {reason} Generate with "
                "use_cache=False, or use 'ablate', which works with a cache behind a prompt."
                if str(reason) == CONTINUES
                else str(reason)
            ) from reason
        except Exception as reason:
            raise Refused(
                f"{call.label} cannot be changed ({words}): reading it as "
                f"{call.adapter.mechanism} gave: {reason}"
            ) from reason

    def _chosen(
        self, call: Heard, asked: Sequence[_Asked], heads: int
    ) -> list[tuple[_Asked, tuple[int, ...]]]:
        taken: set[int] = set()
        plan = []
        for one in asked:
            chosen = tuple(range(heads)) if one.heads is None else one.heads
            if chosen and max(chosen) >= heads:
                raise Refused(f"{call.label} has heads 0 to {heads - 1}, got {max(chosen)}.")
            twice = sorted(taken & set(chosen))
            if twice or len(set(chosen)) < len(chosen):
                raise Refused(f"head {(twice or list(chosen))[0]} of {call.label} is named twice.")
            taken |= set(chosen)
            plan.append((one, chosen))
        return plan

    def _changed(self, call: Heard, entry: _Asked, heads: tuple[int, ...], read: Call) -> Tensor:
        places, one = list(heads), entry.change
        if one.behind:
            x = read.output[:, places].permute(0, 2, 1, 3)
            real = self._real(call, one, x.shape[0], x.shape[1], x.device)
            new = one.projected(x.flatten(0, 1), real.flatten())
            return new.unflatten(0, x.shape[:2]).permute(0, 2, 1, 3)
        seen = HeadsSeen(
            layer=call.label,
            heads=heads,
            dynamics=some_heads(read.dynamics, heads),
            values=read.values[:, places],
            output=read.output[:, places],
            segments=call.segments,
            dropped=max(0, call.tokens - read.dynamics.length) if read.start else 0,
        )
        if not one.computes:
            return one.y(seen)
        idle = one.idle(seen)
        if idle is not None:
            entry.idle[call.label] = f"{idle} in {call.adapter.mechanism}"
            return seen.output
        entry.acted = True
        rows = seen_rows(read)
        rows = rows[:, places] if rows.shape[1] > 1 else rows
        with torch.no_grad():
            mine = seen.dynamics.apply(seen.values)[..., -seen.output.shape[-2] :, :]
            error = deviation(mine, seen.output, rows)
        if error > far_off(self.model):
            raise Refused(
                f"{call.label} cannot be changed ({one.name}): its output is not that of "
                f"{call.adapter.mechanism} on what it was given (error {error:.1e})."
            )
        new = one.y(seen)
        # the difference that the change makes: what it leaves alone keeps the model's own bits
        y = seen.output + (new - mine)
        if new.requires_grad:  # the gradient is that of the new y alone
            y = y.detach() + (new - new.detach())
        return torch.where(rows, y, seen.output)

    def _check_all_real(self, call: Heard, one: Change, read: Call) -> None:
        if shows_padding(read.dynamics):
            raise Refused(
                f"{one.name} needs to know which tokens are padding: the mask of {call.label} "
                "hides some from all others, and no attention_mask (B, L) says it."
            )

    def _enters_as_it_is(self, call: Heard) -> bool:
        """Return whether y itself is the input of the projection, and is observed there."""
        module, adapter = self.model.get_submodule(call.name), call.adapter
        if isinstance(adapter, ProjectedAdapter):
            return _takes(getattr(module, adapter.out)) is not None
        return isinstance(module, nn.MultiheadAttention)

    def _wait(
        self,
        call: Heard,
        one: Change,
        chosen: tuple[int, ...],
        heads: int,
        width: int,
        read: Call | None,
    ) -> None:
        """Change the heads where they enter the projection, once, later in this pass."""
        if read is not None and read.values.shape[-2] != read.output.shape[-2] and not one.stepwise:
            raise Refused(f"{one.name} needs all tokens of {call.label}; use use_cache=False.")
        projection = self._projection(call, heads * width)

        def entering(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            self._waiting.remove(waiting)
            hook.remove()
            x = inputs[0].unflatten(-1, (heads, width)).clone()
            places = list(chosen)
            real = self._real(call, one, *_two(x.shape[:-2]), x.device)
            new = one.projected(x[..., places, :].flatten(0, -3), real.flatten())
            x[..., places, :] = new.unflatten(0, x.shape[:-2])
            return (x.flatten(-2), *inputs[1:])

        hook = projection.register_forward_pre_hook(entering)
        waiting = (call.label, hook)
        self._waiting.append(waiting)

    def _real(
        self, call: Heard, one: Change, batch: int, length: int, device: torch.device
    ) -> Tensor:
        """True for tokens that are no padding, ``(batch, length)``."""
        said = call.segments
        if said is None or one.stepwise:
            return torch.ones(batch, length, dtype=torch.bool, device=device)
        if said.numel() != batch * length:
            raise Refused(
                f"{one.name} needs to know which tokens are padding: the masks say it for "
                f"{tuple(said.shape)}, the heads of {call.label} have {(batch, length)}."
            )
        return (said != 0).to(device)

    def _projection(self, call: Heard, channels: int) -> nn.Module:
        """The module behind the heads: in the mixer, or in the module that holds it."""
        place = call.name
        for _ in range(3):
            found = [
                part
                for name, part in self.model.get_submodule(place).named_modules()
                if name.rpartition(".")[2] in OUTPUTS and _takes(part) == channels
            ]
            if len(found) == 1:
                return found[0]
            if found or not place:
                break
            place = place.rpartition(".")[0]
        raise Refused(
            f"no projection behind the heads of {call.label} is known: none of its modules, or "
            f"several, has one of the usual names ({', '.join(OUTPUTS[:6])}, ...) and takes "
            f"{channels} channels, its heads side by side. Use 'silence', which acts on y."
        )


def _two(shape: Sequence[int]) -> tuple[int, int]:
    """(B, L), or (1, tokens) for tokens of all rows in one."""
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def _takes(module: nn.Module) -> int | None:
    """Number of input channels of a linear map; None for any other module."""
    width = getattr(module, "in_features", None)
    if width is None and type(module).__name__ == "Conv1D":
        return int(module.weight.shape[0])  # type: ignore[union-attr, index]
    return width
