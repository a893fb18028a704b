"""What each cache holds at every position against what it should, as arrays: the ledger's content, apart from Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.ledger import Ledger

NOTHING, HELD, OWED, MISSING, DIFFERS, EXTRA = range(6)
"""What a cache holds at a position, the worse the higher. OWED: the draft cache is fed it with the next drafts. EXTRA:
the cache holds more than it should."""

STATUS_WORDS = ("", "same", "owed", "missing", "differs", "too many")

Statuses = npt.NDArray[np.int8]
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Lane:
    """One cache: `status` (positions,), the ids that it holds (held,), and how many it should."""

    name: str
    status: Statuses
    held: Ids
    expected: int

    @property
    def is_right(self) -> bool:
        return not bool((self.status >= MISSING).any())

    def count(self, status: int) -> int:
        """Positions of a status."""
        return int((self.status == status).sum())


@dataclass(frozen=True)
class Comparison:
    """Both caches behind a round. `committed`: prompt and emitted tokens; the last one is pending, in no cache yet.

    `positions`: so many that either cache holds or should. `first`: the first one that is wrong in either.
    """

    committed: Ids
    lanes: tuple[Lane, ...]
    positions: int
    first: int | None

    def wrong(self) -> npt.NDArray[np.int64]:
        """The positions at which a cache is wrong, in order."""
        return np.flatnonzero(self.worst() >= MISSING)

    def worst(self) -> Statuses:
        """The worse status of the two caches at every position."""
        worst: Statuses = np.max([lane.status for lane in self.lanes], axis=0)
        return worst


def compare(ledger: Ledger) -> Comparison:
    """Hold both caches' ids against the committed ones, position by position."""
    committed = np.asarray(ledger.committed, np.int64)
    caches: list[tuple[str, Sequence[int], int]] = [("main", ledger.main, ledger.main_expected)]
    if ledger.draft is not None:
        caches.append(("draft", ledger.draft, ledger.draft_expected))
    positions = max(len(committed) - 1, *(len(held) for _, held, _ in caches), 0)
    lanes = tuple(_lane(name, held, expected, committed, positions) for name, held, expected in caches)
    found = Comparison(committed, lanes, positions, None)
    wrong = found.wrong()
    return Comparison(committed, lanes, positions, int(wrong[0]) if wrong.size else None)


def _lane(name: str, held: Sequence[int], expected: int, committed: Ids, positions: int) -> Lane:
    ids, status = np.asarray(held, np.int64), np.zeros(positions, np.int8)
    both, count = min(len(ids), expected), len(ids)
    status[:both] = np.where(ids[:both] == committed[:both], HELD, DIFFERS)
    status[count:expected] = MISSING
    status[expected:count] = EXTRA
    status[max(count, expected) : len(committed) - 1] = OWED
    return Lane(name, status, ids, expected)
