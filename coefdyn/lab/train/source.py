"""The scripts of the training figure: its module, and the text that its worker runs."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from coefdyn.widgets.modules import join
from coefdyn.widgets.source import lean_style, pack

__all__ = ["page_source", "trainer_source", "worker_source"]

_HERE = Path(__file__).parent
_JS = _HERE / "js"


def trainer_source(offered: dict[str, Any]) -> str:
    """Script of a run with its tasks, model, gradient and optimiser, as top-level functions.

    Args:
        offered: what the page offers, ``coefdyn.lab.train.offers.offered()``.
    """
    return join(_JS / "worker" / "trainer.js", {"coefdyn:offered": offered}, whole=True)


def worker_source(offered: dict[str, Any]) -> str:
    """Script of the worker: a run that answers the page.

    Args:
        offered: as for ``trainer_source``.
    """
    return join(_JS / "worker" / "worker.js", {"coefdyn:offered": offered})


@cache
def page_source(offered: str) -> str:
    """The module of the figure, compressed; its worker's text and its stylesheet travel in it, so
    that a page that has the explorer's stylesheet already carries no second.

    Args:
        offered: as for ``trainer_source``, in JSON, so that equal figures share a module.
    """
    values = json.loads(offered)
    given = {
        "coefdyn:offered": values,
        "coefdyn:style": lean_style((_HERE / "css" / "train.css").read_text(encoding="utf-8")),
        "coefdyn:worker": worker_source(values),
    }
    return pack(join(_JS / "page" / "trainer.js", given))
