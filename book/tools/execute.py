"""Execute the chapters whose committed outputs are older than their sources.

    python -m book.tools.execute [--chapter NAME,...] [--profile paper] [--force] [--jobs N]
                                 [--cluster ADDRESS]

Each stale chapter runs in its own process; a failing one stops no other. Its partial output is
kept under `book/_build/failed/`, the committed notebook stays as it was, and the run ends with
status 1 and a list of chapters, cells and errors. A profile other than `quick` is written to
`book/_build/PROFILE/` unless --in-place asks for the committed notebook.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import yaml

from book.tools import digest as digests
from book.tools.chapters import BUILD, ROOT, Chapter, find_chapters, select
from book.tools.normalize import normalize, to_text
from book.tools.reproduce import differences, same_but_for_pictures
from book.tools.runner import (
    Failure,
    Outcome,
    accepts,
    find_unexecuted,
    parameter_cell,
    run,
)

QUICK = "quick"
#: files named as the reason why a chapter is stale
MOST_NAMED = 6
PARAMETER = re.compile(r"^(\w+)\s*[:=]", re.MULTILINE)
RUNTIMES = ROOT / "data" / "runtimes.json"


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of a run."""

    profile: str = QUICK
    force: bool = False
    in_place: bool = False
    jobs: int = 1
    parameters: dict[str, object]

    @property
    def committed(self) -> bool:
        """True if the run writes the committed notebooks."""
        return self.in_place or (self.profile == QUICK and not self.parameters)

    @property
    def all_parameters(self) -> dict[str, object]:
        """Parameters for papermill; none for a plain quick run, whose source sets them all."""
        profile = {} if self.profile == QUICK else {"profile": self.profile}
        return {**profile, **self.parameters}


def changed_parts(chapter: Chapter) -> list[str]:
    """The parts in which a chapter differs from its last execution.

    "code", "pins" and "files" are told by the record, "new" is a chapter without one. The committed
    notebook differs from its source in prose or tags ("text") or in code ("notebook"), has a cell
    that was never executed ("outputs"), or is no notebook ("unreadable").
    """
    if not chapter.notebook.exists():
        return ["new"]
    try:
        notebook = digests.read_notebook(chapter.notebook)
    except ValueError:
        return ["unreadable"]
    recorded = digests.recorded(chapter, executed())
    if recorded is None:
        return ["new"]
    source = digests.read_source(chapter)
    parts = recorded.changes(chapter)
    if digests.text_digest(notebook) != digests.text_digest(source):
        same = digests.code_digest(notebook) == digests.code_digest(source)
        parts += ["text"] if same else ["notebook"] if "code" not in parts else []
    return parts + (["outputs"] if find_unexecuted(chapter, notebook) else [])


def executed() -> Path:
    """The file of records, in the book whose builds lie in `BUILD`."""
    return BUILD.parent / digests.RECORD.name


def stale(chapter: Chapter) -> bool:
    """Return whether the chapter must be executed; a change of text alone does not require that."""
    return changed_parts(chapter) not in ([], ["text"])


def take_text(chapter: Chapter) -> None:
    """Give the committed notebook the source's new text and keep its outputs."""
    fresh = digests.read_source(chapter)
    old = digests.read_notebook(chapter.notebook)
    outputs = [cell for cell in old.cells if cell.cell_type == "code"]
    for cell, kept in zip((c for c in fresh.cells if c.cell_type == "code"), outputs, strict=True):
        cell.outputs, cell.execution_count = kept.outputs, kept.execution_count
    if "widgets" in old.metadata:
        fresh.metadata["widgets"] = old.metadata["widgets"]
    write(chapter.notebook, to_text(normalize(fresh)))


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def keep(outcome: Outcome, options: Options) -> str:
    """Write a run's result to its place; returns the message about it."""
    chapter, name = outcome.chapter, f"{outcome.chapter.name}.ipynb"
    failed = BUILD / "failed" / name
    if outcome.failure:
        write(failed, to_text(outcome.notebook))
        return f"FAILED in {outcome.seconds:.1f} s, kept in {relative(failed)}"
    failed.unlink(missing_ok=True)
    text = to_text(normalize(outcome.notebook))
    if not options.committed:
        apart = BUILD / options.profile / name
        write(apart, text)
        return f"{outcome.seconds:.1f} s, written to {relative(apart)}"
    before = chapter.notebook.read_bytes() if chapter.notebook.exists() else None
    note = "" if before is None else f", {differences(before.decode(errors='replace'), text)}"
    old = "" if before is None or options.force else before.decode(errors="replace")
    if same_but_for_pictures(old, text):
        note += "; the notebook stays"
    else:
        write(chapter.notebook, text)
    everyone = [one.name for one in find_chapters()]
    digests.record(chapter, outcome.made_from, everyone, executed())
    return f"{outcome.seconds:.1f} s{note}"


def relative(path: Path) -> str:
    return path.relative_to(BUILD.parents[1]).as_posix()


def execute(chapters: list[Chapter], options: Options) -> list[Failure]:
    """Run the chapters, `jobs` at a time, reporting each one's end; returns the failures."""
    failures, seconds = [], {}
    known = last_times(options.profile)
    chapters = sorted(chapters, key=lambda c: known.get(c.name, 0.0), reverse=True)  # longest first
    print(f"executing {len(chapters)} chapter(s), {options.jobs} at a time", flush=True)
    start = time.monotonic()
    with ThreadPoolExecutor(max_workers=options.jobs) as pool:
        todo = [pool.submit(run, chapter, options.all_parameters) for chapter in chapters]
        try:
            for number, future in enumerate(as_completed(todo), start=1):
                outcome = future.result()
                said = keep(outcome, options)
                place = f"[{number}/{len(todo)} {time.monotonic() - start:6.1f} s]"
                print(f"{place} {outcome.chapter.name}: {said}", flush=True)
                seconds[outcome.chapter.name] = round(outcome.seconds, 1)
                if outcome.failure:
                    failures.append(outcome.failure)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    note_times(seconds, options.profile)
    return failures


def last_times(profile: str) -> dict[str, float]:
    """Seconds that chapters took, as recorded for the book and then as last run here."""
    recorded = _read(RUNTIMES).get("seconds", {}).get(profile, {})
    return {**recorded, **_read(BUILD / "times.json").get(profile, {})}


def note_times(seconds: dict[str, float], profile: str) -> None:
    """Keep the seconds of the last run of every chapter, for the page of run times."""
    times = _read(BUILD / "times.json")
    times.setdefault(profile, {}).update(seconds)
    write(BUILD / "times.json", json.dumps(times, indent=1, sort_keys=True) + "\n")


def _read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def plan(chapters: list[Chapter], options: Options) -> list[Chapter]:
    """Select the chapters to execute; reports why, and updates texts on the way."""
    todo = []
    for chapter in chapters:
        if not options.committed:
            if applies(chapter, options):
                todo.append(chapter)
            continue
        parts = changed_parts(chapter)
        if parts == ["text"] and not options.force:
            take_text(chapter)
            print(f"{chapter.name}: only its text changed; outputs kept", flush=True)
        elif parts or options.force:
            todo.append(chapter)
            why = f"stale ({', '.join(parts)})" if parts else "forced"
            known = digests.recorded(chapter, executed())
            if known is not None and "files" in parts:
                names = known.changed_files()
                rest = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
                why += f": {', '.join(names[:MOST_NAMED])}{rest}"
            print(f"{chapter.name}: {why}")
    return todo


def read_parameters(words: str) -> dict[str, object]:
    """Parse the parameters of "seeds=3 device=cuda"; values are YAML.

    Raises ValueError that says what is wrong with which of them.
    """
    found: dict[str, object] = {}
    for word in words.split():
        name, equals, value = word.partition("=")
        if not (equals and name.isidentifier()):
            raise ValueError(
                f"SET takes name=value, such as SET='seeds=3 device=cuda'; got {word!r}."
            )
        try:
            found[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ValueError(f"SET: {value!r} is no value for {name} (YAML is read).") from error
    return found


def check_values(parameters: dict[str, object]) -> None:
    """Raise ValueError for a number of seeds or a device that no chapter could run with."""
    seeds, device = parameters.get("seeds"), parameters.get("device")
    if seeds is not None and (type(seeds) is not int or seeds < 1):
        raise ValueError(
            f"SET: seeds={seeds!r} ({type(seeds).__name__}) is no number of seeds; use a whole "
            "number from 1 on, or seeds=null for the profile's."
        )
    if device is not None:
        from coefdyn.lab.training import RunOptions

        try:
            RunOptions(device=str(device)).local_device()
        except ValueError as error:
            raise ValueError(f"SET: {error}") from None


def check_parameters(chapters: list[Chapter], names: Iterable[str]) -> None:
    """Raise ValueError for a parameter that none of the chapters takes, naming the nearest one."""
    cells = [parameter_cell(digests.read_source(chapter)) for chapter in chapters]
    known = {name for cell in cells if cell is not None for name in PARAMETER.findall(cell.source)}
    for name in names:
        if not known:
            asked = " and ".join(chapter.name for chapter in chapters) or "chapters"
            raise ValueError(
                f"SET: {asked}: no cell tagged `parameters`, so {name!r} sets nothing."
            )
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            remedy = (
                f"did you mean {near[0]}?" if near else f"they take {', '.join(sorted(known))}."
            )
            raise ValueError(f"SET: no chapter asked for takes {name!r}; {remedy}")


def applies(chapter: Chapter, options: Options) -> bool:
    """Return whether the chapter takes any of the requested parameters."""
    source = digests.read_source(chapter)
    takes = any(accepts(source, name) for name in options.all_parameters)
    if not takes:
        has = "other parameters" if parameter_cell(source) else "no parameters cell"
        print(f"{chapter.name}: {has}, nothing to run with {options.all_parameters}")
    return takes


def jobs(text: str) -> int:
    """Parse the number of chapters at a time; 0 for one per core."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number from 0 on; got {text!r}")
    return int(text)


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Execute stale chapters.")
    parser.add_argument("--chapter", default="", help="names between commas; all when empty")
    parser.add_argument("--profile", default="", help="quick (committed) or another, written apart")
    parser.add_argument("--set", default="", help="more parameters: 'seeds=3 device=cuda'")
    parser.add_argument("--force", action="store_true", help="also chapters that are up to date")
    parser.add_argument("--in-place", action="store_true", help="write committed notebooks anyway")
    parser.add_argument("--cluster", default="", help="of a dask scheduler that trains the runs")
    parser.add_argument("--jobs", type=jobs, default=0, help="chapters at a time; one per core")
    parser.add_argument("--check", action="store_true", help="run nothing; fail if any is stale")
    return parser.parse_args(arguments)


def sound(chapters: list[Chapter]) -> list[Chapter]:
    """Select the chapters that can be read and written; reports the fault of every other."""
    found = []
    for chapter in chapters:
        try:
            digests.read_source(chapter)
            if chapter.notebook.is_dir():
                raise ValueError(
                    f"{chapter.notebook} is a folder, where the notebook of {chapter.source.name} "
                    "belongs; move it away."
                )
            found.append(chapter)
        except (ValueError, OSError) as damage:
            print(f"left out: {damage}", file=sys.stderr)
    return found


def check(chapters: list[Chapter]) -> int:
    """Report which chapters are older than their sources; status 1 when there are any."""
    old = {chapter.name: changed_parts(chapter) for chapter in chapters}
    for name, parts in old.items():
        print(f"{name}: older than its {', '.join(parts)}" if parts else f"{name}: current")
    return 1 if any(old.values()) else 0


def main(arguments: list[str] | None = None) -> int:
    asked = parse_arguments(arguments)
    wanted = find_chapters()
    try:
        wanted = select(wanted, asked.chapter) if asked.chapter else wanted
        parameters = read_parameters(asked.set)
        chapters = sound(wanted)
        check_parameters(chapters, parameters)
        check_values(parameters)
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 2
    damaged = len(chapters) < len(wanted)
    if asked.check:
        return check(chapters) or int(damaged)
    if asked.cluster:  # the chapters' kernels read it
        os.environ["DASK_SCHEDULER_ADDRESS"] = asked.cluster
    options = Options(
        profile=asked.profile or QUICK,
        force=asked.force,
        in_place=asked.in_place,
        jobs=asked.jobs or max(1, min(os.cpu_count() or 1, 4)),
        parameters=parameters,
    )
    todo = plan(chapters, options)
    if not todo:
        print(f"{len(chapters)} chapter(s) current: nothing to execute")
        return int(damaged)
    try:
        failures = execute(todo, options)
    except KeyboardInterrupt:
        print("interrupted; what is finished is kept, the same command goes on", file=sys.stderr)
        return 130
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures or damaged else 0


if __name__ == "__main__":
    sys.exit(main())
