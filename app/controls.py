"""The two toolbars and their fold-out: everything a run is told, read and set in one place."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QAction, QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QLineEdit, QPushButton, QToolButton, QVBoxLayout, QWidget

from app import bundled, icons, theme
from app.actions import BY_NAME, set_possible, tooltip
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
from app.format import visible_string
from app.headless.request import prompt_problem
from app.model_choice import (
    DRAFTER,
    NOTHING,
    OTHER,
    PLAIN_DRAFTER,
    TOY,
    Chosen,
    ModelBox,
    current_models,
    drafting_words,
    drafts_without_model,
)
from app.more_settings import Field, MoreSettings
from app.next_rule import is_reference
from app.pace import PaceSlider
from app.session import Session
from app.tool_buttons import FULL, ICON, WORDS, ActionButton, WorkspaceSwitch
from app.worker import BUNDLED
from app.workspaces import WORKSPACES
from engine.recording_size import check_size
from engine.settings import LIVE_FIELDS, MAX_SEED, REWINDS, SamplerSettings, Settings, SettingsError

_SAMPLER = tuple(f.name for f in dataclasses.fields(SamplerSettings))
_TOGGLES = ("stochastic", "kill_switch", "diagnostics")
_LIVE_CHOICES = ("rewind", "main_rewind", "rule", "drafter")
_TIGHTEST = (ICON, ICON, True, True)
_DRAFT = ("temperature", "top_k", "top_p", "min_p")


class _Row(QWidget):
    """A toolbar row that never forces the window wider than `least`."""

    resized = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.line = QHBoxLayout(self)
        self.line.setContentsMargins(8, 0, 8, 0)
        self.line.setSpacing(4)
        self.setFixedHeight(theme.line_height() + 18)

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(0, self.height() - 1, self.width(), 1, QColor(theme.current().line))


class _Separator(QWidget):
    """A thin upright line between groups of buttons."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(13, theme.line_height() + 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(6, 0, 1, self.height(), QColor(theme.current().line))


class _Group(QWidget):
    """A label with its field; it moves as one."""

    def __init__(self, label: str, *fields: QWidget) -> None:
        super().__init__()
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(5)
        name = QLabel(label)
        name.setTextFormat(Qt.TextFormat.PlainText)
        name.setForegroundRole(name.palette().ColorRole.PlaceholderText)
        name.setBuddy(fields[0])
        line.addWidget(name)
        for field in fields:
            line.addWidget(field, 1 if isinstance(field, QLineEdit) and not isinstance(field, TextField) else 0)


class Controls(QWidget):
    """Everything a run is told. `settings()` and `set_settings()` are the one way in and out.

    Signals: `edited` (a field or the prompt changed, by hand or not), `models_wanted` (a Chosen to load),
    `chooser_wanted`, `prompt_editor_wanted`.
    """

    edited = Signal()
    models_wanted = Signal(object)
    chooser_wanted = Signal()
    prompt_editor_wanted = Signal()

    def __init__(self, session: Session, actions: dict[str, QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session, self._actions = session, actions
        self._base = session.settings
        self._filling = False
        self._debugging = False
        self.chosen = Chosen()
        self._prompt = session.prompt
        self.more = MoreSettings()
        self._make_fields()
        self.buttons = self._make_first_row()
        self._make_second_row()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        for widget in (self.first_row, self.second_row, self.more):
            layout.addWidget(widget)
        self.more.hide()
        self._connect()
        self.set_settings(session.settings)
        self.set_prompt(session.prompt)
        self.restyle()
        self.refresh_models()
        self.refresh()

    # What they are made of.

    def _make_fields(self) -> None:
        off = {"off": 0}
        self.fields: dict[str, Field] = {
            "num_draft_tokens": NumberField(
                "k",
                "Tokens drafted in a round; 0: plain decoding",
                settings_check("num_draft_tokens"),
                whole=True,
                characters=2,
            ),
            "max_tokens": NumberField(
                "max tokens",
                "Tokens to emit at most; no limit: until the text or the context ends",
                settings_check("max_tokens"),
                whole=True,
                step=32,
                least=-1,
                words={"no limit": -1},
                characters=5,
            ),
            "temperature": NumberField("T", "Temperature; 0: greedy", sampler_check("temperature"), step=0.1),
            "top_k": NumberField(
                "top-k",
                "Keep the k likeliest tokens; 1: greedy",
                sampler_check("top_k"),
                whole=True,
                words=off,
                characters=3,
            ),
            "top_p": NumberField(
                "top-p",
                "Keep the smallest set of tokens with at least this mass",
                sampler_check("top_p"),
                step=0.05,
                words=off,
            ),
            "min_p": NumberField(
                "min-p",
                "Keep tokens down to this share of the likeliest one's probability",
                sampler_check("min_p"),
                step=0.05,
                most=1,
                words=off,
            ),
            "seed": TextField("seed", 'Where the random numbers start: "auto" draws one', read_seed, write_seed, 6),
            "rewind": ChoiceField(
                "rewind",
                "How the draft cache goes back after a rejection: by the law, or by a fault; holds from the next round",
                REWINDS,
                compact=True,
            ),
        }
        self.fields |= self.more.fields
        self.target = ModelBox("Target", "The model whose text it is")
        self.draft = ModelBox("Draft", "The small model that proposes tokens")
        self.prompt_line = QLineEdit()
        self.prompt_line.setAccessibleName("Prompt")
        self.prompt_line.setFont(theme.ui_font(0.92))
        self.prompt_line.setMinimumWidth(theme.em() * 8)

    def _make_first_row(self) -> dict[str, ActionButton]:
        self.first_row = _Row()
        line = self.first_row.line
        words = {"run": "Run", "pause": "Pause", "stop": "Stop", "live": "Live", "step": "Step round"}
        words["next_position"] = "Position"
        buttons = {}
        layout: tuple[str | None, ...] = ("run", "pause", "stop", None)
        layout += ("first_round", "previous_round", "next_round", "last_round", None)
        layout += ("previous_rejection", "next_rejection", "live", None, "step", "next_position")
        layout += ("run_to_drift", "run_to_failure", None)
        for name in layout:
            if name is None:
                line.addWidget(_Separator())
                continue
            key = name in ("run", "step", "next_position")
            buttons[name] = ActionButton(self._actions[name], words=words.get(name, ""), key=key)
            line.addWidget(buttons[name])
        theme.mark(buttons["run"], "primary", True)
        self._toggles: dict[str, QCheckBox] = {}
        for name in _TOGGLES:
            box = self._toggles[name] = QCheckBox(BY_NAME[name].text)
            line.addSpacing(5)
            line.addWidget(box)
            line.addSpacing(5)
        line.addStretch(1)
        self.pace = PaceSlider()
        line.addWidget(self.pace)
        line.addSpacing(8)
        self.workspaces = WorkspaceSwitch([self._actions[f"workspace_{name}"] for name in WORKSPACES])
        line.addWidget(self.workspaces)
        return buttons

    def show_debugging(self, shown: bool) -> None:
        """With or without the buttons that only a debugger needs."""
        self._debugging = shown
        for name in ("run_to_drift", "run_to_failure"):
            self.buttons[name].setVisible(shown)
        self._fit_first()

    def _make_second_row(self) -> None:
        self.second_row = _Row()
        self.second_row.line.setSpacing(7)
        self.prompt_button = self._tool("edit", BY_NAME["edit_prompt"].about)
        self.dice = self._tool("dice", BY_NAME["new_seed"].about)
        self.more_button = QPushButton("More…")
        self.more_button.setToolTip(tooltip(BY_NAME["more"]))
        self.more_button.setCheckable(True)
        f = self.fields
        self.groups = {
            "target": _Group("Target", self.target),
            "draft": _Group("Draft", self.draft),
            "prompt": _Group("Prompt", self.prompt_line, self.prompt_button),
            "k": _Group("k", f["num_draft_tokens"]),
            "max": _Group("max", f["max_tokens"]),
            "temperature": _Group("T", f["temperature"]),
            "top_k": _Group("top-k", f["top_k"]),
            "top_p": _Group("top-p", f["top_p"]),
            "min_p": _Group("min-p", f["min_p"]),
            "seed": _Group("seed", f["seed"], self.dice),
            "rewind": _Group("Rewind", f["rewind"]),
        }
        for name, group in self.groups.items():
            self.second_row.line.addWidget(group, 1 if name == "prompt" else 0)
        self.second_row.line.addStretch(0)
        self.second_row.line.addWidget(self.more_button)
        self._out: tuple[str, ...] = ()

    def _tool(self, icon: str, about: str) -> QToolButton:
        button = QToolButton()
        button.setObjectName(icon)
        button.setToolTip(about)
        button.setAccessibleName(about)
        button.setFixedHeight(theme.line_height() + 10)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        return button

    def _connect(self) -> None:
        for name, field in self.fields.items():
            field.edited.connect(self._on_live_choice if name in _LIVE_CHOICES else self._on_edited)
        for check in (self.more.penalize_prompt, self.more.as_target, self.more.full_vocabulary):
            check.toggled.connect(self._on_edited)
        for name, box in self._toggles.items():
            box.clicked.connect(self._actions[name].trigger)
            self._actions[name].toggled.connect(box.setChecked)
            self._actions[name].triggered.connect(self._on_toggle)
        self.prompt_line.textEdited.connect(self._on_prompt_edited)
        self.prompt_button.clicked.connect(self.prompt_editor_wanted)
        self.dice.clicked.connect(self._actions["new_seed"].trigger)
        self.more_button.clicked.connect(self._actions["more"].trigger)
        self._actions["more"].toggled.connect(self._on_more)
        self.target.chosen.connect(self._on_target)
        self.draft.chosen.connect(self._on_draft)
        self.pace.changed.connect(self._session.set_pace)
        self.first_row.resized.connect(self._fit_first)
        self.second_row.resized.connect(self._fit_second)
        self._session.pair_changed.connect(self.refresh_models)
        self._session.state_changed.connect(self.refresh)
        self._session.configured.connect(self._on_configured)
        theme.notifier.changed.connect(self.restyle)

    # In and out.

    def settings(self) -> Settings:
        """What the fields and toggles ask for. Raises SettingsError that names the field."""
        values: dict[str, Any] = {name: field.value() for name, field in self.fields.items()}
        own = {name: values[name] for name in _SAMPLER if name in values}
        own["penalize_prompt"] = self.more.penalize_prompt.isChecked()
        sampler = dataclasses.replace(self._base.sampler, **own)
        draft = None
        if not self.more.as_target.isChecked():
            draft = dataclasses.replace(sampler, **{name: values[f"draft.{name}"] for name in _DRAFT})
        rest = {name: value for name, value in values.items() if name not in own and "." not in name}
        rest["full_vocabulary"] = self.more.full_vocabulary.isChecked()
        toggles: dict[str, Any] = {name: self._actions[name].isChecked() for name in _TOGGLES}
        return dataclasses.replace(self._base, sampler=sampler, draft_sampler=draft, **rest, **toggles)

    def set_settings(self, settings: Settings) -> None:
        """Show these settings in every field."""
        self._base = settings
        drafting = settings.drafting
        self._filling = True
        try:
            for name, field in self.fields.items():
                if name.startswith("draft."):
                    wanted = getattr(drafting, name.removeprefix("draft."))
                else:
                    wanted = getattr(settings.sampler if name in _SAMPLER else settings, name)
                field.set_value(wanted)
            self.more.penalize_prompt.setChecked(settings.sampler.penalize_prompt)
            self.more.as_target.setChecked(settings.draft_sampler is None)
            self.more.full_vocabulary.setChecked(settings.full_vocabulary)
            for name in _TOGGLES:
                self._actions[name].setChecked(getattr(settings, name))
        finally:
            self._filling = False
        self._after_edit()

    def prompt(self) -> str:
        """The prompt, as it was written."""
        return self._prompt

    def set_prompt(self, prompt: str) -> None:
        """Show a prompt; one with line breaks or invisible characters can be changed in the editor only."""
        self._prompt = prompt
        plain = visible_string(prompt) == prompt
        self.prompt_line.setReadOnly(not plain)
        if not plain or self.prompt_line.text() != prompt:
            self.prompt_line.setText(prompt if plain else visible_string(prompt))
            self.prompt_line.setCursorPosition(0)
        self._refresh_prompt_tip()

    def problem(self) -> str | None:
        """Why no run can start with what the fields hold, in words; None if one can."""
        problems = [field.problem() for field in self.fields.values()]
        found = [problem for problem in problems if problem is not None]
        blank = prompt_problem(self._prompt)
        if blank is not None:
            found.append(blank)
        if not found:
            try:
                check_size(*self._size_of(self.settings()))
            except SettingsError as error:
                found.append(str(error))
        return "\n".join(found) or None

    def _size_of(self, settings: Settings) -> tuple[Settings, int, bool]:
        """What decides how large a round with all tokens is; a vocabulary of 0 where no models are loaded."""
        pair = self._session.pair
        if pair is None:
            return settings, 0, True
        drafts = pair.draft is not None or settings.drafter_kind.kind.network != "draft"
        return settings, pair.target.vocab_size, drafts

    def _show_size(self) -> None:
        try:
            settings, vocab_size, drafts = self._size_of(self.settings())
        except SettingsError:
            return  # a field can't be read, and says so itself
        self.more.show_size(settings, vocab_size or None, drafts)

    def new_seed(self) -> None:
        """Draw a seed of 64 bits and write it into the field."""
        self.fields["seed"].set_value(secrets.randbelow(MAX_SEED + 1))

    # What changed.

    def _on_edited(self) -> None:
        if not self._filling:
            self._after_edit()
            self._configure()

    def _after_edit(self) -> None:
        self._refresh_enabled()
        for name in ("rewind", "main_rewind"):
            theme.mark(self.fields[name], "fault", self.fields[name].value() != "correct")
        theme.mark(self.fields["rule"], "fault", is_reference(str(self.fields["rule"].value())))
        self._show_size()
        self._fit_second()  # some fields are as wide as what they show
        self.edited.emit()

    def _configure(self) -> None:
        try:
            settings = self.settings()
        except SettingsError:
            return
        if settings != self._session.settings or self._prompt != self._session.prompt:
            self._session.configure(self._prompt, settings)

    def _on_configured(self) -> None:
        if self._session.prompt != self._prompt:
            self.set_prompt(self._session.prompt)
        try:
            same = self.settings() == self._session.settings
        except SettingsError:
            same = False
        if not same:
            self.set_settings(self._session.settings)
        self.refresh_models()  # the drafter may be another one
        self._refresh_prompt_tip()
        self.edited.emit()

    def _on_toggle(self) -> None:
        live: dict[str, Any] = {name: self._actions[name].isChecked() for name in _TOGGLES}
        changed = {name: value for name, value in live.items() if value != getattr(self._session.settings, name)}
        self._base = dataclasses.replace(self._base, **live)
        self._show_size()
        if changed:
            self._session.change(**changed)
        self.edited.emit()

    def _on_live_choice(self) -> None:
        if self._filling:
            return
        fit = [name for name in _LIVE_CHOICES if self.fields[name].problem() is None]
        live = {name: self.fields[name].value() for name in fit}
        changed = {name: value for name, value in live.items() if value != getattr(self._session.settings, name)}
        self._after_edit()
        if changed:
            self._session.change(**changed)

    def _on_prompt_edited(self, text: str) -> None:
        self._prompt = text
        self._refresh_prompt_tip()
        self._on_edited()

    def _refresh_prompt_tip(self) -> None:
        reason = self._session.can("edit")
        lines = ["The text to go on from"]
        if self.prompt_line.isReadOnly():
            lines.append("It has line breaks or invisible characters: change it in the editor, at the right.")
        if self._session.chat:
            lines.append("It goes into the target's chat template: see the editor, at the right.")
        blank = prompt_problem(self._prompt)
        if blank is not None:
            lines.append(sentence(blank))
        if reason is not None:
            lines.append(f"Not now: {reason}")
        self.prompt_line.setToolTip("\n".join(lines))
        theme.mark(self.prompt_line, "invalid", blank is not None)

    def _on_more(self, shown: bool) -> None:
        self.more_button.setChecked(shown)
        self.more.setVisible(shown)

    # Models.

    def set_chosen(self, chosen: Chosen) -> None:
        """Where the models come from that are loaded, or will be."""
        self.chosen = chosen
        self.refresh_models()

    def refresh_models(self) -> None:
        """Name the models in the boxes."""
        pair = self._session.pair
        if pair is not None and pair.target.model_type == "toy":
            self.chosen = Chosen(TOY, TOY)
        names = current_models(pair, self.chosen)
        sizes = bundled.names()
        self.target.show_choices(sizes[0], self.chosen.target, names[0], allow_nothing=False)
        drafter = self._session.settings.drafter
        own = drafting_words(pair, self._session.settings)[0] if pair is not None else drafter
        own = own if drafts_without_model(drafter) else ""
        self.draft.show_choices(sizes[1], self.chosen.draft, names[1], allow_nothing=True, drafter=own)
        self._show_size()
        self._fit_second()

    def _on_target(self, key: str) -> None:
        drafter = self._session.settings.drafter
        own = drafter if drafts_without_model(drafter) else None
        self._want(key, lambda: Chosen(key, BUNDLED if self.chosen.draft == TOY else self.chosen.draft, own))

    def _on_draft(self, key: str) -> None:
        if key == DRAFTER:
            return
        draft = None if key == NOTHING else key
        # A draft model, or none, takes the place of a drafter that needs none.
        other = PLAIN_DRAFTER if drafts_without_model(self._session.settings.drafter) else None
        self._want(key, lambda: Chosen(BUNDLED if self.chosen.target == TOY else self.chosen.target, draft, other))

    def _want(self, key: str, pair: Callable[[], Chosen]) -> None:
        wanted = pair()
        self.refresh_models()  # the boxes name what is loaded, until another pair is
        if key == OTHER:
            self.chooser_wanted.emit()
        elif key == TOY:
            self.models_wanted.emit(Chosen(TOY, TOY, wanted.drafter))
        elif (wanted.target, wanted.draft) != (self.chosen.target, self.chosen.draft):
            self.models_wanted.emit(wanted)
        elif wanted.drafter is not None and wanted.drafter != self._session.settings.drafter:
            self._session.change(drafter=wanted.drafter)  # the same models

    # What is possible now.

    def refresh(self) -> None:
        """Follow the session's state: enable, disable and name."""
        paused = self._session.state == "paused"
        self.buttons["run"].set_words("Continue" if paused else "Run")
        self._actions["run"].setText("Continue" if paused else "Run")
        self._actions["pause"].setText("Pause")
        self._fit_first()  # "Continue" takes more room
        self.pace.set_seconds(self._session.pace)
        self._refresh_enabled()
        self._refresh_prompt_tip()

    def _refresh_enabled(self) -> None:
        edit, live = self._session.can("edit"), self._session.can("change")
        all_kept = "All tokens are kept." if self.more.full_vocabulary.isChecked() else None
        as_target = "The drafter samples as the target does." if self.more.as_target.isChecked() else None
        for name, field in self.fields.items():
            reason = live if name in LIVE_FIELDS else edit
            unused = as_target if name.startswith("draft.") else all_kept if name == "top_n" else None
            field.set_reason(reason or unused)
        load = self._session.can("load")
        for box in (self.target, self.draft):
            box.set_reason(load)
        for widget in (self.prompt_line, self.more.penalize_prompt, self.more.as_target, self.more.full_vocabulary):
            widget.setEnabled(edit is None)
        self.prompt_button.setEnabled(edit is None)
        self.dice.setEnabled(edit is None)
        for button, name in ((self.prompt_button, "edit_prompt"), (self.dice, "new_seed")):
            button.setToolTip(tooltip(BY_NAME[name], edit))
        for name, toggle in self._toggles.items():
            set_possible(self._actions[name], live)
            toggle.setEnabled(live is None)
            toggle.setToolTip(tooltip(BY_NAME[name], live))

    # Narrow windows: what has no room goes, in a fixed order.

    def _fit_first(self) -> None:
        wide = (FULL, FULL, False, False), (WORDS, WORDS, False, False), (WORDS, WORDS, True, False)
        for state, other, compact, bare in (*wide, (WORDS, ICON, True, False), (ICON, ICON, True, False), _TIGHTEST):
            for name, button in self.buttons.items():
                size = state if name in ("pause", "stop") else other
                button.set_size(max(size, WORDS) if name == "run" else size)
            self.pace.set_compact(compact, bare)
            self.buttons["next_position"].setVisible(not (bare and self._debugging))
            self.first_row.line.invalidate()
            if self.first_row.line.minimumSize().width() <= self.first_row.width():
                return

    def _fit_second(self) -> None:
        order = ("min_p", "top_p", "top_k", "prompt", "rewind", "seed", "draft")
        room, spacing = self.second_row.width() - 16, self.second_row.line.spacing()
        widths = {name: group.minimumSizeHint().width() + spacing for name, group in self.groups.items()}
        need = sum(widths.values()) + self.more_button.sizeHint().width()
        out: list[str] = []
        for name in order:
            if need <= room:
                break
            need -= widths[name]
            out.append(name)
        if tuple(out) != self._out:
            self._out = tuple(out)
            self._place_groups()

    def _place_groups(self) -> None:
        row, overflow = self.second_row.line, self.more.overflow
        while overflow.count():
            overflow.takeAt(0)
        for group in self.groups.values():
            row.removeWidget(group)
        at = 0
        for name, group in self.groups.items():
            stretch = 1 if name == "prompt" else 0
            if name in self._out:
                overflow.addWidget(group, stretch)
            else:
                row.insertWidget(at, group, stretch)
                at += 1
            group.show()
        if self._out and "prompt" not in self._out:
            overflow.addStretch(1)

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 60, super().sizeHint().height())

    def restyle(self) -> None:
        """Draw the icons in the palette in use."""
        ink = theme.current().text
        for button in (self.prompt_button, self.dice):
            button.setIcon(icons.icon(button.objectName(), ink))
            side = round(theme.em() * 1.1)
            button.setIconSize(QSize(side, side))
        self.update()
