"""One design by method='triton' against the L x L form in float64, on any device."""

from __future__ import annotations

import torch
from chunked_cases import in_float64, output_and_gradients, own_key
from designs import READOUTS, Inputs
from own_readouts import squared_relu
from tolerances import relative_error

__all__ = ["check", "in_float64", "output_and_gradients"]

READOUTS["squared_relu"] = squared_relu


def drawn(device: str, length: int, dtype: torch.dtype, batch: tuple[int, ...], **sizes: int):
    """Random inputs, rounded to dtype, on the device; keys of about unit norm for wide heads."""
    inputs = Inputs.draw(batch=batch, length=length, dtype=dtype, **sizes)
    width = inputs.leaves["q"].shape[-1]
    leaves = {
        name: (x.detach() * (min(1.0, (8 / width) ** 0.25) if name in "qk" else 1.0)).to(device)
        for name, x in inputs.leaves.items()
    }
    return Inputs(
        {name: x.requires_grad_() for name, x in leaves.items()},
        {name: x.to(device) for name, x in inputs.signs.items()},
    )


def with_resets(inputs: Inputs) -> Inputs:
    """Full resets, decays of 200 nats and a growth of 3 nats among the gates."""
    leaves = {name: x.detach().clone() for name, x in inputs.leaves.items()}
    leaves["log_decay"][..., ::7] = -1e4
    leaves["log_decay"][..., 3::7] = -200.0
    leaves["log_decay"][..., 5::11] = 3.0
    leaves["channel_decay"][..., ::7, :2] = -1e4
    leaves["channel_decay"][..., 3::7, 1:] = -60.0
    return Inputs({name: x.requires_grad_() for name, x in leaves.items()}, inputs.signs)


def decayed(inputs: Inputs, nats: float) -> Inputs:
    """The same with ``nats`` of decay more, for every token."""
    leaves = {name: x.detach().clone() for name, x in inputs.leaves.items()}
    leaves["log_decay"] -= nats
    leaves["channel_decay"] -= nats
    return Inputs({name: x.requires_grad_() for name, x in leaves.items()}, inputs.signs)


def gradients(run, build, inputs: Inputs) -> dict[str, torch.Tensor]:
    y = run(build(inputs), inputs.v)
    generator = torch.Generator().manual_seed(7)
    probe = torch.randn(y.shape, generator=generator, dtype=torch.float64).to(y)
    grads = torch.autograd.grad(y, list(inputs.leaves.values()), probe, allow_unused=True)
    named = zip(inputs.leaves, grads, strict=True)
    return {"output": y.detach(), **{name: g for name, g in named if g is not None}}


def check(
    structure: str,
    phi: str,
    eta: str,
    length: int,
    *,
    dtype: torch.dtype = torch.float32,
    log_scaled: bool = False,
    own: bool = False,
    resets: bool = False,
    nats: float = 0.0,
    batch: tuple[int, ...] = (1,),
    device: str = "cpu",
    **sizes: int,
) -> dict[str, object]:
    """Relative errors of the output and of every gradient; all inputs are the same numbers.

    ``nats``: what every channel of every token decays by, beside what is drawn.
    """
    inputs = drawn(device, length, dtype, batch, **sizes)
    inputs = with_resets(inputs) if resets else inputs
    inputs = decayed(inputs, nats) if nats else inputs

    def build(x: Inputs):
        dynamics = x.dynamics(structure, phi, eta, log_scaled)
        return own_key(dynamics) if own else dynamics

    expected = gradients(lambda d, v: d.apply(v, "parallel"), build, in_float64(inputs))
    got = gradients(lambda d, v: d.apply(v, "triton"), build, inputs)
    name = str(dtype).removeprefix("torch.")
    return {
        "case": f"{structure} {phi} {eta} L={length} {name} {sizes or ''}{own=} {resets=} {nats=}",
        "dtype": name,
        "missing": sorted(expected.keys() - got.keys()),
        "errors": {name: relative_error(got[name], expected[name]) for name in got},
    }
