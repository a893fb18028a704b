"""The arms of the chi-square lab, one a row: what was observed against what is expected, the test, and its verdict."""

from __future__ import annotations

import math

from PySide6.QtCore import QEvent, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QHelpEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QToolTip, QWidget

from app import theme
from app.format import count
from app.labs.chi_square_arms import ABOUT, COLUMNS, ArmReading, cells, measures
from app.panels.chips import colour, draw_glyph, glyph_size, plain_tip
from app.panels.title_controls import CopiesTable, Table
from app.theme import Palette

PAD = 8
_FLAT = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine
_RIGHT = Qt.AlignmentFlag.AlignRight | _FLAT
_CHARACTERS = (9, 9, 10, 10, 7, 10)  # of the columns of numbers


class ArmsTable(CopiesTable):
    """Rows of (name, bars, numbers, verdict) under one header; bars are square roots, so that small cells show."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._readings: list[ArmReading] = []
        self._words: tuple[str, ...] = ()
        self._copied: Table = ()
        self._root = True
        self.setAccessibleName("Arms of the chi-square lab")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        theme.notifier.changed.connect(self.update)

    def show_readings(self, readings: list[ArmReading], words: tuple[str, ...], copied: Table) -> None:
        """Show other arms; `words` name the tokens, `copied` is what goes to the clipboard."""
        self._readings, self._words, self._copied = readings, words, copied
        self.setAccessibleDescription("; ".join(f"{r.rule}: {r.verdict}, n {r.found.n}" for r in readings))
        self.update()

    def readings(self) -> list[ArmReading]:
        return self._readings

    def table(self) -> Table:
        return self._copied

    def set_root(self, root: bool) -> None:
        """Bars by the square root of a share, or linear."""
        self._root = root
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 76, self._header() + 7 * (3 * theme.line_height() + 6))

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 64, self._header() + 7 * (2 * theme.line_height() + 8))

    # Places

    @staticmethod
    def _header() -> int:
        return theme.line_height() + 5

    def _row_area(self, row: int) -> QRect:
        rows = max(len(self._readings), 1)
        height = min((self.height() - self._header()) // rows, 7 * theme.line_height())
        return QRect(0, self._header() + row * height, self.width(), height)

    def _columns(self) -> list[tuple[int, int]]:
        """(left, width) of name, bars, the numbers and the verdict."""
        em = theme.em()
        digit = self._digit()
        name, verdict = round(13.2 * em), 11 * em
        numbers = [characters * digit + PAD for characters in _CHARACTERS]
        bars = max(self.width() - name - verdict - sum(numbers), 6 * em)
        places, left = [], 0
        for width in (name, bars, *numbers, verdict):
            places.append((left, width))
            left += width
        return places

    @staticmethod
    def _digit() -> int:
        return QFontMetrics(theme.mono_font(0.92)).horizontalAdvance("0")

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), colour(colours.base))
        self._paint_header(painter, colours)
        for row, reading in enumerate(self._readings):
            area = self._row_area(row)
            if row % 2:
                painter.fillRect(area, colour(colours.alternate))
            painter.fillRect(area.left(), area.bottom(), area.width(), 1, colour(colours.grid))
            self._paint_row(painter, colours, area, reading)

    def _paint_header(self, painter: QPainter, colours: Palette) -> None:
        head = self._header()
        painter.fillRect(0, 0, self.width(), head, colour(colours.alternate))
        painter.fillRect(0, head - 1, self.width(), 1, colour(colours.line))
        painter.setFont(theme.ui_font(0.85))
        painter.setPen(colour(colours.text2))
        places = self._columns()
        scale = "√ scale" if self._root else "linear"
        texts = ("rule", f"observed (filled), expected (outline), {scale}", *COLUMNS, "verdict")
        for (left, width), text, at in zip(places, texts, range(len(texts)), strict=True):
            area = QRect(left + PAD, 0, width - PAD, head - 1)
            right = 2 <= at < len(texts) - 1
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
            painter.drawText(area.adjusted(0, 0, 0 if right else -PAD, 0), _RIGHT if right else _FLAT, shown)

    def _paint_row(self, painter: QPainter, colours: Palette, area: QRect, reading: ArmReading) -> None:
        places, line = self._columns(), theme.line_height()
        text = QRect(places[0][0] + PAD, area.top() + (area.height() - 2 * line) // 2, places[0][1] - PAD, line)
        painter.setFont(theme.mono_font(0.92, 600))
        painter.setPen(colour(colours.text))
        self._elided(painter, text, reading.rule)
        painter.setFont(theme.ui_font(0.85))
        painter.setPen(colour(colours.text2 if reading.lossless else colours.danger))
        self._elided(painter, text.translated(0, line), "lossless" if reading.lossless else "▲ not lossless")
        left, width = places[1]
        self._paint_bars(
            painter, colours, QRect(left + PAD, area.top() + 4, width - 2 * PAD, area.height() - 9), reading
        )
        self._paint_numbers(painter, colours, area, reading)
        self._paint_verdict(painter, colours, QRect(places[-1][0], area.top(), places[-1][1], area.height()), reading)

    def _paint_numbers(self, painter: QPainter, colours: Palette, area: QRect, reading: ArmReading) -> None:
        """One number a column, and below it in small what it is measured by."""
        line = theme.line_height()
        top = area.top() + (area.height() - 2 * line) // 2
        probed = reading.probed is not None and reading.probed.accepted > 0
        bad = {1: reading.found.rejected_by_statistic, 4: reading.outside > 0, 5: probed}
        columns = zip(cells(reading), measures(reading), self._columns()[2:-1], strict=True)
        for at, (cell, measure, (left, width)) in enumerate(columns):
            painter.setFont(theme.mono_font(0.92, 600 if bad.get(at) else 400))
            painter.setPen(colour(colours.danger if bad.get(at) else colours.text2 if at == 2 else colours.text))
            painter.drawText(QRect(left, top, width, line), _RIGHT, cell)
            painter.setFont(theme.ui_font(0.77))
            painter.setPen(colour(colours.text2))
            painter.drawText(QRect(left, top + line, width, line), _RIGHT, measure)

    @staticmethod
    def _elided(painter: QPainter, area: QRect, text: str) -> None:
        painter.drawText(area, _FLAT, painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width()))

    def _paint_verdict(self, painter: QPainter, colours: Palette, area: QRect, reading: ArmReading) -> None:
        side, decided = glyph_size(), reading.done or reading.verdict.startswith("rejected")
        started, left = reading.found.n > 0, area.left() + 2 * PAD
        ink = colours.text2
        if started and decided:
            ink = colours.danger if reading.fails else colours.accepted.ink
            if not reading.fails and not reading.lossless:
                ink = colours.recovered.ink
            glyph = "cross" if reading.fails else "check"
            draw_glyph(painter, left, area.top() + (area.height() - side) // 2, glyph, ink)
            left += side + 5
        painter.setFont(theme.ui_font(0.92, 600 if started and decided else 400))
        painter.setPen(colour(ink))
        self._elided(painter, QRect(left, area.top(), area.right() - left - 2, area.height()), reading.verdict)

    def _paint_bars(self, painter: QPainter, colours: Palette, area: QRect, reading: ArmReading) -> None:
        """One pair a token: the expected share as an outline, the observed one filled in front of it."""
        tokens = len(reading.forms.p)
        n = reading.found.n
        slot = area.width() / tokens
        wide = max(min(int(slot * 0.72), 2 * theme.em()), 3)
        label = theme.line_height() - 2 if area.height() >= 3 * theme.line_height() - 8 else 0
        room = area.height() - label
        most = max(float(reading.forms.p.max()), float(reading.found.observed.max()) / n if n else 0.0)
        scale = room / self._height_of(most)
        painter.setFont(theme.mono_font(0.77))
        for i in range(tokens):
            left = area.left() + round(i * slot + (slot - wide) / 2)
            bottom = area.top() + room
            if n:
                share = float(reading.found.observed[i]) / n
                high = round(self._height_of(share) * scale)
                outside = reading.forms.p[i] == 0 and share > 0
                painter.fillRect(
                    left + 2, bottom - high, wide - 4, high, colour(colours.danger if outside else colours.rolling)
                )
            high = round(self._height_of(float(reading.forms.p[i])) * scale)
            painter.setPen(QPen(colour(colours.p), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            if high > 0:
                painter.drawRect(left, bottom - high, wide - 1, high - 1)
            painter.fillRect(left, bottom, wide, 1, colour(colours.line))
            if label:
                painter.setPen(colour(colours.text2))
                word = painter.fontMetrics().elidedText(self._words[i], Qt.TextElideMode.ElideRight, int(slot) - 2)
                place = QRect(round(area.left() + i * slot), bottom + 1, round(slot), label)
                painter.drawText(place, Qt.AlignmentFlag.AlignHCenter | _FLAT, word)

    def _height_of(self, share: float) -> float:
        return math.sqrt(share) if self._root else share

    # The pointer

    def tip_at(self, place: QPoint) -> str:
        """What the pointer is on, in words."""
        places = self._columns()
        column = next((i for i, (left, width) in enumerate(places) if left <= place.x() < left + width), None)
        if place.y() < self._header():
            return ABOUT[column - 2] if column is not None and 2 <= column < len(places) - 1 else ""
        rows = range(len(self._readings))
        row = next((i for i in rows if self._row_area(i).contains(place)), None)
        return "" if row is None else self._row_tip(self._readings[row])

    def _row_tip(self, reading: ArmReading) -> str:
        found = reading.found
        lines = [f"{reading.rule}: {reading.label}"]
        for i, word in enumerate(self._words):
            lines.append(f"{word}: {count(int(found.observed[i]))} observed, {found.expected[i]:.1f} expected")
        threshold = "-" if found.threshold is None else f"{found.threshold:.4f}"
        lines.append(f"{found.dof} degrees of freedom, threshold {threshold}, n {count(found.n)} {reading.unit}")
        if found.pooled:
            lines.append(f"pooled, fewer than 5 expected: {', '.join(self._words[i] for i in found.pooled)}")
        if reading.acceptance is not None:
            closed = reading.forms.acceptance
            lines.append(f"accepted / tested {reading.acceptance:.4f} (n {reading.tested}), closed form {closed:.4f}")
        return "\n".join(lines)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            title, *lines = self.tip_at(event.pos()).split("\n")
            QToolTip.showText(event.globalPos(), plain_tip(title, lines), self)
            return True
        return super().event(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setFocus()
