"""Experiments: every plan can be built and trained; a run shows numbers alone."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from made_up_results import made_up, result_of

from coefdyn.lab.__main__ import main
from coefdyn.lab.experiments import EXPERIMENTS, get_experiment, ledger, principle_3
from coefdyn.lab.experiments.baselines import frequent_value_accuracy
from coefdyn.lab.experiments.plan import PROFILES
from coefdyn.lab.experiments.result import Result
from coefdyn.lab.experiments.timing import growth
from coefdyn.lab.scripts.repeat import DIFFERS, EQUAL, WITHIN, Kept, draw, status
from coefdyn.lab.tasks import NoisyRecallConfig, splits
from coefdyn.lab.tasks.base import sample, split_generator
from coefdyn.lab.training import RunOptions, train_run
from coefdyn.lab.training.results import config_key
from coefdyn.models import SequenceModel

TRAINED = [name for name in EXPERIMENTS if name != "principle-1"]
CASES = [(name, profile) for name in TRAINED for profile in get_experiment(name).profiles]


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_plans_hold_distinct_runs_and_named_variants(name, profile):
    plan = get_experiment(name).plan(profile)
    runs = plan.runs()
    assert len({run.key for _, run in runs}) == len(runs)
    assert len({variant.name for variant in plan.variants}) == len(plan.variants)
    assert runs[0][1].seed == runs[min(len(plan.variants), len(runs)) - 1][1].seed


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_every_variant_of_every_plan_can_be_built(name, profile):
    for variant in get_experiment(name).plan(profile).variants:
        with torch.device("meta"):
            SequenceModel(
                variant.model,
                vocab=variant.task.vocab_size,
                classes=variant.task.num_classes,
                length=variant.task.input_length,
            )


@pytest.mark.parametrize("name", [name for name, profile in CASES if profile == "standard"])
def test_every_task_of_a_standard_plan_has_the_sequences_it_asks_for(name):
    plan = get_experiment(name).plan("standard")
    asked = {(one.task, (one.train or plan.train).validation) for one in plan.variants}
    for task, validation in asked:
        assert validation >= 256
        drawn = sample(task, validation, split_generator(0, "validation"), "validation")
        assert len(drawn.inputs) == validation
        assert len(splits(task, 0).train.inputs) == task.train_examples


@pytest.mark.parametrize("name", TRAINED)
def test_every_task_of_a_standard_plan_trains_a_step_with_its_diagnostics(name):
    """One variant of each: that every variant of every plan can be built is a test of its own."""
    plan = get_experiment(name).plan("standard")
    asked = {(one.task, one.diagnostics): one for one in plan.variants}
    for variant in asked.values():
        run = plan.runs_of(variant)[0]
        task = run.task.with_changes({"train_examples": 8, "test_examples": 4})
        train = replace(run.train, steps=1, batch=8, warmup=0, validation=4)
        record = train_run(replace(run, task=task, train=train))
        assert record["steps_done"] == 1
        found = record["diagnostics"]
        for diagnostic in run.diagnostics:
            assert diagnostic in found | found.get("normalized", {})


def test_figure_1_of_the_paper_is_120_runs_of_12_models():
    """2 evolutions x 3 readouts x 2 embeddings x 5 learning rates x 2 weight decays."""
    runs = [run for _, run in principle_3.EXPERIMENT.plan("paper").runs()]
    assert len(runs) == 120
    assert len({run.key for run in runs}) == 120
    assert len({config_key(run.model.to_dict()) for run in runs}) == 12
    assert {run.train.steps for run in runs} == {5000}
    assert {run.train.learning_rate for run in runs} == {1e-4, 5e-4, 1e-3, 5e-3, 1e-2}
    assert {run.train.weight_decay for run in runs} == {0.0, 0.1}


@pytest.mark.parametrize(
    ("name", "steps"),
    [("principle-2", {5000, 20000, 400}), ("principle-4", {5000, 20000}), ("principle-6", {5000})],
)
def test_paper_profiles_train_200_epochs(name, steps):
    assert {run.train.steps for _, run in get_experiment(name).plan("paper").runs()} == steps


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_without_results_the_figure_says_so(name, tmp_path):
    experiment = get_experiment(name)
    result = experiment.load("paper", out=tmp_path)
    assert result.records == ()
    assert "not yet run" in result.caption()
    (text,) = experiment.figure(result).axes[0].texts
    assert "not yet run at paper scale" in text.get_text()


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_figures_of_complete_results(name, profile):
    experiment = get_experiment(name)
    result = result_of(experiment, profile, lambda facets, run: (0.5, None))
    assert result.missing == 0
    in_ledger = profile == "standard" and name != "one-layer"  # which came after it
    assert bool(experiment.claims(result)) == in_ledger, "the ledger is about these"
    assert experiment.figure(result).axes
    assert experiment.table(result)


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_a_figure_of_a_result_that_has_only_begun_warns_nobody(name, profile, recwarn):
    """Pages show runs while they go on: the first variants done need not be the first planned."""
    experiment = get_experiment(name)
    whole = result_of(experiment, profile, lambda facets, run: (0.5, None))
    for begun in (whole.records[:1], whole.records[-1:]):
        figure = experiment.figure(replace(whole, records=begun))
        figure.canvas.draw()
    assert [str(one.message) for one in recwarn] == []


def test_the_best_setting_of_the_sweep_is_chosen_over_seeds():
    experiment = principle_3.EXPERIMENT
    result = result_of(
        experiment, "paper", lambda facets, run: (run.train.learning_rate * 10, None)
    )
    outcome = result.one(readout="exp", positions="nothing")
    assert outcome.accuracy == pytest.approx(0.1)
    assert {one["config"]["train"]["learning_rate"] for one in outcome.records} == {1e-2}


def test_an_unfinished_variant_has_no_outcome():
    whole = result_of(principle_3.EXPERIMENT, "quick", lambda facets, run: (0.5, None))
    part = replace(whole, records=whole.records[:-1])
    assert part.missing == 1
    assert len(part.outcomes()) == len(whole.outcomes()) - 1


def test_most_frequent_value_is_counted_as_defined():
    """Against a plain loop; at the paper's setting it scores about 0.31."""
    task = NoisyRecallConfig.quick().with_changes({"test_examples": 20})
    batch = splits(task, 0).test
    right = total = 0
    for row, goal in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        for place, target in enumerate(goal):
            if target == -100:
                continue
            counts = [row[: place + 1].count(v) for v in range(task.num_keys, task.content)]
            right += task.num_keys + counts.index(max(counts)) == target
            total += 1
    assert frequent_value_accuracy(task) == pytest.approx(right / total)
    assert 0.29 < frequent_value_accuracy(NoisyRecallConfig.paper()) < 0.35


def test_growth_reads_the_exponent():
    lengths = [2**power for power in range(8, 14)]
    assert growth([(x, 3e-9 * x**2.0) for x in lengths]) == pytest.approx(2.0)
    assert growth([(256, 1.0)]) is None


def test_principle_1_times_and_keeps_its_records(tmp_path):
    experiment = get_experiment("principle-1")
    plan = replace(experiment.plan("quick"), lengths=(16, 32, 64, 128), repeats=1)
    experiment = replace(experiment, plans={"quick": lambda: plan})
    quiet = RunOptions(progress=False)
    result = experiment.run("quick", device="cpu", out=tmp_path, options=quiet)
    assert result.missing == 0
    assert len(experiment.table(result)) == 12
    again = experiment.run("quick", device="cpu", out=tmp_path, options=quiet)
    assert again.records == result.records == experiment.load("quick", out=tmp_path).records


def short_quick_plan(monkeypatch):
    plan = principle_3.EXPERIMENT.plan("quick")
    task = plan.variants[0].task.with_changes({"train_examples": 64, "test_examples": 32})
    plan = replace(
        plan,
        variants=tuple(replace(variant, task=task) for variant in plan.variants),
        train=replace(plan.train, steps=4, evaluate_every=2),
    )
    monkeypatch.setitem(principle_3.EXPERIMENT.plans, "quick", lambda: plan)


def test_a_chapters_own_run(monkeypatch):
    """As in the book: run, figure, claims, and nothing left on disk."""
    short_quick_plan(monkeypatch)
    quiet = RunOptions(progress=False, workers=1)
    result = principle_3.run("quick", seeds=(0,), device="cpu", options=quiet)
    assert len(result.records) == 2
    assert "2 runs, seed 0" in result.caption()
    assert principle_3.figure(result).axes
    assert principle_3.claims(result) == [], "the ledger is about the standard profile"


def test_the_command_line_runs_shows_and_resumes(tmp_path, capsys, monkeypatch):
    short_quick_plan(monkeypatch)
    command = ["run", "principle-3", "--profile", "quick", "--seeds", "0", "--device", "cpu"]
    command += ["--out", str(tmp_path), "--workers", "1", "--quiet"]
    assert main([*command, "--budget", "0"]) == 1
    assert "not yet run" in capsys.readouterr().out
    assert main(command) == 0
    assert "2 runs" in capsys.readouterr().out
    stored = (tmp_path / "principle-3" / "quick.jsonl").read_text()
    assert main(command) == 0
    assert (tmp_path / "principle-3" / "quick.jsonl").read_text() == stored
    figure = tmp_path / "figure.png"
    show = ["show", "principle-3", "--profile", "quick", "--out", str(tmp_path)]
    assert main([*show, "--figure", str(figure)]) == 0
    assert figure.stat().st_size > 0
    capsys.readouterr()
    assert main(["list"]) == 0
    assert "principle-5-lm" in capsys.readouterr().out


def test_a_run_prints_numbers_with_intervals_and_no_verdict(tmp_path, capsys, monkeypatch):
    short_quick_plan(monkeypatch)
    command = ["run", "principle-3", "--profile", "quick", "--device", "cpu", "--workers", "1"]
    assert main([*command, "--seeds", "0", "1", "--out", str(tmp_path), "--quiet"]) == 0
    ran = capsys.readouterr().out
    assert main(["show", "principle-3", "--profile", "quick", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for printed in (ran, shown):
        assert re.search(r" 0\.\d{3} \[-?\d\.\d{3}, \d\.\d{3}\] \(0\.\d{3} 0\.\d{3}; lr ", printed)
        assert not re.search("held|undecided|no test|not run|withdrawn", printed)


def test_the_command_tells_the_claims_that_are_named(capsys):
    assert main(["claims", "parity/lader"]) == 1
    assert "did you mean 'parity/ladder'?" in capsys.readouterr().err
    assert main(["claims", "listops/memory-s4d", "board/long-memory"]) == 0
    printed = capsys.readouterr().out
    assert printed.index("listops/memory-s4d: ListOps, S4D: ") < printed.index("board/long-memory")
    assert "\n    no test because: the control fails\n" in printed
    assert main(["claims"]) == 0
    *claims, counts, commit = capsys.readouterr().out.strip().split("\n")
    assert len(claims) == sum(int(one.split()[0]) for one in counts.split(", ")) == 182
    assert commit.endswith(f"commit {ledger.judged_by()}.")


def test_kept_runs_are_repeated_from_scratch_and_a_changed_number_is_told(
    tmp_path, capsys, monkeypatch
):
    short_quick_plan(monkeypatch)
    short = ["principle-3", "--profile", "quick", "--out", str(tmp_path)]
    assert main(["run", *short, "--seeds", "0", "--device", "cpu", "--workers", "1"]) == 0
    capsys.readouterr()
    assert main(["repeat", *short, "--runs", "2"]) == 0
    assert capsys.readouterr().out.count("  equal     principle-3: ") == 2
    outcomes = tmp_path / "repeats" / "quick.json"
    first = json.loads(outcomes.read_text())
    assert [one["status"] for one in first] == ["equal", "equal"]
    assert all(one["kept"] == one["again"] and one["interval"] is None for one in first)

    kept = tmp_path / "principle-3" / "quick.jsonl"
    records = [json.loads(line) for line in kept.read_text().splitlines()]
    for one in records:
        one["final"]["accuracy"] += 0.2
    kept.write_text("".join(json.dumps(one) + "\n" for one in records))
    assert main(["repeat", *short, "--runs", "1"]) == 1
    assert capsys.readouterr().out.startswith("  differs   principle-3: ")
    *before, last = json.loads(outcomes.read_text())
    assert before == first, "what was kept stays"
    assert last["status"] == "differs" and last["experiment"] == "principle-3"
    assert last["kept"]["accuracy"] == pytest.approx(last["again"]["accuracy"] + 0.2)
    assert main(["repeat", *short, "--runs", "3"]) == 1
    assert "2 runs of profile quick are kept here, and 3 were asked for" in capsys.readouterr().err


def test_runs_of_headline_claims_are_drawn_with_their_settings():
    ids = ["headline/parity", "headline/overwrite"]
    drawn = draw(ids, "standard", 40, 0, None)
    assert {one.name.partition(":")[0] for one in drawn} == set(ids)
    assert all(one.config.key == one.record["key"] for one in drawn)
    assert main(["repeat", "headline/gone"]) == 1


def test_a_repeated_run_is_judged_by_the_spread_of_its_seeds():
    variant, run = principle_3.EXPERIMENT.plan("quick").runs()[0]
    kept = Kept(variant.name, run, made_up(run, 0.7) | {"steps_done": 100}, (0.7, 0.68, 0.72))
    near, far = (made_up(run, accuracy) | {"steps_done": 100} for accuracy in (0.72, 0.8))
    assert status(kept, kept.record) == EQUAL
    assert status(kept, near) == WITHIN
    assert status(kept, far) == DIFFERS
    assert status(replace(kept, seeds=(0.7,)), near) == DIFFERS  # no spread is known


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'principle-3'"):
        get_experiment("principle3")
    with pytest.raises(ValueError, match="profile must be one of"):
        principle_3.run("fast")


@pytest.mark.parametrize("name", ["principle-1", "principle-3"])
def test_a_gpu_that_is_not_there_is_named(name, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"device='cuda' asks for a GPU.*device='cpu'"):
        get_experiment(name).run("quick", device="cuda", options=RunOptions(progress=False))


def test_equal_runs_of_another_experiment_are_taken_over(tmp_path):
    """Principle 2.1's lines (exp, identity) are models of Principle 2's figure."""
    first, second = get_experiment("principle-2"), get_experiment("principle-2.1")
    theirs, ours = (
        {run.key: run for _, run in one.plan("paper").runs()} for one in (first, second)
    )
    shared = theirs.keys() & ours.keys()
    assert len(shared) == 2 * 2 * 10  # readouts, tasks, settings
    for key in shared:
        first.file("paper", tmp_path).append(
            {**made_up(theirs[key], 0.5), "experiment": "principle-2"}
        )
    stop = RunOptions(progress=False, budget_s=0.0)
    result = second.run("paper", device="cpu", out=tmp_path, options=stop)
    assert {record["key"] for record in result.records} == shared
    assert {record["experiment"] for record in result.records} == {"principle-2.1"}


def test_the_pilot_chooses_the_setting_of_the_other_seeds(tmp_path):
    """Two stages of one call: the sweep on the pilot's seeds, then one setting for the others."""
    experiment = get_experiment("principle-3")
    whole = experiment.plan("standard")
    task = whole.variants[0].task.with_changes({"train_examples": 16, "test_examples": 8})
    variant = replace(whole.variants[0], task=task)
    train = replace(whole.train, steps=2, batch=8, warmup=0, evaluate_every=1, validation=4)
    plan = replace(whole, variants=(variant,), train=train)

    small = replace(experiment, plans={"standard": lambda: plan})
    options = RunOptions(device="cpu", workers=1, progress=False)
    result = small.run("standard", out=tmp_path, options=options)
    rates = {seed: [] for seed in plan.seeds}
    for record in result.records:
        rates[record["seed"]].append(record["config"]["train"]["learning_rate"])
    assert [len(rates[seed]) for seed in plan.seeds] == [3, 3, 1, 1]
    assert rates[2] == rates[3] == [result.outcomes()[0].records[0]["config"]["train"][
        "learning_rate"]]  # fmt: skip
    assert result.missing == 0 and result.outcomes()[0].seeds == [0, 1, 2, 3]
    again = small.load("standard", out=tmp_path)
    assert {one["key"] for one in again.records} == {one["key"] for one in result.records}
    more = small.run("standard", seeds=[4], out=tmp_path, options=options)
    assert more.outcomes()[0].seeds == [0, 1, 4], "trained at the rate that the pilot chose"
    assert small.load("standard", seeds=[4], out=tmp_path).outcomes()[0].seeds == [0, 1, 4]


def test_a_short_pilot_chooses_and_every_seed_is_judged_in_full():
    """Its own steps for the pilot; a variant with settings of its own has one length."""
    whole = get_experiment("principle-6").plan("standard")
    (own,) = [one for one in whole.variants if one.name == "exp, one, 0.95"]
    (two,) = [one for one in whole.variants if one.name == "relu, row_sum, 1.05"]
    short, long = whole.pilot_train.steps, whole.train.steps
    assert short < long and own.train.steps == short and two.train is None
    plan = replace(whole, variants=(own, two))
    best = {own.name: plan.sweep[0][0], two.name: plan.sweep[2][0]}
    records = {}
    while missing := [pair for pair in plan.runs() if pair[1].key not in records]:
        assert plan.waiting + len(plan.runs()) == 8 + 10, "never more than the whole protocol"
        records |= {
            run.key: made_up(run, 0.8 if run.train.learning_rate == best[variant.name] else 0.5)
            for variant, run in missing
        }
        plan = plan.settled(records)
    assert plan.waiting == 0
    runs = {one.name: [run for v, run in plan.runs() if v is one] for one in plan.variants}
    steps = {name: Counter(run.train.steps for run in found) for name, found in runs.items()}
    assert steps == {own.name: {short: 8}, two.name: {short: 6, long: 4}}
    result = Result("principle-6", "standard", plan, tuple(records.values()))
    judged = result.outcome(two).records
    assert [(one["seed"], one["config"]["train"]["steps"]) for one in judged] == [
        (seed, long) for seed in plan.seeds
    ]
    assert {one["config"]["train"]["learning_rate"] for one in judged} == {best[two.name]}


def test_the_pilot_ends_with_the_first_rate_that_solves_the_task():
    """Rates in the plan's order; another one is planned only once its predecessor has failed."""
    whole = get_experiment("principle-2").plan("standard")
    variant = whole.variants[0]
    plan = replace(whole, variants=(variant,))
    rates = [rate for rate, _ in plan.sweep]

    def trained(plan, accuracies):
        """Run until nothing is missing; learning rates by seed."""
        records = {}
        while missing := [run for _, run in plan.runs() if run.key not in records]:
            assert plan.waiting + len(plan.runs()) <= 8, "never more than the whole protocol"
            records |= {
                run.key: made_up(run, accuracies[run.train.learning_rate, run.seed])
                for run in missing
            }
            plan = plan.settled(records)
        assert plan.waiting == 0
        return [[r.train.learning_rate for _, r in plan.runs() if r.seed == s] for s in plan.seeds]

    first, second, third = rates
    every = {(rate, seed): 0.5 for rate in rates for seed in plan.seeds}
    assert plan.waiting + len(plan.runs()) == 8
    solved = every | {(first, seed): 1.0 for seed in plan.seeds}
    assert trained(plan, solved) == [[first]] * 4
    half = every | {(first, 0): 1.0} | {(second, seed): 1.0 for seed in plan.seeds}
    assert trained(plan, half) == [[first, second]] * 2 + [[second]] * 2
    none = every | {(third, 0): 0.9}
    assert trained(plan, none) == [rates] * 2 + [[third]] * 2


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run principle-3 --budget nan", "a number of seconds, 0 or more; got 'nan'"),
        ("run principle-3 --budget=-1", "a number of seconds, 0 or more; got '-1'"),
        ("run principle-3 --workers 0", "a whole number from 1 on; got '0'"),
        ("judge own.py:Mine --seeds=-2", "a whole number from 1 on; got '-2'"),
        ("throughput --rounds 0", "a whole number from 1 on; got '0'"),
    ],
)
def test_an_impossible_number_is_refused_in_one_line(command, words, capsys):
    with pytest.raises(SystemExit):
        main(command.split())
    assert re.search(words, capsys.readouterr().err.strip().splitlines()[-1])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run principle-3 --device mps", "device must be cpu, cuda or cuda:1; got 'mps'"),
        ("film principle-3 --device cuda:99", "sees .* here; use device='cpu'"),
        ("run principle-3 --profile fast", "profile must be one of quick, standard, paper"),
        ("run principle-3 --out {file}", "nothing can be written to .*; choose another folder"),
        ("show principle-3 --figure {folder}/none/a.png", "No such file or directory"),
        ("show principle-3 --figure a.xyz", "Format 'xyz' is not supported"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(command, words, tmp_path, capsys):
    """Before anything is trained, and without a traceback."""
    (tmp_path / "file").write_text("")
    words_of_it = command.format(folder=tmp_path, file=tmp_path / "file").split()
    assert main([*words_of_it, *(["--quiet"] if words_of_it[0] == "run" else [])]) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert re.search(words, said[-1])


@pytest.mark.parametrize("command", ["run principle-3", "show principle-3", "repeat"])
def test_the_former_name_of_a_profile_says_its_name_of_today(command, capsys):
    assert main([*command.split(), "--profile", "live"]) == 1
    assert "profile 'live' is called 'quick' now" in capsys.readouterr().err


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_declaration_has_at_most_120_lines(name):
    """Models, tasks and figures that several experiments share have modules of their own."""
    experiment = get_experiment(name)
    module = sys.modules[f"coefdyn.lab.experiments.{EXPERIMENTS[name]}"]
    assert len(Path(module.__file__).read_text("utf-8").splitlines()) <= 120
    assert set(experiment.profiles) <= set(PROFILES)
