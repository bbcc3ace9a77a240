"""``PlanLayer``: a layer of transformers' cache whose cut heads hold rows of their own."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from transformers.cache_utils import CacheLayerMixin

from coefdyn.lens.adapters.base import Refused
from coefdyn.lens.cache.places import Places
from coefdyn.shapes import Float, Tensor

__all__ = ["HANDED", "Home", "PlanLayer"]


class Home:
    """The context in which caches of one plan are used: its model's layers, until it ends."""

    def __init__(self, modules: Mapping[nn.Module, str]) -> None:
        self.modules, self.is_open = dict(modules), True

    def __deepcopy__(self, _: Any) -> Home:
        return self

    def __reduce__(self) -> Any:
        raise Refused("a cache of a plan belongs to its context; keep its tensors instead.")

    def close(self) -> None:
        self.modules.clear()
        self.is_open = False


class Handed(threading.local):
    """The layer whose keys and values this thread's next attention reads."""

    layer: PlanLayer | None = None


HANDED = Handed()


class PlanLayer(CacheLayerMixin):
    """Keys and values of one layer: of the heads that keep everything, and of those that are cut.

    Attributes:
        keys, values: of the former, ``(B, heads, tokens, width)``; with a window of the model's
            own its last tokens.
        cut_keys, cut_values: of the latter, as ``places`` says.
        places: which tokens they are.
        record_past: whether nothing is dropped before the next ``crop``.
    """

    is_compileable, is_croppable, supports_early_init = False, True, False
    keys: Tensor | None
    values: Tensor | None
    cut_keys: Tensor | None
    cut_values: Tensor | None

    def __init__(self, home: Home, name: str, is_cut: Sequence[bool], places: Places) -> None:
        super().__init__()
        self.home, self.name, self.is_cut, self.places = home, name, tuple(is_cut), places
        self.is_sliding, self.record_past = places.own is not None, False
        self.reset()

    def reset(self) -> None:
        """Forget all tokens."""
        self.keys = self.values = self.cut_keys = self.cut_values = None
        self.is_initialized = False
        places = self.places
        self.places = Places(sink=places.sink, window=places.window, own=places.own)
        self.handed: tuple[Tensor, Tensor] | None = None
        self.new: tuple[Tensor, Tensor] | None = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Rows of no token, for the heads of the first ones."""
        self.dtype, self.device = key_states.dtype, key_states.device
        whole, cut, _ = _numbers(self.is_cut, 1, self.device)
        self.keys, self.values = (x[:, whole, :0] for x in (key_states, value_states))
        self.cut_keys, self.cut_values = (x[:, cut, :0] for x in (key_states, value_states))
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Take new tokens in; returns the keys and values of the heads that keep everything.

        Those of the cut heads go to the attention function that comes next.

        Raises:
            ValueError: for keys of another number of heads than the plan counts.
        """
        if key_states.shape[1] != len(self.is_cut):
            raise Refused(
                f"{self.name} caches {key_states.shape[1]} heads, the plan has {len(self.is_cut)}."
            )
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        whole, cut, _ = _numbers(self.is_cut, 1, key_states.device)
        keys, values = (
            torch.cat([held, new[:, whole]], 2)
            for held, new in zip(self.tensors()[:2], (key_states, value_states), strict=True)
        )
        self.new = key_states[:, cut], value_states[:, cut]
        columns, own = self.places.columns(key_states.shape[2]), self.places.own
        self.keys, self.values = (
            x if own is None or self.record_past else _last(x, own) for x in (keys, values)
        )
        self.handed = keys[:, :, -columns:], values[:, :, -columns:]
        HANDED.layer = self
        return self.handed

    def attend(
        self,
        attend: Callable[..., Any],
        module: nn.Module,
        query: Float[Tensor, "B H L n"],
        mask: Tensor | None,
        given: dict[str, Any],
    ) -> Float[Tensor, "B L H dv"]:
        """y of all heads, each group by the model's own attention function on what it holds."""
        assert self.handed is not None and self.new is not None
        (keys, values), (new_keys, new_values) = self.handed, self.new
        parts, after = self.places.step(query, mask, self.record_past)
        queries = query.shape[1] // len(self.is_cut)
        whole, cut, order = _numbers(self.is_cut, queries, query.device)
        found = []
        if len(whole):
            given_here, who = _of_heads(module, given, whole)
            y = attend(who, query[:, whole], keys, values, mask, **given_here)[0]
            found.append(y)
        if len(cut):
            given_here, who = _of_heads(module, given, cut)
            asked, rows = query[:, cut], []
            held_keys, held_values = self.tensors()[2:]
            for part in parts:
                held_keys = torch.cat([held_keys, new_keys[:, :, part.rows]], 2)
                held_values = torch.cat([held_values, new_values[:, :, part.rows]], 2)
                if part.first:
                    held_keys, held_values = part.keep(held_keys), part.keep(held_values)
                q = asked[:, :, part.rows]
                rows.append(attend(who, q, held_keys, held_values, part.mask, **given_here)[0])
                if not part.first:
                    held_keys, held_values = part.keep(held_keys), part.keep(held_values)
            self.cut_keys, self.cut_values = held_keys, held_values
            found.append(torch.cat(rows, 1))
        self.places, self.handed, self.new = after, None, None
        return torch.cat(found, 2)[:, :, order]

    def tensors(self) -> tuple[Tensor, ...]:
        """``keys``, ``values``, ``cut_keys`` and ``cut_values``; at first none."""
        held = (self.keys, self.values, self.cut_keys, self.cut_values)
        return tuple(x for x in held if x is not None)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Columns of the model's own mask, and the place of the first of them."""
        columns = self.places.columns(query_length)
        return columns, self.places.tokens + query_length - columns

    def get_seq_length(self) -> int:
        """Tokens read so far, those that cut heads have let go of among them."""
        return self.places.tokens

    def get_max_length(self) -> int:
        """The model's own window, -1 for none."""
        return -1 if self.places.own is None else self.places.own

    def activate_past_recording(self) -> None:
        """Drop nothing before the next ``crop``."""
        self.record_past = True

    def crop(self, tokens_to_remove: int) -> None:
        """Take the last ``-tokens_to_remove`` tokens back, and drop what was kept for that.

        Raises:
            ValueError: for a positive number, and where a token to come would read what cut heads
                no longer hold.
        """
        if not self.is_initialized:
            return
        count = self.check_crop(tokens_to_remove)
        left = [x[:, :, : max(0, x.shape[2] - count)] for x in self.tensors()]
        self.places, keep = self.places.cropped(count).dropped()
        own = self.places.own or self.places.tokens
        self.keys, self.values = (_last(x, own).clone() for x in left[:2])
        self.cut_keys, self.cut_values = (keep(x).clone() for x in left[2:])

    def check_crop(self, tokens_to_remove: int) -> int:
        """The number of tokens to take back; raises as ``crop``."""
        if tokens_to_remove > 0:
            raise Refused(
                f"crop takes the last tokens back: crop(-{tokens_to_remove}) for "
                f"{tokens_to_remove} of them."
            )
        self.places.cropped(-tokens_to_remove)
        return -tokens_to_remove

    def _pick(self, index: Tensor) -> None:
        if self.is_initialized:
            self.keys, self.values, self.cut_keys, self.cut_values = (
                x.index_select(0, index.to(x.device)) for x in self.tensors()
            )
            self.places = self.places.picked(index)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """The rows that beams go on with."""
        self._pick(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Some rows of the batch."""
        self._pick(indices)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row of the batch several times."""
        if self.keys is not None:
            rows = torch.arange(len(self.keys), device=self.keys.device)
            self._pick(rows.repeat_interleave(repeats))


class _SomeHeads:
    """An attention module as its function sees it, with the sinks of some heads."""

    def __init__(self, module: nn.Module, sinks: Tensor) -> None:
        self._module, self.sinks = module, sinks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


def _of_heads(
    module: nn.Module, given: dict[str, Any], heads: Tensor
) -> tuple[dict[str, Any], Any]:
    """The arguments and the module for some heads: a class with sinks has one per head."""
    sinks, told = getattr(module, "sinks", None), given.get("s_aux")
    who = module if sinks is None else _SomeHeads(module, sinks.flatten()[heads])
    return given if told is None else {**given, "s_aux": told.flatten()[heads]}, who


@functools.lru_cache(maxsize=256)
def _numbers(
    is_cut: tuple[bool, ...], queries: int, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Numbers of the heads that keep everything, of those that are cut, and places of all in both.

    Args:
        is_cut: for each key-value head.
        queries: heads that read one of them; the numbers are of these.
        device: of the numbers.
    """
    cut = torch.tensor(is_cut, device=device).repeat_interleave(queries)
    both = (~cut).nonzero()[:, 0], cut.nonzero()[:, 0]
    return *both, torch.cat(both).argsort()


def _last(rows: Tensor, count: int) -> Tensor:
    """The last rows, without the memory of the others."""
    return rows if rows.shape[2] <= count else rows[:, :, -count:].clone()
