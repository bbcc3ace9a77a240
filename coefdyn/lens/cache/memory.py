"""``memory``: bytes that a model keeps of its past, computed from its configuration alone.

The numbers are those of the cache of transformers between two tokens of one sequence. A reader per
``model_type`` names the fields it needs; an unknown type or a missing field is refused, since a
default of a class describes no released model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from coefdyn.lens.cache.memory_readers import READERS, Config, MixerMemory, layer_count
from coefdyn.options import check_count, did_you_mean

__all__ = ["MixerMemory", "ModelMemory", "memory", "memory_table"]


@dataclass(frozen=True, kw_only=True)
class ModelMemory:
    """Memory of a model, kind of mixer by kind of mixer.

    Attributes:
        name: from the configuration, else its model type.
        layers: of the model; feed-forward layers count where the configuration counts them.
        mixers: one entry per kind.
    """

    name: str
    layers: int
    mixers: tuple[MixerMemory, ...]

    def state_bytes(self, dtype: str = "float32") -> int:
        """Bytes of the recurrent states of all layers."""
        return _size(dtype) * sum(m.count * m.state for m in self.mixers)

    def convolution_bytes(self, dtype: str = "bfloat16") -> int:
        """Bytes of the inputs kept for short convolutions and token shifts."""
        return _size(dtype) * sum(m.count * m.convolution for m in self.mixers)

    def bytes_per_token(self, dtype: str = "bfloat16") -> int:
        """Bytes that a token adds to the caches of all layers while no window is full."""
        return _size(dtype) * sum(m.count * m.per_token for m in self.mixers)

    def total_bytes(
        self, tokens: int, *, cache_dtype: str = "bfloat16", state_dtype: str = "float32"
    ) -> int:
        """Bytes of states, convolutions and caches after so many tokens of one sequence.

        Args:
            tokens: at least 1.
            cache_dtype: of keys, values, latents and convolutions; a name such as "bfloat16".
            state_dtype: of the recurrent states.

        Raises:
            ValueError: for less than one token, a name that is no dtype, or one below a byte.
        """
        check_count("tokens", tokens)
        cached = sum(m.count * m.cached(tokens) for m in self.mixers)
        steady = self.state_bytes(state_dtype) + self.convolution_bytes(cache_dtype)
        return steady + _size(cache_dtype) * cached


def memory(config: Any) -> ModelMemory:
    """Memory of a model from its configuration.

    Args:
        config: a path of a ``config.json`` or of the folder that contains it, a mapping, or a
            configuration object of transformers. Keys that begin with "_" are not read, except
            ``_name``.

    Raises:
        FileNotFoundError: for a path without a file.
        ValueError: for a file that is no JSON, a model type without a reader, a missing, wrong or
            contradictory field; the message names the file or the fields.
    """
    fields = _fields(config)
    asked, known = fields.get("model_type"), sorted(READERS)
    reader = READERS.get(asked) if isinstance(asked, str) else None
    if reader is None and isinstance(fields.get("text_config"), Mapping):
        inner = {"_name": fields.get("_name"), **fields["text_config"]}
        return memory({key: value for key, value in inner.items() if value is not None})
    if reader is None:
        raise ValueError(
            f"memory has no reader for model_type {asked!r}{did_you_mean(asked, known)} It knows "
            f"{', '.join(known)}; another type may keep its past in another form, so nothing is "
            "guessed. Add a reader to coefdyn/lens/cache/memory_readers.py."
        )
    mixers = tuple(mixer for mixer in reader(fields) if mixer.count)
    return ModelMemory(
        name=str(fields.get("_name") or fields["model_type"]),
        layers=layer_count(fields),
        mixers=mixers,
    )


def memory_table(
    models: Iterable[ModelMemory],
    *,
    tokens: tuple[int, ...] = (32_768, 131_072),
    cache_dtype: str = "bfloat16",
    state_dtype: str = "float32",
) -> str:
    """Table in Markdown with a row per model, for one sequence.

    Mixers are written as layers x kind (heads: n by d_v). The state is in MiB, the cache in KiB per
    token, and the totals, which include the inputs of convolutions, in GiB.

    Args:
        models: results of ``memory``.
        tokens: lengths of the last columns.
        cache_dtype: of keys, values, latents and convolutions.
        state_dtype: of the recurrent states.
    """
    lengths = [f"{length:,}".replace(",", " ") + " tokens, GiB" for length in tokens]
    columns = ("model", "layers", "mixers", "state, MiB", "cache, KiB per token", *lengths)
    rows = [columns, ("---", "---:", "---", *["---:"] * (2 + len(tokens)))]
    for model in models:
        totals = (
            model.total_bytes(length, cache_dtype=cache_dtype, state_dtype=state_dtype)
            for length in tokens
        )
        rows.append(
            (
                model.name,
                str(model.layers),
                ", ".join(str(mixer) for mixer in model.mixers),
                _shown(model.state_bytes(state_dtype) / 2**20),
                _shown(model.bytes_per_token(cache_dtype) / 2**10),
                *(_shown(total / 2**30) for total in totals),
            )
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _shown(number: float) -> str:
    """Three digits that count, or all before the point."""
    return f"{number:.0f}" if number >= 100 or number == 0 else f"{number:.3g}"


def _fields(config: Any) -> Config:
    if isinstance(config, (str, Path)):
        path = Path(config)
        path = path / "config.json" if path.is_dir() else path
        if not path.is_file():
            raise FileNotFoundError(f"memory needs a config.json or its folder; {path} is no file.")
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is no JSON in UTF-8: {error}") from error
    elif not isinstance(config, Mapping) and hasattr(config, "to_dict"):
        config = config.to_dict()
    if not isinstance(config, Mapping):
        raise ValueError(
            "memory needs a path, a mapping or a configuration of transformers, got "
            f"{type(config).__name__}."
        )
    return config


def _size(dtype: str) -> int:
    found = getattr(torch, str(dtype), None)
    if not isinstance(found, torch.dtype):
        raise ValueError(
            f"a dtype of torch such as 'bfloat16' or 'float32' is needed, got {dtype!r}."
        )
    bits = re.search(r"\d+", str(found))
    if bits and int(bits[0]) < 8:
        raise ValueError(
            f"{dtype} holds several numbers in a byte, which torch does not count; ask for 'int8' "
            f"and take {bits[0]}/8 of its bytes."
        )
    return found.itemsize
