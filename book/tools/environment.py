"""Reasons why this environment cannot be used as it is; prints nothing where it can.

    python -m book.tools.environment [EXTRA...]

make asks before it trusts an environment, whose marks of an installation may outlive what was
installed: after a removal that was cut short, or in a checkout that was copied or moved. Standard
library alone: whatever else is missing is what there is to say.
"""

from __future__ import annotations

import json
import re
import sys
import sysconfig
import tomllib
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"[\w.-]+")
#: the importable folders in a package's list of its files
FOLDER = re.compile(r"^[^/,\n]+/__init__\.py(?=,)", re.MULTILINE)


def installed(name: str) -> Distribution | None:
    """Installed metadata of a package in this environment, not in the folder that make runs in."""
    place = sysconfig.get_path("purelib")
    return next(iter(distributions(name=name, path=[place])), None)


def is_torn(package: Distribution) -> bool:
    """Return whether one of the installed folders is missing."""
    folders = FOLDER.findall(package.read_text("RECORD") or "")
    return any(not Path(str(package.locate_file(one))).exists() for one in folders)


def asked_for(extras: list[str], root: Path = ROOT) -> list[str]:
    """The names of pip and of what the library and its extras need on every machine."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *(project["optional-dependencies"][one] for one in extras)]
    lines = ["pip", *(line for group in groups for line in group if ";" not in line)]
    return list(dict.fromkeys(match[0] for match in map(NAME.match, lines) if match))


def library() -> Path | None:
    """Checkout from which `coefdyn` is installed, None for none."""
    package = installed("coefdyn")
    said = package.read_text("direct_url.json") if package else None
    return Path(unquote(urlsplit(json.loads(said)["url"]).path)) if said else None


def trouble(extras: list[str], root: Path = ROOT) -> str:
    """Description of the fault; empty where there is none.

    An environment that is a link belongs to another checkout, whose library it may hold.
    """
    found = {name: installed(name) for name in asked_for(extras, root)}
    torn = [name for name, package in found.items() if package and is_torn(package)]
    if torn:
        return f"{sys.prefix} holds parts of {', '.join(torn)}"
    missing = [name for name, package in found.items() if package is None]
    if missing:
        return f"{sys.prefix} lacks {', '.join(missing)}"
    place = library()
    linked = (root / Path(sys.prefix).name).is_symlink()
    if place is None or (not linked and place.resolve() != root):
        return f"{sys.prefix} holds the library of {place or 'no checkout'}, not of {root}"
    return ""


if __name__ == "__main__":
    print(trouble(sys.argv[1:]))
