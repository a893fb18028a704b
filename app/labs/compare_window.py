"""Two runs side by side: where their tokens part and why, every counter with its interval, and both charts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent, QGuiApplication, QPalette
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QSplitter,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.format import plural, probability
from app.jobs import Job, Steps
from app.labs.compare_charts import CompareCharts
from app.labs.compare_data import Compared, Shown, compare_steps, known_source
from app.labs.compare_stream import StreamPair
from app.labs.compare_words import counter_cells, first_lines, is_beyond_noise, report, settings_lines, written_test
from app.panels.chips import chip_styles
from app.panels.help_button import HelpButton
from app.panels.rows_table import Cell, Column, Row, RowsTable
from app.run_sources import Source, known_sources, list_steps, opener
from app.session import Session
from app.side_thread import SideThread
from engine.compare_counters import Counter, Verdict
from engine.first_difference import Side
from engine.session_file import SUFFIX

PAGE = "recordings.md"
ONE_RUN = "A comparison needs two runs: run once more, fork this run, or choose a recorded file."
NO_RUNS = "There are no runs yet: press Run in the window, or choose a recorded file for each side."
SAME = "A and B are the same run: choose another on one side."
NOT_ALIGNED = "Tokens can't be aligned, since the vocabularies aren't the same."
_FILTER = f"Draftscope recordings (*{SUFFIX});;All files (*)"

COUNTERS = (
    Column("name", "counter", "As in the summary line and in exports", 27, grows=True),
    Column("a", "A", "Of run A", 8, right=True),
    Column("a95", "95 %", "Interval of A, by a bootstrap over rounds", 18, right=True, rank=3),
    Column("b", "B", "Of run B", 8, right=True),
    Column("b95", "95 %", "Interval of B, by a bootstrap over rounds", 18, right=True, rank=2),
    Column("difference", "B − A", "Bold where its interval leaves 0 out", 10, right=True),
    Column("d95", "95 %", "Interval of B − A; with 0 in it, the difference may be noise", 21, right=True, rank=1),
)
TESTS = (
    Column("side", "", "Which run", 1),
    Column("round", "round", "The round of the token", 6, right=True),
    Column("position", "pos", "Its position in the round, from 1", 3, right=True),
    Column("rule", "rule", "The rule in force there", 14, rank=2),
    Column("drafted", "drafted", "The token that the drafter proposed", 10, grows=True),
    Column("q", "q(d)", "Its probability under the drafter", 7, right=True),
    Column("p", "p(d)", "Its probability under the target", 7, right=True),
    Column("u", "u", "The coin: uniform in [0, 1)", 7, right=True),
    Column("test", "test", "What was compared", 24, grows=True),
    Column("fate", "", "What became of the draft", 10),
    Column("emitted", "emitted", "The token that differs", 10, grows=True),
    Column("source", "source", "Where it came from", 12, rank=1),
)


def _label(text: str = "", grey: bool = False, wrap: bool = False) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(wrap)
    if grey:
        label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
    return label


class CompareWindow(QDialog):
    """A window beside the main one. Signals: `help_wanted` (a page), `copied`."""

    help_wanted = Signal(str)
    copied = Signal()

    def __init__(self, session: Session, side_thread: SideThread, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._side_thread = session, side_thread
        self._job: Job | None = None
        self._listing: int | None = None  # the side that a file is read for
        self._extra: list[Source] = []
        self._known: list[Source] = []
        self._compared: tuple[Compared, tuple[Source, Source]] | None = None
        self._failure = ""
        self._stopped = False
        self._note = ""
        self.setWindowTitle("Compare Runs")
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        self._make_pickers()
        self._make_parts()
        self._lay_out()
        session.view.run_changed.connect(self._on_runs)
        session.run_ended.connect(self._on_runs)
        theme.notifier.changed.connect(self._on_theme)
        room = self.screen().availableSize()
        self.resize(min(theme.em() * 108, room.width()), min(theme.line_height() * 50, room.height()))
        self._fill()
        self._choose_first()
        self.compare()

    # What it is made of

    def _make_pickers(self) -> None:
        self.pickers: list[QComboBox] = []
        self.files: list[QPushButton] = []
        for side, name in enumerate("AB"):
            picker = QComboBox()
            picker.setAccessibleName(f"Run {name}")
            picker.setToolTip(f"Run {name}: of this sitting, of an opened recording, or of another file")
            picker.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
            picker.setPlaceholderText("Choose a run, or a file")
            picker.activated.connect(self.compare)
            other = QPushButton("File…")
            other.setAutoDefault(False)
            other.setAccessibleName(f"Choose a file for {name}")
            other.setToolTip(f"Take run {name} from a recorded session; it stays closed in the window")
            other.clicked.connect(partial(self.choose_file, side))
            self.pickers.append(picker)
            self.files.append(other)

    def _make_parts(self) -> None:
        self.swap = QPushButton("Swap")
        self.swap.setToolTip("Let A and B change places")
        self.again = QPushButton("Compare")
        self.again.setDefault(True)
        theme.mark(self.again, "primary", True)
        self.copy = QPushButton("Copy")
        self.copy.setToolTip("Copy everything as text, as `draftscope compare` prints it")
        self.help = HelpButton(PAGE, "how two runs are compared")
        for button in (self.swap, self.copy):
            button.setAutoDefault(False)
        self.swap.clicked.connect(self.swap_sides)
        self.again.clicked.connect(self.toggle)
        self.copy.clicked.connect(self._copy)
        self.help.wanted.connect(self.help_wanted)
        self.verdict = _label(wrap=True)
        self.verdict.setFont(theme.ui_font(1.0, 600))
        self.verdict.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.warnings = _label(wrap=True)
        self.warnings.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.warnings.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.where = _label(grey=True)
        self.where.setFont(theme.ui_font(0.92))
        self.where.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.why = _label(wrap=True)
        self.why.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.state = _label(grey=True, wrap=True)
        self.empty = _label(grey=True, wrap=True)
        self.empty.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.empty.setAutoFillBackground(True)
        self.empty.setBackgroundRole(QPalette.ColorRole.Base)
        self.empty.setMargin(2 * theme.em())
        self.goes: list[QPushButton] = []
        for side, name in enumerate("AB"):
            button = QPushButton(f"Go to {name}")
            button.setAutoDefault(False)
            button.setFont(theme.ui_font(0.92))
            button.clicked.connect(partial(self.go, side))
            self.goes.append(button)
        self.tests = RowsTable("The test at the first difference", TESTS)
        self.tests.setFixedHeight(3 * theme.line_height() + 14)
        self.tests.row_pressed.connect(self._on_test_pressed)
        self.streams = StreamPair()
        self.streams.pressed.connect(self._on_token)
        self.counters = RowsTable("Counters of both runs", COUNTERS)
        self.charts = CompareCharts()

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        top = QVBoxLayout()
        top.setContentsMargins(10, 8, 10, 6)
        top.setSpacing(4)
        top.addLayout(self._picker_grid())
        top.addWidget(self.verdict)
        self._warned = QScrollArea()
        self._warned.setFrameShape(QScrollArea.Shape.NoFrame)
        self._warned.setWidgetResizable(True)
        self._warned.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._warned.setWidget(self.warnings)
        self._warned.setAccessibleName("What to bear in mind")
        top.addWidget(self._warned)
        top.addWidget(self.state)
        column.addLayout(top)
        self._parts = QWidget()
        parts = QVBoxLayout(self._parts)
        parts.setContentsMargins(0, 0, 0, 0)
        parts.setSpacing(0)
        parts.addLayout(self._title("First difference", self.where, *self.goes))
        why = QHBoxLayout()
        why.setContentsMargins(10, 2, 10, 4)
        why.addWidget(self.why)
        parts.addLayout(why)
        parts.addWidget(self.tests)
        parts.addWidget(self.streams)
        below = QSplitter(Qt.Orientation.Horizontal)
        below.setChildrenCollapsible(False)
        below.addWidget(self._titled("Counters", self.counters))
        below.addWidget(self._titled("Acceptance and drift", self.charts))
        below.setSizes([68 * theme.em(), 32 * theme.em()])
        below.setStretchFactor(0, 2)
        below.setStretchFactor(1, 1)
        parts.addWidget(below, 1)
        column.addWidget(self._parts, 1)
        column.addWidget(self.empty, 1)

    def _picker_grid(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(6)
        grid.setVerticalSpacing(4)
        for side, name in enumerate("AB"):
            word = _label(name)
            word.setFont(theme.ui_font(1.0, 600))
            word.setBuddy(self.pickers[side])
            grid.addWidget(word, side, 0)
            grid.addWidget(self.pickers[side], side, 1)
            grid.addWidget(self.files[side], side, 2)
        grid.addWidget(self.swap, 0, 3)
        grid.addWidget(self.copy, 1, 3)
        grid.addWidget(self.again, 0, 4)
        grid.addWidget(self.help, 1, 4, Qt.AlignmentFlag.AlignRight)
        grid.setColumnStretch(1, 1)
        return grid

    @staticmethod
    def _title(text: str, *buttons: QWidget) -> QHBoxLayout:
        line = QHBoxLayout()
        line.setContentsMargins(10, 3, 10, 3)
        line.setSpacing(8)
        word = _label(text)
        word.setFont(theme.ui_font(0.92, 600))
        line.addWidget(word)
        for button in buttons:
            line.addWidget(button, 1 if isinstance(button, QLabel) else 0)
        if not buttons:
            line.addStretch(1)
        return line

    def _titled(self, text: str, widget: QWidget) -> QWidget:
        made = QWidget()
        column = QVBoxLayout(made)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(self._title(text))
        column.addWidget(widget, 1)
        return made

    # The runs to choose from

    def _fill(self) -> None:
        """Offer what there is, and keep what was chosen."""
        before = self.chosen()
        self._known = known_sources(self._session)
        offered = [*reversed(self._known), *self._extra]
        for side, picker in enumerate(self.pickers):
            picker.clear()
            for source in offered:
                picker.addItem(source.title, source)
            self._select(side, before[side])

    def _select(self, side: int, source: Source | None) -> None:
        picker = self.pickers[side]
        offered = (picker.itemData(at) for at in range(picker.count()))
        found = next((at for at, other in enumerate(offered) if source is not None and other.is_same(source)), -1)
        picker.setCurrentIndex(found)
        picker.setToolTip(picker.currentText() or f"Run {'AB'[side]}: choose one")

    def chosen(self) -> tuple[Source | None, Source | None]:
        """What both pickers stand on."""
        a, b = (picker.currentData() for picker in self.pickers)
        return a, b

    def _choose_first(self) -> None:
        """The run shown, against the one it forked from, or the newest other one."""
        shown = self._session.view.run
        newest = list(reversed(self._known))
        a = next((source for source in newest if source.run is shown), newest[0] if newest else None)
        if a is None or a.run is None:
            return
        parent = a.run.parent[0] if a.run.parent is not None else None
        others = [source for source in newest if source is not a]
        b = next((source for source in others if source.run is parent), others[0] if others else None)
        self._select(0, a)
        self._select(1, b)

    def _on_runs(self) -> None:
        empty = None in self.chosen()
        self._fill()
        if empty and self._compared is None and not self.busy:
            self._choose_first()
            self.compare()
        else:
            self._refresh()

    def choose_file(self, side: int) -> None:
        """Ask for a session file to take a run from."""
        dialog = QFileDialog(self, f"Run {'AB'[side]}: Choose a Recording")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setNameFilter(_FILTER)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(partial(self.take_file, side))
        dialog.open()

    def take_file(self, side: int, name: str) -> None:
        """Read the runs of a file, and choose its newest for a side."""
        self._begin(f"Reading {Path(name).name}", list_steps(Path(name)))
        self._listing = side
        self._refresh()

    def swap_sides(self) -> None:
        """A becomes B."""
        a, b = self.chosen()
        self._select(0, b)
        self._select(1, a)
        self.compare()

    # The work

    @property
    def busy(self) -> bool:
        return self._job is not None

    def why_not(self) -> str | None:
        """Why there is nothing to compare, in words."""
        a, b = self.chosen()
        if a is None and b is None and not self.pickers[0].count():
            return NO_RUNS
        if a is None or b is None:
            return ONE_RUN if self.pickers[0].count() < 2 else "Choose a run on both sides."
        return SAME if a.is_same(b) else None

    def toggle(self) -> None:
        """Stop what is at work, or compare anew."""
        if self.busy:
            self._drop()
            self._stopped = True
            self._refresh()
        else:
            self.compare()

    def compare(self) -> None:
        """Lay the chosen runs side by side, as they stand now."""
        self._drop()
        self._compared, self._failure, self._stopped, self._note = None, "", False, ""
        a, b = self.chosen()
        if self.why_not() is None and a is not None and b is not None:
            self._begin("Comparing", compare_steps(opener(a), opener(b)))
            self._pair = a, b
        self._refresh()

    def _begin(self, title: str, steps: Steps) -> None:
        self._drop()
        self._failure = ""
        job = self._job = self._side_thread.start(title, steps)
        job.arrived.connect(self._on_arrived)
        job.over.connect(self._on_over)

    def _drop(self) -> None:
        """Leave the job alone, whatever still comes of it."""
        if self._job is not None:
            self._job.cancel()
            self._job.arrived.disconnect(self._on_arrived)
            self._job.over.disconnect(self._on_over)
            self._job, self._listing = None, None

    def _on_arrived(self) -> None:
        assert self._job is not None
        for item in self._job.take():
            if isinstance(item, Compared):
                self._compared = item, self._pair
            else:
                self._take_sources(item)

    def _take_sources(self, sources: list[Source]) -> None:
        fresh = [source for source in sources if not any(source.is_same(other) for other in self._known)]
        self._extra = [*(old for old in self._extra if not any(old.is_same(new) for new in fresh)), *fresh]
        self._fill()
        if self._listing is not None:
            self._select(self._listing, sources[-1])

    def _on_over(self) -> None:
        job, listed = self._job, self._listing
        self._job, self._listing = None, None
        if job is not None and job.failure:
            self._failure = job.failure
            self._refresh()
        elif listed is not None:
            self.compare()
        else:
            self._refresh()

    # What is shown

    def _refresh(self) -> None:
        shown = self._compared[0] if self._compared is not None else None
        reason = self.why_not()
        self.again.setText("Stop" if self.busy else "Compare")
        self.again.setEnabled(self.busy or reason is None)
        self.again.setToolTip("" if reason is None else f"Not now: {reason}")
        self.swap.setEnabled(not self.busy and self.pickers[0].count() > 1)
        self.copy.setEnabled(shown is not None)
        self._parts.setVisible(shown is not None)
        self._say(self.verdict, "" if shown is None else shown.found.verdict.words)
        lines = [] if shown is None else warning_lines(shown)
        self.warnings.setText("\n".join(lines))
        self._warned.setVisible(bool(lines))
        self._fit_warnings()
        self._say_state()
        role = QPalette.ColorRole.BrightText if self._failure else QPalette.ColorRole.PlaceholderText
        self.empty.setForegroundRole(role)
        self._show_first(shown)
        self._show_counters(shown)
        self.charts.show_compared(shown)
        self._refresh_goes(shown)

    @staticmethod
    def _say(label: QLabel, text: str) -> None:
        label.setText(text)
        label.setVisible(bool(text))

    def _say_state(self) -> None:
        """Above what is shown, or in its place."""
        text = self._state_text(self.why_not())
        self._say(self.state, text if self._compared is not None else "")
        self._say(self.empty, text if self._compared is None else "")

    def _state_text(self, reason: str | None) -> str:
        if self._failure:
            return f"It can't be compared. {self._failure.rstrip('.')}."
        if self.busy:
            return "Reading the file…" if self._listing is not None else "Comparing…"
        if reason is not None and self._compared is None:
            return reason
        if self._stopped:
            return "Stopped before the end: nothing is shown. Press Compare."
        parts = []
        if self._compared is not None:
            shown = self._compared[0]
            for name, running, curve in zip("AB", shown.running, shown.curves, strict=True):
                if running:
                    parts.append(f"{name} as it stood after {plural(curve.rounds, 'round')}.")
            if parts:
                parts.append("Press Compare to take in what has come since.")
        return " ".join([*parts, self._note]).strip()

    def _fit_warnings(self) -> None:
        """As high as its text, up to some lines; beyond it scrolls."""
        room = max(self.width() - 20, 1)
        wanted = self.warnings.heightForWidth(room)
        self._warned.setFixedHeight(min(wanted, round(5.5 * theme.line_height())) + 2)

    def _show_first(self, shown: Compared | None) -> None:
        self.streams.show_streams(*((None, None) if shown is None else (shown.streams, shown.vocabularies)))
        first = None if shown is None else shown.found.first
        sides: list[tuple[str, Side]] = []
        if shown is not None and first is not None and first.a is not None and first.b is not None:
            sides = [("A", first.a), ("B", first.b)]
        self.tests.setVisible(bool(sides))
        self.streams.setVisible(shown is not None and shown.streams is not None and bool(shown.found.lengths[0]))
        if shown is None:
            self._say(self.why, "")
            return
        lines = first_lines(shown.found) or [NOT_ALIGNED if shown.streams is None else "Neither run emitted a token."]
        self.where.setText(lines[0])
        self.where.setToolTip(lines[0])
        self._say(self.why, "\n".join(lines[1:2] if sides else lines[1:]))
        self.tests.setAccessibleDescription(" ".join(lines))
        self.tests.tokens.set_vocabulary(shown.vocabularies[0])
        texts = shown.vocabularies[0].text_of
        rows = [side_row(name, side, shown) for name, side in sides]
        self.tests.set_rows(len(rows), rows.__getitem__, texts)

    def _show_counters(self, shown: Compared | None) -> None:
        rows = [] if shown is None else [counter_row(c, shown.found.verdict) for c in shown.found.counters]
        self.counters.set_rows(len(rows), rows.__getitem__)

    def _refresh_goes(self, shown: Compared | None) -> None:
        for side, button in enumerate(self.goes):
            name, number = "AB"[side], None if shown is None else shown.parted[side]
            button.setVisible(number is not None)
            if number is None:
                continue
            button.setText(f"Go to {name}, round {number}")
            run = self.run_of(side)
            button.setEnabled(run is not None)
            about = "Show this run in the window, at the round of the first difference"
            button.setToolTip(about if run is not None else f"{about}\nNot now: {self._closed(side)}")

    @staticmethod
    def _closed(side: int) -> str:
        return f"{'AB'[side]} isn't open in the window: open its file with File > Open Recording."

    # The main window's cursor

    def run_of(self, side: int) -> Any:
        """The run of a side, where the window knows it; one of a file may have been opened since."""
        if self._compared is None:
            return None
        source = self._compared[1][side]
        if source.run is not None:
            return source.run
        return next((known.run for known in self._known if known.is_same(source)), None)

    def go(self, side: int) -> None:
        """Show a side's run in the window, at its first difference."""
        found = self._compared[0].found.first if self._compared is not None else None
        at = None if found is None else (found.b if side else found.a)
        run = self.run_of(side)
        if at is None or run is None:
            return
        view = self._session.view
        if view.run is not run:
            view.show_run(run)
        view.select(at.round, at.position)

    def _on_test_pressed(self, row: int, column: int) -> None:
        first = self._compared[0].found.first if self._compared is not None else None
        at = None if first is None else (first.b if row else first.a)
        if at is not None:
            self._point(row, at.round, at.position)

    def _on_token(self, side: int, shown: Shown) -> None:
        self._point(side, shown.round, shown.position)

    def _point(self, side: int, number: int, position: int) -> None:
        """Select a round in the main window if its run is the one shown there; else say so."""
        run = self.run_of(side)
        if run is not None and self._session.view.run is run:
            self._session.view.select(number, position)
            self._note = f"Round {number} of {'AB'[side]} is selected in the window."
        elif run is None:
            self._note = self._closed(side)
        else:
            self._note = f"{'AB'[side]} isn't the run shown in the window: press Go to {'AB'[side]}."
        self._say_state()

    # The rest

    def text(self) -> str:
        """Everything as text, "" without a comparison."""
        if self._compared is None:
            return ""
        shown, sources = self._compared
        return report(shown.found, shown.described, [source.title for source in sources])

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text())
        self.copied.emit()

    def _on_theme(self) -> None:
        colours = theme.current()
        self.streams.restyle(colours)
        for table in (self.tests, self.counters):
            table.restyle()
        self.charts.update()

    def resizeEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        super().resizeEvent(event)
        self._fit_warnings()

    def closeEvent(self, event: QCloseEvent) -> None:
        self._drop()
        super().closeEvent(event)

    def reject(self) -> None:
        self._drop()
        super().reject()


def warning_lines(shown: Compared) -> list[str]:
    """What is particular to these runs has a sign, then the settings; the last sentence holds for any two."""
    *own, general = shown.found.warnings
    lines = [f"▲ {text}" for text in own]
    if settings := settings_lines(shown.found):
        lines.append(f"Not the same: {'; '.join(line.removeprefix('setting ') for line in settings)}.")
    return [*lines, general]


def side_row(name: str, side: Side, shown: Compared) -> Row:
    """One side of the first difference."""
    draft, styles = side.draft, chip_styles(theme.current())
    vocabulary = shown.vocabularies["AB".index(name)]
    source = styles[known_source(side.emitted.source)]
    fate = Cell("")
    if draft is not None:
        glyph = {"accepted": "check", "rejected": "cross"}.get(draft.fate)
        fate = Cell(draft.fate, draft.fate if glyph else "text2", mono=False, glyph=glyph)
    cells = (
        Cell(name, mono=False, bold=True),
        Cell(str(side.round)),
        Cell(str(side.position + 1)),
        Cell(side.rule),
        Cell("nothing", "text2", mono=False) if draft is None else Cell(str(draft.token), token=draft.token, lead=5),
        *(Cell(probability(None if draft is None else value)) for value in _numbers(side)),
        Cell(written_test(side, vocabulary)),
        fate,
        Cell(str(side.emitted.token), token=side.emitted.token, lead=5),
        Cell(source.label, mono=False, glyph=source.glyph),
    )
    return Row(cells, tip="Press to select this round in the window")


def _numbers(side: Side) -> tuple[float | None, float | None, float | None]:
    draft = side.draft
    return (None, None, None) if draft is None else (draft.q, draft.p, draft.u)


_SIDES = ("A", "B", "B − A")


def counter_row(counter: Counter, verdict: Verdict) -> Row:
    """One counter of both runs."""
    name, *values = counter_cells(counter)
    bold = is_beyond_noise(counter, verdict)
    cells = [Cell(name)]
    for at, value in enumerate(values):
        spans = at % 2 == 1
        cells.append(Cell(value, "text2" if spans else "text", bold=bold and at == 4))
    told = [
        f"{side}: {value} {span}".rstrip() for side, value, span in zip(_SIDES, values[::2], values[1::2], strict=True)
    ]
    return Row(tuple(cells), tip="\n".join([name, *told]))
