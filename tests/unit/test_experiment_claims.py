"""A claim's test says what its sentence says, for numbers on either side of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_up_results import made_up, result_of, status

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.experiments.principle_5 import DESIGNS, STEADY
from coefdyn.lab.experiments.result import HELD, NO_TEST, NOT_HELD, NOT_RUN, Result


def spread_over_seeds(wide: dict[str, float]):
    """Principle 5: a spread by design where b is of order 1, a tenth of it where b is smaller."""

    def score(facets, run):
        spread = wide[facets["design"]] / (10 if facets["b"] in STEADY else 1)
        return 0.5 + spread * run.seed / 2, None

    return score


def test_principle_5_judges_every_design_by_itself():
    experiment = get_experiment("principle-5")
    wide = {"exp, I": 0.4, "ReLU, I": 0.0, "Id, scalar": 0.2, "Id, Householder": -0.2}
    found = experiment.claims(result_of(experiment, "quick", spread_over_seeds(wide)))
    by_design = {design: status(found, f"{design}: b of order") for design in DESIGNS}
    assert by_design == {
        "exp, I": HELD,
        "ReLU, I": NO_TEST,  # the same function on both sides
        "Id, scalar": HELD,
        "Id, Householder": HELD,
    }
    assert status(found, "exp readout spreads most") == HELD
    (exp,) = [one for one in found if one.claim.startswith("exp, I")]
    assert "mean spread 0.040 against 0.400" in exp.numbers
    assert "b = 1/sqrt(n): 0.040 at 0.520" in exp.numbers
    assert "b = z: 0.400 at 0.700" in exp.numbers


def test_principle_5_is_not_decided_by_the_average_over_designs():
    """A large spread of one design with small b hides nothing of the other designs."""

    def score(facets, run):
        if facets["design"] == "exp, I":
            return (0.5 + 0.4 * run.seed if facets["b"] in STEADY else 0.5), None
        return (0.5 if facets["b"] in STEADY else 0.5 + 0.01 * run.seed), None

    experiment = get_experiment("principle-5")
    found = experiment.claims(result_of(experiment, "quick", score))
    assert status(found, "exp, I: b of order") == NOT_HELD
    assert status(found, "Id, scalar: b of order") == HELD


def test_principle_5_live_decides_nothing():
    experiment = get_experiment("principle-5")
    result = result_of(experiment, "live", lambda facets, run: (0.5, None))
    assert {one.status for one in experiment.claims(result)} == {NOT_RUN}


@pytest.mark.parametrize(("large", "expected"), [(1, HELD), (-1, NOT_HELD)])
def test_principle_2_asks_whether_suppressing_goes_with_selecting(large, expected):
    near = {"identity": 0.0, "exp": 0.2, "softplus": 0.4, "relu": 0.6}

    def seen(facets):
        share = near[facets["readout"]]
        return {"near_zero_fraction": share, "large_fraction": 0.1 + large * share / 100}

    experiment = get_experiment("principle-2")
    found = experiment.claims(result_of(experiment, "quick", lambda facets, run: (0.5, None), seen))
    assert status(found, "memorization", "no fewer in [0.9, 1]") == expected


def zeros(most: float, single: int):
    return {"zero_counts": [[[0.0, most]]], "largest_zero_count": single}


def test_principle_2_2_says_when_the_limit_was_never_approached():
    experiment = get_experiment("principle-2.2")
    for single, expected in ((0, NO_TEST), (3, HELD)):
        result = result_of(
            experiment, "quick", lambda facets, run: (0.5, None), lambda f, s=single: zeros(0.0, s)
        )
        assert {one.status for one in experiment.claims(result)} == {expected}


def test_principle_2_2_draws_every_count_inside_its_figure():
    """Trained models have counts far above n - 1, where the axis once ended."""
    experiment = get_experiment("principle-2.2")
    (axes,) = experiment.draw(experiment.load("standard")).axes
    highest = max(max(line.get_ydata()) for line in axes.lines)
    assert 8 < highest <= axes.get_ylim()[1]


def test_principle_2_2_compares_lengths_where_they_differ():
    experiment = get_experiment("principle-2.2")

    def claims(profile, copying, recall):
        counts = {"selective copying": copying, "fuzzy recall": recall}
        return experiment.claims(
            result_of(
                experiment,
                profile,
                lambda facets, run: (0.5, None),
                lambda facets: zeros(counts[facets["task"]], 7),
            )
        )

    words = "softplus: selective copying, the longer task, has more zeros"
    assert status(claims("paper", 5.0, 3.0), words) == HELD
    assert status(claims("paper", 3.0, 3.0), words) == NOT_HELD
    assert not [one for one in claims("quick", 5.0, 3.0) if "longer" in one.claim]


def mqar(values: dict[str, float]) -> list:
    experiment = get_experiment("dsf-mqar")
    score = lambda facets, run: (values.get(facets["model"], 0.9), None)  # noqa: E731
    return experiment.claims(result_of(experiment, "quick", score))


def test_two_models_on_mqar_are_on_a_par_only_if_both_have_learned():
    words = "normalized attention is on a par with S6"
    assert status(mqar({"S6": 0.86}), words) == HELD
    assert status(mqar({"S6": 0.80}), words) == NOT_HELD
    assert status(mqar({"S6": 0.37}), words) == NOT_HELD
    assert status(mqar({"S6": 0.37, "normalized attention": 0.37}), words) == NO_TEST


def test_linear_attention_approaches_softmax_at_the_largest_state_only():
    words = "linear attention with the largest n"
    assert status(mqar({"linear attention": 0.86}), words) == HELD
    assert status(mqar({"linear attention": 0.80}), words) == NOT_HELD
    experiment = get_experiment("dsf-mqar")

    def rising(facets, run):
        return (0.2 if facets["model"] == "linear attention" and facets["n"] == "4" else 0.9), None

    assert status(experiment.claims(result_of(experiment, "quick", rising)), words) == HELD


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
    assert "27 runs, seeds 0, 1, 7" in result.caption()
    assert result.outcomes()[0].values() == pytest.approx([0.5, 0.51, 0.57])
    assert len(experiment.load("quick", seeds=(0, 1), out=tmp_path).records) == 18


def test_a_further_seed_that_was_cut_short_is_named_and_left_out(tmp_path):
    experiment = get_experiment("principle-6")
    with_seeds(experiment, tmp_path, (0, 1))
    with_seeds(experiment, tmp_path, (7,), leave_out=4)
    result = experiment.load("quick", out=tmp_path)
    assert {record["seed"] for record in result.records} == {0, 1} and result.missing == 0
    assert "seeds 0, 1, seed 7 left out (5 of 9 runs)" in result.caption()


def test_further_seeds_stand_alone_where_the_profiles_own_were_not_run(tmp_path):
    experiment = get_experiment("principle-6")
    with_seeds(experiment, tmp_path, (7, 8))
    result = experiment.load("quick", out=tmp_path)
    assert result.missing == 0 and "seeds 7, 8" in result.caption()
    assert NOT_RUN not in {one.status for one in experiment.claims(result)}


def test_a_seed_of_other_variants_in_a_shared_file_is_not_counted(tmp_path):
    """Principle 2.2 reads principle-2.1's file and looks at some of its models."""
    whole, part = get_experiment("principle-2.1"), get_experiment("principle-2.2")
    for variant, run in whole.plan("quick").with_seeds((7,)).runs():
        if variant.facets["readout"] == "psi_relu":
            whole.file("quick", tmp_path).append(made_up(run, 0.5))
    assert "seed 7" not in part.load("quick", out=tmp_path).caption()
    assert "seed 7 left out (2 of 12 runs)" in whole.load("quick", out=tmp_path).caption()


def test_principle_1_takes_the_median_of_several_seeds():
    experiment = get_experiment("principle-1")
    plan = replace(experiment.plan("live"), seeds=(0, 1, 2))
    records = tuple(
        {
            "key": run.key,
            "config": {"design": run.design, "length": run.length},
            "seed": run.seed,
            "final": {"seconds": 1e-9 * run.length**2 * (100 if run.seed == 2 else 1)},
        }
        for _, run in plan.runs()
    )
    found = experiment.claims(Result(experiment.id, "live", plan, records))
    assert all("L^2.00" in one.numbers for one in found)
    lines = experiment.draw(Result(experiment.id, "live", plan, records)).axes[0].lines
    assert all(len(line.get_xdata()) == len(plan.lengths) for line in lines)
