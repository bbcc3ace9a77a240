"""Films: coefficients of real runs during training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coefdyn.first_use import load_on_first_use

if TYPE_CHECKING:  # the figure needs anywidget, and recording on a GPU machine does not
    from coefdyn.lab.films.film import Film, FilmRun, films_folder
    from coefdyn.lab.films.widget import TrainingFilm

load_on_first_use(__name__)
