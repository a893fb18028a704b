"""The runs of a session as lanes above the timeline: a fork's begins at the round where it branched off."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app import theme
from app.format import count, plural, visible_string
from app.panels.chips import colour, draw_glyph, glyph_size, plain_tip
from app.panels.fork_tree import Lane, lane_lines, lane_name, lanes
from app.panels.round_axis import AxisMap, RoundAxis
from app.view import View
from engine.recording import RecordedRun

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()

MOST_ROWS, FEW_ROWS = 3, 2
"""Lanes that are seen at once without scrolling, in a high window and in a low one."""

LEFT, RIGHT, GAP = 8, 8, 5
DEEPEST = 6
"""Deeper lanes are moved no further to the right."""

_ONE_LINE = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine


class _Lanes(QAbstractListModel):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.lanes: tuple[Lane, ...] = ()
        self.shown: RecordedRun | None = None

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self.lanes)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= len(self.lanes):
            return None
        lane = self.lanes[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            here = ", shown" if lane.run is self.shown else ""
            origin = f", from round {lane.start} on" if lane.forked is not None else ""
            return f"Run {lane.number}{here}: {lane_name(lane.run)}, {plural(len(lane.run), 'round')}{origin}"
        if role == Qt.ItemDataRole.ToolTipRole:
            here = ", shown" if lane.run is self.shown else ""
            return plain_tip(f"Run {lane.number}{here}", [visible_string(line) for line in lane_lines(lane)])
        return None


class _Delegate(QStyledItemDelegate):
    """Paints a lane: its name in the gutter, and on the axis its rounds and where it branches off."""

    def __init__(self, model: _Lanes, axis: RoundAxis, view: View, tree: QWidget) -> None:
        super().__init__(tree)
        self._model, self._axis, self._view, self._tree = model, axis, view, tree

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(theme.em() * 20, row_height())

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        colours, area = theme.current(), option.rect
        lane = self._model.lanes[index.row()]
        shown = lane.run is self._model.shown
        painter.save()
        painter.setClipRect(area)
        hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
        painter.fillRect(area, colour(colours.code if hovered and not shown else colours.base))
        self._paint_name(painter, QRect(0, area.top(), self._axis.gutter - 1, area.height()), lane, shown)
        painter.fillRect(self._axis.gutter - 1, area.top(), 1, area.height(), colour(colours.line))
        painter.setClipRect(self._axis.gutter, area.top(), area.width() - self._axis.gutter, area.height())
        self._paint_lane(painter, area, lane, shown)
        if option.state & QStyle.StateFlag.State_HasFocus:
            painter.setClipRect(area)
            painter.setPen(colour(colours.accent))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(area.adjusted(0, 0, -1, -1))
        painter.restore()

    def _paint_name(self, painter: QPainter, area: QRect, lane: Lane, shown: bool) -> None:
        colours, side = theme.current(), glyph_size()
        if shown:
            painter.fillRect(area, colour(colours.selection))
            draw_glyph(painter, LEFT, area.top() + (area.height() - side) / 2, "play", colours.accent)
        number_font = theme.mono_font(0.92, 600 if shown else 400)
        x = LEFT + side + GAP + min(lane.depth, DEEPEST) * round(theme.em() * 0.9)
        middle = area.top() + area.height() // 2
        if lane.forked is not None:
            elbow = round(theme.em() * 0.45)
            painter.fillRect(x - elbow - 1, area.top() + 2, 1, middle - area.top() - 1, colour(colours.rolling))
            painter.fillRect(x - elbow - 1, middle, elbow - 1, 1, colour(colours.rolling))
        painter.setFont(number_font)
        painter.setPen(colour(colours.text if shown else colours.text2))
        number = str(lane.number)
        painter.drawText(QRect(x, area.top(), area.right() - x, area.height()), _ONE_LINE, number)
        x += painter.fontMetrics().horizontalAdvance(number) + GAP
        painter.setFont(theme.mono_font(0.85))
        rounds = count(len(lane.run)) if lane.run.damage is None or len(lane.run) else "-"
        width = painter.fontMetrics().horizontalAdvance(rounds)
        painter.setPen(colour(colours.text2))
        painter.drawText(QRect(area.right() - RIGHT - width, area.top(), width + 1, area.height()), _ONE_LINE, rounds)
        right = area.right() - RIGHT - width - GAP
        if lane.run.damage is not None or lane.run.first_drift is not None:
            right -= side
            draw_glyph(painter, right, area.top() + (area.height() - side) / 2, "warning", colours.danger)
            right -= GAP
        painter.setFont(theme.ui_font(0.92, 600 if shown else 400))
        painter.setPen(colour(colours.text))
        place = QRect(x, area.top(), max(right - x, 0), area.height())
        name = visible_string(lane_name(lane.run))
        painter.drawText(
            place, _ONE_LINE, painter.fontMetrics().elidedText(name, Qt.TextElideMode.ElideRight, place.width())
        )

    def _paint_lane(self, painter: QPainter, area: QRect, lane: Lane, shown: bool) -> None:
        # A scroll bar takes none of the axis: it stands in the room at its right.
        colours, axis = theme.current(), self._axis.map(self._tree.width())
        middle = area.top() + area.height() // 2
        here = self._view.round_index
        left, right = axis.edges(here)
        if here >= 0 and axis.cell >= 4:
            painter.fillRect(left, area.top(), right - left, area.height(), colour(colours.selection))
        line = colour(colours.rolling)
        for at in lane.crossed:
            self._vertical(painter, axis, at, area.top(), area.bottom() + 1)
        for at in lane.branches:
            self._vertical(painter, axis, at, middle, area.bottom() + 1)
        if lane.forked is not None:
            self._vertical(painter, axis, lane.start, area.top() if lane.origin is not None else middle - 4, middle + 1)
        first, last = axis.x(lane.start), axis.x(len(lane.run))
        begin = max(round(first), axis.left)
        # An arrow where the run goes on beyond what is in view.
        beyond = last > axis.right + 1
        end = axis.right - glyph_size() + 2 if beyond else round(last)
        if lane.run.damage is not None and not len(lane.run):
            painter.setFont(theme.ui_font(0.85))
            painter.setPen(colour(colours.danger))
            painter.drawText(QRect(begin, area.top(), axis.right - begin, area.height()), _ONE_LINE, "can't be read")
            return
        thick = max(round(theme.em() * 0.3), 3)
        if end > begin:
            ink = colours.accent if shown else colours.target_draw.fill
            painter.fillRect(begin, middle - thick // 2, end - begin, thick, colour(ink))
            self._paint_drift(painter, axis, lane, middle + thick - thick // 2, end)
        for at in lane.branches:
            x = self._place(axis, at)
            if axis.left <= x <= axis.right:
                side = thick + 2
                painter.fillRect(x - side // 2, middle - side // 2, side, side, colour(colours.base))
                painter.fillRect(x - side // 2 + 1, middle - side // 2 + 1, side - 2, side - 2, line)
        if beyond and first < axis.right:
            draw_glyph(painter, end, middle - glyph_size() / 2, "play", colours.accent if shown else colours.text2)
        elif lane.run.end is not None and axis.left < last:
            painter.fillRect(end - 1, middle - thick, 1, 2 * thick, colour(colours.text2))

    @staticmethod
    def _paint_drift(painter: QPainter, axis: AxisMap, lane: Lane, top: int, end: int) -> None:
        if lane.run.first_drift is not None:
            from_ = max(axis.edges(max(lane.run.first_drift, lane.start))[0], axis.left)
            painter.fillRect(from_, top, max(end - from_, 0), 2, colour(theme.current().danger))

    @staticmethod
    def _place(axis: AxisMap, at: int) -> int:
        """Where a lane that begins with a round branches off: at the round's left edge."""
        return round(axis.x(at))

    def _vertical(self, painter: QPainter, axis: AxisMap, at: int, top: int, bottom: int) -> None:
        x = self._place(axis, at)
        if axis.left <= x <= axis.right:
            painter.fillRect(x, top, 1, bottom - top, colour(theme.current().rolling))


def row_height() -> int:
    return theme.line_height() + 1


class ForkTree(QListView):
    """Lanes to choose a run from: a click on a lane shows its run, on the axis at that round; Enter shows it too.

    Signals: `rows_changed`, when there are more or fewer lanes than before.
    """

    rows_changed = Signal()

    def __init__(self, view: View, axis: RoundAxis, parent: QWidget) -> None:
        super().__init__(parent)
        self._view, self._axis = view, axis
        self._runs: Callable[[], Sequence[RecordedRun]] = tuple
        self._known: tuple[object, ...] = ()
        self._total = 0
        self._lanes = _Lanes(self)
        self.setModel(self._lanes)
        self.setItemDelegate(_Delegate(self._lanes, axis, view, self))
        self.setAccessibleName("Runs and forks")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setUniformItemSizes(True)
        self.setMouseTracking(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.activated.connect(self._on_activated)
        self.hide()

    def follow(self, runs: Callable[[], Sequence[RecordedRun]]) -> None:
        """Show the runs that this gives: those of the shown run's session, oldest first."""
        self._runs = runs
        self.refresh()

    # What there is

    def lanes(self) -> tuple[Lane, ...]:
        return self._lanes.lanes

    def words(self) -> str:
        """`run 2 of 5`; "" where there is no choice."""
        if not self._lanes.lanes:
            return ""
        number = next((lane.number for lane in self._lanes.lanes if lane.run is self._lanes.shown), None)
        return f"run {number} of {self._total}" if number is not None else f"{self._total} runs"

    def wanted_height(self, rows: int = MOST_ROWS) -> int:
        """Pixels for all lanes, or for so many of them, with the line below; 0 for a single run."""
        found = min(len(self._lanes.lanes), rows)
        return found * row_height() + 1 if found else 0

    def refresh(self) -> None:
        """Follow the runs and the cursor."""
        shown = self._view.run
        runs = self._runs() if shown is not None else ()
        known = (shown, *((run, run.parent, run.damage) for run in runs[-1000:]), len(runs))
        if known != self._known:
            self._known = known
            before = len(self._lanes.lanes)
            self._total = len(runs)
            self._lanes.beginResetModel()
            self._lanes.shown = shown
            self._lanes.lanes = lanes(runs, shown) if len(runs) > 1 else ()
            self._lanes.endResetModel()
            self._go_to_shown()
            if len(self._lanes.lanes) != before:
                self.rows_changed.emit()
        self.viewport().update()

    def _go_to_shown(self) -> None:
        row = next((at for at, lane in enumerate(self._lanes.lanes) if lane.run is self._lanes.shown), -1)
        if row >= 0:
            self.setCurrentIndex(self._lanes.index(row))
            self.scrollTo(self._lanes.index(row), QAbstractItemView.ScrollHint.PositionAtCenter)

    # Events

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().height() != event.oldSize().height():
            self._go_to_shown()

    def show_lane(self, row: int, round_index: int | None = None) -> None:
        """Show the run of a lane: at a round, else at the one under the cursor, unless that follows the tail."""
        run, view = self._lanes.lanes[row].run, self._view
        wanted = round_index if round_index is not None else None if view.live else view.round_index
        position = view.position if round_index is None else None
        if run is not view.run:
            view.show_run(run)
        if wanted is not None and len(run):
            view.select(min(max(wanted, 0), len(run) - 1), position)

    def round_at(self, x: float) -> int | None:
        """The round of the axis under a pixel, also behind the last one of the run shown; None in the gutter."""
        if x < self._axis.gutter:
            return None
        axis = self._axis.map(self.width())
        return max(math.floor(axis.first + (x - axis.left) / axis.cell), 0)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        index = self.indexAt(event.position().toPoint())
        if event.button() == Qt.MouseButton.LeftButton and index.isValid():
            self.show_lane(index.row(), self.round_at(event.position().x()))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and self.currentIndex().isValid():
            self._on_activated(self.currentIndex())
        else:
            super().keyPressEvent(event)

    def _on_activated(self, index: QModelIndex) -> None:
        self.show_lane(index.row())
