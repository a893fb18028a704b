"""The title bar of a dock: its name, what it shows in grey, the panel's own controls, float and close."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QDockWidget, QHBoxLayout, QLabel, QSizePolicy, QToolButton, QWidget

from app import icons, theme


class ElidedLabel(QWidget):
    """One line of plain text that gives way: it elides at its right end, then disappears."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = ""
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)

    def text(self) -> str:
        return self._text

    def set_text(self, text: str) -> None:
        if text != self._text:
            self._text = text
            self.setAccessibleName(text)
            self.updateGeometry()
            self.update()

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        return QSize(metrics.horizontalAdvance(self._text), metrics.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.fontMetrics().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        metrics = self.fontMetrics()
        text = metrics.elidedText(self._text, Qt.TextElideMode.ElideRight, self.width())
        # A mere ellipsis says nothing.
        if len(text) < 4 and text != self._text:
            return
        painter = QPainter(self)
        painter.setPen(QColor(theme.current().text2))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)


class DockTitle(QWidget):
    """Title bar of one panel's dock. The panel gives `title_context()` and `title_changed`; it may also give

    `title_name()`: another name than the dock's own; `title_widgets()`: controls that stand at the right.
    """

    def __init__(self, dock: QDockWidget, panel: Any) -> None:
        super().__init__(dock)
        self._dock, self._panel = dock, panel
        self._name = QLabel(dock.windowTitle(), self)
        self._name.setTextFormat(Qt.TextFormat.PlainText)
        self._name.setFont(theme.ui_font(0.92, 600))
        self._context = ElidedLabel(self)
        self._context.setFont(theme.ui_font(0.92))
        self._float = self._button("float", "Take this panel out of the window, or put it back")
        self._close = self._button("close", "Hide this panel; Window in the menu brings it back")
        self._float.clicked.connect(self._toggle_float)
        self._close.clicked.connect(dock.close)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(8, 0, 6, 0)
        layout.setSpacing(8)
        layout.addWidget(self._name)
        layout.addWidget(self._context, 1)
        if hasattr(panel, "title_widgets"):
            for control in panel.title_widgets():
                layout.addWidget(control)
        # The buttons stand close together, a little apart from the panel's own controls.
        layout.addSpacing(4)
        layout.addWidget(self._float)
        layout.setSpacing(6)
        layout.addWidget(self._close)
        self.setFixedHeight(theme.line_height() + 6)
        if hasattr(panel, "title_changed"):
            panel.title_changed.connect(self._refresh)
        theme.notifier.changed.connect(self.restyle)
        self.restyle()
        self._refresh()

    def _button(self, name: str, about: str) -> QToolButton:
        button = QToolButton(self)
        button.setObjectName(name)
        button.setToolTip(about)
        button.setAccessibleName(f"{self._dock.windowTitle()}: {about}")
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        side = round(theme.em() * 0.92)
        button.setIconSize(QSize(side, side))
        button.setFixedSize(side + 4, side + 4)
        button.setStyleSheet("padding: 0;")
        return button

    def _toggle_float(self) -> None:
        self._dock.setFloating(not self._dock.isFloating())

    def _refresh(self) -> None:
        name = getattr(self._panel, "title_name", self._dock.windowTitle)()
        self._name.setText(name)
        self._context.set_text(self._panel.title_context() if hasattr(self._panel, "title_context") else "")

    def restyle(self) -> None:
        """Draw the buttons in the palette in use."""
        ink, side = theme.current().text2, round(theme.em() * 0.92)
        self._float.setIcon(icons.icon("float", ink, side))
        self._close.setIcon(icons.icon("close", ink, side))
        self.update()

    def sizeHint(self) -> QSize:
        # QDockWidget takes the title's height from here alone.
        return QSize(super().sizeHint().width(), theme.line_height() + 6)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), QColor(colours.window))
        painter.fillRect(0, self.height() - 1, self.width(), 1, QColor(colours.line))
