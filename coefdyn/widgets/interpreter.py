"""The page's arithmetic, in one JavaScript interpreter per process, started when first asked.

It is V8, from the package mini-racer. Only numbers of the page need it: a figure opens without.
"""

from __future__ import annotations

import atexit
import json
from functools import cache
from typing import Any

from coefdyn.widgets.source import arithmetic_source

__all__ = ["ask", "evaluate"]


def ask(name: str, *given: Any) -> Any:
    """The answer of a function of ``js/asked.js``, such as ``ask("figure", "memory", settings)``.

    Raises:
        ImportError: where mini-racer is not installed.
    """
    return evaluate(f"asked.{name}", *given)


def evaluate(function: str, *given: Any) -> Any:
    """The value of a JavaScript function, named or written out, in sight of all the arithmetic.

    Args:
        function: such as "drawNormal" or "(x) => x + 1".
        given: its arguments, which JSON can hold.

    Raises:
        ImportError: where mini-racer is not installed.
    """
    arguments = ", ".join(json.dumps(one, allow_nan=False) for one in given)
    answer = _interpreter().eval(f"asked.json(({function})({arguments}))")
    return json.loads(answer, object_hook=_number)


def _number(found: dict[str, Any]) -> Any:
    """A number without an end, which JSON cannot hold, or the object as it is."""
    return float(found[""]) if "" in found else found


@cache
def _interpreter() -> Any:
    try:
        from py_mini_racer import MiniRacer
    except ImportError as error:
        raise ImportError(
            "the numbers that an interactive figure shows are computed by its own JavaScript, "
            "which Python runs with mini-racer, an extra: pip install 'coefdyn[widgets]' (in a "
            "checkout: pip install '.[widgets]').",
            name="py_mini_racer",
        ) from error
    interpreter = MiniRacer()
    atexit.register(interpreter.close)  # a process would wait for it
    interpreter.eval(arithmetic_source())
    return interpreter
