"""What the commands on recorded sessions share: opening a file, choosing a run or a round. No MLX, no Qt."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from app.format import plural
from app.headless.request import UserError
from app.headless.terminal import say
from engine.recording import RecordedRun, stored_run
from engine.session_file import SessionFileError, StoredRun
from engine.session_reader import SessionReader

DAMAGED = 2
"""Exit code where a file, or a run that was asked for, can't be read whole."""


@contextmanager
def opened(name: str) -> Iterator[SessionReader]:
    """A session file to read, as of one moment. Raises UserError for whatever is wrong with it, then and later."""
    try:
        reader = SessionReader(Path(name).expanduser())
        try:
            with reader.snapshot():  # it may still grow
                yield reader
        finally:
            reader.close()
    except SessionFileError as error:
        raise UserError(str(error)) from error


def runs_of(reader: SessionReader) -> list[StoredRun]:
    """All runs of a file; those that can't be read are said. Raises UserError for one without any."""
    found = reader.runs()
    for sentence in reader.left_out:
        say(sentence)
    if not found:
        raise UserError(f"{reader.path} holds no run")
    return found


def chosen_run(reader: SessionReader, number: int | None, option: str = "--run") -> StoredRun:
    """The run with a number, or the only one. Raises UserError."""
    runs = runs_of(reader)
    numbers = ", ".join(str(run.id) for run in runs[:20]) + (", ..." if len(runs) > 20 else "")
    if number is None and len(runs) > 1:
        raise UserError(f"{reader.path} holds runs {numbers}: choose one with {option}")
    for run in runs:
        if number is None or run.id == number:
            return run
    raise UserError(f"{option}: {reader.path} has no run {number}; it holds {numbers}")


def loaded(reader: SessionReader, stored: StoredRun) -> RecordedRun:
    """A run, ready to be read while the reader is open; what is wrong with it is said on standard error."""
    run = stored_run(reader, stored)
    if run.damage is not None:
        say(f"run {stored.id} of {reader.path}: {run.damage}")
    return run


def check_round(run: RecordedRun, name: int, number: int) -> None:
    """Raise UserError unless the run has this round."""
    if 0 <= number < len(run):
        return
    held = "no round" if not len(run) else f"{plural(len(run), 'round')}, numbered from 0 to {len(run) - 1}"
    raise UserError(f"--round: run {name} has {held}; got {number}")
