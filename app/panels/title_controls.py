"""Small controls that fit into a dock's title bar, and the copying of a panel's numbers as a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QFontMetrics,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
)
from PySide6.QtWidgets import QButtonGroup, QComboBox, QHBoxLayout, QLabel, QMenu, QSizePolicy, QToolButton, QWidget

from app import theme
from app.panels.chips import colour

Table = Sequence[Sequence[str]]


def title_height() -> int:
    """Height of a control in a dock's title."""
    return theme.line_height() + 2


class TitleCombo(QComboBox):
    """A combo box for a title bar; `chosen` tells the data of an entry that the user took."""

    chosen = Signal(object)

    def __init__(self, name: str, tip: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setToolTip(tip)
        self.setFont(theme.ui_font(0.92))
        inner = title_height() - 2
        self.setStyleSheet(f"QComboBox {{ min-height: {inner}px; max-height: {inner}px; padding: 0 17px 0 6px; }}")
        self.activated.connect(self._on_activated)

    def set_entries(self, entries: Iterable[tuple[str, object]], current: object) -> None:
        """Offer (text, data) entries, the one with `current` data chosen; nothing happens if they are there."""
        wanted = list(entries)
        if wanted != [(self.itemText(i), self.itemData(i)) for i in range(self.count())]:
            self.clear()
            for text, data in wanted:
                self.addItem(text, data)
            widest = max((self._text_width(text) for text, _ in wanted), default=0)
            self.view().setMinimumWidth(widest + 2 * theme.em())
        self.setCurrentIndex(next((i for i, (_, data) in enumerate(wanted) if data == current), 0))
        self.updateGeometry()

    def _text_width(self, text: str) -> int:
        return QFontMetrics(theme.ui_font(0.92)).horizontalAdvance(text)

    def sizeHint(self) -> QSize:
        """As wide as the choice itself: a title has no room for the widest one."""
        return QSize(self._text_width(self.currentText()) + 3 * theme.em() + 12, title_height())

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def _on_activated(self, index: int) -> None:
        self.chosen.emit(self.itemData(index))


class Segments(QWidget):
    """Two or three words side by side, one of them chosen; `chosen` tells its index when the user takes it."""

    chosen = Signal(int)

    def __init__(self, name: str, words: Sequence[str], tips: Sequence[str]) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self._group = QButtonGroup(self)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for index, (word, tip) in enumerate(zip(words, tips, strict=True)):
            button = QToolButton()
            button.setText(word)
            button.setCheckable(True)
            button.setFont(theme.ui_font(0.92))
            button.setToolTip(tip)
            button.setAccessibleName(f"{name}: {word}")
            button.setFixedHeight(title_height())
            theme.mark(button, "segment", True)
            button.setStyleSheet(self._corners(index, len(words)))
            self._group.addButton(button, index)
            layout.addWidget(button)
        self._group.buttons()[0].setChecked(True)
        self._group.idClicked.connect(self.chosen)

    @staticmethod
    def _corners(index: int, count: int) -> str:
        rules = ["padding: 0 6px;"]
        if index == 0:
            rules.append("border-top-left-radius: 4px; border-bottom-left-radius: 4px;")
        if index == count - 1:
            rules.append("border-top-right-radius: 4px; border-bottom-right-radius: 4px;")
        if index < count - 1:
            rules.append("border-right: none;")
        return f"QToolButton {{ {' '.join(rules)} }}"

    def set_current(self, index: int) -> None:
        """Show another choice, without telling."""
        self._group.button(index).setChecked(True)

    def current(self) -> int:
        """Index of the choice."""
        return self._group.checkedId()


class SideLabel(QLabel):
    """A plain grey line at the right of a title; it elides when there is no room."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setFont(theme.ui_font(0.92))
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, super().minimumSizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setPen(colour(theme.current().text2))
        painter.setFont(self.font())
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.width())
        flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine
        painter.drawText(self.rect(), flags, text)


class Swatches(QWidget):
    """The legend of a title: filled squares with words, or with their first letters where it has to give way."""

    def __init__(self, entries: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self._entries = entries
        self.setAccessibleName(", ".join(word for _, word in entries))

    def _side(self) -> int:
        return round(theme.em() * 0.72)

    def _width(self, words: Iterable[str]) -> int:
        metrics = QFontMetrics(theme.ui_font(0.92))
        return sum(self._side() + 5 + metrics.horizontalAdvance(word) + 8 for word in words)

    def sizeHint(self) -> QSize:
        return QSize(self._width(word for _, word in self._entries), title_height())

    def minimumSizeHint(self) -> QSize:
        return QSize(self._width(word[0] for _, word in self._entries), title_height())

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.width() < self.minimumSizeHint().width() - 8:
            return
        whole = self.width() >= self.sizeHint().width() - 8
        colours, painter, side = theme.current(), QPainter(self), self._side()
        painter.setFont(theme.ui_font(0.92))
        x = 0 if whole else max(self.width() - self.minimumSizeHint().width(), 0)
        for token, words in self._entries:
            word = words if whole else words[0]
            painter.fillRect(x, (self.height() - side) // 2, side, side, colour(getattr(colours, token)))
            painter.setPen(colour(colours.text))
            area = self.rect().adjusted(x + side + 5, 0, 0, 0)
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine, word)
            x += side + 5 + painter.fontMetrics().horizontalAdvance(word) + 8


def shelve(owner: QWidget, *controls: QWidget) -> None:
    """Keep controls in an unseen child of their panel until a dock's title takes them over; they die with it."""
    shelf = QWidget(owner)
    shelf.hide()
    for control in controls:
        control.setParent(shelf)


def to_clipboard(table: Table) -> None:
    """Put a table on the clipboard as tab-separated lines."""
    QGuiApplication.clipboard().setText("\n".join("\t".join(row) for row in table))


class CopiesTable(QWidget):
    """A widget whose numbers can be copied: Ctrl+C or its menu; subclasses give `table()`."""

    def table(self) -> Table:
        """All numbers shown, with a header line, in full precision."""
        raise NotImplementedError

    def copy(self) -> None:
        """Copy the table."""
        to_clipboard(self.table())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.open_menu(event.globalPos())

    def open_menu(self, place: QPoint) -> None:
        """The menu with the copy action, at a place of the screen."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Copy table", self.copy)
        menu.popup(place)


def exact(value: float | int | None) -> str:
    """A number for a copied table: nine digits, which tell any two float32 apart; empty where there is none."""
    if value is None or value != value:
        return ""
    return str(value) if isinstance(value, int) else f"{float(value):.9g}"


def draw_sentence(painter: QPainter, widget: QWidget, text: str) -> None:
    """An empty panel's one sentence, in the middle."""
    painter.setFont(theme.ui_font())
    painter.setPen(colour(theme.current().text2))
    area = widget.rect().adjusted(14, 0, -14, 0)
    painter.drawText(area, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, text)
