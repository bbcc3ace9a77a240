r"""Lemmas that say what no member of the large class can do, with the words that show it.

Every lemma names words of two classes (two right answers) and proves that for every member the
convex hulls of their outputs y meet. Then no c, t has c.y + t > 0 on one class and < 0 on the
other (an affine function that is positive on a set is positive on its hull), so no decoder with
one c_a, t_a per answer has a positive margin. Words are read where both classes are scored.

What is spoken of. Numbers are real: in floats the sums agree up to rounding. y is the output of
the mixer before a norm. RMSNorm, which the scoreboard's GLA, Mamba-2, DeltaNet and Gated DeltaNet
have there, divides every word by another number, and no lemma says anything behind it. A gate
that reads the last four tokens, the term D x and the residual change nothing where the words end
in one window, as all do but those of the LRU, which has no gate and whose other terms are sums as
well. So for rows without that norm a lemma holds for the whole layer before its feed-forward. An
eta that reads the last window (normalized attention) divides all words by one number. Positions
are rotary or none: a rotary angle turns a stored key at every step by a diagonal matrix of
complex numbers that reads no token. Deltas of Mamba-2 and S6 may have any size, which k takes up.

**Two places (a sum).** y of the LRU is a sum over tokens, y = sum_j Lambda^(i-j) B x_j: there are
no gates, no divisor and no convolution. If words differ at two sets of places, filled as s or s'
and as t or t', then y(s, t) + y(s', t') = y(s, t') + y(s', t). Where the answers on the left
agree, and those on the right, the two midpoints coincide. A constant t_a does not enter.

**Five free bits (an average, after Minsky and Papert).** For weights w = prod_h Z_h > 0 of a
word, w y is a sum of terms, each of which reads one window per head: w y_h = N_h prod_{g != h}
Z_g. So do the terms of w. Z_h > 0, because exp and elu + 1 are positive; were Z_h = 0 the output
would be 0/0. Positions are fixed, so rotary angles are constants. The words have free bits four
places apart, at 0, 4, 8, 12, 16, and the same token everywhere else, up to place 20. So a window
of four reads at most one free bit, the window of the query reads none, and a term of four windows
reads at most four of the five bits. Summed with the sign of the parity over all 32 words, a term
that does not read a bit cancels. Hence sum w y over the even words is that over the odd ones, and
so are the sums of w: divided by them, a common point of both hulls. It needs fewer heads than
bits, here 4 < 5, and 21 tokens, fewer than the 40 and 24 of the two tasks. The same words hold
for S3 with the identity and one swap.

**Few rates.** On the words z^1, z^2, ..., from the fourth token on the window is z z z z, so a
step is one affine map. Of Mamba-2 every head decays by a in [0, 1]: c.y is in the span of 1 and
a_h^n, h = 1..4 (of 1, n where a is 1 and something is added). DeltaNet's step I - beta k k^T with
beta in [0, 1] and |k| <= 1 has the eigenvalues 1 and 1 - beta |k|^2 >= 0, and writes along k
alone: write beta for beta |k|^2, then 1 and (1 - beta_h)^n. Gated DeltaNet has a_h^n and (a_h (1
- beta_h))^n. (a_h (1 - beta_h) = 1 only where beta_h = 0, and there nothing is written.) So these
are exponential polynomials with non- negative bases, of 5, 5 and 9 terms at most (a base 0 is 0
from n = 5 on, so the words begin there). Such a function that is not 0 has fewer sign changes
than terms (Descartes' rule for exponential sums), so it cannot alternate at more points than it
has terms, as parity asks of ones and S3 of one swap. By the theorem of alternatives the hulls of
the even and of the odd points then meet. With beta up to 2 a base is negative and the lemma says
nothing.

**Steps that commute.** Of LRU, GLA, Mamba-2, S6 (and normalized attention, whose steps are 1) the
steps are diagonal, so a state after u v is D(v) B(u) + D(u v) h_0 + B(v), where D depends on the
windows in the word and not on their order. Let u_0, u_1, u_2 have the same windows in another
order, and begin and end in the same three tokens, and v_0, v_1, v_2 too. Then the sum of y(u_i
v_j) over pairs is the same for every permutation of the j. For S3: tokens s, t are two swaps; A =
t s is a walk from s t s to itself, and so is C = s t s; the orders A A C, A C A, C A A are the
three swaps, and a swap after a swap is a turn, by as many thirds as their numbers differ. The
pairs with j = i then have one product and those with j = i + 1 mod 3 another: three words each,
18 tokens long, with equal sums. The lengths of A A C, A C A, C A A agree, so do the rotary angles.

**A blank moved.** Of the same rows, on copying. From the fourth blank behind 'copy' on the window
is all blanks, so q is one vector. Compare the output at the fourth blank with that at the fifth
of the word that has one blank more before its first letter and one less before its last. All
letters but the last see the same steps and the same distances, so the two outputs differ by a
vector that does not depend on letters four and five. Letters (a, b): the answers are a, and b.
Letters (b, a): b, and a. So y_4(ab) + y_5(ba) = y_4(ba) + y_5(ab), with the answers a, a on the
left and b, b on the right.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch

from coefdyn.lab.capabilities.large import AVERAGES
from coefdyn.shapes import Int, Tensor

__all__ = ["LEMMAS", "Witness", "witness"]

COMMUTING = ("LRU", "normalized attention", "GLA", "Mamba-2", "S6")
#: most terms of an exponential sum on one repeated token
TERMS = {"Mamba-2": 5, "DeltaNet": 5, "Gated DeltaNet": 9}


@dataclass(frozen=True, kw_only=True, eq=False)
class Witness:
    """Words of two classes whose outputs' hulls meet, whatever the member.

    words:  (W, L), padded with 0 behind the position that is read.
    read:   (W,), the position.
    second: (W,), False for the first answer, True for the second.
    """

    words: Int[Tensor, "W L"]
    read: Int[Tensor, " W"]
    second: Tensor


def _witness(words: list[list[int]], second: list[bool], read: list[int] | None = None) -> Witness:
    longest = max(map(len, words))
    padded = [word + [0] * (longest - len(word)) for word in words]
    ends = [len(word) - 1 for word in words] if read is None else read
    return Witness(words=torch.tensor(padded), read=torch.tensor(ends),
                   second=torch.tensor(second))  # fmt: skip


def two_places(task: str) -> Witness:
    """(s, t), (s', t') have one answer and (s, t'), (s', t) another."""
    parts = {
        "parity": ([[0], [1]], [[0], [1]]),
        "recall": ([[1, 40, 2, 41], [1, 41, 2, 40]], [[3, 42, 4, 43, 1], [3, 42, 4, 43, 2]]),
        "overwrite": ([[1, 16, 2, 17], [1, 17, 2, 16]], [[1], [2]]),
        "forget": ([[1, 18, 2, 18, 3, 18, 4, 18, 0, 1, 16, 2, 17],
                    [1, 18, 2, 18, 3, 18, 4, 18, 0, 1, 17, 2, 16]], [[1], [2]]),
    }  # fmt: skip
    before, after = parts[task]
    if task == "overwrite":  # the writes of the task's own length come first
        lead = [key for write in range(2) for k in (1, 2, 3, 4) for key in (k, 20 + 2 * write)]
        before = [[*lead, 3, 18, 4, 18, *one] for one in before]
    pairs = list(product(range(2), range(2)))
    return _witness([before[i] + after[j] for i, j in pairs], [i != j for i, j in pairs])


def five_free_bits(task: str) -> Witness:
    """Five free tokens, four places apart; the other tokens are 0."""
    words, second = [], []
    for bits in product((0, 1), repeat=5):
        words.append([token for bit in bits for token in (bit, 0, 0, 0)] + [0])
        second.append(sum(bits) % 2 == 1)
    return _witness(words, second)


def few_rates(task: str, row: str) -> Witness:
    """Token 1 repeated, one more point than the row has terms, from the fifth token on."""
    count = TERMS[row] + 1
    words = [[1] * (5 + at) for at in range(count)]
    return _witness(words, [len(word) % 2 == 1 for word in words])


def commuting(task: str) -> Witness:
    """Two swaps 1 and 2: walks from 1 2 1 to itself in three orders, twice."""
    a, c = [2, 1], [1, 2, 1]
    walks = [a + a + c, a + c + a, c + a + a]
    words, second = [], []
    for shift in (0, 1):
        for i in range(3):
            words.append([1, 2, 1, *walks[i], *walks[(i + shift) % 3], 0])
            second.append(shift == 1)
    return _witness(words, second)


def moved_blank(task: str) -> Witness:
    """Eight letters among blanks (14), 'copy' (15), then four or five blanks."""
    words, second = [], []
    for later, (x, y) in product((0, 1), ((0, 1), (1, 0))):
        letters = [token for z in (2, 2, 2, x, y, 2, 2) for token in (14, 14, 14, z)]
        start = [14] * (5 + later)
        word = [*start, *letters, *[14] * (5 - later), 3, 15, *[14] * (4 + later)]
        words.append(word)
        second.append((x == 0) == bool(later))
    return _witness(words, second)


#: lemma -> the cells (task, row) that it closes
LEMMAS: dict[str, list[tuple[str, str]]] = {
    "two places": [(task, "LRU") for task in ("recall", "overwrite", "forget", "parity")],
    "five free bits": [("parity", row) for row in (*AVERAGES, "normalized attention")]
    + [("S3", row) for row in AVERAGES],
    "few rates": [("parity", row) for row in TERMS]
    + [("S3", row) for row in ("DeltaNet", "Gated DeltaNet")],
    "steps that commute": [("S3", row) for row in COMMUTING],
    "a blank moved": [("copy", row) for row in COMMUTING],
}


def witness(lemma: str, task: str, row: str) -> Witness:
    """The words of a lemma for a cell.

    Raises:
        KeyError: for an unknown lemma.
    """
    if lemma == "few rates":
        return few_rates(task, row)
    return {
        "two places": two_places,
        "five free bits": five_free_bits,
        "steps that commute": commuting,
        "a blank moved": moved_blank,
    }[lemma](task)
