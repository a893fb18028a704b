"""What the window does with breakpoints: one set by key, and the dialog. Slots are named as in the table of actions."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.breakpoint_list import BreakpointList
from app.dialogs.breakpoint_editor import BreakpointEditor
from app.session import Session


class WindowBreakpoints(QObject):
    """Edits a list of breakpoints over a window. Signals: `said`, what a key has done."""

    said = Signal(str)

    def __init__(self, session: Session, points: BreakpointList, window: QWidget) -> None:
        super().__init__(window)
        self._session, self.points, self._window = session, points, window
        self.editor: BreakpointEditor | None = None

    def toggle_breakpoint(self) -> None:
        """Set the breakpoint on the number of the round under the cursor, or take it away."""
        number = self._session.view.round_index
        if number < 0:
            return
        if self.points.toggle_round(number):
            self.said.emit(f"The next run pauses behind round {number}.")
        else:
            self.said.emit(f"The breakpoint on round {number} is gone.")

    def new_breakpoint(self) -> None:
        self._open(BreakpointEditor(parent=self._window))

    def edit(self, at: int) -> None:
        """Edit the breakpoint at a place of the list."""
        self._open(BreakpointEditor(self.points.points[at], at, self._window))

    def _open(self, editor: BreakpointEditor) -> None:
        self.close()
        self.editor = editor
        editor.accepted.connect(self._on_accepted)
        editor.open()

    def close(self) -> None:
        """Close the dialog, if it is open."""
        if self.editor is not None:
            self.editor.close()
            self.editor.deleteLater()
            self.editor = None

    def _on_accepted(self) -> None:
        if self.editor is None:
            return
        point, at = self.editor.breakpoint(), self.editor.at
        if at is not None:
            self.points.replace(at, point)
        elif not self.points.add(point):
            self.said.emit("This breakpoint is in the list already.")
