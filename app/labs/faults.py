"""The fault lab: switch faults on while a run goes, see which instrument trips, and compare with the cure."""

from __future__ import annotations

import dataclasses
import time

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QPainter, QPaintEvent, QPalette, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QCheckBox,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.dock_title import ElidedLabel
from app.format import plural
from app.jobs import Job
from app.labs.comparison import Comparison
from app.labs.fault_words import (
    BLIND,
    OFF,
    QUIET,
    TRIPPED,
    WITH,
    WITHOUT,
    Said,
    arm_settings,
    blind_lines,
    comparison_work,
    said_of,
    watchers_line,
    why_no_comparison,
)
from app.model_choice import drafts_without_model
from app.panels.chips import colour, plain_tip
from app.panels.help_button import HelpButton
from app.panels.title_controls import shelve
from app.session import Session
from app.theme import Palette
from app.turns import in_sight
from app.view import View
from engine.faults import FAULT_TABLE, GROUPS, Fault, FaultWatch
from engine.recording import RecordedRun
from engine.rounds import Round, RunHeader
from engine.settings import Settings

PAGE = "fault-lab.md"
TITLE = "The comparison with the cure"
_SECONDS_A_TURN = 0.006
_ROUNDS_A_LOOK = 4  # those of a recording must be read from its file
"""Rounds that are looked through before other work has its turn."""

_LOOKS = {OFF: ("text2", 400), QUIET: ("text", 400), BLIND: ("amber", 600), TRIPPED: ("danger", 600)}

_ROOM_FOR_WATCHERS = 34
"""Narrower rows, in em, name the instruments in the tooltip alone."""

_WIDE = 72
"""From so many em on the comparison stands beside the list, not below it."""


class _Wrapped(QLabel):
    """Plain text over as many lines as it takes."""

    def __init__(self, scale: float, weight: int = 400) -> None:
        super().__init__()
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.setFont(theme.ui_font(scale, weight))


class _Inked(_Wrapped):
    """Text in an ink and weight of its own: a palette or font set later doesn't outlast another style sheet."""

    def __init__(self, scale: float) -> None:
        super().__init__(scale, 600)
        self._scale, self._weight, self._ink = scale, 400, "text2"

    def show_text(self, text: str, ink: str, weight: int) -> None:
        """Show a text; `ink` names a colour of the palette in use."""
        self.setText(text)
        self._ink, self._weight = ink, weight
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, colours = QPainter(self), theme.current()
        painter.setFont(theme.ui_font(self._scale, self._weight))
        painter.setPen(colour(colours.recovered.ink if self._ink == "amber" else getattr(colours, self._ink)))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignTop | Qt.TextFlag.TextWordWrap, self.text())


class FaultRow(QWidget):
    """One fault: a switch, what it imitates and where it was seen, and what the instruments say of it.

    Signals: `switched` (the fault's id, on), by hand alone.
    """

    switched = Signal(str, bool)

    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault = fault
        self.said = Said(OFF, "")
        self.switch = QCheckBox(fault.id)
        self.switch.setFont(theme.mono_font(0.92, 600))
        self.switch.setAccessibleName(f"Fault {fault.id}: {fault.title}")
        self.switch.setAccessibleDescription(fault.imitates)
        self.switch.setToolTip(plain_tip(f"{fault.id}: {fault.title}", [watchers_line(fault), *blind_lines(fault)]))
        self.switch.toggled.connect(self._on_toggled)
        self._title = ElidedLabel()
        self._title.set_text(fault.title)
        self._title.setFont(theme.ui_font(0.85))
        self._about = _Wrapped(0.85)
        self._about.setText(f"{fault.imitates} Seen: {fault.seen}.")
        self._about.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self._line, self._more = _Inked(0.85), _Wrapped(0.85)
        self._seen_by = QLabel(watchers_line(fault))
        self._seen_by.setTextFormat(Qt.TextFormat.PlainText)
        self._seen_by.setFont(theme.ui_font(0.77))
        self._seen_by.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.switch)
        head.addWidget(self._title, 1)
        head.addWidget(self._seen_by)
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 4, 8, 5)
        column.setSpacing(1)
        column.addLayout(head)
        indent = QVBoxLayout()
        indent.setContentsMargins(theme.em() + 6, 0, 0, 0)
        indent.setSpacing(1)
        for label in (self._about, self._line, self._more):
            indent.addWidget(label)
        column.addLayout(indent)
        self._line.hide()
        self._more.hide()

    def set_on(self, on: bool) -> None:
        """Show the switch as the settings have it, without telling."""
        if on != self.switch.isChecked():
            with QSignalBlocker(self.switch):
                self.switch.setChecked(on)
            self.update()

    def say(self, said: Said) -> None:
        """Show what holds of the fault."""
        if said == self.said:
            return
        self.said = said
        self._line.show_text(said.line, *_LOOKS[said.kind])
        self._line.setVisible(bool(said.line))
        self._more.setText(said.more)
        self._more.setVisible(bool(said.more))

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        on = self.switch.isChecked()
        painter.fillRect(self.rect(), colour(colours.banner if on else colours.base))
        painter.fillRect(0, self.height() - 1, self.width(), 1, colour(colours.banner_line if on else colours.grid))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._seen_by.setVisible(self.width() >= _ROOM_FOR_WATCHERS * theme.em())

    def _on_toggled(self, on: bool) -> None:
        self.switched.emit(self.fault.id, on)
        self.update()


class FaultLabPanel(QWidget):
    """The list of faults with their switches, and below or beside it the comparison.

    Signals: `title_changed`; `help_wanted` (a page); `change_wanted` (live settings to set).
    """

    title_changed = Signal()
    help_wanted = Signal(str)
    change_wanted = Signal(dict)

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self._session: Session | None = None
        self._watch = FaultWatch()
        self._run: RecordedRun | None = None
        self._chosen: Fault | None = None  # switched on last
        self._job: Job | None = None
        self._compared: Fault | None = None
        self._context = ""
        self.setObjectName("faults")
        self.setAccessibleName("Fault lab")
        self._catching_up = QTimer(self)
        self._catching_up.setSingleShot(True)
        self._catching_up.setInterval(0)
        self._catching_up.timeout.connect(self._refresh)
        self._scrolling = QTimer(self)  # the rows have their heights only behind the layout
        self._scrolling.setSingleShot(True)
        self._scrolling.setInterval(0)
        self._scrolling.timeout.connect(self._scroll_to_chosen)
        self._help = HelpButton(PAGE, "what the fault lab shows")
        self._help.wanted.connect(self.help_wanted)
        shelve(self, self._help)
        self._lay_out()
        view.join(self, self._refresh)
        view.run_changed.connect(self._on_run_changed)
        theme.notifier.changed.connect(self._on_theme)
        self._on_run_changed()

    def _lay_out(self) -> None:
        self.rows = {name: FaultRow(fault) for name, fault in FAULT_TABLE.items()}
        listed = QWidget()
        column = QVBoxLayout(listed)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self._heads: list[QLabel] = []
        for group, words in GROUPS.items():
            head = _Wrapped(0.85, 600)
            head.setText(words)
            head.setContentsMargins(8, 4, 8, 4)
            head.setAutoFillBackground(True)
            self._heads.append(head)
            column.addWidget(head)
            for row in self.rows.values():
                if row.fault.setting == group:
                    row.switched.connect(self._on_switched)
                    column.addWidget(row)
        column.addStretch(1)
        self.area = QScrollArea()
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QScrollArea.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setWidget(listed)
        self.compare = QPushButton("Compare with the cure")
        self.compare.setFont(theme.ui_font(0.92))
        self.compare.setStyleSheet(f"min-height: {theme.line_height() + 2}px;")
        self.compare.clicked.connect(self.toggle_comparison)
        self._said = ElidedLabel()
        self._said.setFont(theme.ui_font(0.85))
        self.hide_comparison = QPushButton("Hide")
        self.hide_comparison.setFont(theme.ui_font(0.92))
        self.hide_comparison.setStyleSheet(self.compare.styleSheet())
        self.hide_comparison.setToolTip("Put the comparison away, and its dotted line in the Acceptance panel")
        self.hide_comparison.clicked.connect(self.put_away)
        self.hide_comparison.hide()
        line = QHBoxLayout()
        line.setContentsMargins(8, 4, 8, 4)
        line.setSpacing(10)
        line.addWidget(self.compare)
        line.addWidget(self._said, 1)
        line.addWidget(self.hide_comparison)
        self.comparison = Comparison()
        self.comparison.hide()
        beside = QWidget()
        pane = QVBoxLayout(beside)
        pane.setContentsMargins(0, 0, 0, 0)
        pane.setSpacing(0)
        pane.addLayout(line)
        pane.addWidget(self.comparison, 1)
        self._beside = beside
        self._box = QBoxLayout(QBoxLayout.Direction.TopToBottom, self)
        self._box.setContentsMargins(0, 0, 0, 0)
        self._box.setSpacing(0)
        self._box.addWidget(self.area, 1)
        self._box.addWidget(beside)
        self.restyle(theme.current())

    # What the dock and the window ask

    def follow(self, session: Session) -> None:
        """Switch this session's faults, and work on its thread."""
        self._session = session
        session.configured.connect(self._on_configured)
        session.state_changed.connect(self._on_configured)
        self._on_configured()

    def title_name(self) -> str:
        return "Fault lab"

    def title_context(self) -> str:
        """Which faults are on."""
        return self._context

    def title_widgets(self) -> list[QWidget]:
        """The button that opens the help page."""
        return [self._help]

    def restyle(self, colours: Palette) -> None:
        """Use other colours."""
        for head in self._heads:
            palette = head.palette()
            palette.setColor(QPalette.ColorRole.Window, colour(colours.alternate))
            palette.setColor(QPalette.ColorRole.WindowText, colour(colours.text))
            head.setPalette(palette)
        self.comparison.restyle(colours)

    def _on_theme(self) -> None:
        self.restyle(theme.current())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._catching_up.stop()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._catching_up.start()  # once it has its place
        self._bring_to_sight()

    def _arrange(self) -> None:
        """Where there is room, the comparison stands beside the list."""
        wide = self.width() >= _WIDE * theme.em() and not self.comparison.isHidden()
        direction = QBoxLayout.Direction.LeftToRight if wide else QBoxLayout.Direction.TopToBottom
        if direction != self._box.direction():
            self._box.setDirection(direction)
        self._box.setStretch(1, 1 if wide else 0)
        self.comparison.set_low(not wide)

    def _bring_to_sight(self) -> None:
        """Scroll to the fault that was switched on last, once everything has its place."""
        if self._chosen is not None and self.isVisible():
            self._scrolling.start()

    def _scroll_to_chosen(self) -> None:
        if self._chosen is not None:
            self.area.ensureWidgetVisible(self.rows[self._chosen.id], 0, 0)

    # Faults

    @property
    def _settings(self) -> Settings:
        return self._session.settings if self._session is not None else Settings()

    def faults_on(self) -> list[Fault]:
        """The faults that are asked for."""
        return [fault for fault in FAULT_TABLE.values() if fault.is_on(self._settings)]

    def _on_switched(self, name: str, on: bool) -> None:
        fault = FAULT_TABLE[name]
        if on:
            self._chosen = fault
        self.change_wanted.emit(fault.changes if on else fault.cure)
        self._on_configured()

    def _on_configured(self) -> None:
        """The settings may be others, by whichever hand."""
        for row in self.rows.values():
            row.set_on(row.fault.is_on(self._settings))
        on = self.faults_on()
        if self._chosen not in on:
            self._chosen = on[0] if on else None
            self._bring_to_sight()
        self._say()

    def _on_run_changed(self) -> None:
        self._run = self._view.run
        self._watch = FaultWatch()
        if self._run is not None:
            self._watch.begin(self._run)
        if not self._view.telling:
            self._refresh()

    def _refresh(self) -> bool:
        """Look through the rounds that came, for a few milliseconds at a time, and only while somebody sees it."""
        if not in_sight(self):
            return False
        until = time.perf_counter() + _SECONDS_A_TURN
        while self._watch.follow(_ROUNDS_A_LOOK):
            if time.perf_counter() >= until:
                self._catching_up.start()
                break
        self._say()
        return True

    def _say(self) -> None:
        going = self._session is not None and self._session.state in ("running", "paused")
        meters = self._run.meters if self._run is not None else None
        for name, row in self.rows.items():
            row.say(said_of(row.fault, self._settings, going, self._watch.watched.get(name), meters))
        on = self.faults_on()
        context = "no fault is on" if not on else f"on: {', '.join(fault.id for fault in on)}"
        if context != self._context:
            self._context = context
            self.title_changed.emit()
        self._refresh_comparison()

    # The comparison

    @property
    def comparing(self) -> bool:
        return self._job is not None

    def why_not(self) -> str | None:
        """Why nothing can be compared now."""
        if self._session is None:
            return "There is no session."
        if self._session.pair is None:
            return "No models are loaded."
        try:
            settings = self._base()[0]
        except ValueError as error:
            return str(error)
        if self._session.pair.draft is None and not drafts_without_model(settings.drafter):
            return "There is no drafter."
        return why_no_comparison(self._chosen, settings) or self._session.can("job")

    def _base(self) -> tuple[Settings, str | list[int]]:
        """Settings and prompt to compare with: those of the run shown, or of the next one.

        Raises ValueError for a prompt that the chat template doesn't take.
        """
        assert self._session is not None
        run, pair = self._run, self._session.pair
        if run is not None and pair is not None and run.header.target == pair.target:
            return run.header.settings, list(run.header.prompt_tokens)
        return self._session.settings, self._session.whole_prompt()

    def toggle_comparison(self) -> None:
        """Play the fault and its cure, or stop doing so."""
        if self._job is not None:
            self._job.cancel()
            return
        if self._session is None or self._chosen is None or self.why_not() is not None:
            return
        base, prompt = self._base()
        if base.seed is None:
            base = dataclasses.replace(base, seed=1)
        arms = arm_settings(base, self._session.settings, self._chosen)
        self._job = self._session.start_job(TITLE, comparison_work(arms, prompt))
        if self._job is None:
            return
        self._compared = self._chosen
        self.comparison.begin(self._compared)
        self.comparison.show()
        self._arrange()
        self._bring_to_sight()
        self._job.arrived.connect(self._on_arrived)
        self._job.over.connect(self._on_over)
        self._refresh_comparison()

    def put_away(self) -> None:
        """Forget the comparison."""
        self.comparison.hide()
        self.comparison.runs = {}
        self._arrange()
        self._view.show_reference(None)
        self._refresh_comparison()

    def _on_arrived(self) -> None:
        if self._job is None:
            return
        for arm, item in self._job.take():
            if isinstance(item, RunHeader):
                self.comparison.add(arm, RecordedRun(item))
            elif isinstance(item, Round):
                self.comparison.runs[arm].append(item)
            else:
                self.comparison.runs[arm].end = item
        self.comparison.refresh()
        self._refresh_comparison()

    def _on_over(self) -> None:
        self._job = None
        runs = self.comparison.runs
        cured = runs.get(WITHOUT)
        if self._compared is not None and cured is not None and cured.end is not None:
            setting = self._compared.setting
            words = f"{setting.replace('_', ' ')} = {self._compared.cure[setting]}"
            self._view.show_reference(cured, words)
        self._refresh_comparison()

    def _refresh_comparison(self) -> None:
        reason = None if self.comparing else self.why_not()
        self.compare.setText("Stop" if self.comparing else "Compare with the cure")
        self.compare.setEnabled(reason is None)
        about = "Run the same seed, prompt and settings with the fault and with its cure"
        self.compare.setToolTip(about if reason is None else f"{about}\nNot now: {reason}")
        self._said.set_text(self._comparison_text(reason))
        self.hide_comparison.setVisible(not self.comparing and not self.comparison.isHidden())

    def _comparison_text(self, reason: str | None) -> str:
        runs = self.comparison.runs
        if self.comparing:
            which = "the cure" if WITHOUT in runs else "with the fault"
            run = runs.get(WITHOUT, runs.get(WITH))
            return f"{which}: {plural(len(run.tokens), 'token')}" if run is not None else "reading the prompt"
        if runs and any(run.end is None for run in runs.values()):
            return "stopped before the end"
        ends = [run.end for run in runs.values() if run.end is not None and run.end.finish_reason == "error"]
        if ends:
            return f"a run ended by an error: {ends[0].notice}"
        if runs:
            seed = next(iter(runs.values())).header.seed
            return f"same prompt, settings and seed {seed}"
        return reason or (f"{self._chosen.id} against its cure" if self._chosen is not None else "")
