"""Figures in the prose of principles and of the second view, each against its kept runs."""

from __future__ import annotations

from statistics import fmean

import torch
from said import chosen, ends, lines, numbers, percent, prose, rate, says, steps

from coefdyn.lab.experiments import get_experiment, intervals
from coefdyn.lab.experiments.baselines import accuracy_by_place, baseline
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.headline.runs import FRESH

COPYING, RECALL = "selective copying", "fuzzy recall"
#: of Principle 4, the one that only adds first
DESIGNS = (
    *("identity", "scalar", "diagonal", "diagonal, GLA", "Householder, k", "Householder, z"),
    *("Householder, k, beta = 2", "scaled Householder"),
)


def near_zero(form: str, name: str = "principle-2", at: float | None = None, **facets: str):
    """Per cent of the coefficients near zero, the mean over seeds."""
    found = chosen(name, at, **facets)
    return 100 * fmean(one["diagnostics"][form]["near_zero_fraction"] for one in found)


def test_shares_of_zeros_and_accuracies_of_readouts():
    page, tasks = "principles/principle_2.md", ("memorization", COPYING, RECALL)
    sentence = "On memorization, copying and recall exp has #, # and # % of its raw coefficients "
    sentence += "near zero, softplus #, # and # %, ReLU #, # and # %,"
    shares = [
        near_zero("raw", readout=one, task=task)
        for one in ("exp", "softplus", "relu")
        for task in tasks
    ]
    says(page, sentence, *shares)
    divided = [near_zero("normalized", readout="exp", task=task) for task in tasks]
    says(page, "Divided by it #, # and # % are near zero", *divided)
    assert all(2 * raw < whole for raw, whole in zip(shares[:3], divided, strict=True))
    by_rate = [near_zero("raw", at=at, readout="exp", task=RECALL) for at in (0.001, 0.003)]
    says(page, "recall has # % at the rate .001 and # % at .003", *by_rate)

    def mean(readout: str, task: str, at: float | None = None) -> float:
        return percent("principle-2", at, readout=readout, task=task)

    relu = [mean("relu", COPYING), mean("relu", RECALL), mean("relu", RECALL, 0.003)]
    sentence = "copies # % of the tokens and recalls # % of the values, ... at .003 recall # %"
    says(page, sentence, *relu)
    sentence = "The identity memorizes # % and copies # % with its row sum; ... and copies # %,"
    free = mean("identity, eta = 1", COPYING)
    says(page, sentence, mean("identity", "memorization"), mean("identity", COPYING), free)
    floored = [mean("identity, floored", task) for task in tasks[:2]]
    says(page, "cannot come near zero, gives # and # %.", *floored)
    free = mean("identity, eta = 1", RECALL)
    rises = [mean("identity", RECALL), free, mean("identity", RECALL, 0.003), free]
    says(page, "rises from # to # % only, at .001 and .003, and at .003 from # to #", *rises)


def test_accuracies_of_feature_maps():
    page, maps = "principles/principle_2_1.md", ("psi_relu", "psi_exp", "psi_softplus", "psi_elu1")
    copied, recalled = (
        [percent("principle-2.1", readout=one, task=task) for one in maps]
        for task in (COPYING, RECALL)
    )
    exp = [percent("principle-2.1", readout="exp", task=task) for task in (COPYING, RECALL)]
    behind = [exp[0] - max(copied), exp[0] - min(copied), exp[1] - max(recalled)]
    sentence = "by # to # points on selective copying and by # to # on fuzzy recall"
    says(page, sentence, *behind, exp[1] - min(recalled))
    free, with_sum = (
        [percent("principle-2", readout=one, task=task) for task in (COPYING, RECALL)]
        for one in ("identity, eta = 1", "identity")
    )
    sentence = "copies # % of the tokens, as the feature maps do with # to # %; on fuzzy recall it "
    sentence += "recalls # % of the values, and they recall between # and # %. With its row sum "
    sentence += "the identity copies # % and recalls # %;"
    values = [free[0], min(copied), max(copied), free[1], min(recalled), max(recalled), *with_sum]
    says(page, sentence, *values)
    largest = [
        rate(chosen("principle-2.1", readout=one, task=task)[0]) == 0.01
        for one in maps
        for task in (COPYING, RECALL)
    ]
    assert "Six of the eight" in prose(page) and sum(largest) == 6
    others = [
        near_zero("raw", "principle-2.1", readout=one, task=task)
        for one in maps[1:]
        for task in (COPYING, RECALL)
    ]
    says(page, "the other maps set between # and # %", min(others), max(others))


def test_counts_of_small_products_and_heads():
    def fullest(readout: str, form: str) -> float:
        found = chosen("principle-2.1", readout=readout, task=COPYING)
        counts = (torch.tensor(one["diagnostics"][form]["zero_counts"]).max() for one in found)
        return fmean(float(one) for one in counts)

    page = "principles/principle_2_2.md"
    softplus = [fullest("psi_softplus", form) for form in ("raw", "normalized")]
    sentence = "the fullest head has # raw products ... on average, and # divided coefficients"
    says(page, sentence, *softplus)
    says(page, "# coefficients are after the division", fullest("psi_exp", "normalized"))
    maps = "ELU + 1 has # raw products that small on average, and ReLU, ..., # of 64"
    says(page, maps, fullest("psi_elu1", "raw"), fullest("psi_relu", "raw"))

    def of(heads: int, n: int) -> list[float]:
        return ends("heads", model="linear attention", H=str(heads), n=str(n))

    sentence = "One head of four channels recalls # % (12 seeds). Four and eight such heads recall "
    sentence += "# and # % (four seeds each)"
    says(page, sentence, *(100 * fmean(of(one, 4 * one)) for one in (1, 4, 8)))
    two = of(2, 8)
    sentence = "Two such heads recall # %, with two of twelve seeds at # and #,"
    says(page, sentence, 100 * fmean(two), *sorted(two)[:2])
    assert [len(of(one, 4 * one)) for one in (1, 2, 4, 8)] == [12, 12, 4, 4]


def test_recall_by_size_of_the_state():
    def of(n: int) -> list[float]:
        return ends("dsf-mqar", model="linear attention", n=str(n), task="8 pairs in 32")

    found = [sum(value > 0.9 for value in of(n)) for n in (4, 8, 16, 32)]
    sentence = "one seed of four passes 0.9 with 4 numbers per key, and all do with 8 and more"
    assert sentence in prose("second_view/dynamical_systems.md") and found == [1, 4, 4, 4]


def test_accuracies_with_and_without_positions():
    def of(source: str, readout: str, layers: str = "2") -> list[float]:
        return ends("principle-3", layers=layers, positions=source, readout=readout)

    page, relu = "principles/principle_3.md", of("decay", "relu")
    sentence = "with ReLU it ends above # in every seed, and with softplus at #."
    low, softplus = numbers(page, sentence)
    assert min(relu) > low and softplus == round(fmean(of("decay", "softplus")), 2)
    bare = fmean(of("nothing", "relu"))
    one = fmean(of("nothing", "relu", "1"))
    sentence = (
        "ReLU without positions reaches #, # less than with the decay. One layer of it reaches #,"
    )
    says(page, sentence, bare, fmean(relu) - bare, one)
    (kept,) = {rate(x) for x in chosen("principle-3", layers="2", positions="decay", readout="exp")}
    fresh = chosen("headline/positions", task="2 layers", design="decay")
    says(page, "In these four seeds, at #, it solves the task", kept)
    judged = [x for x in fresh if x["seed"] >= 200]
    says(page, "of the twelve above, at #, eight do", rate(judged[0]))
    assert sum(x["final"]["accuracy"] >= 0.9 for x in judged) == 8 and len(judged) == 12


def test_parity_beyond_the_texts_of_training():
    def longer(design: str) -> list[float]:
        found = chosen("principle-4", design=design, task="parity")
        return [one["diagnostics"]["longer"]["accuracy"] for one in found]

    page = "principles/principle_4.md"
    bare = [x for one in ("identity", "scalar", "diagonal", "diagonal, GLA") for x in longer(one)]
    says(page, "are right at # to # % of the 160 bits", 100 * min(bare), 100 * max(bare))
    mirror, along = longer("Householder, k, beta = 2"), longer("Householder, z")
    learned = [longer("Householder, k"), along, longer("scaled Householder")]
    every = [x for one in (mirror, *learned) for x in one]
    sentence = (
        "with a reflection are right at # to # %. Along a learned $z$ one seed of four falls "
    )
    sentence += "to #. ... the worst seed is right at # %, and where ... learned, at # % or less."
    lowest = [100 * min(every), 100 * max(every), min(along), 100 * min(mirror)]
    says(page, sentence, *lowest, 100 * max(min(one) for one in learned))

    def soon(design: str) -> list[int]:
        found = (steps(one) for one in chosen("principle-4", design=design, task=COPYING))
        return [one for one in found if one is not None]

    identity, scalar, scaled = map(soon, ("identity", "scalar", "scaled Householder"))
    sentence = "needs # steps or more to be right at 90 %, the scalar # to #, ..., # or #."
    says(page, sentence, min(identity), min(scalar), max(scalar), *sorted({*scaled}))
    assert all(a > b > c for a, b, c in zip(identity, scalar, scaled, strict=True))
    fixed = [percent("principle-4", design="Householder, k, beta = 2", task=one)
             for one in (COPYING, RECALL)]  # fmt: skip
    free = percent("principle-4", design="Householder, k", task=RECALL)
    says(page, "copies # % and recalls # % on average, ... recalls # %", *fixed, free)
    recalled = [percent("principle-4", design=one, task=RECALL) / 100 for one in DESIGNS]
    sentence = "seven of the eight end between # and #, and none is ahead of"
    says(page, sentence, sorted(recalled)[1], max(recalled))
    assert max(recalled) == recalled[0]
    first = [
        one for one in chosen("headline/parity", design="Householder, z") if one["seed"] >= 200
    ]
    right = sum(one["diagnostics"]["lengths"]["4"] >= 0.9 for one in first)
    says(page, "along a learned $z$ # of its # seeds are right at 90 %", right, len(first))


def test_parity_beyond_the_texts_of_training_on_fresh_seeds():
    def judged(design: str) -> tuple[int, int]:
        found = chosen("headline/parity-fresh", design=design, task="parity")
        fresh = [one for one in found if one["seed"] >= FRESH]
        return sum(one["diagnostics"]["lengths"]["4"] >= 0.9 for one in fresh), len(fresh)

    page = "principles/principle_4.md"
    right, seeds = judged("Householder, z")
    says(page, "Along a learned $z$ # of # seeds are right at 90 %, a share of # [", right, seeds,
         right / seeds)  # fmt: skip
    says(page, "so are # of # of the scaled Householder", *judged("scaled Householder"))
    assert judged("identity") == judged("scalar") == (0, 12)


def test_a_tenth_of_the_scaling_at_its_rates():
    narrow, wide = ([rate(chosen("principle-5", b=scale, n=n)[0])
                     for scale in ("0.1/sqrt(n)", "1/sqrt(n)")] for n in ("64", "256"))  # fmt: skip
    sentence = "at the rates # and # in narrow heads, and # and # in wide ones"
    says("principles/principle_5.md", sentence, *narrow, *wide)


def test_the_seeds_of_the_first_claim_on_scale():
    sentence = (
        "# of # against # solves the task in the wide heads and # against # in the narrow ones"
    )
    counts = []
    for task in ("64 channels", "16 channels"):
        for design in ("b = 1", "b = 1/sqrt(n)"):
            found = chosen("headline/scale", task=task, design=design)
            judged = [one["final"]["accuracy"] for one in found if one["seed"] >= 200]
            counts += [sum(value >= 0.9 for value in judged)]
    says("principles/principle_5.md", sentence, counts[0], 12, *counts[1:])


def test_runs_with_growing_keys_that_do_not_jump():
    long = [x for x in lines("principle-6") if x["config"]["train"]["steps"] == 12_000]
    creep = [
        x["final"]["accuracy"] for x in long if x["diverged_at"] is None and steps(x, 0.95) is None
    ]
    grown = (x for x in lines("principle-6") if x["variant"]["A"] == "1.05")
    finite = (x for x in grown if x["diverged_at"] is None)
    short = [x for x in finite if x["config"]["train"]["steps"] == 3000]
    low, high = numbers("principles/principle_6.md", "creep to between # and #.")
    assert low < min(creep) and max(creep) < high and len(creep) == 16
    assert {x["seed"] for x in short} == {0, 1}
    assert {x["seed"] for x in long} == {0, 1, 2, 3}


def test_recall_and_digits_of_one_state():
    page = "second_view/dynamical_systems.md"
    sigmoid, turned = (
        percent("dsf-mqar", model=f"qLSTM, {one}", task="4 pairs in 16")
        for one in ("sigmoid", "reversed")
    )
    says(page, "the reversed gate is # points behind", sigmoid - turned)
    pair = (
        ends("dsf-mqar", model=f"qLSTM, {x}", task="4 pairs in 16") for x in ("sigmoid", "reversed")
    )
    gap = intervals.t_interval([b - a for a, b in zip(*pair, strict=True)], 0.9)
    says(page, "interval: from # behind to # ahead)", -100 * gap.low, 100 * gap.high)

    def solved(design: str) -> int:
        found = chosen("headline/recall", design=design, task="8 pairs in 32")
        return sum(x["final"]["accuracy"] >= 0.9 for x in found if x["seed"] >= 200)

    sentence = "the same happens, # of 12 against #, ... and with eight hardly, # against 12"
    counts = [solved(f"{one}, n = {n}") for n in (4, 8) for one in ("erases", "adds")]
    says(page, sentence, *counts[:3])
    assert counts[3] == 12
    sentence = "it reads # %, linear and softmax attention # and # %, ... last here with # %"
    names = ("normalized", "linear", "softmax", "S6")
    says(page, sentence, *(percent("dsf-table-1", model=x, task="pixels") for x in names))


def test_recall_of_the_models_with_eigenvalues():
    page, task = "second_view/spectra.md", "MQAR"
    says(page, "token and still answers # %", percent("spectra", model="S4D", task=task))
    mamba = chosen("spectra", model="Mamba-2", task=task)
    moduli = [one["diagnostics"]["normalized"]["moduli"]["trained"] for one in mamba]
    below = [max(sum(layer["share"][:2]) for layer in layers) for layers in moduli]
    said = "has eigenvalues below 0.1 with # seeds of 12"
    says(page, said, sum(one > 0 for one in below))
    bare = ends("spectra-mods", group="convolution", change="none", model="Mamba-2", task=task)
    said = "solves the task, from # on, with # of # seeds here"
    says(page, said, 0.9, sum(x >= 0.9 for x in bare), len(bare))
    variant = get_experiment("spectra").plan(STANDARD).those_with([{"task": task}])[0]
    by_place = accuracy_by_place(variant.task)
    says(page, "neither model reaches what the place of a query tells (#)", by_place)
    every = [
        x for m in ("softmax", "Mamba-2") for x in ends("spectra-mods", change="1 layer", model=m)
    ]
    assert max(every) < by_place
    alone = chosen("spectra-mods", change="1 layer, convolution", model="softmax", task=task)
    shares = [x["diagnostics"]["normalized"]["moduli"]["trained"][0]["share"] for x in alone]
    below = 100 * fmean(sum(one[:2]) for one in shares)
    says(page, "Softmax attention then has # % of its eigenvalues below 0.1", below)
    read = {}
    for name in ("S4D", "LRU", "Mamba-2"):
        found = chosen("headline/spectra", design=name, task="pixels")
        read[name] = 100 * fmean(x["final"]["accuracy"] for x in found if x["seed"] >= 200)
    sentence = "S4D and the LRU read # % of the digits or more, ... reads the fewest, # %."
    least, fewest = numbers(page, sentence)
    assert least <= min(read["S4D"], read["LRU"]) and fewest == int(read["Mamba-2"])


def test_eigenvalues_near_zero_before_training():
    def below(name: str) -> list[float]:
        """Of each seed the share in the layer that has most; a bin of the moduli is 0.05 wide."""
        found = chosen("spectra", model=name, task="pixels")
        moduli = (one["diagnostics"]["normalized"]["moduli"]["initial"] for one in found)
        return [max(sum(layer["share"][:2]) for layer in layers) for layers in moduli]

    mamba = below("Mamba-2")
    rest = max(max(below(one)) for one in ("S4D", "LRU", "softmax", "linear", "normalized"))
    said = (
        "Mamba-2 alone has more than # % below 0.1, with # of # seeds, and at most # % of a layer"
    )
    values = [100 * rest, sum(one > rest for one in mamba), len(mamba), 100 * max(mamba)]
    says("second_view/spectra.md", said, *values)


def test_right_answers_on_listops_beside_the_most_frequent_one():
    found = [percent("dsf-table-1", model=one, task="ListOps")
             for one in ("linear", "normalized", "softmax", "S6")]  # fmt: skip
    task = get_experiment("dsf-table-1").plan(STANDARD).those_with([{"task": "ListOps"}])[0].task
    sentence = "are right in # to # % of the cases, where the most frequent answer is in # %"
    guess = 100 * baseline(task)[0]
    says("second_view/dynamical_systems.md", sentence, min(found), max(found), guess)


def test_the_largest_weight_of_a_wide_head():
    rng = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 2000, 64, 256, generator=rng)
    largest = torch.einsum("bn,bjn->bj", q[:, 0], k).softmax(-1).amax(-1).mean()
    says("principles/principle_5.md", "It rises to # on average.", float(largest))
