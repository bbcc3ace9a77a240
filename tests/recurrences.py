"""The rows of Table 1 as their authors wrote them: small loops that share no code with the library.

Every function maps leaf tensors (q, k ``(..., L, n)``, v ``(..., L, d_v)``, gates ``(..., L)``) to
y ``(..., L, d_v)`` with a state that is carried from token to token. Keys of the delta rules arrive
with unit norm. Gate pre-activations are named after what they become.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["AUTHORS", "elu1"]


def elu1(x: Tensor) -> Tensor:
    return functional.elu(x) + 1


def outer(a: Tensor, b: Tensor) -> Tensor:
    return a[..., :, None] * b[..., None, :]


def read(state: Tensor, q: Tensor) -> Tensor:
    """q^T S for S (..., n, d_v)."""
    return (q[..., None, :] @ state)[..., 0, :]


def softmax_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Vaswani et al. (2017), eq. 1, one query at a time."""
    ys = []
    for i in range(q.shape[-2]):
        scores = (k[..., : i + 1, :] @ q[..., i, :, None])[..., 0] / q.shape[-1] ** 0.5
        ys.append(read(v[..., : i + 1, :], scores.softmax(-1)))
    return torch.stack(ys, -2)


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Katharopoulos et al. (2020), eq. 16-20: S and z; the key scaled inside the feature map."""
    phi_q, phi_k = elu1(q), elu1(k / q.shape[-1] ** 0.5)
    s = torch.zeros_like(outer(k[..., 0, :], v[..., 0, :]))
    z = torch.zeros_like(k[..., 0, :])
    ys = []
    for i in range(q.shape[-2]):
        s = s + outer(phi_k[..., i, :], v[..., i, :])
        z = z + phi_k[..., i, :]
        ys.append(read(s, phi_q[..., i, :]) / (phi_q[..., i, :] * z).sum(-1, keepdim=True))
    return torch.stack(ys, -2)


def normalized_attention(q: Tensor, k: Tensor, v: Tensor, eta: Tensor) -> Tensor:
    """Sieber et al. (2024), eq. 22, with eta in the denominator."""
    s = torch.zeros_like(outer(k[..., 0, :], v[..., 0, :]))
    ys = []
    for i in range(q.shape[-2]):
        s = s + outer(k[..., i, :], v[..., i, :])
        ys.append(read(s, q[..., i, :] / q.shape[-1] ** 0.5) / torch.exp(eta[..., i, None]))
    return torch.stack(ys, -2)


def gla(q: Tensor, k: Tensor, v: Tensor, channel_gate: Tensor) -> Tensor:
    """Yang et al. (2023), eq. 3: S_t = diag(a_t) S_{t-1} + k_t v_t^T, a_t = sigmoid(.)^(1/16)."""
    s = torch.zeros_like(outer(k[..., 0, :], v[..., 0, :]))
    ys = []
    for t in range(q.shape[-2]):
        a = torch.sigmoid(channel_gate[..., t, :]) ** (1 / 16)
        s = a[..., None] * s + outer(k[..., t, :], v[..., t, :])
        ys.append(read(s, q[..., t, :] / q.shape[-1] ** 0.5))
    return torch.stack(ys, -2)


def mamba2(q: Tensor, k: Tensor, v: Tensor, delta: Tensor, log_a: Tensor) -> Tensor:
    """Dao & Gu (2024): h_t = exp(Delta_t A) h_{t-1} + Delta_t B_t x_t, y_t = C_t^T h_t, A = -a."""
    h = torch.zeros_like(outer(k[..., 0, :], v[..., 0, :]))
    ys = []
    for t in range(q.shape[-2]):
        dt = functional.softplus(delta[..., t])[..., None, None]
        h = torch.exp(dt * -torch.exp(log_a)[..., None, None]) * h
        h = h + dt * outer(k[..., t, :], v[..., t, :])
        ys.append(read(h, q[..., t, :]))
    return torch.stack(ys, -2)


def deltanet(q: Tensor, k: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """Schlag et al. (2021), eq. 24: the old value at the key is read, and corrected by beta."""
    s = torch.zeros_like(outer(k[..., 0, :], v[..., 0, :]))
    ys = []
    for t in range(q.shape[-2]):
        k_t, step = k[..., t, :], torch.sigmoid(beta[..., t, None])
        s = s + outer(k_t, step * (v[..., t, :] - read(s, k_t)))
        ys.append(read(s, q[..., t, :] / q.shape[-1] ** 0.5))
    return torch.stack(ys, -2)


def gated_deltanet(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, delta: Tensor) -> Tensor:
    """Yang et al. (2025), eq. 10: decay first, then the delta rule on the decayed state."""
    s = torch.zeros_like(outer(k[..., 0, :], v[..., 0, :]))
    ys = []
    for t in range(q.shape[-2]):
        k_t, step = k[..., t, :], torch.sigmoid(beta[..., t, None])
        s = torch.exp(-functional.softplus(delta[..., t]))[..., None, None] * s
        s = s + outer(k_t, step * (v[..., t, :] - read(s, k_t)))
        ys.append(read(s, q[..., t, :] / q.shape[-1] ** 0.5))
    return torch.stack(ys, -2)


def mlstm(q: Tensor, k: Tensor, v: Tensor, forget: Tensor, write: Tensor) -> Tensor:
    """Beck et al. (2024), eq. 19-27, with the stabiliser m_t of their appendix; no output gate."""
    c = torch.zeros_like(outer(k[..., 0, :], v[..., 0, :]))
    n = torch.zeros_like(k[..., 0, :])
    m = torch.full_like(forget[..., 0], -torch.inf)
    ys = []
    for t in range(q.shape[-2]):
        log_f, k_t = functional.logsigmoid(forget[..., t]), k[..., t, :] / q.shape[-1] ** 0.5
        previous, m = m, torch.maximum(log_f + m, write[..., t])
        f, i = torch.exp(log_f + previous - m)[..., None], torch.exp(write[..., t] - m)[..., None]
        c = f[..., None] * c + i[..., None] * outer(k_t, v[..., t, :])
        n = f * n + i * k_t
        floor = torch.exp(-m)[..., None]
        total = (n * q[..., t, :]).sum(-1, keepdim=True).abs()
        ys.append(read(c, q[..., t, :]) / torch.maximum(total, floor))
    return torch.stack(ys, -2)


AUTHORS = {
    "SoftmaxAttention": softmax_attention,
    "LinearAttention": linear_attention,
    "NormalizedAttention": normalized_attention,
    "GLA": gla,
    "Mamba2": mamba2,
    "DeltaNet": deltanet,
    "GatedDeltaNet": gated_deltanet,
    "MLSTM": mlstm,
}
