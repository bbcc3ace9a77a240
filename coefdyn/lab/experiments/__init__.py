"""Experiments: one module per figure or table of the papers, and the command line.

    from coefdyn.lab.experiments import principle_3

    result = principle_3.run("quick", device="cpu")
    principle_3.figure(result)
    principle_3.claims(result)

The modules are imported when they are first asked for; running needs torch and numpy only,
figures need matplotlib.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coefdyn.first_use import load_on_first_use

if TYPE_CHECKING:
    from coefdyn.lab.experiments.result import Outcome, Result, Verdict

__all__ = ["EXPERIMENTS", "Outcome", "Result", "Verdict", "get_experiment", "kept_results"]

#: id of an experiment -> the module that has it, in the order of the papers
HOMES = {
    "principle-1": "principle_1",
    "principle-2": "principle_2",
    "principle-2.1": "principle_2_1",
    "principle-2.2": "principle_2_2",
    "principle-3": "principle_3",
    "principle-4": "principle_4",
    "principle-5": "principle_5",
    "principle-5-lm": "principle_5_lm",
    "principle-6": "principle_6",
    "dsf-mqar": "dsf_mqar",
    "dsf-normalizers": "dsf_normalizers",
    "dsf-table-1": "dsf_table_1",
    "spectra": "spectra",
    "spectra-mods": "spectra_mods",
    "heads": "heads",
    "scoreboard": "scoreboard",
    "one-layer": "one_layer",
}
#: the same by the name that readers know
EXPERIMENTS: dict[str, str] = HOMES


def get_experiment(name: str) -> Any:
    """The experiment with this id.

    Raises:
        ValueError: for an unknown id, naming the nearest one.
    """
    from coefdyn.options import check_choice

    check_choice("experiment", name, EXPERIMENTS)
    return importlib.import_module(f"coefdyn.lab.experiments.{EXPERIMENTS[name]}").EXPERIMENT


def kept_results(profile: str, out: Path | str | None = None) -> Iterator[tuple[Any, Result]]:
    """Every experiment that has a profile, with its finished runs.

    Args:
        profile: such as "standard".
        out: folder of the result files; None for ``data/results``.
    """
    for experiment in map(get_experiment, EXPERIMENTS):
        if profile in experiment.profiles:
            yield experiment, experiment.load(profile, out=out)


load_on_first_use(__name__)
