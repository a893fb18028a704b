"""The cache ledger: the token ids that both caches hold behind the cursor's round, against those that they should."""

from __future__ import annotations

from bisect import bisect_left

from PySide6.QtCore import QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QAction, QColor, QPainter, QPaintEvent, QPalette, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from app import theme
from app.format import visible_text
from app.panels.cache_lanes import CacheLanes
from app.panels.cache_verdict import check_for, check_text, verdict
from app.panels.help_button import HelpButton
from app.panels.ledger_rows import (
    DIFFERS,
    EXTRA,
    HELD,
    MISSING,
    NOTHING,
    OWED,
    STATUS_WORDS,
    Comparison,
    Lane,
    compare,
)
from app.panels.rows_table import Cell, Column, Row, RowsTable
from app.panels.title_buttons import EverySpin, TitleButton
from app.panels.title_controls import draw_sentence, shelve
from app.theme import Palette
from app.view import View
from engine.ledger import Ledger
from engine.recording import RecordedRun

EMPTY = "Press Run: what both caches hold at every position is held here against what they should."
PAGE = "ledger.md"
SAME = "No position differs: both caches hold what they should."
COLUMNS = (
    Column("position", "pos", "Position in the cache, from 0", 4, right=True),
    Column("expected", "expected", "Id and piece of the committed token", 17, grows=True),
    Column("main", "main holds", "What the target's cache holds", 11, grows=True),
    Column("draft", "draft holds", "What the drafter's cache holds", 15, grows=True),
    Column("from", "emitted in", "Where the expected token came from", 10, right=True, rank=1),
    Column("verdict", "verdict", "How the two differ", 10),
)
_SIGNS = {DIFFERS: "≠ ", MISSING: "∅ ", EXTRA: "+ "}
_CONTEXT_ROWS = 2
"""Rows that stay in sight above the first difference."""
_LOW, _LOWEST = 26, 20
"""Panels lower than so many lines show the differences alone, and then no legend."""


class _Sentence(QLabel):
    """A line or two of plain text on a ground of its own."""

    def __init__(self, name: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setObjectName(name)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setWordWrap(True)
        self.setFont(theme.ui_font(0.92))
        self.setContentsMargins(10, 4, 10, 4)
        self.setAutoFillBackground(True)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._bad = False
        self.restyle()

    def say(self, text: str, bad: bool) -> None:
        """Say this; red where it is bad."""
        if text != self.text():
            self.setText(text)
            self.setAccessibleName(text)
        if bad != self._bad:
            self._bad = bad
            self.restyle()

    def restyle(self) -> None:
        colours, palette = theme.current(), self.palette()
        palette.setColor(QPalette.ColorRole.Window, QColor(colours.danger_tint if self._bad else colours.base))
        palette.setColor(QPalette.ColorRole.WindowText, QColor(colours.danger if self._bad else colours.text2))
        self.setPalette(palette)


class CacheLedgerPanel(QWidget):
    """Signals: `title_changed`; `help_wanted` (a page); `every_wanted` (rounds from one content check to the next)."""

    title_changed = Signal()
    help_wanted = Signal(str)
    every_wanted = Signal(int)

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self._context = ""
        self._known: tuple[RecordedRun, int, Ledger] | None = None
        self._found: Comparison | None = None
        self._listed: list[int] | range = range(0)
        self._by_hand = False
        self._asked: bool | None = None
        self._shown_first: tuple[RecordedRun, int | None] | None = None
        self.setObjectName("cache-ledger")
        self.setAccessibleName("Cache ledger")
        self._make_title()
        self.sentence = _Sentence("verdict", self)
        self.check = _Sentence("content-check", self)
        self.lanes = CacheLanes(self)
        self.table = RowsTable("Positions of both caches", COLUMNS, self)
        self.table.setMinimumHeight(3 * theme.line_height())
        self.setFocusProxy(self.table)
        self.same = QPushButton("Show every position", self)
        self.same.hide()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        for part in (self.sentence, self.check, self.lanes):
            column.addWidget(part)
        column.addWidget(self.table, 1)
        self.lanes.picked.connect(self._scroll_to)
        self.table.moved_by_hand.connect(self._on_hand)
        self.same.clicked.connect(self._show_all)
        view.run_changed.connect(self._on_run_changed)
        view.join(self, self._refresh)
        theme.notifier.changed.connect(self._on_theme)
        self._on_run_changed()

    def _make_title(self) -> None:
        self.check_button = TitleButton("Check contents", "")
        self.every = EverySpin(
            "Check contents every so many rounds",
            "Check the contents behind every so many rounds, by forward passes of their own; off: only when asked",
        )
        self.only = TitleButton("Differences only", "List only the positions at which a cache is wrong", checkable=True)
        self.help = HelpButton(PAGE, "what the ledger shows")
        shelve(self, self.check_button, self.every, self.only, self.help)
        self.every.valueChanged.connect(self.every_wanted)
        self.only.clicked.connect(self._on_only)
        self.help.wanted.connect(self.help_wanted)

    def set_check_action(self, action: QAction) -> None:
        """The button does what this action does, and says what it says."""
        action.setIconText("Check contents")
        self.check_button.setDefaultAction(action)
        self.check_button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)

    def set_every(self, rounds: int) -> None:
        """Show how often the contents are checked."""
        with QSignalBlocker(self.every):
            self.every.setValue(rounds)

    # What the dock asks

    def title_context(self) -> str:
        """`behind round 11`."""
        return self._context

    def title_widgets(self) -> list[QWidget]:
        """The content check, how often it comes, the switch, and help."""
        return [self.check_button, self.every, self.only, self.help]

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        self.table.restyle()
        self.lanes.update()
        self.sentence.restyle()
        self.check.restyle()
        self.update()

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 48, theme.line_height() * 24)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 20, theme.line_height() * 8)

    # Following the view

    def _on_run_changed(self) -> None:
        run = self._view.run
        self.table.tokens.set_vocabulary(run.header.vocabulary if run is not None else None)
        self._known, self._by_hand, self._shown_first = None, False, None
        if not self._view.telling:
            self._refresh()

    def _refresh(self) -> None:
        run, index = self._view.run, self._view.round_index
        there = run is not None and self._view.round is not None
        for part in (self.sentence, self.lanes, self.table):
            part.setVisible(there)
        context = f"behind round {index}" if there else ""
        if context != self._context:
            self._context = context
            self.title_changed.emit()
        if run is None or not there:
            self.check.hide()
            self.same.hide()
            self.update()
        elif self.isVisible():
            self._show(run, index)

    def _show(self, run: RecordedRun, index: int) -> None:
        known = self._known
        ledger = run.ledger(index, known[1:] if known is not None and known[0] is run else None)
        self._known = (run, index, ledger)
        found = self._found = compare(ledger)
        self.lanes.show_comparison(found, len(run.header.prompt_tokens))
        self.sentence.say(*verdict(run, index, found))
        check = check_for(run, index)
        self.check.setVisible(check is not None)
        if check is not None:
            info = run.header.target
            self.check.say(*check_text(check, info.dtype, info.model_type, run.header.settings.kv_bits))
        self._list(run)

    def _list(self, run: RecordedRun) -> None:
        found = self._found
        assert found is not None
        if self._asked is None:  # nobody has chosen: by the room, and where there is a difference to show
            self.only.setChecked(self.height() < _LOW * theme.line_height() and found.first is not None)
        self.lanes.set_legend(self.height() >= _LOWEST * theme.line_height())
        self._listed = found.wrong().tolist() if self.only.isChecked() else range(found.positions)
        rows = _Rows(run, found, self._listed)
        vocabulary = run.header.vocabulary
        self.table.set_rows(len(self._listed), rows.row, lambda token: visible_text(vocabulary, token))
        nothing = not self._listed and found.positions > 0
        self.table.setAccessibleDescription(SAME if nothing else "")
        self._place_same(nothing)
        first = (run, found.first)
        if self._shown_first is None or first != self._shown_first:
            self._by_hand = False
            self._shown_first = first
        if not self._by_hand:
            inner = self.layout()
            if inner is not None:
                inner.activate()  # the table has its height before it is scrolled
            self._scroll_to(found.first)

    def _place_same(self, shown: bool) -> None:
        self.same.setVisible(shown)
        if shown:
            size, area = self.same.sizeHint(), self.table.geometry()
            top = area.center().y() + theme.line_height()
            self.same.setGeometry(area.center().x() - size.width() // 2, top, size.width(), size.height())
            self.same.raise_()

    def _scroll_to(self, position: int | None) -> None:
        """Bring a position in sight, a few rows above it; the last one without a difference."""
        bar, rows = self.table.verticalScrollBar(), self._listed
        if position is None:
            bar.setValue(bar.maximum())
            return
        bar.setValue(max(bisect_left(rows, position) - _CONTEXT_ROWS, 0))

    # By hand

    def _on_hand(self) -> None:
        self._by_hand = True

    def _on_only(self, checked: bool) -> None:
        self._asked = checked
        self._by_hand = False
        if self._view.run is not None and self._found is not None:
            self._list(self._view.run)

    def _show_all(self) -> None:
        self.only.setChecked(False)
        self._on_only(False)

    # Events

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._view.run is not None and self._found is not None and self.table.isVisible():
            self._list(self._view.run)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._refresh()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(theme.current().base))
        if not self.table.isVisible():
            draw_sentence(painter, self, EMPTY)


class _Rows:
    """Makes the rows of the table."""

    def __init__(self, run: RecordedRun, found: Comparison, listed: list[int] | range) -> None:
        self._run, self._found, self._listed = run, found, listed
        self._prompt = len(run.header.prompt_tokens)
        self._digits = len(str(max(int(found.committed.max(initial=0)), 999)))

    def row(self, number: int) -> Row:
        """A row by its number."""
        at, found = self._listed[number], self._found
        holds = {lane.name: self._holds(lane, at) for lane in found.lanes}
        cells = (
            Cell(str(at)),
            self._expected(at),
            holds["main"],
            holds.get("draft", Cell("no cache", "text2", mono=False)),
            Cell(self._source(at), "text2", mono=False),
            self._verdict(at),
        )
        wrong = bool(found.worst()[at] >= MISSING)
        return Row(cells, "danger_tint" if wrong else None, at == found.first)

    def _expected(self, at: int) -> Cell:
        if at >= len(self._found.committed) - 1:
            return Cell("–", "text2")
        token = int(self._found.committed[at])
        return Cell(str(token), token=token, lead=self._digits)

    def _holds(self, lane: Lane, at: int) -> Cell:
        status = lane.status[at]
        if status in (MISSING, OWED, NOTHING):
            words = {MISSING: "–", OWED: "owed", NOTHING: ""}[int(status)]
            return Cell(words, "danger" if status == MISSING else "text2", mono=status == MISSING)
        token = int(lane.held[at])
        if status == HELD:
            return Cell(token=token, glyph="check", ink="text")
        return Cell(str(token), "danger", token=token, lead=self._digits)

    def _source(self, at: int) -> str:
        if at < self._prompt:
            return "prompt"
        token = at - self._prompt
        return f"round {self._run.locate(token)[0]}" if at < len(self._found.committed) - 1 else "–"

    def _verdict(self, at: int) -> Cell:
        status = int(self._found.worst()[at])
        if status < MISSING:
            return Cell(STATUS_WORDS[status], "text2" if status == OWED else "accepted", mono=False)
        words = f"{_SIGNS[status]}{STATUS_WORDS[status]}"
        return Cell(words, "danger", mono=False, bold=status != MISSING)
