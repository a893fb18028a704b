"""The guards of conftest.py: a test that leaves something behind, or makes noise, must fail."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).parents[1] / "conftest.py"

# One careless test a guard, and one clean one; each carries in its name what must be said about it.
CARELESS = """
import logging, socket, threading
import pytest
from PySide6.QtCore import QObject, QThread, QTimer, qWarning
from PySide6.QtWidgets import QLabel, QWidget

kept = []

def test_clean(qtbot):
    label = QLabel("x")
    qtbot.addWidget(label)
    label.show()
    QTimer(label).start(1000)

@pytest.mark.allow_log("meant")
def test_clean_log():
    logging.getLogger("draftscope.engine").warning("this is meant")

def test_log():
    logging.getLogger("draftscope.engine").warning("not meant")

def test_thread():
    stop = threading.Event()
    kept.append(stop)
    threading.Thread(target=stop.wait, daemon=True).start()

def test_network():
    socket.create_connection(("192.0.2.1", 80), timeout=1)

def test_qt_warning(qtbot):
    qWarning("a warning")

def test_qt_warning_late(qtbot):
    widget = QWidget()
    kept.append(widget)
    qtbot.addWidget(widget, before_close_func=lambda _: qWarning("a late warning"))

def test_widget(qtbot):
    kept.append(QLabel("hidden"))

def test_timer(qtbot):
    timer = QTimer()
    timer.start(1000)
    kept.append(timer)

def test_timer_of_an_object(qtbot):
    owner = QObject()
    QTimer(owner).start(1000)
    kept.append(owner)

def test_qthread(qtbot):
    class Sleeper(QThread):
        def run(self):
            self.msleep(3000)
    thread = Sleeper()
    thread.start()
    kept.append(thread)

def test_clean_at_last():
    for thing in kept:
        if isinstance(thing, threading.Event):
            thing.set()
        if isinstance(thing, QThread):
            thing.wait()
    kept.clear()
"""
EXPECTED = {
    "test_log": "unexpected log records*not meant",
    "test_thread": "threads left alive",
    "test_network": "asked for the network",
    "test_qt_warning": "a warning",
    "test_qt_warning_late": "a late warning",
    "test_widget": "widgets left alive*QLabel",
    "test_timer": "left running*QTimer",
    "test_timer_of_an_object": "left running*QTimer",
    "test_qthread": "left running*Sleeper",
}


def test_a_widget_in_a_cycle_lives_as_long_as_its_test(qtbot: QtBot) -> None:
    widget = QWidget()
    widget.myself = widget
    qtbot.addWidget(widget)
    seen = weakref.ref(widget)
    del widget
    gc.collect()
    assert seen() is not None
    assert isValid(seen())


def test_each_guard_fails_the_careless_test(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(CONFTEST.read_text(encoding="utf-8"))
    pytester.makepyfile(test_careless=CARELESS)
    pytester.makeini(
        "[pytest]\nqt_api = pyside6\nqt_log_level_fail = WARNING\nmarkers = allow_log(pattern): expected log records\n"
    )
    result = pytester.runpytest_subprocess("-rfE", "-p", "no:cacheprovider")
    bad = {line.split("::")[1].split()[0] for line in result.outlines if line.startswith(("FAILED ", "ERROR "))}
    assert bad == set(EXPECTED)
    for said in EXPECTED.values():
        result.stdout.fnmatch_lines([f"*{said}*"])
