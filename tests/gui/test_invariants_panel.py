"""The invariants: failures first, where each failed first, how often, and what they compare at the cursor."""

from __future__ import annotations

import dataclasses

import pytest
from PySide6.QtCore import QPoint, Qt
from toy_runs import toy_run

from app.panels.invariants import COLUMNS, InvariantsPanel, applies, numbers
from app.view import View
from engine.invariants import INVARIANTS

KEYS = [column.key for column in COLUMNS]
BY_ID = {invariant.id: invariant for invariant in INVARIANTS}


@pytest.fixture
def panel(qtbot, view: View) -> InvariantsPanel:
    panel = InvariantsPanel(view)
    qtbot.addWidget(panel)
    panel.resize(520, 320)
    panel.show()
    return panel


def column(panel: InvariantsPanel, key: str) -> list[str]:
    return [panel.table.texts(row)[KEYS.index(key)] for row in range(panel.table.row_count())]


def test_a_lawful_run_passes_all(panel: InvariantsPanel, view: View) -> None:
    view.show_run(toy_run())
    assert column(panel, "result") == ["PASS"] * len(INVARIANTS)
    assert panel.title_context() == f"all {len(INVARIANTS)} pass in 20 rounds"
    assert set(column(panel, "since")) == {""}


@pytest.mark.parametrize("faults", [{"rewind": "drop-debt"}, {"rewind": "legacy-rewind"}, {"main_rewind": "no-trim"}])
def test_failures_come_first_with_their_first_round(panel: InvariantsPanel, view: View, faults: dict[str, str]) -> None:
    run = toy_run(**faults)
    view.show_run(run)
    failures = run.invariants.failures
    assert len(failures) == 3
    assert column(panel, "result") == ["FAIL"] * 3 + ["PASS"] * (len(INVARIANTS) - 3)
    titles = [invariant.title for invariant in INVARIANTS if invariant.id in failures]
    assert [title.lower() for title in column(panel, "invariant")[:3]] == [title.lower() for title in titles]
    wanted = [failures[invariant.id] for invariant in INVARIANTS if invariant.id in failures]
    assert column(panel, "since")[:3] == [str(failure.first_round) for failure in wanted]
    assert column(panel, "rounds")[:3] == [str(failure.count) for failure in wanted]
    assert panel.title_context() == f"▲ 3 fail, {len(INVARIANTS) - 3} pass in 20 rounds"
    assert wanted[0].how in panel.table.row(0).tip


def test_a_press_or_enter_goes_to_the_first_failing_round(panel: InvariantsPanel, view: View, qtbot) -> None:
    run = toy_run(changes={9: {"rewind": "legacy-rewind"}})
    view.show_run(run)
    first = run.invariants.first_round
    assert 9 < first < 19
    row = panel.table.visualRect(panel.table.model().index(0, 1)).center()
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(row))
    assert (view.round_index, view.live) == (first, False)
    view.select(2)
    qtbot.keyClick(panel.table, Qt.Key.Key_Return)
    assert view.round_index == first
    passed = panel.table.visualRect(panel.table.model().index(5, 1)).center()
    qtbot.mouseClick(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(passed))
    assert view.round_index == first


def test_the_numbers_are_those_of_the_round_under_the_cursor(panel: InvariantsPanel, view: View) -> None:
    run = toy_run(rewind="legacy-rewind")
    view.show_run(run)
    for index in (0, 11):
        view.select(index)
        record = run[index]
        here = dict(zip((invariant.id for invariant in panel._shown), column(panel, "here"), strict=True))
        cache = record.draft_cache
        assert here["draft-position"] == f"{cache.end} of {cache.expected_end}"
        law = max(record.k - len(record.emitted), 0)
        assert here["draft-trim-law"] == f"trim {cache.trim_asked[0]}, law {law}"
        assert here["draft-content"] == f"wrong from {cache.first_wrong}"
        assert here["main-position"] == f"{record.main_cache.end} of {record.main_cache.end}"
        assert here["support"] == f"{len(record.emitted)} of {len(record.emitted)}"


def test_what_was_owed_and_fed() -> None:
    run = toy_run(rewind="drop-debt")
    first = run.invariants.first_round
    assert numbers(run, BY_ID["debt-fed"], first) == "1 owed, 0 fed"
    lawful = toy_run()
    owing = next(record.index for record in lawful if record.debt) + 1
    assert numbers(lawful, BY_ID["debt-fed"], owing) == "1 owed, 1 fed"


def test_a_drafter_without_a_cache_is_not_judged(panel: InvariantsPanel, view: View) -> None:
    run = toy_run(3)
    run._rounds = [dataclasses.replace(record, draft_cache=None) for record in run]
    view.show_run(run)
    silent = [invariant for invariant in INVARIANTS if not applies(run, invariant)]
    assert {invariant.id for invariant in silent} == {
        "draft-trim-law", "draft-trim-done", "debt-fed", "draft-position", "draft-layers", "draft-content",
    }  # fmt: skip
    assert column(panel, "result").count("–") == len(silent)
    assert panel.title_context() == f"all {len(INVARIANTS) - len(silent)} pass in 3 rounds"


def test_without_a_run(panel: InvariantsPanel) -> None:
    assert panel.title_context() == ""
    assert not panel.table.isVisible()
    panel.grab()
