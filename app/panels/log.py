"""The log as a dock: what the engine and the program have said, newest last."""

from __future__ import annotations

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QVBoxLayout, QWidget

from app import theme
from app.format import plural, visible_string
from app.messages import LIMIT, MessageLog
from app.panels.help_button import HelpButton
from app.panels.title_controls import shelve
from app.view import View

EMPTY = "Nothing was said yet: what the engine and the program report comes here."
PAGE = "ledger.md"


class LogPanel(QWidget):
    """Follows the log that it is given. Signals: `title_changed`; `help_wanted` (a page)."""

    title_changed = Signal()
    help_wanted = Signal(str)

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._log: MessageLog | None = None
        self.setObjectName("log")
        self.setAccessibleName("Log")
        self.help = HelpButton(PAGE, "what the log holds")
        shelve(self, self.help)
        self.help.wanted.connect(self.help_wanted)
        self.text = QPlainTextEdit()
        self.text.setAccessibleName("Log")
        self.text.setReadOnly(True)
        self.text.setFrameShape(QFrame.Shape.NoFrame)
        self.text.setFont(theme.mono_font(0.92))
        self.text.setPlaceholderText(EMPTY)
        self.text.setMaximumBlockCount(LIMIT)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.WidgetWidth)
        self.text.setTabChangesFocus(True)
        self.text.setStyleSheet("QPlainTextEdit { border: none; border-radius: 0; }")
        self.setFocusProxy(self.text)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.text)

    def follow(self, log: MessageLog) -> None:
        """Show this log from now on."""
        self._log = log
        self.text.setPlainText("\n".join(visible_string(line) for line in log.lines))
        self.text.moveCursor(QTextCursor.MoveOperation.End)
        log.added.connect(self._add)

    def title_context(self) -> str:
        """How many lines it holds."""
        return plural(len(self._log.lines), "line") if self._log is not None and self._log.lines else ""

    def title_widgets(self) -> list[QWidget]:
        """Help."""
        return [self.help]

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 36, theme.line_height() * 14)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 18, theme.line_height() * 4)

    def _add(self, line: str) -> None:
        self.text.appendPlainText(visible_string(line))
        self.title_changed.emit()
