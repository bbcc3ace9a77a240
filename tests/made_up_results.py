"""Results with chosen numbers, for tests of what is made of them."""

from __future__ import annotations

from coefdyn.lab.experiments.plan import Plan
from coefdyn.lab.experiments.result import Result, Verdict


def made_up(run, accuracy: float, diverged_at: int | None = None, **diagnostics) -> dict:
    """A record with chosen numbers, for tests of the claims' arithmetic only."""
    curve = [accuracy / 2, accuracy]
    return {
        "key": run.key,
        "config": run.to_dict(),
        "seed": run.seed,
        "metrics": {
            "step": [50, 100],
            "accuracy": curve,
            "perplexity": [1 / max(level, 1e-3) for level in curve],
        },
        "wall_s": 1.0,
        "final": {
            "accuracy": accuracy,
            "perplexity": 1 / max(accuracy, 1e-3),
            "loss": 1 - accuracy,
        },
        "diagnostics": {
            "normalized": diagnostics,
            "raw": diagnostics,
            "longer": {"accuracy": accuracy, "by_position": [accuracy] * 160},
            "lengths": {str(times): accuracy for times in (1, 2, 4, 8)},
            "heads": [[{"map": 0.9, "lost": accuracy}, {"map": 0.1, "lost": 0.0}]],
        },
        "diverged_at": diverged_at,
        "solved": accuracy > 0.999,
        "timestamp": "2026-01-01T00:00:00+00:00",
        "device": "none",
        "torch": "0",
        "revision": "0",
    }


def result_of(experiment, profile: str, score, seen=lambda facets: {}, plan=None) -> Result:
    """A result in which every run's accuracy (and NaN step) is ``score(facets, run)``.

    ``seen(facets)`` replaces diagnostics of the trained model, ``plan`` that of the profile.
    """
    plan = plan or experiment.plan(profile)
    records = {}
    while missing := [(v, run) for v, run in plan.runs() if run.key not in records]:
        records |= {run.key: _record(v, run, score, seen) for v, run in missing}
        plan = plan.settled(records) if isinstance(plan, Plan) else plan
    return Result(experiment.id, profile, plan, tuple(records.values()))


def _record(variant, run, score, seen) -> dict:
    accuracy, diverged_at = score(variant.facets, run)
    diagnostics = {
        "near_zero_fraction": accuracy,
        "large_fraction": accuracy / 10,
        "large_to_near_zero": accuracy / 100,
        "zero_counts": [[[1.0, 2.0]]],
        "largest_zero_count": 9,
        "moduli": {
            when: [{"share": [1 / 41] * 41, "deviation": [0.0] * 41}] * 2
            for when in ("initial", "trained")
        },
    } | seen(variant.facets)
    return made_up(run, accuracy, diverged_at, **diagnostics)


def status(verdicts: list[Verdict], *words: str) -> str:
    (found,) = [one for one in verdicts if all(word in one.claim for word in words)]
    return found.status
