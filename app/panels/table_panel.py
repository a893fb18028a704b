"""A dock's panel that is one table on the round under the cursor, with a title of its own words and a help button."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app import theme
from app.panels.help_button import HelpButton
from app.panels.rows_table import Column, Row, RowsTable
from app.panels.title_controls import draw_sentence, shelve
from app.theme import Palette
from app.view import View
from engine.recording import RecordedRun
from engine.rounds import Round


class TablePanel(QWidget):
    """A subclass says its `words` and `rows` for a round, and what stands there without one: `empty`.

    `lines`: the table's wanted height. Signals: `title_changed`; `help_wanted` (a page).
    """

    title_changed = Signal()
    help_wanted = Signal(str)
    empty = ""
    lines = 10

    def __init__(
        self,
        view: View,
        name: str,
        title: str,
        columns: Sequence[Column],
        help_page: tuple[str, str],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._view = view
        self._context = ""
        self.setObjectName(name)
        self.setAccessibleName(title)
        self.help = HelpButton(*help_page)
        shelve(self, self.help)
        self.help.wanted.connect(self.help_wanted)
        self.table = RowsTable(title, tuple(columns), self)
        self.setFocusProxy(self.table)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.table)
        view.run_changed.connect(self._on_run_changed)
        view.join(self, self._refresh)
        theme.notifier.changed.connect(self._on_theme)
        self._refresh()

    def words(self, run: RecordedRun, record: Round) -> str:
        """What the title says."""
        raise NotImplementedError

    def rows(self, run: RecordedRun, record: Round) -> list[Row]:
        """What the table shows; asked for only while it is seen."""
        raise NotImplementedError

    # What the dock asks

    def title_context(self) -> str:
        """The panel's words on the round."""
        return self._context

    def title_widgets(self) -> list[QWidget]:
        """Help."""
        return [self.help]

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self.table.restyle()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 36, theme.line_height() * self.lines)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 18, theme.line_height() * 4)

    # Following the view

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def _on_run_changed(self) -> None:
        if not self._view.telling:
            self._refresh()

    def _refresh(self) -> None:
        run, record = self._view.run, self._view.round
        there = run is not None and record is not None
        self.table.setVisible(there)
        context = "" if run is None or record is None else self.words(run, record)
        if context != self._context:
            self._context = context
            self.title_changed.emit()
        if run is None or record is None:
            self.update()
        elif self.isVisible():
            rows = self.rows(run, record)
            self.table.set_rows(len(rows), rows.__getitem__)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(theme.current().base))
        if not self.table.isVisible():
            draw_sentence(painter, self, self.empty)
