"""The sequences of a group of replicas, on the device, and the order they are shown in."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from coefdyn.lab.tasks import (
    Batch,
    Split,
    TaskConfig,
    sample,
    sample_blocks,
    split_generator,
    task_of,
)
from coefdyn.lab.training.seeds import generator
from coefdyn.shapes import Int, Tensor

__all__ = ["GroupData"]


class GroupData:
    """Training and test sequences of every seed in a group.

    They are kept as 16-bit numbers, 32-bit ones for a large vocabulary, and handed out as int64.
    Of an endless task (``Task.endless``) no training set is kept: each step draws its own.

    Args:
        task: which sequences.
        seeds: one per replica; equal seeds share their sequences and their order.
        batch: sequences per step, at most ``task.train_examples``.
        device: where they are kept.
        validation: sequences of the validation split; 0 keeps none.
    """

    def __init__(
        self,
        task: TaskConfig,
        seeds: Sequence[int],
        batch: int,
        device: torch.device,
        validation: int = 0,
    ) -> None:
        if batch > task.train_examples:
            raise ValueError(
                f"batch={batch} exceeds the task's train_examples={task.train_examples}; "
                "lower the batch or draw more examples."
            )
        self.task, self.device, self.batch = task, device, batch
        self.seeds = list(dict.fromkeys(seeds))
        self._row = torch.tensor([self.seeds.index(seed) for seed in seeds], device=device)
        endless = task_of(task).endless
        self._train = None if endless else self._kept("train", task.train_examples)
        self._held: dict[Split, Batch] = {"test": self._kept("test", task.test_examples)}
        if validation:
            self._held["validation"] = self._kept("validation", validation)
        self._epoch = -1
        self._order = torch.empty(0)

    @property
    def steps_per_epoch(self) -> int:
        """Full batches in one pass; an incomplete last batch is left out."""
        return self.task.train_examples // self.batch

    def train_batch(self, t: int) -> tuple[Int[Tensor, "R batch L"], Int[Tensor, "R batch L"]]:
        """Inputs and targets of step t (0-based), each replica in its seed's own order."""
        if self._train is None:
            return self._fresh(t)
        epoch, place = divmod(t, self.steps_per_epoch)
        if epoch != self._epoch:
            orders = [
                torch.randperm(self.task.train_examples, generator=generator(seed, "order", epoch))
                for seed in self.seeds
            ]
            self._order = torch.stack(orders).to(self.device)
            self._epoch = epoch
        chosen = self._order[:, place * self.batch : (place + 1) * self.batch][self._row]
        row = self._row[:, None]
        return self._train.inputs[row, chosen].long(), self._train.targets[row, chosen].long()

    def _fresh(self, t: int) -> tuple[Tensor, Tensor]:
        """Sequences drawn for step t of each seed; the same ones whenever they are asked for."""
        drawn = [
            sample(self.task, self.batch, generator(seed, "step", t), "train")
            for seed in self.seeds
        ]
        inputs = torch.stack([one.inputs for one in drawn]).to(self.device)
        targets = torch.stack([one.targets for one in drawn]).to(self.device)
        return inputs[self._row], targets[self._row]

    def chunks(self, split: Split, size: int) -> list[tuple[Tensor, Tensor]]:
        """Every replica's sequences of "test" or "validation", ``size`` at a time."""
        inputs, targets = self._held[split]
        parts = [slice(start, start + size) for start in range(0, inputs.shape[1], size)]
        return [(inputs[self._row, p].long(), targets[self._row, p].long()) for p in parts]

    def _kept(self, split: Split, count: int) -> Batch:
        """A split of every seed, ``(seeds, count, L)``; filled block by block as it is drawn."""
        largest = max(self.task.vocab_size, self.task.num_classes)
        shape = (len(self.seeds), count, self.task.input_length)
        kind = torch.int16 if largest <= 2**15 else torch.int32
        inputs, targets = (torch.empty(shape, dtype=kind) for _ in range(2))
        for place, seed in enumerate(self.seeds):
            start = 0
            for block in sample_blocks(self.task, count, split_generator(seed, split), split):
                stop = start + len(block.inputs)
                inputs[place, start:stop], targets[place, start:stop] = block
                start = stop
        return Batch(inputs.to(self.device), targets.to(self.device))
