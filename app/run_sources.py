"""Runs that can be compared or exported: those that the window knows, and those of files; opened on any thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.jobs import Report, Steps
from app.run_titles import titles
from engine.recording import RecordedRun, stored_run
from engine.run_copy import Place, RunCopy, place_of
from engine.session_file import SessionFileError
from engine.session_reader import SessionReader

if TYPE_CHECKING:
    from app.session import Session

MOST_RUNS = 200
"""Runs of one file that are offered at most, the newest."""


class StoppedError(Exception):
    """The job was cancelled."""


@dataclass(frozen=True, eq=False)
class Source:
    """A run that can be compared: one that the window knows (`run`), or one of a file (`place`), or both."""

    title: str
    run: RecordedRun | None
    place: Place | None

    def is_same(self, other: Source) -> bool:
        """Whether both are one run."""
        if self.run is not None and other.run is not None:
            return self.run is other.run
        if self.place is None or other.place is None or self.place[1] != other.place[1]:
            return False
        with contextlib.suppress(OSError):
            return self.place[0].samefile(other.place[0])
        return self.place[0] == other.place[0]


def place_in(session: Session, run: RecordedRun) -> Place | None:
    """Where a run that the window knows is recorded, None for one in memory alone."""
    for opened in session.opened:
        for known, stored in zip(opened.runs, opened.stored, strict=True):
            if known is run:
                return opened.path, stored.id
    return place_of(run)


def known_sources(session: Session) -> list[Source]:
    """Every run that the window knows, opened recordings first."""
    found = []
    for opened in session.opened:
        for (title, run), stored in zip(titles(opened.runs), opened.stored, strict=True):
            found.append(Source(f"{opened.path.name}: {title}", run, (opened.path, stored.id)))
    return found + [Source(title, run, place_of(run)) for title, run in titles(session.recording.runs)]


@contextlib.contextmanager
def opened_place(place: Place, check: Callable[[], None]) -> Iterator[RecordedRun]:
    """A run of a file. Raises SessionFileError."""
    reader = _Reader(place[0], check)
    try:
        stored = next((run for run in reader.runs() if run.id == place[1]), None)
        if stored is None:
            raise SessionFileError(f"{place[0]} has no run {place[1]}")
        yield stored_run(reader, stored)
    finally:
        reader.close()


class _Reader(SessionReader):
    """Asks before each round whether to go on."""

    def __init__(self, path: Path, check: Callable[[], None]) -> None:
        super().__init__(path)
        self._check = check

    def round(self, run: int, number: int) -> Any:
        self._check()
        return super().round(run, number)


Opener = Callable[[Callable[[], None]], contextlib.AbstractContextManager[RecordedRun]]
"""Given a check, which may raise StoppedError, opens a run on the thread that it is called on."""


def opener(source: Source) -> Opener:
    """To be called on the GUI thread: a run that the window knows is copied as it stands now."""
    if source.run is None:
        assert source.place is not None
        place = source.place
        return lambda check: opened_place(place, check)
    checks: list[Callable[[], None]] = []
    kept = RunCopy(source.run, source.place, lambda: checks[-1]())

    @contextlib.contextmanager
    def opened(check: Callable[[], None]) -> Iterator[RecordedRun]:
        checks.append(check)
        try:
            yield kept.run
        finally:
            kept.close()

    return opened


def checker(job: Any) -> Callable[[], None]:
    """Raises StoppedError once the job is cancelled."""

    def check() -> None:
        if job.cancelled:
            raise StoppedError

    return check


def list_steps(path: Path) -> Steps:
    """A job that gives the list of a file's runs as Sources."""

    def steps(job: Any, report: Report) -> Iterator[list[Source]]:
        try:
            reader = _Reader(path, checker(job))
            try:
                stored = reader.runs()[-MOST_RUNS:]
                if not stored:
                    raise ValueError(f"{path} holds no run")
                # A round that can't be read costs its run its rule in the list, no more.
                runs = [stored_run(reader, entry, patient=True) for entry in stored]
                lines = titles(runs)
                yield [
                    Source(f"{path.name}: {title}", None, (path, entry.id))
                    for (title, _), entry in zip(lines, stored, strict=True)
                ]
            finally:
                reader.close()
        except SessionFileError as error:
            raise ValueError(str(error)) from error
        except StoppedError:
            return

    return steps
