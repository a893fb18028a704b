"""Work on recordings that needs no models: Jobs on threads of their own, so that no run that stands holds them up."""

from __future__ import annotations

import threading

from PySide6.QtCore import QObject

from app.jobs import Job, Steps


class SideThread(QObject):
    """Starts Jobs; their steps are made with the Job itself as their room, so that they can ask whether to go on."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._threads: dict[Job, threading.Thread] = {}

    def start(self, title: str, steps: Steps) -> Job:
        """Begin a job at once; it is deleted behind its `over`."""
        job = Job(title, steps, self)
        job.over.connect(self._sweep)
        thread = self._threads[job] = threading.Thread(target=_work, args=(job,), name="draftscope-side", daemon=True)
        thread.start()
        return job

    @property
    def busy(self) -> bool:
        return bool(self._threads)

    def close(self) -> None:
        """Cancel what is at work and wait for it; it tells nothing any more."""
        for job, thread in self._threads.items():
            job.close()
            thread.join()
            job.deleteLater()
        self._threads.clear()

    def _sweep(self) -> None:
        for job in [job for job in self._threads if job.done]:
            self._threads.pop(job).join()  # it has just told its end
            job.deleteLater()


def _work(job: Job) -> None:
    job.tell_end(job.work(job))
