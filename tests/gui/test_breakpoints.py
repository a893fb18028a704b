"""Breakpoints in the window: pausing exactly there, hits, the list and its dialog, and what is kept."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from fakes import fake_run
from PySide6.QtGui import Qt

from app.breakpoint_list import BreakpointList
from app.dialogs.breakpoint_editor import MOST, BreakpointEditor
from app.panels.breakpoints import EMPTY, BreakpointsPanel
from app.session import Session
from app.view import View
from engine.breakpoint_kinds import KINDS
from engine.breakpoints import Breakpoint, Condition
from engine.recording import RecordedRun
from engine.settings import Settings
from tests.gui.fake_engine import FakeRoom, Script
from tests.gui.toy_runs import toy_run
from tests.gui.windows import Opener, show_run, store_in

SETTINGS = Settings(stochastic=True, diagnostics=True, seed=3, max_tokens=-1)
PROMPT = "the cat"
RECOVERED = Breakpoint((Condition("recovered"),))


@pytest.fixture
def session(qtbot) -> Iterator[Session]:
    made = Session()
    made.load_toy()
    qtbot.waitUntil(lambda: made.state == "ready", timeout=60_000)
    yield made
    assert made.shutdown()


@pytest.fixture
def points(session: Session, tmp_path) -> BreakpointList:
    return BreakpointList(session, store_in(tmp_path), session)


def wait(qtbot, session: Session, state: str) -> RecordedRun:
    qtbot.waitUntil(lambda: session.state == state, timeout=20_000)
    assert session.view.run is not None
    return session.view.run


def test_a_run_pauses_exactly_behind_each_round_that_meets_one(qtbot, session: Session, points) -> None:
    known = toy_run(40)
    expected = [r.index for r in known if any(e.source == "recovered" for e in r.emitted)]
    points.add(RECOVERED)
    session.start_run(PROMPT, SETTINGS)
    for at in expected[:3]:
        run = wait(qtbot, session, "paused")
        assert len(run) == at + 1
        assert session.why_paused == f"breakpoint 'recovered token' hit in round {at}"
        qtbot.wait(20)
        assert len(run) == at + 1, "no round begins behind it"
        session.toggle_pause()
    wait(qtbot, session, "paused")
    assert points.hits(RECOVERED) == 4
    assert points.dots(run) == expected[:4]
    points.enable(0, False)
    session.toggle_pause()
    qtbot.waitUntil(lambda: len(run) > expected[6] + 5, timeout=20_000)
    assert session.state == "running"
    assert points.hits(RECOVERED) == 4, "what is off isn't counted"
    points.enable(0, True)
    wait(qtbot, session, "paused")
    assert points.hits(points.points[0]) == 5
    session.stop()
    wait(qtbot, session, "ready")


def test_a_breakpoint_comes_before_what_is_run_to_and_a_step_is_a_step(qtbot, session: Session, points) -> None:
    points.add(Breakpoint((Condition("round", 4),)))
    faulty = dataclasses.replace(SETTINGS, rewind="drop-debt")
    first = toy_run(rewind="drop-debt").invariants.first_round
    assert first is not None
    session.run_to("invariant", PROMPT, faulty)
    run = wait(qtbot, session, "paused")
    assert len(run) == min(first, 4) + 1
    session.stop()
    wait(qtbot, session, "ready")
    session.start_run(PROMPT, SETTINGS, pause_after=4)
    run = wait(qtbot, session, "paused")
    assert session.why_paused == ""
    session.step_round()
    qtbot.waitUntil(lambda: len(run) == 5, timeout=5000)
    assert session.why_paused == "breakpoint 'round 4' hit in round 4"
    session.stop()
    wait(qtbot, session, "ready")


def test_an_end_in_a_round_that_meets_one_is_told(qtbot, session: Session, points) -> None:
    told = []
    session.message.connect(lambda kind, text: told.append((kind, text)))
    emitted = sum(len(record.emitted) for record in list(toy_run())[:6])
    points.add(Breakpoint((Condition("round", 5),)))
    session.start_run(PROMPT, dataclasses.replace(SETTINGS, max_tokens=emitted))
    run = wait(qtbot, session, "ready")
    assert len(run) == 6
    words = "The run ended with the round behind which it would have paused: breakpoint 'round 5' hit in round 5."
    assert told == [("notice", words)]
    assert points.hits(points.points[0]) == 1


def test_the_list_is_kept_and_nothing_stands_twice(tmp_path) -> None:
    session = Session(lambda: FakeRoom(Script()))
    store = store_in(tmp_path)
    points = BreakpointList(session, store)
    assert points.add(RECOVERED)
    assert not points.add(Breakpoint(RECOVERED.conditions, enabled=False))
    assert points.toggle_round(7)
    assert points.toggle_round(9)
    assert not points.toggle_round(7)
    points.enable(0, False)
    points.add(Breakpoint((Condition("text", "a\n"), Condition("q-above", 0.5))))
    assert store_in(tmp_path).breakpoints
    again = BreakpointList(session, store_in(tmp_path))
    assert again.points == points.points
    assert [point.title for point in again.points] == [
        "recovered token",
        "round 9",
        'text "a\\n" emitted and q(d) > 0.5',
    ]
    again.replace(0, Breakpoint((Condition("round", 9),)))
    assert [point.title for point in again.points] == ["round 9", 'text "a\\n" emitted and q(d) > 0.5']
    store.breakpoints = [{"conditions": [["nothing", 1]]}, 7, RECOVERED.to_plain()]
    assert BreakpointList(session, store).points == [RECOVERED], "what can't be read is left out"
    store._settings.setValue("breakpoints", "{")
    assert BreakpointList(session, store).points == []
    assert session.shutdown()


def test_the_panel_shows_and_changes_the_list(qtbot, tmp_path) -> None:
    session = Session(lambda: FakeRoom(Script()))
    points = BreakpointList(session, store_in(tmp_path))
    panel = BreakpointsPanel(View())
    qtbot.addWidget(panel)
    panel.resize(400, 200)
    panel.show()
    panel.follow_breakpoints(points)
    assert panel.table.isHidden()
    assert "F9" in EMPTY
    panel.grab()
    points.add(RECOVERED)
    points.add(Breakpoint((Condition("text", "<b>x</b>\u202e"),)))
    table = panel.table
    assert [table.item(row, 0).text() for row in range(2)] == ["recovered token", 'text "<b>x</b><U+202E>" emitted']
    assert not any(Qt.mightBeRichText(table.item(row, 0).toolTip()) for row in range(2))
    assert panel.title_context() == "2 on, 0 off"
    assert not panel.edit_button.isEnabled()
    table.item(1, 0).setCheckState(Qt.CheckState.Unchecked)
    assert [point.enabled for point in points.points] == [True, False]
    assert panel.title_context() == "1 on, 1 off"
    table.selectRow(1)
    with qtbot.waitSignal(panel.edit_wanted) as told:
        panel.edit_button.click()
    assert told.args == [1]
    with qtbot.waitSignal(panel.edit_wanted):
        qtbot.keyClick(table, Qt.Key.Key_Return)
    qtbot.keyClick(table, Qt.Key.Key_Delete)
    assert points.points == [RECOVERED]
    assert panel.chosen() == 0
    with qtbot.waitSignal(panel.add_wanted):
        panel.add_button.click()
    panel.delete_button.click()
    assert (points.points, panel.table.isHidden()) == ([], True)
    assert session.shutdown()


def test_the_dialog_makes_every_kind(qtbot) -> None:
    editor = BreakpointEditor()
    qtbot.addWidget(editor)
    row = editor.rows[0]
    values = {"": "", "whole": "7", "share": "0.25", "text": "a\\n"}
    taken = {"": None, "whole": 7, "share": 0.25, "text": "a\n"}
    for kind in KINDS.values():
        row.kind.setCurrentIndex(row.kind.findData(kind.id))
        row.value.setText("x" if kind.value in ("whole", "share") else "")
        assert editor.ok.isEnabled() == (kind.value == "")
        assert ("expected" in editor.about.text()) == (kind.value != "")
        row.value.setText(values[kind.value])
        assert editor.ok.isEnabled()
        assert editor.breakpoint() == Breakpoint((Condition(kind.id, taken[kind.value]),))


def test_the_dialog_joins_conditions(qtbot) -> None:
    point = Breakpoint((Condition("p-below", 0.01), Condition("q-above", 0.5)), enabled=False)
    editor = BreakpointEditor(point, 3)
    qtbot.addWidget(editor)
    editor.show()
    assert editor.breakpoint() == point
    assert "one and the same draft" in editor.about.text()
    while editor.more.isEnabled():
        editor.more.click()
    assert len(editor.rows) == MOST
    for row in editor.rows[:-1]:
        row.cross.click()
    assert len(editor.rows) == 1
    assert editor.breakpoint() == Breakpoint((Condition("rejection"),), enabled=False)
    assert editor.rows[0].cross.isHidden()


def test_keys_and_dialog_of_the_window(qtbot, open_window: Opener) -> None:
    window = open_window()
    show_run(window, fake_run(30))
    view, points = window.session.view, window.breakpoints.points
    view.select(12)
    window.actions_by_name["toggle_breakpoint"].trigger()
    assert [point.title for point in points.points] == ["round 12"]
    assert window.docks["rounds"].widget().delegate.dots == {12}
    assert window.store.breakpoints
    window.actions_by_name["toggle_breakpoint"].trigger()
    assert points.points == []
    assert window.docks["rounds"].widget().delegate.dots == set()
    window.actions_by_name["new_breakpoint"].trigger()
    window.breakpoints.editor.accept()
    assert [point.title for point in points.points] == ["any rejection"]
    window.docks["breakpoints"].widget().edit_wanted.emit(0)
    editor = window.breakpoints.editor
    editor.rows[0].kind.setCurrentIndex(editor.rows[0].kind.findData("drift"))
    editor.accept()
    assert [point.title for point in points.points] == ["drift not 0"]
    window.actions_by_name["new_breakpoint"].trigger()
    window.breakpoints.editor.rows[0].kind.setCurrentIndex(editor.rows[0].kind.findData("drift"))
    window.breakpoints.editor.accept()
    assert len(points.points) == 1


def test_the_status_bar_says_which_was_hit(qtbot, open_window: Opener) -> None:
    window = open_window(Script(round_delay=0.001))
    window.breakpoints.points.add(Breakpoint((Condition("round", 3),)))
    window.session.start_run("x", Settings())
    qtbot.waitUntil(lambda: window.session.state == "paused", timeout=5000)
    assert window.status.items["state"].text() == "Paused: breakpoint 'round 3' hit in round 3"
    assert window.docks["breakpoints"].widget().table.item(0, 1).text().strip() == "1"


@pytest.mark.parametrize("how", ["breakpoint", "run to"])
def test_a_fork_goes_on_from_the_rounds_that_it_repeats(qtbot, session: Session, points, how: str) -> None:
    faulty = dataclasses.replace(SETTINGS, rewind="drop-debt")
    drift = [record.drift for record in toy_run(60, rewind="drop-debt")]
    at = next(number for number in range(1, 60) if drift[number] == drift[number - 1] != 0)
    changes = next(number for number in range(at, 60) if drift[number] not in (0, drift[number - 1]))
    session.start_run(PROMPT, faulty, pause_after=at)
    run = wait(qtbot, session, "paused")
    session.stop()
    wait(qtbot, session, "ready")
    session.set_pace(0.05)
    if how == "breakpoint":
        points.add(Breakpoint((Condition("drift"),)))
    session.fork(run, at, faulty)
    if how == "run to":
        session.run_to("drift")
    forked = wait(qtbot, session, "paused")
    assert forked is not run
    assert len(forked) == changes + 1, "a drift that was there before the fork is no news"
    session.stop()
    wait(qtbot, session, "ready")
