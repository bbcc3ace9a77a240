"""The training loop: one group of replicas, from first step to finished records."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from coefdyn.lab.tasks import Split
from coefdyn.lab.training.adamw import StackedAdamW
from coefdyn.lab.training.checkpoint import (
    load_checkpoint,
    require_safetensors,
    save_checkpoint,
)
from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.data import GroupData
from coefdyn.lab.training.diagnostics import run_diagnostics
from coefdyn.lab.training.ensemble import Ensemble
from coefdyn.lab.training.memory import keep_freed_memory
from coefdyn.lab.training.metrics import PredictionTally
from coefdyn.lab.training.provenance import provenance
from coefdyn.lab.training.results import Record, plain
from coefdyn.lab.training.schedule import learning_rates
from coefdyn.lab.training.seeds import derive_seed
from coefdyn.lab.training.step import Stepper
from coefdyn.models import SequenceModel

__all__ = ["Stopped", "TrainOptions", "build_model", "initial_model", "train_group"]


#: numbers of the largest block of logits that an evaluation forms
LOGITS_AT_ONCE = 2**27


class Stopped(Exception):
    """Training was stopped by the caller; unfinished replicas left no record."""


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """How a group is run; none of it changes what is computed beyond rounding.

    Args:
        device: "cpu", "cuda" or "cuda:1".
        mode: how a step is run, one of ``coefdyn.lab.training.step.MODES``.
        method: how coefficients are applied. "parallel" forms the L x L matrix: the fastest at the
            lengths of the papers' tasks, and the one that several replicas can share.
        on_step: called with (finished steps, all steps) after every step; a true answer stops.
        on_evaluation: called with (step, list of the replicas' metrics, ensemble).
        on_record: called with each record as soon as its replica is finished.
        checkpoint: a safetensors file to continue from and to write to, or None.
        checkpoint_every: steps between two checkpoints.
    """

    device: str = "cpu"
    mode: str = "auto"
    method: str = "parallel"
    on_step: Callable[[int, int], object] | None = None
    on_evaluation: Callable[[int, list[dict[str, float]], Ensemble], object] | None = None
    on_record: Callable[[Record], object] | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 2000


def build_model(config: RunConfig) -> SequenceModel:
    """The untrained model of a run, with weights from torch's default generator."""
    task = config.task
    return SequenceModel(
        config.model, vocab=task.vocab_size, classes=task.num_classes, length=task.input_length
    )


def initial_model(config: RunConfig) -> SequenceModel:
    """The model of a run as its training starts, on the CPU; the caller's random state is kept."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(config.seed, "weights"))
        return build_model(config)


@contextmanager
def numerics(device: torch.device, precision: str):
    """On a CPU one thread (more only wait on small matrices) and a heap that is not given back.

    TF32 products, if asked for; the thread and the products are as before afterwards.
    """
    threads, products = torch.get_num_threads(), torch.get_float32_matmul_precision()
    if device.type == "cpu":
        torch.set_num_threads(1)
        keep_freed_memory()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision(products)


def train_group(configs: Sequence[RunConfig], options: TrainOptions | None = None) -> list[Record]:
    """Train replicas of one task and equal training settings together.

    They may differ in model, seed, learning rate, weight decay and diagnostics. Neighbours with
    equal models are computed as one batch, so put these side by side.

    A replica is finished, and its record made, when the last step is done, when it diverged, or
    when its accuracy exceeded ``stop_accuracy``; later its weights stay as they are.

    Args:
        configs: runs with equal ``RunConfig.group``.
        options: device, callbacks and checkpoints.

    Returns:
        One record per run, in the order of ``configs``.

    Raises:
        ImportError: if a checkpoint is asked for and safetensors is absent.
        ValueError: for runs of different groups, and for a checkpoint that is damaged or holds
            other runs.
        Stopped: when ``on_step`` asked for it.
    """
    if len({config.group for config in configs}) != 1:
        raise ValueError(
            "train_group takes runs of one task with equal training settings, learning rate and "
            "weight decay aside; use train_runs for a list of any runs."
        )
    options = options or TrainOptions()
    if options.checkpoint is not None:
        require_safetensors()
    with numerics(torch.device(options.device), configs[0].train.precision):
        return _Group(list(configs), options).run()


@dataclass
class _Replica:
    config: RunConfig
    curve: dict[str, list[float]] = field(default_factory=dict)
    record: Record | None = None


class _Group:
    """The state of one call of ``train_group``."""

    def __init__(self, configs: list[RunConfig], options: TrainOptions) -> None:
        self.options, self.device = options, torch.device(options.device)
        self.replicas = [_Replica(config) for config in configs]
        first = configs[0]
        self.settings, self.started = first.train, time.perf_counter()
        seeds = [config.seed for config in configs]
        self.data = GroupData(
            first.task, seeds, self.settings.batch, self.device, self.settings.validation
        )
        self.ensemble = Ensemble(
            configs,
            build_model,
            self.device,
            self.settings.precision,
            first.method or options.method,
        )
        self.stepper = Stepper(
            self.ensemble, self._optimizer(configs), clip=self.settings.clip, mode=options.mode
        )

    def _optimizer(self, configs: list[RunConfig]) -> StackedAdamW:
        s = self.settings
        rates = learning_rates(
            [config.train.learning_rate for config in configs],
            steps=s.steps,
            kind=s.schedule,
            warmup=s.warmup,
            floor=s.final_learning_rate,
            steps_per_epoch=self.data.steps_per_epoch if s.cosine_per_epoch else 1,
        )
        return StackedAdamW(
            self.ensemble.flat,
            self.ensemble.decayed,
            learning_rates=rates,
            weight_decay=[config.train.weight_decay for config in configs],
            betas=s.betas,
            epsilon=s.epsilon,
        )

    def run(self) -> list[Record]:
        steps = self.settings.steps
        for t in range(self._resume(), steps):
            self.stepper(*self.data.train_batch(t), t)
            done = t + 1
            if done % self.settings.evaluate_every == 0 or done == steps:
                self._evaluate(done)
                if all(replica.record for replica in self.replicas):
                    self._tell(steps)
                    break
            self._tell(done)
            if done % self.options.checkpoint_every == 0 and done < steps:
                self._save(done)
        if self.options.checkpoint is not None:
            self.options.checkpoint.unlink(missing_ok=True)
        return [replica.record for replica in self.replicas if replica.record is not None]

    def _tell(self, done: int) -> None:
        steps = self.settings.steps
        if self.options.on_step is not None and self.options.on_step(done, steps):
            if done < steps:
                self._save(done)
            raise Stopped(f"stopped at step {done} of {steps}")

    def _evaluate(self, done: int) -> None:
        """Metrics of every replica; finish those that diverged, are solved, or are at the end."""
        counts, results = self.stepper.take_counts(), self._measure(self.watched)
        rows = [{"step": done, **a, **b} for a, b in zip(counts, results, strict=True)]
        died = self.stepper.diverged_at.tolist()
        goal = self.settings.stop_accuracy
        for index, (replica, row) in enumerate(zip(self.replicas, rows, strict=True)):
            if replica.record is not None:
                continue
            for name, value in row.items():
                replica.curve.setdefault(name, []).append(value)
            solved = goal is not None and row["accuracy"] > goal
            if died[index] >= 0 or solved or done == self.settings.steps:
                self.stepper.alive[index] = False
                self._finish(index, done, died[index], solved)
        if self.options.on_evaluation is not None:
            self.options.on_evaluation(done, rows, self.ensemble)

    @property
    def watched(self) -> Split:
        """The split that evaluations during training look at."""
        return "validation" if self.settings.validation else "test"

    def _measure(self, split: Split) -> list[dict[str, float]]:
        """Every replica's metrics on its own sequences of a split."""
        task = self.replicas[0].config.task
        tally = PredictionTally(self.ensemble.replicas, task.num_classes, self.device)
        per_sequence = task.input_length * task.num_classes * self.ensemble.replicas
        size = max(1, min(max(self.settings.batch, 64), LOGITS_AT_ONCE // per_sequence))
        for inputs, targets in self.data.chunks(split, size):
            tally.add(self.ensemble.logits(inputs), targets)
        return tally.results()

    def _finish(self, index: int, done: int, diverged_at: int, solved: bool) -> None:
        replica = self.replicas[index]
        config = replica.config
        inputs = self.data.chunks("test", 64)[0][0][index]
        final = {name: values[-1] for name, values in replica.curve.items()}
        looked_at = {}
        if self.settings.validation:
            looked_at["validation"] = final
            final = {**final, **self._measure("test")[index]}
        record = {
            "key": config.key,
            "config": config.to_dict(),
            "seed": config.seed,
            "metrics": replica.curve,
            "final": final,
            **looked_at,
            "diagnostics": run_diagnostics(
                config.diagnostics,
                self.ensemble.model(index),
                inputs,
                untrained=lambda: initial_model(config).to(self.device),
                task=config.task,
                seed=config.seed,
            ),
            "diverged_at": diverged_at + 1 if diverged_at >= 0 else None,
            "solved": solved,
            "steps_done": diverged_at + 1 if diverged_at >= 0 else done,
            "wall_s": round(time.perf_counter() - self.started, 3),
            "replicas": len(self.replicas),
            "mode": self.stepper.mode,
            **provenance(self.device),
        }
        replica.record = plain(record)
        if self.options.on_record is not None:
            self.options.on_record(replica.record)

    def _state(self) -> dict[str, Any]:
        return {**self.stepper.optimizer.state(), **self.stepper.books()}

    def _save(self, done: int) -> None:
        if self.options.checkpoint is None:
            return
        state = self._state()
        for replica in self.replicas:
            for name, values in replica.curve.items():
                curve = torch.tensor(values, dtype=torch.float64)
                state[f"curve.{replica.config.key}.{name}"] = curve
        keys = ",".join(replica.config.key for replica in self.replicas)
        save_checkpoint(self.options.checkpoint, state, {"step": str(done), "runs": keys})

    def _resume(self) -> int:
        """Load the checkpoint if there is one; the number of steps done.

        It may hold more runs than these: replicas finished since are no longer asked for.

        Raises:
            ValueError: if it is damaged, or lacks one of these runs; it is left as it is.
        """
        path = self.options.checkpoint
        if path is None or not path.exists():
            return 0
        tensors, notes = load_checkpoint(path)
        held = notes.get("runs", "").split(",")
        keys = [replica.config.key for replica in self.replicas]
        lacking = [key for key in keys if key not in held]
        if lacking:
            raise ValueError(
                f"the checkpoint {path} holds the runs {', '.join(held)} and not {lacking[0]}, "
                "which is to be trained; finish those runs first, or delete the file."
            )
        try:
            return self._restore(tensors, notes, [held.index(key) for key in keys])
        except (KeyError, IndexError, RuntimeError, ValueError) as error:
            raise ValueError(
                f"the checkpoint {path} is damaged or was written by other code ({error!r}); "
                "delete it to start these runs afresh."
            ) from error

    def _restore(
        self, tensors: dict[str, torch.Tensor], notes: dict[str, str], rows: list[int]
    ) -> int:
        """Take these rows of a checkpoint; the number of steps done."""
        for name, tensor in self._state().items():
            saved = tensors[name][rows]
            tensor.copy_(saved[:, : tensor.shape[1]] if saved.ndim == 2 else saved)
        for replica in self.replicas:
            for name, values in tensors.items():
                if name.startswith(f"curve.{replica.config.key}."):
                    replica.curve[name.rpartition(".")[2]] = values.tolist()
        return int(notes["step"])
