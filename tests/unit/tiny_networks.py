"""Tiny models with random weights of every kind of cache, as language models over 64 words, and drafters of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from model_folders import network_of

from engine.backend import mx, tree_flatten
from engine.models import LanguageModel
from engine.rounds import ModelInfo
from engine.text import toy_vocabulary

WORDS = 64
WINDOW = 16
PROMPT = [3, 5, 7, 9]

_SHARED = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "vocab_size": WORDS}
_KV = {**_SHARED, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-5, "head_dim": 16}
_MAMBA = {
    "vocab_size": WORDS,
    "hidden_size": 32,
    "intermediate_size": 64,
    "state_size": 16,
    "num_hidden_layers": 2,
    "conv_kernel": 4,
    "use_bias": False,
    "use_conv_bias": True,
}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": _KV,
    "qwen3": {**_KV, "max_position_embeddings": 512, "rope_theta": 10000.0, "tie_word_embeddings": True},
    "gemma3_text": {
        **_KV,
        "num_hidden_layers": 3,
        "sliding_window": WINDOW,
        "sliding_window_pattern": 3,
        "query_pre_attn_scalar": 16,
        "rope_global_base_freq": 1000000.0,
        "rope_local_base_freq": 10000.0,
    },
    "mamba": {**_MAMBA, "time_step_rank": 4},
    "mamba2": {
        **_MAMBA,
        "num_heads": 4,
        "head_dim": 16,
        "layer_norm_epsilon": 1e-5,
        "n_groups": 1,
        "tie_word_embeddings": True,
        "time_step_limit": [0.0, 100.0],
        "time_step_rank": "auto",
        "ssm_state_size": 16,
        "max_position_embeddings": 512,
    },
    "rwkv7": {
        "vocab_size": WORDS,
        "hidden_size": 64,
        "intermediate_size": 128,
        "norm_eps": 1e-5,
        "head_dim": 16,
        "num_hidden_layers": 2,
        "a_low_rank_dim": 8,
        "v_low_rank_dim": 8,
        "gate_low_rank_dim": 8,
        "decay_low_rank_dim": 8,
    },
    "qwen3_next": {
        **_KV,
        "num_hidden_layers": 2,
        "linear_num_value_heads": 4,
        "linear_num_key_heads": 2,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "decoder_sparse_step": 1,
        "shared_expert_intermediate_size": 64,
        "mlp_only_layers": [],
        "moe_intermediate_size": 64,
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
        "max_position_embeddings": 512,
        "norm_topk_prob": True,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "full_attention_interval": 2,
    },
    "recurrent_gemma": {
        **_SHARED,
        "attention_bias": False,
        "conv1d_width": 4,
        "logits_soft_cap": 30.0,
        "num_hidden_layers": 3,
        "num_key_value_heads": 1,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "attention_window_size": WINDOW,
        "block_types": ["recurrent", "recurrent", "attention"],
    },
}
TRIMMED = ("llama", "qwen3")
RESTORED = tuple(name for name in ARCHITECTURES if name not in TRIMMED)


def tiny_model(
    name: str, seed: int = 1, make_cache: Callable[[], list[Any]] | None = None, **arguments: Any
) -> LanguageModel:
    """A model whose greedy text goes on changing: larger weights than random ones have, and noise on all of them."""
    from mlx_lm.models.cache import make_prompt_cache

    mx.random.seed(seed)
    network = network_of({"model_type": name, **ARCHITECTURES[name], **arguments})
    keys = iter(mx.random.split(mx.random.key(seed), 200))
    flat: Any = tree_flatten(network.parameters())
    network.load_weights([(path, _stirred(weight, next(keys))) for path, weight in flat])
    network.eval()
    mx.eval(network.parameters())
    kinds = dict.fromkeys(type(layer).__name__ for layer in make_prompt_cache(network))
    info = ModelInfo(f"tiny {name}", "", name, 0, len(network.layers), WORDS, None, "float32", ", ".join(kinds))
    return LanguageModel(
        network,
        info,
        toy_vocabulary([f" {word}" for word in range(WORDS)], ()),
        lambda text: [int(word) for word in text.split()],
        make_cache or (lambda: list(make_prompt_cache(network))),
    )


def _stirred(weight: mx.array, key: mx.array) -> mx.array:
    random, noise = mx.random.split(key)
    scale = 3 / weight.shape[-1] ** 0.5
    body = scale * mx.random.normal(weight.shape, key=random) if weight.ndim == 2 else weight
    return body + 0.3 * mx.random.normal(weight.shape, key=noise)


def often_wrong(model: LanguageModel, tenths: int = 4) -> LanguageModel:
    """The same network, but behind so many tenths of the words it is certain of another word: a drafter to reject."""

    def network(ids: mx.array, cache: list[Any] | None = None) -> mx.array:
        logits = model.network(ids, cache=cache)
        misled = (ids * 7919 % 10 < tenths)[..., None]
        return mx.where(misled & (mx.arange(WORDS) == (ids[..., None] * 31 + 11) % WORDS), 100.0, logits)

    return dataclasses.replace(model, network=network)


def plain_decoding(model: LanguageModel, tokens: int, **options: Any) -> tuple[list[int], list[float]]:
    """mlx-lm's own greedy stream without drafts, and the gap between the two largest log-probabilities of each."""
    from mlx_lm.generate import generate_step

    found, gaps = [], []
    steps = generate_step(
        mx.array(PROMPT), model.network, max_tokens=tokens, prompt_cache=model.make_cache(), **options
    )
    for token, row in steps:
        found.append(int(token))
        best = mx.sort(row)[-2:]
        gaps.append(float(best[1] - best[0]))
    return found, gaps
