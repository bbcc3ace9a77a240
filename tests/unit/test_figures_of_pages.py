"""Figures in the prose of the scoreboard, the lens and designs, each against what it is of."""

from __future__ import annotations

import json
from statistics import fmean, median

import pytest
import torch
from said import chosen, ends, lines, numbers, prose, says, steps

from coefdyn.lab.capabilities import cells
from coefdyn.lab.experiments import get_experiment, intervals
from coefdyn.lab.experiments.board import ROWS
from coefdyn.lab.experiments.forecasts import FORECASTS, LEARNS, probability
from coefdyn.lab.experiments.plan import STANDARD, STANDARD_RATES
from coefdyn.lab.headline.claims import HEADLINES
from coefdyn.lab.headline.former import FORMER
from coefdyn.lab.headline.group import Group
from coefdyn.lab.headline.runs import BEGUN, GROUPS
from coefdyn.lab.places import data_file
from coefdyn.lens import load_heads


def test_the_scoreboard_in_words():
    page = "scoreboard.md"

    def of(task: str, row: str) -> list[dict]:
        return chosen("scoreboard", task=task, row=row)

    near = {
        row: [steps(x) for x in of("memory through 64 tokens", row)] for row in ("LRU", "Mamba-2")
    }
    lru, mamba = ([one for one in found if one is not None] for found in near.values())
    sentence = (
        "LRU reaches 0.9 with each of twelve seeds after # or # steps, and Mamba-2 with nine "
    )
    says(page, sentence + "of twelve after # to #.", *sorted({*lru}), min(mamba), max(mamba))
    assert (len(lru), len(mamba)) == (12, 9)
    product = sorted(ends("scoreboard", task="S3", row="DeltaProduct"))
    sentence = "ends at # with one seed of twelve, ... and between # and # with three more"
    says(page, sentence, product[-1], product[-4], product[-2])
    assert product[-5] < 0.5
    rows = ("linear attention", "DeltaNet", "normalized attention")
    sentence = "linear attention ends at # and DeltaNet at #, ... gets #."
    means = [fmean(ends("scoreboard", task="overwrite", row=row)) for row in rows]
    says(page, sentence, *means)
    says(
        page,
        "all but linear attention (#)",
        fmean(ends("scoreboard", task="copy", row="linear attention")),
    )
    solved = {
        row: sum(x > 0.95 for x in ends("scoreboard", task="long memory", row=row)) for row in ROWS
    }
    sentence = (
        "softmax attention, normalized attention and DeltaNet with every seed, linear attention "
    )
    sentence += (
        "with three seeds of four. DeltaProduct, ... with two. ... Gated DeltaNet and mLSTM do it "
    )
    sentence += (
        "with three seeds of four and GLA with one, and Mamba-2, LRU and S6 stay at the guess"
    )
    numbers(page, sentence)
    by_count = {4: ("softmax attention", "normalized attention", "DeltaNet"), 2: ("DeltaProduct",),
                3: ("linear attention", "Gated DeltaNet", "mLSTM"), 1: ("GLA",)}  # fmt: skip
    assert solved == {
        row: next((n for n, rows in by_count.items() if row in rows), 0) for row in ROWS
    }
    place = {row: [steps(x) for x in of("position", row)] for row in ROWS}
    slow = [place[row] for row in ("linear attention", "mLSTM", "S6")]
    fast = [place[row] for row in ("DeltaNet", "Gated DeltaNet", "GLA", "DeltaProduct")]
    late = [one for row in slow for one in row if one is not None]
    sentence = (
        "after # steps, and the rows that erase, GLA and DeltaProduct within #. ... need # to #,"
    )
    first = max(place["softmax attention"] + place["LRU"])
    says(page, sentence, first, max(max(row) for row in fast), min(late), max(late))
    assert [row.count(None) for row in slow] == [1, 1, 1]


def test_the_score_of_the_forecasts_over_other_tasks():
    """A bootstrap over the tasks, of the forecasts that have an opinion."""
    parts: dict[str, list[float]] = {}
    for (task, row), one in FORECASTS.items():
        if row != "DeltaProduct" and one.word != "?":
            came = fmean(ends("scoreboard", task=task, row=row)) >= LEARNS
            parts.setdefault(task, []).append((probability((task, row)) - came) ** 2)
    sums = torch.tensor([[sum(one), len(one)] for one in parts.values()])
    drawn = torch.randint(
        len(sums), (50_000, len(sums)), generator=torch.Generator().manual_seed(0)
    )
    total = sums[drawn].sum(1)
    low, high = torch.quantile(total[:, 0] / total[:, 1], torch.tensor([0.05, 0.95])).tolist()
    says("scoreboard.md", "between # and # (90 %)", low, high)


def test_forecasts_without_the_seed_that_chose_the_rate():
    """The seed that tried the rates counts in a cell's mean, and the page says what it decides."""
    said = {cell: one.word for cell, one in FORECASTS.items() if cell[1] != "DeltaProduct"}
    right, changed = [0, 0], {}
    for (task, row), word in said.items():
        found = ends("scoreboard", task=task, row=row)
        means = [fmean(found), fmean(found[1:])]
        learned = [one >= LEARNS for one in means]
        if word != "?":
            right = [n + (one == (word == "+")) for n, one in zip(right, learned, strict=True)]
        if learned[0] != learned[1]:
            changed[task, row] = means
    sentence = "falls below 0.9 (# to #), so # forecasts of # were right instead of #,"
    opinions = sum(word != "?" for word in said.values())
    means = changed.pop(("long memory", "linear attention"))
    says("scoreboard.md", sentence, *means, right[1], opinions, right[0])
    assert list(changed) == [("position", "S6")] and said["position", "S6"] == "?"


@pytest.mark.parametrize("name", GROUPS)
def test_no_seed_that_chose_a_rate_is_judged(name):
    """Of every registered claim; and no seed of a first verdict counts in that of its parts."""
    plan = Group(name).plan(STANDARD)
    claims = [one.claim for one in (*HEADLINES, *FORMER) if one.group == name]
    first = Group(BEGUN[name]).plan(STANDARD).seeds if name in BEGUN else ()
    for one in (variant for claim in claims for variant in plan.those_with(claim.compared)):
        judged = {*plan.seeds_of(one)}
        assert len(judged) >= 12 and not judged & {*plan.pilot, *first}
        kept = (
            {x["seed"] for x in lines(f"headline/{name}")}
            if claims and name not in BEGUN
            else judged
        )
        assert judged <= kept


def test_mamba_fades_the_facts_of_the_story_at_full_stops():
    kept = load_heads(data_file("lens/facts_mamba2_heads.npz"))
    keeps = kept["backbone.layers.0.mixer"].dynamics.evolution.log_decay[0, 4].exp()
    stop = torch.tensor([word == "." for word in kept.words])
    assert 0.7 < keeps[stop].min() <= keeps[stop].max() < 0.8
    said = "at most # % at any other token of this story"
    says("lens/trained_models.md", said, float(100 * (1 - keeps[~stop].min())))


def test_the_head_before_beside_the_strongest_induction_head():
    lens = json.loads(data_file("lens/smollm2_effects.json").read_text(encoding="utf-8"))
    columns = dict(zip(lens["columns"], torch.tensor(lens["table"]).T, strict=True))
    rise, induction = columns["twice_loss_change"], columns["induction"]
    most, strongest = float(rise.max()), float(rise[induction.argmax()])
    says("lens/heads.md", "the loss rises by # nats, three times", most)
    assert round(most / strongest, 1) == 3.1
    by_layer = induction.unflatten(0, (-1, lens["heads_per_layer"]))
    weaker = by_layer.where(by_layer < 0.6, 0.0).amax(-1)
    found = [float(weaker[layer]) for layer in (18, 20, 23)]
    says("lens/heads.md", "in layers 18, 20 and 23 (up to #, # and #)", *found)
    assert sorted(weaker.topk(3).indices.tolist()) == [18, 20, 23]


def test_what_the_small_models_answer():
    lens = json.loads(data_file("lens/facts_ablation.json").read_text(encoding="utf-8"))
    one = next(x for x in lens["runs"] if (x["model"], x["seed"]) == ("mamba2", 0))
    right = {x["case"]: x["accuracy"] for x in one["rows"]}
    said = "costs less than one answer in three hundred, and head 1 alone answers "
    assert said + "seven questions in eight" in prose("lens/trained_models.md")
    assert right["as it is"] - right["layer 0, head 4 out"] < 1 / 300
    assert round(8 * right["layer 0, head 1 alone"], 1) == 7.0
    said = "Two thirds of the wrong answers of either model ... of the first model two of three."
    numbers("lens/trained_models.md", said)
    for name, counts in (("facts", (3, 2)), ("facts_mamba2", (27, 18))):
        told = json.loads(data_file(f"lens/{name}.json").read_text(encoding="utf-8"))[
            "long_stories"
        ]
        wrong = sum(told["asked"]) - sum(told["right"])
        assert (wrong, told["wrong_with_an_earlier_place"]) == counts


def test_designs_of_ones_own_and_what_judging_takes():
    soon = {x["variant"]["design"]: [] for x in lines("headline/designs")}
    for name, found in soon.items():
        found += [steps(x) for x in chosen("headline/designs", design=name) if x["seed"] >= 200]
    parent = soon.pop("GatedDeltaNet")
    ours = [one for found in soon.values() for one in found]
    sentence = "reach 0.9 after # to # steps and Gated DeltaNet after # to #."
    says("design/your_own.md", sentence, min(ours), max(ours), min(parent), max(parent))
    assert "such a run of this book took about a minute of one core" in prose("design/judge.md")
    tasks = ("recall", "overwrite", "parity")
    found = [
        x for x in lines("scoreboard") if x["variant"]["task"] in tasks and x["steps_done"] == 2000
    ]
    assert 45 < median(x["wall_s"] for x in found) < 75
    says("design/judge.md", "of 4 of 4 begins at #, and that of 2 of 4 reaches to #.",
         intervals.share_interval(4, 4).low, intervals.share_interval(2, 4).high)  # fmt: skip


def test_what_the_rule_says_of_twelve_seeds():
    said = "can be told from one that eight of twelve solve, and not from one that nine do"
    assert said in prose("evidence.md") and "Twenty-five headline claims" in prose("evidence.md")
    lead = [intervals.share_difference(12, 12, k, 12).low for k in (8, 9)]
    assert lead[0] > 0 > lead[1] and len(HEADLINES) == 25


def test_attention_without_a_convolution_beside_models_without_a_clock():
    kept, models = get_experiment("spectra").load(STANDARD), ("linear", "S4D", "LRU")
    runs = {m: kept.one(task="MQAR", model=m) for m in (*models, "softmax", "normalized")}
    right = {model: one.accuracy for model, one in runs.items()}
    sentence = (
        "Linear attention, at #, is behind S4D, at #, and level with the LRU, at #; these three"
    )
    says("second_view/spectra.md", sentence, *(right[model] for model in models))
    assert {model for model, one in runs.items() if one.rate == max(STANDARD_RATES)} == {*models}
    assert min(right["softmax"], right["normalized"]) > right["S4D"]


def test_what_the_two_scales_learned_and_at_which_rates():
    kept, counts = Group("scale-fresh").load(STANDARD), []
    for channels, factor in ((64, 9), (16, 3)):
        designs = ("b = 1", "b = 1/sqrt(n)")
        one, small = (kept.one(task=f"{channels} channels", design=name) for name in designs)
        assert small.rate / one.rate == pytest.approx(factor, rel=0.01)
        solved = [intervals.solved(scale.values("accuracy")) for scale in (one, small)]
        counts += [solved[0], len(one.seeds), solved[1]]
    sentence = "on fresh seeds: # of # against #, and, at the same rates, # of # against #"
    says("principles/principle_5.md", sentence, *counts)


def test_softmax_attention_reads_alike_with_either_scale():
    kept = Group("language-fresh").load(STANDARD)
    designs = ("softmax, inverse_sqrt", "softmax, one")
    scaled, one = (kept.one(task="eps 1e-5", design=name) for name in designs)
    assert (scaled.seeds, scaled.rate) == (one.seeds, one.rate)
    levels = [scaled.values("perplexity"), one.values("perplexity")]
    said = "on # fresh seeds a side and at one rate, #. It reaches # with either scaling"
    says("principles/principle_5.md", said, len(one.seeds), one.rate, fmean(levels[1]))
    assert round(fmean(levels[0]), 1) == round(fmean(levels[1]), 1)
    each = [b - a for a, b in zip(*levels, strict=True)]
    gain = intervals.t_interval(each, intervals.JUDGED_CONFIDENCE)
    said = "better by #, with an interval from # better to # worse"
    says("principles/principle_5.md", said, gain.mean, gain.high, -gain.low)
    assert max(gain.high, -gain.low) < 0.01 * fmean(levels[1])
    says("six_principles.md", "no difference that matters, # with either", fmean(levels[1]))
    model = one.records[0]["config"]["model"]
    (channels,) = numbers("principles/principle_5.md", "with heads of # channels")
    assert channels == model["width"] / model["options"]["n_heads"]


def test_what_the_scalings_of_mamba_2_reach_on_language():
    kept, page = Group("language-fresh").load(STANDARD), "principles/principle_5.md"
    designs = ("one", "inverse_sqrt", "delta")
    one, scaled, delta = (kept.one(task="eps 1e-5", design=f"mamba2, {b}") for b in designs)
    first, second, third = (of.values("perplexity") for of in (one, scaled, delta))

    def gain(of: list[float]) -> tuple[float, ...]:
        each = [b - a for a, b in zip(of, first[: len(of)], strict=True)]
        found = intervals.t_interval(each, intervals.JUDGED_CONFIDENCE)
        return found.mean, found.low, found.high

    assert (scaled.seeds, scaled.rate) == (one.seeds, one.rate) and delta.rate != one.rate
    said = "Mamba-2 was judged again on # fresh seeds a side, both at the rate #. It reaches #"
    says(page, said, len(one.seeds), one.rate, fmean(first))
    said = "better by #, with an interval from # to #, and in # of the # pairs"
    pairs = [a < b for a, b in zip(second, first, strict=True)]
    says(page, said, *gain(second), sum(pairs), len(pairs))
    said = "below which a difference would not matter, is #, and the paper's gap is #."
    says(page, said, 0.01 * fmean(first), 29.23 - 28.84)  # of its Table 3
    n = one.variant.model.width / one.variant.model.options["n_heads"]
    assert n**-0.5 == 1 / 4 and "outputs that are a quarter as large" in prose(page)
    assert delta.seeds == one.seeds[: len(third)]
    says(page, "Mamba-2 reaches # on # fresh seeds", fmean(third), len(third))
    says(page, "on the same seeds by #, with an interval from # to #", *gain(third))
    says(page, "Its pilots chose another rate, #,", delta.rate)
    says("six_principles.md", "held, # against #, where the norm", fmean(second), fmean(first))
    says("six_principles.md", "held, # against #, at another rate", fmean(third), fmean(first))


def test_the_number_of_maps_that_a_layer_uses():
    """The exponential of the entropy of the squared singular values, as the discussion counts."""

    def count(maps: torch.Tensor) -> float:
        share = torch.linalg.svdvals(maps).square()
        return float(torch.special.entr(share / share.sum()).sum().exp())

    rng = torch.Generator().manual_seed(0)
    draw = [torch.randn(16, 16_384, generator=rng) for _ in range(4)]
    mixed = [torch.randn(16, 4, generator=rng) @ one[:4] for one in draw]
    noise = [
        0.05 * x.norm(dim=1, keepdim=True) * y / y.norm(dim=1, keepdim=True)
        for x, y in zip(mixed, draw, strict=True)
    ]
    found = [count(x + y) for x, y in zip(mixed, noise, strict=True)]
    says("since/many_heads.md", "It is near # for independent random maps", count(draw[0]))
    low, high = numbers("since/many_heads.md", "between # and # for sixteen random mixtures")
    assert (low, high) == (int(min(found)), int(max(found)) + 1)


def test_the_marks_behind_which_the_four_constructions_stand():
    marks = [one.name for one in cells() if one.mark == "can"]
    shown = {"overwrite", "count", "parity", "product", "copy"}
    said = "which stand behind # of the # marks *can*"
    says("by_hand.md", said, sum(one in shown for one in marks), len(marks))


def test_only_the_attentions_of_the_scoreboard_have_positions():
    assert "The three attentions have rotary positions and the other rows none" in prose(
        "scoreboard.md"
    )
    assert {row: how for row, (_, _, how) in ROWS.items() if how != "none"} == dict.fromkeys(
        ("softmax attention", "linear attention", "normalized attention"), "rotary"
    )


def test_what_a_plan_of_random_heads_is_said_to_cost():
    told = json.loads(data_file("lens/smollm2_plan_512.json").read_text(encoding="utf-8"))
    at = {(one["order"], one["share"]): one for one in told["rows"]}
    assert "the prediction is a quarter too high" in prose("lens/what_may_be_forgotten.md")
    assert round(at["random", 0.5]["predicted"] / at["random", 0.5]["rise"], 1) == 1.2


def test_what_mamba_keeps_of_places_that_were_left():
    kept = load_heads(data_file("lens/facts_mamba2_heads.npz"))
    row = kept["backbone.layers.0.mixer"].dynamics.coefficients()[0, 4, 43]
    rome, oslo, paris = (float(row[at + 1]) for at in (3, 15, 35))
    said = "still finds Rome with # % and Oslo with # % of the weight of Paris"
    says("lens/trained_models.md", said, 100 * rome / paris, 100 * oslo / paris)
