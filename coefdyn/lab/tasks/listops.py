"""ListOps (Long Range Arena): evaluate a nested list expression over the digits.

Operators: MIN, MAX, MED (the median, truncated to an integer) and SM (the sum modulo 10). The
papers' text says "mean"; the generator has no mean. An expression is written without
parentheses, "[MED 1 [MAX 8 7 X 9 X", where X closes the latest open operator.

Trees grow level by level, many at a time. A node above the depth limit is an operator with
probability 1/4, else a digit; an operator has 2..10 arguments, uniformly. A tree counts as many
tokens as it is long when written, and is kept when min_length < length < max_length. About one
tree in twelve is kept at the published sizes.

The label stands at the end token, the last token before the padding on the right. The original
removes duplicates; at lengths above 500 they do not occur, for short ones they are not removed.

Source: Long Range Arena (Tay et al. 2021), `listops.py`; 18 ids as in the eigenvalue paper's code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from coefdyn.lab.tasks._draw import integers, uniform
from coefdyn.lab.tasks.base import IGNORE, Batch, Split, TaskConfig, at_least, register
from coefdyn.shapes import Int

OPERATORS = ("[MIN", "[MAX", "[MED", "[SM")
TOKENS = (*map(str, range(10)), *OPERATORS, "X", "pad", "unk", "end")
CLOSE, PAD, END = TOKENS.index("X"), TOKENS.index("pad"), TOKENS.index("end")


@register
@dataclass(frozen=True, kw_only=True)
class ListOpsConfig(TaskConfig):
    """ListOps; the defaults are the published ones.

    seq_len:     input length in tokens, at least max_length (the end token included).
    max_depth:   the root has depth 1; nodes at max_depth are digits.
    operator_probability: probability in (0, 1) that a node above max_depth is an operator.
    max_args:    an operator has 2..max_args arguments.
    min_length, max_length: exclusive bounds on the expression's length in tokens.
    """

    task_name: ClassVar[str] = "listops"
    about: ClassVar[str] = "at 'end', give the value of the nested expression."

    vocab_size: int = len(TOKENS)
    seq_len: int = 2_048
    max_depth: int = 10
    operator_probability: float = 0.25
    max_args: int = 10
    min_length: int = 500
    max_length: int = 2_000
    train_examples: int = 96_000
    test_examples: int = 2_000

    @classmethod
    def paper(cls) -> ListOpsConfig:
        """Long Range Arena: lengths 501 to 1 999, 96 000 and 2 000 expressions."""
        return cls()

    @classmethod
    def quick(cls) -> ListOpsConfig:
        """Lengths 9 to 47, depth 4: for two CPU cores."""
        return cls(
            seq_len=48,
            max_depth=4,
            max_args=5,
            min_length=8,
            max_length=48,
            train_examples=6_400,
            test_examples=640,
        )

    @property
    def num_classes(self) -> int:
        return 10

    def check(self) -> None:
        at_least(self, "max_depth", 2)
        at_least(self, "max_args", 2)
        at_least(self, "min_length", 0)
        if self.vocab_size != len(TOKENS):
            raise ValueError(f"ListOps has {len(TOKENS)} ids; got vocab_size={self.vocab_size}.")
        if not 0 < self.operator_probability < 1:
            raise ValueError(
                f"operator_probability must lie in (0, 1); got {self.operator_probability}."
            )
        if not max(self.min_length + 1, 4) < self.max_length <= self.seq_len:
            raise ValueError(
                f"needs min_length + 1 < max_length <= seq_len and max_length > 4; got "
                f"{self.min_length}, {self.max_length}, {self.seq_len}."
            )
        if self.min_length >= self.longest:
            raise ValueError(
                f"no tree of depth {self.max_depth} with {self.max_args} arguments is longer "
                f"than {self.longest} tokens; got min_length={self.min_length}. Lower it."
            )

    @property
    def longest(self) -> int:
        """Length in tokens of the largest tree (all arguments operators down to max_depth).

        Counted no further than the first level at which it exceeds max_length.
        """
        length = 1
        for _ in range(self.max_depth - 1):
            length = 2 + self.max_args * length
            if length > self.max_length:  # as long as any use of it needs
                break
        return length

    def draw(self, n: int, generator: torch.Generator, split: Split) -> Batch:
        """Draw n expressions, (n, seq_len), with one target each; training and test are alike.

        Raises:
            ValueError: where hardly any tree has a length within the bounds.
        """
        parts: list[Batch] = []
        tried = found = 0
        trees = 512
        while found < n:
            parts.append(draw_expressions(self, trees, generator))
            tried, found = tried + trees, found + len(parts[-1].inputs)
            if found * 100_000 < tried:
                raise ValueError(
                    f"only {found} of {tried} trees have a length between {self.min_length} and "
                    f"{self.max_length}. Widen these bounds or change max_depth and max_args."
                )
            wanted = 1.1 * (n - found) * tried / max(found, 1)
            trees = min(8_192, max(512, int(wanted)))
        return Batch(*(torch.cat(tensors)[:n] for tensors in zip(*parts, strict=True)))

    def token_name(self, token: int) -> str:
        """The digit, the operator with its bracket, 'X', 'pad' or 'end'."""
        return TOKENS[token]

    def class_name(self, label: int) -> str:
        """The digit the expression evaluates to."""
        return str(label)


class Level(NamedTuple):
    """The nodes of all trees at one depth; children of one parent stand next to each other.

    token:  digit 0..9, or 10 + index of the operator.
    tree:   which tree the node belongs to.
    parent: index of its parent in the level above.
    """

    token: Int[Tensor, " nodes"]
    tree: Int[Tensor, " nodes"]
    parent: Int[Tensor, " nodes"]

    @property
    def is_operator(self) -> Tensor:
        return self.token >= 10


def draw_expressions(config: ListOpsConfig, trees: int, generator: torch.Generator) -> Batch:
    """Grow that many trees and write out those whose length lies within the bounds."""
    levels = grow(config, trees, generator)
    values, lengths = evaluate(levels)
    fits = (lengths[0] > config.min_length) & (lengths[0] < config.max_length)
    row = torch.where(fits, fits.cumsum(0) - 1, -1)
    inputs = write(levels, lengths, row, config.seq_len)
    end = lengths[0][fits, None]
    inputs.scatter_(1, end, END)
    targets = torch.full_like(inputs, IGNORE).scatter_(1, end, values[fits, None])
    return Batch(inputs, targets)


def grow(config: ListOpsConfig, trees: int, generator: torch.Generator) -> list[Level]:
    """The levels of random trees, roots first.

    A tree that has reached max_length tokens grows no further: it is not kept in any case.
    """
    device = generator.device
    tree = torch.arange(trees, device=device)
    parent = tree
    size = torch.zeros(trees, dtype=torch.int64, device=device)
    levels: list[Level] = []
    for depth in range(1, config.max_depth + 1):
        count = len(tree)
        operator = uniform((count,), generator) < config.operator_probability
        operator &= (size[tree] < config.max_length) & (depth < config.max_depth)
        digit = integers(0, 10, (count,), generator)
        kind = integers(10, 10 + len(OPERATORS), (count,), generator)
        levels.append(Level(torch.where(operator, kind, digit), tree, parent))
        size.index_add_(0, tree, operator.long() + 1)
        parents = operator.nonzero()[:, 0]
        if len(parents) == 0:
            break
        arguments = integers(2, config.max_args + 1, (len(parents),), generator)
        parent = parents.repeat_interleave(arguments)
        tree = tree[parent]
    return levels


def evaluate(levels: list[Level]) -> tuple[Tensor, list[Tensor]]:
    """Value of each root, and the written length in tokens of every node of every level.

    An operator is as long as its arguments and two more: itself and its closing X.
    """
    values, lengths = levels[-1].token, [torch.ones_like(levels[-1].token)]
    for level, below in zip(levels[-2::-1], levels[:0:-1], strict=True):
        count = len(level.token)
        cells = torch.bincount(below.parent * 10 + values, minlength=10 * count)
        values = torch.where(level.is_operator, combine(level, cells.view(count, 10)), level.token)
        inner = torch.zeros_like(level.token).index_add_(0, below.parent, lengths[0])
        lengths.insert(0, torch.where(level.is_operator, inner + 2, 1))
    return values, lengths


def combine(level: Level, counts: Int[Tensor, "nodes 10"]) -> Int[Tensor, " nodes"]:
    """Apply each node's operator to its arguments, given as counts of the digits, (nodes, 10)."""
    digits = torch.arange(10, device=counts.device)
    below = counts.cumsum(dim=1)
    total = below[:, -1:]
    lower = (below < (total + 1) // 2).sum(dim=1)
    upper = (below < total // 2 + 1).sum(dim=1)
    results = (
        (below < 1).sum(dim=1),  # MIN
        (below < total).sum(dim=1),  # MAX
        (lower + upper) // 2,  # MED
        (counts * digits).sum(dim=1) % 10,  # SM
    )
    operator = (level.token - 10).clamp(min=0)
    return torch.stack(results, dim=1).gather(1, operator[:, None])[:, 0]


def write(
    levels: list[Level], lengths: list[Tensor], row: Tensor, seq_len: int
) -> Int[Tensor, "rows L"]:
    """Token ids of the trees with row >= 0, each in its row, (rows, seq_len), padded right."""
    rows = int(row.max()) + 1
    inputs = torch.full((rows, seq_len), PAD, device=row.device)
    start = torch.zeros_like(lengths[0])
    for depth, (level, length) in enumerate(zip(levels, lengths, strict=True)):
        if depth > 0:
            start = _starts(level.parent, length, start)
        at = row[level.tree]
        keep = at >= 0
        inputs[at[keep], start[keep]] = level.token[keep]
        keep &= level.is_operator
        inputs[at[keep], (start + length - 1)[keep]] = CLOSE
    return inputs


def _starts(parent: Tensor, length: Tensor, parent_start: Tensor) -> Tensor:
    """Position of each node: after its parent's operator and its earlier siblings."""
    before = length.cumsum(0) - length
    first = torch.ones_like(parent, dtype=torch.bool)
    first[1:] = parent[1:] != parent[:-1]
    index = torch.where(first, torch.arange(len(parent), device=parent.device), 0)
    eldest = index.cummax(0).values
    return parent_start[parent] + 1 + before - before[eldest]
