"""The large class: ingredients are tables over windows of four tokens, gates in closed ranges.

A member is a dictionary of tensors, one row per window that occurs in the words; the arithmetic is
that of the row. The LRU has no convolution, so its window is one token.
"""

from __future__ import annotations

import torch

from coefdyn.mixers.projections import rotate_positions
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["LARGE_ROWS", "draw_member", "member_output", "windows"]

HEADS, N = 4, 16
AVERAGES = ("softmax attention", "linear attention")
LARGE_ROWS = (*AVERAGES, "normalized attention", "GLA", "Mamba-2", "DeltaNet", "Gated DeltaNet",
              "LRU", "S6", "DeltaProduct")  # fmt: skip
Tables = dict[str, Tensor]


def windows(words: Int[Tensor, "W L"], taps: int) -> tuple[Int[Tensor, "W L"], int]:
    """The number of the window of ``taps`` tokens that ends at every token, and how many occur."""
    padded = torch.cat([words.new_full((len(words), taps - 1), -1), words], dim=1)
    every = padded.unfold(1, taps, 1).flatten(0, 1)
    kinds, number = torch.unique(every, dim=0, return_inverse=True)
    return number.view(words.shape), len(kinds)


def draw_member(row: str, kinds: int, generator: torch.Generator) -> Tables:
    """A random member: entries of up to a drawn size, gates uniform with both ends now and then."""

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    def gate(*shape: int) -> Tensor:
        raw = torch.rand(*shape, generator=generator, dtype=torch.float64) * 1.4 - 0.2
        return raw.clamp(0, 1)

    size = 0.2 + 1.3 * float(torch.rand((), generator=generator))
    if row == "LRU":
        return {"v": normal(kinds, 64, 2), "radius": gate(64), "angle": 3.1 * gate(64)}
    heads, n, width = (64, 4, 1) if row == "S6" else (HEADS, N, 16)
    tables = {"v": normal(kinds, heads, width), "q": size * normal(kinds, heads, n),
              "k": size * normal(kinds, heads, n), "b": gate(kinds, heads)}  # fmt: skip
    if row in ("GLA", "S6"):
        tables["a"] = gate(kinds, heads, n)
    elif row in ("Mamba-2", "Gated DeltaNet"):
        tables["a"] = gate(kinds, heads)
    if row == "DeltaProduct":
        tables["b"], tables["b2"] = 2 * tables["b"], 2 * gate(kinds, heads)
        tables["k2"] = normal(kinds, heads, n)
    return tables


def member_output(
    row: str, tables: Tables, number: Int[Tensor, "W L"], read: Int[Tensor, " W"]
) -> Float[Tensor, "W d"]:
    """y at one position of every word: 64 numbers, of the LRU 128.

    Args:
        row: a name of ``LARGE_ROWS``.
        tables: of ``draw_member``, or tensors of these shapes.
        number: windows, from ``windows``.
        read: the position that is read, per word.
    """
    at = torch.arange(len(number))
    if row == "LRU":
        return _lru(tables, number, read)
    if "attention" in row:
        return _attention(row, tables, number, read)
    state, found = None, []
    for i in range(number.shape[1]):
        now = {name: table[number[:, i]] for name, table in tables.items()}
        state = _step(row, state, now)
        found.append(torch.einsum("whn,whnd->whd", now["q"], state).flatten(1))
    return torch.stack(found, 1)[at, read]


def _step(row: str, state: Tensor | None, now: Tables) -> Tensor:
    """One token of a row with a state ``(W, H, n, d_v)``."""
    old = torch.zeros(()) if state is None else state
    if "a" in now:
        decay = now["a"]
        old = old * (decay[..., None] if decay.ndim == 3 else decay[..., None, None])
    k, v, b = now["k"], now["v"], now["b"]
    if "Delta" not in row:
        return old + b[..., None, None] * k[..., None] * v[..., None, :]
    for name, beta in (("k2", "b2"), ("k", "b")):
        if name in now:
            length = (now[name].square().sum(-1, keepdim=True) + 1e-6).sqrt()
            z, size = now[name] / length, now[beta][..., None, None]
            held = (z[..., None] * old).sum(-2, keepdim=True) if state is not None else 0.0
            old = old + size * z[..., None] * ((v[..., None, :] if name == "k" else 0.0) - held)
    return old


def _attention(row: str, tables: Tables, number: Tensor, read: Tensor) -> Tensor:
    at = torch.arange(len(number))
    q, k, v = (tables[name][number].transpose(1, 2) for name in ("q", "k", "v"))
    q, k = rotate_positions(q, 0), rotate_positions(k, 0)
    q = q[at, :, read]
    if row == "linear attention":
        psi = torch.nn.functional.elu
        alpha = torch.einsum("whn,whjn->whj", psi(q) + 1, psi(k / 4) + 1)
    else:
        alpha = torch.einsum("whn,whjn->whj", q, k) / 4
    hidden = (torch.arange(number.shape[1]) > read[:, None])[:, None]
    if row == "softmax attention":
        alpha = alpha.masked_fill(hidden, -torch.inf).softmax(-1)
    alpha = alpha.masked_fill(hidden, 0.0)
    if row == "linear attention":
        alpha = alpha / alpha.sum(-1, keepdim=True)
    return torch.einsum("whj,whjd->whd", alpha, v).flatten(1)


def _lru(tables: Tables, number: Tensor, read: Tensor) -> Tensor:
    lag = read[:, None] - torch.arange(number.shape[1])
    size = tables["radius"].log().clamp_min(-700) * lag.clamp_min(0)[..., None]
    power = torch.polar(size.exp(), tables["angle"] * lag[..., None])
    power = torch.where((lag >= 0)[..., None], power, torch.zeros_like(power))
    h = (power * torch.view_as_complex(tables["v"].contiguous())[number]).sum(1)
    return torch.view_as_real(h).flatten(1)
