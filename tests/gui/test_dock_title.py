"""A dock's title: who gives way when it gets narrow, and that its texts leave the window's layout alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from fakes import FakeRounds, fake_header, fake_run
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow

from app.dock_title import DockTitle
from app.panels.distributions import DistributionsPanel
from app.panels.round_detail import RoundDetailPanel
from app.view import View
from engine.recording import RecordedRun
from tests.gui.windows import Opener, show_run


class Requests(QObject):
    """Counts the layouts that a widget is asked for."""

    def __init__(self, watched: QObject) -> None:
        super().__init__(watched)
        self.count = 0
        watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        self.count += event.type() == QEvent.Type.LayoutRequest
        return False


@pytest.fixture
def dock(qtbot, view: View) -> QDockWidget:
    dock = QDockWidget("p and q")
    qtbot.addWidget(dock)
    panel = DistributionsPanel(view)
    dock.setWidget(panel)
    dock.setTitleBarWidget(DockTitle(dock, panel))
    view.show_run(fake_run(5))
    view.select(0, 0)
    dock.show()
    return dock


def shown_at(dock: QDockWidget, width: int) -> tuple[int, int, int]:
    """Widths of name, context and legend in a title so wide; nothing overlaps."""
    title = dock.titleBarWidget()
    assert isinstance(title, DockTitle)
    title.resize(width, title.height())
    parts = [title._name, title._context, *title._controls, title._float, title._close]
    for before, after in pairwise(parts):
        assert before.geometry().right() < after.x() or not before.width(), (width, before, after)
    assert title._close.geometry().right() < width
    return title._name.width(), title._context.width(), title._controls[0].width()


def test_the_legend_gives_way_to_the_numbers_and_both_to_the_name(dock: QDockWidget) -> None:
    title = dock.titleBarWidget()
    name, context, legend = (
        title._name.sizeHint().width(),
        title._context.sizeHint().width(),
        title._controls[0].sizeHint().width(),
    )
    letters = title._controls[0].minimumSizeHint().width()
    assert shown_at(dock, 1400)[::2] == (name, legend)
    roomy = next(width for width in range(1400, 300, -1) if shown_at(dock, width)[2] < legend)
    assert shown_at(dock, roomy)[1] == context, "the legend gives way before the numbers do"
    tight = next(width for width in range(roomy, 300, -1) if shown_at(dock, width)[1] == 0)
    assert shown_at(dock, tight) == (name, 0, letters), "its letters stay until the numbers are gone"
    narrow = next(width for width in range(tight, 200, -1) if shown_at(dock, width)[2] == 0)
    assert shown_at(dock, narrow)[0] == name
    assert narrow < tight


def test_texts_that_change_do_not_lay_the_window_out(qtbot, view: View) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    dock = QDockWidget("Round", window)
    panel = RoundDetailPanel(view)
    dock.setWidget(panel)
    dock.setTitleBarWidget(DockTitle(dock, panel))
    window.addDockWidget(window.dockWidgetArea(dock).LeftDockWidgetArea, dock)
    window.resize(1200, 300)
    window.show()
    run, source = RecordedRun(fake_header()), FakeRounds()
    view.show_run(run)
    for _ in range(3):
        QApplication.processEvents()
    requests = Requests(window)
    names = set()
    for _ in range(14):
        run.append(source.next())
        view.notify_advanced()
        QApplication.processEvents()
        names.add(dock.titleBarWidget()._name.text())
    assert len(names) == 14
    assert requests.count == 0


def test_what_a_control_says_before_its_dock_shows_has_room(open_window: Opener) -> None:
    """While the start page stands there, the docks are hidden, and nobody asks their titles for a layout."""
    window = open_window()
    show_run(window, fake_run(20, distributions=False, legacy=True))
    verdict = window.docks["kv"].widget().title_widgets()[0]
    assert verdict.text().startswith("▲ drift")
    assert verdict.width() >= verdict.sizeHint().width()
