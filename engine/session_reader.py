"""Reads session files, read-only, and believes nothing that they say."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import time
import urllib.parse
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.codec import CodecError, Reader
from engine.rounds import ContentCheck, Round, RunEnd, RunHeader
from engine.session_file import (
    MOST_BYTES,
    ROUNDS,
    STRIP_COLUMNS,
    SessionFileError,
    StoredRun,
    Strip,
    check_schema,
    configure,
    layout_in,
    own_layout,
    same_file,
    words_for,
)
from engine.text import Vocabulary

SLOWEST = 20.0
"""Seconds after which a reader gives up on one question to a file."""


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
                configure(self._connection)
                self._connection.execute("PRAGMA query_only = ON")
                check_schema(self._connection, path)
                layout = _checked_layout(layout_in(self._connection), path)
                self.columns = layout.pop(STRIP_COLUMNS)
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
            same_file(path, file)
        except OSError as error:
            raise SessionFileError(words_for(error, path)) from error
    return SessionReader(path)


def _reading_words(error: sqlite3.Error, path: Path) -> str:
    if any(part in str(error) for part in ("unable to open", "readonly", "read-only")):
        return (
            f"{path} can't be opened: where its recording was cut off, or still goes, its folder must be writable; "
            "copy it to a folder of yours, with the files of its name that end in -wal or -journal"
        )
    return words_for(error, path)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="surrogateescape")


def _finish_transaction(path: Path) -> None:
    """Take back what a process left half written that died before the write-ahead log was on: a reader can't."""
    journal = path.with_name(f"{path.name}-journal")
    if not journal.exists():
        return
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path, timeout=0)) as connection:
        configure(connection)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


def _checked_layout(layout: Any, path: Path) -> dict[str, list[str]]:
    if (
        not isinstance(layout, dict)
        or STRIP_COLUMNS not in layout
        or not all(
            isinstance(names, list)
            and len(set(map(str, names))) == len(names)
            and all(isinstance(n, str) for n in names)
            for names in layout.values()
        )
    ):
        raise SessionFileError(f"{path} is damaged: it doesn't say how its records are laid out")
    own = own_layout()
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
