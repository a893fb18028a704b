"""Small GGUF files, made on the spot, for the tests of loading. Nothing here knows the reader under test."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize
from model_folders import LLAMA, byte_level_tokenizer, network_of

from engine.backend import tree_flatten

TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q8_0": 8, "Q2_K": 10, "Q4_K": 12, "Q6_K": 14}
TYPES |= {"IQ2_XXS": 16, "BF16": 30, "I32": 26}


def string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(entry: Any) -> bytes:
    """Type and value: bool, int (uint32, or int64 where it doesn't fit), float (float32), str, list of one kind."""
    if isinstance(entry, bytes):
        return entry
    if isinstance(entry, list):
        kind = value(entry[0])[:4] if entry else struct.pack("<I", 4)
        return struct.pack("<I", 9) + kind + struct.pack("<Q", len(entry)) + b"".join(value(one)[4:] for one in entry)
    if isinstance(entry, bool):
        return struct.pack("<I?", 7, entry)
    if isinstance(entry, int):
        return struct.pack("<II", 4, entry) if 0 <= entry < 2**32 else struct.pack("<Iq", 11, entry)
    if isinstance(entry, float):
        return struct.pack("<If", 6, entry)
    return struct.pack("<I", 8) + string(entry)


def pack(weights: np.ndarray, kind: str) -> bytes:
    """Weights as llama.cpp's own package lays them out."""
    return quantize(weights.astype(np.float32), GGMLQuantizationType[kind]).tobytes()


def unpacked(data: bytes, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    """What packed bytes stand for by that package, float32."""
    rows = np.frombuffer(data, np.uint8).reshape(math.prod(shape[:-1]), -1)
    return np.asarray(dequantize(rows, GGMLQuantizationType[kind])).reshape(shape)


def gguf_bytes(
    metadata: dict[str, Any], tensors: dict[str, tuple[tuple[int, ...], str, bytes]], version: int = 3
) -> bytes:
    """A whole file; `tensors`: shape (rows first), type by name, and packed weights, by name."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(string(key) + value(entry) for key, entry in metadata.items())
    body = b""
    for name, (shape, kind, data) in tensors.items():
        head += string(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += struct.pack("<IQ", TYPES[kind], len(body))
        body += data + bytes(-len(data) % 32)
    return head + bytes(-len(head) % 32) + body


def write_gguf(path: Path, metadata: dict[str, Any], tensors: dict[str, Any]) -> Path:
    path.write_bytes(gguf_bytes(metadata, tensors))
    return path


NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def random_weights(arguments: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """float32 weights, biases and norms too, by mlx-lm's names."""
    rng = np.random.default_rng(seed)
    flat: Any = tree_flatten(network_of(arguments).parameters())
    return {name: rng.normal(0, 0.3, array.shape).astype(np.float32) for name, array in flat}


def gguf_name(name: str) -> str:
    """llama.cpp's name of a weight of mlx-lm's."""
    module, _, part = name.rpartition(".")
    if module.startswith("model.layers."):
        _, _, layer, inner = module.split(".", 3)
        return f"blk.{layer}.{NAMES[inner]}.{part}"
    return f"{NAMES[module]}.{part}"


def interleaved(weights: np.ndarray, heads: int) -> np.ndarray:
    """Rows of queries or keys as llama.cpp's converter reorders them for llama."""
    split = weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:])
    return split.swapaxes(1, 2).reshape(weights.shape)


def tensors_of(arguments: dict[str, Any], weights: dict[str, np.ndarray], kind: str, **kinds: str) -> dict[str, Any]:
    """The tensors of a file, matrices of `kind` or as `kinds` says by name, norms F32."""
    tensors = {}
    for name, array in weights.items():
        heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}.get(name.split(".")[-2])
        stored = interleaved(array, arguments[heads]) if heads and arguments["model_type"] == "llama" else array
        ours = gguf_name(name)
        chosen = kinds.get(ours.split(".")[-2], kind) if array.ndim == 2 else "F32"
        tensors[ours] = (array.shape, chosen, pack(stored, chosen))
    return tensors


def network_metadata(arguments: dict[str, Any]) -> dict[str, Any]:
    kind = arguments["model_type"]
    entries = {
        "block_count": arguments["num_hidden_layers"],
        "context_length": arguments["max_position_embeddings"],
        "embedding_length": arguments["hidden_size"],
        "feed_forward_length": arguments["intermediate_size"],
        "attention.head_count": arguments["num_attention_heads"],
        "attention.head_count_kv": arguments["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": arguments["rms_norm_eps"],
        "rope.freq_base": arguments["rope_theta"],
    }
    if "head_dim" in arguments:
        entries["attention.key_length"] = entries["attention.value_length"] = arguments["head_dim"]
    return {"general.architecture": kind} | {f"{kind}.{key}": value for key, value in entries.items()}


def tokenizer_metadata(tokenizer: Any, pre: str = "gpt-2") -> dict[str, Any]:
    """Metadata of one of the tokenizers of model_folders; the last two or three ids are its added tokens."""
    model = json.loads(tokenizer.to_str())["model"]
    added = {entry["id"]: entry for entry in json.loads(tokenizer.to_str())["added_tokens"]}
    pieces = sorted(tokenizer.get_vocab().items(), key=lambda entry: entry[1])
    types = []
    for text, token in pieces:
        if token in added:
            types.append(3 if added[token]["special"] else 4)
        else:
            types.append(6 if text.startswith("<0x") else 1)
    entries: dict[str, Any] = {"tokens": [text for text, _ in pieces], "token_type": types}
    if model["byte_fallback"]:
        merged = ["".join(pair) for pair in model["merges"]]
        scores = [-float(merged.index(text)) if text in merged else -1000.0 for text, _ in pieces]
        entries |= {"model": "llama", "scores": scores, "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0}
    else:
        entries |= {"model": "gpt2", "pre": pre, "merges": [" ".join(pair) for pair in model["merges"]]}
        entries |= {"eos_token_id": len(pieces) - 3, "bos_token_id": len(pieces) - 2}
    return {f"tokenizer.ggml.{key}": value for key, value in entries.items()}


TOKENIZER = byte_level_tokenizer()
SIZE = TOKENIZER.get_vocab_size()
KINDS: dict[str, dict[str, Any]] = {
    "llama": {**LLAMA, "vocab_size": SIZE},
    "qwen2": {**LLAMA, "model_type": "qwen2", "vocab_size": SIZE, "tie_word_embeddings": False},
    "qwen3": {**LLAMA, "model_type": "qwen3", "vocab_size": SIZE, "head_dim": 16},
}


def write_model(path: Path, arguments: dict[str, Any], kind: str, tokenizer: Any = TOKENIZER, **kinds: str) -> Path:
    metadata = network_metadata(arguments) | tokenizer_metadata(tokenizer)
    return write_gguf(path, metadata, tensors_of(arguments, random_weights(arguments), kind, **kinds))
