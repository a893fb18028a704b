"""What a model will be, and whether it fits this machine, from its headers alone: nothing is loaded. No MLX."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine import gguf_config, model_files
from engine.gguf import PACKED_BITS, GgufFile, read_gguf
from engine.model_files import LoadError
from engine.weight_files import StoredTensor, check_weights

_FLOATS = ("F32", "F16", "BF16")
_SHORT_CONTEXT = 4096  # tokens; what the cache of a usual run holds at most
_GROUP = 32  # weights that share a scale in a GGUF file
_SPARE = 0.9  # of the free memory; the rest is for logits, for work, and for the window


class TooLargeError(LoadError):
    """The models would not fit into the memory that is free; `allow_large` tries it nevertheless."""


@dataclass(frozen=True)
class ModelSummary:
    """A model before it is loaded. Bytes are estimates but for `file_bytes`; None: the configuration doesn't tell.

    `kind`: "folder" or "gguf". `quantization`: "4-bit, groups of 64", "Q4_1, Q8_0", or "none".
    `weight_bytes`: as they will be held. `cache_bytes_per_token`: keys and values of all layers.
    `to_unpack`: types that can't be held packed, so that the model loads only if unpacking is allowed.
    """

    path: Path
    kind: str
    architecture: str
    parameters: int
    layers: int | None
    vocab_size: int | None
    context_length: int | None
    quantization: str
    file_bytes: int
    weight_bytes: int
    cache_bytes_per_token: int | None
    to_unpack: tuple[str, ...] = ()

    def memory_bytes(self, tokens: int | None = None) -> int:
        """Weights and the cache of a text of `tokens`, of the whole context length where none are given."""
        length = tokens if tokens is not None else self.context_length
        return self.weight_bytes + (self.cache_bytes_per_token or 0) * (length or _SHORT_CONTEXT)

    @property
    def usual_bytes(self) -> int:
        """Weights and the cache of a text of at most 4,096 tokens: what a load is judged by."""
        return self.memory_bytes(min(self.context_length or _SHORT_CONTEXT, _SHORT_CONTEXT))


@dataclass(frozen=True)
class Fit:
    """Whether models fit: bytes that they need and that are free, and both in a sentence."""

    fits: bool
    needed_bytes: int
    free_bytes: int
    words: str


def describe_source(place: Path | str, on_cpu: bool) -> ModelSummary:
    """Read the headers of a folder or a GGUF file; raises LoadError for what couldn't be loaded for its files' sake.

    `on_cpu`: everything that isn't packed will be held in float32.
    """
    path = model_files.model_path(place)
    try:
        return _describe_gguf(read_gguf(path), on_cpu) if path.is_file() else _describe_folder(path, on_cpu)
    except OSError as error:
        raise LoadError(f"{path} can't be read ({error}).") from error


def memory_of_machine() -> tuple[int, int]:
    """(bytes of memory in this machine, bytes that programs could take now)."""
    import psutil

    memory = psutil.virtual_memory()
    return int(memory.total), int(memory.available)


def fits(models: Iterable[ModelSummary], free_bytes: int | None = None) -> Fit:
    """Whether the models fit together into the memory that is free; the verdict names both figures."""
    summaries = list(models)
    free = memory_of_machine()[1] if free_bytes is None else free_bytes
    needed = sum(model.usual_bytes for model in summaries)
    fit = needed <= free * _SPARE
    names = " and ".join(model.path.name for model in summaries)
    verb = "needs" if len(summaries) == 1 else "need"
    words = f"{names} {verb} about {in_gib(needed)} of memory, {in_gib(free)} are free"
    return Fit(
        fit, needed, free, f"{words}." if fit else f"{words}: {'it' if verb == 'needs' else 'they'} would not fit."
    )


def check_fits(models: Iterable[ModelSummary]) -> None:
    """Raise TooLargeError if the models would not fit together."""
    verdict = fits(models)
    if not verdict.fits:
        raise TooLargeError(f"{verdict.words} Choose a smaller model, or allow it to be tried.")


def in_gib(size: int) -> str:
    """Bytes in words: "1.4 GiB", "12 MiB"."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**29 else f"{max(size / 2**20, 0.1):.{0 if size >= 2**20 else 1}f} MiB"


def _describe_gguf(file: GgufFile, on_cpu: bool) -> ModelSummary:
    config = gguf_config.network_config(file)
    gguf_config.check_shapes(file, config, gguf_config.weight_names(file, config))
    packed = sorted({tensor.type for tensor in file.tensors.values()} - set(_FLOATS))
    held = 0
    wide = on_cpu or {tensor.type for tensor in file.tensors.values()} == {"F32"}
    for tensor in file.tensors.values():
        if tensor.type in PACKED_BITS:
            held += tensor.size * PACKED_BITS[tensor.type] // 8 + tensor.size // _GROUP * 2 * (4 if wide else 2)
        else:
            held += tensor.size * (4 if wide else 2)
    return ModelSummary(
        path=file.path,
        kind="gguf",
        architecture=config["model_type"],
        parameters=gguf_config.parameters(file),
        layers=config["num_hidden_layers"],
        vocab_size=config["vocab_size"],
        context_length=config["max_position_embeddings"],
        quantization=", ".join(packed) or "none",
        file_bytes=model_files.file_size(file.path),
        weight_bytes=held,
        cache_bytes_per_token=_cache_bytes(config, 4 if wide else 2),
        to_unpack=file.unpacked_types,
    )


def _describe_folder(folder: Path, on_cpu: bool) -> ModelSummary:
    config = model_files.read_config(folder)
    tensors = check_weights(folder)
    model_files.check_layers(folder, config, tensors)
    text = model_files.text_config(config)
    widths = [4 if on_cpu or tensor.dtype == "F32" else 2 for tensor in tensors.values() if tensor.dtype in _FLOATS]
    return ModelSummary(
        path=folder,
        kind="folder",
        architecture=config["model_type"],
        parameters=_parameters(tensors, config),
        layers=next((text[key] for key in model_files.LAYER_KEYS if key in text), None),
        vocab_size=_whole(text.get("vocab_size")),
        context_length=model_files.context_length(config),
        quantization=_quantization(config),
        file_bytes=sum(tensor.nbytes for tensor in tensors.values()),
        weight_bytes=sum(
            tensor.size * 4 if on_cpu and tensor.dtype in _FLOATS else tensor.nbytes for tensor in tensors.values()
        ),
        cache_bytes_per_token=_cache_bytes(text, max(widths, default=4)),
    )


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 < value < 2**40 else None


def _quantization(config: dict[str, Any]) -> str:
    entry = config.get("quantization") or config.get("quantization_config")
    if not isinstance(entry, dict):
        return "none"
    bits, group, method = entry.get("bits"), entry.get("group_size"), entry.get("mode") or entry.get("quant_method")
    words = [f"{bits}-bit" if _whole(bits) else "", f"groups of {group}" if _whole(group) else ""]
    return ", ".join(filter(None, words)) or (str(method)[:40] if method else "of a kind not known here")


def _parameters(tensors: dict[str, StoredTensor], config: dict[str, Any]) -> int:
    """Weights by the headers; packed words count for what they hold, scales and biases not at all."""
    total = 0
    for name, tensor in tensors.items():
        stem, _, part = name.rpartition(".")
        if part in ("scales", "biases") and f"{stem}.weight" in tensors:
            continue
        scales = tensors.get(f"{stem}.scales") if part == "weight" and tensor.dtype == "U32" else None
        total += tensor.size if scales is None else _packed_size(stem, tensor, scales, config)
    return total


def _packed_size(stem: str, tensor: StoredTensor, scales: StoredTensor, config: dict[str, Any]) -> int:
    entry = config.get("quantization")
    entry = entry if isinstance(entry, dict) else {}
    own = entry.get(stem, entry)
    own = own if isinstance(own, dict) else entry
    group, bits = _whole(own.get("group_size")), _whole(own.get("bits"))
    if group is not None:
        return scales.size * group
    return tensor.size * 32 // bits if bits else tensor.size


def _cache_bytes(config: dict[str, Any], width: int) -> int | None:
    """Bytes of keys and values a token, at `width` bytes a number; None for layers that aren't plain attention."""
    layers = next((_whole(config[key]) for key in model_files.LAYER_KEYS if key in config), None)
    heads, hidden = _whole(config.get("num_attention_heads")), _whole(config.get("hidden_size"))
    if not layers or not heads or not hidden:
        return None
    kept = _whole(config.get("num_key_value_heads")) or heads
    size = _whole(config.get("head_dim")) or hidden // heads
    return math.prod((2, layers, kept, size, width))


def shown_rows(model: ModelSummary) -> Sequence[tuple[str, str]]:
    """(name, value) of what is worth showing before a load, in order."""
    unknown = "not told"
    return (
        ("architecture", model.architecture),
        ("parameters", f"{model.parameters:,}"),
        ("layers", unknown if model.layers is None else f"{model.layers}"),
        ("vocabulary", unknown if model.vocab_size is None else f"{model.vocab_size:,}"),
        ("context length", unknown if model.context_length is None else f"{model.context_length:,}"),
        ("quantization", model.quantization),
        ("size on disk", in_gib(model.file_bytes)),
        ("weights in memory", in_gib(model.weight_bytes)),
        ("memory with a full context", in_gib(model.memory_bytes())),
    )
