"""Damaged recordings: what one part of the file lacks is taken from another, and what is lost is said."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from records import same
from test_session_file import assert_equal, record_toy

import engine.mending
import engine.recording
from engine.columns import COLUMNS
from engine.mending import counts_agree, recounted, rounds_in_words
from engine.recording import OpenedSession, RecordedRun
from engine.session_file import SessionFileError
from engine.settings import SamplerSettings

METERS = ("losslessness", "proposal")
OF_THE_METERS = {"emitted_meter", "drafted_meter"}


Recorded = tuple[Path, RecordedRun]


@pytest.fixture(scope="module")
def drifting(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """A run under legacy-rewind, in batches of 8 rounds."""
    path = tmp_path_factory.mktemp("drifting") / "a.draftscope"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.recording, "BATCH_ROUNDS", 8)
        return path, record_toy(path, rewind="legacy-rewind")


@pytest.fixture
def path(tmp_path: Path, drifting: Recorded) -> Path:
    """A copy of its file, to be damaged."""
    return Path(shutil.copy(drifting[0], tmp_path / "a.draftscope"))


@pytest.fixture
def run(drifting: Recorded) -> RecordedRun:
    return drifting[1]


def change(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[RecordedRun]:
    session = OpenedSession(path)
    try:
        yield session.runs[0]
    finally:
        session.close()


def assert_rounds(again: RecordedRun, run: RecordedRun, without: set[str] | None = None) -> None:
    """All rounds, tokens, counters and columns are there; but these columns."""
    assert len(again) == len(run)
    assert all(map(same, again, run))
    assert again.tokens == run.tokens
    assert counts_agree(again.statistics, run._columns)
    assert again.statistics.closed_form_sum_min == pytest.approx(run.statistics.closed_form_sum_min)
    assert again.first_drift == run.first_drift
    for name in set(COLUMNS) - (without or set()):
        assert np.array_equal(again.column(name), run.column(name), equal_nan=True), name
    assert again.end == run.end


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rule": "block"},
        {"num_draft_tokens": 0},
        {"drafter": "no-q"},
        {"rewind": "legacy-rewind"},
        {"sampler": SamplerSettings(temperature=0.0)},
        {"sampler": SamplerSettings(top_k=2), "rule": "resample-from-p"},
        {"diagnostics": False, "stop": ("mat",)},
    ],
)
def test_counters_can_be_counted_from_the_columns(tmp_path: Path, settings: dict[str, Any]) -> None:
    run = record_toy(tmp_path / "a.draftscope", max_tokens=60, **settings)
    again = recounted(run._columns)
    assert counts_agree(run.statistics, run._columns)
    for name in run.statistics.as_dict():
        assert getattr(again, name) == pytest.approx(getattr(run.statistics, name)), name
    assert again.closed_forms == run.statistics.closed_forms


@pytest.mark.parametrize("state", ["NULL", "'{broken'", "'[]'", "'{}'", "7", "'{\"statistics\":{}}'"])
def test_damaged_counters_are_counted_anew_and_the_rounds_are_shown(path: Path, run: RecordedRun, state: str) -> None:
    change(path, f"UPDATE runs SET state = {state}")
    with opened(path) as again:
        assert_rounds(again, run)
        assert again.damage is not None
        assert "counted anew" in again.damage
        assert "losslessness meter is left out" in again.damage
        assert (again.meters.losslessness.n, again.meters.proposal.n) == (0, 0)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda s: s["statistics"].update(accepted=3), "counted anew"),
        (lambda s: s["statistics"].update(rounds=2**60), "counted anew"),
        (lambda s: s["statistics"]["reached"].append(0), "counted anew"),
        (lambda s: s["losslessness"].update(n=5), "losslessness meter is left out"),
        (lambda s: s.pop("proposal"), "proposal meter is left out"),
        (lambda s: s["identity"].update(n="many"), "accept identity is left out"),
        (lambda s: s["alternatives"].update(sums=[1]), "expected tokens by rule is left out"),
        (lambda s: s["invariants"].update(failures=7), "broken invariants is left out"),
    ],
)
def test_one_damaged_part_leaves_the_others(
    path: Path, run: RecordedRun, spoil: Callable[[dict[str, Any]], Any], words: str
) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        (text,) = connection.execute("SELECT state FROM runs").fetchone()
        state = json.loads(text)
        spoil(state)
        connection.execute("UPDATE runs SET state = ?", (json.dumps(state),))
    with opened(path) as again:
        assert_rounds(again, run)
        assert again.damage == f"What it had added up is damaged: its {words}." or words in str(again.damage)
        assert str(again.damage).count(";") == 0
        whole = again.state()
        right = run.state()
        assert sum(whole[name] != right[name] for name in whole) <= 1


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM strips",
        "DELETE FROM strips WHERE id % 4294967296 = 0",
        "DELETE FROM strips WHERE id % 4294967296 = 16",
        "DELETE FROM strips WHERE id = (SELECT max(id) FROM strips)",
        "UPDATE strips SET columns = x'00' WHERE id % 4294967296 = 8",
        "UPDATE strips SET tokens = x'00000000' WHERE id % 4294967296 = 8",
        "UPDATE strips SET count = 9 WHERE id % 4294967296 = 8",
        "UPDATE strips SET count = -1",
        "UPDATE strips SET columns = 'text'",
        "UPDATE strips SET columns = zeroblob(length(columns)) WHERE id % 4294967296 = 8",
    ],
)
def test_damaged_columns_are_made_anew_from_the_rounds(path: Path, run: RecordedRun, statement: str) -> None:
    assert len(run) > 30
    change(path, statement)
    with opened(path) as again:
        assert_rounds(again, run, without=OF_THE_METERS)
        assert again.damage is not None
        assert "made anew" in again.damage
        assert "meter is left out" in again.damage


def test_what_nothing_is_known_of_is_blank_and_named(path: Path, run: RecordedRun) -> None:
    gone = range(8, 16)
    change(
        path,
        "DELETE FROM strips WHERE id % 4294967296 = 8",
        "UPDATE rounds SET record = 'x' WHERE id % 4294967296 IN (10, 11)",
        "DELETE FROM rounds WHERE id % 4294967296 = 13",
    )
    with opened(path) as again:
        assert len(again) == len(run)
        assert "Nothing can be read of rounds 10 to 11, 13" in str(again.damage)
        for number, record in enumerate(again):
            if number in (10, 11, 13):
                assert "can't be read" in record.rule_reason
                assert record.emitted == ()
            else:
                assert same(record, run[number])
        lost = sum(len(run[number].emitted) for number in (10, 11, 13))
        assert len(again.tokens) == len(run.tokens) - lost
        assert again.locate(len(again.tokens) - 1)[0] == len(run) - 1
        assert again.ledger(9) is not None
        assert gone


def test_too_much_to_be_mended_is_cut_and_said(path: Path, run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.mending, "MOST_MENDED", 12)
    change(path, "DELETE FROM strips")
    with opened(path) as again:
        assert len(again) == 12
        assert all(map(same, again, run))
        assert "Its rounds from 12 on aren't shown" in str(again.damage)


def test_a_round_far_beyond_the_others_costs_no_time_and_no_memory(path: Path, run: RecordedRun) -> None:
    change(path, "UPDATE rounds SET id = id + 4000000000 WHERE id % 4294967296 = 30", "DELETE FROM strips")
    with opened(path) as again:
        assert len(again) == len(run)
        assert "can't be read" in again[30].rule_reason


def test_a_damaged_header_leaves_the_other_runs(path: Path) -> None:
    second = record_toy(path, seed=9)
    change(path, "UPDATE runs SET header = '[]' WHERE id = 1")
    session = OpenedSession(path)
    assert len(session.runs) == 1
    assert_equal(session.runs[0], second)
    (said,) = session.damage
    assert said.startswith("Run 1 can't be shown")
    session.close()
    change(path, "UPDATE runs SET header = '[]'")
    with pytest.raises(SessionFileError, match="Run 1 can't be shown"):
        OpenedSession(path)


def test_a_damaged_end_is_said_and_the_rest_is_whole(path: Path, run: RecordedRun) -> None:
    change(path, "UPDATE runs SET finished = '7'")
    with opened(path) as again:
        assert again.damage == "How it ended is damaged."
        assert again.end is None
        assert again.state() == run.state()


def test_spans_in_words() -> None:
    assert rounds_in_words([3]) == "round 3"
    assert rounds_in_words([9, 3, 4, 5]) == "rounds 3 to 5, 9"
    assert rounds_in_words([3, 4]) == "rounds 3 to 4"
    assert rounds_in_words(range(0, 40, 2)) == "rounds 0, 2, 4, 6, 8, 10, 12, 14 and 12 more spans"
