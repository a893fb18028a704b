"""The comparison window: what it offers and says in every state, and how it moves the main window's cursor."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFileDialog

from app import theme
from app.labs import compare_window
from app.labs.compare_window import NO_RUNS, NOT_ALIGNED, ONE_RUN, SAME, CompareWindow
from app.main_window import MainWindow
from app.session import Session
from app.side_thread import SideThread
from engine.recording import RecordedRun
from engine.session_file import SUFFIX
from engine.text import toy_vocabulary
from tests.gui.fake_engine import FakeRoom, Script
from tests.gui.fakes import end_run, fake_run
from tests.gui.test_recordings import recorded_file
from tests.gui.windows import Opener

Opened = Callable[..., CompareWindow]


def ended(seed: int = 1, rounds: int = 30, **options: Any) -> RecordedRun:
    run = fake_run(rounds, seed=seed, **options)
    end_run(run)
    return run


@pytest.fixture
def session(qtbot, qapp) -> Iterator[Session]:
    theme.apply(qapp, "light")
    made = Session(lambda: FakeRoom(Script()))
    yield made
    assert made.shutdown()


@pytest.fixture
def opened(qtbot, session: Session) -> Iterator[Opened]:
    """Open the window over these runs, the last of them shown; `opened(a, b)`, done when it is still."""
    side = SideThread()

    def made(*runs: RecordedRun) -> CompareWindow:
        session.recording.runs += runs
        if runs:
            session.view.show_run(runs[-1])
        window = CompareWindow(session, side)
        qtbot.addWidget(window)
        window.resize(1100, 700)
        window.show()
        still(qtbot, window)
        return window

    yield made
    side.close()


def still(qtbot, window: CompareWindow) -> None:
    qtbot.waitUntil(lambda: not window.busy, timeout=20_000)


def test_two_runs_are_compared_at_once(qtbot, opened: Opened) -> None:
    a, b = ended(1), ended(2, rule="sampler-match")
    window = opened(a, b)
    assert [source.run for source in window.chosen() if source] == [b, a], "the run shown, against the newest other"
    assert "Per-position acceptance is" in window.verdict.text()
    assert "▲ Equal seeds don't give equal tokens" in window.warnings.text()
    assert "Two runs are two texts" in window.warnings.text()
    assert "is the first that differs" in window.where.text()
    assert window.tests.row_count() == 2
    assert window.tests.texts(0)[0] == "A"
    assert "fresh draw" in window.tests.texts(0)[8] or "nothing" in window.tests.texts(0)[8]
    names = [window.counters.texts(row)[0] for row in range(window.counters.row_count())]
    assert {"rounds", "per_position_acceptance", "acceptance_at_position_1", "max_abs_drift"} <= set(names)
    row = window.counters.texts(names.index("rounds"))
    assert (row[1], row[3], row[5]) == ("30", "30", "0")
    assert window.state.isHidden()
    assert window.empty.isHidden()
    assert "accepted / tested" in window.charts.accessibleDescription()


@pytest.mark.parametrize("count", [0, 1])
def test_without_a_second_run_it_says_what_to_do(opened: Opened, count: int) -> None:
    window = opened(*(ended() for _ in range(count)))
    assert window.empty.text() == (ONE_RUN if count else NO_RUNS)
    assert window.empty.isVisible()
    assert not window.again.isEnabled()
    assert window.again.toolTip().endswith(window.empty.text())
    assert not window.copy.isEnabled()
    assert not window.counters.isVisible()


def test_a_run_is_not_compared_with_itself(qtbot, opened: Opened) -> None:
    window = opened(ended(1), ended(2))
    window.pickers[1].setCurrentIndex(window.pickers[0].currentIndex())
    window.compare()
    assert window.empty.text() == SAME
    assert not window.busy


def test_a_fork_is_compared_with_its_origin(opened: Opened) -> None:
    origin, other, fork = ended(1), ended(2), ended(1)
    fork.parent = origin, 3
    window = opened(origin, other, fork)
    assert [source.run for source in window.chosen() if source] == [fork, origin]
    assert "forked from run 1 before round 3" in window.pickers[0].currentText()
    assert window.where.text() == f"All {len(fork.tokens)} tokens are the same."
    assert not window.tests.isVisible()
    assert window.streams.isVisible()
    assert not window.goes[0].isVisible()


def test_a_run_that_goes_is_compared_as_it_stands(qtbot, opened: Opened, session: Session) -> None:
    going, other = fake_run(30, seed=1), ended(2)
    window = opened(other, going)
    assert "A as it stood after 30 rounds." in window.state.text()
    assert "Press Compare" in window.state.text()
    rounds = list(fake_run(60, seed=1))[30:]
    for record in rounds:
        going.append(record)
    window.again.click()
    still(qtbot, window)
    assert "A as it stood after 60 rounds." in window.state.text()


def test_other_vocabularies_leave_the_counters(opened: Opened) -> None:
    other = ended(2)
    words = tuple(f" w{at}" for at in range(len(other.header.vocabulary)))
    other.header = dataclasses.replace(other.header, vocabulary=toy_vocabulary(words))
    window = opened(ended(1), other)
    assert window.where.text() == NOT_ALIGNED
    assert "vocabularies aren't the same" in window.warnings.text()
    assert not window.streams.isVisible()
    assert window.counters.isVisible()
    assert window.counters.row_count() > 10


def test_clicking_the_first_difference_selects_its_round(qtbot, opened: Opened, session: Session) -> None:
    b, a = ended(1), ended(2)
    window = opened(b, a)
    assert window._compared is not None
    streams = window._compared[0].streams
    first = window._compared[0].found.first
    assert streams is not None
    assert streams.differs is not None
    assert first is not None
    assert first.a is not None
    assert first.b is not None
    place = window.streams.lines.place_of(0, streams.differs)
    qtbot.mouseClick(window.streams.lines, Qt.MouseButton.LeftButton, pos=place)
    assert (session.view.round_index, session.view.position) == (first.a.round, first.a.position)
    assert "is selected in the window" in window.state.text()
    session.view.select(20)
    qtbot.mouseClick(
        window.streams.lines, Qt.MouseButton.LeftButton, pos=window.streams.lines.place_of(1, streams.differs)
    )
    assert session.view.round_index == 20, "B isn't shown"
    assert "press Go to B" in window.state.text()
    window.goes[1].click()
    assert session.view.run is b
    assert session.view.round_index == first.b.round
    window.tests.row_pressed.emit(1, 0)
    assert "of B is selected" in window.state.text()
    qtbot.keyClick(window.streams, Qt.Key.Key_Return)
    assert "press Go to A" in window.state.text()


def test_a_run_of_another_file_is_compared_without_opening_it(
    qtbot, opened: Opened, session: Session, tmp_path: Path
) -> None:
    window = opened(ended(2))
    path = recorded_file(tmp_path / f"<b>a{SUFFIX}", prompt="<i>recorded</i>")
    window.choose_file(1)
    dialog = window.findChild(QFileDialog)
    assert dialog is not None
    dialog.close()
    window.take_file(1, str(path))
    assert window.busy
    assert window.empty.text() == "Reading the file…"
    still(qtbot, window)
    assert window.pickers[1].currentText().startswith(f"<b>a{SUFFIX}: Run 1")
    assert "Per-position acceptance" in window.verdict.text()
    assert session.opened == []
    assert window.goes[0].isEnabled()
    assert not window.goes[1].isEnabled()
    assert "isn't open in the window" in window.goes[1].toolTip()
    assert session.open_recording(path)
    window.compare()
    still(qtbot, window)
    window.goes[1].click()
    assert session.view.run is session.opened[0].runs[0], "by now the window knows it"
    for label in (window.verdict, window.warnings, window.where, window.why, window.state, window.empty):
        assert label.textFormat() == Qt.TextFormat.PlainText


@pytest.mark.parametrize("kind", ["foreign", "missing", "cut"])
def test_a_bad_file_is_refused_in_words(qtbot, opened: Opened, tmp_path: Path, kind: str) -> None:
    window = opened(ended(1), ended(2))
    path = recorded_file(tmp_path / f"bad{SUFFIX}")
    if kind == "foreign":
        path.write_text("a shopping list " * 100)
    elif kind == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:5000])
    window.take_file(0, str(path))
    still(qtbot, window)
    shown = window.state.text() or window.empty.text()
    assert shown.startswith("It can't be compared.")
    assert f"bad{SUFFIX}" in shown
    window.compare()
    still(qtbot, window)
    assert "Per-position acceptance" in window.verdict.text(), "the window lives on"


def test_it_can_be_stopped_and_closed_in_the_middle(qtbot, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    window = opened(ended(1), ended(2))
    go, entered, jobs = threading.Event(), threading.Event(), []

    def slow(a: Any, b: Any) -> Any:
        def steps(job: Any, report: Any) -> Iterator[Any]:
            jobs.append(job)
            entered.set()
            go.wait(10)
            yield from ()

        return steps

    monkeypatch.setattr(compare_window, "compare_steps", slow)
    window.compare()
    assert window.empty.text() == "Comparing…"
    assert window.again.text() == "Stop"
    assert entered.wait(5)
    window.again.click()
    assert not window.busy
    assert jobs[0].cancelled
    assert "Stopped" in window.empty.text()
    entered.clear()
    window.compare()
    assert entered.wait(5)
    window.close()
    assert not window.busy
    assert jobs[1].cancelled
    go.set()


def test_swap_and_copy(qtbot, opened: Opened) -> None:
    a, b = ended(1), ended(2)
    window = opened(b, a)
    verdict = window.verdict.text()
    window.swap.click()
    still(qtbot, window)
    assert [source.run for source in window.chosen() if source] == [b, a]
    assert window.verdict.text() != verdict
    with qtbot.waitSignal(window.copied):
        window.copy.click()
    text = QGuiApplication.clipboard().text()
    assert text == window.text()
    assert window.verdict.text() in text
    assert text.startswith("A: Run 1")
    window.charts.copy()
    assert QGuiApplication.clipboard().text().startswith("run\tround\tcumulative")
    window.streams.copy()
    lines = QGuiApplication.clipboard().text().split("\n")
    assert len({line.count("\t") for line in lines}) == 1


def test_new_runs_are_offered_and_the_first_pair_is_compared(qtbot, opened: Opened, session: Session) -> None:
    window = opened(ended(1))
    assert window.empty.text() == ONE_RUN
    run = ended(2)
    session.recording.runs.append(run)
    session.view.show_run(run)
    still(qtbot, window)
    assert next(source.run for source in window.chosen() if source) is run
    assert "Per-position acceptance" in window.verdict.text()
    session.recording.runs.append(third := ended(3))
    session.view.show_run(third)
    assert window.pickers[0].count() == 3
    assert next(source.run for source in window.chosen() if source) is run, "what was chosen stays"


def test_it_is_painted_in_both_schemes_and_tells_what_the_pointer_is_on(qtbot, qapp, opened: Opened) -> None:
    a = ended(1)
    window = opened(ended(2, rounds=50), a)
    pictures = []
    for scheme in ("light", "dark"):
        theme.apply(qapp, scheme)
        pictures.append(window.grab().toImage())
    assert pictures[0] != pictures[1]
    first = window._compared[0].streams  # type: ignore[index]
    assert first is not None
    tip = window.streams.lines.tip(window.streams.lines.place_of(1, first.first))
    assert tip.startswith(f"B, token {first.first}: ")
    assert window.streams.lines.tip(QPoint(0, 0)) == ""
    tip = window.charts.tip_at(window.charts.x_of(3))
    assert tip.startswith("Round 3\nA: accepted / tested")
    assert "B: " in tip
    assert "A: had ended" in window.charts.tip_at(window.charts.x_of(45))
    assert window.charts.tip_at(-5) == ""


def test_the_menu_opens_it_once_and_closing_the_window_ends_it(qtbot, open_window: Opener) -> None:
    main: MainWindow = open_window(Script())
    main.session.recording.runs += [ended(1), ended(2)]
    main.actions_by_name["compare_runs"].trigger()
    found = main.dialogs.by_name["compare"]
    assert isinstance(found, CompareWindow)
    assert not found.isModal()
    main.actions_by_name["compare_runs"].trigger()
    assert main.dialogs.by_name["compare"] is found
    found.help.click()
    assert "help" in main.dialogs.by_name
    main.close()
    assert not main.dialogs.side_thread.busy
    assert not found.isVisible()
