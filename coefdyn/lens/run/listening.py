"""Listeners in a model: the running module, and the calls of its operations."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from coefdyn.lens.adapters import ADAPTERS, Adapter
from coefdyn.lens.adapters.base import Call, Place, bind, exchanged, mark_stand_in
from coefdyn.lens.documents import read_segments, tokens_so_far
from coefdyn.shapes import Tensor

__all__ = [
    "FAR_OFF",
    "NOT_MINE",
    "Heard",
    "Listener",
    "Runner",
    "anyone_hears",
    "at",
    "deviation",
    "far_off",
    "seen_rows",
]

#: above this error a layer computes something else: float32 and wider, half
FAR_OFF = {4: 1e-3, 2: 1e-1}

#: listeners at work, the innermost last; while a call is being read none of them hears
_AT_WORK: list[Listener] = []
_READING = threading.local()
#: what listens at a place, by its owner, attribute and kind of adapter
_STATIONS: dict[tuple[int, str, type], _Station] = {}
#: held while a place is exchanged or given back
_CHANGING = threading.RLock()


class Heard:
    """One call of an operation: its location, and the function that reads it.

    Attributes:
        adapter: of its mechanism.
        name: of the module; ``label`` has " (2)" and so on behind where it ran again in this pass.
        turn: how often it has run in this pass.
        place: its number among the calls of this pass.
        read: the call as a ``Call``; raises as the function of ``Adapter.listen`` does.
        segments: number of the sequence that each token belongs to, 0 for padding, or None.
        tokens: of each row, those of a cache among them; 0 where the model's arguments say nothing.
    """

    def __init__(
        self,
        adapter: Adapter,
        name: str,
        turn: int,
        place: int,
        read: Callable[[], Call],
        segments: Tensor | None,
        tokens: int,
    ) -> None:
        self.adapter, self.name, self.place, self.read = adapter, name, place, read
        self.turn, self.label = turn, name if turn == 1 else f"{name} ({turn})"
        self.segments, self.tokens = segments, tokens

    def is_named(self, key: int | str) -> bool:
        """Return whether this is layer ``key``: a number, its name (" (1)" behind it for its first
        call alone), or a parent module's name."""
        if isinstance(key, int):
            return self.place == key
        own = ("*", self.name, f"{self.name} ({self.turn})")
        return key in own or self.name.startswith(f"{key}.")


class Listener:
    """Listener to every operation of a model while ``listening``, in the thread that made it."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.heard: set[str] = set()
        self.ran: set[str] = set()
        self._names: dict[int, list[str]] = {}
        for name, module in model.named_modules(remove_duplicate=False):
            self._names.setdefault(id(module), []).append(name)
        self._running: list[str] = []
        self._thread = threading.get_ident()
        self._begin()

    def on_call(self, call: Heard, y: Tensor | None) -> Tensor | None:
        """The y ``(B, H, L, d_v)`` that the model shall go on with; None for that which it has.

        Args:
            call: what was heard.
            y: what listeners before this one put in place of the operation's own; None for that.
        """
        raise NotImplementedError

    def on_end(self, output: Any) -> None:
        """A pass of the whole model has ended with this output, without an exception."""

    def hears(self) -> bool:
        """Return whether this listener is active now."""
        return threading.get_ident() == self._thread and not getattr(_READING, "open", False)

    def is_running(self) -> bool:
        """Return whether a pass is running that this listener hears."""
        return self.hears() and bool(self._running)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Exchange every place and hook every module; all are restored on exit."""
        with ExitStack() as stack:
            for adapter in ADAPTERS:
                for place in adapter.places(self.model):
                    stack.enter_context(at(adapter, place, self._hear(adapter)))
            first, last = self.model.register_forward_pre_hook, self.model.register_forward_hook
            hooks = [first(self._start, with_kwargs=True)]
            for module in self.model.modules():
                hooks.append(module.register_forward_pre_hook(self._enter))
                hooks.append(module.register_forward_hook(self._leave, always_call=True))
            hooks.append(last(self._end))
            for hook in hooks:
                stack.callback(hook.remove)
            _AT_WORK.append(self)
            stack.callback(_AT_WORK.remove, self)
            yield

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Mark the reading of a call, which may run its operation again, as no part of the pass."""
        before, _READING.open = getattr(_READING, "open", False), True
        try:
            yield
        finally:
            _READING.open = before

    def is_innermost(self) -> bool:
        """Return whether no other listener of this kind began to listen after this one."""
        kin = [one for one in _AT_WORK if type(one) is type(self)]
        return bool(kin) and kin[-1] is self

    def others(self) -> list[Listener]:
        """The other listeners at work."""
        return [one for one in _AT_WORK if one is not self]

    def _begin(self) -> None:
        self._calls: dict[str, int] = {}
        self._passes: dict[int, int] = {}
        self._count = 0
        self._running.clear()
        self.segments: Tensor | None = None
        self.tokens = 0

    def _start(self, model: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        if self.hears() and not self._running:
            self._begin()
            try:
                given = bind(model.forward, args, kwargs)
            except TypeError:  # the model will say what is wrong
                given = kwargs
            self.segments, self.tokens = read_segments(given), tokens_so_far(given)

    def _end(self, _: nn.Module, __: Any, output: Any) -> None:
        if self.hears() and not self._running:
            self.on_end(output)

    def _enter(self, module: nn.Module, _: Any) -> None:
        if self.hears():
            if not self._running and module is not self.model:  # a part of it runs by itself
                self._begin()
            names = self._names[id(module)]
            turn = self._passes.get(id(module), 0)
            self._passes[id(module)] = turn + 1
            self._running.append(names[min(turn, len(names) - 1)])
            self.ran.add(self._running[-1])

    def _leave(self, *_: Any) -> None:
        if self.hears() and self._running:
            self._running.pop()

    def _hear(self, adapter: Adapter) -> _Ear:
        def hear(
            module: nn.Module | None, read: Callable[[], Call], y: Tensor | None
        ) -> Tensor | None:
            if not self.is_running():
                return None
            name = self._running[-1] if module is None else self._name_of(module)
            turn = self._calls[name] = self._calls.get(name, 0) + 1
            self.heard.add(name)
            place, self._count = self._count, self._count + 1
            call = Heard(adapter, name, turn, place, read, self.segments, self.tokens)
            return self.on_call(call, y)

        return hear

    def _name_of(self, module: nn.Module) -> str:
        names = self._names.get(id(module), [type(module).__name__])
        running = [name for name in reversed(self._running) if name in names]
        return running[0] if running else names[0]


_Ear = Callable[["nn.Module | None", Callable[[], Call], "Tensor | None"], "Tensor | None"]


class _Station:
    """All listeners and engines at one place. A call is read at most once."""

    def __init__(self, adapter: Adapter, place: Place) -> None:
        self.ears: list[_Ear] = []
        self.runners: list[Runner] = []
        original = getattr(place.owner, place.attribute)
        listened = adapter.listen(original, self.note)

        @functools.wraps(original)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            if self.runners and not torch.compiler.is_compiling() and not anyone_hears():
                for runner in reversed(self.runners):
                    done = runner(original, args, kwargs)
                    if done is not NOT_MINE:
                        return done
            return (listened if self.ears else original)(*args, **kwargs)

        mark_stand_in(stand_in)
        self.exchange = ExitStack()
        self.exchange.enter_context(exchanged(place.owner, place.attribute, stand_in))

    def note(self, module: nn.Module | None, read: Callable[[], Call], result: Any) -> Any:
        """The result of an operation, its y exchanged by those who hear it."""
        found: list[Call] = []

        def once() -> Call:
            if not found:
                found.append(read())
            return found[0]

        y: Tensor | None = None
        for ear in tuple(self.ears):
            changed = ear(module, once, y)
            y = y if changed is None else changed
        return result if y is None else once().put(y)


#: what a runner returns for a call of another model or thread
NOT_MINE = object()
#: computes a call of the function that a place held, given its arguments
Runner = Callable[[Callable[..., Any], tuple, dict[str, Any]], Any]


def anyone_hears() -> bool:
    """Return whether a pass of this thread is listened to: then the model's own code runs."""
    return any(one.is_running() for one in tuple(_AT_WORK))


@contextmanager
def at(
    adapter: Adapter,
    place: Place,
    ear: _Ear | None = None,
    runner: Runner | None = None,
    asked_last: bool = False,
) -> Iterator[None]:
    """Exchange the attribute of a place as long as anyone listens or computes there.

    Of several runners the latest is asked first, and one that is ``asked_last`` after all others.
    """
    key = (id(place.owner), place.attribute, type(adapter))
    with _CHANGING:
        station = _STATIONS.get(key)
        if station is None:
            station = _STATIONS[key] = _Station(adapter, place)
        station.ears += [] if ear is None else [ear]
        if runner is not None:
            station.runners.insert(0 if asked_last else len(station.runners), runner)
    try:
        yield
    finally:
        with _CHANGING:
            if ear is not None:
                station.ears.remove(ear)
            if runner is not None:
                station.runners.remove(runner)
            if not station.ears and not station.runners:
                del _STATIONS[key]
                station.exchange.close()


def seen_rows(call: Call) -> Tensor:
    """True for the queries of a call that may read at least one token, ``(B, 1 or H, L, 1)``."""
    seen = torch.ones_like(call.output[:, :1, :, :1], dtype=torch.bool)
    return seen if call.empty is None else seen & ~call.empty[..., None]


def deviation(mine: Tensor, theirs: Tensor, seen: Tensor) -> float:
    """Largest deviation relative to the largest entry; NaN counts as infinite."""
    theirs = theirs.masked_fill(~seen, 0.0)
    gap = (mine.masked_fill(~seen, 0.0) - theirs).abs().amax().item()
    largest = theirs.abs().amax().item()
    if gap != gap:
        return float("inf")
    return gap / largest if largest > 0 else gap


def far_off(model: nn.Module) -> float:
    """``FAR_OFF`` for this model's arithmetic: half by its weights, or under autocast."""
    half = (torch.float16, torch.bfloat16)
    kinds = {weight.device.type for weight in model.parameters()}
    cast = any(kind != "meta" and torch.is_autocast_enabled(kind) for kind in kinds)
    return FAR_OFF[2 if cast or any(weight.dtype in half for weight in model.parameters()) else 4]
