"""One model's cache: its layers, where each stands, and the ids that it holds by position; passes, trims and checks.

Layers that can't be trimmed are put back as they were before the round, and fed the kept tokens again; what a layer
can do is said in `engine.cache_layers`, where a cache must stand in `engine.rewinds`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from engine.backend import mx
from engine.cache_layers import (
    KVQuantization,
    always_trims,
    as_it_is,
    describe,
    quantize_layers,
    trims_exactly,
)
from engine.models import LanguageModel
from engine.rewinds import Rewind
from engine.rounds import CachePositions, LayerInfo


class CacheError(RuntimeError):
    """A cache can't be brought back to where it stood."""


@dataclass(frozen=True)
class Snapshot:
    """The layers that can't be trimmed, by number, as they were at a position. Shares their buffers."""

    position: int
    layers: dict[int, Any]


@dataclass(frozen=True)
class Trimmed:
    """What a trim did: tokens taken off each layer, and tokens forwarded again behind a snapshot."""

    done: tuple[int, ...]
    replayed: int = 0


class Cache:
    """A list of layers, its position in tokens held, and the ledger: `held`, the id at every position.

    `quantization`: how keys and values are kept, None: as the network makes them. `chunk`: tokens of a pass when many
    are fed.
    """

    def __init__(self, model: LanguageModel, quantization: KVQuantization | None = None, chunk: int = 512) -> None:
        self._model, self._quantization, self._chunk = model, quantization, chunk
        self.layers: list[Any] = list(model.make_cache())
        self._always_trims = all(always_trims(layer) for layer in self.layers)
        self.held: list[int] = []
        self.quantized_at: int | None = None  # where keys and values were turned into quantized ones
        self._count = 0  # for classes without an offset of their own
        self._matched = 0  # so many ids at the front are known to be the committed ones
        self._snapshot: Snapshot | None = None

    # Where it stands

    def positions(self) -> tuple[int, ...]:
        """Where every layer stands."""
        return tuple(map(self._stands, self.layers))

    @property
    def position(self) -> int:
        """Where the first layer stands; `broken_law` looks at the others."""
        return self._stands(self.layers[0]) if self.layers else self._count

    def _stands(self, layer: Any) -> int:
        return int(getattr(layer, "offset", self._count))

    def first_wrong(self, committed: Sequence[int], expected: int) -> int | None:
        """The first position below `expected` where the ledger isn't `committed`, or where it ends; None if it is.

        A ledger that holds more than `expected` ids is wrong at `expected`. Costs what is new since the last call.
        """
        most = min(expected, len(self.held))
        matched = min(self._matched, most)
        while matched < most and self.held[matched] == committed[matched]:
            matched += 1
        self._matched = matched
        return None if matched == expected == len(self.held) else matched

    def describe(self) -> tuple[LayerInfo, ...]:
        """Every layer."""
        return tuple(describe(layer, self._quantization) for layer in self.layers)

    # Passes

    def forward(self, ids: mx.array, *, reading: bool = False) -> mx.array:
        """Logits (1, n, V) behind each of ids (n,), lazy; the cache grows by n. `hold` names the ids once known.

        With quantization, a pass that would end behind its start finds quantized keys and values; `reading` a
        text takes in dense ones what begins before it, and in any case the first pass, as mlx-lm does.
        """
        wanted, stands, count = self._quantization, self.position, ids.shape[0]
        if wanted is not None:
            due = 0 < stands >= wanted.start if reading else stands + count > wanted.start
            if due and self.quantized_at is None:
                self.quantize()
        logits = self._model.network(ids[None], cache=self.layers)
        self._count += count
        return logits

    def feed(self, ids: Sequence[int]) -> Iterator[int]:
        """Forward ids in chunks and evaluate the cache after each; yields a chunk's size before it is forwarded."""
        for start in range(0, len(ids), self._chunk):
            chunk = list(ids[start : start + self._chunk])
            yield len(chunk)
            self.forward(mx.array(chunk, dtype=mx.uint32), reading=True)
            self.hold(chunk)
            wanted = self._quantization
            if wanted is not None and self.quantized_at is None and self.position >= wanted.start:
                self.quantize()
            self.evaluate()

    def quantize(self) -> None:
        """Keep keys and values quantized from here on; lazy."""
        assert self._quantization is not None
        quantize_layers(self.layers, self._quantization)
        self.quantized_at = self.position

    def hold(self, ids: Sequence[int]) -> None:
        """Enter the ids of forward passes into the ledger."""
        self.held.extend(ids)

    def evaluate(self) -> None:
        """Compute what the cache holds; a host sync of prefill, not of a round."""
        mx.eval([layer.state for layer in self.layers])

    # Going back

    def remember(self, ahead: int) -> None:
        """Keep what can't be trimmed off again once `ahead` more tokens were fed; copies and computes nothing."""
        self._snapshot = None
        if not self._always_trims and not all(trims_exactly(layer, ahead) for layer in self.layers):
            kept = {i: as_it_is(layer) for i, layer in enumerate(self.layers) if not always_trims(layer)}
            self._snapshot = Snapshot(self.position, kept)

    @contextmanager
    def lent(self, ahead: int) -> Iterator[None]:
        """What is fed inside, at most `ahead` tokens, leaves no trace."""
        stands, before = self.position, self._snapshot
        layers, quantized_at = list(self.layers), self.quantized_at
        self.remember(ahead)
        try:
            yield
        finally:
            if self.quantized_at != quantized_at:  # the dense ones were left as they were
                self.layers, self.quantized_at, self._count = layers, quantized_at, stands
            self.return_to(stands)
            self._snapshot = before

    def within_reach(self, position: int) -> int:
        """The nearest position up to this one that `return_to` reaches without a pass."""
        if self._trims():
            return position
        return self._snapshot.position if self._snapshot is not None and self._snapshot.position <= position else 0

    def trim(self, tokens: int) -> Trimmed:
        """Take tokens off every layer, or go back so far by snapshot and replay."""
        if tokens <= 0:
            return Trimmed((0,) * len(self.layers))
        if not self._trims():
            before = self.positions()
            replayed = self._put_back(max(self.position - tokens, 0))
            return Trimmed(tuple(a - b for a, b in zip(before, self.positions(), strict=True)), replayed)
        self._count -= min(tokens, self._count)
        self._drop_held(len(self.held) - tokens)
        return Trimmed(tuple(int(layer.trim(tokens)) for layer in self.layers))

    def return_to(self, position: int) -> None:
        """Bring every layer back to a position it has passed. Raises CacheError where one can't."""
        if self._trims():
            self._trim_layers(self.layers, position)
            self._count = position
            self._drop_held(position)
        else:
            self._put_back(position)
        if set(self.positions()) - {position}:
            raise CacheError(f"a cache could not be brought back to position {position}: {self.positions()}")

    def _trims(self) -> bool:
        return self._always_trims or all(trims_exactly(layer) for layer in self.layers)

    def _trim_layers(self, layers: Sequence[Any], position: int) -> None:
        for layer in layers:
            if (stands := self._stands(layer)) > position:
                layer.trim(stands - position)

    def _put_back(self, position: int) -> int:
        """Put the snapshot back and feed the ids from there to `position` again; returns how many.

        That pass is lazy, part of the next round's one sync. Where the snapshot lies behind `position` the cache is
        made anew and everything fed: a prefill, with syncs of its own.
        """
        snapshot = self._snapshot
        if snapshot is None or snapshot.position > position:
            again = self.held[:position]
            self._start_over()
            for _ in self.feed(again):
                pass
            return len(again)
        for number, kept in snapshot.layers.items():
            self.layers[number] = as_it_is(kept)
        again = self.held[snapshot.position : position]
        others = [layer for number, layer in enumerate(self.layers) if number not in snapshot.layers]
        self._trim_layers(others, snapshot.position)
        self._count = snapshot.position
        self._drop_held(position)
        if again:
            self.forward(mx.array(again, dtype=mx.uint32))
        return len(again)

    def _start_over(self) -> None:
        self.layers = list(self._model.make_cache())
        self.quantized_at, self._snapshot, self._count = None, None, 0
        self._drop_held(0)

    def _drop_held(self, keep: int) -> None:
        del self.held[max(keep, 0) :]
        self._matched = min(self._matched, len(self.held))
        if self.quantized_at is not None:  # what comes again is computed anew
            self.quantized_at = min(self.quantized_at, len(self.held))
        if self._snapshot is not None and self._snapshot.position > len(self.held):
            self._snapshot = None


def collapse(values: tuple[int, ...]) -> tuple[int, ...]:
    """One number where all layers agree."""
    return values[:1] if len(set(values)) == 1 else values


def rewind(
    cache: Cache, how: Rewind, trim: int, start: int, committed: Sequence[int], expected: int, refed: int = 0
) -> CachePositions:
    """Trim a cache after a round, and say where it stood before, between and after, and whether it holds what it must.

    `committed`: prompt and emitted tokens; `expected`: how many of them the law wants in this cache.
    """
    before = cache.position
    trimmed = cache.trim(trim if how.takes_off else 0)
    return CachePositions(
        start=start,
        forwarded=before - start,
        trim_asked=(trim,),
        trim_done=collapse(trimmed.done),
        end=cache.position,
        expected_end=expected,
        layers_end=collapse(cache.positions()),
        refed=refed,
        first_wrong=cache.first_wrong(committed, expected),
        replayed=trimmed.replayed,
    )


def broken_law(name: str, record: CachePositions) -> str | None:
    """How a cache misses the rewind law, or None: every layer stands where it says, holding the committed ids."""
    if set(record.layers_end) != {record.expected_end}:
        return (
            f"the {name} cache stands at {record.layers_end}, the rewind law says {record.expected_end} for every layer"
        )
    if record.first_wrong is not None:
        return f"the {name} cache doesn't hold the committed token at position {record.first_wrong}"
    return None
