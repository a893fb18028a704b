"""The token ids that each cache holds by position, rebuilt from the records for any round; no MLX.

The engine keeps the same ledger as it goes (`engine.caches`); this one answers for rounds long past, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.rounds import CachePositions, Round, RunHeader


@dataclass(frozen=True)
class Ledger:
    """What both caches held behind a round, and what they should have: ids by position.

    `committed`: prompt and emitted tokens; the law wants the first `main_expected` of them in the main cache and
    `draft_expected` in the draft cache. `draft` is None without a drafter's cache.
    """

    committed: tuple[int, ...]
    main: tuple[int, ...]
    main_expected: int
    draft: tuple[int, ...] | None
    draft_expected: int


def ledger_after(
    header: RunHeader, rounds: Sequence[Round], index: int, known: tuple[int, Ledger] | None = None
) -> Ledger:
    """The ledger behind round `index`, of the run's header and its rounds 0..index at least; -1: behind the prompt.

    Costs a walk over the rounds before it, or those behind `known`: an earlier round with its ledger.
    """
    start, ledger = known if known is not None else (-1, _behind_the_prompt(header))
    committed, main = list(ledger.committed), list(ledger.main)
    draft = None if ledger.draft is None else list(ledger.draft)
    main_expected, draft_expected = ledger.main_expected, ledger.draft_expected
    for number in range(start + 1, index + 1):
        record = rounds[number]
        drafted = [d.token for d in record.drafts]
        _refeed(main, record.main_cache, committed)
        main += [committed[-1], *drafted]
        _take_off(main, record.main_cache)
        if draft is not None and record.draft_cache is not None:
            _refeed(draft, record.draft_cache, committed)
            if drafted:
                draft += committed[len(committed) - (record.draft_cache.forwarded - len(drafted) + 1) :]
                draft += drafted[:-1]
            _take_off(draft, record.draft_cache)
            draft_expected = record.draft_cache.expected_end
        committed += [e.token for e in record.emitted]
        main_expected = record.main_cache.expected_end
    return Ledger(tuple(committed), tuple(main), main_expected, None if draft is None else tuple(draft), draft_expected)


def lawful_ledger(header: RunHeader, committed: Sequence[int], main: int, draft: int) -> Ledger:
    """The ledger of two caches that hold so many of the committed tokens, and nothing else."""
    held = tuple(committed)
    return Ledger(held, held[:main], main, None if header.draft is None else held[:draft], draft)


def _behind_the_prompt(header: RunHeader) -> Ledger:
    read = len(header.prompt_tokens) - 1
    return lawful_ledger(header, header.prompt_tokens, read, read)


def _refeed(held: list[int], cache: CachePositions, committed: list[int]) -> None:
    if cache.refed:
        held[cache.start - cache.refed :] = committed[cache.start - cache.refed : cache.start]


def _take_off(held: list[int], cache: CachePositions) -> None:
    if cache.trim_done and cache.trim_done[0]:
        del held[len(held) - cache.trim_done[0] :]
