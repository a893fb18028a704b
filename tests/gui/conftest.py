"""Fixtures of the window's tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.session import Session
from app.view import View
from tests.gui.fake_engine import FakeRoom, Script
from tests.gui.windows import open_window

__all__ = ["open_window"]


@pytest.fixture(autouse=True)
def widgets_held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hold what a test hands to qtbot until Qt has deleted it.

    pytest-qt knows it weakly. A widget whose test has returned is garbage, since widgets are full of cycles; collected
    while an event for it is under way, in whichever Python code the event runs, it takes the process with it.
    """
    held: list[QWidget] = []
    add = QtBot.addWidget

    def add_and_hold(self: QtBot, widget: QWidget, **options: Any) -> None:
        held.append(widget)
        add(self, widget, **options)

    monkeypatch.setattr(QtBot, "addWidget", add_and_hold)
    yield
    if "qapp" in request.fixturenames:
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@pytest.fixture
def view(qtbot: QtBot) -> View:
    return View()


@pytest.fixture
def script() -> Script:
    """What the engine in the place of the real one does."""
    return Script()


@pytest.fixture
def session(qtbot: QtBot, script: Script) -> Iterator[Session]:
    made = Session(lambda: FakeRoom(script))
    yield made
    assert made.shutdown()


@pytest.fixture
def messages(session: Session) -> list[tuple[str, str]]:
    """What the session tells, as (kind, text)."""
    heard: list[tuple[str, str]] = []
    session.message.connect(lambda kind, text: heard.append((kind, text)))
    return heard
