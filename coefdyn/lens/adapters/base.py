"""Base of the adapters: where a mechanism is in other people's code, and how to read one call."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from coefdyn.dynamics.coefficients import CoefficientDynamics
from coefdyn.shapes import Float, Tensor

__all__ = [
    "Adapter",
    "Call",
    "MethodAdapter",
    "OpAdapter",
    "Place",
    "ProjectedAdapter",
    "Refused",
    "Unsupported",
    "behind",
    "busy",
    "call_method",
    "defining_modules",
    "exchanged",
    "first",
    "mark_stand_in",
    "operation",
    "repeat_heads",
    "take",
    "wide",
    "with_first",
]


class Unsupported(Exception):
    """This call has no exact coefficient dynamics here; the message says why."""


class Refused(ValueError):
    """The pass as a whole is not one that the lens can look at; the message says the remedy."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Call:
    """One call of a mixer's operation as coefficient dynamics.

    Attributes:
        dynamics: batch shape ``(B, H)``.
        values: ``(B, H, L, d_v)``.
        output: ``(B, H, rows, d_v)``, what the operation returned for these values; rows = L
            unless ``start`` is set.
        replay: the operation again with everything but v as it was: ``(B, H, L, m)`` to the same
            shape, m <= columns.
        columns: most value channels that ``replay`` takes at once.
        put: the result of the operation, in its own form and dtype, had it returned this for
            ``output``; for ``output`` itself the same result.
        empty: True for queries that may read no token, ``(B, 1 or H, L)``, or None.
        start: of the first query among the keys. Where a cache holds earlier tokens, dynamics and
            values hold them, too (q is 0 there), and ``output`` and ``replay`` the rows from here.
    """

    dynamics: CoefficientDynamics
    values: Float[Tensor, "B H L dv"]
    output: Float[Tensor, "B H rows dv"]
    replay: Callable[[Tensor], Tensor]
    columns: int
    put: Callable[[Tensor], Any]
    empty: Tensor | None = None
    start: int = 0


@dataclass(frozen=True)
class Place:
    """An attribute that is exchanged while the model runs: a function of a module or a method."""

    owner: Any
    attribute: str


class _Operation(threading.local):
    """Counter of the operations with an adapter that are running in this thread."""

    open = 0


_OPERATION = _Operation()


@contextmanager
def operation() -> Iterator[None]:
    """Mark an operation that its adapter reads: calls inside it are a part of it."""
    _OPERATION.open += 1
    try:
        yield
    finally:
        _OPERATION.open -= 1


def busy() -> bool:
    """Return whether such an operation is running."""
    return _OPERATION.open > 0


@contextmanager
def exchanged(owner: Any, attribute: str, value: Any) -> Iterator[None]:
    """Set an attribute for a while; one that was inherited is deleted again."""
    own = attribute in vars(owner)
    before = vars(owner).get(attribute)
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, attribute, before)
        else:
            delattr(owner, attribute)


class Adapter(ABC):
    """One mechanism: the places where it runs, and how a call there becomes dynamics."""

    mechanism: ClassVar[str]
    #: what of such a layer lies outside alpha
    outside: ClassVar[str] = "output gate, norm and projection after y"

    @abstractmethod
    def places(self, model: nn.Module) -> Iterator[Place]:
        """Functions or modules to listen to in this model; none where it has no such layer."""

    @abstractmethod
    def listen(self, original: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
        """The stand-in for ``original``: the result that ``note`` hands back, one per call.

        Args:
            original: what the place held.
            note: takes the module that the call belongs to (None for the innermost one that is
                running), a function that reads the call as a ``Call``, and the result, and returns
                what the model goes on with. The function may raise ``Unsupported`` where the
                arguments have no exact form, and ``Refused`` where the model continues an earlier
                pass.
        """


class OpAdapter(Adapter):
    """A mechanism that runs as a function, imported by name into the modules of the models."""

    #: names of the function, and of those that continue an earlier pass
    names: ClassVar[tuple[str, ...]]
    continuing: ClassVar[tuple[str, ...]] = ()

    def places(self, model: nn.Module) -> Iterator[Place]:
        for module in defining_modules(model):
            for name in (*self.names, *self.continuing):
                if callable(getattr(module, name, None)):
                    yield Place(module, name)

    def listen(self, original: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            op = runnable(original, (*args, *kwargs.values()))
            if op.__name__ in self.continuing:
                return note(None, _continues, op(*args, **kwargs))
            try:
                with operation():
                    given = bind(op, args, kwargs)
                    mixed, result = self.run_op(op, given, op is original)
            except Exception as error:  # the model's own if its own call raises it, too
                with operation():
                    result = op(*args, **kwargs)
                return note(None, functools.partial(_raise, error), result)
            return note(None, lambda: self.read_op(op, given, mixed), result)

        return stand_in

    def run_op(
        self, op: Callable[..., Any], given: dict[str, Any], is_kernel: bool
    ) -> tuple[Any, Any]:
        """Output of the mixing alone, and the model's; the same where nothing follows.

        Args:
            op: the function.
            given: all arguments by name.
            is_kernel: whether ``op`` is other than a plain torch function of the model's source,
                so that what it adds after mixing cannot be repeated out here bit by bit.
        """
        result = op(**given)
        return result, result

    @abstractmethod
    def read_op(self, op: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        """Read a call as ``Adapter.read`` does; arguments by name, and the mixing's output."""


class MethodAdapter(Adapter):
    """A mechanism that runs as a method of a class known by its name."""

    class_names: ClassVar[tuple[str, ...]]
    method: ClassVar[str] = "forward"

    def places(self, model: nn.Module) -> Iterator[Place]:
        kinds = {kind for module in model.modules() for kind in type(module).__mro__}
        for kind in sorted(kinds, key=lambda kind: kind.__qualname__):
            if kind.__name__ in self.class_names and self.method in vars(kind):
                yield Place(kind, self.method)

    def listen(self, original: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def stand_in(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            with operation():
                result = original(module, *args, **kwargs)
            called = (module, *args)
            return note(
                module, lambda: self.read(original, bind(original, called, kwargs), result), result
            )

        return stand_in

    @abstractmethod
    def read(self, original: Callable[..., Any], given: dict[str, Any], result: Any) -> Call:
        """The call as coefficient dynamics; ``given`` holds all arguments by name."""


class ProjectedAdapter(MethodAdapter):
    """A mechanism without an operation of its own: q, k, v leave one module, y enters another.

    ``read`` gets what was heard, ``{"qkv": ..., "y": ...}``, in place of the result.
    """

    into: ClassVar[str]
    out: ClassVar[str]

    def listen(self, original: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def stand_in(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            def at_output(heard: dict[str, Any]) -> Tensor:
                called = (module, *args)
                return note(
                    module,
                    lambda: self.read(original, bind(original, called, kwargs), heard),
                    heard["y"],
                )

            with operation(), self.overheard(module, at_output=at_output):
                return original(module, *args, **kwargs)

        return stand_in

    @contextmanager
    def overheard(
        self,
        module: nn.Module,
        qkv: Tensor | None = None,
        at_output: Callable[[dict[str, Any]], Tensor] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """First tensors that leave ``into`` and enter ``out``.

        ``qkv`` replaces the former and the result of ``at_output`` the latter, if given.
        """
        heard: dict[str, Any] = {}

        def leaving(_: nn.Module, __: Any, out: Tensor) -> Tensor | None:
            if "qkv" in heard:  # called again while the call is being read
                return None
            heard["qkv"] = out
            return qkv

        def entering(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...] | None:
            if "y" in heard:
                return None
            heard["y"] = inputs[0]
            return None if at_output is None else (at_output(heard), *inputs[1:])

        hooks = [
            getattr(module, self.into).register_forward_hook(leaving),
            getattr(module, self.out).register_forward_pre_hook(entering),
        ]
        try:
            yield heard
        finally:
            for hook in hooks:
                hook.remove()


CONTINUES = (
    "the model continues an earlier pass: coefficients on the tokens before are not in this call. "
    "Run trace on the whole sequence, without past_key_values."
)


def _continues() -> Call:
    raise Refused(CONTINUES)


def _raise(error: Exception) -> Call:
    raise error


def call_method(original: Callable[..., Any], given: dict[str, Any], **changed: Any) -> Any:
    """A method once more, with its arguments by name but for ``self``, which decorators look for
    in the first place."""
    rest = {name: value for name, value in given.items() if name != "self"}
    return original(given["self"], **{**rest, **changed})


def defining_modules(model: nn.Module) -> list[Any]:
    """The Python modules in which the model's classes are written, each once."""
    names = {
        kind.__module__: None
        for module in model.modules()
        for kind in type(module).__mro__
        if kind.__module__.partition(".")[0] not in ("torch", "builtins")
    }
    return [sys.modules[name] for name in names if name in sys.modules]


def runnable(original: Callable[..., Any], args: tuple) -> Callable[..., Any]:
    """The function that can run where its arguments are.

    Transformers wraps its torch functions and calls a package's GPU kernels where that is
    installed, also on a CPU, where they fail. There the torch function beneath is called.
    """
    on_cpu = any(isinstance(value, Tensor) and value.device.type == "cpu" for value in args)
    inner = inspect.unwrap(original, stop=lambda one: getattr(one, STAND_IN, False))
    return inner if on_cpu and inner is not original else original


#: an attribute of functions that listen: what they wrap must not be called in their place
STAND_IN = "_coefdyn_listens"


def mark_stand_in(function: Callable[..., Any]) -> None:
    """Mark this function as one that listens."""
    setattr(function, STAND_IN, True)


def bind(op: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name, defaults included."""
    signature = inspect.signature(op)
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    named = dict(bound.arguments)
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named |= named.pop(name, {})
    return named


def take(given: dict[str, Any], *names: str) -> Any:
    """The first of these arguments that is there and set."""
    for name in names:
        if given.get(name) is not None:
            return given[name]
    raise Unsupported(f"the call has none of the arguments {', '.join(names)}")


def wide(value: Tensor) -> Tensor:
    """Half precision as float32, everything else as it is; within the graph if there is one."""
    value = value if torch.is_grad_enabled() else value.detach()
    return value.float() if value.dtype in (torch.float16, torch.bfloat16) else value


def behind(q: Float[Tensor, "B H L n"], kept: int) -> Float[Tensor, "B H T n"]:
    """q with zeros for the tokens of an earlier pass, whose queries are gone."""
    return torch.nn.functional.pad(q, (0, 0, kept, 0)) if kept else q


def repeat_heads(value: Tensor, heads: int, axis: int = 1) -> Tensor:
    """Heads shared by a group, once per head of the values."""
    have = value.shape[axis]
    return value if have == heads else value.repeat_interleave(heads // have, dim=axis)


def refuse_state(state: Tensor | tuple[Tensor | None, ...] | None) -> None:
    """Raise for a state that is not zero, since it holds earlier tokens."""
    for part in state if isinstance(state, tuple) else (state,):
        if part is not None and bool((part != 0).any()):
            raise Refused(CONTINUES)


def first(result: Any) -> Tensor:
    """Output y of an operation that may also return its last state."""
    return result[0] if isinstance(result, (tuple, list)) else result


def with_first(result: Any, y: Tensor) -> Any:
    """Result with another y, in the dtype of its own."""
    y = y.to(first(result).dtype)
    return (y, *result[1:]) if isinstance(result, (tuple, list)) else y
