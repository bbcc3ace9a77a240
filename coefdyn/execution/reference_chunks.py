r"""The delta rule chunk by chunk, written for readability: a second oracle beside the reference.

    S_t = e^{g_t} (I - beta_t k_t k_t^T) S_{t-1} + b_t k_t v_t^T,     o_t = S_t^T q_t

With c the inclusive sum of g in a chunk of C tokens and D_ij = e^{c_i - c_j} for j <= i, the
product of the chunk's matrices without their decay is I minus a sum of C outer products (the WY
representation, Bischof and Van Loan 1987), whose vectors come from one triangular matrix (the UT
transform, Joffrain et al. 2006):

    T = (I + tril(beta (K K^T) * D, -1))^-1
    W = T (beta e^c K),     U = T (b V)            so that token j writes k_j (u_j - w_j^T S)^T
    O = (Q e^c) S + ((Q K^T) * D) (U - W S)
    S <- e^{c_C} S + (K e^{c_C - c})^T (U - W S)

Source: Yang et al. 2024, "Parallelizing Linear Transformers with the Delta Rule over Sequence
Length", section 3, and with the decay Yang et al. 2025, "Gated Delta Networks", section 3.
"""

from __future__ import annotations

import torch

from coefdyn.shapes import Float, Tensor

__all__ = ["reference_chunks"]


def reference_chunks(
    q: Float[Tensor, "*batch L n"],
    k: Float[Tensor, "*batch L n"],
    v: Float[Tensor, "*batch L dv"],
    beta: Float[Tensor, "*batch L"],
    b: Float[Tensor, "*batch L"],
    log_decay: Float[Tensor, "*batch L"],
    chunk: int = 16,
) -> Float[Tensor, "*batch L dv"]:
    """o of every token, for A_t = e^{g_t} (I - beta_t k_t k_t^T), a linear readout and eta = 1.

    Args:
        q: queries, ``(..., L, n)``.
        k: keys, ``(..., L, n)``, along which the state is erased too.
        v: values, ``(..., L, d_v)``.
        beta: how much is erased, ``(..., L)``.
        b: how strongly is written, ``(..., L)``; the delta rule has b = beta.
        log_decay: g, ``(..., L)``, nats per token; zeros for no decay.
        chunk: C, tokens per chunk, at least 1.

    Raises:
        ValueError: for a chunk below 1.
    """
    if chunk < 1:
        raise ValueError(f"chunk must be at least 1 token, got {chunk!r}; 16 to 64 is usual.")
    state, outputs = torch.zeros_like(k.mT @ v), []
    for Q, K, V, erase, write, g in zip(
        *(x.split(chunk, -2) for x in (q, k, v)),
        *(x[..., None].split(chunk, -2) for x in (beta, b, log_decay)),
        strict=True,
    ):
        c = g.cumsum(-2)  # (..., C, 1)
        D = (c - c.mT).tril().exp().tril()
        eye = torch.eye(c.shape[-2], dtype=q.dtype, device=q.device)
        N = (erase * (K @ K.mT) * D).tril(-1)
        T = torch.linalg.solve_triangular(eye + N, eye.expand_as(N), upper=False)
        W, U = T @ (erase * c.exp() * K), T @ (write * V)
        written = U - W @ state
        outputs.append((Q * c.exp()) @ state + ((Q @ K.mT) * D) @ written)
        last = c[..., -1:, :]
        state = last.exp() * state + (K * (last - c).exp()).mT @ written
    return torch.cat(outputs, -2)
