"""Training of the headline claims: groups of variants, each with its own plan.

A group is an experiment with a file of its own, ``data/results/headline/GROUP/standard.jsonl``, so
that groups can be finished one after another and the last ones be cut. Its variants are those of
the exploratory experiments with fresh seeds and bracketed rates (``experiments.rates``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from coefdyn.lab.experiments import dsf_mqar, get_experiment, own_designs
from coefdyn.lab.experiments.plan import (
    STANDARD,
    STANDARD_RATES,
    Plan,
    Variant,
    quick_model,
    standard_training,
)
from coefdyn.lab.tasks import ByteProseConfig, OverwriteConfig, TokenProseConfig
from coefdyn.lab.training import TrainConfig
from coefdyn.models import ModelConfig

__all__ = ["BEGUN", "GROUPS", "PILOT", "SEEDS", "judged_plan"]

#: twelve seeds that no kept run has, and two that choose a learning rate and are never judged
SEEDS = tuple(range(200, 212))
PILOT = (190, 191)
#: the first seed of those that judge the parts of claims that ended undecided
FRESH = 300
#: windows of the language groups: with 8 or 16 a step, one pass over the training text
TOKEN_WINDOWS, BYTE_WINDOWS = 16_000, 48_000
#: erasing against adding, on 4 heads of 16 x 16 numbers each; nothing differs but A_t
ERASING = {
    "adds": {"evolution": "identity"},
    "erases": {"evolution": "householder", "beta": "learned"},
}


def judged_plan(
    variants: Iterable[Variant],
    train: TrainConfig,
    *,
    rates: tuple[float, ...] = STANDARD_RATES,
    weight_decay: float = 0.0,
    by_loss: bool = False,
) -> Plan:
    """Two pilot seeds, bracketed rates, twelve judged seeds.

    Args:
        variants: ``facets`` are "task" and "design".
        train: settings of those that have none of their own.
        rates: of the grid that the search starts with, the middle one first.
        weight_decay: of every run.
        by_loss: for text, whose accuracy says less than its loss.
    """
    return Plan(
        variants=tuple(variants),
        train=train,
        learning_rates=rates,
        weight_decays=(weight_decay,),
        seeds=SEEDS,
        pilot=PILOT,
        until_solved=not by_loss,
        bracketed=True,
        by_loss=by_loss,
    )


def _explored(name: str, task: str, design: str, /, **facets: str) -> Variant:
    """A variant of an exploratory experiment's standard profile, under the group's facets."""
    (one,) = get_experiment(name).plan(STANDARD).those_with([facets])
    return _as(one, task, design)


def _as(one: Variant, task: str, design: str, **changes: Any) -> Variant:
    return replace(one, facets={"task": task, "design": design}, **changes)


def _parity() -> Plan:
    variants = [
        replace(
            _explored("principle-4", "parity", design, task="parity", design=design),
            diagnostics=("lengths",),
        )
        for design in ("identity", "scalar", "Householder, z", "scaled Householder")
    ]
    return judged_plan(variants, standard_training(3000))


def _zeros() -> Plan:
    readouts = ("exp", "softplus", "relu", "identity", "identity, eta = 1")
    variants = [
        _explored("principle-2", "memorization", one, task="memorization", readout=one)
        for one in readouts
    ]
    return judged_plan(variants, standard_training(3000))


def _overwrite() -> Plan:
    variants = []
    for writes in (1, 3, 5):
        task = OverwriteConfig.quick().with_changes(
            {"writes": writes, "seq_len": 4 * (2 * writes + 1)}
        )
        for design, evolution in ERASING.items():
            facets = {"task": f"told {writes}", "design": design}
            model = _erasing(evolution, heads=4)
            variants.append(Variant(facets=facets, task=task, model=model))
    return judged_plan(variants, standard_training(2000))


def _recall() -> Plan:
    task = dsf_mqar.standard_task()
    variants = []
    for n in (2, 4, 8):
        for design, evolution in ERASING.items():
            facets = {"task": "8 pairs in 32", "design": f"{design}, n = {n}"}
            model = _erasing(evolution, heads=1, key_dim=n)
            variants.append(Variant(facets=facets, task=task, model=model))
    return judged_plan(variants, standard_training(3000))


def _erasing(evolution: Mapping[str, str], heads: int, **sizes: int) -> ModelConfig:
    plain = {"readout": "identity", "scaling": "inverse_sqrt", "normalizer": "one"}
    options = {"n_heads": heads, **sizes, **plain, **evolution}
    return quick_model(options, block="gated")


def _positions() -> Plan:
    variants = [
        _explored(
            "principle-3",
            f"{layers} layer{'s' * (layers != '1')}",
            source,
            readout="exp",
            layers=layers,
            positions=source,
        )
        for layers in ("1", "2")
        for source in ("nothing", "decay", "convolution")
    ]
    train = standard_training(6000, evaluate_every=150)
    return judged_plan(variants, train)


def _scale() -> Plan:
    variants = [
        _explored("principle-5", f"{n // 4} channels", f"b = {b}", n=str(n), b=b)
        for n in (64, 256)
        for b in ("1/sqrt(n)", "1")
    ]
    return judged_plan(variants, standard_training(2000))


def _language() -> Plan:
    task = TokenProseConfig.quick().with_changes({"train_examples": TOKEN_WINDOWS})
    cells = [
        *(("mamba2", b, "1e-5") for b in ("one", "inverse_sqrt", "delta")),
        *(("softmax", b, "1e-5") for b in ("one", "inverse_sqrt")),
        *(("mamba2", b, "0") for b in ("one", "delta")),
    ]
    variants = [
        replace(
            _explored("principle-5-lm", f"eps {eps}", f"{model}, {b}", model=model, b=b, eps=eps),
            task=task,
        )
        for model, b, eps in cells
    ]
    train = _one_pass(TOKEN_WINDOWS, 8, betas=(0.9, 0.95))
    return judged_plan(variants, train, weight_decay=0.1, by_loss=True)


def _text() -> Plan:
    task = ByteProseConfig.quick().with_changes({"seq_len": 64, "train_examples": BYTE_WINDOWS})
    variants = [
        replace(
            _explored("dsf-table-1", "bytes", model, task="language", model=model),
            task=task,
            diagnostics=(),
            train=None,
        )
        for model in ("softmax", "linear", "normalized")
    ]
    train = _one_pass(BYTE_WINDOWS, 16)
    return judged_plan(variants, train, by_loss=True)


def _one_pass(windows: int, batch: int, **changes: object) -> TrainConfig:
    steps = windows // batch
    fixed = {"batch": batch, "stop_accuracy": None, "evaluate_every": steps // 20}
    return standard_training(steps, **fixed, **changes)


def _growth() -> Plan:
    """Steps enough to see a NaN; what is learned in them says nothing."""
    cells = (("one", "1.05"), ("geometric", "1.05"), ("row_sum", "1.05"), ("one", "1"),
             ("one", "0.95"))  # fmt: skip
    variants = [
        replace(
            _explored("principle-6", f"A = {a} I", eta, readout="exp", normalizer=eta, A=a),
            train=None,
        )
        for eta, a in cells
    ]
    train = standard_training(2000, batch=8, clip=None)
    return judged_plan(variants, train, rates=(1e-3, 3e-4, 3e-3))


def _heads() -> Plan:
    row = "Gated DeltaNet"
    one = _explored("scoreboard", "overwrite", row, task="overwrite", row=row)
    one = replace(one, diagnostics=("heads",), keep=True)
    return judged_plan([one], standard_training(2000))


def _spectra() -> Plan:
    cells = (("MQAR", "S4D"), ("MQAR", "Mamba-2"), ("pixels", "S4D"), ("pixels", "LRU"),
             ("pixels", "Mamba-2"))  # fmt: skip
    variants = [_explored("spectra", task, one, task=task, model=one) for task, one in cells]
    without = {"group": "convolution", "task": "MQAR", "model": "Mamba-2", "change": "none"}
    bare = _as(
        get_experiment("spectra-mods").plan(STANDARD).those_with([without])[0],
        "MQAR",
        "Mamba-2 without convolution",
    )
    return judged_plan([*variants, bare], standard_training(3000))


def _designs() -> Plan:
    """The designs of the chapter on a mixer of one's own, beside the row that they change."""
    task = OverwriteConfig.quick().with_changes(
        {"vocab_size": 16, "pairs": 2, "writes": 3, "seq_len": 14}
    )
    variants = [
        Variant(
            facets={"task": "2 keys told 3 times", "design": design},
            task=task,
            model=quick_model(
                {"n_heads": 4, "short_convolution": 4}, mixer=design, width=32, mlp=64
            ),
        )
        for design in ("GatedDeltaNet", *own_designs.__all__)
    ]
    train = standard_training(800, evaluate_every=40)
    return judged_plan(variants, train)


def _again(group: str, seeds: Mapping[tuple[str, str], int]) -> Plan:
    """Variants of a group at the rates of its pilots, on fresh seeds.

    Args:
        group: whose pilots chose.
        seeds: (task, design) -> number of judged seeds.
    """
    plan, fewest = GROUPS[group](), min(seeds.values())
    cells = [{"task": task, "design": design} for task, design in seeds]
    variants = tuple(plan.those_with(cells))
    last = {one.name: FRESH + seeds[one.facets["task"], one.facets["design"]] for one in variants}
    again = {name: tuple(range(FRESH + fewest, end)) for name, end in last.items()}
    return replace(
        plan,
        variants=variants,
        seeds=tuple(range(FRESH, FRESH + fewest)),
        again={name: those for name, those in again.items() if those},
    )


def _parity_fresh() -> Plan:
    seeds = {"identity": 12, "scalar": 12, "scaled Householder": 12, "Householder, z": 48}
    return _again("parity", {("parity", design): n for design, n in seeds.items()})


def _scale_fresh() -> Plan:
    designs = ("b = 1/sqrt(n)", "b = 1")
    numbers = {"16 channels": 60, "64 channels": 12}
    return _again("scale", {(task, one): n for task, n in numbers.items() for one in designs})


def _convolution_fresh() -> Plan:
    seeds = {"S4D": 12, "Mamba-2": 60, "Mamba-2 without convolution": 60}
    return _again("spectra", {("MQAR", design): n for design, n in seeds.items()})


def _language_fresh() -> Plan:
    seeds = {
        "mamba2, delta": 12,
        "softmax, one": 36,
        "softmax, inverse_sqrt": 36,
        "mamba2, one": 96,
        "mamba2, inverse_sqrt": 96,
    }
    return _again("language", {("eps 1e-5", design): n for design, n in seeds.items()})


#: group on fresh seeds -> the group whose pilots it takes over
BEGUN = {
    "convolution-fresh": "spectra",
    "parity-fresh": "parity",
    "scale-fresh": "scale",
    "language-fresh": "language",
}
#: the groups in order of value for their hours; where time is short the last are cut
GROUPS: dict[str, Callable[[], Plan]] = {
    "parity": _parity,
    "overwrite": _overwrite,
    "heads": _heads,
    "scale": _scale,
    "recall": _recall,
    "positions": _positions,
    "language": _language,
    "text": _text,
    "growth": _growth,
    "spectra": _spectra,
    "zeros": _zeros,
    "designs": _designs,
    "convolution-fresh": _convolution_fresh,
    "parity-fresh": _parity_fresh,
    "scale-fresh": _scale_fresh,
    "language-fresh": _language_fresh,
}
