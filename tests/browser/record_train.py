"""Trains the chapters' contests as the page does, and keeps the runs for their stills.

    python tests/browser/record_train.py [chapter ...] [--steps 300]

Run by hand, from the top of the repository, when a contest, a task or the engine has changed: it
writes `data/trained/CHAPTER.json`. What its worker holds runs in headless Chromium. Experiments of
"Train your own" that are no chapter's contest are kept, too: their page says how they end.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

from measure import chromium

from coefdyn.lab.places import data_folder
from coefdyn.lab.tasks import IGNORE, config_from_dict
from coefdyn.lab.train import PageTraining
from coefdyn.lab.train.kept_runs import DECIDES
from coefdyn.lab.train.offers import CHAPTERS, EVERY, ROWS, SIZE, contests, design_words, offered
from coefdyn.lab.train.source import trainer_source

_FADING = {"evolution": "constant", "constant": 0.85}
_GROWING = {"evolution": "constant", "constant": 1.05, "normalizer": "one"}
#: links of `design/train.md` and a change that `mlstm.md` proposes, as keywords of ``PageTraining``
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "train_positions": {"left": "softmax_attention", "right": _FADING, "positions": "learned"},
    "train_growth": {"left": _GROWING, "task": "noisy-recall-32", "learning_rate": 3e-2},
    "train_parity": {"left": "deltanet", "right": "mamba2", "task": "parity"},
    "mlstm_gated_deltanet": {**CHAPTERS["mlstm"], "right": "gated_deltanet"},
}
#: the look of the still
LOOK = {"layer": SIZE["layers"], "head": 1, "sequence": 1}
BEGIN = "(run) => { trainer = new Trainer(run); return [trainer.mark().accuracy]; }"
WORK = """(count) => {
  const { losses, marks } = trainer.work(count);
  const mean = losses.reduce((sum, x) => sum + x, 0) / losses.length;
  return [trainer.trouble?.t ?? null, mean, marks.at(-1)?.accuracy];
}"""
LOOKED = """(look) => {
  const { matrix, inputs, targets, length } = trainer.look(look);
  const rows = Array.from({ length }, (_, i) => [...matrix.subarray(i * length, (i + 1) * length)]);
  return [rows, [...inputs], [...targets]];
}"""


def options(design: dict[str, Any]) -> dict[str, Any]:
    """The mixer's options of a design as the page has it."""
    if design["preset"] != "own":
        return dict(ROWS[design["preset"]]["options"])
    kept = {key: value for key, value in design.items() if key != "preset"}
    if kept["evolution"] != "constant":
        del kept["constant"]
    return kept


def train(page: Any, figure: PageTraining, design: dict[str, Any], steps: int) -> dict[str, Any]:
    """One design to its end; and the sequence that is looked at."""
    s = figure.settings
    task = contests()[s["task"]]["config"]
    run = {"task": task, "design": options(design), "size": SIZE, "positions": s["positions"]}
    (start,) = page.evaluate(BEGIN, {**run, "seed": s["seed"], "rate": s["rate"]})
    found: dict[str, Any] = {
        "name": design_words(design),
        "steps": [0],
        "loss": [None],
        "accuracy": [start],
        "stopped": None,
        "matrix": None,
    }
    every = EVERY * max(1, steps // (16 * EVERY))
    for step in range(every, steps + 1, every):
        found["stopped"], loss, accuracy = page.evaluate(WORK, every)
        if found["stopped"]:
            break
        found["steps"].append(step)
        found["loss"].append(round(loss, 4))
        found["accuracy"].append(accuracy)
    found["accuracy"] = [round(one, 4) for one in found["accuracy"]]
    rows, inputs, targets = page.evaluate(LOOKED, LOOK)
    if not found["stopped"]:
        found["matrix"] = [[round(x, 3) for x in row] for row in rows]
    return {**found, "sequence": (inputs, targets)}


def record(page: Any, chapter: str, steps: int) -> None:
    figure = PageTraining(**{**CHAPTERS, **EXPERIMENTS}[chapter])
    s = figure.settings
    runs = [train(page, figure, s[side], steps) for side in ("left", "right") if s[side]]
    sequences = [one.pop("sequence") for one in runs]
    inputs, targets = sequences[0]
    config = config_from_dict(contests()[s["task"]]["config"])

    def name(token: int) -> str:
        return "" if token == IGNORE else config.token_name(token)

    kept = {
        "settings": {key: s[key] for key in DECIDES},
        "base": contests()[s["task"]]["base"],
        "tokens": [name(token) for token in inputs],
        "targets": [name(token) for token in targets],
        "runs": runs,
    }
    path = data_folder() / "trained" / f"{chapter}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(kept, ensure_ascii=False) + "\n", encoding="utf-8")
    for run in runs:
        print(chapter, run["name"], run["stopped"] or run["accuracy"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("chapters", nargs="*", default=[*CHAPTERS, *EXPERIMENTS], metavar="chapter")
    parser.add_argument("--steps", type=int, default=300)
    given = parser.parse_args()
    text = f"{trainer_source(offered())}\nlet trainer = null;"
    with chromium() as browser:
        for chapter in given.chapters:
            page = browser.new_page()
            page.set_default_timeout(0)
            page.add_script_tag(content=text)
            record(page, chapter, given.steps)
            page.close()


if __name__ == "__main__":
    main()
