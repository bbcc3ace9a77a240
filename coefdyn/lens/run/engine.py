"""``running`` and ``install``: other people's models with their linear mixers computed here."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from coefdyn.execution.state import LinearState
from coefdyn.lens.adapters import ADAPTERS, Adapter
from coefdyn.lens.adapters.base import MethodAdapter, OpAdapter, Refused, bind, runnable
from coefdyn.lens.adapters.running import Runs, Taken
from coefdyn.lens.run.engine_report import EngineReport
from coefdyn.lens.run.listening import NOT_MINE, at
from coefdyn.lens.run.refusals import check_call, looks_like_mixer
from coefdyn.shapes import Tensor

__all__ = ["Engine", "install", "mix", "running"]

STEP = "one token after a cache: the model's own step is the faster"
CHECKPOINT = "torch/utils/checkpoint.py"


@contextmanager
def running(model: nn.Module) -> Iterator[EngineReport]:
    """Compute the linear mixers of a model by ``CoefficientDynamics.apply`` inside the context.

        with running(model) as report:
            loss = model(ids, labels=ids).loss
        loss.backward()      # the gradients are the engine's, also out here
        print(report)

    Args:
        model: as for ``install``, which says what is computed and what is left to the model.

    Returns:
        What ran here, layer by layer, and why the rest did not.

    Raises:
        ValueError: as ``install``; and in a forward pass with gradient checkpointing, which runs
            the layers again in the backward pass, where the context may be over.
    """
    engine = Engine(model, lasting=False)
    try:
        yield engine.report
    finally:
        engine.uninstall()


def install(model: nn.Module) -> Engine:
    """Compute the linear mixers of a model by ``CoefficientDynamics.apply`` until ``uninstall``.

    Gated DeltaNet, Kimi delta attention, Mamba-1, Mamba-2 and mLSTM of transformers' classes are
    computed here on a CPU: same logits, gradients and cached states, in less memory and mostly less
    time than the plain torch code that runs there without a GPU's kernels. Softmax attention,
    convolutions, norms and projections are the model's own, as are its weights; so are RG-LRU and
    lightning attention, whose own code was the faster.

    The arithmetic is in float32 with autocast off (float64 stays), and results have the dtype of
    the operation. Left to the model, and named in the report: one token after a cache, packed
    sequences, other devices than a CPU, passes under ``trace`` or ``replaced``, code that
    ``torch.compile`` has compiled, and calls of other models or made in other threads. A copy of
    the model is a model of its own. Gradient checkpointing works without ``use_reentrant``, and
    where it runs a layer again after ``uninstall`` torch raises ``CheckpointError``.

    The names of functions in transformers' modules are exchanged, and given back by the last
    engine there. Its registry of kernels is not used: it needs a further package, and what it puts
    into a model stays.

    Args:
        model: any torch module with such layers, not compiled.

    Returns:
        The engine, whose ``report`` says what ran here and ``uninstall`` ends it.

    Raises:
        ValueError: for a model without such a layer, a compiled one, an encoder-decoder; and in a
            forward pass for checkpointing with ``use_reentrant=True``.
    """
    return Engine(model, lasting=True)


class Engine:
    """The calls of one model's operations in one thread, computed here; ``install`` returns it.

    Attributes:
        report: what ran here, layer by layer, and why the rest did not.

    Raises:
        ValueError: as ``install``.
    """

    def __init__(self, model: nn.Module, *, lasting: bool) -> None:
        check_call(model, (), {}, "an engine")
        self._lasting, self._thread = lasting, threading.get_ident()
        self._names = weakref.WeakKeyDictionary(
            {module: name for name, module in reversed(list(model.named_modules()))}
        )
        mixers = [name for name, module in model.named_modules() if looks_like_mixer(module)]
        self.report = EngineReport(model=type(model).__name__, mixers=tuple(mixers))
        self._exchanges = ExitStack()
        found = False
        with ExitStack() as stack:
            for adapter in ADAPTERS:
                if isinstance(adapter, Runs):
                    for place in adapter.places(model):
                        runner = functools.partial(self._run, adapter)
                        stack.enter_context(at(adapter, place, runner=runner))
                        found = True
            if not found:
                known = ", ".join(one.mechanism for one in ADAPTERS if isinstance(one, Runs))
                raise Refused(f"no mixer of {type(model).__name__} is computed here: {known}.")
            self._exchanges = stack.pop_all()
        self._gone = weakref.finalize(model, self._exchanges.close)

    def uninstall(self) -> None:
        """Give the model back its own operations; a second time does nothing."""
        self._gone()

    def _run(
        self, adapter: Adapter, original: Callable[..., Any], args: tuple, kwargs: dict
    ) -> Any:
        """The result of a call of this model, or ``NOT_MINE``."""
        if threading.get_ident() != self._thread:
            return NOT_MINE
        module = args[0] if isinstance(adapter, MethodAdapter) else _calling_module()
        name = self._names.get(module) if isinstance(module, nn.Module) else None
        if name is None:
            return NOT_MINE
        self._check_checkpointing()
        taken, reason = _take(adapter, original, args, kwargs)
        self.report.note(name, adapter.mechanism, reason)
        if taken is None:  # a step runs on a CPU also where a package's GPU kernel stands for it
            step = reason == STEP and isinstance(adapter, OpAdapter)
            own = runnable(original, (*args, *kwargs.values())) if step else original
            return own(*args, **kwargs)
        return taken.result(*mix(taken))

    def _check_checkpointing(self) -> None:
        reentrant = _reentrant()
        if reentrant is None or (self._lasting and not reentrant):
            return
        raise Refused(
            "gradient checkpointing runs layers again in the backward pass, where "
            + (
                "use_reentrant=True would mix the engine's pass with the model's own gradients; "
                "use use_reentrant=False."
                if self._lasting
                else "this context may be over; use install(model) and use_reentrant=False, or "
                "call model.gradient_checkpointing_disable()."
            )
        )


def _take(
    adapter: Adapter, original: Callable[..., Any], args: tuple, kwargs: dict
) -> tuple[Taken | None, str | None]:
    """The arguments of a call, or the reason why the model's own code computes it."""
    assert isinstance(adapter, Runs)
    for value in (*args, *kwargs.values()):
        if isinstance(value, Tensor) and value.device.type != "cpu":
            return None, f"on {value.device.type}: the engine is for a CPU"
    op = original
    if isinstance(adapter, OpAdapter):
        op = runnable(original, (*args, *kwargs.values()))
        if op.__name__ in adapter.continuing:
            return None, STEP
    try:
        given = bind(op, args, kwargs)
        if adapter.is_step(given):
            return None, STEP
        return adapter.take(given), None
    except Exception as error:  # what is wrong with the call, the model's own code says
        return None, str(error).splitlines()[0] if str(error) else type(error).__name__


def mix(taken: Taken) -> tuple[Tensor, LinearState | None]:
    """y, and the state after these tokens where the result has it."""
    dynamics, values = taken.dynamics, taken.values
    with torch.autocast("cpu", enabled=False):
        if not taken.keeps and taken.before is None:
            return dynamics.apply(values), None
        y, after = dynamics.apply(values, "chunked", state=taken.before, return_state=True)
    assert isinstance(after, LinearState), "the readout is linear"
    return y, after if taken.keeps else None


def _calling_module() -> nn.Module | None:
    """The module whose method called the operation: the nearest ``self`` that is one."""
    frame = sys._getframe(3)
    while frame is not None:
        code = frame.f_code
        if code.co_argcount and code.co_varnames[0] == "self":
            owner = frame.f_locals["self"]
            if isinstance(owner, nn.Module):
                return owner
        frame = frame.f_back  # type: ignore[assignment]
    return None


def _reentrant() -> bool | None:
    """Whether checkpointing that runs here is reentrant; None where there is none."""
    frame = sys._getframe(1)
    found = None
    while frame is not None:
        code = frame.f_code
        if code.co_filename.endswith(CHECKPOINT):
            found = bool(found) or code.co_name in ("forward", "backward")
        frame = frame.f_back  # type: ignore[assignment]
    return found
