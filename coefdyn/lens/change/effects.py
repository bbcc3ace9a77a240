"""Effect of each change on a model: one row per head, for a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from coefdyn.lens.adapters.base import Refused, bind
from coefdyn.lens.change.changes import as_change
from coefdyn.lens.change.replace import Changes, Replacer, What, replaced, replacing
from coefdyn.lens.documents import read_segments
from coefdyn.lens.run.record import Trace
from coefdyn.lens.run.trace import trace
from coefdyn.progress import Progress
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["effects", "logits_of", "token_losses"]

#: columns of every row, which no metric may have
COLUMNS = frozenset(
    {"layer", "mechanism", "head", "change", "changes", "logit_change", "loss_change", "note"}
)

Row = dict[str, Any]


def effects(
    model: nn.Module,
    *inputs: Any,
    changes: What | Mapping[str, Changes] = "ablate",
    layers: Sequence[int | str] | None = None,
    metric: Callable[[Any], float | Mapping[str, float]] | None = None,
    progress: bool | None = None,
    **kwargs: Any,
) -> list[Row]:
    """Effect of each change on a model's answer, as rows that ``pandas.DataFrame`` takes.

    Runs the model once as it is, once under ``trace`` to find the heads, and once per change:

        logit_change   max abs(logits - logits as they are) / max abs(logits as they are)
        loss_change    rise of the mean cross-entropy of the next token, nats per token

    Tokens of padding count in neither, and the last token of a packed document predicts none.

    Args:
        model: as for ``replaced``.
        inputs, kwargs: handed to the model: token ids ``(B, L)``, ``attention_mask``, ...
        changes: what is done to each head in turn, as in ``replaced``; or sets of changes by name,
            each of which is one row.
        layers: as in ``trace``, where each head is changed in turn; None for all.
        metric: of the model's output, larger is not taken for better: a number, or numbers by name.
        progress: show a bar; None for "on a terminal or in a notebook".

    Returns:
        A dict per head with ``layer``, ``mechanism``, ``head``, ``change``, ``logit_change``,
        ``loss_change`` (NaN where no ids are given, or no sequence has two tokens), and for a
        metric ``metric`` and ``metric_change``, or ``NAME`` and ``NAME_change``. A set of changes
        has ``changes``, its name, in place of the first four. Where there was nothing to change,
        each change is NaN and not 0, and ``note`` says what there was none of: "no decay in softmax
        attention".

    Raises:
        ValueError: as ``trace`` and ``replaced``; for a cache among the arguments, which the first
            pass would fill for the others, for a model that returns no logits, and for a metric
            with the name of a column.
    """
    for name, value in kwargs.items():
        if hasattr(value, "get_seq_length"):
            raise Refused(
                f"{name} is a cache, and the first pass would fill it for those that follow; "
                "call effects without it."
            )
    if model.training and any(isinstance(m, nn.Dropout) and m.p for m in model.modules()):
        raise Refused("dropout is at work, so every pass differs; call model.eval() first.")
    named: list[tuple[Row, Changes]]
    if isinstance(changes, Mapping):
        named = [({"changes": name}, each) for name, each in changes.items()]
        seen = None
    else:
        as_change(changes)
        seen = trace(model, *inputs, layers=layers, **kwargs)
        named = list(_each_head(seen, changes))
    measure = _Measure(model, inputs, kwargs, metric)
    rows = []
    with torch.no_grad(), Progress(len(named), "effects", progress) as bar:
        with replaced(model, {}):
            plain = model(*inputs, **kwargs)
        measure.compare_with(plain)
        del seen
        for done, (row, each) in enumerate(named, start=1):
            with replacing(model, each) as replacer:
                output = model(*inputs, **kwargs)
            rows.append(row | measure(output) | _missing(replacer, measure))
            bar.update(done)
    return rows


def _missing(replacer: Replacer, measure: _Measure) -> Row:
    """NaN in place of every change where there was nothing to change, and why."""
    idle = [one.told() for one in replacer.asked if one.idle]
    if not idle or any(one.acted for one in replacer.asked):
        return {}
    names = ["logit_change", "loss_change", *(f"{name}_change" for name in measure.before)]
    return dict.fromkeys(names, float("nan")) | {"note": ", ".join(dict.fromkeys(idle))}


def _each_head(seen: Trace, change: What) -> Iterator[tuple[Row, Changes]]:
    name = as_change(change).name
    ran = {*(layer.name for layer in seen), *seen.unsupported}
    for layer in seen:
        # a name without a number stands for all calls of a module
        place = f"{layer.name} (1)" if f"{layer.name} (2)" in ran else layer.name
        for head in range(layer.heads):
            row = {"layer": layer.name, "mechanism": layer.mechanism, "head": head, "change": name}
            yield row, {(place, head): change}


class _Measure:
    """Measure of one output, relative to that of the unchanged model."""

    def __init__(
        self,
        model: nn.Module,
        inputs: tuple[Any, ...],
        kwargs: dict[str, Any],
        metric: Callable[[Any], float | Mapping[str, float]] | None,
    ) -> None:
        given = bind(model.forward, inputs, kwargs)
        ids = given.get("input_ids", inputs[0] if inputs else None)
        is_ids = isinstance(ids, Tensor) and ids.ndim == 2 and not ids.is_floating_point()
        self.ids: Int[Tensor, "B L"] | None = ids if is_ids else None
        self.segments, self.metric = read_segments(given), metric

    def compare_with(self, output: Any) -> None:
        """The model as it is."""
        logits = logits_of(output)
        self.real = _real(self.segments, logits)
        self.logits, self.loss = logits, self._loss(logits)
        self.largest = logits[self.real].abs().amax().item()
        self.before = self._numbers(output)
        for name in self.before:
            others = COLUMNS.union(f"{other}_change" for other in self.before)
            taken = others.intersection((name,)) | COLUMNS.intersection((f"{name}_change",))
            if taken:
                raise ValueError(
                    f"a metric named {name!r} would overwrite the column {min(taken)!r}; "
                    "give it another name."
                )

    def __call__(self, output: Any) -> Row:
        logits = logits_of(output)
        gap = (logits - self.logits)[self.real].abs().amax().item()
        row: Row = {
            "logit_change": gap / self.largest if self.largest > 0 else gap,
            "loss_change": self._loss(logits) - self.loss,
        }
        for name, value in self._numbers(output).items():
            row |= {name: value, f"{name}_change": value - self.before[name]}
        return row

    def _loss(self, logits: Tensor) -> float:
        """Mean cross-entropy of the next token of the same sequence, nats."""
        if self.ids is None or logits.shape[:2] != self.ids.shape or logits.shape[1] < 2:
            return float("nan")
        losses = token_losses(logits, self.ids, self.segments)
        return losses.double().mean().item()

    def _numbers(self, output: Any) -> dict[str, float]:
        if self.metric is None:
            return {}
        found = self.metric(output)
        named = found if isinstance(found, Mapping) else {"metric": found}
        return {name: float(value) for name, value in named.items()}


def logits_of(output: Any) -> Float[Tensor, "B L vocabulary"]:
    """The logits among what a model returned; raises where there are none."""
    logits = getattr(output, "logits", output)
    logits = logits[0] if isinstance(logits, (tuple, list)) else logits
    if not isinstance(logits, Tensor) or logits.ndim != 3:
        raise Refused(
            "a loss needs logits (B, L, vocabulary): an output with .logits, or a tensor; got "
            f"{type(output).__name__}. Pass a model with a head (a class named ...ForCausalLM)."
        )
    return logits


def token_losses(
    logits: Float[Tensor, "B L vocabulary"],
    ids: Int[Tensor, "B L"],
    segments: Int[Tensor, "B L"] | None = None,
) -> Float[Tensor, " n"]:
    """Cross-entropy of each next token of the same sequence, in nats, in float32 or wider."""
    real = _real(segments, logits)
    follows = real[:, 1:] & real[:, :-1]
    if segments is not None and segments.shape == ids.shape:
        follows = follows & (segments[:, 1:] == segments[:, :-1])
    told = logits[:, :-1][follows]
    told = told.float() if told.element_size() < 4 else told
    return functional.cross_entropy(told, ids[:, 1:][follows], reduction="none")


def _real(segments: Tensor | None, logits: Tensor) -> Tensor:
    """True for tokens that are no padding, ``(B, L)``."""
    if segments is None or segments.shape != logits.shape[:2]:
        return torch.ones(logits.shape[:2], dtype=torch.bool, device=logits.device)
    return (segments != 0).to(logits.device)
