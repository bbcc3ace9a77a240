"""``trace``: one forward pass of someone else's model, its mixers as coefficient dynamics."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.lens.adapters import ADAPTERS, Adapter
from coefdyn.lens.adapters.base import (
    Call,
    OpAdapter,
    Refused,
    Unsupported,
    bind,
    exchanged,
    runnable,
)
from coefdyn.lens.adapters.masks import NOT_CAUSAL
from coefdyn.lens.documents import read_segments
from coefdyn.lens.layer import LayerTrace
from coefdyn.lens.record import Trace
from coefdyn.lens.refusals import check_call, looks_like_mixer
from coefdyn.shapes import Float, Tensor

__all__ = ["probe", "torch_operations", "trace"]

#: above this error a layer computes something else and is not shown: float32 and wider, half
FAR_OFF = {4: 1e-3, 2: 1e-1}

#: recorders at work, the innermost last: only that one hears
_AT_WORK: list[Recorder] = []


def trace(
    model: nn.Module,
    *inputs: Any,
    layers: Sequence[int | str] | None = None,
    probe: bool = False,
    **kwargs: Any,
) -> Trace:
    """Run a model once and return its mixers as coefficient dynamics, each with its own error.

    The model is any torch module that holds supported mixers: most causal language models of
    transformers, and this library's own. It runs once, without gradients, with its own operations;
    weights and outputs are untouched. What each dynamics reproduces is the output of the mixer's
    operation: convolutions before it, gates, norms and projections after it lie outside alpha
    (``LayerTrace.outside``).

    Where a kernel package is installed that cannot run on this machine's CPU, the model runs with
    the torch functions of its own source (see ``torch_operations``).

    Args:
        model: in ``eval()`` unless it has no dropout.
        inputs, kwargs: handed to the model: token ids ``(B, L)``, ``attention_mask``, ... Padding
            and packed documents that they name are kept as ``LayerTrace.segments``.
        layers: which mixers to keep in memory: numbers in the order in which they run, or names of
            modules (a name stands for everything below it). None for all.
        probe: also call each operation on v = I and compare with the coefficients
            (``LayerTrace.probe_error``); takes L / d_v more calls per layer.

    Returns:
        The layers in the order in which they ran, and what cannot be shown, with the reason.

    Raises:
        ValueError: for a text instead of ids, a compiled model, an encoder, a pass that continues
            an earlier one, a model in which no mixer is known (the message names the modules that
            looked like one), or ``layers`` of which none ran.
    """
    check_call(model, inputs, kwargs)
    recorder = Recorder(
        model=model,
        wanted=layers,
        probe=probe,
        segments=read_segments(_by_name(model, inputs, kwargs)),
    )
    with torch.no_grad(), recorder.listening():
        output = model(*inputs, **kwargs)
    unsupported = {**recorder.unsupported, **_unheard(model, recorder)}
    if not recorder.layers:
        raise Refused(_nothing_seen(model, recorder, unsupported))
    return Trace(layers=tuple(recorder.layers), unsupported=unsupported, model_output=output)


@contextmanager
def torch_operations(model: nn.Module) -> Iterator[None]:
    """Within it the model runs with the torch functions of its own source on a CPU.

    Transformers picks the GPU kernels of fla or mamba-ssm wherever they are installed, and then
    fails on a CPU; ``trace`` does the same as this for its one pass.
    """
    with ExitStack() as stack:
        for adapter in ADAPTERS:
            if isinstance(adapter, OpAdapter):
                for place in adapter.places(model):
                    original = getattr(place.owner, place.attribute)
                    stack.enter_context(
                        exchanged(place.owner, place.attribute, _on_torch(original))
                    )
        yield


def probe(call: Call) -> Float[Tensor, "B H L L"]:
    """alpha / eta as the operation itself shows it: its output for v = I, block by block."""
    batch, heads = call.values.shape[:2]
    length, width = call.dynamics.length, call.columns
    eye = torch.eye(length, dtype=call.values.dtype, device=call.values.device)
    blocks = []
    for start in range(0, length, width):
        block = eye[:, start : start + width]
        missing = width - block.shape[-1]
        padded = torch.nn.functional.pad(block, (0, missing))
        answer = call.replay(padded.expand(batch, heads, length, width).contiguous())
        blocks.append(answer[..., : width - missing])
    return torch.cat(blocks, -1)


@dataclass(eq=False)
class Recorder:
    """Listens to one pass: which module is running, and what its operation did."""

    model: nn.Module
    wanted: Sequence[int | str] | None
    probe: bool
    segments: Tensor | None = None
    layers: list[LayerTrace] = field(default_factory=list)
    unsupported: dict[str, str] = field(default_factory=dict)
    heard: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._names: dict[int, list[str]] = {}
        for name, module in self.model.named_modules(remove_duplicate=False):
            self._names.setdefault(id(module), []).append(name)
        self._calls: dict[str, int] = {}
        self._passes: dict[int, int] = {}
        self._running: list[str] = []
        self._count = 0
        self._thread = threading.get_ident()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Every place exchanged and every module hooked; all put back on the way out."""
        with ExitStack() as stack:
            for adapter in ADAPTERS:
                for place in adapter.places(self.model):
                    original = getattr(place.owner, place.attribute)
                    stand_in = adapter.listen(original, self._note(adapter))
                    stack.enter_context(exchanged(place.owner, place.attribute, stand_in))
            for module in self.model.modules():
                for hook in (
                    module.register_forward_pre_hook(self._enter),
                    module.register_forward_hook(self._leave, always_call=True),
                ):
                    stack.callback(hook.remove)
            _AT_WORK.append(self)
            stack.callback(_AT_WORK.remove, self)
            yield

    def _hears(self) -> bool:
        innermost = bool(_AT_WORK) and _AT_WORK[-1] is self
        return innermost and threading.get_ident() == self._thread

    def _enter(self, module: nn.Module, _: Any) -> None:
        if self._hears():
            names = self._names[id(module)]
            turn = self._passes.get(id(module), 0)
            self._passes[id(module)] = turn + 1
            self._running.append(names[min(turn, len(names) - 1)])
            self.ran.add(self._running[-1])

    def _leave(self, *_: Any) -> None:
        if self._hears() and self._running:
            self._running.pop()

    def _note(self, adapter: Adapter) -> Callable[[nn.Module | None, Callable[[], Call]], None]:
        def note(module: nn.Module | None, read: Callable[[], Call]) -> None:
            if not self._hears() or not self._running:
                return
            name = self._running[-1] if module is None else self._name_of(module)
            turn = self._calls[name] = self._calls.get(name, 0) + 1
            self.heard.add(name)
            label = name if turn == 1 else f"{name} ({turn})"
            place, self._count = self._count, self._count + 1
            if self._is_wanted(place, name):
                _AT_WORK.append(_NOBODY)  # reading a call is not part of the pass
                try:
                    self._keep(label, adapter, read)
                finally:
                    _AT_WORK.remove(_NOBODY)

        return note

    def _name_of(self, module: nn.Module) -> str:
        names = self._names.get(id(module), [type(module).__name__])
        running = [name for name in reversed(self._running) if name in names]
        return running[0] if running else names[0]

    def _is_wanted(self, place: int, name: str) -> bool:
        if self.wanted is None:
            return True
        return any(
            place == one if isinstance(one, int) else name == one or name.startswith(f"{one}.")
            for one in self.wanted
        )

    def _keep(self, label: str, adapter: Adapter, read: Callable[[], Call]) -> None:
        try:
            layer = _layer(label, adapter, read(), self.probe, self.segments)
        except Unsupported as reason:
            self.unsupported[label] = str(reason)
            return
        except Refused:
            raise
        except Exception as error:  # of one layer's call; the others are still shown
            self.unsupported[label] = (
                f"reading its call as {adapter.mechanism} raised {type(error).__name__}: "
                f"{(str(error).splitlines() or [''])[0][:120]}"
            )
            return
        limit = FAR_OFF[2 if _is_half(self.model) else 4]
        if layer.error <= limit:
            self.layers.append(layer)
        else:
            self.unsupported[label] = (
                f"its output is not that of {adapter.mechanism} on what it was given "
                f"(error {layer.error:.1e}): this class computes something else"
            )


@dataclass(eq=False)
class _Nobody(Recorder):
    """At work while a call is being read: hears nothing."""

    def __post_init__(self) -> None:
        self._thread = -1


_NOBODY = _Nobody(model=nn.Module(), wanted=None, probe=False)


def _layer(
    label: str, adapter: Adapter, call: Call, with_probe: bool, segments: Tensor | None
) -> LayerTrace:
    values, output = call.values.detach().clone(), call.output.detach().clone()
    seen = torch.ones_like(output[..., :1], dtype=torch.bool)
    if call.empty is not None:
        seen = seen & ~call.empty[..., None]
    probe_error = None
    if with_probe:
        measured = probe(call).to(values.dtype)
        mine = call.dynamics.coefficients(normalized=True).to(values.dtype)
        probe_error = _deviation(mine, measured, seen)
    return LayerTrace(
        name=label,
        mechanism=adapter.mechanism,
        dynamics=call.dynamics,
        values=values,
        output=output,
        error=_deviation(call.dynamics.apply(values), output, seen),
        outside=adapter.outside,
        probe_error=probe_error,
        segments=_segments(segments, call.dynamics),
    )


def _by_name(model: nn.Module, inputs: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    try:
        return bind(model.forward, inputs, kwargs)
    except TypeError:  # the model will say what is wrong
        return kwargs


def _segments(said: Tensor | None, dynamics: CoefficientDynamics) -> Tensor | None:
    """The segments that this layer keeps apart: packed documents are one where it reads across."""
    if said is None or said.shape != (dynamics.batch_shape[0], dynamics.length):
        return None
    real = said != 0
    other = (said[:, :, None] != said[:, None, :]) & real[:, :, None] & real[:, None, :]
    if not bool(other.any()):
        return said
    across = (dynamics.coefficients() != 0) & other[:, None]
    return real.long() if bool(across.any()) else said


def _deviation(mine: Tensor, theirs: Tensor, seen: Tensor) -> float:
    """Largest deviation relative to the largest entry; NaN counts as infinite."""
    theirs = theirs.masked_fill(~seen, 0.0)
    gap = (mine.masked_fill(~seen, 0.0) - theirs).abs().amax().item()
    largest = theirs.abs().amax().item()
    if gap != gap:
        return float("inf")
    return gap / largest if largest > 0 else gap


def _is_half(model: nn.Module) -> bool:
    """Whether some of its arithmetic is in half precision: by its weights, or under autocast."""
    half = (torch.float16, torch.bfloat16)
    kinds = {weight.device.type for weight in model.parameters()}
    cast = any(kind != "meta" and torch.is_autocast_enabled(kind) for kind in kinds)
    return cast or any(weight.dtype in half for weight in model.parameters())


def _on_torch(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return runnable(original, (*args, *kwargs.values()))(*args, **kwargs)

    return stand_in


def _unheard(model: nn.Module, recorder: Recorder) -> dict[str, str]:
    """Modules that ran and look like mixers, in which no known operation was heard."""
    heard = recorder.heard
    found = {}
    for name, module in model.named_modules():
        if name not in recorder.ran or not looks_like_mixer(module):
            continue
        inside = any(_within(one, name) or _within(name, one) for one in heard)
        deeper = any(
            _within(other, name) and other != name and looks_like_mixer(part)
            for other, part in model.named_modules()
        )
        if not inside and not deeper:
            found[name] = f"no known operation ran in this {type(module).__name__}"
    return found


def _within(name: str, outer: str) -> bool:
    return name == outer or name.startswith(f"{outer}.") or outer == ""


def _nothing_seen(model: nn.Module, recorder: Recorder, unsupported: dict[str, str]) -> str:
    name = type(model).__name__
    if recorder.wanted is not None and recorder.heard and not recorder.unsupported:
        known = ", ".join(sorted(recorder.heard))
        return f"none of layers={list(recorder.wanted)!r} ran in {name}; there are {known}."
    if any(reason == NOT_CAUSAL for reason in unsupported.values()):
        return (
            f"{name} is an encoder: {NOT_CAUSAL}, so there is no causal map to show. "
            "Pass a causal model (a class named ...ForCausalLM)."
        )
    listed = "; ".join(f"{place}: {why}" for place, why in list(unsupported.items())[:6])
    mechanisms = ", ".join(dict.fromkeys(adapter.mechanism for adapter in ADAPTERS))
    return (
        f"no mixer of {name} can be shown. "
        + (f"Modules that looked like one: {listed}. " if listed else "None looked like a mixer. ")
        + f"The lens knows {mechanisms}."
    )
