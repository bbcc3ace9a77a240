"""Training films: coefficient matrices of runs at chosen training steps, one byte per coefficient.

A matrix is kept as its lower triangle in signed bytes, row after row, with its largest magnitude
as scale. So the error of a coefficient is at most ``scale / 254``, and a run of 13 steps with two
layers of four heads at L = 31 takes 52 kB.

Recording is ``coefdyn.lab.films.recording``, showing is ``coefdyn.lab.films.TrainingFilm``.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from coefdyn.lab.places import checkout, data_folder
from coefdyn.shapes import Float, Tensor

__all__ = ["LONGEST", "Film", "FilmRun", "dequantise", "films_folder", "quantise"]

#: tokens of the longest sequence that a page can show
LONGEST = 64


def quantise(matrices: Float[Tensor, "*frames L L"]) -> tuple[bytes, list[float]]:
    """Lower triangles as signed bytes, row after row, and each matrix's largest magnitude.

    Raises:
        ValueError: for values that are not finite.
    """
    if not bool(matrices.isfinite().all()):
        raise ValueError("a film needs finite coefficients; got inf or NaN in some matrix.")
    length = matrices.shape[-1]
    i, j = torch.tril_indices(length, length)
    lower = matrices.detach().to("cpu", torch.float64)[..., i, j].reshape(-1, len(i))
    scales = lower.abs().amax(dim=-1, keepdim=True)
    steps = (lower / scales.clamp(min=1e-300) * 127).round().to(torch.int8)
    return steps.numpy().tobytes(), scales.flatten().tolist()


def dequantise(
    frames: bytes, scales: Sequence[float], shape: tuple[int, ...]
) -> Float[Tensor, "*frames L L"]:
    """The matrices that ``quantise`` was given, each off by at most its scale / 254.

    Args:
        frames, scales: as ``quantise`` returned them.
        shape: of the answer, ``(..., L, L)``.
    """
    length = shape[-1]
    i, j = torch.tril_indices(length, length)
    stored = torch.frombuffer(bytearray(frames), dtype=torch.int8).reshape(-1, len(i))
    found = torch.zeros(len(stored), length, length, dtype=torch.float64)
    found[:, i, j] = stored.double() / 127 * torch.tensor(scales, dtype=torch.float64)[:, None]
    return found.reshape(shape)


def films_folder() -> Path:
    """Path of ``data/films`` in the checkout, or in the working folder for an installed package."""
    return data_folder() / "films"


@dataclass(frozen=True, kw_only=True)
class FilmRun:
    """One training run of a film.

    Args:
        name: what sets it apart from the others, in a few words.
        loss: on the test set at every frame, nats.
        accuracy: on the test set at every frame, in [0, 1].
        frames, scales: as ``quantise`` returned them for ``(steps, layers, heads, L, L)``.
        config: the run as plain values; ``coefdyn.lab.training.RunConfig.from_dict`` takes them.
        provenance: device, versions, code revision and time.
    """

    name: str
    loss: tuple[float, ...]
    accuracy: tuple[float, ...]
    frames: bytes
    scales: tuple[float, ...]
    config: dict[str, Any]
    provenance: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Film:
    """Coefficients alpha / eta of one test sequence in one or more runs, step by step.

    Args:
        title: what the figure shows.
        steps: finished training steps at each frame, increasing; 0 is the untrained model.
        layers, heads: how many are kept, the first ones of the model.
        tokens: the sequence, one short label per token; at most ``LONGEST``.
        targets: what is asked at each token; empty where nothing is scored.
        runs: with equal steps and sizes.

    Raises:
        ValueError: for sizes that do not fit together.
    """

    title: str
    steps: tuple[int, ...]
    layers: int
    heads: int
    tokens: tuple[str, ...]
    targets: tuple[str, ...]
    runs: tuple[FilmRun, ...]

    def __post_init__(self) -> None:
        if not self.steps or any(b <= a for a, b in pairwise(self.steps)):
            raise ValueError(f"steps of a film must increase; got {list(self.steps)}.")
        if not 2 <= self.length <= LONGEST or len(self.targets) != self.length:
            raise ValueError(
                f"a film needs 2 to {LONGEST} tokens and as many targets; got {self.length} tokens "
                f"and {len(self.targets)} targets."
            )
        matrices = len(self.steps) * self.layers * self.heads
        size = matrices * self.length * (self.length + 1) // 2
        frames = len(self.steps)
        for run in self.runs:
            counts = {
                "bytes": (len(run.frames), size),
                "scales": (len(run.scales), matrices),
                "values of loss": (len(run.loss), frames),
                "values of accuracy": (len(run.accuracy), frames),
            }
            for what, (got, need) in counts.items():
                if got != need:
                    raise ValueError(
                        f"run {run.name!r} has {got} {what}, but {frames} steps of {self.layers} "
                        f"layers and {self.heads} heads need {need}."
                    )

    @property
    def length(self) -> int:
        """L, tokens."""
        return len(self.tokens)

    def coefficients(self, run: int = 0) -> Float[Tensor, "steps layers heads L L"]:
        """The matrices of one run, each off by at most its largest magnitude / 254."""
        shape = (len(self.steps), self.layers, self.heads, self.length, self.length)
        return dequantise(self.runs[run].frames, self.runs[run].scales, shape)

    def source(self) -> str:
        """Source of the numbers, in one line."""
        seeds = sorted({run.config["seed"] for run in self.runs})
        kept = [run.provenance for run in self.runs]
        parts = [
            f"seed {', '.join(map(str, seeds))}",
            *_distinct(one["device"] for one in kept),
            *_distinct(f"torch {one['torch']}" for one in kept),
            *_distinct(one["timestamp"][:10] for one in kept),
        ]
        return ", ".join(parts)

    def save(self, path: Path | str) -> None:
        """Write the film as JSON, frames as base64; an older file is replaced when complete."""
        path = Path(path)
        values = asdict(self)
        for run in values["runs"]:
            run["frames"] = base64.b64encode(run["frames"]).decode()
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_text(json.dumps(values, separators=(",", ":")) + "\n", encoding="utf-8")
        os.replace(part, path)

    @classmethod
    def load(cls, name: Path | str) -> Film:
        """Load a film by its name under ``films_folder()``, or by the path of its file.

        Raises:
            ValueError: if there is no such film; the message lists those there are.
        """
        path = Path(name) if str(name).endswith(".json") else films_folder() / f"{name}.json"
        if not path.is_file():
            known = ", ".join(sorted(one.stem for one in films_folder().glob("*.json"))) or "none"
            remedy = "" if checkout() else " Recorded films lie in the repository of the book."
            raise ValueError(f"there is no film at {path}; recorded films: {known}.{remedy}")
        values = json.loads(path.read_text(encoding="utf-8"))
        for key in ("steps", "tokens", "targets"):
            values[key] = tuple(values[key])
        values["runs"] = tuple(_run_from(one) for one in values["runs"])
        return cls(**values)


def _run_from(values: dict[str, Any]) -> FilmRun:
    frames = base64.b64decode(values["frames"])
    tuples = {key: tuple(map(float, values[key])) for key in ("loss", "accuracy", "scales")}
    return FilmRun(**{**values, **tuples, "frames": frames})


def _distinct(words: Any) -> list[str]:
    return list(dict.fromkeys(words))
