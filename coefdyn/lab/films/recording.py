"""Record a training film: the coefficients of a model on one test sequence while it learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from coefdyn.lab.films.film import LONGEST, Film, FilmRun, quantise
from coefdyn.lab.tasks import IGNORE, splits, task_of
from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.data import GroupData
from coefdyn.lab.training.ensemble import Ensemble
from coefdyn.lab.training.loop import TrainOptions, build_model, numerics, train_group
from coefdyn.lab.training.metrics import PredictionTally
from coefdyn.lab.training.provenance import provenance
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["coefficients_of", "record_film", "record_run", "sequence_labels"]


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
    task = task_of(config.task)
    test = splits(config.task, config.seed).test
    name = task.class_name or task.token_name
    asked = test.targets[sequence].tolist()
    inputs = [task.token_name(config.task, one) for one in test.inputs[sequence].tolist()]
    return inputs, [name(config.task, one) if one != IGNORE else "" for one in asked]


def record_run(
    config: RunConfig,
    name: str,
    *,
    heads: int | None = None,
    sequence: int = 0,
    device: str = "cpu",
    on_step: Callable[[int, int], object] | None = None,
) -> tuple[FilmRun, tuple[int, ...]]:
    """Train one run and keep its coefficients before step 1 and at every evaluation.

    The run trains as ``train_runs`` trains it, to its last step even when the task is solved.

    Args:
        config: the run; ``train.evaluate_every`` sets the distance of the frames in steps.
        name: what sets the run apart.
        heads: how many heads of each layer are kept, the first ones; None for all.
        sequence: which test sequence is looked at.
        device: where it trains.
        on_step: called with (finished steps, all steps); a true answer stops.

    Returns:
        The run, and the step of each frame; the last one is early if the run diverged.

    Raises:
        Stopped: when ``on_step`` asked for it.
        ValueError: if the coefficients become NaN or infinite.
    """
    config = replace(config, train=replace(config.train, stop_accuracy=None))
    tokens = splits(config.task, config.seed).test.inputs[sequence].to(device)
    frames: list[tuple[int, dict[str, Any], Tensor]] = []

    def look(step: int, rows: list[dict[str, Any]], ensemble: Ensemble) -> None:
        frames.append((step, rows[0], coefficients_of(ensemble.model(0), tokens, heads)))

    with numerics(torch.device(device), config.train.precision):
        look(0, *_untrained(config, torch.device(device)))
    train_group([config], TrainOptions(device=device, on_step=on_step, on_evaluation=look))
    packed, scales = quantise(torch.stack([matrices for _, _, matrices in frames]))
    run = FilmRun(
        name=name,
        loss=tuple(round(row["loss"], 6) for _, row, _ in frames),
        accuracy=tuple(round(row["accuracy"], 6) for _, row, _ in frames),
        frames=packed,
        scales=tuple(scales),
        config=config.to_dict(),
        provenance=provenance(device),
    )
    return run, tuple(step for step, _, _ in frames)


def _untrained(config: RunConfig, device: torch.device) -> tuple[list[dict[str, Any]], Ensemble]:
    """Test metrics and the model before the first step: the weights that training starts from."""
    ensemble = Ensemble([config], build_model, device, config.train.precision)
    data = GroupData(config.task, [config.seed], config.train.batch, device)
    tally = PredictionTally(1, config.task.num_classes, device)
    for inputs, targets in data.chunks("test", 64):
        tally.add(ensemble.logits(inputs), targets)
    return tally.results(), ensemble


def record_film(
    runs: dict[str, RunConfig],
    title: str,
    *,
    heads: int = 4,
    sequence: int = 0,
    device: str = "cpu",
    on_step: Callable[[str, int, int], object] | None = None,
) -> Film:
    """Train the runs one after another and keep their coefficients on the same test sequence.

    Args:
        runs: by name; of one task and one seed, at most ``LONGEST`` tokens long.
        title: what the figure shows.
        heads, sequence, device: as for ``record_run``.
        on_step: called with (name, finished steps, all steps); a true answer stops.

    Raises:
        ValueError: for runs of different tasks, seeds or steps, a sequence too long, or a run that
            diverged.
        Stopped: when ``on_step`` asked for it.
    """
    first = _same_sequence(list(runs.values()))
    tokens, targets = sequence_labels(first, sequence)
    done = {}
    for name, config in runs.items():
        tell = None if on_step is None else lambda *at, name=name: on_step(name, *at)
        done[name] = record_run(
            config, name, heads=heads, sequence=sequence, device=device, on_step=tell
        )
    steps = _same_steps({name: at for name, (_, at) in done.items()}, first.train.steps)
    kept = tuple(run for run, _ in done.values())
    return Film(
        title=title,
        steps=steps,
        layers=first.model.layers,
        heads=len(kept[0].scales) // len(steps) // first.model.layers,
        tokens=tuple(tokens),
        targets=tuple(targets),
        runs=kept,
    )


def _same_steps(frames: dict[str, tuple[int, ...]], steps: int) -> tuple[int, ...]:
    """The steps of the frames, if every run reached its end."""
    for name, at in frames.items():
        if at[-1] != steps:
            raise ValueError(
                f"run {name!r} diverged by step {at[-1]} of {steps}; lower its learning rate or "
                "leave it out of the film."
            )
    return next(iter(frames.values()))


def _same_sequence(configs: list[RunConfig]) -> RunConfig:
    """The first of the runs, if all of them see the same sequences at the same steps."""
    seen = [(one.task, one.seed, one.train.steps, one.train.evaluate_every) for one in configs]
    if not seen or any(one != seen[0] for one in seen):
        raise ValueError(
            "a film compares runs on one sequence: give runs with equal task, seed, steps and "
            "evaluate_every."
        )
    if configs[0].task.input_length > LONGEST:
        raise ValueError(
            f"a film shows at most {LONGEST} tokens, got {configs[0].task.input_length}; "
            "record a task with shorter sequences."
        )
    return configs[0]
