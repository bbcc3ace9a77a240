"""Result of ``plan``: key-value heads in an order, and what it costs to cut them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from coefdyn.lens.adapters.base import Refused
from coefdyn.lens.change.changes import window
from coefdyn.lens.change.effects import logits_of, token_losses
from coefdyn.lens.change.replace import Changes, replaced
from coefdyn.lens.documents import read_segments
from coefdyn.progress import Progress
from coefdyn.shapes import Float, Int, Tensor

if TYPE_CHECKING:
    from transformers import Cache

__all__ = ["CachePlan", "HeadCost", "MeasuredPlan", "losses_of", "one_by_one"]

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class HeadCost:
    """One key-value head, and what it would cost to cut its past.

    Attributes:
        layer: name of the module.
        head: its number among the key-value heads of the layer.
        queries: the heads that read it, as ``replaced`` counts them.
        first_order: T_h, nats per token; positive where the loss rises.
        chance: s_h, the standard deviation of T_h over texts if its mean were 0.
        second_order: Q_h of this head alone, nats per token.
        change: root mean square of the change of y, relative to that of y.
        start_share: share of \\|alpha\\| on the first tokens that are kept (a sink).
        kept_share: share of \\|alpha\\| on all tokens that are kept.
        bytes_full, bytes_cut: of its keys and values, for one sequence as long as those planned on.
    """

    layer: str
    head: int
    queries: tuple[int, ...]
    first_order: float
    chance: float
    second_order: float
    change: float
    start_share: float
    kept_share: float
    bytes_full: int
    bytes_cut: int

    @property
    def expected(self) -> float:
        """Part of ``first_order`` that other text is expected to show."""
        if not self.first_order:
            return 0.0
        return self.first_order * max(0.0, 1 - (self.chance / self.first_order) ** 2)

    @property
    def predicted(self) -> float:
        """Rise of the loss on other text if this head alone is cut, nats per token."""
        return self.expected + self.second_order

    @property
    def predicted_here(self) -> float:
        """The same on the text planned on: the second-order Taylor polynomial."""
        return self.first_order + self.second_order


@dataclass(frozen=True, kw_only=True)
class MeasuredPlan:
    """Rise of the loss with a plan on some texts, one number per text.

    Attributes:
        loss: mean cross-entropy of the next token as the model is, nats.
        rise: by how much it is larger with the plan.
    """

    loss: tuple[float, ...]
    rise: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean rise over the texts."""
        return sum(self.rise) / len(self.rise)

    @property
    def error(self) -> float:
        """Standard error of ``mean``; infinite for one text."""
        n, mean = len(self.rise), self.mean
        if n < 2:
            return math.inf
        return math.sqrt(sum((x - mean) ** 2 for x in self.rise) / (n - 1) / n)


@dataclass(frozen=True, kw_only=True, eq=False)
class CachePlan:
    """Key-value heads in the order in which they are cut, and how many of them are.

    Attributes:
        heads: the first ``cut`` of them lose their past.
        cut: how many.
        sink, window: tokens that a cut head keeps, at the start and at the end.
        length: tokens of a sequence planned on, for which the bytes are.
        loss: mean cross-entropy of the model as it is on the text planned on, nats.
        products: sum_i p_{h,i} p_{k,i} / N for every two heads, in the order of ``heads``.
        unsupported: layers that cannot be planned, and why; their caches count in no number.
    """

    heads: tuple[HeadCost, ...]
    cut: int
    sink: int
    window: int
    length: int
    loss: float
    products: Float[Tensor, "heads heads"]
    unsupported: Mapping[str, str]

    @property
    def bytes_full(self) -> int:
        """Of the cache of all heads, for one sequence of ``length`` tokens."""
        return sum(one.bytes_full for one in self.heads)

    @property
    def bytes(self) -> int:
        """Of the cache with the plan."""
        return self.bytes_full - sum(x.bytes_full - x.bytes_cut for x in self.heads[: self.cut])

    @property
    def predicted(self) -> float:
        """Rise of the loss with the plan, nats per token."""
        first = sum(one.expected for one in self.heads[: self.cut])
        return first + self.products[: self.cut, : self.cut].sum().item() / 2

    @property
    def changes(self) -> Changes:
        """The plan as ``replaced`` takes it."""
        cut: dict[str, tuple[int, ...]] = {}
        for one in self.heads[: self.cut]:
            cut[one.layer] = cut.get(one.layer, ()) + one.queries
        keep = window(self.window, sink=self.sink)
        return {(layer, tuple(sorted(heads))): keep for layer, heads in cut.items()}

    @contextmanager
    def cache(self, model: nn.Module) -> Iterator[Cache]:
        """An empty cache of the plan's size, to be used inside the context in place of the model's.

            with found.within(budget).cache(model) as cache:
                model.generate(ids, past_key_values=cache)
                print(cache.bytes)      # of its tensors; those that ``bytes`` counts

        Each pass reads what it would under ``replaced(model, plan.changes)``, and cut heads hold
        their first tokens and their last ones alone, the newest among them. Keys and values of the
        heads that are not cut are held in full, up to a window of the model's own.

        ``reset()`` empties the cache for another text, and ``copy.deepcopy`` gives a second one.
        Batches may be padded, the mask of all tokens given in each pass; gradients are those of the
        cut model. Inside the context the model runs with no other cache and not without one, but
        where ``trace`` or another part of the lens listens to the pass. Other models are not
        touched, and nothing stays when the context ends; the cache is of no use then.

        Args:
            model: that of the plan, of transformers, not compiled, its attention "sdpa" or "eager".

        Raises:
            ValueError: at once for a model without these layers, one that does not keep them in a
                ``DynamicCache`` or does not get their attention from ``AttentionInterface``, and
                for chunks and shared keys; while the model runs for a pass without the cache,
                packed documents, dropout, a bias on scores, ``output_attentions``, and a ``crop``
                beyond what cut heads hold.
        """
        from coefdyn.lens.cache.plan_cache import caching

        heads: dict[str, dict[int, bool]] = {}
        for place, one in enumerate(self.heads):
            heads.setdefault(one.layer, {})[one.head] = place < self.cut
        in_turn = {layer: [cut[head] for head in sorted(cut)] for layer, cut in heads.items()}
        with caching(model, in_turn, self.sink, self.window) as cache:
            yield cache

    def in_order(self, places: Sequence[int]) -> CachePlan:
        """The same heads, to be cut in another order.

        Args:
            places: of every head in ``heads``, the one to cut first in front.

        Raises:
            ValueError: where a head is missing or named twice.
        """
        places = list(places)
        if sorted(places) != list(range(len(self.heads))):
            raise ValueError(
                f"an order names each of the {len(self.heads)} heads once by its place in .heads, "
                f"got {len(places)} places, {len(set(places))} different."
            )
        return replace(
            self,
            heads=tuple(self.heads[place] for place in places),
            products=self.products[places][:, places],
        )

    def within(self, budget: int | float) -> CachePlan:
        """With as few heads cut, in this order, as a cache of that many bytes allows.

        Raises:
            ValueError: where even all heads cut need more.
        """
        for cut in range(len(self.heads) + 1):
            found = replace(self, cut=cut)
            if found.bytes <= budget:
                return found
        raise ValueError(
            f"a cache of {budget:g} bytes for {self.length} tokens is too small: with all "
            f"{len(self.heads)} heads cut to {self.sink} + {self.window} tokens it takes "
            f"{found.bytes}, as it is {self.bytes_full}. Keep fewer tokens, such as "
            f"window({self.window // 2}, sink={self.sink})."
        )

    def rows(self) -> list[Row]:
        """A dict per head in the order of ``heads``, which ``pandas.DataFrame`` takes.

        Keys are the attributes of ``HeadCost``, ``predicted``, ``predicted_here``, and ``is_cut``;
        ``plan_bytes`` and ``plan_predicted`` are of the plan that cuts this head and all before it.
        """
        rows = []
        for place, one in enumerate(self.heads):
            so_far = replace(self, cut=place + 1)
            rows.append(
                {
                    **vars(one),
                    "predicted": one.predicted,
                    "predicted_here": one.predicted_here,
                    "is_cut": place < self.cut,
                    "plan_bytes": so_far.bytes,
                    "plan_predicted": so_far.predicted,
                }
            )
        return rows

    def measure(
        self,
        model: nn.Module,
        tokens: Int[Tensor, "B L"],
        *,
        attention_mask: Int[Tensor, "B L"] | None = None,
        before: Sequence[float] | None = None,
        progress: bool | None = None,
    ) -> MeasuredPlan:
        """The loss with and without the plan on texts, best ones that it was not made on.

        Runs the model twice per text, one text at a time.

        Args:
            model: that of the plan.
            tokens: ids of the texts.
            attention_mask: 1 for real tokens, 0 for padding.
            before: ``MeasuredPlan.loss`` on these texts, if it is known: one pass per text then.
            progress: show a bar; None for "on a terminal or in a notebook".

        Raises:
            ValueError: as ``replaced``; for no texts, one of a single token, and ``before`` of
                another number of texts.
        """
        if before is not None and len(before) != len(tokens):
            raise Refused(f"before holds a loss for each text: {len(before)} for {len(tokens)}.")
        runs: list[Mapping] = [{}] if before is None else []
        if self.cut or before is not None:
            runs.append(self.changes)
        losses: list[list[float]] = [[] for _ in runs]
        with torch.no_grad(), Progress(len(runs) * len(tokens), "measure", progress) as bar:
            for place, given in enumerate(one_by_one(tokens, attention_mask)):
                for number, changes in enumerate(runs):
                    with replaced(model, changes):
                        found = losses_of(model, given)
                    losses[number].append(found.double().mean().item())
                    bar.update(len(runs) * place + number + 1)
        plain = tuple(losses[0] if before is None else before)
        rise = tuple(after - loss for loss, after in zip(plain, losses[-1], strict=True))
        return MeasuredPlan(loss=plain, rise=rise)

    def measure_bytes(self, model: nn.Module, tokens: Int[Tensor, "B L"]) -> tuple[int, int]:
        """Bytes that the model's own cache of one text takes, as it is and cut by the plan; B = 1.

        The model fills its cache, and the rows that the plan keeps are copied out of it. Its last
        rows only are kept of a head whose own window is shorter.

        Raises:
            ValueError: for more texts than one, and a model that returns no cache with
                ``layers[i].keys``.
        """
        if len(tokens) != 1:
            raise Refused(f"the cache of one text is measured, got {len(tokens)} texts.")
        try:
            with torch.no_grad(), replaced(model, {}):  # with torch's operations on a CPU
                cache = _cache_of(model(tokens, use_cache=True))
        except TypeError:  # it takes no use_cache
            cache = None
        cut = {(one.layer, one.head) for one in self.heads[: self.cut]}
        full = kept = 0
        for one in self.heads:
            place = getattr(model.get_submodule(one.layer), "layer_idx", None)
            if cache is None or place is None:
                raise Refused(
                    f"{type(model).__name__} returns no cache with .layers, so its bytes cannot be "
                    "measured; .bytes says what the keys and values of the plan take."
                )
            layer = cache.layers[place]
            for held in (layer.keys[:, one.head], layer.values[:, one.head]):
                rows, most = held.shape[1], self.sink + self.window
                own = torch.arange(rows, device=held.device)
                stays = (own < self.sink) | (own >= rows - self.window)
                stays = stays if (one.layer, one.head) in cut and rows > most else own >= 0
                full += held.clone().untyped_storage().nbytes()
                kept += held[:, stays].clone().untyped_storage().nbytes()
        return full, kept

    def __repr__(self) -> str:
        return (
            f"CachePlan({self.cut} of {len(self.heads)} key-value heads keep {self.sink} + "
            f"{self.window} tokens: {self.bytes} of {self.bytes_full} bytes at {self.length} "
            f"tokens, predicted loss {self.predicted:+.4f})"
        )


def one_by_one(tokens: Tensor, attention_mask: Tensor | None) -> list[dict[str, Tensor]]:
    """The texts of a batch, as arguments of a pass.

    Raises:
        ValueError: for no text, and one of fewer than two tokens.
    """
    real = [tokens.shape[1]] * len(tokens) if attention_mask is None else attention_mask.sum(1)
    if not len(tokens) or min(real) < 2:
        raise Refused(
            f"a text needs at least two tokens, got {list(map(int, real))} in this batch."
        )
    if attention_mask is None:
        return [{"ids": row[None]} for row in tokens]
    rows = zip(tokens, attention_mask, strict=True)
    return [{"ids": row[None], "attention_mask": mask[None]} for row, mask in rows]


def losses_of(model: nn.Module, given: Mapping[str, Tensor]) -> Float[Tensor, " n"]:
    """Cross-entropy of each next token."""
    named = {name: value for name, value in given.items() if name != "ids"}
    logits = logits_of(model(given["ids"], **named))
    return token_losses(logits, given["ids"], read_segments(named))


def _cache_of(output: Any) -> Any:
    """The cache among what a model returned, by whatever name this version gives it."""
    values = output.values() if isinstance(output, Mapping) else ()
    return next((value for value in values if hasattr(value, "layers")), None)
