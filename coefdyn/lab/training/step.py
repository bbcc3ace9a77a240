"""One optimiser step of a population: eager, compiled, captured as a CUDA graph, or both."""

from __future__ import annotations

import functools
import os
import shutil
import time
import warnings

import torch

from coefdyn.lab.training.adamw import StackedAdamW, clip_by_norm
from coefdyn.lab.training.ensemble import Ensemble
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["MODES", "Stepper"]

#: how a step is run; "auto" is "captured" or "graph" on a GPU, "compiled" on a CPU with a C++
#: compiler for a run of at least ``COMPILING_PAYS_STEPS``, and "eager" elsewhere
MODES = ("auto", "eager", "compiled", "captured", "graph")
#: in mode "auto" a step is compiled only if all steps, uncompiled, take longer than this per part
COMPILING_PAYS_S = 120.0
#: the same on a CPU: a number of steps, so that a run repeated on a busier machine runs alike
COMPILING_PAYS_STEPS = 2000


def default_mode(device: torch.device, steps: int) -> str:
    """What "auto" tries first for a run of so many steps."""
    if device.type == "cuda":
        return "graph"
    return "compiled" if steps >= COMPILING_PAYS_STEPS and compiler() else "eager"


@functools.cache
def compiler() -> str | None:
    """The C++ compiler that torch.compile would call here: ``$CXX``, g++ or clang++, or None."""
    found = (shutil.which(name) for name in (os.environ.get("CXX", ""), "g++", "clang++") if name)
    return next((path for path in found if path), None)


class Stepper:
    """Runs steps and keeps the books: which replicas live, and when one diverged.

    A replica diverges when its loss or its gradient's norm is NaN or infinite. From that step on
    its parameters are frozen at their last finite values; the others go on.

    Args:
        ensemble: the replicas.
        optimizer: AdamW over their rows.
        clip: largest gradient norm per replica, or None.
        mode: one of MODES. "compiled" passes loss and gradient through torch.compile; "captured"
            replays the plain step as a CUDA graph; "graph" replays the compiled one.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        optimizer: StackedAdamW,
        *,
        clip: float | None = None,
        mode: str = "auto",
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}.")
        on_gpu = ensemble.device.type == "cuda"
        if mode in ("captured", "graph") and not on_gpu:
            raise ValueError(f"mode={mode!r} needs a CUDA device, got {ensemble.device}.")
        self.ensemble, self.optimizer, self.clip = ensemble, optimizer, clip
        self.mode = default_mode(ensemble.device, optimizer.steps) if mode == "auto" else mode
        self._lenient = mode == "auto"
        count, device = ensemble.replicas, ensemble.device
        self.alive = torch.ones(count, dtype=torch.bool, device=device)
        self.diverged_at = torch.full((count,), -1, dtype=torch.int64, device=device)
        zeros = torch.zeros(4, count, dtype=ensemble.flat.dtype, device=device)
        self.loss_sum, self.norm_sum, self.norm_max, self.counted = zeros.unbind()
        self._times = torch.arange(optimizer.steps, device=device)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._prepared = False

    def __call__(
        self, inputs: Int[Tensor, "R batch L"], targets: Int[Tensor, "R batch L"], t: int
    ) -> None:
        """Step t (0-based) of every living replica, each on its own batch."""
        scalars = (*self.optimizer.scalars(t), self._times[t])
        if self.mode == "eager":
            self._step(inputs, targets, *scalars)
            return
        if not self._prepared:
            self._prepare(inputs, targets, scalars)
        if self._graph is None:
            self._step(inputs, targets, *scalars)
            return
        for held, new in zip(self._static, (inputs, targets, *scalars), strict=True):
            held.copy_(new)
        self._graph.replay()

    def _step(
        self,
        inputs: Tensor,
        targets: Tensor,
        rate: Tensor,
        shrink: Tensor,
        epsilon: Tensor,
        t: Tensor,
    ) -> None:
        losses, gradients = self.ensemble.loss_and_gradients(inputs, targets)
        norms = gradients.norm(dim=1)
        finite = torch.isfinite(losses) & torch.isfinite(norms)
        self.diverged_at.copy_(torch.where(self.alive & ~finite, t, self.diverged_at))
        self.alive &= finite
        self._count(losses, norms)
        if self.clip is not None:
            gradients = clip_by_norm(gradients, norms, self.clip)
        self.optimizer.step(gradients, self.alive, (rate, shrink, epsilon))

    def _count(self, losses: Float[Tensor, " R"], norms: Float[Tensor, " R"]) -> None:
        self.loss_sum += torch.where(self.alive, losses, 0.0)
        norms = torch.where(self.alive, norms, 0.0)
        self.norm_sum += norms
        self.norm_max.copy_(torch.maximum(self.norm_max, norms))
        self.counted += self.alive

    def take_counts(self) -> list[dict[str, float]]:
        """Mean training loss and mean and largest gradient norm since the last call."""
        n = self.counted.clamp_min(1)
        rows = torch.stack([self.loss_sum / n, self.norm_sum / n, self.norm_max, self.counted])
        for tensor in (self.loss_sum, self.norm_sum, self.norm_max, self.counted):
            tensor.zero_()
        return [
            {"train_loss": a, "gradient_norm": b, "gradient_norm_max": c}
            if steps
            else dict.fromkeys(("train_loss", "gradient_norm", "gradient_norm_max"), float("nan"))
            for a, b, c, steps in rows.T.tolist()
        ]

    def _prepare(self, inputs: Tensor, targets: Tensor, scalars: tuple[Tensor, ...]) -> None:
        """Compile and capture as the mode says; in mode "auto" a failure leaves the plain step."""
        self._prepared = True
        held = [*self.books().values(), *self.optimizer.state().values()]
        before = [tensor.clone() for tensor in held]
        try:
            on_gpu = self.ensemble.device.type == "cuda"
            if self._lenient and on_gpu and not self._compiling_pays(inputs, targets, scalars):
                self.mode = "captured"
            if self.mode in ("compiled", "graph"):
                self.ensemble.compile()
                self._step(inputs, targets, *scalars)
            if self.mode in ("captured", "graph"):
                self._capture(inputs, targets, scalars)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            if not self._lenient:
                raise
            self.ensemble.restore()
            self._graph, self.mode = None, "eager"
            reason = f"{error}".strip().partition("\n")[0]  # the compiler adds a page of its frames
            warnings.warn(f"the step runs uncompiled: {reason}", stacklevel=3)
        finally:
            for tensor, old in zip(held, before, strict=True):
                tensor.copy_(old)

    def _compiling_pays(
        self, inputs: Tensor, targets: Tensor, scalars: tuple[Tensor, ...], trials: int = 5
    ) -> bool:
        """Whether all plain steps would take so long that a minute of compiling is worth it."""
        for trial in range(trials + 1):
            if trial == 1:
                torch.cuda.synchronize(self.ensemble.device)
                start = time.perf_counter()
            self._step(inputs, targets, *scalars)
        torch.cuda.synchronize(self.ensemble.device)
        whole = (time.perf_counter() - start) / trials * self.optimizer.steps
        return whole > COMPILING_PAYS_S * len(self.ensemble.parts)

    def books(self) -> dict[str, Tensor]:
        """Everything that a step changes besides the optimiser's state."""
        names = ("alive", "diverged_at", "loss_sum", "norm_sum", "norm_max", "counted")
        return {name: getattr(self, name) for name in names}

    def _capture(self, inputs: Tensor, targets: Tensor, scalars: tuple[Tensor, ...]) -> None:
        self._static = tuple(tensor.clone() for tensor in (inputs, targets, *scalars))
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._step(*self._static)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step(*self._static)
        self._graph = graph
