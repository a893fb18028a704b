"""Icons drawn from paths in the palette's colours, at every scale that a screen may have."""

from __future__ import annotations

import math
from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPainterPath, QPen, QPixmap, QPolygonF

from app import theme

GRID = 16.0
_RATIOS = (1.0, 1.25, 1.5, 2.0, 3.0)

_cache: dict[tuple[str, int, str, str], QIcon] = {}


def icon(name: str, ink: str | None = None, size: int | None = None) -> QIcon:
    """The icon of this name (see NAMES), in the text colour unless given. Ask anew when the theme changes."""
    colours = theme.current()
    side = size if size is not None else round(theme.em() * 1.23)
    key = (name, side, ink or colours.text, colours.disabled)
    made = _cache.get(key)
    if made is None:
        made = _cache[key] = QIcon()
        for ratio in _RATIOS:
            made.addPixmap(_drawn(name, side, ratio, key[2]), QIcon.Mode.Normal)
            made.addPixmap(_drawn(name, side, ratio, key[3]), QIcon.Mode.Disabled)
    return made


def pixmap(name: str, ink: str, size: int, ratio: float) -> QPixmap:
    """One icon as a picture of `size` logical pixels."""
    return _drawn(name, size, ratio, ink)


def _drawn(name: str, side: int, ratio: float, ink: str) -> QPixmap:
    picture = QPixmap(math.ceil(side * ratio), math.ceil(side * ratio))
    picture.setDevicePixelRatio(ratio)
    picture.fill(Qt.GlobalColor.transparent)
    painter = QPainter(picture)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(side / GRID, side / GRID)
    _DRAWINGS[name](painter, QColor(ink))
    painter.end()
    return picture


# Every drawing gets a painter on a grid of 16 by 16.


def _stroke(painter: QPainter, ink: QColor, width: float = 1.5) -> None:
    pen = QPen(ink, width)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)


def _fill(painter: QPainter, ink: QColor, *points: tuple[float, float]) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(ink)
    if points:
        painter.drawPolygon(QPolygonF([QPointF(x, y) for x, y in points]))


def _lines(painter: QPainter, *lines: tuple[tuple[float, float], ...]) -> None:
    for line in lines:
        painter.drawPolyline(QPolygonF([QPointF(x, y) for x, y in line]))


def _bar(painter: QPainter, ink: QColor, x: float, width: float = 2.0, top: float = 3.0, bottom: float = 13.0) -> None:
    painter.fillRect(QRectF(x, top, width, bottom - top), ink)


def _play(painter: QPainter, ink: QColor) -> None:
    _fill(painter, ink, (4, 2.5), (13.5, 8), (4, 13.5))


def _pause(painter: QPainter, ink: QColor) -> None:
    _bar(painter, ink, 4, 3)
    _bar(painter, ink, 9, 3)


def _stop(painter: QPainter, ink: QColor) -> None:
    painter.fillRect(QRectF(3.5, 3.5, 9, 9), ink)


def _previous(painter: QPainter, ink: QColor) -> None:
    _fill(painter, ink, (11.5, 3), (4, 8), (11.5, 13))


def _next(painter: QPainter, ink: QColor) -> None:
    _fill(painter, ink, (4.5, 3), (12, 8), (4.5, 13))


def _first(painter: QPainter, ink: QColor) -> None:
    _bar(painter, ink, 2.5)
    _fill(painter, ink, (13, 3), (6, 8), (13, 13))


def _last(painter: QPainter, ink: QColor) -> None:
    _bar(painter, ink, 11.5)
    _fill(painter, ink, (3, 3), (10, 8), (3, 13))


def _small_cross(painter: QPainter, ink: QColor, x: float) -> None:
    _stroke(painter, ink, 1.7)
    _lines(painter, ((x - 2.6, 5.4), (x + 2.6, 10.6)), ((x + 2.6, 5.4), (x - 2.6, 10.6)))


def _previous_rejection(painter: QPainter, ink: QColor) -> None:
    _fill(painter, ink, (6.5, 4), (1, 8), (6.5, 12))
    _small_cross(painter, ink, 11.5)


def _next_rejection(painter: QPainter, ink: QColor) -> None:
    _fill(painter, ink, (9.5, 4), (15, 8), (9.5, 12))
    _small_cross(painter, ink, 4.5)


def _live(painter: QPainter, ink: QColor) -> None:
    _fill(painter, ink, (1, 3.5), (7, 8), (1, 12.5))
    _fill(painter, ink, (6.5, 3.5), (12.5, 8), (6.5, 12.5))
    _bar(painter, ink, 13, 2, 3.5, 12.5)


def _step(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.6)
    arc = QPainterPath(QPointF(2, 9.5))
    arc.cubicTo(QPointF(2.5, 2.5), QPointF(10.5, 1.8), QPointF(12.6, 7.2))
    painter.drawPath(arc)
    _fill(painter, ink, (15, 4.3), (14.2, 9.6), (9.6, 7.3))
    painter.drawEllipse(QPointF(8, 12.2), 1.8, 1.8)


def _position(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.6)
    _lines(painter, ((1.5, 4.5), (10, 4.5)))
    _fill(painter, ink, (9.5, 1.3), (14.5, 4.5), (9.5, 7.7))
    for x in (1.5, 6.5, 11.5):
        painter.fillRect(QRectF(x, 10, 3, 4), ink)


def _to_line(painter: QPainter, ink: QColor) -> None:
    """An arrow that ends at what stands at the right."""
    _stroke(painter, ink, 1.6)
    _lines(painter, ((1, 8), (5, 8)))
    _fill(painter, ink, (4, 4.6), (8.4, 8), (4, 11.4))


def _to_drift(painter: QPainter, ink: QColor) -> None:
    _to_line(painter, ink)
    _fill(painter, ink, (12, 4), (16, 12), (8, 12))


def _to_failure(painter: QPainter, ink: QColor) -> None:
    _to_line(painter, ink)
    _small_cross(painter, ink, 12.6)


def _float(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.2)
    painter.drawRect(QRectF(5.5, 2.5, 8, 8))
    _lines(painter, ((5.5, 5.5), (2.5, 5.5), (2.5, 13.5), (10.5, 13.5), (10.5, 10.5)))


def _close(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.5)
    _lines(painter, ((4, 4), (12, 12)), ((12, 4), (4, 12)))


def _dice(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.3)
    painter.drawRoundedRect(QRectF(2.2, 2.2, 11.6, 11.6), 2.4, 2.4)
    _fill(painter, ink)
    for x, y in ((5.3, 5.3), (10.7, 5.3), (8, 8), (5.3, 10.7), (10.7, 10.7)):
        painter.drawEllipse(QPointF(x, y), 1.15, 1.15)


def _edit(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.3)
    painter.drawRect(QRectF(2, 2.5, 12, 11))
    _lines(painter, ((4.5, 6), (11.5, 6)), ((4.5, 8.5), (11.5, 8.5)), ((4.5, 11), (8.5, 11)))


def _sliders(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.4)
    _lines(painter, ((2, 4), (14, 4)), ((2, 8), (14, 8)), ((2, 12), (14, 12)))
    _fill(painter, ink)
    for x, y in ((10.5, 4), (5, 8), (8.5, 12)):
        painter.drawEllipse(QPointF(x, y), 2.1, 2.1)


def _bug(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.3)
    painter.drawEllipse(QRectF(4.6, 5, 6.8, 9))
    _lines(painter, ((8, 7.6), (8, 14)), ((5.6, 5.6), (4.5, 2.5)), ((10.4, 5.6), (11.5, 2.5)))
    _lines(painter, ((4.6, 7.5), (1.8, 6)), ((4.6, 9.8), (1.5, 9.8)), ((5, 12), (2.2, 13.8)))
    _lines(painter, ((11.4, 7.5), (14.2, 6)), ((11.4, 9.8), (14.5, 9.8)), ((11, 12), (13.8, 13.8)))


def _chip(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.3)
    painter.drawRect(QRectF(3.5, 3.5, 9, 9))
    painter.drawRect(QRectF(6.3, 6.3, 3.4, 3.4))
    for at in (6.0, 10.0):
        _lines(painter, ((at, 3.5), (at, 1.2)), ((at, 12.5), (at, 14.8)))
        _lines(painter, ((3.5, at), (1.2, at)), ((12.5, at), (14.8, at)))


def _folder(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.3)
    _lines(painter, ((1.8, 13), (1.8, 3.2), (6, 3.2), (7.6, 5), (14.2, 5), (14.2, 13), (1.8, 13)))


def _warning(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.4)
    painter.drawPolygon(QPolygonF([QPointF(8, 1.8), QPointF(15, 14), QPointF(1, 14)]))
    _lines(painter, ((8, 6.3), (8, 9.8)))
    _fill(painter, ink)
    painter.drawEllipse(QPointF(8, 11.9), 0.95, 0.95)


def _cross(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 2.2)
    _lines(painter, ((3.8, 3.8), (12.2, 12.2)), ((12.2, 3.8), (3.8, 12.2)))


def _check(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 2.0)
    _lines(painter, ((2.8, 8.6), (6.3, 12.2), (13.2, 4.2)))


def _again(painter: QPainter, ink: QColor) -> None:
    _stroke(painter, ink, 1.6)
    painter.drawArc(QRectF(2.4, 3.4, 10.6, 10.6), 75 * 16, 250 * 16)
    _fill(painter, ink, (8, 0.4), (13, 3.6), (8, 6.8))


_DRAWINGS: dict[str, Callable[[QPainter, QColor], None]] = {
    "play": _play,
    "pause": _pause,
    "stop": _stop,
    "first": _first,
    "previous": _previous,
    "next": _next,
    "last": _last,
    "previous-rejection": _previous_rejection,
    "next-rejection": _next_rejection,
    "live": _live,
    "step": _step,
    "position": _position,
    "to-drift": _to_drift,
    "to-failure": _to_failure,
    "float": _float,
    "close": _close,
    "dice": _dice,
    "edit": _edit,
    "sliders": _sliders,
    "bug": _bug,
    "chip": _chip,
    "folder": _folder,
    "warning": _warning,
    "cross": _cross,
    "check": _check,
    "again": _again,
}
NAMES = tuple(_DRAWINGS)


def application_icon() -> QIcon:
    """The program's own mark: an accepted and a rejected draft, and the token that replaced it."""
    colours = theme.LIGHT
    made = QIcon()
    for side in (16, 32, 64, 128, 256):
        picture = QPixmap(side, side)
        picture.fill(Qt.GlobalColor.transparent)
        painter = QPainter(picture)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.scale(side / GRID, side / GRID)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colours.accent))
        painter.drawRoundedRect(QRectF(0.5, 0.5, 15, 15), 3, 3)
        for x, fill in ((2.6, colours.accepted.fill), (6.4, colours.rejected.fill), (10.2, colours.recovered.fill)):
            painter.setBrush(QColor(fill))
            painter.drawRect(QRectF(x, 5, 3.2, 6))
        painter.end()
        made.addPixmap(picture)
    return made
