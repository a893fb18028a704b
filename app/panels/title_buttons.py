"""Fields for a dock's title: a bordered button with words, and how often something is done."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QSpinBox, QToolButton, QWidget

from app import theme
from app.panels.title_controls import title_height


class TitleButton(QToolButton):
    """Words with a border; checkable where it is a switch."""

    def __init__(self, words: str, about: str, *, checkable: bool = False) -> None:
        super().__init__()
        self.setText(words)
        self.setToolTip(about)
        self.setAccessibleName(words)
        self.setCheckable(checkable)
        self.setFont(theme.ui_font(0.92))
        self.setFixedHeight(title_height())
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        theme.mark(self, "segment", True)
        self.setStyleSheet("QToolButton { padding: 0 6px; border-radius: 4px; }")


class EverySpin(QSpinBox):
    """How often something is done: `every 10`, 0 is `every: off`. It gives way where a title has no room."""

    def __init__(self, name: str, about: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setRange(0, 100_000)
        self.setPrefix("every ")
        self.setSpecialValueText("every: off")
        self.setKeyboardTracking(False)
        self.setAccessibleName(name)
        self.setToolTip(about)
        self.setFont(theme.ui_font(0.92))
        inner = title_height() - 2
        self.setStyleSheet(f"QSpinBox {{ min-height: {inner}px; max-height: {inner}px; padding: 0 16px 0 5px; }}")

    def sizeHint(self) -> QSize:
        wide = max(QFontMetrics(self.font()).horizontalAdvance(text) for text in ("every: off", "every 1000"))
        return QSize(wide + 2 * theme.em() + 8, title_height())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, title_height())
