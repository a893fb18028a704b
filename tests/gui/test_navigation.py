"""Going about a run: to drifts and marks, back to where one was; marks and notes."""

from __future__ import annotations

import pytest
from fakes import FakeRounds, fake_header, fake_run
from PySide6.QtCore import QObject

from app.dialogs.note_editor import NoteEditor
from app.navigation import ONE_MOVE, REMEMBERED, History, Navigation
from app.view import View
from engine.recording import RecordedRun
from tests.gui.windows import Opener, show_run


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += ONE_MOVE
        return self.now


@pytest.fixture
def go(view: View) -> Navigation:
    made = Navigation(view, QObject(view))
    made.told = []
    made.said.connect(made.told.append)
    return made


def show(view: View, go: Navigation, run: RecordedRun) -> None:
    view.show_run(run)
    go.history = History(Clock())


def drifting() -> RecordedRun:
    run = fake_run(60, distributions=False)
    drift = [0] * 10 + [2] * 5 + [0] * 5 + [1] + [3] * 20 + [0] * 19
    run._columns._arrays["drift"][:60] = drift
    run.first_drift = 10
    return run


def test_drifts_are_where_it_changes(view: View, go: Navigation) -> None:
    show(view, go, drifting())
    view.select(0)
    seen = []
    while not go.told:
        go.next_drift()
        seen.append(view.round_index)
    assert seen == [10, 20, 21, 21]
    assert go.told == ["No round after round 21 changed the drift to something other than 0."]
    view.select(59)
    for expected in (21, 20, 10):
        go.previous_drift()
        assert view.round_index == expected
    go.previous_drift()
    assert go.told[-1].startswith("No round before round 10")


def test_rejections_both_ways(view: View, go: Navigation) -> None:
    run = fake_run(60, distributions=False)
    show(view, go, run)
    rejected = [record.index for record in run if record.rejected_at is not None]
    view.select(30)
    go.next_rejection()
    assert view.round_index == next(number for number in rejected if number > 30)
    view.select(30)
    go.previous_rejection()
    assert view.round_index == max(number for number in rejected if number < 30)
    view.select(rejected[-1])
    go.next_rejection()
    assert go.told == [f"No draft was rejected after round {rejected[-1]}."]


def test_marks(view: View, go: Navigation) -> None:
    show(view, go, fake_run(60, distributions=False))
    for number in (40, 7):
        view.select(number)
        go.mark_round()
    assert view.run.marks == {40: "", 7: ""}
    view.select(20)
    go.next_mark()
    assert view.round_index == 40
    go.next_mark()
    assert go.told == ["No round after round 40 is marked."]
    go.previous_mark()
    assert view.round_index == 7
    go.mark_round()
    assert view.run.marks == {40: ""}
    assert len(go.told) == 1
    view.mark(40, "a note")
    view.select(40)
    go.mark_round()
    assert view.run.marks == {}
    assert go.told[-1] == "The mark of round 40 is gone, and its note with it."


def test_back_and_forward(view: View, go: Navigation) -> None:
    show(view, go, fake_run(60, distributions=False))
    for number in (20, 40, 5):
        view.select(number)
    for expected in (40, 20):
        go.back()
        assert (view.round_index, view.live) == (expected, False)
    go.back()
    assert view.live, "at first the tail was followed"
    go.back()
    assert go.told == ["This is the first place in the history."]
    for expected in (20, 40, 5):
        go.forward()
        assert view.round_index == expected
    go.forward()
    assert go.told[-1] == "This is the last place in the history."
    go.back()
    view.select(50)
    go.forward()
    assert (view.round_index, go.told[-1]) == (50, "This is the last place in the history.")
    go.back()
    assert view.round_index == 40, "where a new way began"


def test_steps_and_positions_are_no_places_of_their_own(view: View, go: Navigation) -> None:
    show(view, go, fake_run(60, distributions=False))
    view.select(20)
    view.select(40, 0)
    for _ in range(6):
        go.next_round()
    view.step_position(1)
    assert view.round_index >= 46
    go.back()
    assert view.round_index == 20
    go.forward()
    assert view.round_index >= 46


def test_a_drag_is_one_place() -> None:
    clock = Clock()
    history = History(clock)
    history.visit((10, 0))
    clock.now += 10
    history.visit((100, 0))
    for number in range(110, 200, 10):
        clock.now -= ONE_MOVE * 0.9  # a tenth of the least time passes
        history.visit((number, 0))
    assert history.here == (190, 0)
    assert history.go(-1)
    assert history.here == (10, 0)


def test_following_the_tail_makes_no_places(view: View, go: Navigation) -> None:
    run, source = RecordedRun(fake_header()), FakeRounds(distributions=False)
    show(view, go, run)
    for _ in range(20):
        run.append(source.next())
        view.notify_advanced()
    view.select(3)
    view.follow_tail()
    for _ in range(20):
        run.append(source.next())
        view.notify_advanced()
    go.back()
    assert view.round_index == 3
    go.forward()
    assert view.live
    view.show_run(fake_run(5))
    go.back()
    assert go.told == ["This is the first place in the history."], "another run has a history of its own"


def test_the_history_has_an_end() -> None:
    history = History(Clock())
    for number in range(2, 4 * REMEMBERED, 2):
        history.visit((number, 0))
    steps = 0
    while history.go(-1):
        steps += 1
    assert steps == REMEMBERED - 1


def test_a_note_is_written_on_the_round_that_it_was_opened_for(open_window: Opener) -> None:
    window = open_window()
    show_run(window, fake_run(30))
    view = window.session.view
    view.select(12)
    window.actions_by_name["note"].trigger()
    dialog = window.dialogs.by_name["note"]
    assert isinstance(dialog, NoteEditor)
    assert dialog.windowTitle() == "Note on Round 12"
    view.select(3)
    dialog.edit.setPlainText(" <b>why</b>\nhere ")
    dialog.accept()
    assert view.run.marks == {12: "<b>why</b>\nhere"}
    view.select(12)
    window.actions_by_name["note"].trigger()
    assert window.dialogs.by_name["note"].note() == "<b>why</b>\nhere"
    window.dialogs.by_name["note"].reject()
    assert view.run.marks == {12: "<b>why</b>\nhere"}
    window.actions_by_name["mark_round"].trigger()
    assert view.run.marks == {}


def test_keys_of_the_window(qtbot, open_window: Opener) -> None:
    from PySide6.QtCore import Qt

    window = open_window()
    show_run(window, fake_run(30))
    view, rounds = window.session.view, window.docks["rounds"].widget()
    view.select(20)
    window.activateWindow()
    rounds.table.setFocus()
    qtbot.waitUntil(rounds.table.hasFocus)
    for key, modifier, expected in (
        (Qt.Key.Key_M, Qt.KeyboardModifier.NoModifier, 20),
        (Qt.Key.Key_Left, Qt.KeyboardModifier.ControlModifier, 19),
        (Qt.Key.Key_Down, Qt.KeyboardModifier.ControlModifier, 20),
        (Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier, 29),
    ):
        qtbot.keyClick(rounds.table, key, modifier)
        assert view.round_index == expected
    assert view.run.marks == {20: ""}
    qtbot.keyClick(rounds.table, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert rounds.filter.edit.hasFocus()
    qtbot.keyClick(rounds.filter.edit, Qt.Key.Key_M)
    assert (rounds.filter.edit.text(), view.run.marks) == ("m", {20: ""}), "a letter in a line is a letter"
    qtbot.keyClick(rounds.filter.edit, Qt.Key.Key_Escape)
    assert rounds.table.hasFocus()
