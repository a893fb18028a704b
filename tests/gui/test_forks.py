"""Forking in the window, with the real engine on the toy: the dialog, the new run, its place in the list."""

from __future__ import annotations

import threading

import pytest
from PySide6.QtWidgets import QMenu

from app.dialogs.fork_dialog import ACCEPT, REJECT, TOKEN, ForkDialog
from app.main_window import MainWindow
from app.recorder import Recorder
from app.session import Session
from app.worker import EngineRoom
from engine.forks import Forced
from engine.recording import OpenedSession
from engine.rounds import Round
from engine.run_copy import FirstRounds
from engine.session_file import SUFFIX
from engine.settings import Settings
from tests.gui.fakes import fake_run
from tests.gui.windows import store_in

SETTINGS = Settings(seed=5, max_tokens=60, stochastic=True, diagnostics=True)


@pytest.fixture
def window(qtbot, tmp_path):
    session = Session(EngineRoom, recorder=Recorder(folder=tmp_path / "sessions"))
    made = MainWindow(session, store_in(tmp_path))
    qtbot.addWidget(made)
    made.show()
    session.configure("the cat sat", SETTINGS)
    session.run_toy()
    qtbot.waitUntil(lambda: session.state == "ready" and len(session.recording.runs) == 1, timeout=20000)
    yield made
    assert session.shutdown()


def emitted(rounds: list[Round]) -> list[int]:
    return [e.token for r in rounds for e in r.emitted]


def wait_for_run(qtbot, window: MainWindow, count: int) -> None:
    session = window.session
    qtbot.waitUntil(lambda: len(session.recording.runs) == count and session.state == "ready", timeout=20000)


def test_a_fork_that_changes_nothing_is_the_run_again_and_stands_in_the_list(qtbot, window: MainWindow) -> None:
    session = window.session
    original = session.recording.runs[0]
    session.view.select(6)
    assert window.actions_by_name["fork"].isEnabled()
    window.actions_by_name["fork"].trigger()
    dialog = window.findChild(ForkDialog)
    assert dialog is not None
    assert "Nothing is changed" in dialog.told.text()
    dialog.accept()
    wait_for_run(qtbot, window, 2)
    fork = session.recording.runs[1]
    assert fork is session.view.run
    assert fork.tokens == original.tokens
    assert len(fork) == len(original)
    assert fork.parent == (original, 6)
    assert fork.header.notices[-1] == "Forked before round 6: nothing changed."
    menu = QMenu(window)
    window.recordings.fill_runs(menu)
    assert menu.actions()[1].text().endswith("forked from run 1 before round 6")
    menu.deleteLater()
    assert session.recorder is not None
    assert session.recorder.writer is not None
    path = session.recorder.writer.path
    window.close()
    assert session.shutdown()
    opened = OpenedSession(path)
    assert opened.runs[1].parent == (opened.runs[0], 6)
    assert opened.runs[1].tokens == original.tokens
    opened.close()
    assert path.suffix == SUFFIX


def test_the_rounds_before_a_fork_are_read_on_the_engines_thread(qtbot, window: MainWindow, monkeypatch) -> None:
    read, close = FirstRounds.__getitem__, FirstRounds.close
    threads: set[int] = set()
    closed: list[int] = []

    def noted(self: FirstRounds, index: int) -> Round:
        threads.add(threading.get_ident())
        return read(self, index)

    monkeypatch.setattr(FirstRounds, "__getitem__", noted)
    monkeypatch.setattr(FirstRounds, "close", lambda self: (closed.append(1), close(self)))
    session = window.session
    session.fork(session.recording.runs[0], 6, SETTINGS)
    wait_for_run(qtbot, window, 2)
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    assert closed == [1]


def test_a_decree_and_other_settings_take_effect(qtbot, window: MainWindow) -> None:
    session = window.session
    original = session.recording.runs[0]
    at = next(r.index for r in original if r.accepted >= 1 and r.index > 2)
    session.view.select(at)
    window.recordings.fork()
    dialog = window.findChild(ForkDialog)
    assert dialog is not None
    dialog.fields["temperature"].set_value(1.5)
    dialog.decree.set_value(REJECT)
    dialog.position.set_value(1)
    assert "original run isn't touched" in dialog.told.text()
    dialog.accept()
    wait_for_run(qtbot, window, 2)
    fork = session.recording.runs[1]
    assert emitted([fork[i] for i in range(at)]) == emitted([original[i] for i in range(at)])
    assert fork[at].accepted == 0
    assert fork[at].forced == "forced reject at position 1"
    assert fork.header.settings.sampler.temperature == 1.5
    assert "temperature 0.7 → 1.5, forced reject at position 1" in fork.header.notices[-1]
    assert any("temperature 0.7 → 1.5" in notice.text for notice in window.banner.notices())


def test_a_trial_becomes_a_fork_with_a_lane_of_its_own(qtbot, window: MainWindow) -> None:
    session = window.session
    window.resize(1440, 900)
    original = session.recording.runs[0]
    record = next(r for r in original if r.rejected_at == 0)
    session.view.select(record.index, 0)
    window.actions_by_name["try_test"].trigger()
    page = window.docks["what-if"].widget().trial
    assert page.isVisible()
    page.coin.setValue(0)
    page.fork.click()
    dialog = window.findChild(ForkDialog)
    assert dialog is not None
    dialog.accept()
    wait_for_run(qtbot, window, 2)
    fork = session.recording.runs[1]
    assert fork[record.index].drafts[0].fate == "accepted"
    assert fork[record.index].forced == "forced accept at position 1"
    tree = window.docks["timeline"].widget().tree
    qtbot.waitUntil(tree.isVisible, timeout=2000)
    assert [(lane.run, lane.start) for lane in tree.lanes()] == [(original, 0), (fork, record.index)]
    tree.show_lane(0)
    assert session.view.run is original
    session.view.show_run(fake_run(5))
    assert "Load the models" in page.fork.toolTip()


def test_a_fork_needs_rounds_and_the_models_that_recorded_them(qtbot, window: MainWindow) -> None:
    session = window.session
    assert session.can("fork") is None
    session.view.show_run(fake_run(5))
    assert "Load the models that recorded this run first" in (session.can("fork") or "")
    session.view.show_run(None)
    assert session.can("fork") is not None


def test_a_recorded_change_that_cannot_be_is_told(qtbot, window: MainWindow) -> None:
    run = window.session.recording.runs[0]
    run.changes = [(0, {"drafter": "magic"})]
    window.session.view.select(2)
    said: list[str] = []
    window.session.message.connect(lambda kind, text: said.append(text))
    window.recordings.fork()
    assert window.findChild(ForkDialog) is None
    assert "can't be forked: drafter: 'magic' is no kind" in said[0]
    run.changes = [(1, {"max_tokens": 5})]
    window.session.fork(run, 2, SETTINGS)
    assert "can't be forked: max_tokens" in said[1]
    assert window.session.state == "ready"


def test_the_dialog_says_what_is_wrong_and_reads_back_what_was_chosen(qtbot) -> None:
    record = fake_run(3)[1]
    dialog = ForkDialog(SETTINGS, record, 0)
    qtbot.addWidget(dialog)
    assert dialog.settings() == SETTINGS
    assert dialog.forced() is None
    assert not dialog.position.isEnabled()
    dialog.decree.set_value(TOKEN)
    dialog.token.set_value(3)
    assert dialog.forced() == Forced(0, "token", 3)
    dialog.decree.set_value(ACCEPT)
    assert dialog.forced() == Forced(0, "accept")
    assert not dialog.token.isEnabled()
    for field, text in ((dialog.fields["num_draft_tokens"], "-2"), (dialog.position, "0")):
        before = field.text()
        field.lineEdit().setText(text)
        assert not dialog.ok.isEnabled()
        assert dialog.told.text()
        field.lineEdit().setText(before)
        assert dialog.ok.isEnabled()
    drafter = dialog.fields["drafter"]
    for text, part in (("requantized:3", ""), ("magic", "is no kind of drafter"), ("sample", "")):
        drafter.setEditText(text)
        assert dialog.ok.isEnabled() is not bool(part)
        assert part in dialog.told.text()
        assert part or dialog.settings().drafter == text


def test_a_fork_may_have_another_drafter(qtbot, window: MainWindow) -> None:
    session = window.session
    original = session.recording.runs[0]
    session.view.select(6)
    window.actions_by_name["fork"].trigger()
    dialog = window.findChild(ForkDialog)
    assert dialog is not None
    dialog.fields["drafter"].set_value("greedy")
    dialog.accept()
    wait_for_run(qtbot, window, 2)
    fork = session.recording.runs[1]
    assert fork.header.notices[-1] == "Forked before round 6: drafter sample → greedy."
    assert [(at, found.drafter) for at, found in fork.taken_over] == [(6, "greedy")]
    assert fork.tokens[: len(emitted(list(original)[:6]))] == emitted(list(original)[:6])
