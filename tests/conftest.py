"""Every test runs offscreen, offline and with settings of its own, and fails on a stray warning or a leftover."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("MLX_DISABLE_COMPILE", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
for _name in ("MLXCEL_SPECULATIVE_STOCHASTIC_ACCEPT", "MLXCEL_SPECULATIVE_ACCEPT_DIAG"):
    os.environ.pop(_name, None)


class _Collector(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name} {record.levelname}: {record.getMessage()}")


@pytest.fixture(autouse=True)
def no_unexpected_log(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail on a log record at WARNING or above that the marker `allow_log` doesn't expect."""
    collector = _Collector()
    root = logging.getLogger()
    root.addHandler(collector)
    yield
    root.removeHandler(collector)
    allowed = [mark.args[0] for mark in request.node.iter_markers("allow_log")]
    stray = [line for line in collector.lines if not any(re.search(pattern, line) for pattern in allowed)]
    assert not stray, f"unexpected log records: {stray}"


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Fail if the test leaves a thread behind."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before and thread.is_alive()]
    for thread in left:
        thread.join(2)
    alive = [thread.name for thread in left if thread.is_alive()]
    assert not alive, f"threads left alive: {alive}"


@pytest.fixture(autouse=True)
def no_widget_or_timer_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if a test that uses Qt leaves a visible window or a running timer behind, or Qt wrote a warning."""
    if "qtbot" not in request.fixturenames:
        yield
        return
    from PySide6.QtCore import QTimer, qInstallMessageHandler
    from PySide6.QtWidgets import QApplication

    messages: list[str] = []
    previous = qInstallMessageHandler(lambda kind, context, text: messages.append(text))
    yield
    qInstallMessageHandler(previous)
    expected = ("This plugin does not support", "propagateSizeHints")
    stray = [text for text in messages if not text.startswith(expected)]
    assert not stray, f"Qt said: {stray}"
    visible = [w for w in QApplication.topLevelWidgets() if w.isVisible() and not w.property("pytest_qt_registered")]
    qtbot_widgets = getattr(request.node, "qt_widgets", [])
    closing = {id(entry[0]()) for entry in qtbot_widgets if entry[0]() is not None}
    left = [repr(w) for w in visible if id(w) not in closing]
    assert not left, f"windows left open: {left}"
    timers = [t for w in QApplication.topLevelWidgets() for t in w.findChildren(QTimer) if t.isActive()]
    orphans = [t for t in timers if not any(t in w.findChildren(QTimer) for w in visible)]
    assert not orphans, f"timers left running: {orphans}"


@pytest.fixture(autouse=True)
def own_settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Qt settings of the tests go to a folder of their own."""
    if "PySide6.QtCore" in sys.modules or "qtbot" in request.fixturenames:
        from PySide6.QtCore import QSettings

        folder = str(tmp_path_factory.mktemp("settings"))
        QSettings.setDefaultFormat(QSettings.Format.IniFormat)
        QSettings.setPath(QSettings.Format.IniFormat, QSettings.Scope.UserScope, folder)
