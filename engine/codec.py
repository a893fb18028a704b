"""The engine's records to JSON and raw arrays and back, led by their type hints; what doesn't fit is refused.

A record is a frozen dataclass of numbers, strings, tuples, arrays and further records. Its arrays go, little-endian
and in order, into one block of bytes; everything else is a JSON list of the fields in their order. That order is the
`layout`, which a file keeps, so that a later version with more fields can still read it. Nothing of a file is ever run
or looked up by name, and no length in it is believed before it was compared with the bytes at hand.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
import json
import math
import types
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar, Union, cast

import numpy as np

Record = TypeVar("Record")
Layout = Mapping[str, Sequence[str]]
"""The names of the fields that stand in a list, by record class."""

Put = Callable[[Any, list[bytes]], Any]
Take = Callable[[Any, "Block"], Any]


class CodecError(ValueError):
    """Bytes that are no record of the wanted kind."""


def encode(record: Any) -> tuple[str, bytes]:
    """(JSON, arrays) of a record. Raises ValueError for NaN or infinity outside arrays."""
    arrays: list[bytes] = []
    text = json.dumps(_encoder(cast(Hashable, type(record)))(record, arrays), allow_nan=False, separators=(",", ":"))
    return text, b"".join(arrays)


def layout_of(*kinds: type) -> dict[str, list[str]]:
    """The layout that `encode` uses for these records and all that they hold."""
    found: dict[str, list[str]] = {}

    def visit(hint: Any) -> None:
        if dataclasses.is_dataclass(hint):
            kind = cast(type, hint)
            if kind.__name__ not in found:
                found[kind.__name__] = [name for name, _ in _fields(kind)]
                for _, field in _fields(kind):
                    visit(field)
        for part in typing.get_args(hint):
            visit(part)

    for kind in kinds:
        visit(kind)
    return found


class Reader:
    """Reads records that were written with one layout; fields that it lacks take their defaults. Raises CodecError."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._takes: dict[Any, Take] = {}

    def decode(self, kind: type[Record], text: str, arrays: bytes = b"") -> Record:
        """The record of `encode`."""
        block = Block(arrays)
        try:
            value = json.loads(text, parse_constant=_no_constant)
        except CodecError:
            raise
        except (RecursionError, ValueError) as error:
            raise CodecError(f"no JSON of a {kind.__name__}: {error}") from error
        found: Record = self._take(kind)(value, block)
        block.close()
        return found

    def _take(self, hint: Any) -> Take:
        if hint not in self._takes:
            self._takes[hint] = self._build(hint)
        return self._takes[hint]

    def _build(self, hint: Any) -> Take:
        items = typing.get_args(hint)
        if (dtype := _array_dtype(hint)) is not None:
            return lambda value, block: block.take(dtype, value)
        if dataclasses.is_dataclass(hint):
            return self._record(cast(type, hint))
        if (other := _optional(hint)) is not None:
            inner = self._take(other)
            return lambda value, block: None if value is None else inner(value, block)
        if typing.get_origin(hint) is tuple and items[-1] is not Ellipsis:
            return self._tuple([self._take(item) for item in items])
        if typing.get_origin(hint) in (tuple, frozenset):
            collect, each = typing.get_origin(hint), self._take(items[0])
            return lambda value, block: collect(each(item, block) for item in _expect(value, list))
        if typing.get_origin(hint) is dict and items[0] is int:
            pair = self._tuple([self._take(item) for item in items])
            return lambda value, block: dict(pair(item, block) for item in _expect(value, list))
        return _plain(hint)

    def _record(self, kind: type) -> Take:
        known = dict(_fields(kind))
        names = self._layout.get(kind.__name__, ())
        if unknown := set(names) - set(known):
            raise CodecError(f"unknown fields of a {kind.__name__}: {', '.join(sorted(map(str, unknown)))[:80]}")
        parts = [(name, self._take(known[name])) for name in names]

        def build(value: Any, block: Block) -> Any:
            if len(_expect(value, list)) != len(parts):
                raise CodecError(f"expected the {len(parts)} fields of a {kind.__name__}, got {len(value)}")
            values = {name: part(item, block) for (name, part), item in zip(parts, value, strict=True)}
            try:
                return kind(**values)
            except (TypeError, ValueError) as error:  # a field is missing, or the record refuses its values
                raise CodecError(f"no {kind.__name__}: {error}") from error

        return build

    @staticmethod
    def _tuple(parts: list[Take]) -> Take:
        def build(value: Any, block: Block) -> Any:
            if len(_expect(value, list)) != len(parts):
                raise CodecError(f"expected {len(parts)} items, got {len(value)}")
            return tuple(part(item, block) for part, item in zip(parts, value, strict=True))

        return build


class Block:
    """Arrays, read one after another from a block of bytes."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = memoryview(data), 0

    def take(self, dtype: np.dtype[Any], count: Any) -> np.ndarray[Any, Any]:
        """The next array; read-only."""
        size = _expect(count, int) * dtype.itemsize
        if not 0 <= size <= len(self._data) - self._at:
            raise CodecError(f"an array of {count} numbers isn't in the {len(self._data) - self._at} bytes left")
        found = np.frombuffer(self._data[self._at : self._at + size], dtype)
        self._at += size
        return found

    def close(self) -> None:
        """Raise CodecError if anything is left."""
        if self._at != len(self._data):
            raise CodecError(f"{len(self._data) - self._at} bytes too many")


def _no_constant(name: str) -> None:
    raise CodecError(f"{name} is no number of a record")


def _array_dtype(hint: Any) -> np.dtype[Any] | None:
    """The dtype of a hint such as `NDArray[np.float32]`, little-endian, or None for another hint."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is np.ndarray:
        (scalar,) = typing.get_args(parts[1])
    elif getattr(origin, "__name__", None) == "NDArray":  # newer NumPy keeps the alias as it is written
        (scalar,) = parts
    else:
        return None
    return np.dtype(scalar).newbyteorder("<")


def _optional(hint: Any) -> Any:
    """The other half of `X | None`, or None for another hint."""
    if typing.get_origin(hint) not in (Union, types.UnionType):
        return None
    (other,) = [part for part in typing.get_args(hint) if part is not type(None)]
    return other


@functools.lru_cache(maxsize=None, typed=True)
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    hints = typing.get_type_hints(kind)
    return tuple((f.name, hints[f.name]) for f in dataclasses.fields(kind))


@functools.lru_cache(maxsize=None, typed=True)
def _encoder(hint: Any) -> Put:
    items = typing.get_args(hint)
    if (dtype := _array_dtype(hint)) is not None:
        return lambda value, arrays: _put(value, dtype, arrays)
    if dataclasses.is_dataclass(hint):
        parts = [(name, _encoder(field)) for name, field in _fields(cast(Hashable, hint))]
        return lambda value, arrays: [put(getattr(value, name), arrays) for name, put in parts]
    if (other := _optional(hint)) is not None:
        inner = _encoder(other)
        return lambda value, arrays: None if value is None else inner(value, arrays)
    if typing.get_origin(hint) is tuple and items[-1] is not Ellipsis:
        several = [_encoder(item) for item in items]
        return lambda value, arrays: [put(item, arrays) for put, item in zip(several, value, strict=True)]
    if typing.get_origin(hint) is tuple:
        each = _encoder(items[0])
        return lambda value, arrays: [each(item, arrays) for item in value]
    if typing.get_origin(hint) is frozenset:
        return lambda value, arrays: sorted(value)
    if typing.get_origin(hint) is dict and items[0] is int:
        return lambda value, arrays: [list(pair) for pair in value.items()]
    if hint is bytes:
        return lambda value, arrays: base64.b64encode(value).decode("ascii")
    return lambda value, arrays: value


def _put(value: np.ndarray[Any, Any], dtype: np.dtype[Any], arrays: list[bytes]) -> int:
    arrays.append(value.astype(dtype, copy=False).tobytes())
    return len(value)


def _plain(hint: Any) -> Take:
    if hint is float:
        return lambda value, block: _number(value)
    if hint is bytes:
        return lambda value, block: _bytes(_expect(value, str))
    kind = typing.get_origin(hint) or hint
    if kind not in (int, str, bool, dict):
        raise TypeError(f"records can't hold {hint}")
    return lambda value, block: _expect(value, kind)


def _expect(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise CodecError(f"expected {kind.__name__}, got {repr(value)[:80]}")
    return value


def _number(value: Any) -> float:
    try:
        if type(value) in (int, float) and math.isfinite(value):
            return float(value)
    except OverflowError:
        pass
    raise CodecError(f"expected a finite number, got {repr(value)[:80]}")


def _bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CodecError(f"expected base64: {error}") from error
