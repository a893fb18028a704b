"""The session file: runs and all their rounds in one SQLite file, append-only while a run goes.

What it holds and how it is checked; it is written by `engine.session_writer` and read by `engine.session_reader`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.codec import layout_of
from engine.columns import COLUMNS
from engine.rounds import ContentCheck, Round, RunEnd, RunHeader
from engine.text import Vocabulary

SCHEMA = 1
APPLICATION_ID = 0x44534350  # "DSCP"
SUFFIX = ".draftscope"
NOBODY = Vocabulary((), frozenset(), {}, frozenset())  # stands in a stored header, whose vocabulary is kept once
TABLES = {
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

STRIP_COLUMNS = "columns of a strip"  # among the names of records, which have no spaces
ROUNDS = 2**32
MOST_BYTES = 2**28
"""No value of a file may be larger, whatever the file says."""


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


def configure(connection: sqlite3.Connection) -> None:
    """Have SQLite trust nothing in a file, and allocate no more for a value than MOST_BYTES."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
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
    if found != TABLES:
        names = sorted(str(name)[:40] for name in {*found} ^ {*TABLES}) or ["their columns"]
        raise SessionFileError(f"{path} is damaged: its tables aren't a session's ({', '.join(names)[:200]})")


def own_layout() -> dict[str, list[str]]:
    """The fields of every record and the columns of a strip, in the order in which this version writes them."""
    return layout_of(Round, RunHeader, RunEnd, ContentCheck, Vocabulary) | {STRIP_COLUMNS: list(COLUMNS)}


def layout_in(connection: sqlite3.Connection) -> Any:
    """How a file says that its records are laid out, unchecked; None where it doesn't say."""
    found = connection.execute("SELECT value FROM meta WHERE name = 'layout'").fetchone()
    return json.loads(found[0]) if found else None


def same_file(path: Path, before: os.stat_result) -> os.stat_result:
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
