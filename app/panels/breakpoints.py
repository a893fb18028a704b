"""The list of breakpoints: on or off, what each waits for, how often it was hit; to add, edit and delete."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QMenu,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.breakpoint_list import BreakpointList
from app.format import count, visible_string
from app.panels.chips import plain_tip
from app.panels.help_button import HelpButton
from app.panels.title_controls import draw_sentence, shelve, title_height
from app.theme import Palette
from app.view import View
from engine.breakpoint_kinds import KINDS

EMPTY = "No breakpoints. Add one to pause a run right behind the round that you wait for; F9 takes the round's number."
PAGE = "time-travel.md"
ON, HITS = 0, 1
_PAD = "\u2002"  # an item's text has no margin of its own at the right


class BreakpointsPanel(QWidget):
    """One row a breakpoint. Signals: `title_changed`; `help_wanted` (a page); `add_wanted`; `edit_wanted` (a place)."""

    title_changed = Signal()
    help_wanted = Signal(str)
    add_wanted = Signal()
    edit_wanted = Signal(int)

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._points: BreakpointList | None = None
        self._context = ""
        self._filling = False
        self.setObjectName("breakpoints")
        self.setAccessibleName("Breakpoints")
        self.table = QTableWidget(0, 2, self)
        self.table.setHorizontalHeaderLabels(["pause behind a round with", f"hits{_PAD}"])
        self.table.setAccessibleName("Breakpoints")
        self.table.setFrameShape(QFrame.Shape.NoFrame)
        self.table.setShowGrid(False)
        self.table.setAlternatingRowColors(True)
        self.table.setWordWrap(False)
        self.table.setTabKeyNavigation(False)
        self.table.setFont(theme.ui_font(0.92))
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.table.verticalHeader().hide()
        self.table.verticalHeader().setDefaultSectionSize(theme.line_height() + 4)
        head = self.table.horizontalHeader()
        head.setFont(theme.ui_font(0.85))
        head.setFixedHeight(theme.line_height() + 5)
        head.setHighlightSections(False)
        head.setSectionsClickable(False)
        for at, side in ((ON, Qt.AlignmentFlag.AlignLeft), (HITS, Qt.AlignmentFlag.AlignRight)):
            item = self.table.horizontalHeaderItem(at)
            assert item is not None
            item.setTextAlignment(side | Qt.AlignmentFlag.AlignVCenter)
            item.setFont(theme.ui_font(0.85))
        head.setMinimumSectionSize(1)
        head.setSectionResizeMode(ON, QHeaderView.ResizeMode.Stretch)
        head.setSectionResizeMode(HITS, QHeaderView.ResizeMode.Fixed)
        head.resizeSection(HITS, QFontMetrics(theme.ui_font(0.92)).horizontalAdvance("0000000"))
        self.table.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.table.customContextMenuRequested.connect(self._on_menu)
        self.table.itemChanged.connect(self._on_item)
        self.table.cellDoubleClicked.connect(self._on_double_click)
        self.table.itemSelectionChanged.connect(self._enable)
        self.setFocusProxy(self.table)
        self.add_button = self._button("Add…", "Add a breakpoint", self.add_wanted.emit)
        self.edit_button = self._button("Edit…", "Edit the chosen breakpoint", self._on_edit)
        self.delete_button = self._button("Delete", "Delete the chosen breakpoint", self._on_delete)
        self.help = HelpButton(PAGE, "breakpoints")
        self.help.wanted.connect(self.help_wanted)
        shelve(self, *self.title_widgets())
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.table)
        theme.notifier.changed.connect(self._on_theme)
        self._refresh()

    def _button(self, text: str, about: str, act) -> QPushButton:  # type: ignore[no-untyped-def]
        button = QPushButton(text)
        button.setToolTip(about)
        button.setAccessibleName(about)
        button.setFont(theme.ui_font(0.92))
        inner = title_height() - 2
        button.setStyleSheet(f"min-height: {inner}px; max-height: {inner}px; padding: 0 7px;")
        button.clicked.connect(act)
        return button

    # What the dock asks

    def title_context(self) -> str:
        """`3 on, 1 off`."""
        return self._context

    def title_widgets(self) -> list[QWidget]:
        """Add, edit, delete, help."""
        return [self.add_button, self.edit_button, self.delete_button, self.help]

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self.update()

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 30, theme.line_height() * 10)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 18, theme.line_height() * 4)

    def follow_breakpoints(self, points: BreakpointList) -> None:
        """Show and change this list."""
        self._points = points
        points.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        points = self._points.points if self._points is not None else []
        chosen = self.chosen()
        self._filling = True
        self.table.setRowCount(len(points))
        for row, point in enumerate(points):
            title = visible_string(point.title)
            about = [KINDS[condition.kind].about for condition in point.conditions]
            tip = plain_tip("Pause behind a round", [*about, "all in one round"] if len(about) > 1 else about)
            flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
            first = QTableWidgetItem(title)
            first.setFlags(flags | Qt.ItemFlag.ItemIsUserCheckable)
            first.setCheckState(Qt.CheckState.Checked if point.enabled else Qt.CheckState.Unchecked)
            hits = QTableWidgetItem(f"{count(self._points.hits(point) if self._points is not None else 0)}{_PAD}")
            hits.setFlags(flags)
            hits.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            hits.setFont(theme.mono_font(0.92))
            for column, item in enumerate((first, hits)):
                item.setToolTip(tip)
                self.table.setItem(row, column, item)
        self._filling = False
        if chosen is not None and points:
            self.table.selectRow(min(chosen, len(points) - 1))
        self.table.setVisible(bool(points))
        off = sum(not point.enabled for point in points)
        context = f"{count(len(points) - off)} on, {count(off)} off" if points else ""
        if context != self._context:
            self._context = context
            self.title_changed.emit()
        self._enable()
        self.update()

    def chosen(self) -> int | None:
        """Place of the chosen breakpoint."""
        rows = self.table.selectionModel().selectedRows()
        return rows[0].row() if rows else None

    def _enable(self) -> None:
        for button in (self.edit_button, self.delete_button):
            button.setEnabled(self.chosen() is not None)

    # What is done

    def _on_item(self, item: QTableWidgetItem) -> None:
        if not self._filling and item.column() == ON and self._points is not None:
            self._points.enable(item.row(), item.checkState() == Qt.CheckState.Checked)

    def _on_double_click(self, row: int, column: int) -> None:
        self.edit_wanted.emit(row)

    def _on_edit(self) -> None:
        if (at := self.chosen()) is not None:
            self.edit_wanted.emit(at)

    def _on_delete(self) -> None:
        if (at := self.chosen()) is not None and self._points is not None:
            self._points.remove(at)

    def _on_menu(self, point: QPoint) -> None:
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.addAction("Add…", self.add_wanted.emit)
        for text, act in (("Edit…", self._on_edit), ("Delete", self._on_delete)):
            menu.addAction(text, act).setEnabled(self.chosen() is not None)
        menu.popup(self.table.viewport().mapToGlobal(point))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self._on_delete()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._on_edit()
        else:
            super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(theme.current().base))
        if not self.table.isVisible():
            draw_sentence(painter, self, EMPTY)
