"""The session: what is possible when, what it records, what it says, and that nothing ticks while nothing happens."""

from __future__ import annotations

import random
import statistics
import time

import pytest
from PySide6.QtWidgets import QWidget

from app import session as module
from app.notices import notices
from app.session import ACTIONS, Session
from app.worker import BUNDLED, STATES
from engine.settings import Settings
from tests.gui.fake_engine import FakeRoom


def wait_for(qtbot, session: Session, state: str) -> None:
    qtbot.waitUntil(lambda: session.state == state, timeout=5000)


@pytest.fixture
def paused(qtbot, session: Session) -> Session:
    session.start_run("a prompt", Settings(), pause_after=3)
    wait_for(qtbot, session, "paused")
    return session


POSSIBLE = {
    "idle": {"run", "run_to", "run_to_drift", "step", "load", "edit", "change", "pace", "close", "job"},
    "loading": {"stop", "load", "edit", "change", "pace", "close"},
    "ready": {"run", "run_to", "run_to_drift", "step", "load", "edit", "change", "pace", "close", "job"},
    "running": {"run_to", "run_to_drift", "pause", "toggle_pause", "stop", "change", "pace", "close"},
    "paused": {
        "continue",
        "run_to",
        "run_to_drift",
        "check",
        "toggle_pause",
        "stop",
        "step",
        "change",
        "pace",
        "close",
    },
    "stopping": {"run", "run_to", "run_to_drift", "step", "load", "edit", "change", "pace", "close"},
    "failed": {"run", "run_to", "run_to_drift", "step", "load", "edit", "change", "pace", "close", "job"},
}


@pytest.mark.parametrize("state", STATES)
def test_what_is_possible_in_every_state(session, state) -> None:
    session.state = state
    assert {action for action in ACTIONS if session.can(action) is None} == POSSIBLE[state]
    for action in ACTIONS:
        reason = session.can(action)
        assert reason is None or (reason[0].isupper() and reason[-1] == "."), reason


def test_an_action_that_is_refused_does_nothing_and_says_why(qtbot, paused, messages, script) -> None:
    paused.start_run("other", Settings())
    paused.load("other", None)
    assert messages == [("notice", module.STANDING)] * 2
    assert len(script.named("start")) == 1
    assert script.named("load") == [(BUNDLED, BUNDLED)]
    assert paused.prompt == "a prompt"


def test_run_without_a_pair_loads_the_bundled_one(qtbot, session, script) -> None:
    script.rounds = 5
    with qtbot.waitSignal(session.run_ended, timeout=5000) as ended:
        session.start_run()
    assert script.named("load") == [(BUNDLED, BUNDLED)]
    assert script.named("start") == [(module.DEFAULT_PROMPT, Settings())]
    assert len(ended.args[0]) == 5
    assert ended.args[0].end.finish_reason == "length"
    wait_for(qtbot, session, "ready")
    assert session.view.run is ended.args[0] is session.recording.runs[-1]


def test_a_load_that_fails_or_is_stopped_starts_no_run(qtbot, session, script, messages) -> None:
    script.fail_load = "no such folder"
    session.start_run()
    wait_for(qtbot, session, "failed")
    assert messages == [("error", "no such folder")]
    assert session.failure == "no such folder"
    script.fail_load, script.load_delay, script.load_steps = "", 30.0, 1000
    session.start_run()
    wait_for(qtbot, session, "loading")
    session.stop()
    wait_for(qtbot, session, "idle")
    assert session.pair is None
    assert script.named("start") == []
    assert session.failure == ""


def test_the_state_comes_after_its_rounds(qtbot, session, script) -> None:
    """Whoever hears of a pause or an end finds every round before it recorded."""
    counts: list[tuple[str, int, int]] = []

    def heard(state: str) -> None:
        run = session.view.run
        counts.append((state, len(run) if run else 0, len(script.named("round"))))

    session.state_changed.connect(heard)
    session.start_run(pause_after=40)
    wait_for(qtbot, session, "paused")
    session.toggle_pause()
    qtbot.wait(60)
    session.stop()
    wait_for(qtbot, session, "ready")
    assert ("paused", 40, 40) in counts
    state, recorded, made = counts[-1]
    assert state == "ready"
    assert recorded == made
    assert session.view.run.end.finish_reason == "cancelled"


def test_the_view_hears_at_most_once_a_frame(qtbot, session, script) -> None:
    heard: list[int] = []
    session.view.advanced.connect(lambda: heard.append(len(session.view.run)))
    script.rounds = 2000
    session.start_run()
    qtbot.waitUntil(lambda: session.view.run is not None and session.view.run.end is not None, timeout=10_000)
    assert len(session.view.run) == 2000
    assert heard[-1] == 2000
    assert len(heard) < 200
    assert session.view.round_index == 1999


def test_costly_painting_slows_the_frames_not_the_engine(qtbot, session, script) -> None:
    """Frames leave time between them in proportion to what they cost; every round still arrives."""
    script.round_delay = 0.001
    session.view.advanced.connect(lambda: time.sleep(0.02))
    session.start_run()
    qtbot.waitUntil(lambda: session._next_frame - session._began >= 4 * 0.02, timeout=5000)
    session.stop()
    wait_for(qtbot, session, "ready")
    assert len(session.view.run) == len(script.named("round"))


def test_panels_take_turns_at_full_speed_and_none_is_left_behind(qtbot, session, script, monkeypatch) -> None:
    """With no time for panels one of them is refreshed a frame; when rounds cease, frames go on until all are."""
    monkeypatch.setattr(module, "WORK_BUDGET", 0.0)
    turns: list[tuple[float, str]] = []

    class Panel(QWidget):
        def refresh(self) -> None:
            turns.append((session._began, self.objectName()))

    for name in "abc":
        panel = Panel()
        panel.setObjectName(name)
        qtbot.addWidget(panel)
        panel.show()
        session.view.join(panel, panel.refresh)
    script.round_delay = 0.001
    session.start_run()
    qtbot.waitUntil(lambda: len({frame for frame, _ in turns}) > 8, timeout=5000)
    frames = sorted({frame for frame, _ in turns})[2:-1]
    # A thread that was held up may leave a frame without a round, and so with time for all.
    assert statistics.median(sum(frame == f for f, _ in turns) for frame in frames) == 1
    assert {name for frame, name in turns if frame in frames} == set("abc")
    session.set_pace(60.0)
    qtbot.waitUntil(lambda: not session.view.behind and not session._frame_timer.isActive(), timeout=5000)
    assert session.state == "running"
    turns.clear()
    session.toggle_pause()
    wait_for(qtbot, session, "paused")
    session.step_round()
    qtbot.waitUntil(lambda: len(turns) == 3, timeout=2000)
    assert len({frame for frame, _ in turns}) == 1, "after a quiet time all at once"


def test_a_pause_finds_no_panel_behind(qtbot, session) -> None:
    behind: list[bool] = []

    class Panel(QWidget):
        def refresh(self) -> None:
            self.update()

    for _ in range(3):
        panel = Panel()
        qtbot.addWidget(panel)
        panel.show()
        session.view.join(panel, panel.refresh)
    session.state_changed.connect(lambda state: behind.append(session.view.behind) if state == "paused" else None)
    session.set_pace(60.0)
    session.start_run()
    qtbot.waitUntil(lambda: session.view.round is not None and not session._frame_timer.isActive(), timeout=5000)
    session.view.notify_advanced(0.0)
    assert session.view.behind
    session.toggle_pause()
    wait_for(qtbot, session, "paused")
    assert behind == [False], "though no round came with the pause"


def test_nothing_ticks_in_a_pause(qtbot, paused) -> None:
    """Idle CPU: no timer runs while no round arrives."""
    qtbot.wait(80)
    assert not paused._frame_timer.isActive()
    assert not paused._painted_timer.isActive()
    frames: list[int] = []
    paused._frame_timer.timeout.connect(lambda: frames.append(1))
    qtbot.wait(150)
    assert frames == []
    paused.step_round()
    qtbot.waitUntil(lambda: len(paused.view.run) == 4, timeout=2000)
    assert len(frames) == 1


def test_step_from_ready_starts_a_run_of_one_round(qtbot, session, script) -> None:
    session.load_toy()
    wait_for(qtbot, session, "ready")
    session.step_round("p", Settings(seed=3))
    wait_for(qtbot, session, "paused")
    assert len(session.view.run) == 1
    assert script.named("start") == [("p", Settings(seed=3))]
    session.step_round()
    qtbot.waitUntil(lambda: len(session.view.run) == 2, timeout=2000)
    assert session.state == "paused"
    assert session.pausing


def test_toggle_pause_takes_back_a_pause_that_has_not_come(qtbot, session, script) -> None:
    script.round_delay = 0.2
    session.start_run()
    wait_for(qtbot, session, "running")
    session.toggle_pause()
    assert session.pausing
    assert session.state == "running"
    session.toggle_pause()
    assert not session.pausing
    qtbot.waitUntil(lambda: len(script.named("round")) >= 3, timeout=3000)


def test_live_changes_go_to_the_run_and_the_next(qtbot, paused, messages, script) -> None:
    paused.change(stochastic=True)
    assert paused.settings.stochastic
    paused.step_round()
    qtbot.waitUntil(lambda: len(script.named("round")) == 4, timeout=2000)
    assert script.named("round")[-1] == ({"stochastic": True},)
    paused.change(max_tokens=5)
    assert messages[-1][0] == "error"
    assert "max_tokens" in messages[-1][1]
    assert paused.settings.max_tokens == Settings().max_tokens


def test_runs_are_never_mixed(qtbot, session, script) -> None:
    """R138: stop and run in quick succession; every run keeps its own rounds and its own end."""
    session.load_toy()
    wait_for(qtbot, session, "ready")
    for _ in range(6):
        session.start_run(settings=Settings(seed=1))
        qtbot.wait(7)
        session.stop()
    wait_for(qtbot, session, "ready")
    assert len(script.named("round")) == sum(len(run) for run in session.recording.runs)
    for run in session.recording.runs:
        assert run.end is not None
        assert run.end.finish_reason == "cancelled"
        assert [record.index for record in run] == list(range(len(run)))
    ids = [run.header.run_id for run in session.recording.runs]
    assert ids == sorted(set(ids))


def test_memory_is_shown_from_what_the_worker_saw(qtbot, session, paused) -> None:
    assert session.memory_text == "MLX 1.0 MiB + 2.0 MiB cache"


def said(session: Session) -> list[str]:
    return [notice.text for notice in notices(session)]


def test_the_banner_says_what_is_not_as_asked(qtbot, session) -> None:
    session.start_run("x", Settings(kill_switch=True), pause_after=2)
    wait_for(qtbot, session, "paused")
    assert said(session) == ["Kill switch on: rule = stochastic."]  # the fake engine knows but one rule
    session.change(kill_switch=False, rewind="legacy-rewind")
    assert session.live_settings.kill_switch, "a change is told once a round ran with it"
    session.step_round()
    qtbot.waitUntil(lambda: said(session) == ["Rewind fault on: legacy-rewind trims r + 1 instead of r - 1. Drift 0."])
    assert session.live_settings == Settings(rewind="legacy-rewind")
    session.change(rewind="correct")
    assert said(session) != []
    session.step_round()
    qtbot.waitUntil(lambda: said(session) == [])


def test_the_toy_gets_a_prompt_that_it_can_read(qtbot, session, script, messages) -> None:
    session.load_toy()
    wait_for(qtbot, session, "ready")
    assert session.prompt == module.TOY_PROMPT
    assert messages == []
    session.load()
    wait_for(qtbot, session, "loading")
    wait_for(qtbot, session, "ready")
    assert session.prompt == module.DEFAULT_PROMPT
    session.configure(prompt="Call me Ishmael")
    session.run_toy(pause_after=1)
    wait_for(qtbot, session, "paused")
    assert script.named("start")[0][0] == module.TOY_PROMPT
    assert messages[0][0] == "notice"
    assert "Call me" not in messages[0][1]


def test_a_failing_run_is_recorded_and_told(qtbot, session, script, messages, caplog) -> None:
    script.end_by_error = 2
    session.start_run()
    wait_for(qtbot, session, "failed")
    assert len(session.view.run) == 2
    assert session.view.run.end.finish_reason == "error"
    assert messages == [("error", "non-finite logits at position 3 (target)")]
    assert said(session) == ["The run ended by an error: non-finite logits at position 3 (target)"]
    script.end_by_error = -1
    session.start_run(pause_after=1)
    wait_for(qtbot, session, "paused")
    assert said(session) == []
    assert len(session.recording.runs) == 2


@pytest.mark.parametrize("seed", range(4))
def test_fast_clicks_in_any_order(qtbot, script, seed) -> None:
    """Whatever is clicked in whatever order, the session ends clean and every run is whole."""
    dice = random.Random(seed)
    script.load_delay, script.prefill_delay, script.round_delay = 0.02, 0.002, 0.001
    session = Session(lambda: FakeRoom(script))
    clicks = [
        session.start_run,
        session.toggle_pause,
        session.step_round,
        session.stop,
        session.load,
        session.load_toy,
        session.run_toy,
        lambda: session.change(stochastic=dice.random() < 0.5),
        lambda: session.set_pace(dice.choice((0.0, 0.01, 60.0))),
    ]
    for _ in range(120):
        dice.choice(clicks)()
        if dice.random() < 0.5:
            qtbot.wait(dice.choice((0, 1, 5)))
    assert session.shutdown()
    for run in session.recording.runs[:-1]:
        assert run.end is not None
    assert script.most_loading <= 1
