"""Shares counted raw and divided: which verdicts turn on the count, on the kept runs."""

from __future__ import annotations

from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.pages.shares import counted_by, shares_markdown


def statuses(name: str, form: str) -> dict[str, str]:
    experiment = get_experiment(name)
    result = experiment.load(STANDARD)
    return {
        claim.id: counted_by(claim, form).judge(result).status
        for claim in experiment.registered_claims()
    }


def test_divided_counts_are_those_of_the_registered_claims():
    for name in ("principle-2", "principle-2.1"):
        experiment = get_experiment(name)
        for claim in experiment.registered_claims():
            assert counted_by(claim, "normalized").test.words == claim.test.words


def test_the_zero_set_orders_the_raw_zeros_on_all_three_tasks():
    raw, divided = (statuses("principle-2", form) for form in ("raw", "normalized"))
    order = [f"{task}/near-zero-order" for task in ("memorization", "selective-copying")]
    assert {raw[one] for one in (*order, "fuzzy-recall/near-zero-order")} == {"held"}
    assert divided["fuzzy-recall/near-zero-order"] == "not held"


def test_both_counts_stand_side_by_side():
    experiment = get_experiment("principle-2.1")
    told = shares_markdown(experiment, experiment.load(STANDARD))
    assert "psi_relu | 0.458 | 0.499 | 0.977 |" in told
    said = "every feature map sets fewer coefficients near zero than exp | not held | held |"
    assert said in told
    assert "less accurate than exp |" not in told  # that one counts no coefficient
