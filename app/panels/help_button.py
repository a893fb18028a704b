"""The "?" of a dock's title: opens the help page of the panel below it."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QToolButton

from app import theme


class HelpButton(QToolButton):
    """Signals: `wanted`, the file name of the page, when it is pressed."""

    wanted = Signal(str)

    def __init__(self, page: str, about: str) -> None:
        super().__init__()
        self._page = page
        self.setText("?")
        self.setFont(theme.ui_font(0.92, 600))
        self.setToolTip(f"Help: {about}")
        self.setAccessibleName(f"Help: {about}")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        side = round(theme.em() * 0.92) + 4
        self.setFixedSize(side, side)
        self.setStyleSheet("padding: 0;")
        self.clicked.connect(self._press)

    def _press(self) -> None:
        self.wanted.emit(self._page)
