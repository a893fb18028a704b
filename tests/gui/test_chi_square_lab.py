"""The chi-square lab in its window: starts, stops, resets, says why not, copies, and closes in the middle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtGui import QGuiApplication

from app import theme
from app.labs.chi_square import SAMPLES, ChiSquareLab
from app.labs.chi_square_arms import cells
from app.main_window import MainWindow
from app.session import Session
from app.worker import EngineRoom
from engine.goodness import ARMS, Experiment
from engine.settings import Settings
from tests.gui.fake_engine import FakeRoom, Script
from tests.gui.windows import store_in


@pytest.fixture
def session(qtbot, qapp) -> Iterator[Session]:
    theme.apply(qapp, "light")
    made = Session(EngineRoom)
    yield made
    assert made.shutdown()


@pytest.fixture
def lab(qtbot, session: Session) -> ChiSquareLab:
    made = ChiSquareLab(session)
    qtbot.addWidget(made)
    made.show()
    made.pace.set_current(1)
    return made


def finish(qtbot, lab: ChiSquareLab) -> None:
    qtbot.waitUntil(lambda: not lab.running, timeout=30_000)


def reading(lab: ChiSquareLab, rule: str):
    return next(r for r in lab.table.readings() if r.rule == rule)


def test_it_opens_with_the_closed_forms_and_nothing_counted(lab) -> None:
    assert "Σ min(p, q) 0.7053" in lab.forms.text()
    assert "Σ p·q 0.3438" in lab.forms.text()
    assert [r.rule for r in lab.table.readings()] == list(ARMS)
    assert {r.verdict for r in lab.table.readings()} == {"not run"}
    assert lab.start.isEnabled()
    assert not lab.copy.isEnabled()
    assert "Press Start" in lab.state.text()


def test_every_arm_gets_its_verdict(qtbot, lab, session) -> None:
    lab.start.click()
    assert lab.running
    assert lab.start.text() == "Stop"
    assert not lab.k.isEnabled()
    assert "stop it first" in lab.k.toolTip()
    assert session.can("run") == "The chi-square lab is at work: stop it first."
    finish(qtbot, lab)
    verdicts = {r.rule: r.verdict for r in lab.table.readings()}
    assert verdicts == {
        "sampler-match": "passes",
        "stochastic": "passes",
        "block": "passes",
        "resample-from-p": "rejected",
        "argmax-vs-argmax": "rejected",
        "missing-support-check": "rejected: support",
        "raw-q": "rejected",
    }
    assert {r.found.n for r in lab.table.readings()} == {12_000}
    assert reading(lab, "stochastic").unit == "tokens"
    assert reading(lab, "raw-q").unit == "positions"
    assert session.can("run") is None
    assert "threshold 25.7448" in lab.state.text()
    assert "Done" in lab.state.text()


def test_stop_leaves_the_counts_without_a_verdict(qtbot, lab) -> None:
    lab.samples.setValue(len(SAMPLES) - 1)
    lab.start.click()
    qtbot.waitUntil(lambda: reading(lab, "block").found.n > 0, timeout=20_000)
    lab.start.click()
    finish(qtbot, lab)
    counted = reading(lab, "block").found.n
    assert 0 < counted < 1_000_000
    assert reading(lab, "block").verdict == "running" or not reading(lab, "block").done
    assert "Stopped before the end" in lab.state.text()
    lab.reset.click()
    assert reading(lab, "block").found.n == 0
    assert lab.samples.value() == SAMPLES.index(12_000)


def test_it_arrives_live_when_it_is_to_be_watched(qtbot, lab) -> None:
    lab.pace.set_current(0)
    lab.start.click()
    seen: set[int] = set()

    def some() -> bool:
        seen.add(reading(lab, "stochastic").found.n)
        return len(seen) > 4

    qtbot.waitUntil(some, timeout=20_000)
    assert max(seen) < 12_000
    lab.start.click()
    finish(qtbot, lab)


def test_the_fields_reach_the_experiment(qtbot, lab) -> None:
    for field, value in zip(lab.logits["target"], (1, 0.5, 0, 0, -1, -2), strict=True):
        field.set_value(value)
    lab.logits["draft"][0].set_value(3)
    lab.temperature.set_value(1.5)
    lab.k.set_value(2)
    lab.top_k.set_value(3)
    lab.seed.set_value(9)
    lab.samples.setValue(SAMPLES.index(1000))
    assert lab.experiment() == Experiment(
        samples=1000,
        seed=9,
        k=2,
        temperature=1.5,
        target_top_k=3,
        target_logits=(1, 0.5, 0, 0, -1, -2),
        draft_logits=(3, 1.3, 0.2, 0.6, -0.3, -0.8),
    )
    lab.start.click()
    finish(qtbot, lab)
    found = reading(lab, "stochastic")
    assert (found.found.n, found.found.dof, found.outside) == (1000, 2, 0)
    assert found.verdict == "passes"
    lab.k.set_value(3)
    assert reading(lab, "stochastic").verdict == "not run", "what was counted belongs to the old numbers"


def test_what_cannot_be_tested_is_said_and_not_started(lab) -> None:
    lab.temperature.lineEdit().setText("0")
    assert "greedy" in lab.problem.text()
    assert not lab.start.isEnabled()
    assert "greedy" in lab.start.toolTip()
    lab.toggle()
    assert not lab.running
    lab.temperature.set_value(1)
    assert lab.problem.text() == ""
    assert lab.start.isEnabled()


def test_the_numbers_can_be_copied(qtbot, lab) -> None:
    lab.samples.setValue(SAMPLES.index(500))
    lab.start.click()
    finish(qtbot, lab)
    lab.copy.click()
    lines = [line.split("\t") for line in QGuiApplication.clipboard().text().split("\n")]
    assert len(lines) == 1 + len(ARMS)
    assert len({len(line) for line in lines}) == 1
    head, stochastic = lines[0], lines[1 + ARMS.index("stochastic")]
    row = dict(zip(head, stochastic, strict=True))
    assert (row["rule"], row["n"], row["lossless"]) == ("stochastic", "500", "yes")
    assert sum(int(row[name]) for name in head if name.startswith("observed")) == 500
    assert cells(reading(lab, "stochastic"))[0] == "500"


def test_closing_in_the_middle_stops_the_work(qtbot, lab, session) -> None:
    lab.samples.setValue(len(SAMPLES) - 1)
    lab.start.click()
    qtbot.waitUntil(lambda: reading(lab, "block").found.n > 0, timeout=20_000)
    lab.close()
    qtbot.waitUntil(lambda: session.worker.job is None, timeout=10_000)
    assert session.can("run") is None


def test_the_window_may_be_closed_while_its_lab_is_at_work(qtbot, qapp, session, tmp_path) -> None:
    window = MainWindow(session, store_in(tmp_path))
    qtbot.addWidget(window)
    window.show()
    window.actions_by_name["chi_square_lab"].trigger()
    lab = window.dialogs.by_name["chi-square"]
    assert isinstance(lab, ChiSquareLab)
    lab.pace.set_current(1)
    lab.samples.setValue(len(SAMPLES) - 1)
    lab.start.click()
    qtbot.waitUntil(lambda: reading(lab, "block").found.n > 0, timeout=20_000)
    assert not window.actions_by_name["run"].isEnabled()
    assert "The chi-square lab is at work" in window.actions_by_name["run"].toolTip()
    assert window.close()
    assert not lab.isVisible()
    assert session.shutdown()


def test_the_session_may_end_in_the_middle(qtbot, lab, session) -> None:
    lab.samples.setValue(len(SAMPLES) - 1)
    lab.start.click()
    qtbot.waitUntil(lambda: reading(lab, "block").found.n > 0, timeout=20_000)
    assert session.shutdown()


def test_while_a_run_stands_it_says_why_it_cannot_start(qtbot, qapp) -> None:
    session = Session(lambda: FakeRoom(Script()))
    lab = ChiSquareLab(session)
    qtbot.addWidget(lab)
    session.start_run("a prompt", Settings(), pause_after=1)
    qtbot.waitUntil(lambda: session.state == "paused", timeout=5000)
    assert not lab.start.isEnabled()
    assert "A run stands" in lab.start.toolTip()
    session.stop()
    qtbot.waitUntil(lambda: session.state == "ready", timeout=5000)
    assert lab.start.isEnabled()
    assert session.shutdown()


def test_it_is_painted_in_both_schemes_and_tells_what_the_pointer_is_on(qtbot, qapp, lab) -> None:
    lab.samples.setValue(SAMPLES.index(500))
    lab.start.click()
    finish(qtbot, lab)
    pictures = []
    for scheme in ("light", "dark"):
        theme.apply(qapp, scheme)
        pictures.append(lab.grab().toImage())
    assert pictures[0] != pictures[1]
    tip = lab.table.tip_at(lab.table._row_area(1).center())
    assert tip.startswith("stochastic: modified rejection sampling")
    assert "the: " in tip
    assert lab.table.tip_at(lab.table.rect().topLeft()) == ""
