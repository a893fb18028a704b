"""A fault and its cure side by side: both acceptance charts in one plot, and both runs in numbers."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app import theme
from app.labs.fault_words import WITH, WITHOUT, figures
from app.panels.acceptance import DOTTED, line_pen
from app.panels.acceptance_data import AcceptanceData
from app.panels.chips import colour
from app.panels.title_controls import CopiesTable, Table, exact
from app.theme import Palette
from engine.faults import Fault
from engine.recording import RecordedRun
from engine.statistics import wilson_interval

_NO_LIMIT = (1 << 24) - 1  # Qt's own
_FLAT = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine


class ComparisonPlot(pg.PlotWidget):  # type: ignore[misc]
    """Cumulative acceptance by round: with the fault solid, cured dotted, each over the band of its interval."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, enableMenu=False)
        self.setAccessibleName("Acceptance with the fault and without it")
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        item = self.getPlotItem()
        # Made all the same: without an owner it would outlive the plot, without its flags it would be shown in it.
        item.ctrlMenu.setParent(self, item.ctrlMenu.windowFlags())
        item.hideButtons()
        item.setMouseEnabled(False, False)
        item.disableAutoRange()
        self._bottom, self._left = item.getAxis("bottom"), item.getAxis("left")
        for side in (self._bottom, self._left):
            side.setStyle(tickLength=0, tickTextOffset=4, tickFont=theme.mono_font(0.77), autoExpandTextSpace=False)
        self._left.setTicks([[(0, "0"), (0.5, "0.5"), (1, "1")]])
        self._left.setWidth(round(theme.em() * 2.6))
        self._bottom.setHeight(theme.line_height())
        item.setYRange(0, 1, padding=0.03)
        self._grid = pg.PlotCurveItem(connect="pairs")
        self.bands = {name: pg.PlotCurveItem(fillLevel="enclosed", pen=None) for name in (WITHOUT, WITH)}
        self.curves = {name: pg.PlotCurveItem() for name in (WITHOUT, WITH)}
        for part in (self._grid, *self.bands.values(), *self.curves.values()):
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
        for band in self.bands.values():
            shade = colour(colours.band)
            shade.setAlpha(150)  # where both lie over each other, both show
            band.setBrush(shade)
        self.curves[WITH].setPen(line_pen(colours.danger))
        self.curves[WITHOUT].setPen(line_pen(colours.text, DOTTED))

    def draw(self, data: dict[str, AcceptanceData]) -> None:
        """Show the rounds taken so far."""
        rounds = max([d.taken for d in data.values()] + [8])
        self.setXRange(-0.5, rounds - 0.5, padding=0.01)
        self._grid.setData([-0.5, rounds - 0.5] * 5, np.repeat((0.0, 0.25, 0.5, 0.75, 1.0), 2))
        for name in (WITH, WITHOUT):
            taken = data[name].taken if name in data else 0
            index = np.arange(taken)
            if not taken:
                self.curves[name].setData([], [])
                self.bands[name].setData([], [])
                continue
            x = index.astype(np.float64)
            self.curves[name].setData(x, data[name].cumulative(index), connect="finite", antialias=taken <= 400)
            low, high = data[name].band(index)
            known = ~np.isnan(low)
            x, low, high = x[known], low[known], high[known]
            self.bands[name].setData(np.concatenate([x, x[::-1]]), np.concatenate([high, low[::-1]]))


class _Numbers(QWidget):
    """Two lines of figures under one header, the samples of their curves before them."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[tuple[str, str, tuple[str, str, str]]] = []
        self._verdict = ""
        self.setFixedHeight(4 * theme.line_height() + 8)
        self.setAccessibleName("Both runs in numbers")

    def show_lines(self, lines: list[tuple[str, str, tuple[str, str, str]]], verdict: str) -> None:
        """(arm, name, figures) each, and the sentence below them."""
        self._lines, self._verdict = lines, verdict
        self.setAccessibleDescription("; ".join([*(f"{n} {' '.join(f)}" for _, n, f in lines), verdict]))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter, line = theme.current(), QPainter(self), theme.line_height()
        painter.fillRect(self.rect(), colour(colours.base))
        mono = QFontMetrics(theme.mono_font(0.85))
        widths = [mono.horizontalAdvance(text) + 14 for text in ("0.0000 (n 0000)", "0.0000 – 0.0000", "0.000 (n 000)")]
        if self.width() < sum(widths) + 14 * theme.em():
            widths.pop()  # what has no room gives way to the names
        lefts = [self.width() - 8 - sum(widths[i:]) for i in range(len(widths))]
        heads = ("accepted / tested", "95 % interval", "tokens a round")
        painter.setFont(theme.ui_font(0.77))
        painter.setPen(colour(colours.text2))
        for left, width, head in zip(lefts, widths, heads, strict=False):
            painter.drawText(QRect(left, 2, width, line), Qt.AlignmentFlag.AlignRight | _FLAT, head)
        top = line + 2
        for arm, name, shown in self._lines:
            painter.setPen(line_pen(colours.danger) if arm == WITH else line_pen(colours.text, DOTTED))
            painter.drawLine(8, top + line // 2, 8 + 2 * theme.em(), top + line // 2)
            painter.setPen(colour(colours.text))
            painter.setFont(theme.ui_font(0.85))
            area = QRect(8 + round(2.6 * theme.em()), top, lefts[0] - round(2.6 * theme.em()) - 8, line)
            painter.drawText(
                area, _FLAT, painter.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, area.width())
            )
            painter.setFont(theme.mono_font(0.85))
            for left, width, text in zip(lefts, widths, shown, strict=False):
                painter.drawText(QRect(left, top, width, line), Qt.AlignmentFlag.AlignRight | _FLAT, text)
            top += line
        painter.setFont(theme.ui_font(0.85))
        painter.setPen(colour(colours.text2))
        area = QRect(8, top + 2, self.width() - 16, line)
        painter.drawText(
            area, _FLAT, painter.fontMetrics().elidedText(self._verdict, Qt.TextElideMode.ElideRight, area.width())
        )


class Comparison(CopiesTable):
    """Takes both runs in as they come; `runs`: by arm."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.runs: dict[str, RecordedRun] = {}
        self._data: dict[str, AcceptanceData] = {}
        self._fault: Fault | None = None
        self.setAccessibleName("Comparison with the cure")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.plot = ComparisonPlot()
        self.plot.setMinimumHeight(4 * theme.line_height())
        self._numbers = _Numbers()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.plot, 1)
        column.addWidget(self._numbers)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 28, 8 * theme.line_height() + 8)

    def set_low(self, low: bool) -> None:
        """Below the list, which needs its room too, the plot stays low."""
        self.plot.setMaximumHeight(round(5.5 * theme.line_height()) if low else _NO_LIMIT)

    def begin(self, fault: Fault) -> None:
        """Forget what was compared before."""
        self.runs, self._data, self._fault = {}, {}, fault
        self.refresh()

    def add(self, arm: str, run: RecordedRun) -> None:
        """One arm's run has begun."""
        self.runs[arm], self._data[arm] = run, AcceptanceData()

    def refresh(self) -> None:
        """Show what the runs have by now."""
        for arm, run in self.runs.items():
            self._data[arm].take_in(run)
        self.plot.draw(self._data)
        fault = self._fault
        if fault is None:
            return
        names = {WITH: fault.value, WITHOUT: fault.cure[fault.setting]}
        lines = [
            (arm, names[arm], figures(self.runs[arm].statistics) if arm in self.runs else ("-", "-", "-"))
            for arm in (WITH, WITHOUT)
        ]
        self._numbers.show_lines(lines, self.verdict())

    def verdict(self) -> str:
        """What the difference is, and whether the intervals tell it from none."""
        counted = [self.runs[arm].statistics for arm in (WITH, WITHOUT) if arm in self.runs]
        rates = [s.per_position_acceptance for s in counted]
        if len(rates) < 2 or None in rates or any(run.end is None for run in self.runs.values()):
            return ""
        bands = [wilson_interval(s.accepted, s.positions_tested) for s in counted]
        assert bands[0] is not None
        assert bands[1] is not None
        apart = bands[0][1] < bands[1][0] or bands[1][1] < bands[0][0]
        words = "the intervals lie apart" if apart else "the intervals overlap: one short run is noise"
        return f"difference {rates[0] - rates[1]:+.4f}; {words}"  # type: ignore[operator]

    def table(self) -> Table:
        names = ["tested", "accepted", "rate", "low", "high", "rounds", "emitted", "tokens_per_round"]
        lines = [["arm", "setting", "seed", *names]]
        for arm, run in self.runs.items():
            s = run.statistics
            band = wilson_interval(s.accepted, s.positions_tested) or (None, None)
            assert self._fault is not None
            value = getattr(run.header.settings, self._fault.setting)
            line = [arm, f"{self._fault.setting} = {value}", str(run.header.seed)]
            line += [str(s.positions_tested), str(s.accepted), exact(s.per_position_acceptance), *map(exact, band)]
            lines.append([*line, str(s.rounds), str(s.emitted), exact(s.tokens_per_round)])
        return lines

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self.plot.restyle(colours)
        self._numbers.update()
