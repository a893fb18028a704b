"""The rounds of a run by number: the newest in memory, the others from the session file they were written to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from engine.rounds import Round
from engine.session_file import SessionFileError

TAIL = 1024
"""So many of the newest rounds stay in memory, and all that isn't in the file yet."""

KEPT = 512
"""So many of the rounds read last stay in memory."""

TAIL_BYTES = 2**28
KEPT_BYTES = 2**27
"""Less of them where rounds are large, as with the whole vocabulary."""


def weight(record: Round) -> int:
    """About how many bytes a round takes in memory."""
    found = 4000
    for seen in record.distributions:
        found += seen.ids.nbytes * (4 + len(seen.p_stages) + len(seen.q_stages))
    return found


class FiledRounds(Sequence[Round]):
    """Behaves as the list of all rounds.

    `read(number)` gets one from the file; `committed()` says how many are safe there. `count`: rounds in the file to
    begin with. `stand_in(number, error)` gives what is shown of one that can't be read; without it the error is raised.
    """

    def __init__(
        self,
        read: Callable[[int], Round],
        committed: Callable[[], int],
        count: int = 0,
        stand_in: Callable[[int, SessionFileError], Round] | None = None,
    ) -> None:
        self._read, self._committed, self._count, self._stand_in = read, committed, count, stand_in
        self._tail: dict[int, Round] = {}
        self._first = count  # of the tail
        self._recent: OrderedDict[int, Round] = OrderedDict()
        self._tail_bytes = self._recent_bytes = 0

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
        if (found := self.in_memory(number)) is not None:
            return found
        try:
            found = self._read(number)
        except SessionFileError as error:
            if self._stand_in is None:
                raise
            return self._stand_in(number, error)
        self._recent[number] = found
        self._recent_bytes += weight(found)
        while len(self._recent) > KEPT or (self._recent_bytes > KEPT_BYTES and len(self._recent) > 1):
            self._recent_bytes -= weight(self._recent.popitem(last=False)[1])
        return found

    def in_memory(self, number: int) -> Round | None:
        """A round that needs no file, or None."""
        return self._tail.get(number) or self._recent.get(number)

    def __iter__(self) -> Iterator[Round]:
        return (self[number] for number in range(self._count))

    def append(self, record: Round) -> None:
        """Add the next round; old ones that are safe in the file leave the memory."""
        self._tail[self._count] = record
        self._tail_bytes += weight(record)
        self._count += 1
        safe = min(self._committed(), self._count - 1)
        while self._first < safe and (self._first < self._count - TAIL or self._tail_bytes > TAIL_BYTES):
            self._tail_bytes -= weight(self._tail.pop(self._first))
            self._first += 1
