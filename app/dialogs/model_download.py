"""Fetching a model that isn't on this computer: nothing is asked of the network before a button is pressed."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QWidget

from app import theme
from app.dialogs.model_tasks import Task, Tasks
from app.format import plural
from engine import hub
from engine.hub import DownloadPlan
from engine.model_summary import in_gib

_TASK = "download"


class DownloadStrip(QWidget):
    """Offers an id: first its size, then the download with its progress. Signals: `fetched` (the id), `changed`."""

    fetched = Signal(str)
    changed = Signal()

    def __init__(self, tasks: Tasks, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._tasks = tasks
        self._id = ""
        self.said = QLabel()
        self.said.setTextFormat(Qt.TextFormat.PlainText)
        self.said.setWordWrap(True)
        self.bar = QProgressBar()
        self.bar.setFixedWidth(theme.em() * 16)
        self.bar.setFixedHeight(theme.line_height() + 2)
        self.bar.setFont(theme.ui_font(0.85))
        self.bar.setAccessibleName("Download")
        self.button = QPushButton()
        self.button.clicked.connect(self._on_pressed)
        self._act: Callable[[], None] = self._ask
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(10)
        line.addWidget(self.said, 1)
        line.addWidget(self.bar)
        line.addWidget(self.button)
        self.hide()

    def offer(self, hub_id: str) -> None:
        """Offer this id, "" for none; what goes on for it goes on."""
        if hub_id == self._id:
            return
        self._tasks.drop(_TASK)
        self._id = hub_id
        self.setVisible(bool(hub_id))
        if hub_id:
            self._show_offer(f"{hub_id} is not on this computer.")

    def _show(self, text: str, button: str, act: Callable[[], None], fetching: bool = False) -> None:
        self.said.setText(text)
        self.button.setText(button)
        self._act = act
        self.bar.setVisible(fetching)
        self.setAccessibleName(text)
        self.changed.emit()

    def _show_offer(self, text: str) -> None:
        self._show(f"{text} Its size can be asked of the Hugging Face Hub.", "Ask for Its Size", self._ask)

    def _on_pressed(self) -> None:
        self._act()

    def _ask(self) -> None:
        hub_id = self._id
        self._tasks.start(_TASK, lambda task: hub.download_plan(hub_id), self._on_plan)
        self._show(f"Asking the Hugging Face Hub about {hub_id}…", "Cancel", self._cancel)

    def _on_plan(self, task: Task) -> None:
        if task.failure:
            self._show(task.failure, "Try Again", self._ask)
            return
        plan = task.result
        assert isinstance(plan, DownloadPlan)
        here = plan.total_bytes - plan.missing_bytes
        kept = f", of which {in_gib(here)} are here already" if here else ""
        text = f"{plan.hub_id}: {plural(len(plan.files), 'file')}, {in_gib(plan.total_bytes)}{kept}. "
        self._show(f"{text}They go to {hub.cache_folder()}.", f"Download {in_gib(plan.missing_bytes)}", self._fetch)

    def _fetch(self) -> None:
        hub_id = self._id
        self.bar.setRange(0, 0)
        self._tasks.start(_TASK, lambda task: hub.download_model(hub_id, task.report), self._on_fetched, self._on_told)
        self._show(f"Downloading {hub_id}…", "Cancel", self._cancel, fetching=True)

    def _on_told(self, task: Task) -> None:
        if not task.total:
            return
        # Qt's bar counts in 32 bits, and so do the mebibytes that are told.
        self.bar.setRange(0, task.total)
        self.bar.setValue(min(task.done, task.total))
        self.bar.setFormat(f"{task.done:,} of {task.total:,} MiB")

    def _on_fetched(self, task: Task) -> None:
        if task.failure:
            self._show(task.failure, "Try Again", self._fetch)
            return
        fetched, self._id = self._id, ""
        self.hide()
        self.fetched.emit(fetched)

    def _cancel(self) -> None:
        was_fetching = not self.bar.isHidden()
        self._tasks.drop(_TASK)
        kept = " Files that came whole are kept." if was_fetching else ""
        self._show_offer(f"Cancelled.{kept}")
