"""Cache positions and the rewind law: where both caches must stand after every round, and the one known way to miss it.

P = prompt tokens, E = tokens emitted so far. At the start of a round the main cache holds P + E - 1 tokens (the
last one is pending) and the draft cache P + E - 1 - debt: the debt is owed and fed with the next drafts. A round
with k >= 1 drafts, of which it emits e tokens, forwards y, d_1..d_k through the target and the owed tokens, y,
d_1..d_(k-1) through the drafter. Then the law is

    main:  trim k + 1 - e        ends at P + E' - 1
    draft: trim max(k - e, 0)    ends at P + E' - 1 - debt',   debt' = max(e - k, 0)

A round with k = 0 leaves the draft cache alone and adds 1 to the debt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.backend import mx
from engine.rounds import CachePositions


class CacheError(RuntimeError):
    """A cache doesn't stand where the law says, or can't be brought back to where it stood."""


def correct_trim(k: int, accepted: int, emitted: int) -> int:
    """Tokens to take off the draft cache, by the law."""
    return max(k - emitted, 0)


def legacy_trim(k: int, accepted: int, emitted: int) -> int:
    """The defect of mlxcel #994: min(r + 1, k) for r = k - accepted; two too many, or one where accepted is 0 or k."""
    return min(k - accepted + 1, k)


DRAFT_TRIMS: dict[str, Callable[[int, int, int], int]] = {"correct": correct_trim, "legacy-rewind": legacy_trim}
"""The trim of the draft cache, by the name of the rewind."""


class Cache:
    """One model's cache, a list of layers, and its position in tokens held."""

    def __init__(self, layers: list[Any]) -> None:
        self.layers = layers
        self._count = 0  # for classes without an offset of their own

    def positions(self) -> tuple[int, ...]:
        """Where every layer stands."""
        return tuple(int(getattr(layer, "offset", self._count)) for layer in self.layers)

    @property
    def position(self) -> int:
        """Where the first layer stands; `check` holds the others against the law."""
        return int(getattr(self.layers[0], "offset", self._count)) if self.layers else self._count

    def forwarded(self, tokens: int) -> None:
        """Take note of a forward pass over so many tokens."""
        self._count += tokens

    def trim(self, tokens: int) -> tuple[int, ...]:
        """Take tokens off every layer; returns how many each one took off."""
        self._count -= min(tokens, self._count)
        return tuple(int(layer.trim(tokens)) for layer in self.layers) if tokens else (0,) * len(self.layers)

    def return_to(self, position: int) -> None:
        """Bring every layer back to a position it has passed. Raises CacheError where one can't."""
        for layer, stands in zip(self.layers, self.positions(), strict=True):
            if stands > position:
                layer.trim(stands - position)
        self._count = position
        if set(self.positions()) - {position}:
            raise CacheError(f"a cache could not be brought back to position {position}: {self.positions()}")

    def evaluate(self) -> None:
        """Compute what the cache holds; a host sync of prefill, not of a round."""
        mx.eval([layer.state for layer in self.layers])


def collapse(values: tuple[int, ...]) -> tuple[int, ...]:
    """One number where all layers agree."""
    return values[:1] if len(set(values)) == 1 else values


def rewind(cache: Cache, start: int, trim: int, expected: int, refed: int = 0) -> CachePositions:
    """Trim a cache after a round, and say where it stood before, between and after."""
    before = cache.position
    done = cache.trim(trim)
    return CachePositions(
        start=start,
        forwarded=before - start,
        trim_asked=(trim,),
        trim_done=collapse(done),
        end=cache.position,
        expected_end=expected,
        layers_end=collapse(cache.positions()),
        refed=refed,
    )


def check(name: str, record: CachePositions) -> None:
    """Raise CacheError unless every layer stands where the law says."""
    if set(record.layers_end) != {record.expected_end}:
        raise CacheError(
            f"the {name} cache stands at {record.layers_end}, the rewind law says {record.expected_end} for every layer"
        )
