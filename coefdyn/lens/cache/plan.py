r"""``plan``: which key-value heads of a model can lose the past, and at what cost.

A key-value head that keeps the first s tokens and the last w ones holds s + w rows however long the
text is. What the loss pays for it is predicted to second order. With p_{h,i} = g_i^T d_i, the
gradient of the losses of all N tokens with respect to y_i times the change of y_i, and S the heads
that are cut,

    first order     T_h = sum_i p_{h,i} / N
    second order    Q_S = sum_i (sum_{h in S} p_{h,i})^2 / (2 N)
    predicted loss  sum_{h in S} T_h max(0, 1 - s_h^2 / T_h^2) + Q_S
    chance          s_h^2 = sum_i p_{h,i}^2 / N^2

Q_S has the empirical Fisher matrix, the mean of the outer products of the gradients at the text's
own answers, in place of the Hessian; that the sums p_{h,i} of different tokens are independent is
assumed. At the weights of a trained model the mean of T_h over many texts is small, so T_h on one
text is mostly chance, of variance s_h^2; on other text only what exceeds it counts (the
non-negative garrote of one coefficient, Breiman 1995).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn

from coefdyn.lens.adapters.base import Refused
from coefdyn.lens.cache.cache_plan import CachePlan, HeadCost, losses_of, one_by_one
from coefdyn.lens.cache.costs import Costs, LayerCosts
from coefdyn.lens.change.changes import Change, Windowed, window
from coefdyn.lens.run.refusals import check_call
from coefdyn.progress import Progress
from coefdyn.shapes import Int, Tensor

__all__ = ["plan"]


def plan(
    model: nn.Module,
    tokens: Int[Tensor, "B L"],
    *,
    keep: Change | None = None,
    budget: int | float | None = None,
    attention_mask: Int[Tensor, "B L"] | None = None,
    progress: bool | None = None,
) -> CachePlan:
    """Order the key-value heads of softmax attention by what a sink and a window would cost.

        found = plan(model, ids, keep=window(64, sink=4))
        half = found.within(found.bytes_full / 2)
        half.measure(model, other_ids).mean      # nats per token, beside half.predicted
        with replaced(model, half.changes): ...

    Each text goes through the model once, forward and backward; weights get no gradients. A layer's
    coefficients are there one layer at a time. The order is greedy: next comes the head that adds
    least to the predicted loss of those cut so far, per byte that it frees.

    Args:
        model: as for ``trace``, with logits; in ``eval()`` unless it has no dropout.
        tokens: ids of texts of the kind that the model will read, longer than what is kept. Some
            thousand tokens say what single heads cost.
        keep: ``window(size, sink=...)``; None for ``window(64, sink=4)``.
        budget: bytes that the cache of one sequence of L tokens may take; None for no cut yet.
        attention_mask: 1 for real tokens, 0 for padding.
        progress: show a bar; None for "on a terminal or in a notebook".

    Returns:
        All heads in that order, with their costs. Layers without a cache of keys and values (linear
        mixers) are left out, and those whose heads share a latent in it.

    Raises:
        ValueError: as ``trace``; for another ``keep``, no texts or one of a single token, a model
            without softmax attention that the lens reads, under autocast, and a budget that cannot
            be met.
    """
    check_call(model, (tokens,), {})
    keep = window(64, sink=4) if keep is None else keep
    if not isinstance(keep, Windowed):
        raise Refused(
            f"keep is what a cut head still holds, window(size, sink=...); got {keep!r}. "
            "Other changes free no cache; see what they cost with effects()."
        )
    if model.training and any(isinstance(m, nn.Dropout) and m.p for m in model.modules()):
        raise Refused("dropout is at work, so every pass differs; call model.eval() first.")
    if torch.is_inference_mode_enabled():
        raise Refused("plan needs gradients; call it outside torch.inference_mode().")
    if any(torch.is_autocast_enabled(weight.device.type) for weight in model.parameters()):
        raise Refused(
            "under autocast the bytes of a cache are not those of y; call plan outside of it, with "
            "the model in the precision that it will run in: model.to(torch.bfloat16)."
        )
    found = _Sum()
    with Progress(len(tokens), "plan", progress) as bar:
        for done, given in enumerate(one_by_one(tokens, attention_mask), start=1):
            found.add(model, given, keep)
            bar.update(done)
    planned = found.plan(keep, tokens.shape[1])
    if not planned.heads:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(found.unsupported.items())[:6])
        raise Refused(
            f"{type(model).__name__} has no softmax attention whose cache could be planned. "
            + (reasons or "Its mixers hold a state of one size.")
        )
    planned = planned.in_order(_greedy(planned))
    return planned if budget is None else planned.within(budget)


class _Sum:
    """Costs of all texts so far."""

    def __init__(self) -> None:
        self.parts: dict[str, list[LayerCosts]] = {}
        self.unsupported: dict[str, str] = {}
        self.products: list[Tensor] = []
        self.losses: list[Tensor] = []

    def add(self, model: nn.Module, given: Mapping[str, Tensor], keep: Windowed) -> None:
        """One text: p of every head and token, and what adds up over texts."""
        costs = Costs(model, keep)
        with torch.enable_grad(), costs.listening():
            losses = losses_of(model, given)
            total = losses.sum()
        self.losses.append(losses.detach())
        self.unsupported |= costs.unsupported
        probes = [part.probe for part in costs.parts.values()]
        gradients = torch.autograd.grad(total, probes, allow_unused=True) if probes else ()
        every = []
        for (label, part), gradient in zip(costs.parts.items(), gradients, strict=True):
            gradient = torch.zeros_like(part.delta) if gradient is None else gradient
            heads = (gradient * part.delta).sum(-1)[0].double()
            every.append(heads.unflatten(0, (-1, part.queries)).sum(1))
            part.delta = part.probe = torch.empty(0)
            self.parts.setdefault(label, []).append(part)
        if every:
            self.products.append(torch.cat(every))

    def plan(self, keep: Windowed, length: int) -> CachePlan:
        """The heads in the order of the model, none of them cut."""
        losses = torch.cat(self.losses).double()
        n = len(losses)
        if not self.products:
            first = second = torch.zeros(0, 0)
        else:
            first = torch.stack([p.sum(-1) for p in self.products]).sum(0) / n
            second = torch.stack([p @ p.mT for p in self.products]).sum(0) / n
        heads: list[HeadCost] = []
        for label, parts in self.parts.items():
            change, size = torch.stack([part.change for part in parts]).sum(0)
            start, kept = torch.stack([part.shares for part in parts]).mean(0)
            full, cut = (max(part.rows[x] for part in parts) for x in (0, 1))
            width, queries = parts[0].width, parts[0].queries
            for head in range(len(change)):
                place = len(heads)
                heads.append(
                    HeadCost(
                        layer=label,
                        head=head,
                        queries=tuple(range(head * queries, (head + 1) * queries)),
                        first_order=first[place].item(),
                        chance=(second[place, place] / n).sqrt().item(),
                        second_order=second[place, place].item() / 2,
                        change=(change[head] / size[head].clamp(min=1e-30)).sqrt().item(),
                        start_share=start[head].item(),
                        kept_share=kept[head].item(),
                        bytes_full=full * width,
                        bytes_cut=min(cut, full) * width,
                    )
                )
        return CachePlan(
            heads=tuple(heads),
            cut=0,
            sink=keep.sink,
            window=keep.size,
            length=length,
            loss=losses.mean().item(),
            products=second,
            unsupported=self.unsupported,
        )


def _greedy(planned: CachePlan) -> list[int]:
    """Places of the heads: next the one that adds least to the prediction, per byte that it frees.

    Heads that free nothing come last.
    """
    alone = torch.tensor([one.predicted for one in planned.heads], dtype=torch.float64)
    freed = torch.tensor([one.bytes_full - one.bytes_cut for one in planned.heads])
    shared = torch.zeros_like(alone)
    left = torch.ones_like(alone, dtype=torch.bool)
    order = []
    for _ in planned.heads:
        added = alone + shared
        # what lowers the loss is not made worse by freeing little
        worth = torch.where(added > 0, added / freed.clamp(min=1), added * freed)
        worth = worth.masked_fill(freed <= 0, 1e30).masked_fill(~left, torch.inf)
        place = int(worth.argmin())
        left[place] = False
        shared += planned.products[place].to(shared)
        order.append(place)
    return order
