"""The window's exports: a dialog asks what, the system's asks where, and a job writes it while the window goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtWidgets import QDialog, QFileDialog, QWidget

from app.dialogs.export_data import PANEL, ROUND, file_name, picture_steps, text_steps
from app.dialogs.export_dialog import ExportDialog, Wanted
from app.dialogs.export_picture import picture
from app.format import count
from app.jobs import Job, Steps
from app.run_sources import Source, known_sources, opener
from app.session import Session
from app.side_thread import SideThread

Panels = Callable[[], Sequence[tuple[str, str, QWidget]]]
"""Gives (name, title, panel) of what can be drawn now."""


class Exports(QObject):
    """Signals: `said` (plain text: it is done, or goes on), `failed` (why, in words)."""

    said = Signal(str)
    failed = Signal(str)

    def __init__(self, session: Session, side_thread: SideThread, panels: Panels, window: QWidget) -> None:
        super().__init__(window)
        self._session, self._side_thread, self._panels, self._window = session, side_thread, panels, window
        self.dialog: QDialog | None = None
        self.jobs: dict[Job, Path] = {}

    def open(self) -> None:
        """Ask what to export of the run that is shown."""
        source, view = self._source(), self._session.view
        if source is None or view.run is None:
            return
        panels = [(name, title) for name, title, _ in self._panels()]
        dialog = ExportDialog(source.title, len(view.run), view.round_index, panels, self._window)
        dialog.accepted.connect(self._on_accepted)
        self._show(dialog)

    def close(self) -> None:
        """Close what is open; what is being written is left to the thread."""
        if self.dialog is not None:
            self.dialog.close()

    def _show(self, dialog: QDialog) -> None:
        self.close()
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.dialog = dialog
        dialog.finished.connect(partial(self._forget, dialog))
        dialog.open()

    def _forget(self, dialog: QDialog, result: int) -> None:
        if self.dialog is dialog:  # the next one may be there already
            self.dialog = None

    def _source(self) -> Source | None:
        run = self._session.view.run
        return next((source for source in known_sources(self._session) if source.run is run), None)

    def _on_accepted(self) -> None:
        dialog = self.dialog
        assert isinstance(dialog, ExportDialog)
        self.choose_file(dialog.wanted())

    def choose_file(self, wanted: Wanted) -> None:
        """Ask where to; a picture is drawn now, as it is seen now."""
        made = self.prepared(wanted)
        if made is None:
            self.failed.emit("What was to be exported isn't shown any more: show it, and export again.")
            return
        name, start = made
        dialog = QFileDialog(self._window, "Export")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(wanted.kind.suffix)
        dialog.setNameFilters([f"{wanted.kind.words} (*.{wanted.kind.suffix})", "All files (*)"])
        dialog.selectFile(name)
        dialog.fileSelected.connect(lambda chosen: self.write(Path(chosen), start))
        self._show(dialog)

    def prepared(self, wanted: Wanted) -> tuple[str, Callable[[Path], Steps]] | None:
        """A name to begin with, and what makes the job for a path; None where it can't be had."""
        source, view = self._source(), self._session.view
        if source is None or source.run is None:
            return None
        number = view.round_index if wanted.kind.of == ROUND else None
        run = source.place[1] if source.place is not None else self._session.recording.runs.index(source.run) + 1
        if wanted.kind.of == PANEL:
            found = next((made for made in self._panels() if made[0] == wanted.panel), None)
            if found is None:
                return None
            data = picture(found[2], found[1], wanted.kind.id, wanted.scheme)
            return file_name(wanted.kind, f"run {run}", panel=found[1]), lambda path: picture_steps(data, path)
        opened = opener(source)
        return file_name(wanted.kind, f"run {run}", number), lambda path: text_steps(
            wanted.kind.id, opened, run, number, wanted.full, path
        )

    def write(self, path: Path, start: Callable[[Path], Steps]) -> None:
        """Begin to write; the end is told by `said` or `failed`."""
        reason = self._why_not(path)
        if reason is not None:
            self.failed.emit(f"The export can't be written: {reason}.")
            return
        job = self._side_thread.start("The export", start(path))
        self.jobs[job] = path
        job.over.connect(self._on_over)

    def _why_not(self, path: Path) -> str | None:
        """What must not be written over, whatever was answered: a recording in use, a device, a pipe."""
        if path.exists() and not path.is_file() and not path.is_dir():
            return f"{path} is no plain file: choose another name"  # a pipe that nobody reads would hold up the end
        recorder = self._session.recorder
        used = [opened.path for opened in self._session.opened]
        used += [recorder.writer.path] if recorder is not None and recorder.writer is not None else []
        if path.exists() and any(other.exists() and path.samefile(other) for other in used):
            return f"{path} is a recording in use: choose another file"
        if any(path == other for other in self.jobs.values()):
            return f"{path} is being written: wait for it"
        return None

    def _on_over(self) -> None:
        for job in [job for job in self.jobs if job.done]:
            path = self.jobs.pop(job)
            if job.failure:
                self.failed.emit(f"The export failed: {job.failure.rstrip('.')}.")
            elif job.take():
                self.said.emit(f"Exported to {path} ({_size(path)}).")


def _size(path: Path) -> str:
    try:
        size = float(path.stat().st_size)
    except OSError:
        return "gone by now"
    for unit in ("bytes", "kB", "MB"):
        if size < 1000 or unit == "MB":
            return f"{size:.1f} {unit}" if unit != "bytes" and size < 100 else f"{count(round(size))} {unit}"
        size /= 1000
    raise AssertionError("unreachable")
