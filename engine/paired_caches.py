"""The two caches of a run, the target's and the drafter's, and what is owed to the latter: fed, rewound, rebuilt.

Where they must stand is said in `engine.rewinds`; what one of them can do, in `engine.caches`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.backend import mx
from engine.cache_layers import kv_quantization, snapshot_notice
from engine.caches import Cache, broken_law, rewind
from engine.drafting import make_drafter
from engine.models import LanguageModel, Pair
from engine.replay import repeat_draft, repeat_main
from engine.rewinds import REWIND_TABLE, Outcome, Rewind, draft_trim, main_trim, next_debt
from engine.rounds import CachePositions, Drafting, Round
from engine.settings import Settings

log = logging.getLogger("draftscope.engine")


@dataclass(frozen=True)
class Start:
    """Where both caches stand before a round's passes, and the tokens that had to be fed anew to get there."""

    main: int
    draft: int
    main_refed: int
    draft_refed: int


class PairedCaches:
    """`main`, and `drafter` with its cache; None: plain decoding. `debt`: tokens of the text that the drafter lacks.

    `context` is always the prompt and all emitted tokens, the last of which is pending. `settings` may be replaced
    between two rounds. Raises SettingsError for a drafter that can't be made.
    """

    def __init__(self, pair: Pair, settings: Settings) -> None:
        self.pair, self.settings = pair, settings
        self.main = self._fresh(pair.target)
        self.debt = 0
        self._trims = (0, 0)  # by the law, of the round before
        self._put_drafter()

    @property
    def draft(self) -> Cache | None:
        """The drafter's cache."""
        return None if self.drafter is None else self.drafter.cache

    @property
    def draft_model(self) -> LanguageModel | None:
        """The drafter's network."""
        return None if self.drafter is None else self.drafter.model

    @property
    def main_rewind(self) -> Rewind:
        return REWIND_TABLE[self.settings.main_rewind]

    @property
    def draft_rewind(self) -> Rewind:
        return REWIND_TABLE[self.settings.rewind]

    @property
    def owed(self) -> int:
        """Tokens before the last that the next draft pass is fed: the debt, unless a fault forgets it."""
        return self.debt if self.draft_rewind.feeds_debt else 0

    # What is said of them

    def drafting(self) -> Drafting:
        """What drafts now."""
        if self.drafter is None:
            return Drafting("none", None)
        info = None if self.draft_model is None else self.draft_model.info
        return Drafting(self._drafter_text, info, () if self.draft is None else self.draft.describe())

    def notices(self) -> list[str]:
        """Layers that go back by snapshot, for the banner."""
        caches: dict[str, Iterable[Any]] = {"target": self.main.layers}
        if self.draft is not None:
            caches["draft"] = self.draft.layers
        notice = snapshot_notice(caches)
        return [] if notice is None else [notice]

    # Before a round

    def read(self, ids: list[int], stopped: Callable[[int, int], bool]) -> bool:
        """Feed a prompt to both caches, chunk by chunk; False if `stopped(done, total)` said so."""
        caches = [self.main] if self.draft is None else [self.main, self.draft]
        done, total = 0, len(ids) * len(caches)
        for cache in caches:
            for fed in cache.feed(ids):
                if stopped(done, total):
                    return False
                done += fed
        return not stopped(done, total)

    def change_drafter(self, context: list[int]) -> int:
        """Put the drafter that is asked for in the place of another, and feed its cache; how many tokens it took."""
        if self._drafter_text == self.settings.drafter:
            return 0
        self._put_drafter()
        if self.draft is None:
            return 0
        return _fill(self.draft, context[: len(context) - 1 - self.debt])

    def ready(self, context: list[int], k: int, refed: int = 0) -> Start:
        """Repair what a fault, now off, left wrong, and remember both caches before a round that drafts k tokens.

        `refed`: tokens that a new drafter was fed just now.
        """
        main_refed = _repair(self.main, self.main_rewind, context[:-1])
        main_start = self.main.position
        self.main.remember(k + 1)
        if self.draft is None:
            return Start(main_start, 0, main_refed, 0)
        if k:
            refed += _repair(self.draft, self.draft_rewind, context[: len(context) - 1 - self.debt])
        self.draft.remember(self.owed + k)
        return Start(main_start, self.draft.position, main_refed, refed)

    # After its passes

    def return_to(self, start: Start) -> None:
        """Bring both caches back to before a round that failed. Raises CacheError where one can't."""
        self.main.return_to(start.main)
        if self.draft is not None:
            self.draft.return_to(start.draft)

    def hold(self, context: list[int], drafted: list[int]) -> None:
        """Enter a round's passes into both ledgers."""
        self.main.hold([context[-1], *drafted])
        if self.draft is not None and drafted:
            self.draft.hold([*self._pending(context), *drafted[:-1]])

    def rewind(
        self, context: list[int], start: Start, k: int, accepted: int, emitted: int
    ) -> tuple[CachePositions, CachePositions | None]:
        """Bring both back to the accepted prefix; `context` holds the round's emitted tokens by now.

        The draft's is None for a drafter without a cache, which owes nothing.
        """
        lawful, before = (main_trim(k, emitted), draft_trim(k, emitted) if k else 0), self._trims
        self._trims = lawful
        asked = self.main_rewind.trim(Outcome(k, accepted, emitted, lawful[0], before[0]))
        main = rewind(self.main, self.main_rewind, asked, start.main, context, len(context) - 1, start.main_refed)
        if self.draft is None:
            self.debt = 0
            return main, None
        asked = self.draft_rewind.trim(Outcome(k, accepted, emitted, lawful[1], before[1])) if k else 0
        self.debt = next_debt(self.debt, k, emitted)
        expected = len(context) - 1 - self.debt
        return main, rewind(self.draft, self.draft_rewind, asked, start.draft, context, expected, start.draft_refed)

    def broken_laws(self, main: CachePositions, draft: CachePositions | None, k: int) -> list[str]:
        """How a cache missed the law without a fault asked for. A drafter that drafted nothing isn't held to it."""
        found = [("main", self.main_rewind, main)]
        if draft is not None and k:
            found.append(("draft", self.draft_rewind, draft))
        told = [broken_law(name, positions) for name, how, positions in found if not how.is_fault]
        return [broken for broken in told if broken is not None]

    # A recorded run, and a check

    def repeat(self, context: list[int], record: Round) -> None:
        """Repeat a recorded round's passes and trims behind `context`, without its emitted tokens."""
        _feed_anew(self.main, record.main_cache, context)
        repeat_main(self.main, context, record)
        if "drafter" in record.changed:
            self._put_drafter()
        if self.draft is not None and record.draft_cache is not None:
            _feed_anew(self.draft, record.draft_cache, context)
            repeat_draft(self.draft, context, record)
            self.draft.evaluate()
        self.main.evaluate()
        k, emitted = record.k, len(record.emitted)
        self.debt = record.debt
        self._trims = (main_trim(k, emitted), draft_trim(k, emitted) if k else 0)

    def differences(self, context: list[int], read: int) -> tuple[float, float | None, int]:
        """Largest differences, of the main and the draft cache, between the next-token logits from the caches in use
        and from fresh ones over the same tokens; and the syncs that it took. `read`: tokens that were read at first."""
        main, syncs = self._difference(self.pair.target, self.main, context, context[-1:], read)
        if self.draft_model is None or self.draft is None:
            return main, None, syncs
        draft, more = self._difference(self.draft_model, self.draft, context, self._pending(context), read)
        return main, draft, syncs + more

    # Parts

    def _fresh(self, model: LanguageModel) -> Cache:
        return Cache(model, kv_quantization(self.settings), self.settings.prefill_chunk)

    def _put_drafter(self) -> None:
        self._drafter_text = self.settings.drafter
        self.drafter = make_drafter(self.pair, self.settings, self._fresh)
        log.info("drafter in use: %s, chosen", "none" if self.drafter is None else self._drafter_text)

    def _pending(self, context: list[int]) -> list[int]:
        """What the next draft pass is fed: the owed tokens and the last."""
        return context[len(context) - 1 - self.owed :]

    def _difference(
        self, model: LanguageModel, cache: Cache, context: list[int], pending: list[int], read: int
    ) -> tuple[float, int]:
        fresh = self._fresh(model)
        with cache.lent(len(pending)):
            in_use = cache.forward(mx.array(pending, dtype=mx.uint32))[0, -1]
            quantized_at = cache.quantized_at
        syncs = _refill(fresh, context[:-1], read, quantized_at) + 1
        anew = fresh.forward(mx.array(context[-1:], dtype=mx.uint32))[0, -1]
        # What both rule out with -inf doesn't differ.
        gap = mx.where(in_use == anew, 0, mx.abs(in_use.astype(mx.float32) - anew.astype(mx.float32)))
        return float(np.array(mx.max(gap))), syncs


def _fill(cache: Cache, ids: list[int]) -> int:
    """Feed ids; how many."""
    for _ in cache.feed(ids):
        pass
    return len(ids)


def _repair(cache: Cache, how: Rewind, held: list[int]) -> int:
    """Feed a cache anew from where a fault, now off, left it wrong; a prefill, with syncs of its own."""
    if how.is_fault or (wrong := cache.first_wrong(held, len(held))) is None:
        return 0
    good = cache.within_reach(wrong)
    cache.return_to(good)
    return _fill(cache, held[good:])


def _feed_anew(cache: Cache, positions: CachePositions, context: list[int]) -> None:
    if positions.refed:
        good = positions.start - positions.refed
        cache.return_to(good)
        _fill(cache, context[good : positions.start])


def _refill(fresh: Cache, ids: list[int], read: int, quantized_at: int | None) -> int:
    """Feed all of `ids` to an empty cache, in quantized keys and values from where another had them; the syncs."""
    syncs = sum(1 for _ in fresh.feed(ids[:read]))
    if quantized_at is not None and fresh.quantized_at is None:
        syncs += sum(1 for _ in fresh.feed(ids[read:quantized_at]))
        fresh.quantize()
        read = max(read, quantized_at)
    return syncs + sum(1 for _ in fresh.feed(ids[read:]))
