"""Small random models of other people's classes, every mechanism of the lens among them."""

from __future__ import annotations

from collections.abc import Callable

import torch
import transformers
from torch import nn

VOCAB = 61

BASE = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GDN = {
    "head_dim": 8,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "num_hidden_layers": 4,
}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "shared_expert_intermediate_size": 16,
}
MAMBA2 = {
    "mamba_n_heads": 8,
    "mamba_d_head": 8,
    "mamba_d_state": 8,
    "mamba_n_groups": 2,
    "mamba_expand": 2,
    "mamba_chunk_size": 16,
}

#: class -> (configuration class, its options, mechanisms that must be seen)
CLASSES: dict[str, tuple[str, dict, set[str]]] = {}


def _add(name: str, mechanisms: str | set[str] = "softmax attention", **options) -> None:
    seen = {mechanisms} if isinstance(mechanisms, str) else mechanisms
    CLASSES[f"{name}ForCausalLM"] = (f"{name}Config", {**BASE, **options}, seen)


_add("Llama")
_add("Mistral", sliding_window=7)
_add("Qwen2")
_add("Qwen3", head_dim=8)
_add("Gemma2", head_dim=8, sliding_window=9, query_pre_attn_scalar=8)
_add("GptOss", head_dim=8, sliding_window=9, num_local_experts=4, num_experts_per_tok=2)
_add("GPTNeoX")
_add("Phi3")
_add("Olmo2")
_add("Cohere")
_add("SmolLM3")
_add("Starcoder2")
_add("Granite")
_add("Qwen3Next", {"gated deltanet", "softmax attention"}, **GDN, **EXPERTS)
_add("OlmoHybrid", {"gated deltanet", "softmax attention"}, **GDN)
_add(
    "KimiLinear",
    {"kimi delta attention", "softmax attention"},
    layer_types=["linear_attention", "full_attention"],
    kv_lora_rank=16,
    qk_rope_head_dim=8,
    qk_nope_head_dim=8,
    v_head_dim=8,
    linear_head_dim=8,
    linear_num_heads=4,
    num_local_experts=4,
    num_experts_per_tok=2,
    num_key_value_heads=4,
    moe_intermediate_size=16,
)
_add("Bamba", {"mamba-2", "softmax attention"}, attn_layer_indices=[1], **MAMBA2)
_add("FalconH1", {"mamba-2", "softmax attention"}, mamba_d_ssm=64, **MAMBA2)
_add(
    "GraniteMoeHybrid",
    {"mamba-2", "softmax attention"},
    layer_types=["mamba", "attention"],
    num_local_experts=2,
    num_experts_per_tok=1,
    shared_intermediate_size=16,
    position_embedding_type="rope",
    **MAMBA2,
)
_add(
    "Jamba",
    {"mamba-1", "softmax attention"},
    attn_layer_period=2,
    attn_layer_offset=1,
    num_experts=2,
    mamba_d_state=8,
    mamba_expand=2,
    use_mamba_kernels=False,
)
_add(
    "Zamba2",
    {"mamba-2", "softmax attention"},
    num_hidden_layers=3,
    layers_block_type=["mamba", "hybrid", "hybrid"],
    num_key_value_heads=4,
    mamba_ngroups=2,
    n_mamba_heads=8,
    mamba_headdim=8,
    mamba_d_state=8,
    chunk_size=16,
    num_mem_blocks=1,
)
_add(
    "MiniMax",
    {"lightning attention", "softmax attention"},
    layer_types=["linear_attention", "full_attention"],
    num_local_experts=2,
    num_experts_per_tok=1,
    block_size=16,
    head_dim=8,
)
_add(
    "RecurrentGemma",
    {"rg-lru", "softmax attention"},
    num_hidden_layers=3,
    lru_width=32,
    head_dim=8,
    attention_window_size=9,
    num_key_value_heads=1,
)


_add("GPTJ", n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=256)
_add("CodeGen", n_embd=32, n_layer=2, n_head=4, rotary_dim=4, n_positions=256)
_add("Bloom", n_layer=2, n_head=4)
_add("Mpt", d_model=32, n_layers=2, n_heads=4, max_seq_len=256, expansion_ratio=2)


def _gpt_neo() -> nn.Module:
    config = transformers.GPTNeoConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_layers=2,
        attention_types=[[["global", "local"], 1]],
        num_heads=4,
        window_size=9,
        max_position_embeddings=256,
    )
    return transformers.GPTNeoForCausalLM(config)


def _falcon(alibi: bool) -> nn.Module:
    config = transformers.FalconConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        alibi=alibi,
        new_decoder_architecture=False,
        multi_query=not alibi,
        pad_token_id=0,
    )
    return transformers.FalconForCausalLM(config)


def _gpt2() -> nn.Module:
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_embd=32, n_layer=2, n_head=4, n_positions=256
    )
    return transformers.GPT2LMHeadModel(config)


def _opt() -> nn.Module:
    config = transformers.OPTConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        ffn_dim=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=256,
        word_embed_proj_dim=32,
    )
    return transformers.OPTForCausalLM(config)


def _mamba() -> nn.Module:
    config = transformers.MambaConfig(
        vocab_size=VOCAB, hidden_size=16, state_size=8, num_hidden_layers=2
    )
    return transformers.MambaForCausalLM(config)


def _falcon_mamba() -> nn.Module:
    config = transformers.FalconMambaConfig(
        vocab_size=VOCAB, hidden_size=16, state_size=8, num_hidden_layers=2
    )
    return transformers.FalconMambaForCausalLM(config)


def _mamba2() -> nn.Module:
    config = transformers.Mamba2Config(
        vocab_size=VOCAB,
        hidden_size=32,
        num_heads=8,
        head_dim=8,
        state_size=8,
        n_groups=2,
        chunk_size=16,
        num_hidden_layers=2,
    )
    return transformers.Mamba2ForCausalLM(config)


def _xlstm() -> nn.Module:
    config = transformers.xLSTMConfig(
        vocab_size=VOCAB,
        hidden_size=32,
        num_hidden_layers=2,
        num_heads=2,
        chunk_size=16,
        autocast_kernel_dtype="float32",
        mode="inference",
        use_cache=False,
        chunkwise_kernel="chunkwise--native_autograd",
        sequence_kernel="native_sequence__native",
        step_kernel="native",
    )
    return transformers.xLSTMForCausalLM(config)


MADE: dict[str, tuple[Callable[[], nn.Module], set[str]]] = {
    "GPTNeoForCausalLM": (_gpt_neo, {"softmax attention"}),
    "FalconForCausalLM": (lambda: _falcon(False), {"softmax attention"}),
    "FalconForCausalLM with ALiBi": (lambda: _falcon(True), {"softmax attention"}),
    "GPT2LMHeadModel": (_gpt2, {"softmax attention"}),
    "OPTForCausalLM": (_opt, {"softmax attention"}),
    "MambaForCausalLM": (_mamba, {"mamba-1"}),
    "FalconMambaForCausalLM": (_falcon_mamba, {"mamba-1"}),
    "Mamba2ForCausalLM": (_mamba2, {"mamba-2"}),
    "xLSTMForCausalLM": (_xlstm, {"mlstm"}),
}

NAMES = (*CLASSES, *MADE)

# Classes whose mixers run in a way that one of those above has, too: read, and no more.
_add("Cohere2", sliding_window=9, layer_types=["sliding_attention", "full_attention"])
LATENT = {
    "kv_lora_rank": 16,
    "q_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
    "num_key_value_heads": 4,
}
ROUTED = {
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
_add("DeepseekV2", n_shared_experts=1, topk_method="greedy", **LATENT, **ROUTED)
_add("DeepseekV3", **LATENT, **ROUTED)
_add(
    "NemotronH",
    {"mamba-2", "softmax attention"},
    layers_block_type=["mamba", "attention"],
    head_dim=8,
    mamba_num_heads=8,
    mamba_head_dim=8,
    ssm_state_size=8,
    n_groups=2,
    chunk_size=16,
)
_add("Lfm2", {"short convolution", "softmax attention"}, layer_types=["conv", "full_attention"])
_add("HunYuanDenseV1", head_dim=8)
_add("HunYuanMoEV1", head_dim=8, num_experts=4, moe_topk=2, moe_intermediate_size=16)
_add("Glm4", head_dim=8)
_add("Glm4Moe", head_dim=8, **ROUTED)
_add("Exaone4", sliding_window=9, layer_types=["sliding_attention", "full_attention"])
_add("Apertus")
_add("Helium", head_dim=8)
_add("BitNet")
_add("DiffLlama")
_add("JetMoe", kv_channels=8, num_local_experts=4, num_experts_per_tok=2)
_add("StableLm")
_add("Persimmon", num_key_value_heads=4)
_add("GPTBigCode", n_embd=32, n_layer=2, n_head=4, n_positions=256)


def _qwen2_vl() -> nn.Module:
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 1e4}
    config = transformers.Qwen2VLConfig(
        text_config={**BASE, "rope_parameters": rope},
        vision_config={"depth": 1, "embed_dim": 16, "hidden_size": 32, "num_heads": 2},
    )
    return transformers.Qwen2VLForConditionalGeneration(config)


MADE["Qwen2VLForConditionalGeneration"] = (_qwen2_vl, {"softmax attention"})

EVERY = (*CLASSES, *MADE)


def build(name: str, seed: int = 0, **changed) -> nn.Module:
    """A model of that class with random weights, in eval mode; kernels of packages aside."""
    torch.manual_seed(seed)
    if name in MADE:
        model = MADE[name][0]()
    else:
        config_name, options, _ = CLASSES[name]
        config = getattr(transformers, config_name)(**{**options, **changed})
        model = getattr(transformers, name)(config)
    with torch.no_grad():
        for weight in model.parameters():  # beyond an initialisation at which much is near zero
            if weight.ndim >= 2:
                weight.mul_(3.0)
    return model.eval()


def mechanisms(name: str) -> set[str]:
    return MADE[name][1] if name in MADE else CLASSES[name][2]


def ids(length: int = 37, batch: int = 2, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCAB, (batch, length), generator=generator)
