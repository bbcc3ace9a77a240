"""Designs and tasks of somebody else's: found by name, checked, and named by what they are.

A run is kept under the names of its model and its task. Those of a reader's own therefore change
with the source of the design and with the sequences of the task.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, ClassVar

import torch
from torch import nn

from coefdyn.lab.experiments.base import judged_by_accuracy
from coefdyn.lab.experiments.board import HEADS, ROWS, row_model, tasks_of
from coefdyn.lab.experiments.plan import quick_model
from coefdyn.lab.places import PACKAGE
from coefdyn.lab.tasks import IGNORE, TASKS, Batch, TaskConfig, split_generator, task_of
from coefdyn.lab.tasks.base import SPLITS, is_own
from coefdyn.mixers.base import Mixer
from coefdyn.mixers.offered import offered
from coefdyn.mixers.registry import REGISTERED
from coefdyn.models import ModelConfig
from coefdyn.models.blocks import build_mixer
from coefdyn.models.names import find_mixer, own_mixer
from coefdyn.options import check_choice, check_known, did_you_mean
from coefdyn.shapes import Tensor

__all__ = ["check_design", "find_task", "frame"]

#: change of an output, beside the largest one, from which on it depends on what was changed
LEAK = 1e-4
#: sequences of each split by which a task is checked, and named
LOOKED_AT = 64


def _loaded(text: str) -> Any:
    """Object that "module:Name" names, importable from the current folder, too."""
    module, _, name = text.partition(":")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module.partition(".")[0] and error.name != module:
            raise
        raise ValueError(
            f"{text!r} names the module {module!r}, and there is none in {os.getcwd()} or among "
            "the installed ones; run this from the folder that holds it."
        ) from None
    if not hasattr(found, name):
        hint = did_you_mean(name, vars(found))
        raise ValueError(f"{text!r}: the module {module!r} has no {name!r}{hint}")
    return getattr(found, name)


def find_task(asked: Any) -> tuple[str, TaskConfig]:
    """Label and checked configuration of a task.

    Args:
        asked: a task of the scoreboard or a registered one by name, "module:name", or a
            configuration.

    Raises:
        ValueError: for what is no task, is not judged by accuracy, or does not repeat.
        FileNotFoundError: for a task whose data are not here.
    """
    label, config = str(asked), asked
    if isinstance(asked, str) and ":" in asked:
        label, config = asked.partition(":")[2], _loaded(asked)
    elif isinstance(asked, str):
        board = tasks_of()
        others = sorted(name for name in TASKS if "#" not in name and name not in board)
        check_choice("task (or module:name)", asked, [*board, *others])
        config = board.get(asked) or TASKS[asked]
    if isinstance(config, type) and issubclass(config, TaskConfig):
        label, config = config.task_name or label, config.quick()
    if not isinstance(config, TaskConfig):
        raise ValueError(f"{label} must be the configuration of a task, got {config!r}.")
    if getattr(config, "task_name", "") not in TASKS:
        raise ValueError(f"{label} is no registered task: call register_task with its class.")
    label = label if isinstance(asked, str) else config.task_name
    if not judged_by_accuracy(config):
        raise ValueError(f"{label} is judged by perplexity; designs are compared by accuracy here.")
    digest = _check_task(label, config)
    return label, _named_anew(config, digest) if is_own(task_of(config)) else config


def _check_task(label: str, config: TaskConfig) -> str:
    """Raise unless a task's sequences are what they must be; returns their digest."""
    digest = hashlib.sha256()
    for split in SPLITS:
        batch, again = (config.draw(LOOKED_AT, split_generator(0, split), split) for _ in range(2))
        if not (isinstance(batch, Batch) and isinstance(again, Batch)):
            raise ValueError(f"{label} must draw a Batch(inputs, targets), got {batch!r}.")
        shape = (LOOKED_AT, config.input_length)
        bounds = {"inputs": (0, config.vocab_size), "targets": (IGNORE, config.num_classes)}
        for name, (least, bound) in bounds.items():
            one = getattr(batch, name)
            whole = not (one.is_floating_point() or one.dtype == torch.bool)
            if one.shape != shape or not whole or one.min() < least or one.max() >= bound:
                raise ValueError(
                    f"{label}: {name} must be whole numbers (n, {shape[1]}) below {bound}, got "
                    f"{one.dtype} {tuple(one.shape)} for n={LOOKED_AT}, {one.min()} .. {one.max()}."
                )
            if not torch.equal(one, getattr(again, name)):
                raise ValueError(
                    f"{label} draws other sequences from an equal generator, so that no run could "
                    "be repeated: hand `generator` to every random function of torch."
                )
            digest.update(one.long().numpy().tobytes())
        if not (batch.targets != IGNORE).any():
            raise ValueError(f"{label} scores no position: every target is {IGNORE}.")
        if ((batch.targets < 0) & (batch.targets != IGNORE)).any():
            raise ValueError(f"{label} has a target below 0 that is not {IGNORE}.")
    return digest.hexdigest()[:8]


def _named_anew(config: TaskConfig, digest: str) -> TaskConfig:
    """The task under a name that changes with its sequences, so that no older run counts for it."""
    task = task_of(config)
    name = f"{task.task_name}#{digest}"
    kind = type(task.__name__, (task,), {"task_name": name})
    TASKS[name] = kind
    return kind(**{one.name: getattr(config, one.name) for one in fields(config)})


def _names(model: ModelConfig) -> tuple[str, ...]:
    return model.mixer if isinstance(model.mixer, tuple) else (model.mixer,)


def frame(label: str, design: Any, kept: bool) -> ModelConfig:
    """The board's model around a design; see ``compare_designs`` for what a design may be."""
    if isinstance(design, dict):
        check_known("design", design, [one.name for one in fields(ModelConfig)])
        base = frame(label, design.get("mixer", "DesignMixer"), kept)
        return replace(base, **{k: v for k, v in design.items() if k != "mixer"})
    if isinstance(design, ModelConfig):
        names = tuple(_known(label, find_mixer(one), kept) for one in _names(design))
        return replace(design, mixer=names if isinstance(design.mixer, tuple) else names[0])
    if isinstance(design, str):
        rows = {**{row: row for row in ROWS}, **{one[0]: row for row, one in ROWS.items()}}
        if design in rows:
            return row_model(rows[design])
        design = _loaded(design) if ":" in design else find_mixer(design)
    name = _known(label, design, kept)
    takes = offered(REGISTERED.get(name) or find_mixer(name))
    options = {one: HEADS[one] for one in HEADS if takes is None or one in takes}
    return replace(quick_model(options, position="none"), mixer=name)


def _known(label: str, design: Any, kept: bool) -> str:
    """The name by which a model finds a design; that of a reader's own changes with its source."""
    if isinstance(design, nn.Module) or not callable(design):
        raise ValueError(
            f"{label} must be a class, or a function of the width, that makes a new module for "
            f"every layer; got {design if not isinstance(design, nn.Module) else 'one module'!r}."
        )
    if own_mixer(getattr(design, "__name__", "")) is design:
        return design.__name__
    name = f"{label}#{_digest(label, design, kept)}"
    own = isinstance(design, type) and issubclass(design, Mixer)
    REGISTERED[name] = design if own else type(label, (_Plain,), {"make": staticmethod(design)})
    return name


def _digest(label: str, design: Any, kept: bool) -> str:
    """Digest of the source of a design: its module's file, and those it imports from beside it."""
    module = _home(design)
    file = getattr(module, "__file__", None)
    whole = isinstance(design, (type, FunctionType)) and "<locals>" not in design.__qualname__
    if not kept and (file is None or not whole):
        return "here"
    if file is None or not whole:
        raise ValueError(
            f"{label} must be a class or function at the top of a module with a file: a kept run "
            "of another could not be told from one of an earlier version. Write it into a module, "
            "or use out=None."
        )
    assert module is not None, "what has a file is a module"
    digest = hashlib.sha256()
    for path in sorted(_sources(module, Path(file).resolve().parents[module.__name__.count(".")])):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def _sources(module: ModuleType, folder: Path) -> set[Path]:
    """Files of a module and of what it imports, as far as they lie in a folder."""
    found: set[Path] = set()
    left = [module]
    while left:
        one = left.pop()
        path = Path(getattr(one, "__file__", None) or "/").resolve()
        own = folder in path.parents and PACKAGE not in path.parents
        if path in found or not own or "site-packages" in path.parts:
            continue
        found.add(path)
        for value in vars(one).values():
            home = value if isinstance(value, ModuleType) else _home(value)
            left += [] if home is None else [home]
    return found


def _home(value: object) -> ModuleType | None:
    name = getattr(value, "__module__", None)
    return sys.modules.get(name) if isinstance(name, str) else None


class _Plain(Mixer):
    """A module of somebody else's in the place of a mixer: no coefficients and no state known."""

    make: ClassVar[Callable[..., nn.Module]]

    def __init__(self, *, d_model: int) -> None:
        nn.Module.__init__(self)
        self.inner = self.make(d_model) if _by_place(self.make) else self.make(d_model=d_model)

    def build(self, tokens: Any) -> Any:
        raise ValueError(f"{type(self).__name__} is no Mixer: its coefficients are not known.")

    def forward(self, x: Tensor, method: str = "auto", **_: Any) -> Any:  # type: ignore[override]
        return self.inner(x)

    def state_size(self) -> None:
        return None

    def state_growth(self) -> None:  # type: ignore[override]
        return None

    def _names_in(self, attribute: str) -> set[str]:
        return set()

    def extra_repr(self) -> str:
        return ""


def _by_place(make: Callable[..., Any]) -> bool:
    """Return whether a maker takes the width without its name."""
    try:
        inspect.signature(make).bind(1)
    except TypeError:
        return False
    except ValueError:  # it has no signature
        pass
    return True


def check_design(label: str, model: ModelConfig, length: int) -> None:
    """Raise unless a design keeps shapes, is causal, and tells the sequences of a batch apart.

    Later tokens, and the other sequences, are replaced by random ones; no other output may change
    by more than ``LEAK`` of the largest. Parameters are first moved from where they start. What
    belongs to the library alone is not looked at.

    Args:
        label: for messages.
        model: the design in its frame.
        length: in tokens.

    Raises:
        ValueError: naming what is wrong.
    """
    if all(map(own_mixer, _names(model))):
        return
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        try:
            mixers = [build_mixer(model, layer) for layer in range(len(_names(model)))]
        except Exception as error:
            raise ValueError(
                f"{label} cannot be built with width {model.width}: {error}"
            ) from error
        for mixer in mixers:
            for one in mixer.parameters():  # an output map that starts at 0 hides everything
                one.add_(0.1 * torch.randn_like(one))
            _probe(label, mixer, torch.randn(3, length, model.width))


def _probe(label: str, mixer: Mixer, x: Tensor) -> None:
    def output(x: Tensor) -> Tensor:
        torch.manual_seed(1)  # what drops units drops the same ones
        try:
            return mixer(x, method="parallel")
        except Exception as error:
            raise ValueError(f"{label} fails on x of shape {tuple(x.shape)}: {error}") from error

    def differs(y: Tensor, before: Tensor) -> bool:
        return bool((y - before).abs().max() > LEAK * want.abs().max())

    want = output(x)
    if not isinstance(want, Tensor) or want.shape != x.shape:
        got = tuple(want.shape) if isinstance(want, Tensor) else type(want).__name__
        raise ValueError(f"{label} must map (B, L, d) {tuple(x.shape)} to that shape, got {got}.")
    if not bool(want.isfinite().all()):
        raise ValueError(f"{label} gives NaN or infinity on random tokens.")
    if differs(output(x), want):
        raise ValueError(f"{label} gives other outputs for equal inputs and an equal torch seed.")
    other = 3 * torch.randn_like(x)
    if not differs(output(other), want):
        raise ValueError(f"{label} has an output that does not depend on its input.")
    alone = output(torch.cat([x[:1], other[1:2], x[2:]]))
    if differs(alone[[0, 2]], want[[0, 2]]):
        raise ValueError(
            f"{label} mixes the sequences of a batch; it must map each of (B, L, d) by itself "
            "(batch_first=True where torch asks)."
        )
    for cut in sorted({1, x.shape[1] // 2, x.shape[1] - 1} - {0}):
        y = output(torch.cat([x[:, :cut], other[:, cut:]], dim=1))[:, :cut]
        if differs(y, want[:, :cut]):
            raise ValueError(
                f"{label} is not causal: outputs before token {cut} change when only tokens from "
                f"{cut} on (of {x.shape[1]}, counted from 0) are replaced. Mask what is to come."
            )
