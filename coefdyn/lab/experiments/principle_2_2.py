"""Principle 2.2 (Figure 9): with n numbers per key at most n - 1 coefficients are zero at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING

from coefdyn.lab.experiments import rule
from coefdyn.lab.experiments.base import Experiment
from coefdyn.lab.experiments.claim import Ahead, Claim, Facets, Finding, Reaches, Test, kebab
from coefdyn.lab.experiments.figures import PALETTE, draw_interval, legend_entries, new_figure
from coefdyn.lab.experiments.measure import Measure
from coefdyn.lab.experiments.plan import Plan
from coefdyn.lab.experiments.principle_2_1 import EXPERIMENT as PRINCIPLE_2_1
from coefdyn.lab.experiments.result import Outcome, Reading, Result, Verdict, verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["EXPERIMENT", "claims", "figure", "load", "run"]

SHOWN = ("psi_softplus", "psi_exp")
STATE = 8  # n per head, in both profiles
COUNTS = (0.0, math.inf)


class Principle22(Experiment):
    id = "principle-2.2"
    title = "At most n - 1 coefficients are zero at one time index"
    source = "coefficient-dynamics paper, Figure 9"
    profiles = ("live", "quick", "standard", "paper")
    about = (
        "The models that principle-2.1 trained with psi in {softplus, exp}, n = 8 per head: mean "
        "number of abs(alpha) <= 1e-6 at each time index over 64 test sequences, raw coefficients. "
        "The bound holds for linearly independent states; repeated tokens give more zeros for free."
    )
    reading = Reading(
        "Up to 61 coefficients of one row fell below 1e-6, where n - 1 is 7. The theorem "
        "counts exact zeros, and these are not exact, so it stands; a limit for very small "
        "coefficients is what it does not give.",
        held="fuzzy-recall/zeros-softplus-normalized zeros-by-length/softplus zeros-by-length/exp",
        not_held="selective-copying/zeros-softplus-raw "
        "selective-copying/zeros-softplus-normalized "
        "selective-copying/zeros-exp-normalized fuzzy-recall/zeros-exp-normalized",
        undecided="fuzzy-recall/zeros-softplus-raw",
        no_test="selective-copying/zeros-exp-raw fuzzy-recall/zeros-exp-raw",
    )
    stored_as = "principle-2.1"

    def registered_claims(self) -> list[Claim]:
        exact = "the theorem is about exact zeros; up to 1e-6 it bounds nothing once eta divides"
        bounds = [
            Claim(
                id=f"{kebab(task)}/zeros-{readout.removeprefix('psi_')}-{form}",
                sentence=f"{task}, {readout.removeprefix('psi_')}, {form} coefficients: on average "
                f"never more than n - 1 = {STATE - 1} zeros at one index",
                test=Occurring(
                    facets={"task": task, "readout": readout},
                    form=form,
                    test=Reaches(
                        a={"task": task, "readout": readout},
                        bound=STATE - 1.0,
                        measure=fullest(form),
                        less=True,
                    ),
                ),
                why=exact if form == "normalized" else "no control: a count against a bound",
            )
            for form in ("raw", "normalized")
            for task in ("selective copying", "fuzzy recall")
            for readout in SHOWN
        ]
        longer = [
            Claim(
                id=f"zeros-by-length/{readout.removeprefix('psi_')}",
                sentence=f"{readout.removeprefix('psi_')}: copying, the longer task, has more "
                "zeros at its fullest index than fuzzy recall",
                test=Ahead(
                    a={"task": "selective copying", "readout": readout},
                    b={"task": "fuzzy recall", "readout": readout},
                    measure=fullest("normalized"),
                ),
                why="no control: the tasks differ in more than length",
            )
            for readout in SHOWN
        ]
        return [*bounds, *longer]

    def plan(self, profile: str) -> Plan:
        whole = PRINCIPLE_2_1.plan(profile)
        kept = tuple(v for v in whole.variants if v.facets["readout"] in SHOWN)
        if not kept:  # principle-2.1's live part has neither; train the softplus map
            quick = PRINCIPLE_2_1.plan("quick").variants
            kept = tuple(
                replace(v, train=whole.variants[0].train)
                for v in quick
                if v.name == f"selective copying, {SHOWN[0]}"
            )
        return replace(whole, variants=kept)

    def draw(self, result: Result) -> Figure:
        drawn, (axes,) = new_figure(width=5.6, height=4.8)
        length = max(v.task.seq_len for v in result.variants)
        top, beside = STATE + 0.5, []
        for place, outcome in enumerate(result.outcomes()):
            curves, color = _curves(outcome), PALETTE[place]
            highest = max(curves, key=max)
            top = max(top, 1.05 * max(highest))
            label = f"{outcome.variant.name}, the head with most"
            axes.plot(range(1, len(highest) + 1), highest, color=color, label=label)
            x, values = length + 5 + 4 * place, fullest("raw").values(outcome)
            if draw_interval(axes, x, values, bounds=COUNTS, color=color):
                axes.plot([x - 1] * len(values), values, ".", color=color)
                axes.plot([x], [fmean(values)], "D", color=color, markersize=4, zorder=5)
                top = max(top, 1.05 * axes.dataLim.y1)
                beside.append(x)
        axes.axhline(STATE - 1, color="gray", linestyle="--", label="n - 1")
        axes.set(xlabel="time index i", ylabel="mean count, |coefficients| <= 1e-6")
        axes.set_ylim(-0.025 * top, top)
        if beside:
            axes.axvline(length + 2, color="0.8", linewidth=0.8)
            ticks = range(0, length - 3, 10)
            axes.set_xticks([*ticks, fmean(beside)], [*map(str, ticks), "fullest, by seed"])
        handles = legend_entries([axes])
        drawn.legend(handles=handles, loc="outside lower center", fontsize="small")
        return drawn

    def claims_by_means(self, result: Result) -> list[Verdict]:
        found = []
        for task in ("selective copying", "fuzzy recall"):
            for readout in SHOWN:
                outcome = result.one(task=task, readout=readout)
                words = f"{task}, {readout.removeprefix('psi_')}"
                claim = (
                    f"{words}: on average never more than n - 1 = {STATE - 1} zeros at one index"
                )
                found.append(verdict(claim, [outcome], lambda o=outcome: _within(o)))
        tasks = {v.facets["task"]: v.task.seq_len for v in result.variants}
        if len(set(tasks.values())) > 1:  # at equal lengths there is nothing to compare
            by_length = sorted(tasks, key=lambda task: tasks[task])
            found += [self._longer_has_more(result, readout, by_length) for readout in SHOWN]
        return found

    def _longer_has_more(self, result: Result, readout: str, tasks: list[str]) -> Verdict:
        pair = [result.one(task=task, readout=readout) for task in tasks]
        claim = (
            f"{readout.removeprefix('psi_')}: {tasks[-1]}, the longer task, has more zeros at its "
            f"fullest index than {tasks[0]}"
        )
        return verdict(claim, pair, lambda: _rises(pair))


def fullest(form: str) -> Measure:
    """The largest mean count over layers, heads and time indices, one number per seed."""

    def values(outcome: Outcome) -> list[float]:
        return [
            max(count for layer in layers for head in layer for count in head)
            for layers in outcome.diagnostic("zero_counts", form)
        ]

    return Measure(f"mean zeros at the fullest index, {form}", values)


@dataclass(frozen=True, kw_only=True)
class Occurring(Test):
    """A test of zeros; no test where not one zero was counted. The largest single count is told."""

    facets: dict[str, str]
    form: str
    test: Test

    @property
    def words(self) -> str:
        return self.test.words

    @property
    def compared(self) -> tuple[Facets, ...]:
        return self.test.compared

    def judge(self, result: Result) -> Finding:
        found, outcome = self.test.judge(result), result.one(**self.facets)
        if found.status == rule.NOT_RUN or outcome is None:
            return found
        single = max(outcome.diagnostic("largest_zero_count", self.form))
        numbers = f"{found.numbers}; largest single count {single}"
        if single == 0:
            return Finding(rule.NO_TEST, f"{numbers}: no zero at all", rule.NEVER_OCCURS)
        return replace(found, numbers=numbers)


def _curves(outcome: Outcome, form: str = "raw") -> list[list[float]]:
    """Mean counts by time index, one list per seed, layer and head."""
    seeds = outcome.diagnostic("zero_counts", form)
    return [head for layers in seeds for layer in layers for head in layer]


def _within(outcome: Outcome | None) -> tuple[bool | None, str]:
    assert outcome is not None, "verdict calls the test only with every outcome there"
    most = max(max(curve) for curve in _curves(outcome))
    single = max(outcome.diagnostic("largest_zero_count", "raw"))
    words = f"largest mean {most:.3f}, largest single count {single}"
    if single == 0:
        return None, f"{words}: no zero at all"
    return most <= STATE - 1, words


def _rises(outcomes: list[Outcome | None]) -> tuple[bool, str]:
    present = [one for one in outcomes if one is not None]
    largest = [max(max(curve) for curve in _curves(one)) for one in present]
    words = [
        f"{one.variant.facets['task']} {top:.3f}" for one, top in zip(present, largest, strict=True)
    ]
    return largest[-1] > largest[0], ", ".join(words)


EXPERIMENT = Principle22()
run, load, figure, claims = EXPERIMENT.functions()
