"""Record a training film: the coefficients of models on one test sequence while they learn.

``python -m coefdyn.lab film NAME`` writes data/films/NAME.json.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from coefdyn.lab.contest.catalogue import CHAPTERS, Chapter
from coefdyn.lab.contest.contest import coefficients_of, sequence_labels
from coefdyn.lab.films.film import LONGEST, Film, FilmRun, films_folder, quantise
from coefdyn.lab.tasks import splits
from coefdyn.lab.training import Progress, RunConfig, RunOptions, TrainOptions, train_run
from coefdyn.lab.training.loop import initial_model, numerics
from coefdyn.lab.training.metrics import PredictionTally
from coefdyn.lab.training.provenance import provenance
from coefdyn.options import check_choice
from coefdyn.shapes import Tensor

__all__ = ["FILMS", "film_runs", "record", "record_film"]


def record_film(
    runs: dict[str, RunConfig],
    title: str,
    *,
    heads: int = 4,
    device: str = "cpu",
    on_step: Callable[[int, int], object] | None = None,
) -> Film:
    """Train runs one after another; keep their coefficients on the first test sequence.

    A frame is kept before the first step and at every evaluation. A run trains as ``train_run``
    trains it, and to its last step even when the task is solved.

    Args:
        runs: by name; of one task, seed, ``steps`` and ``evaluate_every``, at most ``LONGEST``
            tokens long.
        title: what the figure shows.
        heads: how many heads of each layer are kept, the first ones.
        device: where they train.
        on_step: called with (finished steps, all steps) of all runs together; a true answer stops.

    Raises:
        ValueError: for runs that differ in more than their models, a sequence too long, or a run
            that diverged.
        Stopped: when ``on_step`` asked for it.
    """
    first = _same_sequence(list(runs.values()))
    steps, kept = first.train.steps, []
    for place, (name, config) in enumerate(runs.items()):
        tell = on_step and (
            lambda done, total, p=place: on_step(p * total + done, total * len(runs))
        )
        at, run = _recorded(name, config, heads, device, tell)
        if at[-1] != steps:
            raise ValueError(
                f"run {name!r} diverged by step {at[-1]} of {steps}; lower its learning rate or "
                "leave it out of the film."
            )
        kept.append(run)
    tokens, targets = sequence_labels(first)
    return Film(
        title=title,
        steps=at,
        layers=first.model.layers,
        heads=len(kept[0].scales) // len(at) // first.model.layers,
        tokens=tuple(tokens),
        targets=tuple(targets),
        runs=tuple(kept),
    )


def _recorded(
    name: str,
    config: RunConfig,
    heads: int,
    device: str,
    on_step: Callable[[int, int], object] | None,
) -> tuple[tuple[int, ...], FilmRun]:
    """The steps of the frames, and the run."""
    config = replace(config, train=replace(config.train, stop_accuracy=None))
    test = splits(config.task, config.seed).test
    tokens = test.inputs[0].to(device)
    frames: list[tuple[int, dict[str, Any], Tensor]] = []

    def look(step: int, row: dict[str, float], model: nn.Module) -> None:
        frames.append((step, row, coefficients_of(model, tokens, heads)))

    with numerics(torch.device(device), config.train.precision), torch.no_grad():
        untrained = initial_model(config).to(device)
        tally = PredictionTally(config.task.num_classes, torch.device(device))
        tally.add(untrained(test.inputs.to(device), method="parallel"), test.targets.to(device))
        look(0, tally.results(), untrained)
    train_run(config, TrainOptions(device=device, on_step=on_step, on_evaluation=look))
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
    return tuple(step for step, _, _ in frames), run


def _same_sequence(configs: list[RunConfig]) -> RunConfig:
    """Check that all runs see the same sequences at the same steps, and return the first."""
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


#: film -> the chapter whose table tells what is recorded
FILMS: dict[str, Chapter] = {
    name.replace("_", "-"): one for name, one in CHAPTERS.items() if one.film is not None
}


def film_runs(name: str) -> dict[str, RunConfig]:
    """The runs of a film by name: every entrant of its contest, seed 0.

    Raises:
        ValueError: for an unknown film, naming the nearest one.
    """
    check_choice("film", name, tuple(FILMS))
    contest = FILMS[name].film
    assert contest is not None, "a film has a contest"
    return {entrant: contest.config(entrant) for entrant in contest.entrants}


def record(name: str, out: Path | str | None = None, *, device: str = "cpu") -> tuple[Film, Path]:
    """Train the runs of a film and write it; an interrupted recording writes nothing.

    Args:
        name: a key of ``FILMS``.
        out: folder of the file; None for ``data/films``.
        device: where it trains.

    Raises:
        ValueError: for an unknown name, naming the nearest one, or a device that is not here.
    """
    runs = film_runs(name)
    RunOptions(device=device).local_device()
    with Progress(sum(run.train.steps for run in runs.values()), "recording") as bar:
        film = record_film(
            runs,
            FILMS[name].title,
            device=device,
            on_step=lambda done, _: bar.update(done),
        )
    path = (films_folder() if out is None else Path(out)) / f"{name}.json"
    film.save(path)
    return film, path
