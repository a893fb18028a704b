"""Where runs are recorded: autosaves, named files, what a sitting that ended badly leaves, and what is cleared away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes import fake_header, fake_run

from app import recorder as module
from app.recorder import LOCK, Recorder, tidy, unfinished
from engine.recording import Recording, stored_run
from engine.session_file import SUFFIX
from engine.session_reader import SessionReader

ROOT = Path(__file__).parents[2]


def record(recorder: Recorder, rounds: int = 12) -> Recording:
    recording = Recording()
    recording.writer = recorder.start()
    run = recording.begin(fake_header())
    for item in fake_run(rounds):
        run.append(item)
    run.flush()
    return recording


def rounds_in(path: Path) -> int:
    reader = SessionReader(path)
    try:
        return sum(len(stored_run(reader, stored)) for stored in reader.runs())
    finally:
        reader.close()


def test_an_autosave_is_made_and_ends_well(qtbot, tmp_path: Path) -> None:
    recorder = Recorder(folder=tmp_path / "sessions")
    assert not (tmp_path / "sessions").exists()  # nothing recorded, nothing made
    recording = record(recorder)
    assert recording.writer is recorder.start()
    assert unfinished(tmp_path / "sessions") == []  # it is held
    assert recording.writer is not None
    path = recording.writer.path
    recorder.close()
    assert path.parent == tmp_path / "sessions"
    assert unfinished(tmp_path / "sessions") == []
    assert list(path.parent.glob(f"*{LOCK}")) == []


def test_a_name_takes_over_and_the_autosave_goes(qtbot, tmp_path: Path) -> None:
    recorder = Recorder(folder=tmp_path)
    recording = record(recorder)
    assert recorder.writer is not None
    autosave = recorder.writer.path
    with qtbot.waitSignal(recorder.saved) as saved:
        recorder.save_as(tmp_path / f"mine{SUFFIX}")
    assert saved.args == [str(tmp_path / f"mine{SUFFIX}"), ""]
    run = recording.begin(fake_header())
    for item in fake_run(7):
        run.append(item)
    run.flush()
    recorder.close()
    assert not autosave.exists()
    assert rounds_in(tmp_path / f"mine{SUFFIX}") == len(recording.runs[0]) + 7


def test_a_name_that_cannot_be_taken_leaves_the_autosave(qtbot, tmp_path: Path) -> None:
    recorder = Recorder(folder=tmp_path)
    record(recorder)
    with qtbot.waitSignal(recorder.saved) as saved:
        recorder.save_as(tmp_path / "no" / f"mine{SUFFIX}")
    assert "folder doesn't exist" in saved.args[1]
    assert not recorder.named
    recorder.close()
    assert len(list(tmp_path.glob(f"*{SUFFIX}"))) == 1


def test_after_a_failure_everything_is_saved_elsewhere_and_recording_goes_on(qtbot, tmp_path: Path) -> None:
    recorder = Recorder(folder=tmp_path / "sessions")
    recorder.recording = recording = record(recorder)
    writer = recorder.writer
    assert writer is not None
    qtbot.waitUntil(lambda: not writer.waiting)
    autosave = writer.path
    autosave.unlink()
    run = recording.runs[0]
    with qtbot.waitSignal(recorder.failed) as failed:
        for item in fake_run(20)[12:]:
            run.append(item)
        run.flush()
    assert "was removed" in failed.args[0]
    second = recording.begin(fake_header())
    for item in fake_run(5):
        second.append(item)
    with qtbot.waitSignal(recorder.saved) as saved:
        recorder.save_as(tmp_path / f"mine{SUFFIX}")
    assert saved.args[1] == ""
    assert recorder.failure == ""
    for item in fake_run(9)[5:]:
        second.append(item)
    second.flush()
    recorder.close()
    assert writer.failure is None
    assert rounds_in(tmp_path / f"mine{SUFFIX}") == 29


def test_what_could_not_be_recorded_at_all_is_saved_too(qtbot, tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("in the way")
    recorder = Recorder(folder=tmp_path / "sessions")
    recorder.recording = recording = record(recorder)
    assert recording.writer is None
    named = tmp_path / f"mine{SUFFIX}"
    named.write_text("what stood there before")
    with qtbot.waitSignal(recorder.saved) as saved:
        recorder.save_as(named)
    assert saved.args == [str(named), ""]
    assert recorder.failure == ""
    run = recording.begin(fake_header())
    for item in fake_run(7):
        run.append(item)
    run.flush()
    recorder.close()
    assert rounds_in(named) == 19
    assert sorted(path.name for path in tmp_path.iterdir()) == [named.name, "sessions"]


def test_rounds_that_are_lost_are_told_and_the_autosave_is_kept(qtbot, tmp_path: Path) -> None:
    recorder = Recorder(folder=tmp_path / "sessions")
    recorder.recording = recording = record(recorder)
    recording.repeat = lambda: "rounds 0 to 3 of run 1"  # type: ignore[method-assign]
    assert recorder.writer is not None
    autosave = recorder.writer.path
    recorder.writer.failure = "Recording stopped: for a test."
    with qtbot.waitSignal(recorder.lost) as lost:
        recorder.save_as(tmp_path / f"mine{SUFFIX}")
    assert lost.args == ["rounds 0 to 3 of run 1"]
    recorder.close()
    assert autosave.exists()


def test_a_killed_sitting_is_offered_once_and_by_one_window(qtbot, tmp_path: Path) -> None:
    child = f"""
import os, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests" / "gui")!r}]
from pathlib import Path
from test_recorder import record
from app.recorder import Recorder
recorder = Recorder(folder=Path({str(tmp_path)!r}))
record(recorder)
while recorder.writer.waiting:
    pass
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", child], cwd=ROOT, check=False)
    found = unfinished(tmp_path)
    assert len(found) == 1
    assert unfinished(tmp_path) == []  # another window finds it taken
    tidy(tmp_path)
    assert rounds_in(found[0].path) > 0
    found[0].settle()
    assert unfinished(tmp_path) == []
    assert found[0].path.exists()


def test_old_autosaves_go_but_none_that_ended_badly(qtbot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_FILES", 3)
    for number in range(6):
        (tmp_path / f"2026-01-0{number + 1}{SUFFIX}").write_bytes(b"x" * 10)
    (tmp_path / f"2026-01-01{SUFFIX}{LOCK}").touch()
    tidy(tmp_path)
    kept = sorted(path.name[:10] for path in tmp_path.glob(f"*{SUFFIX}"))
    assert kept == ["2026-01-01", "2026-01-04", "2026-01-05", "2026-01-06"]
    monkeypatch.setattr(module, "KEPT_BYTES", 15)
    tidy(tmp_path)
    assert sorted(path.name[:10] for path in tmp_path.glob(f"*{SUFFIX}")) == ["2026-01-01", "2026-01-06"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_that_cannot_be_made_is_said_once(qtbot, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    _refused(qtbot, tmp_path / "sessions")
    tmp_path.chmod(0o700)


def test_a_file_in_the_folders_place_is_said_once(qtbot, tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("in the way")
    _refused(qtbot, tmp_path / "sessions")


def _refused(qtbot, folder: Path) -> None:
    recorder = Recorder(folder=folder)
    said: list[str] = []
    recorder.failed.connect(said.append)
    assert recorder.start() is None
    assert recorder.start() is None
    assert len(said) == 1
    assert "Nothing is recorded" in said[0]
    with qtbot.waitSignal(recorder.saved) as saved:
        recorder.save_as(folder / "a")
    assert "folder doesn't exist" in saved.args[1]
    assert "Nothing is recorded" in recorder.failure
    recorder.close()
