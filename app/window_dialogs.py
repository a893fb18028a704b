"""The window's dialogs: they block nothing, and each is there once. Slots are named as in the table of actions."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QDialog, QInputDialog, QMessageBox, QWidget

from app.controls import Controls
from app.dialogs.help_viewer import HelpViewer
from app.dialogs.log_view import LogView
from app.dialogs.note_editor import NoteEditor
from app.dialogs.prompt_editor import PromptEditor
from app.dialogs.shortcut_sheet import ShortcutSheet
from app.messages import MessageLog
from app.model_choice import TOY, Chosen, drafts_without_model, from_plain, to_plain
from app.session import Session
from app.settings_store import SettingsStore
from app.side_thread import SideThread
from app.worker import BUNDLED

_SHEETS = ("note", "models", "prompt", "go", "about")
"""These belong to the window alone; the others may stand beside it."""
_OF_A_LONE_TARGET = "requantized:4"
"""The drafter that is proposed for a model that was dropped alone."""
_AGAIN = QMessageBox.ButtonRole.ActionRole


class WindowDialogs(QObject):
    """Opens dialogs over a window. Signals: `models_chosen` (a Chosen)."""

    models_chosen = Signal(object)

    def __init__(
        self, session: Session, controls: Controls, log: MessageLog, window: QWidget, store: SettingsStore
    ) -> None:
        super().__init__(window)
        self._store = store
        self._failed: Chosen | None = None
        self.side_thread = SideThread(self)
        self._session, self._controls, self._log, self._window = session, controls, log, window
        self.by_name: dict[str, QDialog] = {}
        self.errors: QMessageBox | None = None

    def _open(self, name: str, dialog: QDialog) -> None:
        """A second call brings a new one in the old one's place."""
        before = self.by_name.pop(name, None)
        if before is not None:
            before.close()
            before.deleteLater()
        self.by_name[name] = dialog
        if name in _SHEETS:
            dialog.open()
        else:
            dialog.show()

    def close_all(self) -> None:
        """Close whatever is open."""
        for dialog in self.by_name.values():
            dialog.close()
        self.side_thread.close()
        if self.errors is not None:
            self.errors.close()

    def show_error(self, text: str, failed: Chosen | None = None) -> None:
        """One dialog for all that went wrong until it is closed; nothing waits for it.

        `failed`: models that couldn't be loaded: a button leads back to their choice.
        """
        if failed is not None:
            self._failed = failed
            if self.errors is not None:
                self._offer_chooser(self.errors)
        if self.errors is not None:
            if text not in self.errors.text():
                self.errors.setText(f"{self.errors.text()}\n\n{text}")
            return
        box = self.errors = QMessageBox(self._window)
        box.setIcon(QMessageBox.Icon.Warning)
        box.setWindowTitle("Draftscope")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setStandardButtons(QMessageBox.StandardButton.Ok)
        box.finished.connect(self._on_error_closed)
        box.setText(text)
        if failed is not None:
            self._offer_chooser(box)
        box.open()

    def _offer_chooser(self, box: QMessageBox) -> None:
        if not any(box.buttonRole(button) == _AGAIN for button in box.buttons()):
            box.addButton("Choose Models…", _AGAIN)

    def _on_error_closed(self) -> None:
        failed, self._failed = self._failed, None
        if self.errors is None:
            return
        pressed = self.errors.clickedButton()
        again = pressed is not None and self.errors.buttonRole(pressed) == _AGAIN
        self.errors.deleteLater()
        self.errors = None
        if again and failed is not None and self._session.can("load") is None:
            self._choose(failed)

    def choose_models(self) -> None:
        self._choose(self._controls.chosen)

    def choose_target(self, path: Path) -> None:
        """The chooser with this folder or file as the target; the bundled draft model would fit none but its own."""
        chosen = replace(self._controls.chosen, target=str(path))
        if chosen.draft in (BUNDLED, TOY):
            own = self._session.settings.drafter
            chosen = replace(chosen, draft=None, drafter=own if drafts_without_model(own) else _OF_A_LONE_TARGET)
        self._choose(chosen)

    def _choose(self, chosen: Chosen) -> None:
        from app.dialogs.model_chooser import ModelChooser  # brings what reads models, which the first window can spare

        backend = self._session.backend
        dialog = ModelChooser(
            chosen,
            self._window,
            drafter=self._session.settings.drafter,
            recent=from_plain(self._store.recent_pairs),
            on_cpu=backend.startswith("CPU") if backend else sys.platform != "darwin",
        )
        dialog.accepted.connect(self._on_models)
        dialog.recent_changed.connect(self._on_recent)
        self._open("models", dialog)

    def _on_recent(self, pairs: list[Chosen]) -> None:
        self._store.recent_pairs = [to_plain(pair) for pair in pairs]

    def _on_models(self) -> None:
        self.models_chosen.emit(self.by_name["models"].chosen())  # type: ignore[attr-defined]

    def edit_prompt(self) -> None:
        session, pair = self._session, self._session.pair
        dialog = PromptEditor(
            self._controls.prompt(),
            pair.encode if pair is not None else None,
            self._window,
            chat=pair.chat if pair is not None else None,
            vocabulary=pair.vocabulary if pair is not None else None,
            use_chat=session.chat,
            system=session.system,
        )
        dialog.accepted.connect(self._on_prompt)
        self._open("prompt", dialog)

    def _on_prompt(self) -> None:
        dialog = self.by_name["prompt"]
        assert isinstance(dialog, PromptEditor)
        self._session.configure(prompt=dialog.prompt(), chat=dialog.uses_chat(), system=dialog.system())

    def go_to_round(self) -> None:
        view = self._session.view
        if view.run is None or not len(view.run):
            return
        last = len(view.run) - 1
        dialog = QInputDialog(self._window)
        dialog.setInputMode(QInputDialog.InputMode.IntInput)
        dialog.setWindowTitle("Go to Round")
        dialog.setLabelText(f"Round, 0 to {last}:")
        dialog.setIntRange(0, last)
        dialog.setIntValue(max(view.round_index, 0))
        dialog.intValueSelected.connect(self._on_round)
        self._open("go", dialog)

    def _on_round(self, index: int) -> None:
        self._session.view.select(index)

    def note(self) -> None:
        view = self._session.view
        if view.run is None or view.round_index < 0:
            return
        number = view.round_index
        dialog = NoteEditor(view.run, number, view.run.marks.get(number, ""), self._window)
        dialog.accepted.connect(self._on_note)
        self._open("note", dialog)

    def _on_note(self) -> None:
        dialog = self.by_name["note"]
        assert isinstance(dialog, NoteEditor)
        view = self._session.view
        if dialog.run is view.run:
            view.mark(dialog.round, dialog.note())

    def messages(self) -> None:
        self._open("log", LogView(self._log, self._window))

    def help(self) -> None:
        self._open("help", HelpViewer(self._window))

    def help_page(self, name: str) -> None:
        """The help at a page, by its file name."""
        viewer = HelpViewer(self._window)
        viewer.show_named(name)
        self._open("help", viewer)

    def chi_square_lab(self) -> None:
        """Open the lab, or bring the one that is open to the front: it may be at work."""
        lab = self.by_name.get("chi-square")
        if lab is not None and lab.isVisible():
            lab.raise_()
            lab.activateWindow()
            return
        from app.labs.chi_square import ChiSquareLab  # brings SciPy, which the first window needn't wait for

        made = ChiSquareLab(self._session, self._window)
        made.help_wanted.connect(self.help_page)
        self._open("chi-square", made)

    def compare_runs(self) -> None:
        """Open the comparison, or bring the one that is open to the front."""
        before = self.by_name.get("compare")
        if before is not None and before.isVisible():
            before.raise_()
            before.activateWindow()
            return
        from app.labs.compare_window import CompareWindow  # nobody waits for it at the start

        made = CompareWindow(self._session, self.side_thread, self._window)
        made.help_wanted.connect(self.help_page)
        self._open("compare", made)

    def compared_charts(self) -> QWidget | None:
        """The charts of the comparison that is open, None without one."""
        from app.labs.compare_window import CompareWindow

        found = self.by_name.get("compare")
        return found.charts if isinstance(found, CompareWindow) and found.charts.isVisible() else None

    def shortcuts(self) -> None:
        self._open("shortcuts", ShortcutSheet(self._window))

    def about(self) -> None:
        from app.__main__ import version

        session = self._session
        box = QMessageBox(self._window)
        box.setWindowTitle("About Draftscope")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(
            f"Draftscope {version()}\n\nSee what a drafter proposed, what the target kept, and why.\n\n"
            f"MLX {session.mlx_version or 'not loaded yet'}, {session.backend or 'backend known once it is loaded'}\n"
            "Apache License 2.0"
        )
        self._open("about", box)
