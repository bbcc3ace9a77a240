"""``memory``: three configurations read by hand, the caches of transformers, refusals."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import zoo
from transformers.cache_utils import DynamicSlidingWindowLayer

from coefdyn.lens import ModelMemory, memory, memory_table, torch_operations
from coefdyn.lens.__main__ import main
from coefdyn.lens.cache.memory_readers import READERS

CONFIGS = Path(__file__).parents[2] / "data" / "configs"

#: model_type -> class with a small random model in the zoo, and fields that differ from it
SMALL: dict[str, tuple[str, dict[str, Any]]] = {
    "bamba": ("BambaForCausalLM", {}),
    "cohere": ("CohereForCausalLM", {}),
    "cohere2": ("Cohere2ForCausalLM", {"num_hidden_layers": 4, "layer_types": None}),
    "deepseek_v2": ("DeepseekV2ForCausalLM", {}),
    "deepseek_v3": ("DeepseekV3ForCausalLM", {}),
    "falcon_h1": ("FalconH1ForCausalLM", {}),
    "gemma2": ("Gemma2ForCausalLM", {"num_hidden_layers": 3}),
    "gpt_oss": ("GptOssForCausalLM", {"num_hidden_layers": 3}),
    "granite": ("GraniteForCausalLM", {}),
    "granitemoehybrid": ("GraniteMoeHybridForCausalLM", {}),
    "kimi_linear": ("KimiLinearForCausalLM", {}),
    "llama": ("LlamaForCausalLM", {}),
    "mamba2": ("Mamba2ForCausalLM", {}),
    "minimax": ("MiniMaxForCausalLM", {}),
    "mistral": ("MistralForCausalLM", {}),
    "nemotron_h": ("NemotronHForCausalLM", {}),
    "olmo2": ("Olmo2ForCausalLM", {}),
    "phi3": ("Phi3ForCausalLM", {"sliding_window": 9}),
    "qwen2": (
        "Qwen2ForCausalLM",
        {"num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 9}
        | {"max_window_layers": 1},
    ),
    "qwen3": ("Qwen3ForCausalLM", {}),
    "qwen3_next": ("Qwen3NextForCausalLM", {}),
    "smollm3": ("SmolLM3ForCausalLM", {}),
    "starcoder2": ("Starcoder2ForCausalLM", {"sliding_window": 9}),
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
OTHERS = {
    "gemma": ("Gemma", {"head_dim": 8}),
    "gemma3_text": ("Gemma3", {"head_dim": 8, "num_hidden_layers": 7, "sliding_window": 9}),
    "mixtral": ("Mixtral", {"num_local_experts": 2, "sliding_window": 9}),
    "qwen2_moe": ("Qwen2Moe", {**EXPERTS, "shared_expert_intermediate_size": 16}),
    "qwen3_moe": ("Qwen3Moe", {**EXPERTS, "head_dim": 8}),
    # its cache rounds the sizes of a head up to multiples of 64, its layers do not
    "xlstm": (
        "xLSTM",
        {"hidden_size": 128, "num_heads": 2, "chunk_size": 16, "mode": "inference"}
        | {"autocast_kernel_dtype": "float32", "step_kernel": "native"}
        | {"chunkwise_kernel": "chunkwise--native_autograd"}
        | {"sequence_kernel": "native_sequence__native"},
    ),
}
#: other layouts of the same checkpoints, and a model that transformers does not have
UNBUILT = {"minimax_text_01", "rwkv7"}


def small(model_type: str) -> torch.nn.Module:
    """A model with random weights."""
    if model_type in SMALL:
        return zoo.build(SMALL[model_type][0], **SMALL[model_type][1])
    name, changed = OTHERS[model_type]
    config = transformers.AutoConfig.for_model(model_type, **{**zoo.BASE, **changed})
    return getattr(transformers, f"{name}ForCausalLM")(config).eval()


def numbers(cache: Any, seen: dict[int, int]) -> int:
    """Floating-point numbers in a cache, each tensor once."""
    if isinstance(cache, torch.Tensor):
        if cache.is_floating_point():
            seen[id(cache)] = cache.numel()
        return sum(seen.values())
    inside = cache if isinstance(cache, (list, tuple)) else []
    if isinstance(cache, dict):
        inside = list(cache.values())
    elif hasattr(cache, "__dict__") and not isinstance(cache, transformers.PreTrainedConfig):
        inside = list(vars(cache).values())
    for part in inside:
        numbers(part, seen)
    return sum(seen.values())


def test_every_reader_is_tried_against_a_model() -> None:
    assert set(READERS) == set(SMALL) | set(OTHERS) | UNBUILT


@pytest.mark.parametrize("tokens", [5, 23])
@pytest.mark.parametrize("model_type", sorted(set(SMALL) | set(OTHERS)))
def test_numbers_are_those_of_the_cache(model_type: str, tokens: int) -> None:
    model = small(model_type)
    with torch.no_grad(), torch_operations(model):
        output = dict(model(zoo.ids(tokens, 1), use_cache=True))
    key = next(key for key in output if "cache" in key or "past" in key)
    found = numbers(output[key], {})
    asked = memory(model.config).total_bytes(tokens, cache_dtype="float32", state_dtype="float32")
    assert asked == 4 * found > 0


@pytest.mark.parametrize("model_type", ["cohere2", "gemma2", "gemma3_text", "gpt_oss", "qwen2"])
def test_layers_with_a_window_are_counted_without_a_list_of_layers(model_type: str) -> None:
    stated = small(model_type).config.to_dict()
    unlisted = {key: value for key, value in stated.items() if key != "layer_types"}
    assert memory(unlisted) == memory(stated)


TWELVE = {
    **{"num_hidden_layers": 12, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"hidden_size": 32, "head_dim": 8, "sliding_window": 9},
}


@pytest.mark.parametrize("first", [0, 5, 28])
@pytest.mark.parametrize("model_type", ["qwen2", "qwen2_moe", "qwen3", "qwen3_moe"])
def test_switched_windows_are_in_the_layers_of_transformers(model_type: str, first: int) -> None:
    stated = {**TWELVE, "use_sliding_window": True, "max_window_layers": first}
    assert windows(memory({**stated, "model_type": model_type})) == inside(model_type, stated)


@pytest.mark.parametrize("period", [None, 3])
@pytest.mark.parametrize("model_type", ["cohere2", "gemma2", "gemma3_text", "gpt_oss"])
def test_a_stated_period_replaces_the_usual_one(model_type: str, period: int | None) -> None:
    stated = {**TWELVE} if period is None else {**TWELVE, "sliding_window_pattern": period}
    assert windows(memory({**stated, "model_type": model_type})) == inside(model_type, stated)


def windows(kept: ModelMemory) -> int:
    return sum(mixer.count for mixer in kept.mixers if mixer.window is not None)


def inside(model_type: str, stated: dict[str, Any]) -> int:
    """Layers with a window in the cache that transformers makes."""
    config = transformers.AutoConfig.for_model(model_type, **stated)
    layers = transformers.DynamicCache(config=config).layers
    return sum(isinstance(layer, DynamicSlidingWindowLayer) for layer in layers)


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"model_type": "qwen2"}, "none of the fields use_sliding_window"),
        ({"model_type": "qwen3_moe"}, "none of the fields use_sliding_window"),
        ({"model_type": "qwen2", "use_sliding_window": True}, "fields max_window_layers"),
        ({"model_type": "qwen2", "use_sliding_window": "no"}, "must be True or False"),
        ({"model_type": "smollm3", "use_sliding_window": True}, "no layer_types"),
    ],
)
def test_a_window_is_not_placed_by_defaults(stated: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        memory({**TWELVE, **stated})


@pytest.mark.parametrize("name", ["num_key_value_heads", "head_dim", "sliding_window"])
@pytest.mark.parametrize("model_type", sorted(set(SMALL) | set(OTHERS)))
def test_an_absent_field_is_read_as_the_class_reads_it_or_refused(
    model_type: str, name: str
) -> None:
    stated = small(model_type).config.to_dict()
    rest = {key: value for key, value in stated.items() if key != name}
    if told := refusal(rest):
        assert f"none of the fields {name}" in told
        assert name in stated
    else:
        config = transformers.AutoConfig.for_model(**rest)
        assert memory(rest).total_bytes(99) == memory(config).total_bytes(99)


def refusal(config: dict[str, Any]) -> str:
    """What ``memory`` says against it; empty where it reads it."""
    try:
        memory(config)
    except ValueError as told:
        return str(told)
    return ""


def test_a_window_holds_one_token_fewer_than_it_reads() -> None:
    mixer = memory({**LLAMA_8B, "model_type": "mistral", "sliding_window": 4096}).mixers[0]
    assert mixer.cached(10) == 10 * 2 * 8 * 128
    assert mixer.cached(4096) == mixer.cached(10**6) == 4095 * 2 * 8 * 128


LLAMA_8B = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
}


def test_kimi_linear_by_hand() -> None:
    """Kimi-Linear-48B-A3B: 20 layers of KDA, 7 of latent attention, named one by one.

    State: 32 heads of 128 x 128 in float32 are 2 MiB; 20 layers 40 MiB. Convolution: queries, keys
    and values of 32 x 128 = 4096 channels over 4 tokens are 96 KiB in bfloat16; 20 layers 1920 KiB.
    Cache: 512 latents and 64 more are 576 numbers, 1152 bytes; 7 layers 8064 bytes a token.
    """
    kept = memory(CONFIGS / "kimi-linear-48b-a3b.json")
    assert [(m.kind, m.count) for m in kept.mixers] == [
        ("Kimi delta attention", 20),
        ("latent attention", 7),
    ]
    assert kept.state_bytes() == 40 * 2**20
    assert kept.convolution_bytes() == 1920 * 1024
    assert kept.bytes_per_token() == 8064
    assert kept.total_bytes(131_072) == 40 * 2**20 + 1920 * 1024 + 131_072 * 8064


def test_falcon_h1_as_llama_cpp_allocated_it() -> None:
    """A run of Falcon-H1-1.5B at 32 768 tokens: cache 768 MiB in two bytes, states 72.00 MiB and
    convolutions 0.98 MiB in float32, of which llama.cpp keeps 3 tokens where transformers keeps 4.

    Source: the allocation that https://github.com/GeniePod/genie-claw/issues/410 prints.
    """
    kept = memory(CONFIGS / "falcon-h1-1.5b.json")
    assert 32_768 * kept.bytes_per_token() == 768 * 2**20
    assert kept.state_bytes() == 72 * 2**20
    assert round(kept.convolution_bytes("float32") * 3 / 4 / 2**20, 2) == 0.98


def test_both_forms_of_a_kimi_configuration_agree() -> None:
    stated = json.loads((CONFIGS / "kimi-linear-48b-a3b.json").read_text(encoding="utf-8"))
    rebuilt = transformers.KimiLinearConfig(**stated)
    assert memory(rebuilt).mixers == memory(stated).mixers


def test_rwkv7_by_hand() -> None:
    """RWKV-7 2.9B: 2560 / 64 = 40 heads of 64 x 64 in 32 layers, and two tokens of 2560 each."""
    kept = memory(CONFIGS / "rwkv-7-2.9b.json")
    assert kept.state_bytes() == 32 * 40 * 64 * 64 * 4 == 20 * 2**20
    assert kept.convolution_bytes() == 32 * 2 * 2560 * 2
    assert kept.bytes_per_token() == 0


def test_every_kept_configuration_is_read_and_has_a_source() -> None:
    paths = sorted(CONFIGS.glob("*.json"))
    assert len(paths) >= 9
    for path in paths:
        stated = json.loads(path.read_text(encoding="utf-8"))
        assert memory(path).name == stated["_name"] and stated["_sources"]
        for source in stated["_sources"]:
            assert set(source) == {"fields", "where", "revision"}, path.name
            assert source["where"].startswith("https://")
        named = {name for source in stated["_sources"] for name in source["fields"]}
        assert named == {key for key in stated if key[0] != "_"} - {"model_type"}, path.name


def test_nested_configurations_are_read_at_their_text_model() -> None:
    nested = {"model_type": "some_vision_model", "text_config": LLAMA_8B, "_name": "seeing"}
    assert memory(nested).mixers == memory(LLAMA_8B).mixers and memory(nested).name == "seeing"


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"model_type": "jamba"}, "no reader for model_type 'jamba'.*did you mean"),
        ({}, "no reader for model_type None"),
        ({**LLAMA_8B, "num_hidden_layers": None}, "none of the fields num_hidden_layers"),
        ({**LLAMA_8B, "hidden_size": None}, "none of the fields hidden_size"),
        ({**LLAMA_8B, "num_attention_heads": 3.5}, "num_attention_heads must be a whole number"),
        ({**LLAMA_8B, "layer_types": ["full_attention"] * 3}, "3 layers are listed"),
        ({**LLAMA_8B, "layer_types": ["conv"] * 32}, "layers of the types conv"),
        ({**LLAMA_8B, "layer_types": ["linear_attention"] * 32}, "other layers than attention"),
        ({"model_type": "nemotron_h", "hybrid_override_pattern": "M?"}, "letters ?"),
        ({"model_type": "qwen3_next", "num_hidden_layers": 4}, "none of the fields"),
        ({"model_type": "rwkv7", "num_hidden_layers": 2, "hidden_size": 64, "head_dim": 64}
         | {"value_dim": [64, 128]}, "value_dim = hidden_size"),
        (7, "got int"),
    ],
)  # fmt: skip
def test_refusals_name_what_was_looked_for(config: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told.replace("?", r"\?")):
        memory(config)


@pytest.mark.parametrize("wrong", ["4", 4.5, -1, [], ["a"], [[]], {"a": 1}, None])
@pytest.mark.parametrize("name", [*sorted(path.name for path in CONFIGS.glob("*.json")), "window"])
def test_a_field_of_a_wrong_kind_is_a_value_error(name: str, wrong: Any) -> None:
    """No other error, whichever field it is; some fields are not read."""
    stated: dict[str, Any] = {**TWELVE, "model_type": "mistral", "layer_types": None}
    if name != "window":
        stated = json.loads((CONFIGS / name).read_text(encoding="utf-8"))
    for field in stated:
        with suppress(ValueError):
            memory({**stated, field: wrong}).total_bytes(9)
    for field in inner if isinstance(inner := stated.get("linear_attn_config"), dict) else ():
        with suppress(ValueError):
            memory({**stated, "linear_attn_config": {**inner, field: wrong}}).total_bytes(9)


def test_wrong_lengths_dtypes_and_paths_are_refused(tmp_path: Path) -> None:
    kept = memory(LLAMA_8B)
    with pytest.raises(ValueError, match="tokens must be a whole number >= 1"):
        kept.total_bytes(0)
    with pytest.raises(ValueError, match="a dtype of torch"):
        kept.total_bytes(5, cache_dtype="four bits")
    for dtype in ("int4", "uint1", "float4_e2m1fn_x2"):
        with pytest.raises(ValueError, match="several numbers in a byte"):
            kept.total_bytes(5, cache_dtype=dtype)
    assert 2 * kept.bytes_per_token("float8_e4m3fn") == kept.bytes_per_token()
    with pytest.raises(FileNotFoundError, match="is no file"):
        memory(tmp_path)


def test_the_command_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_8B), encoding="utf-8")
    assert main(["memory", str(tmp_path), str(CONFIGS / "mamba2-2.7b.json")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[2] == "| llama | 32 | 32 x attention (8: 128 by 128) | 0 | 128 | 4 | 16 |"
    assert printed[3].startswith("| Mamba-2 2.7B | 64 | 64 x Mamba-2 (80: 128 by 64) | 160 | 0 |")
    assert "\n".join(printed) == memory_table(
        [memory(tmp_path), memory(CONFIGS / "mamba2-2.7b.json")]
    )


def test_the_command_refuses_in_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "rwkv"}', encoding="utf-8")
    assert main(["memory", str(tmp_path)]) == 2
    assert "no reader for model_type 'rwkv'" in capsys.readouterr().err
    (tmp_path / "config.json").write_text('{"model_type": ', encoding="utf-8")
    assert main(["memory", str(tmp_path)]) == 2
    assert f"{tmp_path / 'config.json'} is no JSON" in capsys.readouterr().err
