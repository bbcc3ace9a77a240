"""Replicas of different models as the rows of one matrix: one optimiser, one step, one graph."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from types import FunctionType, MethodType
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn import functional

from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.population import Gradients, Population, gradients_of_one
from coefdyn.lab.training.results import config_key
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["Ensemble"]

#: how many parts run beside each other on a GPU; parts of one stream share their memory
STREAMS = 4

Found = TypeVar("Found")


class Ensemble:
    """Populations whose rows lie in one matrix; rows are as long as the largest model.

    Each stretch of runs with equal models is one part, a ``Population`` of its own. The rest of a
    shorter model's row is 0 and stays 0, since its gradient is.

    Args:
        configs: one run per replica, in the order of the rows.
        build: makes the untrained model of a run.
        device, precision, method: as for ``Population``.
    """

    def __init__(
        self,
        configs: Sequence[RunConfig],
        build: Callable[[RunConfig], nn.Module],
        device: torch.device,
        precision: str = "float32",
        method: str = "parallel",
    ) -> None:
        self.device = device
        self.parts = [
            Population(lambda first=runs[0]: build(first), seeds, device, precision, method)
            for runs in _stretches(configs)
            for seeds in [[run.seed for run in runs]]
        ]
        ends = [0]
        for part in self.parts:
            ends.append(ends[-1] + part.replicas)
        self._ranges = list(pairwise(ends))
        first = configs[0]
        self._models = [runs[0].model.to_dict() for runs in _stretches(configs)]
        self._shapes = {
            "task": first.task.to_dict(),
            "batch": first.train.batch,
            "precision": precision,
            "method": method,
            "device": str(device),
        }
        self.flat, self.decayed = self._share_one_matrix()
        self._steps: list[Gradients] = [part.loss_and_gradients for part in self.parts]
        several = device.type == "cuda" and len(self.parts) > 1
        self._streams = [torch.cuda.Stream(device) for _ in range(STREAMS)] if several else []

    def _share_one_matrix(self) -> tuple[Tensor, Tensor]:
        """The matrix that the parts' rows become views of, and where weight decay acts in it."""
        if len(self.parts) == 1:
            return self.parts[0].flat, self.parts[0].decayed
        width = max(part.size for part in self.parts)
        flat = torch.cat([_widened(part.flat, width) for part in self.parts])
        decayed = [_widened(part.decayed.expand(part.replicas, -1), width) for part in self.parts]
        for part, (start, stop) in zip(self.parts, self._ranges, strict=True):
            part.flat = flat[start:stop, : part.size]
        return flat, torch.cat(decayed)

    @property
    def replicas(self) -> int:
        """Rows of all parts together."""
        return self.flat.shape[0]

    def loss_and_gradients(
        self, inputs: Int[Tensor, "R batch L"], targets: Int[Tensor, "R batch L"]
    ) -> tuple[Float[Tensor, " R"], Float[Tensor, "R size"]]:
        """Each replica's loss on its own batch, and the gradient of its row."""
        found = self._side_by_side(
            [
                lambda step=step, rows=slice(*ends): step(inputs[rows], targets[rows])
                for step, ends in zip(self._steps, self._ranges, strict=True)
            ]
        )
        if len(found) == 1:
            return found[0]
        width = self.flat.shape[1]
        losses = torch.cat([loss for loss, _ in found])
        return losses, torch.cat([_widened(gradient, width) for _, gradient in found])

    @torch.no_grad()
    def logits(self, inputs: Int[Tensor, "R batch L"]) -> Float[Tensor, "R batch L vocab"]:
        """Every replica's predictions for its own inputs, one part after another."""
        found = [
            part.logits(inputs[start:stop])
            for part, (start, stop) in zip(self.parts, self._ranges, strict=True)
        ]
        return found[0] if len(found) == 1 else torch.cat(found)

    def model(self, replica: int) -> nn.Module:
        """A separate module with the present weights of one replica."""
        for part, (start, stop) in zip(self.parts, self._ranges, strict=True):
            if start <= replica < stop:
                return part.model(replica - start)
        raise IndexError(f"there are {self.replicas} replicas; got number {replica}.")

    def compile(self) -> None:
        """Pass each part's loss and gradient through torch.compile, which compiles at first use.

        Parts of equal runs but for seed and learning rate share what was compiled, also one after
        another in the same process: rows are arguments of the graph, not constants.
        """
        self._steps = [
            _compiled(part, config_key({**self._shapes, "model": model, "rows": part.replicas}))
            for part, model in zip(self.parts, self._models, strict=True)
        ]

    def restore(self) -> None:
        """Undo ``compile``."""
        self._steps = [part.loss_and_gradients for part in self.parts]

    def _side_by_side(self, calls: Sequence[Callable[[], Found]]) -> list[Found]:
        """What the calls return; with streams they may overlap, also inside a captured graph.

        Every stream waits for what came before, and what comes after waits for every stream. So a
        block of memory that a stream gets back is never one that another still reads.
        """
        if not self._streams:
            return [call() for call in calls]
        here = torch.cuda.current_stream(self.device)
        used = self._streams[: len(calls)]
        for stream in used:
            stream.wait_stream(here)
        found = []
        for place, call in enumerate(calls):
            with torch.cuda.stream(used[place % len(used)]):
                found.append(call())
        for stream in used:
            here.wait_stream(stream)
        return found


class _CompiledStep:
    """Losses and gradients at given rows through torch.compile, which compiles at first use.

    Rows go through vmap, below which torch compiles no kernel with a backward pass of its own. One
    row does without it then: its loss is compiled, and torch's backward pass of that is compiled
    with it.
    """

    def __init__(self, part: Population) -> None:
        self._part = part
        self._stacked = _through_compiler(part.gradients_at)
        self._alone: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None

    def __call__(self, flat: Tensor, inputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        if self._alone is None:
            try:
                return self._stacked(flat, inputs, targets)
            except torch.OutOfMemoryError:
                raise
            except Exception:
                if flat.shape[0] > 1:
                    raise
                self._alone = _through_compiler(self._part.loss_at)
        return gradients_of_one(self._alone, flat, inputs, targets)


#: what this process compiled: name of an architecture, its shapes and numerics -> the step
_COMPILED: OrderedDict[str, _CompiledStep] = OrderedDict()
#: steps that are kept; the oldest goes first
KEPT = 48


def _compiled(part: Population, name: str) -> Gradients:
    """The part's step through torch.compile; parts of equal names share one."""
    if name not in _COMPILED:
        _COMPILED[name] = _CompiledStep(part.without_rows())
        if len(_COMPILED) > KEPT:
            _COMPILED.popitem(last=False)
    step = _COMPILED[name]
    return lambda inputs, targets: step(part.flat, inputs, targets)


def _through_compiler(method: MethodType) -> Callable[..., Any]:
    """A method through torch.compile, with a code object of its own.

    Torch files what it compiled under the code object, and gives up after a few versions of one
    (``recompile_limit``), so that parts which shared it would take each other's places.
    """
    function = method.__func__
    copied = FunctionType(function.__code__.replace(), function.__globals__, function.__name__)
    return torch.compile(MethodType(copied, method.__self__), dynamic=False)


def _stretches(configs: Sequence[RunConfig]) -> list[list[RunConfig]]:
    """The runs, cut where the model changes."""
    return [list(runs) for _, runs in groupby(configs, key=lambda run: run.model)]


def _widened(rows: Float[Tensor, "R size"], width: int) -> Float[Tensor, "R width"]:
    """The rows with zeros behind them."""
    missing = width - rows.shape[1]
    return functional.pad(rows, (0, missing)) if missing else rows
