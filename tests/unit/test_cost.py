"""Cost of a profile: runs, core-hours and bytes, by finished runs or by steps taken now."""

from __future__ import annotations

import json
import re

import pytest

from coefdyn.lab.__main__ import main
from coefdyn.lab.commands.cost import cost
from coefdyn.lab.experiments import get_experiment
from coefdyn.lab.experiments.result import core_hours

NUMBERS = re.compile(r"(\S+) runs, (\S+) steps, (\S+) steps/s .*: (\S+) core-hours, (\S+) MB")


def told(words: str) -> list[float]:
    found = NUMBERS.match(words)
    assert found is not None, words
    return [float(one) for one in found.groups()]


def test_finished_runs_bound_the_hours_that_they_took_and_the_bytes_that_they_take():
    experiment = get_experiment("principle-6")
    result = experiment.load("standard")
    runs, steps, per_second, hours, megabytes = told(cost(experiment, "standard"))
    assert hours == pytest.approx(steps / per_second / 3600, rel=0.02)
    assert hours >= 0.99 * core_hours(result)
    assert runs == len(result.records)
    lines = experiment.file("standard").path.read_text().splitlines()
    kept = {json.dumps(one["key"]) for one in result.records}
    wanted = [line for line in lines if any(key in line for key in kept)]
    assert megabytes == pytest.approx(sum(map(len, wanted)) / 1e6, rel=0.02)


def test_where_nothing_is_finished_some_steps_are_taken(tmp_path):
    experiment = get_experiment("dsf-mqar")
    profile = experiment.profiles[0]
    words = cost(experiment, profile, out=tmp_path)
    runs, steps, per_second, _, _ = told(words)
    planned = [run for _, run in experiment.plan(profile).runs()]
    assert (runs, steps) == (len(planned), sum(run.train.steps for run in planned))
    assert per_second > 0 and f"(4 steps of {len(planned)} runs)" in words


def test_list_tells_the_cost_of_what_it_is_asked_for(capsys):
    assert main(["list", "principle-1", "--cost"]) == 0
    assert capsys.readouterr().out.count("nothing is trained") == len(
        get_experiment("principle-1").profiles
    )
    assert main(["list", "principle-one"]) == 1
    assert "principle-1" in capsys.readouterr().err
