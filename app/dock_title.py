"""The title bar of a dock: its name, what it shows in grey, the panel's own controls, float and close."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QDockWidget, QLabel, QSizePolicy, QToolButton, QWidget

from app import icons, theme

LEFT, RIGHT, GAP = 8, 6, 6
LEAST_NAME = 7
"""Room for a name in em that a dock is never narrower than."""
APART = 4
"""The buttons stand close together, a little apart from the panel's own controls."""


class ElidedLabel(QWidget):
    """One line of plain text that gives way: it elides at its right end, then disappears. Its owner places it."""

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
            self.update()

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        # The advance is rounded, and eliding minds the fraction.
        return QSize(metrics.horizontalAdvance(self._text) + 1, metrics.height())

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
    It places them by itself: a layout would have the whole window laid out anew with every text that changes.
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
        self._controls: list[QWidget] = list(panel.title_widgets()) if hasattr(panel, "title_widgets") else []
        for control in self._controls:
            control.setParent(self)
        self._hints: dict[QWidget, tuple[QSize, int]] = {}
        self._least = 0
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
        if name != self._name.text():
            self._name.setText(name)
            self._hints[self._name] = (self._name.sizeHint(), 0)
        self._context.set_text(self._panel.title_context() if hasattr(self._panel, "title_context") else "")
        self._place()

    def _place(self) -> None:
        """From the right: buttons, controls, and in what is left the name and the context.

        Where the context has too little room, those controls give way that can be narrower than they want to be;
        where the name has, they go.
        """
        if not self._least:
            self._measure()
        right = self.width() - RIGHT
        for button in (self._close, self._float):
            right = self._put(button, right, button.width()) - GAP
        controls = [control for control in self._controls if not control.isHidden()]
        widths = [self._hints[control][0].width() for control in controls]
        name = self._hints[self._name][0].width()
        context = self._context.sizeHint().width()
        lacking = LEFT + name + GAP + context + sum(widths) + GAP * len(widths) + APART - right
        for at, control in enumerate(controls):
            less = min(max(widths[at] - self._hints[control][1], 0), max(lacking, 0))
            widths[at] -= less
            lacking -= less
            if less and lacking > context:
                lacking -= widths[at]
                widths[at] = 0
        right -= APART
        for control, width in zip(reversed(controls), reversed(widths), strict=True):
            right = self._put(control, right, width) - GAP
        self._name.setGeometry(LEFT, 0, max(min(name, right - LEFT), 0), self.height())
        left = LEFT + name + GAP
        self._context.setGeometry(left, 0, max(right - left, 0), self.height())

    def _measure(self) -> None:
        """Ask the parts for their sizes, which takes long where a style sheet has a say in it."""
        fixed = (self._name, self._float, self._close, *self._controls)
        self._hints = {part: (part.sizeHint(), part.minimumSizeHint().width()) for part in fixed}
        # Without the name, whose numbers change: else every round would be a reason to lay the window out.
        parts = (self._float, self._close, *self._controls)
        least = LEFT + LEAST_NAME * theme.em() + sum(self._hints[part][1] + GAP for part in parts) + APART
        if least != self._least:
            self._least = least
            self.updateGeometry()

    def _put(self, control: QWidget, right: int, width: int) -> int:
        """Place something in the middle of the height, up to a right edge; gives its left edge."""
        height = min(self._hints[control][0].height(), self.height())
        if control.minimumHeight() == control.maximumHeight():
            height = control.minimumHeight()
        control.setGeometry(right - width, (self.height() - height) // 2, width, height)
        return right - width

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._place()

    def event(self, event: QEvent) -> bool:
        # A title that isn't shown hears nothing of what its parts want.
        if event.type() in (QEvent.Type.LayoutRequest, QEvent.Type.Show):
            self._measure()
            self._place()
        return super().event(event)

    def restyle(self) -> None:
        """Draw the buttons in the palette in use."""
        ink, side = theme.current().text2, round(theme.em() * 0.92)
        self._float.setIcon(icons.icon("float", ink, side))
        self._close.setIcon(icons.icon("close", ink, side))
        self.update()

    def sizeHint(self) -> QSize:
        # QDockWidget takes the title's height from here alone.
        return QSize(self._least, self.minimumHeight())

    def minimumSizeHint(self) -> QSize:
        return QSize(self._least, self.minimumHeight())

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), QColor(colours.window))
        painter.fillRect(0, self.height() - 1, self.width(), 1, QColor(colours.line))
