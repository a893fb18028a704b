"""Rows of one bar or of paired bars with their numbers: the painter behind every list of probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFontMetrics,
    QHelpEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QToolTip, QWidget

from app import theme
from app.panels.chips import TokenPainter, colour, draw_glyph, glyph_size, plain_tip
from app.panels.title_controls import CopiesTable, Table, draw_sentence
from app.theme import Palette
from app.view import View
from engine.rounds import Distributions, Round
from engine.text import Vocabulary

LEAST_LOG = 1e-12
"""Values below count as 0 on a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class BarRow:
    """One row. `values`: one a bar, None without one; `cells`: the texts of the number columns.

    `token`: the label is this token; else `label` is. `tint` lies behind the row, `note` stands in or behind the
    first bar. `hollow`: bars in outline, for a sum. `pinned`: stays at the bottom when rows scroll. `marked`:
    is moved up rather than left out when not all rows fit.
    """

    values: tuple[float | None, ...]
    cells: tuple[str, ...]
    label: str = ""
    token: int | None = None
    glyph: str | None = None
    glyph_ink: str = ""
    tint: str | None = None
    note: str = ""
    hollow: bool = False
    pinned: bool = False
    marked: bool = False
    tip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BarTable:
    """Everything that is painted. `inks`: colour of each bar of a row; `outlined`: which of them are drawn hollow.

    `scale_to`: right end of the axis, None to fit the values. `sentence`: shown instead of rows. `foot`
    stands below the rows where there is room. `copied`: what copying gives.
    """

    rows: tuple[BarRow, ...] = ()
    columns: tuple[str, ...] = ()
    inks: tuple[str, ...] = ()
    outlined: tuple[bool, ...] = ()
    log: bool = False
    scale_to: float | None = None
    sentence: str = ""
    foot: str = ""
    foot_bad: bool = False
    copied: Table = ()


@dataclass(frozen=True, slots=True)
class Scale:
    """A bar axis: `low` is 0 on a linear axis, a power of ten on a logarithmic one."""

    low: float
    high: float
    log: bool
    ticks: tuple[float, ...] = field(default=())

    def share(self, value: float | None) -> float:
        """Length of a value's bar as a share of the axis; 0 for what has no bar."""
        if value is None or not math.isfinite(value) or value <= 0:
            return 0.0
        if not self.log:
            return min(value / self.high, 1.0)
        # A bar at the axis' low end keeps a sliver, so that it differs from 0.
        span = math.log10(self.high / self.low)
        return min(max(math.log10(value / self.low) / span, 0.004), 1.0) if value >= LEAST_LOG else 0.0


def make_scale(values: Sequence[float | None], log: bool, scale_to: float | None = None) -> Scale:
    """The axis for these values; zeros and missing ones never break it."""
    known = [v for v in values if v is not None and math.isfinite(v) and v > 0]
    if log:
        seen = [v for v in known if v >= LEAST_LOG]
        top = 10.0 ** math.ceil(math.log10(max(seen)) - 1e-9) if seen else 1.0
        low = 10.0 ** math.floor(math.log10(min(seen))) if seen else 1e-4
        low = min(low, top / 10)
        decades = round(math.log10(top / low))
        every = max(math.ceil(decades / 6), 1)
        return Scale(low, top, True, tuple(top / 10.0**d for d in range(0, decades + 1, every))[::-1])
    high = scale_to or (max(known) * 1.02 if known else 1.0)
    step = 10.0 ** math.floor(math.log10(high))
    step = next(step * f for f in (0.1, 0.2, 0.5, 1.0, 2.0, 5.0) if high / (step * f) <= 5)
    return Scale(0.0, high, False, tuple(i * step for i in range(int(high / step + 1e-9) + 1)))


def tick_text(value: float, log: bool) -> str:
    """`0.2`, `0`; on a logarithmic axis `1e-4` below a thousandth."""
    if value == 0:
        return "0"
    text = f"{value:.6g}"
    return f"1e{round(math.log10(value))}" if log and value < 0.001 - 1e-12 else text


MOST_ROWS = 200


class BarOptions(QObject):
    """How many tokens p, q and the residual show, and on which axis: one choice for all panels of a view."""

    changed = Signal()

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.top_n: int | None = 10
        self.log = False

    @staticmethod
    def for_view(view: View) -> BarOptions:
        """The view's options, made by whoever asks first."""
        found = view.findChild(BarOptions)
        return found if isinstance(found, BarOptions) else BarOptions(view)

    @property
    def most(self) -> int:
        """How many tokens to show: a whole vocabulary would take seconds, and its rest is one row."""
        return MOST_ROWS if self.top_n is None else self.top_n

    def set_top_n(self, top_n: int | None) -> None:
        """Show so many tokens; None: all that were recorded, up to MOST_ROWS."""
        if top_n != self.top_n:
            self.top_n = top_n
            self.changed.emit()

    def set_log(self, log: bool) -> None:
        """Use a logarithmic axis, or a linear one."""
        if log != self.log:
            self.log = log
            self.changed.emit()


class BarRows(CopiesTable):
    """Paints a BarTable: header axis, rows with bars and numbers. Rows that don't fit scroll by wheel and keys."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._table = BarTable()
        self._columns_width: int | None = None
        self._scale = make_scale((), False)
        self._offset = 0
        self._plain = TokenPainter(0.92)
        self._bold = TokenPainter(0.92, 700)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    # Content

    def set_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        """The vocabulary that the rows' tokens belong to."""
        self._plain.set_vocabulary(vocabulary)
        self._bold.set_vocabulary(vocabulary)

    def set_table(self, table: BarTable, *, keep_place: bool = False) -> None:
        """Show another table, from its top unless `keep_place`."""
        if table == self._table:
            return
        self._table = table
        self._columns_width = None
        self._scale = make_scale([v for row in table.rows for v in row.values], table.log, table.scale_to)
        self._offset = min(self._offset, self._last_offset()) if keep_place else 0
        self.setAccessibleDescription(
            table.sentence or "; ".join(f"{self._label(r)}: {' '.join(r.cells)}" for r in table.rows[:8])
        )
        self.update()

    def content(self) -> BarTable:
        """What is shown."""
        return self._table

    def scale(self) -> Scale:
        """The axis in use."""
        return self._scale

    def table(self) -> Table:
        return self._table.copied

    def restyle(self, colours: Palette) -> None:
        """Use other colours; the rows' own come with the next `set_table`."""
        self._plain.restyle(colours)
        self._bold.restyle(colours)
        self.update()

    def _label(self, row: BarRow) -> str:
        return row.label or f"token {row.token}"

    # Geometry

    @property
    def header_height(self) -> int:
        """Height of the axis above the rows."""
        return theme.line_height() + 2

    @property
    def row_height(self) -> int:
        """Height of a row: a line, and a little more where the panel is roomy."""
        least = theme.line_height()
        rows = max(len(self._table.rows), 1)
        return min(max((self.height() - self.header_height - 2) // rows, least), least + 4)

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 40, self.header_height + 11 * theme.line_height() + 6)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 18, self.header_height + 4 * theme.line_height())

    def _capacity(self) -> int:
        """Rows that fit below the header."""
        return max((self.height() - self.header_height) // self.row_height, 1)

    def _split(self) -> tuple[list[BarRow], list[BarRow]]:
        rows = self._table.rows
        return [r for r in rows if not r.pinned], [r for r in rows if r.pinned]

    def _room(self) -> int:
        """Rows that scroll and can be seen at once."""
        loose, pinned = self._split()
        if len(loose) + len(pinned) <= self._capacity():
            return len(loose)
        # One line is for the hint.
        return max(self._capacity() - len(pinned) - 1, 1)

    def _last_offset(self) -> int:
        return max(len(self._split()[0]) - self._room(), 0)

    def visible_rows(self) -> tuple[list[BarRow], str]:
        """The rows to paint from the top, pinned ones last, and the hint that some are left out, or ""."""
        loose, pinned = self._split()
        room = self._room()
        hidden = len(loose) - room
        if hidden <= 0:
            return [*loose, *pinned], ""
        chosen = loose[self._offset : self._offset + room]
        if self._offset == 0:
            missing = [r for r in loose[room:] if r.marked][:room]
            for row in reversed([r for r in chosen if not r.marked][-len(missing) :] if missing else []):
                chosen.remove(row)
            chosen += missing
        noun = "row" if hidden == 1 else "rows"
        return [*chosen, *pinned], f"+{hidden} more {noun}: scroll, or enlarge the panel"

    def _bars_left(self) -> int:
        em = theme.em()
        return min(max(round(self.width() * 0.16), 8 * em), 13 * em)

    def _column_width(self) -> int:
        if self._columns_width is None:
            metrics, table = QFontMetrics(theme.mono_font(0.92, 700)), self._table
            cells = (*table.columns, *(cell for row in table.rows for cell in row.cells))
            widest = max(map(len, cells), default=6)
            self._columns_width = metrics.horizontalAdvance("0") * max(widest, 6) + theme.em()
        return self._columns_width

    def _bars_right(self) -> int:
        numbers = len(self._table.columns) * self._column_width()
        return max(self.width() - numbers - 8, self._bars_left() + 1)

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), colour(colours.base))
        if self._table.sentence:
            draw_sentence(painter, self, self._table.sentence)
            return
        rows, hint = self.visible_rows()
        height = self.row_height
        self._paint_tints(painter, rows, height, bool(hint))
        self._paint_axis(painter, colours, len(rows) + bool(hint))
        for index, row in enumerate(rows):
            self._paint_row(painter, colours, row, self._top_of(index, rows, bool(hint)), height)
        bottom = self.header_height + (len(rows) + bool(hint)) * height
        if hint:
            top = self._top_of(sum(not r.pinned for r in rows) - 1, rows, True) + height
            self._paint_line(painter, colours.text2, hint, top)
        if self._table.foot and self.height() - bottom >= theme.line_height():
            ink = colours.danger if self._table.foot_bad else colours.text2
            self._paint_line(painter, ink, self._table.foot, bottom + 1)

    def _top_of(self, index: int, rows: list[BarRow], hint: bool) -> int:
        below_hint = hint and rows[index].pinned
        return self.header_height + (index + below_hint) * self.row_height

    def _paint_line(self, painter: QPainter, ink: str, text: str, top: int) -> None:
        painter.setFont(theme.ui_font(0.85))
        painter.setPen(colour(ink))
        area = QRect(self._bars_left() + 2, top, self.width() - self._bars_left() - 10, theme.line_height())
        shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine, shown)

    def _paint_tints(self, painter: QPainter, rows: list[BarRow], height: int, hint: bool) -> None:
        for index, row in enumerate(rows):
            if row.tint is not None:
                painter.fillRect(0, self._top_of(index, rows, hint), self.width(), height, colour(row.tint))

    def _paint_axis(self, painter: QPainter, colours: Palette, lines: int) -> None:
        left, right, header = self._bars_left(), self._bars_right(), self.header_height
        bottom = min(header + lines * self.row_height, self.height())
        painter.setFont(theme.mono_font(0.77))
        metrics = painter.fontMetrics()
        span = right - left
        taken = -math.inf
        for tick in self._scale.ticks:
            share = 0.0 if tick <= self._scale.low else self._scale.share(tick)
            x = left + round(share * span)
            painter.fillRect(x, header - 2, 1, bottom - header + 2, colour(colours.grid))
            text = tick_text(tick, self._table.log)
            width = metrics.horizontalAdvance(text)
            place = min(x - width // 2, right - width)
            if place > taken:
                painter.setPen(colour(colours.text2))
                painter.drawText(QRect(place, 0, width + 1, header - 2), Qt.AlignmentFlag.AlignVCenter, text)
                taken = place + width + 6
        painter.fillRect(left, header - 2, 1, bottom - header + 2, colour(colours.line))
        if self._table.log and any(v == 0 for row in self._table.rows for v in row.values):
            painter.setPen(colour(colours.text2))
            area = QRect(0, 0, left - round(theme.em() * 1.2), header - 2)
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, "0: no bar")
        painter.setFont(theme.mono_font(0.85))
        painter.setPen(colour(colours.text2))
        for column, name in enumerate(self._table.columns):
            flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(self._cell(column, 0, header - 2), flags, name)

    def _cell(self, column: int, top: int, height: int) -> QRect:
        width = self._column_width()
        return QRect(self.width() - 8 - (len(self._table.columns) - column) * width, top, width, height)

    def _paint_row(self, painter: QPainter, colours: Palette, row: BarRow, top: int, height: int) -> None:
        left, bold = self._bars_left(), row.tint is not None
        if row.pinned:
            painter.fillRect(0, top, self.width(), 1, colour(colours.grid))
        if row.glyph is not None:
            draw_glyph(painter, 12, top + (height - glyph_size()) / 2, row.glyph, row.glyph_ink)
        tokens = self._bold if bold else self._plain
        font = theme.mono_font(0.92, 700 if bold else 400)
        baseline = top + (height - tokens.metrics.height()) / 2 + tokens.metrics.ascent()
        room = left - 8 - (12 + glyph_size() + 4 if row.glyph is not None else 6)
        if row.token is not None:
            width = min(tokens.text_width(row.token), room)
            tokens.draw_text(painter, left - 8 - width, round(baseline), row.token, colours.text, room)
        else:
            painter.setFont(font)
            painter.setPen(colour(colours.text if not row.hollow else colours.text2))
            label = painter.fontMetrics().elidedText(row.label, Qt.TextElideMode.ElideMiddle, room)
            flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(QRect(left - 8 - room, top, room, height), flags, label)
        self._paint_bars(painter, colours, row, top, height)
        painter.setFont(font)
        painter.setPen(colour(colours.text))
        for column, text in enumerate(row.cells):
            flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(self._cell(column, top, height), flags, text)

    def _paint_bars(self, painter: QPainter, colours: Palette, row: BarRow, top: int, height: int) -> None:
        bars = [(v, i) for i, v in enumerate(row.values) if v is not None]
        if not bars:
            return
        left, span = self._bars_left(), self._bars_right() - self._bars_left()
        thick = (theme.line_height() - 4) // 2 if len(self._table.inks) > 1 else theme.line_height() - 6
        y = top + (height - thick * len(self._table.inks)) // 2
        first = 0
        for value, index in bars:
            length = round(self._scale.share(value) * span)
            if value is not None and value > 0 and length == 0 and not self._table.log:
                length = 1
            ink = self._table.inks[index]
            place = y + index * thick
            if row.hollow or (self._table.outlined and self._table.outlined[index]):
                if length:
                    painter.setPen(QPen(colour(ink), 1))
                    painter.setBrush(Qt.BrushStyle.NoBrush)
                    painter.drawRect(QRectF(left + 0.5, place + 0.5, max(length - 1, 1), thick - 1))
            else:
                painter.fillRect(left, place, length, thick, colour(ink))
            first = max(first, length)
        if row.note:
            self._paint_note(painter, colours, row, QRect(left, top, first, height))

    def _paint_note(self, painter: QPainter, colours: Palette, row: BarRow, bar: QRect) -> None:
        """In the bar if it holds the word, else right behind it."""
        painter.setFont(theme.ui_font(0.85, 600))
        width = painter.fontMetrics().horizontalAdvance(row.note)
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine
        if bar.width() >= width + 14:
            # Near black on an orange fill, whatever the scheme.
            painter.setPen(colour(theme.LIGHT.text))
            area = QRect(bar.right() - width - 6, bar.top(), width + 1, bar.height())
        else:
            painter.setPen(colour(row.glyph_ink or colours.text))
            area = QRect(bar.right() + 8, bar.top(), width + 1, bar.height())
        painter.drawText(area, flags, row.note)

    # Events

    def _scroll(self, by: int) -> None:
        offset = min(max(self._offset + by, 0), self._last_offset())
        if offset != self._offset:
            self._offset = offset
            self.update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        steps = event.angleDelta().y() / 120
        if steps:
            self._scroll(-round(steps) or (-1 if steps > 0 else 1))
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 5, Qt.Key.Key_PageUp: -5}
        if event.key() in steps and event.modifiers() == Qt.KeyboardModifier.NoModifier:
            self._scroll(steps[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)

    def row_at(self, point: QPoint) -> BarRow | None:
        """The row under a point."""
        rows, hint = self.visible_rows()
        for index, row in enumerate(rows):
            top = self._top_of(index, rows, bool(hint))
            if top <= point.y() < top + self.row_height:
                return row
        return None

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            row = None if self._table.sentence else self.row_at(event.pos())
            if row is not None and row.tip:
                QToolTip.showText(event.globalPos(), plain_tip(row.tip[0], row.tip[1:]), self)
            else:
                QToolTip.hideText()
            return True
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._offset = min(self._offset, self._last_offset())


class PositionBars(BarRows):
    """Bars that tell of the position under the view's cursor; subclasses give `_refresh`, and call `_follow` once.

    Signals: `title_changed`, when what the panel says for its dock's title is another text.
    """

    title_changed = Signal()

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view, self._options = view, BarOptions.for_view(view)
        self._moves = view.moves

    def _follow(self) -> None:
        """Follow the view and the theme from now on."""
        self._view.run_changed.connect(self._on_run_changed)
        self._view.join(self, self._on_view)
        theme.notifier.changed.connect(self._on_theme)
        self._on_run_changed()

    def _under_cursor(self) -> tuple[Round | None, Distributions | None, int]:
        """The round, what it recorded of the position, and the position; None for what isn't there."""
        record, position = self._view.round, self._view.position
        data = record.distributions[position] if record and position < len(record.distributions) else None
        return record, data, position

    def restyle(self, colours: Palette) -> None:
        super().restyle(colours)
        self._refresh()

    def _on_view(self) -> None:
        """Nothing here changes while the cursor stays, whatever else is recorded."""
        moved, self._moves = self._view.moves != self._moves, self._view.moves
        if moved:
            self._refresh()

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def _on_run_changed(self) -> None:
        run = self._view.run
        self.set_vocabulary(run.header.vocabulary if run is not None else None)
        if not self._view.telling:
            self._refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def _refresh(self) -> None:
        raise NotImplementedError
