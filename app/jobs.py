"""A long computation on the engine's thread while no run goes, as the GUI thread sees it: results, progress, end."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal

log = logging.getLogger("draftscope.jobs")

Report = Callable[[int, int], None]
"""Told of (done, total); total 0: unknown."""

Steps = Callable[[Any, Report], Iterator[Any]]
"""Made with the engine's room and a Report on the engine's thread. Each step's result must hold no mx.array."""

_FRAME_MS = 33


class Job(QObject):
    """One job, from its start to its end. Everything but `work` belongs to the GUI thread.

    `title`: what is at work, as the beginning of a sentence. Signals: `arrived` (results wait: call `take`; at most
    once a frame), `progressed` (done, total), `over` (it ended: `failure` says of what, "" if it went well;
    `cancelled` whether it was asked to stop before). Behind `over` nothing comes any more.
    """

    arrived = Signal()
    progressed = Signal(object, object)
    over = Signal()

    _woken = Signal()
    _reported = Signal(object, object)
    _ended = Signal(str)

    def __init__(self, title: str, steps: Steps, parent: QObject) -> None:
        super().__init__(parent)
        self.title = title
        self.failure = ""
        self.done = False
        self._steps = steps
        self._results: deque[Any] = deque()
        self._cancelled = threading.Event()
        self._wake_sent = threading.Event()
        self._reported_at = 0.0
        self._closed = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_FRAME_MS)
        self._timer.timeout.connect(self.arrived)
        self._woken.connect(self._on_woken, Qt.ConnectionType.QueuedConnection)
        self._reported.connect(self.progressed, Qt.ConnectionType.QueuedConnection)
        self._ended.connect(self._on_ended, Qt.ConnectionType.QueuedConnection)

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """End it behind the step that is under way."""
        self._cancelled.set()

    def take(self) -> list[Any]:
        """The results that have come since the last call, in order."""
        self._wake_sent.clear()
        taken = []
        while self._results:
            taken.append(self._results.popleft())
        return taken

    def close(self) -> None:
        """Cancel it and say nothing any more: its listeners go."""
        self.cancel()
        self._closed = True
        self._timer.stop()
        self.blockSignals(True)

    # The engine's thread.

    def work(self, room: Any) -> str:
        """Run to the end, or until it is cancelled; gives what it failed of, or ""."""
        try:
            if not self.cancelled:
                for result in self._steps(room, self._report):
                    self._results.append(result)
                    if not self._wake_sent.is_set():
                        self._wake_sent.set()
                        self._woken.emit()
                    if self.cancelled:
                        break
        except Exception as error:
            mendable = isinstance(error, ValueError)
            log.log(logging.INFO if mendable else logging.ERROR, "%s failed", self.title, exc_info=True)
            return str(error) if mendable and str(error) else f"{type(error).__name__}: {error}"
        return ""

    def tell_end(self, failure: str) -> None:
        """Nothing comes any more."""
        self._ended.emit(failure)

    def _report(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done >= total or now - self._reported_at >= _FRAME_MS / 1000:
            self._reported_at = now
            self._reported.emit(done, total)

    # The GUI thread.

    def _on_woken(self) -> None:
        if self._closed:  # called for before the end came
            return
        if not self._timer.isActive():
            self._timer.start()

    def _on_ended(self, failure: str) -> None:
        self._timer.stop()
        self.failure, self.done = failure, True
        if self._results:
            self.arrived.emit()
        self.over.emit()
