"""Accuracies over scored positions, as the papers define them: the tally of training is checked."""

from __future__ import annotations

import torch
from torch import Tensor

from coefdyn.lab.tasks.base import IGNORE
from coefdyn.shapes import Float, Int


def micro_accuracy(
    predictions: Int[Tensor, "*shape"], targets: Int[Tensor, "*shape"]
) -> Float[Tensor, ""]:
    """Correct positions divided by scored positions.

    predictions: any shape, int64 class ids; targets: the same shape, -100 where not scored.
    A scalar in [0, 1]; NaN when nothing is scored.
    """
    _check(predictions, targets)
    scored = targets != IGNORE
    correct = (predictions == targets) & scored
    return correct.sum().float() / scored.sum().float()


def macro_accuracy(
    predictions: Int[Tensor, "*shape"], targets: Int[Tensor, "*shape"], num_classes: int
) -> Float[Tensor, ""]:
    """Mean recall over the classes that occur among scored targets or predictions.

    acc = mean_c tp_c / (tp_c + fn_c) over {c : tp_c + fp_c + fn_c > 0}; a class that is only
    predicted counts as 0. This is torchmetrics' ``MulticlassAccuracy(num_classes)``, MAD's metric.
    predictions: int64 in [0, num_classes), any shape; targets: the same shape, -100 where not
    scored. A scalar in [0, 1]; NaN when nothing is scored.
    """
    _check(predictions, targets)
    predictions, targets = predictions.flatten(), targets.flatten()
    scored = targets != IGNORE
    # Positions that are not scored fall into an extra class, which is cut off.
    target_class = torch.where(scored, targets, num_classes)
    predicted_class = torch.where(scored, predictions, num_classes)
    hit = (predictions == targets).float()
    empty = torch.zeros(num_classes + 1, device=targets.device)
    one = torch.ones_like(hit)
    true_positive = empty.scatter_add(0, target_class, hit)[:num_classes]
    support = empty.scatter_add(0, target_class, one)[:num_classes]
    predicted = empty.scatter_add(0, predicted_class, one)[:num_classes]
    present = (support + predicted) > 0
    recall = true_positive / support.clamp(min=1.0)
    return torch.where(present, recall, 0.0).sum() / present.sum()


def mean_batch_macro_accuracy(
    predictions: Int[Tensor, " N *shape"],
    targets: Int[Tensor, " N *shape"],
    num_classes: int,
    batch_size: int = 128,
) -> Float[Tensor, ""]:
    """Mean over consecutive batches of ``macro_accuracy``: the value MAD logs for a test set.

    predictions, targets: (N, ...); the last batch may be smaller.
    """
    parts = zip(predictions.split(batch_size), targets.split(batch_size), strict=True)
    scores = [macro_accuracy(part, target, num_classes) for part, target in parts]
    return torch.stack(scores).mean()


def _check(predictions: Tensor, targets: Tensor) -> None:
    if predictions.is_floating_point():
        raise ValueError(
            f"predictions must be class ids; got {predictions.dtype} of shape "
            f"{tuple(predictions.shape)}. Pass logits.argmax(-1)."
        )
    if predictions.shape != targets.shape:
        raise ValueError(
            f"predictions have shape {tuple(predictions.shape)} but targets "
            f"{tuple(targets.shape)}; they must be equal."
        )
