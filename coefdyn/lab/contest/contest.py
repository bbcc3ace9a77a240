"""Two or three mixers, one task, one seed: curves, final accuracy and trained coefficients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from coefdyn.lab.experiments.baselines import frequent_class_accuracy
from coefdyn.lab.experiments.figures import PALETTE, new_figure
from coefdyn.lab.experiments.plan import numbered
from coefdyn.lab.tasks import IGNORE, TaskConfig, splits
from coefdyn.lab.training import (
    Record,
    RunConfig,
    RunOptions,
    TrainConfig,
    TrainOptions,
    build_model,
    train_run,
    train_runs,
)
from coefdyn.lab.training.checkpoint import load_checkpoint
from coefdyn.models import ModelConfig, SequenceModel
from coefdyn.options import check_choice
from coefdyn.plots import plot_coefficients
from coefdyn.shapes import Float, Int, Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "PROFILES",
    "Contest",
    "ContestResult",
    "Entrant",
    "Trained",
    "coefficients_of",
    "guessing",
    "sequence_labels",
]

#: seeds, and multiples of the quick profile's steps, layers and width
PROFILES = {"quick": (1, 1, 1, 1), "paper": (3, 10, 2, 2)}
#: points of a curve
LOOKS = 16


@dataclass(frozen=True, kw_only=True)
class Entrant:
    """One of the competing mixers.

    Args:
        mixer: a class of ``coefdyn.mixers``, by name.
        options: its keywords besides ``d_model``.
        position: "none", "learned" or "rotary".
    """

    mixer: str
    options: dict[str, Any] = field(default_factory=dict)
    position: str = "none"


@dataclass(frozen=True, kw_only=True)
class Trained:
    """One entrant after training.

    Args:
        accuracy: on the test sequences at the end, one per seed.
        steps, curve: test accuracy while it learned, seed 0.
        model: with the weights of seed 0.
        seconds: of all its seeds together.
    """

    accuracy: tuple[float, ...]
    steps: tuple[int, ...]
    curve: tuple[float, ...]
    model: SequenceModel
    seconds: float

    @property
    def mean(self) -> float:
        """Accuracy, mean over seeds."""
        return fmean(self.accuracy)


@dataclass(frozen=True, kw_only=True)
class Contest:
    """Entrants, task and training settings; all entrants see the same sequences in one order.

    Args:
        task: which sequences.
        entrants: by name, the predecessor first.
        steps: optimiser steps of the quick profile; a run that solves the task ends early.
        learning_rate: AdamW's peak, with warm-up over a twentieth of the steps and a cosine to 0.
        layers, width, mlp: of the quick profile; no SwiGLU for None.
        training: fields of ``TrainConfig`` that differ, by name.
    """

    task: TaskConfig
    entrants: dict[str, Entrant]
    steps: int
    learning_rate: float = 1e-2
    layers: int = 1
    width: int = 32
    mlp: int | None = 64
    training: Mapping[str, Any] = field(default_factory=dict)

    def config(self, name: str, profile: str = "quick", seed: int = 0) -> RunConfig:
        """Configuration of one entrant's run, as ``coefdyn.lab.training`` takes it.

        Raises:
            ValueError: for an unknown entrant or profile, naming the nearest one.
        """
        check_choice("entrant", name, tuple(self.entrants))
        check_choice("profile", profile, tuple(PROFILES))
        _, times, deeper, wider = PROFILES[profile]
        entrant, steps = self.entrants[name], times * self.steps
        train = TrainConfig(
            steps=steps,
            batch=32,
            learning_rate=self.learning_rate,
            final_learning_rate=0.0,
            warmup=steps // 20,
            clip=1.0,
            evaluate_every=max(1, steps // LOOKS),
        )
        return RunConfig(
            task=self.task,
            model=ModelConfig(
                width=wider * self.width,
                layers=deeper * self.layers,
                mlp=None if self.mlp is None else wider * self.mlp,
                mixer=entrant.mixer,
                options=entrant.options,
                position=entrant.position,
            ),
            train=replace(train, **self.training),
            seed=seed,
        )

    def run(
        self, profile: str = "quick", *, seeds: int | None = None, device: str | None = None
    ) -> ContestResult:
        """Train every entrant: here, one after another, or on the cluster of the environment.

        Args:
            profile: "quick" for a page, "paper" for a GPU.
            seeds: how many, from 0; None for the profile's number.
            device: "cpu" or "cuda"; None for a GPU if there is one.

        Raises:
            ValueError: for an unknown profile, a device that is not here, or no number of seeds.
        """
        check_choice("profile", profile, tuple(PROFILES))
        wanted = numbered(PROFILES[profile][0] if seeds is None else seeds) or ()
        runs = {
            name: [self.config(name, profile, seed) for seed in wanted] for name in self.entrants
        }
        options = RunOptions(device=device)
        if options.scheduler() is not None:
            every = _train_there([run for several in runs.values() for run in several], options)
        else:
            place = str(options.local_device())
            every = {run.key: _train_one(run, place) for some in runs.values() for run in some}
        done = {name: _trained([every[run.key] for run in some]) for name, some in runs.items()}
        return ContestResult(contest=self, profile=profile, trained=done)


@dataclass(frozen=True, kw_only=True)
class ContestResult:
    """Trained entrants of a contest.

    Args:
        contest: what was trained.
        profile: at which size.
        trained: by the entrants' names.
    """

    contest: Contest
    profile: str
    trained: dict[str, Trained]

    @property
    def guessing(self) -> float:
        """Test accuracy of the best answer that ignores the sequence."""
        return guessing(self.contest.task)

    def accuracy(self, name: str) -> float:
        """Mean test accuracy over seeds after the last step."""
        check_choice("entrant", name, tuple(self.trained))
        return self.trained[name].mean

    def words(self) -> str:
        """Summary with one line per entrant, and the accuracy of guessing."""
        lines = []
        for name, one in self.trained.items():
            seeds = "" if len(one.accuracy) == 1 else f"  ({len(one.accuracy)} seeds)"
            lines.append(f"{name:24}{one.mean:.2f}{seeds}  after {one.steps[-1]} steps")
        return "\n".join([*lines, f"{'guessing':24}{self.guessing:.2f}"])

    def labels(self, sequence: int = 0) -> tuple[list[str], list[str]]:
        """Tokens of a test sequence, and its targets; "" where nothing is scored."""
        return sequence_labels(self._first(), sequence)

    def coefficients(self, name: str, sequence: int = 0) -> Float[Tensor, "heads L L"]:
        """alpha / eta of the last layer of a trained entrant on a test sequence."""
        check_choice("entrant", name, tuple(self.trained))
        test = splits(self.contest.task, 0).test
        return coefficients_of(self.trained[name].model, test.inputs[sequence])[-1]

    def reads(self, name: str, sequence: int = 0, rows: int = 4) -> str:
        """One line per question of a test sequence: the token read most, and its coefficient.

        Args:
            name: the entrant; its last layer's first head is looked at.
            sequence: which test sequence.
            rows: how many questions, the last ones.
        """
        alpha, (tokens, targets) = self.coefficients(name, sequence)[0], self.labels(sequence)
        asked = [place for place, target in enumerate(targets) if target][-rows:]
        lines = []
        for i in asked:
            j = int(alpha[i].abs().argmax())
            lines.append(
                f"asked {tokens[i]:>4} (answer {targets[i]:>4}): reads {tokens[j]:>4} of place "
                f"{j + 1:2} with {alpha[i, j]:+.2f}"
            )
        return "\n".join(lines)

    def figure(self) -> Figure:
        """Plot test accuracy during training, and the level of guessing."""
        figure, (axes,) = new_figure(width=6.4, height=3.0)
        axes.axhline(self.guessing, color="#4A4A4A", linestyle=":", label="guessing")
        for place, (name, one) in enumerate(self.trained.items()):
            axes.plot(one.steps, one.curve, color=PALETTE[place], marker="osD"[place % 3],
                      markersize=4, label=name)  # fmt: skip
        axes.set(ylim=(0, 1.03), xlabel="training step", ylabel="test accuracy")
        axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
        return figure

    def matrices(self, names: Sequence[str] | None = None, sequence: int = 0) -> Figure:
        """Plot the trained coefficients alpha / eta on one test sequence, with its tokens.

        Args:
            names: which entrants; None for all. The first head of the last layer is shown.
            sequence: which test sequence.
        """
        shown = list(self.trained) if names is None else list(names)
        figure, panels = new_figure(columns=len(shown), width=4.6, height=4.3)
        tokens, targets = self.labels(sequence)
        for axes, name in zip(panels, shown, strict=True):
            alpha = self.coefficients(name, sequence)[0]
            image = plot_coefficients(axes, alpha, title=f"{name}, trained")
            asked = [f"{t} ({a})" if a else t for t, a in zip(tokens, targets, strict=True)]
            axes.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize="x-small")
            axes.set_yticks(range(len(tokens)), asked, fontsize="x-small")
            figure.colorbar(image, ax=axes, shrink=0.7)
        return figure

    def _first(self) -> RunConfig:
        return self.contest.config(next(iter(self.trained)), self.profile)


@torch.no_grad()
def coefficients_of(
    model: nn.Module, tokens: Int[Tensor, " L"], heads: int | None = None
) -> Float[Tensor, "layers heads L L"]:
    """alpha / eta of every layer of a model on one sequence, float32 on the CPU.

    Args:
        model: with ``dynamics(tokens)``, such as ``SequenceModel``.
        tokens: one sequence of token ids.
        heads: the first so many of each layer; None for all.
    """
    layers = [one.coefficients(normalized=True)[0, :heads] for one in model.dynamics(tokens[None])]
    return torch.stack(layers).float().cpu()


def sequence_labels(config: RunConfig, sequence: int = 0) -> tuple[list[str], list[str]]:
    """Short labels of a test sequence and of its targets; "" where nothing is scored."""
    task, test = config.task, splits(config.task, config.seed).test
    inputs = [task.token_name(one) for one in test.inputs[sequence].tolist()]
    asked = test.targets[sequence].tolist()
    return inputs, [task.class_name(one) if one != IGNORE else "" for one in asked]


def guessing(task: TaskConfig) -> float:
    """Test accuracy of the constant answer that is most frequent."""
    return frequent_class_accuracy(task)


def _trained(done: list[tuple[Record, SequenceModel]]) -> Trained:
    """All seeds of one entrant."""
    records = [record for record, _ in done]
    curves = records[0]["metrics"]
    return Trained(
        accuracy=tuple(one["final"]["accuracy"] for one in records),
        steps=tuple(curves["step"]),
        curve=tuple(curves["accuracy"]),
        model=done[0][1],
        seconds=sum(one["wall_s"] for one in records),
    )


def _train_there(
    configs: list[RunConfig], options: RunOptions
) -> dict[str, tuple[Record, SequenceModel]]:
    """Train runs on a cluster; returns what ``_train_one`` does, by key."""
    done = {}
    with TemporaryDirectory() as folder:
        kept = [replace(config, keep=True) for config in configs]
        options = replace(options, weights=Path(folder), halved=False)
        for config, record in zip(kept, train_runs(kept, options=options), strict=True):
            model = build_model(config)
            weights, _ = load_checkpoint(Path(folder, f"{config.key}.safetensors"))
            model.load_state_dict(weights)
            done[config.key] = record, model
    return done


def _train_one(config: RunConfig, device: str) -> tuple[Record, SequenceModel]:
    """Train one run; returns its record, and the model of the last evaluation."""
    seen: list[SequenceModel] = []
    options = TrainOptions(device=device, on_evaluation=lambda *last: seen.append(last[2]))
    record = train_run(config, options)
    return record, seen[-1].cpu()
