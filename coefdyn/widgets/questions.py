"""Checks of a question that a figure asks before its controls become active."""

from __future__ import annotations

from collections.abc import Mapping

from coefdyn.widgets.settings import check_name

__all__ = ["DIRECTIONS", "check_question"]

DIRECTIONS: tuple[str, ...] = ("up", "down")
"""Ways in which a prediction can ask the reader to move its control."""


def check_question(
    question: Mapping[str, str], numbers: tuple[str, ...], controls: tuple[str, ...]
) -> dict[str, str]:
    """Check a question and return it, empty for none.

    Raises:
        ValueError: for a missing or an unknown key, number, control or direction.
    """
    if not question:
        return {}
    wanted = ("id", "question", "number", "control")
    if set(question) - {"direction", "why"} != set(wanted):
        raise ValueError(
            f"predict needs the keys {', '.join(wanted)}, and may have direction and why; "
            f"got {', '.join(question)}."
        )
    if "direction" in question:
        check_name("direction", question["direction"], DIRECTIONS)
    check_name("number", question["number"], numbers)
    check_name("control", question["control"], controls)
    return dict(question)
