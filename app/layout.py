"""Where the docks stand: the Inspect layout, wide and narrow."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow

from app import theme

SPLITTER = 4

NARROW = 92
"""Windows narrower than so many em show the residual as a tab behind p and q."""


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
