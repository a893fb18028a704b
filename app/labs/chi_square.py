"""The chi-square lab: every rule, right and wrong, against the target's own distribution, live."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent, QFontMetrics, QPalette
from PySide6.QtWidgets import (
    QDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.fields import NumberField, TextField, read_seed, sentence
from app.format import count, probability
from app.jobs import Job
from app.labs.arms_table import ArmsTable
from app.labs.chi_square_arms import FULL_SPEED, WATCH, Counted, Probed, arms_table, arms_work, read_arm
from app.panels.help_button import HelpButton
from app.panels.title_controls import Segments
from app.session import Session
from engine.goodness import ALPHA, ARMS, Experiment, closed_forms
from engine.settings import SettingsError
from engine.toy_tables import DRAFT_LOGITS, TARGET_LOGITS, WORDS

PAGE = "chi-square.md"
TITLE = "The chi-square lab"
SAMPLES = (100, 200, 500, 1000, 2000, 4000, 8000, 12_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
"""Tokens at each place of the slider."""

STOP_FIRST = "The lab is at work: stop it first."
_FINAL_PLACE = SAMPLES.index(12_000)


def _label(text: str, grey: bool = True) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    if grey:
        label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
    return label


def _logit_check(value: float) -> object:
    return Experiment(target_logits=(float(value), 0.0), draft_logits=(0.0, 0.0))


class ChiSquareLab(QDialog):
    """A window beside the main one. Signals: `help_wanted` (a page), `copied`."""

    help_wanted = Signal(str)
    copied = Signal()

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._job: Job | None = None
        self._experiment = Experiment()
        self._counted: dict[str, Counted] = {}
        self._probed: dict[str, Probed] = {}
        self.setWindowTitle("Chi-Square Lab")
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        self._make_fields()
        self._make_buttons()
        self.table = ArmsTable()
        self.problem = _label("", grey=False)
        self.problem.setForegroundRole(QPalette.ColorRole.BrightText)
        self.problem.setWordWrap(True)
        self.forms = _label("", grey=False)
        self.forms.setFont(theme.mono_font(0.92))
        self.forms.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.state = _label("")
        self.state.setWordWrap(True)
        self._lay_out()
        session.state_changed.connect(self._on_state)
        room = self.screen().availableSize()
        self.resize(min(theme.em() * 88, room.width()), min(theme.line_height() * 46, room.height()))
        self._on_edit()

    # What it is made of

    def _make_fields(self) -> None:
        self.logits: dict[str, list[NumberField]] = {}
        for who, defaults in (("target", TARGET_LOGITS), ("draft", DRAFT_LOGITS)):
            fields = []
            for word, value in zip(WORDS, defaults, strict=True):
                about = f"Logit that the {who} gives the token{word}, whatever came before"
                made = NumberField(f"{who} logit of{word}", about, _logit_check, step=0.1, least=-1000, characters=6)
                made.set_value(value)
                fields.append(made)
            self.logits[who] = fields
        start = self._experiment
        self.temperature = NumberField(
            "temperature",
            "Of both models",
            lambda v: Experiment(temperature=v),
            step=0.1,
            least=0.1,
            characters=5,
        )
        self.k = NumberField("k", "Tokens drafted in a round", lambda v: Experiment(k=v), whole=True, least=1, most=32)
        self.top_k = NumberField(
            "target top-k",
            "Keep so many tokens of the target alone, so that the drafter proposes what it can't emit",
            lambda v: Experiment(target_top_k=v),
            whole=True,
            words={"off": 0},
        )
        self.seed = TextField("seed", "Of every draw; 0 to 2^64 - 1", self._read_seed, str, characters=6)
        for field, value in ((self.temperature, start.temperature), (self.k, start.k), (self.top_k, 0)):
            field.set_value(value)
        self.seed.set_value(start.seed)
        self.samples = QSlider(Qt.Orientation.Horizontal)
        self.samples.setRange(0, len(SAMPLES) - 1)
        self.samples.setValue(_FINAL_PLACE)
        self.samples.setPageStep(2)
        self.samples.setAccessibleName("Tokens")
        self.samples.setToolTip("How many tokens each arm counts; tested positions for rules that aren't lossless")
        self.samples.setMinimumWidth(theme.em() * 6)
        self.samples_text = _label("", grey=False)
        self.samples_text.setFont(theme.mono_font(0.92))
        metrics = QFontMetrics(theme.mono_font(0.92))
        self.samples_text.setFixedWidth(metrics.horizontalAdvance("1,000,000") + 2)
        self.pace = Segments("Pace", (WATCH, FULL_SPEED), ("Over some six seconds", "As fast as it goes"))
        self.scale = Segments(
            "Bars", ("√", "linear"), ("Bars by the square root, so that rare tokens show", "By share")
        )
        self.scale.chosen.connect(self._on_scale)
        self.fields: list[NumberField | TextField] = [
            *self.logits["target"],
            *self.logits["draft"],
            self.temperature,
            self.k,
            self.top_k,
            self.seed,
        ]
        for each in self.fields:
            each.edited.connect(self._on_edit)
        self.samples.valueChanged.connect(self._on_edit)

    @staticmethod
    def _read_seed(text: str) -> int:
        seed = read_seed(text)
        if seed is None:
            raise SettingsError("seed: expected a whole number from 0 to 2^64 - 1, got none")
        return seed

    def _make_buttons(self) -> None:
        self.start = QPushButton("Start")
        self.start.setDefault(True)
        theme.mark(self.start, "primary", True)
        self.reset = QPushButton("Reset")
        self.reset.setToolTip("Forget the counts, and put every field back")
        self.copy = QPushButton("Copy")
        self.copy.setToolTip("Copy all numbers of all arms as tab-separated lines")
        self.help = HelpButton(PAGE, "what the chi-square lab shows")
        for button in (self.reset, self.copy):
            button.setAutoDefault(False)
        self.start.clicked.connect(self.toggle)
        self.reset.clicked.connect(self.put_back)
        self.copy.clicked.connect(self._copy)
        self.help.wanted.connect(self.help_wanted)

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        top = QWidget()
        inside = QVBoxLayout(top)
        inside.setContentsMargins(10, 8, 10, 8)
        inside.setSpacing(6)
        inside.addLayout(self._logit_grid())
        inside.addLayout(self._settings_line())
        inside.addWidget(self.problem)
        column.addWidget(top)
        facts = QHBoxLayout()
        facts.setContentsMargins(10, 2, 10, 6)
        facts.addWidget(self.forms, 1)
        facts.addWidget(self.scale)
        column.addLayout(facts)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        self._scroll.setWidget(self.table)
        column.addWidget(self._scroll, 1)
        bottom = QHBoxLayout()
        bottom.setContentsMargins(10, 6, 10, 6)
        bottom.addWidget(self.state, 1)
        column.addLayout(bottom)

    def _logit_grid(self) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(6)
        grid.setVerticalSpacing(4)
        self.shares: dict[str, list[QLabel]] = {"target": [], "draft": []}
        for at, word in enumerate(WORDS):
            name = _label(word.strip())
            name.setFont(theme.mono_font(0.92))
            grid.addWidget(name, 0, at + 1)
        for row, (who, letter) in enumerate((("target", "p"), ("draft", "q"))):
            grid.addWidget(_label(f"{who.capitalize()} logits, {letter}"), row + 1, 0)
            for at, edited in enumerate(self.logits[who]):
                share = _label("")
                share.setFont(theme.mono_font(0.85))
                share.setFixedWidth(QFontMetrics(theme.mono_font(0.85)).horizontalAdvance("1.2e-10"))
                cell = QHBoxLayout()
                cell.setSpacing(4)
                cell.addWidget(edited)
                cell.addWidget(share)
                self.shares[who].append(share)
                grid.addLayout(cell, row + 1, at + 1)
        grid.setColumnStretch(len(WORDS) + 1, 1)
        return grid

    def _settings_line(self) -> QHBoxLayout:
        line = QHBoxLayout()
        line.setSpacing(6)
        for text, each in (("T", self.temperature), ("k", self.k), ("target top-k", self.top_k), ("seed", self.seed)):
            word = _label(text)
            word.setBuddy(each)
            line.addWidget(word)
            line.addWidget(each)
            line.addSpacing(4)
        line.addWidget(_label("tokens"))
        line.addWidget(self.samples, 1)
        line.addWidget(self.samples_text)
        line.addWidget(self.pace)
        line.addSpacing(6)
        for widget in (self.start, self.reset, self.copy, self.help):
            line.addWidget(widget)
        return line

    # What is asked

    def experiment(self) -> Experiment:
        """What the fields ask for. Raises SettingsError."""
        logits = {f"{who}_logits": tuple(float(f.value()) for f in fields) for who, fields in self.logits.items()}
        return Experiment(
            samples=SAMPLES[self.samples.value()],
            seed=self.seed.value(),
            k=int(self.k.value()),
            temperature=float(self.temperature.value()),
            target_top_k=int(self.top_k.value()),
            target_logits=logits["target_logits"],
            draft_logits=logits["draft_logits"],
        )

    def _on_edit(self) -> None:
        """Other numbers: what was counted belongs to the old ones."""
        self.samples_text.setText(count(SAMPLES[self.samples.value()]))
        try:
            self._experiment = self.experiment()
        except SettingsError as error:
            self.problem.setText(sentence(str(error)))
        else:
            self.problem.setText("")
            self._counted, self._probed = {}, {}
            self._show_forms()
        self.problem.setVisible(bool(self.problem.text()))
        self._refresh()

    def _show_forms(self) -> None:
        forms = closed_forms(self._experiment)
        for who, values in (("target", forms.p), ("draft", forms.q)):
            for label, value in zip(self.shares[who], values.tolist(), strict=True):
                label.setText(probability(value))
        self.forms.setText(
            f"Σ min(p, q) {forms.sum_min:.4f}   Σ p·q {forms.sum_prod:.4f}   "
            f"p(argmax q) {forms.p_argmax_q:.4f}   q(argmax p) {forms.q_argmax_p:.4f}"
        )

    # At work

    @property
    def running(self) -> bool:
        return self._job is not None

    def toggle(self) -> None:
        """Start, or stop what goes."""
        if self._job is not None:
            self._job.cancel()
            return
        if self.problem.text():
            return
        self._counted, self._probed = {}, {}
        pace = (WATCH, FULL_SPEED)[self.pace.current()]
        self._job = self._session.start_job(TITLE, arms_work(self._experiment, pace))
        if self._job is not None:
            self._job.arrived.connect(self._on_arrived)
            self._job.over.connect(self._on_over)
        self._refresh()

    def put_back(self) -> None:
        """Forget the counts, and put every field back."""
        start = Experiment()
        for who, defaults in (("target", TARGET_LOGITS), ("draft", DRAFT_LOGITS)):
            for edited, value in zip(self.logits[who], defaults, strict=True):
                edited.set_value(value)
        self.temperature.set_value(start.temperature)
        self.k.set_value(start.k)
        self.top_k.set_value(start.target_top_k)
        self.seed.set_value(start.seed)
        self.samples.setValue(_FINAL_PLACE)
        self._on_edit()

    def _on_arrived(self) -> None:
        if self._job is None:
            return
        for item in self._job.take():
            if isinstance(item, Probed):
                self._probed[item.rule] = item
            else:
                self._counted = {counted.rule: counted for counted in item}
        self._refresh()

    def _on_over(self) -> None:
        self._job = None
        self._refresh()

    def _on_state(self) -> None:
        self._refresh_buttons()

    # What is shown

    def _refresh(self) -> None:
        experiment = self._experiment
        readings = [read_arm(experiment, self._counted.get(rule), self._probed.get(rule), rule) for rule in ARMS]
        words = tuple(word.strip() for word in WORDS)
        self.table.show_readings(readings, words, arms_table(experiment, readings, words))
        self.state.setText(self._state_text())
        self._refresh_buttons()

    def _state_text(self) -> str:
        reading = self.table.readings()[0].found
        test = (
            "-" if reading.threshold is None else f"{reading.dof} degrees of freedom, threshold {reading.threshold:.4f}"
        )
        test = f"Pearson's test, alpha {ALPHA:g}: {test}"
        if self.running:
            return f"Running. {test}. A look before the end is not a test."
        if not self._counted:
            return "Press Start: every rule plays on the same drafts and draws, and its tokens are counted."
        if all(arm.done for arm in self.table.readings()):
            return f"Done. {test}. A right rule is rejected once in {count(round(1 / ALPHA))} times."
        return f"Stopped before the end: no verdict. {test}."

    def _refresh_buttons(self) -> None:
        refused = None if self.running else self._session.can("job")
        if not self.running and refused is None and self.problem.text():
            refused = self.problem.text()
        self.start.setText("Stop" if self.running else "Start")
        self.start.setEnabled(refused is None)
        self.start.setToolTip("End it after this step" if self.running else f"Not now: {refused}" if refused else "")
        reason = STOP_FIRST if self.running else None
        for each in self.fields:
            each.set_reason(reason)
        for widget in (self.samples, self.pace, self.reset):
            widget.setEnabled(not self.running)
        self.copy.setEnabled(bool(self._counted))

    def _copy(self) -> None:
        self.table.copy()
        self.copied.emit()

    def _on_scale(self, index: int) -> None:
        self.table.set_root(index == 0)

    def closeEvent(self, event: QCloseEvent) -> None:
        self._end()
        super().closeEvent(event)

    def reject(self) -> None:
        self._end()
        super().reject()

    def _end(self) -> None:
        if self._job is not None:
            self._job.cancel()
