"""Metrics of next-token predictions, for many replicas at once."""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from coefdyn.shapes import Float, Int, Tensor

__all__ = ["IGNORE", "PredictionTally", "masked_loss"]

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
    """Counts over a test set, chunk by chunk, from which loss and accuracies follow.

    Args:
        replicas: number of replicas R.
        vocab: number of classes.
        device: where the chunks live.
    """

    def __init__(self, replicas: int, vocab: int, device: torch.device) -> None:
        self.replicas, self.vocab = replicas, vocab
        self.loss = torch.zeros(replicas, dtype=torch.float64, device=device)
        self.count = torch.zeros(replicas, dtype=torch.float64, device=device)
        counts = torch.zeros(3, replicas, vocab, dtype=torch.float64, device=device)
        self.correct, self.shown, self.predicted = counts

    def add(
        self, logits: Float[Tensor, "R batch L vocab"], targets: Int[Tensor, "R batch L"]
    ) -> None:
        """Count one chunk. A position with a NaN logit counts as wrong."""
        scored = targets != IGNORE
        safe = targets.clamp_min(0)
        loss = -functional.log_softmax(logits, dim=-1).gather(-1, safe[..., None])[..., 0]
        self.loss += torch.where(scored, loss, 0.0).flatten(1).sum(1, dtype=torch.float64)
        self.count += scored.flatten(1).sum(1)
        guess = logits.nan_to_num(nan=-math.inf).argmax(-1)
        right = scored & (guess == safe) & torch.isfinite(loss)
        offset = torch.arange(self.replicas, device=targets.device)[:, None, None] * self.vocab
        for table, mask, label in (
            (self.correct, right, safe),
            (self.shown, scored, safe),
            (self.predicted, scored, guess),
        ):
            flat = (label + offset)[mask]
            size = self.replicas * self.vocab
            table += torch.bincount(flat, minlength=size).view(self.replicas, self.vocab)

    def results(self) -> list[dict[str, float]]:
        """Per replica: loss (nats), perplexity, accuracy (micro) and accuracy_macro, in [0, 1].

        Macro accuracy is the mean of the per-class recall over all classes that were a target or
        were predicted, as MAD's torchmetrics score does; a class only ever predicted counts as 0.
        """
        loss = self.loss / self.count
        micro = self.correct.sum(1) / self.count
        seen = (self.shown + self.predicted) > 0
        recall = self.correct / self.shown.clamp_min(1)
        macro = (recall * seen).sum(1) / seen.sum(1)
        rows = zip(loss.tolist(), micro.tolist(), macro.tolist(), strict=True)
        return [
            {
                "loss": one,
                "perplexity": math.exp(one) if one < 700 else math.inf,
                "accuracy": share,
                "accuracy_macro": balanced,
            }
            for one, share, balanced in rows
        ]
