"""One run of the bench with torch; it answers what ``train/js/worker/worker.js`` answers."""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from coefdyn.lab.films.recording import coefficients_of
from coefdyn.lab.tasks import config_from_dict
from coefdyn.lab.train.offers import EVERY
from coefdyn.lab.training import RunConfig, TrainConfig
from coefdyn.lab.training.checkpoint import load_checkpoint, save_checkpoint
from coefdyn.lab.training.data import GroupData
from coefdyn.lab.training.loop import initial_model
from coefdyn.lab.training.metrics import PredictionTally, masked_loss
from coefdyn.models import ModelConfig
from coefdyn.shapes import Tensor

__all__ = ["KernelRun"]

WARMUP = 20
Answer = tuple[dict[str, Any], list[bytes]]


class KernelRun:
    """Sequences, model and optimiser of one design.

    Args:
        task: a task's configuration, as ``TaskConfig.to_dict`` gives it.
        design: keywords of ``DesignMixer``.
        size: width, layers, heads, mlp and batch.
        positions, seed: of the model; the seed is that of sequences and order, too.
        rate: AdamW's, constant after 20 steps.
        sequence: which test sequence the film shows, from 1.
    """

    def __init__(
        self,
        *,
        task: dict[str, Any],
        design: dict[str, Any],
        size: dict[str, int],
        positions: str,
        seed: int,
        rate: float,
        sequence: int = 1,
    ) -> None:
        self.config = RunConfig(
            task=config_from_dict(task),
            model=ModelConfig(
                width=size["width"],
                layers=size["layers"],
                mlp=size["mlp"],
                options={**design, "n_heads": size["heads"]},
                position=positions,
            ),
            train=TrainConfig(steps=1, batch=size["batch"]),
            seed=seed,
        )
        cpu = torch.device("cpu")
        self.data = GroupData(self.config.task, [seed], size["batch"], cpu)
        ((inputs, targets),) = self.data.chunks("test", self.config.task.test_examples)
        self.inputs, self.targets = inputs[0], targets[0]
        self.rate, self.shown = rate, (sequence - 1) % len(self.inputs)
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)  # the page's; a chapter may compute in float64
        try:
            self.model = initial_model(self.config)
        finally:
            torch.set_default_dtype(before)
        self._begin(0)

    def _begin(self, t: int) -> None:
        """From step t on, with an optimiser that remembers nothing."""
        self.t = t
        self.trouble: dict[str, Any] | None = None
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=self.rate, betas=(0.9, 0.98), weight_decay=0.0
        )
        self.taken = 0

    def answer(self, message: dict[str, Any], files: list[bytes]) -> Answer:
        """The answer to a question of the figure, and the files that go with it.

        Raises:
            ValueError: for a file that does not fit, or an unknown question.
        """
        kind, look = message["kind"], message.get("look") or {}
        if kind == "start":
            return self._report(look, marks=[self._mark()], first=self._sequence(self.shown)), []
        if kind == "work":
            start = time.perf_counter()
            losses, marks = self._work(int(message["count"]))
            spent = 1000 * (time.perf_counter() - start)
            return {**self._report(look, losses=losses, marks=marks), "ms": spent}, []
        if kind == "look":
            return self._report(look), []
        if kind not in ("save", "notes", "load"):
            raise ValueError(f"the figure asked for {kind!r}, which a run does not know.")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "weights.safetensors"
            if kind == "save":
                notes = {**message["notes"], "step": str(self.t)}
                save_checkpoint(path, self.model.state_dict(), notes)
                return {}, [path.read_bytes()]
            path.write_bytes(files[0])
            try:
                tensors, notes = load_checkpoint(path)
            except ValueError as error:
                raise ValueError(
                    "this is no safetensors file, or it is cut short; choose one saved here"
                ) from error
        if kind == "notes":
            return {"notes": notes}, []
        try:
            self.model.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError("the file's weights are of another design or size") from error
        step = notes.get("step", "")
        self._begin(int(step) if step.isdecimal() and len(step) < 10 else 0)
        return self._report(look, marks=[self._mark()], first=self._sequence(self.shown)), []

    def _work(self, count: int) -> tuple[list[float], list[dict[str, Any]]]:
        losses: list[float] = []
        marks: list[dict[str, Any]] = []
        for _ in range(count):
            if self.trouble:
                break
            inputs, targets = self.data.train_batch(self.t)
            loss = masked_loss(self.model(inputs[0]), targets[0])
            self.optimizer.zero_grad()
            loss.backward()
            gradients = [one.grad for one in self.model.parameters() if one.grad is not None]
            norm = torch.nn.utils.get_total_norm(gradients)
            if not (math.isfinite(loss.item()) and math.isfinite(norm.item())):
                self.trouble = {**self._where(inputs[0, 0]), "t": self.t + 1}
                break
            self.taken += 1
            for group in self.optimizer.param_groups:
                group["lr"] = self.rate * min(1.0, self.taken / WARMUP)
            self.optimizer.step()
            self.t += 1
            losses.append(loss.item())
            if self.t % EVERY == 0:
                marks.append(self._mark())
        return losses, marks

    def _where(self, tokens: Tensor) -> dict[str, Any]:
        """The first part in which a number is not finite: coefficients, or else the gradient."""
        with torch.no_grad():
            for layer, matrices in enumerate(coefficients_of(self.model, tokens)):
                if not matrices.isfinite().all():
                    return {"part": "coefficients", "layer": layer}
        return {"part": "gradient"}

    @torch.no_grad()
    def _mark(self) -> dict[str, Any]:
        """Loss and accuracy on the test set, and one frame of the film."""
        tally = PredictionTally(1, self.config.task.num_classes, torch.device("cpu"))
        tally.add(self.model(self.inputs)[None], self.targets[None])
        (told,) = tally.results()
        matrices = coefficients_of(self.model, self.inputs[self.shown]).flatten(0, 1)
        scales = matrices.abs().amax((1, 2))
        unit = matrices / scales.where(scales > 0, 1.0)[:, None, None]
        rows, columns = torch.tril_indices(*unit.shape[1:])
        frame = (unit[:, rows, columns] * 127).round().nan_to_num().flatten().int()
        return {
            "t": self.t,
            "loss": _plain(told["loss"]),
            "accuracy": told["accuracy"],
            "bytes": frame.tolist(),
            "scales": [_plain(scale) for scale in scales.tolist()],
        }

    def _sequence(self, row: int) -> dict[str, Any]:
        inputs, targets = self.inputs[row].tolist(), self.targets[row].tolist()
        return {"inputs": inputs, "targets": targets, "length": len(inputs), "n": 1}

    @torch.no_grad()
    def _report(self, look: dict[str, int], **found: Any) -> dict[str, Any]:
        """What the figure draws: step, losses, the matrix that is looked at, and the answer."""
        row = (look["sequence"] - 1) % len(self.inputs)
        logits = self.model(self.inputs[row][None])[0]
        said = logits.argmax(-1).masked_fill(logits.isnan().any(-1), -1)
        matrices = coefficients_of(self.model, self.inputs[row])
        matrix = matrices[look["layer"] - 1, look["head"] - 1].flatten().tolist()
        seen = {**self._sequence(row), "said": said.tolist(), "matrix": [_plain(x) for x in matrix]}
        start: dict[str, Any] = {"t": self.t, "losses": [], "marks": []}
        return {**start, **found, "trouble": self.trouble, "look": seen}


def _plain(x: float) -> float | None:
    """JSON has no NaN and no infinity."""
    return x if math.isfinite(x) else None
