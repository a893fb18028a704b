"""The window's log: what the engine and the program have said, newest last."""

from __future__ import annotations

from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QVBoxLayout, QWidget

from app import theme
from app.format import visible_string
from app.messages import LIMIT, MessageLog


class LogView(QDialog):
    """Follows the log while it is open."""

    def __init__(self, log: MessageLog, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Log")
        self.text = QPlainTextEdit()
        self.text.setAccessibleName("Log")
        self.text.setReadOnly(True)
        self.text.setFont(theme.mono_font(0.92))
        self.text.setPlaceholderText("Nothing was said yet: what the engine and the program report comes here.")
        self.text.setMaximumBlockCount(LIMIT)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self.text.setPlainText("\n".join(visible_string(line) for line in log.lines))
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(self.text)
        layout.addWidget(buttons)
        log.added.connect(self._add)
        self.resize(theme.em() * 70, theme.line_height() * 24)

    def _add(self, line: str) -> None:
        self.text.appendPlainText(visible_string(line))
