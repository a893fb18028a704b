"""The amber banner: one line for each thing that isn't what was asked, with the button that mends it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app import icons, theme
from app.notices import Notice

MOST = 3
_MORE = "more"


class _Line(QWidget):
    def __init__(self, notice: Notice, banner: Banner) -> None:
        super().__init__(banner)
        self._banner = banner
        self.setFixedHeight(theme.line_height() + 12)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 2, 10, 3)
        layout.addStretch(1)
        self.button: QPushButton | None = None
        if notice.button:
            self.button = QPushButton(notice.button)
            self.button.setStyleSheet(f"min-height: {theme.line_height() + 3}px;")
            self.button.clicked.connect(self._press)
            layout.addWidget(self.button)
        self.say(notice)

    def say(self, notice: Notice) -> None:
        """Say the same in other words; the button stays as it is, also while it is held down."""
        self.notice = notice
        self.setAccessibleName(notice.text)
        # The whole sentence, also where the line is too narrow for it.
        self.setToolTip("In words:\n" + notice.text)
        if self.button is not None:
            self.button.setAccessibleDescription(notice.text)
        self.update()

    def _press(self) -> None:
        self._banner.press(self.notice)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.height())

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), QColor(colours.banner))
        painter.fillRect(0, self.height() - 1, self.width(), 1, QColor(colours.banner_line))
        side = theme.line_height()
        painter.drawPixmap(
            10,
            (self.height() - side) // 2,
            icons.pixmap("warning", colours.text, side, self.devicePixelRatioF()),
        )
        painter.setPen(QColor(colours.text))
        left = 10 + side + 8
        right = self.button.geometry().left() - 10 if self.button is not None else self.width() - 10
        head, colon, rest = self.notice.text.partition(": ")
        middle = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        for text, weight in ((head + colon, 600), (rest, 400)) if colon else ((self.notice.text, 400),):
            painter.setFont(theme.ui_font(1.0, weight))
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, max(right - left, 0))
            painter.drawText(QRect(left, 0, max(right - left, 0), self.height()), middle, shown)
            left += painter.fontMetrics().horizontalAdvance(shown)


class Banner(QWidget):
    """Hidden while there is nothing to say. Signals: `pressed`, the `act` of a notice."""

    pressed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Notices")
        self._all: tuple[Notice, ...] = ()
        self._hidden: set[str] = set()
        self._lines: list[_Line] = []
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(0)
        theme.notifier.changed.connect(self.update)
        self.hide()

    def show_notices(self, notices: Sequence[Notice]) -> None:
        """Show these; the hidden ones stay hidden until they have gone away once."""
        self._all = tuple(notices)
        self._hidden &= {notice.identity for notice in notices}
        self._refresh()

    def notices(self) -> list[Notice]:
        """What stands there now."""
        return [line.notice for line in self._lines]

    def press(self, notice: Notice) -> None:
        """What a line's button does."""
        if notice.act == "hide":
            self._hidden.add(notice.identity)
            self._refresh()
        else:
            self.pressed.emit(notice.act)

    def _refresh(self) -> None:
        wanted = [notice for notice in self._all if notice.identity not in self._hidden]
        if len(wanted) > MOST:
            rest = wanted[MOST - 1 :]
            wanted = [
                *wanted[: MOST - 1],
                Notice(f"{len(rest)} more: " + " ".join(n.text for n in rest), _MORE, "", ""),
            ]
        if wanted == self.notices():
            return
        if [_shape(notice) for notice in wanted] == [_shape(notice) for notice in self.notices()]:
            for line, notice in zip(self._lines, wanted, strict=True):
                line.say(notice)
            return
        for line in self._lines:
            self._layout.removeWidget(line)
            line.hide()
            line.deleteLater()
        self._lines = [_Line(notice, self) for notice in wanted]
        for line in self._lines:
            self._layout.addWidget(line)
        self.setVisible(bool(wanted))


def _shape(notice: Notice) -> tuple[str, str, str]:
    return notice.identity, notice.button, notice.act
