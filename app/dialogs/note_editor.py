"""The note of a marked round, as plain text."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from app import theme

MOST = 10_000
"""Characters that a note may have."""


class NoteEditor(QDialog):
    """Accepted, `note()` is what was written for `round`. `run`: whose round it is, for whoever takes the note."""

    def __init__(self, run: object, number: int, note: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.run, self.round = run, number
        self.setWindowTitle(f"Note on Round {number}")
        self.edit = QPlainTextEdit()
        self.edit.setAccessibleName(f"Note on round {number}")
        self.edit.setTabChangesFocus(True)
        self.edit.setPlainText(note)
        self.edit.selectAll()
        self.edit.installEventFilter(self)
        about = QLabel(
            "The note marks the round. It is kept in the recording, also in one that was opened, unless that file "
            "can't be written to. Ctrl+Enter takes it."
        )
        about.setTextFormat(Qt.TextFormat.PlainText)
        about.setWordWrap(True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        theme.mark(buttons.button(QDialogButtonBox.StandardButton.Ok), "primary", True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        for widget in (self.edit, about, buttons):
            layout.addWidget(widget)
        self.resize(theme.em() * 34, theme.line_height() * 12)

    def note(self) -> str:
        """The text, cut at the longest that is kept."""
        return self.edit.toPlainText().strip()[:MOST]

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
            if enter and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                self.accept()
                return True
        return super().eventFilter(watched, event)
