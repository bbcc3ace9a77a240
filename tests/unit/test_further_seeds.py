"""Further seeds of a profile: shown once they are complete, named where they were cut short."""

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


def with_seeds(experiment, out, seeds, leave_out: int = 0) -> None:
    """Finished records of these seeds on disk, all but the last few."""
    runs = experiment.plan("quick").with_seeds(seeds).runs()
    for _, run in runs[: len(runs) - leave_out]:
        experiment.file("quick", out).append(made_up(run, 0.5 + 0.01 * run.seed))


def test_a_further_seed_is_shown_once_it_is_complete(tmp_path):
    experiment = get_experiment("principle-6")
    with_seeds(experiment, tmp_path, (0, 1, 7))
    result = experiment.load("quick", out=tmp_path)
    assert result.missing == 0 and result.cut == {}
    assert "9 runs, seeds 0, 1, 7" in result.caption()
    assert result.outcomes()[0].values() == pytest.approx([0.5, 0.51, 0.57])
    assert len(experiment.load("quick", seeds=(0, 1), out=tmp_path).records) == 6


def test_a_further_seed_that_was_cut_short_is_named_and_left_out(tmp_path):
    experiment = get_experiment("principle-6")
    with_seeds(experiment, tmp_path, (0, 1))
    with_seeds(experiment, tmp_path, (7,), leave_out=2)
    result = experiment.load("quick", out=tmp_path)
    assert {record["seed"] for record in result.records} == {0, 1} and result.missing == 0
    assert "seeds 0, 1, seed 7 left out (1 of 3 runs)" in result.caption()


def test_further_seeds_stand_alone_where_the_profiles_own_were_not_run(tmp_path):
    experiment = get_experiment("principle-6")
    with_seeds(experiment, tmp_path, (7, 8))
    result = experiment.load("quick", out=tmp_path)
    assert result.missing == 0 and "seeds 7, 8" in result.caption()


def test_a_seed_of_other_variants_in_a_shared_file_is_not_counted(tmp_path):
    """Principle 2.2 reads principle-2.1's file and looks at some of its models."""
    whole, part = get_experiment("principle-2.1"), get_experiment("principle-2.2")
    for variant, run in whole.plan("paper").with_seeds((7,)).runs():
        if variant.facets["readout"] == "psi_relu":
            whole.file("paper", tmp_path).append(made_up(run, 0.5))
    assert "seed 7" not in part.load("paper", out=tmp_path).caption()
    assert "seed 7 left out (20 of 120 runs)" in whole.load("paper", out=tmp_path).caption()


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
