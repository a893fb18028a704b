"""Toolbar buttons that follow an action: icon, words and key, each of which can give way to a narrow window."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QAction, QColor, QFont, QFontMetrics, QIcon, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QStyle, QStyleOptionToolButton, QToolButton, QWidget

from app import icons, theme
from app.actions import BY_NAME, key_text

ICON, WORDS, FULL = range(3)
_PAD = 8
_GAP = 6


class ActionButton(QToolButton):
    """A button for one action of the table, shown as FULL (icon, words, key), WORDS (icon, words) or ICON."""

    def __init__(self, action: QAction, *, words: str = "", key: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setDefaultAction(action)
        self._spec = BY_NAME[action.objectName()]
        self._words, self._key = words, key_text(self._spec) if key else ""
        self._size = FULL
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setAccessibleName(self._spec.text)
        self.setFixedHeight(theme.line_height() + 10)

    def set_words(self, words: str) -> None:
        """Other words, for an action that means another thing now (Run, Continue)."""
        if words != self._words:
            self._words = words
            self.setAccessibleName(words)
            self.updateGeometry()
            self.update()

    def set_size(self, size: int) -> None:
        """FULL, WORDS or ICON; a button without words is always an icon."""
        if size != self._size:
            self._size = size
            self.updateGeometry()
            self.update()

    @property
    def _shown_words(self) -> str:
        return self._words if self._size >= WORDS else ""

    @property
    def _shown_key(self) -> str:
        return self._key if self._size == FULL and self._words else ""

    def _word_font(self) -> QFont:
        return theme.ui_font(1.0, 600 if self.property("primary") else 400)

    def width_for(self, size: int) -> int:
        """Width in pixels at a size."""
        words = self._words if size >= WORDS else ""
        key = self._key if size == FULL and self._words else ""
        width = self._icon_side()
        if words:
            width += _GAP + QFontMetrics(self._word_font()).horizontalAdvance(words)
        if key:
            width += _GAP + QFontMetrics(theme.mono_font(0.85)).horizontalAdvance(key)
        return width + 2 * (_PAD if words else 5)

    def _icon_side(self) -> int:
        return round(theme.em() * 1.1)

    def sizeHint(self) -> QSize:
        return QSize(self.width_for(self._size), theme.line_height() + 10)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        option = QStyleOptionToolButton()
        self.initStyleOption(option)
        option.text, option.icon = "", QIcon()
        painter = QPainter(self)
        self.style().drawComplexControl(QStyle.ComplexControl.CC_ToolButton, option, painter, self)
        colours, enabled = theme.current(), self.isEnabled()
        primary = bool(self.property("primary"))
        ink = colours.disabled if not enabled else colours.on_accent if primary else colours.text
        side, left = self._icon_side(), _PAD if self._shown_words else 5
        if self._spec.icon is not None:
            picture = icons.icon(self._spec.icon, ink, side)
            top = (self.height() - side) // 2
            picture.paint(painter, QRect(left, top, side, side))
        left += side + _GAP
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        if self._shown_words:
            painter.setFont(self._word_font())
            painter.setPen(QColor(ink))
            painter.drawText(QRect(left, 0, self.width(), self.height()), middle, self._shown_words)
            left += painter.fontMetrics().horizontalAdvance(self._shown_words) + _GAP
        if self._shown_key:
            painter.setFont(theme.mono_font(0.85))
            painter.setPen(QColor(ink if primary or not enabled else colours.text2))
            painter.drawText(QRect(left, 0, self.width(), self.height()), middle, self._shown_key)


class WorkspaceSwitch(QWidget):
    """The workspaces side by side, one of them chosen: checkable actions as one control."""

    def __init__(self, actions: Sequence[QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Workspace")
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(0)
        self.buttons: list[QToolButton] = []
        for at, action in enumerate(actions):
            button = QToolButton()
            button.setDefaultAction(action)
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            button.setAccessibleName(f"Workspace: {action.text()}")
            button.setFixedHeight(theme.line_height() + 10)
            theme.mark(button, "segment", True)
            button.setStyleSheet(_segment_corners(at == 0, at == len(actions) - 1))
            self.buttons.append(button)
            line.addWidget(button)


def _segment_corners(first: bool, last: bool) -> str:
    rules = ["padding: 0 9px;"]
    rules += ["border-top-left-radius: 4px; border-bottom-left-radius: 4px;"] if first else []
    rules += ["border-top-right-radius: 4px; border-bottom-right-radius: 4px;"] if last else ["border-right: none;"]
    return f"QToolButton {{ {' '.join(rules)} }}"
