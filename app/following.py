"""Recordings that another program still writes: their new rounds come into the run shown, and the window says so."""

from __future__ import annotations

import threading
import time
from collections import deque
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from app.notices import Notice
from app.session import Session
from engine.growing import GrowingRun, Growth
from engine.recording import RecordedRun
from engine.session_file import SessionFileError

POLL, SLOW_POLL = 0.25, 1.0  # seconds between two looks at a file's size; slower where nothing comes
QUIET = 10.0  # seconds without anything new after which that is said
AHEAD = 4  # steps that the reading thread may be ahead of the window
BUDGET = 0.005  # seconds of taking rounds in before the window paints
FRAME_MS = 33

ELSEWHERE = "recorded elsewhere"


class _Source(QObject):
    """Reads a growing run on a thread of its own. Signals: `woken`, on this object's thread: call `next`."""

    woken = Signal()
    _sent = Signal()

    def __init__(self, path: Path, run: int, rounds: int, checks: int) -> None:
        super().__init__()
        self._where = (path, run, rounds, checks)
        self._found: deque[Growth | str] = deque()
        self._room = threading.Semaphore(AHEAD)
        self._stopped = threading.Event()
        self._sent.connect(self.woken, Qt.ConnectionType.QueuedConnection)
        self._thread = threading.Thread(target=self._work, name="draftscope-following", daemon=True)
        self._thread.start()

    def next(self) -> Growth | str | None:
        """What came next; words where the file can't be followed any more, None where nothing has come yet."""
        if not self._found:
            return None
        self._room.release()
        return self._found.popleft()

    @property
    def waiting(self) -> bool:
        return bool(self._found)

    def close(self) -> None:
        """Stop reading; blocks for a step at most."""
        self._stopped.set()
        self._room.release()
        self._thread.join()
        self.blockSignals(True)

    def _work(self) -> None:
        try:
            growing = GrowingRun(*self._where)
            try:
                self._follow(growing)
            finally:
                growing.close()
        except SessionFileError as error:
            if not self._stopped.is_set():  # nobody makes room any more
                self._tell(str(error))

    def _follow(self, growing: GrowingRun) -> None:
        since = time.monotonic()
        while not self._stopped.is_set():
            while not self._stopped.is_set() and growing.changed():
                while (growth := growing.read()) and not self._stopped.is_set():
                    since = time.monotonic()
                    self._tell(growth)
                    if growth.end is not None:
                        return
            self._stopped.wait(POLL if time.monotonic() - since < QUIET else SLOW_POLL)

    def _tell(self, what: Growth | str) -> None:
        self._room.acquire()
        self._found.append(what)
        self._sent.emit()


class Following(QObject):
    """Follows the run shown while it is recorded elsewhere. Signals: `changed` (`notices`), `said` (plain text).

    One run at a time: another recording that is shown and still grows is followed from where it was left.
    """

    changed = Signal()
    said = Signal(str)

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._source: _Source | None = None
        self._run: RecordedRun | None = None
        self._name = ""
        self._grew = False
        self._is_quiet = False
        self._frame = QTimer(self)
        self._frame.setSingleShot(True)
        self._frame.setInterval(FRAME_MS)
        self._frame.timeout.connect(self._take)
        self._silence = QTimer(self)
        self._silence.setSingleShot(True)
        self._silence.setInterval(round(QUIET * 1000))
        self._silence.timeout.connect(self._on_silence)
        session.view.run_changed.connect(self._on_run_changed)

    @property
    def run(self) -> RecordedRun | None:
        """The run that is followed."""
        return self._run

    def notices(self) -> list[Notice]:
        """What the window says of it."""
        if self._run is None or self._run is not self._session.view.run:
            return []
        if self._is_quiet:
            text = f"Nothing new in {self._name} for a while: whoever records it has paused, or is gone."
        elif self._grew:
            text = f"{self._name} is being recorded elsewhere: new rounds appear as they are written."
        else:
            text = f"{self._name} has no end yet: if it is being recorded elsewhere, new rounds appear here."
        return [Notice(text, ELSEWHERE)]

    def close(self) -> None:
        """Follow nothing any more."""
        self._frame.stop()
        self._silence.stop()
        self._run = None
        if self._source is not None:
            self._source.close()
            self._source.deleteLater()
            self._source = None

    def _on_run_changed(self) -> None:
        shown = self._session.view.run
        for opened in self._session.opened:
            if shown is opened.runs[-1] and shown is not self._run and _may_grow(shown, opened.path):
                self.close()
                self._begin(shown, opened.path, opened.stored[-1].id)
        self.changed.emit()

    def _begin(self, run: RecordedRun, path: Path, number: int) -> None:
        self._run, self._name = run, path.name
        self._grew = self._is_quiet = False
        self._source = _Source(path, number, len(run), len(run.content_checks))
        self._source.woken.connect(self._on_woken)
        self._silence.start()

    def _on_woken(self) -> None:
        if self._source is not None and not self._frame.isActive():
            self._take()

    def _take(self) -> None:
        """Take in what has come, for a bounded time; what is left comes with the next frame."""
        source, run = self._source, self._run
        if source is None or run is None:
            return
        until = time.perf_counter() + BUDGET
        before = len(run), len(run.content_checks), run.end
        said = self.notices()
        over = ""
        while (found := source.next()) is not None:
            over = self._add(run, found)
            if over or time.perf_counter() > until:
                break
        if (len(run), len(run.content_checks), run.end) != before:
            self._grew, self._is_quiet = True, False
            self._silence.start()
            if run is self._session.view.run:
                self._show(at_once=bool(over) or self.notices() != said)
        if over:
            self.close()
            self.said.emit(over)
        elif source.waiting:
            self._frame.start()
        self.changed.emit()

    def _show(self, at_once: bool) -> None:
        """Tell the view of new rounds. `at_once`: the banner is about to change, which lays all panels out anew."""
        view = self._session.view
        view.notify_advanced(None if at_once else 0.0)
        if not at_once:
            view.catch_up()

    def _add(self, run: RecordedRun, found: Growth | str) -> str:
        """Take one step in; says why nothing comes behind it, else ""."""
        if isinstance(found, str):
            return f"{self._name} isn't followed any more: {found}."
        for record in found.rounds:
            run.append(record)
        for check in found.checks:
            run.add_check(check)
        if found.end is None:
            return ""
        run.finish(found.end)
        return f"The recording of {self._name} has ended: {found.end.finish_reason}."

    def _on_silence(self) -> None:
        self._is_quiet = self._grew
        self.changed.emit()


def _may_grow(run: RecordedRun, path: Path) -> bool:
    """A run without an end whose writer, if there is one, has left the log in which SQLite keeps what is new."""
    return run.end is None and run.damage is None and path.with_name(f"{path.name}-wal").exists()
