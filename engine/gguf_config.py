"""What a GGUF file says of its network, in the words of mlx-lm: configuration and names of the weights. No MLX.

Source: the naming of llama.cpp's converter (gguf-py, constants.py), undone.
"""

from __future__ import annotations

import math
import re
from typing import Any

from engine.gguf import GgufFile
from engine.model_files import LoadError

ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Kinds of network that can be built from a GGUF file; Mistral's is called llama there."""
ROPE_FACTORS = "rope_freqs.weight"
"""The tensor of factors that Llama 3.1 and later stretch their rotary wavelengths by: no weight of the network."""

_OUTSIDE = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
_OUTPUT = "output.weight"
_INSIDE = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK = re.compile(r"blk\.(\d{1,6})\.(\w+)\.(weight|bias)", re.ASCII)


def network_config(file: GgufFile) -> dict[str, Any]:
    """config.json as mlx-lm would want it for this file; raises LoadError for what it can't express."""
    kind = file.architecture
    if kind not in ARCHITECTURES:
        raise LoadError(
            f"{file.path}: the architecture {kind!r} can't be built from a GGUF file: expected "
            f"{', '.join(ARCHITECTURES)}. Choose a safetensors copy of the model."
        )
    if file.metadata.get("split.count"):
        raise LoadError(f"{file.path} is one of {file.metadata['split.count']} parts: merge them into one file.")
    if file.metadata.get(f"{kind}.expert_count"):
        raise LoadError(f"{file.path}: a mixture of experts can't be built from a GGUF file.")
    heads = _positive(file, f"{kind}.attention.head_count")
    hidden = _positive(file, f"{kind}.embedding_length")
    head_dim = _positive(file, f"{kind}.attention.key_length", hidden // heads)
    tied = _OUTPUT not in file.tensors
    config = {
        "model_type": kind,
        "hidden_size": hidden,
        "num_hidden_layers": _positive(file, f"{kind}.block_count"),
        "intermediate_size": _positive(file, f"{kind}.feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": _positive(file, f"{kind}.attention.head_count_kv", heads),
        "head_dim": head_dim,
        "rms_norm_eps": file.number(f"{kind}.attention.layer_norm_rms_epsilon"),
        "rope_theta": file.number(f"{kind}.rope.freq_base", 10000.0),
        "max_position_embeddings": _positive(file, f"{kind}.context_length"),
        "vocab_size": _embedding_rows(file),
        "attention_bias": kind == "llama" and "blk.0.attn_q.bias" in file.tensors,
        "mlp_bias": kind == "llama" and "blk.0.ffn_gate.bias" in file.tensors,
        "tie_word_embeddings": tied,
    }
    _check_attention(file, config)
    if scaling := _rope_scaling(file, kind):
        config["rope_scaling"] = scaling
    return config


def _positive(file: GgufFile, key: str, default: int | None = None) -> int:
    value = file.whole(key, default)
    if not 1 <= value < 2**31:
        raise LoadError(f"{file.path}: {key}: expected a whole number from 1 on, found {value}.")
    return value


def _embedding_rows(file: GgufFile) -> int:
    embedding = file.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.shape) != 2:
        raise LoadError(f"{file.path}: expected a tensor token_embd.weight of two dimensions.")
    return embedding.shape[0]


def _check_attention(file: GgufFile, config: dict[str, Any]) -> None:
    """Refuse what mlx-lm's attention of this kind has no setting for."""
    kind, head_dim, heads = config["model_type"], config["head_dim"], config["num_attention_heads"]
    if heads % config["num_key_value_heads"] or head_dim % 2:
        raise LoadError(f"{file.path}: {heads} heads of {head_dim} don't go with their key-value heads.")
    for key in (f"{kind}.attention.value_length", f"{kind}.rope.dimension_count"):
        if file.whole(key, head_dim) != head_dim:
            raise LoadError(f"{file.path}: {key}: expected {head_dim}, found {file.whole(key)}.")
    if kind == "qwen2" and head_dim * heads != config["hidden_size"]:
        raise LoadError(f"{file.path}: heads of {head_dim} are not what qwen2 has.")
    numbers = [config["rms_norm_eps"], config["rope_theta"]]
    if min(numbers) <= 0:
        raise LoadError(
            f"{file.path}: the epsilon of its norms and the base of its rotation must be above 0: {numbers}."
        )


def _rope_scaling(file: GgufFile, kind: str) -> dict[str, Any] | None:
    name = file.text(f"{kind}.rope.scaling.type", "none")
    if name == "none":
        return None
    factor = file.number(f"{kind}.rope.scaling.factor", 0.0)
    if name != "linear" or factor <= 0 or ROPE_FACTORS in file.tensors:
        raise LoadError(f"{file.path}: {kind}.rope.scaling.type {name!r} with factor {factor:g} can't be built.")
    return {"rope_type": "linear", "factor": factor}


def weight_names(file: GgufFile, config: dict[str, Any]) -> dict[str, str]:
    """mlx-lm's name of every tensor of the file but ROPE_FACTORS; raises LoadError for one that has none."""
    names: dict[str, str] = {}
    for name in file.tensors:
        if name == ROPE_FACTORS:
            continue
        if name in _OUTSIDE or name == _OUTPUT:
            names[name] = _OUTSIDE.get(name, "lm_head.weight")
            continue
        match = _BLOCK.fullmatch(name)
        if match is None or match[2] not in _INSIDE or int(match[1]) >= config["num_hidden_layers"]:
            raise LoadError(f"{file.path}: the tensor {name!r} has no place in a {config['model_type']} network.")
        names[name] = f"model.layers.{int(match[1])}.{_INSIDE[match[2]]}.{match[3]}"
    layers = {name.split(".")[2] for name in names.values() if name.startswith("model.layers.")}
    if len(layers) != config["num_hidden_layers"]:
        raise LoadError(
            f"{file.path}: {config['num_hidden_layers']} layers are counted, weights are there for {len(layers)}."
        )
    if len(set(names.values())) < len(names):
        raise LoadError(f"{file.path}: two tensors stand for one weight.")
    if ROPE_FACTORS in file.tensors and file.tensors[ROPE_FACTORS].size != config["head_dim"] // 2:
        raise LoadError(f"{file.path}: {ROPE_FACTORS} has {file.tensors[ROPE_FACTORS].shape}.")
    return names


def rotated_heads(config: dict[str, Any], name: str) -> int:
    """How many heads' rows the converter has reordered in a weight of mlx-lm's name; 0: none.

    llama.cpp turns neighbouring dimensions of llama's queries and keys, where the published weights mean halves.
    """
    if config["model_type"] != "llama":
        return 0
    module = name.rpartition(".")[0].rpartition(".")[2]
    return {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}.get(module, 0)


def expected_shapes(config: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Shapes by the last two parts of mlx-lm's names, for the check before anything is allocated."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    weights: dict[str, tuple[int, ...]] = {
        "embed_tokens": (config["vocab_size"], hidden),
        "lm_head": (config["vocab_size"], hidden),
        "q_proj": (queries, hidden),
        "k_proj": (keys, hidden),
        "v_proj": (keys, hidden),
        "o_proj": (hidden, queries),
        "gate_proj": (inner, hidden),
        "up_proj": (inner, hidden),
        "down_proj": (hidden, inner),
    }
    shapes = {f"{name}.weight": shape for name, shape in weights.items()}
    shapes |= {f"{name}.bias": shape[:1] for name, shape in weights.items()}
    shapes |= {f"{name}.weight": (hidden,) for name in ("norm", "input_layernorm", "post_attention_layernorm")}
    return shapes | {"q_norm.weight": (head,), "k_norm.weight": (head,)}


def check_shapes(file: GgufFile, config: dict[str, Any], names: dict[str, str]) -> None:
    """Raise LoadError for a tensor whose shape isn't the one that the metadata asks for."""
    expected = expected_shapes(config)
    for name, ours in names.items():
        shape = expected[".".join(ours.split(".")[-2:])]
        if file.tensors[name].shape != shape:
            raise LoadError(f"{file.path}: {name}: expected the shape {shape}, found {file.tensors[name].shape}.")


def parameters(file: GgufFile) -> int:
    """Number of weights in the file."""
    return sum(math.prod(tensor.shape) for name, tensor in file.tensors.items() if name != ROPE_FACTORS)
