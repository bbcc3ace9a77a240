"""The table of what each chapter trains: in its cell, in the page, and as a film.

Each task was made small until one of the rows learns it within the steps; the others then have the
same steps, learning rate and width. What they reach is whatever they reach; on selective copying
the earlier row wins. What a cell trains in a kernel is too long for a browser, so that the figure
that trains in the page (``coefdyn.lab.train``) has the same task in a smaller size beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coefdyn.lab.contest.contest import Contest, Entrant
from coefdyn.lab.tasks import (
    ForgetConfig,
    LongMemoryConfig,
    MqarConfig,
    NoisyRecallConfig,
    OverwriteConfig,
    ParityConfig,
    PositionConfig,
    SelectiveCopyingConfig,
    TaskConfig,
)

__all__ = ["CHAPTERS", "CONTESTS", "TASKS", "Chapter", "ContestTask"]

#: sequences of a cell's contest (its test set makes a share good to about two points), and of the
#: page's
CELL: dict[str, Any] = {"train_examples": 12_800, "test_examples": 320}
PAGE: dict[str, Any] = {"train_examples": 6_400, "test_examples": 128}


@dataclass(frozen=True, kw_only=True)
class ContestTask:
    """A task in the two sizes at which the book trains it.

    Args:
        label: its name in the page's list.
        about: what is asked at the page's size, in a sentence.
        page: the sequences of the figure that trains in the page.
        cell: those of a chapter's cell; None where no cell trains it.
    """

    label: str
    about: str
    page: TaskConfig
    cell: TaskConfig | None = None


#: by the name that the page's address gives it
TASKS: dict[str, ContestTask] = {
    "noisy-recall": ContestTask(
        label="Noisy recall, 16 tokens",
        about="Two keys and two values in pairs, eight noise ids between them: at a key that came "
        "before, recall its value.",
        page=NoisyRecallConfig(vocab_size=12, seq_len=16, noise_vocab=8, **PAGE),
    ),
    "noisy-recall-32": ContestTask(
        label="Noisy recall, 32 tokens",
        about="The same over twice the length, with six keys, six values and six noise ids.",
        page=NoisyRecallConfig(vocab_size=18, seq_len=32, noise_vocab=6, **PAGE),
    ),
    "mqar": ContestTask(
        label="Many questions (MQAR)",
        about="Three pairs first; later each key comes once more, and its value is asked.",
        page=MqarConfig(vocab_size=18, seq_len=16, pairs=3, **PAGE),
        cell=MqarConfig(vocab_size=34, seq_len=32, pairs=8, **CELL),
    ),
    "selective-copying": ContestTask(
        label="Selective copying",
        about="After “copy”, repeat the four content tokens in order, without the blanks between "
        "them.",
        page=SelectiveCopyingConfig(vocab_size=8, seq_len=16, tokens_to_copy=4, **PAGE),
        cell=SelectiveCopyingConfig(vocab_size=8, seq_len=24, tokens_to_copy=4, **CELL),
    ),
    "overwrite": ContestTask(
        label="Overwritten facts",
        about="Each of two keys is written twice; at the end give each key's last value.",
        page=OverwriteConfig(vocab_size=8, pairs=2, writes=2, seq_len=10, **PAGE),
        cell=OverwriteConfig(vocab_size=32, pairs=4, writes=3, **CELL),
    ),
    "forget": ContestTask(
        label="Forget at a reset",
        about="Three keys are written; after “/” one of them again. Asked at the end, the others "
        "have the answer “/”, nothing.",
        page=ForgetConfig(vocab_size=12, pairs=3, seq_len=12, **PAGE),
        cell=ForgetConfig(vocab_size=16, **CELL),
    ),
    "position": ContestTask(
        label="Three places back",
        about="At every token, name the one that stood three places before it.",
        page=PositionConfig(vocab_size=8, seq_len=16, distance=3, **PAGE),
        cell=PositionConfig(vocab_size=8, seq_len=24, distance=3, **CELL),
    ),
    "long-memory": ContestTask(
        label="Long memory",
        about="The value after “keep” is asked at “?”, behind noise that looks like values.",
        page=LongMemoryConfig(vocab_size=10, seq_len=32, **PAGE),
        cell=LongMemoryConfig(vocab_size=10, seq_len=48, **CELL),
    ),
    "parity": ContestTask(
        label="Parity",
        about="At every bit, say whether the number of ones so far is odd.",
        page=ParityConfig(seq_len=16, **PAGE),
        cell=ParityConfig(seq_len=24, **CELL),
    ),
}


def _row(mixer: str, position: str = "none", **options: Any) -> Entrant:
    """Entrant with one head, and the short convolution of width 4 that later papers use."""
    return Entrant(
        mixer=mixer, options={"n_heads": 1, "short_convolution": 4, **options}, position=position
    )


@dataclass(frozen=True, kw_only=True)
class Chapter:
    """The training of a chapter.

    Args:
        cell: the contest of its cell.
        page: what the page's own figure there opens with, as keywords of
            ``coefdyn.lab.train.PageTraining``; beside a cell's contest the row on the left is one
            of its entrants.
        film: the contest whose coefficients are recorded while it trains, and ``title`` of that.
    """

    page: dict[str, Any]
    cell: Contest | None = None
    film: Contest | None = None
    title: str = ""


def _cell(task: str, page: dict[str, Any], entrants: dict[str, Entrant]) -> Chapter:
    """Contest of 400 steps in a cell; in the page the same task, unless ``page`` names another."""
    sequences = TASKS[task].cell
    assert sequences is not None, f"no cell trains {task}"
    contest = Contest(task=sequences, entrants=entrants, steps=400)
    return Chapter(cell=contest, page={"task": task, **page})


def _positions(**options: Any) -> Entrant:
    """Entrant of principle 3, whose position may be "rotary"."""
    position = options.pop("position", "none")
    fixed = {"n_heads": 8, "readout": "exp", "scaling": "inverse_sqrt", "normalizer": "row_sum"}
    return Entrant(mixer="DesignMixer", options={**fixed, **options}, position=position)


#: three designs of principle 3 at its quick size, for the film
_RECORDED = Contest(
    task=NoisyRecallConfig.quick(),
    entrants={
        "A = I": _positions(evolution="identity"),
        "A = 0.85 I": _positions(evolution="constant", constant=0.85),
        "A = I, rotary positions": _positions(evolution="identity", position="rotary"),
    },
    steps=1500,
    learning_rate=3e-3,
    layers=2,
    width=64,
    mlp=128,
    training={"warmup": 0, "clip": None, "evaluate_every": 125},
)
#: whether order can be told: keys that shrink beside keys that stay
_ORDER = {
    "left": {"evolution": "constant", "constant": 0.85},
    "right": "softmax_attention",
    "task": "selective-copying",
}
_GROWING = {"evolution": "constant", "constant": 1.05, "normalizer": "one", "scaling": "one"}

#: chapter -> what it trains, in a cell, in the page and as a film
CHAPTERS: dict[str, Chapter] = {
    "index": Chapter(page=_ORDER),
    "principle_3": Chapter(
        page=_ORDER,
        film=_RECORDED,
        title="Noisy recall: α/η of one test sequence while the model learns",
    ),
    "principle_5": Chapter(
        page={
            "left": "softmax_attention",
            "right": {"scaling": "one"},
            "task": "position",
            "positions": "learned",
            "learning_rate": 3e-3,
        }
    ),
    "principle_6": Chapter(
        page={"left": _GROWING, "task": "noisy-recall-32", "learning_rate": 3e-2}
    ),
    "softmax_attention": _cell(
        "position",
        {"positions": "rotary"},
        {
            "softmax attention": _row("SoftmaxAttention", short_convolution=0),
            "with rotary positions": _row("SoftmaxAttention", "rotary", short_convolution=0),
        },
    ),
    "linear_attention": _cell(
        "mqar",
        {
            "left": "linear_attention",
            "right": "softmax_attention",
            "task": "position",
            "positions": "rotary",
        },
        {
            "softmax attention": _row("SoftmaxAttention", key_dim=8),
            "linear attention": _row("LinearAttention", key_dim=8),
        },
    ),
    "normalized_attention": _cell(
        "forget",
        {"left": "normalized_attention", "right": "linear_attention"},
        {
            "linear attention": _row("LinearAttention"),
            "normalized attention": _row("NormalizedAttention"),
        },
    ),
    "gla": _cell(
        "forget",
        {"left": "gla", "right": "normalized_attention"},
        {
            "normalized attention": _row("NormalizedAttention"),
            "GLA": _row("GLA"),
        },
    ),
    "mamba2": _cell(
        "selective-copying",
        {"left": "mamba2", "right": "gla", "learning_rate": 3e-3},
        {
            "GLA": _row("GLA"),
            "Mamba-2, one head": _row("Mamba2"),
            "Mamba-2, eight heads": _row("Mamba2", n_heads=8, key_dim=32),
        },
    ),
    "deltanet": _cell(
        "overwrite",
        {"left": "deltanet", "right": "linear_attention"},
        {
            "linear attention": _row("LinearAttention"),
            "Mamba-2": _row("Mamba2"),
            "DeltaNet": _row("DeltaNet"),
        },
    ),
    "gated_deltanet": _cell(
        "parity",
        {"left": "gated_deltanet", "right": "mamba2"},
        {
            "DeltaNet": _row("DeltaNet"),
            "Gated DeltaNet": _row("GatedDeltaNet"),
            "Gated DeltaNet, β to 2": _row("GatedDeltaNet", negative_eigenvalues=True),
        },
    ),
    "mlstm": _cell(
        "long-memory",
        {"left": "mlstm", "right": "mamba2", "learning_rate": 3e-3},
        {
            "Gated DeltaNet": _row("GatedDeltaNet"),
            "Mamba-2": _row("Mamba2"),
            "mLSTM": _row("MLSTM"),
        },
    ),
}
#: chapter -> the contest of its cell
CONTESTS: dict[str, Contest] = {name: one.cell for name, one in CHAPTERS.items() if one.cell}
