"""Windows and sessions for the tests of the window, closed and joined at their end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QSettings
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from app import theme
from app.main_window import MainWindow
from app.recorder import Recorder
from app.session import Session
from app.settings_store import SettingsStore
from engine.recording import RecordedRun
from tests.gui.fake_engine import FakeRoom, Script

Opener = Callable[..., MainWindow]


def store_in(folder: Path) -> SettingsStore:
    """Settings of the test's own."""
    return SettingsStore(QSettings(str(folder / "settings.ini"), QSettings.Format.IniFormat))


@pytest.fixture
def open_window(qtbot: QtBot, qapp: QApplication, tmp_path: Path) -> Iterator[Opener]:
    """Open a window over a fake engine: `open_window(script, size=(w, h), show=True)`."""
    theme.apply(qapp, "light")
    sessions: list[Session] = []
    windows: list[MainWindow] = []

    def opened(
        script: Script | None = None,
        size: tuple[int, int] = (1440, 900),
        show: bool = True,
        recorder: Recorder | None = None,
    ) -> MainWindow:
        made = script if script is not None else Script()
        session = Session(lambda: FakeRoom(made), recorder=recorder)
        sessions.append(session)
        window = MainWindow(session, store_in(tmp_path))
        qtbot.addWidget(window)
        windows.append(window)
        window.resize(*size)
        if show:
            window.show()
            qtbot.waitExposed(window)
        return window

    yield opened
    for session in sessions:
        assert session.shutdown()
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    assert not any(isValid(window) for window in windows)


def show_run(window: MainWindow, run: RecordedRun) -> None:
    """Let the window see a recorded run as if its rounds had just come."""
    window.session.recording.runs.append(run)
    window.session.view.show_run(run)
    window.session.view.notify_advanced()
