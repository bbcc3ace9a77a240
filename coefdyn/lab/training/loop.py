"""One training run: configuration, data, model, optimiser, loop, record.

``_Run`` is the whole of it, in the order in which it happens; ``data.py`` draws the sequences and
``schedule.py`` the learning rates. Its steps share the run's model, data and checkpoint, so they
stand in one file, though it is a long one.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.utils import get_total_norm

from coefdyn.lab.tasks import Split
from coefdyn.lab.training.checkpoint import (
    load_checkpoint,
    require_safetensors,
    save_checkpoint,
)
from coefdyn.lab.training.compiled import compiled
from coefdyn.lab.training.config import RunConfig, TrainConfig
from coefdyn.lab.training.data import RunData
from coefdyn.lab.training.diagnostics import run_diagnostics
from coefdyn.lab.training.memory import keep_freed_memory
from coefdyn.lab.training.metrics import PredictionTally, StepMeter, masked_loss
from coefdyn.lab.training.provenance import provenance
from coefdyn.lab.training.results import Record, config_key, plain
from coefdyn.lab.training.schedule import learning_rates
from coefdyn.lab.training.seeds import derive_seed
from coefdyn.models import SequenceModel
from coefdyn.options import check_choice
from coefdyn.shapes import Float, Int, Tensor

__all__ = [
    "MODES",
    "Stopped",
    "TrainOptions",
    "build_model",
    "initial_model",
    "train_run",
]

#: computation of loss and gradient: eager, or through torch.compile
MODES = ("eager", "compiled")
#: numbers of the largest block of logits that an evaluation forms
LOGITS_AT_ONCE = 2**27
#: state of torch's AdamW for a parameter
_MOMENTS = ("exp_avg", "exp_avg_sq", "step")


class Stopped(Exception):
    """Training was stopped by the caller; an unfinished run left no record."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """Options of the computation of a run, which change its result by rounding at most.

    Args:
        device: "cpu", "cuda" or "cuda:1".
        mode: "eager", or "compiled": loss and gradient through torch.compile, which needs a C++
            compiler on a CPU and takes up to a minute per architecture before the first step.
        method: how coefficients are applied. "parallel" forms the L x L matrix: the fastest at the
            lengths of the papers' tasks.
        on_step: called with (finished steps, all steps) after every step, and when the run is
            finished with (all steps, all steps); a true answer stops what is not finished.
        on_evaluation: called with (step, metrics, model) after every evaluation.
        checkpoint: a safetensors file to continue from and to write to, or None.
        checkpoint_every: steps between two checkpoints.
        weights: folder for the trained weights of runs with ``keep``, by the run's key; None for
            none.
        halved: keep them in half precision.
    """

    device: str = "cpu"
    mode: str = "eager"
    method: str = "parallel"
    on_step: Callable[[int, int], object] | None = None
    on_evaluation: Callable[[int, dict[str, float], SequenceModel], object] | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 2000
    weights: Path | None = None
    halved: bool = True


def build_model(config: RunConfig) -> SequenceModel:
    """Build the untrained model of a run, with weights from torch's default generator."""
    task = config.task
    return SequenceModel(
        config.model, vocab=task.vocab_size, classes=task.num_classes, length=task.input_length
    )


def initial_model(config: RunConfig) -> SequenceModel:
    """Build the model of a run as training starts, on the CPU; the random state is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(config.seed, "weights"))
        return build_model(config)


def train_run(config: RunConfig, options: TrainOptions | None = None) -> Record:
    """Train one run to its last step, or until it diverges or is solved.

    A run diverges when its loss or its gradient's norm is NaN or infinite: its weights stay at
    their last finite values, and it ends with the next evaluation. It is solved when its accuracy
    at an evaluation exceeds ``stop_accuracy``.

    Args:
        config: task, model, settings and seed.
        options: device, callbacks and checkpoint.

    Returns:
        The record: curves, final metrics, diagnostics and provenance, as JSON can hold them.

    Raises:
        ImportError: if a checkpoint is asked for and safetensors is absent.
        ValueError: for an unknown mode or method, a batch larger than the data, and a checkpoint
            that is damaged or of another run.
        Stopped: when ``on_step`` asked for it.
    """
    options = options or TrainOptions()
    check_choice("mode", options.mode, MODES)
    if options.checkpoint is not None or (config.keep and options.weights is not None):
        require_safetensors()
    with numerics(torch.device(options.device), config.train.precision):
        return _Run(config, options).train()


@contextmanager
def numerics(device: torch.device, precision: str) -> Iterator[None]:
    """Set a fresh process's numerical settings, and restore the caller's afterwards.

    Weights and constants in float32, TF32 products only if asked for, and on a CPU one thread (more
    only wait on small matrices) and a heap that is not given back.
    """
    threads, products = torch.get_num_threads(), torch.get_float32_matmul_precision()
    dtype = torch.get_default_dtype()
    if device.type == "cpu":
        torch.set_num_threads(1)
        keep_freed_memory()
    torch.set_default_dtype(torch.float32)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_default_dtype(dtype)
        torch.set_float32_matmul_precision(products)


class ModelLoss(nn.Module):
    """Mean cross-entropy of a model in nats, over the scored positions.

    Args:
        model: tokens to logits.
        method: how coefficients are applied.
        precision: one of ``PRECISIONS``; "bfloat16" runs the model under torch's autocast.
    """

    def __init__(self, model: SequenceModel, method: str, precision: str) -> None:
        super().__init__()
        self.model, self.method, self.in_bfloat16 = model, method, precision == "bfloat16"

    def logits(self, inputs: Int[Tensor, "batch L"]) -> Float[Tensor, "batch L classes"]:
        """Logits in float32 or float64, never bfloat16: perplexities differ in the third digit."""
        kind = inputs.device.type
        with torch.autocast(kind, dtype=torch.bfloat16, enabled=self.in_bfloat16):
            logits = self.model(inputs, method=self.method)
        return logits.float() if self.in_bfloat16 else logits

    def forward(
        self, inputs: Int[Tensor, "batch L"], targets: Int[Tensor, "batch L"]
    ) -> Float[Tensor, ""]:
        return masked_loss(self.logits(inputs), targets)


class _Run:
    """State of a run during training."""

    def __init__(self, config: RunConfig, options: TrainOptions) -> None:
        self.config, self.settings, self.options = config, config.train, options
        self.device, self.started = torch.device(options.device), time.perf_counter()
        self.data = RunData(
            config.task, config.seed, self.settings.batch, self.device, self.settings.validation
        )
        dtype = torch.float64 if self.settings.precision == "float64" else torch.float32
        self.model = initial_model(config).to(self.device, dtype)
        self.optimizer = _optimizer(self.model, self.settings)
        self.rates = learning_rates(
            self.settings.learning_rate,
            steps=self.settings.steps,
            kind=self.settings.schedule,
            warmup=self.settings.warmup,
            floor=self.settings.final_learning_rate,
            steps_per_epoch=self.data.steps_per_epoch if self.settings.cosine_per_epoch else 1,
        )
        method = config.method or options.method
        self.loss = ModelLoss(self.model, method, self.settings.precision)
        self.loss_of: Callable[..., Tensor] = self.loss
        if options.mode == "compiled":
            self.loss_of = compiled(self.loss, self._architecture(method))
        self.meter = StepMeter()
        self.curve: dict[str, list[float]] = {}
        self.diverged_at: int | None = None

    def _architecture(self, method: str) -> str:
        """Key that is equal for runs which may share compiled code."""
        shapes = {"batch": self.settings.batch, "precision": self.settings.precision}
        parts = {"task": self.config.task.to_dict(), "model": self.config.model.to_dict()}
        return config_key({**parts, **shapes, "method": method, "device": str(self.device)})

    def train(self) -> Record:
        """Train every step that is left, and return the record."""
        steps, every = self.settings.steps, self.settings.evaluate_every
        for done in range(self._resume() + 1, steps + 1):
            if self.diverged_at is None:
                self._step(done)
            if done % every == 0 or done == steps:
                row = self._evaluate(done)
                goal = self.settings.stop_accuracy
                solved = goal is not None and row["accuracy"] > goal
                if solved or self.diverged_at is not None or done == steps:
                    record = self._record(done, solved)
                    break
            self._tell(done)
            if done % self.options.checkpoint_every == 0:
                self._save(done)
        if self.options.checkpoint is not None:
            self.options.checkpoint.unlink(missing_ok=True)
        if self.options.on_step is not None:
            self.options.on_step(steps, steps)
        return record

    def _step(self, number: int) -> None:
        """Take one optimiser step; the first is number 1."""
        inputs, targets = self.data.train_batch(number - 1)
        self.optimizer.zero_grad()
        loss = self.loss_of(inputs, targets)
        loss.backward()
        gradients = [one.grad for one in self.model.parameters() if one.grad is not None]
        norm, limit = get_total_norm(gradients).item(), self.settings.clip
        if not (math.isfinite(loss.item()) and math.isfinite(norm)):
            self.diverged_at = number
            return
        if limit is not None and norm > limit:
            for gradient in gradients:
                gradient.mul_(limit / norm)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rates[number - 1]
        self.optimizer.step()
        self.meter.add(loss.item(), norm)

    def _evaluate(self, done: int) -> dict[str, float]:
        """Append a point to every curve."""
        watched: Split = "validation" if self.settings.validation else "test"
        row = {"step": done, **self.meter.take(), **self._measure(watched)}
        for name, value in row.items():
            self.curve.setdefault(name, []).append(value)
        if self.options.on_evaluation is not None:
            self.options.on_evaluation(done, row, self.model)
        return row

    @torch.no_grad()
    def _measure(self, split: Split) -> dict[str, float]:
        """Measure loss and accuracies on a split."""
        task = self.config.task
        tally = PredictionTally(task.num_classes, self.device)
        per_sequence = task.input_length * task.num_classes
        size = max(1, min(max(self.settings.batch, 64), LOGITS_AT_ONCE // per_sequence))
        self.model.eval()  # a module of somebody else's may drop units while it learns
        for inputs, targets in self.data.chunks(split, size):
            tally.add(self.loss.logits(inputs), targets)
        self.model.train()
        return tally.results()

    def _record(self, done: int, solved: bool) -> Record:
        config = self.config
        final = {name: values[-1] for name, values in self.curve.items()}
        looked_at = {}
        if self.settings.validation:
            looked_at["validation"] = final
            final = {**final, **self._measure("test")}
        inputs, _ = self.data.chunks("test", 64)[0]
        if config.keep and self.options.weights is not None:
            kept = {
                name: one.half() if self.options.halved and one.is_floating_point() else one
                for name, one in self.model.state_dict().items()
            }
            save_checkpoint(self.options.weights / f"{config.key}.safetensors", kept, {})
        return plain(
            {
                "key": config.key,
                "config": config.to_dict(),
                "seed": config.seed,
                "metrics": self.curve,
                "final": final,
                **looked_at,
                "diagnostics": run_diagnostics(
                    config.diagnostics,
                    self.model,
                    inputs,
                    untrained=lambda: initial_model(config).to(self.device),
                    task=config.task,
                    seed=config.seed,
                ),
                "diverged_at": self.diverged_at,
                "solved": solved,
                "steps_done": self.diverged_at or done,
                "wall_s": round(time.perf_counter() - self.started, 3),
                "mode": self.options.mode,
                **provenance(self.device),
            }
        )

    def _tell(self, done: int) -> None:
        steps = self.settings.steps
        if self.options.on_step is not None and self.options.on_step(done, steps):
            self._save(done)
            raise Stopped(f"stopped at step {done} of {steps}")

    def _save(self, done: int) -> None:
        """Write everything that the steps have changed, where a checkpoint is asked for."""
        if self.options.checkpoint is None:
            return
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for index, state in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in state.items()}
        lists = {"losses": self.meter.losses, "norms": self.meter.norms}
        lists |= {f"curve.{name}": values for name, values in self.curve.items()}
        tensors |= {name: torch.tensor(one, dtype=torch.float64) for name, one in lists.items()}
        notes = {"step": done, "run": self.config.key, "diverged_at": self.diverged_at}
        notes |= {"curves": list(self.curve)}
        save_checkpoint(self.options.checkpoint, tensors, {"state": json.dumps(notes)})

    def _resume(self) -> int:
        """Restore the checkpoint if there is one; returns the number of steps done.

        Raises:
            ValueError: if the file is damaged or holds another run; it is left as it is.
        """
        path = self.options.checkpoint
        if path is None or not path.exists():
            return 0
        tensors, notes = load_checkpoint(path)
        try:
            state = json.loads(notes["state"])
            if state["run"] == self.config.key:
                return self._restore(tensors, state)
        except (KeyError, IndexError, RuntimeError, ValueError, TypeError) as error:
            raise ValueError(
                f"the checkpoint {path} is damaged or was written by other code ({error!r}); "
                "delete it to start this run afresh."
            ) from error
        raise ValueError(
            f"the checkpoint {path} holds the run {state['run']} and not {self.config.key}, which "
            "is to be trained; finish that run first, or delete the file."
        )

    def _restore(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> int:
        """Copy a checkpoint's numbers into this run; returns the number of steps done."""

        def below(prefix: str) -> dict[str, Tensor]:
            return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

        self.model.load_state_dict(below("model."))
        parameters = [one for group in self.optimizer.param_groups for one in group["params"]]
        kept: dict[int, dict[str, Tensor]] = {}
        for name, tensor in below("optimizer.").items():
            number, _, moment = name.partition(".")
            kept.setdefault(int(number), {})[moment] = tensor
        for index, moments in kept.items():
            first, second, _ = (moments[name] for name in _MOMENTS)
            if not first.shape == second.shape == parameters[index].shape:
                raise ValueError(f"moments of parameter {index} have another shape")
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": kept})
        self.meter.losses, self.meter.norms = tensors["losses"].tolist(), tensors["norms"].tolist()
        self.curve = {name: tensors[f"curve.{name}"].tolist() for name in state["curves"]}
        self.diverged_at = state["diverged_at"]
        return int(state["step"])


def _optimizer(model: SequenceModel, settings: TrainConfig) -> torch.optim.AdamW:
    """Build AdamW without weight decay for the parameters that a mixer's authors exempt."""
    exempt = model.no_weight_decay_names()
    named = list(model.named_parameters())
    decayed = [parameter for name, parameter in named if name not in exempt]
    others = [parameter for name, parameter in named if name in exempt]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        betas=settings.betas,
        eps=settings.epsilon,
        fused=True,
    )
