"""Seeds of one's own beside a profile's, and several draws in a figure."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_results import made_up

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.experiments.result import Result


def test_principle_2_2_draws_every_count_inside_its_figure():
    """Trained models have counts far above n - 1, where the axis once ended."""
    experiment = get_experiment("principle-2.2")
    (axes,) = experiment.draw(experiment.load("standard")).axes
    highest = max(max(line.get_ydata()) for line in axes.lines)
    assert 8 < highest <= axes.get_ylim()[1]


def test_a_readers_seeds_are_shown_where_they_are_asked_for(tmp_path):
    experiment = get_experiment("principle-6")
    own = experiment.plan("quick").seeds
    for _, run in experiment.plan("quick").with_seeds((*own, 7)).runs():
        experiment.file("quick", tmp_path).append(made_up(run, 0.5 + 0.01 * run.seed))
    assert experiment.load("quick", out=tmp_path).outcomes()[0].seeds == list(own)
    result = experiment.load("quick", seeds=(0, 7), out=tmp_path)
    assert result.missing == 0 and "6 runs, seeds 0, 7" in result.caption()
    assert result.outcomes()[0].values() == pytest.approx([0.5, 0.57])


def test_principle_1_takes_the_median_of_several_seeds():
    experiment = get_experiment("principle-1")
    plan = replace(experiment.plan("quick"), seeds=(0, 1, 2))
    records = tuple(
        {
            "key": run.key,
            "config": {"design": run.design, "length": run.length},
            "seed": run.seed,
            "final": {"seconds": 1e-9 * run.length**2 * (100 if run.seed == 2 else 1)},
        }
        for _, run in plan.runs()
    )
    lines = experiment.draw(Result(experiment.id, "quick", plan, records)).axes[0].lines
    assert all(len(line.get_xdata()) == len(plan.lengths) for line in lines)
