"""KV positions: what both caches hold against what they should, and what every round forwarded and trimmed."""

from __future__ import annotations

import numpy as np
from PySide6.QtCore import QEvent, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app import theme
from app.format import count, plural
from app.panels.chips import plain_tip
from app.panels.round_axis import AxisMap, Edges, RoundAxis
from app.panels.title_controls import SideLabel, shelve
from app.theme import Palette
from app.view import View
from engine.recording import RecordedRun
from engine.rounds import CachePositions, Round

EMPTY = "Press Run: what each round forwards into both caches and trims off again is shown here."
CELLS = "forwarded and trimmed per round; drift = expected − actual position of the draft cache"
BARS = "drift per round = expected − actual position of the draft cache"
ROWS = ("main", "draft", "drift")
APART = "  "
FEW = 512
"""So many of the newest rounds are looked at for the width of their numbers."""


class Verdict(SideLabel):
    """The one sentence at the right of the title, green or red."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.is_bad: bool | None = None

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        ink = colours.text2 if self.is_bad is None else colours.danger if self.is_bad else colours.accepted.ink
        painter = QPainter(self)
        painter.setPen(QColor(ink))
        painter.setFont(self.font())
        text = self.fontMetrics().elidedText(self.text(), Qt.TextElideMode.ElideRight, self.width())
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, text)


def trimmed(cache: CachePositions) -> int:
    """Tokens that a cache gave up in a round; the most of any layer."""
    return max(cache.trim_done, default=0)


def layers_agree(record: Round) -> bool:
    """Whether all layers of each cache ended at the same position."""
    caches = (record.main_cache, record.draft_cache)
    return all(len(set(cache.layers_end)) <= 1 for cache in caches if cache is not None)


def cell_text(cache: CachePositions | None) -> tuple[str, str]:
    """What a round forwarded and what it trimmed: `+5`, `-2`; the second is empty if nothing was."""
    if cache is None:
        return "", ""
    return f"+{cache.forwarded}", f"-{trimmed(cache)}" if trimmed(cache) else ""


def bars(lefts: Edges, rights: Edges, heights: Edges) -> list[tuple[int, int, int]]:
    """(left, right, height) of every bar that has a height; what touches and is as tall is one."""
    some = np.flatnonzero(heights)
    if not some.size:
        return []
    lefts, rights, heights = lefts[some], rights[some], heights[some]
    fresh = np.append(True, (lefts[1:] > rights[:-1]) | (heights[1:] != heights[:-1]))
    first = np.flatnonzero(fresh)
    last = np.append(first[1:], len(some)) - 1
    return list(zip(lefts[first].tolist(), rights[last].tolist(), heights[first].tolist(), strict=True))


def longest(record: Round) -> int:
    """The most tokens that either cache holds or should hold; the bars share this scale."""
    caches = [cache for cache in (record.main_cache, record.draft_cache) if cache is not None]
    return max(1, *(max(cache.end, cache.expected_end) for cache in caches))


class KvPositionsPanel(QWidget):
    """Both caches at the cursor in the gutter, one column a round beside it; click and drag choose a round."""

    title_changed = Signal()

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self._axis = RoundAxis.for_view(view)
        self._colours = theme.current()
        self._ui, self._mono = theme.ui_font(0.92), theme.mono_font(0.85)
        self._bold, self._red = theme.mono_font(0.85, 700), theme.ui_font(0.85, 600)
        self._context = ""
        self._seen = 0
        self._refed: list[int] = []
        self._main_off: int | None = None
        self._widest = 0
        # The dock's title takes the label over; until then it stays out of sight without being hidden itself.
        self._verdict = Verdict(self)
        shelve(self, self._verdict)
        self.setObjectName("kv-positions")
        self.setAccessibleName("KV positions")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        view.run_changed.connect(self._on_run_changed)
        view.join(self, self._refresh)
        self._axis.changed.connect(self._on_axis)
        theme.notifier.changed.connect(self._on_theme)
        self._on_run_changed()

    # What the dock asks

    def title_context(self) -> str:
        """What the columns or bars are."""
        return self._context

    def title_widgets(self) -> list[QWidget]:
        """The verdict on the drift."""
        return [self._verdict]

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self._colours = colours
        self._verdict.update()
        self.update()

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 60, 3 * theme.line_height() + 6)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 20, round(1.3 * theme.line_height()))

    @property
    def is_one_row(self) -> bool:
        """Whether there is room for one row alone: numbers in the gutter, and the drift beside it."""
        return self.height() < 2 * theme.line_height()

    # Following the view

    def _on_run_changed(self) -> None:
        self._seen, self._refed, self._main_off, self._widest = 0, [], None, 0
        if not self._view.telling:
            self._refresh()

    def _on_axis(self) -> None:
        # The view calls by itself where the axis follows its cursor.
        if not self._view.telling:
            self._refresh()

    def _refresh(self) -> None:
        run = self._view.run
        self._scan(run)
        bars = run is not None and self.shows_bars(self._axis.map(self.width()))
        context = "" if run is None or not len(run) else BARS if bars else CELLS
        text, bad = self._judge(run)
        if (context, text, bad) != (self._context, self._verdict.text(), self._verdict.is_bad):
            self._context, self._verdict.is_bad = context, bad
            self._verdict.setText(text)
            self._verdict.setToolTip(plain_tip(text) if text else "")
            self._verdict.update()
            self.title_changed.emit()
        if self.isVisible():
            self.setAccessibleDescription(self.spoken())
            self.update()

    def _scan(self, run: RecordedRun | None) -> None:
        """Look at the rounds that are new."""
        if run is None:
            return
        new = slice(self._seen, len(run))
        self._refed += (np.flatnonzero(run.column("refed")[new]) + self._seen).tolist()
        off = np.flatnonzero(run.column("main_end")[new] != run.column("main_expected")[new])
        if self._main_off is None and off.size:
            self._main_off = self._seen + int(off[0])
        # Cells have numbers in them only while rounds are few.
        for index in range(max(self._seen, len(run) - FEW), len(run)):
            record = run[index]
            caches = [cache for cache in (record.main_cache, record.draft_cache) if cache is not None]
            self._widest = max(self._widest, *(len(" ".join(cell_text(cache))) for cache in caches))
        self._seen = len(run)

    def _judge(self, run: RecordedRun | None) -> tuple[str, bool | None]:
        record = self._view.round
        if run is None or record is None:
            return "", None
        if self._main_off is not None:
            return f"▲ the main cache is off since round {self._main_off}", True
        if record.draft_cache is None and run.first_drift is None:
            return "✓ main cache as expected; the drafter has no cache", False
        if run.first_drift is None:
            return f"✓ drift 0 in all {plural(len(run), 'round')}" if len(
                run
            ) > 1 else "✓ drift 0 in the 1 round", False
        last = run[len(run) - 1]
        there = "at the end" if run.end is not None else "in the last round"
        return f"▲ drift {record.drift} here, {last.drift} {there}", True

    def spoken(self) -> str:
        """The gutter in words."""
        record = self._view.round
        if record is None:
            return EMPTY
        parts = [f"Round {record.index}"]
        for name, cache in (("main", record.main_cache), ("draft", record.draft_cache)):
            parts.append(f"{name} {cache.end} of {cache.expected_end} expected" if cache else f"{name}: no cache")
        return ", ".join([*parts, f"drift {record.drift}", self.owed(record)])

    @staticmethod
    def owed(record: Round) -> str:
        """`owed 0 · all layers agree`, and what was replayed in the main and in the draft cache."""
        text = f"owed {record.debt} · {'all layers agree' if layers_agree(record) else 'layers disagree'}"
        main, draft = record.main_cache.replayed, record.draft_cache.replayed if record.draft_cache else 0
        return f"{text} · replayed {main} + {draft}" if main or draft else text

    def shows_bars(self, axis: AxisMap) -> bool:
        """Bars of drift stand where there is any, and where columns of text would not fit."""
        run = self._view.run
        if run is None or run.first_drift is not None or self.is_one_row:
            return run is not None
        return axis.cell < QFontMetrics(self._mono).horizontalAdvance("0") * max(self._widest, 2) + 4

    # Events

    def resizeEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        super().resizeEvent(event)
        self._refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._pick(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._pick(event, scrub=True)

    def _pick(self, event: QMouseEvent, scrub: bool = False) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton and event.position().x() >= self._axis.gutter:
            self._axis.pick(event.position().x(), self.width(), scrub)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._axis.wheel(event, event.position().x(), self.width())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        steps = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}
        if event.key() in steps:
            self._view.step_round(steps[Qt.Key(event.key())], event.isAutoRepeat())
        elif event.key() == Qt.Key.Key_Home:
            self._view.select(0)
        elif event.key() == Qt.Key.Key_End:
            self._view.follow_tail()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.tip(event.pos().x()), self)
            return True
        return super().event(event)

    def tip(self, x: float) -> str:
        """All that is recorded of the caches in the round at a pixel; of the cursor's over the gutter."""
        run = self._view.run
        index = self._view.round_index if x < self._axis.gutter else self._axis.map(self.width()).round_at(x)
        if run is None or index is None or not 0 <= index < len(run):
            return ""
        record, lines = run[index], []
        for name, cache in (("main", record.main_cache), ("draft", record.draft_cache)):
            if cache is None:
                lines.append(f"{name}: no cache")
                continue
            done = ", ".join(map(str, cache.trim_done))
            lines.append(
                f"{name}: {cache.start} + {cache.forwarded} - {done} = {cache.end}, expected {cache.expected_end}"
            )
            if cache.replayed:
                kept = plural(cache.replayed, "kept token")
                lines.append(f"{name}: can't be trimmed: put back from a snapshot, {kept} replayed")
            if cache.refed:
                lines.append(f"{name}: {plural(cache.refed, 'token')} forwarded anew to repair the drift")
        return plain_tip(f"Round {index}: drift {record.drift}, owed {record.debt}", lines)

    # Painting

    def _row(self, at: int) -> tuple[float, float]:
        """Top and height of a row."""
        height = min(self.height() / 3, theme.line_height() * 1.3)
        return at * height, height

    def _text(
        self, painter: QPainter, area: QRectF, text: str, ink: str, align: str = "left", font: QFont | None = None
    ) -> None:
        painter.setFont(font or self._mono)
        painter.setPen(QColor(ink))
        flag = {
            "left": Qt.AlignmentFlag.AlignLeft,
            "right": Qt.AlignmentFlag.AlignRight,
            "mid": Qt.AlignmentFlag.AlignHCenter,
        }[align]
        painter.drawText(area, flag | Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine, text)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, colours = QPainter(self), self._colours
        painter.fillRect(self.rect(), QColor(colours.base))
        run, record = self._view.run, self._view.round
        if run is None or record is None:
            painter.setFont(theme.ui_font())
            painter.setPen(QColor(colours.text2))
            area = self.rect().adjusted(8, 2, -8, -2)
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, EMPTY)
            return
        axis = self._axis.map(self.width())
        if self.is_one_row:
            self._paint_words(painter, record)
        else:
            self._paint_gutter(painter, run, record)
        painter.fillRect(self._axis.gutter - 1, 0, 1, self.height(), QColor(colours.line))
        painter.setClipRect(self._axis.gutter, 0, self.width() - self._axis.gutter, self.height())
        left, right = axis.edges(self._view.round_index)
        painter.fillRect(left, 0, right - left, self.height(), QColor(colours.selection))
        if self.is_one_row:
            self._paint_line(painter, run, axis)
        elif self.shows_bars(axis):
            self._paint_bars(painter, run, axis)
        else:
            self._paint_cells(painter, run, axis)
        if self.hasFocus():
            painter.setPen(QColor(colours.accent))
            painter.drawRect(self.rect().adjusted(self._axis.gutter, 0, -1, -1))

    def _paint_gutter(self, painter: QPainter, run: RecordedRun, record: Round) -> None:
        colours, em, gutter = self._colours, theme.em(), self._axis.gutter
        painter.setClipRect(0, 0, gutter - 1, self.height())
        names = max(QFontMetrics(self._ui).horizontalAdvance(name) for name in ROWS)
        start = 8 + names + em
        words = QFontMetrics(self._ui).horizontalAdvance(f" of {count(record.main_cache.expected_end)} expected")
        number = QFontMetrics(self._bold).horizontalAdvance(count(max(record.main_cache.expected_end, 100)))
        bar_right = gutter - 10 - words - number - em // 2
        full = longest(record)
        prompt = len(run.header.prompt_tokens)
        for at, (name, cache) in enumerate((("main", record.main_cache), ("draft", record.draft_cache))):
            top, height = self._row(at)
            self._text(painter, QRectF(8, top, names + 2, height), name, colours.text, font=self._ui)
            if cache is None:
                area = QRectF(start, top, gutter - start, height)
                self._text(painter, area, "the drafter has no cache", colours.text2, font=self._ui)
                continue
            if bar_right - start > 2 * em:
                scale = (bar_right - start) / full
                middle = QRect(round(start), round(top + height / 2 - 4), 0, 8)
                self._bar(painter, middle, 0, min(prompt, cache.end) * scale, colours.disabled)
                right = min(cache.end, cache.expected_end)
                self._bar(painter, middle, prompt * scale + 1, right * scale, colours.text2)
                self._bar(painter, middle, right * scale, cache.end * scale, colours.danger)  # too many
                if cache.end < cache.expected_end:
                    missing = QRectF(start + cache.end * scale, top + height / 2 - 4, 0, 7)
                    missing.setRight(start + cache.expected_end * scale)
                    painter.setPen(QColor(colours.danger))
                    painter.setBrush(Qt.BrushStyle.BDiagPattern)
                    painter.setBrush(QColor(colours.danger))
                    brush = painter.brush()
                    brush.setStyle(Qt.BrushStyle.BDiagPattern)
                    painter.setBrush(brush)
                    painter.drawRect(missing)
                    painter.setBrush(Qt.BrushStyle.NoBrush)
            off = cache.end != cache.expected_end
            area = QRectF(bar_right, top, gutter - 10 - words - bar_right, height)
            ink = colours.danger if off else colours.text
            self._text(painter, area, count(cache.end), ink, "right", self._bold if off else self._mono)
            area = QRectF(gutter - 10 - words, top, words + 2, height)
            self._text(painter, area, f" of {count(cache.expected_end)} expected", colours.text2, font=self._ui)
        top, height = self._row(2)
        self._text(painter, QRectF(8, top, names + 2, height), "drift", colours.text, font=self._ui)
        drift = f"▲ {record.drift}" if record.drift else "0"
        ink = colours.danger if record.drift else colours.text
        self._text(painter, QRectF(start, top, gutter, height), drift, ink, font=self._bold)
        start += QFontMetrics(self._bold).horizontalAdvance(drift) + round(em * 0.7)
        area = QRectF(start, top, gutter - start, height)
        quiet = colours.text2 if layers_agree(record) else colours.danger
        self._text(painter, area, self.owed(record), quiet, font=self._ui)

    def words(self, record: Round, room: int) -> list[tuple[str, bool]]:
        """The gutter in one row, as wide as `room` allows: pieces of text, and whether each tells of a fault."""
        metrics = QFontMetrics(self._ui)
        drift = (f"▲ drift {record.drift}" if record.drift else "drift 0", record.drift != 0)
        pieces: list[tuple[str, bool]] = []
        for pattern in ("{name} {end} of {expected}", "{name} {end}/{expected}", "{end}/{expected}"):
            pieces = []
            for name, cache in (("main", record.main_cache), ("draft", record.draft_cache)):
                if cache is not None:
                    text = pattern.format(name=name, end=count(cache.end), expected=count(cache.expected_end))
                    pieces.append((text, cache.end != cache.expected_end))
            pieces.append(drift)
            if metrics.horizontalAdvance(APART.join(text for text, _ in pieces)) <= room:
                return pieces
        return pieces[-1:]

    def _paint_words(self, painter: QPainter, record: Round) -> None:
        colours, left = self._colours, 8
        pieces = self.words(record, self._axis.gutter - 18)
        for at, (text, is_bad) in enumerate(pieces):
            ink = colours.danger if is_bad else colours.text
            text += APART if at + 1 < len(pieces) else ""
            self._text(painter, QRectF(left, 0, self._axis.gutter, self.height()), text, ink, font=self._ui)
            left += QFontMetrics(self._ui).horizontalAdvance(text)

    def _paint_line(self, painter: QPainter, run: RecordedRun, axis: AxisMap) -> None:
        """The drift of each round in one row: its number, or a bar where that has no room."""
        low, high = axis.visible()
        if low >= high:
            return
        drift, starts = run.column("drift"), axis.bucket_starts()
        tallest = np.maximum.reduceat(np.abs(drift[low:high]), starts - low)
        most = max(int(tallest.max()), 1)
        lefts, rights = axis.all_edges(starts)
        if axis.cell < QFontMetrics(self._bold).horizontalAdvance(str(-most)) + 4:
            tall = np.where(tallest > 0, np.maximum(np.rint(tallest / most * (self.height() - 2)), 1), 0)
            for left, right, height in bars(lefts, rights, tall.astype(np.int64)):
                painter.fillRect(left, self.height() - height, right - left, height, QColor(self._colours.danger))
            return
        for index, left, right in zip(starts.tolist(), lefts.tolist(), rights.tolist(), strict=True):
            value, here = int(drift[index]), index == self._view.round_index
            ink, font = (self._colours.danger if value else self._colours.text), (self._bold if here else self._mono)
            self._text(painter, QRectF(left, 0, right - left, self.height()), str(value), ink, "mid", font)

    def _bar(self, painter: QPainter, row: QRect, left: float, right: float, ink: str) -> None:
        if right > left:
            area = QRect(round(row.left() + left), row.top(), max(round(right - left), 1), row.height())
            painter.fillRect(area, QColor(ink))

    def _paint_cells(self, painter: QPainter, run: RecordedRun, axis: AxisMap) -> None:
        colours = self._colours
        for at in (1, 2):
            edge = round(self._row(at)[0])
            painter.fillRect(self._axis.gutter, edge, self.width(), 1, QColor(colours.grid))
        plain, metrics = self._mono, QFontMetrics(self._mono)
        low, high = axis.visible()
        for index in range(low, high):
            record, (left, right) = run[index], axis.edges(index)
            for at, cache in enumerate((record.main_cache, record.draft_cache)):
                forwarded, less = cell_text(cache)
                top, height = self._row(at)
                gap = metrics.horizontalAdvance("0") * 0.6 if less else 0.0
                wide = metrics.horizontalAdvance(forwarded + less) + gap
                x: float = left + (right - left - wide) / 2
                self._text(painter, QRectF(x, top, right - left, height), forwarded, colours.text, font=plain)
                x += metrics.horizontalAdvance(forwarded) + gap
                uneven = cache is not None and len(set(cache.trim_done)) > 1
                ink = colours.danger if uneven else colours.text2
                self._text(painter, QRectF(x, top, right - left, height), less, ink, font=plain)
            refed = any(c is not None and c.refed for c in (record.main_cache, record.draft_cache))
            area = QRectF(left, self._row(2)[0], right - left, self._row(2)[1])
            ink = colours.recovered.ink if refed else colours.text
            font = self._bold if refed or index == self._view.round_index else plain
            drift = "-" if record.draft_cache is None else str(record.drift)
            self._text(painter, area, f"{drift} R" if refed else drift, ink, "mid", font)

    def _paint_bars(self, painter: QPainter, run: RecordedRun, axis: AxisMap) -> None:
        colours, line = self._colours, QFontMetrics(self._mono).height()
        low, high = axis.visible()
        if low >= high:
            return
        drift = run.column("drift")
        starts = axis.bucket_starts()
        tallest = np.maximum.reduceat(np.abs(drift[low:high]), starts - low)
        most = max(int(tallest.max()), 1)
        labelled = axis.cell >= QFontMetrics(self._mono).horizontalAdvance(str(most)) + 4
        bottom = self.height() - line
        room = bottom - (line if labelled else 3)
        lefts, rights = axis.all_edges(starts)
        tall = np.where(tallest > 0, np.maximum(np.rint(tallest / most * room), 1), 0).astype(np.int64)
        red = QColor(colours.danger)
        for left, right, height in bars(lefts, rights - np.where(rights - lefts > 3, 1, 0), tall):
            painter.fillRect(left, bottom - height, right - left, height, red)
        if labelled:
            for index, left, right, height in zip(*(a.tolist() for a in (starts, lefts, rights, tall)), strict=True):
                area = QRectF(left - 2, bottom - height - line, right - left + 4, line)
                here = index == self._view.round_index
                self._text(
                    painter, area, str(int(drift[index])), colours.text, "mid", self._bold if here else self._mono
                )
        painter.fillRect(axis.left, bottom, axis.right - axis.left, 1, QColor(colours.line))
        labels = QRectF(self._axis.gutter, 0, axis.left - self._axis.gutter - 5, line)
        self._text(painter, QRectF(labels).translated(0, bottom - line + 2), "0", colours.text2, "right")
        if run.first_drift is not None:
            self._text(painter, labels.translated(0, bottom - room - 2), str(most), colours.text2, "right")
        self._paint_foot(painter, run, axis, QRectF(0, bottom, self.width(), line))

    def _paint_foot(self, painter: QPainter, run: RecordedRun, axis: AxisMap, foot: QRectF) -> None:
        colours, here = self._colours, self._view.round_index
        wide = QFontMetrics(self._bold).horizontalAdvance(str(here)) + 6
        x = min(max(axis.centre(here) - wide / 2, axis.left), self.width() - wide)
        number = QRectF(x, foot.top(), wide, foot.height())
        taken = [number]
        if run.first_drift is not None:
            text = f"▲ first bad round: {run.first_drift}"
            wide = QFontMetrics(self._red).horizontalAdvance(text) + 4
            x = min(max(axis.x(run.first_drift), axis.left), self.width() - wide - 4)
            area = QRectF(x, foot.top(), wide, foot.height())
            if area.intersects(number):
                beside = number.right() + 4
                area.moveLeft(beside if beside + wide < self.width() else number.left() - wide - 4)
            self._text(painter, area, text, colours.danger, font=self._red)
            taken.append(area)
        self._text(painter, number, str(here), colours.text, "mid", self._bold)
        last, step = -1e9, QFontMetrics(self._bold).horizontalAdvance("R") + 2
        low, high = np.searchsorted(self._refed, axis.visible()).tolist()
        for index in self._refed[low:high]:
            centre = axis.centre(index)
            mark = QRectF(centre - step / 2, foot.top(), step, foot.height())
            if centre - last < step:
                continue
            if any(mark.intersects(area) for area in taken):
                mark.moveTop(0)
            self._text(painter, mark, "R", colours.recovered.ink, "mid", self._bold)
            last = centre
