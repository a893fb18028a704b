"""An opened recording that is still written: its rounds come into the window, which says so, until the run ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app import following
from app.following import ELSEWHERE
from app.main_window import MainWindow
from engine import growing
from engine.session_file import SessionFileError
from tests.gui.windows import Opener
from tests.unit.writing import Writing


@pytest.fixture
def writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writing]:
    monkeypatch.setattr(following, "POLL", 0.005)
    monkeypatch.setattr(following, "SLOW_POLL", 0.005)
    made = Writing(tmp_path / "a.draftscope")
    made.go_on(5)
    yield made
    made.close()


def words(window: MainWindow) -> str:
    return " ".join(notice.text for notice in window.banner.notices() if notice.kind == ELSEWHERE)


def followers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "draftscope-following"]


def test_rounds_that_are_written_elsewhere_appear(
    qtbot: QtBot, open_window: Opener, writing: Writing, tmp_path: Path
) -> None:
    window = open_window()
    view = window.session.view
    assert window.session.open_recording(tmp_path / "a.draftscope")
    run = view.run
    assert (len(run), view.round_index, view.live) == (5, 4, True)
    assert "has no end yet" in words(window)
    writing.go_on(6)
    qtbot.waitUntil(lambda: len(run) == 11)
    assert view.round_index == 10
    assert window.docks["rounds"].widget().model.rowCount() == 11
    assert "is being recorded elsewhere" in words(window)
    view.select(2)
    writing.go_on(2)
    qtbot.waitUntil(lambda: len(run) == 13)
    assert view.round_index == 2, "the cursor stays where it was put"
    assert followers()
    writing.finish()
    qtbot.waitUntil(lambda: run.end is not None)
    assert (run.end, run.tokens, run.state()) == (writing.run.end, writing.run.tokens, writing.run.state())
    qtbot.waitUntil(lambda: not followers())
    assert words(window) == ""
    assert window.following.run is None


def test_panels_come_in_turn_but_when_the_banner_changes(
    qtbot: QtBot, open_window: Opener, writing: Writing, tmp_path: Path
) -> None:
    window = open_window()
    view, told = window.session.view, []
    window.session.open_recording(tmp_path / "a.draftscope")
    run, model = view.run, window.docks["rounds"].widget().model
    view.advanced.connect(lambda: told.append((len(run), [])))
    window.following.changed.connect(lambda: told[-1][1].append(view.behind) if told else None)
    for rounds, behind in ((6, False), (7, True), (8, True)):
        writing.go_on(1)
        qtbot.waitUntil(lambda wanted=rounds: len(run) == wanted)
        assert (told[-1][0], told[-1][1][0]) == (rounds, behind)
        qtbot.waitUntil(lambda: not view.behind)
        assert model.rowCount() == rounds
    writing.finish()
    qtbot.waitUntil(lambda: run.end is not None)
    assert told[-1][1][0] is False


def test_rounds_are_read_off_the_windows_thread_and_taken_in_by_steps(
    qtbot: QtBot, open_window: Opener, writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "STEP", 1)
    monkeypatch.setattr(following, "BUDGET", 0.0)
    threads: set[threading.Thread] = set()
    read = growing.GrowingRun.read

    def noted(self: growing.GrowingRun) -> growing.Growth:
        threads.add(threading.current_thread())
        return read(self)

    monkeypatch.setattr(growing.GrowingRun, "read", noted)
    window = open_window(show=False)
    window.session.open_recording(tmp_path / "a.draftscope")
    run, told = window.session.view.run, []
    window.session.view.advanced.connect(lambda: told.append(len(run)))
    writing.go_on(following.AHEAD * 3)
    qtbot.waitUntil(lambda: len(run) == 5 + following.AHEAD * 3)
    assert told == list(range(6, 6 + following.AHEAD * 3)), "each frame took one step in"
    assert threading.main_thread() not in threads


def test_a_long_silence_is_said(qtbot: QtBot, open_window: Opener, writing: Writing, tmp_path: Path) -> None:
    window = open_window(show=False)
    window.session.open_recording(tmp_path / "a.draftscope")
    window.following._silence.timeout.emit()
    assert "has no end yet" in words(window), "nothing tells yet that anybody records"
    writing.go_on(1)
    qtbot.waitUntil(lambda: len(window.session.view.run) == 6)
    window.following._silence.timeout.emit()
    assert "has paused, or is gone" in words(window)
    writing.go_on(1)
    qtbot.waitUntil(lambda: "is being recorded elsewhere" in words(window))


def test_another_run_that_is_shown_is_not_said_to_grow(
    qtbot: QtBot, open_window: Opener, writing: Writing, tmp_path: Path
) -> None:
    window = open_window(show=False)
    window.session.open_recording(tmp_path / "a.draftscope")
    run = window.session.view.run
    sample = Path(__file__).parents[2] / "resources/samples/drift.draftscope"
    window.session.open_recording(sample)
    assert words(window) == ""
    writing.go_on(3)
    qtbot.waitUntil(lambda: len(run) == 8)
    window.session.view.show_run(run)
    assert "is being recorded elsewhere" in words(window)


def test_a_file_that_is_taken_away_ends_it_with_a_message(
    qtbot: QtBot, open_window: Opener, writing: Writing, tmp_path: Path
) -> None:
    window = open_window(show=False)
    window.session.open_recording(tmp_path / "a.draftscope")
    said: list[str] = []
    window.following.said.connect(said.append)
    (tmp_path / "a.draftscope").unlink()
    qtbot.waitUntil(lambda: bool(said))
    assert "can't be followed any more" in said[0]
    assert words(window) == ""
    assert len(window.session.view.run) == 5


def test_closing_the_window_ends_the_reading(open_window: Opener, writing: Writing, tmp_path: Path) -> None:
    window = open_window(show=False)
    window.session.open_recording(tmp_path / "a.draftscope")
    assert followers()
    window.close()
    assert not followers()


def test_a_recording_that_has_ended_is_not_followed(open_window: Opener, writing: Writing, tmp_path: Path) -> None:
    writing.finish()
    window = open_window(show=False)
    window.session.open_recording(tmp_path / "a.draftscope")
    assert not followers()
    assert words(window) == ""


def test_what_goes_wrong_while_it_is_closed_does_not_hold_the_window_up(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken_away = threading.Event()

    class Taken:
        """Gives more than there is room for, then finds that its file is gone."""

        def __init__(self, *where: object) -> None:
            self._steps = 0

        def changed(self) -> bool:
            return True

        def read(self) -> growing.Growth:
            self._steps += 1
            if self._steps <= following.AHEAD + 1:
                return growing.Growth(checks=(None,))  # type: ignore[arg-type]
            taken_away.set()
            raise SessionFileError("a.draftscope was replaced by another file")

        def close(self) -> None:
            pass

    monkeypatch.setattr(following, "GrowingRun", Taken)
    source = following._Source(tmp_path / "a.draftscope", 1, 0, 0)
    qtbot.waitUntil(lambda: len(source._found) == following.AHEAD)
    closing = threading.Thread(target=source.close)
    closing.start()
    closing.join(10)
    held_up = closing.is_alive()
    source._room.release()  # so that a failure leaves no thread behind
    closing.join()
    assert taken_away.is_set()
    assert not held_up
