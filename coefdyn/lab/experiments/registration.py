"""When claims were fixed: the commit of the first run, written into every record and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from coefdyn.lab.experiments.claim import Claim
from coefdyn.lab.training import ResultFile
from coefdyn.lab.training.provenance import code_revision

__all__ = ["changed_since", "digest", "registration"]


def digest(claim: Claim) -> str:
    """A short name of a claim's sentence, test, threshold and control."""
    return hashlib.sha256(claim.registered().encode()).hexdigest()[:12]


def registration(claims: Sequence[Claim], results: ResultFile | None) -> dict[str, Any]:
    """Entries of a record: the commit in which the claims stood at the file's first run.

    ``registered``: that commit; a "+" behind it says that the code was modified.
    ``claims``: the digests of the claims then. Both are copied from the file's first record, so
    that a later change of a claim can be seen (``changed_since``).
    """
    for record in results.records() if results is not None else ():
        if "registered" in record:
            return {"registered": record["registered"], "claims": record["claims"]}
    return {"registered": code_revision(), "claims": [digest(claim) for claim in claims]}


def changed_since(claims: Sequence[Claim], record: dict[str, Any]) -> list[Claim]:
    """The claims that differ from those registered at a file's first run, or came later."""
    return [claim for claim in claims if digest(claim) not in record.get("claims", ())]
