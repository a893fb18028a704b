"""Slow looks at models and downloads: each on a thread of its own that touches nothing of Qt and may be left behind.

A thread that waits for the network can't be ended from outside. So nobody joins it: it writes into its Task, which
the window looks at from time to time, or no longer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QObject, QTimer

log = logging.getLogger("draftscope.models")

_LOOK_MS = 40


class Task:
    """One piece of work. `result` or `failure` (plain text) once it is `over`; before that `stage`, `done`, `total`."""

    def __init__(self, work: Callable[[Task], Any]) -> None:
        self.stage, self.done, self.total = "", 0, 0
        self.result: Any = None
        self.failure = ""
        self.over = False
        self._cancelled = threading.Event()
        threading.Thread(target=self._run, args=(work,), name="draftscope-models", daemon=True).start()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Have it end where it next reports."""
        self._cancelled.set()

    def report(self, stage: str, done: int, total: int) -> bool:
        """Keep how far it is; True: it shall end."""
        self.stage, self.done, self.total = stage, done, total
        return self.cancelled

    def _run(self, work: Callable[[Task], Any]) -> None:
        try:
            self.result = work(self)
        except Exception as error:
            if not self.cancelled:
                mendable = isinstance(error, ValueError)
                log.log(logging.INFO if mendable else logging.ERROR, "a look at a model failed", exc_info=True)
                self.failure = str(error) if mendable and str(error) else f"{type(error).__name__}: {error}"
        self.over = True


class Tasks(QObject):
    """Tasks by name, looked at while there are any. A new one of a name takes the place of the one before."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._going: dict[str, tuple[Task, Callable[[Task], None], Callable[[Task], None] | None]] = {}
        self._timer = QTimer(self)
        self._timer.setInterval(_LOOK_MS)
        self._timer.timeout.connect(self.look)

    def start(
        self,
        name: str,
        work: Callable[[Task], Any],
        then: Callable[[Task], None],
        told: Callable[[Task], None] | None = None,
    ) -> Task:
        """Begin; `then` comes when it is over, `told` from time to time before that."""
        self.drop(name)
        task = Task(work)
        self._going[name] = (task, then, told)
        self._timer.start()
        return task

    def is_going(self, name: str) -> bool:
        return name in self._going

    def drop(self, name: str) -> None:
        """Cancel one, and hear no more of it."""
        if name in self._going:
            self._going.pop(name)[0].cancel()

    def close(self) -> None:
        """Drop all."""
        for name in list(self._going):
            self.drop(name)
        self._timer.stop()

    def look(self) -> None:
        """Hear of those that are over."""
        for name, (task, then, told) in list(self._going.items()):
            if self._going.get(name, (None,))[0] is not task:
                continue  # another one's `then` began it anew
            if task.over:
                self._going.pop(name)
                then(task)
            elif told is not None:
                told(task)
        if not self._going:
            self._timer.stop()
