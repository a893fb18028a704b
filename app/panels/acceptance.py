"""Acceptance by round with its interval and closed forms, and by draft position; the legend is the table too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QWidget

from app import theme
from app.format import count, rate
from app.panels.acceptance_data import AcceptanceData, Reading, ratio, thin_extremes
from app.panels.bars import BarRow, BarRows, BarTable
from app.panels.chips import colour
from app.panels.round_axis import AxisMap, RoundAxis
from app.panels.title_controls import CopiesTable, Segments, Table, TitleCombo, draw_sentence, exact, shelve
from app.theme import Palette
from app.view import View
from engine.recording import RecordedRun
from engine.rules import RULE_TABLE

EMPTY = "How often drafts are accepted, round by round, appears here with the first round."
WINDOWS = (5, 20, 100)
DASHED, DASH_DOT, DOTTED, FILLED, HOLLOW = "dashed", "dash-dot", "dotted", "filled", "hollow"
_PATTERNS = {DASHED: [6.0, 3.0], DASH_DOT: [8.0, 3.0, 2.0, 3.0], DOTTED: [2.0, 3.0]}
GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
SMOOTH_POINTS = 400
"""Curves are antialiased up to so many points; beyond it costs more than it shows."""


def line_pen(ink: str, pattern: str = "") -> QPen:
    """A pen of one pixel. Wider ones are an order of magnitude slower when antialiased."""
    pen = QPen(colour(ink), 1)
    pen.setCosmetic(True)
    if pattern in _PATTERNS:
        pen.setDashPattern(_PATTERNS[pattern])
    return pen


@dataclass(frozen=True, slots=True)
class LegendRow:
    """A sample (a line's pattern, a bar, or None), its colour, a name, a value and its n in words."""

    sample: str | None
    ink: str
    name: str
    value: str
    n: str


class Legend(QWidget):
    """The gutter: rows of sample, name, value and n. What doesn't fit scrolls, and a hint says so."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._rows: tuple[LegendRow, ...] = ()
        self._offset = 0
        self.setAccessibleName("Acceptance figures")

    def set_rows(self, rows: Sequence[LegendRow]) -> None:
        """Show other rows."""
        if tuple(rows) != self._rows:
            self._rows = tuple(rows)
            self.setAccessibleDescription("; ".join(f"{r.name} {r.value} {r.n}".strip() for r in rows))
            self.update()

    def rows(self) -> tuple[LegendRow, ...]:
        return self._rows

    def _pitch(self) -> int:
        line = theme.line_height()
        return min(max((self.height() - 4) // max(len(self._rows), 1), line), line + 4)

    def _room(self) -> int:
        if (self.height() - 2) // self._pitch() >= len(self._rows):
            return len(self._rows)
        hint = QFontMetrics(theme.ui_font(0.77)).height()
        return max((self.height() - 3 - hint) // self._pitch(), 1)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter, pitch = theme.current(), QPainter(self), self._pitch()
        painter.fillRect(self.rect(), colour(colours.base))
        painter.fillRect(self.width() - 1, 0, 1, self.height(), colour(colours.line))
        room = self._room()
        top = 3 if room < len(self._rows) or self.height() < len(self._rows) * pitch + 8 else 6
        self._offset = min(self._offset, len(self._rows) - room)
        for row in self._rows[self._offset : self._offset + room]:
            self._paint_row(painter, colours, row, top, pitch)
            top += pitch
        if room < len(self._rows):
            painter.setFont(theme.ui_font(0.77))
            painter.setPen(colour(colours.text2))
            text = f"+{len(self._rows) - room} more: scroll, or enlarge the panel"
            area = QRect(10, top, self.width() - 16, self.height() - top)
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
            painter.drawText(area, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, shown)

    def _paint_row(self, painter: QPainter, colours: Palette, row: LegendRow, top: int, pitch: int) -> None:
        em, middle = theme.em(), top + pitch // 2
        sample = round(2 * em)
        if row.sample in (FILLED, HOLLOW):
            side = round(em * 0.7)
            area = QRect(10, middle - side // 2, sample, side)
            if row.sample == FILLED:
                painter.fillRect(area, colour(row.ink))
            else:
                painter.setPen(line_pen(row.ink))
                painter.drawRect(area.adjusted(0, 0, -1, -1))
        elif row.sample is not None:
            painter.setPen(line_pen(row.ink, row.sample))
            painter.drawLine(10, middle, 10 + sample, middle)
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine
        right = self.width() - 11
        painter.setFont(theme.mono_font(0.85))
        # A narrow gutter gives up n last.
        widest = max((len(r.n) for r in self._rows), default=0)
        n_width = painter.fontMetrics().horizontalAdvance("0" * widest) if self.width() >= 14 * em else 0
        if n_width:
            painter.setPen(colour(colours.text2))
            area = QRect(right - n_width - 2, top, n_width + 2, pitch)
            painter.drawText(area, Qt.AlignmentFlag.AlignRight | flags, row.n)
            right -= n_width + em
        painter.setFont(theme.mono_font(0.92))
        painter.setPen(colour(colours.text))
        value_width = painter.fontMetrics().horizontalAdvance("0.0000")
        painter.drawText(
            QRect(right - 2 * value_width, top, 2 * value_width, pitch), Qt.AlignmentFlag.AlignRight | flags, row.value
        )
        painter.setFont(theme.ui_font(0.92))
        left = 10 + sample + round(0.7 * em)
        room = right - value_width - left - 4
        name = painter.fontMetrics().elidedText(row.name, Qt.TextElideMode.ElideRight, max(room, 0))
        painter.drawText(QRect(left, top, max(room, 0), pitch), flags, name)

    def wheelEvent(self, event: QWheelEvent) -> None:
        by = -1 if event.angleDelta().y() > 0 else 1
        self._offset = min(max(self._offset + by, 0), len(self._rows) - self._room())
        self.update()
        event.accept()


class RoundPlot(pg.PlotWidget):  # type: ignore[misc]
    """The plot on the shared round axis: fixed range, curves updated in place; the mouse moves the cursor."""

    def __init__(self, axis: RoundAxis, parent: QWidget) -> None:
        super().__init__(parent, enableMenu=False)
        # Each curve and the scene would ask for a paint of their own; `draw` and its like ask for one.
        self.setViewportUpdateMode(pg.GraphicsView.ViewportUpdateMode.NoViewportUpdate)
        self._axis = axis
        self.setAccessibleName("Acceptance plot")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        item = self.getPlotItem()
        # Made all the same: without an owner it would outlive the plot, without its flags it would be shown in it.
        item.ctrlMenu.setParent(self, item.ctrlMenu.windowFlags())
        item.hideButtons()
        item.setMouseEnabled(False, False)
        item.disableAutoRange()
        item.layout.setSpacing(0)
        self._bottom, self._left = item.getAxis("bottom"), item.getAxis("left")
        for side in (self._bottom, self._left):
            side.setStyle(tickLength=0, tickTextOffset=6, hideOverlappingLabels=False, autoExpandTextSpace=False)
            side.setStyle(tickFont=theme.mono_font(0.77))
        self._left.setTicks([[(0, "0"), (0.5, "0.5"), (1, "1")]])
        self._left.setWidth(axis.label_room)
        self._bottom.setStyle(tickTextOffset=2)
        self._bottom.setHeight(theme.line_height())
        item.layout.setContentsMargins(0, round(theme.em() * 0.5), axis.right_room, 0)
        item.setYRange(0, 1, padding=0.045)  # the cursor's dot fits at 0 and at 1
        self._ticks: list[int] = []
        self._grid = pg.PlotCurveItem(connect="pairs")
        self.band = pg.PlotCurveItem(fillLevel="enclosed", pen=None)
        self.curves = {name: pg.PlotCurveItem() for name in ("rolling", "sum_prod", "sum_min", "cumulative")}
        self.over = pg.PlotCurveItem()
        self.singles = pg.ScatterPlotItem(size=5, pen=None)
        self.cursor_line = pg.InfiniteLine(angle=90)
        self.dot = pg.ScatterPlotItem(size=round(theme.em() * 0.55), pen=None)
        for part in (self._grid, self.band, self.over, *self.curves.values(), self.singles, self.cursor_line, self.dot):
            item.addItem(part, ignoreBounds=True)
        self.restyle(theme.current())

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self.setBackground(colour(colours.base))
        for side in (self._bottom, self._left):
            side.setPen(None)
            side.setTickPen(colour(colours.base))  # Qt draws a tick of no length as a dot, without a pen as well
            side.setTextPen(colour(colours.text2))
        self._grid.setPen(line_pen(colours.grid))
        self.band.setBrush(colour(colours.band))
        self.pens = {
            "cumulative": line_pen(colours.text),
            "rolling": line_pen(colours.rolling),
            "sum_min": line_pen(colours.accepted.fill, DASHED),
            "sum_prod": line_pen(colours.sum_prod, DASH_DOT),
        }
        self.over.setPen(line_pen(colours.text, DOTTED))
        for name, pen in self.pens.items():
            self.curves[name].setPen(pen)
        self.cursor_line.setPen(line_pen(colours.accent))
        self.dot.setBrush(colour(colours.text))
        self.viewport().update()

    def axis_map(self) -> AxisMap:
        """The shared mapping; its pixels count from the gutter's left end."""
        return self._axis.map(self.width() + self._axis.gutter)

    def draw(self, data: AcceptanceData, reference: AcceptanceData | None = None) -> None:
        """Set range, ticks and curves for the rounds in view; `reference`: of another run, to lay over it."""
        mapping = self.axis_map()
        shown = (mapping.right - mapping.left) / mapping.cell
        left, right = mapping.first - 0.5, mapping.first - 0.5 + shown
        self.setXRange(left, right, padding=0)
        self._grid.setData([left, right] * len(GRID), np.repeat(GRID, 2))
        self._show_ticks(mapping.ticks())
        self.viewport().update()
        low, high = mapping.visible()
        self._lay_over(reference, max(low - 1, 0), round(low + shown) + 1)
        low, high = max(low - 1, 0), min(high + 1, data.taken)
        if low >= high:
            self.clear_curves()
            return
        starts = np.arange(low, high)
        if mapping.cell < 1:
            starts = mapping.bucket_starts()
            starts = starts[starts < high]  # rounds that weren't taken in yet come with the next turn
            if not starts.size:
                self.clear_curves()
                return
            low = int(starts[0])
        # A running average is thinned to each bucket's last value, the rolling rate to its extremes.
        index = np.append(starts[1:] - 1, high - 1)
        x = index.astype(np.float64)
        self._set_band(x, *data.band(index))
        series = {
            "cumulative": (x, data.cumulative(index)),
            "sum_min": (x, data.closed_form("sum_min", index)),
            "sum_prod": (x, data.closed_form("sum_prod", index)),
            "rolling": (x, data.rolling[low:high])
            if mapping.cell >= 1
            else thin_extremes(data.rolling[low:high], low, starts),
        }
        smooth = len(x) <= SMOOTH_POINTS
        for name, (xs, ys) in series.items():
            self.curves[name].setData(xs, ys, connect="finite", antialias=smooth)
        self._mark_singles(series if len(x) == 1 else {})

    def _lay_over(self, reference: AcceptanceData | None, low: int, high: int) -> None:
        """The cumulative rate of another run, round by round; at most a point a pixel."""
        high = min(high, reference.taken if reference is not None else 0)
        if reference is None or low >= high:
            self.over.setData([], [])
            return
        index = np.arange(low, high, max((high - low) // max(self.width(), 1), 1))
        smooth = len(index) <= SMOOTH_POINTS
        self.over.setData(index.astype(np.float64), reference.cumulative(index), connect="finite", antialias=smooth)

    def _show_ticks(self, ticks: list[int]) -> None:
        if ticks != self._ticks:
            self._ticks = ticks
            self._bottom.setTicks([[(tick, str(tick)) for tick in ticks]])

    def _set_band(self, x: np.ndarray, low: np.ndarray, high: np.ndarray) -> None:
        known = ~np.isnan(low)
        x, low, high = x[known], low[known], high[known]
        self.band.setData(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]]))

    def _mark_singles(self, series: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
        """A line through one point is nothing: mark the points of a run of one round."""
        spots = [
            {"pos": (float(x[0]), float(y[0])), "brush": self.pens[name].color()}
            for name, (x, y) in series.items()
            if np.isfinite(y[0])
        ]
        self.singles.setVisible(bool(spots))
        self.singles.setData(spots)

    def clear_curves(self) -> None:
        """Show no rounds."""
        for curve in (self.band, *self.curves.values()):
            curve.setData([], [])
        self._mark_singles({})
        self.viewport().update()

    def put_cursor(self, index: int, cumulative: float | None) -> None:
        """Place the cursor line, and the dot on the cumulative curve."""
        self.cursor_line.setVisible(index >= 0)
        if index >= 0:
            self.cursor_line.setPos(index)
        self.dot.setData([] if cumulative is None else [{"pos": (index, cumulative)}])
        self.viewport().update()

    # The mouse belongs to the round axis, not to pyqtgraph's panning.

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._pick(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._pick(event, scrub=True)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        event.accept()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        self.mousePressEvent(event)

    def _pick(self, event: QMouseEvent, scrub: bool = False) -> None:
        self._axis.pick(event.position().x() + self._axis.gutter, self.width() + self._axis.gutter, scrub)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._axis.wheel(event, event.position().x() + self._axis.gutter, self.width() + self._axis.gutter)


class AcceptancePanel(CopiesTable):
    """Curves by round, or bars by draft position, beside a legend with the values at the cursor.

    Signals: `title_changed`, when `title_context` gives another text.
    """

    title_changed = Signal()

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view, self._axis = view, RoundAxis.for_view(view)
        self._data = AcceptanceData()
        self._reference: AcceptanceData | None = None
        self._reference_run: RecordedRun | None = None
        self._reference_words = ""
        self._context, self._by_position = "", False
        self.setObjectName("acceptance")
        self.setAccessibleName("Acceptance")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._legend = Legend(self)
        self._plot = RoundPlot(self._axis, self)
        self._positions = BarRows(self)
        self._positions.setAccessibleName("Acceptance by draft position")
        self._positions.table = self._position_table  # type: ignore[method-assign]
        self._what = Segments(
            "Acceptance",
            ("by round", "by position"),
            ("Rates round by round", "Rates by place in the draft, whole run"),
        )
        self._what.chosen.connect(self._on_what)
        self._roll = TitleCombo("Rolling window", "How many rounds the rolling rate looks back on")
        self._roll.set_entries([(f"roll {n}", n) for n in WINDOWS], self._data.window)
        self._roll.chosen.connect(self.set_window)
        shelve(self, self._roll, self._what)
        view.run_changed.connect(self._on_run_changed)
        view.join(self, self._refresh)
        self._axis.changed.connect(self._on_axis)
        theme.notifier.changed.connect(self._on_theme)
        self._on_run_changed()

    # What the dock asks

    def title_name(self) -> str:
        return "Acceptance"

    def title_context(self) -> str:
        """What is plotted, and the interval at the cursor."""
        return self._context

    def title_widgets(self) -> list[QWidget]:
        """Rolling window, and what the rates go by."""
        return [self._roll, self._what]

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self._plot.restyle(colours)
        self._positions.restyle(colours)
        self._redraw()

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 60, round(theme.line_height() * 7.4))

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 30, 5 * theme.line_height())

    def table(self) -> Table:
        return self._position_table() if self._by_position else self._round_table()

    def _round_table(self) -> Table:
        names = ["cumulative", "wilson low", "wilson high", f"rolling {self._data.window}", "sum_min", "sum_prod"]
        lines = [["round", "tested", "accepted", *names]]
        run, index = self._view.run, np.arange(self._data.taken)
        if run is None or not len(index):
            return lines
        columns = (
            self._data.cumulative(index),
            *self._data.band(index),
            self._data.rolling,
            self._data.closed_form("sum_min", index),
            self._data.closed_form("sum_prod", index),
        )
        tested, accepted = run.column("tested"), run.column("accepted")
        for i in range(self._data.taken):
            lines.append([str(i), str(tested[i]), str(accepted[i]), *(exact(float(c[i])) for c in columns)])
        return lines

    def _position_table(self) -> Table:
        lines = [["position", "accepted", "reached", "accepted / reached", "drafted", "accepted / drafted"]]
        for position, (accepted, reached, drafted) in enumerate(self._by_place()):
            rates = ratio([accepted, accepted], [reached, drafted])
            cells = [str(position + 1), str(accepted), str(reached), exact(rates[0]), str(drafted), exact(rates[1])]
            lines.append(cells)
        return lines

    # Choices

    def set_window(self, window: object) -> None:
        """Roll over so many rounds."""
        assert isinstance(window, int)
        self._data.set_window(window)
        self._roll.set_entries([(f"roll {n}", n) for n in WINDOWS], window)
        self._redraw()

    def show_by_position(self, by_position: bool) -> None:
        """Show the rates by draft position, or by round."""
        self._what.set_current(int(by_position))
        self._by_position = by_position
        self._roll.setEnabled(not by_position)
        self._redraw()

    def _on_what(self, index: int) -> None:
        self.show_by_position(index == 1)

    # Following the view

    def _on_run_changed(self) -> None:
        self._data = AcceptanceData(self._data.window)
        self._reference = None
        if not self._view.telling:
            self._refresh()

    def _refresh(self) -> None:
        """Follow the view: new rounds, and the cursor."""
        if self._view.run is not None:
            self._data.take_in(self._view.run)
        self._take_reference()
        self._redraw()

    def _take_reference(self) -> None:
        """The run to lay over this one, if the view has one."""
        if self._view.reference is None:
            self._reference, self._reference_words = None, ""
            return
        run, self._reference_words = self._view.reference
        if self._reference is None or self._reference_run is not run:
            self._reference, self._reference_run = AcceptanceData(), run
            self._reference.take_in(run)

    def _on_axis(self) -> None:
        self._place()
        # The view calls by itself where the axis follows its cursor.
        if not self._view.telling:
            self._redraw()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._redraw()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place()
        self._redraw()

    def _place(self) -> None:
        gutter, height = self._axis.gutter, self.height()
        self._legend.setGeometry(0, 0, gutter, height)
        for widget in (self._plot, self._positions):
            widget.setGeometry(gutter, 0, max(self.width() - gutter, 1), height)

    def _redraw(self) -> None:
        """Curves or bars, then what depends on the cursor; hidden, only the title."""
        self._draw()
        self._on_cursor()

    def _draw(self) -> None:
        if self.isVisible():
            some = self._view.round is not None
            self._legend.setVisible(some)
            self._plot.setVisible(some and not self._by_position)
            self._positions.setVisible(some and self._by_position)
            if not some:
                self._plot.clear_curves()
                self.update()
            elif self._by_position:
                self._positions.set_table(self._position_bars(), keep_place=True)
            else:
                self._plot.draw(self._data, self._reference)

    def _on_cursor(self) -> None:
        index = self._view.round_index
        reading = self._data.reading(index) if 0 <= index < self._data.taken else None
        context = self._context_text(reading)
        if context != self._context:
            self._context = context
            self.title_changed.emit()
        self._legend.set_rows(() if reading is None else self._legend_rows(reading))
        if self.isVisible():
            self._plot.put_cursor(index, reading.cumulative if reading is not None else None)

    def _context_text(self, reading: Reading | None) -> str:
        if reading is None:
            return ""
        if self._by_position:
            return "accepted, of the drafts reached and of all drafts there; whole run"
        text = "accepted / tested, by round; band: 95 % Wilson interval of the cumulative rate"
        if reading.band is None:
            return text
        at_tail = reading.rounds == self._data.taken
        text = f"{text}, {'now' if at_tail else 'here'} {reading.band[0]:.4f} – {reading.band[1]:.4f}"
        record = self._view.round
        if record is not None and RULE_TABLE[record.rule].closed_form in (None, "block"):
            text = f"Σ min and Σ p·q don't predict {record.rule}; {text}"
        return f"{text} · dotted: same pair, prompt and seed, {self._reference_words}" if self._reference else text

    def _legend_rows(self, reading: Reading) -> list[LegendRow]:
        colours, per_round = theme.current(), f"n {count(reading.rounds)}"
        if self._by_position:
            whole = self._data.reading(self._data.taken - 1)
            rows = [
                LegendRow(
                    FILLED, colours.accepted.fill, "accepted / reached", rate(whole.cumulative), f"n {whole.tested}"
                ),
                LegendRow(HOLLOW, colours.accepted.ink, "accepted / drafted", *self._over_drafted()),
            ]
            return [*rows, *self._length_rows(whole, f"n {count(whole.rounds)}")]
        tested = f"n {count(reading.tested)}"
        closed = f"n {count(reading.closed)}"
        rows = [
            LegendRow("", colours.text, "cumulative", rate(reading.cumulative), tested),
            LegendRow(
                "",
                colours.rolling,
                f"rolling, {self._data.window} rounds",
                rate(reading.rolling),
                f"n {count(reading.rolling_tested)}",
            ),
            LegendRow(DASHED, colours.accepted.fill, "Σ min(p, q)", rate(reading.sum_min), closed),
            LegendRow(DASH_DOT, colours.sum_prod, "Σ p·q", rate(reading.sum_prod), closed),
        ]
        return [*rows, *self._reference_rows(reading), *self._length_rows(reading, per_round)]

    def _reference_rows(self, reading: Reading) -> list[LegendRow]:
        """The other run, at the same round or at its end."""
        reference = self._reference
        if reference is None or not reference.taken:
            return []
        there = reference.reading(min(reading.rounds, reference.taken) - 1)
        name = f"{self._reference_words}, cum."
        return [LegendRow(DOTTED, theme.current().text, name, rate(there.cumulative), f"n {count(there.tested)}")]

    @staticmethod
    def _length_rows(reading: Reading, n: str) -> list[LegendRow]:
        return [
            LegendRow(None, "", "tokens per round", rate(reading.tokens_per_round), n),
            LegendRow(None, "", "mean accepted length", rate(reading.mean_accepted_len), n),
        ]

    def _over_drafted(self) -> tuple[str, str]:
        places = self._by_place()
        drafted = sum(place[2] for place in places)
        value = sum(place[0] for place in places) / drafted if drafted else None
        return rate(value), f"n {count(drafted)}"

    # By draft position

    def _by_place(self) -> list[tuple[int, int, int]]:
        """(accepted, reached, drafted) at each draft position, over the whole run."""
        run = self._view.run
        if run is None:
            return []
        counted = run.statistics
        return list(zip(counted.accepted_at, counted.reached, self._data.drafted_at, strict=False))

    def _position_bars(self) -> BarTable:
        colours, rows = theme.current(), []
        for position, (accepted, reached, drafted) in enumerate(self._by_place()):
            of_reached = accepted / reached if reached else None
            of_drafted = accepted / drafted if drafted else None
            cells = (rate(of_reached), count(reached), rate(of_drafted), count(drafted))
            tip = (
                f"Draft position {position + 1}",
                f"reached {reached} times, accepted {accepted}: {rate(of_reached)}",
                f"drafted {drafted} times, accepted {accepted}: {rate(of_drafted)}",
            )
            rows.append(BarRow((of_reached, of_drafted), cells, f"position {position + 1}", tip=tip))
        return BarTable(
            rows=tuple(rows),
            columns=("/ reached", "n", "/ drafted", "n"),
            inks=(colours.accepted.fill, colours.accepted.ink),
            outlined=(False, True),
            scale_to=1.0,
            sentence="" if rows else "No token has been drafted in this run (k = 0).",
        )

    # Events

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), colour(theme.current().base))
        if self._view.round is None:
            draw_sentence(painter, self, EMPTY)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        if event.key() in steps and event.modifiers() == Qt.KeyboardModifier.NoModifier:
            self._view.step_round(steps[Qt.Key(event.key())], event.isAutoRepeat())
        else:
            super().keyPressEvent(event)
