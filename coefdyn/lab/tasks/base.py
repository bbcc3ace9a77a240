"""Base of every task: configuration, splits, the registry, and worked examples.

A task is a frozen configuration that draws its sequences. ``sample(config, n, generator)`` returns
a ``Batch`` of token ids and targets; a target of ``IGNORE`` (-100) is not scored. The same
configuration, seed and split always give the same sequences.

Each task's module names the source of its definition.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from coefdyn.first_use import Registry
from coefdyn.options import check_choice, check_count, check_known, from_plain
from coefdyn.shapes import Int

IGNORE = -100
Split = Literal["train", "validation", "test"]
Config = TypeVar("Config", bound="TaskConfig")
SPLITS: tuple[Split, ...] = ("train", "validation", "test")


class Batch(NamedTuple):
    """A set of sequences.

    inputs:  (N, L) int64 token ids in [0, vocab_size).
    targets: (N, L) int64 in [0, num_classes), or -100 where nothing is scored.
    """

    inputs: Int[Tensor, "N L"]
    targets: Int[Tensor, "N L"]


class Splits(NamedTuple):
    """The training and the test sequences of one configuration and seed."""

    train: Batch
    test: Batch


@dataclass(frozen=True, kw_only=True)
class TaskConfig:
    """Fields of every task. A subclass adds its own, checks them in ``check``, and has ``draw``.

    vocab_size:     number of input token ids.
    seq_len:        nominal length in tokens; ``input_length`` is what a model is fed.
    train_examples: number of training sequences that ``splits`` draws.
    test_examples:  number of test sequences that ``splits`` draws.

    Of the whole task:

    task_name: its key in the registry, e.g. "noisy-recall".
    about:     one sentence that says what is asked.
    block:     sequences are drawn so many at a time, which bounds the memory of a large draw; None
               for all at once.
    endless:   there is far more to draw than a training run can hold, so a trainer draws each
               step's sequences when it takes the step.
    """

    task_name: ClassVar[str] = ""
    about: ClassVar[str] = ""
    block: ClassVar[int | None] = None
    endless: ClassVar[bool] = False

    vocab_size: int
    seq_len: int
    train_examples: int = 12_800
    test_examples: int = 1_280

    def __post_init__(self) -> None:
        for name in ("vocab_size", "seq_len", "train_examples", "test_examples"):
            at_least(self, name, 1)
        self.check()

    @classmethod
    def paper(cls) -> Self:
        """The source's size; the defaults where no source fixes one."""
        return cls()  # type: ignore[call-arg]

    @classmethod
    def quick(cls) -> Self:
        """The size for two CPU cores; the defaults where these are small."""
        return cls()  # type: ignore[call-arg]

    def check(self) -> None:
        """Raise ``ValueError`` when the fields do not fit together."""

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n sequences of a split, every random number from ``generator``."""
        raise NotImplementedError

    def token_name(self, token: int) -> str:
        """Short label of an input token."""
        return str(token)

    def class_name(self, label: int) -> str:
        """Short label of a target; a token's where targets are tokens."""
        return self.token_name(label)

    @property
    def input_length(self) -> int:
        """Length in tokens of ``Batch.inputs``."""
        return self.seq_len

    @property
    def num_classes(self) -> int:
        """Size of the output vocabulary: targets lie in [0, num_classes)."""
        return self.vocab_size

    def with_changes(self: Config, changes: Mapping[str, Any]) -> Config:
        """Return a copy with some fields replaced; an unknown name is an error."""
        check_known(type(self).__name__, changes, [one.name for one in dataclasses.fields(self)])
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values, with the task's name under ``"task"``."""
        return {"task": self.task_name, **dataclasses.asdict(self)}


def at_least(config: TaskConfig, name: str, bound: int) -> None:
    """Raise unless the named integer field is an int >= bound."""
    check_count(f"{type(config).__name__}.{name}", getattr(config, name), bound)


#: name -> the configuration class of the task
TASKS: Registry[type[TaskConfig]] = Registry(__package__)


def register(config: type[Config]) -> type[Config]:
    """Add a task of the library to the registry under its name, which the registry knows."""
    name = config.task_name
    assert name in TASKS.waiting, f"task {name!r} is registered twice, or has no module there"
    TASKS[name] = config
    return config


def is_own(config: type[TaskConfig]) -> bool:
    """Return whether a task is a reader's own."""
    return not config.__module__.startswith(f"{__package__}.")


def register_task(
    name: str,
    config: type[Config],
    *,
    about: str = "",
    token_name: Callable[[Any, int], str] | None = None,
) -> type[Config]:
    """Add a task of one's own, so that every function here and the trainer know it.

    Registering a name again replaces the task, so that a notebook cell can be run twice. The task
    is known in this process only: train it with ``RunOptions(workers=1)``.

    Args:
        name: a new one; becomes ``config.task_name``.
        config: a frozen keyword-only dataclass derived from ``TaskConfig`` with a method
            ``draw(self, n, generator, split) -> Batch``: n sequences, ``inputs`` and ``targets``
            (n, input_length), every random number from ``generator``. A class method ``quick`` may
            give its size for two CPU cores; otherwise that is ``config()``.
        about: one sentence that says what is asked.
        token_name: ``(config, id) -> str`` for ``explain``; None for the id itself.

    Returns:
        ``config``.

    Raises:
        ValueError: for a name of a task of the library, or a class that is no such configuration.
    """
    if not (isinstance(config, type) and issubclass(config, TaskConfig)):
        raise ValueError(f"register_task takes a subclass of TaskConfig, got {config!r}.")
    if config.draw is TaskConfig.draw:
        raise ValueError(
            f"{config.__name__} needs a method draw(self, n, generator, split) that returns a "
            "Batch of n sequences."
        )
    if not name or (name in TASKS and not is_own(TASKS[name])):
        raise ValueError(f"{name!r} is the name of a task of the library; give yours another one.")
    config.task_name, config.about = name, about
    if token_name is not None:
        config.token_name = token_name  # type: ignore[method-assign, assignment]
    TASKS[name] = config
    return config


def get_task(name: str) -> type[TaskConfig]:
    """The configuration class of a task; ``ValueError`` names the nearest known one."""
    return TASKS[check_choice("task", name, TASKS)]


def task_of(config: TaskConfig) -> type[TaskConfig]:
    """Return the registered task a configuration belongs to.

    Raises:
        ValueError: for a configuration of no registered task.
    """
    task = TASKS.get(getattr(config, "task_name", ""))
    if task is None or type(config) is not task:
        raise ValueError(
            f"expected the configuration of a registered task; got {type(config).__name__}. "
            f"Registered: {', '.join(sorted(TASKS))}."
        )
    return task


def make_config(
    name: str, preset: str = "paper", changes: Mapping[str, Any] | None = None
) -> TaskConfig:
    """A task's preset (``"paper"`` or ``"quick"``) with some fields replaced.

    Raises:
        ValueError: for an unknown task, preset or field, naming the nearest one.
    """
    check_choice("preset", preset, ("paper", "quick"))
    config = getattr(get_task(name), preset)()
    return config.with_changes(changes or {})


def config_from_dict(values: Mapping[str, Any]) -> TaskConfig:
    """The inverse of ``TaskConfig.to_dict``.

    Raises:
        ValueError: for an unknown task or field, naming the nearest one.
    """
    if "task" not in values:
        raise ValueError(f"a task's dictionary needs the key 'task'; got {sorted(values)}.")
    fields = {key: value for key, value in values.items() if key != "task"}
    return from_plain(get_task(values["task"]), fields)


def split_generator(seed: int, split: Split, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator whose state depends on (seed, split) alone; nothing is seeded globally."""
    check_split(split)
    digest = hashlib.sha256(f"{seed}/{split}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)


def check_split(split: str) -> None:
    """Raise ``ValueError`` unless the split is one of ``SPLITS``."""
    if split not in SPLITS:
        raise ValueError(f"split must be 'train', 'validation' or 'test'; got {split!r}.")


def sample(config: TaskConfig, n: int, generator: torch.Generator, split: Split = "train") -> Batch:
    """Draw n sequences of a split, on the generator's device.

    Where training and test sequences differ (the three recall tasks score every next token in
    training and only derivable values in test) ``split`` selects the kind; validation sequences are
    of the test's kind. Raises ``ValueError``
    for n < 1, an unknown split, or a configuration of no registered task.
    """
    blocks = list(sample_blocks(config, n, generator, split))
    if len(blocks) == 1:
        return blocks[0]
    return Batch(*(torch.cat(parts) for parts in zip(*blocks, strict=True)))


def sample_blocks(
    config: TaskConfig, n: int, generator: torch.Generator, split: Split = "train"
) -> Iterator[Batch]:
    """The sequences of ``sample`` in parts of at most ``block``, drawn as they are asked for.

    Raises ``ValueError`` as ``sample`` does.
    """
    check_split(split)
    if n < 1:
        raise ValueError(f"the number of sequences must be at least 1; got n={n}.")
    name = task_of(config).task_name
    for start in range(0, n, config.block or n):
        size = min(config.block or n, n - start)
        batch = config.draw(size, generator, split)
        shape = (size, config.input_length)
        assert batch.inputs.shape == shape, f"{name}: inputs {tuple(batch.inputs.shape)}"
        assert batch.targets.shape == shape, f"{name}: targets {tuple(batch.targets.shape)}"
        yield batch


def splits(config: TaskConfig, seed: int) -> Splits:
    """Training and test sequences of a seed, ``config.train_examples`` and ``.test_examples``."""
    return Splits(
        train=sample(config, config.train_examples, split_generator(seed, "train"), "train"),
        test=sample(config, config.test_examples, split_generator(seed, "test"), "test"),
    )


def explanation(config: TaskConfig, seed: int = 0, split: Split = "test") -> str:
    """One sequence as a labelled table: position, input and target; '.' is not scored."""
    batch = sample(config, 1, split_generator(seed, split), split)
    inputs, targets = batch.inputs[0].tolist(), batch.targets[0].tolist()
    columns = [
        (
            str(position),
            config.token_name(token),
            "." if target == IGNORE else config.class_name(target),
        )
        for position, (token, target) in enumerate(zip(inputs, targets, strict=True))
    ]
    scored = sum(target != IGNORE for target in targets)
    head = (
        f"{config.task_name} ({split}): {config.about}\n"
        f"{config.vocab_size} tokens, {config.num_classes} classes, length {len(inputs)}, "
        f"{scored} positions scored."
    )
    return "\n\n".join([head, *_wrap(columns, ("position", "input", "target"))])


def explain(config: TaskConfig, seed: int = 0, split: Split = "test") -> None:
    """Print a labelled example of a task."""
    print(explanation(config, seed, split))


def _wrap(columns: Sequence[tuple[str, ...]], heads: tuple[str, ...], width: int = 92) -> list[str]:
    """Set columns side by side, as many as fit in a block of ``width`` characters."""
    cell = 1 + max(len(text) for column in columns for text in column)
    margin = max(map(len, heads)) + 1
    per_block = max(1, (width - margin) // cell)
    blocks = []
    for start in range(0, len(columns), per_block):
        part = columns[start : start + per_block]
        lines = [
            head.ljust(margin) + "".join(column[row].rjust(cell) for column in part)
            for row, head in enumerate(heads)
        ]
        blocks.append("\n".join(lines))
    return blocks
