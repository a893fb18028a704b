"""The trial at the position under the cursor: its test again with another u, temperature or rule. Alters no record."""

from __future__ import annotations

from typing import Any

import numpy as np
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QResizeEvent, QShowEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QWidget,
)

from app import theme
from app.fields import ChoiceField, NumberField, sampler_check
from app.panels.chips import colour
from app.panels.coin_slider import STEPS, CoinSlider
from app.panels.title_controls import CopiesTable, Table, draw_sentence
from app.panels.trial_sheet import TrialSheet
from app.panels.trial_text import Trial, Wish, spoken_trial, temperature_at, trial, trial_table, usual_rule
from app.view import View
from engine.offline import RULES
from engine.recording import RecordedRun
from engine.rounds import Round
from engine.settings import GREEDY_TEMPERATURE, SettingsError

EMPTY = "Here the test of a draft can be tried with another u, temperature or rule, from the first round on."
NOT_DRAWN = "not drawn"
NO_CHANGE = "Change u, T or the rule first."
BESIDE = 31
"""From so many em on, the controls stand beside the sheet, else above it."""


class TrialPage(CopiesTable):
    """Controls, and the sheet that shows what they would lead to.

    u belongs to its position and goes with it; temperature and rule stay while the cursor moves in a run.
    Signals: `changed`, when `words` gives another text; `fork_wanted` (a ForkWish).
    """

    changed = Signal()
    fork_wanted = Signal(object)

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = view
        self._wish = Wish()
        self._shown: Trial | None = None
        self._place: tuple[RecordedRun | None, int, int] = (None, -1, 0)
        self._why_no_fork: str | None = None
        self._setting = False
        self._told = ""
        self.setAccessibleName("Trial")
        self._make_controls()
        self.sheet = TrialSheet(self)
        self._inner = QWidget()
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self._inner)
        self._row.setContentsMargins(0, 0, 0, 0)
        self._row.setSpacing(0)
        self._row.addWidget(self._controls)
        self._row.addWidget(self.sheet, 1)
        self._scroll = QScrollArea(self)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setAccessibleName("Trial")
        self._scroll.setWidget(self._inner)
        self._inner.setBackgroundRole(QPalette.ColorRole.Base)
        self.refresh()

    def _make_controls(self) -> None:
        self.u = NumberField(
            "u",
            "The accept draw, a number in [0, 1): the draft is accepted if u·q(d) ≤ p(d)",
            _check_u,
            step=0.01,
            most=0.999999,
            words={NOT_DRAWN: -1},
            characters=10,
        )
        self.coin = CoinSlider()
        self.temperature = NumberField(
            "T", "The target's temperature", _check_temperature, step=0.1, least=0.1, characters=3
        )
        self.rule = ChoiceField("rule", "The acceptance rule", RULES, compact=True)
        self.reset = QPushButton("As recorded")
        self.reset.setToolTip("Try nothing: u, temperature and rule as they were")
        self.fork = QPushButton("Fork…")
        self.fork.setAccessibleName("Fork with this")
        self._controls = QWidget()
        grid = QGridLayout(self._controls)
        grid.setContentsMargins(8, 4, 8, 4)
        grid.setHorizontalSpacing(6)
        grid.setVerticalSpacing(4)
        grid.addWidget(_label("u"), 0, 0)
        grid.addWidget(self.u, 0, 1)
        grid.addWidget(_label("T"), 0, 2)
        grid.addWidget(self.temperature, 0, 3)
        grid.addWidget(self.coin, 1, 0, 1, 4)
        grid.addWidget(self.rule, 2, 0, 1, 4)
        buttons = QHBoxLayout()
        buttons.setSpacing(6)
        buttons.addWidget(self.reset, 1)
        buttons.addWidget(self.fork, 1)
        grid.addLayout(buttons, 3, 0, 1, 4)
        grid.setColumnStretch(1, 1)
        grid.setRowStretch(4, 1)
        self.u.edited.connect(self._on_edited)
        self.temperature.edited.connect(self._on_edited)
        self.rule.edited.connect(self._on_edited)
        self.coin.valueChanged.connect(self._on_coin)
        self.reset.clicked.connect(self._on_reset)
        self.fork.clicked.connect(self._on_fork)

    # What the panel asks

    def words(self) -> str:
        """The place, and what is tried there."""
        shown = self._shown
        if shown is None:
            return ""
        if shown.reason:
            return shown.place
        if self._wish == Wish():
            return f"{shown.place}; change u, T or the rule"
        parts = [f"u {self._wish.u:g}"] if self._wish.u is not None and not shown.why_no_u else []
        parts += [f"T {self._wish.temperature:g}"] if self._wish.temperature is not None else []
        parts += [self._wish.rule] if self._wish.rule is not None else []
        return f"{shown.place}, tried: {', '.join(parts) or 'nothing'}"

    def table(self) -> Table:
        run = self._view.run
        return [["trial"]] if run is None or self._shown is None else trial_table(run, self._shown)

    def shown(self) -> Trial | None:
        """What is shown; None without a round."""
        return self._shown

    def set_fork_reason(self, reason: str | None) -> None:
        """Why no fork can be made now, None if one can."""
        if reason != self._why_no_fork:
            self._why_no_fork = reason
            self._refresh_fork()

    def restyle(self) -> None:
        """Use the colours of the palette in use."""
        self.sheet.tokens.restyle(theme.current())
        self.sheet.update()

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 18, 5 * theme.line_height())

    # Following the view

    def refresh(self) -> None:
        """Follow the cursor."""
        run, record, position = self._view.run, self._view.round, self._view.position
        place = (run, self._view.round_index, position)
        if run is not self._place[0]:
            self._wish = Wish()
            self.sheet.set_vocabulary(run.header.vocabulary if run is not None else None)
        elif place != self._place:
            self._wish = Wish(self._wish.rule, None, self._wish.temperature)
        self._place = place
        self._show(run, record)

    def _show(self, run: RecordedRun | None, record: Round | None) -> None:
        self._shown = None
        if run is not None and record is not None:
            made = trial(run, record, self._view.position, self._wish)
            if made.reason and self._wish.rule is not None:
                # The rule can't be tried here: then its own.
                made = trial(run, record, self._view.position, Wish(None, None, self._wish.temperature))
            self._shown = made
        shown = self._shown
        self._scroll.setVisible(shown is not None and not shown.reason)
        self.setAccessibleDescription("" if shown is None else spoken_trial(shown))
        if shown is not None and not shown.reason:
            self._fill(shown)
            self.sheet.show_it(shown)
            self.sheet.setAccessibleDescription(spoken_trial(shown))
        self._refresh_fork()
        if self.words() != self._told:
            self._told = self.words()
            self.changed.emit()
        self.update()

    def _fill(self, shown: Trial) -> None:
        """Bring the controls up to what is shown, but for a field that is being typed in."""
        self._setting = True
        try:
            self.coin.show_test(shown.share, shown.recorded_u, shown.u)
            self.coin.setEnabled(not shown.why_no_u)
            self.u.set_reason(shown.why_no_u or None)
            u = -1 if shown.u is None else float(shown.u)
            _put(self.u, u if u < 0 else _shortest(u))
            _put(self.temperature, shown.temperature)
            self.rule.set_value(shown.rule)
            for at, (_, why) in enumerate(shown.rules):
                item = self.rule.model().item(at)  # type: ignore[attr-defined]
                item.setEnabled(not why)
                item.setToolTip(why)
        finally:
            self._setting = False
        self.reset.setEnabled(self._wish != Wish())

    def _refresh_fork(self) -> None:
        fork = None if self._shown is None else self._shown.fork
        reason = self._why_no_fork or (NO_CHANGE if fork is None else None)
        self.fork.setEnabled(reason is None)
        what = "Fork before this round, with what is tried here; the dialog opens first"
        self.fork.setToolTip(what if reason is None else f"{what}\nNot now: {reason}")

    # What the user does

    def _on_edited(self) -> None:
        if self._setting or self._shown is None:
            return
        try:
            u, temperature = float(self.u.value()), float(self.temperature.value())
        except SettingsError:
            return  # the field says what is wrong with it
        self._try(self.rule.value(), None if u < 0 else u, temperature)

    def _on_coin(self, step: int) -> None:
        if not self._setting and self._shown is not None:
            self._try(self._shown.rule, step / STEPS, self._shown.temperature)

    def _try(self, rule: str, u: float | None, temperature: float) -> None:
        """Wish for what differs from the record."""
        run, record, shown = self._view.run, self._view.round, self._shown
        assert run is not None
        assert shown is not None
        if record is None:
            return
        drawn = shown.recorded_u
        same_u = u is None or (drawn is not None and u == _shortest(drawn))
        self._wish = Wish(
            None if rule == usual_rule(record, self._view.position) else rule,
            None if same_u else u,
            None if temperature == temperature_at(run, record.index) else temperature,
        )
        self._show(run, record)

    def _on_reset(self) -> None:
        self._wish = Wish()
        self._show(self._view.run, self._view.round)

    def _on_fork(self) -> None:
        if self._shown is not None and self._shown.fork is not None:
            self.fork_wanted.emit(self._shown.fork)

    # Layout and painting

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._scroll.setGeometry(self.rect())
        beside = self.width() >= BESIDE * theme.em()
        way = QBoxLayout.Direction.LeftToRight if beside else QBoxLayout.Direction.TopToBottom
        if self._row.direction() != way:
            self._row.setDirection(way)
        self._controls.setMaximumWidth(16 * theme.em() if beside else self.width())

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), colour(theme.current().base))
        if self._shown is None or self._shown.reason:
            draw_sentence(painter, self, EMPTY if self._shown is None else self._shown.reason)


def _label(text: str) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label


def _put(field: NumberField, value: float) -> None:
    """Set a field unless it says the same already, in whatever spelling: somebody may be typing."""
    try:
        if float(field.value()) == value:
            return
    except SettingsError:
        pass
    field.set_value(value)
    field.lineEdit().setCursorPosition(0)


def _shortest(u: float) -> float:
    """The shortest decimal that is the same float32."""
    return float(str(np.float32(u)))


def _check_u(value: Any) -> None:
    if not 0 <= value < 1:
        raise SettingsError(f"u: expected a number in [0, 1), got {value}")


def _check_temperature(value: Any) -> None:
    sampler_check("temperature")(value)
    if value < GREEDY_TEMPERATURE:
        raise SettingsError(f"T: expected a number from {GREEDY_TEMPERATURE:g} on, got {value}; a fork can be greedy")
