"""Scripts are joined by their imports; what is joined names nothing unknown and nothing in vain."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import coefdyn
from coefdyn.lab.films import TrainingFilm
from coefdyn.lab.train import PageTraining
from coefdyn.lab.train.offers import offered
from coefdyn.lab.train.source import worker_source
from coefdyn.widgets import Explorer, ScoreVariance
from coefdyn.widgets.modules import join, unused_exports
from coefdyn.widgets.source import lean_style

PACKAGE = Path(coefdyn.__file__).parent
CONFIG = PACKAGE / "widgets" / "oxlint.json"
BESIDE = Path(sys.executable).parent


def lint(folder: Path, config: Path = CONFIG) -> list[str]:
    """Messages of the linter about the scripts below a folder: "file.js: rule: words"."""
    command = shutil.which("oxlint", path=f"{BESIDE}{os.pathsep}{os.environ['PATH']}")
    assert command, "the linter is missing; `pip install -c pins.txt -e '.[lint]'` installs it"
    arguments = (command, "--config", config, "--format", "json", ".")
    run = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
    found = json.loads(run.stdout)["diagnostics"]
    return sorted(f"{one['filename']}: {one['code']}: {one['message']}" for one in found)


def written(folder: Path, **files: str) -> Path:
    """The folder with these scripts; the entry is ``main.js``."""
    for name, text in files.items():
        (folder / f"{name}.js").write_text(text, encoding="utf-8")
    return folder / "main.js"


def unpacked(module: str) -> str:
    packed = re.search(r"[A-Za-z0-9+/=]{1000,}", module)
    return gzip.decompress(base64.b64decode(packed.group())).decode() if packed else module


def modules() -> dict[str, str]:
    """Modules that pages carry, and those that a worker runs."""
    widgets = (Explorer, ScoreVariance, TrainingFilm, PageTraining)
    found = {widget.__name__: unpacked(widget._esm) for widget in widgets}
    return {**found, "worker": worker_source(offered())}


def test_what_is_joined_names_nothing_unknown_and_nothing_in_vain(tmp_path: Path) -> None:
    sources = modules()
    assert len(sources) == 5
    for name, text in sources.items():
        (tmp_path / f"{name}.js").write_text(text, encoding="utf-8")
        assert not re.search(r"^\s*import\s|import\(|https?://", text, flags=re.MULTILINE)
        assert text.count("export ") == text.count("export default") == (name != "worker")
    assert lint(tmp_path) == []


def test_the_arithmetic_never_touches_a_page(tmp_path: Path) -> None:
    arithmetic = join(PACKAGE / "widgets" / "js" / "model.js", whole=True)
    (tmp_path / "arithmetic.js").write_text(arithmetic, encoding="utf-8")
    config = tmp_path / "config.json"
    rules = {"no-undef": "error"}
    settings: dict[str, Any] = {"env": {"browser": False, "es2024": True}, "rules": rules}
    config.write_text(json.dumps({**settings, "categories": {"correctness": "off"}}))
    assert lint(tmp_path, config) == []
    (tmp_path / "page.js").write_text("export const width = () => document.body.clientWidth;")
    assert len(lint(tmp_path, config)) == 1


def test_the_files_themselves_are_clean() -> None:
    assert lint(PACKAGE) == []
    assert lint(PACKAGE.parent / "book" / "assets") == []
    assert unused_exports(PACKAGE) == []


def test_the_linter_finds_what_it_is_for(tmp_path: Path) -> None:
    written(
        tmp_path,
        main='import { f, g } from "./other.js";\n\nfunction idle() {\n  return f(lost);\n}\n',
        other="export const f = (x) => x;\nexport const h = 1;\n",
    )
    said = "\n".join(lint(tmp_path))
    for words in ("'lost' is not defined", 'named import "g" not found', "'idle' is declared"):
        assert words in said
    assert unused_exports(tmp_path) == ["other.js: h is exported and imported nowhere"]


USES = 'import { f } from "./other.js";\nf();\n'


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"main": USES, "other": "const f = 1;\n"}, "main.js imports f, which other.js does not"),
        (
            {"main": USES + "const g = 1;\n", "other": "const g = 1;\nexport const f = g;\n"},
            "g is declared in",
        ),
        (
            {"main": USES, "other": 'import { g } from "./main.js";\nexport const f = 1;\n'},
            "main.js imports other.js imports main.js; move what they share",
        ),
        ({"main": USES}, "main.js imports other.js: no such file"),
        ({"main": 'import VALUE from "coefdyn:value";\nf(VALUE);\n'}, "nothing is given for"),
        ({"main": 'import { f as g } from "./other.js";\n'}, "this form of import"),
        ({"main": 'import * as f from "./other.js";\n'}, "this form of import"),
        ({"main": 'import {\n  f,\n} from "./other.js";\n'}, "this form of import"),
        ({"main": 'export { f } from "./other.js";\n'}, "this form of export"),
        ({"main": "const f = `a\n  b`;\n"}, "over several lines"),
    ],
)
def test_what_cannot_be_joined_is_refused_in_words(
    tmp_path: Path, files: dict[str, str], words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        join(written(tmp_path, **files))


def test_style() -> None:
    text = "/* a */\n.a > .b :is(c, d) {\n  margin: 0 auto; width: calc(1px + 2px);\n}\n"
    assert lean_style(text) == ".a > .b :is(c,d){margin:0 auto;width:calc(1px + 2px)}"
