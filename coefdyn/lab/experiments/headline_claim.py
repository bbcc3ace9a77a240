"""A headline claim: what is claimed, what decides it, and the smallest effect that can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from coefdyn.lab.experiments import intervals, judgement
from coefdyn.lab.experiments.claim import Ahead, Claim
from coefdyn.lab.experiments.headline_runs import GROUPS, SEEDS
from coefdyn.lab.experiments.intervals import t_quantile
from coefdyn.lab.experiments.result import Verdict

__all__ = ["KINDS", "Headline"]

#: "checked": compared with a peer's code on numbers, which is not a proof
KINDS = ("trained", "proved", "checked", "timed")


@dataclass(frozen=True, kw_only=True)
class Headline:
    """One headline claim.

    Args:
        id: ``topic/name``; of a trained one that of its ``claim``.
        kind: of ``KINDS``.
        sentence: what is claimed.
        source: the figure, table or statement of the sources, or "ours".
        limits: what else differs between the compared designs, and how far it reaches; the sizes
            of trained models are told by ``size``.
        axis: along which the task gets harder, and how; empty where there is none.
        group: of ``GROUPS``, whose runs judge a trained one.
        claim: test, threshold and control of a trained one.
        shown_by: proof, test or bench of one that is not trained.
        changed: of a test that was changed when its runs had been seen, why.
    """

    id: str
    kind: str
    sentence: str
    source: str
    limits: str
    axis: str = ""
    group: str | None = None
    claim: Claim | None = None
    shown_by: str = ""
    changed: str = ""

    @property
    def size(self) -> str:
        """Layers, width and steps of the models that a trained claim compares."""
        if self.claim is None or self.group is None:
            return ""
        plan = GROUPS[self.group]().plan()
        those = plan.those_with(self.claim.test.compared)
        told = [
            _span("layer", [one.model.layers for one in those]),
            f"of {_span('width', [one.model.width for one in those], before=True)},",
            f"in at most {max((one.train or plan.train).steps for one in those)} steps",
        ]
        return f"Seen in {' '.join(told)}."

    @property
    def statistic(self) -> str:
        """Summary of the seeds of a trained model, and the smallest effects that they decide."""
        if self.claim is None or self.group is None:
            return ""
        plan, n, told = GROUPS[self.group]().plan(), len(SEEDS), []
        for test in judgement.parts(self.claim.test):
            tasks = {one.task.task_name for one in plan.those_with(test.compared)}
            measure = getattr(test, "measure", None)
            counted = tasks <= judgement.SOLVED_OR_NOT and (measure is None or measure.counted)
            if not counted:
                half = t_quantile(n - 1, intervals.JUDGED_CONFIDENCE) / n**0.5
                told.append(
                    f"95 % interval of the mean over {n} seeds, paired where two are compared; "
                    f"decides what is {half:.2f} standard deviations off the threshold"
                )
            elif isinstance(test, Ahead):
                least = round(n * intervals.smallest_lead(n, test.by))
                told.append(
                    f"k of {n} seeds right and the score interval of the difference; decides a "
                    f"lead of {least} seeds over none"
                )
            else:
                counts = range(n + 1)
                least = next(k for k in counts if intervals.share_interval(k, n).low > 0.5)
                told.append(
                    f"k of {n} seeds against one half and the exact binomial interval; decides "
                    f"from {least} or up to {n - least} seeds on"
                )
        return "; ".join(dict.fromkeys(told))

    def lines(self, verdict: Verdict | None) -> list[str]:
        """The claim as lines of text, with its verdict where it is a trained one."""
        status = self.kind if verdict is None else verdict.status
        told = [f"{self.id} ({self.kind}): {status}", f"  {self.sentence} ({self.source})"]
        if verdict is not None and self.claim is not None:
            told.append(f"  test: {self.claim.test.words}")
            check = self.claim.control
            told.append(f"  control: {f'{check.words}: ' if check else ''}{self.claim.why}")
            told.append(f"  statistic: {self.statistic}")
            told += [f"  numbers: {verdict.numbers}"] if verdict.numbers else []
        told += [f"  axis: {self.axis}"] if self.axis else []
        told += [f"  shown by: {self.shown_by}"] if self.shown_by else []
        told += [f"  changed after the first run: {self.changed}"] if self.changed else []
        return [*told, f"  limits: {' '.join(filter(None, (self.limits, self.size)))}"]


def _span(word: str, numbers: Sequence[int], before: bool = False) -> str:
    """Numbers with their word: "2 layers", "1 or 2 layers", and with ``before`` "width 64"."""
    told = " or ".join(map(str, sorted(set(numbers))))
    return f"{word} {told}" if before else f"{told} {word}{'s' * (told != '1')}"
