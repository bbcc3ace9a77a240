"""S6, qLSTM and RG-LRU against the papers' recurrences, and S6 against Mamba's own layer."""

from __future__ import annotations

import inspect

import pytest
import torch
from mixer_cases import build, tokens
from tolerances import assert_agree
from torch.nn import functional
from transformers.models.mamba import modeling_mamba
from transformers.models.mamba.configuration_mamba import MambaConfig
from widened import agrees_with_peer

from coefdyn.dynamics.evolution import Diagonal
from coefdyn.mixers import QLSTM, RGLRU, S6, Mixer

F64 = torch.float64


def check(mixer: Mixer, theirs, x: torch.Tensor) -> None:
    """The output, and the gradient of x."""
    agrees_with_peer({"x": x}, mixer(x), theirs(x))


def test_plain_s6_is_the_recurrence_of_the_paper() -> None:
    """DSF paper, eq. 3 and 4: h = exp(-Delta a) h + Delta B u, y = C h + D u, per channel."""
    mixer = S6(
        d_model=6, key_dim=3, timestep_rank=2, input_projection=False, short_convolution=0,
        output_gate="none",
    ).double()  # fmt: skip
    with torch.no_grad():
        mixer.skip.copy_(torch.linspace(-1, 1, 6))
    w_b, w_c = (mixer.project[name].linear.weight for name in ("key", "query"))

    def literal(x: torch.Tensor) -> torch.Tensor:
        a, rows = mixer.log_a.exp(), []
        for u_all in x:
            h, ys = torch.zeros(6, 3, dtype=F64), []
            for u in u_all:
                delta = functional.softplus(mixer.timestep_up(mixer.timestep_down(u)))
                new = []
                for c in range(6):
                    new.append(torch.exp(-delta[c] * a[c]) * h[c] + delta[c] * (w_b @ u) * u[c])
                h = torch.stack(new)
                ys.append(h @ (w_c @ u) + mixer.skip * u)
            rows.append(mixer.output.projection(torch.stack(ys)))
        return torch.stack(rows)

    check(mixer, literal, tokens(2, 19, d_model=6).requires_grad_())


@torch.no_grad()
def test_s6_is_transformers_mamba_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """in_proj, convolution, selective scan, D, SiLU gate, out_proj; its scan casts to float32."""
    for name in ("causal_conv1d_fn", "mamba_selective_scan"):
        monkeypatch.setattr(modeling_mamba, name, inspect.unwrap(getattr(modeling_mamba, name)))
    mixer = S6(d_model=8, channels=16, key_dim=4, timestep_rank=3)
    config = MambaConfig(hidden_size=8, expand=2, state_size=4, time_step_rank=3)
    layer = modeling_mamba.MambaMixer(config, layer_idx=0).eval()
    value = mixer.project["value"]
    layer.in_proj.weight.copy_(torch.cat([value.linear.weight, mixer.output.gate.weight]))
    layer.conv1d.weight.copy_(value.convolution.weight.flip(0).T[:, None, :])
    layer.conv1d.bias.copy_(value.convolution.bias)
    parts = [mixer.timestep_down.weight]
    parts += [mixer.project[name].linear.weight for name in ("key", "query")]
    layer.x_proj.weight.copy_(torch.cat(parts))
    layer.dt_proj.weight.copy_(mixer.timestep_up.weight)
    layer.dt_proj.bias.copy_(mixer.timestep_up.bias)
    mixer.log_a.add_(0.1 * tokens(16, d_model=4).float())
    layer.A_log.copy_(mixer.log_a)
    mixer.skip.copy_(torch.linspace(-1, 1, 16))
    layer.D.copy_(mixer.skip)
    layer.out_proj.weight.copy_(mixer.output.projection.weight)
    with torch.enable_grad():
        check(mixer, layer, tokens(2, 37, d_model=8).float().requires_grad_())


@pytest.mark.parametrize("gate", ["sigmoid", "reversed"])
@pytest.mark.parametrize("n", [1, 3])
def test_qlstm_is_the_recurrence_of_the_paper(gate: str, n: int) -> None:
    """Eq. 20 with eq. 23 for the reversed gate; n > 1 gives every channel n gates of each kind."""
    mixer = QLSTM(d_model=5, key_dim=n, forget_gate=gate).double()
    if mixer.log_power is not None:
        torch.nn.init.constant_(mixer.log_power, 0.4)
    w_o, w_i, w_u = (mixer.project[name].linear for name in ("query", "key", "value"))

    def literal(x: torch.Tensor) -> torch.Tensor:
        rows = []
        for u_all in x:
            h, ys = torch.zeros(5, n, dtype=F64), []
            for u in u_all:
                s = mixer.forget(u).reshape(5, n)
                if gate == "reversed":
                    keep = (1 / (1 + torch.exp(s))) ** mixer.log_power.exp()
                else:
                    keep = 1 / (1 + torch.exp(-s))
                h = keep * h + w_i(u).reshape(5, n).sigmoid() * w_u(u)[:, None]
                ys.append((w_o(u).reshape(5, n).sigmoid() * h).sum(1))
            rows.append(mixer.output.projection(torch.stack(ys)))
        return torch.stack(rows)

    check(mixer, literal, tokens(2, 19, d_model=5).requires_grad_())


def test_rglru_is_the_recurrence_of_the_paper() -> None:
    """DSF paper, eq. 9 and 10: x = a x + sqrt(1 - a^2) (i u), y = x; here without convolution."""
    mixer = RGLRU(d_model=5, short_convolution=0, output_gate="none").double()
    w_u = mixer.project["value"].linear

    def literal(x: torch.Tensor) -> torch.Tensor:
        rows = []
        for u_all in w_u(x):
            h, ys = torch.zeros(5, dtype=F64), []
            for u in u_all:
                r, gate = mixer.recurrence_gate(u).sigmoid(), mixer.input_gate(u).sigmoid()
                a = torch.exp(-8 * r * functional.softplus(mixer.raw_speed))
                h = a * h + (1 - a**2).sqrt() * gate * u
                ys.append(h)
            rows.append(mixer.output.projection(torch.stack(ys)))
        return torch.stack(rows)

    check(mixer, literal, tokens(2, 19, d_model=5).requires_grad_())


def test_rglru_starts_slow_and_stays_finite_where_nothing_fades() -> None:
    mixer = RGLRU(d_model=64)
    full = torch.exp(-8 * functional.softplus(mixer.raw_speed))
    assert 0.899 < full.min() < full.max() < 0.9991
    torch.nn.init.constant_(mixer.recurrence_gate.bias, -200.0)  # a_t = 1 in float32
    x = tokens(9, d_model=64).float().requires_grad_()
    mixer(x).sum().backward()
    assert torch.isfinite(x.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in mixer.parameters() if p.grad is not None)


def test_a_reversed_gate_with_power_one_is_the_plain_gate_with_its_sign_turned() -> None:
    plain = QLSTM(d_model=5).double()
    turned = QLSTM(d_model=5, forget_gate="reversed").double()
    weights = {name: value.clone() for name, value in plain.state_dict().items()}
    for name in ("forget.weight", "forget.bias"):
        weights[name] = -weights[name]
    turned.load_state_dict({**weights, "log_power": torch.zeros(())})
    x = tokens(11, d_model=5)
    assert_agree(turned(x), plain(x), method="mixer", dtype=F64, quantity="output")


def test_s6_starts_as_its_authors_say() -> None:
    mixer = S6(d_model=32, key_dim=5)
    assert torch.allclose(mixer.log_a.exp(), torch.arange(1.0, 6.0).expand(32, 5))
    bias = functional.softplus(mixer.timestep_up.bias)
    assert 0.9e-3 < bias.min() < bias.max() < 0.11
    assert mixer.timestep_down.weight.shape == (2, 32)
    assert mixer.no_weight_decay_names() == {"log_a", "skip"}


@pytest.mark.parametrize(("name", "n_heads"), [("S6", 4), ("QLSTM", 4)])
def test_one_head_per_channel_with_a_diagonal_evolution(name: str, n_heads: int) -> None:
    mixer = build(name, n_heads=n_heads)
    dynamics, v = mixer.dynamics(tokens(7))
    assert isinstance(dynamics.evolution, Diagonal)
    assert dynamics.evolution.log_decay.shape == (n_heads, 7, 4)
    assert (dynamics.evolution.log_decay < 0).all()
    assert v.shape == (n_heads, 7, 1)
    assert mixer.state_size() == n_heads * 4 + (3 * n_heads if name == "S6" else 0)


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        (S6, {"input_projection": False}, "needs channels = d_model = 12 and short_convolution=0"),
        (S6, {"channels": 0}, "channels must be a whole number >= 1, got 0"),
        (S6, {"timestep_rank": 0}, "timestep_rank must be a whole number >= 1, got 0"),
        (QLSTM, {"forget_gate": "revers"}, "did you mean 'reversed'"),
        (RGLRU, {"sharpness": 0.0}, "sharpness must be positive, got 0.0"),
        (QLSTM, {"key_dim": 0}, "key_dim must be a whole number >= 1, got 0"),
    ],
)
def test_options_that_do_not_fit(form: type[Mixer], options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        form(**{"d_model": 12, **options})
