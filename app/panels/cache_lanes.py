"""The two tall lanes of the ledger: one cell a position, held, another token, missing, too many or owed."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QLineF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QBrush, QFontMetrics, QHelpEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app import theme
from app.format import count
from app.panels.chips import colour, plain_tip
from app.panels.ledger_rows import DIFFERS, EXTRA, HELD, MISSING, NOTHING, OWED, STATUS_WORDS, Comparison, Lane

LEGEND = (
    (HELD, "held, as expected"),
    (DIFFERS, "≠ held, another token"),
    (MISSING, "missing"),
    (EXTRA, "+ too many"),
    (OWED, "owed"),
)
_LEFT, _RIGHT_PAD = 10, 10
_DIGITS_FROM = 0.9
"""Cells of so many em carry their sign; narrower ones are colour alone."""


class CacheLanes(QWidget):
    """Signals: `picked`, the position under a press."""

    picked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._found: Comparison | None = None
        self._prompt = 0
        self._legend = True
        self.setAccessibleName("Lanes of both caches")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_comparison(self, found: Comparison | None, prompt: int) -> None:
        """Show both caches; `prompt`: so many positions are the prompt's."""
        self._found, self._prompt = found, prompt
        self.setAccessibleDescription(self.spoken())
        self.update()

    def set_legend(self, shown: bool) -> None:
        """With or without the line that explains the cells."""
        if shown != self._legend:
            self._legend = shown
            self.updateGeometry()

    def spoken(self) -> str:
        """Both lanes in words."""
        if self._found is None:
            return ""
        parts = [f"{lane.name} holds {len(lane.held)} of {lane.expected}" for lane in self._found.lanes]
        first = self._found.first
        return ", ".join([*parts, "no difference" if first is None else f"first difference at position {first}"])

    # Sizes

    @property
    def _lane_height(self) -> int:
        return theme.line_height() + 2

    def _top(self, at: int) -> int:
        heads = QFontMetrics(theme.ui_font(0.85)).height() + QFontMetrics(theme.mono_font(0.77)).height() + 6
        return heads + at * (self._lane_height + 7)

    def sizeHint(self) -> QSize:
        lanes = len(self._found.lanes) if self._found is not None else 2
        legend = theme.line_height() + 4 if self._legend else 0
        return QSize(theme.em() * 30, self._top(lanes) + legend)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.sizeHint().height())

    def _place(self) -> tuple[float, float]:
        """(left edge of position 0, width of a cell)."""
        assert self._found is not None
        names = QFontMetrics(theme.ui_font(0.92)).horizontalAdvance("draft")
        number = QFontMetrics(theme.mono_font(0.92, 600)).horizontalAdvance(count(max(self._found.positions, 1000)))
        left = _LEFT + names + theme.em()
        room = self.width() - left - number - theme.em() - _RIGHT_PAD
        return left, max(min(room / max(self._found.positions, 1), theme.em() * 1.25), 0.001)

    def position_at(self, x: float) -> int | None:
        """The position under a pixel."""
        if self._found is None or not self._found.positions:
            return None
        left, cell = self._place()
        at = int((x - left) / cell)
        return at if x >= left and at < self._found.positions else None

    # Events

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at = self.position_at(event.position().x())
        if at is not None and event.button() == Qt.MouseButton.LeftButton:
            self.picked.emit(at)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.tip(event.pos().x()), self)
            return True
        return super().event(event)

    def tip(self, x: float) -> str:
        """What both caches hold at a pixel."""
        at = self.position_at(x)
        if at is None or self._found is None:
            return ""
        lines = [f"{lane.name}: {STATUS_WORDS[lane.status[at]] or 'nothing'}" for lane in self._found.lanes]
        return plain_tip(f"Position {at}", lines)

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, colours = QPainter(self), theme.current()
        painter.fillRect(self.rect(), colour(colours.base))
        if self._found is None:
            return
        left, cell = self._place()
        for at, lane in enumerate(self._found.lanes):
            self._lane(painter, lane, self._top(at), left, cell)
        self._heads(painter, left, cell)
        if self._legend:
            self._paint_legend(painter, left)

    def _lane(self, painter: QPainter, lane: Lane, top: int, left: float, cell: float) -> None:
        colours, height = theme.current(), self._lane_height
        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(theme.ui_font(0.92))
        painter.setPen(colour(colours.text))
        painter.drawText(QRectF(_LEFT, top, left, height), middle, lane.name)
        starts = self._starts(cell)
        states = np.maximum.reduceat(lane.status, starts) if len(starts) else lane.status[:0]
        if cell >= 4:
            edges = [(left + at * cell, left + (at + 1) * cell - 1, at) for at in starts.tolist()]
        else:  # what touches and looks the same is one
            looks = states.astype(np.int64) * 2 + (starts < self._prompt)
            fresh = np.flatnonzero(np.append(True, np.diff(looks) != 0)) if len(looks) else starts
            ends = np.append(starts[fresh[1:]], len(lane.status))
            pairs = zip(starts[fresh].tolist(), ends.tolist(), strict=True)
            edges = [(left + a * cell, max(left + b * cell, left + a * cell + 1), a) for a, b in pairs]
        states = lane.status if cell >= 4 else np.repeat(states, np.diff(np.append(starts, len(lane.status))))
        for x0, x1, at in edges:
            area = QRectF(round(x0), top, max(round(x1) - round(x0), 1), height)
            draw_status(painter, area, int(states[at]), at < self._prompt, cell >= theme.em() * _DIGITS_FROM)
        wrong = not lane.is_right
        painter.setFont(theme.mono_font(0.92, 600 if wrong else 400))
        painter.setPen(colour(colours.danger if wrong else colours.text))
        number = QRectF(0, top, self.width() - _RIGHT_PAD, height)
        painter.drawText(number, middle | Qt.AlignmentFlag.AlignRight, count(len(lane.held)))

    def _starts(self, cell: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The first position of each pixel column, or every position where they are wide enough."""
        assert self._found is not None
        every = np.arange(self._found.positions)
        if cell >= 1:
            return every
        return np.flatnonzero(np.diff(np.floor(every * cell), prepend=-1.0))

    def _heads(self, painter: QPainter, left: float, cell: float) -> None:
        """Prompt and emitted, the first difference, and the position numbers."""
        found, colours = self._found, theme.current()
        assert found is not None
        ui = QFontMetrics(theme.ui_font(0.85))
        right, line = left + found.positions * cell, ui.height()
        taken = (left, left)
        if found.first is not None:
            x = left + found.first * cell
            painter.setFont(theme.ui_font(0.85, 600))
            text = f"▼ first difference: position {found.first}"
            wide = painter.fontMetrics().horizontalAdvance(text)
            start = min(max(x - 4, left), max(self.width() - _RIGHT_PAD - wide, 0))
            painter.setPen(colour(colours.danger))
            painter.drawText(QRectF(start, 2, wide + 2, line), Qt.AlignmentFlag.AlignVCenter, text)
            painter.fillRect(
                QRectF(round(x) - 1, line + 2, 1, self._top(len(found.lanes)) - line - 6), painter.pen().color()
            )
            taken = (start, start + wide)
        painter.setFont(theme.ui_font(0.85))
        painter.setPen(colour(colours.text2))
        emitted = len(found.committed) - self._prompt
        words = f"emitted, {count(emitted)} (1 pending)" if emitted else "the last one is pending"
        prompt = f"prompt, {count(self._prompt)}"
        end = max(right, left + ui.horizontalAdvance(f"{prompt}  {words}") + theme.em())
        if left + ui.horizontalAdvance(prompt) < taken[0] or taken == (left, left):
            painter.drawText(QRectF(left, 2, end - left, line), Qt.AlignmentFlag.AlignVCenter, prompt)
        if end - ui.horizontalAdvance(words) > taken[1] + theme.em() / 2:
            side = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
            painter.drawText(QRectF(left, 2, end - left, line), side, words)
        painter.setFont(theme.mono_font(0.77))
        metrics = painter.fontMetrics()
        step = next(s for s in _STEPS if s * cell >= 3 * theme.em() or s == _STEPS[-1])
        for at in range(0, found.positions, step):
            x, wide = left + at * cell, metrics.horizontalAdvance(str(at))
            crossed = found.first is not None and x + 1 < left + found.first * cell < x + wide + 1
            if not crossed and (at == 0 or x + wide <= self.width()):
                area = QRectF(x, line + 3, wide + 2, metrics.height())
                painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, str(at))

    def _paint_legend(self, painter: QPainter, left: float) -> None:
        assert self._found is not None
        here = {int(status) for lane in self._found.lanes for status in np.unique(lane.status)}
        painter.setFont(theme.ui_font(0.85))
        side, x = round(theme.em() * 0.77), left
        top = self._top(len(self._found.lanes)) - 2
        for status, words in LEGEND:
            if status not in here:
                continue
            wide = painter.fontMetrics().horizontalAdvance(words)
            if x + side + 6 + wide > self.width():
                return
            draw_status(painter, QRectF(x, top + (theme.line_height() - side) // 2, side, side), status, False, False)
            painter.setPen(colour(theme.current().text2))
            area = QRectF(x + side + 6, top, wide + 2, theme.line_height())
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, words)
            x += side + 6 + wide + 2 * theme.em()


_STEPS = tuple(factor * 10**power for power in range(8) for factor in (1, 2, 5))[2:]


def draw_status(painter: QPainter, area: QRectF, status: int, prompt: bool, signed: bool) -> None:
    """One cell: filled where it is held, red with its sign where it is wrong, hatched where it is missing."""
    colours = theme.current()
    if status == NOTHING:
        return
    if status == HELD:
        painter.fillRect(area, colour(colours.disabled if prompt else colours.text2))
        return
    if status in (DIFFERS, EXTRA):
        painter.fillRect(area, colour(colours.danger))
        if signed:
            painter.setFont(theme.mono_font(0.85, 600))
            painter.setPen(colour(colours.base))
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter, "≠" if status == DIFFERS else "+")
        return
    ink = colour(colours.danger if status == MISSING else colours.text2)
    if status == MISSING:
        painter.fillRect(area, colour(colours.danger_tint))
    if area.width() < 4:
        painter.fillRect(area, colour(colours.danger_tint if status == MISSING else colours.line))
        return
    if status == MISSING:
        painter.save()
        painter.setClipRect(area)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(ink, 1))
        step, x = 5.0, area.left() - area.height()
        x -= x % step
        while x < area.right():
            painter.drawLine(QLineF(x, area.bottom(), x + area.height(), area.top()))
            x += step
        painter.restore()
    painter.setBrush(QBrush(Qt.BrushStyle.NoBrush))
    painter.setPen(QPen(ink, 1, Qt.PenStyle.SolidLine if status == MISSING else Qt.PenStyle.DotLine))
    painter.drawRect(area.adjusted(0, 0, -1, -1))
