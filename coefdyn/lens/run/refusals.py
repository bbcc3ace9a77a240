"""Refusals of models that the lens cannot trace, raised before the model runs."""

from __future__ import annotations

import re
from typing import Any

from torch import nn

from coefdyn.lens.adapters.base import Refused
from coefdyn.mixers import Mixer
from coefdyn.shapes import Tensor

__all__ = ["check_call", "looks_like_mixer"]

_MIXER = re.compile(
    r"(attention|attn|mixer|mamba|ssm|deltanet|deltaattention|recurrent|rglru|lru|retention|lstm|gru"
    r"|rwkv|shortconv|hyena|lightning)",
    re.IGNORECASE,
)
_NOT_MIXER = re.compile(
    r"(norm|rotary|embedding|model|layer$|block$|mlp|output$|forcausallm|head$|stack|decoder|list"
    r"|gate|projection|backend|feedforward|indexer|cache|dropout)",
    re.IGNORECASE,
)


def looks_like_mixer(module: nn.Module) -> bool:
    """Return whether a class name is that of a sequence mixer rather than of a part of one."""
    if type(module).__module__.startswith("coefdyn."):
        return isinstance(module, Mixer)
    name = type(module).__name__
    return bool(_MIXER.search(name)) and not _NOT_MIXER.search(name)


def check_call(
    model: Any, inputs: tuple[Any, ...], kwargs: dict[str, Any], what: str = "trace"
) -> None:
    """Raise where a trace makes no sense, nor another look at a model, named by ``what``.

    Raises:
        Refused: for something that is no module, a compiled model, a text or a single sequence
            without a batch instead of token ids, or an encoder-decoder.
    """
    if not isinstance(model, nn.Module):
        raise Refused(
            f"{what} needs a torch.nn.Module, got {type(model).__name__}; "
            "for a pipeline pass its .model."
        )
    _check_not_compiled(model)
    for value in (*inputs, *kwargs.values()):
        if isinstance(value, str) or (isinstance(value, list) and value and _is_text(value)):
            raise Refused(
                f"trace needs token ids, got the text {_short(value)}; turn it into ids first: "
                "trace(model, **tokenizer(text, return_tensors='pt'))."
            )
    if getattr(getattr(model, "config", None), "is_encoder_decoder", False):
        raise Refused(
            f"{type(model).__name__} is an encoder-decoder: its encoder reads tokens to the right "
            "and its decoder another sequence. The lens looks at causal models; pass a decoder."
        )
    for value in inputs:
        if isinstance(value, Tensor) and not value.is_floating_point() and value.ndim == 1:
            raise Refused(
                f"trace needs token ids of shape (B, L), got {tuple(value.shape)}; "
                "give them a batch: trace(model, ids[None])."
            )


def _check_not_compiled(model: nn.Module) -> None:
    for name, module in model.named_modules():
        optimized = type(module).__name__ == "OptimizedModule"
        if optimized or getattr(module, "_compiled_call_impl", None) is not None:
            place = f"its module {name}" if name else "the model"
            raise Refused(
                f"{place} is compiled, and compiled code cannot be listened to; "
                "pass the model as it was before torch.compile (compiled._orig_mod)."
            )


def _is_text(value: list[Any]) -> bool:
    return all(isinstance(item, str) for item in value)


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) < 40 else shown[:36] + " ..."
