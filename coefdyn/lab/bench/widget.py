"""A bench for live notebooks: choose a design, press train, watch it learn, stop, compare.

It is made of plain ipywidgets, which need a kernel; a page without one shows a recorded run
instead (``coefdyn.widgets.TrainingFilm``).
"""

from __future__ import annotations

import threading
import time
from html import escape
from itertools import count
from typing import Any

import ipywidgets

from coefdyn.lab.bench.figure import trial_png
from coefdyn.lab.bench.trial import (
    EVOLUTIONS,
    LONGEST_TRIAL,
    NORMALIZERS,
    POSITIONS,
    READOUTS,
    SCALINGS,
    SIZES,
    TASKS,
    Choices,
    Trial,
    film_of,
)
from coefdyn.lab.films.widget import TrainingFilm

__all__ = ["TrainingBench"]

#: seconds between two pictures, and between two moves of the progress bar
PICTURE_S, BAR_S = 1.0, 0.2

_CHOICES: dict[str, tuple[str, tuple[str, ...]]] = {
    "evolution": ("A_t", EVOLUTIONS),
    "readout": ("φ", tuple(READOUTS)),
    "normalizer": ("η_i", NORMALIZERS),
    "scaling": ("b_j", SCALINGS),
    "position": ("positions", POSITIONS),
    "task": ("task", TASKS),
    "size": ("size", tuple(SIZES)),
}


class TrainingBench(ipywidgets.VBox):
    """Train small models of one's own beside each other, in a live notebook.

    ``TrainingBench()`` as the last line of a cell shows it. The buttons have names too:
    ``bench.train()``, ``bench.stop()``, ``bench.clear()``, and ``bench.film()`` turns the finished
    trials into a film to scrub through. Training runs in a thread through ``coefdyn.lab.training``;
    one trial at a time.

    Args:
        choices: where the controls start; None for the defaults of ``Choices``.

    Raises:
        ValueError: for choices that do not fit together.
    """

    def __init__(self, choices: Choices | None = None) -> None:
        choices = choices or Choices()
        choices.config()
        controls = _controls(choices)
        buttons = {
            "train": ipywidgets.Button(description="Train", button_style="primary"),
            "stop": ipywidgets.Button(description="Stop", disabled=True),
            "clear": ipywidgets.Button(description="Clear"),
        }
        bar = ipywidgets.IntProgress(min=0, max=choices.steps, description="steps")
        words = ipywidgets.HTML("Choose a design and press Train.")
        picture = ipywidgets.Image(format="png", layout={"max_width": "100%"})
        wrap = ipywidgets.Layout(flex_flow="row wrap")
        super().__init__(
            [
                ipywidgets.HBox(list(controls.values()), layout=wrap),
                ipywidgets.HBox([*buttons.values(), bar], layout=wrap),
                words,
                picture,
            ]
        )
        self.controls, self.buttons, self.bar = controls, buttons, bar
        self.words, self.picture = words, picture
        self.trials: list[Trial] = []
        self._drawing = threading.Lock()
        self._moved = self._drawn = 0.0
        buttons["train"].on_click(lambda _: self.train())
        buttons["stop"].on_click(lambda _: self.stop())
        buttons["clear"].on_click(lambda _: self.clear())
        for name in ("layer", "head"):
            controls[name].observe(lambda _: self._draw(), "value")

    @property
    def choices(self) -> Choices:
        """What the controls say now."""
        names = Choices.__dataclass_fields__
        return Choices(**{name: self.controls[name].value for name in names})

    @property
    def running(self) -> bool:
        """Whether a trial is training."""
        return bool(self.trials) and self.trials[-1].state == "running"

    def train(self) -> None:
        """Start a trial with the present choices; what does not fit is said in words."""
        if self.running:
            self._say("A trial is training already: press Stop, or wait.")
            return
        trial = Trial(self.choices, self._on_change)
        self.bar.value, self.bar.max, self.bar.bar_style = 0, max(1, trial.choices.steps), ""
        try:
            trial.choices.config()
        except ValueError as error:
            self._say(f"This does not fit together. {error}")
            return
        self.trials.append(trial)
        self._buttons(training=True)
        self._say("Drawing the sequences.")
        trial.start()

    def stop(self) -> None:
        """End the running trial after the step it is in; its curve stays."""
        if self.running:
            self.buttons["stop"].disabled = True
            self.trials[-1].stop()

    def clear(self) -> None:
        """Forget the finished trials; a running one stays."""
        self.trials[:] = self.trials[-1:] if self.running else []
        self._say("Choose a design and press Train.")
        self._draw()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the running trial, if there is one; whether none is running now."""
        return self.trials[-1].wait(timeout_s) if self.trials else True

    def film(self) -> TrainingFilm:
        """The finished trials as a film; they must share task, size, seed and steps.

        Raises:
            ValueError: if none is finished, or they do not fit together.
        """
        return TrainingFilm.from_film(film_of(self.trials))

    def _on_change(self, trial: Trial) -> None:
        """In the training thread: move the bar, draw now and then, and always at the end."""
        now, ended = time.monotonic(), trial.state != "running"
        if ended or now - self._moved > BAR_S:
            self._moved = now
            self.bar.value = trial.done
            self._say(*map(_sentence, self.trials, count(1)))
        if ended:
            good = {"finished": "success", "stopped": "info"}
            self.bar.bar_style = good.get(trial.state, "danger")
            self._buttons(training=False)
        if ended or now - self._drawn > PICTURE_S:
            self._draw()
            self._drawn = time.monotonic()

    def _draw(self) -> None:
        shown = [trial for trial in self.trials if trial.accuracy]
        with self._drawing:
            place = {name: self.controls[name].value for name in ("layer", "head")}
            self.picture.value = trial_png(shown, **place) if shown else b""

    def _buttons(self, *, training: bool) -> None:
        self.buttons["train"].disabled = training
        self.buttons["stop"].disabled = not training

    def _say(self, *lines: str) -> None:
        self.words.value = "<br>".join(map(escape, lines))

    def __repr__(self) -> str:
        return f"TrainingBench({len(self.trials)} trials)"

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        return None if bundle is None else {**bundle, "text/plain": repr(self)}


def _controls(choices: Choices) -> dict[str, Any]:
    """One control per choice, and which matrix is looked at."""
    found: dict[str, Any] = {
        name: ipywidgets.Dropdown(options=known, value=getattr(choices, name), description=label)
        for name, (label, known) in _CHOICES.items()
    }
    slider, number = ipywidgets.FloatSlider, ipywidgets.BoundedIntText
    found["constant"] = slider(
        value=choices.constant, min=0.05, max=1.1, step=0.01, description="λ (constant)"
    )
    found["steps"] = number(value=choices.steps, min=1, max=LONGEST_TRIAL, description="steps")
    found["learning_rate"] = ipywidgets.BoundedFloatText(
        value=choices.learning_rate, min=0.0, max=1.0, step=5e-4, description="rate"
    )
    found["seed"] = number(value=choices.seed, min=0, max=999, description="seed")
    found["layer"] = number(value=1, min=1, max=2, description="layer shown")
    heads = max(heads for _, heads, _, _ in SIZES.values())
    found["head"] = number(value=1, min=1, max=heads, description="head shown")
    return found


def _sentence(trial: Trial, number: int) -> str:
    """Where a trial stands."""
    start = f"Trial {number}, {trial.choices.name}"
    best = f"; test accuracy {trial.accuracy[-1]:.3f}" if trial.accuracy else ""
    steps = f"step {trial.done} of {trial.choices.steps}"
    match trial.state:
        case "failed":
            return f"{start}: failed at {steps}. {trial.error}"
        case "diverged":
            return f"{start}: diverged, its loss or gradient became infinite by {steps}{best}."
        case "running":
            return f"{start}: {steps}{best}."
    return f"{start}: {trial.state} at {steps}{best}."
