"""A slider for the accept draw u: green up to where the draft is accepted, hatched beyond, a tick where u was drawn."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRect, QSize, Qt
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QPolygonF
from PySide6.QtWidgets import QSlider, QWidget

from app import theme
from app.panels.chips import colour, hatch

STEPS = 1000
"""u is set in steps of a thousandth; the field beside it takes any number."""


class CoinSlider(QSlider):
    """u from 0 to 0.999 as whole steps. A press puts the needle there; keys move it as in every slider."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self.setRange(0, STEPS - 1)
        self.setPageStep(STEPS // 20)
        self.setAccessibleName("u, the accept draw, as a slider")
        self.setToolTip("Drag the needle: green up to p(d)/q(d), where the draft is accepted; the tick is the u drawn")
        self._share: float | None = None
        self._drawn: float | None = None
        self._needle: float | None = None

    def show_test(self, share: float | None, drawn: float | None, needle: float | None) -> None:
        """Accepted up to `share`, None: not decided by u. `drawn`: the recorded u; `needle`: the one tried."""
        self._share, self._drawn, self._needle = share, drawn, needle
        if needle is not None:
            self.blockSignals(True)
            self.setValue(min(round(needle * STEPS), STEPS - 1))
            self.blockSignals(False)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 10, theme.line_height() + 4)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 6, theme.line_height() + 4)

    # Geometry

    def _bar(self) -> QRect:
        side = round(theme.em() * 0.4)
        thick = max(round(theme.em() * 0.5), 5)
        return QRect(side, self.height() - thick - 2, max(self.width() - 2 * side, 1), thick)

    def x_of(self, u: float) -> float:
        """Where a u stands."""
        bar = self._bar()
        return bar.left() + u * bar.width()

    def _set_from(self, x: float) -> None:
        bar = self._bar()
        self.setValue(round((x - bar.left()) / bar.width() * STEPS))

    # Events

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self.setSliderDown(True)
            self._set_from(event.position().x())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._set_from(event.position().x())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self.setSliderDown(False)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter, bar = theme.current(), QPainter(self), self._bar()
        if self._share is None or not self.isEnabled():
            painter.fillRect(bar, colour(colours.grid))
            return
        edge = round(self.x_of(min(self._share, 1.0)))
        painter.fillRect(QRect(bar.left(), bar.top(), edge - bar.left(), bar.height()), colour(colours.accepted.fill))
        painter.fillRect(QRect(edge, bar.top(), bar.right() + 1 - edge, bar.height()), hatch(colours))
        painter.fillRect(edge, bar.top() - 2, 1, bar.height() + 4, colour(colours.text))
        if self._drawn is not None:
            painter.fillRect(round(self.x_of(self._drawn)), bar.top() - 3, 1, bar.height() + 5, colour(colours.text2))
        if self._needle is not None:
            self._paint_needle(painter, bar)

    def _paint_needle(self, painter: QPainter, bar: QRect) -> None:
        colours, x = theme.current(), self.x_of(self._needle or 0.0)
        half = theme.em() * 0.36
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(colour(colours.base))
        painter.setBrush(colour(colours.accent if self.hasFocus() else colours.text))
        top = bar.top() - 2 * half - 1
        painter.drawPolygon(QPolygonF([QPointF(x - half, top), QPointF(x + half, top), QPointF(x, bar.top() + 1)]))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.fillRect(round(x), bar.top(), 1, bar.height(), colour(colours.text))
