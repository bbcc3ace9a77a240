"""Films: coefficients of real runs during training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coefdyn.lab.films.film import Film, FilmRun, films_folder

if TYPE_CHECKING:
    from coefdyn.lab.films.widget import TrainingFilm

__all__ = ["Film", "FilmRun", "TrainingFilm", "films_folder"]


def __getattr__(name: str) -> Any:
    """Import the figure on access: it needs anywidget, and recording on a GPU machine does not."""
    if name == "TrainingFilm":
        from coefdyn.lab.films.widget import TrainingFilm

        return TrainingFilm
    raise AttributeError(f"module 'coefdyn.lab.films' has no attribute {name!r}")
