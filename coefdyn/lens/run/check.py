"""``check``: tests any causal language model against the contract of its mixers.

Each promise compares two ways to the same logits. A deviation is the largest difference relative to
the largest logit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from coefdyn.lens.run.trace import torch_operations
from coefdyn.options import check_count, check_number, did_you_mean
from coefdyn.shapes import Float, Int, Tensor

__all__ = ["CheckReport", "Finding", "check"]

#: largest deviation that counts as kept: single precision and wider, half precision
TOLERANCE = {4: 1e-4, 2: 5e-2}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result for one promise.

    Attributes:
        name: such as "prompt in two parts".
        deviation: largest difference relative to the largest logit; NaN where it was not run.
        kept: whether the promise holds; None where it could not be tried.
        words: what was compared, or why it could not be.
    """

    name: str
    deviation: float
    kept: bool | None
    words: str

    def __str__(self) -> str:
        verdict = {True: "kept", False: "BROKEN", None: "not run"}[self.kept]
        number = "" if self.kept is None else f" by {self.deviation:.1e}"
        return f"{verdict:<8}{self.name}{number}: {self.words}"


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """Results for all promises of one model.

    Attributes:
        model: name of its class.
        findings: in the order in which they were tried.
        tolerance: largest deviation that counts as kept.
    """

    model: str
    findings: tuple[Finding, ...]
    tolerance: float

    @property
    def broken(self) -> tuple[str, ...]:
        """Names of the promises that do not hold."""
        return tuple(one.name for one in self.findings if one.kept is False)

    def __getitem__(self, name: str) -> Finding:
        """Finding of this name.

        Raises:
            KeyError: for a name that no finding has; the message lists the names.
        """
        found = {one.name: one for one in self.findings}
        if name not in found:
            known = ", ".join(found)
            raise KeyError(f"no finding {name!r}{did_you_mean(name, found)} Known: {known}.")
        return found[name]

    def __str__(self) -> str:
        verdict = "keeps" if not self.broken else "does not keep"
        head = f"{self.model} {verdict} what it was held to (tolerance {self.tolerance:g})"
        return "\n".join([head, *(f"  {one}" for one in self.findings)])


class _NotTestable(Exception):
    """The model offers no way to try this promise; the message says what is missing."""


def check(
    model: nn.Module,
    vocab: int | None = None,
    *,
    length: int = 19,
    batch: int = 3,
    seed: int = 0,
    tolerance: float | None = None,
) -> CheckReport:
    """Hold a causal language model to the contract of a sequence mixer, on random tokens.

    It must not read the future; give the same logits twice, token by token and all at once, for a
    prompt in two parts and in one, with padding on the left and without, alone and in a batch; and
    have finite gradients. A promise that the model's interface does not offer is "not run".

    Args:
        model: called as ``model(ids)``; returns logits or an object with ``logits``. For the steps
            with a cache and for padding it must take the arguments of transformers' models. It is
            run in ``eval()`` mode; its mode and its gradients are restored.
        vocab: number of token ids, at least 2; ``model.config.vocab_size`` if None. From 16 on, the
            first three, often special, are not drawn.
        length: tokens per sequence, at least 8.
        batch: sequences.
        seed: of the tokens.
        tolerance: largest deviation that counts as kept; if None, 1e-4 for float32 and 0.05 in half
            precision.

    Raises:
        ValueError: for a missing vocab or one below 2, too few tokens or sequences, or a negative
            tolerance.
    """
    if vocab is None:
        vocab = getattr(getattr(model, "config", None), "vocab_size", None)
    if vocab is None:
        raise ValueError("check needs vocab, the number of token ids: the model does not say it.")
    check_count("vocab", vocab, 2)
    if tolerance is None:
        tolerance = TOLERANCE[2 if _is_half(model) else 4]
    check_number("tolerance", tolerance, 0)
    if length < 8 or batch < 2:
        raise ValueError(
            f"check needs length >= 8 and batch >= 2, got length={length} and batch={batch}."
        )
    generator = torch.Generator().manual_seed(seed)
    device = next(model.parameters()).device
    low = 3 if vocab >= 16 else 0
    ids = torch.randint(low, vocab, (batch, length), generator=generator).to(device)
    was_training = model.training
    gradients = [(weight, weight.grad) for weight in model.parameters()]
    model.eval()
    try:
        with torch_operations(model):
            subject = _Subject(model, ids, vocab)
            findings = tuple(_try(name, run, subject, tolerance) for name, run in _PROMISES.items())
    finally:
        model.train(was_training)
        for weight, gradient in gradients:
            weight.grad = gradient
    return CheckReport(model=type(model).__name__, findings=findings, tolerance=tolerance)


def _arguments(model: nn.Module) -> tuple[set[str], bool]:
    """Names that the model's forward takes, and whether it also takes others, unnamed."""
    parameters = inspect.signature(model.forward).parameters
    rest = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    return set(parameters), rest and hasattr(model, "config")


def _cache_of(answer: Any) -> tuple[str, Any]:
    """Cache of a pass for the next one, by its name in the model's own output.

    Raises:
        _NotTestable: for an output without a cache.
    """
    named = dict(answer) if isinstance(answer, Mapping) else dict(getattr(answer, "__dict__", {}))
    for name, value in named.items():
        if value is not None and any(word in name for word in ("cache", "past")):
            return name, value
    raise _NotTestable("the model takes no cache: its output holds none")


def _try(
    name: str, run: Callable[[_Subject], tuple[float, str]], subject: _Subject, limit: float
) -> Finding:
    try:
        deviation, words = run(subject)
    except _NotTestable as reason:
        return Finding(name=name, deviation=float("nan"), kept=None, words=str(reason))
    except Exception as error:  # a model may fail in any way; that is a finding
        words = f"raised {type(error).__name__}: {str(error).splitlines()[0][:100]}"
        return Finding(name=name, deviation=float("inf"), kept=False, words=words)
    return Finding(name=name, deviation=deviation, kept=deviation <= limit, words=words)


class _Subject:
    """The model under test, its tokens, and the arguments of its calls."""

    def __init__(self, model: nn.Module, ids: Int[Tensor, "B L"], vocab: int) -> None:
        self.model, self.ids, self.vocab = model, ids, vocab
        self.takes, self.takes_more = _arguments(model)
        self.takes_cache = self.can_take("use_cache", False)
        with torch.no_grad():
            self.whole = self.logits(ids)

    @torch.no_grad()
    def can_take(self, name: str, value: Any) -> bool:
        """Return whether the model names this argument, or takes it behind ``**`` in a call."""
        if name in self.takes or not self.takes_more:
            return name in self.takes
        try:
            self.model(self.ids[:, :1], **{name: value})
        except TypeError:  # it names what it takes behind ** and takes nothing else
            return False
        return True

    def call(self, ids: Int[Tensor, "B L"], **kwargs: Any) -> Any:
        return self.model(ids, **kwargs)

    def logits(self, ids: Int[Tensor, "B L"], **kwargs: Any) -> Float[Tensor, "B L V"]:
        """Logits of a pass that keeps nothing."""
        if self.takes_cache:
            kwargs["use_cache"] = False
        answer = self.model(ids, **kwargs)
        return getattr(answer, "logits", answer)

    def gap(self, mine: Tensor, theirs: Tensor) -> float:
        """Largest difference relative to the largest logit; NaN counts as infinite."""
        largest = theirs.detach().abs().amax().item() or 1.0
        gap = (mine.detach().float() - theirs.detach().float()).abs().amax().item() / largest
        return float("inf") if gap != gap else gap

    def piece(self, ids: Int[Tensor, "B L"], start: int, kept: dict[str, Any]) -> Any:
        """The output for the tokens from place ``start`` on, which continues what was kept."""
        given: dict[str, Any] = {"use_cache": True, **kept}
        if "position_ids" in self.takes:
            positions = torch.arange(start, start + ids.shape[1], device=ids.device)
            given["position_ids"] = positions.expand(len(ids), -1)
        return self.model(ids, **given)

    @torch.no_grad()
    def in_pieces(self, sizes: list[int]) -> Float[Tensor, "B L V"]:
        """Logits of a prompt given piece by piece through the model's cache."""
        self.show_that_the_cache_arrives()
        kept: dict[str, Any] = {}
        start, pieces = 0, []
        for size in sizes:
            answer = self.piece(self.ids[:, start : start + size], start, kept)
            kept = dict([_cache_of(answer)])
            pieces.append(answer.logits)
            start += size
        return torch.cat(pieces, 1)

    def show_that_the_cache_arrives(self) -> None:
        """Raise _NotTestable unless a second pass uses the first one's cache.

        Two prompts and one token after them: the logits differ, or at least the cache that comes
        back is the one that was handed over. Otherwise nothing that follows could blame the model.
        """
        if not self.takes_cache:
            raise _NotTestable("the model takes no cache (use_cache)")
        half = self.ids.shape[1] // 2
        prompts, token = (
            (self.ids[:, :half], (self.ids[:, :half] + 1) % self.vocab),
            self.ids[:, :1],
        )
        answers, same = [], False
        for prompt in prompts:
            name, cache = _cache_of(self.piece(prompt, 0, {}))
            answers.append(self.piece(token, half, {name: cache}))
            same |= _cache_of(answers[-1])[1] is cache
        if not same and torch.equal(answers[0].logits, answers[1].logits):
            raise _NotTestable(f"the cache was not taken (handed over as {name})")


@torch.no_grad()
def _future(subject: _Subject) -> tuple[float, str]:
    cut = subject.ids.shape[1] // 2
    other = subject.ids.clone()
    other[:, cut:] = (other[:, cut:] + 1) % subject.vocab
    gap = subject.gap(subject.logits(other)[:, :cut], subject.whole[:, :cut])
    return gap, f"the first {cut} tokens' logits after the tokens behind them were exchanged"


@torch.no_grad()
def _again(subject: _Subject) -> tuple[float, str]:
    return subject.gap(subject.logits(subject.ids), subject.whole), "the same call once more"


def _steps(subject: _Subject) -> tuple[float, str]:
    length = subject.ids.shape[1]
    gap = subject.gap(subject.in_pieces([1] * length), subject.whole)
    return gap, f"{length} steps with a cache, against one pass"


def _parts(subject: _Subject) -> tuple[float, str]:
    length = subject.ids.shape[1]
    first = length // 2 + 1
    gap = subject.gap(subject.in_pieces([first, length - first]), subject.whole)
    return gap, f"{first} and {length - first} tokens with a cache, against one pass"


@torch.no_grad()
def _padding(subject: _Subject) -> tuple[float, str]:
    if not subject.can_take("attention_mask", torch.ones_like(subject.ids[:, :1])):
        raise _NotTestable("the model takes no attention_mask")
    missing = 3
    noise = subject.ids[:, :missing].flip(0)
    ids = torch.cat([noise, subject.ids], 1)
    mask = torch.ones_like(ids)
    mask[:, :missing] = 0
    given = {"attention_mask": mask}
    if "position_ids" in subject.takes:
        given["position_ids"] = (mask.cumsum(-1) - 1).clamp(min=0)
    masked = subject.logits(ids, **given)
    if "attention_mask" not in subject.takes:
        given["attention_mask"] = torch.ones_like(ids)
        if torch.equal(masked, subject.logits(ids, **given)):
            raise _NotTestable("the attention_mask was not taken")
    gap = subject.gap(masked[:, missing:], subject.whole)
    return gap, f"{missing} masked tokens in front, against none"


@torch.no_grad()
def _alone(subject: _Subject) -> tuple[float, str]:
    each = torch.cat([subject.logits(row[None]) for row in subject.ids])
    return subject.gap(each, subject.whole), f"{len(subject.ids)} sequences one by one and together"


def _gradients(subject: _Subject) -> tuple[float, str]:
    subject.model.zero_grad(set_to_none=True)
    with torch.enable_grad():
        logits = subject.logits(subject.ids)
        target = subject.ids[:, 1:].flatten()
        functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), target).backward()
    named = {n: p.grad for n, p in subject.model.named_parameters() if p.grad is not None}
    if not named:
        raise _NotTestable("no parameter received a gradient")
    bad = [name for name, grad in named.items() if not bool(torch.isfinite(grad).all())]
    if bad:
        return float("inf"), f"{len(bad)} parameters have NaN or infinite gradients, first {bad[0]}"
    return 0.0, f"all of {len(named)} parameters have finite gradients"


_PROMISES: dict[str, Callable[[_Subject], tuple[float, str]]] = {
    "no future": _future,
    "same twice": _again,
    "batch of one": _alone,
    "left padding": _padding,
    "token by token": _steps,
    "prompt in two parts": _parts,
    "finite gradients": _gradients,
}


def _is_half(model: nn.Module) -> bool:
    return next(model.parameters()).dtype in (torch.float16, torch.bfloat16)
