"""What the window does with recordings: open, save under a name, choose among runs, offer what a crash left."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QDialog, QFileDialog, QMenu, QMessageBox, QWidget

from app.dialogs.fork_dialog import ForkDialog
from app.panels.trial_text import ForkWish
from app.recorder import Unfinished, unfinished
from app.run_titles import titles
from app.session import Session
from engine.recording import RecordedRun
from engine.session_file import SUFFIX, SessionFileError
from engine.settings import SettingsError

FILTER = f"Draftscope recordings (*{SUFFIX});;All files (*)"
MOST_LISTED = 50


class RecordingDialogs(QObject):
    """Opens dialogs over a window; slots are named as in the table of actions. Signals: `said` (plain text)."""

    said = Signal(str)

    def __init__(self, session: Session, window: QWidget) -> None:
        super().__init__(window)
        self._session, self._window = session, window
        self._dialog: QDialog | None = None
        self._left: list[Unfinished] = []
        if session.recorder is not None:
            session.recorder.saved.connect(self._on_saved)
            session.recorder.failed.connect(self._on_failed)
            session.recorder.lost.connect(self._on_lost)

    def open_recording(self) -> None:
        dialog = self._file_dialog("Open Recording")
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda name: self._session.open_recording(Path(name)))
        dialog.open()

    def save_recording(self) -> None:
        dialog = self._file_dialog("Save Recording As")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(SUFFIX.removeprefix("."))
        dialog.fileSelected.connect(self._save)
        dialog.open()

    def _save(self, name: str) -> None:
        if self._session.recorder is not None:
            self._session.flush()
            self._session.recorder.save_as(Path(name))

    def _file_dialog(self, title: str) -> QFileDialog:
        self.close()
        dialog = QFileDialog(self._window, title)
        dialog.setNameFilter(FILTER)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._keep(dialog)
        return dialog

    def close(self) -> None:
        """Close whatever is open; a question that wasn't answered is asked again at the next start."""
        if self._dialog is not None:
            self._dialog.reject()  # close() asks a message box that has no button for it
        left, self._left = self._left, []
        for one in left:
            one.leave()

    def _keep(self, dialog: QDialog) -> None:
        self._dialog = dialog
        dialog.finished.connect(self._forget)

    def _forget(self) -> None:
        self._dialog = None

    def _on_saved(self, path: str, wrong: str) -> None:
        if wrong:
            self._session.message.emit("error", f"The recording can't be saved: {wrong}.")
        else:
            self.said.emit(f"Recording into {path}.")

    def _on_failed(self, why: str) -> None:
        self._session.message.emit("notice", why)

    def _on_lost(self, rounds: str) -> None:
        text = f"Not everything could be saved: gone from memory and from the old file are {rounds}."
        self._session.message.emit("error", f"{text} The new file holds their tokens and counters alone.")

    # Forks

    def fork(self) -> None:
        self.fork_with(None)

    def fork_with(self, wish: ForkWish | None) -> None:
        """The fork dialog, filled in with what a trial came to."""
        view = self._session.view
        record, run = view.round, view.run
        if record is None or run is None:
            return
        self.close()
        at = record.index
        try:
            before = run.settings_before(at)
        except (SessionFileError, SettingsError) as error:
            self._session.message.emit("error", f"The run can't be forked: {error}.")
            return
        dialog = ForkDialog(before, record, view.position, self._window)
        if wish is not None:
            dialog.suggest(wish.rule, wish.temperature, wish.decree, wish.position)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.accepted.connect(lambda: self._session.fork(run, at, dialog.settings(), dialog.forced()))
        self._keep(dialog)
        dialog.open()

    # The runs

    def fill_runs(self, menu: QMenu) -> None:
        """List the newest runs of this sitting and of opened recordings, the one shown ticked."""
        menu.clear()
        group = QActionGroup(menu)
        shown = self._session.view.run
        for title, run in self._runs()[-MOST_LISTED:]:
            action = QAction(title.replace("&", "&&"), menu)
            action.setCheckable(True)
            action.setChecked(run is shown)
            action.triggered.connect(lambda _=False, run=run: self._session.view.show_run(run))
            group.addAction(action)
            menu.addAction(action)
        if menu.isEmpty():
            menu.addAction("No runs yet").setEnabled(False)

    def _runs(self) -> list[tuple[str, RecordedRun]]:
        found = []
        for opened in self._session.opened:
            found += [(f"{opened.path.name}: {title}", run) for title, run in titles(opened.runs)]
        return found + titles(self._session.recording.runs)

    # What a sitting that ended badly left

    def offer_unfinished(self) -> None:
        """Ask once about autosaves of sittings that didn't end well."""
        recorder = self._session.recorder
        if recorder is None:
            return
        self._left = unfinished(recorder.folder)
        if not self._left:
            return
        box = QMessageBox(self._window)
        box.setIcon(QMessageBox.Icon.Question)
        box.setWindowTitle("Draftscope")
        box.setTextFormat(Qt.TextFormat.PlainText)
        several = f" (the newest of {len(self._left)})" if len(self._left) > 1 else ""
        box.setText("The last sitting didn't end well. What it recorded was kept.")
        box.setInformativeText(f"Open {self._left[0].path.name}{several}?")
        box.setStandardButtons(QMessageBox.StandardButton.Open | QMessageBox.StandardButton.Ignore)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.button(QMessageBox.StandardButton.Ignore).setText("Not now")
        box.buttonClicked.connect(lambda button: self._on_offer(box.standardButton(button)))
        self._keep(box)
        box.open()

    def _on_offer(self, button: QMessageBox.StandardButton) -> None:
        left, self._left = self._left, []
        if button == QMessageBox.StandardButton.Open:
            self._session.open_recording(left[0].path)
        for one in left:
            one.settle()
