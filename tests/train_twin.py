"""The page's engine beside the library: the same weights and batches through both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from coefdyn.lab.training.loop import ModelLoss
from coefdyn.lab.training.schedule import learning_rates
from coefdyn.lab.training.seeds import derive_seed
from coefdyn.models import ModelConfig, SequenceModel

__all__ = ["RUN", "TRAIN", "Case", "Twin"]

#: a model and batches small enough for hundreds of designs; odd lengths leave no block full
SIZES = {"width": 16, "heads": 2, "layers": 2, "mlp": 20, "vocabulary": 9, "classes": 7}
LENGTH, BATCH, IGNORE = 11, 5, -100
#: an optimiser with every part of it at work
TRAIN: dict[str, Any] = {
    "learning_rate": 1e-3,
    "steps": 50,
    "warmup": 5,
    "floor": 1e-6,
    "weight_decay": 0.05,
    "betas": (0.9, 0.98),
    "epsilon": 1e-8,
    "clip": 1.0,
}

#: runs a case in the page: gradients of the first batch, and the losses of training on all of them
RUN = """({ options, weights, batches, train }) => {
  const model = createModel(options);
  const names = model.parameters.map(({ name }) => name);
  for (const { name, data } of model.parameters) data.set(weights[name]);
  const optimizer = adamw(model.parameters, train);
  const losses = [];
  const gradients = {};
  let coefficients = null;
  batches.forEach(({ tokens, targets, batch }, t) => {
    losses.push(model.loss({ tokens, targets }, batch));
    model.backward();
    if (t === 0) {
      for (const { name, grad } of model.parameters) gradients[name] = [...grad];
      const { layers, heads } = model.options;
      const matrices = (normalized) => Array.from({ length: layers * heads }, (_, at) =>
        [...model.coefficients(Math.floor(at / heads), at % heads, normalized)]);
      coefficients = [matrices(true), matrices(false)];
    }
    optimizer.step();
  });
  return { names, losses, gradients, coefficients, trouble: model.lookForTrouble() };
}"""


@dataclass(frozen=True)
class Case:
    """A design, its positions, and the seed of weights and batches."""

    design: dict[str, Any]
    positions: str = "none"
    seed: int = 0
    sizes: dict[str, Any] = field(default_factory=lambda: dict(SIZES))

    @property
    def config(self) -> ModelConfig:
        options = {**self.design, "n_heads": self.sizes["heads"]}
        return ModelConfig(
            width=self.sizes["width"],
            layers=self.sizes["layers"],
            mlp=self.sizes["mlp"],
            options=options,
            position=self.positions,
        )

    def build(self) -> SequenceModel:
        return SequenceModel(
            self.config,
            vocab=self.sizes["vocabulary"],
            classes=self.sizes["classes"],
            length=LENGTH,
        )

    def page_options(self, dtype: str) -> dict[str, Any]:
        named = {"length": LENGTH, "positions": self.positions, "dtype": dtype, "seed": self.seed}
        return {**self.sizes, **named, "design": self.design}


class Twin:
    """The library's side of a case: its model, its batches, and torch's AdamW.

    Weights are those that a run starts from, and some noise: at the start many a gradient is zero.
    """

    def __init__(self, case: Case, precision: str, steps: int) -> None:
        self.case, self.precision = case, precision
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(case.seed, "weights"))
            model = case.build()
        self.model = model.to(torch.float64 if precision == "float64" else torch.float32)
        self.loss = ModelLoss(self.model, "parallel", precision)
        generator = torch.Generator().manual_seed(case.seed)
        flat = torch.nn.utils.parameters_to_vector(self.model.parameters()).detach()
        flat += 0.1 * torch.randn(1, len(flat), generator=generator)[0]
        torch.nn.utils.vector_to_parameters(flat, self.model.parameters())
        self.weights = self.by_name(flat)
        self.batches = [self._batch(generator) for _ in range(steps)]

    def by_name(self, row: torch.Tensor) -> dict[str, list[float]]:
        """All weights in one row, as the page's parameters."""
        names, sizes = zip(*((name, one.numel()) for name, one in self._named()), strict=True)
        pieces = (piece.tolist() for piece in row.split(sizes))
        return dict(zip(names, pieces, strict=True))

    def _named(self) -> list[tuple[str, torch.Tensor]]:
        return [(name, one.detach()) for name, one in self.model.named_parameters()]

    def _batch(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        sizes, shape = self.case.sizes, (BATCH, LENGTH)
        tokens = torch.randint(0, sizes["vocabulary"], shape, generator=generator)
        scored = torch.rand(shape, generator=generator) < 0.7
        targets = torch.where(scored, (tokens + tokens.roll(1, 1)) % sizes["classes"], IGNORE)
        return tokens, targets

    def gradients(self) -> tuple[float, dict[str, list[float]]]:
        """Loss of the first batch, and its gradient by parameter."""
        self.model.zero_grad()
        loss = self.loss(*self.batches[0])
        loss.backward()
        found = {
            name: (torch.zeros_like(one) if one.grad is None else one.grad).flatten().tolist()
            for name, one in self.model.named_parameters()
        }
        return loss.item(), found

    @torch.no_grad()
    def coefficients(self, normalized: bool) -> torch.Tensor:
        """(layers, heads, L, L) of the first sequence at the present weights."""
        found = self.model.dynamics(self.batches[0][0][:1])
        return torch.stack([one.coefficients(normalized, "parallel")[0] for one in found])

    def train(self) -> tuple[list[float], list[torch.Tensor]]:
        """The losses of training on all batches, one step each, and the weights before each."""
        names = ("steps", "warmup", "floor")
        rates = learning_rates(TRAIN["learning_rate"], **{name: TRAIN[name] for name in names})
        exempt = self.model.no_weight_decay_names()
        groups = [
            {"params": [one], "weight_decay": 0.0 if name in exempt else TRAIN["weight_decay"]}
            for name, one in self.model.named_parameters()
        ]
        optimizer = torch.optim.AdamW(groups, betas=TRAIN["betas"], eps=TRAIN["epsilon"])
        losses, weights = [], []
        for rate, batch in zip(rates, self.batches, strict=False):
            flat = torch.nn.utils.parameters_to_vector(self.model.parameters())
            weights.append(flat.detach().clone())
            optimizer.zero_grad()
            loss = self.loss(*batch)
            loss.backward()
            gradients = [one.grad for one in self.model.parameters()]
            norm = torch.nn.utils.get_total_norm(gradients)
            for gradient in gradients:
                gradient.mul_(min(1.0, TRAIN["clip"] / norm.item()))
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            losses.append(loss.item())
        return losses, weights

    def payload(self) -> dict[str, Any]:
        """Data with which the page repeats the run."""
        batches = [
            {
                "tokens": tokens.flatten().tolist(),
                "targets": targets.flatten().tolist(),
                "batch": BATCH,
            }
            for tokens, targets in self.batches
        ]
        names = {
            "learning_rate": "learningRate",
            "floor": "finalLearningRate",
            "weight_decay": "weightDecay",
        }
        train = {names.get(name, name): value for name, value in TRAIN.items()}
        return {
            "options": self.case.page_options(self.precision),
            "weights": self.weights,
            "batches": batches,
            "train": {**train, "betas": list(TRAIN["betas"])},
        }
