"""Results as Markdown for the book: generated from the result files, never typed."""

from __future__ import annotations

from collections.abc import Mapping

from coefdyn.experiments.base import Experiment
from coefdyn.experiments.result import NOT_RUN, Result, Verdict

__all__ = ["claims_markdown", "caption_markdown"]

MARKS = {"held": "**held**", "not held": "**not held**", "not run": "not run"}


def claims_markdown(experiment: Experiment, results: Mapping[str, Result]) -> str:
    """One row per claim, one column per profile: held, not held or not run, with the numbers.

    Args:
        experiment: whose claims.
        results: profile name -> its result; empty results give "not run".
    """
    columns = {name: experiment.claims(result) for name, result in results.items()}
    claims = list(dict.fromkeys(one.claim for found in columns.values() for one in found))
    lines = [f"| claim | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for claim in claims:
        cells = [_cell(claim, found) for found in columns.values()]
        lines.append(f"| {claim} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(claim: str, found: list[Verdict]) -> str:
    matching = [one for one in found if one.claim == claim]
    if not matching:
        return "not planned"
    verdict = matching[0]
    mark = MARKS[verdict.status]
    return mark if verdict.status == NOT_RUN else f"{mark}: {verdict.numbers}"


def caption_markdown(result: Result) -> str:
    """Where a figure's numbers come from, in one line of small print."""
    return f"*{result.caption()}*"
