"""A plan against other ways to a smaller cache, at equal bytes: kvpress's methods, and none.

``python -m coefdyn.lab lens-peers MODEL.gguf --text FILE --plan FILE --out FILE --python PYTHON``
measures here the model as it is and with the plan, and has PYTHON, an environment with kvpress,
measure the others (``lens_peers_kvpress.py``), each in a process of its own. Both measure the uncut
model, which has to agree. The file is written after each method: what it holds is not measured
again, and a method that failed stands in it with what its process said.

What is compared, fixed before the judged documents were read:

- Documents that ``lens-plan`` has not read at any length, so neither planned nor measured on: four
  pilots (``--pilot``) to try the programs, and twenty others that judge. The plan is the kept one
  of that length; no setting of any method was chosen here.
- A text is read up to a cut (512 tokens); a sentence with a number, a needle, is hidden in it.
  What a method holds there may take a share of the bytes (.75, .5, .25). From it the next tokens
  are read, and in their place a question about the needle. kvpress cuts once, when it knows the
  text, and keeps all that comes later. **The plan** cuts its heads before it has read anything, as
  its cache does: their windows are short in the prefill already, and move on behind it. **The plan,
  cut once** cuts the same heads when the others do, and keeps what comes later.
- The plan gives each head all rows or 68. kvpress gives all heads of a layer the same number,
  except AdaKV, CriticalAdaKV, KVzip and KVgrad, whose rows it marks and does not free, and
  DuoAttention*, which is kvpress's experimental score of heads, computed on the texts of the plan
  instead of a download, with the plan's sink and window.
- The first comparison: at 512 tokens and half of the bytes, the loss of the next 128 tokens that
  are predicted behind the cut, each method less the plan on the same 20 documents; its 95 %
  interval by Student's t, and a margin of equivalence of .01 nats per token. All else is second:
  other shares, needles (how many of 20 are right, and the loss of the answers), 2048 tokens.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from coefdyn.lab.experiments.intervals import JUDGED_CONFIDENCE, Interval, t_interval
from coefdyn.lab.experiments.rule import HELD, NOT_HELD, verdict
from coefdyn.lab.scripts import lens_peers_kvpress as shared
from coefdyn.lab.scripts.lens_plan import NAMES, TrialConfig, hide, load, split_texts, versions
from coefdyn.lens.cache.cache_plan import CachePlan, HeadCost
from coefdyn.progress import Progress

__all__ = [
    "MARGIN",
    "PLAN",
    "PLAN_ONCE",
    "compared",
    "kept_plan",
    "main",
    "measured_here",
    "ranked",
    "table",
    "texts_of",
]

Record = dict[str, Any]
#: nats per token within which two losses do not differ in a way that matters
MARGIN = 0.01
SHARES, PILOTS = (0.75, 0.5, 0.25), 4
#: rows of the plan: as its heads' windows move on, and with everything kept after the cut
PLAN, PLAN_ONCE = "the plan", "the plan, cut once"
#: tokens that are judged behind a cut
NEXT = 128


def kept_plan(record: Record) -> CachePlan:
    """The plan that ``lens-plan`` has kept, without what its prediction needs."""
    fields = HeadCost.__dataclass_fields__
    heads = tuple(
        HeadCost(**{**{name: row[name] for name in fields}, "queries": tuple(row["queries"])})
        for row in record["heads"]
    )
    settings = record["settings"]
    return CachePlan(
        heads=heads,
        cut=0,
        sink=settings["sink"],
        window=settings["window"],
        length=settings["length"],
        loss=record["loss_planned"],
        products=torch.zeros(len(heads), len(heads)),
        unsupported=record["unsupported"],
    )


def texts_of(
    files: Sequence[Path],
    tokenize: Callable[[str], list[int]],
    plans: Sequence[Record],
    documents: int,
    pilot: bool,
) -> tuple[list[Record], list[list[int]]]:
    """Documents with a needle, each with a question about it; the texts of the first plan.

    Of a document ``ids`` are what is read, the needle before the cut; ``asked`` is the question
    with its answer, of ``answer`` tokens, which is read behind the cut in place of what follows.

    Args:
        files, tokenize: as for ``split_texts``.
        plans: what ``lens-plan`` has kept; the first is compared, no document of any is read.
        documents: how many judge.
        pilot: the pilots in place of those.
    """
    tokenize = cache(tokenize)  # every document is looked at once for each trial
    parts = [split_texts(files, tokenize, _config(plan["settings"])) for plan in plans]
    seen = [row for part in parts for texts in part for row in texts.tolist()]
    cut = plans[0]["settings"]["length"]
    config = TrialConfig(length=cut + 1 + NEXT, planned=PILOTS, held_out=documents)
    chosen = split_texts(files, tokenize, config, seen)[0 if pilot else 1]
    draw, texts = random.Random(0), []
    for number, row in enumerate(chosen.tolist()):
        ids, asked, answer = hide(row, tokenize, NAMES[number % len(NAMES)], draw, before=cut)
        texts.append({"ids": ids[: config.length], "asked": asked, "answer": answer})
    return texts, parts[0][0].tolist()


def _config(settings: Record) -> TrialConfig:
    """Of a kept trial."""
    return TrialConfig(**{name: settings[name] for name in TrialConfig.__dataclass_fields__})


def measured_here(
    model: nn.Module, plan: CachePlan, text: Record, shares: Sequence[float]
) -> Record:
    """The model uncut and with the plan, in the form of ``lens_peers_kvpress.results``.

    Args:
        model: whose layers are numbered as transformers does.
        plan: as long as the text is before its cut.
        text: of ``texts_of``.
        shares: of the bytes.
    """
    ids, start = torch.tensor([text["ids"]]), plan.length
    whole = shared.prefilled(model, ids[:, :start])
    full = shared.held_bytes(model, whole)
    read = shared.read_both(model, whole, text, start, start)
    found: Record = {"uncut": [*read, full], "methods": {PLAN: {}, PLAN_ONCE: {}}}
    for share in shares:
        cut = plan.within(share * plan.bytes_full)
        heads: dict[int, list[int]] = {}
        for one in cut.heads[: cut.cut]:
            heads.setdefault(model.get_submodule(one.layer).layer_idx, []).append(one.head)  # type: ignore[arg-type, index]
        shared.forget(model, heads, start, cut.sink, cut.window)
        read = shared.read_both(model, whole, text, start, start)
        found["methods"][PLAN_ONCE][str(share)] = [*read, shared.held_bytes(model, whole)]
        shared.stream(model, heads, cut.sink, cut.window)
        streamed = shared.prefilled(model, ids[:, :start], shared.BEHIND)
        read = shared.read_both(model, streamed, text, start, start)
        found["methods"][PLAN][str(share)] = [*read, cut.bytes]
        shared.stream(model, {}, cut.sink, cut.window)
    return found


def record_of(here: Sequence[Record], there: Sequence[Record]) -> Record:
    """Both halves as one: rows of a method and a share, numbers by document.

    Args:
        here: of ``measured_here``, one of each text.
        there: the same from the other environment; empty for what was measured here alone.

    Raises:
        ValueError: where the two do not hold the same texts.
    """
    if there and len(here) != len(there):
        raise ValueError(f"{len(here)} texts were measured here and {len(there)} with kvpress.")
    rows = []
    for both in (here, there):
        for name, by_share in both[0]["methods"].items() if both else ():
            for share in by_share:
                found = [one["methods"][name][share] for one in both]
                rows.append(
                    {
                        "method": name,
                        "share": float(share),
                        "bytes": max(held for *_, held in found),
                        **_told(found),
                    }
                )
    apart = [abs(a["uncut"][0] - b["uncut"][0]) for a, b in zip(here, there, strict=False)]
    uncut = [one["uncut"] for one in here]
    return {
        "bytes": uncut[0][-1],
        "uncut": _told(uncut),
        "uncut_apart": max(apart, default=0.0),
        "rows": rows,
    }


def measured_there(command: Sequence[Any], task: Record, gib: float) -> Record | str:
    """Numbers of ``lens_peers_kvpress``, from a process of its own, or why there are none.

    One method at a time, because some need many times the memory of others and what a process has
    taken it gives back at its end alone.

    Args:
        command: the Python of the other environment, and the model.
        task: of ``lens_peers_kvpress``.
        gib: most memory that the process may map; more raises in it.
    """
    import resource  # not on every system

    most = int(gib * 2**30)
    with tempfile.TemporaryDirectory() as folder:
        told, part = (Path(folder) / name for name in ("task.json", "kvpress.json"))
        told.write_text(json.dumps(task))
        python, model = command
        done = subprocess.run(
            [str(one) for one in (python, shared.__file__, model, told, part)],
            check=False,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
        )
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            return said[-1][:200] if said else f"ended with status {done.returncode}"
        return json.loads(part.read_text())


def _keep(out: Path, record: Record, found: Record) -> None:
    """Write the record with what was found: rows of before stay."""
    rows = found.get("rows", [])
    new = {(row["method"], row["share"]) for row in rows}
    kept = [row for row in record["rows"] if (row["method"], row["share"]) not in new]
    apart = max(found.get("uncut_apart", 0.0), record["uncut_apart"])
    dates = sorted({*record.get("dates", ()), date.today().isoformat()})
    record |= {**found, "uncut_apart": apart, "rows": [*kept, *rows], "dates": dates}
    out.write_text(json.dumps(record, indent=1) + "\n")


def _told(found: Sequence[Sequence[Any]]) -> Record:
    """Losses of the documents and of the answers, and how many answers were right."""
    return {
        "loss": [round(loss, 5) for loss, *_ in found],
        "needle_loss": [round(loss, 4) for _, loss, *_ in found],
        "needles_right": sum(right for _, _, right, _ in found),
    }


def compared(row: Record, other: Record) -> tuple[Interval, str]:
    """Compare two methods: the first one's excess loss on the same documents, and who is ahead.

    "behind" where the whole interval is above 0, "ahead" where it is below, and else as
    ``rule.verdict`` has it with ``MARGIN``.
    """
    more = [a - b for a, b in zip(row["loss"], other["loss"], strict=True)]
    found = t_interval(more, JUDGED_CONFIDENCE)
    status = verdict(found, MARGIN)
    return found, {HELD: "behind", NOT_HELD: "ahead"}.get(status, status)


def ranked(record: Record, share: float) -> list[Record]:
    """The rows of a share of the bytes, the least loss first."""
    rows = [row for row in record["rows"] if row["share"] == share]
    return sorted(rows, key=lambda row: statistics.fmean(row["loss"]))


def table(record: Record, share: float) -> str:
    """Rise of the loss over the uncut model, needles, the difference to the plan, and bytes."""
    rows = ranked(record, share)
    plan = next(row for row in rows if row["method"] == PLAN)
    lines = [f"{'':<28}{'rise':>6}  needles  {'more than the plan':<51}answer  bytes"]
    for row in rows:
        rise, _ = compared(row, record["uncut"])
        more, who = compared(row, plan)
        told = ("", "") if row is plan else (f"{more}", who)
        answer = statistics.fmean(row["needle_loss"])
        lines.append(
            f"{row['method']:<28}{rise.mean:>6.3f}  {row['needles_right']:>7}  "
            f"{told[0]:<23} {told[1]:<26} {answer:>6.2f}  {row['bytes'] / record['bytes']:.1%}"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Measure here and there, keep both and print the tables; returns 0."""
    parser = argparse.ArgumentParser(prog="python -m coefdyn.lab lens-peers")
    parser.add_argument("model", type=Path, help="a .gguf file (needs gguf)")
    parser.add_argument("--text", type=Path, nargs="+", required=True, help="as of lens-plan")
    parser.add_argument(
        "--plan",
        type=Path,
        nargs="+",
        required=True,
        help="files of lens-plan: the plan that is compared, and others whose texts are not read",
    )
    parser.add_argument("--out", type=Path, required=True, help="a .json file; rows in it are kept")
    parser.add_argument("--python", required=True, help="of an environment with kvpress")
    parser.add_argument("--documents", type=int, default=20, help="that judge")
    parser.add_argument("--pilot", action="store_true", help="read the pilots in place of them")
    parser.add_argument("--shares", type=float, nargs="+", default=SHARES, help="of the bytes")
    parser.add_argument(
        "--methods", nargs="+", choices=list(shared.METHODS), default=list(shared.METHODS)
    )
    parser.add_argument("--gib", type=float, default=20, help="most memory of a method's process")
    parser.add_argument(
        "--together", action="store_true", help="all methods in one process: each text is read once"
    )
    given = parser.parse_args(arguments)
    plans = [json.loads(path.read_text()) for path in given.plan]
    model, tokenize = load(str(given.model))
    texts, planned = texts_of(given.text, tokenize, plans, given.documents, given.pilot)
    trial = {name: plans[0]["settings"][name] for name in ("length", "sink", "window")}
    settings = {
        "model": given.model.name,
        "text": [path.name for path in given.text],
        "plan": given.plan[0].name,
        **trial,
        "next": NEXT,
        "pilot": given.pilot,
        "here": versions(str(given.model)),
    }
    old = json.loads(given.out.read_text()) if given.out.exists() else {"rows": []}
    if old["rows"] and old["settings"] != (settings | {"there": old["settings"]["there"]}):
        parser.error(f"{given.out} holds other settings; remove it, or choose another --out.")
    known = {(row["method"], row["share"]) for row in old["rows"]}
    own = [share for share in given.shares if (PLAN, share) not in known]
    plan, here = kept_plan(plans[0]), []
    with Progress(len(texts), "the plan") as bar:
        for done, text in enumerate(texts, start=1):
            here.append(measured_here(model, plan, text, own))
            bar.update(done)
    record = {"left_out": shared.LEFT_OUT, "failed": {}, "uncut_apart": 0.0} | old
    record |= {"settings": settings | {"there": old.get("settings", {}).get("there", {})}}
    _keep(given.out, record, record_of(here, []))
    common = {**trial, "planned": planned, "texts": texts}
    lacking = {
        name: [share for share in given.shares if (name, share) not in known]
        for name in given.methods
    }
    names = [name for name in given.methods if lacking[name]]
    for some in [names] if given.together and names else [[name] for name in names]:
        shares = [x for x in given.shares if any(x in lacking[name] for name in some)]
        there = measured_there(
            (given.python, given.model), {**common, "methods": some, "shares": shares}, given.gib
        )
        if isinstance(there, str):
            print(f"{', '.join(some)} failed: {there}")
            record["failed"] |= dict.fromkeys(some, there)
            _keep(given.out, record, {})
            continue
        record["settings"]["there"] = there["versions"]
        for name in some:
            record["failed"].pop(name, None)
        _keep(given.out, record, record_of(here, there["texts"]))
        print(f"{', '.join(some)}: done", flush=True)
    print(f"uncut, the two environments differ by at most {record['uncut_apart']:.1e} nats")
    for share in sorted({row["share"] for row in record["rows"]}, reverse=True):
        print(f"\n{share:.0%} of the bytes\n{table(record, share)}")
    return 0
