"""A bench for live notebooks: the page's own figure, whose runs the kernel can compute as well."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from coefdyn.lab.bench.kernel_run import KernelRun
from coefdyn.lab.train import PageTraining

__all__ = ["TrainingBench"]


class TrainingBench(PageTraining):
    """``PageTraining`` in a live notebook; the reader chooses where it computes.

    "In this page" trains in the browser, as a page of the book does; "in the kernel" trains the
    same model on the same sequences with torch, in a thread, so that cells still run. Two designs
    take turns. Without a kernel only the page is left.

    Args: see ``PageTraining``.
    """

    def __init__(self, *designs: Any, **more: Any) -> None:
        super().__init__(*designs, **more)
        self.kernel = True
        self._runs: dict[str, KernelRun] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="training-bench")
        self.on_msg(self._hear)

    def _hear(self, _: Any, message: dict[str, Any], buffers: Sequence[Any]) -> None:
        """A question of the figure: ``kind``, the ``lane`` it is about, and what it needs."""
        lane = str(message.get("lane"))
        if message.get("kind") == "end":
            self._runs.pop(lane, None)
        else:
            self._thread.submit(self._answer, lane, message, [bytes(one) for one in buffers])

    def _answer(self, lane: str, message: dict[str, Any], files: list[bytes]) -> None:
        kind = message["kind"]
        found: dict[str, Any] = {}
        made: list[bytes] = []
        try:
            if kind == "start":
                self._runs[lane] = KernelRun(**message["run"])
            if lane not in self._runs:
                return  # ended while it waited
            found, made = self._runs[lane].answer(message, files)
        except Exception as error:  # said in the figure: nobody reads a thread's traceback
            kind_of = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            found = {"error": f"{kind_of}{error}"}
        self.send({"lane": lane, "kind": kind, **found}, made)
