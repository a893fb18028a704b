"""Choosing target and drafter: what they are and whether they fit, before anything is loaded; fetching what isn't here.

Their headers are read on threads of their own (`model_tasks`); the network is asked only by a button's word.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QSignalBlocker, Qt, QTimer, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QFontMetrics
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLabel,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.dialogs.drafter_choice import MODEL, NONE, DrafterChoice
from app.dialogs.model_download import DownloadStrip
from app.dialogs.model_sheet import BAD, BUSY, CARE, GOOD, ModelSheet, Verdict
from app.dialogs.model_source import BrowseButton, SourceField, row_label
from app.dialogs.model_tasks import Task, Tasks
from app.dropped import MODEL as A_MODEL
from app.dropped import what_was_dropped
from app.format import millions, visible_string
from app.model_choice import TOY, Chosen, pair_words
from app.model_look import Cost, Look, cost_of, look_at, look_at_toy, memory_fit
from app.token_names import Verdict as Comparison
from app.token_names import compare_tokenizers
from app.worker import BUNDLED
from engine import local_models
from engine.local_models import LocalModel, bundled_folders
from engine.model_files import LoadError, path_of
from engine.model_summary import Fit, ModelSummary, in_gib

_WAIT_MS = 200  # from the last key to the look at what was typed
_ROLES = ("target", "draft")
_NOTHING_EXECUTED = "Nothing in a model's folder is executed, and nothing is fetched unless you press a button for it."


class ModelChooser(QDialog):
    """Accepted, `chosen()` says what to load. Signals: `recent_changed` (the pairs that are left).

    `recent`: pairs used before, the newest first. `drafter`: the one in use. `on_cpu`: models will be held in float32.
    """

    recent_changed = Signal(object)

    def __init__(
        self,
        chosen: Chosen,
        parent: QWidget | None = None,
        *,
        drafter: str = "sample",
        recent: Sequence[Chosen] = (),
        on_cpu: bool = sys.platform != "darwin",
        free_bytes: int | None = None,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Choose Models")
        self.setAcceptDrops(True)
        self._on_cpu, self._free_bytes = on_cpu, free_bytes
        self._recent = list(recent)
        self._looks: dict[str, Look] = {}
        self._comparison: Comparison | None = None
        self._dropped_wrong = ""
        self.tasks = Tasks(self)
        self._waits = {role: self._timer(partial(self._look, role)) for role in _ROLES}
        self._make_widgets()
        self._lay_out()
        self._fill_recent()
        self.target.offer(self._choices([], with_toy=True))
        self.draft.offer(self._choices([], with_toy=False))
        self._show_chosen(chosen, chosen.drafter or drafter)
        self._connect()
        self.tasks.start("found", lambda task: local_models.local_models(on_cpu), self._on_found)
        for role in _ROLES:
            self._look(role)
        self.resize(theme.em() * 62, self.sizeHint().height())
        self.target.where.setFocus()

    # What it is made of.

    def _timer(self, act: Callable[[], None]) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setInterval(_WAIT_MS)
        timer.timeout.connect(act)
        return timer

    def _make_widgets(self) -> None:
        self.recent = QComboBox()
        self.recent.setAccessibleName("Pairs used before")
        self.recent.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.remove = QPushButton("Remove")
        self.remove.setToolTip("Forget the pair shown in the list; its files stay")
        self.target = SourceField("Target")
        self.draft = SourceField("Draft")
        self.drafter = DrafterChoice()
        self.cost = QLabel()
        self.sheet = ModelSheet()
        self.said = Verdict(4)
        self.unpack = QCheckBox()
        self.large = QCheckBox("Try it although it would not fit: the machine may become very slow, or end the program")
        self.download = DownloadStrip(self.tasks)
        self.about = QLabel(_NOTHING_EXECUTED)
        for label in (self.cost, self.about):
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setForegroundRole(label.palette().ColorRole.PlaceholderText)
            label.setWordWrap(True)
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = self.buttons.button(QDialogButtonBox.StandardButton.Ok)
        self.ok.setText("Load")
        theme.mark(self.ok, "primary", True)

    def _lay_out(self) -> None:
        self._grid = grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(6)
        grid.setColumnStretch(1, 1)
        grid.setColumnMinimumWidth(0, QFontMetrics(theme.ui_font()).horizontalAdvance("Draft model") + 2)
        self._browse = {"target": BrowseButton(self.target), "draft": BrowseButton(self.draft)}
        self._labels = {
            "recent": row_label("Used before", self.recent),
            "target": row_label("Target", self.target),
            "drafter": row_label("Drafter", self.drafter.kind),
            "draft": row_label("Draft model", self.draft),
        }
        rows = (
            ("recent", self.recent, self.remove),
            ("target", self.target, self._browse["target"]),
            ("drafter", self.drafter, None),
            ("draft", self.draft, self._browse["draft"]),
        )
        for row, (name, field, button) in enumerate(rows):
            grid.addWidget(self._labels[name], row, 0)
            grid.addWidget(field, row, 1)
            if button is not None:
                grid.addWidget(button, row, 2)
        # The same row: what a drafter without a model of its own costs.
        grid.addWidget(self.cost, 3, 1, 1, 2)
        grid.setRowMinimumHeight(3, theme.line_height() * 2)
        layout = QVBoxLayout(self)
        layout.setSpacing(8)
        layout.addLayout(grid)
        for widget in (self.sheet, self.said, self.unpack, self.large, self.download):
            layout.addWidget(widget)
        layout.addStretch(1)
        layout.addWidget(self.about)
        layout.addWidget(self.buttons)

    def _connect(self) -> None:
        for role, field in self._fields().items():
            field.changed.connect(partial(self._on_typed, role))
            field.refused.connect(self._on_refused)
        self.drafter.changed.connect(self._on_drafter)
        self.recent.activated.connect(self._on_recent)
        self.remove.clicked.connect(self._on_remove)
        self.download.fetched.connect(self._on_fetched)
        self.download.changed.connect(self.refresh)
        for box in (self.unpack, self.large):
            box.toggled.connect(self.refresh)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)

    def _fields(self) -> dict[str, SourceField]:
        return {"target": self.target, "draft": self.draft}

    def _choices(self, found: Sequence[LocalModel], with_toy: bool) -> list[tuple[str, str]]:
        choices = [("bundled: comes with the program", BUNDLED)]
        if with_toy:
            choices.append(("6-token toy: fixed logits over six words", TOY))
        for model in found:
            if model.kind != "bundled":
                choices.append((_described(model), model.name))
        return choices

    # In and out.

    def _show_chosen(self, chosen: Chosen, drafter: str) -> None:
        self.drafter.set(drafter, chosen.draft is not None)
        self.target.set(chosen.target)
        self.draft.set(BUNDLED if chosen.draft in (TOY, None) else chosen.draft)
        self.unpack.setChecked(chosen.unpack)

    def chosen(self) -> Chosen:
        """The pair to load."""
        target = self.target.key()
        if target == TOY:
            own = self.drafter.id() not in (MODEL, NONE)
            return Chosen(TOY, TOY, self.drafter.text() if own or self.drafter.id() == MODEL else None)
        draft = _whole(self.draft.key()) if self._needs_draft() else None
        return Chosen(
            _whole(target),
            draft,
            self.drafter.text(),
            unpack=self._unpacked() != () and self.unpack.isChecked(),
            allow_large=self._is_too_large() and self.large.isChecked(),
        )

    def _needs_draft(self) -> bool:
        return self.drafter.id() == MODEL and not self._is_toy()

    def _is_toy(self) -> bool:
        return self.target.key() == TOY

    def done(self, result: int) -> None:
        for timer in self._waits.values():
            timer.stop()
        self.tasks.close()
        super().done(result)

    def closeEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        self.tasks.close()
        super().closeEvent(event)

    # Looking at what was named.

    def _on_typed(self, role: str) -> None:
        self._dropped_wrong = ""
        self._looks.pop(role, None)
        self.tasks.drop(role)
        self._comparison = None
        self._waits[role].start()
        self.refresh()

    def _look(self, role: str) -> None:
        self._waits[role].stop()
        key = self._fields()[role].key()
        if key == TOY and role == "target":
            self._on_look(role, look_at_toy())
            return
        place = str(bundled_folders()[_ROLES.index(role)]) if key == BUNDLED else key
        self.tasks.start(role, lambda task: look_at(place, self._on_cpu), partial(self._on_looked, role))
        self.refresh()

    def _on_looked(self, role: str, task: Task) -> None:
        place = self._fields()[role].key()
        self._on_look(role, task.result if task.result is not None else Look(place, problem=task.failure))

    def _on_look(self, role: str, look: Look) -> None:
        self._looks[role] = look
        self.tasks.drop("compare")
        self._comparison = None
        if role == "target" and look.summary is not None:
            self.drafter.suggest(look.summary.layers or 0)
        self._compare()
        self.refresh()

    def _compare(self) -> None:
        """Whether both have one tokenizer, as far as their files tell."""
        target, draft = self._summary("target"), self._summary("draft")
        if not self._needs_draft() or target is None or draft is None or self._comparison is not None:
            return
        if not self.tasks.is_going("compare"):
            self.tasks.start(
                "compare",
                lambda task: compare_tokenizers(target.path, draft.path, lambda: task.cancelled),
                self._on_compared,
            )

    def _on_compared(self, task: Task) -> None:
        unknown = Comparison(None, "Whether both have one tokenizer is told when they are loaded.")
        self._comparison = task.result if task.result is not None else unknown
        self.refresh()

    def _on_found(self, task: Task) -> None:
        if task.result is not None:
            self.target.offer(self._choices(task.result, with_toy=True))
            self.draft.offer(self._choices(task.result, with_toy=False))

    def _on_drafter(self) -> None:
        self._compare()
        self.refresh()

    def _on_fetched(self, hub_id: str) -> None:
        for role, field in self._fields().items():
            if field.key() == hub_id:
                self._look(role)

    # Pairs used before.

    def _fill_recent(self) -> None:
        with QSignalBlocker(self.recent):
            self.recent.clear()
            for pair in self._recent:
                self.recent.addItem(pair_words(pair))
            self.recent.setCurrentIndex(-1)
            self.recent.setPlaceholderText("Choose a pair")
        for widget in (self._labels["recent"], self.recent, self.remove):
            widget.setVisible(bool(self._recent))
        self.remove.setEnabled(False)

    def _on_recent(self, index: int) -> None:
        self._show_chosen(self._recent[index], self._recent[index].drafter or "sample")
        for role in _ROLES:
            self._look(role)
        self.remove.setEnabled(True)

    def _on_remove(self) -> None:
        index = self.recent.currentIndex()
        if 0 <= index < len(self._recent):
            del self._recent[index]
            self._fill_recent()
            self.recent_changed.emit(list(self._recent))

    # Drops onto the dialog itself are for the target.

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        found = what_was_dropped(event.mimeData())
        if found.kind == A_MODEL:
            self.target.set(str(found.path))
        else:
            self._on_refused(found.why or "A recording is opened by dropping it onto the window.")

    def _on_refused(self, why: str) -> None:
        self._dropped_wrong = why
        self.refresh()

    # What is shown of it.

    def _summary(self, role: str) -> ModelSummary | None:
        look = self._looks.get(role)
        return look.summary if look is not None else None

    def _cost(self) -> Cost | None:
        """Of a drafter without a draft model; None for the others, and for one whose argument is wrong."""
        if self.drafter.id() in (MODEL, NONE) or self.drafter.problem():
            return None
        drafter = self.drafter.drafter()
        assert drafter is not None
        return cost_of(drafter, self._looks.get("target", Look("")), self._on_cpu)

    def _drafting(self) -> ModelSummary | None:
        """The summary of what will draft, None for nothing or what isn't known."""
        if self._needs_draft():
            return self._summary("draft")
        if self._is_toy() and self.drafter.id() == MODEL:
            return self._summary("target")
        cost = self._cost()
        return cost.summary if cost is not None else None

    def _fit(self) -> Fit | None:
        target = self._looks.get("target")
        return memory_fit(target, self._drafting(), self._free_bytes) if target is not None else None

    def _is_too_large(self) -> bool:
        fit = self._fit()
        return fit is not None and not fit.fits

    def _used(self) -> list[str]:
        return ["target", "draft"] if self._needs_draft() else ["target"]

    def _unpacked(self) -> tuple[str, ...]:
        used = [self._summary(role) for role in self._used()]
        return tuple(sorted({kind for model in used if model is not None for kind in model.to_unpack}))

    def _missing(self) -> str:
        return next((look.missing for role in self._used() if (look := self._looks.get(role)) and look.missing), "")

    def refresh(self) -> None:
        """Show what is known by now; only what can be loaded leads on."""
        needs_draft = self._needs_draft()
        for widget in (self._labels["draft"], self.draft, self._browse["draft"]):
            widget.setVisible(needs_draft)
        self.cost.setVisible(not needs_draft)
        self.cost.setText(self._cost_words())
        self.sheet.show_model(1, self._summary("target"))
        self.sheet.show_model(2, self._drafting())
        self.sheet.setHorizontalHeaderLabels(["", "target", "draft model" if needs_draft else "drafter"])
        types = self._unpacked()
        self.unpack.setVisible(bool(types))
        held = "float32" if self._on_cpu else "16 bits"
        self.unpack.setText(f"Unpack {', '.join(types)} to {held}: MLX can't hold them packed, so they take more room")
        self.large.setVisible(self._is_too_large())
        self.download.offer(self._missing())
        for role, field in self._fields().items():
            look = self._looks.get(role)
            wrong = look is not None and bool(look.problem or look.missing)
            theme.mark(field, "invalid", wrong and bool(field.where.text()))
        sentences = self._sentences()
        self.said.say(sentences)
        self.ok.setEnabled(all(mark not in (BAD, BUSY) for mark, _ in sentences))

    def _cost_words(self) -> str:
        if self._is_toy() and self.drafter.id() == MODEL:
            return "The toy's own draft: another table of fixed logits."
        if self.drafter.id() == NONE:
            return "Nothing is drafted: the target decodes alone, one token a round."
        cost = self._cost()
        return cost.words if cost is not None else ""

    def _sentences(self) -> list[tuple[str, str]]:
        """(mark, sentence): the models first, then the drafter, memory, and the pair."""
        found = [(CARE, self._dropped_wrong)] if self._dropped_wrong else []
        found += [line for role in self._used() if (line := self._of_model(role)) is not None]
        cost = self._cost()
        if problem := self.drafter.problem() or (cost.problem if cost is not None else ""):
            found.append((BAD, problem))
        if any(mark in (BAD, BUSY) for mark, _ in found):
            return found
        if self._unpacked() and not self.unpack.isChecked():
            found.append((BAD, f"MLX can't hold {', '.join(self._unpacked())} packed: allow it to be unpacked, below."))
        fit = self._fit()
        if fit is not None:
            confirmed = self.large.isChecked()
            found.append((GOOD if fit.fits else CARE if confirmed else BAD, fit.words))
        return found + self._of_pair()

    def _of_model(self, role: str) -> tuple[str, str] | None:
        look, name = self._looks.get(role), self._fields()[role].role
        if look is None:
            return (BUSY, f"{name}: reading the headers.")
        if look.problem:
            return (BAD, f"{name}: {look.problem}")
        if look.missing:
            return (BAD, f"{name}: {look.missing} is neither a folder here nor in the Hugging Face cache.")
        return None

    def _of_pair(self) -> list[tuple[str, str]]:
        if self._is_toy():
            return [(GOOD, "The toy has no files, and needs no memory to speak of.")]
        if not self._needs_draft():
            return []
        if self._comparison is None:
            return [(BUSY, "Comparing the two tokenizers.")]
        mark = {True: GOOD, False: BAD, None: CARE}[self._comparison.agree]
        found = [(mark, self._comparison.words)]
        target, draft = self._summary("target"), self._summary("draft")
        if target is not None and draft is not None and self._comparison.agree:
            if target.path == draft.path:
                found = [(CARE, "Target and draft are the same model: every draft agrees, so nothing gets faster.")]
            elif target.vocab_size != draft.vocab_size and target.vocab_size and draft.vocab_size:
                width = f"{target.vocab_size:,} and {draft.vocab_size:,}"
                found.append((GOOD, f"Their logits are {width} wide: what lies behind the tokenizer is never drawn."))
            ours, theirs = target.context_length, draft.context_length
            if ours is not None and theirs is not None and theirs < ours:
                words = f"The draft model's context, {theirs:,} tokens, is shorter than the target's, {ours:,}"
                found.append((CARE, f"{words}: past it the target decodes alone."))
        return found


def _whole(key: str) -> str:
    """A path made whole, so that it still leads there from elsewhere; an id or a word as it is."""
    if key == BUNDLED:
        return key
    try:
        path = path_of(key)
    except LoadError:
        return key
    return str(path) if path.exists() else key


def _described(model: LocalModel) -> str:
    """A line of the list: name, kind, size."""
    name = Path(model.name).name if model.kind == "gguf" and "/" in model.name[:1] else model.name
    if model.summary is None:
        return visible_string(f"{name}: can't be loaded")
    size = millions(model.summary.parameters)
    return visible_string(f"{name}: {model.architecture}, {size}, {in_gib(model.file_bytes)}")
