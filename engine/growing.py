"""A session file that another program still records into: what has been added to a run since it was opened. No MLX."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from engine.rounds import ContentCheck, Round, RunEnd
from engine.session_file import SessionFileError
from engine.session_reader import SessionReader

STEP = 32
"""Rounds read at once, which are some milliseconds."""


@dataclass(frozen=True)
class Growth:
    """What came next in a run, in order; behind an `end` nothing comes."""

    rounds: tuple[Round, ...] = ()
    checks: tuple[ContentCheck, ...] = ()
    end: RunEnd | None = None

    def __bool__(self) -> bool:
        return bool(self.rounds or self.checks or self.end is not None)


class GrowingRun:
    """Reads on behind the `rounds` and `checks` of run `run` that are known. Must be used on the thread that made it.

    Raises SessionFileError for what can't be read.
    """

    def __init__(self, path: Path, run: int, rounds: int, checks: int) -> None:
        self.path, self._run, self._rounds, self._checks = path, run, rounds, checks
        self._reader = SessionReader(path)
        self._file = _identity(path)
        self._seen: tuple[float, ...] = ()

    def close(self) -> None:
        self._reader.close()

    def changed(self) -> bool:
        """Whether anything was written since the last call; costs no look into the file."""
        if _identity(self.path) != self._file:
            raise SessionFileError(f"{self.path} was replaced by another file")
        before, self._seen = self._seen, _footprint(self.path)
        return self._seen != before

    def read(self) -> Growth:
        """The next rounds, STEP at most, and new checks; the end once there are no more rounds. Empty: nothing new."""
        with self._reader.snapshot():
            numbers = self._reader.round_numbers(self._run, self._rounds, STEP)
            if numbers != list(range(self._rounds, self._rounds + len(numbers))):
                raise SessionFileError(f"{self.path} lacks round {self._rounds} of run {self._run}")
            rounds = tuple(self._reader.round(self._run, number) for number in numbers)
            checks = tuple(self._reader.checks(self._run)[self._checks :])
            self._rounds += len(rounds)
            self._checks += len(checks)
            return Growth(rounds, checks, None if rounds else self._end())

    def _end(self) -> RunEnd | None:
        return next((stored.end for stored in self._reader.runs() if stored.id == self._run), None)


def _identity(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as error:
        raise SessionFileError(f"{path} can't be followed any more: {error.strerror or error}") from error
    return found.st_ino, found.st_dev


def _footprint(path: Path) -> tuple[float, ...]:
    """Sizes and times of the file and of the log that SQLite writes beside it."""
    found: list[float] = []
    for one in (path, path.with_name(f"{path.name}-wal")):
        try:
            stat = os.stat(one)
        except OSError:
            found += (-1, -1)
        else:
            found += (stat.st_size, stat.st_mtime_ns)
    return tuple(found)
