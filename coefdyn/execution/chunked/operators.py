"""Kernels as torch operators: opaque to torch.compile, batched by vmap, differentiable once.

A kernel is a pair of plain functions. Registering them as ``torch.library`` custom operators means
that a compiled graph holds one node per kernel instead of thousands of unrolled chunk steps, and
that the functions may look at values (how strong is the decay?) and write into preallocated
buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from coefdyn.execution.inputs import full_precision

__all__ = ["Kernel", "first_derivative_only", "flatten_batch", "once"]

SECOND = (
    "a second derivative was asked for through a kernel whose backward pass is written by hand and "
    "differentiable once. Use method='parallel' or 'recurrent'."
)
FORWARD = (
    "a forward-mode derivative (jvp) was asked for through a kernel that has a backward pass only. "
    "Use method='parallel' or 'recurrent'."
)

#: keeps the operators for as long as the module lives
LIBRARY = torch.library.Library("coefdyn", "FRAGMENT")

Forward = Callable[..., tuple[Tensor, ...]]
Backward = Callable[..., tuple[Tensor | None, ...]]


def flatten_batch(tensor: Tensor, batch: Sequence[int], trailing: int) -> Tensor:
    """Broadcast the leading axes to ``batch`` and flatten them into one."""
    shape = tensor.shape[tensor.ndim - trailing :]
    return tensor.expand(*batch, *shape).reshape(-1, *shape)


class Kernel:
    """Forward and hand-written backward of one computation, callable on flattened tensors.

    Args:
        name: operator name, in the namespace ``coefdyn``.
        forward: (*tensors, *options) -> outputs.
        backward: (*tensors, *output gradients, *options) -> one gradient per tensor, None where the
            tensor was None.
        tensors: names of the tensor arguments, each with leading axis B; "?" marks optional ones.
        options: further arguments as schema entries, "int chunk".
        shapes: (*tensors) -> the shapes of the outputs.
        constants: how many of the last outputs carry no gradient.
    """

    def __init__(
        self,
        name: str,
        forward: Forward,
        backward: Backward,
        *,
        tensors: Sequence[str],
        options: Sequence[str],
        shapes: Callable[..., Sequence[Sequence[int]]],
        outputs: int,
        constants: int = 0,
    ) -> None:
        self.forward, self.backward, self.shapes = forward, backward, shapes
        self.count, self.outputs, self.constants = len(tensors), outputs, constants
        typed = [f"Tensor{'?' if t.endswith('?') else ''} {t.rstrip('?')}" for t in tensors]
        grads = [f"Tensor grad_{i}" for i in range(outputs - constants)]
        kept = [f"Tensor out_{i}" for i in range(outputs)]
        sizes = (len(tensors), outputs, constants)
        self.op = self._registered(name, self._run, self._fake, typed, options, outputs)
        given = [*typed, *kept, *grads]
        self.back = self._registered(
            f"{name}_backward",
            self._run_backward,
            self._fake_backward,
            given,
            options,
            len(tensors),
        )
        pair = (self.op, self.back)
        self.function = _function(*pair, *sizes)
        self.compiled = _function(*pair, *sizes, compiled=True)
        self._direct = _function(self._run, self._run_backward, *sizes, self._vmap)

    def __call__(self, *args: object) -> tuple[Tensor, ...]:
        # the compiler fails on an autograd function none of whose inputs asks for a gradient
        if torch.compiler.is_compiling():
            if not _wants_gradient(args[: self.count]):
                return tuple(self.op(*args))
            return self.compiled.apply(*args)
        return self.function.apply(*args)

    def direct(self, *args: object) -> tuple[Tensor, ...]:
        """Run the kernel without a registered operator, uncompiled: options may be functions."""
        return self._direct.apply(*args)

    # what torch.compiler.disable sets; as a decorator it would import the compiler for everyone
    direct._torchdynamo_disable = True
    direct._torchdynamo_disable_msg = None

    def _run(self, *args):
        if args[0].is_meta:
            return self._fake(*args)
        with full_precision(args[0].device):  # contiguous, as ``_fake`` says
            return tuple(x.contiguous() for x in self.forward(*args))

    def _run_backward(self, *args):
        if args[0].is_meta:
            return self._fake_backward(*args)
        split = self.count + 2 * self.outputs - self.constants
        tensors = [None if x is None else x.contiguous() for x in args[:split]]
        with full_precision(args[0].device):
            grads = self.backward(*tensors, *args[split:])
        batch = args[0].shape[0]
        empty = args[0].new_empty
        return tuple(empty(batch, 0) if grad is None else grad.contiguous() for grad in grads)

    def _fake(self, *args):
        shapes = self.shapes(*args[: self.count])
        return tuple(args[0].new_empty(shape) for shape in shapes)

    def _fake_backward(self, *args):
        first = args[0]
        return tuple(
            first.new_empty(first.shape[0], 0) if x is None else x.new_empty(x.shape)
            for x in args[: self.count]
        )

    def _registered(
        self,
        name: str,
        run: Callable,
        fake: Callable,
        tensors: Sequence[str],
        options: Sequence[str],
        outputs: int,
    ) -> torch._ops.OpOverload:
        """The operator, in the form that torch.compile puts into its graph.

        ``torch.library.custom_op`` would import the compiler at the first call, for everyone.
        """
        schema = f"{name}({', '.join([*tensors, *options])}) -> ({', '.join(['Tensor'] * outputs)})"
        LIBRARY.define(schema, tags=torch.Tag.pt2_compliant_tag)
        LIBRARY.impl(name, run, "CompositeExplicitAutograd")
        op = getattr(torch.ops.coefdyn, name).default
        torch.library.register_fake(op, fake, lib=LIBRARY)
        torch.library.register_vmap(op, self._vmap(op, len(tensors)), lib=LIBRARY)
        return op

    @staticmethod
    def _vmap(op, tensors: int):
        """Fold the mapped axis into the leading batch axis that every tensor has."""

        def rule(info, in_dims, *args):
            def fold(x, dim):
                if x is None:
                    return None
                x = (
                    x.unsqueeze(0).expand(info.batch_size, *x.shape)
                    if dim is None
                    else x.movedim(dim, 0)
                )
                return x.flatten(0, 1)

            folded = [fold(x, d) for x, d in zip(args[:tensors], in_dims[:tensors], strict=True)]
            results = op(*folded, *args[tensors:])
            return tuple(r.unflatten(0, (info.batch_size, -1)) for r in results), tuple(
                0 for _ in results
            )

        return rule


def _wants_gradient(tensors: Sequence[object]) -> bool:
    return any(isinstance(x, Tensor) and x.requires_grad for x in tensors)


def _function(
    op, back, count: int, outputs: int, constants: int, fold=None, compiled: bool = False
) -> type[torch.autograd.Function]:
    """The pair as one autograd function.

    ``compiled`` makes the variant for torch.compile. Registered operators bring their own rule for
    vmap; for plain functions ``fold(apply, tensors)`` makes one.
    """
    once = first_derivative_only(back, fold, count + 2 * outputs - constants)

    class KernelFunction(torch.autograd.Function):
        generate_vmap_rule = fold is None

        @staticmethod
        def forward(*args):
            return op(*args)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.options = inputs[count:]
            ctx.save_for_backward(*inputs[:count], *output)
            ctx.set_materialize_grads(compiled)
            if constants:
                ctx.mark_non_differentiable(*output[outputs - constants :])

        @staticmethod
        def backward(ctx, *grads):
            saved, grads = ctx.saved_tensors, grads[: outputs - constants]
            if all(x is None for x in grads):  # "auto" took the plain matrix (twice.py)
                return (None,) * (count + len(ctx.options))
            grads = [
                torch.zeros_like(out) if x is None else x
                for x, out in zip(grads, saved[count:], strict=False)
            ]
            run = back if torch.compiler.is_compiling() else once.apply
            found = run(*saved, *grads, *ctx.options)
            return (
                *[None if x is None else g for x, g in zip(saved[:count], found, strict=True)],
                *[None for _ in ctx.options],
            )

    if not compiled:  # the compiler takes no function with a jvp
        KernelFunction.jvp = staticmethod(_no_forward_mode)
    if fold is not None:
        KernelFunction.vmap = staticmethod(fold(KernelFunction.apply, count))
    return KernelFunction


def _no_forward_mode(ctx, *tangents):
    raise RuntimeError(FORWARD)


def first_derivative_only(back, fold=None, tensors: int = 0) -> type[torch.autograd.Function]:
    """The backward function, with an error of its own when it is differentiated again.

    torch's ``once_differentiable`` says so to ``.backward()`` alone: ``autograd.grad`` with inputs
    never visits its error, and drops the second derivative.
    """

    class BackwardFunction(torch.autograd.Function):
        generate_vmap_rule = fold is None

        @staticmethod
        def forward(*args):
            return back(*args)

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, *grads):
            raise RuntimeError(SECOND)

    if fold is not None:
        BackwardFunction.vmap = staticmethod(fold(BackwardFunction.apply, tensors))
    return BackwardFunction


def once(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors, in front of a kernel of torch's that is differentiable once: says so in words.

    All in one call, since a node of the graph costs as much as a short attention's arithmetic.
    """
    return tensors if torch.compiler.is_compiling() else _Once.apply(*tensors)


class _Once(torch.autograd.Function):
    """The identity, with an identity as backward that cannot be differentiated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*tensors):
        return tuple(x.view_as(x) for x in tensors)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        return _Last.apply(*grads) if torch.is_grad_enabled() else grads

    @staticmethod
    def jvp(ctx, *tangents):
        raise RuntimeError(FORWARD)


class _Last(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(*grads):
        return tuple(grad.view_as(grad) for grad in grads)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(SECOND)
