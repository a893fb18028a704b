"""Models with logits known beforehand: the six-word toy of the lessons, and what tests need for exact answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.backend import mx
from engine.models import LanguageModel, Pair
from engine.rounds import ModelInfo
from engine.text import toy_vocabulary
from engine.toy_tables import DRAFT_LOGITS, TARGET_LOGITS, TOY, WORDS


class ToyCache:
    """A trimmable cache that holds the ids it was fed, as they came: it never waits for them to be computed."""

    def __init__(self) -> None:
        self.offset = 0
        self._chunks: list[tuple[mx.array, int]] = []  # (ids (1, n), how many of them still count)

    def feed(self, ids: mx.array) -> None:
        """Append ids (1, n), evaluated or not."""
        self._chunks.append((ids, ids.shape[-1]))
        self.offset += ids.shape[-1]

    def is_trimmable(self) -> bool:
        return True

    def trim(self, n: int) -> int:
        """Drop the last n tokens, or all where there are fewer; returns how many were dropped."""
        n = min(n, self.offset)
        self.offset -= n
        left = n
        while left:
            ids, count = self._chunks.pop()
            if count > left:
                self._chunks.append((ids, count - left))
            left -= min(left, count)
        return n

    @property
    def state(self) -> list[mx.array]:
        """What is left to evaluate: the last ids fed (earlier ones went through the same call in their turn)."""
        return [self._chunks[-1][0]] if self._chunks else []

    def tokens(self) -> list[int]:
        """The ids held, read back to the host: a sync for each forward pass, for tests and inspection."""
        held: list[int] = []
        for ids, count in self._chunks:
            held += np.array(ids).reshape(-1)[:count].tolist()
        return held


class TableModel:
    """Logits that depend on the previous token alone: row t of `table` (V, V), float32, follows token t."""

    def __init__(self, table: npt.ArrayLike) -> None:
        rows = np.asarray(table, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[0] != rows.shape[1]:
            raise ValueError(f"table: expected shape (V, V), got {rows.shape}")
        self.table = mx.array(rows)

    @property
    def vocab_size(self) -> int:
        return self.table.shape[-1]

    def __call__(self, inputs: mx.array, /, cache: list[Any] | None = None) -> mx.array:
        for layer in cache or ():
            layer.feed(inputs)
        return self.table[inputs]


class PositionModel:
    """Logits that depend on the position in the cache alone: row `position % period` of `table` (period, V), float32.

    The position is the first layer's, so a cache that stands at the wrong place shows in the logits.
    """

    def __init__(self, table: npt.ArrayLike) -> None:
        rows = np.asarray(table, dtype=np.float32)
        if rows.ndim != 2 or not rows.size:
            raise ValueError(f"table: expected shape (period, V), got {rows.shape}")
        self.table = mx.array(rows)

    @property
    def vocab_size(self) -> int:
        return self.table.shape[-1]

    def __call__(self, inputs: mx.array, /, cache: list[Any] | None = None) -> mx.array:
        start = cache[0].offset if cache else 0
        for layer in cache or ():
            layer.feed(inputs)
        positions = np.arange(start, start + inputs.shape[-1]) % self.table.shape[0]
        return self.table[mx.array(positions[None])]


def fixed_logits(logits: Sequence[float]) -> TableModel:
    """A model with the same logits (V,) after every token."""
    return TableModel(np.tile(np.asarray(logits, dtype=np.float32), (len(logits), 1)))


def _encoder(words: Sequence[str]) -> Callable[[str], list[int]]:
    ids = {word.strip(): token for token, word in enumerate(words)}

    def encode(text: str) -> list[int]:
        unknown = [word for word in text.split() if word not in ids]
        if unknown:
            raise ValueError(f"The toy knows only the words {', '.join(ids)}; it doesn't know {unknown[0]!r}.")
        return [ids[word] for word in text.split()]

    return encode


def toy_model(
    network: TableModel | PositionModel,
    words: Sequence[str] = WORDS,
    *,
    name: str = "toy",
    layers: int = 1,
    end_ids: Iterable[int] = (),
    context_length: int | None = None,
) -> LanguageModel:
    """Make a LanguageModel of a network over `words` (V,), one a token id, with `layers` caches."""
    if len(words) != network.vocab_size:
        raise ValueError(f"words: expected {network.vocab_size}, one for each logit, got {len(words)}")
    info = ModelInfo(
        name=name,
        path="",
        model_type=TOY,
        parameters=network.table.size,
        layers=layers,
        vocab_size=network.vocab_size,
        context_length=context_length,
        dtype="float32",
        cache_type=ToyCache.__name__,
    )
    vocabulary = toy_vocabulary(words, end_ids)
    return LanguageModel(network, info, vocabulary, _encoder(words), lambda: [ToyCache() for _ in range(layers)])


def toy_pair(layers: int = 1) -> Pair:
    """The six-word pair with fixed logits; at temperature 0.7 sum min(p, q) is 0.7053 and sum p q 0.3438."""
    return Pair(
        toy_model(fixed_logits(TARGET_LOGITS), name="six-word toy target", layers=layers),
        toy_model(fixed_logits(DRAFT_LOGITS), name="six-word toy draft", layers=layers),
    )
