"""A small progress bar with the time left; the standard library only."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

__all__ = ["Progress", "clock_text"]


def clock_text(seconds: float) -> str:
    """Seconds as ``m:ss`` or ``h:mm:ss``."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


def _notebook_display() -> Any | None:
    """IPython's display handle when running in a notebook kernel, else None."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython import get_ipython
    from IPython.display import DisplayHandle

    return DisplayHandle() if getattr(get_ipython(), "kernel", None) is not None else None


class Progress:
    """Progress bar on one line that is redrawn in place and removed at the end.

    Args:
        total: number of units (steps) in all.
        title: what is being done.
        show: True, False, or None for "on a terminal or in a notebook, unless ``CI`` is set". With
            None and neither of them, as in a log file, one line a minute is written.
    """

    def __init__(self, total: int, title: str, show: bool | None = None) -> None:
        self.total = max(1, total)
        self.title = title
        self.done = 0
        self._start = time.monotonic()
        self._drawn = 0.0
        self._width = 0
        self._handle = _notebook_display() if show is not False else None
        self._minutely = False
        if show is None:
            show = not os.environ.get("CI") and (self._handle is not None or sys.stderr.isatty())
            self._minutely = not (show or os.environ.get("CI"))
        self.show = show
        self._written = self._start
        self._open = False

    def update(self, done: int, note: str = "") -> None:
        """Set the number of finished units, with a few words about the last one."""
        self.done = done
        now = time.monotonic()
        if self.show and (now - self._drawn > 0.2 or done >= self.total):
            self._drawn = now
            self._draw(self.line(note))
        if self._minutely and now - self._written > 60:
            self._written = now
            print(self.line(note), file=sys.stderr, flush=True)

    def line(self, note: str = "") -> str:
        """The bar as text: title, bar, percent, time spent and left, the time of the end, note."""
        part = min(1.0, self.done / self.total)
        spent = time.monotonic() - self._start
        left = "?"
        if part > 0:
            rest = spent * (1 - part) / part
            left = clock_text(rest)
            if rest > 600:  # the clock tells more than a count of hours
                left += time.strftime(" (until about %H:%M)", time.localtime(time.time() + rest))
        bar = ("#" * round(20 * part)).ljust(20, ".")
        text = f"{self.title} [{bar}] {100 * part:3.0f}% {clock_text(spent)}, {left} left"
        return f"{text}  {note}" if note else text

    def _draw(self, text: str) -> None:
        if self._handle is not None:
            data = {"text/plain": text}
            (self._handle.update if self._open else self._handle.display)(data, raw=True)
        else:
            sys.stderr.write("\r" + text.ljust(self._width))
            sys.stderr.flush()
            self._width = len(text)
        self._open = True

    def close(self) -> None:
        """Remove the line."""
        if not self._open:
            return
        self._open = False
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)
        else:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
