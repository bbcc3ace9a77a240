"""Replicas of one model as the rows of one matrix, so that all of them train as one program."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from coefdyn.lab.training.metrics import masked_loss
from coefdyn.lab.training.seeds import derive_seed
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["Gradients", "Population", "gradients_of_one"]

#: (inputs, targets) -> (losses, gradients), one row per replica
Gradients = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Population:
    """R models of one architecture with different initial weights.

    Row r of ``flat`` holds every parameter of replica r. One row is run as it is; several rows
    are run through ``torch.func.vmap``.

    Args:
        build: makes one model, drawing its weights from torch's default generator.
        seeds: one seed per replica; equal seeds give equal weights.
        device: where the rows live. Weights are always drawn on the CPU.
        precision: one of ``coefdyn.lab.training.config.PRECISIONS``.
        method: how the coefficients are applied; several rows need one that vmap can take.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        seeds: Sequence[int],
        device: torch.device,
        precision: str = "float32",
        method: str = "parallel",
    ) -> None:
        self.device, self.method = device, method
        self.autocast = torch.bfloat16 if precision == "bfloat16" else None
        dtype = torch.float64 if precision == "float64" else torch.float32
        drawn = {seed: _draw(build, seed) for seed in dict.fromkeys(seeds)}
        self.module = next(iter(drawn.values())).to(device, dtype)
        named = dict(self.module.named_parameters())
        self.names = list(named)
        self.shapes = [parameter.shape for parameter in named.values()]
        self.sizes = [parameter.numel() for parameter in named.values()]
        rows = {seed: _flatten(module) for seed, module in drawn.items()}
        self.flat = torch.stack([rows[seed] for seed in seeds]).to(device, dtype)
        exempt: set[str] = getattr(self.module, "no_weight_decay_names", set)()
        pieces = zip(self.names, self.sizes, strict=True)
        self.decayed = torch.cat(
            [torch.full((size,), float(name not in exempt)) for name, size in pieces]
        )
        self._gradients = vmap(grad_and_value(self.loss_at))
        self._logits = vmap(self._forward)

    @property
    def replicas(self) -> int:
        """R."""
        return self.flat.shape[0]

    @property
    def size(self) -> int:
        """Parameters of one replica."""
        return sum(self.sizes)

    def _forward(self, row: Tensor, inputs: Tensor) -> Tensor:
        pieces = zip(self.names, row.split(self.sizes), self.shapes, strict=True)
        named = {name: piece.view(shape) for name, piece, shape in pieces}
        with torch.autocast(
            self.device.type, dtype=self.autocast, enabled=self.autocast is not None
        ):
            logits = functional_call(self.module, named, (inputs,), {"method": self.method})
        return logits if self.autocast is None else logits.float()

    def loss_at(self, row: Tensor, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of one replica whose parameters are ``row``."""
        return masked_loss(self._forward(row, inputs), targets)

    def loss_and_gradients(
        self, inputs: Int[Tensor, "R batch L"], targets: Int[Tensor, "R batch L"]
    ) -> tuple[Float[Tensor, " R"], Float[Tensor, "R size"]]:
        """Each replica's loss on its own batch, and the gradient of its row."""
        if self.replicas > 1:
            return self.stacked_loss_and_gradients(inputs, targets)
        return gradients_of_one(self.loss_at, self.flat, inputs, targets)

    def stacked_loss_and_gradients(
        self, inputs: Int[Tensor, "R batch L"], targets: Int[Tensor, "R batch L"]
    ) -> tuple[Float[Tensor, " R"], Float[Tensor, "R size"]]:
        """The same through vmap also for one replica."""
        return self.gradients_at(self.flat, inputs, targets)

    def gradients_at(
        self,
        flat: Float[Tensor, "R size"],
        inputs: Int[Tensor, "R batch L"],
        targets: Int[Tensor, "R batch L"],
    ) -> tuple[Float[Tensor, " R"], Float[Tensor, "R size"]]:
        """Losses and gradients at any rows: the form that torch.compile takes."""
        gradients, losses = self._gradients(flat, inputs, targets)
        return losses, gradients

    def without_rows(self) -> Population:
        """A population of the same architecture whose rows are always given: see above."""
        template = copy.copy(self)
        template.flat = self.flat[:0]
        template._gradients = vmap(grad_and_value(template.loss_at))
        return template

    @torch.no_grad()
    def logits(self, inputs: Int[Tensor, "R batch L"]) -> Float[Tensor, "R batch L vocab"]:
        """Every replica's predictions for its own inputs."""
        if self.replicas > 1:
            return self._logits(self.flat, inputs)
        return self._forward(self.flat[0], inputs[0])[None]

    def model(self, replica: int) -> nn.Module:
        """A separate module with the present weights of one replica."""
        model = copy.deepcopy(self.module)
        with torch.no_grad():
            pieces = self.flat[replica].split(self.sizes)
            for parameter, piece in zip(model.parameters(), pieces, strict=True):
                parameter.copy_(piece.view_as(parameter))
        return model


def gradients_of_one(
    loss_at: Callable[[Tensor, Tensor, Tensor], Tensor],
    flat: Float[Tensor, "1 size"],
    inputs: Int[Tensor, "1 batch L"],
    targets: Int[Tensor, "1 batch L"],
) -> tuple[Float[Tensor, " 1"], Float[Tensor, "1 size"]]:
    """Loss and gradient of the only row, without vmap."""
    row = flat[0].detach().requires_grad_()
    loss = loss_at(row, inputs[0], targets[0])
    (gradient,) = torch.autograd.grad(loss, row)
    return loss.detach()[None], gradient[None]


def _draw(build: Callable[[], nn.Module], seed: int) -> nn.Module:
    """One model with weights from ``seed``; the caller's random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "weights"))
        return build()


def _flatten(module: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().cpu().flatten() for parameter in module.parameters()])
