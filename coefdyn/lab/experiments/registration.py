"""When claims were fixed: the commit of the first run, written into every record and kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from coefdyn.lab.experiments.claim import Claim
from coefdyn.lab.training import Record, ResultFile
from coefdyn.lab.training.provenance import code_revision

__all__ = ["Registered", "changed_since", "digest", "registered_in", "registration"]


class Registered(NamedTuple):
    """What stood before an experiment's first run: the commit, and the digests of its claims."""

    commit: str
    digests: tuple[str, ...]


#: Experiment -> what was registered, where its file's records do not say it. The file of these two
#: was begun by principle-2.2, and its records have that experiment's digests alone. Those of
#: principle-2.1 are its claims as the code of the same commit computes them (``git archive
#: 0e5cb8efc1c1 coefdyn``, then ``digest``); that commit is older than the first run of the file.
FROM_GIT = {
    "principle-2.1": Registered(
        "0e5cb8efc1c1",
        ("2214085ab248", "b9dae1ba75d0", "51af1ba78498", "9ed3ca020689", "8a8018cca46f",
         "5ae8d37d8163", "4404477fc8ba", "b1f093962955", "72140ca1ef29", "63bc6a8307b3"),
    ),
    "principle-2.2": Registered(
        "0e5cb8efc1c1",
        ("0d71053295e2", "eea2f000e804", "974e19ac4c31", "9502ba7369df", "22aae808c815",
         "09f3104fde0e", "957923ee74eb", "6c098c6ea637", "c5af5a5a8442", "181ffd4f8404"),
    ),
}  # fmt: skip


def digest(claim: Claim) -> str:
    """A short name of a claim's sentence, test, threshold and control."""
    return hashlib.sha256(claim.registered().encode()).hexdigest()[:12]


def registration(
    claims: Mapping[str, Sequence[Claim]], results: ResultFile | None
) -> dict[str, Any]:
    """Entries of a record: the commit in which the claims stood at the file's first run.

    ``registered``: that commit; a "+" behind it says that the code was modified.
    ``claims``: the digests of the claims then. Both are copied from the file's first record, so
    that a later change of a claim can be seen (``changed_since``). In a file that several
    experiments share each entry is an object with one value per experiment.

    Args:
        claims: experiment -> its claims, of every experiment that looks at the file.
        results: the file; None where nothing is kept.
    """
    records = [] if results is None else results.records()
    now, shared = code_revision(), len(claims) > 1
    found = {
        name: registered_in(records, name, shared=shared)
        or Registered(now, tuple(digest(claim) for claim in those))
        for name, those in claims.items()
    }
    if shared:
        return {
            "registered": {name: one.commit for name, one in found.items()},
            "claims": {name: list(one.digests) for name, one in found.items()},
        }
    (alone,) = found.values()
    return {"registered": alone.commit, "claims": list(alone.digests)}


def registered_in(records: Iterable[Record], name: str, *, shared: bool) -> Registered | None:
    """What the first record that tells it says about an experiment, or None where none does.

    Args:
        records: of its file, oldest first.
        name: the experiment's id.
        shared: whether other experiments look at the same file. A record that names no
            experiment beside its digests says there nothing about this one, because they can be
            another one's.
    """
    for record in records:
        commit, digests = record.get("registered"), record.get("claims")
        if isinstance(digests, dict) and isinstance(commit, dict):
            if name in digests:
                return Registered(commit[name], tuple(digests[name]))
        elif digests is not None:
            known = FROM_GIT.get(name) if shared else Registered(str(commit), tuple(digests))
            if known is not None and known.commit == commit:
                return known
    return None


def changed_since(claims: Sequence[Claim], first: Registered | None) -> list[Claim]:
    """The claims that differ from those registered at a file's first run, or came later.

    None of them where it is not known what was registered.
    """
    return [] if first is None else [one for one in claims if digest(one) not in first.digests]
