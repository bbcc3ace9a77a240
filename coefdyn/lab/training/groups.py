"""Which runs train as one program, and what happens when it does not fit into memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence

import torch

from coefdyn.lab.training.config import RunConfig
from coefdyn.lab.training.results import Record, config_key

__all__ = ["fitting", "grouped", "halves"]


def grouped(configs: Sequence[RunConfig], limit: int) -> list[list[RunConfig]]:
    """Runs that can train as one program together, at most ``limit`` each.

    Runs of one model lie side by side, and in one group unless they alone exceed the limit.
    """
    programs: dict[str, dict[str, list[RunConfig]]] = {}
    for config in configs:
        model = config_key(config.model.to_dict())
        programs.setdefault(config.group, {}).setdefault(model, []).append(config)
    return [group for parts in programs.values() for group in _packed(parts.values(), limit)]


def _packed(parts: Iterable[list[RunConfig]], limit: int) -> list[list[RunConfig]]:
    """The parts in order, each into the last group if it has room there."""
    groups: list[list[RunConfig]] = [[]]
    for part in parts:
        for start in range(0, len(part), limit):
            piece = part[start : start + limit]
            if len(groups[-1]) + len(piece) > limit:
                groups.append([])
            groups[-1] += piece
    return groups


def halves(group: list[RunConfig]) -> tuple[list[RunConfig], list[RunConfig]]:
    """A group of two or more cut near its middle, where the model changes if it does anywhere."""
    places = range(1, len(group))
    changes = [place for place in places if group[place].model != group[place - 1].model]
    middle = min(changes or places, key=lambda place: (abs(2 * place - len(group)), -place))
    return group[:middle], group[middle:]


def fitting(
    group: list[RunConfig], train: Callable[[list[RunConfig]], list[Record]]
) -> list[Record]:
    """``train(group)``; of its halves, one after another, if the device's memory is too small.

    Raises:
        torch.OutOfMemoryError: if a single run does not fit.
    """
    try:
        return train(group)
    except torch.OutOfMemoryError:
        if len(group) == 1:
            raise
    gc.collect()
    torch.cuda.empty_cache()
    return [record for half in halves(group) for record in fitting(half, train)]
