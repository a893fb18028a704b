"""The rounds table: every round in one line, or those that a filter lets through, following the tail until let go."""

from __future__ import annotations

from PySide6.QtCore import (
    QItemSelectionModel,
    QModelIndex,
    QPoint,
    QRect,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QAction,
    QColor,
    QContextMenuEvent,
    QFocusEvent,
    QFontMetrics,
    QGuiApplication,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QMoveEvent,
    QPainter,
    QPaintEvent,
    QPixmap,
    QResizeEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QMainWindow,
    QMenu,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.breakpoint_list import BreakpointList
from app.format import count
from app.panels.chips import glyph_size
from app.panels.filter_line import FilterLine
from app.panels.round_axis import RoundAxis
from app.panels.rounds_delegate import CELL_PAD, RoundDelegate, dot_size, pip_size
from app.panels.rounds_model import COLUMNS, KEYS, Index, RoundsModel
from app.panels.table_style import dress
from app.settings_store import SettingsStore
from app.theme import Palette
from app.view import View
from app.workspaces import SPLITTER
from engine.round_filter import RoundFilter

EMPTY = "Press Run: each round of drafting and testing becomes one line here."
NO_MATCH = "No round matches the filter. Escape clears it."
ALWAYS = ("mark", "index", "drafts", "accepted")
BY_PRIORITY = ("last", "sum_min", "drift", "outcome", "text", "tested", "time", "drafted")
"""Which further columns are shown, as far as the width allows; with drift in the run, that comes before Σ min."""


PICTURES = 200
"""Rows that a picture is kept of."""

Cells = tuple[tuple[int, int, int], ...]
"""(column, left edge, width) of every column shown."""


class _Table(QTableView):
    """The view itself with its empty state. Signals: `resized`, also when a scroll bar comes or goes."""

    resized = Signal()

    def __init__(self, parent: QWidget, delegate: RoundDelegate) -> None:
        super().__init__(parent)
        self._delegate = delegate
        self.setItemDelegate(delegate)
        self._pictures: dict[int, QPixmap] = {}
        self._drawn_for: tuple[Cells, float] = ((), 0.0)
        self.sentence = EMPTY
        self.scrubs = False
        """Whether rows go by under a key held down or a dragged pointer."""
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        dress(self)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerItem)
        self.setAccessibleName("Rounds")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.scrubs = event.isAutoRepeat()
        super().keyPressEvent(event)
        self.scrubs = False

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        self.scrubs = True
        super().mouseMoveEvent(event)
        self.scrubs = False

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Without a current row Qt would choose the first one; nobody has."""
        if self.currentIndex().isValid():
            super().focusInEvent(event)
            return
        with QSignalBlocker(self.selectionModel()):
            super().focusInEvent(event)
            self.selectionModel().clear()
        self.viewport().update()

    def forget_pictures(self) -> None:
        """Draw every row anew: what they show, or how, is another."""
        self._pictures.clear()
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, model = QPainter(self.viewport()), self.model()
        if model is not None and model.rowCount():
            self._paint_rows(painter, event.rect(), model.rowCount())
        elif model is not None:
            painter.setFont(theme.ui_font())
            painter.setPen(QColor(theme.current().text2))
            area = self.viewport().rect().adjusted(8, 8, -8, -8)
            painter.drawText(area, Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap, self.sentence)

    def _paint_rows(self, painter: QPainter, area: QRect, rows: int) -> None:
        """Rows from pictures kept of them: a round doesn't change, so only those that are new are drawn."""
        first, height = self.rowAt(area.top()), self.verticalHeader().defaultSectionSize()
        if first < 0:
            return
        head, ratio = self.horizontalHeader(), self.viewport().devicePixelRatioF()
        shown = (c for c in range(head.count()) if not head.isSectionHidden(c))
        cells = tuple((c, head.sectionPosition(c), head.sectionSize(c)) for c in shown)
        layout = (cells, ratio)
        if layout != self._drawn_for:
            self._pictures.clear()
            self._drawn_for = layout
        chosen, top, left = self.selectionModel(), self.rowViewportPosition(first), -head.offset()
        root = self.rootIndex()
        for row in range(first, rows):
            if top > area.bottom():
                return
            here = QRect(left, top, head.length(), height)
            is_chosen = chosen.isRowSelected(row, root)
            if is_chosen or row == self._delegate.cursor_row or ratio != round(ratio):
                self._paint_row(painter, here, row, cells, is_chosen)
            else:
                painter.drawPixmap(here.topLeft(), self._picture(row, here.size(), cells, ratio))
            top += height

    def _paint_row(self, painter: QPainter, area: QRect, row: int, cells: Cells, is_chosen: bool) -> None:
        for column, x, width in cells:
            painter.save()
            self._delegate.paint_cell(
                painter, QRect(area.left() + x, area.top(), width, area.height()), row, column, is_chosen
            )
            painter.restore()

    def _picture(self, row: int, size: QSize, cells: Cells, ratio: float) -> QPixmap:
        picture = self._pictures.get(row)
        if picture is None:
            if len(self._pictures) >= PICTURES:
                self._pictures.clear()
            picture = self._pictures[row] = QPixmap(size * ratio)
            picture.setDevicePixelRatio(ratio)
            painter = QPainter(picture)
            self._paint_row(painter, QRect(QPoint(0, 0), size), row, cells, False)
            painter.end()
        return picture


class RoundsTablePanel(QWidget):
    """One line a round. Signals: `title_changed`, when `title_context` gives another text."""

    title_changed = Signal()

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self._title = ""
        self._forced: dict[str, bool] = {}
        self._wanted = "sum_min"
        self._widest_k = 0
        self._moves = view.moves
        self._fitted = (0, False)
        self._marks: dict[int, str] = {}
        self._ended = False
        self._breakpoints: BreakpointList | None = None
        self.row_actions: list[QAction] = []
        """What the menu of a row offers besides copying."""
        self.setObjectName("rounds-table")
        self.setAccessibleName("Rounds")
        self.model = RoundsModel(self)
        self.delegate = RoundDelegate(self.model, self)
        self.table = _Table(self, self.delegate)
        self.table.setModel(self.model)
        self.setFocusProxy(self.table)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        self.filter = FilterLine(self)
        layout.addWidget(self.filter)
        layout.addWidget(self.table, 1)
        self.filter.changed.connect(self._on_filter)
        self.filter.left.connect(self.table.setFocus)
        self.table.installEventFilter(self)
        self.table.resized.connect(self._fit_columns)
        head = self.table.horizontalHeader()
        head.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        head.customContextMenuRequested.connect(self._on_header_menu)
        self.table.selectionModel().currentRowChanged.connect(self._on_current_row)
        self.table.verticalScrollBar().actionTriggered.connect(self._on_user_scroll)
        view.run_changed.connect(self._on_run_changed)
        view.join(self, self._follow)
        theme.notifier.changed.connect(self._on_theme)
        self._on_run_changed()

    # What the dock asks

    def title_context(self) -> str:
        """`12 of 180`: rounds that the filter lets through, of those recorded."""
        return self._title

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self.delegate.tokens.restyle(colours)
        self.table.forget_pictures()
        self.filter.restyle()

    def keep_filters(self, store: SettingsStore) -> None:
        """Offer the filters that are kept there, and keep new ones."""
        self.filter.keep_in(store)

    def follow_breakpoints(self, breakpoints: BreakpointList) -> None:
        """Show the dots of these."""
        self._breakpoints = breakpoints
        breakpoints.changed.connect(self._show_dots)
        self._show_dots()

    def focus_filter(self) -> None:
        """Write a filter."""
        self.filter.edit.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.filter.edit.selectAll()

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def sizeHint(self) -> QSize:
        return QSize(self._width_of(("mark", "index", "drafts", "accepted", "last", "sum_min")), theme.em() * 30)

    def minimumSizeHint(self) -> QSize:
        return QSize(self._width_of(ALWAYS), (theme.line_height() + 4) * 4 + self.filter.edit.sizeHint().height())

    # Columns

    def _width(self, key: str) -> int:
        digit = self.delegate._metrics.horizontalAdvance("0")
        title = QFontMetrics(theme.ui_font(0.85)).horizontalAdvance(COLUMNS[KEYS.index(key)].title)
        side, gap = pip_size(self._widest_k)
        rows = max(self._rounds(), 1000)
        need = {
            "mark": dot_size() + glyph_size() - 4,
            "index": digit * len(str(rows)),
            "drafts": max(self._widest_k, 4) * (side + gap),
            "drafted": 2 * digit,
            "tested": 2 * digit,
            "accepted": 2 * digit,
            "outcome": QFontMetrics(theme.ui_font(0.92)).horizontalAdvance("all + bonus"),
            "last": glyph_size() + 4 + 9 * digit,
            "text": 24 * digit,
            "sum_min": 6 * digit,
            "drift": glyph_size() + 4 + 4 * digit,
            "time": 7 * digit,
        }[key]
        return max(need, title) + 2 * CELL_PAD

    def _width_of(self, keys: tuple[str, ...]) -> int:
        return sum(self._width(key) for key in keys) + self.table.verticalScrollBar().sizeHint().width()

    def shown_columns(self) -> list[str]:
        """Keys of the columns shown at the present width, and by the person's choice."""
        room = self.table.viewport().width()
        shown = {key for key in KEYS if self._forced.get(key, key in ALWAYS)}
        room -= sum(self._width(key) for key in shown)
        run = self.model.run
        drifts = run is not None and run.first_drift is not None
        last = "drift" if drifts else self._wanted
        first = ("last", last) if self._wanted != "drift" else ("drift", "last")
        order = (*first, *(key for key in BY_PRIORITY if key not in first))
        for key in order:
            if key in shown or not self._forced.get(key, True):
                continue
            if self._width(key) > room:
                break
            shown.add(key)
            room -= self._width(key)
        return [key for key in KEYS if key in shown]

    def prefer(self, key: str) -> None:
        """The column that comes next to the token, if there is room for no other: Σ min or drift."""
        if key != self._wanted:
            self._wanted = key
            self._fit_columns()

    def _needs(self) -> tuple[int, bool]:
        """What the columns' widths depend on besides the panel's: digits of a round number, and drift in the run."""
        run = self.model.run
        return len(str(max(self._rounds(), 1000))), run is not None and run.first_drift is not None

    def _rounds(self) -> int:
        return len(self.model.run) if self.model.run is not None else 0

    def _fit_columns(self) -> None:
        self._fitted = self._needs()
        shown = self.shown_columns()
        widths = {key: self._width(key) for key in shown}
        spare = self.table.viewport().width() - sum(widths.values())
        grower = next((key for key in ("text", "last", "accepted") if key in widths), None)
        if grower is not None and spare > 0:
            widths[grower] += spare
        for column, key in enumerate(KEYS):
            hidden = key not in widths
            if self.table.isColumnHidden(column) != hidden:
                self.table.setColumnHidden(column, hidden)
            if not hidden and self.table.columnWidth(column) != widths[key]:
                self.table.setColumnWidth(column, widths[key])

    def _on_header_menu(self, point: QPoint) -> None:
        menu = self.header_menu()
        menu.exec(self.table.horizontalHeader().mapToGlobal(point))
        menu.deleteLater()

    def header_menu(self) -> QMenu:
        """Choose columns; what isn't chosen by hand comes and goes with the width."""
        menu, shown = QMenu(self), self.shown_columns()
        for column in COLUMNS[1:]:
            action = menu.addAction(column.title if len(column.title) > 3 else column.about)
            action.setCheckable(True)
            action.setChecked(column.key in shown)
            action.setData(column.key)
        menu.addSeparator()
        automatic = menu.addAction("Choose by Width")
        automatic.setEnabled(bool(self._forced))
        menu.triggered.connect(self._on_column_chosen)
        return menu

    def _on_column_chosen(self, action: QAction) -> None:
        if action.data() is None:
            self._forced.clear()
        else:
            self._forced[action.data()] = action.isChecked()
        self._fit_columns()

    # Following the view

    def _on_run_changed(self) -> None:
        run = self._view.run
        self.delegate.tokens.set_vocabulary(run.header.vocabulary if run is not None else None)
        self.model.set_run(run)
        self._marks = dict(run.marks) if run is not None else {}
        self._show_dots()
        self.table.forget_pictures()
        self._widest_k = run.header.settings.num_draft_tokens if run is not None else 0
        self._fit_columns()
        self._refresh()

    def _follow(self) -> None:
        moved, self._moves = self._view.moves != self._moves, self._view.moves
        if self.isVisible():
            self._refresh(moved)
        else:
            self._set_title()

    def _refresh(self, moved: bool = False) -> None:
        self._look_at_marks()
        ended = self._view.run is not None and self._view.run.end is not None
        if ended != self._ended:
            self._ended = ended
            self.table.forget_pictures()  # the last rows show where the text ended
        if self.model.sync() and self._breakpoints is not None and self._breakpoints.points:
            self._show_dots()  # a round has come that carries one
        if self._needs() != self._fitted:
            self._fit_columns()
        self.table.sentence = NO_MATCH if self.model.filter is not None and self._rounds() else EMPTY
        self._set_title()
        self._show_cursor(scroll=moved)

    def _look_at_marks(self) -> None:
        run = self._view.run
        marks = run.marks if run is not None else {}
        if marks != self._marks:
            self._marks = dict(marks)
            self.table.forget_pictures()
            if self.model.filter is not None and "marked" in self.model.filter.line:
                self._on_filter(self.model.filter)

    def _show_dots(self) -> None:
        run = self._view.run
        known = self._breakpoints is not None and run is not None
        dots = frozenset(self._breakpoints.dots(run) if known else ())  # type: ignore[union-attr, arg-type]
        if dots != self.delegate.dots:
            self.delegate.dots = dots
            self.table.forget_pictures()

    def _on_filter(self, wanted: RoundFilter | None) -> None:
        self.model.set_filter(wanted)
        self.table.forget_pictures()
        self._refresh(moved=True)

    def _set_title(self) -> None:
        run = self._view.run
        if run is not None and not self.isVisible():
            self.model.sync()
        title = f"{count(self.model.rowCount())} of {count(len(run))}" if run is not None else ""
        if title != self._title:
            self._title = title
            self.title_changed.emit()

    def _show_cursor(self, scroll: bool) -> None:
        """Make the view's round the current row."""
        row = self.delegate.cursor_row = self.model.row_of(self._view.round_index)
        if not self.isVisible() or row < 0:
            if self.table.currentIndex().isValid():
                # The filter leaves the round out: no other one shall look as if it were shown.
                self.table.setCurrentIndex(QModelIndex())
            if self.isVisible() and self._view.live:
                self.table.scrollToBottom()
            elif self.isVisible() and scroll and self.model.rowCount():
                near = min(max(self.model.row_from(self._view.round_index), 0), self.model.rowCount() - 1)
                self.table.scrollTo(self.model.index(near, 1))
            self.table.viewport().update()
            return
        index = self.model.index(row, 1)
        if self.table.currentIndex().row() != row:
            flags = QItemSelectionModel.SelectionFlag.ClearAndSelect | QItemSelectionModel.SelectionFlag.Rows
            self.table.selectionModel().setCurrentIndex(index, flags)
        if self._view.live:
            self.table.scrollToBottom()
        elif scroll:
            self.table.scrollTo(index)
        self.table.viewport().update()

    def _on_current_row(self, current: Index, previous: Index) -> None:
        if current.isValid() and self.model.number(current.row()) != self._view.round_index:
            move = self._view.scrub if self.table.scrubs else self._view.select
            move(self.model.number(current.row()))

    def _on_user_scroll(self) -> None:
        """Scrolling away from the tail of a run that goes on lets go of it, as a click does."""
        bar, run = self.table.verticalScrollBar(), self._view.run
        going = run is not None and run.end is None
        if self._view.live and going and bar.sliderPosition() < bar.maximum():
            place = bar.sliderPosition()
            self._view.select(self._view.round_index, self._view.position)
            bar.setSliderPosition(place)

    def _enter_rows(self, down: bool) -> None:
        """From a round that the filter leaves out to the next one, or the one before, that it lets through."""
        row, rows = self.model.row_from(self._view.round_index), self.model.rowCount()
        row = row if down else row - 1
        if 0 <= row < rows:
            self._view.select(self.model.number(row))

    def selected_rows(self) -> list[int]:
        """Rows chosen, in order."""
        return sorted(index.row() for index in self.table.selectionModel().selectedRows(1))

    def copy(self) -> None:
        """Put the selected rows on the clipboard as tab-separated text."""
        QGuiApplication.clipboard().setText(self.model.copied(self.selected_rows()))

    # Events

    def eventFilter(self, watched, event) -> bool:  # type: ignore[no-untyped-def]
        if watched is self.table and isinstance(event, QKeyEvent) and event.type() == QKeyEvent.Type.KeyPress:
            if event.matches(QKeySequence.StandardKey.Copy):
                self.copy()
                return True
            if event.key() == Qt.Key.Key_End and not event.modifiers():
                self._view.follow_tail()
                return True
            if event.key() in (Qt.Key.Key_Up, Qt.Key.Key_Down) and self.delegate.cursor_row < 0:
                self._enter_rows(event.key() == Qt.Key.Key_Down)
                return True
            if event.key() == Qt.Key.Key_Escape and self.filter.edit.text():
                self.filter.set_line("")
                return True
        return super().eventFilter(watched, event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        menu = QMenu(self)
        menu.addAction("Copy Rows", self.copy).setEnabled(bool(self.selected_rows()))
        if self.row_actions:
            menu.addSeparator()
            menu.addActions(self.row_actions)
        menu.exec(event.globalPos())
        menu.deleteLater()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._show_cursor(scroll=True)
        self._share_width()

    def moveEvent(self, event: QMoveEvent) -> None:
        super().moveEvent(event)
        self._share_width()

    def _share_width(self) -> None:
        """At the left of the window the table and the gutters below it end at one line, behind the splitter."""
        window, axis = self.window(), RoundAxis.for_view(self._view)
        if not self.isVisible():
            return
        left = self.mapTo(window, QPoint(0, 0)).x() if isinstance(window, QMainWindow) else -1
        above = 0 <= left < theme.em()
        axis.set_gutter(left + self.width() + SPLITTER if above else axis.usual_gutter)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._share_width()
        self._fit_columns()
        self._refresh()
