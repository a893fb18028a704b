"""Where the docks stand: the Inspect layout, wide and narrow, and what becomes of it when the window is resized."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QByteArray, QObject, QPoint, Qt, QTimer
from PySide6.QtWidgets import QDockWidget, QMainWindow

from app import theme
from app.settings_store import SCHEMA

SPLITTER = 4

NARROW = 92
"""Windows narrower than so many em show the residual as a tab behind p and q."""

_SETTLE_MS = 60


def is_narrow(width: int) -> bool:
    return width < NARROW * theme.em()


def arrange(window: QMainWindow, docks: dict[str, QDockWidget], width: int, height: int) -> None:
    """Put every dock in its place of the Inspect layout."""
    for dock in docks.values():
        if dock.isFloating():
            dock.setFloating(False)
        window.removeDockWidget(dock)
    # All in one area, one inside the other: only there can every dock be given its share.
    area, vertical, horizontal = (
        Qt.DockWidgetArea.LeftDockWidgetArea,
        Qt.Orientation.Vertical,
        Qt.Orientation.Horizontal,
    )
    window.addDockWidget(area, docks["rounds"], vertical)
    window.addDockWidget(area, docks["kv"], vertical)
    window.addDockWidget(area, docks["acceptance"], vertical)
    window.splitDockWidget(docks["rounds"], docks["stream"], horizontal)
    window.splitDockWidget(docks["stream"], docks["round"], vertical)
    window.splitDockWidget(docks["round"], docks["distributions"], vertical)
    if is_narrow(width):
        window.tabifyDockWidget(docks["distributions"], docks["residual"])
    else:
        window.splitDockWidget(docks["distributions"], docks["residual"], horizontal)
    for dock in docks.values():
        dock.show()
    docks["distributions"].raise_()
    # Without it the docks have no sizes yet that could be shared out.
    inner = window.layout()
    if inner is not None:
        inner.activate()
    size(window, docks, width, height)


def _share(
    window: QMainWindow, docks: dict[str, QDockWidget], sizes: dict[str, int], orientation: Qt.Orientation
) -> None:
    # Qt complains of a size of 0 or less, and in a tiny window a share may come to that.
    window.resizeDocks([docks[name] for name in sizes], [max(size, 1) for size in sizes.values()], orientation)


def size(window: QMainWindow, docks: dict[str, QDockWidget], width: int, height: int) -> None:
    """Give every dock its share; what a panel can't do without it takes by itself."""
    lh, em = theme.line_height(), theme.em()
    vertical, horizontal = Qt.Orientation.Vertical, Qt.Orientation.Horizontal
    narrow = is_narrow(width)
    gutter = 18 * em if narrow else round(23.5 * em)
    _share(window, docks, {"rounds": gutter, "stream": width - gutter - SPLITTER}, horizontal)
    if not narrow:
        rest = width - gutter - 2 * SPLITTER
        _share(window, docks, {"distributions": round(rest * 0.6), "residual": round(rest * 0.4)}, horizontal)
    low = height < 44 * lh
    below = {"kv": round((3 if low else 4.6) * lh), "acceptance": (6 if low else 10) * lh}
    above = height - sum(below.values()) - 2 * SPLITTER
    _share(window, docks, {"rounds": above, **below}, vertical)
    upper = {"stream": round((4.5 if low else 7.6) * lh), "round": round((9.6 if narrow else 7.4) * lh)}
    upper["distributions"] = above - sum(upper.values()) - 2 * SPLITTER
    _share(window, docks, upper, vertical)


class Arrangement(QObject):
    """The default layout at every size of the window, until a hand moves, hides or resizes a dock; then that one's.

    `room` gives the height in pixels that the docks share. Nothing happens before `start`.
    """

    def __init__(self, window: QMainWindow, docks: dict[str, QDockWidget], room: Callable[[], int]) -> None:
        super().__init__(window)
        self._window, self._docks, self._room = window, docks, room
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
        if state is None or not self._window.restoreState(state, SCHEMA):
            self.reset()
            return
        self._is_default = False
        self._narrow = is_narrow(self._window.width())
        if self._narrow:
            # What Qt has made of a wide layout in a narrow window is not what shall come back.
            self._fold(state)

    def reset(self) -> None:
        """The default layout, from now on."""
        self._before_folding = None
        self._narrow = is_narrow(self._window.width())
        arrange(self._window, self._docks, self._window.width(), self._room())
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
            size(self._window, self._docks, self._window.width(), self._room())

    def kept(self) -> QByteArray | None:
        """What a later start shall find; None: the default layout, or nothing was shown."""
        if self._narrow is None or self._untouched() or all(dock.isHidden() for dock in self._docks.values()):
            return None
        return self._before_folding or self._window.saveState(SCHEMA)

    def _touch(self) -> None:
        self._is_default = False

    def _untouched(self) -> bool:
        return self._is_default and not any(dock.isHidden() for dock in self._docks.values())

    def _fold(self, before: QByteArray) -> None:
        """A narrow window has the residual behind p and q, if they stand in the same area."""
        first, second = self._docks["distributions"], self._docks["residual"]
        if any(dock.isFloating() or dock.isHidden() for dock in (first, second)):
            return
        if self._window.dockWidgetArea(first) != self._window.dockWidgetArea(second):
            return
        if second in self._window.tabifiedDockWidgets(first):
            return
        self._before_folding = before
        self._window.tabifyDockWidget(first, second)
        first.raise_()
        size(self._window, self._docks, self._window.width(), self._room())

    def _unfold(self) -> None:
        """Wide again: the layout from before the folding, if the residual still stands where that put it."""
        state, self._before_folding = self._before_folding, None
        folded = self._docks["residual"] in self._window.tabifiedDockWidgets(self._docks["distributions"])
        if folded and state is not None and not self._window.restoreState(state, SCHEMA):
            self.reset()
