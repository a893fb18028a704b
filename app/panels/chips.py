"""Draws tokens the same way everywhere: chips by what became of the token, their glyphs, and bare token text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFontMetricsF,
    QGlyphRun,
    QPainter,
    QPainterPath,
    QPen,
    QPixmap,
    QPolygonF,
    QTextLayout,
    QTextOption,
)

from app import theme
from app.format import visible_runs, visible_text
from app.theme import Palette
from engine.text import Vocabulary

Tokens = npt.NDArray[np.int64]

PAD, GLYPH_GAP, UNDERLINE, RADIUS = 3, 3, 2, 4
_CACHE_LIMIT = 20_000
_PICTURE_LIMIT = 1_000
CHIP_MARGIN = 2
"""Pixels above and below a chip that belong to its picture: a tall letter reaches into them."""

SOLID, DOTTED, DASHED = "solid", "dotted", "dashed"


@dataclass(frozen=True, slots=True)
class ChipStyle:
    """How one kind of token looks. `tint` and `underline` None: without; `pattern`: how the underline is drawn."""

    label: str
    ink: str
    underline: str | None = None
    pattern: str = SOLID
    tint: str | None = None
    glyph: str | None = None
    glyph_ink: str = ""
    struck: bool = False


def chip_styles(colours: Palette) -> dict[str, ChipStyle]:
    """The style of every kind: the sources of emitted tokens, `prompt`, and the fates of drafts."""
    good, bad, again, more, drawn = (
        colours.accepted,
        colours.rejected,
        colours.recovered,
        colours.bonus,
        colours.target_draw,
    )
    return {
        "prompt": ChipStyle("prompt", colours.text2),
        "accepted": ChipStyle("accepted", colours.text, good.fill, glyph="check", glyph_ink=good.ink),
        "recovered": ChipStyle(
            "recovered", colours.text, again.fill, tint=again.tint, glyph="again", glyph_ink=again.ink
        ),
        "bonus": ChipStyle("bonus", colours.text, more.fill, tint=more.tint, glyph="plus", glyph_ink=more.ink),
        "target-draw": ChipStyle("target draw", colours.text, drawn.fill, glyph="diamond", glyph_ink=drawn.ink),
        "greedy": ChipStyle("argmax", colours.text, drawn.fill, glyph="solid-diamond", glyph_ink=drawn.ink),
        "degenerate-fallback": ChipStyle(
            "degenerate fallback", colours.text, again.fill, DASHED, again.tint, "approximately", again.ink
        ),
        "rejected": ChipStyle(
            "rejected", colours.text, bad.fill, DOTTED, glyph="cross", glyph_ink=bad.ink, struck=True
        ),
        "ignored": ChipStyle("not tested", colours.disabled, colours.line, DASHED),
    }


@lru_cache(maxsize=256)
def colour(name: str) -> QColor:
    """A colour token as QColor, made once. Don't change it: it is shared."""
    return QColor(name)


@lru_cache(maxsize=1)
def glyph_size() -> int:
    """Side of a glyph's square in pixels."""
    return max(round(theme.em() * 0.72), 8)


_glyph_cache: dict[tuple[str, str, int, float], QPixmap] = {}


def draw_glyph(painter: QPainter, x: float, y: float, name: str, ink: str, size: int | None = None) -> None:
    """Draw a glyph (check, cross, again, plus, diamond, solid-diamond, approximately, warning, play) at top left."""
    side = glyph_size() if size is None else size
    ratio = painter.device().devicePixelRatioF() if painter.device() else 1.0
    key = (name, ink, side, ratio)
    pixmap = _glyph_cache.get(key)
    if pixmap is None:
        if len(_glyph_cache) > 256:
            _glyph_cache.clear()
        pixmap = _glyph_cache[key] = _render_glyph(name, ink, side, ratio)
    painter.drawPixmap(QPointF(round(x), round(y)), pixmap)


def _render_glyph(name: str, ink_name: str, side: int, ratio: float) -> QPixmap:
    pixmap = QPixmap(math.ceil(side * ratio), math.ceil(side * ratio))
    pixmap.setDevicePixelRatio(ratio)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.scale(side / 10, side / 10)
    ink = QColor(ink_name)
    pen = QPen(ink, 1.7)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    pen.setJoinStyle(Qt.PenJoinStyle.MiterJoin)
    painter.setPen(pen)
    _GLYPHS[name](painter, ink)
    painter.end()
    return pixmap


def _polygon(*points: tuple[float, float]) -> QPolygonF:
    return QPolygonF([QPointF(x, y) for x, y in points])


def _check(painter: QPainter, ink: QColor) -> None:
    painter.drawPolyline(_polygon((0.8, 5.2), (3.7, 8.1), (9.2, 2.2)))


def _cross(painter: QPainter, ink: QColor) -> None:
    painter.drawLine(QPointF(1.7, 1.9), QPointF(8.3, 8.5))
    painter.drawLine(QPointF(8.3, 1.9), QPointF(1.7, 8.5))


def _again(painter: QPainter, ink: QColor) -> None:
    painter.setPen(QPen(ink, 1.5))
    painter.drawArc(QRectF(1.0, 2.1, 7.2, 7.2), 80 * 16, 245 * 16)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(ink)
    painter.drawPolygon(_polygon((5.0, -0.3), (9.2, 2.2), (5.0, 4.7)))


def _plus(painter: QPainter, ink: QColor) -> None:
    painter.drawLine(QPointF(1.2, 5.2), QPointF(9.2, 5.2))
    painter.drawLine(QPointF(5.2, 1.2), QPointF(5.2, 9.2))


def _diamond(painter: QPainter, ink: QColor) -> None:
    painter.setPen(QPen(ink, 1.3))
    painter.drawPolygon(_polygon((5, 0.9), (9.1, 5), (5, 9.1), (0.9, 5)))


def _solid_diamond(painter: QPainter, ink: QColor) -> None:
    painter.setBrush(ink)
    _diamond(painter, ink)


def _approximately(painter: QPainter, ink: QColor) -> None:
    for y in (3.4, 7.0):
        wave = QPainterPath(QPointF(0.8, y + 0.8))
        wave.cubicTo(QPointF(3.2, y - 2.2), QPointF(6.4, y + 2.6), QPointF(9.2, y - 0.8))
        painter.drawPath(wave)


def _warning(painter: QPainter, ink: QColor) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(ink)
    painter.drawPolygon(_polygon((5, 0.8), (9.8, 9.2), (0.2, 9.2)))


def _play(painter: QPainter, ink: QColor) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(ink)
    painter.drawPolygon(_polygon((2.6, 0.9), (8.2, 5), (2.6, 9.1)))


_GLYPHS = {
    "check": _check,
    "cross": _cross,
    "again": _again,
    "plus": _plus,
    "diamond": _diamond,
    "solid-diamond": _solid_diamond,
    "approximately": _approximately,
    "warning": _warning,
    "play": _play,
}


def hatch(colours: Palette, ratio: float = 1.0) -> QBrush:
    """The 45 degree hatch of what was rejected, on its fill."""
    tile = QPixmap(math.ceil(6 * ratio), math.ceil(6 * ratio))
    tile.setDevicePixelRatio(ratio)
    tile.fill(QColor(colours.rejected.fill))
    painter = QPainter(tile)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(QColor(colours.base), 1.2))
    for offset in (-6, 0, 6):
        painter.drawLine(QPointF(offset - 1, 7), QPointF(offset + 7, -1))
    painter.end()
    brush = QBrush(tile)
    return brush


def plain_tip(title: str, lines: Iterable[str] = ()) -> str:
    """A tooltip that Qt takes as plain text: it looks for tags in the first line alone, and that one is ours."""
    if "<" in title or "&" in title:
        raise ValueError(f"a tooltip's first line must hold no token text: {title!r}")
    return "\n".join([title, *lines])


@dataclass(slots=True)
class _Laid:
    """A token's text, shaped once: glyph runs with their place, and whether they are the dim marks of spaces."""

    runs: list[tuple[QGlyphRun, float, bool]]
    width: float


class TokenPainter:
    """Paints tokens of one vocabulary; shapes each text once and keeps it.

    `set_vocabulary` and `restyle` may be called at any time; widths change only by the first.
    """

    def __init__(self, scale: float = 0.92, weight: int = 400) -> None:
        self._font = theme.mono_font(scale, weight)
        self.metrics = QFontMetricsF(self._font)
        self._baseline = round((self.height - UNDERLINE - self.metrics.height()) / 2 + self.metrics.ascent())
        self._vocabulary: Vocabulary | None = None
        self._laid: dict[int | tuple[int, int], _Laid] = {}
        self._widths: dict[tuple[int, str], int] = {}
        self._pictures: dict[tuple[int, str, bool, float], QPixmap] = {}
        self.restyle(theme.current())

    @property
    def height(self) -> int:
        """Height of a chip."""
        return theme.line_height() + 4

    def set_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        """Use another vocabulary; what was shaped is forgotten."""
        if vocabulary is not self._vocabulary:
            self._vocabulary = vocabulary
            self._laid.clear()
            self._widths.clear()
            self._pictures.clear()

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self.colours = colours
        self.styles = chip_styles(colours)
        self._pictures.clear()

    def kind(self, token: int) -> str:
        """The vocabulary's kind of a token; see Vocabulary.kind."""
        return self._vocabulary.kind(token) if self._vocabulary is not None else "unused"

    # Bare text

    def _shape(self, runs: Iterable[tuple[str, bool]]) -> _Laid:
        laid = _Laid([], 0.0)
        option = QTextOption()
        option.setTextDirection(Qt.LayoutDirection.LeftToRight)
        option.setWrapMode(QTextOption.WrapMode.NoWrap)
        for text, is_mark in runs:
            is_dim = is_mark and not text.strip("·")
            layout = QTextLayout(text, self._font)
            layout.setTextOption(option)
            layout.beginLayout()
            line = layout.createLine()
            line.setPosition(QPointF(0, 0))
            layout.endLayout()
            baseline = line.ascent()
            for run in layout.glyphRuns():
                # Positions count from the line's top; moved so that y = 0 is the baseline.
                run.setPositions([QPointF(p.x(), p.y() - baseline) for p in run.positions()])
                laid.runs.append((run, laid.width, is_dim))
            laid.width += line.naturalTextWidth()
        return laid

    def _lay(self, token: int, room: int | None = None) -> _Laid:
        laid = self._laid.get(token)
        if laid is None:
            if len(self._laid) > _CACHE_LIMIT:
                self._laid.clear()
            runs = visible_runs(self._vocabulary, token) if self._vocabulary is not None else ((f"<{token}>", True),)
            laid = self._laid[token] = self._shape(runs)
        if room is None or laid.width <= room or self._vocabulary is None:
            return laid
        key = (token, room)
        elided = self._laid.get(key)
        if elided is None:
            text = self.metrics.elidedText(
                visible_text(self._vocabulary, token), Qt.TextElideMode.ElideMiddle, max(room, 0)
            )
            elided = self._laid[key] = self._shape(((text, False),))
        return elided

    def text_width(self, token: int) -> float:
        """Width of the token's visible text in pixels."""
        return self._lay(token).width

    def draw_text(
        self, painter: QPainter, x: float, baseline: float, token: int, ink: str, room: int | None = None
    ) -> float:
        """Draw the visible text from x on a baseline, elided in its middle to `room`; gives the width drawn."""
        laid = self._lay(token, room)
        for run, offset, is_dim in laid.runs:
            painter.setPen(colour(self.colours.disabled if is_dim else ink))
            painter.drawGlyphRun(QPointF(x + offset, baseline), run)
        return laid.width

    # Chips

    def chip_width(self, token: int, kind: str, glyph: bool = True, room: int | None = None) -> int:
        """Width of a chip in whole pixels; the accepted, prompt and untested ones carry no glyph."""
        key = (token, kind if glyph else "")
        width = self._widths.get(key)
        if width is None:
            if len(self._widths) > _CACHE_LIMIT:
                self._widths.clear()
            extra = GLYPH_GAP + glyph_size() if glyph and self._carries_glyph(kind) else 0
            frame = 4 if self.kind(token) == "special" else 0
            width = self._widths[key] = math.ceil(self.text_width(token)) + 2 * PAD + extra + frame
        return width if room is None else min(width, max(room, 0))

    def chip_widths(self, tokens: Tokens, kinds: Tokens, names: Sequence[str]) -> Tokens:
        """Widths of many chips; `kinds`: indices into `names`. Each token that comes again is measured once."""
        pairs, places = np.unique(tokens * len(names) + kinds, return_inverse=True)
        found = [self.chip_width(pair // len(names), names[pair % len(names)]) for pair in pairs.tolist()]
        return np.array(found, np.int64)[places]

    def _carries_glyph(self, kind: str) -> bool:
        return self.styles[kind].glyph is not None and kind != "accepted"

    def draw_chip(
        self,
        painter: QPainter,
        x: int,
        y: int,
        token: int,
        kind: str,
        *,
        selected: bool = False,
        glyph: bool = True,
        room: int | None = None,
        framed: bool = True,
    ) -> int:
        """Draw a chip with its top left at (x, y) and give its width. `framed` False: the caller draws the frame
        of a selected chip, because two share one."""
        style, colours, height = self.styles[kind], self.colours, self.height
        width = self.chip_width(token, kind, glyph, room)
        token_kind = self.kind(token)
        area = QRect(x, y, width, height)
        back = style.tint or (colours.code if token_kind == "byte" else None)
        if selected and style.tint is None:
            back = colours.selection
        if back is not None:
            self._fill(painter, area, back)
        if style.underline is not None:
            draw_underline(painter, x, y + height - UNDERLINE, width, style.underline, style.pattern)
        inset = PAD + (2 if token_kind == "special" else 0)
        extra = GLYPH_GAP + glyph_size() if glyph and self._carries_glyph(kind) else 0
        text_room = width - 2 * inset - extra
        baseline = self.baseline(y)
        drawn = self.draw_text(painter, x + inset, baseline, token, style.ink, text_room + 1)
        if style.struck:
            middle = round(baseline - self.metrics.xHeight() / 2)
            painter.fillRect(QRectF(x + inset - 1, middle, drawn + 2, 1), colour(style.underline or style.ink))
        if token_kind == "special":
            self._frame(painter, area.adjusted(0, 0, 0, -3 if style.underline else -1), colours.text2)
        if extra and style.glyph is not None:
            top = y + math.floor((height - UNDERLINE - glyph_size()) / 2 + 0.5)
            draw_glyph(painter, x + width - PAD - glyph_size() + 1, top, style.glyph, style.glyph_ink)
        if selected and framed:
            self._frame(painter, area, colours.accent)
        return width

    def put_chip(self, painter: QPainter, x: int, y: int, token: int, kind: str, *, selected: bool = False) -> None:
        """What `draw_chip` without a frame draws, on the palette's base, from a picture kept of it.

        Where a pixel of the widget isn't a whole number of the screen's, a picture would blur: it is drawn anew.
        """
        ratio = painter.device().devicePixelRatioF()
        if ratio != round(ratio):
            self.draw_chip(painter, x, y, token, kind, selected=selected, framed=False)
            return
        key = (token, kind, selected, ratio)
        picture = self._pictures.get(key)
        if picture is None:
            if len(self._pictures) >= _PICTURE_LIMIT:
                self._pictures.clear()
            picture = self._pictures[key] = self._picture(*key)
        painter.drawPixmap(x, y - CHIP_MARGIN, picture)

    def _picture(self, token: int, kind: str, selected: bool, ratio: float) -> QPixmap:
        width, height = self.chip_width(token, kind), self.height + 2 * CHIP_MARGIN
        picture = QPixmap(round(max(width, 1) * ratio), round(height * ratio))
        picture.setDevicePixelRatio(ratio)
        picture.fill(colour(self.colours.base))
        painter = QPainter(picture)
        self.draw_chip(painter, 0, CHIP_MARGIN, token, kind, selected=selected, framed=False)
        painter.end()
        return picture

    def baseline(self, top: int) -> int:
        """Baseline of a chip's text, the chip's top being at `top`."""
        return top + self._baseline

    def draw_frame(self, painter: QPainter, area: QRect, *, focus: bool) -> None:
        """The frame of what is selected; dashed where the keyboard is."""
        self._frame(painter, area, self.colours.text if focus else self.colours.accent, focus)

    @staticmethod
    def _fill(painter: QPainter, area: QRect, name: str) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour(name))
        painter.drawRoundedRect(area, RADIUS, RADIUS)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)

    @staticmethod
    def _frame(painter: QPainter, area: QRect, name: str, dashed: bool = False) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        pen = QPen(colour(name), 1)
        if dashed:
            pen.setDashPattern([3, 2])
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(QRectF(area).adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def draw_underline(painter: QPainter, x: int, y: int, width: int, name: str, pattern: str = SOLID) -> None:
    """A chip's underline: solid, dotted or dashed, two pixels high."""
    ink = colour(name)
    if pattern == SOLID:
        painter.fillRect(x, y, width, UNDERLINE, ink)
        return
    dash, step = (UNDERLINE, 2 * UNDERLINE) if pattern == DOTTED else (6, 9)
    for left in range(x, x + width, step):
        painter.fillRect(left, y, min(dash, x + width - left), UNDERLINE, ink)
