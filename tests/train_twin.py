"""The page's engine beside the library: the same weights and batches through both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from coefdyn.lab.training.adamw import StackedAdamW, clip_by_norm
from coefdyn.lab.training.population import Population
from coefdyn.lab.training.schedule import learning_rates
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
    """The library's side of a case: a population of one, its batches, and the lab's AdamW.

    Weights are those that a run starts from, and some noise: at the start many a gradient is zero.
    """

    def __init__(self, case: Case, precision: str, steps: int) -> None:
        self.case, self.precision = case, precision
        self.population = Population(case.build, [case.seed], torch.device("cpu"), precision)
        generator = torch.Generator().manual_seed(case.seed)
        flat = self.population.flat
        flat += 0.1 * torch.randn(flat.shape, generator=generator)
        self.weights = self.by_name(flat[0])
        self.batches = [self._batch(generator) for _ in range(steps)]

    def _batch(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        sizes, shape = self.case.sizes, (BATCH, LENGTH)
        tokens = torch.randint(0, sizes["vocabulary"], shape, generator=generator)
        scored = torch.rand(shape, generator=generator) < 0.7
        targets = torch.where(scored, (tokens + tokens.roll(1, 1)) % sizes["classes"], IGNORE)
        return tokens, targets

    def by_name(self, row: torch.Tensor) -> dict[str, list[float]]:
        """A row of the population as the page's parameters."""
        pieces = row.split(self.population.sizes)
        return dict(zip(self.population.names, (one.tolist() for one in pieces), strict=True))

    def gradients(self) -> tuple[float, dict[str, list[float]]]:
        """Loss of the first batch, and its gradient by parameter."""
        loss, gradient = self.population.loss_and_gradients(*(x[None] for x in self.batches[0]))
        return loss.item(), self.by_name(gradient[0])

    @torch.no_grad()
    def coefficients(self, normalized: bool) -> torch.Tensor:
        """(layers, heads, L, L) of the first sequence at the present weights."""
        model = self.population.model(0)
        assert isinstance(model, SequenceModel)
        found = model.dynamics(self.batches[0][0][:1])
        return torch.stack([one.coefficients(normalized, "parallel")[0] for one in found])

    def train(self) -> tuple[list[float], list[torch.Tensor]]:
        """The losses of training on all batches, one step each, and the weights before each."""
        rates = learning_rates(
            [TRAIN["learning_rate"]],
            steps=TRAIN["steps"],
            warmup=TRAIN["warmup"],
            floor=TRAIN["floor"],
        )
        optimizer = StackedAdamW(
            self.population.flat,
            self.population.decayed,
            learning_rates=rates,
            weight_decay=[TRAIN["weight_decay"]],
            betas=TRAIN["betas"],
            epsilon=TRAIN["epsilon"],
        )
        losses, weights = [], []
        for t, batch in enumerate(self.batches):
            weights.append(self.population.flat[0].clone())
            loss, gradient = self.population.loss_and_gradients(*(x[None] for x in batch))
            gradient = clip_by_norm(gradient, gradient.norm(dim=1), TRAIN["clip"])
            optimizer.step(gradient, torch.ones(1, dtype=torch.bool), optimizer.scalars(t))
            losses.append(loss.item())
        return losses, weights

    def payload(self) -> dict[str, Any]:
        """What the page needs to run the same."""
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
