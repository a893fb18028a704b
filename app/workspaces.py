"""The workspaces: which docks each shows, and where they stand, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDockWidget, QMainWindow

from app import theme

SPLITTER = 4

NARROW = 92
"""Windows narrower than so many em show the last of two docks that stand side by side as a tab behind the first."""

Docks = dict[str, QDockWidget]

_VERTICAL, _HORIZONTAL = Qt.Orientation.Vertical, Qt.Orientation.Horizontal


def is_narrow(width: int) -> bool:
    return width < NARROW * theme.em()


@dataclass(frozen=True)
class Workspace:
    """One set of docks. `folds`: the dock that a narrow window shows as a tab, behind which; `front`: what is raised.

    `place` puts the docks into the window's one area, `share` gives each its size in a window of a width and a height.
    `behind`: the dock that those which aren't shown at first open behind.
    """

    id: str
    title: str
    about: str
    docks: tuple[str, ...]
    folds: tuple[str, str]
    front: tuple[str, ...]
    behind: str
    place: Callable[[QMainWindow, Docks, bool], None]
    share: Callable[[QMainWindow, Docks, int, int], None]


def arrange(window: QMainWindow, docks: Docks, workspace: Workspace, width: int, height: int) -> None:
    """Put every dock in its place of a workspace; those that it doesn't show are hidden behind another."""
    for dock in docks.values():
        if dock.isFloating():
            dock.setFloating(False)
        window.removeDockWidget(dock)
    # All in one area, one inside the other: only there can every dock be given its share.
    workspace.place(window, docks, is_narrow(width))
    for name, dock in docks.items():
        if name not in workspace.docks:
            window.tabifyDockWidget(docks[workspace.behind], dock)
        dock.setVisible(name in workspace.docks)
    for name in workspace.front:
        docks[name].raise_()
    # Without it the docks have no sizes yet that could be shared out.
    inner = window.layout()
    if inner is not None:
        inner.activate()
    workspace.share(window, docks, width, height)


def _add(window: QMainWindow, *docks: QDockWidget) -> None:
    for dock in docks:
        window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, dock, _VERTICAL)


def _share(window: QMainWindow, docks: Docks, sizes: dict[str, int], orientation: Qt.Orientation) -> None:
    # Qt complains of a size of 0 or less, and in a tiny window a share may come to that.
    window.resizeDocks([docks[name] for name in sizes], [max(size, 1) for size in sizes.values()], orientation)


def _gutter(width: int) -> int:
    return 18 * theme.em() if is_narrow(width) else round(23.5 * theme.em())


def _share_rows(window: QMainWindow, docks: Docks, height: int, acceptance: int) -> int:
    """Give the panels along the bottom their height, and what is left to those above; gives it."""
    lh = theme.line_height()
    low = height < 44 * lh
    lanes = _lanes(docks, low)
    # In a low window the chart gives way to the lanes as far as it can still be read.
    below = {"kv": round((2.8 if low else 4.6) * lh), "acceptance": (acceptance - (1 if low and lanes else 0)) * lh}
    # With the title. A low window leaves the strip alone, without glyphs and numbers.
    below["timeline"] = round((2.8 if low else 4.9) * lh) + lanes
    above = height - sum(below.values()) - 3 * SPLITTER
    _share(window, docks, {"rounds": above, **below}, _VERTICAL)
    return above


def _lanes(docks: Docks, low: bool) -> int:
    """What the timeline wants above its strip, where the session has several runs."""
    wanted = getattr(docks["timeline"].widget(), "lanes_height", None)
    return 0 if wanted is None else int(wanted(low))


def _place_inspect(window: QMainWindow, docks: Docks, narrow: bool) -> None:
    _add(window, docks["rounds"], docks["kv"], docks["acceptance"], docks["timeline"])
    window.splitDockWidget(docks["rounds"], docks["stream"], _HORIZONTAL)
    window.splitDockWidget(docks["stream"], docks["round"], _VERTICAL)
    window.splitDockWidget(docks["round"], docks["distributions"], _VERTICAL)
    if narrow:
        window.tabifyDockWidget(docks["distributions"], docks["residual"])
    else:
        window.splitDockWidget(docks["distributions"], docks["residual"], _HORIZONTAL)
    window.tabifyDockWidget(docks["residual"], docks["meters"])
    window.tabifyDockWidget(docks["meters"], docks["what-if"])


def _share_inspect(window: QMainWindow, docks: Docks, width: int, height: int) -> None:
    lh, narrow, low = theme.line_height(), is_narrow(width), height < 44 * theme.line_height()
    gutter = _gutter(width)
    _share(window, docks, {"rounds": gutter, "stream": width - gutter - SPLITTER}, _HORIZONTAL)
    if not narrow:
        rest = width - gutter - 2 * SPLITTER
        _share(window, docks, {"distributions": round(rest * 0.6), "residual": round(rest * 0.4)}, _HORIZONTAL)
    above = _share_rows(window, docks, height, 6 if low else 10)
    upper = {"stream": round((4.5 if low else 7.6) * lh), "round": round((9 if narrow else 7.4) * lh)}
    upper["distributions"] = above - sum(upper.values()) - 2 * SPLITTER
    _share(window, docks, upper, _VERTICAL)


def _place_debug(window: QMainWindow, docks: Docks, narrow: bool) -> None:
    _add(window, docks["rounds"], docks["kv"], docks["acceptance"], docks["timeline"])
    window.splitDockWidget(docks["rounds"], docks["ledger"], _HORIZONTAL)
    if narrow:
        window.splitDockWidget(docks["ledger"], docks["invariants"], _HORIZONTAL)
        window.tabifyDockWidget(docks["invariants"], docks["layers"])
    else:
        window.splitDockWidget(docks["ledger"], docks["layers"], _HORIZONTAL)
        window.splitDockWidget(docks["layers"], docks["invariants"], _VERTICAL)
    window.tabifyDockWidget(docks["invariants"], docks["log"])
    window.tabifyDockWidget(docks["log"], docks["meters"])
    window.tabifyDockWidget(docks["meters"], docks["breakpoints"])
    window.tabifyDockWidget(docks["breakpoints"], docks["faults"])


def _share_debug(window: QMainWindow, docks: Docks, width: int, height: int) -> None:
    lh, narrow, low = theme.line_height(), is_narrow(width), height < 44 * theme.line_height()
    gutter = _gutter(width)
    rest = width - gutter - 2 * SPLITTER
    beside = round(rest * (0.46 if narrow else 0.44))
    right = "invariants" if narrow else "layers"
    _share(window, docks, {"rounds": gutter, "ledger": rest - beside, right: beside}, _HORIZONTAL)
    above = _share_rows(window, docks, height, 6 if low else 9)
    if not narrow:
        layers = min(11 * lh, above * 2 // 5)
        _share(window, docks, {"layers": layers, "invariants": above - layers - SPLITTER}, _VERTICAL)


WORKSPACES = {
    workspace.id: workspace
    for workspace in (
        Workspace(
            id="inspect",
            title="Inspect",
            about="What was drafted, what was kept, and why",
            docks=(
                *("rounds", "stream", "round", "distributions", "residual", "meters", "what-if"),
                *("kv", "acceptance", "timeline"),
            ),
            folds=("distributions", "residual"),
            front=("residual", "distributions"),
            behind="distributions",
            place=_place_inspect,
            share=_share_inspect,
        ),
        Workspace(
            id="debug",
            title="Debug",
            about="What both caches hold, what they should, and where it first went wrong",
            docks=(
                *("rounds", "ledger", "layers", "invariants", "log", "meters", "breakpoints", "faults"),
                *("kv", "acceptance", "timeline"),
            ),
            folds=("invariants", "layers"),
            front=("invariants",),
            behind="ledger",
            place=_place_debug,
            share=_share_debug,
        ),
    )
}
