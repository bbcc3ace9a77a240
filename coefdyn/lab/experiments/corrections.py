"""Claims that were withdrawn after they had been decided: which, when and why."""

from __future__ import annotations

__all__ = ["withdrawn"]

_LEAK = (
    "withdrawn on 2026-11-25: 49 % of the validation text and 16 % of the test text stood word for "
    "word in the training text"
)
#: topic of claims -> why all of them are withdrawn
_TOPICS = {"language": _LEAK, "language-stopped": _LEAK}


def withdrawn(claim: str) -> str:
    """Reason why the claim with this id is withdrawn; empty for one that stands."""
    return _TOPICS.get(claim.partition("/")[0], "")
