"""Claims of the registration's history: judged once, ended undecided, and replaced since.

Their tests, thresholds and verdicts stay as they were. What replaced them is in ``fresh``.
"""

from __future__ import annotations

from coefdyn.lab.experiments import intervals
from coefdyn.lab.experiments.measure import accuracy, accuracy_at
from coefdyn.lab.headline.claim import (
    Every,
    Headline,
    Reaches,
    all_ahead,
    at,
    lower_perplexity,
    trained,
)

__all__ = ["FORMER"]

RIGHT = intervals.SOLVED_FROM
REFLECTING, FADING = ("Householder, z", "scaled Householder"), ("identity", "scalar")

FORMER: tuple[Headline, ...] = (
    trained(
        "sign/beyond",
        "parity",
        {
            "test": Every(
                (
                    *(
                        Reaches(a=at("parity", one), bound=RIGHT, measure=accuracy_at(4))
                        for one in REFLECTING
                    ),
                    *(
                        Reaches(a=at("parity", one), bound=RIGHT, measure=accuracy_at(4), less=True)
                        for one in FADING
                    ),
                )
            ),
            "control": Every(
                tuple(Reaches(a=at("parity", one), bound=RIGHT) for one in (*REFLECTING, *FADING))
            ),
            "why": "all four are right at the length of training, so it is the length that tells",
        },
        sentence="A state whose sign flips tracks parity at four times the training length; one "
        "that only adds or fades does not.",
        source="ours, on Principle 4: task and lengths",
        axis="1, 2, 4 and 8 times the length of training, by evaluation alone",
        limits="The state is the same, 8 heads of 8 x 8; parameters differ by the projections of "
        "beta and z, and Gated DeltaNet also normalizes keys.",
        replaced="It asked four things at once. Its parts, each with a verdict of its own on fresh "
        "seeds, are sign/householder, sign/scaled-householder and sign/mostly.",
    ),
    trained(
        "prose/mamba-2",
        "language",
        {
            "test": Every(
                (
                    lower_perplexity("eps 1e-5", "mamba2, inverse_sqrt", "mamba2, one"),
                    lower_perplexity("eps 1e-5", "mamba2, delta", "mamba2, one"),
                )
            ),
            "why": "each pair differs in b, and where the captions say so in the rate",
        },
        sentence="Mamba-2: b = 1/sqrt(n) and b = Delta give a lower perplexity than b = 1.",
        source="Principle 5, Table 3",
        limits="2 million tokens read once, perplexities far above the paper's; the paper trains "
        "8 layers of width 768 on 1 billion tokens.",
        replaced="It joined two comparisons and had no margin within which a difference does not "
        "matter. Its parts are prose/mamba-2-scaled and prose/mamba-2-delta.",
    ),
    trained(
        "prose/softmax",
        "language",
        {
            "test": lower_perplexity("eps 1e-5", "softmax, inverse_sqrt", "softmax, one"),
            "why": "the pair differs in b alone",
        },
        sentence="Softmax attention: b = 1/sqrt(n) gives a lower perplexity than b = 1.",
        source="Principle 5, Table 3",
        limits="2 million tokens read once.",
        replaced="It had no margin within which a difference does not matter; "
        "prose/softmax-scaled has one.",
    ),
    trained(
        "prose/eps",
        "language",
        {
            "test": lower_perplexity("eps 0", "mamba2, one", "mamba2, delta", by=-1.0),
            "control": lower_perplexity("eps 1e-5", "mamba2, delta", "mamba2, one", by=1.0),
            "why": "with the eps of 1e-5 Delta leads by more than 1, so there is a gain to explain",
        },
        sentence="Mamba-2: Delta leads b = 1 by more than 1 with the output norm's eps, and by at "
        "most 1 without it.",
        source="ours, on Table 3",
        limits="2 million tokens read once.",
        replaced="Retired. Its control asks a lead above 1, and the lead is 1.03 [.51, 1.55]: a "
        "threshold at the true value is decided by no number of seeds, and no theory gives "
        "another one.",
    ),
    trained(
        "scale/exp",
        "scale",
        {
            "test": Every(
                tuple(
                    all_ahead(f"{n} channels", ("b = 1/sqrt(n)",), ("b = 1",), 0.0, accuracy)
                    for n in (16, 64)
                )
            ),
            "why": "the pairs differ in b, and in the rate that their pilots chose",
        },
        sentence="With exp, more seeds learn to recall in the budget with b = 1/sqrt(n) than with "
        "b = 1, at two widths.",
        source="ours, on Principle 5, Figure 10, which is about the spread over seeds",
        axis="16 and 64 channels per head, by training",
        limits="A longer budget may let b = 1 catch up.",
        replaced="It joined a clear difference at 64 channels with a near tie at 16. Its parts are "
        "scale/exp-64 and scale/exp-16.",
    ),
    trained(
        "convolution/mamba-2",
        "spectra",
        {
            "test": Every(
                (
                    all_ahead("MQAR", ("Mamba-2",), ("S4D",), 0.0, accuracy),
                    all_ahead(
                        "MQAR", ("Mamba-2",), ("Mamba-2 without convolution",), 0.0, accuracy
                    ),
                )
            ),
            "why": "the second pair differs in the convolution and in the rate",
        },
        sentence="Its short convolution raises Mamba-2's recall, and with it Mamba-2 is ahead of "
        "S4D, which is time-invariant.",
        source="eigenvalue paper, sections 4 and 5.3, the latter on one layer",
        limits="S4D is a convolution itself and takes none.",
        replaced="It joined a clear lead over S4D with a near tie with its own design. Its parts "
        "are convolution/ahead-of-s4d and convolution/helps-mamba-2.",
    ),
)
