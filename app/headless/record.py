"""`draftscope run --record`: the session file that a headless run is kept in while it goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.format import plural
from app.headless.request import UserError
from app.headless.terminal import say
from engine.recording import RecordedRun, Recording
from engine.rounds import RunHeader
from engine.session_file import SessionFileError, SessionWriter


class Record:
    """Keeps runs in a session file; without one it keeps nothing."""

    def __init__(self, writer: SessionWriter | None) -> None:
        self.writer = writer
        self.runs: list[RecordedRun] = []

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
        raise UserError(f"--record: {path} is a folder: expected a file's name, such as a.draftscope")
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
