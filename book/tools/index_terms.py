"""Sphinx extension: terms of `book/terms.yml` in the index and first in the search."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from docutils.nodes import section
from sphinx.addnodes import index
from sphinx.errors import ExtensionError
from sphinx.transforms import SphinxTransform

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

TERMS = Path(__file__).parents[1] / "terms.yml"


@cache
def terms() -> dict[str, str]:
    """Pages by the term that they explain."""
    return dict(yaml.safe_load(TERMS.read_text(encoding="utf-8")))


class AddTerms(SphinxTransform):
    """Transform that puts a page's terms at its head, as main entries of the index."""

    default_priority = 400  # before the domains collect their entries

    def apply(self, **_: object) -> None:
        own = [term for term, page in terms().items() if page == self.env.docname]
        head = next(iter(self.document.findall(section)), None)
        if own and head is not None:
            entries = [("single", term, head["ids"][0], "main", None) for term in own]
            head.insert(1, index(entries=entries))


def check(_: Sphinx, env: BuildEnvironment) -> None:
    """Stop the build for a term whose page is missing."""
    lost = {term: page for term, page in terms().items() if page not in env.found_docs}
    if lost:
        raise ExtensionError(f"book/terms.yml names pages that the book lacks: {lost}")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(AddTerms)
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
