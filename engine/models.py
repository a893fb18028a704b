"""Language models and pairs of them: loading, checking, and what the generator needs of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from engine.backend import mx
from engine.rounds import ModelInfo
from engine.text import Vocabulary


class Network(Protocol):
    """A causal network: ids (1, n) to logits (1, n, V), appending its n positions to every layer's cache."""

    def __call__(self, inputs: mx.array, /, cache: list[Any] | None = None) -> mx.array: ...


@dataclass(frozen=True)
class LanguageModel:
    """One model, ready to run on the thread that loaded it.

    `encode` raises ValueError for text that it can't turn into ids, and may be called on any thread.
    `make_cache` gives one fresh cache a layer.
    """

    network: Network
    info: ModelInfo
    vocabulary: Vocabulary
    encode: Callable[[str], list[int]]
    make_cache: Callable[[], list[Any]]

    @property
    def vocab_size(self) -> int:
        """V, the width of the logits; ids of the tokenizer are all below it."""
        return self.info.vocab_size

    @property
    def context_length(self) -> int | None:
        """The most tokens the model was made for; None: its config names no limit."""
        return self.info.context_length

    @property
    def end_ids(self) -> frozenset[int]:
        """Ids that end a run."""
        return self.vocabulary.end_ids


@dataclass(frozen=True)
class Pair:
    """A target and, for speculation, a draft of the same vocabulary. `notices`: plain sentences for the banner."""

    target: LanguageModel
    draft: LanguageModel | None
    notices: tuple[str, ...] = ()
