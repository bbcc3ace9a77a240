"""Jupyter Book's command line, which then reads and writes pages in a process per core.

    python -m book.tools.parallel build book ...

Two extensions do not tell Sphinx that they may be read so: `sphinx_proof`, whose domain keeps
nothing of its own (its list of proofs is merged when Sphinx asks for it), and
`sphinx_multitoc_numbering`, which numbers titles when everything has been read.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

import sphinx_multitoc_numbering
from jupyter_book import sphinx
from jupyter_book.cli.main import main as command_line
from sphinx_proof.domain import ProofDomain


def merge_nothing(domain: Any, pages: Any, others: Any) -> None:
    """Take what a process read into the domain of all pages."""
    assert not domain.data.keys() - {"version"}, "proofs are kept in the domain after all"


def safe(setup: Any, app: Any) -> dict[str, bool]:
    """Register an extension; say that pages may be read and written side by side."""
    setup(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def main() -> int:
    ProofDomain.merge_domaindata = merge_nothing
    sphinx_multitoc_numbering.setup = functools.partial(safe, sphinx_multitoc_numbering.setup)
    sphinx.build_sphinx = functools.partial(sphinx.build_sphinx, jobs=os.cpu_count() or 1)
    return int(command_line() or 0)


if __name__ == "__main__":
    sys.exit(main())
