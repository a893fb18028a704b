"""Where runs are recorded: an autosave in the user's data folder, or the file that the user named."""

from __future__ import annotations

import contextlib
import datetime
import os
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject, QStandardPaths, QSysInfo, Signal

from engine.recording import Recording
from engine.session_file import SUFFIX, SessionFileError
from engine.session_writer import SessionWriter

KEPT_FILES = 20
KEPT_BYTES = 2**31
"""Autosaves of sittings that ended well are removed, oldest first, beyond these."""

LOCK = ".lock"
"""Beside an autosave while it is written; one that nobody holds any more tells of a sitting that didn't end well."""


def autosave_folder() -> Path:
    """Where autosaves are kept: the user's data folder for this program."""
    return Path(QStandardPaths.writableLocation(QStandardPaths.StandardLocation.AppDataLocation)) / "sessions"


class Recorder(QObject):
    """Owns the writer of this sitting.

    `failed` (why, in words): runs go on but aren't recorded any more. `saved` (the path, what went wrong or ""): the
    answer to `save_as`. `lost` (in words): rounds that a failure took away, which the file saved to lacks. All come on
    this object's thread. `recording`: the runs of the sitting, which are entered anew where recording had stopped.
    """

    failed = Signal(str)
    saved = Signal(str, str)
    lost = Signal(str)
    _moved = Signal(str, str)

    def __init__(self, path: Path | None = None, folder: Path | None = None, parent: QObject | None = None) -> None:
        """`path`: the file to record into, None for an autosave in `folder` (default: the user's data folder)."""
        super().__init__(parent)
        self._path, self._folder = path, folder
        self.writer: SessionWriter | None = None
        self.recording: Recording | None = None
        self.named = path is not None
        """Whether the user named the file in use."""
        self.failure = ""
        self._lock: QLockFile | None = None
        self._autosave: Path | None = None
        self._moved.connect(self._on_moved)

    @property
    def folder(self) -> Path:
        return self._folder if self._folder is not None else autosave_folder()

    def start(self) -> SessionWriter | None:
        """The writer; the first call opens the file. None where nothing can be recorded, which `failure` tells."""
        if self.writer is None and not self.failure:
            try:
                path = self._path
                if path is None:
                    path = self._autosave = self._new_autosave()
                self.writer = SessionWriter(path, self._tell_failure)
            except (OSError, SessionFileError) as error:
                self._release()
                self._tell_failure(f"Nothing is recorded: {error}.")
        return self.writer

    def save_as(self, path: Path) -> None:
        """Record into this file from now on, with all that this sitting has recorded; `saved` tells how it went.

        Where recording had stopped, it goes on there, and what the old file lacks is entered from memory.
        """
        writer = self.start()
        if writer is None:
            self._begin_at(path)
        else:
            writer.move_to(path, lambda wrong: self._moved.emit(str(path), wrong or ""))

    def _on_moved(self, path: str, wrong: str) -> None:
        """On this object's thread, as whatever posts rounds: none may come between the copy and what it lacks."""
        assert self.writer is not None
        if not wrong:
            self.named = True
            if self.writer.failure is not None:
                self.failure = ""
                self.writer.resume()
                self._enter_anew()
        self.saved.emit(path, wrong)

    def _begin_at(self, path: Path) -> None:
        """Nothing could be recorded so far: enter every run into a new file."""
        before = path.with_name(f"{path.name}.before")
        try:
            if any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal")):
                raise SessionFileError(f"{path} is being recorded into by another program: choose another name")
            if replaced := path.is_file():
                os.replace(path, before)
            try:
                self.writer = SessionWriter(path, self._tell_failure)
            except SessionFileError:
                if replaced:
                    os.replace(before, path)
                raise
            before.unlink(missing_ok=True)
        except (OSError, SessionFileError) as error:
            self.saved.emit(str(path), str(error))
            return
        self.named, self.failure = True, ""
        if self.recording is not None:
            self.recording.writer = self.writer
        self._enter_anew()
        self.saved.emit(str(path), "")

    def _enter_anew(self) -> None:
        if self.recording is not None and (lost := self.recording.repeat()):
            self._autosave = None  # it may hold what was lost: not to be removed
            self.lost.emit(lost)

    def close(self) -> None:
        """Write what waits; an autosave that became a named file is removed. May block for as long as a disk takes."""
        if self.writer is not None:
            self.writer.close()
        if self.named and self._autosave is not None and not self.failure:
            remove(self._autosave)
        self._release()
        tidy(self.folder)

    def _new_autosave(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        stamp = datetime.datetime.now().strftime("%Y-%m-%d %H.%M.%S")
        for number in range(1000):
            path = self.folder / f"{stamp}{f' {number}' if number else ''}{SUFFIX}"
            lock = _lock_of(path.with_name(path.name + LOCK))
            if not path.exists() and lock.tryLock(0):
                self._lock = lock
                return path
        raise OSError(f"{self.folder} has no free name for an autosave, or can't be written to")

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.unlock()
            self._lock = None

    def _tell_failure(self, why: str) -> None:
        self.failure = why
        self.failed.emit(why)


class Unfinished:
    """An autosave of a sitting that didn't end well; held until `settle` or `leave`: no other window offers it, too."""

    def __init__(self, path: Path, lock: QLockFile) -> None:
        self.path, self._lock = path, lock

    def settle(self) -> None:
        """From now on it counts as one that ended well."""
        self._lock.unlock()

    def leave(self) -> None:
        """Nobody has answered: the next window is to offer it again."""
        mark = Path(self._lock.fileName())
        self._lock.unlock()  # which removes the mark
        with contextlib.suppress(OSError):
            mark.write_text(_NOBODYS)


_NOBODYS = f"{2**31 - 1}\ndraftscope\n{QSysInfo.machineHostName()}\n"
"""What QLockFile writes, for a process that can't be: a lock that nobody holds."""


def unfinished(folder: Path) -> list[Unfinished]:
    """Autosaves of sittings that didn't end well, newest first."""
    found = []
    for mark in sorted(folder.glob(f"*{SUFFIX}{LOCK}"), reverse=True):
        path, lock = mark.with_name(mark.name.removesuffix(LOCK)), _lock_of(mark)
        if lock.tryLock(0):  # whoever held it is gone
            if path.exists():
                found.append(Unfinished(path, lock))
            else:
                lock.unlock()
    return found


def _lock_of(mark: Path) -> QLockFile:
    lock = QLockFile(str(mark))
    lock.setStaleLockTime(0)  # a lock is as old as its sitting: only a dead process makes it stale
    return lock


def remove(path: Path) -> None:
    """Remove a session file with what SQLite keeps beside it."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with contextlib.suppress(OSError):
            path.with_name(name).unlink(missing_ok=True)


def tidy(folder: Path) -> None:
    """Remove the oldest autosaves beyond the limits; never one whose sitting didn't end well, or goes on."""
    kept = size = 0
    for path in sorted(folder.glob(f"*{SUFFIX}"), reverse=True):
        if path.with_name(path.name + LOCK).exists():
            continue
        with contextlib.suppress(OSError):
            kept, size = kept + 1, size + os.stat(path).st_size
        if kept > KEPT_FILES or size > KEPT_BYTES:
            remove(path)
