"""Whose turn it is to be shown: spreads the refreshing of panels over frames, so that no frame is held up by all."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

SMOOTHING = 0.3
"""Weight of the newest cost in what a member's next turn is expected to cost."""


Refresh = Callable[[], bool | None]


class _Member:
    def __init__(self, refresh: Refresh, widget: QWidget | None, first: bool) -> None:
        self.first = first
        self.refresh = weakref.WeakMethod(refresh) if widget is not None else lambda: refresh
        self._widget = None if widget is None else weakref.ref(widget)
        self.stale = False
        self.served = 0  # number of the turn it had last
        self.cost = 0.0  # seconds that its next turn is expected to take, painting included

    def widget(self) -> QWidget | None:
        return None if self._widget is None else self._widget()

    @property
    def gone(self) -> bool:
        widget = self.widget()
        return self._widget is not None and (widget is None or not isValid(widget))

    @property
    def unseen(self) -> bool:
        widget = self.widget()
        return widget is not None and (widget.window().isMinimized() or not in_sight(widget))


def in_sight(widget: QWidget) -> bool:
    """Whether any of a widget can be painted: Qt puts a dock behind another's tab out of sight, without hiding it."""
    if not widget.isVisible():
        return False
    # The region is without what opaque children cover.
    return not widget.visibleRegion().isEmpty() or any(
        in_sight(child) for child in widget.children() if isinstance(child, QWidget)
    )


class Turns:
    """Members are marked as stale all together, and refreshed either at once or within a budget of time.

    A budget counts the thread's own work, not what it waits for. Within one a member's turn is its refreshing and its
    painting; the one longest without a turn comes first, and those that nobody can see wait. So a budgeted call
    takes its budget at most, or the dearest member alone.
    """

    def __init__(self) -> None:
        self._members: list[_Member] = []
        self._turn = 0
        self._passed_over = False

    def join(self, refresh: Refresh, widget: QWidget | None = None, first: bool = False) -> None:
        """Take part. `widget`, the owner of `refresh`, is only weakly held; its paints belong to its turn.

        A `refresh` that returns False has done nothing, for want of anybody who sees it, and stays stale.
        `first`: come before the others in `catch_up`.
        """
        self._members.append(_Member(refresh, widget, first))

    def mark(self) -> None:
        """All members are stale."""
        for member in self._members:
            member.stale = True

    @property
    def behind(self) -> bool:
        """Whether a member that can be seen is stale."""
        return any(member.stale and not member.gone and not member.unseen for member in self._members)

    def serve(self, seconds: float | None = None) -> None:
        """Refresh who is stale: everybody and without painting, or as many as `seconds` allow, one at least."""
        self._members = [member for member in self._members if not member.gone]
        if seconds is None:
            self._passed_over = False
            for member in self._members:
                if member.stale:
                    self._give(member)
            return
        waiting = [member for member in self._members if member.stale and not member.unseen]
        self._within(seconds, sorted(waiting, key=lambda m: m.served))

    @property
    def now(self) -> int:
        """The number of the newest turn, to be given to `catch_up` later."""
        return self._turn

    def catch_up(self, since: int, seconds: float) -> bool:
        """Refresh who is stale and had no turn since, within a budget; True if somebody still waits for one.

        Those that joined as first come first, those that nobody can see last. Where the first alone took the last
        call's whole budget and are stale again, the others go before them for once: so nobody stands still, however
        often all are marked.
        """
        self._members = [member for member in self._members if not member.gone]
        waiting = [member for member in self._members if member.stale and member.served <= since]
        seen = [member for member in waiting if not member.unseen]
        rest = [member for member in seen if not member.first]
        seen.sort(key=lambda m: (m.first if self._passed_over else not m.first, m.served))
        before = self._turn
        self._within(seconds, seen + [member for member in waiting if member not in seen])
        self._passed_over = bool(rest) and all(member.served <= before for member in rest)
        return any(member.stale and member.served <= since for member in waiting)

    def _within(self, seconds: float, waiting: list[_Member]) -> None:
        began, given = time.thread_time(), False
        for member in waiting:
            now = time.thread_time()
            if not member.stale:
                continue  # a refresh moved the cursor, which refreshed everybody
            if given and now - began + member.cost > seconds:
                return
            given = True
            self._give(member)
            widget = member.widget()
            if widget is not None:
                # Qt would paint once the call is over, outside of the budget.
                QCoreApplication.sendEvent(widget.window(), QEvent(QEvent.Type.UpdateRequest))
            spent = time.thread_time() - now
            member.cost += SMOOTHING * (spent - member.cost) if member.cost else spent

    def _give(self, member: _Member) -> None:
        self._turn += 1
        member.stale, member.served = False, self._turn
        refresh = member.refresh()
        if refresh is not None and refresh() is False:
            member.stale = True
