"""Small GGUF files, made on the spot, for the tests of loading. Nothing here knows the reader under test."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize

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
