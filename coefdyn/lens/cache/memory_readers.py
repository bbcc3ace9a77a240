"""The readers of ``memory``: mixers of a model and their sizes from its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coefdyn.options import check_count, check_flag, check_number, shown

__all__ = ["READERS", "Config", "MixerMemory", "layer_count"]

Config = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class MixerMemory:
    """Numbers that one kind of mixer keeps in each of its layers, for one sequence.

    Attributes:
        kind: such as "attention" or "Mamba-2".
        count: layers with such a mixer.
        heads: that keep something: key-value heads of attention, heads with a state elsewhere; 1
            for latent attention, whose heads share the latents.
        n: width of a key; of the latents for latent attention.
        d_v: width of a value; 0 for latent attention, whose values are made from the latents.
        state: numbers of the recurrent state of all heads, its normalizers included.
        convolution: numbers of the last inputs of short convolutions or token shifts.
        per_token: numbers added to a cache by each token.
        window: tokens that a query reads, itself included; None for all.
    """

    kind: str
    count: int
    heads: int
    n: int
    d_v: int
    state: int = 0
    convolution: int = 0
    per_token: int = 0
    window: int | None = None

    def cached(self, tokens: int) -> int:
        """Numbers in the cache of one layer after so many tokens.

        A window of w keeps w - 1 tokens, since the next query brings its own.
        """
        held = tokens if self.window is None else min(tokens, self.window - 1)
        return held * self.per_token

    def __str__(self) -> str:
        size = f"{self.n} by {self.d_v}" if self.d_v else f"{self.n}"
        return f"{self.count} x {self.kind} ({self.heads}: {size})"


def _need(fields: Config, *names: str) -> Any:
    """Value of the first of these fields that is there and not null."""
    for name in names:
        if fields.get(name) is not None:
            return fields[name]
    raise ValueError(
        f"this {fields['model_type']!r} configuration has none of the fields {', '.join(names)}; "
        "memory reads no default of a class in their place. Pass the whole config.json."
    )


def _or_null(fields: Config, name: str, *others: str) -> Any:
    """Value of the field, None where it is null, or absent and the class has no number for it."""
    given = [fields[other] for other in (name, *others) if fields.get(other) is not None]
    if not given and name not in fields and fields["model_type"] in _CLASS_KNOWS[name]:
        _need(fields, name, *others)
    return given[0] if given else None


def _whole(fields: Config, *names: str) -> int:
    return check_count(names[0], _need(fields, *names))


def _list(fields: Config, *names: str) -> Sequence[Any]:
    value = _need(fields, *names)
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"{names[0]} must be a list, got {shown(value)}.")
    return value


# --- layers ---------------------------------------------------------------------------------------

#: names of layer kinds in configurations, old and new
FULL, WINDOW, LINEAR, NONE = "full", "window", "linear", "none"
_NAMES = {
    **dict.fromkeys(("full_attention", "attention"), FULL),
    "sliding_attention": WINDOW,
    **dict.fromkeys(("linear_attention", "mamba"), LINEAR),
    **dict.fromkeys(("mlp", "moe"), NONE),
}
_LETTERS = {"M": LINEAR, "*": FULL, "-": NONE, "E": NONE}
#: model_type -> k where every k-th layer reads everything and the others a window
_PERIODS = {"gemma2": 2, "gpt_oss": 2, "cohere2": 4, "gemma3_text": 6}
#: of these, the ones that state another k in ``sliding_window_pattern``
_STATES_ITS_PERIOD = ("cohere2", "gemma3_text")
_KV, _WIDTH, _SPAN = "num_key_value_heads", "head_dim", "sliding_window"
#: field -> model types whose class has a number of its own where the field is absent. There it is
#: refused; null means as many as query heads, hidden_size over heads, no window.
_CLASS_KNOWS = {
    _KV: (
        *("mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next"),
        *("gemma", "gemma2", "gemma3_text", "gpt_oss", "smollm3", "starcoder2"),
        *("bamba", "falcon_h1", "minimax", "minimax_text_01", "nemotron_h"),
    ),
    _WIDTH: ("qwen3", "qwen3_next", "gemma", "gemma2", "gemma3_text", "gpt_oss", "nemotron_h"),
    _SPAN: ("mistral", "gemma2", "gemma3_text", "gpt_oss", "cohere2"),
}
#: their window counts only where ``use_sliding_window`` says so
_SWITCHED = ("qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3")


def layer_count(fields: Config) -> int:
    """Layers as the configuration counts them."""
    for name in ("layer_types", "layers_block_type", "attn_type_list"):
        if fields.get(name):
            return len(_list(fields, name))
    if fields.get("hybrid_override_pattern"):
        return len(str(fields["hybrid_override_pattern"]))
    return _whole(fields, "num_hidden_layers", "num_blocks")


def _kinds(fields: Config) -> list[str]:
    """Kind of each layer as the configuration states it."""
    if fields.get("layer_types") or fields.get("layers_block_type"):
        name = "layer_types" if fields.get("layer_types") else "layers_block_type"
        listed = [str(kind) for kind in _list(fields, name)]
        if unknown := sorted(set(listed) - set(_NAMES)):
            raise ValueError(
                f"this {fields['model_type']!r} configuration has layers of the types "
                f"{', '.join(unknown)}; memory knows {', '.join(_NAMES)}."
            )
        kinds = [_NAMES[kind] for kind in listed]
    elif pattern := fields.get("hybrid_override_pattern"):
        if unknown := sorted(set(str(pattern)) - set(_LETTERS)):
            raise ValueError(
                f"hybrid_override_pattern has the letters {', '.join(unknown)}; memory knows "
                f"{', '.join(_LETTERS)}."
            )
        kinds = [_LETTERS[letter] for letter in str(pattern)]
    elif fields.get("attn_type_list"):
        kinds = [FULL if kind else LINEAR for kind in _list(fields, "attn_type_list")]
    elif fields.get("full_attention_interval") is not None:
        interval = _whole(fields, "full_attention_interval")
        count = layer_count(fields)
        kinds = [LINEAR if (i + 1) % interval else FULL for i in range(count)]
    else:
        places = _list(fields, "attn_layer_indices", "layer_types")
        kinds = [FULL if i in places else LINEAR for i in range(layer_count(fields))]
    stated = fields.get("num_hidden_layers")
    if stated is not None and stated != len(kinds):
        raise ValueError(f"num_hidden_layers is {stated}, but {len(kinds)} layers are listed.")
    return kinds


# --- kinds of mixers ------------------------------------------------------------------------------


def _attention(fields: Config, count: int, window: int | None = None) -> MixerMemory:
    queries = _whole(fields, "num_attention_heads")
    stated, width = _or_null(fields, _KV), _or_null(fields, _WIDTH, "attention_head_dim")
    heads = queries if stated is None else check_count(_KV, stated)
    if width is None:
        width = _whole(fields, "hidden_size") // queries
    width = check_count(_WIDTH, width)
    kind = "attention" if window is None else "attention in a window"
    per_token = 2 * heads * width
    return MixerMemory(
        kind=kind, count=count, heads=heads, n=width, d_v=width, per_token=per_token, window=window
    )


def _latent_attention(fields: Config, count: int) -> MixerMemory:
    """Latents of all heads and the part of the keys that carries positions."""
    width = _whole(fields, "kv_lora_rank") + _whole(fields, "qk_rope_head_dim")
    return MixerMemory(
        kind="latent attention", count=count, heads=1, n=width, d_v=0, per_token=width
    )


def _mamba2(
    count: int, *, heads: int, head_dim: int, state: int, groups: int, kernel: int
) -> MixerMemory:
    """S in R^{n x d_v} per head; the convolution runs over values, keys and queries."""
    channels = heads * head_dim + 2 * groups * state
    return MixerMemory(
        kind="Mamba-2", count=count, heads=heads, n=state, d_v=head_dim,
        state=heads * state * head_dim, convolution=channels * kernel,
    )  # fmt: skip


def _hybrid_mamba2(fields: Config, count: int) -> MixerMemory:
    return _mamba2(
        count,
        heads=_whole(fields, "mamba_n_heads"),
        head_dim=_whole(fields, "mamba_d_head"),
        state=_whole(fields, "mamba_d_state"),
        groups=_whole(fields, "mamba_n_groups"),
        kernel=_whole(fields, "mamba_d_conv"),
    )


# --- readers --------------------------------------------------------------------------------------


def _window(fields: Config) -> int | None:
    """Window as the configuration states it; None where it is null or switched off."""
    if _or_null(fields, _SPAN) is None:
        return None
    if fields["model_type"] in _SWITCHED:
        used = check_flag("use_sliding_window", _need(fields, "use_sliding_window"))
    else:
        used = fields.get("use_sliding_window", True)
    return _whole(fields, "sliding_window") if used else None


def _inside(fields: Config, count: int) -> int:
    """Layers with a window where no ``layer_types`` names them."""
    name = fields["model_type"]
    if period := _PERIODS.get(name):
        if name in _STATES_ITS_PERIOD and fields.get("sliding_window_pattern") is not None:
            period = _whole(fields, "sliding_window_pattern")
        return count - count // period
    if name == "smollm3":
        raise ValueError(
            "this 'smollm3' configuration has a window but no layer_types; only they tell which "
            "layers it belongs to. Pass the whole config.json."
        )
    if name in ("qwen2", "qwen2_moe", "qwen3"):
        first = check_count("max_window_layers", _need(fields, "max_window_layers"), 0)
        # Qwen2-MoE: every second of the first layers; the others: all but the first
        return -(-min(first, count) // 2) if name == "qwen2_moe" else max(0, count - first)
    return count


def _read_attention(fields: Config) -> Iterator[MixerMemory]:
    count = layer_count(fields)
    if listed := fields.get("layer_types"):
        inside = _kinds(fields).count(WINDOW)
        if len(listed) != _kinds(fields).count(FULL) + inside:
            raise ValueError(
                f"layer_types holds other layers than attention: {sorted(set(listed))}."
            )
        window = _whole(fields, "sliding_window") if inside else None
    else:
        window = _window(fields)
        inside = 0 if window is None else _inside(fields, count)
    yield _attention(fields, count - inside)
    if inside:
        yield _attention(fields, inside, window)


def _read_latent(fields: Config) -> Iterator[MixerMemory]:
    yield _latent_attention(fields, layer_count(fields))


def _read_mamba2(fields: Config) -> Iterator[MixerMemory]:
    yield _mamba2(
        layer_count(fields),
        heads=_whole(fields, "num_heads"),
        head_dim=_whole(fields, "head_dim"),
        state=_whole(fields, "state_size"),
        groups=_whole(fields, "n_groups"),
        kernel=_whole(fields, "conv_kernel"),
    )


def _read_bamba(fields: Config) -> Iterator[MixerMemory]:
    kinds = _kinds(fields)
    yield _hybrid_mamba2(fields, kinds.count(LINEAR))
    yield _attention(fields, kinds.count(FULL))


def _read_falcon_h1(fields: Config) -> Iterator[MixerMemory]:
    """Both mixers in every layer."""
    yield _hybrid_mamba2(fields, _whole(fields, "num_hidden_layers"))
    yield _attention(fields, _whole(fields, "num_hidden_layers"))


def _read_nemotron_h(fields: Config) -> Iterator[MixerMemory]:
    kinds = _kinds(fields)
    yield _mamba2(
        kinds.count(LINEAR),
        heads=_whole(fields, "mamba_num_heads"),
        head_dim=_whole(fields, "mamba_head_dim"),
        state=_whole(fields, "ssm_state_size"),
        groups=_whole(fields, "n_groups"),
        kernel=_whole(fields, "conv_kernel"),
    )
    yield _attention(fields, kinds.count(FULL))


def _read_gated_delta(fields: Config) -> Iterator[MixerMemory]:
    """A state per value head; the convolution runs over queries, keys and values."""
    kinds = _kinds(fields)
    keys, heads = _whole(fields, "linear_num_key_heads"), _whole(fields, "linear_num_value_heads")
    n, d_v = _whole(fields, "linear_key_head_dim"), _whole(fields, "linear_value_head_dim")
    channels = 2 * keys * n + heads * d_v
    yield MixerMemory(
        kind="gated delta rule", count=kinds.count(LINEAR), heads=heads, n=n, d_v=d_v,
        state=heads * n * d_v, convolution=channels * _whole(fields, "linear_conv_kernel_dim"),
    )  # fmt: skip
    yield _attention(fields, kinds.count(FULL))


def _read_kimi_linear(fields: Config) -> Iterator[MixerMemory]:
    """The checkpoint states the linear layers in ``linear_attn_config``, counted from 1."""
    inner = fields.get("linear_attn_config")
    if inner:
        if not isinstance(inner, Mapping):
            raise ValueError(f"linear_attn_config must hold fields, got {shown(inner)}.")
        inner = {**inner, "model_type": fields["model_type"]}
        fields = {
            "linear_num_heads": inner.get("num_heads"),
            "linear_head_dim": inner.get("head_dim"),
            "linear_conv_kernel_dim": inner.get("short_conv_kernel_size"),
            **fields,
        }
        linear, full = len(_list(inner, "kda_layers")), len(_list(inner, "full_attn_layers"))
        if linear + full != layer_count(fields):
            raise ValueError(
                f"kda_layers and full_attn_layers name {linear + full} layers, num_hidden_layers "
                f"is {layer_count(fields)}."
            )
    else:
        linear, full = (_kinds(fields).count(kind) for kind in (LINEAR, FULL))
    heads, width = _whole(fields, "linear_num_heads"), _whole(fields, "linear_head_dim")
    yield MixerMemory(
        kind="Kimi delta attention", count=linear, heads=heads, n=width, d_v=width,
        state=heads * width**2,
        convolution=3 * heads * width * _whole(fields, "linear_conv_kernel_dim"),
    )  # fmt: skip
    yield _latent_attention(fields, full)


def _read_minimax(fields: Config) -> Iterator[MixerMemory]:
    kinds = _kinds(fields)
    heads, width = _whole(fields, "num_attention_heads"), _whole(fields, "head_dim")
    yield MixerMemory(
        kind="lightning attention", count=kinds.count(LINEAR), heads=heads, n=width, d_v=width,
        state=heads * width**2,
    )  # fmt: skip
    yield _attention(fields, kinds.count(FULL))


def _read_xlstm(fields: Config) -> Iterator[MixerMemory]:
    """The matrix C, the normalizer n and the stabilizer m of each head."""
    width = _whole(fields, "hidden_size", "embedding_dim")
    heads = _whole(fields, "num_heads")
    keys, values = (
        -(-int(width * check_number(name, _need(fields, name))) // 64) * 64
        for name in ("qk_dim_factor", "v_dim_factor")
    )
    n, d_v = keys // heads, values // heads
    yield MixerMemory(
        kind="mLSTM", count=layer_count(fields), heads=heads, n=n, d_v=d_v,
        state=heads * (n * d_v + n + 1),
    )  # fmt: skip


def _read_rwkv7(fields: Config) -> Iterator[MixerMemory]:
    """A square state per head, and the token before for both mixings of a layer."""
    width, n = _whole(fields, "hidden_size"), _whole(fields, "head_dim", "head_size")
    values = fields.get("value_dim")
    if values is not None and {width} != set(values if isinstance(values, list) else [values]):
        raise ValueError(
            f"memory reads RWKV-7 with value_dim = hidden_size = {width}, got {values}."
        )
    yield MixerMemory(
        kind="RWKV-7", count=layer_count(fields), heads=width // n, n=n, d_v=n,
        state=width * n, convolution=2 * width,
    )  # fmt: skip


#: model_type -> mixers of the model, one entry per kind
READERS: dict[Any, Callable[[Config], Iterator[MixerMemory]]] = {
    **dict.fromkeys(
        (
            *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe"),
            *("gemma", "gemma2", "gemma3_text", "gpt_oss", "phi3", "olmo2", "granite"),
            *("cohere", "cohere2", "smollm3", "starcoder2"),
        ),
        _read_attention,
    ),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), _read_latent),
    **dict.fromkeys(("bamba", "granitemoehybrid"), _read_bamba),
    **dict.fromkeys(("minimax", "minimax_text_01"), _read_minimax),
    "falcon_h1": _read_falcon_h1,
    "kimi_linear": _read_kimi_linear,
    "mamba2": _read_mamba2,
    "nemotron_h": _read_nemotron_h,
    "qwen3_next": _read_gated_delta,
    "rwkv7": _read_rwkv7,
    "xlstm": _read_xlstm,
}
