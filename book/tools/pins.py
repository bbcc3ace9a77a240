"""Write `pins.txt`: the exact version of every package that any extra of the project installs.

    python -m book.tools.pins            resolve again, keeping every present pin that still fits
    python -m book.tools.pins --upgrade  resolve again from scratch

One resolution covers Python 3.11 to 3.13 on Linux and macOS; a marker stands only where a pin
holds on some of them. `pip install -c pins.txt` reads the file, and so does `environment.yml`.
The first section is what a chapter's outputs depend on (see `book.tools.digest`); the second is
what only tests, linters, peers and optional extras need.
"""

from __future__ import annotations

import argparse
import itertools
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement

from book.tools.chapters import ROOT

PINS = ROOT / "pins.txt"
BOOK_TITLE = "# --- the library and the book ---"
REST_TITLE = "# --- tests, linters, peers and optional extras ---"

PYTHONS = ("3.11.0", "3.11.9", "3.12.0", "3.12.9", "3.13.0", "3.13.9")
PLATFORMS = (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"))

# Simple markers tried, in this order, in place of the resolver's long ones.
SIMPLE = (
    "sys_platform == 'linux'",
    "sys_platform == 'darwin'",
    *(
        f"python_version {op} '{v}'"
        for v, op in itertools.product(("3.12", "3.13"), ("<", ">=", "=="))
    ),
    *(f"python_full_version {op} '3.11.5'" for op in ("<", ">=")),
)


def environments() -> list[dict[str, str]]:
    """Every environment the pins are for, as marker variables."""
    return [
        {
            "python_full_version": python,
            "python_version": ".".join(python.split(".")[:2]),
            "sys_platform": platform,
            "platform_system": platform.capitalize(),
            "platform_machine": machine,
            "implementation_name": "cpython",
            "platform_python_implementation": "CPython",
            "os_name": "posix",
            "extra": "",
        }
        for python, (platform, machine) in itertools.product(PYTHONS, PLATFORMS)
    ]


def simplify(requirement: Requirement) -> str | None:
    """The pin with the shortest marker that means the same in our environments.

    None when the pin holds in none of them.
    """
    pin = f"{requirement.name.lower()}{requirement.specifier}"
    if requirement.marker is None:
        return pin
    wanted = [requirement.marker.evaluate(env) for env in environments()]
    if all(wanted):
        return pin
    if not any(wanted):
        return None
    for text in SIMPLE:
        if [Marker(text).evaluate(env) for env in environments()] == wanted:
            return f"{pin} ; {text}"
    return f"{pin} ; {requirement.marker}"


def resolve(extras: list[str], previous: str) -> list[Requirement]:
    """One universal resolution of the project with these extras, by `uv pip compile`.

    previous: text of pins that the resolver keeps where it can.
    """
    limits = ", ".join(
        f"\"python_version < '3.14' and sys_platform == '{name}'\"" for name in ("linux", "darwin")
    )
    with tempfile.TemporaryDirectory() as folder:
        project, output = Path(folder, "pyproject.toml"), Path(folder, "out.txt")
        text = (ROOT / "pyproject.toml").read_text()
        project.write_text(f"{text}\n[tool.uv]\nenvironments = [{limits}]\n")
        output.write_text(previous)
        command = [sys.executable, "-m", "uv", "pip", "compile", "--universal", "--quiet"]
        command += ["--python-version", "3.11.0", "--no-header", "--no-annotate"]
        command += [f"--extra={name}" for name in extras]
        command += [str(project), "-o", str(output)]
        subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)
        lines = output.read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith("#")]


def canonical(name: str) -> str:
    """A package's name as indexes compare it: lower case, one hyphen between words."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(text: str | None = None) -> dict[str, list[Requirement]]:
    """Read the current pins by canonical name; a package has several where markers part them."""
    lines = (PINS.read_text() if text is None else text).splitlines()
    pins: dict[str, list[Requirement]] = {}
    for line in filter(None, (line.split("#")[0].strip() for line in lines)):
        requirement = Requirement(line)
        pins.setdefault(canonical(requirement.name), []).append(requirement)
    return pins


def book_section(text: str) -> str:
    """Pins on which a chapter's outputs depend: the first section, without comments."""
    lines = text.split(REST_TITLE)[0].splitlines()
    return "\n".join(sorted(filter(None, (line.split("#")[0].strip() for line in lines))))


def render(everything: list[Requirement], book: set[str]) -> str:
    """The text of pins.txt: two sections, each sorted."""
    sections: dict[bool, list[str]] = {True: [], False: []}
    for requirement in everything:
        line = simplify(requirement)
        if line:
            sections[canonical(requirement.name) in book].append(line)
    head = "# Written by `make pins`; pip and conda installs share it. Do not edit by hand."
    parts = [head, "", BOOK_TITLE, *sorted(sections[True]), ""]
    return "\n".join([*parts, REST_TITLE, *sorted(sections[False]), ""])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Resolve every extra and write pins.txt.")
    parser.add_argument("--upgrade", action="store_true", help="forget the present pins")
    options = parser.parse_args(arguments)
    previous = "" if options.upgrade or not PINS.exists() else PINS.read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    everything = resolve(sorted(project["optional-dependencies"]), previous)
    exact = "\n".join(str(requirement) for requirement in everything)
    book = {canonical(requirement.name) for requirement in resolve(["book"], exact)}
    PINS.write_text(render(everything, book))
    print(f"{PINS.name}: {len(everything)} pins, {len(book)} of them for the book")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
