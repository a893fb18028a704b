"""What the program has said: the log kept for the window, and the toast that shows its newest line."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque

from PySide6.QtCore import QObject, QRect, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QWidget

from app import theme

LIMIT = 5_000
TOAST_MS = 6_000


class _Handler(logging.Handler):
    def __init__(self, log: MessageLog) -> None:
        super().__init__(logging.INFO)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        # Any thread may log: the signal takes the line to the window's.
        self._log.arrived.emit(record.levelname, record.getMessage())


class MessageLog(QObject):
    """The newest lines, oldest first. Signals: `arrived` (level, text) from any thread; `added` (line)."""

    arrived = Signal(str, str)
    added = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.lines: deque[str] = deque(maxlen=LIMIT)
        self.arrived.connect(self.add)
        self._handler = _Handler(self)
        self._logger = logging.getLogger("draftscope")
        self._level = self._logger.level
        self._quieted: list[tuple[logging.Handler, int]] = []
        self._logger.addHandler(self._handler)
        asked = self._logger.getEffectiveLevel()
        if asked > logging.INFO:
            self._keep_terminal_at(asked)
            self._logger.setLevel(logging.INFO)

    def _keep_terminal_at(self, level: int) -> None:
        """The window's log takes INFO; what was asked for on standard error stays as it was."""
        for handler in logging.getLogger().handlers:
            if getattr(handler, "stream", None) is sys.stderr and handler.level < level:
                self._quieted.append((handler, handler.level))
                handler.setLevel(level)

    def add(self, level: str, text: str) -> None:
        """Keep one message."""
        line = f"{time.strftime('%H:%M:%S')}  {level.lower():8}{text}"
        self.lines.append(line)
        self.added.emit(line)

    def close(self) -> None:
        """Listen no more."""
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._level)
        for handler, level in self._quieted:
            handler.setLevel(level)
        self._quieted.clear()


class Toast(QWidget):
    """One message at the window's lower right; it goes by itself. Signals: `details_wanted`."""

    details_wanted = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._over = parent
        self._danger = False
        self._label = QLabel()
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._label.setWordWrap(True)
        self._label.setFont(theme.ui_font(0.92))
        self._details = QPushButton("Log")
        self._details.clicked.connect(self._on_details)
        line = QHBoxLayout(self)
        line.setContentsMargins(14, 7, 8, 7)
        line.setSpacing(10)
        line.addWidget(self._label, 1)
        line.addWidget(self._details)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(TOAST_MS)
        self._timer.timeout.connect(self.hide)
        self.hide()

    def show_message(self, text: str, danger: bool = False) -> None:
        """Show a message in place of the one before."""
        self._danger = danger
        self._label.setText(text)
        self.setAccessibleName(text)
        self._place()
        self.show()
        self.raise_()
        self._timer.start()

    def text(self) -> str:
        return self._label.text()

    def _on_details(self) -> None:
        self.hide()
        self.details_wanted.emit()

    def _place(self) -> None:
        parent = self._over
        # Wide and low: what it covers is the newest that the charts show.
        beside = self._details.sizeHint().width() + 14 + 8 + 10
        wanted = max(theme.em() * 30, self._label.fontMetrics().horizontalAdvance(self._label.text()) + beside + 4)
        width = min(wanted, theme.em() * 86, parent.width() - 20)
        inner = width - beside
        height = max(self._label.heightForWidth(inner), self._details.sizeHint().height()) + 14
        self.setGeometry(
            QRect(parent.width() - width - 10, parent.height() - height - theme.line_height() - 18, width, height)
        )

    def follow(self) -> None:
        """The window has another size."""
        if self.isVisible():
            self._place()

    def sizeHint(self) -> QSize:
        return self.size()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), QColor(colours.base))
        painter.setPen(QColor(colours.line))
        painter.drawRect(self.rect().adjusted(0, 0, -1, -1))
        painter.fillRect(0, 0, 3, self.height(), QColor(colours.danger if self._danger else colours.accent))
