"""Kept runs judged anew: what version 2 of the rule sees of them."""

from __future__ import annotations

from dataclasses import fields

import pytest

from coefdyn.lab.experiments import anew, get_experiment, rule, rule2
from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.experiments.result import Result


def seen(name, *parts):
    """The kept result of an experiment and its claims by id, by these parts of the rule."""
    experiment = get_experiment(name)
    kept = experiment.load(STANDARD)
    given = {one.name: getattr(kept, one.name) for one in fields(Result) if one.init}
    result = anew.Judged(**{**given, "fewest": 2}, parts=parts)
    return result, {claim.id: claim for claim in experiment.registered_claims()}


@pytest.mark.parametrize("name", ["dsf-mqar", "principle-6", "scoreboard"])
def test_no_pilot_seed_is_judged(name):
    result, _ = seen(name, "pilots")
    pilot = set(result.plan.pilot)
    outcomes = result.outcomes()
    assert outcomes
    assert pilot
    assert not any(pilot & set(one.seeds) for one in outcomes)


def test_a_verdict_counts_all_judged_seeds():
    """Four seeds held what twelve do not."""
    result, claims = seen("principle-5-lm", "statistics")
    claim = claims["language-stopped/softmax-inverse-sqrt"]
    status, numbers = anew.judge_anew(claim, result)
    assert status == rule.UNDECIDED
    assert "(12 seeds)" in numbers


def test_a_lead_beyond_the_room_is_no_test():
    result, claims = seen("scoreboard", "room")
    assert anew.judge_anew(claims["board/long-memory"], result) == (rule.NO_TEST, rule2.NO_ROOM)


def test_rates_at_an_edge_decide_nothing():
    """Every language model chose the largest of its three rates."""
    result, claims = seen("principle-5-lm", "rates")
    assert all(result.unbracketed(one.variant) for one in result.outcomes())
    for claim in claims.values():
        assert anew.judge_anew(claim, result) == (rule.NO_TEST, rule2.NOT_BRACKETED)


def test_a_pilot_that_solves_the_task_needs_no_neighbour():
    result, _ = seen("dsf-mqar", "rates")
    solved = [one for one in result.outcomes() if all(r["solved"] for r in one.records)]
    assert solved
    assert not any(result.unbracketed(one.variant) for one in solved)


def test_the_command_tells_what_changes_and_by_which_part(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["anew", "room"])
    anew.main()
    *changed, first, second, _, last = capsys.readouterr().out.strip().split("\n")
    assert changed
    assert all(line.endswith(f"no test ({rule2.NO_ROOM})") for line in changed)
    before, after = (
        [int(part.split()[0]) for part in line.partition(": ")[2].split(", ")]
        for line in (first, second)
    )
    assert sum(before) == sum(after)
    no_test = rule.STATUSES.index(rule.NO_TEST)
    assert after[no_test] - before[no_test] == len(changed)
    assert "wrong by chance" in last
    monkeypatch.setattr("sys.argv", ["anew", "pilot"])
    with pytest.raises(ValueError, match="pilots"):
        anew.main()
