"""Parts of claims that ended undecided, each with a margin of equivalence and fresh seeds.

A part is one comparison. Its margin says what is too small to matter: a quarter of the seeds, or a
hundredth of the perplexity. Its number of seeds comes from ``power``, with the spread of the first
twelve seeds, which do not count; a share that is assumed is (k + 1) / (n + 2) of these.
"""

from __future__ import annotations

from coefdyn.lab.experiments import intervals
from coefdyn.lab.experiments.measure import accuracy_at
from coefdyn.lab.headline.claim import (
    Ahead,
    Every,
    Headline,
    Reaches,
    at,
    lower_perplexity,
    trained,
)

__all__ = ["FRESH"]

RIGHT = intervals.SOLVED_FROM
#: a difference of shares of seeds, and a share of the mean perplexity, that do not matter
SHARE, PERPLEXITY = 0.25, 0.01
FIGURE_10 = "ours, on Principle 5, Figure 10, which is about the spread over seeds"
LANGUAGE = (
    "2 million tokens read once, perplexities far above the paper's; the paper trains 8 layers of "
    "width 768 on 1 billion tokens."
)


PARITY: dict[str, str] = {
    "source": "ours, on Principle 4: task and lengths",
    "axis": "1, 2, 4 and 8 times the length of training, by evaluation alone",
}


def _flips(design: str, other: str) -> dict[str, object]:
    """The test of a lead at four times the length of training, and its control at one."""
    a, b = at("parity", design), at("parity", other)
    return {
        "test": Ahead(a=a, b=b, measure=accuracy_at(4), within=SHARE),
        "control": Every((Reaches(a=a, bound=RIGHT), Reaches(a=b, bound=RIGHT))),
        "why": "both are right at the length of training, so it is the length that tells",
    }


def _scaled(channels: int, first: tuple[float, float]) -> Headline:
    task = f"{channels} channels"
    scaled, plain = at(task, "b = 1/sqrt(n)"), at(task, "b = 1")
    return trained(
        f"scale/exp-{channels}",
        "scale-fresh",
        {
            "test": Ahead(a=scaled, b=plain, within=SHARE),
            "why": "the pair differs in b, and where the captions say so in the rate",
        },
        sentence=f"With exp and {channels} channels per head, more seeds learn to recall in the "
        "budget with b = 1/sqrt(n) than with b = 1.",
        source=FIGURE_10,
        limits="A longer budget may let b = 1 catch up.",
        assumed=first,
    )


def _recalls(name: str, other: str, first: tuple[float, float], **told: str) -> Headline:
    why = told.pop("why")
    return trained(
        f"convolution/{name}",
        "convolution-fresh",
        {"test": Ahead(a=at("MQAR", "Mamba-2"), b=at("MQAR", other), within=SHARE), "why": why},
        source="eigenvalue paper, sections 4 and 5.3, the latter on one layer",
        assumed=first,
        **told,
    )


def _reads(name: str, b: str, first: tuple[float, ...], sentence: str) -> Headline:
    model = "softmax" if "softmax" in name else "mamba2"
    test = lower_perplexity("eps 1e-5", f"{model}, {b}", f"{model}, one", within=PERPLEXITY)
    return trained(
        f"prose/{name}",
        "language-fresh",
        {"test": test, "why": "the pair differs in b, and where the captions say so in the rate"},
        sentence=sentence,
        source="Principle 5, Table 3",
        limits=LANGUAGE,
        assumed=first,
    )


FRESH: tuple[Headline, ...] = (
    trained(
        "sign/householder",
        "parity-fresh",
        _flips("Householder, z", "identity"),
        sentence="At four times the training length more seeds track parity with a reflection than "
        "with a state that only adds.",
        limits="The state is the same, 8 heads of 8 x 8; parameters differ by the projections of "
        "beta and z.",
        assumed=(10 / 14, 1 / 14),
        **PARITY,
    ),
    trained(
        "sign/scaled-householder",
        "parity-fresh",
        _flips("scaled Householder", "scalar"),
        sentence="At four times the training length more seeds track parity with a reflection that "
        "fades than with a state that fades alone.",
        limits="The state is the same, 8 heads of 8 x 8; Gated DeltaNet, which has the reflection, "
        "also has a projection of beta and normalizes keys.",
        assumed=(13 / 14, 1 / 14),
        **PARITY,
    ),
    trained(
        "sign/mostly",
        "parity-fresh",
        {
            "test": Reaches(
                a=at("parity", "Householder, z"), bound=RIGHT, measure=accuracy_at(4), within=SHARE
            ),
            "control": Reaches(a=at("parity", "Householder, z"), bound=RIGHT),
            "why": "it is right at the length of training, so it is the length that tells",
        },
        sentence="With a reflection most seeds that learn parity track it at four times the "
        "training length.",
        limits="One design, 8 heads of 8 x 8.",
        assumed=(10 / 14,),
        **PARITY,
    ),
    _scaled(64, (12 / 14, 2 / 14)),
    _scaled(16, (13 / 14, 11 / 14)),
    _recalls(
        "ahead-of-s4d", "S4D", (13 / 14, 5 / 14),
        why="S4D is time-invariant; the two differ in much more than that",
        sentence="Mamba-2 with its short convolution recalls with more seeds than S4D, which is "
        "time-invariant.",
        limits="S4D is a convolution itself and takes none.",
    ),
    _recalls(
        "helps-mamba-2", "Mamba-2 without convolution", (13 / 14, 11 / 14),
        why="the pair differs in the convolution, and where the captions say so in the rate",
        sentence="Mamba-2 recalls with more seeds with its short convolution than without.",
        limits="One kernel width, of 4.",
    ),
    _reads(
        "mamba-2-scaled", "inverse_sqrt", (0.353, 1.018, 32.44),
        "Mamba-2 has a lower perplexity with b = 1/sqrt(n) than with b = 1.",
    ),
    _reads(
        "mamba-2-delta", "delta", (-1.032, 0.82, 32.44),
        "Mamba-2 has a lower perplexity with b = Delta than with b = 1.",
    ),
    _reads(
        "softmax-scaled", "inverse_sqrt", (-0.302, 0.689, 54.06),
        "Softmax attention has a lower perplexity with b = 1/sqrt(n) than with b = 1.",
    ),
)  # fmt: skip
