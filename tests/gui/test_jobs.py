"""Jobs on the engine's thread: their results, their end, what they keep from running, and closing in the middle."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from app.jobs import Job, Report
from engine.settings import Settings

TITLE = "The chi-square lab"


def counting(to: int, pause: float = 0.0) -> Any:
    def steps(room: object, report: Report) -> Iterator[tuple[int, int]]:
        for i in range(to):
            time.sleep(pause)
            report(i + 1, to)
            yield i, threading.get_ident()

    return steps


class Heard:
    """What a job delivers, on which threads."""

    def __init__(self, job: Job) -> None:
        self.job, self.results, self.threads, self.ends, self.empty = job, [], set(), 0, 0
        job.arrived.connect(self.take)
        job.over.connect(self.end)

    def take(self) -> None:
        taken = self.job.take()
        self.empty += not taken
        self.results += [value for value, _ in taken]
        self.threads |= {thread for _, thread in taken}

    def end(self) -> None:
        self.ends += 1


def test_results_come_in_order_from_the_engines_thread_and_before_the_end(qtbot, session, script) -> None:
    job = session.start_job(TITLE, counting(500))
    heard = Heard(job)
    qtbot.waitUntil(lambda: heard.ends == 1, timeout=5000)
    assert heard.results == list(range(500))
    assert heard.threads <= script.threads
    assert (job.failure, job.cancelled, job.done) == ("", False, True)
    assert session.worker.job is None
    assert session.progress is None


def test_while_a_job_works_nothing_else_may_use_the_thread(qtbot, session, script, messages) -> None:
    job = session.start_job(TITLE, counting(100_000, 0.001))
    qtbot.waitUntil(lambda: session.progress is not None and session.progress[1] > 0, timeout=5000)
    assert session.progress[0] == TITLE
    reason = f"{TITLE} is at work: stop it first."
    assert {session.can(what) for what in ("run", "step", "load", "job", "run_to")} == {reason}
    assert session.can("stop") is None
    session.start_run("a prompt", Settings())
    assert session.start_job("Another", counting(1)) is None
    assert messages == [("notice", reason)] * 2
    with pytest.raises(RuntimeError, match="during a job"):
        session.worker.run("a prompt", Settings())
    session.stop()
    qtbot.waitUntil(lambda: session.worker.job is None, timeout=5000)
    assert job.cancelled
    assert session.can("run") is None
    session.start_run("a prompt", Settings(), pause_after=1)
    qtbot.waitUntil(lambda: session.state == "paused", timeout=5000)
    assert session.can("job") is not None


@pytest.mark.parametrize(
    ("error", "says"), [(ValueError("k: too large"), "k: too large"), (RuntimeError("oh"), "RuntimeError: oh")]
)
@pytest.mark.allow_log("The chi-square lab failed")
def test_a_failure_is_shown_and_the_thread_lives_on(qtbot, session, messages, error, says) -> None:
    def steps(room: object, report: Report) -> Iterator[tuple[int, int]]:
        yield 1, threading.get_ident()
        raise error

    job = session.start_job(TITLE, steps)
    heard = Heard(job)
    qtbot.waitUntil(lambda: heard.ends == 1, timeout=5000)
    assert heard.results == [1]
    assert job.failure == says
    assert messages == [("error", f"{TITLE} failed.\n\n{says}")]
    again = Heard(session.start_job(TITLE, counting(3)))
    qtbot.waitUntil(lambda: again.ends == 1, timeout=5000)
    assert again.results == [0, 1, 2]


def test_closing_in_the_middle_ends_it_and_says_nothing_more(qtbot, session) -> None:
    job = session.start_job(TITLE, counting(1_000_000, 0.001))
    heard = Heard(job)
    qtbot.waitUntil(lambda: len(heard.results) > 3, timeout=5000)
    before = len(heard.results)
    assert session.shutdown()
    qtbot.wait(80)
    assert len(heard.results) == before
    assert heard.ends == 0
