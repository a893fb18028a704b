"""What a layer of a cache can do: be trimmed, be put back as it was, be quantized; and what can't, in words."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.backend import mx
from engine.rounds import LayerInfo
from engine.settings import KV_GROUPS, Settings

WINDOWED = ("RotatingKVCache", "BatchRotatingKVCache")
CHUNKED = ("ChunkedKVCache",)


def parts_of(layer: Any) -> Sequence[Any]:
    """The caches in a list of caches; the layer itself where it is none."""
    parts = getattr(layer, "caches", None)
    return parts if isinstance(parts, list | tuple) else (layer,)


def always_trims(layer: Any) -> bool:
    """Whether any number of tokens can be taken off, whatever the layer holds."""
    return all(
        type(part).__name__ not in (*WINDOWED, *CHUNKED) and bool(part.is_trimmable()) for part in parts_of(layer)
    )


def trims_exactly(layer: Any, ahead: int = 0) -> bool:
    """Whether tokens can be taken off now, or once `ahead` more were fed.

    A sliding window lets go of nothing until it holds more than its size; it says of itself that it can be trimmed
    only below that, and trims nothing, in silence, above it.
    """
    return all(_part_trims(part, ahead) for part in parts_of(layer))


def _part_trims(part: Any, ahead: int) -> bool:
    name = type(part).__name__
    if name in WINDOWED:
        return bool(part.offset + ahead <= part.max_size)
    if name in CHUNKED:
        return bool(part.offset + ahead <= part.chunk_size)
    return bool(part.is_trimmable())


def as_it_is(layer: Any) -> Any:
    """A layer that holds what this one holds now and shares its buffers: nothing is copied or computed.

    MLX writes `keys[..., a:b, :] = x` into the Python object, so every array gets an object of its own; the buffer
    is copied by MLX if one of the two is written to while the other lives.
    """
    made = copy.copy(layer)
    for name, value in vars(layer).items():
        setattr(made, name, _handle(value))
    return made


def _handle(value: Any) -> Any:
    if isinstance(value, mx.array):
        return copy.copy(value)
    if isinstance(value, list | tuple):
        return type(value)(_handle(part) for part in value)
    if isinstance(value, dict):
        return {name: _handle(part) for name, part in value.items()}
    return as_it_is(value) if hasattr(value, "is_trimmable") else value


def refused_caches(cache: Iterable[Any]) -> list[str]:
    """Names of the cache classes that can be neither trimmed nor put back, each with its reason, without repeats."""
    refused: dict[str, None] = {}
    for layer in cache:
        for part in parts_of(layer):
            name = type(part).__name__
            if getattr(part, "keep", 0):
                reason = f"it keeps its first {part.keep} tokens, which passes over several tokens don't see"
                refused[f"{name} ({reason})"] = None
            missing = [what for what in ("state", "is_trimmable") if not hasattr(part, what)]
            if missing:
                refused[f"{name} (it has no {' and no '.join(missing)})"] = None
            elif not always_trims(part) and not hasattr(part, "__dict__"):
                refused[f"{name} (what it holds can't be kept)"] = None
    return list(refused)


def why_not_restorable(forward: Callable[[mx.array, list[Any]], mx.array], cache: list[Any]) -> str | None:
    """Try on an empty cache whether a snapshot brings it back: the same pass must give the same logits twice.

    None if it does, or if every layer can be trimmed. It catches a network that keeps state beside its cache.
    """
    if all(always_trims(layer) for layer in cache):
        return None
    mx.eval(forward(mx.array([[0, 0, 0]]), cache))
    kept = [as_it_is(layer) for layer in cache]
    first = forward(mx.array([[0, 0]]), cache)
    mx.eval(first, forward(mx.array([[0]]), cache))
    again = forward(mx.array([[0, 0]]), kept)
    if mx.array_equal(first, again, equal_nan=True).item():
        return None
    names = ", ".join(dict.fromkeys(type(layer).__name__ for layer in cache if not always_trims(layer)))
    return f"{names} (a snapshot of it doesn't bring the network back to where it was)"


def describe(layer: Any, quantization: KVQuantization | None = None) -> LayerInfo:
    """What is shown of a layer; what a token takes is known once it holds some."""
    names = [type(part).__name__ for part in parts_of(layer)]
    name = type(layer).__name__ if len(names) == 1 else f"{type(layer).__name__}({', '.join(names)})"
    window = getattr(layer, "max_size", None) if names[0] in WINDOWED else None
    notes = []
    if window is not None:
        notes.append(f"a window of {window} tokens: trimmed until it is full, then put back from a snapshot")
    elif not always_trims(layer):
        notes.append("can't be trimmed: put back from a snapshot")
    if (bits := getattr(layer, "bits", None)) is not None:
        notes.append(f"{bits} bits in groups of {layer.group_size}")
    elif quantization is not None and hasattr(layer, "to_quantized"):
        notes.append(f"{quantization.bits} bits from {quantization.start} tokens on")
    return LayerInfo(name, always_trims(layer), _bytes_per_token(layer), "; ".join(notes), window)


def _bytes_per_token(layer: Any) -> float | None:
    """Of a layer that holds keys and values (batch, heads, room, size); None for another kind, or an empty one."""
    parts: list[Any] = []
    for name in ("keys", "values"):
        value = getattr(layer, name, None)
        parts += value if isinstance(value, list | tuple) else [value]  # packed values, scales and biases
    if not parts or not all(isinstance(part, mx.array) and part.ndim == 4 and part.shape[2] for part in parts):
        return None
    return float(sum(part.nbytes / part.shape[2] for part in parts))


def snapshot_notice(caches: dict[str, Iterable[Any]]) -> str | None:
    """What the banner says of layers that can't be trimmed to any position; None without any. By model: its layers."""
    owners = []
    for who, layers in caches.items():
        names = dict.fromkeys(_untrimmable(layer) for layer in layers if not always_trims(layer))
        if names:
            owners.append(f"the {who}'s {' and '.join(names)}")
    if not owners:
        return None
    return (
        f"Rewound by snapshot and replay: {', '.join(owners)} can't be trimmed, "
        "so a rejection costs a further pass over the kept tokens."
    )


def _untrimmable(layer: Any) -> str:
    name = describe(layer).type
    return name if name not in WINDOWED else f"{name} (once its window of {layer.max_size} is full)"


@dataclass(frozen=True)
class KVQuantization:
    """Keys and values kept in so many bits, in groups, as soon as more than `start` tokens are held."""

    bits: int
    group_size: int
    start: int


def kv_quantization(settings: Settings) -> KVQuantization | None:
    """How the settings want keys and values kept; None: as the network makes them."""
    if not settings.kv_bits:
        return None
    return KVQuantization(settings.kv_bits, settings.kv_group_size, settings.kv_start)


def quantize_layers(layers: list[Any], quantization: KVQuantization) -> None:
    """Put quantized caches in the place of those that can be, as mlx-lm does; lazy."""
    for index, layer in enumerate(layers):
        if hasattr(layer, "to_quantized"):
            layers[index] = layer.to_quantized(group_size=quantization.group_size, bits=quantization.bits)


def why_not_quantizable(
    forward: Callable[[mx.array, list[Any]], mx.array], make_cache: Callable[[], list[Any]], wanted: KVQuantization
) -> str | None:
    """Why a model's keys and values can't be quantized like this, in words; None if they can. Tries it on two tokens.

    Recurrent layers hold none and stay as they are.
    """
    cache = make_cache()
    for layer in cache:
        name = describe(layer).type
        if any(type(part).__name__ in WINDOWED for part in parts_of(layer)):
            return f"MLX can't quantize {name}, its sliding window"
        if not hasattr(layer, "to_quantized") and type(layer).__name__ != "ArraysCache":
            return f"MLX can't quantize its {name}"
    held = [layer for layer in cache if hasattr(layer, "to_quantized")]
    if not held:
        names = ", ".join(dict.fromkeys(type(layer).__name__ for layer in cache))
        return f"its cache ({names}) holds no keys and values that could be"
    mx.eval(forward(mx.array([[0]]), cache))
    sizes = {int(part.shape[-1]) for layer in held for part in (layer.keys, layer.values)}
    if wrong := sorted(size for size in sizes if size % wanted.group_size):
        fitting = [group for group in KV_GROUPS if not any(size % group for size in sizes)]
        other = f" (kv_group_size {fitting[-1]} would do)" if fitting else ""
        return f"its head size {wrong[0]} isn't a multiple of the group size {wanted.group_size}{other}"
    try:
        quantize_layers(cache, wanted)
        mx.eval(forward(mx.array([[0, 0]]), cache))
        empty = make_cache()
        quantize_layers(empty, wanted)
        mx.eval(forward(mx.array([[0]]), empty))
    except Exception as error:  # whatever a combination that MLX doesn't know leads to
        return f"MLX can't do it ({' '.join(str(error).split())[:200]})"
    return None
