"""Paints the cells of the rounds table straight from what the model tells of a round."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QFont, QFontMetrics, QFontMetricsF, QPainter, QPolygonF
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app import theme
from app.panels.chips import TokenPainter, colour, draw_glyph, glyph_size
from app.panels.rounds_model import COLUMNS, Index, RoundsModel
from engine.columns import Outline

CELL_PAD = 6
PIP_GAP = 2


def pip_size(drafts: int) -> tuple[int, int]:
    """(side, gap) of the squares for so many drafts: smaller where there are many."""
    full = max(round(theme.em() * 10 / 13), 8)
    return (full, PIP_GAP) if drafts <= 8 else (max(full - 4, 5), 1)


def dot_size() -> int:
    """Side of a breakpoint's dot and of a mark's flag."""
    return max(round(theme.em() * 0.6), 7)


class RoundDelegate(QStyledItemDelegate):
    """Paints the cells of the table straight from what the model tells of a round."""

    def __init__(self, model: RoundsModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model
        self.cursor_row = -1
        """The row that is marked as the cursor's."""
        self.dots: frozenset[int] = frozenset()
        """Rounds with a breakpoint."""
        self.tokens = TokenPainter()
        self._regular = theme.mono_font(0.92)
        self._bold = theme.mono_font(0.92, 600)
        self._words = theme.ui_font(0.92)
        self._metrics = QFontMetrics(self._regular)
        self._digit = QFontMetricsF(self._regular).horizontalAdvance("0")
        self._words_metrics = QFontMetrics(self._words)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        chosen = bool(option.state & QStyle.StateFlag.State_Selected)
        self.paint_cell(painter, option.rect, index.row(), index.column(), chosen)

    def paint_cell(self, painter: QPainter, area: QRect, row: int, column: int, chosen: bool) -> None:
        """A cell of a round, on the ground of its row."""
        record = self._model.record(row)
        if record is None:
            return
        key, colours = COLUMNS[column].key, self.tokens.colours
        is_cursor = row == self.cursor_row
        back = colours.base if row % 2 == 0 else colours.alternate
        if record.drift:
            back = colours.danger_tint
        if is_cursor or chosen:
            back = colours.selection
        painter.fillRect(area, colour(back))
        if key == "mark":
            self._mark(painter, area, record.index, is_cursor)
        elif key == "drafts":
            self._pips(painter, area, record)
        elif key == "last":
            self._last(painter, area, record)
        elif key == "text":
            self._emitted(painter, area, record)
        elif key == "drift" and record.drift:
            number = str(record.drift)
            before = QFontMetrics(self._bold).horizontalAdvance(number) + CELL_PAD + 4 + glyph_size()
            self._centre_glyph(
                painter, area.adjusted(area.width() - before, 0, 0, 0), "warning", colours.danger, left=True
            )
            self._number(painter, area, number, colours.danger, self._bold)
        elif COLUMNS[column].right:
            font = self._bold if is_cursor and key == "index" else self._regular
            self._number(painter, area, self._model.text(row, key), colours.text, font)
        else:
            painter.setFont(self._words)
            painter.setPen(colour(colours.text2))
            inner = area.adjusted(CELL_PAD, 0, -2, 0)
            text = self._words_metrics.elidedText(
                self._model.text(row, key), Qt.TextElideMode.ElideRight, inner.width()
            )
            painter.drawText(inner, Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine, text)

    def _mark(self, painter: QPainter, area: QRect, number: int, is_cursor: bool) -> None:
        """A breakpoint's dot, then a mark's flag or, where there is none, the cursor: its row is tinted anyway."""
        colours, run, dot = self.tokens.colours, self._model.run, dot_size()
        middle, left = area.top() + area.height() / 2, area.left() + 3
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if number in self.dots:
            painter.setBrush(colour(colours.danger))
            painter.drawEllipse(QRectF(left, middle - dot / 2, dot, dot))
        if run is not None and number in run.marks:
            painter.setBrush(colour(colours.accent))
            left, half = left + dot + 3, dot / 2
            corners = ((left, -half), (left + dot, -half), (left + half, half))
            painter.drawPolygon(QPolygonF([QPointF(x, middle + y) for x, y in corners]))
        elif is_cursor:
            rest = area.adjusted(dot + 4, 0, 0, 0)
            self._centre_glyph(painter, rest, "play", colours.accent)

    def _number(self, painter: QPainter, area: QRect, text: str, ink: str, font: QFont) -> None:
        painter.setFont(font)
        painter.setPen(colour(ink))
        wide = self._digit * len(text) if text.isascii() else QFontMetricsF(font).horizontalAdvance(text)
        painter.drawText(QPointF(area.right() + 1 - CELL_PAD - wide, self._baseline(area)), text)

    @staticmethod
    def _centre_glyph(painter: QPainter, area: QRect, name: str, ink: str, left: bool = False) -> None:
        side = glyph_size()
        x = area.left() if left else area.left() + (area.width() - side) // 2
        draw_glyph(painter, x, area.top() + (area.height() - side) // 2, name, ink)

    def _pips(self, painter: QPainter, area: QRect, record: Outline) -> None:
        side, gap = pip_size(record.k)
        colours = self.tokens.colours
        x, y = area.left() + CELL_PAD, area.top() + (area.height() - side) // 2
        for draft in record.drafts:
            if x + side > area.right():
                break
            if draft.fate == "accepted":
                painter.fillRect(x, y, side, side, colour(colours.accepted.fill))
            elif draft.fate == "rejected":
                painter.fillRect(x, y, side, side, colour(colours.rejected.tint))
                self._box(painter, x, y, side, colours.rejected.fill)
                if side >= 8:
                    draw_glyph(painter, x + 1, y + 1, "cross", colours.rejected.ink, side - 2)
                else:
                    painter.fillRect(x + 2, y + 2, side - 4, side - 4, colour(colours.rejected.fill))
            else:
                self._box(painter, x, y, side, colours.line)
            x += side + gap

    @staticmethod
    def _box(painter: QPainter, x: int, y: int, side: int, ink: str) -> None:
        painter.setPen(colour(ink))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRect(x, y, side - 1, side - 1)

    def _baseline(self, area: QRect) -> int:
        metrics = self.tokens.metrics
        return area.top() + round((area.height() - metrics.height()) / 2 + metrics.ascent())

    def _last(self, painter: QPainter, area: QRect, record: Outline) -> None:
        if not record.emitted:
            return
        last, side = record.emitted[-1], glyph_size()
        style = self.tokens.styles[last.source]
        if style.glyph is not None:
            self._centre_glyph(painter, area.adjusted(CELL_PAD, 0, 0, 0), style.glyph, style.glyph_ink, left=True)
        x = area.left() + CELL_PAD + side + 4
        self.tokens.draw_text(painter, x, self._baseline(area), last.token, style.ink, area.right() - x)

    def _emitted(self, painter: QPainter, area: QRect, record: Outline) -> None:
        """The tokens; those of a stop string dim, behind a line where the text ends."""
        x, ellipsis = float(area.left() + CELL_PAD), self._metrics.horizontalAdvance("…")
        colours, text_ends = self.tokens.colours, len(record.emitted) - self._model.behind_the_text(record)
        for at, emitted in enumerate(record.emitted):
            ink = colours.text if at < text_ends else colours.text2
            if at == text_ends:
                painter.fillRect(round(x), area.top() + 3, 1, area.height() - 6, colour(colours.text2))
                x += 3
            width, room = self.tokens.text_width(emitted.token), area.right() - x
            kept = 0 if at == len(record.emitted) - 1 else ellipsis
            if width > room - kept:
                self.tokens.draw_text(painter, x, self._baseline(area), emitted.token, ink, int(room))
                return
            x += self.tokens.draw_text(painter, x, self._baseline(area), emitted.token, ink)
