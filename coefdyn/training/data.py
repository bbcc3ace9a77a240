"""The sequences of a group of replicas, on the device, and the order they are shown in."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from coefdyn.shapes import Int, Tensor
from coefdyn.tasks import TaskConfig, splits
from coefdyn.training.seeds import generator

__all__ = ["GroupData"]


class GroupData:
    """Training and test sequences of every seed in a group.

    Args:
        task: which sequences.
        seeds: one per replica; equal seeds share their sequences and their order.
        batch: sequences per step, at most ``task.train_examples``.
        device: where they are kept.
    """

    def __init__(
        self, task: TaskConfig, seeds: Sequence[int], batch: int, device: torch.device
    ) -> None:
        if batch > task.train_examples:
            raise ValueError(
                f"batch={batch} exceeds the task's train_examples={task.train_examples}; "
                "lower the batch or draw more examples."
            )
        self.device, self.batch, self.examples = device, batch, task.train_examples
        self.seeds = list(dict.fromkeys(seeds))
        self._row = torch.tensor([self.seeds.index(seed) for seed in seeds], device=device)
        drawn = [splits(task, seed) for seed in self.seeds]
        self._train = _stacked([one.train for one in drawn], device)
        self._test = _stacked([one.test for one in drawn], device)
        self._epoch = -1
        self._order = torch.empty(0)

    @property
    def steps_per_epoch(self) -> int:
        """Full batches in one pass; an incomplete last batch is left out."""
        return self.examples // self.batch

    def train_batch(self, t: int) -> tuple[Int[Tensor, "R batch L"], Int[Tensor, "R batch L"]]:
        """Inputs and targets of step t (0-based), each replica in its seed's own order."""
        epoch, place = divmod(t, self.steps_per_epoch)
        if epoch != self._epoch:
            orders = [
                torch.randperm(self.examples, generator=generator(seed, "order", epoch))
                for seed in self.seeds
            ]
            self._order = torch.stack(orders).to(self.device)
            self._epoch = epoch
        chosen = self._order[:, place * self.batch : (place + 1) * self.batch][self._row]
        return self._pick(self._train, chosen)

    def test_chunks(self, size: int) -> list[tuple[Tensor, Tensor]]:
        """The test set of every replica in chunks of ``size`` sequences."""
        count = self._test[0].shape[1]
        starts = range(0, count, size)
        return [
            tuple(part[self._row, start : start + size] for part in self._test) for start in starts
        ]

    def _pick(self, parts: tuple[Tensor, Tensor], chosen: Tensor) -> tuple[Tensor, Tensor]:
        inputs, targets = parts
        return inputs[self._row[:, None], chosen], targets[self._row[:, None], chosen]


def _stacked(batches: list, device: torch.device) -> tuple[Tensor, Tensor]:
    inputs = torch.stack([batch.inputs for batch in batches])
    targets = torch.stack([batch.targets for batch in batches])
    return inputs.to(device), targets.to(device)
