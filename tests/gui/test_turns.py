"""Turns: all at once, or the longest stale first within a budget; nobody unseen; and panels that bear being behind."""

from __future__ import annotations

import pytest
from fakes import FakeRounds, fake_header, fake_run
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, Qt
from PySide6.QtGui import QPaintEvent
from PySide6.QtWidgets import QApplication, QWidget

from app import turns as module
from app import view as view_module
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


def seen_order(notes: list[str]) -> str:
    order = "".join(note for note in notes if "paints" not in note)
    notes.clear()
    return order


def test_catching_up_serves_the_first_first_and_nobody_twice(panels: list[Seen], notes: list[str]) -> None:
    turns = Turns()
    for panel in panels:
        turns.join(panel.refresh, panel, first=panel.objectName() == "c")
    turns.mark()
    since = turns.now
    assert turns.catch_up(since, 0.0)
    assert notes == ["c", "c paints"]
    turns.mark()
    assert turns.catch_up(since, 0.0), "c is stale again, but had its turn"
    assert not turns.catch_up(since, 0.0)
    assert seen_order(notes) == "cab"
    assert not turns.catch_up(since, 60.0)
    assert notes == []
    panels[1].hide()
    turns.mark()
    assert not turns.catch_up(turns.now, 60.0)
    assert seen_order(notes) == "cab", "who isn't seen comes last"
    assert not any(member.stale for member in turns._members)


def test_nobody_stands_still_however_often_all_are_marked(panels: list[Seen], notes: list[str]) -> None:
    turns = Turns()
    for panel in panels:
        turns.join(panel.refresh, panel, first=panel.objectName() == "c")
    for _ in range(5):
        turns.mark()
        turns.catch_up(turns.now, 0.0)
    assert seen_order(notes) == "cacbc"
    turns.serve()
    turns.mark()
    turns.catch_up(turns.now, 0.0)
    assert seen_order(notes) == "abc", "all were served in between: it begins anew"


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


def test_a_scrub_comes_to_the_panels_in_later_passes_of_the_event_loop(
    qtbot, view: View, panels: list[Seen], notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view_module, "PASS_BUDGET", 0.0)
    panels[2].setObjectName("round-detail")
    seen: list[int] = []
    view.changed.connect(lambda: seen.append(view.round_index))
    for panel in panels:
        view.join(panel, panel.refresh)
    view.show_run(fake_run(9))
    for index in (3, 5, 4):
        notes.clear(), seen.clear()
        view.scrub(index)
        assert (view.round_index, view.live, notes, seen) == (index, False, [], [])
    assert view._next_pass.isActive()
    view._next_pass.timeout.emit()
    assert [note for note in notes if "paints" not in note] == ["round-detail"], "one a pass, the round's first"
    view.scrub(6)
    qtbot.waitUntil(lambda: not view._next_pass.isActive())
    assert not view.behind
    refreshed = [note for note in notes if "paints" not in note]
    assert sorted(refreshed) == ["a", "b", "round-detail", "round-detail"]
    assert seen == [6], "places that were left by then aren't shown"
    view.scrub(99)
    assert not view._next_pass.isActive()


def test_a_selection_serves_at_once_what_a_scrub_has_left(view: View, panels: list[Seen], notes: list[str]) -> None:
    for panel in panels:
        view.join(panel, panel.refresh)
    view.show_run(fake_run(9))
    view.scrub(3)
    notes.clear()
    view.select(4)
    assert notes == ["a", "b", "c"]
    assert not view._next_pass.isActive()
    view.step_round(1, scrub=True)
    assert (view.round_index, view._next_pass.isActive()) == (5, True)
    view.step_round(1)
    assert (view.round_index, view._next_pass.isActive()) == (6, False)
    view.step_position(1, scrub=True)
    assert view._next_pass.isActive()
    view.serve()
    assert not view._next_pass.isActive()


def test_a_panel_that_fails_keeps_no_other_from_its_turn(qtbot, view: View, panels: list[Seen], notes) -> None:
    def fail() -> None:
        raise ValueError("no such round")

    panels[0].refresh = fail  # type: ignore[method-assign]
    view.show_run(fake_run(9))
    view._turns.join(fail)
    for panel in panels[1:]:
        view.join(panel, panel.refresh)
    with qtbot.captureExceptions() as caught:
        view.scrub(3)
        qtbot.waitUntil(lambda: not view._next_pass.isActive())
    assert [str(error[1]) for error in caught] == ["no such round"]
    assert seen_order(notes) == "bc"


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
