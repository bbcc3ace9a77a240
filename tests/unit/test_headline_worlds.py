"""Made-up runs that bear every headline claim out, that refute it, and in which nothing differs.

A claim that no plausible outcome refutes says nothing. The plainest outcome is that nothing
differs: designs are alike, and training leaves a measure where the untrained network had it.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from made_up_results import result_of

from coefdyn.analysis.spectra import EDGES
from coefdyn.lab.experiments import rule
from coefdyn.lab.experiments.measure import OTHERS, POINTED
from coefdyn.lab.experiments.moduli import NEAR_ONE, share
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.headline.claim import Ahead, Claim, Diverges, Every, Reaches, Test, parts
from coefdyn.lab.headline.claims import HEADLINES
from coefdyn.lab.headline.former import FORMER
from coefdyn.lab.headline.group import Group
from coefdyn.lab.headline.judge import as_judged, judge
from coefdyn.lab.headline.runs import BEGUN

TRAINED = [one for one in (*HEADLINES, *FORMER) if one.kind == "trained"]
MARGIN = [one for one in TRAINED if one.group in BEGUN]
CLAIMED, REFUTED, ALIKE = "claimed", "refuted", "alike"
#: what a value is where nothing differs, by measure, and the step from one design to the next
LEVELS = {"perplexity": (8.0, -3.0)}
ACCURACY = (0.5, 0.94)


def _key(facets, measure) -> tuple[str, str]:
    return ", ".join(facets.values()), measure


def _levels(tests: list[Test], world: str) -> dict[tuple[str, str], float]:
    """A value for each design and measure that agrees with every test, or with none of them."""
    sign = 1 if world == CLAIMED else -1 if world == REFUTED else 0
    ranks: dict[tuple[str, str], float] = {}
    for test in tests:
        if isinstance(test, Ahead):
            for facets in (test.a, test.b):
                ranks.setdefault(_key(facets, test.measure.name), 0.0)
    orders = [one for one in tests if isinstance(one, Ahead)]
    for _ in orders:  # longest chains
        for one in orders:
            high, low = _key(one.a, one.measure.name), _key(one.b, one.measure.name)
            ranks[high] = max(ranks[high], ranks[low] + 1)
    found = {}
    for (name, measure), rank in ranks.items():
        middle, step = LEVELS.get(measure, ACCURACY)
        centred = rank if measure in LEVELS else min(rank, 1.0) - 0.5
        found[name, measure] = middle + sign * step * centred
    for one in tests:
        if isinstance(one, Ahead) and world == REFUTED and one.measure.counted:
            low = _key(one.b, one.measure.name)  # with room for the lead that is asked
            found[low] = min(found[low], 0.97 - one.by)
        if isinstance(one, Diverges):
            claimed = 0.0 if one.never else 1.0
            value = {CLAIMED: claimed, REFUTED: 1.0 - claimed, ALIKE: 0.0}[world]
            found[_key(one.a, "diverges")] = value
        elif isinstance(one, Reaches):
            side = (-1 if one.less else 1) * sign
            found[_key(one.a, one.measure.name)] = one.bound + side * 0.3 if sign else 0.6
    return found


def _share(value: float) -> list[float]:
    """A histogram of moduli with so much about 1, the rest in the lowest bin."""
    width = len(EDGES) - 1
    place = next(i for i in range(width) if NEAR_ONE[0] <= EDGES[i] and EDGES[i + 1] <= NEAR_ONE[1])
    found = [0.0] * width
    found[0], found[place] = 1 - value, value
    return found


def _write(record: dict, name: str, levels: dict[tuple[str, str], float]) -> None:
    for (whose, measure), value in levels.items():
        if whose != name:
            continue
        value = value + (record["seed"] % 5) * 1e-4
        right = measure == "accuracy" or measure.endswith("times the length")
        if right and record["world"] == REFUTED and record["first"]:
            value = min(value, 0.5)  # one seed short of all, so that there is room for a lead
        if measure in ("accuracy", "perplexity"):
            record["final"][measure] = value
            record["solved"] = False
        elif measure == "diverges":
            record["diverged_at"] = 1 if value > 0.5 else None
        elif measure in (POINTED.name, OTHERS.name):
            head = record["diagnostics"]["heads"][0][measure == OTHERS.name]
            head["lost"] = value
        elif times := re.fullmatch(r"accuracy at (\d+) times the length", measure):
            record["diagnostics"]["lengths"][times[1]] = value
        elif measure == share(NEAR_ONE, "first").name:
            layer = {"share": _share(value)}
            record["diagnostics"]["normalized"]["moduli"]["trained"] = [layer, layer]
        elif measure.endswith("trained less untrained"):
            trained = levels[whose, share(NEAR_ONE, "first").name]
            before = {CLAIMED: 0.1, REFUTED: 0.9}.get(record["world"], trained)
            layer = {"share": _share(before + (3 * record["seed"] % 5) * 1e-4)}
            record["diagnostics"]["normalized"]["moduli"]["initial"] = [layer, layer]
        else:
            raise AssertionError(f"no made-up value for {measure!r}: say how a run records it")


def status_in(world: str, group: Group, claim: Claim) -> str:
    """The verdict on a claim in a world in which its control holds."""
    control = [] if claim.control is None else parts(claim.control)
    fixed = {} if claim.control is None else _levels(control, CLAIMED)
    levels = {**fixed, **_levels(parts(claim.test), world)}
    result = result_of(group, STANDARD, lambda facets, run: (0.95, None))
    for record in result.records:
        record["world"] = world
        record["first"] = record["seed"] == group.plan(STANDARD).seeds[0]
        _write(record, ", ".join(record["config_of"].values()), levels)
    return judge(claim, as_judged(result))[0]


@pytest.fixture(autouse=True)
def named_records(monkeypatch):
    """Made-up records with the facets of their variant."""
    import made_up_results

    made = made_up_results._record

    def record(variant, run, score, seen):
        return {**made(variant, run, score, seen), "config_of": dict(variant.facets)}

    monkeypatch.setattr(made_up_results, "_record", record)


@pytest.mark.parametrize("one", TRAINED, ids=lambda one: one.id)
def test_some_outcome_bears_a_claim_out_and_another_refutes_it(one):
    group = Group(one.group)
    assert status_in(CLAIMED, group, one.claim) == rule.HELD
    assert status_in(REFUTED, group, one.claim) == rule.NOT_HELD


@pytest.mark.parametrize("one", TRAINED, ids=lambda one: one.id)
def test_a_claim_is_not_held_where_nothing_differs(one):
    if one.id == "prose/eps":
        pytest.skip("it claims that nothing much differs, and its control that something did")
    assert status_in(ALIKE, Group(one.group), one.claim) != rule.HELD


@pytest.mark.parametrize("one", MARGIN, ids=lambda one: one.id)
def test_where_nothing_differs_a_claim_with_a_margin_says_that_or_has_no_test(one):
    alone = {"sign/mostly": rule.NOT_HELD}  # of one design, which then solves nothing
    graded = rule.SAME if one.id.startswith("prose/") else rule.NO_TEST
    assert status_in(ALIKE, Group(one.group), one.claim) == alone.get(one.id, graded)


def test_a_threshold_below_what_untrained_networks_have_is_refused():
    """The first test of the claim on eigenvalues about one: 5 % of them, without a comparison."""
    (one,) = (one for one in TRAINED if one.id == "spectra/near-one")
    first = tuple(
        replace(test, bound=0.05)
        for test in parts(one.claim.test)
        if not test.measure.name.endswith("untrained")
    )
    empty = replace(one.claim, test=Every(first))
    assert status_in(ALIKE, Group(one.group), empty) == rule.HELD
