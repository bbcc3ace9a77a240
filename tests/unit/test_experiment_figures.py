"""Figures of the experiments: the interval that judges stands beside every mean, and the control
has a name.
"""

from __future__ import annotations

import math

import pytest
from made_up_results import result_of

from coefdyn.lab.experiments import get_experiment, principle_4
from coefdyn.lab.experiments.figures import (
    CONTROL,
    INTERVAL,
    draw_band,
    draw_bar,
    draw_interval,
    leaks,
    legend_entries,
    new_figure,
)
from coefdyn.lab.experiments.intervals import t_interval
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.rule import MIN_SEEDS
from coefdyn.lab.pages.evidence import show_kept

SEEDS = [0.50, 0.55, 0.61, 0.70]
#: experiments whose figures draw means over seeds
MEANS = (
    "principle-2",
    "principle-2.1",
    "principle-2.2",
    "principle-3",
    "principle-4",
    "principle-5",
    "principle-5-lm",
    "principle-6",
    "dsf-mqar",
    "dsf-normalizers",
    "dsf-table-1",
    "heads",
)


def intervals(axes) -> list:
    return [line for line in axes.lines if line.get_gid() == INTERVAL]


def scattered(facets, run):
    return 0.5 + 0.07 * run.seed, None


def said(figure) -> list[str]:
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes)]
    return [text.get_text() for one in legends if one for text in one.get_texts()]


def test_a_bar_of_four_seeds_has_the_interval_that_judges():
    _, (axes,) = new_figure()
    draw_bar(axes, 2.0, SEEDS)
    (line,) = intervals(axes)
    found = t_interval(SEEDS)
    assert list(line.get_ydata()) == [found.low, found.high]
    assert line.get_markevery() == [0, 1]
    (bar,) = axes.patches
    assert bar.get_height() == pytest.approx(found.mean)
    seeds = next(one for one in axes.lines if one.get_gid() is None)
    assert list(seeds.get_ydata()) == SEEDS
    assert seeds.get_xdata()[0] < 2.0 < line.get_xdata()[0], "neither hides the other"


def test_fewer_seeds_than_decide_have_no_interval():
    _, (axes,) = new_figure()
    draw_bar(axes, 0.0, SEEDS[: MIN_SEEDS - 1])
    draw_band(axes, [0, 1], [[0.1, 0.2]] * (MIN_SEEDS - 1), "black")
    assert not draw_interval(axes, 1.0, [*SEEDS[:3], math.nan])
    assert intervals(axes) == [] and legend_entries([axes]) == []
    assert len(axes.collections) == 0


def test_an_interval_ends_without_a_cap_where_accuracies_end():
    _, (axes,) = new_figure()
    values = [0.55, 1.0, 1.0, 1.0]
    draw_interval(axes, 0.0, values, along="x")
    (line,) = intervals(axes)
    assert t_interval(values).high > 1
    assert list(line.get_xdata()) == [t_interval(values).low, 1.0]
    assert line.get_markevery() == [0]


def test_an_interval_at_a_share_of_the_width_leaves_the_scale_alone():
    _, (axes,) = new_figure()
    axes.plot([0.2, 0.3], [0.5, 0.6])
    before = axes.get_xlim()
    draw_interval(axes, 0.98, SEEDS, inside=True)
    assert axes.get_xlim() == before
    (line,) = intervals(axes)
    x, y = line.get_transform().transform((0.98, 0.5))
    assert axes.transData.inverted().transform((x, y))[1] == pytest.approx(0.5)


@pytest.mark.parametrize("name", MEANS)
def test_means_of_the_standard_size_have_intervals_that_are_explained_once(name):
    experiment = get_experiment(name)
    figure = experiment.figure(result_of(experiment, "standard", scattered))
    assert any(intervals(axes) for axes in figure.axes)
    assert said(figure).count(INTERVAL) == 1


@pytest.mark.parametrize("name", [x for x in MEANS if "quick" in get_experiment(x).profiles])
def test_two_seeds_or_one_have_no_interval(name):
    experiment = get_experiment(name)
    figure = experiment.figure(result_of(experiment, "quick", scattered))
    assert not any(intervals(axes) for axes in figure.axes)
    assert INTERVAL not in said(figure)


@pytest.mark.parametrize("name", ["principle-3", "principle-4", "principle-6", "dsf-mqar"])
def test_every_mean_accuracy_has_the_interval_of_its_claims(name):
    experiment = get_experiment(name)
    result = result_of(experiment, "standard", scattered)
    drawn = [line for axes in experiment.figure(result).axes for line in intervals(axes)]
    assert len(drawn) == len(result.variants)
    expected = {(t_interval(one.values()).low, t_interval(one.values()).high)
                for one in result.outcomes()}  # fmt: skip
    assert {tuple(line.get_ydata()) for line in drawn} == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("principle-2", "identity, eta = 1 (control)"),
        ("principle-2.1", "phi = identity, eta = 1 (control)"),
        ("principle-3", CONTROL),
        ("principle-5-lm", "hatched: control of the pair with eps 0"),
        ("principle-6", CONTROL),
        ("dsf-mqar", "guess by the query's place (control)"),
        ("heads", "softmax, 1 and 8 heads (control)"),
    ],
)
def test_a_figure_names_its_control(name, words):
    experiment = get_experiment(name)
    figure = experiment.figure(result_of(experiment, "standard", scattered))
    assert words in said(figure)


def test_the_hatched_bars_of_principle_3_have_one_layer_and_no_source():
    experiment = get_experiment("principle-3")

    def score(facets, run):
        one = facets["layers"] == "1" and facets["positions"] == "nothing"
        return 0.25 if one else 0.75, None

    (axes,) = experiment.figure(result_of(experiment, "standard", score)).axes
    hatched = [bar.get_height() for bar in axes.patches if bar.get_hatch()]
    assert hatched == [0.25, 0.25]


def test_the_exponents_of_principle_1_stand_with_their_intervals():
    experiment = get_experiment("principle-1")
    figure = experiment.figure(experiment.load("standard"))
    assert sum(" p = " in words and "[" in words for words in said(figure)) == 3


def test_mean_curves_have_bands():
    result = result_of(get_experiment("principle-4"), "standard", scattered)
    figure = principle_4.beyond_figure(result)
    assert all(axes.collections for axes in figure.axes)
    assert said(figure).count(f"band: {INTERVAL}") == 1


def seeds_that_reach(*reaching: int):
    return lambda facets, run: (0.95 if run.seed in reaching else 0.5, None)


def test_a_table_tells_how_many_seeds_reach_nine_tenths_and_how_soon():
    experiment = get_experiment("dsf-normalizers")
    result = result_of(experiment, "standard", seeds_that_reach(0, 2))
    lines = experiment.table(result)
    assert all(line.endswith("; .9 by 2 of 8 seeds, first after 100 steps") for line in lines)
    nobody = experiment.table(result_of(experiment, "standard", seeds_that_reach()))
    assert all(line.endswith("; .9 by 0 of 8 seeds") for line in nobody)


def test_text_that_is_continued_is_not_judged_by_accuracy():
    experiment = get_experiment("dsf-table-1")
    lines = experiment.table(result_of(experiment, "standard", seeds_that_reach(0)))
    assert {"language" in line for line in lines if ".9 by" not in line} == {True}
    assert not any("language" in line for line in lines if ".9 by" in line)


@pytest.mark.parametrize(
    ("reaching", "told"),
    [
        (range(8), "8 of 8 | 100"),
        (range(5), "5 of 8 | 100"),
        (range(4), "4 of 8 | half or more never reach it"),
        ((), "0 of 8 | never"),
    ],
)
def test_a_page_tells_how_soon_nine_tenths_is_reached(reaching, told, monkeypatch):
    experiment = get_experiment("dsf-normalizers")
    result = result_of(experiment, "standard", seeds_that_reach(*reaching))
    said = shown(experiment, {"standard": result}, monkeypatch)
    assert "{dropdown} Accuracy, and how soon it reaches 0.9, by variant" in said[-1]
    interval = t_interval(result.one(eta="exp").values())
    assert f"| exp | 0.003 | {interval} | {told} |" in said[-1]


@pytest.mark.parametrize("name", ["principle-1", "principle-2.2", "principle-5-lm"])
def test_a_page_without_accuracies_of_its_own_has_no_such_table(name, monkeypatch):
    experiment = get_experiment(name)
    said = shown(experiment, {"standard": experiment.load("standard")}, monkeypatch)
    assert said and not any("dropdown" in one for one in said)


def shown(experiment, results, monkeypatch) -> list[str]:
    """Markdown that a page displays for the kept runs."""
    import IPython.display

    said: list[str] = []

    def display(*things):
        said.extend(one.data for one in things if isinstance(one, IPython.display.Markdown))

    monkeypatch.setattr(IPython.display, "display", display)
    show_kept(experiment, results)
    return said


@pytest.mark.parametrize(
    "name",
    [
        "dsf-table-1",
        pytest.param("spectra", marks=pytest.mark.nightly("the same of a smaller file")),
        pytest.param("spectra-mods", marks=pytest.mark.nightly("the same of a smaller file")),
    ],
)
def test_no_figure_shows_runs_on_the_withdrawn_text(name):
    experiment = get_experiment(name)
    result = experiment.load(STANDARD)
    assert any(leaks(one.facets["task"], STANDARD) for one in result.variants)
    drawn = experiment.figure(result)
    titles = [axes.get_title(place) for axes in drawn.axes for place in ("left", "center")]
    assert any(titles) and not any("language" in title for title in titles)
    assert not leaks("language", "paper")
