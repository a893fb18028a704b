"""Paints a trial: the recorded test beside the tried one, and what a rejected draft would be replaced by."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QRect, Qt
from PySide6.QtGui import QFontMetrics, QHelpEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QToolTip, QWidget

from app import theme
from app.format import count, visible_text
from app.panels.chips import TokenPainter, colour, draw_glyph, glyph_size, plain_tip
from app.panels.trial_text import ALMOST, Cell, Line, Trial
from app.theme import Palette
from engine.text import Vocabulary

PAD, GAP = 8, 10
SIDE_BY_SIDE = 40
"""From so many em on, the test and the replacement stand side by side."""

_FLAT = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine
_RIGHT = Qt.AlignmentFlag.AlignRight | _FLAT
_WRAP = Qt.AlignmentFlag.AlignTop | Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap


class TrialSheet(QWidget):
    """The two tables. It is as high as they need at its width."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._trial = Trial("")
        self.tokens = TokenPainter(0.85)
        self._vocabulary: Vocabulary | None = None
        self.setAccessibleName("Trial")

    def set_vocabulary(self, vocabulary: Vocabulary | None) -> None:
        """The vocabulary that the tokens belong to."""
        self._vocabulary = vocabulary
        self.tokens.set_vocabulary(vocabulary)

    def show_it(self, trial: Trial) -> None:
        """Paint this."""
        self._trial = trial
        self.setMinimumHeight(self._needed())
        self.update()

    # Geometry

    @property
    def _row(self) -> int:
        return theme.line_height() + 1

    def _is_wide(self) -> bool:
        return self.width() >= SIDE_BY_SIDE * theme.em()

    def _areas(self) -> tuple[QRect, QRect]:
        """Of the test and of the replacement."""
        if self._is_wide():
            left = round(self.width() * 0.52)
            return QRect(0, 0, left, self.height()), QRect(left, 0, self.width() - left, self.height())
        first = self._test_height(self.width())
        return QRect(0, 0, self.width(), first), QRect(0, first, self.width(), max(self.height() - first, 0))

    def _words_height(self, text: str, width: int) -> int:
        metrics = QFontMetrics(theme.ui_font(0.85))
        return metrics.boundingRect(QRect(0, 0, max(width - 2 * PAD, 1), 10_000), _WRAP.value, text).height()

    def _test_height(self, width: int) -> int:
        words = (f"{ALMOST}{self._trial.approximate}" if self._trial.approximate else "", *self._trial.notes)
        heights = [self._words_height(text, width) + 4 for text in words if text]
        return (1 + len(self._trial.lines)) * self._row + sum(heights) + 6

    def _draws_height(self) -> int:
        return (1 + len(self._trial.draws) + bool(self._trial.others)) * self._row + 4

    def _needed(self) -> int:
        if self._trial.reason:
            return 3 * self._row
        first, _ = self._areas()
        if self._is_wide():
            return max(self._test_height(first.width()), self._draws_height())
        return self._test_height(self.width()) + self._draws_height()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.setMinimumHeight(self._needed())

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), colour(colours.base))
        if self._trial.reason or not self._trial.lines:
            return
        first, second = self._areas()
        self._paint_test(painter, colours, first)
        if self._is_wide():
            painter.fillRect(second.left(), 0, 1, self.height(), colour(colours.line))
            second.adjust(1, 0, 0, 0)
        self._paint_draws(painter, colours, second)

    def _paint_head(self, painter: QPainter, colours: Palette, area: QRect, texts: list[tuple[QRect, str]]) -> None:
        painter.fillRect(area.left(), area.top(), area.width(), self._row, colour(colours.alternate))
        painter.setFont(theme.ui_font(0.85))
        painter.setPen(colour(colours.text2))
        for place, text in texts:
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, place.width())
            painter.drawText(place, _FLAT, shown)

    def _columns(self, area: QRect, top: int) -> tuple[QRect, QRect, QRect]:
        """Name, recorded and tried of a row."""
        left, right = area.left() + PAD, area.right() + 1 - PAD
        metrics = QFontMetrics(theme.ui_font(0.85))
        name = max((metrics.horizontalAdvance(line.name) for line in self._trial.lines), default=0) + GAP
        wide = (right - left - name) // 2
        return (
            QRect(left, top, name, self._row),
            QRect(left + name, top, wide - 4, self._row),
            QRect(left + name + wide, top, wide, self._row),
        )

    def _paint_test(self, painter: QPainter, colours: Palette, area: QRect) -> None:
        name, was, tried = self._columns(area, area.top())
        self._paint_head(painter, colours, area, [(was, "recorded"), (tried, "tried")])
        # The draft that is tested, where it has room.
        self.tokens.draw_text(painter, name.left(), self._baseline(name), self._trial.draft, colours.text, name.width())
        top = area.top() + self._row
        if self._trial.approximate:
            top = self._paint_words(painter, colours, area, top + 1, self._trial.approximate, True) - 2
        for line in self._trial.lines:
            name, was, tried = self._columns(area, top)
            if line.changed:
                painter.fillRect(tried.adjusted(-4, 0, PAD, 0), colour(colours.selection))
            painter.setFont(theme.ui_font(0.85))
            painter.setPen(colour(colours.text2))
            painter.drawText(name, _FLAT, line.name)
            self._paint_cell(painter, colours, was, line.was, False)
            self._paint_cell(painter, colours, tried, line.tried, line.changed)
            top += self._row
        top += 4
        for text in self._trial.notes:
            top = self._paint_words(painter, colours, area, top, text, False)

    def _paint_words(self, painter: QPainter, colours: Palette, area: QRect, top: int, text: str, amber: bool) -> int:
        shown = f"{ALMOST}{text}" if amber else text
        high = self._words_height(shown, area.width())
        if amber:
            painter.fillRect(area.left(), top - 1, area.width(), high + 3, colour(colours.banner))
        painter.setFont(theme.ui_font(0.85))
        painter.setPen(colour(colours.text if amber else colours.text2))
        painter.drawText(QRect(area.left() + PAD, top, area.width() - 2 * PAD, high + 2), _WRAP, shown)
        return top + high + 4

    def _baseline(self, place: QRect) -> int:
        metrics = self.tokens.metrics
        return round(place.top() + (place.height() - metrics.height()) / 2 + metrics.ascent())

    def _paint_cell(self, painter: QPainter, colours: Palette, place: QRect, cell: Cell, changed: bool) -> None:
        ink = getattr(colours, cell.ink).ink if cell.ink else colours.text
        left = place.left()
        if cell.glyph is not None:
            draw_glyph(painter, left, place.top() + (place.height() - glyph_size()) / 2, cell.glyph, ink)
            left += glyph_size() + 4
        room = place.right() - left
        if cell.token is not None:
            self.tokens.draw_text(painter, left, self._baseline(place), cell.token, ink, room)
            return
        is_words = (cell.text[:1].isalpha() and " " in cell.text) or bool(cell.glyph)
        make = theme.ui_font if is_words else theme.mono_font
        painter.setFont(make(0.85, 600 if changed or cell.glyph else 400))
        painter.setPen(colour(ink))
        shown = painter.fontMetrics().elidedText(cell.text, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QRect(left, place.top(), room + 1, place.height()), _FLAT, shown)

    def _paint_draws(self, painter: QPainter, colours: Palette, area: QRect) -> None:
        trial = self._trial
        left, right = area.left() + PAD, area.right() + 1 - PAD
        head = QRect(left, area.top(), right - left, self._row)
        self._paint_head(painter, colours, area, [(head, f"A rejection draws from {trial.drawn_from}")])
        numbers = [text for _, _, text in trial.draws] + [trial.rest]
        number = max(QFontMetrics(theme.mono_font(0.85)).horizontalAdvance(text) for text in numbers) + 6
        label = min(round((right - left) * 0.34), 9 * theme.em())
        bar_left = left + label + 6
        span = max(right - number - bar_left, 1)
        most = max((value for _, value, _ in trial.draws), default=1.0)
        top = area.top() + self._row
        for token, value, text in trial.draws:
            place = QRect(left, top, label, self._row)
            width = min(self.tokens.text_width(token), label)
            self.tokens.draw_text(
                painter, round(place.right() - width), self._baseline(place), token, colours.text, label
            )
            high = theme.line_height() - 6
            length = max(round(value / max(most, 1e-12) * span * 0.96), 1)
            painter.fillRect(bar_left, top + (self._row - high) // 2, length, high, colour(colours.recovered.fill))
            painter.setFont(theme.mono_font(0.85))
            painter.setPen(colour(colours.text))
            painter.drawText(QRect(right - number, top, number, self._row), _RIGHT, text)
            top += self._row
        if trial.others:
            painter.fillRect(area.left(), top, area.width(), 1, colour(colours.grid))
            painter.setFont(theme.mono_font(0.85))
            painter.setPen(colour(colours.text2))
            painter.drawText(QRect(left, top, label, self._row), _RIGHT, f"{count(trial.others)} others")
            painter.setPen(colour(colours.text))
            painter.drawText(QRect(right - number, top, number, self._row), _RIGHT, trial.rest)

    # Tooltips

    def line_at(self, point: QPoint) -> Line | None:
        """The line of the test under a point."""
        first, _ = self._areas()
        at = (point.y() - first.top()) // self._row - 1
        return self._trial.lines[at] if first.contains(point) and 0 <= at < len(self._trial.lines) else None

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QHelpEvent) and event.type() == QEvent.Type.ToolTip:
            line = self.line_at(event.pos())
            if line is None:
                QToolTip.hideText()
            else:
                QToolTip.showText(event.globalPos(), self.line_tip(line), self)
            return True
        return super().event(event)

    def line_tip(self, line: Line) -> str:
        """A line in full: what it is, and both cells without an ellipsis."""

        def text(cell: Cell) -> str:
            if cell.token is None or self._vocabulary is None:
                return cell.text
            return f"{visible_text(self._vocabulary, cell.token)} (token {cell.token})"

        about = line.about[:1].upper() + line.about[1:]
        return plain_tip(about.replace("<", "‹"), [f"recorded: {text(line.was)}", f"tried: {text(line.tried)}"])
