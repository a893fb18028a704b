"""The rounds table: what its cells say, following the tail, its columns by width, and copying."""

from __future__ import annotations

import pytest
from fakes import FakeRounds, fake_header, fake_run
from PySide6.QtCore import QItemSelectionModel, QPoint
from PySide6.QtGui import QGuiApplication, QImage, QKeyEvent, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow

from app.format import probability
from app.panels.round_axis import RoundAxis
from app.panels.rounds_model import COLUMNS, KEYS, RoundsModel, outcome_words
from app.panels.rounds_table import ALWAYS, RoundsTablePanel
from app.theme import DARK, LIGHT
from app.view import View
from app.workspaces import SPLITTER
from engine.recording import RecordedRun


@pytest.fixture
def panel(qtbot, view: View) -> RoundsTablePanel:
    panel = RoundsTablePanel(view)
    qtbot.addWidget(panel)
    panel.resize(320, 300)
    panel.show()
    return panel


def test_cells_say_what_the_rounds_hold(qtbot, qtmodeltester) -> None:
    run = fake_run(30)
    model = RoundsModel()
    model.set_run(run)
    qtmodeltester.check(model)
    vocabulary = run.header.vocabulary
    for row, record in enumerate(run):
        said = {key: model.text(row, key) for key in KEYS}
        assert said["index"] == str(row)
        assert said["drafts"].count("A") == record.accepted == int(said["accepted"])
        assert said["drafts"].count("-") == record.k - record.tested
        assert (said["drafted"], said["tested"]) == (str(record.k), str(record.tested))
        tested = [d.sum_min for d in record.drafts if d.fate != "ignored"]
        assert said["sum_min"] == probability(sum(tested) / len(tested))
        assert said["drift"] == "0"
        assert len(said["text"]) >= len(vocabulary.decode(e.token for e in record.emitted))
        assert not Qt.mightBeRichText(model.tip(row))
    assert {model.text(row, "outcome") for row in range(30)} == {"recovered", "all + bonus"}


def test_cells_need_no_round_to_be_read(qtbot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were scrolled to are told by columns: a file isn't asked for each of them."""
    run = fake_run(30)
    model = RoundsModel()
    model.set_run(run)
    known = [[model.text(row, key) for key in KEYS] for row in range(30)]
    read: list[int] = []
    whole = RecordedRun.__getitem__
    monkeypatch.setattr(RecordedRun, "__getitem__", lambda run, number: read.append(number) or whole(run, number))
    model.set_run(run)
    assert [[model.text(row, key) for key in KEYS] for row in range(30)] == known
    assert read == []
    model.tip(3)
    assert read == [3], "the tip gives its reasons, which only the round knows"


def test_outcomes_of_the_rules(qtbot) -> None:
    assert {outcome_words(r) for r in fake_run(30, "sampler-match")} <= {"target draw", "all + bonus"}
    assert {outcome_words(r) for r in fake_run(30, "greedy-argmax")} <= {"argmax", "all + bonus"}
    assert {outcome_words(r) for r in fake_run(3, k=0)} == {"no drafts"}


def test_without_closed_forms_sum_min_is_not_a_number_but_a_dash(qtbot) -> None:
    model = RoundsModel()
    model.set_run(fake_run(3, diagnostics=False))
    assert model.text(0, "sum_min") == "-"


def test_it_follows_the_tail_until_a_row_is_chosen(panel: RoundsTablePanel, view: View) -> None:
    run, source = RecordedRun(fake_header()), FakeRounds()
    view.show_run(run)
    bar = panel.table.verticalScrollBar()
    for _ in range(40):
        run.append(source.next())
        view.notify_advanced()
        assert view.live
        assert panel.table.currentIndex().row() == view.round_index == len(run) - 1
        assert bar.value() == bar.maximum()
    assert panel.title_context() == "40 of 40"
    panel.table.setCurrentIndex(panel.model.index(5, 1))
    assert (view.round_index, view.live) == (5, False)
    place = bar.value()
    run.append(source.next())
    view.notify_advanced()
    assert (view.round_index, bar.value()) == (5, place)
    assert panel.model.rowCount() == 41
    view.follow_tail()
    assert panel.table.currentIndex().row() == 40


def test_scrolling_lets_go_of_the_tail_only_while_the_run_goes(panel: RoundsTablePanel, view: View) -> None:
    run, source = fake_run(40), FakeRounds()
    view.show_run(run)
    bar = panel.table.verticalScrollBar()
    bar.triggerAction(bar.SliderAction.SliderPageStepSub)
    assert (view.live, view.round_index) == (False, 39)
    place = bar.value()
    assert place < bar.maximum()
    source.index = 40
    run.append(source.next())
    view.notify_advanced()
    assert (bar.value(), view.round_index) == (place, 39)


def test_a_click_elsewhere_moves_the_row_without_a_loop(qtbot, panel: RoundsTablePanel, view: View) -> None:
    view.show_run(fake_run(40))
    moves = []
    view.cursor_moved.connect(lambda: moves.append(view.round_index))
    view.select(3, 1)
    assert moves == [3]
    assert view.position == 1
    assert panel.selected_rows() == [3]


def test_rows_that_go_by_are_scrubbed_over(qtbot, panel: RoundsTablePanel, view: View) -> None:
    view.show_run(fake_run(30))
    view.select(4)
    for held in (False, True, False):
        here = view.round_index
        event = QKeyEvent(QKeyEvent.Type.KeyPress, Qt.Key.Key_Down, Qt.KeyboardModifier(0), "", held)
        QApplication.sendEvent(panel.table, event)
        assert (view.round_index, view.behind) == (here + 1, held)
        assert panel.table.currentIndex().row() == here + 1
    row = panel.table.visualRect(panel.model.index(5, 1)).center()
    QTest.mousePress(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=row)
    assert (view.round_index, view.behind) == (5, False)
    QTest.mouseMove(panel.table.viewport(), row + QPoint(0, panel.table.rowHeight(0)))
    assert (view.round_index, view.behind) == (6, True)
    qtbot.waitUntil(lambda: not view.behind)
    assert panel.delegate.cursor_row == 6
    QTest.mouseRelease(panel.table.viewport(), Qt.MouseButton.LeftButton, pos=row)


@pytest.mark.parametrize(("width", "wanted"), [(320, "last sum_min"), (900, "last sum_min outcome text drift time")])
def test_columns_come_with_the_width(panel: RoundsTablePanel, view: View, width: int, wanted: str) -> None:
    view.show_run(fake_run(30))
    panel.resize(width, 300)
    shown = {key for column, key in enumerate(KEYS) if not panel.table.isColumnHidden(column)}
    assert shown >= {*ALWAYS, *wanted.split()}
    total = sum(panel.table.columnWidth(c) for c in range(len(KEYS)) if not panel.table.isColumnHidden(c))
    assert total <= panel.table.viewport().width()


def test_at_its_least_width_nothing_needs_scrolling(panel: RoundsTablePanel, view: View) -> None:
    view.show_run(fake_run(30))
    panel.resize(panel.minimumSizeHint().width(), 300)
    assert panel.shown_columns() == list(ALWAYS)
    assert panel.table.horizontalScrollBar().maximum() == 0


def test_drift_comes_before_sum_min_once_there_is_some(panel: RoundsTablePanel, view: View) -> None:
    view.show_run(fake_run(30, legacy=True))
    assert "drift" in panel.shown_columns()
    assert "sum_min" not in panel.shown_columns()


def test_columns_chosen_by_hand_stay(panel: RoundsTablePanel, view: View) -> None:
    view.show_run(fake_run(30))
    menu = panel.header_menu()
    assert {a.data() for a in menu.actions() if a.data()} == set(KEYS) - {"mark"}
    next(a for a in menu.actions() if a.data() == "time").trigger()
    next(a for a in menu.actions() if a.data() == "last").trigger()
    for width in (330, 900):
        panel.resize(width, 300)
        assert "time" in panel.shown_columns()
        assert "last" not in panel.shown_columns()
    automatic = [a for a in panel.header_menu().actions() if a.data() is None and not a.isSeparator()]
    automatic[0].trigger()
    assert "last" in panel.shown_columns()


def test_copying_rows_gives_tab_separated_originals(qtbot, panel: RoundsTablePanel, view: View) -> None:
    run = fake_run(120, seed=5, distributions=False)
    view.show_run(run)
    selection = panel.table.selectionModel()
    rows = QItemSelectionModel.SelectionFlag.Rows | QItemSelectionModel.SelectionFlag.Select
    panel.table.clearSelection()
    for row in range(len(run)):
        selection.select(panel.model.index(row, 0), rows)
    qtbot.keyClick(panel.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    head, *lines = QGuiApplication.clipboard().text().rstrip("\n").split("\n")
    names = head.split("\t")
    assert len(lines) == len(run)
    escaped = 0
    for record, line in zip(run, lines, strict=True):
        cells = dict(zip(names, line.split("\t"), strict=True))
        assert cells["round"] == str(record.index)
        text = cells["text"].replace("\\t", "\t").replace("\\n", "\n")
        assert text == run.header.vocabulary.decode(e.token for e in record.emitted)
        escaped += text != cells["text"]
    assert escaped


def test_painting_in_every_state(panel: RoundsTablePanel, view: View) -> None:
    assert not panel.grab().isNull()
    for options in ({}, {"k": 16}, {"k": 0}, {"legacy": True}, {"rule": "sampler-match"}):
        view.show_run(fake_run(20, **options))
        for width in (panel.minimumSizeHint().width(), 900):
            panel.resize(width, 300)
            assert not panel.grab().isNull()
    view.show_run(None)
    assert panel.title_context() == ""
    assert panel.model.rowCount() == 0


def test_headers_and_keys_are_plain_and_unique() -> None:
    assert len(set(KEYS)) == len(COLUMNS)
    assert not any("<" in column.title + column.about for column in COLUMNS)


def grabbed(panel: RoundsTablePanel, *, anew: bool = False) -> QImage:
    if anew:
        panel.table.forget_pictures()
    return panel.table.viewport().grab().toImage()


def test_rows_are_drawn_once_and_look_as_if_drawn_anew(panel: RoundsTablePanel, view: View, monkeypatch) -> None:
    drawn: list[int] = []
    paint = panel.delegate.paint_cell

    def counted(painter, area, row, column, chosen) -> None:
        if COLUMNS[column].key == "index":
            drawn.append(row)
        paint(painter, area, row, column, chosen)

    monkeypatch.setattr(panel.delegate, "paint_cell", counted)
    run = fake_run(12, legacy=True)
    view.show_run(run)
    view.select(3)
    grabbed(panel)
    assert set(drawn) == set(range(12))
    drawn.clear()
    view.select(5)
    after = grabbed(panel)
    assert sorted(set(drawn)) == [3, 5], "the row that was the cursor's, and the one that is"
    drawn.clear()
    assert grabbed(panel) == after
    assert set(drawn) == {5}
    assert grabbed(panel, anew=True) == after
    panel.table.clearSelection()
    grabbed(panel)
    view.select(7)
    assert grabbed(panel) == grabbed(panel, anew=True), "the cursor's row is marked without being selected, too"
    for act in (
        lambda: panel.restyle(DARK),
        lambda: panel.restyle(LIGHT),
        lambda: panel.resize(700, 300),
        lambda: view.show_run(fake_run(12, seed=5)),
    ):
        act()
        assert grabbed(panel) == grabbed(panel, anew=True)


def test_the_gutters_below_end_where_the_table_ends(qtbot, view: View) -> None:
    axis, window = RoundAxis.for_view(view), QMainWindow()
    qtbot.addWidget(window)
    left, right = QDockWidget("rounds", window), QDockWidget("other", window)
    panel = RoundsTablePanel(view, left)
    left.setWidget(panel)
    for dock in (left, right):
        window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, dock)
    window.splitDockWidget(left, right, Qt.Orientation.Horizontal)
    window.resize(1300, 500)
    window.show()
    for width in (300, 380):
        window.resizeDocks([left, right], [width, 1300 - width], Qt.Orientation.Horizontal)
        qtbot.waitUntil(lambda width=width: abs(panel.width() - width) < 4)
        assert axis.gutter == panel.mapTo(window, QPoint(0, 0)).x() + panel.width() + SPLITTER
    left.setFloating(True)
    qtbot.waitUntil(lambda: axis.gutter == axis.usual_gutter)
