"""The picture of the headline claims: bars from the threshold, and what is not run says so."""

from __future__ import annotations

import re

import numpy as np
import pytest
from made_up_results import result_of

from coefdyn.lab.experiments import get_experiment, intervals, rule, spectra
from coefdyn.lab.experiments.measure import Measure, metric
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.headline.claims import HEADLINES
from coefdyn.lab.headline.former import FORMER
from coefdyn.lab.headline.group import Group
from coefdyn.lab.headline.judge import as_judged, effects
from coefdyn.lab.headline.runs import GROUPS, PILOT
from coefdyn.lab.pages.headlines import (
    CHAPTERS,
    WORDS,
    headline_counts,
    headlines_html,
)
from coefdyn.lab.places import checkout

EVERY = (*HEADLINES, *FORMER)


def made(name: str, level=lambda facets, run: 0.95 - run.seed / 1e5):
    group = Group(name)
    return group, result_of(group, STANDARD, lambda facets, run: (level(facets, run), None))


def test_without_runs_every_trained_claim_says_so(tmp_path):
    page = headlines_html(tmp_path)
    trained = sum(one.kind == "trained" for one in HEADLINES)
    assert page.count('data-status="not run"') == trained + len(FORMER)
    assert page.count("<details") == len(EVERY) == page.count("</details>")
    assert f"{trained} not run" in headline_counts(tmp_path)
    asked = re.findall(r"<ul><li>(.*?)</li></ul>", page)
    assert len(asked) == trained + len(FORMER), "what is asked stands there before it is answered"
    assert all(re.search("above|below|(less|more) than", one) for one in asked)


@pytest.mark.parametrize("name", GROUPS)
def test_the_bars_agree_with_the_verdict(name):
    """All on the claimed side where it is held; some not where it is not."""
    group, result = made(name)
    judged = as_judged(result)
    for claim, verdict in zip(group.registered_claims(), group.claims(result), strict=True):
        found = {one.status for one in effects(claim.test, judged)}
        if verdict.status == rule.HELD:
            assert found == {rule.HELD}
        if verdict.status == rule.NOT_HELD:
            assert rule.NOT_HELD in found


def test_a_lead_of_shares_is_drawn_from_its_threshold():
    def level(facets, run):
        return 0.95 if facets["design"] != "adds" or facets["task"] == "told 1" else 0.5

    group, result = made("overwrite", level)
    (claim,) = group.registered_claims()
    judged = as_judged(result)
    first, second = effects(claim.test, judged)
    assert first.counts == ((12, 12), (0, 12))
    assert first.found.mean == second.found.mean == 1.0 and first.status == rule.HELD
    assert group.claims(result)[0].status == rule.HELD


def test_finished_claims_show_numbers_and_curves(tmp_path):
    group, result = made("heads")
    for record in result.records:
        group.file(STANDARD, tmp_path).append(record)
    page = headlines_html(tmp_path)
    (line,) = re.findall(r'<details data-status="held">.*?</details>', page, re.DOTALL)
    assert "12 of 12 above 0.5; a share above 0.5 is claimed" in line and "<polyline" in line
    shown = re.findall(r'data-status="([^"]*)"', page)
    assert shown.index("held") < shown.index("not run") and set(shown[-5:]) == {"not run"}
    told = headline_counts(tmp_path)
    assert "claims: 1 held, " in told and "at most 0.025 are wrong" in told


def test_every_claim_stands_in_one_chapter_that_there_is(tmp_path):
    book = checkout() / "book"
    told = []
    for chapter in dict.fromkeys(CHAPTERS.values()):
        assert (book / f"{chapter}.md").exists(), chapter
        page = headlines_html(tmp_path, chapter=chapter)
        assert "its chapter" not in page
        told += re.findall("<code>(.*?)</code>", page)
    assert sorted(told) == sorted(one.id for one in EVERY)


def test_what_chapters_say_of_the_seeds_is_in_the_kept_runs():
    """Sentences beside the lines: the pilot seed, and the perplexities of the text."""
    positions = Group("positions").load(STANDARD)
    tried = [
        run["final"]["accuracy"] > 0.9
        for run in positions.records
        if run["variant"] == {"task": "2 layers", "design": "nothing"}
        and run["seed"] in PILOT
        and run["config"]["train"]["learning_rate"] == 0.01
    ]
    assert sorted(tried) == [False, True], "one of the two pilot seeds that chose its rate"

    text = as_judged(Group("text").load(STANDARD))
    names = ("softmax", "linear", "normalized")
    found = (text.one(task="bytes", design=name) for name in names)
    told = ", ".join(f"{np.mean(metric('perplexity').values(one)):.1f}" for one in found)
    assert told == "6.0, 6.6, 9.3"
    page = " ".join((checkout() / "book/second_view/dynamical_systems.md").read_text().split())
    said = re.search(r"softmax attention reaches a perplexity of (\S+), linear attention (\S+) and "
                     r"normalized attention (\d+\.\d)", page)  # fmt: skip
    assert said is not None and ", ".join(said.groups()) == told

    eigenvalues = as_judged(Group("spectra").load(STANDARD))
    page = " ".join((checkout() / "book/second_view/spectra.md").read_text().split())

    def first(model: str) -> list[np.ndarray]:
        one = eigenvalues.one(task="pixels", design=model)
        return [
            np.array([layers[0] for layers in spectra.seed_masses(one, spectra.NEAR_ONE, when)])
            for when in ("initial", "trained")
        ]

    def percent(shares: np.ndarray) -> str:
        return f"{100 * shares.mean():.0f}"

    told = {model: [percent(one) for one in first(model)] for model in ("S4D", "LRU", "Mamba-2")}
    for model, (before, after) in told.items():
        said = f"In {'the ' * (model == 'LRU')}{model} {after} %"
        assert re.search(re.escape(said) + rf"[^.]*? in place of {before} %", page), model
    assert f"more than half with {(first('LRU')[1] > 0.5).sum()} of 12 seeds" in page
    bare = eigenvalues.one(task="MQAR", design="Mamba-2 without convolution")
    assert bare.records[0]["config"]["train"]["learning_rate"] == 0.003
    solve = intervals.solved(bare.values())
    assert f"the 0.003 that a wider search chose, {solve} of 12 solve the task" in page

    language = as_judged(Group("language").load(STANDARD))
    page = " ".join((checkout() / "book/principles/principle_5.md").read_text().split())

    def gain(b: str, model: str, eps: str) -> float:
        one, other = (
            metric("perplexity").values(
                language.one(task=f"eps {eps}", design=f"{model}, {scaling}")
            )
            for scaling in ("one", b)
        )
        return float(np.mean(one) - np.mean(other))

    softmax = gain("inverse_sqrt", "softmax", "1e-5")
    mamba = gain("inverse_sqrt", "mamba2", "1e-5")
    assert f"attention gains {softmax:.1f} by it and Mamba-2 loses {-mamba:.1f}" in page
    assert f"twelve seeds, where it gained {gain('delta', 'mamba2', '1e-5'):.1f}, it lost" in page
    assert gain("delta", "mamba2", "0") < 0

    zeros = as_judged(Group("zeros").load(STANDARD))
    page = " ".join((checkout() / "book/principles/principle_2.md").read_text().split())

    def memorized(readout: str, what: Measure) -> float:
        return float(np.mean(what.values(zeros.one(task="memorization", design=readout))))

    bare = memorized("identity, eta = 1", metric("accuracy"))
    assert f"of zeros, it memorizes {100 * bare:.0f} %" in page

    growth = as_judged(Group("growth").load(STANDARD))
    page = " ".join((checkout() / "book/principles/principle_6.md").read_text().split())

    def broke(eta: str) -> list[int | None]:
        found = growth.one(task="A = 1.05 I", design=eta).records
        return [record["diverged_at"] for record in found]

    assert broke("one") == broke("geometric") == [1] * 12 and broke("row_sum") == [None] * 12
    assert "It overflows in the very first step, with $1.05^i$ as well" in page


def test_the_timed_claim_says_what_was_timed():
    times: dict[tuple[str, int], list[float]] = {}
    for one in get_experiment("principle-1").load(STANDARD).records:
        of = one["config"]["design"], one["config"]["length"]
        times.setdefault(of, []).append(one["final"]["seconds"])
        assert one["threads"] == 1
    told = []
    for design in ("softmax, torch's kernel", "softmax, whole matrix", "scalar decay, chunks"):
        assert len(times[design, 2048]) == len(times[design, 16384]) == 4
        ratio = np.median(times[design, 16384]) / np.median(times[design, 2048])
        told.append(f"{ratio:.0f}" if ratio > 10 else f"{ratio:.1f}")
    (claim,) = (one for one in HEADLINES if one.id == "time/chunks")
    assert (
        "takes {} times as long, the whole matrix {} times and the chunks {} times".format(*told)
        in claim.limits
    )
    assert "one thread of a CPU" in claim.limits


def test_no_caption_counts_solved_seeds_of_a_text():
    page = headlines_html(chapter="principles/principle_5")
    told = re.findall("<figcaption>(.*?)</figcaption>", page)
    assert told and all(("eps" in one) == ("accuracy per token" in one) for one in told)
    assert all(("eps" in one) != ("reach 0.9" in one) for one in told)


def test_runs_that_all_turn_nan_have_words_and_no_empty_curves():
    page = headlines_html(chapter="principles/principle_6")
    assert "<li>A = 1.05 I, eta = 1.05^i: 12 of 12 diverge; a share above 0.5 is claimed<" in page
    figures = re.findall("<figure>(.*?)<figcaption>(.*?)</figcaption>", page)
    drawn = {told: bool(curves) for curves, told in figures}
    assert drawn["A = 1.05 I, eta = 1: rate 0.001, 12 of 12 seeds turn NaN"] is False
    assert (
        drawn["A = 1.05 I, row sum: rate 0.001, 0 of 12 seeds reach 0.9 on validation at some step"]
        is True
    )


def test_every_word_of_a_page_stands_for_one_of_the_runs():
    for name, words in WORDS.items():
        called = {one for variant in GROUPS[name]().variants for one in variant.name.split(", ")}
        assert words.keys() <= called, name


def test_a_chapter_without_a_claim_is_refused():
    with pytest.raises(ValueError, match="principles/principle_3"):
        headlines_html(chapter="principle_3")


def page_of(name: str, folder, level=lambda facets, run: (0.95 - run.seed / 1e5, None)) -> str:
    """The claims' lines of a group, from made-up runs; all other claims are not run."""
    group = Group(name)
    for record in result_of(group, STANDARD, level).records:
        group.file(STANDARD, folder).append(record)
    lines = re.findall("<details.*?</details>", headlines_html(folder), re.DOTALL)
    return "".join(one for one in lines if "<svg role" in one)


def test_each_verdict_is_drawn_on_its_side_and_in_its_color(tmp_path):
    """The first of three comparisons holds in every seed, the second in half, the third in none."""
    nan = {"one": lambda seed: True, "geometric": lambda seed: seed % 2, "row_sum": bool}

    def level(facets, run):
        return 0.5, 1 if nan[facets["design"]](run.seed) else None

    line = page_of("growth", tmp_path, level)
    told = re.findall("<li>(.*?)</li>", line)
    assert [one.partition(": ")[2] for one in told] == [
        "12 of 12 diverge; a share above 0.5 is claimed",
        "6 of 12 diverge; a share above 0.5 is claimed",
        "12 of 12 diverge; a share below 0.5 is claimed",
    ]
    (picture,) = re.findall('<svg role="img" aria-label="1 of 3 comparisons .*?</svg>', line)
    bars = re.findall('M([0-9.]+) [0-9.]+H([0-9.]+)" stroke="(#[0-9A-F]+)"', picture)
    points = re.findall('cx="([0-9.]+)" cy="([0-9.]+)" r="4" fill="(#[0-9A-F]+)"', picture)
    teal, grey, brick = "#0E96A8", "#8B95A3", "#C2562F"
    assert [color for *_, color in bars] == [color for *_, color in points] == [teal, grey, brick]
    (held, open_, missed), middle = [(float(a), float(b)) for a, b, _ in bars], 90
    assert middle < held[0] < held[1] and missed[0] < missed[1] < middle
    assert open_[0] < middle < open_[1]
    assert [float(y) for _, y, _ in points] == [8, 34, 60], "in the order of the sentences"
    assert [float(x) for x, *_ in points] == [held[1], middle, missed[0]]


LABELS = {
    "growth": {"A = 1.05 I": ["eta = 1", "eta = 1.05^i", "row sum"]},
    "language": {
        "eps 1e-5, Mamba-2": ["b = 1/sqrt(n)", "b = 1", "b = Delta"],
        "eps 1e-5, softmax": ["b = 1/sqrt(n)", "b = 1"],
        "eps 0, Mamba-2": ["b = 1", "b = Delta"],
    },
    "language-fresh": {
        "eps 1e-5, Mamba-2": ["b = 1/sqrt(n)", "b = 1", "b = Delta", "b = 1"],
        "eps 1e-5, softmax": ["b = 1/sqrt(n)", "b = 1"],
    },
    "positions": {
        "1 layer": ["decay", "convolution", "A = I"],
        "2 layers": ["decay", "A = I", "convolution"],
    },
    "zeros": {
        "memorization": ["identity, eta = 1", "identity"],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_curves_have_the_labels_of_their_runs(name, tmp_path):
    """In the order in which the claims compare them."""
    told = re.findall("<figcaption>(.*?): rate", page_of(name, tmp_path))
    assert told == [f"{of}, {one}" for of, those in LABELS[name].items() for one in those]


def test_comparisons_say_first_what_is_claimed_to_be_ahead(tmp_path):
    line = page_of("language", tmp_path)
    assert "below 0 is claimed" in line and "-0" not in re.findall(">([^<]*)</text>", line)
    told = re.findall("<li>(.*?): perplexity", line)
    scaled, plain, delta = (f"eps 1e-5, Mamba-2, b = {b}" for b in ("1/sqrt(n)", "1", "Delta"))
    assert told[:2] == [f"{scaled} against {plain}", f"{delta} against {plain}"]
    assert told[-1] == "eps 0, Mamba-2, b = 1 against eps 0, Mamba-2, b = Delta"
