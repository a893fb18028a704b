"""The safetensors files of a model's folder: are they all there, and is every tensor where its header says. No MLX.

Source: the safetensors format, https://huggingface.co/docs/safetensors: an eight-byte length, a JSON header, and the
tensors' bytes without holes.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.model_files import WEIGHT_PATTERN, LoadError, contents_of, file_size, read_json

INDEX_FILE = "model.safetensors.index.json"
PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")

# Bytes of an element, of the types that MLX reads.
_DTYPES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E8M0": 1, "U16": 2, "I16": 2, "F16": 2, "BF16": 2}
_DTYPES |= {"U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "C64": 8}
_SHARD = re.compile(r"model-(\d+)-of-(\d+)\.safetensors", re.ASCII)
_MAX_HEADER = 100 * 2**20  # bytes; the limit of the format


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor by its header: type by name ("BF16"), shape, and bytes in the file."""

    dtype: str
    shape: tuple[int, ...]
    nbytes: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name comes twice")
    return made


def read_safetensors_header(path: Path) -> dict[str, StoredTensor]:
    """The tensors of a file by name, each checked for its type, shape and place; raises LoadError."""
    size = file_size(path)
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= _MAX_HEADER:
                raise LoadError(f"{path} is not a safetensors file, or is incomplete ({size} bytes).")
            header = file.read(length)
    except OSError as error:
        raise LoadError(f"{path} can't be read ({error}).") from error
    if len(header) < length:
        raise LoadError(f"{path} is incomplete: its header has {length} bytes, the file {size}.")
    try:
        entries = json.loads(header, object_pairs_hook=_no_repeats)
        if not isinstance(entries, dict):
            raise ValueError(f"expected an object, found {type(entries).__name__}")
        entries.pop("__metadata__", None)
        placed = sorted((_place(name, entry), name) for name, entry in entries.items())
    except (ValueError, RecursionError) as error:
        raise LoadError(f"{path} has a broken safetensors header ({error}).") from error
    end = 0
    for (start, stop), name in placed:
        if start != end:
            gap = "overlaps the one before" if start < end else "leaves a hole behind the one before"
            raise LoadError(f"{path} has a broken safetensors header ({name!r} {gap}).")
        end = stop
    _compare_sizes(path, 8 + length + end, size)
    return {
        name: StoredTensor(entries[name]["dtype"], tuple(entries[name]["shape"]), stop - start)
        for (start, stop), name in placed
    }


def _compare_sizes(path: Path, needed: int, size: int) -> None:
    if size < needed:
        raise LoadError(f"{path} is incomplete: {needed} bytes expected, {size} found. Download or copy it again.")
    if size > needed:
        raise LoadError(f"{path} is longer than its header says: {needed} bytes expected, {size} found.")


def _place(name: str, entry: Any) -> tuple[int, int]:
    """First and last byte of a tensor; raises ValueError if its entry contradicts itself."""
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise ValueError(f"{name!r}: expected dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"{name!r} is of type {dtype!r}, which MLX doesn't read")
    if not _whole(shape) or any(side >= 2**31 for side in shape):
        raise ValueError(f"{name!r} has the shape {shape!r}")
    if not _whole(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(f"{name!r} has the data_offsets {offsets!r}")
    needed = math.prod(shape) * _DTYPES[dtype]
    if offsets[1] - offsets[0] != needed:
        raise ValueError(f"{name!r} takes {needed} bytes by its shape and {offsets[1] - offsets[0]} by its offsets")
    return offsets[0], offsets[1]


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**63 for value in values)


def read_index(folder: Path) -> dict[str, str]:
    """File by tensor as the index lists them, {} without one; raises LoadError for a name outside the folder."""
    path = folder / INDEX_FILE
    if not path.exists():
        return {}
    weight_map = read_json(path).get("weight_map")
    if not isinstance(weight_map, dict):
        raise LoadError(f"{path}: expected an object weight_map, found {type(weight_map).__name__}.")
    for name in weight_map.values():
        if not isinstance(name, str) or not name or name in (".", "..") or re.search(r"[/\\:\0]", name):
            raise LoadError(f"{path}: weight_map names {name!r}: expected plain names of files in this folder.")
    return weight_map


def _numbered_shards(names: Iterable[str]) -> set[str]:
    """All names of a series of which some are there: model-00001-of-00002 asks for model-00002-of-00002."""
    wanted: set[str] = set()
    for match in filter(None, map(_SHARD.fullmatch, names)):
        digits, total = len(match[1]), match[2]
        wanted |= {f"model-{n:0{digits}d}-of-{total}.safetensors" for n in range(1, min(int(total[:9]), 9999) + 1)}
    return wanted


def check_weights(folder: Path) -> dict[str, StoredTensor]:
    """Every tensor of a folder by name, its files all there, whole, and as the index lists them; raises LoadError."""
    files = sorted(folder.glob(WEIGHT_PATTERN))
    names = {file.name for file in files}
    index = read_index(folder)
    missing = sorted((set(index.values()) | _numbered_shards(names)) - names)
    if missing and names:
        raise LoadError(f"{folder}: missing shard {', '.join(missing[:4])}{' ...' if len(missing) > 4 else ''}.")
    if not files:
        raise LoadError(_no_weights(folder))
    if re.search(r"[*?\[]", str(folder)):
        raise LoadError(f"{folder}: mlx-lm can't read a path with *, ? or [ in it. Rename the folder.")
    tensors: dict[str, StoredTensor] = {}
    places: dict[str, str] = {}
    for file in files:
        for name, tensor in read_safetensors_header(file).items():
            if name in tensors:
                raise LoadError(f"{folder}: the tensor {name!r} is both in {places[name]} and in {file.name}.")
            tensors[name], places[name] = tensor, file.name
    if index:
        _compare_index(folder, index, places)
    return tensors


def _compare_index(folder: Path, index: dict[str, str], places: dict[str, str]) -> None:
    wrong = sorted(name for name in index.keys() | places.keys() if index.get(name) != places.get(name))
    if wrong:
        name = wrong[0]
        listed, stored = (f"in {file}" if file else "nowhere" for file in (index.get(name), places.get(name)))
        raise LoadError(
            f"{folder}: {INDEX_FILE} doesn't match the weights: {name!r} is {listed} by the index and {stored} by the "
            f"files ({len(wrong)} such). Download it again, files and index from one revision."
        )


def _no_weights(folder: Path) -> str:
    pickles = sorted(entry.name for entry in folder.iterdir() if entry.suffix.lower() in PICKLE_SUFFIXES)
    if pickles:
        more = " and more" if len(pickles) > 3 else ""
        return (
            f"{folder}: the weights are pickled ({', '.join(pickles[:3])}{more}), and a pickle can run code when it is "
            f"opened. Draftscope reads safetensors ({WEIGHT_PATTERN}) and GGUF only: choose such a copy of the model."
        )
    return f"{folder}: no weights: expected {WEIGHT_PATTERN}, {contents_of(folder)}."
