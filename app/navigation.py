"""Going about a run: by rounds, positions, rejections and drift. Slots are named as in the table of actions."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject, Signal

from app.view import View
from engine.columns import OUTCOMES

_REPLACED = (OUTCOMES.index("rejected"), OUTCOMES.index("degenerate"))


class Navigation(QObject):
    """Moves the cursor of a view. Signals: `said`, why it didn't move."""

    said = Signal(str)

    def __init__(self, view: View, parent: QObject) -> None:
        super().__init__(parent)
        self._view = view

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
        self._go_to_rejection(reversed(range(max(self._view.round_index, 0))), "before")

    def next_rejection(self) -> None:
        count = len(self._view.run) if self._view.run is not None else 0
        self._go_to_rejection(range(self._view.round_index + 1, count), "after")

    def _go_to_rejection(self, order: Iterable[int], where: str) -> None:
        run = self._view.run
        if run is None:
            return
        outcomes = run.column("outcome")
        found = next((i for i in order if outcomes[i] in _REPLACED), None)
        if found is None:
            self.said.emit(f"No draft was rejected {where} round {self._view.round_index}.")
        else:
            self._view.select(found)

    def first_drift(self) -> None:
        run = self._view.run
        if run is not None and run.first_drift is not None:
            self._view.select(run.first_drift)
        else:
            self.said.emit("Drift is 0 in every round.")

    def live(self) -> None:
        self._view.follow_tail()
