"""``trace``: one forward pass of someone else's model, its mixers as coefficient dynamics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.lens.adapters import ADAPTERS
from coefdyn.lens.adapters.base import (
    CONTINUES,
    Call,
    OpAdapter,
    Refused,
    Unsupported,
    runnable,
)
from coefdyn.lens.adapters.masks import NOT_CAUSAL
from coefdyn.lens.layer import LayerTrace
from coefdyn.lens.run.listening import Heard, Listener, at, deviation, far_off, seen_rows
from coefdyn.lens.run.record import Trace
from coefdyn.lens.run.refusals import check_call, looks_like_mixer
from coefdyn.shapes import Float, Tensor

__all__ = ["probe", "torch_operations", "trace", "tracing"]


def trace(
    model: nn.Module,
    *inputs: Any,
    layers: Sequence[int | str] | None = None,
    probe: bool = False,
    gradients: bool = False,
    **kwargs: Any,
) -> Trace:
    """Run a model once and return its mixers as coefficient dynamics, each with its own error.

    The model is any torch module that holds supported mixers: most causal language models of
    transformers, and this library's own. It runs once with its own operations, without gradients
    unless they are asked for; weights and outputs are untouched. What each dynamics reproduces is
    the output of the mixer's operation: convolutions before it, gates, norms and projections after
    it lie outside alpha (``LayerTrace.outside``). Within ``replaced`` it shows what each operation
    computed from what reached it, before some of its heads were replaced.

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
        gradients: keep the graph, so that a loss L of ``Trace.model_output`` has gradients with
            respect to the y of every layer, ``torch.autograd.grad(L, [x.output for x in seen])``,
            each ``(B, H, L, d_v)``. That of alpha_{i,j}/eta_i is then dL/dy_i^T v_j.

    Returns:
        The layers in the order in which they ran, and what cannot be shown, with the reason.

    Raises:
        ValueError: for a text instead of ids, a compiled model, an encoder, a pass that continues
            an earlier one, a model in which no mixer is known (the message names the modules that
            looked like one), or ``layers`` of which none ran.
    """
    check_call(model, inputs, kwargs)
    recorder = Recorder(model, layers, probe, gradients)
    with torch.set_grad_enabled(gradients), recorder.listening():
        model(*inputs, **kwargs)
    seen = recorder.passes[-1]
    if not seen.layers:
        raise Refused(_nothing_seen(model, recorder, seen.unsupported))
    return seen


@contextmanager
def tracing(
    model: nn.Module,
    *,
    layers: Sequence[int | str] | None = None,
    probe: bool = False,
    gradients: bool = False,
) -> Iterator[list[Trace]]:
    """Trace every pass of a model inside the context, such as those of ``generate``.

        with tracing(model) as passes:
            model.generate(ids, max_new_tokens=5)
        passes[-1]["model.layers.3.self_attn"].coefficients()  # a row over all cached keys

    A step that continues a cache shows softmax attention as ``LayerTrace.start`` says. A linear
    mixer has only a state there, which does not say what each token gave: it is in ``unsupported``.

    Args:
        model, layers, probe, gradients: as for ``trace``. Gradients are those of the caller's mode.

    Returns:
        A list to which each pass adds its ``Trace``.

    Raises:
        ValueError: as ``trace``, but for a pass of which nothing can be shown: it is an empty
            ``Trace`` with the reasons.
    """
    check_call(model, (), {})
    recorder = Recorder(model, layers, probe, gradients)
    with recorder.listening():
        yield recorder.passes


@contextmanager
def torch_operations(model: nn.Module) -> Iterator[None]:
    """Run the model with the torch functions of its own source on a CPU inside the context.

    Transformers picks the GPU kernels of fla or mamba-ssm wherever they are installed, and then
    fails on a CPU; ``trace`` does the same as this for its one pass.
    """
    with ExitStack() as stack:
        for adapter in ADAPTERS:
            if isinstance(adapter, OpAdapter):
                for place in adapter.places(model):
                    stack.enter_context(at(adapter, place, runner=_on_torch, asked_last=True))
        yield


def probe(call: Call) -> Float[Tensor, "B H rows L"]:
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


class Recorder(Listener):
    """Reads the operations of one pass into ``layers``; ``unsupported`` says where it cannot."""

    def __init__(
        self, model: nn.Module, wanted: Sequence[int | str] | None, probe: bool, gradients: bool
    ) -> None:
        super().__init__(model)
        self.wanted = [wanted] if isinstance(wanted, (str, int)) else wanted
        self.probe, self.gradients = probe, gradients
        self.layers: list[LayerTrace] = []
        self.unsupported: dict[str, str] = {}
        self.passes: list[Trace] = []

    def hears(self) -> bool:
        """Return whether this trace listens: of several only the innermost does."""
        return super().hears() and self.is_innermost()

    def on_call(self, call: Heard, y: Tensor | None) -> Tensor | None:
        if self.wanted is not None and not any(call.is_named(key) for key in self.wanted):
            return None
        with self.reading():
            try:
                layer = _layer(call, call.read(), self.probe, self.gradients)
            except (Unsupported, Refused) as reason:
                self.unsupported[call.label] = str(reason)
                return None
            except Exception as error:  # of one layer's call; the others are still shown
                self.unsupported[call.label] = (
                    f"reading its call as {call.adapter.mechanism} raised {type(error).__name__}: "
                    f"{(str(error).splitlines() or [''])[0][:120]}"
                )
                return None
        if layer.error > far_off(self.model):
            self.unsupported[call.label] = (
                f"its output is not that of {call.adapter.mechanism} on what it was given "
                f"(error {layer.error:.1e}): this class computes something else"
            )
            return None
        self.layers.append(layer)
        return layer.output if self.gradients and y is None else None

    def on_end(self, output: Any) -> None:
        """Count a pass; the next one begins anew."""
        unsupported = {**self.unsupported, **_unheard(self.model, self)}
        seen = Trace(layers=tuple(self.layers), unsupported=unsupported, model_output=output)
        self.passes.append(seen)
        self.layers, self.unsupported = [], {}


def _layer(heard: Heard, call: Call, with_probe: bool, gradients: bool) -> LayerTrace:
    values, output = call.values, call.output
    if not gradients:
        values, output = values.detach().clone(), output.detach().clone()
    seen = seen_rows(call)
    probe_error = None
    with torch.no_grad():
        y = call.dynamics.apply(values)[..., call.start :, :]
        error = deviation(y, output, seen)
        if with_probe:
            measured = probe(call).to(values.dtype)
            mine = call.dynamics.coefficients(normalized=True)[..., call.start :, :]
            probe_error = deviation(mine.to(values.dtype), measured, seen)
    return LayerTrace(
        name=heard.label,
        mechanism=heard.adapter.mechanism,
        dynamics=call.dynamics,
        values=values,
        output=output,
        error=error,
        outside=heard.adapter.outside,
        probe_error=probe_error,
        segments=_segments(heard.segments, call.dynamics),
        start=call.start,
    )


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


def _on_torch(original: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
    return runnable(original, (*args, *kwargs.values()))(*args, **kwargs)


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


def _nothing_seen(model: nn.Module, recorder: Recorder, unsupported: Mapping[str, str]) -> str:
    name = type(model).__name__
    if recorder.wanted is not None and recorder.heard and not unsupported:
        known = ", ".join(sorted(recorder.heard))
        return f"none of layers={list(recorder.wanted)!r} ran in {name}; there are {known}."
    if any(reason == CONTINUES for reason in unsupported.values()):
        return f"{name}: {CONTINUES}"
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
