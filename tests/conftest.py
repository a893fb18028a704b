"""Every test runs offscreen, offline and with settings of its own, and fails on a stray warning or a leftover.

What a test may expect, it says by a marker: `allow_log(pattern)` for log records, pytest-qt's `qt_log_ignore(pattern)`
for Qt's messages.
"""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("MLX_DISABLE_COMPILE", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
for _name in ("MLXCEL_SPECULATIVE_STOCHASTIC_ACCEPT", "MLXCEL_SPECULATIVE_ACCEPT_DIAG"):
    os.environ.pop(_name, None)

# What the offscreen platform says of itself.
_PLATFORM_CHATTER = re.compile(r"This plugin does not support|propagateSizeHints")

_home: Path | None = None
_qt_messages: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    """Give this process and its children a home of their own for settings, and hear what Qt says between tests."""
    global _home
    _home = Path(tempfile.mkdtemp(prefix="draftscope-tests-"))
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"):
        folder = _home / name
        folder.mkdir(mode=0o700)
        os.environ[name] = str(folder)
    if config.pluginmanager.hasplugin("pytest-qt"):
        from PySide6.QtCore import qInstallMessageHandler

        # pytest-qt hears the test itself (qt_log_level_fail); this one what comes while it is taken down.
        qInstallMessageHandler(_hear)


def pytest_unconfigure() -> None:
    if _home is not None:
        shutil.rmtree(_home, ignore_errors=True)


def _hear(kind: Any, context: Any, text: str) -> None:
    if kind.name not in ("QtDebugMsg", "QtInfoMsg") and not _PLATFORM_CHATTER.search(text):
        _qt_messages.append(text)


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
    handlers, level = root.handlers[:], root.level
    root.addHandler(collector)
    yield
    root.handlers[:], root.level = handlers, level  # a command under test may have set up logging
    allowed = [mark.args[0] for mark in request.node.iter_markers("allow_log")]
    stray = [line for line in collector.lines if not any(re.search(pattern, line) for pattern in allowed)]
    assert not stray, f"unexpected log records: {stray}"


@pytest.fixture(autouse=True)
def no_thread_left() -> Iterator[None]:
    """Fail if the test leaves a thread behind."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    for thread in left:
        thread.join(2)  # one that was told to stop may still be on its way
    alive = [thread.name for thread in left if thread.is_alive()]
    assert not alive, f"threads left alive: {alive}"


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse every connection but those within the machine."""

    def refuse(host: object, *rest: object, **options: object) -> Any:
        raise AssertionError(f"a test asked for the network: {host!r}")

    real = socket.socket.connect

    def connect(self: socket.socket, address: Any) -> None:
        return real(self, address) if self.family == socket.AF_UNIX else refuse(address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.fixture(autouse=True)
def nothing_of_qt_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail if a test that uses Qt leaves a top-level widget, a running timer or QThread, or an unheard warning."""
    if "qapp" not in request.fixturenames:
        yield
        return
    from PySide6.QtCore import QCoreApplication, QEvent
    from PySide6.QtWidgets import QApplication

    before = [*QApplication.topLevelWidgets(), *_running_of_qt()]
    yield
    # pytest-qt has closed what was handed to it; deleteLater() waits for an event loop that has ended by now.
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    if QApplication.topLevelWidgets():
        gc.collect()  # what only a reference cycle holds isn't alive
    messages = _qt_messages[:]
    _qt_messages.clear()

    def new(items: list[Any]) -> list[str]:
        return [repr(item) for item in items if all(item is not other for other in before)]

    widgets, running = new(QApplication.topLevelWidgets()), new(_running_of_qt())
    assert not messages, f"Qt said: {messages}"
    assert not widgets, f"widgets left alive: {widgets}"
    assert not running, f"left running: {running}"


def _running_of_qt() -> list[Any]:
    """Active timers and threads of Qt, with or without a parent."""
    from PySide6.QtCore import QThread, QTimer
    from shiboken6 import isValid

    def runs(item: object) -> bool:
        if not isinstance(item, QTimer | QThread) or not isValid(item):
            return False
        # The wrapper of a thread that Python started has no run of its own to wait for.
        return item.isActive() if isinstance(item, QTimer) else type(item) is not QThread and item.isRunning()

    return [item for item in gc.get_objects() if runs(item)]


@pytest.fixture(autouse=True)
def own_settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Qt settings go to a new folder in every test that uses Qt."""
    if "qapp" in request.fixturenames and "PySide6.QtCore" in sys.modules:
        from PySide6.QtCore import QSettings

        folder = str(tmp_path_factory.mktemp("settings"))
        QSettings.setDefaultFormat(QSettings.Format.IniFormat)
        for kind in (QSettings.Format.IniFormat, QSettings.Format.NativeFormat):
            QSettings.setPath(kind, QSettings.Scope.UserScope, folder)


@pytest.fixture
def fresh_switches() -> Iterator[None]:
    """Let a test set the environment's switches, which are read once a process."""
    from engine import switches

    readers = (switches.stochastic_from_environment, switches.diagnostics_from_environment)
    for reader in readers:
        reader.cache_clear()
    yield
    for reader in readers:
        reader.cache_clear()
