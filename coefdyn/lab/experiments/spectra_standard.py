"""The standard profiles of spectra and spectra-mods: measures of a histogram, registered claims.

Every claim about where eigenvalues lie has the untrained network as its control: a share that was
there before training says nothing about what the task needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from coefdyn.analysis.spectra import EDGES
from coefdyn.lab.experiments.claim import Ahead, Claim, Every, Reaches, Some, Test, kebab
from coefdyn.lab.experiments.measure import Measure
from coefdyn.lab.experiments.result import Outcome

__all__ = [
    "ABOVE_ONE",
    "CLOSE",
    "FEW",
    "LEARNS",
    "NEAR_ONE",
    "NEAR_ZERO",
    "mods_claims",
    "moved",
    "moved_by_seed",
    "seed_masses",
    "share",
    "spectra_claims",
]

#: ranges of the modulus, fixed before anything was run
NEAR_ZERO, NEAR_ONE, ABOVE_ONE = (0.0, 0.1), (0.95, 1.05), (1.05, float("inf"))
#: a share of the eigenvalues that counts as a peak, and a loss in accuracy that is still none
FEW, CLOSE = 0.05, 0.05
#: a share of the eigenvalues that training has to move before a histogram says anything
MOVED = 0.05
#: a difference in accuracy that counts as learning the task or not
LEARNS = 0.2
WORDS = {NEAR_ZERO: "below 0.1", NEAR_ONE: "about 1", ABOVE_ONE: "above 1.05"}
Span = tuple[float, float]
Facets = Mapping[str, str]


def seed_masses(outcome: Outcome, span: Span, when: str = "trained") -> list[list[float]]:
    """Share of the moduli in [low, high): one list over the layers for every seed.

    Args:
        outcome: of a variant with the diagnostic "moduli".
        span: two edges of the histogram.
        when: "initial" or "trained".
    """
    inside = [span[0] <= a and b <= span[1] for a, b in pairwise(EDGES)]
    return [
        [sum(s for s, keep in zip(layer["share"], inside, strict=True) if keep) for layer in layers]
        for layers in (one[when] for one in outcome.diagnostic("moduli"))
    ]


def moved_by_seed(outcome: Outcome) -> list[float]:
    """Total variation between the histograms before and after training, mean over the layers."""
    return [
        sum(
            0.5 * sum(abs(a - b) for a, b in zip(old["share"], new["share"], strict=True))
            for old, new in zip(one["initial"], one["trained"], strict=True)
        )
        / len(one["trained"])
        for one in outcome.diagnostic("moduli")
    ]


moved = Measure("share of the histogram that training moved", moved_by_seed)


def share(span: Span, layer: str = "mean", when: str = "trained") -> Measure:
    """The share of moduli in a range as a measure: in the first layer, the fullest, or the mean."""
    of = {
        "first": lambda layers: layers[0],
        "last": lambda layers: layers[-1],
        "fullest": max,
        "mean": lambda layers: sum(layers) / len(layers),
    }[layer]
    where = "mean over layers" if layer == "mean" else f"{layer} layer"
    return Measure(
        f"share {WORDS[span]} ({where}, {when})",
        lambda outcome: [of(layers) for layers in seed_masses(outcome, span, when)],
    )


def _gained(span: Span) -> Measure:
    """By how much training raised the share of a range in the fullest layer."""

    def values(outcome: Outcome) -> list[float]:
        pairs = zip(seed_masses(outcome, span), seed_masses(outcome, span, "initial"), strict=True)
        return [max(new) - max(old) for new, old in pairs]

    return Measure(f"gain of the share {WORDS[span]} (fullest layer)", values)


def _at(task: str, model: str) -> Facets:
    return {"task": task, "model": model}


def _appears(where: Facets, span: Span) -> Test:
    """A peak is there after training, and training made it."""
    return Every(
        (
            Reaches(a=where, bound=FEW, measure=share(span, "fullest")),
            Reaches(a=where, bound=0.0, measure=_gained(span)),
        )
    )


def spectra_claims() -> list[Claim]:
    """Claims from the paper's Figure 1, on the tasks that two cores can train."""
    memory, selective, invariant = ("ListOps", "pixels"), ("MQAR", "language"), ("S4D", "LRU")
    claims = [
        Claim(
            id=f"{kebab(task)}/memory-{kebab(model)}",
            sentence=f"{task}, {model}: eigenvalues are about 1 in the first layer, since the "
            "task needs a long memory",
            test=Reaches(a=_at(task, model), bound=0.5, measure=share(NEAR_ONE, "first")),
            control=Reaches(
                a=_at(task, model), bound=0.5, measure=share(NEAR_ONE, "first", "initial"),
                less=True,
            ),
            why="the untrained network does not have them there already",
        )
        for task in memory
        for model in ("S4D", "LRU", "softmax", "linear", "normalized")
    ]  # fmt: skip
    claims += [
        Claim(
            id=f"{kebab(task)}/selects-{kebab(model)}",
            sentence=f"{task}, {model}: eigenvalues below 0.1 appear, since the task selects",
            test=_appears(_at(task, model), NEAR_ZERO),
            why="against the untrained network, inside the test",
        )
        for task in selective
        for model in ("Mamba-2", "softmax")
    ]
    claims += [
        Claim(
            id=f"{kebab(task)}/invariant-behind",
            sentence=f"{task}: the time-invariant models, which cannot select, are less accurate "
            "than Mamba-2 and softmax attention",
            test=Every(
                tuple(
                    Ahead(a=_at(task, better), b=_at(task, model), by=CLOSE)
                    for better in ("Mamba-2", "softmax")
                    for model in invariant
                )
            ),
            why="no further control: models on one task",
        )
        for task in selective
    ]
    claims += [
        Claim(
            id=f"{kebab(task)}/softmax-both-ends",
            sentence=f"{task}: softmax attention has eigenvalues at both ends",
            test=Every(
                (_appears(_at(task, "softmax"), NEAR_ZERO),
                 _appears(_at(task, "softmax"), ABOVE_ONE))
            ),
            why="against the untrained network, inside the test",
        )
        for task in (*memory, *selective)
    ]  # fmt: skip
    claims += [
        Claim(
            id=f"{kebab(task)}/linear-keeps-{kebab(model)}",
            sentence=f"{task}: linear attention keeps more of its initial histogram than "
            f"{model} does",
            test=Ahead(a=_at(task, model), b=_at(task, "linear"), measure=moved),
            control=Reaches(a=_at(task, model), bound=MOVED, measure=moved),
            why="training moved something at all",
        )
        for task in (*memory, *selective)
        for model in ("Mamba-2", "softmax")
    ]
    return claims


def mods_claims() -> list[Claim]:
    """Claims from the paper's Section 5, one change at a time."""

    def at(*names: str) -> Facets:
        return dict(zip(("group", "task", "model", "change"), names, strict=True))

    plain = {task: at("gate", task, "softmax", "none") for task in ("language", "ListOps")}
    gated = {task: at("gate", task, "softmax", "gate") for task in ("language", "ListOps")}
    convolved = at("convolution", "language", "softmax", "convolution")
    eta = {name: at("eta", "language", "normalized", name) for name in ("exp", "sigmoid")}
    fixed = at("Delta", "ListOps", "Mamba-2", "fixed")
    one_change = "the pair differs in this alone"
    return [
        Claim(
            id="language/gate-moves",
            sentence="language, softmax: a gate moves eigenvalues from below 0.1 to about 1",
            test=Every(
                (
                    Ahead(a=plain["language"], b=gated["language"], measure=share(NEAR_ZERO)),
                    Ahead(a=gated["language"], b=plain["language"], measure=share(NEAR_ONE)),
                )
            ),
            why=one_change,
        ),
        Claim(
            id="listops/gate-brings-zeros",
            sentence="ListOps, softmax: with a gate, eigenvalues below 0.1 appear",
            test=Ahead(a=gated["ListOps"], b=plain["ListOps"], measure=share(NEAR_ZERO)),
            why=one_change,
        ),
        Claim(
            id="language/convolution-moves",
            sentence="language, softmax: a convolution moves eigenvalues from about 1 to below 0.1",
            test=Every(
                (
                    Ahead(a=plain["language"], b=convolved, measure=share(NEAR_ONE)),
                    Ahead(a=convolved, b=plain["language"], measure=share(NEAR_ZERO)),
                )
            ),
            why=one_change,
        ),
        *(
            Claim(
                id=f"mqar/one-layer-{kebab(model)}",
                sentence=f"MQAR, one layer: a convolution decides whether {model} learns",
                test=Ahead(
                    a=at("layers", "MQAR", model, "1 layer, convolution"),
                    b=at("layers", "MQAR", model, "1 layer"),
                    by=LEARNS,
                ),
                why=one_change,
            )
            for model in ("softmax", "Mamba-2")
        ),
        Claim(
            id="language/exp-or-sigmoid",
            sentence="language, normalized attention: exp has more eigenvalues below 0.1 than "
            "sigmoid, which has more about 1",
            test=Every(
                (
                    Ahead(a=eta["exp"], b=eta["sigmoid"], measure=share(NEAR_ZERO)),
                    Ahead(a=eta["sigmoid"], b=eta["exp"], measure=share(NEAR_ONE)),
                )
            ),
            why=one_change,
        ),
        Claim(
            id="listops/fixed-delta",
            sentence="ListOps, Mamba-2 with a fixed Delta: training brings eigenvalues about 1",
            test=Some(
                (
                    Reaches(a=fixed, bound=0.95, measure=share(NEAR_ONE)),
                    Reaches(a=fixed, bound=FEW, measure=_gained(NEAR_ONE)),
                )
            ),
            control=Reaches(
                a=fixed, bound=0.95, measure=share(NEAR_ONE, when="initial"), less=True
            ),
            why="they are not there at the start, where the draw of Delta and a decides",
        ),
    ]
