"""Both token streams under each other, aligned by index, the first token that differs marked."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QScrollArea, QSizePolicy, QToolTip, QVBoxLayout, QWidget

from app import theme
from app.format import visible_text
from app.labs.compare_data import Shown, Streams
from app.panels.chips import TokenPainter, chip_styles, colour, plain_tip
from app.panels.title_controls import CopiesTable, Table
from app.theme import Palette
from engine.text import Vocabulary

GAP = 2
NUMBER_EVERY = 5
WIDEST = 14
"""Em that a chip takes at most; the tooltip has the whole token."""


class _Lines(QWidget):
    """Index, stream A, stream B: a column a token, as wide as the wider of both chips.

    `pressed` tells a side, 0 or 1, and a Shown.
    """

    pressed = Signal(int, object)

    def __init__(self) -> None:
        super().__init__()
        self._tokens = TokenPainter()
        self._streams: Streams | None = None
        self._vocabularies: tuple[Vocabulary, Vocabulary] | None = None
        self._columns: list[tuple[int, int]] = []
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setMouseTracking(True)
        self.resize(self.sizeHint())

    def show_streams(self, streams: Streams | None, vocabularies: tuple[Vocabulary, Vocabulary] | None) -> None:
        """Show others; only vocabularies with the same pieces can be aligned, so one paints both."""
        self._streams, self._vocabularies = streams, vocabularies
        if vocabularies is not None:
            self._tokens.set_vocabulary(vocabularies[0])
        self._columns = self._lay() if streams is not None else []
        self.setFixedSize(self.sizeHint())
        self.update()

    def _lay(self) -> list[tuple[int, int]]:
        assert self._streams is not None
        left, columns, most = 4, [], WIDEST * theme.em()
        for at in range(max(len(self._streams.a), len(self._streams.b))):
            both = [shown for shown in self.both(at) if shown is not None]
            width = max(self._tokens.chip_width(shown.token, shown.source, room=most) for shown in both)
            number = QFontMetrics(theme.mono_font(0.77)).horizontalAdvance(str(self._streams.first + at))
            least = number if self._numbered(at) else 0
            columns.append((left, max(width, least)))
            left += columns[-1][1] + GAP
        return columns

    def both(self, at: int) -> tuple[Shown | None, Shown | None]:
        """The tokens of a column."""
        assert self._streams is not None
        a, b = self._streams.a, self._streams.b
        return a[at] if at < len(a) else None, b[at] if at < len(b) else None

    def _numbered(self, at: int) -> bool:
        assert self._streams is not None
        index = self._streams.first + at
        return index % NUMBER_EVERY == 0 or index == self._streams.differs

    def differs_at(self) -> int | None:
        """The left edge of the first difference in pixels."""
        if self._streams is None or self._streams.differs is None:
            return None
        at = self._streams.differs - self._streams.first
        return self._columns[at][0] if 0 <= at < len(self._columns) else None

    def _row_top(self, row: int) -> int:
        return theme.line_height() + row * (self._tokens.height + 3)

    def sizeHint(self) -> QSize:
        width = self._columns[-1][0] + self._columns[-1][1] + 6 if self._columns else 1
        return QSize(width, self._row_top(2) + 1)

    def restyle(self, colours: Palette) -> None:
        self._tokens.restyle(colours)
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), colour(colours.base))
        if self._streams is None:
            return
        seen = event.rect()
        for at, (left, width) in enumerate(self._columns):
            if left + width >= seen.left() and left <= seen.right():
                self._paint_column(painter, colours, at, left, width)

    def _paint_column(self, painter: QPainter, colours: Palette, at: int, left: int, width: int) -> None:
        assert self._streams is not None
        index, line = self._streams.first + at, theme.line_height()
        here = index == self._streams.differs
        if here:
            painter.fillRect(left - 1, 0, width + 2, self.height(), colour(colours.selection))
            painter.fillRect(left - 2, 0, 2, self.height(), colour(colours.accent))
        if self._numbered(at):
            painter.setFont(theme.mono_font(0.77, 600 if here else 400))
            painter.setPen(colour(colours.accent if here else colours.text2))
            painter.drawText(left + 1, 0, width, line, Qt.AlignmentFlag.AlignVCenter, str(index))
        for row, shown in enumerate(self.both(at)):
            if shown is not None:
                self._tokens.draw_chip(painter, left, self._row_top(row), shown.token, shown.source, room=width)

    # The pointer

    def hit(self, place: QPoint) -> tuple[int, Shown] | None:
        """The side and token under a point."""
        row = next((r for r in (0, 1) if 0 <= place.y() - self._row_top(r) < self._tokens.height), None)
        at = next((i for i, (left, width) in enumerate(self._columns) if left <= place.x() < left + width), None)
        if row is None or at is None or (shown := self.both(at)[row]) is None:
            return None
        return row, shown

    def place_of(self, side: int, index: int) -> QPoint:
        """The middle of a token, by its index in the stream."""
        assert self._streams is not None
        left, width = self._columns[index - self._streams.first]
        return QPoint(left + width // 2, self._row_top(side) + self._tokens.height // 2)

    def tip(self, place: QPoint) -> str:
        """What the pointer is on, in words."""
        found = self.hit(place)
        if found is None or self._streams is None or self._vocabularies is None:
            return ""
        side, shown = found
        of = self._streams.b if side else self._streams.a
        label = chip_styles(theme.current())[shown.source].label
        title = f"{'AB'[side]}, token {self._streams.first + of.index(shown)}: {label}"
        where = f"round {shown.round}, position {shown.position + 1}"
        return plain_tip(title, [f"{shown.token} {visible_text(self._vocabularies[side], shown.token)}", where])

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), self.tip(event.pos()), self)
            return True
        return super().event(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        over = self.hit(event.position().toPoint()) is not None
        self.setCursor(Qt.CursorShape.PointingHandCursor if over else Qt.CursorShape.ArrowCursor)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        found = self.hit(event.position().toPoint())
        if event.button() == Qt.MouseButton.LeftButton and found is not None:
            self.pressed.emit(*found)
        else:
            super().mousePressEvent(event)


class _Names(QWidget):
    """A and B at the left of the rows, which scroll."""

    def __init__(self, lines: _Lines) -> None:
        super().__init__()
        self._lines = lines
        self.setFixedWidth(2 * theme.em())

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), colour(colours.base))
        painter.fillRect(self.width() - 1, 0, 1, self.height(), colour(colours.line))
        painter.setFont(theme.ui_font(0.92, 600))
        painter.setPen(colour(colours.text))
        for row, name in enumerate("AB"):
            area = QRect(0, self._lines._row_top(row), self.width() - 2, theme.line_height() + 4)
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter, name)


class StreamPair(CopiesTable):
    """Both streams in a frame that scrolls sideways; Enter presses the first difference.

    Signals: `pressed` (0 for A or 1 for B, a Shown).
    """

    pressed = Signal(int, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.lines = _Lines()
        self._streams: Streams | None = None
        self._vocabularies: tuple[Vocabulary, Vocabulary] | None = None
        self.setAccessibleName("Both token streams")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.area = QScrollArea(self)
        self.area.setFrameShape(QScrollArea.Shape.NoFrame)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.area.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setWidget(self.lines)
        self._names = _Names(self.lines)
        self._names.setParent(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(self._names.width(), 0, 0, 0)
        column.addWidget(self.area)
        self.lines.pressed.connect(self.pressed)
        bar = self.area.horizontalScrollBar().sizeHint().height()
        self.setFixedHeight(self.lines.height() + bar)

    def resizeEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        super().resizeEvent(event)
        self._names.setGeometry(0, 0, self._names.width(), self.height())
        self.to_difference()

    def show_streams(self, streams: Streams | None, vocabularies: tuple[Vocabulary, Vocabulary] | None) -> None:
        """Show others, scrolled to the first difference; None: none."""
        self._streams, self._vocabularies = streams, vocabularies
        self.lines.show_streams(streams, vocabularies)
        self.setAccessibleDescription(self._spoken())
        self.to_difference()

    def to_difference(self) -> None:
        """Scroll the first difference to a third of the width, or to the end without one."""
        bar, left = self.area.horizontalScrollBar(), self.lines.differs_at()
        bar.setRange(0, max(self.lines.width() - self.area.viewport().width(), 0))
        bar.setValue(bar.maximum() if left is None else left - self.area.viewport().width() // 3)

    def _spoken(self) -> str:
        streams = self._streams
        if streams is None:
            return "No tokens can be aligned."
        if streams.differs is None:
            return "No token differs."
        texts = [self._text_at(side, streams.differs - streams.first) or "no token" for side in (0, 1)]
        return f"Token {streams.differs} is the first that differs: A {texts[0]}, B {texts[1]}"

    def _text_at(self, side: int, at: int) -> str:
        shown = self.lines.both(at)[side]
        if shown is None or self._vocabularies is None:
            return ""
        return visible_text(self._vocabularies[side], shown.token)

    def table(self) -> Table:
        rows = [["index", "a", "a text", "a source", "a round", "b", "b text", "b source", "b round"]]
        if self._streams is None:
            return rows
        for at in range(max(len(self._streams.a), len(self._streams.b))):
            cells = [str(self._streams.first + at)]
            for side, shown in enumerate(self.lines.both(at)):
                cells += (
                    ["", "", "", ""]
                    if shown is None
                    else [str(shown.token), self._text_at(side, at), shown.source, str(shown.round)]
                )
            rows.append(cells)
        return rows

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self.lines.restyle(colours)
        self._names.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        bar = self.area.horizontalScrollBar()
        steps = {Qt.Key.Key_Left: -4 * theme.em(), Qt.Key.Key_Right: 4 * theme.em()}
        if event.key() in steps:
            bar.setValue(bar.value() + steps[Qt.Key(event.key())])
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.press_difference()
        else:
            super().keyPressEvent(event)

    def press_difference(self) -> None:
        """As if the first difference had been pressed, on A's side, or B's where A had ended."""
        if self._streams is None or self._streams.differs is None:
            return
        both = self.lines.both(self._streams.differs - self._streams.first)
        for side, shown in enumerate(both):
            if shown is not None:
                self.pressed.emit(side, shown)
                return
