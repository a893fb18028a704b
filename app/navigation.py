"""Going about a run: by rounds, positions, rejections, drift and marks, and back to where one was.

Slots are named as in the table of actions.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QObject, Signal

from app.view import View
from engine.columns import OUTCOMES
from engine.recording import RecordedRun

_REPLACED = (OUTCOMES.index("rejected"), OUTCOMES.index("degenerate"))

REMEMBERED = 200
"""Places that `back` may go through."""

ONE_MOVE = 0.5
"""Moves that follow each other within so many seconds, as in a drag, are one: only where they ended is remembered."""

Place = tuple[int, int] | None
"""(round, position); None: following the tail."""


class History:
    """The places where the cursor stood, as a browser keeps pages. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._places: list[Place] = [None]
        self._at = 0
        self._moved = -ONE_MOVE

    def visit(self, place: Place) -> None:
        """The cursor stands here now; what lay ahead is forgotten. Neighbours and quick moves take one entry."""
        here, now = self._places[self._at], self._clock()
        quick, self._moved = now - self._moved < ONE_MOVE, now
        if place == here:
            return
        del self._places[self._at + 1 :]
        if place is not None and here is not None and (quick or abs(place[0] - here[0]) <= 1):
            self._places[self._at] = place
        else:
            self._places.append(place)
            del self._places[:-REMEMBERED]
        self._at = len(self._places) - 1

    def go(self, by: int) -> bool:
        """Go back (-1) or forward (1); False at the end."""
        if not 0 <= self._at + by < len(self._places):
            return False
        self._at += by
        self._moved = self._clock() - ONE_MOVE
        return True

    @property
    def here(self) -> Place:
        return self._places[self._at]


class Navigation(QObject):
    """Moves the cursor of a view. Signals: `said`, why it didn't move."""

    said = Signal(str)

    def __init__(self, view: View, parent: QObject) -> None:
        super().__init__(parent)
        self._view = view
        self.history = History()
        self._going = False
        view.run_changed.connect(self._on_run_changed)
        view.cursor_moved.connect(self._on_cursor)

    def first_round(self) -> None:
        self._view.select(0)

    def last_round(self) -> None:
        if self._view.run is not None:
            self._view.select(len(self._view.run) - 1)

    def previous_round(self) -> None:
        self._view.step_round(-1)

    def next_round(self) -> None:
        self._view.step_round(1)

    def previous_position(self) -> None:
        self._view.step_position(-1)

    def next_position(self) -> None:
        self._view.step_position(1)

    def previous_rejection(self) -> None:
        self._go_to(rejections, -1, "No draft was rejected before round {}.")

    def next_rejection(self) -> None:
        self._go_to(rejections, 1, "No draft was rejected after round {}.")

    def previous_drift(self) -> None:
        self._go_to(drifts, -1, "No round before round {} changed the drift to something other than 0.")

    def next_drift(self) -> None:
        self._go_to(drifts, 1, "No round after round {} changed the drift to something other than 0.")

    def previous_mark(self) -> None:
        self._go_to(marks, -1, "No round before round {} is marked.")

    def next_mark(self) -> None:
        self._go_to(marks, 1, "No round after round {} is marked.")

    def _go_to(self, where: Callable[[RecordedRun], npt.NDArray[np.int64]], by: int, nothing: str) -> None:
        run = self._view.run
        if run is None:
            return
        here, rounds = self._view.round_index, where(run)
        at = int(np.searchsorted(rounds, here)) - 1 if by < 0 else int(np.searchsorted(rounds, here, side="right"))
        if 0 <= at < len(rounds):
            self._view.select(int(rounds[at]))
        else:
            self.said.emit(nothing.format(here))

    def first_drift(self) -> None:
        run = self._view.run
        if run is not None and run.first_drift is not None:
            self._view.select(run.first_drift)
        else:
            self.said.emit("Drift is 0 in every round.")

    def live(self) -> None:
        self._view.follow_tail()

    def mark_round(self) -> None:
        """Mark the round under the cursor, or take its mark and note away."""
        run, index = self._view.run, self._view.round_index
        if run is None or index < 0:
            return
        note = run.marks.get(index)
        self._view.mark(index, "" if note is None else None)
        if note:
            self.said.emit(f"The mark of round {index} is gone, and its note with it.")

    # Back to where one was

    def back(self) -> None:
        self._travel(-1, "This is the first place in the history.")

    def forward(self) -> None:
        self._travel(1, "This is the last place in the history.")

    def _travel(self, by: int, nothing: str) -> None:
        if not self.history.go(by):
            self.said.emit(nothing)
            return
        self._going = True
        try:
            place = self.history.here
            if place is None:
                self._view.follow_tail()
            else:
                self._view.select(*place)
        finally:
            self._going = False

    def _on_run_changed(self) -> None:
        self.history = History()

    def _on_cursor(self) -> None:
        if not self._going:
            self.history.visit(None if self._view.live else (self._view.round_index, self._view.position))


def rejections(run: RecordedRun) -> npt.NDArray[np.int64]:
    """Rounds in which a draft was rejected."""
    return np.flatnonzero(np.isin(run.column("outcome"), _REPLACED))


def drifts(run: RecordedRun) -> npt.NDArray[np.int64]:
    """Rounds that changed the drift to something other than 0."""
    drift = run.column("drift")
    return np.flatnonzero((drift != 0) & (np.diff(drift, prepend=0) != 0))


def marks(run: RecordedRun) -> npt.NDArray[np.int64]:
    """Marked rounds."""
    return np.array(sorted(run.marks), np.int64)
