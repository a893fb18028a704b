"""The session file: runs and all their rounds in one SQLite file, append-only while a run goes.

One thread of its own writes, a batch and a transaction at a time, so that neither the engine nor the window waits for
a disk; a killed process loses what wasn't committed and nothing else. Readers open it read-only and believe nothing.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.codec import CodecError, Reader, encode, layout_of
from engine.columns import COLUMNS
from engine.rounds import ContentCheck, Round, RunEnd, RunHeader
from engine.text import Vocabulary

log = logging.getLogger("draftscope.engine")

SCHEMA = 1
APPLICATION_ID = 0x44534350  # "DSCP"
SUFFIX = ".draftscope"
NOBODY = Vocabulary((), frozenset(), {}, frozenset())  # stands in a stored header, whose vocabulary is kept once

_TABLES = {
    "meta": "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "vocabularies": "CREATE TABLE vocabularies (digest TEXT PRIMARY KEY, data BLOB NOT NULL)",
    "runs": (
        "CREATE TABLE runs (id INTEGER PRIMARY KEY, parent INTEGER, fork_round INTEGER, header TEXT NOT NULL, "
        "vocabulary TEXT NOT NULL, begun REAL NOT NULL, finished TEXT, state TEXT)"
    ),
    "rounds": "CREATE TABLE rounds (id INTEGER PRIMARY KEY, record TEXT NOT NULL, arrays BLOB NOT NULL)",
    "strips": (
        "CREATE TABLE strips (id INTEGER PRIMARY KEY, count INTEGER NOT NULL, columns BLOB NOT NULL, "
        "tokens BLOB NOT NULL, emitted_curve BLOB NOT NULL, drafted_curve BLOB NOT NULL)"
    ),
    "checks": "CREATE TABLE checks (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, record TEXT NOT NULL)",
    "marks": "CREATE TABLE marks (id INTEGER PRIMARY KEY, note TEXT NOT NULL)",
}
"""`id` of rounds, strips and marks: run * ROUNDS + number of the round, or of the first of a strip."""

_COLUMNS = "columns of a strip"  # among the names of records, which have no spaces
ROUNDS = 2**32
MOST_BYTES = 2**28
"""No value of a file may be larger, whatever the file says."""

MOST_WAITING = 2**28
"""Bytes of rounds that may wait for the disk; only rounds with the whole vocabulary come to that."""

BUSY_SECONDS = 5.0
"""Seconds that a writer waits for another program to let go of the file."""

SLOWEST = 20.0
"""Seconds after which a reader gives up on one question to a file."""


class SessionFileError(Exception):
    """A session file can't be written or read; the text says what was expected, what came, and what to do."""


@dataclass(frozen=True)
class Strip:
    """A batch's share of what is kept whole in memory: the columns, row by row, and more, as raw little-endian bytes.

    `columns`: 8 bytes a number; `tokens`: int32; the meters' curves: float32 a token.
    """

    first: int
    count: int
    columns: bytes
    tokens: bytes
    emitted_curve: bytes
    drafted_curve: bytes


@dataclass(frozen=True)
class Batch:
    """Whole rounds of one run, their strip, and the run's state behind them, JSON-ready. `size`: about their bytes."""

    run: int
    rounds: tuple[Round, ...]
    strip: Strip
    state: dict[str, Any]
    size: int = 0


@dataclass(frozen=True)
class StoredRun:
    """A run as the file lists it. `begun`: seconds since 1970. `state`: as in its last batch, None without one.

    `damage`: what of this couldn't be read, in sentences.
    """

    id: int
    parent: int | None
    fork_round: int | None
    header: RunHeader
    end: RunEnd | None
    begun: float
    state: dict[str, Any] | None
    damage: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Move:
    path: Path
    done: Callable[[str | None], None]


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)


def _check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise SessionFileError unless this is a session of this version, with these tables and no more."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION_ID:
        raise SessionFileError(f"{path} is no Draftscope session: choose a file that Draftscope has recorded")
    if schema > SCHEMA:
        raise SessionFileError(
            f"{path} was recorded by a newer Draftscope (schema {schema}, this one reads up to {SCHEMA}): "
            "open it with that version"
        )
    found = dict(connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_autoindex%'"))
    if found != _TABLES:
        names = sorted(str(name)[:40] for name in {*found} ^ {*_TABLES}) or ["their columns"]
        raise SessionFileError(f"{path} is damaged: its tables aren't a session's ({', '.join(names)[:200]})")


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
                        file = _same_file(self.path, file)
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
                    _check_schema(copy, self.path)
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
    _same_file(path, file)
    quoted = urllib.parse.quote(str(path.absolute()))
    uri = f"file:{quoted}?mode=rw"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)) as connection:
        _configure(connection)
        _check_schema(connection, path)
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
        _configure(connection)
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if not tables and not application:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
                for statement in _TABLES.values():
                    connection.execute(statement)
                connection.execute("INSERT INTO meta VALUES ('layout', ?)", (json.dumps(_own_layout()),))
        _check_schema(connection, path)
        connection.execute("PRAGMA synchronous = NORMAL")
        _same_layout(connection, path)
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM runs").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection, int(last) + 1


def _own_layout() -> dict[str, list[str]]:
    """The fields of every record and the columns of a strip, in the order in which this version writes them."""
    return layout_of(Round, RunHeader, RunEnd, ContentCheck, Vocabulary) | {_COLUMNS: list(COLUMNS)}


def _same_layout(connection: sqlite3.Connection, path: Path) -> None:
    if _layout(connection) != _own_layout():
        raise SessionFileError(
            f"{path} was recorded by another version of Draftscope, so no run can be added to it: record into a new "
            "file. It can still be opened, compared and exported"
        )


def _layout(connection: sqlite3.Connection) -> Any:
    found = connection.execute("SELECT value FROM meta WHERE name = 'layout'").fetchone()
    return json.loads(found[0]) if found else None


def _same_file(path: Path, before: os.stat_result) -> os.stat_result:
    """What the path leads to. SQLite would go on writing to a file that has lost its name, or its end."""
    try:
        now = os.stat(path)
    except FileNotFoundError:
        raise SessionFileError(f"{path} was removed") from None
    if (now.st_ino, now.st_dev) != (before.st_ino, before.st_dev):
        raise SessionFileError(f"{path} was replaced by another file")
    if now.st_size < before.st_size:
        raise SessionFileError(f"{path} was cut off by another program")
    return now


def _cause(error: Exception, path: Path, file: os.stat_result) -> Exception:
    """SQLite calls a file that has lost its name read-only: say what happened to it instead."""
    try:
        _same_file(path, file)
    except (OSError, SessionFileError) as cause:
        return cause
    return error


def words_for(error: Exception, path: Path) -> str:
    """What went wrong, in words for a person."""
    text = str(error)
    if isinstance(error, SessionFileError):
        return text
    if "unable to open" in text:
        where = "its folder can't be written to" if path.parent.is_dir() else "its folder doesn't exist"
        return f"{path} can't be opened: {where}"
    if "readonly" in text or "read-only" in text:
        return f"{path} can't be written to: it, or its folder, is read-only"
    if "full" in text or "No space left" in text:
        return f"the disk is full, {path} can't grow"
    if "locked" in text:
        return f"another program holds {path}"
    if isinstance(error, sqlite3.IntegrityError):
        return f"another program records into {path}, too"
    if "not a database" in text or "malformed" in text or "encrypted" in text:
        return f"{path} is no Draftscope session, or it is damaged"
    return f"{path}: {text}"


def _reading_words(error: sqlite3.Error, path: Path) -> str:
    if any(part in str(error) for part in ("unable to open", "readonly", "read-only")):
        return (
            f"{path} can't be opened: where its recording was cut off, or still goes, its folder must be writable; "
            "copy it to a folder of yours, with the files of its name that end in -wal or -journal"
        )
    return words_for(error, path)


class SessionReader:
    """Reads a session file, on the thread that opened it. Raises SessionFileError for whatever is wrong with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise SessionFileError(f"{path} doesn't exist, or is no file: choose a recorded session")
        self.left_out: list[str] = []
        """Runs that `runs` couldn't read, in sentences."""
        _finish_transaction(path)
        with self._guarded():
            quoted = urllib.parse.quote(str(path.absolute()))
            self._connection = sqlite3.connect(f"file:{quoted}?mode=ro", uri=True, timeout=5, isolation_level=None)
            try:
                self._connection.text_factory = _text
                self._connection.set_progress_handler(self._too_slow, 100_000)
                _configure(self._connection)
                self._connection.execute("PRAGMA query_only = ON")
                _check_schema(self._connection, path)
                layout = _checked_layout(_layout(self._connection), path)
                self.columns = layout.pop(_COLUMNS)
                """The columns of a strip, in their order."""
                self._reader = Reader(layout)
            except BaseException:
                self._connection.close()
                raise

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """All that is read within is of one moment, however much is written meanwhile; may stand in another one."""
        if self._connection.in_transaction:
            yield
            return
        with self._guarded():
            self._connection.execute("BEGIN")
        try:
            yield
        finally:
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("COMMIT")

    def runs(self) -> list[StoredRun]:
        """All runs that can be read, in the order in which they were begun; the others are named in `left_out`.

        Raises SessionFileError if none can.
        """
        vocabularies: dict[str, Vocabulary] = {}
        found, self.left_out = [], []
        with self._guarded():
            for row in self._rows("SELECT * FROM runs ORDER BY id"):
                try:
                    with self._guarded():
                        found.append(self._stored(row, vocabularies))
                except SessionFileError as error:
                    self.left_out.append(f"Run {row[0]} can't be shown: {error}")
        if self.left_out and not found:
            raise SessionFileError(self.left_out[0])
        return found

    def round(self, run: int, number: int) -> Round:
        """One round."""
        with self._guarded():
            row = self._row("SELECT record, arrays FROM rounds WHERE id = ?", run * ROUNDS + number)
            if row is None:
                raise SessionFileError(f"{self.path} doesn't hold round {number} of run {run}")
            record = self._reader.decode(Round, _expect(row[0], str), _expect(row[1], bytes))
            if record.index != number:
                raise SessionFileError(f"{self.path} is damaged: round {number} of run {run} is another")
            return record

    def round_numbers(self, run: int, start: int, most: int) -> list[int]:
        """The numbers of so many rounds of a run that are in the file, from `start` on, whatever is in them."""
        with self._guarded():
            query = "SELECT id FROM rounds WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
            rows = self._rows(query, run * ROUNDS + start, (run + 1) * ROUNDS, most)
            return [_expect(key, int) - run * ROUNDS for (key,) in rows]

    def strips(self, run: int) -> Iterator[Strip]:
        """The strips of a run, in order."""
        with self._guarded():
            query = "SELECT * FROM strips WHERE id >= ? AND id < ? ORDER BY id"
            for key, count, *parts in self._rows(query, run * ROUNDS, (run + 1) * ROUNDS):
                yield Strip(_expect(key, int) - run * ROUNDS, _expect(count, int), *(_expect(p, bytes) for p in parts))

    def checks(self, run: int) -> list[ContentCheck]:
        """The checks of the caches' contents."""
        with self._guarded():
            rows = self._rows("SELECT record FROM checks WHERE run = ? ORDER BY id", run)
            return [self._reader.decode(ContentCheck, _expect(text, str)) for (text,) in rows]

    def marks(self, run: int) -> dict[int, str]:
        """Notes by round."""
        with self._guarded():
            query = "SELECT id, note FROM marks WHERE id >= ? AND id < ? ORDER BY id"
            rows = self._rows(query, run * ROUNDS, (run + 1) * ROUNDS)
            return {_expect(key, int) - run * ROUNDS: _expect(note, str) for key, note in rows}

    def _stored(self, row: tuple[Any, ...], vocabularies: dict[str, Vocabulary]) -> StoredRun:
        run, parent, fork_round, header, digest, begun, finished, state = row
        if digest not in vocabularies:
            vocabularies[digest] = self._vocabulary(_expect(digest, str))
        found = self._reader.decode(RunHeader, _expect(header, str))
        damage = []
        end = None
        try:
            if state is not None:
                state = _expect(json.loads(_expect(state, str)), dict)
        except (ValueError, RecursionError):
            state, damage = None, ["Its counters are damaged"]
        try:
            end = None if finished is None else self._reader.decode(RunEnd, _expect(finished, str))
        except CodecError:
            damage.append("How it ended is damaged")
        return StoredRun(
            _expect(run, int),
            parent if parent is None else _expect(parent, int),
            fork_round if fork_round is None else _expect(fork_round, int),
            replace(found, vocabulary=vocabularies[digest]),
            end,
            _expect(begun, float),
            state,
            tuple(damage),
        )

    def _vocabulary(self, digest: str) -> Vocabulary:
        row = self._row("SELECT data FROM vocabularies WHERE digest = ?", digest)
        if row is None:
            raise SessionFileError(f"{self.path} is damaged: a vocabulary is missing")
        unpack = zlib.decompressobj()
        text = unpack.decompress(_expect(row[0], bytes), MOST_BYTES)
        if not unpack.eof:
            raise SessionFileError(
                f"{self.path} is damaged: a vocabulary is cut off, or larger than {MOST_BYTES} bytes"
            )
        return self._reader.decode(Vocabulary, text.decode("utf-8"))

    def _rows(self, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        self._since = time.monotonic()
        yield from self._connection.execute(query, values)

    def _row(self, query: str, value: Any) -> tuple[Any, ...] | None:
        self._since = time.monotonic()
        found: tuple[Any, ...] | None = self._connection.execute(query, (value,)).fetchone()
        return found

    def _too_slow(self) -> bool:
        return time.monotonic() - getattr(self, "_since", time.monotonic()) > SLOWEST

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except SessionFileError:
            raise
        except CodecError as error:
            raise SessionFileError(f"{self.path} is damaged: {error}") from error
        except sqlite3.Error as error:
            raise SessionFileError(_reading_words(error, self.path)) from error
        except (ValueError, zlib.error, OverflowError, RecursionError, MemoryError, OSError) as error:
            raise SessionFileError(f"{self.path} is damaged: {error}") from error


def reader_of(path: Path, file: os.stat_result | None) -> SessionReader:
    """As SessionReader, of the very file that the path led to before (None: any); raises SessionFileError for another.

    Two files may hold a run of the same number, so rounds of another would pass for this run's.
    """
    if file is not None:
        try:
            _same_file(path, file)
        except OSError as error:
            raise SessionFileError(words_for(error, path)) from error
    return SessionReader(path)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="surrogateescape")


def _finish_transaction(path: Path) -> None:
    """Take back what a process left half written that died before the write-ahead log was on: a reader can't."""
    journal = path.with_name(f"{path.name}-journal")
    if not journal.exists():
        return
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path, timeout=0)) as connection:
        _configure(connection)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _checked_layout(layout: Any, path: Path) -> dict[str, list[str]]:
    if (
        not isinstance(layout, dict)
        or _COLUMNS not in layout
        or not all(
            isinstance(names, list)
            and len(set(map(str, names))) == len(names)
            and all(isinstance(n, str) for n in names)
            for names in layout.values()
        )
    ):
        raise SessionFileError(f"{path} is damaged: it doesn't say how its records are laid out")
    own = _own_layout()
    if unknown := sorted({name for kind in own for name in layout.get(kind, ()) if name not in own[kind]}):
        raise SessionFileError(
            f"{path} holds what this version of Draftscope doesn't know ({', '.join(unknown)[:80]}): it was recorded "
            "by a newer one, so open it with that, or it is damaged"
        )
    return layout


def _expect(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise CodecError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value
