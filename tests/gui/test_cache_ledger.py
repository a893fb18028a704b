"""The ledger: which positions are wrong, where it starts, what its sentence says, and what can be copied."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fakes import fake_run
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QGuiApplication
from toy_runs import toy_run

from app import theme
from app.panels.cache_ledger import CacheLedgerPanel
from app.panels.cache_verdict import check_for, check_text, first_failure
from app.panels.ledger_rows import DIFFERS, EXTRA, HELD, MISSING, OWED, compare
from app.view import View
from engine.ledger import Ledger


@pytest.fixture
def panel(qtbot, view: View) -> CacheLedgerPanel:
    panel = CacheLedgerPanel(view)
    qtbot.addWidget(panel)
    panel.resize(700, 560)
    panel.show()
    return panel


def rows(panel: CacheLedgerPanel) -> list[list[str]]:
    return [panel.table.texts(number) for number in range(panel.table.row_count())]


def test_positions_are_compared_one_by_one() -> None:
    committed = (5, 6, 7, 8, 9)  # the last one is pending
    found = compare(Ledger(committed, (5, 6, 0, 8, 1, 2), 4, (5, 6), 3))
    assert found.lanes[0].status.tolist() == [HELD, HELD, DIFFERS, HELD, EXTRA, EXTRA]
    assert found.lanes[1].status.tolist() == [HELD, HELD, MISSING, OWED, 0, 0]
    assert found.first == 2
    assert found.wrong().tolist() == [2, 4, 5]


def test_what_is_owed_is_no_difference() -> None:
    found = compare(Ledger((5, 6, 7), (5, 6), 2, (5,), 1))
    assert found.lanes[1].status.tolist() == [HELD, OWED]
    assert found.first is None


@pytest.mark.parametrize("faults", [{"rewind": "legacy-rewind"}, {"rewind": "drop-debt"}, {"main_rewind": "no-trim"}])
def test_the_first_difference_is_the_engines(view: View, faults: dict[str, str]) -> None:
    run = toy_run(**faults)
    wrong = 0
    for record in run:
        firsts = [cache.first_wrong for cache in (record.main_cache, record.draft_cache) if cache is not None]
        wanted = min((first for first in firsts if first is not None), default=None)
        assert compare(run.ledger(record.index)).first == wanted
        wrong += wanted is not None
    assert wrong


def test_without_a_run_a_sentence_stands_there(panel: CacheLedgerPanel) -> None:
    assert panel.title_context() == ""
    assert not panel.table.isVisible()
    assert panel.grab().toImage().pixelColor(3, 3) == QColor(theme.current().base)


def test_a_lawful_run_says_so_and_shows_its_end(panel: CacheLedgerPanel, view: View) -> None:
    run = toy_run(30)
    view.show_run(run)
    held = run[-1].main_cache.end
    assert panel.title_context() == "behind round 29"
    assert panel.sentence.text().startswith("Behind round 29 what is held is what should be: main")
    assert f"main {held} of {held}" in panel.sentence.text()
    assert panel.table.row_count() == compare(run.ledger(29)).positions
    assert {row[-1] for row in rows(panel)} <= {"same", "owed"}
    bar = panel.table.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    assert not panel.check.isVisible()


def test_a_fault_is_told_in_one_sentence(panel: CacheLedgerPanel, view: View) -> None:
    """Which round, which cache, what should have been trimmed, which tokens are missing."""
    run = toy_run(rewind="legacy-rewind")
    view.show_run(run)
    first = run.invariants.first_round
    record = run[first]
    k, e = record.k, len(record.emitted)
    said = panel.sentence.text()
    asked = record.draft_cache.trim_asked[0]
    assert said.startswith(f"Round {first} went wrong first: it trimmed the draft cache by {asked}, where the law says")
    assert f"max(k − e, 0) = max({k} − {e}, 0) = {max(k - e, 0)}" in said
    cache = run[-1].draft_cache
    assert f"misses {cache.expected_end - cache.end} token" in said
    assert f"from position {cache.first_wrong} on" in said
    missing = compare(run.ledger(19)).committed[cache.first_wrong]
    assert run.header.vocabulary.text_of(int(missing)).strip() in said.rpartition("lacks")[2]


def test_the_sentence_knows_every_fault() -> None:
    assert "owed to the draft cache was never fed" in (first_failure(toy_run(rewind="drop-debt")) or "")
    assert "should have been trimmed off the main cache, and none came off" in (
        first_failure(toy_run(main_rewind="no-trim")) or ""
    )
    assert first_failure(toy_run()) is None


def test_before_the_first_bad_round_and_after_its_cure(panel: CacheLedgerPanel, view: View) -> None:
    run = toy_run(changes={4: {"rewind": "legacy-rewind"}, 9: {"rewind": "correct"}})
    view.show_run(run)
    assert "what is held is what should be again" in panel.sentence.text()
    view.select(2)
    assert panel.sentence.text().startswith(f"Round {run.invariants.first_round} went wrong first")
    assert "Behind round 2 what is held is what should be:" in panel.sentence.text()
    view.select(9)
    assert "misses" in panel.sentence.text()


def test_it_starts_at_the_first_difference_until_a_hand_scrolls(panel: CacheLedgerPanel, view: View) -> None:
    run = toy_run(40, changes={14: {"rewind": "legacy-rewind"}})
    view.show_run(run)
    first = run[-1].draft_cache.first_wrong
    assert first > 10
    top = panel.table.rowAt(0)
    assert top == min(first - 2, panel.table.verticalScrollBar().maximum())
    assert [row for row in range(panel.table.row_count()) if panel.table.row(row).line] == [first]
    bar = panel.table.verticalScrollBar()
    bar.triggerAction(bar.SliderAction.SliderToMinimum)
    view.select(38)
    assert bar.value() == 0
    view.select(3)  # no difference there: another place to start from
    view.select(38)
    assert panel.table.rowAt(0) == top


def test_differences_only(panel: CacheLedgerPanel, view: View, qtbot) -> None:
    run = toy_run(rewind="legacy-rewind")
    view.show_run(run)
    every = panel.table.row_count()
    qtbot.mouseClick(panel.only, Qt.MouseButton.LeftButton)
    found = compare(run.ledger(19))
    assert [int(row[0]) for row in rows(panel)] == found.wrong().tolist()
    assert 0 < panel.table.row_count() < every
    assert all(row[-1] in ("≠ differs", "∅ missing") for row in rows(panel))
    view.show_run(toy_run())
    assert panel.table.row_count() == 0
    assert panel.same.isVisible()
    qtbot.mouseClick(panel.same, Qt.MouseButton.LeftButton)
    assert panel.table.row_count() > 0
    assert not panel.same.isVisible()


def test_a_low_panel_shows_differences_only_by_itself(panel: CacheLedgerPanel, view: View) -> None:
    panel.resize(440, 22 * theme.line_height())
    view.show_run(toy_run(rewind="legacy-rewind"))
    assert panel.only.isChecked()
    view.show_run(toy_run())
    assert not panel.only.isChecked()
    assert panel.table.row_count() > 0


def test_a_drafter_without_a_cache(panel: CacheLedgerPanel, view: View) -> None:
    run = toy_run(5)
    run.header = dataclasses.replace(run.header, draft=None)
    run._rounds = [dataclasses.replace(record, draft_cache=None) for record in run]
    view.show_run(run)
    assert len(compare(run.ledger(4)).lanes) == 1
    assert rows(panel)[0][3] == "no cache"
    panel.grab()


def test_rows_hold_ids_pieces_and_where_they_came_from(panel: CacheLedgerPanel, view: View) -> None:
    run = toy_run(rewind="legacy-rewind")
    view.show_run(run)
    found = compare(run.ledger(19))
    prompt = len(run.header.prompt_tokens)
    for position in (0, prompt, found.positions - 1):
        row = rows(panel)[position]
        assert row[1].split()[0] == str(found.committed[position])
        source = "prompt" if position < prompt else f"round {run.locate(position - prompt)[0]}"
        assert row[4] == source


def test_copying_gives_all_rows_or_the_chosen_ones(panel: CacheLedgerPanel, view: View) -> None:
    view.show_run(toy_run(rewind="legacy-rewind"))
    panel.table.copy()
    lines = QGuiApplication.clipboard().text().split("\n")
    assert lines[0].startswith("pos\texpected\tmain holds")
    assert len(lines) == panel.table.row_count() + 1
    panel.table.selectRow(2)
    panel.table.selectionModel().select(
        panel.table.model().index(4, 0),
        panel.table.selectionModel().SelectionFlag.Select | panel.table.selectionModel().SelectionFlag.Rows,
    )
    assert [line[0] for line in panel.table.table()[1:]] == ["2", "4"]


def test_lanes_are_red_where_a_cache_is_wrong(panel: CacheLedgerPanel, view: View) -> None:
    run = toy_run(rewind="no-trim")
    view.show_run(run)
    lanes, found = panel.lanes, compare(run.ledger(19))
    image = lanes.grab().toImage()
    left, cell = lanes._place()
    assert cell >= 4
    draft, main = (lanes._top(at) + 2 for at in (1, 0))
    red = QColor(theme.current().danger)

    def at(position: int, y: int) -> QColor:
        return image.pixelColor(round(left + position * cell + 2), y)

    wrong = np.flatnonzero(found.lanes[1].status >= DIFFERS)
    assert wrong.size
    assert all(at(int(position), draft) == red for position in wrong)
    assert at(0, draft) != red
    assert at(int(wrong[0]), main) != red
    assert f"first difference at position {found.first}" in lanes.spoken()
    assert "draft: " in lanes.tip(left + cell * wrong[0] + 1)


def test_a_press_on_a_lane_goes_to_the_position(panel: CacheLedgerPanel, view: View, qtbot) -> None:
    view.show_run(toy_run(60))
    left, cell = panel.lanes._place()
    wanted = 10
    place = QPoint(round(left + (wanted + 0.5) * cell), panel.lanes._top(0) + 4)
    qtbot.mouseClick(panel.lanes, Qt.MouseButton.LeftButton, pos=place)
    assert panel.table.rowAt(0) == wanted - 2


def test_lanes_of_many_positions_stay_bounded(panel: CacheLedgerPanel, view: View) -> None:
    view.show_run(fake_run(3000, distributions=False, legacy=True))
    cell = panel.lanes._place()[1]
    assert cell < 1
    starts = panel.lanes._starts(cell)
    assert len(starts) <= panel.lanes.width()
    panel.grab()


def test_the_content_check_is_told_with_its_cost(panel: CacheLedgerPanel, view: View) -> None:
    run = toy_run(checks=(3, 12), rewind="legacy-rewind")
    # As if its models had weights: of the toy's, a check can see nothing.
    model = dataclasses.replace(run.header.target, model_type="llama")
    run.header = dataclasses.replace(run.header, target=model)
    view.show_run(run)
    assert [check.round for check in run.content_checks] == [3, 12]
    assert panel.check.text().startswith("Contents behind round 12: largest difference")
    assert f"cost {run.content_checks[1].syncs} syncs of its own, counted apart" in panel.check.text()
    view.select(3)
    assert panel.check.text().startswith("Contents behind round 3:")
    check = dataclasses.replace(run.content_checks[0], main_difference=1.2e-6, draft_difference=4.8)
    text, bad = check_text(check, "float32")
    assert "1.2e-6 (target), 4.80 (draft)" in text
    assert bad
    assert not check_text(check, "float16")[1]
    text, bad = check_text(check, "float32", kv_bits=4)
    assert not bad
    assert "in 4 bits rounding alone may show more" in text
    blind, bad = check_text(check, "float32", "toy")
    assert "can see nothing" in blind
    assert not bad
    assert not check_text(dataclasses.replace(check, draft_difference=None), "float32")[1]
    assert check_for(toy_run(3), 1) is None


def test_a_hidden_panel_does_nothing_until_it_is_shown(panel: CacheLedgerPanel, view: View) -> None:
    panel.hide()
    run = toy_run()
    view.show_run(run)
    assert panel.table.row_count() == 0
    panel.show()
    assert panel.table.row_count() == compare(run.ledger(19)).positions


def test_the_theme_is_followed(panel: CacheLedgerPanel, view: View, qapp) -> None:
    view.show_run(toy_run(rewind="legacy-rewind"))
    theme.apply(qapp, "dark")
    try:
        image = panel.sentence.grab().toImage()
        assert image.pixelColor(2, 2) == QColor(theme.DARK.danger_tint)
    finally:
        theme.apply(qapp, "light")


def test_help_and_how_often_are_told(panel: CacheLedgerPanel, qtbot) -> None:
    with qtbot.waitSignal(panel.help_wanted) as asked:
        panel.help.click()
    assert asked.args == ["ledger.md"]
    with qtbot.waitSignal(panel.every_wanted) as wanted:
        panel.every.setValue(10)
    assert wanted.args == [10]
    panel.set_every(0)
    assert panel.every.text() == "every: off"
