"""The timeline: one cell a round coloured by its outcome, however many there are; drag scrubs, the wheel zooms.

Above it the session's other runs, where there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QFontMetrics,
    QHelpEvent,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPolygonF,
    QShowEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app import theme
from app.breakpoint_list import BreakpointList
from app.format import count, plural
from app.panels.chips import chip_styles, colour, draw_glyph, glyph_size, hatch, plain_tip
from app.panels.round_axis import AxisMap, RoundAxis
from app.panels.rounds_model import outcome_words
from app.panels.timeline_strip import picture, tally
from app.panels.timeline_tree import FEW_ROWS, MOST_ROWS, ForkTree, row_height
from app.panels.title_controls import draw_sentence
from app.theme import Palette
from app.view import View
from engine.columns import OUTCOMES
from engine.recording import RecordedRun

EMPTY = "Each round becomes one cell here, coloured by its outcome."
SLOTS = "one column a round, drafts from below"
CELLS = "one cell a round, coloured by its outcome"
HINT = "drag scrubs · wheel zooms · F9 breakpoint"
ZOOM = 0.8
"""What the wheel and the keys + and - change the rounds in view by."""
LEAST_SLOT = 4
"""Pixels a draft's slot needs; without, a round is one cell of one colour."""
REMEMBERED = 4096
"""Rounds whose last token's source is kept in mind."""

_REPLACED = (OUTCOMES.index("rejected"), OUTCOMES.index("degenerate"))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Pixels from the top: the glyphs' row, if there is room for one, the strip, and the numbers below, if there is."""

    glyphs: int
    top: int
    room: int
    foot: int


class TimelinePanel(QWidget):
    """All rounds on the shared round axis, with marks and breakpoints, below the lanes of the session's runs.

    Signals: `title_changed`; `room_changed`, when it could do with another height.
    """

    title_changed = Signal()
    room_changed = Signal()

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self._axis = RoundAxis.for_view(view)
        self._colours = theme.current()
        self._breakpoints: BreakpointList | None = None
        self._context = ""
        self._strip: tuple[tuple[object, ...], QImage] | None = None
        self._sources: dict[int, str] = {}
        self.tree = ForkTree(view, self._axis, self)
        self.tree.rows_changed.connect(self._on_rows)
        self._top = 0
        self.setObjectName("timeline")
        self.setAccessibleName("Timeline")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        view.run_changed.connect(self._on_run_changed)
        view.join(self, self._refresh)
        self._axis.changed.connect(self._on_axis)
        theme.notifier.changed.connect(self._on_theme)
        self._refresh()

    # What the dock asks

    def title_context(self) -> str:
        """What a cell is."""
        return self._context

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self._colours = colours
        self.update()

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 60, round(3.4 * theme.line_height()) + self.lanes_height())

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 20, round(1.2 * theme.line_height()))

    def follow_breakpoints(self, breakpoints: BreakpointList) -> None:
        """Show the dots of these."""
        self._breakpoints = breakpoints
        breakpoints.changed.connect(self.update)

    def follow_runs(self, runs: Callable[[], Sequence[RecordedRun]]) -> None:
        """Show the runs that this gives as lanes: those of the shown run's session, oldest first."""
        self.tree.follow(runs)
        self._refresh()

    def lanes_height(self, low: bool = False) -> int:
        """Pixels that the lanes want above the strip, in a low window fewer; 0 where there is one run alone."""
        return self.tree.wanted_height(FEW_ROWS if low else MOST_ROWS)

    # The strip stands below the lanes

    def _place_tree(self) -> None:
        """As many lanes as there is room for, the strip's glyphs and numbers going first."""
        line, total = theme.line_height(), len(self.tree.lanes())
        roomy = self.height() >= round(3.4 * line) + min(total, FEW_ROWS) * row_height()
        strip = round((3.4 if roomy else 0.9) * line)
        rows = min(max((self.height() - strip - 1) // row_height(), 0), total)
        self._top = rows * row_height() + 1 if rows else 0
        self.tree.setGeometry(0, 0, self.width(), max(self._top - 1, 0))
        self.tree.setVisible(rows > 0)

    def _on_rows(self) -> None:
        self._place_tree()
        self.room_changed.emit()

    @property
    def _high(self) -> int:
        """Height of what is below the lanes."""
        return self.height() - self._top

    # Following the view

    def _on_run_changed(self) -> None:
        self._strip = None
        self._sources.clear()
        if not self._view.telling:
            self._refresh()

    def _on_axis(self) -> None:
        # The view calls by itself where the axis follows its cursor.
        if not self._view.telling:
            self._refresh()

    def _refresh(self) -> None:
        self.tree.refresh()
        context = " · ".join(part for part in (self.tree.words(), self._words()) if part)
        if context != self._context:
            self._context = context
            self.title_changed.emit()
        if self.isVisible():
            self.setAccessibleDescription(self.spoken())
            self.update()

    def _words(self) -> str:
        run = self._view.run
        if run is None or not len(run):
            return ""
        axis = self._axis.map(self.width())
        if self.has_slots(axis):
            return SLOTS
        if axis.cell >= 1:
            return CELLS
        return f"{1 / axis.cell:.1f} rounds a pixel, by share of each outcome; rejections and drift always show"

    def spoken(self) -> str:
        """The run in words."""
        run = self._view.run
        if run is None or not len(run):
            return EMPTY
        cursor = f"the cursor is on round {self._view.round_index}"
        runs = f"{self.tree.words()}; " if self.tree.words() else ""
        return f"{runs}{plural(len(run), 'round')}: {self._told(run, 0, len(run))}; {cursor}"

    @staticmethod
    def _told(run: RecordedRun, low: int, high: int) -> str:
        outcomes = np.bincount(run.column("outcome")[low:high], minlength=len(OUTCOMES)).tolist()
        words = {
            "rejected": "with a rejection",
            "degenerate": "with a degenerate fallback",
            "accepted-all": "all accepted",
            "plain": "without drafts",
            "ended": "cut short by the end",
        }
        parts = [f"{count(outcomes[OUTCOMES.index(name)])} {text}" for name, text in words.items()]
        parts = [part for part in parts if not part.startswith("0 ")]
        drift = int(np.count_nonzero(run.column("drift")[low:high]))
        return ", ".join([*parts, f"drift in {count(drift) if drift else 'none'}"])

    def has_slots(self, axis: AxisMap) -> bool:
        """Whether the drafts of a round have room for a slot each."""
        run, (low, high) = self._view.run, axis.visible()
        if run is None or low >= high or axis.cell < 1.2 * theme.em():
            return False
        most = int(run.column("k")[low:high].max())
        return 0 < most <= (self._rows(slots=True).room - self._drift_room(run)) // LEAST_SLOT

    def _rows(self, slots: bool) -> _Rows:
        """A low panel gives up the glyphs, then the numbers."""
        line, height = theme.line_height(), self._high
        numbers = QFontMetrics(theme.mono_font(0.77)).height() + 1
        foot = numbers if height >= line + numbers else 0
        above = glyph_size() + 4 if slots else self._pin()
        above = above if height - foot - above >= 1.4 * line else 0
        glyphs, top = above if slots else 0, above or 2
        return _Rows(glyphs, top, max(height - foot - top - (1 if foot else 2), 1), foot)

    @staticmethod
    def _pin() -> int:
        """Size of a flag and of a dot."""
        return max(round(theme.em() * 0.6), 7)

    @staticmethod
    def _drift_room(run: RecordedRun) -> int:
        return 0 if run.first_drift is None else max(round(theme.em() * 0.35), 3)

    # Events

    def resizeEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        super().resizeEvent(event)
        self._place_tree()
        self._refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._pick(event, scrub=False)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self._pick(event, scrub=True)

    def _pick(self, event: QMouseEvent, scrub: bool) -> None:
        x = event.position().x()
        if not event.buttons() & Qt.MouseButton.LeftButton or x < self._axis.gutter:
            return
        self._axis.pick(x, self.width(), scrub)

    def wheelEvent(self, event: QWheelEvent) -> None:
        self._axis.wheel(event, event.position().x(), self.width())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, span = event.key(), self._axis.map(self.width()).span
        about = self._view.round_index + 0.5
        if key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self._view.step_round(1 if key == Qt.Key.Key_Right else -1, event.isAutoRepeat())
        elif key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self._axis.zoom(about, ZOOM)
        elif key == Qt.Key.Key_Minus:
            self._axis.zoom(about, 1 / ZOOM)
        elif key == Qt.Key.Key_0:
            self._axis.show_all()
        elif key in (Qt.Key.Key_PageUp, Qt.Key.Key_PageDown):
            self._view.step_round(round(span if key == Qt.Key.Key_PageDown else -span), event.isAutoRepeat())
        elif key == Qt.Key.Key_Home:
            self._view.select(0)
        elif key == Qt.Key.Key_End:
            self._view.follow_tail()
        else:
            super().keyPressEvent(event)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.tip(event.pos().x()), self)
            return True
        return super().event(event)

    def tip(self, x: float) -> str:
        """What the cell at a pixel holds: its round, or its rounds."""
        run, axis = self._view.run, self._axis.map(self.width())
        index = axis.round_at(x)
        if run is None or index is None or x < self._axis.gutter:
            return plain_tip(HINT)
        if axis.cell < 1:
            starts = axis.bucket_starts()
            at = int(np.searchsorted(starts, index, side="right")) - 1
            low = int(starts[max(at, 0)])
            high = int(starts[at + 1]) if at + 1 < len(starts) else axis.visible()[1]
            if high - low > 1:
                lines = [self._told(run, low, high), *self._noted(run, low, high)]
                return plain_tip(f"Rounds {low} to {high - 1}", lines)
            index = low
        record = run[index]
        told = f"{plural(record.k, 'draft')}, {record.accepted} accepted: {outcome_words(record)}"
        drift = [f"drift {record.drift}"] if record.drift else []
        return plain_tip(f"Round {index}", [told, *drift, *self._noted(run, index, index + 1)])

    def _noted(self, run: RecordedRun, low: int, high: int) -> list[str]:
        lines = []
        for number in sorted(number for number in run.marks if low <= number < high)[:5]:
            note = run.marks[number].partition("\n")[0]
            lines.append(f"round {number} is marked" + (f": {note}" if note else ""))
        dots = self._breakpoints.dots(run) if self._breakpoints is not None else []
        return [*lines, *(f"breakpoint: round {number}" for number in dots if low <= number < high)][:10]

    # Painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, colours = QPainter(self), self._colours
        painter.fillRect(self.rect(), colour(colours.base))
        run = self._view.run
        if run is None or not len(run):
            draw_sentence(painter, self, EMPTY)
            return
        if self._top:
            painter.fillRect(0, self._top - 1, self.width(), 1, colour(colours.line))
            painter.translate(0, self._top)
        axis = self._axis.map(self.width())
        slots = self.has_slots(axis)
        rows = self._rows(slots)
        self._paint_gutter(painter, run, slots)
        painter.fillRect(self._axis.gutter - 1, 0, 1, self._high, colour(colours.line))
        painter.setClipRect(self._axis.gutter, 0, self.width() - self._axis.gutter, self._high)
        here = self._view.round_index
        left, right = axis.edges(here)
        if axis.cell >= 4:
            painter.fillRect(left, 0, right - left, self._high, colour(colours.selection))
        if slots:
            self._paint_slots(painter, run, axis, rows)
        else:
            painter.drawImage(axis.left, rows.top, self._picture(run, axis, rows.room))
        self._paint_cursor(painter, axis, rows)
        self._paint_pins(painter, run, axis, rows)
        if rows.foot:
            self._paint_foot(painter, axis, here, rows.foot)
        if self.hasFocus():
            painter.setPen(colour(colours.accent))
            painter.drawRect(self._axis.gutter, 0, self.width() - self._axis.gutter - 1, self._high - 1)

    def _picture(self, run: RecordedRun, axis: AxisMap, room: int) -> QImage:
        """The strip; drawn anew only where it would look different, so that moving the cursor costs nothing."""
        drift = min(self._drift_room(run), room // 3)
        key = (run, axis, room, drift, self._colours)
        if self._strip is None or self._strip[0] != key:
            self._strip = key, picture(tally(run, axis), axis, room, drift, self._colours)
        return self._strip[1]

    def _paint_slots(self, painter: QPainter, run: RecordedRun, axis: AxisMap, rows: _Rows) -> None:
        colours, (low, high) = self._colours, axis.visible()
        drafted, accepted, outcomes, drift = (
            run.column(name)[low:high].tolist() for name in ("k", "accepted", "outcome", "drift")
        )
        off, most = self._drift_room(run), max(max(drafted), 1)
        top = rows.top + off + (1 if off else 0)
        side = (rows.top + rows.room - top) / most
        lines = [round(rows.top + rows.room - at * side) for at in range(most + 1)]
        green, hatched, hollow = colour(colours.accepted.fill), hatch(colours), colour(colours.line)
        for at, index in enumerate(range(low, high)):
            left, right = axis.edges(index)
            for slot in range(drafted[at]):
                area = QRect(left + 1, lines[slot + 1] + 1, right - left - 2, lines[slot] - lines[slot + 1] - 1)
                if slot < accepted[at]:
                    painter.fillRect(area, green)
                elif slot == accepted[at] and outcomes[at] in _REPLACED:
                    painter.fillRect(area, hatched)
                else:
                    painter.fillRect(area, colour(colours.base))
                    painter.setPen(hollow)
                    painter.drawRect(area.adjusted(0, 0, -1, -1))
            if drift[at]:
                painter.fillRect(left, rows.top, right - left - 1, off, colour(colours.danger))
            if rows.glyphs:
                self._paint_glyph(painter, run, index, (left + right - glyph_size()) // 2)
        if rows.foot:
            self._paint_slot_names(painter, axis, lines)

    def _paint_glyph(self, painter: QPainter, run: RecordedRun, index: int, x: int) -> None:
        style = chip_styles(self._colours).get(self._source(run, index))
        if style is not None and style.glyph is not None:
            draw_glyph(painter, x, 2, style.glyph, style.glyph_ink)

    def _source(self, run: RecordedRun, index: int) -> str:
        """Where the round's last token came from; nothing for one that was cut short behind an accepted draft."""
        found = self._sources.get(index)
        if found is None:
            if len(self._sources) >= REMEMBERED:
                self._sources.clear()
            emitted = run[index].emitted
            found = emitted[-1].source if emitted and emitted[-1].source != "accepted" else ""
            self._sources[index] = found
        return found

    def _paint_slot_names(self, painter: QPainter, axis: AxisMap, lines: list[int]) -> None:
        font = theme.mono_font(0.77)
        painter.setFont(font)
        painter.setPen(colour(self._colours.text2))
        height, top = QFontMetrics(font).height(), len(lines) - 1
        if lines[0] - lines[top] < height:
            return
        for slot in {0, top - 1} if lines[0] - lines[top] >= 2 * height - 4 else {0}:
            middle = (lines[slot] + lines[slot + 1]) / 2
            area = QRectF(self._axis.gutter, middle - height / 2, axis.left - self._axis.gutter - 5, height)
            flags = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(area, flags, f"d{slot + 1}")

    def _paint_cursor(self, painter: QPainter, axis: AxisMap, rows: _Rows) -> None:
        """A frame around a cell that is wide enough, else a line through it; set apart from the cells beside it."""
        colours, (left, right) = self._colours, axis.edges(self._view.round_index)
        if right <= axis.left or left >= self.width():
            return
        if axis.cell >= 4:
            frame = QRect(left - 1, rows.top - 1, right - left, rows.room + 1)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            if axis.cell < 1.2 * theme.em():
                painter.setPen(colour(colours.base))
                painter.drawRect(frame.adjusted(-2, 0, 2, 0))
                painter.setPen(colour(colours.accent))
                painter.drawRect(frame.adjusted(-1, 0, 1, 0))
                frame.setTop(0)
            painter.setPen(colour(colours.accent))
            painter.drawRect(frame)
            return
        middle = (left + right) // 2
        painter.fillRect(middle - 1, 0, 3, rows.top + rows.room, colour(colours.base))
        painter.fillRect(middle, 0, 1, rows.top + rows.room + (2 if rows.foot else 0), colour(colours.accent))

    def _paint_pins(self, painter: QPainter, run: RecordedRun, axis: AxisMap, rows: _Rows) -> None:
        """Marks hang from the top as flags, breakpoints stand at the bottom as dots; one of a kind in a pixel."""
        colours, size = self._colours, self._pin()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(colour(colours.base))
        for number in self._in_view(run.marks, axis):
            left, right = axis.edges(number)
            x = left + 1 if axis.cell >= 2 * size else (left + right) / 2 - size / 2
            painter.setBrush(colour(colours.accent))
            flag = [QPointF(x - 0.5, -1), QPointF(x + size + 0.5, -1), QPointF(x + size / 2, size)]
            painter.drawPolygon(QPolygonF(flag))
        dots = self._breakpoints.dots(run) if self._breakpoints is not None else []
        for number in self._in_view(dots, axis):
            left, right = axis.edges(number)
            painter.setBrush(colour(colours.danger))
            centre = QPointF((left + right - 1) / 2, rows.top + rows.room - size / 2 + 1)
            painter.drawEllipse(centre, size / 2 + 0.5, size / 2 + 0.5)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setBrush(Qt.BrushStyle.NoBrush)

    @staticmethod
    def _in_view(numbers: Iterable[int], axis: AxisMap) -> list[int]:
        low, high = axis.visible()
        taken: dict[int, int] = {}
        for number in numbers:
            if low <= number < high:
                taken.setdefault(axis.edges(number)[0], number)
        return list(taken.values())

    def _paint_foot(self, painter: QPainter, axis: AxisMap, here: int, foot: int) -> None:
        colours, top = self._colours, self._high - foot
        bold, plain = theme.mono_font(0.77, 700), theme.mono_font(0.77)
        wide = QFontMetrics(bold).horizontalAdvance(str(here)) + 6
        x = min(max(axis.centre(here) - wide / 2, axis.left), self.width() - wide)
        number = QRectF(x, top, wide, foot)
        low, high = axis.visible()
        seen = low <= here < high
        flags = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextSingleLine
        painter.setFont(plain)
        painter.setPen(colour(colours.text2))
        for tick in axis.ticks():
            room = QFontMetrics(plain).horizontalAdvance(str(tick)) + 4
            area = QRectF(axis.centre(tick) - room / 2, top, room, foot)
            if area.right() <= self.width() and not (seen and area.intersects(number)):
                painter.drawText(area, flags, str(tick))
        if seen:
            painter.setFont(bold)
            painter.setPen(colour(colours.text))
            painter.drawText(number, flags, str(here))

    # The gutter: a legend

    def _entries(self, run: RecordedRun, slots: bool) -> list[tuple[str, str]]:
        """(sample, words), what matters most first."""
        drift = [("drift", "drift")] if run.first_drift is not None else []
        pins = [("dot", "breakpoint"), ("flag", "mark")]
        if slots:
            fates = [("accepted", "accepted"), ("rejected", "rejected"), ("hollow", "not tested")]
            return [*fates, ("plus", "bonus"), ("again", "recovered"), *pins[:1], *drift, *pins[1:]]
        some = set(np.flatnonzero(np.bincount(run.column("outcome"), minlength=len(OUTCOMES))).tolist())
        rare = [("degenerate", "degenerate")] if OUTCOMES.index("degenerate") in some else []
        plain = [("plain", "no drafts")] if OUTCOMES.index("plain") in some else []
        return [("accepted", "all accepted"), ("rejected", "a rejection"), *drift, *rare, *plain, *pins]

    def _paint_gutter(self, painter: QPainter, run: RecordedRun, slots: bool) -> None:
        colours, gutter, font = self._colours, self._axis.gutter, theme.ui_font(0.92)
        metrics = QFontMetrics(font)
        painter.setClipRect(0, 0, gutter - 1, self._high)
        entries, em = self._entries(run, slots), theme.em()
        pitch = metrics.height() + 1
        lines = max(self._high // pitch, 1)
        wide = max(metrics.horizontalAdvance(words) for _, words in entries) + round(2.2 * em)
        columns = max(min((gutter - 10) // wide, 3), 1)
        needed = -(-len(entries) // columns)
        hinted = lines > needed
        rows = min(needed, lines)
        top = (self._high - (rows + hinted) * pitch) // 2
        wide = (gutter - 12) // columns
        painter.setFont(font)
        for at, (sample, words) in enumerate(entries[: rows * columns]):
            x, y = 10 + at % columns * wide, top + at // columns * pitch
            self._paint_sample(painter, sample, x, y + pitch // 2)
            painter.setPen(colour(colours.text))
            area = QRect(x + round(1.4 * em), y, wide - round(1.4 * em), pitch)
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine, words)
        if hinted:
            painter.setFont(theme.ui_font(0.85))
            painter.setPen(colour(colours.text2))
            area = QRect(10, top + rows * pitch, gutter - 16, pitch)
            text = painter.fontMetrics().elidedText(HINT, Qt.TextElideMode.ElideRight, area.width())
            painter.drawText(area, Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine, text)

    def _paint_sample(self, painter: QPainter, sample: str, x: int, middle: int) -> None:
        colours, em = self._colours, theme.em()
        side = round(0.62 * em)
        area = QRect(x, middle - side // 2, em, side)
        if sample in ("plus", "again"):
            style = colours.bonus if sample == "plus" else colours.recovered
            draw_glyph(painter, x + 1, middle - glyph_size() // 2, sample, style.ink)
        elif sample in ("dot", "flag"):
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour(colours.danger if sample == "dot" else colours.accent))
            box = QRectF(x + em / 2 - side / 2, middle - side / 2, side, side)
            if sample == "dot":
                painter.drawEllipse(box)
            else:
                painter.drawPolygon(QPolygonF([box.topLeft(), box.topRight(), QPointF(box.center().x(), box.bottom())]))
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
            painter.setBrush(Qt.BrushStyle.NoBrush)
        elif sample == "hollow":
            painter.setPen(colour(colours.line))
            painter.drawRect(area.adjusted(0, 0, -1, -1))
        elif sample == "rejected":
            painter.fillRect(area, hatch(colours))
        elif sample == "drift":
            painter.fillRect(QRect(x, middle - 2, em, 4), colour(colours.danger))
        else:
            fills = {"accepted": colours.accepted, "degenerate": colours.recovered, "plain": colours.target_draw}
            painter.fillRect(area, colour(fills[sample].fill))
            if sample == "degenerate":
                for line in range(area.top(), area.bottom() + 1, 3):
                    painter.fillRect(x, line, em, 1, colour(colours.base))
