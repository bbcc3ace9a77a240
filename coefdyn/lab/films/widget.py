"""A training film: coefficients of real runs over their training steps."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from coefdyn.lab.films.film import LONGEST, Film, FilmRun, check_steps, quantise
from coefdyn.shapes import Float, Tensor
from coefdyn.widgets.settings import check_name, check_whole
from coefdyn.widgets.source import film_source, style_source

__all__ = ["TrainingFilm", "quantise", "saved_film"]


class TrainingFilm(anywidget.AnyWidget):
    """Coefficients of a trained model, scrubbed over training step, layer and head.

    ``TrainingFilm.load("principle-3")`` shows a recorded film with its tokens and curves. In
    JupyterLab ``film.settings = {"frame": 3}`` moves it; frames count from 0, layers and heads
    from 1, and ``row`` is the position of the reading token, from 1.

    Args:
        coefficients: alpha or alpha / eta, ``(steps, layers, heads, L, L)``, L up to 64.
        steps: the training step of each frame, increasing.
        provenance: one line that says where the numbers come from (run, data, device, date).
        title: what the figure shows.
        epsilon: threshold of the near-zero set; one byte tells values apart by scale / 127 only.

    Raises:
        ValueError: for shapes that do not fit, an empty provenance, or values that are not finite.
    """

    _esm = film_source()
    _css = style_source()

    film = traitlets.Dict().tag(sync=True)
    frames = traitlets.Bytes().tag(sync=True)
    settings = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        coefficients: Float[Tensor, "steps layers heads L L"],
        *,
        steps: Sequence[int],
        provenance: str,
        title: str = "Coefficients during training",
        epsilon: float = 0.01,
    ) -> None:
        _check(coefficients, steps, provenance)
        frames, scales = quantise(coefficients)
        _, layers, heads, length, _ = coefficients.shape
        film: dict[str, Any] = {
            "title": title,
            "provenance": provenance,
            "steps": list(steps),
            "layers": layers,
            "heads": heads,
            "length": length,
            "scales": scales,
            "epsilon": epsilon,
            "runs": [{"name": "", "loss": [], "accuracy": []}],
            "tokens": [],
            "targets": [],
        }
        super().__init__(film=film, frames=frames)

    @classmethod
    def load(cls, name: Path | str, **settings: Any) -> TrainingFilm:
        """Load a recorded film by its name under ``data/films``, or by the path of its file.

        Args:
            name: such as "principle-3".
            settings: where it starts: ``run`` (from 0), ``frame`` (from 0), ``layer``, ``head``,
                ``row`` (from 1).

        Raises:
            ValueError: if there is no such film, or for a setting that does not fit.
        """
        return cls.from_film(Film.load(name), **settings)

    @classmethod
    def from_film(cls, film: Film, *, epsilon: float = 0.01, **settings: Any) -> TrainingFilm:
        """The widget of a film, such as ``coefdyn.lab.films.recording.record_film`` returns."""
        shown = cls(
            film.coefficients(),
            steps=film.steps,
            provenance=f"Recorded: {film.source()}.",
            title=film.title,
            epsilon=epsilon,
        )
        runs = [
            {"name": run.name, "loss": list(run.loss), "accuracy": list(run.accuracy)}
            for run in film.runs
        ]
        scales = [scale for run in film.runs for scale in run.scales]
        labels = {"tokens": list(film.tokens), "targets": list(film.targets)}
        shown.film = {**shown.film, "runs": runs, "scales": scales, **labels}
        shown.frames = b"".join(run.frames for run in film.runs)
        shown.settings = settings
        return shown

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
        names = [run["name"] for run in self.film["runs"] if run["name"]]
        runs = f"runs={names}, " if names else ""
        return f"TrainingFilm({runs}steps={self.film['steps']}, {sizes})"


def saved_film(record: Mapping[str, Any]) -> Film:
    """Restore the film of a saved page or notebook from a widget's ``state`` and ``buffers``."""
    film = record["state"]["film"]
    data = next(one["data"] for one in record["buffers"] if one["path"] == ["frames"])
    frames = base64.b64decode(data)
    length, count = film["length"], len(film["runs"])
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
        tokens=tuple(film["tokens"] or map(str, range(1, length + 1))),
        targets=tuple(film["targets"] or [""] * length),
        runs=runs,
    )


def _check(coefficients: Tensor, steps: Sequence[int], provenance: str) -> None:
    shape = tuple(coefficients.shape)
    if len(shape) != 5 or shape[-1] != shape[-2] or not 2 <= shape[-1] <= LONGEST:
        raise ValueError(
            f"coefficients must be (steps, layers, heads, L, L) with L from 2 to {LONGEST}, "
            f"got {shape}."
        )
    check_steps(steps, shape[0])
    if not provenance.strip():
        raise ValueError("a film says where its numbers come from; provenance is empty.")
