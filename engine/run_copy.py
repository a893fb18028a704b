"""A recorded run as it stands at one moment, to be read on another thread while the original goes on. No MLX."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import overload

from engine.filed_rounds import FiledRounds
from engine.recording import RecordedRun
from engine.rounds import Round
from engine.session_file import SessionFileError
from engine.session_reader import SessionReader, reader_of

Place = tuple[Path, int]
"""A session file, and the number of a run in it."""


def place_of(run: RecordedRun) -> Place | None:
    """Where a run is recorded to; None for one in memory alone, and for one that was read from a file."""
    keeper = run._keeper
    return None if keeper is None else (keeper.writer.path, keeper.run)


class RunCopy:
    """`run`: what there was of a run when this was made, on the run's own thread, which costs milliseconds.

    `place`: the file of a run that was read from one; the others know their own. Any one thread may read the copy and
    must close it; rounds that it reads from the file raise SessionFileError. `check` is called before each of these,
    and may raise.
    """

    def __init__(self, run: RecordedRun, place: Place | None = None, check: Callable[[], None] = lambda: None) -> None:
        count = len(run)
        copied = self.run = copy.copy(run)
        for name in ("statistics", "meters", "identity", "alternatives", "invariants"):
            setattr(copied, name, copy.deepcopy(getattr(run, name)))
        copied.tokens, copied.marks = list(run.tokens), dict(run.marks)
        copied.content_checks = list(run.content_checks)
        copied._columns = copy.deepcopy(run._columns)
        copied._keeper = None
        self._read: _Rounds | None = None
        if isinstance(run._rounds, FiledRounds):
            self._read = _Rounds(dict(run._rounds._tail), count, _opener(run, place), check)
            copied._rounds = FiledRounds(self._read.round, lambda: count, count)
        else:
            copied._rounds = list(run._rounds)

    def close(self) -> None:
        """Let go of the file."""
        if self._read is not None:
            self._read.close()


def _opener(run: RecordedRun, place: Place | None) -> Callable[[], tuple[SessionReader, int] | None]:
    """Opens the file that holds a run, and no other of its name, and gives the run's number; None without a file."""
    if (keeper := run._keeper) is not None:
        return lambda: (keeper.writer.reader(), keeper.run)
    if place is None:
        return lambda: None
    file = None if run._file_marks is None else run._file_marks[0].file
    return lambda: (reader_of(place[0], file), place[1])


class FirstRounds(Sequence[Round]):
    """The first `count` rounds of a copy, each read when it is asked for. Whoever reads them last closes them."""

    def __init__(self, copied: RunCopy, count: int) -> None:
        self._copy, self._count = copied, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Round: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Round]: ...
    def __getitem__(self, index: int | slice) -> Round | Sequence[Round]:
        numbers = range(self._count)[index]
        return self._copy.run[numbers] if isinstance(numbers, int) else [self._copy.run[n] for n in numbers]

    def close(self) -> None:
        """Let go of the file."""
        self._copy.close()


class _Rounds:
    """Rounds by number: of those that were in memory, or from the file, which is opened when it is first needed."""

    def __init__(
        self,
        tail: dict[int, Round],
        count: int,
        opened: Callable[[], tuple[SessionReader, int] | None],
        check: Callable[[], None],
    ) -> None:
        self._tail, self._count, self._opened, self._check = tail, count, opened, check
        self._reader: SessionReader | None = None
        self._number = 0

    def round(self, number: int) -> Round:
        if (found := self._tail.get(number)) is not None:
            return found
        self._check()
        if self._reader is None:
            opened = self._opened()
            if opened is None:
                raise SessionFileError(f"round {number} is in a file that isn't known")
            self._reader, self._number = opened
        return self._reader.round(self._number, number)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
