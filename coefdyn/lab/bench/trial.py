"""A run of one's own: choose the four ingredients, a task and a size; train, watch and stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from coefdyn.lab.films.film import Film, FilmRun
from coefdyn.lab.films.recording import record_run, sequence_labels
from coefdyn.lab.tasks import make_config
from coefdyn.lab.training import RunConfig, Stopped, TrainConfig
from coefdyn.mixers.design import EVOLUTIONS, NORMALIZERS, READOUTS, SCALINGS
from coefdyn.models import ModelConfig
from coefdyn.options import check_choice
from coefdyn.shapes import Tensor

__all__ = ["LONGEST_TRIAL", "POSITIONS", "SIZES", "TASKS", "Choices", "Trial", "film_of"]

#: name: width, heads, SwiGLU width, training sequences; two layers each
SIZES: dict[str, tuple[int, int, int, int]] = {
    "tiny": (16, 2, 32, 1_600),
    "small": (32, 4, 64, 6_400),
    "quick": (64, 8, 128, 12_800),
}
#: tasks whose quick form has at most 64 tokens
TASKS = ("noisy-recall", "recall", "mqar", "selective-copying")
POSITIONS = ("none", "rotary", "learned")
#: most steps of a trial, and frames besides the untrained model (more where 50 steps pass sooner)
LONGEST_TRIAL, FRAMES, MOST_BETWEEN = 5_000, 20, 50


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What a trial trains; names as in ``coefdyn.mixers.design.DesignMixer``.

    Args:
        evolution, constant: A_t, and lambda of "constant".
        readout, normalizer, scaling: phi, eta_i and b_j.
        position: "none", "rotary" or "learned".
        task: one of ``TASKS``, in its quick form.
        size: one of ``SIZES``.
        steps: optimiser steps, 1 to 5000: a bench keeps every frame.
        learning_rate: AdamW's peak.
        seed: of sequences, weights and order.
    """

    evolution: str = "constant"
    constant: float = 0.85
    readout: str = "exp"
    normalizer: str = "row_sum"
    scaling: str = "inverse_sqrt"
    position: str = "none"
    task: str = "noisy-recall"
    size: str = "small"
    steps: int = 600
    learning_rate: float = 3e-3
    seed: int = 0

    def config(self) -> RunConfig:
        """The run, as ``coefdyn.lab.training`` takes it.

        Raises:
            ValueError: for an unknown choice, naming the nearest one, or a number out of range.
        """
        for name, known in (
            ("evolution", EVOLUTIONS),
            ("readout", tuple(READOUTS)),
            ("normalizer", NORMALIZERS),
            ("scaling", SCALINGS),
            ("position", POSITIONS),
            ("task", TASKS),
            ("size", tuple(SIZES)),
        ):
            check_choice(name, getattr(self, name), known)
        if not 1 <= self.steps <= LONGEST_TRIAL:
            raise ValueError(
                f"steps must lie between 1 and {LONGEST_TRIAL}, got {self.steps}; "
                "train longer runs with coefdyn.lab.training.train_runs."
            )
        width, heads, mlp, examples = SIZES[self.size]
        names = ("evolution", "readout", "normalizer", "scaling")
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        options |= {"n_heads": heads}
        if self.evolution == "constant":
            options["constant"] = self.constant
        return RunConfig(
            task=make_config(self.task, "quick", {"train_examples": examples}),
            model=ModelConfig(
                width=width, layers=2, mlp=mlp, options=options, position=self.position
            ),
            train=TrainConfig(
                steps=self.steps,
                batch=32,
                learning_rate=self.learning_rate,
                final_learning_rate=0.0,
                evaluate_every=max(1, min(self.steps // FRAMES, MOST_BETWEEN)),
            ),
            seed=self.seed,
        )

    @property
    def name(self) -> str:
        """The ingredients in a few words."""
        matrix = f"{self.constant:g} I" if self.evolution == "constant" else self.evolution
        words = [f"A {matrix}", self.readout, f"eta {self.normalizer}", f"b {self.scaling}"]
        return ", ".join([*words, *([] if self.position == "none" else [self.position])])


@dataclass
class Trial:
    """One run in a thread of its own; its numbers grow while it trains.

    Args:
        choices: what to train.
        on_change: called in the training thread after every step and when the state changes.

    Attributes:
        state: "waiting", "running", "finished", "stopped", "diverged" or "failed".
        error: what went wrong, in words; empty otherwise.
        done: finished steps.
        steps, loss, accuracy: the curve so far, the untrained model first.
        coefficients: alpha / eta of the latest frame, ``(layers, heads, L, L)``.
        run: the whole recording once it is finished.
    """

    choices: Choices
    on_change: Callable[[Trial], object] | None = None
    state: str = "waiting"
    error: str = ""
    done: int = 0
    steps: list[int] = field(default_factory=list)
    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)
    coefficients: Tensor | None = None
    run: FilmRun | None = None
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Train in the background.

        Raises:
            ValueError: for choices that do not fit together, before anything is started.
        """
        assert self._thread is None, "a trial starts once"
        config = self.choices.config()
        self.state = "running"
        self._thread = threading.Thread(target=self._train, args=(config,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the training after the step it is in."""
        self._stop.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the training thread has ended; whether it has."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self.state not in ("waiting", "running")

    def _train(self, config: RunConfig) -> None:
        try:
            run, steps = record_run(
                config, self.choices.name, on_step=self._on_step, on_frame=self._on_frame
            )
        except Stopped:
            self.state = "stopped"
        except Exception as error:
            self.state, self.error = "failed", f"{type(error).__name__}: {error}"
        else:
            self.run = run
            self.state = "finished" if steps[-1] == config.train.steps else "diverged"
        self._tell()

    def _on_step(self, done: int, _: int) -> bool:
        self.done = done
        self._tell()
        return self._stop.is_set()

    def _on_frame(self, step: int, metrics: dict[str, Any], coefficients: Tensor) -> None:
        self.steps.append(step)
        self.loss.append(metrics["loss"])
        self.accuracy.append(metrics["accuracy"])
        self.coefficients = coefficients

    def _tell(self) -> None:
        if self.on_change is not None:
            self.on_change(self)


def film_of(trials: Sequence[Trial], title: str = "Trials of one's own") -> Film:
    """The finished trials as one film; they must share task, seed, size and steps.

    Raises:
        ValueError: if none is finished, or they do not see the same sequence at the same steps.
    """
    kept = [trial for trial in trials if trial.state == "finished" and trial.run is not None]
    if not kept:
        raise ValueError("a film needs a finished trial; train one to its last step.")
    one = kept[0].choices
    if any(_sequence(trial.choices) != _sequence(one) for trial in kept):
        raise ValueError(
            "a film compares trials on one sequence: keep those of equal task, size, seed and "
            "steps."
        )
    tokens, targets = sequence_labels(one.config())
    return Film(
        title=title,
        steps=tuple(kept[0].steps),
        layers=2,
        heads=SIZES[one.size][1],
        tokens=tuple(tokens),
        targets=tuple(targets),
        runs=tuple(trial.run for trial in kept if trial.run is not None),
    )


def _sequence(choices: Choices) -> tuple[str, str, int, int]:
    return (choices.task, choices.size, choices.seed, choices.steps)
