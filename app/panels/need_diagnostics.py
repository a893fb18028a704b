"""What a panel shows in place of numbers that only Diagnostics brings: why, and the button that turns it on."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app import theme

ON = "Diagnostics is on: the numbers come with the next round."


class NeedDiagnostics(QWidget):
    """A sentence and a button. Signals: `wanted`, when the button is pressed."""

    wanted = Signal()

    def __init__(self, sentence: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sentence = sentence
        self._label = QLabel(sentence)
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._label.setWordWrap(True)
        self._label.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._label.setForegroundRole(self._label.palette().ColorRole.PlaceholderText)
        self.button = QPushButton("Turn Diagnostics on")
        self.button.setAccessibleDescription(sentence)
        self.button.clicked.connect(self.wanted)
        middle = QHBoxLayout()
        middle.addStretch(1)
        middle.addWidget(self.button)
        middle.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 4, 14, 4)
        column.setSpacing(theme.line_height() // 2)
        column.addStretch(1)
        column.addWidget(self._label)
        column.addLayout(middle)
        column.addStretch(1)

    def text(self) -> str:
        return self._label.text()

    def set_on(self, on: bool) -> None:
        """Say that Diagnostics is on from the next round, or offer to turn it on."""
        self._label.setText(ON if on else self._sentence)
        self.button.setVisible(not on)
