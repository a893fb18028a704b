"""Every shortcut in one list, from the table of actions."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QPalette
from PySide6.QtWidgets import QDialog, QGridLayout, QLabel, QVBoxLayout, QWidget

from app import theme
from app.actions import ACTIONS, MENUS
from app.panels.start_page import KeyCap

_COLUMNS = (("Run", "File", "Edit"), ("Go",), ("View", "Analyze", "Window", "Help"))


def _cap(keys: str) -> KeyCap:
    return KeyCap(QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText))


def _widest_cap(menus: Sequence[str]) -> int:
    return max((_cap(keys).width() for spec in ACTIONS if spec.menu in menus for keys in spec.keys), default=0)


class ShortcutSheet(QDialog):
    """A sheet to look at."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard Shortcuts")
        grid = QGridLayout(self)
        grid.setHorizontalSpacing(theme.em() * 3)
        grid.setContentsMargins(20, 16, 20, 20)
        assert {menu for column in _COLUMNS for menu in column} == set(MENUS)
        for at, menus in enumerate(_COLUMNS):
            column = QVBoxLayout()
            for menu in menus:
                box = self._menu(menu, _widest_cap(menus))
                if box is not None:
                    column.addWidget(box)
            column.addStretch(1)
            grid.addLayout(column, 0, at)

    def _menu(self, menu: str, cap_width: int) -> QWidget | None:
        specs = [spec for spec in ACTIONS if spec.menu == menu and spec.keys]
        if not specs:
            return None
        box = QWidget()
        grid = QGridLayout(box)
        grid.setContentsMargins(0, 0, 0, theme.line_height() // 2)
        grid.setVerticalSpacing(4)
        grid.setColumnStretch(1, 1)
        grid.setColumnMinimumWidth(0, cap_width)  # one edge for the words of a column, whatever its menus
        heading = QLabel(menu)
        heading.setFont(theme.ui_font(1.0, 600))
        grid.addWidget(heading, 0, 0, 1, 2)
        row = 1
        for spec in specs:
            for keys in spec.keys:
                grid.addWidget(_cap(keys), row, 0, Qt.AlignmentFlag.AlignRight)
                words = QLabel(spec.text.rstrip("…"))
                words.setTextFormat(Qt.TextFormat.PlainText)
                words.setForegroundRole(QPalette.ColorRole.PlaceholderText)
                grid.addWidget(words, row, 1)
                row += 1
        return box
