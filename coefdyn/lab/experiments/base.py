"""An experiment as a declaration, and what every one can do: run, load, figure, claims."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coefdyn.lab.experiments import ledger
from coefdyn.lab.experiments.plan import STANDARD, AnyPlan, Plan, check_profile, numbered
from coefdyn.lab.experiments.result import Outcome, Result, Verdict
from coefdyn.lab.experiments.rule import NOT_RUN
from coefdyn.lab.places import data_folder
from coefdyn.lab.tasks import ByteProseConfig, ByteTextConfig, TaskConfig, WikiTextConfig
from coefdyn.lab.training import Record, ResultFile, RunOptions, train_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Experiment", "judged_by_accuracy", "results_folder"]


def results_folder() -> Path:
    """``data/results`` of the checkout this package lies in; else of the working folder."""
    return data_folder() / "results"


@dataclass(eq=False, kw_only=True)
class Experiment:
    """One figure of the papers, declared: variants with their training by profile, and a figure.

    Args:
        id, title: as the command line and the pages name it.
        source: figure or table of the paper.
        about: what is varied and measured, and where the profiles depart from the paper.
        plans: profile -> the function that makes its plan.
        drawing: makes the figure of a result that holds at least one record.
        metric: final metric of the test split that ``table`` shows.
        lines: makes the lines of ``table`` where a run has no such metric.
        trains: what runs its runs; None for ``coefdyn.lab.training.train_runs``.
        stored_as: the id whose result file is used, where both look at the same trained models.
        borrows_from: an id whose finished runs are taken over where they are the very same runs.
    """

    id: str
    title: str
    source: str
    about: str
    plans: Mapping[str, Callable[[], AnyPlan]]
    drawing: Callable[[Result], Figure]
    metric: str = "accuracy"
    lines: Callable[[Result], list[str]] | None = None
    trains: Callable[..., list[Record]] | None = None
    stored_as: str | None = None
    borrows_from: str | None = None

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles that it has."""
        return tuple(self.plans)

    def plan(self, profile: str) -> AnyPlan:
        """Plan of a profile's training."""
        return self.plans[profile]()

    def draw(self, result: Result) -> Figure:
        """The figure of a result that holds at least one record."""
        return self.drawing(result)

    def claims(self, result: Result) -> list[Verdict]:
        """The kept verdicts on the source's claims, "not run" without runs; none elsewhere."""
        kept = ledger.verdicts(self.id) if result.profile == STANDARD else []
        if result.records:
            return kept
        return [replace(one, status=NOT_RUN, numbers="", reason="") for one in kept]

    def table(self, result: Result) -> list[str]:
        """The result as lines of text: every finished variant's mean with its interval.

        In parentheses the seeds' own accuracies and the setting. Where a task is judged by
        accuracy, also how many seeds reach .9, and how soon.
        """
        if self.lines is not None:
            return self.lines(result)
        lines = []
        for outcome in result.outcomes():
            values, train = outcome.values(self.metric), outcome.records[0]["config"]["train"]
            each = " ".join(f"{value:.3f}" for value in sorted(values))
            setting = f"lr {train['learning_rate']:g}, wd {train['weight_decay']:g}"
            note = f", {outcome.diverged} diverged" if outcome.diverged else ""
            interval = result.interval(values)
            mean = str(interval) if len(values) > 1 else f"{values[0]:.3f}"
            lines.append(
                f"  {outcome.variant.name:<40} {mean} ({each}; {setting}{note}){_reached(outcome)}"
            )
        return lines

    def file(self, profile: str, out: Path | str | None = None) -> ResultFile:
        """The result file of a profile under ``out`` (default ``data/results``)."""
        folder = results_folder() if out is None else Path(out)
        return ResultFile(folder / (self.stored_as or self.id) / f"{profile}.jsonl")

    def run(
        self,
        profile: str = "quick",
        *,
        seeds: int | Sequence[int] | None = None,
        device: str | None = None,
        out: Path | str | None = None,
        options: RunOptions | None = None,
    ) -> Result:
        """Train what is missing and return everything that is finished.

        Args:
            profile: one of ``profiles``.
            seeds: instead of the profile's, n for seeds 0 to n - 1; a pilot's seeds, which choose
                the rate, stay.
            device: "cpu" or "cuda"; None for a GPU if there is one. ``options.device`` goes first.
            out: folder of the result files; None keeps nothing on disk and trains everything.
            options: processes, budget, progress.

        Raises:
            ValueError: for an unknown profile, or no number of seeds.
        """
        plan = self._plan(profile, seeds)
        results = None if out is None else self.file(profile, out)
        options = replace(
            options or RunOptions(),
            device=(options and options.device) or device,
            weights=None if results is None else results.path.with_name("weights"),
        )
        end = None if options.budget_s is None else time.monotonic() + options.budget_s
        found: dict[str, Record] = {}
        while True:  # again once the pilot has chosen the other seeds' setting, or needs a rate
            left = None if end is None else max(0.0, end - time.monotonic())
            labelled = replace(options, budget_s=left, extra=self._labels(profile, plan, results))
            if results is not None:
                self._borrow(plan, results, labelled)
            missing = [run for _, run in plan.runs() if run.key not in found]
            train = self.trains or train_runs
            found |= {one["key"]: one for one in train(missing, results, labelled)}
            settled = plan.settled(found) if isinstance(plan, Plan) else plan
            if settled == plan:
                return Result(self.id, profile, plan, tuple(found.values()))
            plan = settled

    def _borrow(self, plan: AnyPlan, results: ResultFile, options: RunOptions) -> None:
        """Copy equal runs' records from another experiment's file, under this one's labels."""
        if self.borrows_from is None:
            return
        finished = results.keys()
        missing = {run.key: run for _, run in plan.runs() if run.key not in finished}
        other = results.path.parents[1] / self.borrows_from / results.path.name
        assert options.extra is not None, "run() sets what labels a record"
        for record in ResultFile(other).records():
            run = missing.pop(record["key"], None)
            if run is not None and run.matches(record):
                results.append({**record, **options.extra(record["key"])})

    def load(
        self,
        profile: str = "quick",
        *,
        seeds: int | Sequence[int] | None = None,
        out: Path | str | None = None,
    ) -> Result:
        """The finished runs on disk; an empty result if there are none.

        Args:
            profile: one of ``profiles``.
            seeds: instead of the profile's; a pilot's seeds, which choose the rate, stay.
            out: folder of the result files; None for ``data/results``.
        """
        plan = self._plan(profile, seeds)
        found = {one["key"]: one for one in self.file(profile, out).records()}
        if isinstance(plan, Plan):
            plan = plan.settled(found)
        return Result(self.id, profile, plan, _finished(plan, found))

    def functions(self) -> tuple[Any, Any, Any, Any]:
        """``run``, ``load``, ``figure``, ``claims``: the public functions of its module."""
        return self.run, self.load, self.figure, self.claims

    def figure(self, result: Result) -> Figure:
        """The experiment's figure; a plain note where nothing has been run."""
        from coefdyn.lab.experiments.figures import empty_figure

        if not result.records:
            return empty_figure(f"{self.id}: not yet run at {result.profile} scale")
        return self.draw(result)

    def _plan(self, profile: str, asked: int | Sequence[int] | None) -> AnyPlan:
        seeds = numbered(asked)
        check_profile(profile)
        if profile not in self.profiles:
            raise ValueError(
                f"{self.id} has no profile {profile!r}; it has {', '.join(self.profiles)}."
            )
        plan = self.plan(profile)
        if profile == STANDARD and isinstance(plan, Plan):
            plan = ledger.planned(plan, self.id)
        if seeds is not None and isinstance(plan, Plan) and not plan.bracketed:
            # the pilot chooses the others' rate
            seeds = tuple(dict.fromkeys((*(plan.pilot or ()), *seeds)))
        return plan.with_seeds(seeds)

    def _labels(
        self, profile: str, plan: AnyPlan, results: ResultFile | None
    ) -> Callable[[str], dict[str, Any]]:
        """Labels of every record of a profile besides its numbers, by run key."""
        facets = {run.key: variant.facets for variant, run in plan.runs() if variant}
        names = {"experiment": self.stored_as or self.id, "profile": profile}
        return lambda key: names | ({"variant": facets[key]} if key in facets else {})


def judged_by_accuracy(task: TaskConfig) -> bool:
    """Return whether a task is judged by accuracy; text that is continued is by perplexity."""
    return not isinstance(task, (ByteProseConfig, ByteTextConfig, WikiTextConfig))


def _reached(outcome: Outcome) -> str:
    if not judged_by_accuracy(outcome.variant.task):
        return ""
    steps = outcome.steps_to()
    there = [step for step in steps if step is not None]
    first = f", first after {min(there)} steps" if there else ""
    return f"; .9 by {len(there)} of {len(steps)} seeds{first}"


def _finished(plan: AnyPlan, found: Mapping[str, Record]) -> tuple[Record, ...]:
    """The records of a plan's runs, among those on disk (key -> record), in the file's order."""
    wanted = {run.key: run for _, run in plan.runs()}
    return tuple(
        record for key, record in found.items() if key in wanted and wanted[key].matches(record)
    )
