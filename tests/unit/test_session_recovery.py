"""Recording that had stopped goes on in another file, with what memory holds; marks go into files that were opened."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from records import same
from test_session_file import assert_equal, record_toy
from writing import Writing

import engine.filed_rounds
import engine.recording
import engine.session_file
import engine.session_writer
from engine.generator import SpeculativeGenerator
from engine.recording import OpenedSession, RecordedRun, Recording
from engine.rounds import ContentCheck, Round
from engine.session_file import SessionFileError
from engine.session_reader import SessionReader
from engine.session_writer import SessionWriter, refusal
from engine.settings import Settings
from engine.toy import toy_pair


def made(seed: int = 4, tokens: int = 400) -> tuple[SpeculativeGenerator, list[Round]]:
    settings = Settings(seed=seed, max_tokens=tokens, diagnostics=True, stochastic=True)
    generator = SpeculativeGenerator(toy_pair(), settings)
    generator.start([0, 1, 2])
    return generator, list(generator.rounds())


def drained(writer: SessionWriter) -> None:
    while writer.waiting:
        time.sleep(0.001)


def moved(writer: SessionWriter, path: Path) -> str | None:
    said: list[str | None] = []
    writer.move_to(path, said.append)
    drained(writer)
    return said[0]


def saved(recording: Recording, path: Path) -> str:
    """What the window does for Save As."""
    writer = recording.writer
    assert writer is not None
    assert moved(writer, path) is None
    writer.resume()
    return recording.repeat()


def remove(path: Path) -> None:
    path.unlink()


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"no session any more " * 4000)
    path.unlink()


def cut_off(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(0)


class Sitting:
    """Two runs, the second begun after recording had stopped in the first, which had got to `at` before."""

    def __init__(self, folder: Path, spoil: Callable[[Path], None], at: int = 40) -> None:
        self.path = folder / "autosave.draftscope"
        self.recording = Recording()
        self.recording.writer = self.writer = SessionWriter(self.path)
        self.generator, self.rounds = made()
        assert self.generator.header is not None
        self.first = self.recording.begin(self.generator.header)
        self.first.mark(3, "before")
        for record in self.rounds[:at]:
            self.first.append(record)
        drained(self.writer)
        assert 0 < self.writer.committed(1) < at
        spoil(self.path)
        for record in self.rounds[at : at + 30]:
            self.first.append(record)
        drained(self.writer)
        assert self.writer.failure is not None
        self.first.mark(50, "after")
        self.first.add_check(ContentCheck(60, 0.5, None, 2, 0.1))
        self.second = self.recording.begin(self.generator.header)
        for record in self.rounds[:20]:
            self.second.append(record)

    def end(self) -> None:
        for record in self.rounds[len(self.first) :]:
            self.first.append(record)
        assert self.generator.end is not None
        self.first.finish(self.generator.end)
        self.second.flush()
        self.writer.close()
        for run in self.recording.runs:
            run.close()


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.recording, "BATCH_ROUNDS", 16)


@pytest.mark.allow_log("can't be read any more")
@pytest.mark.parametrize("spoil", [remove, overwrite, cut_off])
def test_saving_after_recording_stopped_loses_nothing(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    sitting = Sitting(tmp_path, spoil)
    new = tmp_path / "named.draftscope"
    new.write_text("what stood there before")
    assert saved(sitting.recording, new) == ""
    sitting.end()
    assert sitting.writer.failure is None
    opened = OpenedSession(new)
    assert [run.damage for run in opened.runs] == [None, None]
    assert_equal(opened.runs[0], sitting.first)
    assert all(map(same, opened.runs[0], sitting.rounds))
    assert opened.runs[0].marks == {3: "before", 50: "after"}
    assert opened.runs[0].content_checks == sitting.first.content_checks
    assert_equal(opened.runs[1], sitting.second)
    opened.close()


def test_a_full_disk_that_has_room_again_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = [False]

    def check(path: Path, before: os.stat_result) -> os.stat_result:
        if full[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return before

    monkeypatch.setattr(engine.session_writer, "same_file", check)
    sitting = Sitting(tmp_path, lambda path: full.__setitem__(0, True))
    assert "disk is full" in str(sitting.writer.failure)
    full[0] = False
    assert saved(sitting.recording, sitting.path) == ""  # under its own name
    sitting.end()
    opened = OpenedSession(sitting.path)
    assert_equal(opened.runs[0], sitting.first)
    assert_equal(opened.runs[1], sitting.second)
    opened.close()


def test_a_save_that_fails_too_leaves_everything_for_the_next(tmp_path: Path) -> None:
    sitting = Sitting(tmp_path, remove)
    failure = sitting.writer.failure
    assert "folder doesn't exist" in str(moved(sitting.writer, tmp_path / "no" / "a.draftscope"))
    assert sitting.writer.failure == failure
    assert saved(sitting.recording, tmp_path / "b.draftscope") == ""
    sitting.end()
    opened = OpenedSession(tmp_path / "b.draftscope")
    assert_equal(opened.runs[0], sitting.first)
    opened.close()


@pytest.mark.allow_log("can't be read any more")
def test_rounds_that_are_neither_in_memory_nor_in_the_file_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.filed_rounds, "TAIL", 8)
    sitting = Sitting(tmp_path, overwrite)
    gone = sitting.first[2]
    assert "can't be read" in gone.rule_reason  # the window lives on
    lost = saved(sitting.recording, tmp_path / "named.draftscope")
    assert lost.startswith("rounds 0 to ")
    assert lost.endswith(" of run 1")
    last = int(lost.split()[3])
    sitting.end()
    opened = OpenedSession(tmp_path / "named.draftscope")
    run = opened.runs[0]
    assert run.damage is None
    assert (run.tokens, run.state()) == (sitting.first.tokens, sitting.first.state())
    assert "doesn't hold round 0" in run[0].rule_reason
    assert [e.token for e in run[0].emitted] == [e.token for e in sitting.rounds[0].emitted]
    assert all(same(run[number], sitting.rounds[number]) for number in range(last + 1, len(run)))
    opened.close()


def marked(path: Path, run: int = 0) -> dict[int, str]:
    opened = OpenedSession(path)
    opened.close()
    return opened.runs[run].marks


def mark_opened(path: Path, *marks: tuple[int, str | None], spoil: Callable[[Path], None] | None = None) -> list[str]:
    """Mark rounds of the first run of an opened file; returns what was said."""
    opened = OpenedSession(path)
    said: list[str] = []
    opened.marks.on_refused = said.append
    if spoil is not None:
        spoil(path)
    for number, note in marks:
        opened.runs[0].mark(number, note)
    opened.close()
    return said


def test_marks_are_written_into_an_opened_file(tmp_path: Path) -> None:
    path = tmp_path / "a é#?.draftscope"
    run = record_toy(path, max_tokens=40)
    record_toy(path, max_tokens=40, seed=9)
    assert mark_opened(path, (3, "look"), (5, ""), (5, None), (6, "half a pair \ud800")) == []
    assert marked(path) == {3: "look", 6: "half a pair ?"}
    assert marked(path, 1) == {}
    assert mark_opened(path, (3, None), (6, "changed")) == []
    assert marked(path) == {6: "changed"}
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    again = OpenedSession(path)
    again.runs[0].marks = {}
    assert_equal(again.runs[0], run)
    again.close()


def test_marks_go_into_a_file_that_another_program_records_into(tmp_path: Path) -> None:
    path = tmp_path / "a.draftscope"
    recording = Recording()
    recording.writer = SessionWriter(path)
    generator, rounds = made(tokens=200)
    assert generator.header is not None
    run = recording.begin(generator.header)
    for record in rounds[:30]:
        run.append(record)
    drained(recording.writer)
    assert mark_opened(path, (2, "theirs")) == []
    for record in rounds[30:]:
        run.append(record)
    run.flush()
    recording.writer.close()
    assert recording.writer.failure is None
    assert marked(path) == {2: "theirs"}
    run.close()


def held(path: Path) -> None:
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    HOLDERS.append(other)


HOLDERS: list[sqlite3.Connection] = []


def replaced(path: Path) -> None:
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


@pytest.mark.parametrize(("spoil", "word"), [(held, "another program"), (replaced, "replaced"), (remove, "removed")])
def test_marks_that_cannot_be_written_are_said_once_and_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None], word: str
) -> None:
    monkeypatch.setattr(engine.session_writer, "BUSY_SECONDS", 0.02)
    path = tmp_path / "a.draftscope"
    record_toy(path, max_tokens=40)
    (said,) = mark_opened(path, (3, "look"), (4, "here"), spoil=spoil)
    assert word in said
    while HOLDERS:
        HOLDERS.pop().close()
    if path.exists():
        assert marked(path) == {}


def test_a_file_that_is_not_to_be_marked_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.draftscope"
    record_toy(path, max_tokens=40)
    before = path.read_bytes()
    opened = OpenedSession(path, "a sample stays as it comes")
    said: list[str] = []
    opened.marks.on_refused = said.append
    opened.runs[0].mark(1, "mine")
    opened.runs[0].mark(2, "mine")
    opened.close()
    assert said == ["a sample stays as it comes"]
    assert opened.runs[0].marks == {1: "mine", 2: "mine"}
    assert path.read_bytes() == before


def change_layout(path: Path, change: Callable[[dict[str, list[str]]], None]) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (text,) = connection.execute("SELECT value FROM meta").fetchone()
        layout = json.loads(text)
        change(layout)
        connection.execute("UPDATE meta SET value = ?", (json.dumps(layout),))


def test_a_file_of_another_layout_says_what_can_be_done(tmp_path: Path) -> None:
    path = tmp_path / "a.draftscope"
    record_toy(path, max_tokens=10)
    change_layout(path, lambda layout: layout["Round"].append("of_tomorrow"))
    with pytest.raises(SessionFileError, match=r"of_tomorrow.*newer"):
        SessionReader(path)
    with pytest.raises(SessionFileError, match=r"another version.*new file.*still be opened"):
        SessionWriter(path)
    assert "record into a new file" in str(refusal(path))


def test_an_older_file_takes_marks_though_no_runs(tmp_path: Path) -> None:
    path = tmp_path / "a.draftscope"
    record_toy(path, max_tokens=10)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (end,) = connection.execute("SELECT finished FROM runs").fetchone()
        connection.execute("UPDATE runs SET finished = ?", (json.dumps(json.loads(end)[:-1]),))
    change_layout(path, lambda layout: layout["RunEnd"].remove("check_syncs"))
    assert mark_opened(path, (1, "old")) == []
    assert marked(path) == {1: "old"}


def test_what_can_be_recorded_into_is_known_beforehand_and_nothing_is_left(tmp_path: Path) -> None:
    assert refusal(tmp_path / "new.draftscope") is None
    assert list(tmp_path.iterdir()) == []
    record_toy(tmp_path / "a.draftscope", max_tokens=10)
    before = (tmp_path / "a.draftscope").read_bytes()
    assert refusal(tmp_path / "a.draftscope") is None
    assert (tmp_path / "a.draftscope").read_bytes() == before
    assert "is a folder" in str(refusal(tmp_path))
    assert "folder doesn't exist" in str(refusal(tmp_path / "no" / "a.draftscope"))
    (tmp_path / "b.draftscope").write_text("a shopping list " * 500)
    assert "no Draftscope session" in str(refusal(tmp_path / "b.draftscope"))


def test_a_transaction_that_was_cut_off_is_taken_back_before_reading(tmp_path: Path) -> None:
    """As a process leaves the file that dies before the write-ahead log is on: SQLite can't read it read-only."""
    path, copy = tmp_path / "a.draftscope", tmp_path / "b.draftscope"
    run = record_toy(path, max_tokens=60)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE rounds SET record = 'x'")
        shutil.copy(path, copy)
        shutil.copy(f"{path}-journal", f"{copy}-journal")
        connection.execute("ROLLBACK")
    opened = OpenedSession(copy)
    assert_equal(opened.runs[0], run)
    opened.close()


def test_two_programs_that_record_into_one_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "a.draftscope"
    writers = [SessionWriter(path), SessionWriter(path)]
    generator, _ = made(tokens=5)
    assert generator.header is not None
    for writer in writers:
        writer.begin(generator.header)
        drained(writer)
    assert writers[0].failure is None
    assert "another program records into" in str(writers[1].failure)
    for writer in writers:
        writer.close()


def test_large_rounds_leave_the_memory_sooner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.filed_rounds, "TAIL_BYTES", 50_000)
    monkeypatch.setattr(engine.filed_rounds, "KEPT_BYTES", 50_000)
    recording = Recording()
    recording.writer = SessionWriter(tmp_path / "a.draftscope")
    generator, rounds = made(tokens=600)
    assert generator.header is not None
    run: RecordedRun = recording.begin(generator.header)
    for record in rounds:
        run.append(record)
        drained(recording.writer)
    filed = run._rounds
    assert isinstance(filed, engine.filed_rounds.FiledRounds)
    assert len(filed._tail) < 16 + 13
    assert all(same(run[number], rounds[number]) for number in range(len(run)))
    assert len(filed._recent) < 13
    recording.writer.close()
    run.close()


def test_whoever_makes_rounds_waits_while_too_much_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.session_writer, "MOST_WAITING", 100_000)
    path = tmp_path / "a.draftscope"
    recording = Recording()
    recording.writer = writer = SessionWriter(path)
    generator, rounds = made(tokens=300)
    assert generator.header is not None
    run = recording.begin(generator.header)
    drained(writer)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")  # as a slow disk would
    assert not writer.is_behind
    for record in rounds:
        run.append(record)
    assert writer.is_behind
    holder.execute("ROLLBACK")
    holder.close()
    drained(writer)
    assert not writer.is_behind
    writer.close()
    run.close()


def test_a_finished_file_is_whole_by_itself_though_a_viewer_has_it_open(tmp_path: Path) -> None:
    path, alone = tmp_path / "seen.draftscope", tmp_path / "alone.draftscope"
    writing = Writing(path)
    writing.go_on(4)
    reader = SessionReader(path)
    writing.finish()
    assert writing.recording.writer is not None
    writing.recording.writer.close()
    shutil.copyfile(path, alone)
    reader.close()
    with contextlib.closing(OpenedSession(alone)) as opened:
        assert len(opened.runs[0]) == len(writing.run) > 4
        assert opened.runs[0].end is not None
