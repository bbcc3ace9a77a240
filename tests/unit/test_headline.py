"""Headline claims: bracketed rates, fresh seeds that are judged whole, and what each says."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from made_up_results import made_up, result_of

from coefdyn.lab.experiments import (
    EXPERIMENTS,
    get_experiment,
    ledger,
    rates,
    rule,
)
from coefdyn.lab.experiments.plan import STANDARD, Plan, standard_training
from coefdyn.lab.headline.__main__ import main
from coefdyn.lab.headline.claim import KINDS
from coefdyn.lab.headline.claims import HEADLINES
from coefdyn.lab.headline.former import FORMER
from coefdyn.lab.headline.group import Group
from coefdyn.lab.headline.judge import NOT_BRACKETED
from coefdyn.lab.headline.runs import GROUPS, PILOT, SEEDS
from coefdyn.lab.tasks import IGNORE, sample, split_generator
from coefdyn.lab.training import ResultFile, RunConfig, RunOptions
from coefdyn.lab.training.diagnostics import LONGER, without_heads
from coefdyn.lab.training.loop import initial_model

EVERY = (*HEADLINES, *FORMER)
TRAINED = [one for one in EVERY if one.kind == "trained"]
RECALL = GROUPS["recall"]()


def searched(plan: Plan, score) -> tuple[dict, Plan]:
    """The records of every run that the plan asks for, and the plan settled by them."""
    records: dict[str, dict] = {}
    while missing := [run for _, run in plan.runs() if run.key not in records]:
        records |= {run.key: made_up(run, score(run)) for run in missing}
        plan = plan.settled(records)
    return records, plan


def one_of(plan: Plan) -> Plan:
    return replace(plan, variants=plan.variants[:1])


def rates_of(records) -> set[float]:
    return {one["config"]["train"]["learning_rate"] for one in records.values()}


def test_a_best_rate_at_the_edge_extends_the_grid_until_it_is_bracketed():
    plan = one_of(RECALL)
    best = 1e-2 * 3  # the first beyond the grid
    rising = {1e-3: 0.2, 3e-3: 0.3, 1e-2: 0.4, best: 0.5, 3 * best: 0.3}
    records, settled = searched(plan, lambda run: rising[run.train.learning_rate])
    assert rates_of(records) == set(rising)
    (name,) = settled.chosen
    assert settled.chosen[name] == (best, 0.0)
    assert settled.search(plan.variants[0], records)[1].bracketed
    assert len(records) == len(PILOT) * len(rising) + len(SEEDS)


def test_a_best_rate_that_stays_at_the_edge_is_not_bracketed_and_decides_nothing():
    plan = one_of(RECALL)
    records, settled = searched(plan, lambda run: min(0.8, run.train.learning_rate))
    assert len(rates_of(records)) == rates.MOST_RATES
    assert not settled.search(plan.variants[0], records)[1].bracketed

    group = Group("recall")
    result = result_of(group, STANDARD, lambda _, run: (min(0.8, run.train.learning_rate), None))
    (found,) = group.claims(result)
    assert (found.status, found.numbers) == (rule.NO_TEST, NOT_BRACKETED)


def test_a_rate_that_solves_the_task_ends_the_search():
    records, _ = searched(one_of(RECALL), lambda run: 1.0)
    assert rates_of(records) == {3e-3}
    assert len(records) == len(PILOT) + len(SEEDS)


def test_judged_runs_wait_for_the_pilot_and_pilot_seeds_are_never_judged():
    plan = one_of(RECALL)
    assert {run.seed for _, run in plan.runs()} == set(PILOT)
    _, settled = searched(plan, lambda run: 0.5)
    assert {run.seed for _, run in settled.runs()} == {*PILOT, *SEEDS}
    result = result_of(Group("recall"), STANDARD, lambda *_: (0.5, None))
    assert all(one.seeds == list(SEEDS) for one in result.outcomes())


def test_a_pilot_that_is_judged_is_refused():
    with pytest.raises(ValueError, match="pilot seeds that are not judged"):
        replace(RECALL, pilot=(SEEDS[0], 5))
    with pytest.raises(ValueError, match="one weight decay"):
        replace(RECALL, weight_decays=(0.0, 0.1))


def test_loading_takes_the_pilot_seeds_for_no_further_ones(tmp_path):
    group = Group("heads")
    kept = result_of(group, STANDARD, lambda *_: (0.5, None))
    file = group.file(STANDARD, tmp_path)
    for record in kept.records:
        file.append(record)
    loaded = group.load(STANDARD, out=tmp_path)
    assert loaded.missing == 0
    assert loaded.plan.seeds == SEEDS
    assert loaded.outcomes()[0].seeds == list(SEEDS)


def test_no_kept_run_has_a_fresh_seed():
    judged = {*PILOT}
    for plan in (make() for make in GROUPS.values()):
        judged |= {seed for one in plan.variants for seed in plan.seeds_of(one)}
    for name in EXPERIMENTS:
        experiment = get_experiment(name)
        if STANDARD in experiment.profiles and not experiment.stored_as:
            seen = {one["seed"] for one in experiment.file(STANDARD).records()}
            assert not seen & judged, name


def test_every_headline_has_what_its_kind_needs():
    ids = [one.id for one in EVERY]
    assert len(set(ids)) == len(ids)
    assert {one.kind for one in HEADLINES} == set(KINDS)
    kept = {one.id for name in EXPERIMENTS for one in ledger.verdicts(name)}
    assert not kept & set(ids)
    assert {one.group for one in TRAINED} == set(GROUPS)
    for one in EVERY:
        assert one.sentence.endswith(".") and one.limits.endswith("."), one.id
        assert bool(one.claim) == bool(one.statistic) == (one.kind == "trained"), one.id
        assert bool(one.shown_by) == (one.kind != "trained"), one.id


@pytest.mark.parametrize("one", TRAINED, ids=lambda one: one.id)
def test_a_claim_names_variants_that_are_trained(one):
    plan = GROUPS[one.group]()
    for facets in one.claim.compared:
        assert len(plan.those_with([facets])) == 1, facets
    assert min(len(plan.seeds_of(one)) for one in plan.variants) == 12
    for _, run in plan.runs():
        assert run.train.validation >= 256


@pytest.mark.parametrize("name", GROUPS)
def test_eleven_seeds_decide_nothing_and_twelve_do(name):
    group = Group(name)
    # every design solves what it is asked, so that no search is cut
    result = result_of(group, STANDARD, lambda facets, run: (0.95 - run.seed / 1e5, None))
    assert all(one.status != rule.NOT_RUN for one in group.claims(result))
    last = [one for one in result.records if one["seed"] == group.plan(STANDARD).seeds[-1]]
    less = replace(result, records=tuple(one for one in result.records if one not in last))
    assert all(one.status == rule.NOT_RUN for one in group.claims(less))


def test_a_sign_is_held_by_ten_seeds_and_open_with_nine():
    group = Group("parity")

    def result(right: int):
        def score(facets, run):
            flips = facets["design"] in ("Householder, z", "scaled Householder")
            return (0.97 if flips and run.seed - SEEDS[0] < right else 0.95), None

        made = result_of(group, STANDARD, score)
        for record in made.records:
            long = 0.97 if record["final"]["accuracy"] > 0.96 else 0.5
            record["diagnostics"]["lengths"] = {"4": long}
        return made

    assert group.claims(result(10))[0].status == rule.HELD
    assert group.claims(result(9))[0].status == rule.UNDECIDED
    assert group.claims(result(2))[0].status == rule.NOT_HELD


def test_the_head_that_the_map_points_at_is_the_one_with_the_largest_map():
    group = Group("heads")
    result = result_of(group, STANDARD, lambda *_: (0.95, None))
    assert group.claims(result)[0].status == rule.HELD
    for record in result.records:
        heads = [{"map": 0.1, "lost": 0.9}, {"map": 0.8, "lost": 0.1}]
        record["diagnostics"]["heads"] = [heads]
    assert group.claims(replace(result))[0].status == rule.NOT_HELD


@pytest.mark.dear("a run of a claim is trained as it is judged")
@pytest.mark.reads("coefdyn")
@pytest.mark.nightly("test_the_pilot_chooses_the_setting_of_the_other_seeds, on a short run")
def test_one_run_of_a_group_is_trained_resumed_and_its_weights_kept(tmp_path, monkeypatch):
    """A tiny budget of steps; the second call trains nothing."""
    group = Group("parity")
    plan = GROUPS["parity"]()
    short = replace(
        plan,
        variants=(replace(plan.variants[2], keep=True),),
        train=replace(plan.train, steps=4, warmup=0, evaluate_every=4, validation=8),
        learning_rates=(3e-3, 1e-3, 1e-2),
        seeds=SEEDS[:1],
        pilot=PILOT[:1],
    )
    monkeypatch.setattr(group, "plan", lambda profile: short)
    options = RunOptions(workers=1, progress=False)
    result = group.run(STANDARD, out=tmp_path, options=options)
    assert result.missing == 0
    judged = [one for one in result.records if one["seed"] == SEEDS[0]]
    kept = sorted(path.stem for path in (tmp_path / "headline/parity/weights").iterdir())
    assert kept == [one["key"] for one in judged]
    assert set(judged[0]["diagnostics"]["lengths"]) == {"1", "2", "4", "8"}
    assert judged[0]["claims"] == {"headline/parity": group.registrations()}
    monkeypatch.setattr("coefdyn.lab.training.runs.train_run", lambda *_: pytest.fail("trained"))
    again = group.run(STANDARD, out=tmp_path, options=options)
    assert {one["key"] for one in again.records} == {one["key"] for one in result.records}
    assert len(ResultFile(group.file(STANDARD, tmp_path).path).records()) == len(result.records)


def test_the_command_shows_every_claim(tmp_path, capsys):
    assert main(["show", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert all(f"{one.id} ({one.kind})" in printed for one in EVERY)
    assert printed.count(": not run\n") == len(TRAINED)
    assert main(["show", "sign/beyand", "--out", str(tmp_path)]) == 1
    assert "sign/beyond" in capsys.readouterr().err


def test_ablating_a_head_is_zeroing_its_columns_of_the_output_projection():
    (variant,) = GROUPS["heads"]().variants
    run = RunConfig(task=variant.task, model=variant.model, train=standard_training(100))
    model = initial_model(run)
    with torch.no_grad():
        found = without_heads(model, run.task, 0)
    assert [len(layer) for layer in found] == [4, 4]
    batch = sample(run.task, LONGER, split_generator(0, "test"), "test")

    def right() -> float:
        asked = batch.targets != IGNORE
        with torch.no_grad():
            said = model(batch.inputs).argmax(-1)
        return float((said == batch.targets)[asked].double().mean())

    whole, projection = right(), model.blocks[1].mixer.output.projection.weight
    with torch.no_grad():
        projection[:, 2 * 16 : 3 * 16] = 0.0
    assert found[1][2]["lost"] == pytest.approx(whole - right(), abs=1e-4)
    assert all(0 <= head["map"] <= 1 for layer in found for head in layer)
