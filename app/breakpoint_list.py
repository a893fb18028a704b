"""The breakpoints of the window: kept between sittings, handed to the session, with how often each was hit."""

from __future__ import annotations

import logging
from weakref import WeakKeyDictionary

from PySide6.QtCore import QObject, Signal

from app.session import Session
from app.settings_store import SettingsStore
from engine.breakpoints import Breakpoint, Condition, Hit
from engine.recording import RecordedRun

log = logging.getLogger("draftscope.app")


class BreakpointList(QObject):
    """Breakpoints in the order of their making, none twice. Signals: `changed` (the list, or what was hit)."""

    changed = Signal()

    def __init__(self, session: Session, store: SettingsStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session, self._store = session, store
        self._hits: dict[tuple[Condition, ...], int] = {}
        self._hit_rounds: WeakKeyDictionary[RecordedRun, list[int]] = WeakKeyDictionary()
        self.points: list[Breakpoint] = []
        for plain in store.breakpoints:
            try:
                self._take(Breakpoint.from_plain(plain))
            except ValueError as error:
                log.info("a breakpoint kept from an earlier sitting can't be read: %s", error)
        session.breakpoints_hit.connect(self._on_hit)
        session.set_breakpoints(self.points)

    def _take(self, point: Breakpoint) -> bool:
        known = any(point.conditions == other.conditions for other in self.points)
        if not known:
            self.points.append(point)
        return not known

    def add(self, point: Breakpoint) -> bool:
        """Put a breakpoint at the end; False if one with its conditions is there already."""
        taken = self._take(point)
        if taken:
            self._tell()
        return taken

    def replace(self, at: int, point: Breakpoint) -> None:
        """Put a breakpoint in another's place, or take that one away if the new one is there already."""
        rest = self.points[:at] + self.points[at + 1 :]
        there = any(point.conditions == other.conditions for other in rest)
        self.points = rest if there else [*self.points[:at], point, *self.points[at + 1 :]]
        self._tell()

    def remove(self, at: int) -> None:
        """Take one away."""
        self._hits.pop(self.points.pop(at).conditions, None)
        self._tell()

    def enable(self, at: int, enabled: bool) -> None:
        """Switch one on or off."""
        self.points[at] = Breakpoint(self.points[at].conditions, enabled)
        self._tell()

    def toggle_round(self, number: int) -> bool:
        """Set the breakpoint on a round's number, or take it away; True if it is set now."""
        wanted = (Condition("round", number),)
        at = next((at for at, point in enumerate(self.points) if point.conditions == wanted), None)
        if at is None:
            return self.add(Breakpoint(wanted))
        self.remove(at)
        return False

    def hits(self, point: Breakpoint) -> int:
        """How often it was hit in this sitting."""
        return self._hits.get(point.conditions, 0)

    def dots(self, run: RecordedRun) -> list[int]:
        """Rounds of a run that carry a dot, in order: breakpoints on their number, and where others were hit."""
        numbers = {point.round for point in self.points if point.enabled and point.round is not None}
        return sorted(number for number in {*numbers, *self._hit_rounds.get(run, ())} if number < len(run))

    def _on_hit(self, run: RecordedRun, hit: Hit) -> None:
        for point in hit.breakpoints:
            self._hits[point.conditions] = self.hits(point) + 1
        self._hit_rounds.setdefault(run, []).append(hit.round)
        self.changed.emit()

    def _tell(self) -> None:
        self._store.breakpoints = [point.to_plain() for point in self.points]
        self._session.set_breakpoints(self.points)
        self.changed.emit()
