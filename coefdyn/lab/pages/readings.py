"""What the standard runs of each experiment showed, in a sentence or two of ours.

A sentence is about runs that were there when it was written, so it carries the verdicts it was
written for. With others, after new runs or in a reader's own folder, the page falls back to a
sentence put together from the claims; a test holds the kept sentences to the kept results.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from coefdyn.lab.experiments.rule import HELD, NO_TEST, NOT_HELD, NOT_RUN, UNDECIDED

__all__ = ["LETTERS", "READINGS", "Reading"]

#: status -> its letter in ``Reading.verdicts``
LETTERS = {HELD: "h", NOT_HELD: "n", UNDECIDED: "u", NO_TEST: "t", NOT_RUN: "-"}


class Reading(NamedTuple):
    """One experiment in words.

    verdicts: a letter of ``LETTERS`` per registered claim, in their order.
    words:    what the runs with these verdicts showed.
    """

    verdicts: str
    words: str


READINGS: Mapping[str, Reading] = MappingProxyType(
    {
        "principle-1": Reading(
            "hhh",
            "Softmax attention took quadratic time, as a whole matrix and in a fused kernel, and a "
            "scalar decay computed in chunks took linear time.",
        ),
        "principle-2": Reading(
            "thhnuuhnnnhhhtn",
            "A readout with a half-line of near-zero scores sets many coefficients near zero, and "
            "the identity, whose zero set is a point, next to none, on all three tasks. Accuracy "
            "follows in part: the identity is behind exp and softplus on recall and memorization, "
            "but most of its loss on memorization and copying came from its row sum, and ReLU, "
            "with the largest set, is behind exp on copying and on recall.",
        ),
        "principle-2.1": Reading(
            "hhhuuhhhtt",
            "Feature maps set fewer coefficients near zero than exp and were less accurate, on "
            "copying and on recall. Whether the first causes the second is open, because the "
            "identity with eta = 1 sets next to none near zero and is about as accurate as they "
            "are.",
        ),
        "principle-2.2": Reading(
            "ntutnnhnhh",
            "Up to 61 coefficients of one row fell below 1e-6, where n - 1 is 7. The theorem "
            "counts exact zeros, and these are not exact, so it stands; a limit for very small "
            "coefficients is what it does not give.",
        ),
        "principle-3": Reading(
            "nnnnnuhhnhhnh",
            "A decay gives the positions that the task needs, with exp, softplus and ReLU, and so "
            "does a short convolution with A = I. But two layers with A = I find part of the order "
            "alone: exp and softplus are well above chance and ReLU nearly solves the task. And "
            "not every readout solves it with positions, in 6000 steps.",
        ),
        "principle-4": Reading(
            "tnuttuuunu----------nu",
            "Parity of 40 bits is learned with every structure, because 40 bits can be counted. On "
            "texts four times as long the designs whose steps reflect stay right at 85 to 99 bits "
            "in 100 and the others guess. Nobody gets beyond the sign of a product of S3. Copying "
            "and recall wait.",
        ),
        "principle-5": Reading(
            "hhhhttt",
            "Under exp, b = 1/sqrt(n) solved recall with all eight seeds, and b = 1 with some of "
            "them, at both widths: the scaling helps in level and in spread. Smaller b solved the "
            "task too, so that side of the scaling was not tested.",
        ),
        "principle-6": Reading(
            "hh------",
            "Under A = 1.05 I, exp with eta = 1 or eta_i = 1.05^i overflowed in the first step, "
            "with every seed. The rows with a row sum, and those of softplus and ReLU, wait.",
        ),
        "dsf-mqar": Reading(
            "hu-uthu---",
            "Linear attention recalls more with a larger state, and softmax attention solves the "
            "task at every size. With normalized attention and SSD some seeds learn the task and "
            "others do not, which leaves their order open.",
        ),
        "dsf-normalizers": Reading(
            "ttt",
            "All three maps solved the task with all eight seeds, so it cannot order them.",
        ),
        "spectra": Reading(
            "tunnn-----uh----u-h-hh--uu--",
            "Linear attention kept more of its initial spectrum than softmax and Mamba-2 did on "
            "ListOps, and softmax attention has eigenvalues at both ends on recall. That ListOps "
            "needs eigenvalues about 1 did not show, in models that learned its examples by heart.",
        ),
        "scoreboard": Reading(
            "--t----",
            "Every row learned to forget, so that task separates nobody.",
        ),
    }
)
