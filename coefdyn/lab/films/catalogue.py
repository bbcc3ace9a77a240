"""The recorded films; ``python -m coefdyn.lab film NAME`` writes data/films/NAME.json."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.films.film import Film, films_folder
from coefdyn.lab.films.recording import record_film
from coefdyn.lab.training import Progress, RunConfig
from coefdyn.options import check_choice

__all__ = ["FILMS", "record"]


@dataclass(frozen=True, kw_only=True)
class FilmPlan:
    """What a film records.

    Args:
        title: what the figure shows.
        runs: makes the runs, by name.
        heads: how many heads of each layer are kept.
    """

    title: str
    runs: Callable[[], dict[str, RunConfig]]
    heads: int = 4


def _principle_3() -> dict[str, RunConfig]:
    """Three designs of the quick profile, first seed, a frame every 125 steps."""
    plan = get_experiment("principle-3").plan("quick")
    names = {
        ("exp", "identity", "none"): "A = I",
        ("exp", "constant", "none"): "A = 0.85 I",
        ("exp", "identity", "rotary"): "A = I, rotary positions",
    }
    found = {}
    for variant, run in plan.with_seeds([0]).runs():
        name = names.get(tuple(variant.facets.values()))
        if name is not None:
            found[name] = replace(run, train=replace(run.train, evaluate_every=125))
    return {name: found[name] for name in names.values()}


FILMS: dict[str, FilmPlan] = {
    "principle-3": FilmPlan(
        title="Noisy recall: α/η of one test sequence while the model learns", runs=_principle_3
    ),
}


def record(name: str, out: Path | str | None = None, *, device: str = "cpu") -> tuple[Film, Path]:
    """Train the runs of a film and write it; an interrupted recording writes nothing.

    Args:
        name: a key of ``FILMS``.
        out: folder of the file; None for ``data/films``.
        device: where it trains.

    Raises:
        ValueError: for an unknown name, naming the nearest one.
    """
    check_choice("film", name, tuple(FILMS))
    plan = FILMS[name]
    runs = plan.runs()
    before = {one: place for place, one in enumerate(runs)}
    steps = sum(run.train.steps for run in runs.values())
    with Progress(steps, "recording") as bar:

        def tell(run: str, done: int, total: int) -> None:
            bar.update(before[run] * total + done, run)

        film = record_film(runs, plan.title, heads=plan.heads, device=device, on_step=tell)
    path = (films_folder() if out is None else Path(out)) / f"{name}.json"
    film.save(path)
    return film, path
