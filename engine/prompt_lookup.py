"""Prompt lookup: drafts what followed the last time that the newest tokens stood in the text, without a network.

After Saxena 2023, "Prompt Lookup Decoding".
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.backend import mx
from engine.drafters import Proposal
from engine.randomness import RoundKeys
from engine.settings import SamplerSettings


class NgramIndex:
    """Where every run of 1 to `longest` tokens last ended, in a text that only grows."""

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self._text: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        self._indexed = 0

    def continuation(self, context: Sequence[int], k: int) -> list[int]:
        """At most k tokens that followed the longest run that ends `context` and stood in it before."""
        self._extend(context)
        for length in range(min(self.longest, len(context) - 1), 0, -1):
            end = self._ends.get(tuple(context[-length:]))
            if end is not None:
                return list(context[end : end + k])
        return []

    def _extend(self, context: Sequence[int]) -> None:
        """Index every run that ends before the last token, whose continuation is known."""
        if self._indexed > len(context) or self._text != list(context[: len(self._text)]):
            self._text, self._ends, self._indexed = [], {}, 0
        for end in range(self._indexed + 1, len(context)):
            for length in range(1, min(self.longest, end) + 1):
                self._ends[tuple(context[end - length : end])] = end
        self._indexed = max(len(context) - 1, 0)
        self._text = list(context[: self._indexed])


class PromptLookup:
    """A drafter without a network and without a cache; it may propose fewer than k tokens, or none."""

    model = None
    cache = None

    def __init__(self, longest: int, vocab_size: int, settings: SamplerSettings, one_hot: bool) -> None:
        self.settings, self.reports_q = settings, one_hot
        self._index = NgramIndex(longest)
        self._vocab_size = vocab_size

    def propose(self, context: Sequence[int], owed: int, k: int, prefix: mx.array | None, keys: RoundKeys) -> Proposal:
        """At most k tokens from the text itself; `q` (k', V) has all its mass on them, or is None."""
        found = self._index.continuation(context, k)
        tokens = mx.array(found, dtype=mx.uint32)
        if not self.reports_q or not found:
            return Proposal(tokens, None, None, None)
        chosen = mx.arange(self._vocab_size)[None] == tokens[:, None]
        return Proposal(tokens, None, mx.where(chosen, 0.0, -float("inf")), chosen.astype(mx.float32))
