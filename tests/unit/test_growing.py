"""Following a run that is still recorded: what was opened early and what came later make the whole run."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine import growing
from engine.columns import COLUMNS
from engine.growing import GrowingRun
from engine.recording import OpenedSession, RecordedRun
from engine.session_file import SessionFileError
from tests.unit.writing import Writing


@pytest.fixture
def writing(tmp_path: Path) -> Iterator[Writing]:
    made = Writing(tmp_path / "a.draftscope")
    made.go_on(5)
    yield made
    made.close()


def follow(source: GrowingRun, run: RecordedRun) -> bool:
    """Take in all that is new; whether the run has ended."""
    while growth := source.read():
        for record in growth.rounds:
            run.append(record)
        for check in growth.checks:
            run.add_check(check)
        if growth.end is not None:
            run.finish(growth.end)
            return True
    return False


def test_what_is_followed_becomes_the_run_that_was_recorded(
    writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "STEP", 3)
    path = tmp_path / "a.draftscope"
    opened = OpenedSession(path)
    run = opened.runs[0]
    assert (len(run), run.end) == (5, None)
    source = GrowingRun(path, opened.stored[0].id, len(run), len(run.content_checks))
    assert not source.read()
    writing.go_on(7)
    assert not follow(source, run)
    assert len(run) == 12
    writing.run.add_check(writing.generator.check_contents())
    writing.commit()
    assert not follow(source, run)
    writing.finish()
    assert follow(source, run)
    assert (run.tokens, run.end, run.state()) == (writing.run.tokens, writing.run.end, writing.run.state())
    assert run.content_checks == writing.run.content_checks != []
    assert len(run) == len(writing.run) > 12
    for name in COLUMNS:
        assert np.array_equal(run.column(name), writing.run.column(name), equal_nan=True), name
    meters = (run.meters.losslessness, writing.run.meters.losslessness)
    assert np.array_equal(*(meter.curve() for meter in meters))
    source.close()
    opened.close()


def test_rounds_come_in_steps_and_the_end_behind_them(writing: Writing, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(growing, "STEP", 4)
    source = GrowingRun(tmp_path / "a.draftscope", 1, 0, 0)
    writing.finish()
    sizes, end = [], None
    while end is None:
        growth = source.read()
        sizes.append(len(growth.rounds))
        end = growth.end
        assert growth.rounds or end is not None
    assert sizes[:-2] == [4] * (len(writing.run) // 4)
    assert sum(sizes) == len(writing.run)
    assert sizes[-1] == 0
    source.close()


def test_nothing_is_read_where_nothing_was_written(writing: Writing, tmp_path: Path) -> None:
    source = GrowingRun(tmp_path / "a.draftscope", 1, 5, 0)
    assert source.changed(), "nothing is known of it yet"
    assert not source.changed()
    writing.go_on(1)
    assert source.changed()
    assert not source.changed()
    source.close()


def test_a_file_that_goes_away_is_told(writing: Writing, tmp_path: Path) -> None:
    path = tmp_path / "a.draftscope"
    source = GrowingRun(path, 1, 5, 0)
    shutil.copy(path, tmp_path / "b")
    (tmp_path / "b").replace(path)
    with pytest.raises(SessionFileError, match="replaced"):
        source.changed()
    path.unlink()
    with pytest.raises(SessionFileError, match="followed any more"):
        source.changed()
    source.close()


def test_a_gap_is_told(writing: Writing, tmp_path: Path) -> None:
    source = GrowingRun(tmp_path / "a.draftscope", 1, 3, 0)
    assert [record.index for record in source.read().rounds] == [3, 4]
    source.close()
    behind = GrowingRun(tmp_path / "a.draftscope", 1, 7, 0)
    writing.go_on(4)
    writing.recording.writer._post(
        lambda connection: connection.execute("DELETE FROM rounds WHERE id % 4294967296 = 7")
    )
    writing.commit()
    with pytest.raises(SessionFileError, match="lacks round 7"):
        behind.read()
    behind.close()
