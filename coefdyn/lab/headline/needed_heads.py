"""The most needed head of each kept model of ``lens/map-and-cause``, and where it reads.

A map counts the coefficients on the token that is the answer. Before the mixer of Gated DeltaNet
stands a short convolution, so a value may enter the state at that token or up to three later.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from coefdyn.lab.experiments.plan import STANDARD
from coefdyn.lab.headline.group import Group
from coefdyn.lab.places import data_folder
from coefdyn.lab.tasks import IGNORE, sample, split_generator
from coefdyn.lab.training.checkpoint import load_checkpoint
from coefdyn.lab.training.diagnostics import LONGER
from coefdyn.lab.training.loop import build_model
from coefdyn.lens import shares
from coefdyn.shapes import Bool, Float, Int, Tensor

__all__ = ["REACH", "NeededHead", "needed_heads"]

#: tokens that the convolution sees: an answer is read 0 to REACH - 1 places after its token
REACH = 4


@dataclass(frozen=True)
class NeededHead:
    """The head without which a model loses most.

    Args:
        seed: of the model.
        layer, head: which one.
        lost: accuracy lost without it.
        read: share of a question's abs(coefficients) at the answer's token and 1, 2, 3 after it.
        mapped: whether no other head has more at the answer's token.
        reads: whether no other head has more at these ``REACH`` places together.
    """

    seed: int
    layer: int
    head: int
    lost: float
    read: tuple[float, ...]
    mapped: bool
    reads: bool


@torch.no_grad()
def needed_heads(out: Path | str | None = None) -> list[NeededHead]:
    """The most needed head of every judged model, from its kept weights.

    Args:
        out: folder of the result files; None for ``data/results``.

    Raises:
        FileNotFoundError: if the weights of a finished run are missing.
        ImportError: without safetensors.
    """
    group = Group("heads")
    records = {one["key"]: one for one in group.load(STANDARD, out=out).records}
    folder = (data_folder() / "results" if out is None else Path(out)) / group.id / "weights"
    found = []
    for _, run in group.plan(STANDARD).settled(records).runs():
        if not run.keep or run.key not in records:
            continue
        model = build_model(run)
        model.load_state_dict(load_checkpoint(folder / f"{run.key}.safetensors")[0])
        inputs, targets = sample(run.task, LONGER, split_generator(run.seed, "test"), "test")
        asked = targets != IGNORE
        layers = [_read(shares(one), inputs, asked) for one in model.dynamics(inputs)]
        read = torch.cat(layers)  # (layers * heads, REACH)
        table = records[run.key]["diagnostics"]["heads"]
        heads = [
            (one["lost"], layer, head)
            for layer, line in enumerate(table)
            for head, one in enumerate(line)
        ]
        place, (lost, layer, head) = max(enumerate(heads), key=lambda pair: pair[1][0])
        found.append(
            NeededHead(
                seed=run.seed,
                layer=layer,
                head=head,
                lost=lost,
                read=tuple(read[place].tolist()),
                mapped=int(read[:, 0].argmax()) == place,
                reads=int(read.sum(-1).argmax()) == place,
            )
        )
    return sorted(found, key=lambda one: one.seed)


def _read(
    share: Float[Tensor, "batch heads L L"],
    inputs: Int[Tensor, "batch L"],
    asked: Bool[Tensor, "batch L"],
) -> Float[Tensor, "heads reach"]:
    """Mean share at the value that was told last for the key in question, and after it."""
    batch, question = asked.nonzero(as_tuple=True)
    at = torch.arange(inputs.shape[1])
    same = (inputs[batch] == inputs[batch, question, None]) & (at < question[:, None])
    value = (same * at).argmax(-1) + 1
    places = value[:, None] + torch.arange(REACH)
    rows = share.movedim(1, 0)[:, batch, question]  # (heads, questions, L)
    read = rows.gather(-1, places.clamp(max=len(at) - 1).expand(len(rows), -1, -1))
    return (read * (places <= question[:, None])).mean(1)
