"""Turns: all at once, or the longest stale first within a budget; nobody unseen; and panels that bear being behind."""

from __future__ import annotations

import pytest
from fakes import FakeRounds, fake_header, fake_run
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, Qt
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QApplication, QWidget

from app import turns as module
from app.panels.round_detail import RoundDetailPanel
from app.panels.rounds_table import RoundsTablePanel
from app.turns import Turns
from app.view import View
from engine.recording import RecordedRun


class Seen(QWidget):
    """Notes its refreshes and its paints."""

    def __init__(self, name: str, notes: list[str]) -> None:
        super().__init__()
        self.setObjectName(name)
        self._notes = notes

    def refresh(self) -> None:
        self._notes.append(self.objectName())
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        self._notes.append(f"{self.objectName()} paints")


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def panels(qtbot, notes: list[str]) -> list[Seen]:
    made = [Seen(name, notes) for name in "abc"]
    for panel in made:
        qtbot.addWidget(panel)
        panel.show()
        qtbot.waitExposed(panel)
    QApplication.processEvents()
    notes.clear()
    return made


@pytest.fixture
def turns(panels: list[Seen]) -> Turns:
    made = Turns()
    for panel in panels:
        made.join(panel.refresh, panel)
    return made


def test_without_a_budget_everybody_is_refreshed_once(turns: Turns, notes: list[str]) -> None:
    turns.serve()
    assert notes == [], "nobody is stale yet"
    turns.mark()
    assert turns.behind
    turns.serve()
    turns.serve()
    assert notes == ["a", "b", "c"], "painting is left to Qt"
    assert not turns.behind


def test_a_budget_gives_turns_to_the_longest_stale_first(turns: Turns, notes: list[str]) -> None:
    """No time at all: one member a call, painted before it returns; nobody starves however often all are stale."""
    for _ in range(4):
        turns.mark()
        turns.serve(0.0)
    assert notes == ["a", "a paints", "b", "b paints", "c", "c paints", "a", "a paints"]
    assert turns.behind
    notes.clear()
    turns.serve(60.0)
    assert notes == ["b", "b paints", "c", "c paints"]
    assert not turns.behind


def test_who_would_exceed_the_budget_waits(turns: Turns, notes: list[str], monkeypatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(module.time, "thread_time", lambda: clock[0])
    costs = {"a": 0.002, "b": 0.004, "c": 0.003}
    for panel in list(turns._members):
        widget = panel.widget()
        widget._notes = Ticking(notes, clock, costs)
    for _ in range(30):  # until the costs are known
        turns.mark()
        turns.serve(60.0)
    assert [round(m.cost, 4) for m in turns._members] == [0.002, 0.004, 0.003]
    for spent in ([0.002, 0.004], [0.003, 0.002], [0.004, 0.003]):
        before = clock[0]
        turns.mark()
        turns.serve(0.008)
        assert clock[0] - before == pytest.approx(sum(spent))


class Ticking(list):
    """Notes that let time pass with each refresh."""

    def __init__(self, notes: list[str], clock: list[float], costs: dict[str, float]) -> None:
        super().__init__()
        self._clock, self._costs = clock, costs

    def append(self, note: str) -> None:
        self._clock[0] += self._costs.get(note, 0.0)


def test_nobody_unseen_takes_part_in_a_budget(turns: Turns, panels: list[Seen], notes: list[str]) -> None:
    panels[0].hide()
    panels[1].showMinimized()
    QApplication.processEvents()
    notes.clear()
    turns.mark()
    turns.serve(60.0)
    assert [note for note in notes if "paints" not in note] == ["c"]
    assert not turns.behind
    turns.serve()
    assert notes[-2:] == ["a", "b"]


def test_who_is_gone_is_forgotten(turns: Turns, notes: list[str]) -> None:
    fourth = Seen("d", notes)
    turns.join(fourth.refresh, fourth)
    fourth.deleteLater()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    turns.mark()
    turns.serve()
    assert notes == ["a", "b", "c"]
    assert len(turns._members) == 3


def test_a_refresh_that_refreshes_everybody(turns: Turns, panels: list[Seen], notes: list[str]) -> None:
    """As the rounds table does where its new row moves the cursor: nobody is served twice for it."""
    moved = []

    def move() -> None:
        notes.append("moves")
        if not moved:
            moved.append(True)
            turns.mark()
            turns.serve()

    turns.join(move)
    turns._members.insert(0, turns._members.pop())
    turns.mark()
    turns.serve(60.0)
    assert [note for note in notes if "paints" not in note] == ["moves", "moves", "a", "b", "c"]


# The panels between two turns.


def test_the_view_is_told_at_once_and_the_panels_in_turn(view: View, panels: list[Seen], notes: list[str]) -> None:
    view.advanced.connect(lambda: notes.append("advanced"))
    view.cursor_moved.connect(lambda: notes.append("moved"))
    view.changed.connect(lambda: notes.append("changed"))
    for panel in panels:
        view.join(panel, panel.refresh)
    run, source = RecordedRun(fake_header()), FakeRounds()
    view.show_run(run)
    notes.clear()
    for wanted in ("changed", "a", "b", "c", "changed"):
        run.append(source.next())
        view.notify_advanced(1e-9)
        assert [note for note in notes if "paints" not in note] == ["advanced", "moved", wanted]
        notes.clear()
    run.append(source.next())
    view.notify_advanced(0.0)
    assert notes == ["advanced", "moved"], "with no time at all nobody has a turn"
    assert view.behind
    notes.clear()
    view.select(2)
    assert notes == ["moved", "changed", "a", "b", "c"], "by hand all of them, whoever's turn it was"
    assert not view.behind


def test_a_round_detail_that_is_behind_shows_and_chooses_its_own_round(qtbot, view: View) -> None:
    panel = RoundDetailPanel(view)
    qtbot.addWidget(panel)
    panel.resize(1100, 130)
    panel.show()
    view.show_run(fake_run(3))
    before = panel.grab().toImage()
    view.run = fake_run(9, k=2)
    view.round_index = 8
    view.moves += 1
    assert panel.grab().toImage() == before
    chosen: list[tuple[int, int | None]] = []
    view.select = lambda *place: chosen.append(place)  # type: ignore[method-assign]
    qtbot.mouseClick(panel.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(10, 20))
    assert chosen == [(2, 0)]
    panel._follow()
    assert panel.grab().toImage() != before


def test_a_rounds_table_that_is_behind_marks_its_own_row(qtbot, view: View) -> None:
    panel = RoundsTablePanel(view)
    qtbot.addWidget(panel)
    panel.resize(320, 300)
    panel.show()
    view.show_run(fake_run(5))
    before = panel.grab().toImage()
    view.round_index = 1
    view.moves += 1
    assert panel.grab().toImage() == before
    panel._follow()
    assert panel.grab().toImage() != before


def test_a_panel_covered_by_its_own_child_is_seen(turns: Turns, panels: list[Seen], notes: list[str]) -> None:
    """As a scroll area is by its viewport."""
    child = QWidget(panels[0])
    child.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)
    child.resize(panels[0].size())
    child.show()
    QApplication.processEvents()
    assert panels[0].visibleRegion().isEmpty()
    notes.clear()
    turns.mark()
    turns.serve(60.0)
    assert [note for note in notes if "paints" not in note] == ["a", "b", "c"]
