"""Jobs in processes of their own: what one of them costs the others."""

from __future__ import annotations

import os
import time

from gpu.workers import through


def perform(part: str, key: str = "") -> dict:
    if key == "crash":
        os._exit(3)
    if key == "hang":
        time.sleep(600)
    if key == "raise":
        raise KeyError("broken device")
    return {"ok": True, "process": os.getpid()}


def test_a_job_that_crashes_hangs_or_raises_costs_no_other():
    jobs = [("a", key) for key in ("1", "raise", "2", "crash", "3", "hang", "4")]
    until = time.monotonic() + 120
    rows = {key: row for (_, key), row in through(jobs, perform, processes=1, until=until, limit=5)}
    assert {key for key, row in rows.items() if row["ok"]} == {"1", "2", "3", "4"}
    assert "KeyError" in rows["raise"]["error"]
    assert rows["crash"]["error"] == "process ended: 3"
    assert rows["hang"]["error"] == "no result in 5 s"
    assert rows["1"]["process"] != rows["2"]["process"], "a process is left after its failure"


def test_nothing_is_started_once_the_budget_is_spent():
    assert list(through([("a", "1")], perform, processes=1, until=0.0, limit=9)) == []
