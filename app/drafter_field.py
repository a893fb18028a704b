"""The field that names the drafter: a few to pick from, and any other to be typed in full."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import QComboBox, QLineEdit, QWidget

from app import theme
from app.fields import Marked, settings_check
from engine.drafter_kinds import DRAFTER_TABLE, PICKS

SUGGESTED = (*PICKS, "prompt-lookup:3", "prompt-lookup:3,one-hot", "requantized:4", "dropped:1-1", "self")


class DrafterField(QComboBox, Marked):
    """KIND[:ARGUMENT][,PICK]; told as edited once it was picked, or typed and entered."""

    edited = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self._check = settings_check("drafter")
        kinds = "\n".join(f"{_form(kind.id)}: {kind.about}" for kind in DRAFTER_TABLE.values())
        self._set_up("drafter", f"What drafts: KIND[:ARGUMENT][,PICK]\n{kinds}\nsample, greedy, no-q: the draft model")
        self.addItems(list(SUGGESTED))
        self._line = QLineEdit()
        self._line.setAccessibleName("drafter")
        self.setLineEdit(self._line)
        self._line.textChanged.connect(self.refresh)
        self._line.editingFinished.connect(self._on_entered)
        self.activated.connect(self._on_entered)
        self._told = self.currentText()

    def text(self) -> str:
        """What stands in the field."""
        return self.currentText()

    def value(self) -> str:
        """The drafter's text. Raises SettingsError."""
        text = self.currentText().strip()
        self._check(text)
        return text

    def set_value(self, value: Any) -> None:
        self._told = value
        self.setEditText(value)
        self._line.setCursorPosition(0)

    def sizeHint(self) -> QSize:
        return QSize(self.fontMetrics().horizontalAdvance("0") * 15 + 31, theme.line_height() + 10)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def wheelEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        event.ignore()

    def _on_entered(self) -> None:
        if self.currentText() != self._told:
            self._told = self.currentText()
            self.edited.emit()


def _form(kind: str) -> str:
    argument = DRAFTER_TABLE[kind].argument
    return f"{kind}:{argument}" if argument else kind
