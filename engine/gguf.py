"""The header of a GGUF file, read and checked against the file before anything else may open it. No MLX.

Source: the GGUF specification of the ggml project (docs/gguf.md), versions 2 and 3, little-endian.
"""

from __future__ import annotations

import array
import hashlib
import math
import struct
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from engine.model_files import LoadError, file_size

MAGIC = b"GGUF"
VERSIONS = (2, 3)
PACKED_BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
"""Packed types whose weights MLX can hold as they are, in groups of 32, with the bits of a weight."""
KEPT_TYPES = ("F32", "F16", "BF16", *PACKED_BITS)
"""All types that are held as they are."""

# By number in the file: name, weights in a block, bytes of a block.
_TENSOR_TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
}
# By number: struct's letter, which is also array's. 8 is a string, 9 an array.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_BOOL, _STRING, _ARRAY = 7, 8, 9
_MAX_KEY = 2**16 - 1  # bytes, by the specification
_MAX_NAME = 128  # bytes; 64 by the specification, 128 in some builds of llama.cpp
_MAX_DIMENSIONS = 4
_MAX_HEADER = 512 * 2**20  # bytes; the largest vocabularies take some 20 MiB


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor by the header: shape with the rows first, type by name, place in the file and size in bytes."""

    name: str
    shape: tuple[int, ...]
    type: str
    start: int
    nbytes: int

    @property
    def size(self) -> int:
        """Number of weights."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class GgufFile:
    """A checked header. `metadata`: numbers, strings, and lists of either; `digest`: SHA-256 of the header, in hex."""

    path: Path
    metadata: dict[str, Any]
    tensors: dict[str, GgufTensor]
    digest: str

    @property
    def architecture(self) -> str:
        """What llama.cpp calls the kind of network."""
        return self.text("general.architecture")

    @property
    def unpacked_types(self) -> tuple[str, ...]:
        """Types in the file that MLX can't hold packed, by name."""
        return tuple(sorted({tensor.type for tensor in self.tensors.values()} - set(KEPT_TYPES)))

    def text(self, key: str, default: str | None = None) -> str:
        """A string of the metadata; raises LoadError."""
        return self._typed(key, (str,), "a string", default)

    def whole(self, key: str, default: int | None = None) -> int:
        """A whole number of the metadata; raises LoadError."""
        return self._typed(key, (int,), "a whole number", default)

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number of the metadata; raises LoadError."""
        value = float(self._typed(key, (int, float), "a number", default))
        if not math.isfinite(value):
            raise LoadError(f"{self.path}: {key}: expected a finite number, found {value}.")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """A truth value of the metadata; raises LoadError."""
        return self._typed(key, (bool,), "true or false", default)

    def _typed(self, key: str, kinds: tuple[type, ...], words: str, default: Any) -> Any:
        value = self.metadata.get(key, default)
        if value is None:
            raise LoadError(f"{self.path}: the key {key} is missing.")
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise LoadError(f"{self.path}: {key}: expected {words}, found {_shown(value)}.")
        return value


def _shown(value: Any) -> str:
    text = f"a list of {len(value)}" if isinstance(value, list) else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


class _Reader:
    """Reads little-endian values from the start of a file, never more than the file has."""

    def __init__(self, file: BinaryIO, path: Path, size: int) -> None:
        self._file, self.path, self._size = file, path, size
        self.at = 0
        self.hash = hashlib.sha256()

    def fail(self, what: str) -> LoadError:
        return LoadError(f"{self.path}: the GGUF header is broken: {what}.")

    def left(self) -> int:
        return min(self._size, _MAX_HEADER) - self.at

    def take(self, length: int, what: str) -> bytes:
        data = self._file.read(length) if length <= self.left() else b""
        if len(data) < length:
            raise self.fail(
                f"{what} takes {length} bytes at {self.at}, where {max(self.left(), 0)} are left; is it incomplete?"
            )
        self.at += length
        self.hash.update(data)
        return data

    def number(self, letter: str, what: str) -> Any:
        return struct.unpack("<" + letter, self.take(struct.calcsize(letter), what))[0]

    def string(self, what: str, limit: int = _MAX_HEADER) -> str:
        length = self.number("Q", what)
        if length > limit:
            raise self.fail(f"{what} has {length} bytes, where at most {limit} are allowed")
        try:
            return self.take(length, what).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"{what} is not UTF-8 ({error})") from error

    def value(self, key: str) -> Any:
        kind = self.number("I", key)
        if kind == _STRING:
            return self.string(key)
        if kind == _ARRAY:
            return self._array(key)
        return self._numbers(kind, 1, key)[0]

    def _array(self, key: str) -> list[Any]:
        kind, length = self.number("I", key), self.number("Q", key)
        if kind != _STRING:
            return self._numbers(kind, length, key)
        if length * 8 > self.left():
            raise self.fail(f"{key} lists {length} strings, which the file has no room for")
        return [self.string(key) for _ in range(length)]

    def _numbers(self, kind: int, length: int, key: str) -> list[Any]:
        if (letter := _NUMBERS.get(kind)) is None:
            raise self.fail(f"{key} has a value of type {kind}, where numbers, strings and plain lists are expected")
        data = self.take(length * struct.calcsize("<" + letter), key)
        if kind == _BOOL:
            if set(data) - {0, 1}:
                raise self.fail(f"{key} holds truth values other than 0 and 1")
            return [byte == 1 for byte in data]
        values = array.array(letter, data)
        if sys.byteorder == "big":
            values.byteswap()
        return values.tolist()


def read_gguf(path: Path) -> GgufFile:
    """The header of a file, with all its counts, lengths, types, shapes and places checked; raises LoadError."""
    size = file_size(path)
    try:
        with path.open("rb") as file:
            return _read(_Reader(file, path, size), path, size)
    except OSError as error:
        raise LoadError(f"{path} can't be read ({error}).") from error


def _read(reader: _Reader, path: Path, size: int) -> GgufFile:
    if size < 24 or reader.take(4, "its mark") != MAGIC:
        raise LoadError(f"{path} is not a GGUF file, or is incomplete ({size} bytes).")
    version = reader.number("I", "the version")
    if version not in VERSIONS:
        raise LoadError(f"{path}: GGUF version {version} is not supported: expected 2 or 3. Convert it again.")
    tensors, entries = reader.number("Q", "the count of tensors"), reader.number("Q", "the count of keys")
    if tensors * 32 + entries * 13 > reader.left():
        raise reader.fail(f"{tensors} tensors and {entries} keys are counted, which the file has no room for")
    metadata: dict[str, Any] = {}
    for n in range(entries):
        key = reader.string(f"key {n + 1}", _MAX_KEY)
        if key in metadata:
            raise reader.fail(f"the key {key!r} comes twice")
        metadata[key] = reader.value(key)
    infos = [_tensor_info(reader, n) for n in range(tensors)]
    step = _alignment(reader, metadata)
    start = -(-reader.at // step) * step
    return GgufFile(path, metadata, _placed(reader, infos, step, start, size), reader.hash.hexdigest())


def _alignment(reader: _Reader, metadata: dict[str, Any]) -> int:
    step = metadata.get("general.alignment", 32)
    if not isinstance(step, int) or not 8 <= step <= 2**16 or step & (step - 1):
        raise reader.fail(f"general.alignment: expected a power of two from 8 to 65536, found {_shown(step)}")
    return step


def _tensor_info(reader: _Reader, n: int) -> GgufTensor:
    """One entry of the list, with `start` still relative to the data."""
    name = reader.string(f"the name of tensor {n + 1}", _MAX_NAME)
    dimensions = reader.number("I", name)
    if not 1 <= dimensions <= _MAX_DIMENSIONS:
        raise reader.fail(f"tensor {name!r} has {dimensions} dimensions, where 1 to {_MAX_DIMENSIONS} are allowed")
    shape = tuple(reversed(struct.unpack(f"<{dimensions}Q", reader.take(8 * dimensions, name))))
    kind, start = reader.number("I", name), reader.number("Q", name)
    if kind not in _TENSOR_TYPES:
        raise LoadError(f"{reader.path}: tensor {name!r} is of a type that is not known here (number {kind}).")
    label, block, nbytes = _TENSOR_TYPES[kind]
    if min(shape) < 1 or max(shape) >= 2**31:
        raise reader.fail(f"tensor {name!r} has the shape {shape}")
    if shape[-1] % block:
        raise reader.fail(f"tensor {name!r} has rows of {shape[-1]}, not a multiple of {block} as {label} needs")
    return GgufTensor(name, shape, label, start, math.prod(shape) // block * nbytes)


def _placed(reader: _Reader, infos: list[GgufTensor], step: int, start: int, size: int) -> dict[str, GgufTensor]:
    """The tensors by name, at their places in the file; raises LoadError if they repeat, overlap or leave the file."""
    found: dict[str, GgufTensor] = {}
    for info in infos:
        if info.name in found:
            raise reader.fail(f"the tensor {info.name!r} comes twice")
        if info.start % step:
            raise reader.fail(f"tensor {info.name!r} begins at {info.start}, not at a multiple of {step}")
        found[info.name] = GgufTensor(info.name, info.shape, info.type, start + info.start, info.nbytes)
    end, before = start, ""
    for tensor in sorted(found.values(), key=lambda tensor: tensor.start):
        if tensor.start < end:
            raise reader.fail(f"the tensors {before!r} and {tensor.name!r} overlap")
        end, before = tensor.start + tensor.nbytes, tensor.name
    if end > size:
        raise LoadError(f"{reader.path} is incomplete: {end} bytes expected, {size} found. Download or copy it again.")
    return found
