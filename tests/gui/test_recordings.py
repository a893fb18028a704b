"""Recordings in the window: what is kept of a run, opened files good and bad, the list of runs, what a crash left."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from PySide6.QtCore import QSysInfo, Qt
from PySide6.QtWidgets import QFileDialog, QMenu, QMessageBox

from app import session
from app.main_window import MainWindow
from app.notices import notices
from app.recorder import LOCK, Recorder
from app.samples import samples
from engine.recording import RecordedRun, Recording, stored_run
from engine.session_file import SUFFIX
from engine.session_reader import SessionReader
from engine.session_writer import SessionWriter
from engine.settings import Settings
from tests.gui.fake_engine import Script
from tests.gui.fakes import fake_header, fake_run
from tests.gui.windows import Opener


def recorded_file(path: Path, rounds: int = 20, **header: object) -> Path:
    recording = Recording()
    recording.writer = SessionWriter(path)
    run = recording.begin(dataclasses.replace(fake_header(), **header))  # type: ignore[arg-type]
    for record in fake_run(rounds):
        run.append(record)
    run.flush()
    recording.writer.close()
    return path


def runs_of(path: Path) -> list[RecordedRun]:
    reader = SessionReader(path)
    return [stored_run(reader, stored) for stored in reader.runs()]


def wait_for(qtbot, window: MainWindow, state: str) -> None:
    qtbot.waitUntil(lambda: window.session.state == state, timeout=5000)


def test_a_pause_finds_every_round_in_the_file_and_closing_keeps_them(qtbot, open_window: Opener, tmp_path) -> None:
    recorder = Recorder(folder=tmp_path / "sessions")
    window = open_window(Script(), recorder=recorder)
    window.session.start_run("a prompt", Settings(), pause_after=7)
    wait_for(qtbot, window, "paused")
    assert recorder.writer is not None
    path = recorder.writer.path
    qtbot.waitUntil(lambda: recorder.writer is not None and not recorder.writer.waiting)
    assert recorder.failure == ""
    assert [len(run) for run in runs_of(path)] == [7]
    window.session.step_round()
    qtbot.waitUntil(lambda: len(window.session.recording.runs[0]) == 8)
    wait_for(qtbot, window, "paused")
    window.close()
    assert window.session.shutdown()
    (run,) = runs_of(path)
    assert len(run) == 8
    assert run.tokens == window.session.recording.runs[0].tokens


def test_the_autosave_moves_to_the_name_that_the_user_chooses(qtbot, open_window: Opener, tmp_path) -> None:
    recorder = Recorder(folder=tmp_path / "sessions")
    window = open_window(Script(), recorder=recorder)
    action = window.actions_by_name["save_recording"]
    assert not action.isEnabled()
    assert "Nothing has been recorded yet" in action.toolTip()
    window.session.start_run("a prompt", Settings(), pause_after=3)
    wait_for(qtbot, window, "paused")
    assert action.isEnabled()
    action.trigger()
    dialog = window.findChild(QFileDialog)
    assert dialog is not None
    assert dialog.defaultSuffix() == SUFFIX[1:]
    dialog.close()
    with qtbot.waitSignal(recorder.saved) as saved:
        window.recordings._save(str(tmp_path / f"named{SUFFIX}"))
    assert saved.args[1] == ""
    assert [len(run) for run in runs_of(tmp_path / f"named{SUFFIX}")] == [3]
    with qtbot.waitSignal(recorder.saved):
        window.recordings._save(str(tmp_path / "no" / f"named{SUFFIX}"))
    assert window.dialogs.errors is not None
    assert "folder doesn't exist" in window.dialogs.errors.text()


def test_a_recording_opens_without_models(qtbot, open_window: Opener, tmp_path) -> None:
    window = open_window(Script())
    assert window._is_starting
    assert window.session.open_recording(recorded_file(tmp_path / f"a{SUFFIX}"))
    assert not window._is_starting
    assert window.session.pair is None
    view = window.session.view
    assert view.run is not None
    assert len(view.run) == 20
    assert view.round_index == 19
    window.actions_by_name["first_round"].trigger()
    assert view.round_index == 0
    assert window.actions_by_name["go_to_round"].isEnabled()


@pytest.mark.parametrize("others", [False, True])
def test_the_file_that_the_window_records_into(qtbot, open_window: Opener, tmp_path, others: bool) -> None:
    """It isn't followed as if it were recorded elsewhere, unless it holds runs that the window doesn't know."""
    path, link = tmp_path / f"a{SUFFIX}", tmp_path / f"link{SUFFIX}"
    if others:
        recorded_file(path)
    recorder = Recorder(path)
    window = open_window(Script(), recorder=recorder)
    said: list[str] = []
    window.session.message.connect(lambda kind, text: said.append(text))
    window.session.start_run("a prompt", Settings(), pause_after=3)
    wait_for(qtbot, window, "paused")
    qtbot.waitUntil(lambda: recorder.writer is not None and not recorder.writer.waiting)
    link.symlink_to(path)
    assert window.session.open_recording(link)
    assert len(window.session.opened) == others
    assert (window.session.view.run is window.session.recording.runs[0]) is not others
    assert any("is what this window records into" in text for text in said) is not others


def test_a_sample_stays_as_it_comes_by_whatever_path_it_is_opened(
    qtbot, open_window: Opener, tmp_path, monkeypatch
) -> None:
    path = recorded_file(tmp_path / f"a{SUFFIX}")
    sample = dataclasses.replace(samples()[0], path=path)
    monkeypatch.setattr(session, "samples", lambda: [sample])
    monkeypatch.chdir(tmp_path)
    before = path.read_bytes()
    window = open_window(Script())
    assert window.session.open_recording(Path(path.name))
    window.session.view.mark(0, "mine")
    window.session.opened[0].marks.close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", ["foreign", "cut", "missing", "empty"])
def test_a_bad_file_is_refused_in_words_and_the_window_lives_on(qtbot, open_window: Opener, tmp_path, kind) -> None:
    window = open_window(Script())
    path = recorded_file(tmp_path / f"<b>bad{SUFFIX}")
    if kind == "foreign":
        path.write_text("a shopping list " * 100)
    elif kind == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif kind == "missing":
        path.unlink()
    else:
        path.unlink()
        SessionWriter(path).close()
    assert not window.session.open_recording(path)
    errors = window.dialogs.errors
    assert errors is not None
    assert errors.textFormat() == Qt.TextFormat.PlainText
    assert "<b>bad" in errors.text()
    assert window._is_starting
    window.session.start_run("a prompt", Settings(), pause_after=1)
    wait_for(qtbot, window, "paused")


def test_runs_can_be_chosen_and_a_live_run_goes_on_behind_an_opened_one(qtbot, open_window: Opener, tmp_path) -> None:
    window = open_window(Script(round_delay=0.005))
    window.session.start_run("first & second", Settings())
    qtbot.waitUntil(lambda: len(window.session.recording.runs) == 1 and len(window.session.recording.runs[0]) > 3)
    live = window.session.recording.runs[0]
    window.session.open_recording(recorded_file(tmp_path / f"a{SUFFIX}", prompt="<i>recorded</i>"))
    view = window.session.view
    before = len(live)
    assert view.run is not live
    qtbot.waitUntil(lambda: len(live) > before + 5)
    assert len(view.run or ()) == 20
    menu = QMenu(window)
    window.recordings.fill_runs(menu)
    texts = [action.text() for action in menu.actions()]
    assert len(texts) == 2
    assert texts[0].startswith(f"a{SUFFIX}: Run 1")
    assert "<i>recorded</i>" in texts[0]
    assert [action.isChecked() for action in menu.actions()] == [True, False]
    menu.actions()[1].trigger()
    assert view.run is live
    assert view.live
    window.session.stop()
    wait_for(qtbot, window, "ready")
    menu.deleteLater()


def left_behind(folder: Path, name: str = "2026-01-02 03.04.05") -> Path:
    folder.mkdir(exist_ok=True)
    path = recorded_file(folder / f"{name}{SUFFIX}")
    (folder / f"{path.name}{LOCK}").write_text(f"999999999\ndraftscope\n{QSysInfo.machineHostName()}\n")
    return path


@pytest.mark.parametrize("answer", [QMessageBox.StandardButton.Open, QMessageBox.StandardButton.Ignore])
def test_what_a_crash_left_is_offered_once(qtbot, open_window: Opener, tmp_path, answer) -> None:
    folder = tmp_path / "sessions"
    path = left_behind(folder)
    window = open_window(Script(), recorder=Recorder(folder=folder))
    window.recordings.offer_unfinished()
    box = window.findChild(QMessageBox)
    assert box is not None
    assert box.textFormat() == Qt.TextFormat.PlainText
    assert path.name in box.informativeText()
    box.button(answer).click()
    assert (window.session.view.run is not None) == (answer == QMessageBox.StandardButton.Open)
    assert path.exists()
    qtbot.waitUntil(lambda: window.findChild(QMessageBox) is None)
    window.recordings.offer_unfinished()
    assert window.findChild(QMessageBox) is None


def test_a_question_that_nobody_answered_is_asked_again(qtbot, open_window: Opener, tmp_path) -> None:
    folder = tmp_path / "sessions"
    path = left_behind(folder)
    for _ in range(2):
        window = open_window(Script(), recorder=Recorder(folder=folder))
        window.recordings.offer_unfinished()
        assert window.findChild(QMessageBox) is not None
        window.close()
        qtbot.waitUntil(lambda window=window: window.findChild(QMessageBox) is None)
        assert path.exists()
        assert path.with_name(path.name + LOCK).exists()


def test_the_banner_says_that_recording_stopped_and_save_as_mends_it(qtbot, open_window: Opener, tmp_path) -> None:
    recorder = Recorder(folder=tmp_path / "sessions")
    window = open_window(Script(), recorder=recorder)
    window.session.start_run("a prompt", Settings(), pause_after=3)
    wait_for(qtbot, window, "paused")
    writer = recorder.writer
    assert writer is not None
    qtbot.waitUntil(lambda: not writer.waiting)
    writer.path.unlink()
    with qtbot.waitSignal(recorder.failed):
        window.session.step_round()
    wait_for(qtbot, window, "paused")
    qtbot.waitUntil(lambda: any("was removed" in notice.text for notice in notices(window.session)))
    notice = next(notice for notice in notices(window.session) if "was removed" in notice.text)
    window._on_notice(notice.act)
    assert window.findChild(QFileDialog) is not None
    with qtbot.waitSignal(recorder.saved) as saved:
        window.recordings._save(str(tmp_path / f"named{SUFFIX}"))
    assert saved.args[1] == ""
    assert not any("was removed" in notice.text for notice in notices(window.session))
    window.session.step_round()
    wait_for(qtbot, window, "paused")
    window.close()
    assert window.session.shutdown()
    assert [len(run) for run in runs_of(tmp_path / f"named{SUFFIX}")] == [len(window.session.recording.runs[0])]


def test_a_mark_goes_into_an_opened_file_but_not_into_a_sample(qtbot, open_window: Opener, tmp_path) -> None:
    window = open_window(Script())
    path = recorded_file(tmp_path / f"a{SUFFIX}")
    assert window.session.open_recording(path)
    window.session.view.mark(3, "here")
    said: list[str] = []
    window.session.message.connect(lambda kind, text: said.append(text))
    sample = samples()[0].path
    before = sample.read_bytes()
    assert window.session.open_recording(sample)
    window.session.view.mark(1, "")
    qtbot.waitUntil(lambda: bool(said))
    assert said == [f"Marks and notes in {sample.name} are kept for this sitting only: a sample stays as it comes."]
    assert window.session.shutdown()
    assert runs_of(path)[0].marks == {3: "here"}
    assert sample.read_bytes() == before
