"""Marks and notes on the rounds of an opened session file, written into it by short writes on a thread of their own."""

from __future__ import annotations

import logging
import os
import queue
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

from engine.session_file import SessionFileError, words_for
from engine.session_writer import mark_in_file

log = logging.getLogger("draftscope.engine")


class FileMarks:
    """Writes marks into a file that was opened to be looked at. The thread begins with the first mark.

    Each is a transaction with the file's lock, after which the file is let go of: other programs may record into it.
    `on_refused` is called on that thread with the reason, once for each reason in a row: the mark is in memory alone.
    `refused`: a reason why nothing is to be written at all. Raises OSError if there is no such file.
    """

    def __init__(self, path: Path, refused: str = "") -> None:
        self.path = path
        self.on_refused: Callable[[str], None] = lambda why: None
        self.file, self._refused = os.stat(path), refused
        """What the path led to then."""
        self._jobs: queue.SimpleQueue[tuple[int, int, str | None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._said = ""

    def mark(self, run: int, number: int, note: str | None) -> None:
        """Mark a round of a run of the file, or take its mark away (None); returns at once."""
        if self._refused:
            self._tell(self._refused)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="draftscope-marks", daemon=True)
            self._thread.start()
        self._jobs.put((run, number, note))

    def close(self) -> None:
        """Write what waits; blocks until that is done."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            why = ""
            try:
                mark_in_file(self.path, self.file, *job)
            except (sqlite3.Error, OSError, SessionFileError) as error:
                why = words_for(error, self.path)
            except Exception as error:  # a fault of ours must not end the thread in silence
                log.exception("a mark couldn't be written")
                why = str(error)
            self._tell(why)

    def _tell(self, why: str) -> None:
        if why and why != self._said:
            self.on_refused(why)
        self._said = why
