"""A breakpoint in the making: one condition, or several joined by "and"."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import icons, theme
from engine.breakpoint_kinds import KINDS, escaped, unescaped
from engine.breakpoints import Breakpoint, Condition

MOST = 4
"""Conditions that a breakpoint may join."""

_HINTS = {"whole": "number", "share": "0 to 1", "text": "text"}


class ConditionRow(QWidget):
    """One condition. Signals: `changed`; `removed`, when its cross is pressed."""

    changed = Signal()
    removed = Signal()

    def __init__(self, condition: Condition | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.joint = QLabel()
        self.joint.setMinimumWidth(self.joint.fontMetrics().horizontalAdvance("and") + 4)
        self.kind = QComboBox()
        self.kind.setAccessibleName("Condition")
        for kind in KINDS.values():
            self.kind.addItem(kind.name, kind.id)
            self.kind.setItemData(self.kind.count() - 1, kind.about, Qt.ItemDataRole.ToolTipRole)
        self.kind.setMaxVisibleItems(len(KINDS))
        self.value = QLineEdit()
        self.value.setAccessibleName("Value")
        self.value.setMinimumWidth(theme.em() * 10)
        self.cross = QToolButton()
        self.cross.setIcon(icons.icon("close"))
        self.cross.setToolTip("Take this condition away")
        self.cross.setAccessibleName("Take this condition away")
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        for widget, stretch in ((self.joint, 0), (self.kind, 0), (self.value, 1), (self.cross, 0)):
            line.addWidget(widget, stretch)
        if condition is not None:
            self.kind.setCurrentIndex(self.kind.findData(condition.kind))
            value = condition.value
            self.value.setText(escaped(value) if isinstance(value, str) else "" if value is None else str(value))
        self.kind.currentIndexChanged.connect(self._on_kind)
        self.value.textChanged.connect(self.changed)
        self.cross.clicked.connect(self.removed)
        self._fit()

    def _on_kind(self) -> None:
        self._fit()
        self.changed.emit()

    def _fit(self) -> None:
        """The value's field only where the kind takes one; it keeps its place."""
        sort = KINDS[self.kind.currentData()].value
        self.value.setEnabled(bool(sort))
        self.value.setPlaceholderText(_HINTS.get(sort, "no value"))

    def condition(self) -> Condition:
        """What is entered. Raises ValueError in words."""
        kind = KINDS[self.kind.currentData()]
        text = self.value.text()
        if kind.value == "text":
            return Condition(kind.id, unescaped(text))
        if not kind.value:
            return Condition(kind.id)
        try:
            number = int(text) if kind.value == "whole" else float(text)
        except ValueError:
            number = None
        return Condition(kind.id, number)


class BreakpointEditor(QDialog):
    """Accepted, `breakpoint()` is what was made. `at`: the place in the list of what is edited, None: a new one.

    Ok is disabled, and the reason stands above it, while a value can't be used.
    """

    def __init__(self, point: Breakpoint | None = None, at: int | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.at = at
        self._enabled = point.enabled if point is not None else True
        self.setWindowTitle("New Breakpoint" if at is None else "Edit Breakpoint")
        self.rows: list[ConditionRow] = []
        intro = QLabel("Pause right behind a round in which all of this holds:")
        self._column = QVBoxLayout()
        self._column.setSpacing(6)
        self.more = QPushButton("And…")
        self.more.setToolTip("Join another condition")
        self.more.setAutoDefault(False)
        self.more.clicked.connect(self._on_more)
        self.about = QLabel()
        self.about.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.about.setWordWrap(True)
        self.about.setMinimumHeight(self.about.fontMetrics().lineSpacing() * 3)
        self.about.setAlignment(Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft)
        for label in (intro, self.about):
            label.setTextFormat(Qt.TextFormat.PlainText)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = buttons.button(QDialogButtonBox.StandardButton.Ok)
        theme.mark(self.ok, "primary", True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        joined = QHBoxLayout()
        joined.addWidget(self.more)
        joined.addStretch(1)
        layout = QVBoxLayout(self)
        layout.addWidget(intro)
        layout.addLayout(self._column)
        layout.addLayout(joined)
        layout.addWidget(self.about)
        layout.addStretch(1)
        layout.addWidget(buttons)
        self.setMinimumWidth(theme.em() * 38)
        for condition in point.conditions if point is not None else (None,):
            self._add(condition)
        self.rows[0].kind.setFocus()
        self._refresh()

    def _add(self, condition: Condition | None) -> None:
        row = ConditionRow(condition, self)
        row.changed.connect(self._refresh)
        row.removed.connect(self._on_removed)
        self.rows.append(row)
        self._column.addWidget(row)

    def _on_more(self) -> None:
        self._add(None)
        self.rows[-1].kind.setFocus()
        self._refresh()

    def _on_removed(self) -> None:
        row = self.sender()
        assert isinstance(row, ConditionRow)
        self.rows.remove(row)
        self._column.removeWidget(row)
        row.hide()
        row.deleteLater()
        self._refresh()

    def breakpoint(self) -> Breakpoint:
        """What is entered. Raises ValueError in words."""
        return Breakpoint(tuple(dict.fromkeys(row.condition() for row in self.rows)), self._enabled)

    def _refresh(self) -> None:
        for at, row in enumerate(self.rows):
            row.joint.setText("and" if at else "")
            row.cross.setVisible(len(self.rows) > 1)
            try:
                row.condition()
                theme.mark(row.value, "invalid", False)
            except ValueError:
                theme.mark(row.value, "invalid", bool(row.value.text()))
        self.more.setEnabled(len(self.rows) < MOST)
        about = ". ".join(dict.fromkeys(KINDS[row.kind.currentData()].about for row in self.rows))
        drafts = sum(KINDS[row.kind.currentData()].of_draft is not None for row in self.rows) > 1
        text = f"{about}." + (" All at one and the same draft." if drafts else "")
        try:
            self.breakpoint()
        except ValueError as error:
            text = f"{text}\n{error}"
            self.ok.setEnabled(False)
        else:
            self.ok.setEnabled(True)
        self.about.setText(text)
