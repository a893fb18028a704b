"""Rebuilding the caches of a recorded run: the recorded passes again, in the same widths and trims, without sampling.

Widths matter: the same tokens in other widths give logits that differ in the last digits, and then other tokens.
"""

from __future__ import annotations

from engine.backend import mx
from engine.caches import Cache
from engine.rounds import CachePositions, Round


def repeat_main(cache: Cache, committed: list[int], record: Round) -> None:
    """A round's pass through the target: y and the drafts, then what was taken off."""
    cache.remember(1 + record.k)
    _pass(cache, [committed[-1], *(d.token for d in record.drafts)])
    _take_off(cache, record.main_cache)


def repeat_draft(cache: Cache, committed: list[int], record: Round) -> None:
    """A round's passes through the drafter: what was pending at once, then draft by draft."""
    positions, drafted = record.draft_cache, [d.token for d in record.drafts]
    if positions is None or not drafted:
        return
    pending = positions.forwarded - (len(drafted) - 1)
    cache.remember(positions.forwarded)
    _pass(cache, committed[len(committed) - pending :])
    for token in drafted[:-1]:
        _pass(cache, [token])
    _take_off(cache, positions)


def _pass(cache: Cache, ids: list[int]) -> None:
    cache.forward(mx.array(ids, dtype=mx.uint32))
    cache.hold(ids)


def _take_off(cache: Cache, positions: CachePositions) -> None:
    cache.trim(positions.trim_done[0] if positions.trim_done else 0)
