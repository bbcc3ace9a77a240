"""A training film: coefficients of real runs over their training steps."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from coefdyn.lab.films.film import Film, FilmRun
from coefdyn.widgets.settings import check_name, check_whole
from coefdyn.widgets.source import film_source, style_source

__all__ = ["TrainingFilm", "saved_film"]


class TrainingFilm(anywidget.AnyWidget):
    """Coefficients of a trained model, scrubbed over training step, layer and head.

    ``TrainingFilm.load("principle-3")`` shows a recorded film with its tokens and curves. In
    JupyterLab ``film.settings = {"frame": 3}`` moves it; frames count from 0, layers and heads
    from 1, and ``row`` is the position of the reading token, from 1.

    Args:
        film: such as ``coefdyn.lab.films.recording.record_film`` returns.
        epsilon: threshold of the near-zero set; one byte tells values apart by scale / 127 only.
        settings: where it starts: ``run`` and ``frame`` (from 0), ``layer``, ``head`` and ``row``
            (from 1).

    Raises:
        ValueError: for a setting that does not fit.
    """

    _esm = film_source()
    _css = style_source()

    film = traitlets.Dict().tag(sync=True)
    frames = traitlets.Bytes().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)

    def __init__(self, film: Film, *, epsilon: float = 0.01, **settings: Any) -> None:
        runs = [
            {"name": run.name, "loss": list(run.loss), "accuracy": list(run.accuracy)}
            for run in film.runs
        ]
        shown: dict[str, Any] = {
            "title": film.title,
            "provenance": f"Recorded: {film.source()}.",
            "steps": list(film.steps),
            "layers": film.layers,
            "heads": film.heads,
            "length": film.length,
            "scales": [scale for run in film.runs for scale in run.scales],
            "epsilon": epsilon,
            "runs": runs,
            "tokens": list(film.tokens),
            "targets": list(film.targets),
        }
        super().__init__(film=shown, frames=b"".join(run.frames for run in film.runs))
        self.settings = settings

    @classmethod
    def load(cls, name: Path | str, **settings: Any) -> TrainingFilm:
        """Load a recorded film by its name under ``data/films``, or by the path of its file.

        Args:
            name: such as "principle-3".
            settings: where it starts.

        Raises:
            ValueError: if there is no such film, or for a setting that does not fit.
        """
        return cls(Film.load(name), **settings)

    @traitlets.validate("settings")
    def _complete(self, proposal: traitlets.Bunch) -> dict[str, Any]:
        """Complete settings: named ones change, others stay; numbers out of range are refused."""
        film = self.film
        highest = {"frame": len(film["steps"]) - 1, "run": len(film["runs"]) - 1}
        highest |= {"layer": film["layers"], "head": film["heads"], "row": film["length"]}
        for key, value in proposal["value"].items():
            check_name("setting", key, tuple(highest))
            number = int(value) if key == "run" and isinstance(value, str) else value
            check_whole(key, number, 0 if key in ("frame", "run") else 1, highest[key])
        named = {k: str(v) if k == "run" else int(v) for k, v in proposal["value"].items()}
        return {**self.settings, **named}

    def __repr__(self) -> str:
        sizes = ", ".join(f"{key}={self.film[key]}" for key in ("layers", "heads", "length"))
        names = [run["name"] for run in self.film["runs"]]
        return f"TrainingFilm(runs={names}, steps={self.film['steps']}, {sizes})"


def saved_film(record: Mapping[str, Any]) -> Film:
    """Restore the film of a saved page or notebook from a widget's ``state`` and ``buffers``."""
    film = record["state"]["film"]
    data = next(one["data"] for one in record["buffers"] if one["path"] == ["frames"])
    frames = base64.b64decode(data)
    count = len(film["runs"])
    scales, bytes_each = film["scales"], len(frames) // count
    each = len(scales) // count
    runs = tuple(
        FilmRun(
            name=run["name"],
            loss=tuple(run["loss"]),
            accuracy=tuple(run["accuracy"]),
            frames=frames[m * bytes_each : (m + 1) * bytes_each],
            scales=tuple(scales[m * each : (m + 1) * each]),
            config={},
            provenance={},
        )
        for m, run in enumerate(film["runs"])
    )
    return Film(
        title=film["title"],
        steps=tuple(film["steps"]),
        layers=film["layers"],
        heads=film["heads"],
        tokens=tuple(film["tokens"]),
        targets=tuple(film["targets"]),
        runs=runs,
    )
