"""The picture of the headline claims: a line per claim that opens to its numbers and curves."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from pathlib import Path

from coefdyn.lab.experiments import intervals, rule
from coefdyn.lab.experiments.plan import STANDARD, Plan
from coefdyn.lab.experiments.result import Outcome
from coefdyn.lab.headline.claim import Ahead, Diverges, Headline, Reaches, parts
from coefdyn.lab.headline.claims import HEADLINES
from coefdyn.lab.headline.former import FORMER
from coefdyn.lab.headline.group import Group, verdict_of
from coefdyn.lab.headline.judge import CONTROL, Effect, Judged, as_judged, effects, judge
from coefdyn.lab.pages.scoreboard import curves_svg
from coefdyn.options import check_choice

__all__ = ["headline_counts", "headlines_html"]

#: id of a claim, or its topic, -> its chapter
CHAPTERS = {
    "sign": "principles/principle_4",
    "zeros": "principles/principle_2",
    "mirror": "principles/principle_4",
    "prose": "principles/principle_5",
    "scale": "principles/principle_5",
    "positions": "principles/principle_3",
    "lens": "lens/trained_models",
    "growth": "principles/principle_6",
    "recall": "second_view/dynamical_systems",
    "spectra": "second_view/spectra",
    "convolution": "second_view/spectra",
    "text": "second_view/dynamical_systems",
    "design": "design/your_own",
    "time": "principles/principle_1",
    "limit": "principles/principle_2_2",
    "rows": "architectures/table1",
}
#: group -> how a page writes what its runs call otherwise
WORDS = {
    "growth": {"one": "eta = 1", "geometric": "eta = 1.05^i", "row_sum": "row sum"},
    "language": {
        "mamba2": "Mamba-2",
        "one": "b = 1",
        "inverse_sqrt": "b = 1/sqrt(n)",
        "delta": "b = Delta",
    },
    "positions": {"nothing": "A = I"},
    "zeros": {"relu": "ReLU"},
}
WORDS["language-fresh"] = WORDS["language"]
#: width of the picture, and height of a comparison in it, with the numbers of its axis, in pixels
WIDTH, HEIGHT = 180, 26
COLORS = {rule.HELD: "#0E96A8", rule.NOT_HELD: "#C2562F"}


def _words(effect: Effect, judged: Judged) -> str:
    """What is compared, the measure with k of n or the values, the interval, and the threshold."""
    test, names = effect.test, [_spoken(one, judged) for one in effect.outcomes]
    if isinstance(test, Diverges):
        assert effect.counts is not None, "seeds that diverge are counted"
        k, n = effect.counts[0]
        return f"{names[0]}: {k} of {n} diverge; a share {effect.claimed}"
    assert isinstance(test, (Ahead, Reaches)), "a test of a headline claim"
    told, claimed = test.measure.name, effect.claimed
    if effect.margin:
        claimed += f"; within {effect.margin:.2g} of it no difference matters"
    if isinstance(test, Ahead):
        if effect.counts is not None:
            counted = " and ".join(f"{k} of {n}" for k, n in effect.counts)
            told += f" from {intervals.SOLVED_FROM:g} on with {counted} seeds"
        return f"{' against '.join(names)}: {told}; difference {effect.found}; {claimed}"
    if effect.counts is not None:
        k, n = effect.counts[0]
        return f"{names[0]}: {told}: {k} of {n} above {test.bound:g}; a share {claimed}"
    return f"{names[0]}: {told} {effect.found}; {claimed}"


def _spoken(outcome: Outcome, judged: Judged) -> str:
    words = WORDS.get(judged.experiment.removeprefix("headline/"), {})
    return ", ".join(words.get(one, one) for one in outcome.variant.name.split(", "))


def headlines_html(out: Path | str | None = None, *, chapter: str | None = None) -> str:
    """The headline claims, each with its verdict and the intervals of its comparisons.

    An interval is drawn from its threshold, the line in the middle: to the right lies what is
    claimed. A line opens to the numbers, the curves of all seeds and what limits the claim. Claims
    whose runs are missing say "not run", tell what is asked, and come after the others; those of
    the registration's history come last, with the verdict they had.

    Args:
        out: folder of the result files; None for ``data/results``.
        chapter: only the claims of this one, such as ``principles/principle_3``; None for all,
            each with a link to its chapter.

    Raises:
        ValueError: for a chapter without a headline claim, naming the nearest one.
    """
    if chapter is not None:
        check_choice("chapter", chapter, dict.fromkeys(_chapter(one) for one in HEADLINES))
    shown = [one for one in (*HEADLINES, *FORMER) if chapter in (None, _chapter(one))]
    loaded: dict[str, Judged] = {}
    for one in shown:
        if one.group is not None and one.group not in loaded:
            loaded[one.group] = as_judged(Group(one.group).load(STANDARD, out=out))
    shown.sort(key=lambda one: (bool(one.replaced), _status(one, out) == rule.NOT_RUN))
    lines = "".join(_line(one, loaded, out, linked=chapter is None) for one in shown)
    return f'<div class="cd-headlines">{lines}</div>'


def _chapter(one: Headline) -> str:
    return CHAPTERS[one.id if one.id in CHAPTERS else one.id.partition("/")[0]]


def headline_counts(out: Path | str | None = None) -> str:
    """Number of headline claims by verdict, in words.

    Args:
        out: folder of the result files; None for ``data/results``.
    """
    told = [_status(one, out) for one in HEADLINES]
    chances = [
        len(parts(one.claim.test)) if status == rule.NOT_HELD else 1
        for one, status in zip(HEADLINES, told, strict=True)
        if one.claim is not None and status in (rule.HELD, rule.NOT_HELD)
    ]
    kinds = [one for one in dict.fromkeys(told) if one not in rule.STATUSES]
    shown = [*(one for one in rule.STATUSES if one != rule.NOT_RUN), *kinds, rule.NOT_RUN]
    words = ", ".join(f"{told.count(one)} {one}" for one in shown if one in told)
    chance = "None is decided yet."
    if chances:
        wrong = intervals.wrong_by_chance(chances)
        chance = (
            f"Of the {len(chances)} decided at most {wrong:.2g} are wrong by chance on average."
        )
    return (
        f"Of {len(told)} headline claims: {words}. {chance} {len(FORMER)} earlier ones that ended "
        "undecided were replaced."
    )


def _status(one: Headline, out: Path | str | None) -> str:
    """Its verdict, or its kind where none is to be had."""
    verdict = verdict_of(one, out)
    return one.kind if verdict is None else verdict.status


def _line(one: Headline, loaded: dict[str, Judged], out: Path | str | None, linked: bool) -> str:
    status = _status(one, out)
    told: list[Effect] = []
    numbers = curves = control = ""
    few: int | None = None
    if one.claim is not None and one.group is not None:
        judged = loaded[one.group]
        said = judge(one.claim, judged)[1]
        failed = said.removeprefix(CONTROL) if said.startswith(CONTROL) else ""
        undecided = [x for x in effects(one.claim.test, judged) if x.status == rule.UNDECIDED]
        few = next((x.seeds_that_decide for x in undecided if x.margin), None)
        control = "; ".join(filter(None, (one.claim.why, failed)))
        told = list(effects(one.claim.test, judged))
        asked = [_words(x, judged) for x in told] or [one.claim.test.words]
        numbers = "".join(f"<li>{html.escape(x)}</li>" for x in asked)
        outcomes = [judged.one(**facets) for facets in _different(one.claim.test.compared)]
        curves = "".join(_figure(x, judged) for x in outcomes if x is not None)
    about = {
        "source": one.source,
        "control": control,
        "too few runs": f"{few} seeds a side would decide" if few else "",
        "power": one.power,
        "axis": one.axis,
        "shown by": one.shown_by,
        "changed after its first run": one.changed,
        "replaced": one.replaced,
        "limits": " ".join(filter(None, (one.limits, one.size))),
    }
    more = "".join(f"<p>{name}: {html.escape(x)}</p>" for name, x in about.items() if x)
    link = f'<a href="{_chapter(one)}.html">its chapter</a> · ' if linked else ""
    shown = f"earlier: {status}" if one.replaced else status
    return (
        f'<details data-status="{status}"><summary><b>{html.escape(shown)}</b>'
        f"{_picture(told)}<span>{html.escape(one.sentence)}</span></summary>"
        f"<p>{link}<code>{one.id}</code></p>"
        f"<ul>{numbers}</ul>{more}{curves}</details>"
    )


def _different(compared: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    return list({tuple(one.items()): dict(one) for one in compared}.values())


def _figure(outcome: Outcome, judged: Judged) -> str:
    """The curves of a variant and their caption; the caption alone where every seed ends in NaN."""
    rate, n = outcome.records[0]["config"]["train"]["learning_rate"], len(outcome.records)
    told = f"{_spoken(outcome, judged)}: rate {rate:.2g}, "
    if outcome.diverged == n:
        told += f"{n} of {n} seeds turn NaN"
    elif isinstance(judged.plan, Plan) and judged.plan.by_loss:
        told += "accuracy per token"
    else:
        there = sum(step is not None for step in outcome.steps_to())
        told += f"{there} of {n} seeds reach 0.9 on validation at some step"
    curves = "" if outcome.diverged == n else curves_svg(outcome)
    return f"<figure>{curves}<figcaption>{html.escape(told)}</figcaption></figure>"


def _picture(told: Sequence[Effect]) -> str:
    """A bar per comparison over an axis of its own, with the threshold in the middle.

    The axis has its numbers at both ends and at the threshold. It runs to the claimed side.
    """
    if not told:
        return f'<svg width="{WIDTH}" height="{HEIGHT}" role="presentation"></svg>'
    height, half, drawn = HEIGHT * len(told), WIDTH / 2, []
    for row, one in enumerate(told):
        ends = [x for x in (one.beyond.low, one.beyond.high) if abs(x) < float("inf")]
        reach = max((abs(x) for x in ends), default=0.0) / 0.94 or 1.0
        low, mean, high = (half * (1 + x / reach) for x in
                           (one.beyond.low, one.beyond.mean, one.beyond.high))  # fmt: skip
        y, color = HEIGHT * row + 8, COLORS.get(one.status, "#8B95A3")
        left, right = (one.threshold + side * reach * (-1) ** one.below for side in (-1, 1))
        ticks = ((0, "start", left), (half, "middle", one.threshold), (WIDTH, "end", right))
        drawn.append(
            f'<path d="M{low:.1f} {y:.1f}H{high:.1f}" stroke="{color}" stroke-width="4"/>'
            f'<circle cx="{mean:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>'
        )
        drawn += [
            f'<text x="{x:g}" y="{y + 14}" text-anchor="{anchor}" font-size="9" '
            f'fill="currentColor">{value:.2g}</text>'
            for x, anchor, value in ticks
        ]
    held = sum(one.status == rule.HELD for one in told)
    label = f"{held} of {len(told)} comparisons lie on the claimed side of their threshold"
    lines = "".join(f"M{half} {HEIGHT * row}v14" for row in range(len(told)))
    return (
        f'<svg role="img" aria-label="{label}" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}"><path d="{lines}" stroke="currentColor" '
        f'stroke-dasharray="2"/>{"".join(drawn)}</svg>'
    )
