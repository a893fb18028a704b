"""The session file: what is written comes back, whatever happens to the writer, and hostile files are only refused."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from records import same

import engine.recording
from engine.columns import COLUMNS
from engine.filed_rounds import TAIL
from engine.generator import SpeculativeGenerator
from engine.recording import OpenedSession, RecordedRun, Recording, stored_run
from engine.rounds import ContentCheck
from engine.session_file import SessionFileError
from engine.session_reader import SessionReader
from engine.session_writer import SessionWriter
from engine.settings import SamplerSettings, Settings
from engine.toy import toy_pair

ROOT = Path(__file__).parents[2]


def record_toy(path: Path, **settings: Any) -> RecordedRun:
    """A run of the toy, recorded to its end."""
    settings = {"seed": 4, "max_tokens": 120, "diagnostics": True, "stochastic": True} | settings
    recording = Recording()
    recording.writer = SessionWriter(path)
    generator = SpeculativeGenerator(toy_pair(), Settings(**settings))
    run = recording.begin(generator.start([0, 1, 2]))
    for record in generator.rounds():
        run.append(record)
    assert generator.end is not None
    run.finish(generator.end)
    recording.writer.close()
    assert recording.writer.failure is None
    return run


READERS: list[SessionReader] = []


def reading(path: Path) -> SessionReader:
    """A reader that is closed when the test is over: rounds are read as they are asked for."""
    READERS.append(SessionReader(path))
    return READERS[-1]


@pytest.fixture(autouse=True)
def readers_closed() -> Iterator[None]:
    yield
    while READERS:
        READERS.pop().close()


def reopened(path: Path, number: int = 0) -> RecordedRun:
    reader = reading(path)
    return stored_run(reader, reader.runs()[number])


def assert_equal(again: RecordedRun, run: RecordedRun) -> None:
    assert again.damage is None
    assert same(again.header, run.header)
    assert again.tokens == run.tokens
    assert again.statistics == run.statistics
    assert len(again) == len(run)
    assert all(map(same, again, run))
    for name in COLUMNS:
        assert np.array_equal(again.column(name), run.column(name), equal_nan=True), name
    assert again.state() == run.state()
    assert np.array_equal(again.meters.losslessness.curve(), run.meters.losslessness.curve())
    assert (again.end, again.first_drift) == (run.end, run.first_drift)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"diagnostics": False},
        {"record": False},
        {"num_draft_tokens": 0},
        {"rule": "block"},
        {"drafter": "no-q"},
        {"rewind": "legacy-rewind", "main_rewind": "no-trim"},
        {"sampler": SamplerSettings(temperature=0.0)},
        {"sampler": SamplerSettings(top_k=3, top_p=0.9, presence_penalty=0.5, logit_bias=((1, 0.5),)), "stop": ("x",)},
    ],
)
def test_a_run_comes_back_as_it_was(tmp_path: Path, settings: dict[str, Any]) -> None:
    run = record_toy(tmp_path / "a.draftscope", **settings)
    assert_equal(reopened(tmp_path / "a.draftscope"), run)


def test_several_runs_marks_and_checks_live_in_one_file(tmp_path: Path) -> None:
    path = tmp_path / "several é ?#.draftscope"  # a name that is no plain URI
    first = record_toy(path)
    second = record_toy(path, seed=9)
    writer = SessionWriter(path)
    recording = Recording()
    recording.writer = writer
    third = recording.begin(first.header)
    third.add_check(ContentCheck(-1, 0.25, None, 2, 0.5))
    for number in range(5):
        third.append(first[number])
    third.mark(3, "look <b>here</b>")
    third.mark(4, "")
    third.mark(4, None)
    third.flush()
    writer.close()
    reader = reading(path)
    stored = reader.runs()
    assert [run.id for run in stored] == [1, 2, 3]
    assert_equal(stored_run(reader, stored[0]), first)
    assert_equal(stored_run(reader, stored[1]), second)
    again = stored_run(reader, stored[2])
    assert again.marks == {3: "look <b>here</b>"}
    assert again.content_checks == [ContentCheck(-1, 0.25, None, 2, 0.5)]
    assert again.end is None


def test_memory_holds_the_newest_rounds_only_and_the_file_gives_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.recording, "BATCH_ROUNDS", 64)
    recording = Recording()
    recording.writer = SessionWriter(tmp_path / "long.draftscope")
    pair = toy_pair()
    generator = SpeculativeGenerator(pair, Settings(seed=2, max_tokens=-1, diagnostics=False, stochastic=True))
    run = recording.begin(generator.start([0]))
    kept = []
    for record in generator.rounds():
        run.append(record)
        kept.append(record)
        if len(kept) % 64 == 0:
            while recording.writer.waiting:
                time.sleep(0.001)
        if len(kept) == TAIL + 700:
            break
    assert len(run._rounds._tail) < TAIL + 130  # type: ignore[union-attr]
    for number in (0, 5, 600, TAIL, TAIL + 699, -1):
        assert same(run[number], kept[number])
    recording.writer.close()
    run.close()


def test_a_closed_recording_is_one_file_that_a_read_only_folder_gives_too(tmp_path: Path) -> None:
    run = record_toy(tmp_path / "a.draftscope", max_tokens=20)
    assert [path.name for path in tmp_path.iterdir()] == ["a.draftscope"]
    assert_equal(reopened(tmp_path / "a.draftscope"), run)
    assert [path.name for path in tmp_path.iterdir()] == ["a.draftscope"]


CHILD = """
import sys
from pathlib import Path
import engine.recording
from engine.recording import Recording
from engine.generator import SpeculativeGenerator
from engine.session_writer import SessionWriter
from engine.settings import Settings
from engine.toy import toy_pair

engine.recording.BATCH_ROUNDS, engine.recording.BATCH_SECONDS = 16, 0.01
recording = Recording()
recording.writer = SessionWriter(Path(sys.argv[1]))
for seed in range(1000):
    generator = SpeculativeGenerator(toy_pair(), Settings(seed=seed, max_tokens=400, stochastic=True, diagnostics=True))
    run = recording.begin(generator.start([0, 1]))
    for record in generator.rounds():
        run.append(record)
        behind = len(run) - recording.writer.committed(run._keeper.run)
        print(seed, len(run), behind, recording.writer.waiting, flush=True)
    run.finish(generator.end)
"""


def killed_sessions(folder: Path, times: int, seed: int = 3) -> None:
    """Kill a recording process at random moments; every committed round must be there and right."""
    chance = random.Random(seed)
    for turn in range(times):
        path = folder / f"{turn}.draftscope"
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, cwd=ROOT, text=True)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(chance.random() * 0.4)
        os.kill(child.pid, signal.SIGKILL)
        lines = child.stdout.read().splitlines()
        child.wait()
        child.stdout.close()
        whole = [line.split() for line in lines if len(line.split()) == 4]
        reader = SessionReader(path)
        stored = reader.runs()
        for number, found in enumerate(stored):
            run = stored_run(reader, found)
            assert run.damage is None
            settings = Settings(seed=number, max_tokens=400, stochastic=True, diagnostics=True)
            generator = SpeculativeGenerator(toy_pair(), settings)
            header = generator.start([0, 1])
            assert same(header.prompt_tokens, run.header.prompt_tokens)
            for record, undisturbed in zip(run, generator.rounds(), strict=False):
                assert record.emitted == undisturbed.emitted
                assert record.drafts == undisturbed.drafts
        if whole:
            seed_of_last, rounds, behind, _ = map(int, whole[-1])
            last = stored_run(reader, stored[seed_of_last]) if seed_of_last < len(stored) else None
            assert len(last or ()) >= rounds - behind  # what was said to be committed is there
        reader.close()


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_killed_process_loses_only_what_was_not_committed(tmp_path: Path) -> None:
    killed_sessions(tmp_path, 4)


def test_recording_stops_with_a_reason_when_the_file_goes_away(tmp_path: Path) -> None:
    said: list[str] = []
    path = tmp_path / "gone.draftscope"
    recording = Recording()
    recording.writer = SessionWriter(path, said.append)
    generator = SpeculativeGenerator(toy_pair(), Settings(seed=2, max_tokens=60))
    run = recording.begin(generator.start([0]))
    path.unlink()
    for record in generator.rounds():
        run.append(record)
    assert generator.end is not None
    run.finish(generator.end)
    recording.writer.close()
    assert recording.writer.failure == said[0]
    assert "was removed" in said[0]
    assert len(said) == 1
    assert len(run) == len(list(run))  # all rounds are still in memory


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionFileError, match="folder doesn't exist"):
        SessionWriter(tmp_path / "no" / "a.draftscope")
    (tmp_path / "b.draftscope").write_text("this is a shopping list, not a database of anything at all")
    with pytest.raises(SessionFileError, match="no Draftscope session"):
        SessionWriter(tmp_path / "b.draftscope")
    other = sqlite3.connect(tmp_path / "c.draftscope")
    other.execute("CREATE TABLE mine (a)")
    other.commit()
    other.close()
    with pytest.raises(SessionFileError, match="no Draftscope session"):
        SessionWriter(tmp_path / "c.draftscope")
    with contextlib.closing(sqlite3.connect(tmp_path / "c.draftscope")) as left:
        assert left.execute("SELECT count(*) FROM mine").fetchone() == (0,)


def test_recording_moves_to_another_file_and_goes_on_there(tmp_path: Path) -> None:
    old, new = tmp_path / "autosave.draftscope", tmp_path / "named.draftscope"
    new.write_text("what stood there before")
    recording = Recording()
    recording.writer = SessionWriter(old)
    generator = SpeculativeGenerator(toy_pair(), Settings(seed=2, max_tokens=90, diagnostics=True, stochastic=True))
    run = recording.begin(generator.start([0]))
    said: list[str | None] = []
    for record in generator.rounds():
        run.append(record)
        if record.index == 10:
            recording.writer.move_to(new, said.append)
        if record.index == 20:
            recording.writer.move_to(tmp_path / "no" / "folder.draftscope", said.append)
            recording.writer.move_to(new, said.append)
    assert generator.end is not None
    run.finish(generator.end)
    recording.writer.close()
    assert said[0] is None
    assert "folder doesn't exist" in str(said[1])
    assert "in use" in str(said[2])
    assert recording.writer.path == new
    assert recording.writer.failure is None
    assert_equal(reopened(new), run)
    assert len(reopened(old)) < len(run)  # the old file is left as it was
    assert not list(tmp_path.glob("*.part"))


def test_a_file_held_by_another_program_stops_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "held.draftscope"
    record_toy(path)
    monkeypatch.setattr("engine.session_writer.BUSY_SECONDS", 0.05)
    writer = SessionWriter(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    writer.mark(1, 0, "note")
    while writer.waiting:
        time.sleep(0.01)
    assert writer.failure is not None
    assert "another program holds" in writer.failure
    holder.execute("ROLLBACK")
    holder.close()
    writer.close()


def test_newer_and_foreign_files_are_refused_in_words(tmp_path: Path) -> None:
    path = tmp_path / "a.draftscope"
    record_toy(path, max_tokens=10)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.commit()
    with pytest.raises(SessionFileError, match="newer Draftscope"):
        SessionReader(path)
    connection.execute("PRAGMA user_version = 1")
    connection.execute("CREATE TRIGGER t AFTER INSERT ON runs BEGIN DELETE FROM rounds; END")
    connection.commit()
    connection.close()
    for opening in (SessionReader, SessionWriter):
        with pytest.raises(SessionFileError, match="tables aren't a session's"):
            opening(path)
    with pytest.raises(SessionFileError, match="doesn't exist"):
        SessionReader(tmp_path / "nothing.draftscope")
    with pytest.raises(SessionFileError, match="is no file"):
        SessionReader(tmp_path)


def mutate(data: bytearray, path: Path, chance: random.Random) -> None:
    """Write a damaged copy: bytes flipped, cut off, or a table's contents replaced."""
    kind = chance.randrange(4)
    if kind == 0:
        for _ in range(chance.choice([1, 3, 30])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data)
    elif kind == 1:
        path.write_bytes(data[: chance.randrange(len(data))])
    else:
        path.write_bytes(data)
        connection = sqlite3.connect(path, isolation_level=None)
        values = [None, -1, 2**62, 1e308, "x" * 5, b"\x00" * 7, "[]", "{}", "null", '{"a":' * 2000, b"\xff" * 40]
        places = ["runs.header", "runs.state", "runs.finished", "runs.vocabulary", "runs.begun", "rounds.record"]
        places += ["rounds.arrays", "strips.columns", "strips.tokens", "strips.count", "strips.emitted_curve"]
        places += ["meta.value", "vocabularies.data", "rounds.id", "runs.parent"]
        table, column = chance.choice(places).split(".")
        statement = chance.choice(
            [f"UPDATE {table} SET {column} = ?", f"DELETE FROM {table} WHERE ? IS NOT 7", f"DROP TABLE {table} -- ?"]
        )
        try:
            connection.execute(statement, (chance.choice(values),) if "?" in statement.split("--")[0] else ())
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error:
            pass
        finally:
            connection.close()


def read_all(path: Path) -> str:
    """Read everything of a file that can be read: "refused", "partial" where some of it couldn't, or "whole"."""
    reader = None
    try:
        reader = SessionReader(path)
        damaged = False
        for stored in reader.runs():
            run = stored_run(reader, stored, patient=True)
            for record in run:
                assert record.k >= 0
            run.ledger(len(run) - 1)
            damaged = damaged or bool(run.damage)
        return "partial" if damaged or reader.left_out else "whole"
    except SessionFileError as error:
        return "refused" if str(error) else "without a word"
    finally:
        if reader is not None:
            reader.close()


def mutated_sessions(folder: Path, times: int, seed: int = 5) -> dict[str, int]:
    """Damage a session so many times; how many were refused, partial or whole."""
    path, damaged = folder / "right.draftscope", folder / "damaged.draftscope"
    record_toy(path, max_tokens=40)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    right, chance = path.read_bytes(), random.Random(seed)
    found = {"refused": 0, "partial": 0, "whole": 0}
    for _ in range(times):
        for leftover in folder.glob("damaged*"):
            leftover.unlink()
        mutate(bytearray(right), damaged, chance)
        found[read_all(damaged)] += 1
    return found


def test_damaged_files_are_refused_or_shown_in_part(tmp_path: Path) -> None:
    found = mutated_sessions(tmp_path, 150)
    assert found["refused"] > 20
    assert found["partial"] > 2
    assert found["whole"] > 0  # a flipped byte in a free page or a number changes nothing that can be known


def test_a_declared_blob_beyond_the_limit_is_not_allocated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "huge.draftscope"
    record_toy(path, max_tokens=10)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("UPDATE rounds SET arrays = zeroblob(3000000)")
    connection.close()
    for module in ("file", "reader"):
        monkeypatch.setattr(f"engine.session_{module}.MOST_BYTES", 1_000_000)
    assert read_all(path) == "partial"
    shutil.rmtree(tmp_path)


def test_a_file_with_fewer_columns_and_fields_is_still_read(tmp_path: Path) -> None:
    """As one of an earlier version is: what it lacks takes its default."""
    path = tmp_path / "earlier.draftscope"
    run = record_toy(path, max_tokens=30)
    lacking = list(COLUMNS).index("refed")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (text,) = connection.execute("SELECT value FROM meta").fetchone()
        layout = json.loads(text)
        del layout["columns of a strip"][lacking]
        layout["RunEnd"].remove("check_syncs")
        connection.execute("UPDATE meta SET value = ?", (json.dumps(layout),))
        for key, count, columns in connection.execute("SELECT id, count, columns FROM strips").fetchall():
            cut = columns[: 8 * count * lacking] + columns[8 * count * (lacking + 1) :]
            connection.execute("UPDATE strips SET columns = ? WHERE id = ?", (cut, key))
        (end,) = connection.execute("SELECT finished FROM runs").fetchone()
        connection.execute("UPDATE runs SET finished = ?", (json.dumps(json.loads(end)[:-1]),))
    assert_equal(reopened(path), run)
    with pytest.raises(SessionFileError, match="another version"):
        SessionWriter(path)


def test_a_file_can_be_read_while_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state in it must be that of its batch, though the run's own goes on changing."""
    monkeypatch.setattr(engine.recording, "BATCH_ROUNDS", 8)
    path = tmp_path / "a.draftscope"
    recording = Recording()
    recording.writer = SessionWriter(path)
    settings = Settings(seed=4, max_tokens=600, diagnostics=True, stochastic=True)
    generator = SpeculativeGenerator(toy_pair(), settings)
    run = recording.begin(generator.start([0, 1, 2]))
    looks = 0
    for record in generator.rounds():
        run.append(record)
        if record.index % 5 == 4 and recording.writer.committed(1):
            opened = OpenedSession(path)
            assert opened.runs[0].damage is None
            looks += len(opened.runs[0]) > 0
            opened.close()
    assert looks > 10
    recording.writer.close()


def test_a_round_that_cannot_be_read_is_shown_as_that(tmp_path: Path) -> None:
    path = tmp_path / "a.draftscope"
    run = record_toy(path, max_tokens=40)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE rounds SET record = '{broken' WHERE id % 4294967296 = 5")
    opened = OpenedSession(path)
    again = opened.runs[0]
    assert again.damage is None
    assert same(again[4], run[4])
    assert [e.token for e in again[5].emitted] == [e.token for e in run[5].emitted]
    assert "can't be read" in again[5].rule_reason
    assert again[5].main_cache.end == run[5].main_cache.end
    assert again.damage is not None
    opened.close()
    with pytest.raises(SessionFileError, match="damaged"):
        _ = reopened(path)[5]


def test_a_file_that_is_recorded_into_is_not_replaced(tmp_path: Path) -> None:
    record_toy(tmp_path / "a.draftscope", max_tokens=10)
    other = SessionWriter(tmp_path / "b.draftscope")
    other.mark(1, 1, "mine")
    while other.waiting:
        time.sleep(0.001)
    writer = SessionWriter(tmp_path / "a.draftscope")
    said: list[str | None] = []
    writer.move_to(tmp_path / "b.draftscope", said.append)
    writer.move_to(tmp_path, said.append)
    writer.close()
    assert "another program" in str(said[0])
    assert "no plain file" in str(said[1])
    assert other.failure is None
    other.close()
