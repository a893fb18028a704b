"""One model's cache: its layers, where each stands, and the ids that it holds by position; trims and checks of it.

Where a cache must stand is said in `engine.rewinds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.backend import mx
from engine.rewinds import Rewind
from engine.rounds import CachePositions, LayerInfo


class CacheError(RuntimeError):
    """A cache can't be brought back to where it stood."""


class Cache:
    """A list of layers, its position in tokens held, and the ledger: `held`, the id at every position."""

    def __init__(self, layers: list[Any]) -> None:
        self.layers = layers
        self.held: list[int] = []
        self._count = 0  # for classes without an offset of their own
        self._matched = 0  # so many ids at the front are known to be the committed ones

    def positions(self) -> tuple[int, ...]:
        """Where every layer stands."""
        return tuple(int(getattr(layer, "offset", self._count)) for layer in self.layers)

    @property
    def position(self) -> int:
        """Where the first layer stands; `broken_law` looks at the others."""
        return int(getattr(self.layers[0], "offset", self._count)) if self.layers else self._count

    def forwarded(self, tokens: int) -> None:
        """Take note of a forward pass over so many tokens; `hold` names them once they are known."""
        self._count += tokens

    def hold(self, ids: Sequence[int]) -> None:
        """Enter the ids of forward passes into the ledger."""
        self.held.extend(ids)

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

    def trim(self, tokens: int) -> tuple[int, ...]:
        """Take tokens off every layer; returns how many each one took off."""
        if tokens <= 0:
            return (0,) * len(self.layers)
        self._count -= min(tokens, self._count)
        self._drop_held(len(self.held) - tokens)
        return tuple(int(layer.trim(tokens)) for layer in self.layers)

    def return_to(self, position: int) -> None:
        """Bring every layer back to a position it has passed. Raises CacheError where one can't."""
        for layer, stands in zip(self.layers, self.positions(), strict=True):
            if stands > position:
                layer.trim(stands - position)
        self._count = position
        self._drop_held(position)
        if set(self.positions()) - {position}:
            raise CacheError(f"a cache could not be brought back to position {position}: {self.positions()}")

    def describe(self) -> tuple[LayerInfo, ...]:
        """Every layer; what a token takes is known once the cache holds some."""
        return tuple(LayerInfo(type(x).__name__, bool(x.is_trimmable()), _bytes_per_token(x)) for x in self.layers)

    def evaluate(self) -> None:
        """Compute what the cache holds; a host sync of prefill, not of a round."""
        mx.eval([layer.state for layer in self.layers])

    def _drop_held(self, keep: int) -> None:
        del self.held[max(keep, 0) :]
        self._matched = min(self._matched, len(self.held))


def _bytes_per_token(layer: Any) -> float | None:
    """Of a layer that holds keys and values (batch, heads, room, size); None for another kind, or an empty one."""
    parts = [getattr(layer, name, None) for name in ("keys", "values")]
    if not all(isinstance(part, mx.array) and part.ndim == 4 and part.shape[2] for part in parts):
        return None
    return float(sum(part.nbytes / part.shape[2] for part in parts if part is not None))


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
    done = cache.trim(trim if how.takes_off else 0)
    return CachePositions(
        start=start,
        forwarded=before - start,
        trim_asked=(trim,),
        trim_done=collapse(done),
        end=cache.position,
        expected_end=expected,
        layers_end=collapse(cache.positions()),
        refed=refed,
        first_wrong=cache.first_wrong(committed, expected),
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
