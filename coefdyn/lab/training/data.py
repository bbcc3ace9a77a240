"""The sequences of a run, on its device, and the order in which they are shown."""

from __future__ import annotations

import torch

from coefdyn.lab.tasks import (
    Batch,
    Split,
    TaskConfig,
    sample,
    sample_blocks,
    split_generator,
)
from coefdyn.lab.training.seeds import generator
from coefdyn.shapes import Int, Tensor

__all__ = ["RunData"]


class RunData:
    """Training, test and validation sequences of one seed.

    They are kept as 16-bit numbers, 32-bit ones for a large vocabulary, and handed out as int64.
    Of an endless task no training set is kept: each step draws its own.

    Args:
        task: which sequences.
        seed: of the sequences and of their order.
        batch: sequences per step, at most ``task.train_examples``.
        device: where they are kept.
        validation: sequences of the validation split; 0 keeps none.
    """

    def __init__(
        self,
        task: TaskConfig,
        seed: int,
        batch: int,
        device: torch.device,
        validation: int = 0,
    ) -> None:
        if batch > task.train_examples:
            raise ValueError(
                f"batch={batch} exceeds the task's train_examples={task.train_examples}; "
                "lower the batch or draw more examples."
            )
        self.task, self.seed, self.batch, self.device = task, seed, batch, device
        self._train = None if task.endless else self._kept("train", task.train_examples)
        self._held: dict[Split, Batch] = {"test": self._kept("test", task.test_examples)}
        if validation:
            self._held["validation"] = self._kept("validation", validation)
        self._epoch = -1
        self._order = torch.empty(0)

    @property
    def steps_per_epoch(self) -> int:
        """Full batches in one pass; an incomplete last batch is left out."""
        return self.task.train_examples // self.batch

    def train_batch(self, t: int) -> tuple[Int[Tensor, "batch L"], Int[Tensor, "batch L"]]:
        """Inputs and targets of step t (0-based), in the seed's own order."""
        if self._train is None:
            source = generator(self.seed, "step", t)
            drawn = sample(self.task, self.batch, source, "train")
            return drawn.inputs.to(self.device), drawn.targets.to(self.device)
        epoch, place = divmod(t, self.steps_per_epoch)
        if epoch != self._epoch:
            source = generator(self.seed, "order", epoch)
            order = torch.randperm(self.task.train_examples, generator=source)
            self._order, self._epoch = order.to(self.device), epoch
        chosen = self._order[place * self.batch : (place + 1) * self.batch]
        return self._train.inputs[chosen].long(), self._train.targets[chosen].long()

    def chunks(self, split: Split, size: int) -> list[tuple[Tensor, Tensor]]:
        """The sequences of "test" or "validation", ``size`` at a time."""
        inputs, targets = self._held[split]
        parts = [slice(start, start + size) for start in range(0, len(inputs), size)]
        return [(inputs[part].long(), targets[part].long()) for part in parts]

    def _kept(self, split: Split, count: int) -> Batch:
        """Collect a split, ``(count, L)``, block by block as it is drawn."""
        largest = max(self.task.vocab_size, self.task.num_classes)
        kind = torch.int16 if largest <= 2**15 else torch.int32
        inputs, targets = (
            torch.empty((count, self.task.input_length), dtype=kind) for _ in range(2)
        )
        start = 0
        for block in sample_blocks(self.task, count, split_generator(self.seed, split), split):
            stop = start + len(block.inputs)
            inputs[start:stop], targets[start:stop] = block
            start = stop
        return Batch(inputs.to(self.device), targets.to(self.device))
