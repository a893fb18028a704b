"""Both acceptance curves over each other, and both drift strips below them, on one axis of rounds."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QHelpEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QToolTip, QWidget

from app import theme
from app.format import count, rate
from app.labs.compare_data import Compared, Curve, drift_buckets, drift_words, rate_at
from app.panels.acceptance import DASHED, GRID, SMOOTH_POINTS, line_pen
from app.panels.chips import colour, plain_tip
from app.panels.title_controls import CopiesTable, Table, draw_sentence, exact
from app.theme import Palette

EMPTY = "Both acceptance curves and drift strips appear here with a comparison."
_FLAT = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine


def pen_of(side: int, colours: Palette) -> QPen:
    """A solid, B dashed, in two inks."""
    return line_pen(colours.accent, DASHED) if side else line_pen(colours.text)


class CompareCharts(CopiesTable):
    """Legend, plot, two strips; painted at once from what a Compared holds, so the work follows the width."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown: Compared | None = None
        self._strips: dict[tuple[int, int], np.ndarray] = {}
        self.setAccessibleName("Acceptance and drift of both runs")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)

    def show_compared(self, shown: Compared | None) -> None:
        """Show others; None: none."""
        self._shown, self._strips = shown, {}
        self.setAccessibleDescription("" if shown is None else self.spoken())
        self.update()

    def title_context(self) -> str:
        """Which runs these are, for a picture."""
        return (
            ""
            if self._shown is None
            else "; ".join(f"{n}: {w}" for n, w in zip("AB", self._shown.described, strict=True))
        )

    def spoken(self) -> str:
        """The chart in words."""
        assert self._shown is not None
        parts = []
        for name, curve, drift in zip("AB", self._shown.curves, self._shown.drift, strict=True):
            parts.append(f"{name}: accepted / tested {rate(curve.rate, curve.n)}, drift {drift_words(drift)}")
        return "; ".join(parts)

    def table(self) -> Table:
        lines = [["run", "round", "cumulative", "wilson low", "wilson high", "drift"]]
        if self._shown is None:
            return lines
        for name, curve, drift in zip("AB", self._shown.curves, self._shown.drift, strict=True):
            for at, number in enumerate(curve.x.astype(int).tolist()):
                cells = [exact(float(v[at])) for v in (curve.rate_at, curve.low, curve.high)]
                lines.append([name, str(number), *cells, str(int(drift[number]))])
        return lines

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 40, theme.line_height() * 16)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 24, theme.line_height() * 12)

    # Places

    def _rounds(self) -> int:
        assert self._shown is not None
        return max(curve.rounds for curve in self._shown.curves)

    def _left(self) -> int:
        return round(theme.em() * 2.6)

    def _plot(self) -> QRect:
        """Where the curves are."""
        line = theme.line_height()
        top = 3 * line + 4
        return QRect(self._left(), top, self.width() - self._left() - theme.em(), self._strip_top(0) - line - 10 - top)

    def _strip_height(self) -> int:
        return theme.line_height() + 8

    def _strip_top(self, side: int) -> int:
        """Strips stand at the bottom, above the numbers of the rounds."""
        line, height = theme.line_height(), self._strip_height()
        return self.height() - line - 4 - (2 - side) * (height + line + 4) + 4

    def x_of(self, number: float) -> float:
        """The middle of a round."""
        area = self._plot()
        return area.left() + (number + 0.5) / max(self._rounds(), 8) * area.width()

    def round_at(self, x: float) -> int | None:
        """The round under a pixel."""
        area = self._plot()
        if self._shown is None or not area.left() <= x <= area.right():
            return None
        return min(int((x - area.left()) / area.width() * max(self._rounds(), 8)), max(self._rounds() - 1, 0))

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), colour(colours.base))
        if self._shown is None or not self._rounds():
            draw_sentence(painter, self, EMPTY if self._shown is None else "Neither run has a round.")
            return
        self._paint_legend(painter, colours)
        self._paint_grid(painter, colours)
        for side in (1, 0):
            self._paint_band(painter, colours, self._shown.curves[side])
        self._paint_parted(painter, colours)
        for side in (1, 0):
            self._paint_curve(painter, pen_of(side, colours), self._shown.curves[side])
        for side in (0, 1):
            self._paint_strip(painter, colours, side)
        if self.hasFocus():
            painter.setPen(colour(colours.accent))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def _paint_legend(self, painter: QPainter, colours: Palette) -> None:
        """A line for each run: sample, rate with n, and the round in which they part."""
        assert self._shown is not None
        line, em = theme.line_height(), theme.em()
        painter.setFont(theme.ui_font(0.85))
        painter.setPen(colour(colours.text2))
        room = QRect(8, 1, self.width() - 16, line)
        words = "accepted / tested so far, by round; bands: 95 % Wilson intervals"
        painter.drawText(
            room, _FLAT, painter.fontMetrics().elidedText(words, Qt.TextElideMode.ElideRight, room.width())
        )
        for side, curve in enumerate(self._shown.curves):
            top = line + side * line
            painter.setPen(pen_of(side, colours))
            painter.drawLine(8, top + line // 2, 8 + 2 * em, top + line // 2)
            painter.setPen(colour(colours.text))
            painter.setFont(theme.ui_font(0.85, 600))
            painter.drawText(QRect(8 + round(2.6 * em), top, em, line), _FLAT, "AB"[side])
            painter.setFont(theme.mono_font(0.85))
            parted = self._shown.parted[side]
            part = "" if parted is None else f"   parts in round {count(parted)}"
            text = f"{rate(curve.rate)}  n {count(curve.n)}{part}"
            area = QRect(8 + round(3.9 * em), top, self.width() - 8 - 5 * em, line)
            painter.drawText(
                area, _FLAT, painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
            )

    def _paint_grid(self, painter: QPainter, colours: Palette) -> None:
        area, line = self._plot(), theme.line_height()
        painter.setFont(theme.mono_font(0.77))
        for value in GRID:
            y = round(area.bottom() - value * area.height())
            painter.fillRect(area.left(), y, area.width(), 1, colour(colours.grid))
            if value in (0.0, 0.5, 1.0):
                painter.setPen(colour(colours.text2))
                label = QRect(0, y - line // 2, area.left() - 6, line)
                painter.drawText(label, Qt.AlignmentFlag.AlignRight | _FLAT, f"{value:g}")
        for number in self.ticks():
            place = round(self.x_of(number))
            label = QRect(place - 4 * theme.em(), self.height() - line, 8 * theme.em(), line)
            painter.setPen(colour(colours.text2))
            painter.drawText(label, Qt.AlignmentFlag.AlignHCenter | _FLAT, str(number))

    def ticks(self) -> list[int]:
        """Rounds to label: round multiples, far enough apart to be read."""
        total, area = max(self._rounds(), 8), self._plot()
        wide = QFontMetrics(theme.mono_font(0.77)).horizontalAdvance("0" * (len(str(total)) + 3))
        least = max(total * wide / max(area.width(), 1), 1)
        scale = 10 ** int(np.floor(np.log10(least)))
        step = next(int(scale * factor) for factor in (1, 2, 5, 10) if scale * factor >= least)
        return list(range(0, total, step))

    def _points(self, curve: Curve, values: np.ndarray) -> list[QPointF]:
        area, known = self._plot(), ~np.isnan(values)
        total = max(self._rounds(), 8)
        xs = area.left() + (curve.x[known] + 0.5) / total * area.width()
        ys = area.bottom() - np.clip(values[known], 0, 1) * area.height()
        return [QPointF(x, y) for x, y in zip(xs.tolist(), ys.tolist(), strict=True)]

    def _paint_band(self, painter: QPainter, colours: Palette, curve: Curve) -> None:
        shade = QColor(colours.band)
        shade.setAlpha(150)  # where both lie over each other, both show
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(shade)
        painter.drawPolygon(QPolygonF([*self._points(curve, curve.high), *reversed(self._points(curve, curve.low))]))

    def _paint_curve(self, painter: QPainter, pen: QPen, curve: Curve) -> None:
        points = self._points(curve, curve.rate_at)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, len(points) <= SMOOTH_POINTS)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if len(points) == 1:
            painter.drawEllipse(points[0], 2.0, 2.0)  # a line through one point is nothing
        painter.drawPolyline(QPolygonF(points))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    def _paint_parted(self, painter: QPainter, colours: Palette) -> None:
        """A line where each run emitted the first token that differs."""
        assert self._shown is not None
        area, size = self._plot(), max(round(theme.em() * 0.3), 3)
        for side, number in enumerate(self._shown.parted):
            if number is None:
                continue
            place = round(self.x_of(number))
            strip = self._strip_top(side)
            painter.setPen(line_pen(colours.text2, DASHED if side else ""))
            painter.drawLine(place, area.top(), place, area.bottom())
            painter.drawLine(place, strip, place, strip + self._strip_height())
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour(colours.text2))
            painter.drawPolygon(
                QPolygonF(
                    [
                        QPointF(place - size, area.top() - size),
                        QPointF(place + size, area.top() - size),
                        QPointF(place, area.top()),
                    ]
                )
            )

    def _heights(self, side: int, pixels: int) -> np.ndarray:
        """Drift by pixel, remembered until the width or the run is another."""
        assert self._shown is not None
        key = side, pixels
        if key not in self._strips:
            if len(self._strips) > 4:
                self._strips.clear()
            self._strips[key] = drift_buckets(self._shown.drift[side], pixels, max(self._rounds(), 8))
        return self._strips[key]

    def _paint_strip(self, painter: QPainter, colours: Palette, side: int) -> None:
        """Bars as high as the drift is far from 0, on one scale for both runs; red, since none should be."""
        assert self._shown is not None
        area, line = self._plot(), theme.line_height()
        top, high = self._strip_top(side), self._strip_height()
        drift = self._shown.drift[side]
        painter.setFont(theme.ui_font(0.85, 600))
        painter.setPen(colour(colours.text))
        painter.drawText(QRect(0, top, area.left() - 6, high), Qt.AlignmentFlag.AlignRight | _FLAT, "AB"[side])
        bad = bool(drift.any())
        painter.setFont(theme.ui_font(0.85))
        painter.setPen(colour(colours.danger if bad else colours.text2))
        words = f"{'▲ ' if bad else ''}drift {drift_words(drift)}"
        painter.drawText(QRect(area.left(), top - line - 1, area.width(), line), _FLAT, words)
        painter.fillRect(area.left(), top + high, area.width(), 1, colour(colours.line))
        own = round(self.x_of(self._shown.curves[side].rounds - 0.5)) - area.left()
        painter.fillRect(area.left(), top, max(own, 0), high, colour(colours.alternate))
        most = max((int(np.abs(d).max(initial=0)) for d in self._shown.drift), default=0)
        if not bad or not most:
            return
        heights = self._heights(side, area.width())
        for pixel in np.flatnonzero(heights).tolist():
            size = max(round(abs(int(heights[pixel])) / most * high), 1)
            painter.fillRect(area.left() + pixel, top + high - size, 1, size, colour(colours.danger))

    # The pointer

    def tip_at(self, x: float) -> str:
        """Both runs at the round under a pixel."""
        number = self.round_at(x)
        if number is None or self._shown is None:
            return ""
        lines = []
        for name, curve, drift in zip("AB", self._shown.curves, self._shown.drift, strict=True):
            if number >= curve.rounds:
                lines.append(f"{name}: had ended")
                continue
            found = rate_at(curve, number)
            lines.append(
                f"{name}: accepted / tested {rate(None if found is None else found[1])}, drift {int(drift[number])}"
            )
        return plain_tip(f"Round {number}", lines)

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            QToolTip.showText(event.globalPos(), self.tip_at(event.pos().x()), self)
            return True
        return super().event(event)
