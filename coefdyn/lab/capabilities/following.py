"""Constructions by hand for position, count, copy, parity and S3: what is done to stored keys."""

from __future__ import annotations

import math
from typing import Any

import torch

from coefdyn.lab.capabilities.hand import SHUT, WIDTH, Hand, Member
from coefdyn.lab.capabilities.keyed import one_of, reading, spread
from coefdyn.lab.tasks.tracking import S3
from coefdyn.shapes import Tensor

__all__ = ["copy", "count", "parity", "position", "product"]


def count(row: str) -> Member:
    """A sum of +1 and -1; in an average the first token's share 1/i says what a tie is."""
    hand = Hand(row)
    if row == "LRU":
        return sum_of_lru(hand)
    value = hand.table("value")
    value[0, :, 1], value[1, :, 2] = 1.0, 1.0
    key, query = hand.table("key"), hand.table("query")
    if row == "mLSTM":
        value[:2] = 0.0
        value[:2, :, 0] = 1.0
        key[0, :, 0], key[1, :, 0], query[:2, :, 0] = -0.25, 0.25, 16.0
    elif row not in ("softmax attention", "linear attention"):
        place = 7 if row == "normalized attention" else 0
        key[:2, :, place], query[:2, :, place] = 1.0, 1.0
    if row == "DeltaProduct":
        key[:, ::2], value = 0.0, spread(hand, value[:, 1::2])
    hand.project("key", key)
    hand.project("query", query)
    hand.project("value", value)
    hand.write(torch.full((WIDTH,), 1.0 if row == "Mamba-2" else 1e-7))
    return counted(hand)


def counted(hand: Hand) -> Member:
    """Decoders of the three answers: 0, 1, and 2 for a tie."""
    weight, offset = torch.zeros(3, 64).double(), torch.zeros(3).double()
    if hand.row == "mLSTM":
        weight[0, 0], weight[1, 0] = -1.0, 1.0
        offset[:2] = -0.5
        return hand.member(weight, offset)
    weight[1, 1], weight[1, 2], weight[0, 1], weight[0, 2] = -1.0, 1.0, 1.0, -1.0
    if hand.row in ("softmax attention", "linear attention"):
        part = hand.part("value")
        with torch.no_grad():
            part.linear.weight[3, :] = 20.0
            part.convolution.weight[1, 3] = -1.0
        weight[:2, 3] = -0.5 / 20
    else:
        unit = {"Mamba-2": 1.0}.get(hand.row, 1e-7 / 4 if "Delta" in hand.row else 0.25)
        offset[:2] = -0.5 * unit
    return hand.member(weight, offset)


def sum_of_lru(hand: Hand) -> Member:
    """One eigenvalue of 1, to the last bit, whose input is +1 or -1."""
    mixer = hand.mixer
    with torch.no_grad():
        mixer.log_nu.fill_(-SHUT)
        mixer.log_theta.fill_(-SHUT)
        mixer.input.linear.weight[0, :2] = torch.tensor([-1.0, 1.0], dtype=torch.float64)
    weight, offset = torch.zeros(3, 128).double(), torch.tensor([-0.5, -0.5, 0.0])
    weight[0, 0], weight[1, 0] = -1.0, 1.0
    return hand.member(weight, offset)


def position(row: str) -> Member:
    """A filter whose weight is large eight tokens back and small everywhere else."""
    hand, tokens = Hand(row), range(16)
    if row in ("LRU", "DeltaProduct"):
        return comb_of_lru(hand) if row == "LRU" else comb_of_products(hand)
    value = one_of(hand.heads, tokens)
    hand.project("value", value, (0.0, 0.0, 0.0, 1.0))
    key, query = hand.table("key"), hand.table("query")
    if row == "softmax attention":
        for pair in range(8):
            turn = 5 * 1e4 ** (-pair / 8)
            half = ((math.pi - turn) % (2 * math.pi) - math.pi) / 2
            half = max(-math.pi / 4, half)  # no entry of a key may be negative
            for table, angle in ((query, math.pi / 4 + half), (key, math.pi / 4 - half)):
                table[..., pair] = 16 * math.cos(angle)
                table[..., pair + 8] = 16 * math.sin(angle)
    elif row == "GLA":
        rates = torch.tensor([1e-6, 0.03, 0.07, 0.11, 0.14, 0.17], dtype=torch.float64)
        sizes = 1 / (rates[:, None] - rates + torch.eye(6).double()).prod(1)
        key[..., :6], query[..., :6] = 1.0, 0.27 * sizes / sizes.abs().amax()
        log_decay = torch.zeros(WIDTH, 16).double()
        log_decay[:, :6] = rates.log()
        hand.fade(log_decay)
    hand.project("key", key)
    hand.project("query", query)
    return hand.member(reading(value, tokens)[:16])


def comb_of_lru(hand: Hand) -> Member:
    """Eigenvalues 0.87 e^{2 pi i m / 32}: their sum is 0 but at every 32nd lag, here 8, 40, ...

    Two groups of 32, each of which carries two bits of the token as a point of the complex plane.
    """
    mixer, turn = hand.mixer, 2 * math.pi * torch.arange(32).double() / 32
    tokens = torch.arange(16)
    bits = 1.0 - 2.0 * torch.stack([tokens >> at & 1 for at in range(4)], 1).double()
    with torch.no_grad():
        mixer.log_nu.fill_(math.log(-math.log(0.87)))
        mixer.log_theta.copy_(turn.clamp_min(1e-30).log().repeat(2))
        into = mixer.input.linear.weight.view(2, 32, 2, WIDTH)
        into[..., :16] = bits.T.view(2, 1, 2, 16)
    shift = -8 * turn
    weight = torch.zeros(16, 2, 32, 2).double()
    for token in range(16):
        for group in range(2):
            first, second = bits[token, 2 * group], bits[token, 2 * group + 1]
            # Re and Im of e^{-8 i turn} h, weighted by the bits
            weight[token, group, :, 0] = first * shift.cos() + second * shift.sin()
            weight[token, group, :, 1] = second * shift.cos() - first * shift.sin()
    return hand.member(weight.flatten(1) / 32)


def turned(theta: float, rho: float = 1.0) -> tuple[Tensor, Tensor, float]:
    """Two factors of one plane with eigenvalues rho e^{+-i theta}: directions, and beta."""
    beta = 1 + rho
    angle = math.acos(math.sqrt(2 * rho * (1 + math.cos(theta))) / beta)
    first, second = (1.0, 0.0), (math.cos(angle), math.sin(angle))
    u, w = (torch.tensor(one, dtype=torch.float64) for one in (first, second))
    return u, w, beta


def comb_of_products(hand: Hand) -> Member:
    """Seven eigenvalues 0.85 e^{2 pi i f / 7}, a plane in each of three heads and a line in one.

    Values come three tokens late, by the convolution, so the comb stands at 5, 12, 19 steps.
    """
    rho, key, query = 0.85, hand.table("key"), hand.table("query")
    beta = torch.zeros(8, WIDTH).double()
    for head in range(4):
        theta = 2 * math.pi * head / 7
        first, second, size = turned(theta, rho)
        if head == 0:
            key[:, 1, 0], beta[1], query[:, 0, 0] = 1.0, 1 - rho, 1.0 / (1 - rho)
            continue
        key[:, 2 * head, :2], key[:, 2 * head + 1, :2] = first, second
        beta[2 * head : 2 * head + 2] = size
        eye = torch.eye(2).double()
        step = (eye - size * torch.outer(second, second)) @ (eye - size * torch.outer(first, first))
        path = torch.stack([torch.linalg.matrix_power(step, i) @ second for i in range(2)])
        wanted = torch.tensor([rho**i * math.cos(theta * (i - 5)) for i in range(2)]).double()
        query[:, head, :2] = 2 * torch.linalg.solve(path, wanted) / size
    size = query[0].norm(dim=-1)  # queries are normalised, so the decoder has their sizes
    query *= 0.27 / query.abs().amax()
    value = hand.table("value")
    value[:, 1::2] = one_of(1, range(16))
    hand.project("key", key)
    hand.project("query", query)
    hand.project("value", value, (0.0, 0.0, 0.0, 1.0))
    betas(hand, beta)
    weight = sum(size[h] * one_of(4, range(16), h)[:16].flatten(1) for h in range(4))
    return hand.member(weight)


def betas(hand: Hand, beta: Tensor) -> None:
    """The beta of both factors of every head, ``(8, 64)``."""
    for at in range(8):
        raw = torch.logit((beta[at] / 2).clamp(1e-26, 1 - 1e-15))
        raw = torch.where(beta[at] >= 2, SHUT, torch.where(beta[at] <= 0, -SHUT, raw))
        hand.mixer.beta.linear.weight.data[at] = raw


def copy(row: str) -> Member:
    """Every letter turns a plane by 1/9 of a turn and is added to it; 'copy' moves the plane's
    content to another, which blanks turn on. Four heads turn 1, 2, 3 and 4 times as fast."""
    hand, blank, mark = Hand(row), 14, 15
    key, query = hand.table("key"), hand.table("query")
    beta = torch.zeros(8, WIDTH).double()
    beta[:, :16] = 2.0
    for head in range(4):
        theta = 2 * math.pi * (head + 1) / 9
        first, second, _ = turned(theta)
        key[:14, 2 * head, :2], key[:14, 2 * head + 1, :2] = first, second
        key[blank, 2 * head, 2:4], key[blank, 2 * head + 1, 2:4] = first, second
        for factor in range(2):  # the mirrors between channel c and channel c + 2
            key[mark, 2 * head + factor, [factor, factor + 2]] = torch.tensor(
                [-0.2, 0.2], dtype=torch.float64
            )
        turn = torch.linalg.matrix_power(rotation(first, second), 8) @ second
        query[:, head, 2:4] = 0.25 * turn
    value = hand.table("value")
    value[:, 1::2] = one_of(1, range(14))
    hand.project("key", key)
    hand.project("query", query)
    hand.project("value", value)
    betas(hand, beta)
    weight = sum(one_of(4, range(14), head)[:14].flatten(1) for head in range(4))
    return hand.member(weight)


def rotation(first: Tensor, second: Tensor) -> Tensor:
    """The product of two mirrors."""
    eye = torch.eye(len(first)).double()
    return (eye - 2 * torch.outer(second, second)) @ (eye - 2 * torch.outer(first, first))


def parity(row: str) -> Member:
    """The first token writes one direction, and every 1 mirrors it."""
    hand = Hand(row)
    key, beta = hand.table("key"), torch.zeros(8, WIDTH).double()
    key[1, 1::2, 0] = 30.0
    hand.project("key", key)
    part, from_value = hand.part("key"), hand.part("value")
    with torch.no_grad():
        for head in range(4):
            at = 32 * head  # channel 0 of the head's first factor
            part.linear.weight[at], part.convolution.weight[1, at] = 20.0, -1.0
            from_value.linear.weight[at] = 1.0
        from_value.convolution.weight[0] = 1.0
    beta[::2], beta[1::2, 1] = 1.0, 2.0
    query = hand.table("query")
    query[..., 0] = 1.0
    hand.project("query", query)
    betas(hand, beta)
    weight = torch.zeros(2, 64).double()
    weight[0, 0], weight[1, 0] = 1.0, -1.0
    return hand.member(weight)


def product(row: str) -> Member:
    """Mirrors of a plane follow S3: a swap is one, a turn of all three cups is two.

    The first token writes a root of the plane in the value channel of its kind, because a swap can
    write along its own direction only; the six images of every root are different. A value is not
    negative, so it has a channel for either sign.

    A mirror along a key k takes 2e-6 / |k|^2 from what lies along k, because the norm's eps is
    1e-6, and no entry of k may be below -0.278, where SiLU ends. So the plane stands ``COPIES``
    times in the 16 channels, and every token has at most one key as short as sqrt(8.7). A state
    differs by at most 2^20 * 2.3e-7 = 0.24 from the unit vector that it should be, and a neighbour
    of that one is behind by 0.5. (With one copy it was 1.9, and 754 000 times one swap, then
    another one, went wrong at 909 322 tokens.)
    """
    hand, plane = Hand(row), mirrors()
    roots = {g: plane[g][1] for g in SWAPS}
    key, value = hand.table("key"), torch.zeros(WIDTH, 8, 16).double()
    beta = torch.zeros(8, WIDTH).double()
    pair: tuple[Any, Any]
    for g, (step, _) in plane.items():
        if g in SWAPS:
            pair, label, begin = (None, g), SWAPS.index(g), -roots[g]
        else:
            pair = next((a, b) for a in SWAPS for b in SWAPS
                        if SWAPS[0] in (a, b)
                        and torch.allclose(plane[b][0] @ plane[a][0], step))  # fmt: skip
            label, begin = 0, step @ roots[SWAPS[0]]
        ways = [plane[pair[1]][0] @ roots[pair[0]] if pair[0] else torch.zeros(2).double(),
                roots[pair[1]]]  # fmt: skip
        share = torch.linalg.lstsq(torch.stack(ways, 1), begin[:, None], driver="gelsd").solution
        for factor, swap in enumerate(pair):
            if swap is not None:
                key[g, factor::2] = roots[swap].repeat(COPIES)
                value[g, factor::2, label + 3 * int(share[factor] < 0)] = share[factor].abs()
                beta[factor::2, g] = 2.0
    negative = key.clamp_max(0).abs().amax(-1, keepdim=True)
    hand.project("key", key * (0.27 / negative.clamp_min(0.27 / 20)))
    begins(hand, value)
    query = hand.table("query")
    query[:, 0, 0::2], query[:, 1, 1::2] = 1.0, 1.0
    hand.project("query", query)
    betas(hand, beta)
    weight = torch.zeros(6, 4, 16).double()
    for g, (step, _) in plane.items():
        for label, swap in enumerate(SWAPS):
            weight[g, :2, label] = step @ roots[swap]
            weight[g, :2, label + 3] = -weight[g, :2, label]
    return hand.member(weight.flatten(1))


#: numbers of the elements of S3 that swap two cups, and copies of the plane in a head's channels
SWAPS, COPIES = (1, 2, 5), 8


def mirrors() -> dict[int, tuple[Tensor, Tensor]]:
    """Every element as a matrix of the plane, and the unit root that a swap turns round.

    The plane is turned so that the roots have angles of 45, 105 and -15 degrees: a key with SiLU
    has small negative entries only, and so the longest possible keys.
    """
    cups = torch.eye(3).double()
    basis = torch.stack([cups[0] - cups[1], cups[0] + cups[1] - 2 * cups[2]])
    basis /= basis.norm(dim=1, keepdim=True)
    found = {}
    for turn in (math.radians(45 + 60 * at) for at in range(6)):
        for flip in (1.0, -1.0):
            cosine, sine = math.cos(turn), math.sin(turn)
            rotate = torch.tensor([[cosine, -sine], [sine, cosine]], dtype=torch.float64)
            plane = rotate @ torch.diag(torch.tensor([1.0, flip], dtype=torch.float64)) @ basis
            for g, order in enumerate(S3):
                step = plane @ cups[list(order)].T @ plane.T
                _, vectors = torch.linalg.eigh(step) if g in SWAPS else (None, cups[:2, :2])
                root = vectors[:, 0]
                found[g] = (step, root * (1.0 if root.sum() > 0 else -1.0))
            if abs(float(found[SWAPS[0]][1][0]) - math.sqrt(0.5)) < 1e-9:
                return found
    raise AssertionError("the roots are 60 degrees apart")


def begins(hand: Hand, value: Tensor) -> None:
    """Values at the first token only: any token before it drives the SiLU to 0."""
    hand.project("value", value.clamp_min(1e-3))
    convolution = hand.part("value").convolution
    assert convolution is not None
    with torch.no_grad():
        convolution.weight[1] = -1e5
