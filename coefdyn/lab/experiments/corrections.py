"""Claims that were withdrawn after they had been decided: which, when and why."""

from __future__ import annotations

__all__ = ["leaks", "withdrawn"]

_LEAK = (
    "withdrawn on 2026-11-25: 49 % of the validation text and 16 % of the test text stood word for "
    "word in the training text"
)
_EXEMPT = "withdrawn on 2026-11-25: the source says it of state space models and exempts attention"
#: topic of claims -> why all of them are withdrawn
_TOPICS = {"language": _LEAK, "language-stopped": _LEAK}
#: id -> why this one is
_CLAIMS = {
    f"{task}/memory-{model}": _EXEMPT
    for task in ("listops", "pixels")
    for model in ("softmax", "linear", "normalized")
}


def withdrawn(claim: str) -> str:
    """Reason why the claim with this id is withdrawn; empty for one that stands."""
    return _TOPICS.get(claim.partition("/")[0], "") or _CLAIMS.get(claim, "")


def leaks(task: str, profile: str) -> bool:
    """Return whether runs of this task were made on the withdrawn text; no figure shows them.

    Args:
        task: facet of a variant.
        profile: of the runs; at the paper's size language is another text.
    """
    return task == "language" and profile != "paper"
