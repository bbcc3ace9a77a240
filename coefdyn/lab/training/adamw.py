"""AdamW for many replicas at once: one flat row of parameters per replica."""

from __future__ import annotations

import torch

from coefdyn.shapes import Bool, Float, Tensor

__all__ = ["StackedAdamW", "clip_by_norm"]


def clip_by_norm(
    gradients: Float[Tensor, "replicas size"], norms: Float[Tensor, " replicas"], limit: float
) -> Float[Tensor, "replicas size"]:
    """Each replica's gradient scaled down to norm ``limit`` where it is longer."""
    return gradients * (limit / norms.clamp_min(limit))[:, None]


class StackedAdamW:
    r"""Decoupled weight decay (Loshchilov and Hutter), a learning rate and decay per replica.

        m <- b1 m + (1 - b1) g,   v <- b2 v + (1 - b2) g^2
        p <- p (1 - lr wd) - lr (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps)

    Args:
        parameters: ``(replicas, size)``, changed in place by ``step``.
        decayed: 1 where weight decay acts, 0 where not; the same for all rows or one row each.
        learning_rates: ``(replicas, steps)``, from ``learning_rates``.
        weight_decay: one value per replica, in 1 / (unit of learning rate x step).
        betas: decay of the two moments, in [0, 1).
        epsilon: added to the root of the second moment.
    """

    def __init__(
        self,
        parameters: Float[Tensor, "replicas size"],
        decayed: Float[Tensor, "*#replicas size"],
        *,
        learning_rates: Float[Tensor, "replicas steps"],
        weight_decay: list[float],
        betas: tuple[float, float],
        epsilon: float,
    ) -> None:
        self.parameters = parameters
        self.first = torch.zeros_like(parameters)
        self.second = torch.zeros_like(parameters)
        self.betas, self.steps = betas, learning_rates.shape[1]
        like = {"dtype": parameters.dtype, "device": parameters.device}
        t = torch.arange(1, self.steps + 1, dtype=torch.float64)
        root = (1 - betas[1] ** t).sqrt()
        decay = torch.tensor(weight_decay, dtype=torch.float64)[:, None]
        # columns are steps; the bias corrections are folded in, so that a step is a few tensor ops
        self._rate = (learning_rates * root / (1 - betas[0] ** t)).to(**like)
        self._shrink = (learning_rates * decay).to(**like)
        self._epsilon = (epsilon * root).to(**like)
        self._decayed = decayed.to(**like)
        self._any_decay = any(weight_decay)

    def scalars(self, t: int) -> tuple[Tensor, Tensor, Tensor]:
        """Rate, shrinkage and epsilon of step t (0-based): ``(replicas, 1)`` twice and ``()``."""
        return self._rate[:, t : t + 1], self._shrink[:, t : t + 1], self._epsilon[t]

    @torch.no_grad()
    def step(
        self,
        gradients: Float[Tensor, "replicas size"],
        alive: Bool[Tensor, " replicas"],
        scalars: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        """One update; rows whose ``alive`` is False keep their parameters.

        Gradients of dead rows may hold NaN: they are replaced by 0 before they touch anything.
        """
        rate, shrink, epsilon = scalars
        keep = alive[:, None]
        gradients = torch.where(keep, gradients, 0.0)
        self.first.lerp_(gradients, 1 - self.betas[0])
        self.second.mul_(self.betas[1]).addcmul_(gradients, gradients, value=1 - self.betas[1])
        update = self.first / (self.second.sqrt() + epsilon)
        if self._any_decay:
            self.parameters.mul_(1 - torch.where(keep, shrink, 0.0) * self._decayed)
        self.parameters.sub_(update.mul_(torch.where(keep, rate, 0.0)))

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint needs: the tensors that steps change in place."""
        return {"parameters": self.parameters, "first": self.first, "second": self.second}
