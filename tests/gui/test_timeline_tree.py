"""The lanes above the timeline: what is painted of them, choosing a run by mouse and keys, and their room."""

from __future__ import annotations

import pytest
from fakes import fake_run
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, Qt
from PySide6.QtTest import QSignalSpy, QTest

from app.panels.round_axis import RoundAxis
from app.panels.timeline import CELLS, TimelinePanel
from app.panels.timeline_tree import ForkTree, row_height
from app.theme import LIGHT
from app.view import View
from engine.recording import RecordedRun


@pytest.fixture
def runs() -> list[RecordedRun]:
    """A run, its fork before round 40, a fork of that before 60, and a run of its own."""
    made = [fake_run(count, distributions=False) for count in (100, 80, 150, 30)]
    made[1].parent, made[2].parent = (made[0], 40), (made[1], 60)
    return made


@pytest.fixture
def panel(qtbot, view: View, runs: list[RecordedRun]) -> TimelinePanel:
    panel = TimelinePanel(view)
    qtbot.addWidget(panel)
    panel.follow_runs(lambda: runs)
    panel.resize(1440, 140)
    panel.show()
    view.show_run(runs[0])
    return panel


def middle(row: int) -> int:
    return row * row_height() + row_height() // 2


def test_a_run_alone_takes_no_room(qtbot, view: View) -> None:
    panel = TimelinePanel(view)
    qtbot.addWidget(panel)
    panel.resize(1440, 57)
    panel.show()
    run = fake_run(50, distributions=False)
    view.show_run(run)
    alone = panel.grab().toImage()
    panel.follow_runs(lambda: [run])
    assert panel.lanes_height() == 0
    assert panel.tree.isHidden()
    assert panel.grab().toImage() == alone
    view.show_run(None)
    assert panel.lanes_height() == 0


def test_each_run_has_a_lane_from_where_it_branched_off(panel: TimelinePanel, view: View) -> None:
    image, axis = panel.grab().toImage(), RoundAxis.for_view(view).map(panel.width())
    shown, other = QColor(LIGHT.accent), QColor(LIGHT.target_draw.fill)

    def ink(row: int, index: int) -> QColor:
        return image.pixelColor(round(axis.x(index)) + 4, middle(row))

    assert [lane.number for lane in panel.tree.lanes()] == [1, 2, 3, 4]
    for row, (first, last, wanted) in enumerate(((0, 98, shown), (40, 78, other), (60, 98, other), (0, 28, other))):
        for index in (first + 1, (first + last) // 2, last):
            assert ink(row, index) == wanted, (row, index)
    for row, index in ((1, 38), (1, 81), (2, 58), (3, 31)):
        assert ink(row, index) not in (shown, other), (row, index)
    connector = QColor(LIGHT.rolling)
    assert image.pixelColor(round(axis.x(40)), row_height() + 1) == connector
    assert image.pixelColor(round(axis.x(60)), 2 * row_height() + 1) == connector


def test_the_title_counts_the_runs(panel: TimelinePanel, view: View, runs: list[RecordedRun]) -> None:
    assert panel.title_context() == f"run 1 of 4 · {CELLS}"
    view.show_run(runs[2])
    assert panel.title_context().startswith("run 3 of 4 · ")
    assert panel.spoken().startswith("run 3 of 4; 150 rounds: ")
    view.show_run(fake_run(3, distributions=False))
    assert panel.title_context().startswith("4 runs · ")


def test_a_click_on_a_lane_shows_its_run_at_that_round(panel: TimelinePanel, view: View, runs) -> None:
    axis = RoundAxis.for_view(view).map(panel.width())
    button = Qt.MouseButton.LeftButton
    QTest.mouseClick(panel.tree.viewport(), button, pos=QPoint(round(axis.centre(70)), middle(2)))
    assert (view.run, view.round_index, view.live) == (runs[2], 70, False)
    # The other axis: that of a run of 150 rounds. Behind a lane's end is its last round.
    axis = RoundAxis.for_view(view).map(panel.width())
    QTest.mouseClick(panel.tree.viewport(), button, pos=QPoint(round(axis.centre(120)), middle(1)))
    assert (view.run, view.round_index) == (runs[1], 79)


def test_a_click_on_a_name_keeps_the_round_and_the_tail(panel: TimelinePanel, view: View, runs) -> None:
    button, name = Qt.MouseButton.LeftButton, QPoint(60, middle(1))
    QTest.mouseClick(panel.tree.viewport(), button, pos=name)
    assert (view.run, view.round_index, view.live) == (runs[1], 79, True)
    view.select(45, 1)
    QTest.mouseClick(panel.tree.viewport(), button, pos=QPoint(60, middle(0)))
    assert (view.run, view.round_index, view.live) == (runs[0], 45, False)


def test_keys_choose_a_run(qtbot, panel: TimelinePanel, view: View, runs) -> None:
    assert panel.tree.focusPolicy() & Qt.FocusPolicy.TabFocus
    qtbot.keyClick(panel.tree, Qt.Key.Key_Down)
    assert view.run is runs[0], "moving shows nothing yet"
    qtbot.keyClick(panel.tree, Qt.Key.Key_Return)
    assert view.run is runs[1]
    qtbot.keyClick(panel.tree, Qt.Key.Key_End)
    qtbot.keyClick(panel.tree, Qt.Key.Key_Space)
    assert view.run is runs[3]


def test_what_is_said_is_plain_and_tells_the_runs_apart(panel: TimelinePanel, runs: list[RecordedRun]) -> None:
    model = panel.tree.model()
    texts = [model.index(row, 0).data(Qt.ItemDataRole.AccessibleTextRole) for row in range(4)]
    assert texts[0] == "Run 1, shown: stochastic, T 0.7, 100 rounds"
    assert texts[1] == "Run 2: fork, 80 rounds, from round 40 on"
    assert panel.tree.accessibleName()
    runs[1].damage = "<b>bad</b>"
    tip = model.index(1, 0).data(Qt.ItemDataRole.ToolTipRole)
    assert not Qt.mightBeRichText(tip)
    assert "forked from run 1 before round 40" in tip
    assert "<b>bad</b>" in tip


@pytest.mark.parametrize(("height", "rows"), [(30, 0), (45, 1), (54, 2), (140, 4), (300, 4)])
def test_lanes_give_way_to_the_strip(panel: TimelinePanel, height: int, rows: int) -> None:
    panel.resize(1440, height)
    assert panel.tree.height() == (rows * row_height() if rows else 0)
    assert panel.tree.isVisible() == (rows > 0)
    assert not panel.grab().isNull()


def test_the_lane_shown_is_in_sight_and_a_new_one_asks_for_room(panel: TimelinePanel, view: View, runs) -> None:
    spy = QSignalSpy(panel.room_changed)
    before = panel.lanes_height()
    for _ in range(40):
        runs.append(fake_run(3, distributions=False))
    view.show_run(runs[-1])
    assert spy.count() == 1
    assert panel.lanes_height() == before, "no more than can be seen at once"
    panel.resize(1440, 141)
    view.show_run(runs[20])
    tree = panel.tree
    for row in (19, 20, 21):
        assert tree.viewport().rect().contains(tree.visualRect(tree.model().index(row, 0))), "its neighbours too"
    view.select(1)
    assert spy.count() == 1


def test_a_run_that_cannot_be_shown_has_a_lane_that_says_so(panel: TimelinePanel, view: View, runs) -> None:
    broken = fake_run(0, distributions=False)
    broken.damage = "This run can't be shown: its counters are missing"
    runs.append(broken)
    view.show_run(broken)
    before = panel.grab().toImage()
    red = QColor(LIGHT.danger)
    row = panel.tree.visualRect(panel.tree.model().index(4, 0)).center().y()
    assert any(before.pixelColor(x, y) == red for x in range(0, 400) for y in range(row - 8, row + 8))
    assert isinstance(panel.tree, ForkTree)


def test_the_lane_shown_stays_in_sight_where_there_is_less_room(
    panel: TimelinePanel, view: View, runs: list[RecordedRun]
) -> None:
    view.show_run(runs[3])
    tree = panel.tree
    for rows in (4, 1):
        tree.resize(tree.width(), rows * row_height() + 1)
        row = next(row for row, lane in enumerate(tree.lanes()) if lane.run is runs[3])
        area = tree.visualRect(tree.model().index(row, 0))
        assert tree.viewport().rect().contains(area.center()), rows
