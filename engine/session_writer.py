"""Writes session files: one thread of its own, a batch and a transaction at a time.

Neither the engine nor the window waits for a disk; a killed process loses what wasn't committed and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import sqlite3
import threading
import time
import urllib.parse
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.codec import encode
from engine.rounds import ContentCheck, RunEnd, RunHeader
from engine.session_file import (
    APPLICATION_ID,
    NOBODY,
    ROUNDS,
    SCHEMA,
    SUFFIX,
    TABLES,
    Batch,
    SessionFileError,
    check_schema,
    configure,
    layout_in,
    own_layout,
    same_file,
    words_for,
)
from engine.session_reader import SessionReader, reader_of

log = logging.getLogger("draftscope.engine")

MOST_WAITING = 2**28
"""Bytes of rounds that may wait for the disk; only rounds with the whole vocabulary come to that."""

BUSY_SECONDS = 5.0
"""Seconds that a writer waits for another program to let go of the file."""


@dataclass(frozen=True)
class _Move:
    path: Path
    done: Callable[[str | None], None]


class SessionWriter:
    """Appends to a session file from a thread of its own; `post` and the rest return at once.

    `failure` says why recording stopped, None while it goes; `on_failure` is called with it, on the writer's thread.
    What was committed before stays good; `move_to` and then `resume` go on elsewhere. Raises SessionFileError if the
    file can't be opened.
    """

    def __init__(self, path: Path, on_failure: Callable[[str], None] | None = None) -> None:
        self._place: tuple[Path, os.stat_result | None] = path, None
        self.failure: str | None = None
        self._on_failure = on_failure
        self._committed: dict[int, int] = {}
        self._headers: dict[int, tuple[RunHeader, int | None, int | None, float]] = {}
        self._jobs: queue.SimpleQueue[Callable[[sqlite3.Connection], None] | _Move | None] = queue.SimpleQueue()
        self._posted = self._done = 0
        self._posted_bytes = self._done_bytes = 0
        opened: queue.SimpleQueue[str | int] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, args=(opened,), name="draftscope-recorder", daemon=True)
        self._thread.start()
        if isinstance(found := opened.get(), str):
            self._thread.join()
            raise SessionFileError(found)
        self._next_run = found

    @property
    def path(self) -> Path:
        """The file in use."""
        return self._place[0]

    def reader(self) -> SessionReader:
        """A reader of the file in use. Raises SessionFileError, also where another file has taken its name."""
        return reader_of(*self._place)

    def begin(self, header: RunHeader, parent: int | None = None, fork_round: int | None = None) -> int:
        """Enter a run; returns its id in the file."""
        run, self._next_run = self._next_run, self._next_run + 1
        begun = time.time()

        def job(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._row(connection, run))

        self._headers[run] = header, parent, fork_round, begun
        self._post(job)
        return run

    def _row(self, connection: sqlite3.Connection, run: int) -> tuple[Any, ...]:
        """A row of `runs`, whose vocabulary is in the file."""
        header, parent, fork_round, begun = self._headers[run]
        data = zlib.compress(encode(header.vocabulary)[0].encode(), 1)
        digest = f"{zlib.crc32(data):08x}-{len(data)}"
        connection.execute("INSERT OR IGNORE INTO vocabularies VALUES (?, ?)", (digest, data))
        return run, parent, fork_round, encode(replace(header, vocabulary=NOBODY))[0], digest, begun, None, None

    def restore(self, run: int, end: RunEnd | None, checks: Sequence[ContentCheck], marks: Mapping[int, str]) -> None:
        """Enter a begun run anew, but for its rounds, where some of it may have been lost."""
        at, texts = run * ROUNDS, [encode(check)[0] for check in checks]
        finished = None if end is None else encode(end)[0]
        notes = [(at + number, _storable(note)) for number, note in marks.items()]

        def job(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR IGNORE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", self._row(connection, run))
            connection.execute("UPDATE runs SET finished = ? WHERE id = ?", (finished, run))
            connection.execute("DELETE FROM checks WHERE run = ?", (run,))
            connection.executemany("INSERT INTO checks (run, record) VALUES (?, ?)", ((run, text) for text in texts))
            connection.execute("DELETE FROM marks WHERE id >= ? AND id < ?", (at, at + ROUNDS))
            connection.executemany("INSERT INTO marks VALUES (?, ?)", notes)

        self._post(job)

    def post(self, batch: Batch) -> None:
        """Enter rounds, in order."""
        state = json.dumps(batch.state, allow_nan=False)  # now: what it was made of goes on changing

        def job(connection: sqlite3.Connection) -> None:
            at = batch.run * ROUNDS
            connection.executemany(
                "INSERT INTO rounds VALUES (?, ?, ?)", ((at + r.index, *encode(r)) for r in batch.rounds)
            )
            s = batch.strip
            strip = (at + s.first, s.count, s.columns, s.tokens, s.emitted_curve, s.drafted_curve)
            connection.execute("INSERT INTO strips VALUES (?, ?, ?, ?, ?, ?)", strip)
            connection.execute("UPDATE runs SET state = ? WHERE id = ?", (state, batch.run))

        def after() -> None:
            self._committed[batch.run] = batch.strip.first + batch.strip.count
            self._done_bytes += batch.size

        self._posted_bytes += batch.size
        self._post(job, after)

    def finish(self, run: int, end: RunEnd) -> None:
        """Enter how a run ended, or ended again after going on."""
        text = encode(end)[0]
        self._post(lambda connection: _run(connection, "UPDATE runs SET finished = ? WHERE id = ?", (text, run)))

    def check(self, run: int, found: ContentCheck) -> None:
        """Enter a check of the caches' contents."""
        text = encode(found)[0]
        self._post(lambda connection: _run(connection, "INSERT INTO checks (run, record) VALUES (?, ?)", (run, text)))

    def mark(self, run: int, number: int, note: str | None) -> None:
        """Mark a round with a note, which may be empty; None takes the mark away."""
        self._post(lambda connection: enter_mark(connection, run, number, note))

    def move_to(self, path: Path, done: Callable[[str | None], None]) -> None:
        """Go on in a new file that begins as a copy of this one; what stood at `path` is replaced.

        `done` is called on the writer's thread, with None, or with what went wrong: then the old file stays in use.
        A writer that had failed goes on failing until `resume`: the copy lacks what came since.
        """
        self._jobs.put(_Move(path, done))
        self._posted += 1

    def resume(self) -> None:
        """Write again, behind a failure; the caller enters what the file lacks, and nothing else before it."""
        self._posted_bytes = self._done_bytes = 0
        self.failure = None

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for the disk that whoever makes rounds should wait, too."""
        return self.failure is None and self._posted_bytes - self._done_bytes > MOST_WAITING

    def committed(self, run: int) -> int:
        """How many rounds of a run are safe in the file."""
        return self._committed.get(run, 0)

    @property
    def waiting(self) -> int:
        """Jobs that aren't committed yet."""
        return self._posted - self._done

    def close(self) -> None:
        """Write what waits and close the file; blocks until that is done."""
        self._jobs.put(None)
        self._thread.join()

    def _post(self, job: Callable[[sqlite3.Connection], None], after: Callable[[], None] = lambda: None) -> None:
        def whole(connection: sqlite3.Connection) -> None:
            with connection:  # one transaction
                connection.execute("BEGIN IMMEDIATE")
                job(connection)
            after()

        self._posted += 1
        self._jobs.put(whole)

    # On the writer's thread

    def _work(self, opened: queue.SimpleQueue[str | int]) -> None:
        try:
            connection, next_run = _open_to_write(self.path)
        except (sqlite3.Error, OSError, SessionFileError) as error:
            opened.put(words_for(error, self.path))
            return
        try:
            file = os.stat(self.path)
            self._place = self.path, file
            opened.put(next_run)
            while (job := self._jobs.get()) is not None:
                if isinstance(job, _Move):
                    connection, file = self._move(connection, file, job)
                elif self.failure is None:
                    try:
                        file = same_file(self.path, file)
                        # Not before: a file that nothing is written to stays as it is.
                        connection.execute("PRAGMA journal_mode = WAL")
                        job(connection)
                    except (sqlite3.Error, OSError, SessionFileError) as error:
                        self._fail(_cause(error, self.path, file))
                    except Exception as error:  # a fault of ours must not end the thread, and recording, in silence
                        log.exception("a batch couldn't be written")
                        self._fail(error)
                self._done += 1
            if self._done:
                try:
                    connection.execute("PRAGMA journal_mode = DELETE")  # one file, and nothing beside it
                except sqlite3.Error:  # a reader has it open: what stays beside it then holds nothing of its own
                    with contextlib.suppress(sqlite3.Error):
                        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()

    def _move(
        self, connection: sqlite3.Connection, file: os.stat_result, job: _Move
    ) -> tuple[sqlite3.Connection, os.stat_result]:
        """Copy beside the wanted name, then take the name: nothing is lost where that fails."""
        beside = job.path.with_name(job.path.name + ".part")
        try:
            if job.path.exists() and os.path.samestat(os.stat(job.path), file):
                if self.failure is None:
                    raise SessionFileError(f"{job.path} is the file in use: choose another name")
                self._committed = _rounds_in(connection, self._committed)  # the disk may have room again
                job.done(None)
                return connection, file
            if any(job.path.with_name(job.path.name + end).exists() for end in ("-wal", "-journal")):
                raise SessionFileError(f"{job.path} is being recorded into by another program: choose another name")
            if job.path.exists() and not job.path.is_file():
                raise SessionFileError(f"{job.path} is no plain file: choose another name")
            beside.unlink(missing_ok=True)
            try:
                with contextlib.closing(sqlite3.connect(beside)) as copy:
                    connection.backup(copy)
                    check_schema(copy, self.path)
                    if self.failure is not None and copy.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                        raise SessionFileError(f"{self.path} is damaged")
            except (sqlite3.Error, SessionFileError) as error:
                if self.failure is None or not _is_of_the_source(error):
                    raise
                log.warning("%s can't be read any more: what is in memory goes into a new file", self.path)
                beside.unlink(missing_ok=True)
                _open_to_write(beside)[0].close()
            os.replace(beside, job.path)
            moved, _ = _open_to_write(job.path)
            if self.failure is not None:
                self._committed = _rounds_in(moved, self._committed)
        except (sqlite3.Error, OSError, SessionFileError) as error:
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
            job.done(words_for(error, job.path))
            return connection, file
        connection.close()
        file = os.stat(job.path)
        self._place = job.path, file
        job.done(None)
        return moved, file

    def _fail(self, error: Exception) -> None:
        gone = isinstance(error, SessionFileError)  # removed, or replaced by another
        safe = "" if gone else " What was written before is safe."
        self.failure = f"Recording stopped: {words_for(error, self.path)}.{safe}"
        if self._on_failure is not None:
            self._on_failure(self.failure)


def _run(connection: sqlite3.Connection, statement: str, values: tuple[Any, ...]) -> None:
    connection.execute(statement, values)


def enter_mark(connection: sqlite3.Connection, run: int, number: int, note: str | None) -> None:
    """Mark a round, or take its mark away (None), within the caller's transaction."""
    at = run * ROUNDS + number
    if note is None:
        connection.execute("DELETE FROM marks WHERE id = ?", (at,))
    else:
        connection.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (at, _storable(note)))


def mark_in_file(path: Path, file: os.stat_result, run: int, number: int, note: str | None) -> None:
    """Mark a round of a recorded run, or take its mark away (None); waits for the file's lock, and lets go of it.

    `file`: what the path led to when it was opened. Raises SessionFileError, sqlite3.Error or OSError.
    """
    same_file(path, file)
    quoted = urllib.parse.quote(str(path.absolute()))
    uri = f"file:{quoted}?mode=rw"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        configure(connection)
        check_schema(connection, path)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            enter_mark(connection, run, number, note)


def _storable(note: str) -> str:
    """SQLite takes no half of a surrogate pair, such as a text box may give."""
    return note.encode("utf-8", "replace").decode("utf-8")


def _is_of_the_source(error: Exception) -> bool:
    """Whether a copy failed because the file copied from is no session any more, or can't be read."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, SessionFileError) or (
        code is not None and (code in _UNREADABLE or code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
    )


_UNREADABLE = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_FSTAT)


def _rounds_in(connection: sqlite3.Connection, before: Mapping[int, int]) -> dict[int, int]:
    """How many rounds of each run are in the file, from the first on without a gap, up to those `before`."""
    found = {}
    for run, most in before.items():
        span = (run * ROUNDS, run * ROUNDS + most)
        count = 0
        for key, length in connection.execute(
            "SELECT id, count FROM strips WHERE id >= ? AND id < ? ORDER BY id", span
        ):
            if key != span[0] + count:
                break
            count += length
        held = connection.execute("SELECT count(*) FROM rounds WHERE id >= ? AND id < ?", (span[0], span[0] + count))
        found[run] = count if held.fetchone() == (count,) else 0
    return found


def refusal(path: Path) -> str | None:
    """Why a file can't be recorded into, in words; None if it can. Leaves everything as it was."""
    if path.is_dir():
        return f"{path} is a folder: expected a file's name, such as a{SUFFIX}"
    is_new = not path.exists()
    try:
        _open_to_write(path)[0].close()
    except (sqlite3.Error, OSError, SessionFileError) as error:
        return words_for(error, path)
    finally:
        if is_new:
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    return None


def _open_to_write(path: Path) -> tuple[sqlite3.Connection, int]:
    """(connection, id of the next run); creates the tables of a new file."""
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        configure(connection)
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if not tables and not application:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
                for statement in TABLES.values():
                    connection.execute(statement)
                connection.execute("INSERT INTO meta VALUES ('layout', ?)", (json.dumps(own_layout()),))
        check_schema(connection, path)
        connection.execute("PRAGMA synchronous = NORMAL")
        _same_layout(connection, path)
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM runs").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection, int(last) + 1


def _same_layout(connection: sqlite3.Connection, path: Path) -> None:
    if layout_in(connection) != own_layout():
        raise SessionFileError(
            f"{path} was recorded by another version of Draftscope, so no run can be added to it: record into a new "
            "file. It can still be opened, compared and exported"
        )


def _cause(error: Exception, path: Path, file: os.stat_result) -> Exception:
    """SQLite calls a file that has lost its name read-only: say what happened to it instead."""
    try:
        same_file(path, file)
    except (OSError, SessionFileError) as cause:
        return cause
    return error
