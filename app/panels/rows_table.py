"""A read-only table of short cells, made row by row as they are painted: for panels that list what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QPoint, QRect, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QFontMetrics, QKeyEvent, QKeySequence, QPainter, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app import theme
from app.panels.chips import TokenPainter, colour, draw_glyph, glyph_size
from app.panels.table_style import dress
from app.panels.title_controls import Table, to_clipboard

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()
PAD = 6
GAP = 5


@dataclass(frozen=True, slots=True)
class Column:
    """One column, `characters` wide at least. `grows`: it shares what room is left.

    `rank` 0: always there; else the higher ones go first where there is too little room.
    """

    key: str
    title: str
    about: str
    characters: int
    right: bool = False
    grows: bool = False
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell: a glyph, words, a token, in this order. `ink`: the name of a palette colour.

    `lead`: characters that the words take, set right, before the token. `link`: it can be pressed.
    """

    text: str = ""
    ink: str = "text"
    mono: bool = True
    bold: bool = False
    glyph: str | None = None
    token: int | None = None
    lead: int = 0
    link: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row. `tint`: the name of a palette colour for its ground; `line`: red, above it."""

    cells: tuple[Cell, ...]
    tint: str | None = None
    line: bool = False
    tip: str = ""


class _Model(QAbstractTableModel):
    def __init__(self, columns: Sequence[Column], parent: QWidget) -> None:
        super().__init__(parent)
        self.columns = columns
        self.count = 0
        self.make: Callable[[int], Row] = lambda row: Row(())
        self.token_text: Callable[[int], str] = str

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else self.count

    def columnCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self.columns)

    def text(self, cell: Cell) -> str:
        token = "" if cell.token is None else self.token_text(cell.token)
        return f"{cell.text} {token}".strip()

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid() or index.row() >= self.count:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.text(self.make(index.row()).cells[index.column()])
        if role == Qt.ItemDataRole.ToolTipRole:
            return self.make(index.row()).tip or None
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(self.columns):
            return None
        column = self.columns[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.about
        if role == Qt.ItemDataRole.FontRole:
            return theme.ui_font(0.85)  # under a style sheet the header's own font isn't painted with
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignRight if column.right else Qt.AlignmentFlag.AlignLeft
            return side | Qt.AlignmentFlag.AlignVCenter
        return None


class _Delegate(QStyledItemDelegate):
    def __init__(self, model: _Model, tokens: TokenPainter, parent: QWidget) -> None:
        super().__init__(parent)
        self._model, self._tokens = model, tokens
        self._fonts = {
            (mono, bold): (theme.mono_font if mono else theme.ui_font)(0.92, 600 if bold else 400)
            for mono in (False, True)
            for bold in (False, True)
        }
        self._digit = QFontMetrics(self._fonts[True, False]).horizontalAdvance("0")

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row, colours = self._model.make(index.row()), theme.current()
        area: QRect = option.rect
        back = colours.base if index.row() % 2 == 0 else colours.alternate
        back = getattr(colours, row.tint) if row.tint is not None else back
        if option.state & QStyle.StateFlag.State_Selected:
            back = colours.selection
        painter.fillRect(area, colour(back))
        self._cell(painter, area.adjusted(PAD, 0, -PAD, 0), row.cells[index.column()], index.column())
        if row.line:
            painter.fillRect(area.left(), area.top(), area.width(), 2, colour(colours.danger))

    def _cell(self, painter: QPainter, area: QRect, cell: Cell, column: int) -> None:
        colours = theme.current()
        ink = _ink(cell.ink)
        if cell.glyph is not None:
            side = glyph_size()
            draw_glyph(painter, area.left(), area.top() + (area.height() - side) // 2, cell.glyph, ink)
            area = area.adjusted(side + GAP, 0, 0, 0)
        font = self._fonts[cell.mono, cell.bold]
        painter.setFont(font)
        painter.setPen(colour(colours.text2 if cell.token is not None and ink == colours.text else ink))
        metrics = painter.fontMetrics()
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextSingleLine
        if cell.token is None:
            side_flag = Qt.AlignmentFlag.AlignRight if self._model.columns[column].right else Qt.AlignmentFlag.AlignLeft
            text = metrics.elidedText(cell.text, Qt.TextElideMode.ElideRight, max(area.width(), 0))
            painter.drawText(area, flags | side_flag, text)
            if cell.link:
                self._underline(painter, area, metrics.horizontalAdvance(text), bool(self._model.columns[column].right))
            return
        lead = cell.lead * self._digit
        if lead:
            painter.drawText(QRect(area.left(), area.top(), lead, area.height()), flags | _RIGHT, cell.text)
            area = area.adjusted(lead + PAD, 0, 0, 0)
        baseline = self._tokens.baseline(area.top())
        self._tokens.draw_text(painter, area.left(), baseline, cell.token, ink, max(area.width(), 0))

    @staticmethod
    def _underline(painter: QPainter, area: QRect, width: int, right: bool) -> None:
        left = area.right() + 1 - width if right else area.left()
        painter.fillRect(
            left, area.center().y() + painter.fontMetrics().ascent() // 2 + 1, width, 1, painter.pen().color()
        )


_RIGHT = Qt.AlignmentFlag.AlignRight


def _ink(name: str) -> str:
    """A colour of the palette by name: `danger`, or `accepted` for the ink of that outcome."""
    value = getattr(theme.current(), name)
    return value if isinstance(value, str) else str(value.ink)


class RowsTable(QTableView):
    """Rows are asked for by number, when they are painted. Signals: `row_pressed` (row, column), by mouse or Enter.

    `moved_by_hand`: a person scrolled or chose a row.
    """

    row_pressed = Signal(int, int)
    moved_by_hand = Signal()

    def __init__(self, name: str, columns: Sequence[Column], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.columns = tuple(columns)
        self.tokens = TokenPainter()
        self._rows = _Model(self.columns, self)
        self.setModel(self._rows)
        self._delegate = _Delegate(self._rows, self.tokens, self)
        self.setItemDelegate(self._delegate)
        self.setAccessibleName(name)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        dress(self)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.clicked.connect(self._on_clicked)
        self.verticalScrollBar().actionTriggered.connect(self.moved_by_hand)
        self._fit()

    def set_rows(self, count: int, make: Callable[[int], Row], token_text: Callable[[int], str] = str) -> None:
        """Show so many rows; `make(row)` must be quick and give the same until the next call."""
        keep = self.verticalScrollBar().value()
        model, grown = self._rows, count != self._rows.count
        if grown:
            model.beginResetModel()
        model.count, model.make, model.token_text = count, make, token_text
        if grown:
            model.endResetModel()
            self.executeDelayedItemsLayout()  # else the scroll bar still has the old range
            self.verticalScrollBar().setValue(keep)
        self.viewport().update()

    def row(self, number: int) -> Row:
        """A row as it is shown."""
        return self._rows.make(number)

    def row_count(self) -> int:
        return self._rows.count

    def texts(self, number: int) -> list[str]:
        """What the cells of a row say, those of columns without room included."""
        return [self._rows.text(cell) for cell in self.row(number).cells]

    def table(self) -> Table:
        """The chosen rows, or all, under a header line."""
        chosen = sorted({index.row() for index in self.selectionModel().selectedRows()})
        numbers = chosen if len(chosen) > 1 else range(self._rows.count)
        return [[column.title for column in self.columns], *(self.texts(number) for number in numbers)]

    def copy(self) -> None:
        """Put `table()` on the clipboard."""
        to_clipboard(self.table())

    # Columns

    def width_of(self, column: Column) -> int:
        """Pixels that a column takes at least."""
        digit = QFontMetrics(theme.mono_font(0.92)).horizontalAdvance("0")
        title = QFontMetrics(theme.ui_font(0.85)).horizontalAdvance(column.title)
        return max(column.characters * digit, title) + 2 * PAD + 2

    def shown(self) -> list[str]:
        """Keys of the columns that there is room for."""
        return [column.key for at, column in enumerate(self.columns) if not self.isColumnHidden(at)]

    def _fit(self) -> None:
        room = self.viewport().width()
        shown = list(self.columns)
        for column in sorted((c for c in self.columns if c.rank), key=lambda c: -c.rank):
            if sum(self.width_of(c) for c in shown) <= room:
                break
            shown.remove(column)
        spare = room - sum(self.width_of(c) for c in shown)
        growing = [c for c in shown if c.grows] or shown[-1:]
        for at, column in enumerate(self.columns):
            hidden = column not in shown
            if self.isColumnHidden(at) != hidden:
                self.setColumnHidden(at, hidden)
            if hidden:
                continue
            share = 0
            if column in growing:
                share = max(spare // len(growing), -(self.width_of(column) - 4 * PAD))
                share += spare - spare // len(growing) * len(growing) if column is growing[-1] and spare > 0 else 0
            self.setColumnWidth(at, self.width_of(column) + share)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    # Events

    def _on_clicked(self, index: QModelIndex) -> None:
        self.moved_by_hand.emit()
        self.row_pressed.emit(index.row(), index.column())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            self.copy()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self.currentIndex().isValid():
            self.row_pressed.emit(self.currentIndex().row(), -1)
        else:
            if not event.text():
                self.moved_by_hand.emit()
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        self.open_menu(event.globalPos())

    def open_menu(self, place: QPoint) -> None:
        """The menu with the copy action, at a place of the screen."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Copy table", self.copy)
        menu.popup(place)

    def restyle(self) -> None:
        """Use the colours of the palette in use."""
        self.tokens.restyle(theme.current())
        self.viewport().update()
