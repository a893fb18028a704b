"""The meters: where tokens fell in the distributions that they should come from, and the evidence against it."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import QFontMetrics, QHelpEvent, QPainter, QPaintEvent, QPen, QPolygonF, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app import theme
from app.format import count
from app.panels.chips import colour, plain_tip
from app.panels.help_button import HelpButton
from app.panels.meters_data import (
    ALARM_LOG,
    MeterReading,
    MetersReading,
    evidence,
    meters_table,
    read_meters,
    thin,
)
from app.panels.need_diagnostics import NeedDiagnostics
from app.panels.title_controls import CopiesTable, Table, draw_sentence, shelve
from app.theme import Palette
from app.view import View
from engine.evidence import ALARM, BINS

EMPTY = "Whether the text is still the target's own is metered here, from the first round on."
NEEDS = "The meters look at every draw and at what it should come from, and that takes Diagnostics."
PAGE = "meters.md"
PAD = 8
_FLAT = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine
_RIGHT = Qt.AlignmentFlag.AlignRight | _FLAT


class MetersPanel(CopiesTable):
    """Two meters side by side, each with its histograms and its evidence, and the accept identity below them.

    They tell of the whole run so far, wherever the cursor stands. Signals: `title_changed`; `help_wanted` (a page);
    `change_wanted` (live settings to set).
    """

    title_changed = Signal()
    help_wanted = Signal(str)
    change_wanted = Signal(dict)

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self._context = ""
        self._reading: MetersReading | None = None
        self._curves: tuple[np.ndarray, np.ndarray] = (np.zeros(0, np.float32), np.zeros(0, np.float32))
        self.setObjectName("meters")
        self.setAccessibleName("Meters")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self._needed = NeedDiagnostics(NEEDS, self)
        self._needed.wanted.connect(self._want_diagnostics)
        self._help = HelpButton(PAGE, "what the meters show")
        self._help.wanted.connect(self.help_wanted)
        shelve(self, self._help)
        view.join(self, self._refresh)
        view.run_changed.connect(self._on_run_changed)
        theme.notifier.changed.connect(self.update)
        self._refresh()

    # What the dock and the window ask

    def title_name(self) -> str:
        return "Meters"

    def title_context(self) -> str:
        """How many tokens were looked at, and whether a meter has tripped."""
        return self._context

    def title_widgets(self) -> list[QWidget]:
        """The button that opens the help page."""
        return [self._help]

    def set_diagnostics(self, on: bool) -> None:
        """Whether the next round brings what the meters need."""
        self._needed.set_on(on)

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 34, 14 * theme.line_height())

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 18, 5 * theme.line_height())

    def table(self) -> Table:
        return meters_table(self._view.run, self._reading)

    def reading(self) -> MetersReading | None:
        """What is shown."""
        return self._reading

    def _want_diagnostics(self) -> None:
        self.change_wanted.emit({"diagnostics": True})

    # Following the view

    def _on_run_changed(self) -> None:
        if not self._view.telling:
            self._refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._needed.setGeometry(self.rect())

    def _refresh(self) -> None:
        run = self._view.run
        self._reading = reading = read_meters(run) if run is not None else None
        self._needed.setVisible(reading is None and run is not None and len(run) > 0)
        context = "" if reading is None else _context(reading)
        if context != self._context:
            self._context = context
            self.title_changed.emit()
        identity = "" if reading is None else f"; accept identity {reading.identity.text}"
        self.setAccessibleDescription(context + identity)
        if self.isVisible():
            if run is not None and reading is not None:
                self._curves = (run.meters.losslessness.curve(), run.meters.proposal.curve())
            self.update()

    # Geometry

    def _areas(self) -> tuple[QRect, QRect, QRect]:
        """Of the two meters, and of the line below them."""
        foot = theme.line_height() + 6
        height = max(self.height() - foot, 0)
        # The first has two histograms, so it gets more.
        first = round(self.width() * 0.56)
        return (
            QRect(0, 0, first, height),
            QRect(first, 0, self.width() - first, height),
            QRect(0, height, self.width(), foot),
        )

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), colour(colours.base))
        reading = self._reading
        if reading is None:
            if self._needed.isHidden():
                draw_sentence(painter, self, EMPTY)
            return
        first, second, foot = self._areas()
        self._paint_meter(painter, colours, first, reading.losslessness, self._curves[0], colours.p)
        painter.fillRect(second.left(), 0, 1, second.height(), colour(colours.line))
        self._paint_meter(painter, colours, second, reading.proposal, self._curves[1], colours.q)
        painter.fillRect(0, foot.top(), self.width(), 1, colour(colours.line))
        painter.fillRect(foot.adjusted(0, 1, 0, 0), colour(colours.alternate))
        inner = foot.adjusted(PAD, 1, -PAD, 0)
        left = _words(painter, inner, "Accept identity  ", colours.text, theme.ui_font(0.92, 600))
        rest = inner.adjusted(left, 0, 0, 0)
        painter.setFont(theme.ui_font(0.92))
        shown = painter.fontMetrics().elidedText(reading.identity.text, Qt.TextElideMode.ElideRight, rest.width())
        _words(painter, rest, shown, colours.text2, theme.ui_font(0.92))

    def _paint_meter(
        self, painter: QPainter, colours: Palette, area: QRect, meter: MeterReading, curve: np.ndarray, ink: str
    ) -> None:
        line = theme.line_height()
        inner = area.adjusted(PAD, 3, -PAD, -3)
        head = QRect(inner.left(), inner.top(), inner.width(), line)
        used = _words(painter, head, meter.name, colours.text, theme.ui_font(0.92, 600))
        if meter.reason:
            painter.setFont(theme.ui_font(0.92))
            painter.setPen(colour(colours.text2))
            words = inner.adjusted(0, line, 0, 0)
            reason = meter.reason[:1].upper() + meter.reason[1:] + "."
            painter.drawText(words, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, reason)
            return
        tripped = meter.alarm_at is not None
        self._paint_head(painter, colours, head.adjusted(used + 6, 0, 0, 0), meter)
        body = inner.adjusted(0, line + 2, 0, 0)
        if body.height() < 2 * line:
            return
        beside = body.width() > 2.4 * body.height()
        if beside:
            half = round(body.width() * (0.5 if len(meter.orders) > 1 else 0.4))
            bars, plot = QRect(body.left(), body.top(), half - PAD, body.height()), body.adjusted(half, 0, 0, 0)
        else:
            half = round(body.height() * 0.46)
            bars, plot = QRect(body.left(), body.top(), body.width(), half), body.adjusted(0, half + 4, 0, 0)
        wide = (bars.width() - PAD * (len(meter.orders) - 1)) // len(meter.orders)
        for at, (order, counts) in enumerate(zip(meter.orders, meter.counts, strict=True)):
            place = QRect(bars.left() + at * (wide + PAD), bars.top(), wide, bars.height())
            self._paint_bins(painter, colours, place, order, counts, ink)
        self._paint_curve(painter, colours, plot, curve, meter, colours.danger if tripped else colours.text)

    def _paint_head(self, painter: QPainter, colours: Palette, area: QRect, meter: MeterReading) -> None:
        """At the right the verdict and E; n where there is room."""
        tripped = meter.alarm_at is not None
        font = theme.ui_font(0.92, 600 if tripped else 400)
        painter.setFont(font)
        whole = f"n {count(meter.n)} · E {evidence(meter.log10)}"
        texts = [f"{whole} · {meter.verdict}", f"{whole} · ▲ at {count(meter.alarm_at or 0)}" if tripped else whole]
        texts.append(f"▲ at {count(meter.alarm_at or 0)}" if tripped else f"E {evidence(meter.log10)}")
        if meter.blind and not tripped:
            texts[1:] = [meter.verdict, "blind"]
        metrics = painter.fontMetrics()
        text = next((text for text in texts if metrics.horizontalAdvance(text) <= area.width()), texts[-1])
        painter.setPen(colour(colours.danger if tripped else colours.text2))
        painter.drawText(area, _RIGHT, metrics.elidedText(text, Qt.TextElideMode.ElideRight, area.width()))

    def _paint_bins(
        self, painter: QPainter, colours: Palette, area: QRect, order: str, counts: tuple[int, ...], ink: str
    ) -> None:
        """A histogram of U against uniform, with the band that holds two standard deviations of a bin."""
        painter.setFont(theme.ui_font(0.85))
        label = painter.fontMetrics().height()
        painter.setPen(colour(colours.text2))
        painter.drawText(QRect(area.left(), area.bottom() - label + 1, area.width(), label), _FLAT, f"U by {order}")
        plot = area.adjusted(0, 0, 0, -label - 1)
        n = sum(counts)
        if n == 0 or plot.height() < 8:
            return
        expected = n / BINS
        spread = 2 * (n * (1 / BINS) * (1 - 1 / BINS)) ** 0.5
        most: float = max(*counts, expected + spread) * 1.04

        def y(value: float) -> int:
            return plot.bottom() + 1 - round(max(value, 0.0) / most * plot.height())

        edges = [plot.left() + round(at * plot.width() / BINS) for at in range(BINS + 1)]
        top, bottom = y(expected + spread), y(expected - spread)
        painter.fillRect(QRect(plot.left(), top, plot.width(), bottom - top), colour(colours.band))
        for left, right, number in zip(edges, edges[1:], counts, strict=False):
            painter.fillRect(left, y(number), max(right - left - 1, 1), plot.bottom() + 1 - y(number), colour(ink))
        pen = QPen(colour(colours.text), 1)
        pen.setDashPattern([4, 3])
        painter.setPen(pen)
        painter.drawLine(plot.left(), y(expected), plot.right(), y(expected))
        painter.fillRect(plot.left(), plot.bottom() + 1, plot.width(), 1, colour(colours.line))

    def _paint_curve(
        self, painter: QPainter, colours: Palette, area: QRect, curve: np.ndarray, meter: MeterReading, ink: str
    ) -> None:
        """log10 E by token; the alarm line at its threshold."""
        font = theme.mono_font(0.77)
        metrics = QFontMetrics(font)
        finite = curve[np.isfinite(curve)]
        if not len(finite) or area.height() < 2 * metrics.height():
            return
        low = min(float(np.floor(finite.min())), -1.0)
        high = max(float(np.ceil(finite.max())), ALARM_LOG + 1)
        ticks = [0.0] + [value for value in (low, high) if abs(value) > (high - low) / 6]
        names = {value: "1" if value == 0 else f"1e{value:.0f}" for value in ticks}
        names[ALARM_LOG] = f"1e{ALARM_LOG:.0f}"
        left = max(metrics.horizontalAdvance(name) for name in names.values()) + 5
        plot = area.adjusted(left, metrics.height() // 2, 0, -metrics.height() - 1)
        if plot.width() < 8 or plot.height() < 8:
            return

        def y(value: float) -> int:
            return plot.bottom() - round((value - low) / (high - low) * plot.height())

        painter.setFont(font)
        taken: list[int] = []
        for value in (ALARM_LOG, *ticks):
            at = y(value)
            painter.fillRect(plot.left(), at, plot.width(), 1, colour(colours.grid))
            if any(abs(at - other) < metrics.height() for other in taken):
                continue
            taken.append(at)
            painter.setPen(colour(colours.danger if value == ALARM_LOG else colours.text2))
            place = QRect(area.left(), at - metrics.height() // 2, left - 5, metrics.height())
            painter.drawText(place, _RIGHT, names[value])
        pen = QPen(colour(colours.danger), 1)
        pen.setDashPattern([6, 3])
        painter.setPen(pen)
        painter.drawLine(plot.left(), y(ALARM_LOG), plot.right(), y(ALARM_LOG))
        tokens, values = thin(curve, max(plot.width(), 1))
        xs = plot.left() + (tokens - 1) / max(len(curve) - 1, 1) * (plot.width() - 1)
        ys = plot.bottom() - (np.clip(values, low, high) - low) / (high - low) * plot.height()
        painter.setPen(QPen(colour(ink), 1))
        painter.drawPolyline(QPolygonF([QPointF(x, y) for x, y in zip(xs.tolist(), ys.tolist(), strict=True)]))
        below = QRect(plot.left(), plot.bottom() + 2, plot.width(), metrics.height())
        painter.setPen(colour(colours.text2))
        painter.drawText(below, Qt.AlignmentFlag.AlignLeft | _FLAT, "1")
        painter.drawText(below, _RIGHT, count(len(curve)))
        middle = f"E by {meter.noun} token"
        painter.setFont(theme.ui_font(0.85))
        if painter.fontMetrics().horizontalAdvance(middle) < plot.width() - 4 * theme.em():
            painter.drawText(below, Qt.AlignmentFlag.AlignHCenter | _FLAT, middle)

    # Tooltips

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip and self._reading is not None:
            first, second, _ = self._areas()
            if first.contains(event.pos()):
                tip = _meter_tip(self._reading.losslessness)
            elif second.contains(event.pos()):
                tip = _meter_tip(self._reading.proposal)
            else:
                tip = plain_tip("Accept identity: accepted minus predicted", _identity_lines(self._reading))
            QToolTip.showText(event.globalPos(), tip, self)
            return True
        return super().event(event)


def _words(painter: QPainter, area: QRect, text: str, ink: str, font: object) -> int:
    """Write from the left, and give the width taken."""
    painter.setFont(font)  # type: ignore[arg-type]
    painter.setPen(colour(ink))
    painter.drawText(area, _FLAT, text)
    return painter.fontMetrics().horizontalAdvance(text)


def _context(reading: MetersReading) -> str:
    tripped = [f"{m.name.lower()}: {m.verdict}" for m in reading.meters if m.alarm_at is not None]
    seen = f"n {count(reading.losslessness.n)} emitted, {count(reading.proposal.n)} drafted, whole run"
    missing = f"; {count(reading.missing)} tokens without Diagnostics" if reading.missing else ""
    if tripped:
        return "; ".join(tripped) + f"; {seen}{missing}"
    if all(meter.reason for meter in reading.meters):
        return "not applicable"
    blind = reading.losslessness.blind
    return f"{'p itself is wrong, which no meter can see' if blind else 'no alarm'}; {seen}{missing}"


def _meter_tip(meter: MeterReading) -> str:
    if meter.reason:
        return plain_tip(f"{meter.name} meter", [meter.reason])
    under = "p" if meter.noun == "emitted" else "q"
    lines = [
        f"U = F(x-) + v {under}(x) of {count(meter.n)} {meter.noun} tokens x, in {BINS} bins; dashed: uniform",
        *(
            f"by {order}: E {evidence(log10)}, bins {' '.join(map(str, counts))}"
            for order, counts, log10 in zip(meter.orders, meter.counts, meter.log10_by_order, strict=True)
        ),
        f"E {evidence(meter.log10)}" + (", the mean of both" if len(meter.orders) > 1 else ""),
        f"Alarm at {ALARM:,.0f}, which a right run reaches with probability {1 / ALARM:g} at most.",
    ]
    if meter.alarm_at is not None:
        lines.append(meter.verdict)
    if meter.blind:
        lines.append("A fault of the main cache is on: p itself is wrong, and the meter compares with that p.")
    return plain_tip(f"{meter.name} meter", lines)


def _identity_lines(reading: MetersReading) -> list[str]:
    return [
        reading.identity.formula,
        "Near a standard normal if the rule does what it says, at an end that was fixed beforehand.",
    ]
