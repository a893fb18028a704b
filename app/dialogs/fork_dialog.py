"""What a fork of a recorded run changes: settings, and what is to happen in its first round, whatever the test says."""

from __future__ import annotations

import dataclasses
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QLabel, QVBoxLayout, QWidget

from app import theme
from app.drafter_field import DrafterField
from app.fields import (
    ChoiceField,
    NumberField,
    TextField,
    read_seed,
    sampler_check,
    sentence,
    settings_check,
    write_seed,
)
from engine.forks import Forced
from engine.rounds import Round
from engine.settings import MAIN_REWINDS, REWINDS, RULE_CHOICES, Settings, SettingsError

NOTHING, ACCEPT, REJECT, TOKEN = "nothing", "accept", "reject", "token"
_SAMPLER = ("temperature", "top_k", "top_p", "min_p")


class ForkDialog(QDialog):
    """Accepted, `settings()` and `forced()` say what was chosen. `record`: the round that will be made anew."""

    def __init__(self, before: Settings, record: Round, position: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(f"Fork Before Round {record.index}")
        self._before = before
        off = {"off": 0}
        self.fields: dict[str, Any] = {
            "rule": ChoiceField("rule", "The acceptance rule; auto: as the switches say", RULE_CHOICES),
            "stochastic": ChoiceField("stochastic", "The stochastic rule, where rule is auto", _ON_OFF),
            "num_draft_tokens": NumberField(
                "k", "Tokens drafted in a round", settings_check("num_draft_tokens"), whole=True
            ),
            "temperature": NumberField("T", "Temperature; 0: greedy", sampler_check("temperature"), step=0.1),
            "top_k": NumberField("top-k", "Keep the k likeliest", sampler_check("top_k"), whole=True, words=off),
            "top_p": NumberField("top-p", "Keep this mass", sampler_check("top_p"), step=0.05, words=off),
            "min_p": NumberField("min-p", "Keep down to this share", sampler_check("min_p"), step=0.05, words=off),
            "drafter": DrafterField(),
            "seed": TextField("seed", "Where the random numbers start", read_seed, write_seed, 12),
            "max_tokens": NumberField(
                "max", "Tokens to emit at most", settings_check("max_tokens"), whole=True, words={"no limit": -1}
            ),
            "rewind": ChoiceField("draft rewind", "How the draft cache goes back", REWINDS),
            "main_rewind": ChoiceField("main rewind", "How the main cache goes back", MAIN_REWINDS),
        }
        for name, field in self.fields.items():
            field.set_value(getattr(before.sampler if name in _SAMPLER else before, name))
        self.decree = ChoiceField("decree", "What is to happen in the first new round", _DECREES)
        self.position = NumberField("position", "Which draft, from 1", _check_position, whole=True, least=1)
        self.position.set_value(min(position, max(record.k - 1, 0)) + 1)
        self.token = NumberField("token", "The id of the token to emit there", _check_token, whole=True)
        self.token.set_value(record.drafts[position].token if position < record.k else 0)
        self._lay_out()
        for field in (*self.fields.values(), self.decree, self.position, self.token):
            field.edited.connect(self._refresh)
        # A button that takes no focus, as on macOS, is pressed before what was typed is entered.
        self.fields["drafter"].editTextChanged.connect(self._refresh)
        self._refresh()

    def _lay_out(self) -> None:
        form = QFormLayout()
        form.setLabelAlignment(Qt.AlignmentFlag.AlignRight)
        for field in (*self.fields.values(), self.decree, self.position, self.token):
            form.addRow(field.label, field)
        self.told = QLabel()
        self.told.setTextFormat(Qt.TextFormat.PlainText)
        self.told.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.told.setWordWrap(True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = buttons.button(QDialogButtonBox.StandardButton.Ok)
        self.ok.setText("Fork")
        theme.mark(self.ok, "primary", True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        layout.addWidget(self.told)
        layout.addWidget(buttons)
        self.setMinimumWidth(theme.em() * 28)

    def suggest(self, rule: str | None, temperature: float | None, decree: str | None, position: int) -> None:
        """Fill in what a trial came to; None: nothing of it. `position` (from 0) is the decree's."""
        if rule is not None:
            self.fields["rule"].set_value(rule)
        if temperature is not None:
            self.fields["temperature"].set_value(temperature)
        if decree is not None:
            self.decree.set_value(decree)
            self.position.set_value(position + 1)

    def settings(self) -> Settings:
        """The fork's settings. Raises SettingsError."""
        values = {name: field.value() for name, field in self.fields.items()}
        sampler = dataclasses.replace(self._before.sampler, **{name: values.pop(name) for name in _SAMPLER})
        if values["seed"] is None:
            values["seed"] = self._before.seed
        return dataclasses.replace(self._before, sampler=sampler, **values)

    def forced(self) -> Forced | None:
        """The decree, None for none. Raises SettingsError."""
        decree = self.decree.value()
        if decree == NOTHING:
            return None
        token = int(self.token.value()) if decree == TOKEN else None
        return Forced(int(self.position.value()) - 1, decree, token)

    def _refresh(self) -> None:
        """Say what would come of it, or what is wrong."""
        decree = self.decree.value()
        self.position.setEnabled(decree != NOTHING)
        self.token.setEnabled(decree == TOKEN)
        try:
            settings, forced = self.settings(), self.forced()
        except SettingsError as error:
            self.ok.setEnabled(False)
            self.told.setText(sentence(str(error)))
            return
        self.ok.setEnabled(True)
        if forced is None and settings == self._before:
            self.told.setText("Nothing is changed: the fork repeats the run, token by token.")
        else:
            self.told.setText("The rounds before stay as they are; the original run isn't touched.")


_ON_OFF = (("on", True), ("off", False))
_DECREES = (
    ("nothing: the test decides", NOTHING),
    ("accept the draft", ACCEPT),
    ("reject the draft", REJECT),
    ("emit a token of choice", TOKEN),
)


def _check_position(value: Any) -> None:
    if value < 1:
        raise SettingsError(f"position: expected a number from 1 on, got {value}")


def _check_token(value: Any) -> None:
    if value < 0:
        raise SettingsError(f"token: expected an id from 0 on, got {value}")
