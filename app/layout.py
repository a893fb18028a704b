"""Keeps the docks of the workspace in use: its default layout, a layout set by hand, and a window that is resized."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QByteArray, QObject, QPoint, QTimer
from PySide6.QtWidgets import QMainWindow

from app.settings_store import SCHEMA
from app.workspaces import Docks, Workspace, arrange, is_narrow

_SETTLE_MS = 60


class Arrangement(QObject):
    """The default layout at every size of the window, until a hand moves, hides or resizes a dock; then that one's.

    `room` gives the height in pixels that the docks share. Nothing happens before `start`.
    """

    def __init__(self, window: QMainWindow, docks: Docks, room: Callable[[], int], workspace: Workspace) -> None:
        super().__init__(window)
        self._window, self._docks, self._room = window, docks, room
        self.workspace = workspace
        self._narrow: bool | None = None
        self._is_default = False
        self._before_folding: QByteArray | None = None
        self._settling = QTimer(self)  # sharing out anew costs too much for every step of a resize
        self._settling.setSingleShot(True)
        self._settling.setInterval(_SETTLE_MS)
        self._settling.timeout.connect(self._share_out)
        for dock in docks.values():
            dock.topLevelChanged.connect(self._touch)

    def start(self, state: QByteArray | None) -> None:
        """Bring the docks into the state that was kept; without one that fits into the default layout."""
        self._before_folding = None
        if state is None or not self._window.restoreState(state, SCHEMA):
            self.reset()
            return
        self._is_default = False
        self._narrow = is_narrow(self._window.width())
        if self._narrow:
            # What Qt has made of a wide layout in a narrow window is not what shall come back.
            self._fold(state)

    def switch(self, workspace: Workspace, state: QByteArray | None) -> None:
        """Use another workspace, in the state that was kept of it; before `start` it is only taken note of."""
        self._settling.stop()
        self.workspace = workspace
        if self._narrow is not None:
            self.start(state)

    def reset(self) -> None:
        """The default layout, from now on."""
        self._before_folding = None
        self._narrow = is_narrow(self._window.width())
        arrange(self._window, self._docks, self.workspace, self._window.width(), self._room())
        self._is_default = True

    def follow(self) -> None:
        """The window has another size."""
        if self._narrow is None:
            return
        narrow, before = is_narrow(self._window.width()), self._narrow
        self._narrow = narrow
        if self._untouched():
            if narrow != before:
                self.reset()
            else:
                self._settling.start()
        elif narrow and not before:
            self._fold(self._window.saveState(SCHEMA))
        elif before and not narrow:
            self._unfold()

    def pressed(self, place: QPoint) -> None:
        """A mouse button went down on the window itself: between its docks, where they are resized."""
        if self._narrow is not None and self._window.childAt(place) is None:
            self._touch()

    def close(self) -> None:
        """The window closes: nothing follows any more."""
        self._settling.stop()

    def _share_out(self) -> None:
        if self._untouched():
            self.workspace.share(self._window, self._docks, self._window.width(), self._room())

    def kept(self) -> QByteArray | None:
        """What a later start shall find; None: the default layout, or nothing was shown."""
        if self._narrow is None or self._untouched() or all(dock.isHidden() for dock in self._docks.values()):
            return None
        return self._before_folding or self._window.saveState(SCHEMA)

    def _touch(self) -> None:
        self._is_default = False

    def _untouched(self) -> bool:
        shown = {name for name, dock in self._docks.items() if not dock.isHidden()}
        return self._is_default and shown == set(self.workspace.docks)

    def _fold(self, before: QByteArray) -> None:
        """A narrow window has one dock behind another, if both stand in the same area."""
        first, second = (self._docks[name] for name in self.workspace.folds)
        if any(dock.isFloating() or dock.isHidden() for dock in (first, second)):
            return
        if self._window.dockWidgetArea(first) != self._window.dockWidgetArea(second):
            return
        if second in self._window.tabifiedDockWidgets(first):
            return
        self._before_folding = before
        for dock in (second, *self._window.tabifiedDockWidgets(second)):
            self._window.tabifyDockWidget(first, dock)
        first.raise_()
        self.workspace.share(self._window, self._docks, self._window.width(), self._room())

    def _unfold(self) -> None:
        """Wide again: the layout from before the folding, if the folded dock still stands where that put it."""
        state, self._before_folding = self._before_folding, None
        first, second = (self._docks[name] for name in self.workspace.folds)
        folded = second in self._window.tabifiedDockWidgets(first)
        if folded and state is not None and not self._window.restoreState(state, SCHEMA):
            self.reset()
