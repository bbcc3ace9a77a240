"""Metrics of next-token predictions, and of the steps between two evaluations."""

from __future__ import annotations

import math
from statistics import fmean

import torch
from torch.nn import functional

from coefdyn.shapes import Float, Int, Tensor

__all__ = ["IGNORE", "PredictionTally", "StepMeter", "masked_loss"]

#: target value of a position that is not scored
IGNORE = -100


def masked_loss(
    logits: Float[Tensor, "*batch L vocab"], targets: Int[Tensor, "*batch L"]
) -> Float[Tensor, ""]:
    """Mean cross-entropy in nats over the positions whose target is not -100."""
    return functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=IGNORE
    )


class PredictionTally:
    """Counts over a split, chunk by chunk, from which loss and accuracies follow.

    Args:
        vocab: number of classes.
        device: where the chunks live.
    """

    def __init__(self, vocab: int, device: torch.device) -> None:
        self.vocab = vocab
        self.loss, self.count = torch.zeros(2, dtype=torch.float64, device=device)
        counts = torch.zeros(3, vocab, dtype=torch.float64, device=device)
        self.correct, self.shown, self.predicted = counts

    def add(self, logits: Float[Tensor, "batch L vocab"], targets: Int[Tensor, "batch L"]) -> None:
        """Count one chunk. A position with a NaN logit counts as wrong."""
        scored = targets != IGNORE
        safe = targets.clamp_min(0)
        loss = -functional.log_softmax(logits, dim=-1).gather(-1, safe[..., None])[..., 0]
        self.loss += torch.where(scored, loss, 0.0).sum(dtype=torch.float64)
        self.count += scored.sum()
        guess = logits.nan_to_num(nan=-math.inf).argmax(-1)
        right = scored & (guess == safe) & torch.isfinite(loss)
        for table, mask, label in (
            (self.correct, right, safe),
            (self.shown, scored, safe),
            (self.predicted, scored, guess),
        ):
            table += torch.bincount(label[mask], minlength=self.vocab)

    def results(self) -> dict[str, float]:
        """Loss (nats), perplexity, accuracy (micro) and accuracy_macro, in [0, 1].

        Macro accuracy is the mean of the per-class recall over all classes that were a target or
        were predicted, as MAD's torchmetrics score does; a class only ever predicted counts as 0.
        """
        loss = (self.loss / self.count).item()
        seen = (self.shown + self.predicted) > 0
        recall = self.correct / self.shown.clamp_min(1)
        return {
            "loss": loss,
            "perplexity": math.exp(loss) if loss < 700 else math.inf,
            "accuracy": (self.correct.sum() / self.count).item(),
            "accuracy_macro": ((recall * seen).sum() / seen.sum()).item(),
        }


class StepMeter:
    """Mean training loss, and mean and largest gradient norm, of the steps since ``take``."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.norms: list[float] = []

    def add(self, loss: float, norm: float) -> None:
        """Count one step."""
        self.losses.append(loss)
        self.norms.append(norm)

    def take(self) -> dict[str, float]:
        """The three numbers, NaN where no step was counted; counting begins anew."""
        losses, norms = self.losses or [math.nan], self.norms or [math.nan]
        self.losses, self.norms = [], []
        return {
            "train_loss": fmean(losses),
            "gradient_norm": fmean(norms),
            "gradient_norm_max": max(norms),
        }
