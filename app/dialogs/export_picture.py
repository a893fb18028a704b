"""A panel as a picture: PNG at twice its size, or SVG, with a line above it that says what it shows."""

from __future__ import annotations

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPoint, QRect, QSize, Qt
from PySide6.QtGui import QFontMetrics, QImage, QImageWriter, QPainter
from PySide6.QtSvg import QSvgGenerator
from PySide6.QtWidgets import QWidget

from app import theme
from app.panels.chips import colour

KINDS = ("png", "svg")
PER_INCH = 96
SCALE = 2
"""Pixels of a PNG for each of the screen's."""


def picture(panel: QWidget, title: str, kind: str, scheme: str | None = None) -> bytes:
    """A panel that is shown, as the bytes of a file of a kind of KINDS.

    `scheme`: light or dark, None for the colours in use. Text is plain, so a file can't hold more than what is seen.
    """
    palette = {None: theme.current(), "light": theme.LIGHT, "dark": theme.DARK}[scheme]
    with theme.borrowed(palette):
        return _png(panel, title) if kind == "png" else _svg(panel, title)


def _size(panel: QWidget) -> QSize:
    return QSize(panel.width(), panel.height() + _head())


def _head() -> int:
    return theme.line_height() + 6


def _png(panel: QWidget, title: str) -> bytes:
    image = QImage(_size(panel) * SCALE, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(SCALE)
    painter = QPainter(image)
    _paint(painter, panel, title)
    painter.end()
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    buffer.close()
    return bytes(data.data())


def _svg(panel: QWidget, title: str) -> bytes:
    data = QByteArray()
    buffer = QBuffer(data)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    size = _size(panel)
    generator.setSize(size)
    generator.setViewBox(QRect(QPoint(0, 0), size))
    generator.setResolution(PER_INCH)
    generator.setTitle(f"Draftscope: {title}")
    painter = QPainter(generator)
    _paint(painter, panel, title)
    painter.end()
    buffer.close()
    return bytes(data.data())


def _paint(painter: QPainter, panel: QWidget, title: str) -> None:
    colours, head = theme.current(), _head()
    painter.fillRect(QRect(0, 0, panel.width(), head), colour(colours.window))
    flags = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine
    painter.setFont(theme.ui_font(0.92, 600))
    painter.setPen(colour(colours.text))
    painter.drawText(QRect(8, 0, panel.width() - 16, head), flags, title)
    left = 8 + QFontMetrics(theme.ui_font(0.92, 600)).horizontalAdvance(title) + 10
    area = QRect(left, 0, max(panel.width() - left - 8, 0), head)
    painter.setFont(theme.ui_font(0.92))
    painter.setPen(colour(colours.text2))
    told = painter.fontMetrics().elidedText(_context(panel), Qt.TextElideMode.ElideRight, area.width())
    painter.drawText(area, flags, told)
    painter.save()
    painter.translate(0, head)
    panel.render(painter, QPoint(0, 0))
    painter.restore()


def _context(panel: QWidget) -> str:
    return str(panel.title_context()) if hasattr(panel, "title_context") else ""
