"""Sentences of the book held against what they speak of: a construction, designs, verdicts."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from statistics import fmean

import pytest
import torch
from said import BOOK, runs, told

from coefdyn.lab.capabilities import cells as cells_of_table
from coefdyn.lab.experiments import get_experiment, own_designs
from coefdyn.lab.experiments.board import FIRST_ROWS
from coefdyn.lab.experiments.forecasts import FORECASTS
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.headline.claims import HEADLINES
from coefdyn.lab.headline.group import Group, verdict_of
from coefdyn.lab.pages.evidence import rates_markdown
from coefdyn.lab.places import checkout
from coefdyn.lab.tasks import PermutationConfig, sample, split_generator
from coefdyn.mixers.registry import REGISTERED
from coefdyn.models import SequenceModel

CELL = re.compile(
    r"^```\{code-cell\} ipython3\n(?::[^\n]*\n|---\n.*?^---\n)?(.*?)^```$", re.S | re.M
)


def cells(page: str, *words: str) -> str:
    """The code cells of a page that contain one of some words, in their order."""
    found = CELL.findall((BOOK / page).read_text(encoding="utf-8"))
    return "\n".join(one for one in found if any(word in one for word in words))


@pytest.mark.parametrize("layers", ["in_two_layers", "in_one_layer"])
def test_layers_that_add_and_mirror_follow_s3(layers):
    """The chapter's own cell, on texts of another seed and at four times the length."""
    names: dict = {}
    exec("import math\nimport torch\nfrom coefdyn import *", names)
    exec(cells("principles/principle_4.md", "def add_up"), names)
    for length in (24, 96):
        task = PermutationConfig.quick().with_changes({"seq_len": length})
        drawn = sample(task, 64, split_generator(7, "test"), "test")
        found = names["element"](*names[layers](drawn.inputs))
        assert torch.equal(found, drawn.targets)


def test_the_designs_that_were_judged_are_those_of_the_chapter():
    names: dict = {}
    shared = "from dataclasses import replace\nimport torch\nfrom torch.nn import functional\n"
    shared += "from coefdyn import normalizer, readout\n"
    shared += "from coefdyn.mixers import GatedDeltaNet, register_mixer\n"
    exec(shared, names)
    kept = {name: getattr(own_designs, name) for name in own_designs.__all__}
    try:
        code = cells("design/your_own.md", "class ")
        wanted = [
            r"^def poised.*?\n\n",
            *(rf"^@register_mixer\nclass {one}.*?\n\n\n" for one in kept),
        ]
        text = cells("design/your_own.md", "def poised") + "\n\n\n" + code + "\n\n\n"
        for pattern in wanted:
            exec(re.search(pattern, text, re.S | re.M)[0], names)
    finally:
        REGISTERED.update(kept)
    x = torch.randn(2, 12, 16, generator=torch.Generator().manual_seed(0))
    for name, ours in kept.items():
        layers = []
        for form in (ours, names[name]):
            torch.manual_seed(1)
            layers.append(form(d_model=16, n_heads=2))
        torch.testing.assert_close(layers[0](x), layers[1](x), rtol=0, atol=0)


def test_the_loudest_speaker_beside_the_wanted_one():
    names: dict = {}
    kept_type = torch.get_default_dtype()
    try:
        exec(cells("since/many_heads.md", "def listen"), names)
    finally:
        torch.set_default_dtype(kept_type)
    maps = torch.randn(16, 8, 8, generator=names["rng"], dtype=torch.float64) / 8
    loud = [
        torch.einsum("hj,hab->jab", names["alpha"][choice], maps).flatten(1).norm(dim=-1)
        for choice in ("all mute the same", "each mutes others")
    ]
    said = told("since/many_heads.md", r"the loudest (\d+) times where .*? and (\d+) times where")
    assert said == tuple(round(float(one.max() / one[names["wanted"]])) for one in loud)


@pytest.mark.parametrize(("page", "told"), [("six_principles.md", 10), ("design/your_own.md", 8)])
def test_a_page_of_verdicts_says_what_the_judge_says(page, told):
    text = (BOOK / page).read_text(encoding="utf-8")
    by_id = {one.id: one for one in HEADLINES}
    said = 0
    for ids, status in re.findall(r"((?:`[\w/-]+`(?:, | and )?)+): ([\w ]+?)[.,;]", text):
        for id_ in re.findall(r"`([\w/-]+)`", ids):
            verdict = verdict_of(by_id[id_])
            assert status == (by_id[id_].kind if verdict is None else verdict.status), id_
            said += 1
    assert said >= told


def share(readout, task):
    """Per cent of raw coefficients near zero, the mean over seeds, in the runs of feature maps."""
    outcome = kept("principle-2.1").one(readout=readout, task=task)
    return round(100 * fmean(outcome.diagnostic("near_zero_fraction", "raw")))


def kept(name):
    return get_experiment(name).load(STANDARD)


def test_shares_of_zeros_of_a_feature_map_and_of_exp_are_those_of_the_runs():
    page = "principles/principle_2_1.md"
    copying = told(page, r"ReLU sets (\d+) % near zero on copying and exp (\d+) %")
    recall = told(page, r"on copying and fewer on fuzzy recall, (\d+) % and (\d+) %")
    for numbers, task in ((copying, "selective copying"), (recall, "fuzzy recall")):
        assert numbers == (share("psi_relu", task), share("exp", task))
    assert copying[0] > copying[1] and recall[0] < recall[1]


def test_the_limit_of_zeros_breaks_at_the_largest_rate_alone():
    page = "principles/principle_2_2.md"
    (most,) = told(page, r"no row of it has more than (\d+) raw products that small")
    counts: dict[bool, list[int]] = {True: [], False: []}
    for one in runs("principle-2.1"):
        if one["config"]["model"]["options"]["readout"] == "psi_softplus":
            largest = one["config"]["train"]["learning_rate"] == 0.01
            counts[largest].append(one["diagnostics"]["raw"]["largest_zero_count"])
    assert max(counts[False]) == most < 7 < max(counts[True])


def test_designs_that_stop_short_were_still_gaining():
    gains = []
    for outcome in kept("principle-3").outcomes():
        if outcome.variant.model.layers == 1 or outcome.accuracy > 0.95:
            continue
        halves = []
        for record in outcome.records:
            steps, curve = record["metrics"]["step"], record["metrics"]["accuracy"]
            middle = min(range(len(steps)), key=lambda i: abs(steps[i] - steps[-1] / 2))
            halves.append(curve[-1] - curve[middle])
        gains.append(round(fmean(halves), 2))
    said = told("principles/principle_3.md", r"still gained between ([\d.]+) and ([\d.]+) in the")
    assert said == (min(gains), max(gains))


def test_half_of_the_models_have_what_the_sign_of_a_product_gives():
    pattern = r"Accuracies end between ([\d.]+) and ([\d.]+)\. .*? would give ([\d.]+) to ([\d.]+),"
    low, high, least, most = told("principles/principle_4.md", pattern)
    sign = told(
        "principles/principle_4.md", r"counting the odd elements is enough, ([\d.]+) to ([\d.]+)\."
    )
    known = [[round((k + (24 - k) / rest) / 24, 2) for k in (2, 6)] for rest in (6, 3)]
    assert known == [[least, most], list(sign)]
    by_design = [one.values() for one in kept("principle-4").find(task="S3") if one]
    every = [value for values in by_design for value in values]
    assert (low, high) == (round(min(every), 2), round(max(every), 2))
    assert sum(value >= 0.4 for value in every) == len(every) / 2 == 16
    assert all(max(values) >= 0.4 for values in by_design)


def test_half_width_of_the_language_interval_is_that_of_the_claim():
    page = "principles/principle_5.md"
    half, gap = told(
        page, r"The interval reaches ([\d.]+) to .*? so a gap of ([\d.]+), the paper's,"
    )
    verdict = verdict_of(next(one for one in HEADLINES if one.id == "prose/softmax-scaled"))
    low, high = map(float, re.search(r"difference \S+ \[(\S+), (\S+)\]", verdict.numbers).groups())
    assert abs((high - low) / 2 - half) < 0.006 and gap > half


def test_without_epsilon_a_constant_scaling_of_mamba_2_changes_nothing():
    page = " ".join((BOOK / "principles/principle_5.md").read_text(encoding="utf-8").split())
    said = (
        r"cancels any constant but for its $\epsilon = 10^{-5}$, and with $\epsilon = 0$ the models"
    )
    assert said in page
    tokens = torch.randint(50, (2, 40), generator=torch.Generator().manual_seed(0))
    kept, apart = Group("language-fresh").load(STANDARD), {}
    for eps in (0.0, 1e-5):
        logits = []
        for b in ("one", "inverse_sqrt"):
            model = kept.one(task="eps 1e-5", design=f"mamba2, {b}").variant.model
            model = replace(model, options={**model.options, "norm_eps": eps})
            torch.manual_seed(0)
            logits.append(SequenceModel(model, vocab=50).double()(tokens))
        apart[eps] = (logits[0] - logits[1]).abs().max().item()
    assert apart[0.0] < 1e-9 < 0.1 < apart[1e-5]


def test_what_the_short_convolution_adds_is_what_its_claim_counts():
    said = told(
        "second_view/spectra.md",
        r"With the convolution (\d+) of (\d+) solve the task, at the rate of ([\d.]+) that its "
        r"pilots chose, and without it (\d+) of (\d+), at ([\d.]+)\.",
    )
    verdict = verdict_of(next(x for x in HEADLINES if x.id == "convolution/helps-mamba-2"))
    counts = re.match(r"(\d+) of (\d+) against (\d+) of (\d+) seeds", verdict.numbers).groups()
    assert (*said[:2], *said[3:5]) == tuple(map(float, counts)) and verdict.status == "held"
    rates = {
        one["variant"]["design"]: one["config"]["train"]["learning_rate"]
        for one in runs("headline/convolution-fresh")
        if one["seed"] == 300
    }
    assert said[2::3] == (rates["Mamba-2"], rates["Mamba-2 without convolution"])


def test_positions_of_the_runs_with_growing_keys_are_rotary():
    text = " ".join((BOOK / "principles/principle_6.md").read_text(encoding="utf-8").split())
    assert "the keys grow 500-fold, and the positions are rotary" in text
    for name in ("principle-6", "headline/growth"):
        assert {one["config"]["model"]["position"] for one in runs(name)} == {"rotary"}


def test_forecasts_of_one_layer_were_right_on_parity_and_not_on_position():
    """What the scoreboard says of the arguments behind its forecasts, by the table of proofs."""
    marks = {(one.task, one.row): one.mark for one in cells_of_table()}
    said = {cell for cell, one in FORECASTS.items() if one.word == "-" and cell[1] in FIRST_ROWS}
    parity = [marks[cell] for cell in said if cell[0] == "parity"]
    assert parity.count("cannot") > len(parity) / 2 and "can" not in parity
    assert ("position", "GLA") in said and marks["position", "GLA"] == "can"


def test_steps_to_parity_on_the_scoreboard_are_those_of_the_runs():
    said = told("scoreboard.md", r"is right at (\d+) % of the bits after (\d+) or (\d+) steps")
    steps = kept("scoreboard").one(task="parity", row="DeltaProduct").steps_to(said[0] / 100)
    assert set(steps) == set(said[1:])


@pytest.mark.parametrize("name", ["principle-2", "principle-2.1", "principle-4", "heads"])
def test_designs_at_an_edge_of_the_rates_are_those_of_the_runs(name):
    """What a page says below its figure, against a count of the lines of the results alone."""
    found: dict[str, dict[float, list]] = {}
    for one in runs(name):
        rates = found.setdefault(json.dumps(one["variant"], sort_keys=True), {})
        rates.setdefault(one["config"]["train"]["learning_rate"], []).append(one)
    edge = 0
    for rates in found.values():
        chosen = max(rates, key=lambda rate: len(rates[rate]))
        first = len(min(rates.values(), key=len))
        solved = all(one["solved"] for one in rates[chosen] if one["seed"] < first)
        edge += len(rates) > 1 and chosen in (min(rates), max(rates)) and not solved
    line = rates_markdown(kept(name))
    assert f" {edge} of {len(found)} designs have the smallest or the largest" in line
    assert line.count("; ") == edge - 1


def test_what_the_identity_loses_to_its_divisor_on_fuzzy_recall():
    def mean(readout, rate):
        every = runs("principle-2", task="fuzzy-recall")
        return fmean(
            one["final"]["accuracy"]
            for one in every
            if one["variant"]["readout"] == readout
            and one["config"]["train"]["learning_rate"] == rate
        )

    exp, free = mean("exp", 0.003), mean("identity, eta = 1", 0.003)
    shares = [
        round(100 * (free - low) / (exp - low))
        for low in (mean("identity", r) for r in (0.001, 0.003))
    ]
    said = told("principles/principle_2.md", r"So (\d+) or (\d+) % of the loss is its divisor's")
    assert list(said) == shares and max(shares) < 50


def test_no_row_without_two_reflections_follows_s3_at_any_rate_tried():
    most, by_sign = told(
        "scoreboard.md", r"none ends above ([\d.]+), at any .*? give ([\d.]+), although"
    )
    ends = [
        one["final"]["accuracy"]
        for one in runs("scoreboard")
        if one["variant"]["task"] == "S3" and one["variant"]["row"] in FIRST_ROWS
    ]
    assert len(ends) >= 60 and round(max(ends), 2) <= most == 0.53
    assert by_sign == (6 + (24 - 6) / 3) / 24


def test_answers_left_without_the_head_that_holds_the_facts():
    without, guess = told(
        "lens/trained_models.md", r"without it (\d+) % .*? six places gives (\d+),"
    )
    lens = json.loads((checkout() / "data/lens/facts_ablation.json").read_text(encoding="utf-8"))
    first = next(one for one in lens["runs"] if (one["model"], one["seed"]) == ("qwen3_next", 0))
    right = {one["case"]: one["accuracy"] for one in first["rows"]}
    assert (without, guess) == (round(100 * right["layer 0, head 1 out"]), round(100 / 6))


def test_no_score_of_a_head_tells_what_the_document_loses_without_it():
    (largest,) = told("lens/heads.md", r"the largest rank correlation is ([\d.]+\d)")
    lens = json.loads((checkout() / "data/lens/smollm2_effects.json").read_text(encoding="utf-8"))
    scores = torch.tensor(lens["table"], dtype=torch.float64)
    ranks = scores.argsort(dim=0, stable=True).argsort(dim=0).double()
    order = torch.corrcoef(ranks.T)[lens["columns"].index("loss_change")]
    names = [i for i, one in enumerate(lens["columns"]) if not one.endswith("change")]
    assert round(float(order[names].abs().max()), 2) == largest
