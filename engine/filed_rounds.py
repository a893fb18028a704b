"""The rounds of a run by number: the newest in memory, the others from the session file they were written to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from engine.rounds import Round

TAIL = 1024
"""So many of the newest rounds stay in memory, and all that isn't in the file yet."""

KEPT = 512
"""So many of the rounds read last stay in memory."""


class FiledRounds(Sequence[Round]):
    """Behaves as the list of all rounds.

    `read(number)` gets one from the file; `committed()` says how many are safe there. `count`: rounds in the file to
    begin with.
    """

    def __init__(self, read: Callable[[int], Round], committed: Callable[[], int], count: int = 0) -> None:
        self._read, self._committed, self._count = read, committed, count
        self._tail: dict[int, Round] = {}
        self._first = count  # of the tail
        self._recent: OrderedDict[int, Round] = OrderedDict()

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Round: ...
    @overload
    def __getitem__(self, index: slice) -> list[Round]: ...
    def __getitem__(self, index: int | slice) -> Round | list[Round]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._count))]
        number = index + self._count if index < 0 else index
        if not 0 <= number < self._count:
            raise IndexError(f"round {index} of {self._count}")
        if (found := self._tail.get(number) or self._recent.get(number)) is not None:
            return found
        found = self._recent[number] = self._read(number)
        if len(self._recent) > KEPT:
            self._recent.popitem(last=False)
        return found

    def __iter__(self) -> Iterator[Round]:
        return (self[number] for number in range(self._count))

    def append(self, record: Round) -> None:
        """Add the next round; old ones that are safe in the file leave the memory."""
        self._tail[self._count] = record
        self._count += 1
        safe = min(self._committed(), self._count - TAIL)
        while self._first < safe:
            self._tail.pop(self._first, None)
            self._first += 1
