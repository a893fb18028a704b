"""`draftscope run --record`: the session file that a headless run is kept in while it goes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.format import plural
from app.headless.request import UserError
from app.headless.terminal import say
from engine.recording import RecordedRun, Recording
from engine.recording_size import in_bytes, run_bytes, size_words
from engine.rounds import RunHeader
from engine.session_file import SUFFIX, SessionFileError
from engine.session_writer import SessionWriter
from engine.settings import Settings

STOPPED = 3
"""Exit code of a run that went well, but whose recording stopped before its end."""


class Record:
    """Keeps runs in a session file; without one it keeps nothing."""

    def __init__(self, writer: SessionWriter | None) -> None:
        self.writer = writer
        self.runs: list[RecordedRun] = []

    def keep_up(self) -> None:
        """Wait while too much waits for the disk."""
        while self.writer is not None and self.writer.is_behind:
            time.sleep(0.005)

    @property
    def stopped(self) -> bool:
        """Whether rounds are missing in the file; known for certain once all is written."""
        return self.writer is not None and self.writer.failure is not None

    def begin(self, header: RunHeader) -> RecordedRun | None:
        """A run that is written as it grows; None without a file, or once writing has failed."""
        if self.writer is None or self.writer.failure is not None:
            return None
        recording = Recording()
        recording.writer = self.writer
        self.runs.append(recording.begin(header))
        return self.runs[-1]


@contextmanager
def recorded_in(name: str | None) -> Iterator[Record]:
    """Open a session file, new or to be appended to; leaving waits until all is written.

    Raises UserError if it can't be used. A failure later is said once on standard error, and the run goes on.
    """
    if name is None:
        yield Record(None)
        return
    path = Path(name).expanduser()
    if path.is_dir():
        raise UserError(f"--record: {path} is a folder: expected a file's name, such as a{SUFFIX}")
    is_new = not path.exists()
    try:
        writer = SessionWriter(path, lambda words: say(f"draftscope run: {words}"))
    except SessionFileError as error:
        raise UserError(f"--record: {error}") from error
    record = Record(writer)
    try:
        yield record
    finally:
        writer.close()
        if is_new and not record.runs:
            path.unlink(missing_ok=True)  # nothing came of it, such as for models that can't be loaded
    if record.runs and writer.failure is None:
        say(f"recorded in {path}: {plural(sum(map(len, record.runs)), 'round')}")


def announce_size(settings: Settings, vocab_size: int, has_draft: bool, name: str | None) -> None:
    """Say how much a run with the full vocabulary takes, and whether the disk has room for it."""
    say(f"full vocabulary, {vocab_size} tokens: {size_words(settings, vocab_size, has_draft)}")
    if name is None or (found := run_bytes(settings, vocab_size, has_draft)) is None:
        return
    free = shutil.disk_usage(Path(name).expanduser().absolute().parent).free
    if found[1] > free:
        say(f"notice: the disk has {in_bytes(free)} left, and the run may take {in_bytes(found[1])}")
