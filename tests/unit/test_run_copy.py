"""A copy of a run: what there was when it was made, read on another thread, from memory and from the file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_runs import made_header, made_round

from engine.filed_rounds import TAIL
from engine.recording import OpenedSession, RecordedRun, Recording
from engine.rounds import Round
from engine.run_copy import RunCopy, place_of
from engine.session_file import SUFFIX, SessionFileError
from engine.session_writer import SessionWriter


def plain(index: int) -> Round:
    return made_round(index, (), [(index % 4, "target-draw")], rule="sampler-match")


def elsewhere(work: Callable[[], Any]) -> Any:
    """What a function gives on another thread."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def filed(path: Path, rounds: int) -> tuple[SessionWriter, RecordedRun]:
    recording = Recording()
    writer = recording.writer = SessionWriter(path)
    run = recording.begin(made_header())
    for index in range(rounds):
        run.append(plain(index))
    return writer, run


def test_it_stays_as_it_was_while_the_run_goes_on() -> None:
    run = RecordedRun(made_header())
    for index in range(5):
        run.append(plain(index))
    run.mark(2, "here")
    copied = RunCopy(run).run
    for index in range(5, 300):
        run.append(plain(index))
    run.mark(3, "there")
    assert len(copied) == 5
    assert copied.tokens == [0, 1, 2, 3, 0]
    assert copied.column("emitted").tolist() == [1] * 5
    assert (copied.statistics.rounds, copied.statistics.emitted) == (5, 5)
    assert copied.marks == {2: "here"}
    assert [record.index for record in copied] == list(range(5))
    assert copied.end is None
    assert place_of(run) is None


def test_old_rounds_come_from_the_file_on_another_thread(tmp_path: Path) -> None:
    path = tmp_path / f"a{SUFFIX}"
    writer, run = filed(path, 2 * TAIL)
    run.flush()
    for index in range(2 * TAIL, 3 * TAIL):
        run.append(plain(index))  # what is committed leaves the memory
    copied = RunCopy(run)
    assert place_of(run) == (path, 1)

    def work() -> tuple[list[int], int]:
        try:
            return [copied.run[number].index for number in (0, TAIL, 3 * TAIL - 1)], len(copied.run)
        finally:
            copied.close()

    assert elsewhere(work) == ([0, TAIL, 3 * TAIL - 1], 3 * TAIL)
    run.close()
    writer.close()


def test_a_run_of_an_opened_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / f"a{SUFFIX}"
    writer, run = filed(path, 20)
    run.flush()
    writer.close()
    opened = OpenedSession(path)
    copied = RunCopy(opened.runs[0], (path, opened.stored[0].id))
    assert elsewhere(lambda: ([record.emitted for record in copied.run], copied.close())[0]) == [r.emitted for r in run]
    nowhere = RunCopy(opened.runs[0])
    with pytest.raises(SessionFileError, match="isn't known"):
        nowhere.run[0]
    opened.close()


def test_it_can_be_told_to_stop_before_each_round_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / f"a{SUFFIX}"
    writer, run = filed(path, 20)
    run.flush()
    writer.close()
    opened = OpenedSession(path)
    left = iter(range(2))
    copied = RunCopy(opened.runs[0], (path, 1), lambda: next(left))
    assert copied.run[0].index == 0
    assert copied.run[1].index == 1
    with pytest.raises(StopIteration):
        copied.run[2]
    copied.close()
    opened.close()


def test_another_file_of_the_name_is_never_read_for_it(tmp_path: Path) -> None:
    """Both files hold a run 1, so its rounds would be taken for this run's."""
    path, other = tmp_path / f"a{SUFFIX}", tmp_path / f"b{SUFFIX}"
    for one, rounds in ((path, 20), (other, 30)):
        writer, run = filed(one, rounds)
        run.flush()
        writer.close()
    opened = OpenedSession(path)
    copied = RunCopy(opened.runs[0], (path, 1))
    other.replace(path)
    with pytest.raises(SessionFileError, match="replaced by another file"):
        copied.run[0]
    assert opened.runs[0][0].index == 0, "what was opened before stays readable"
    opened.close()


def test_a_run_that_goes_on_is_not_read_from_another_file_either(tmp_path: Path) -> None:
    path, other = tmp_path / f"a{SUFFIX}", tmp_path / f"b{SUFFIX}"
    elsewhere_written, old = filed(other, 20)
    old.flush()
    elsewhere_written.close()
    writer, run = filed(path, 2 * TAIL)
    run.flush()
    while writer.waiting:
        time.sleep(0.001)
    run.append(plain(2 * TAIL))  # what is committed leaves the memory
    copied = RunCopy(run)
    other.replace(path)
    assert "replaced by another file" in run[0].rule_reason
    with pytest.raises(SessionFileError, match="replaced by another file"):
        copied.run[0]
    run.close()
    writer.close()
