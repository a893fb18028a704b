"""The worker thread and its states, with a fake engine that is slow or broken on demand."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QObject, QTimer

from app.run_gate import RunGate
from app.worker import Delivery, Worker
from engine.rounds import Round, RunEnd, RunHeader
from engine.settings import MAX_SEED, Settings, SettingsError
from tests.gui.fake_engine import FakeRoom, Script


class Watcher(QObject):
    """Keeps what a worker signals and delivers, and the thread that it came on."""

    def __init__(self, worker: Worker) -> None:
        super().__init__()
        self.worker = worker
        self.states: list[str] = []
        self.failures: list[str] = []
        self.threads: set[int] = set()
        self.items: list[Delivery] = []
        worker.state_changed.connect(self.on_state)
        worker.load_failed.connect(self.failures.append)
        worker.run_failed.connect(self.failures.append)
        worker.arrived.connect(self.on_arrived)

    def on_state(self, state: str) -> None:
        self.threads.add(threading.get_ident())
        self.states.append(state)

    def on_arrived(self) -> None:
        self.threads.add(threading.get_ident())
        self.items += self.worker.drain(1.0)

    def rounds(self, run_id: int | None = None) -> list[Round]:
        return [item for number, item in self.items if isinstance(item, Round) and (run_id is None or number == run_id)]

    def ends(self) -> list[RunEnd]:
        return [item for _, item in self.items if isinstance(item, RunEnd)]


@pytest.fixture
def worker(qtbot, script: Script) -> Iterator[Worker]:
    made = Worker(lambda: FakeRoom(script))
    yield made
    assert made.shutdown()
    assert script.calls[-1] == ("close",)
    assert len(script.threads) == 1, "the engine's thread alone"
    assert threading.get_ident() not in script.threads


@pytest.fixture
def watcher(worker: Worker) -> Watcher:
    return Watcher(worker)


def wait_for_state(qtbot, worker: Worker, state: str) -> None:
    qtbot.waitUntil(lambda: worker.state == state, timeout=5000)


@pytest.fixture
def ready(qtbot, worker: Worker, watcher: Watcher) -> Worker:
    worker.load("a", "b")
    wait_for_state(qtbot, worker, "ready")
    return worker


def holds(qtbot, condition: Callable[[], bool], milliseconds: int = 80) -> bool:
    """The condition holds and goes on holding for a while."""
    before = condition()
    qtbot.wait(milliseconds)
    return before and condition()


def test_a_run_goes_from_ready_to_ready_and_delivers_in_order(qtbot, ready, watcher, script) -> None:
    script.rounds = 50
    ready.run("x", Settings())
    wait_for_state(qtbot, ready, "ready")
    qtbot.waitUntil(lambda: bool(watcher.ends()), timeout=2000)
    kinds = [type(item) for _, item in watcher.items]
    assert kinds == [RunHeader] + [Round] * 50 + [RunEnd]
    header = watcher.items[0].item
    assert {number for number, _ in watcher.items} == {header.run_id}
    assert watcher.states == ["loading", "ready", "running", "ready"]
    assert watcher.threads == {threading.get_ident()}
    assert ready.memory == (2**20, 2**21)


def test_lambdas_too_run_on_the_gui_thread(qtbot, ready, script) -> None:
    """R135: a lambda on a signal of another thread would run there and touch widgets."""
    script.rounds = 3
    seen: set[int] = set()
    for signal in (ready.state_changed, ready.arrived, ready.progress):
        signal.connect(lambda *_: seen.add(threading.get_ident()))
    ready.run("x", Settings())
    wait_for_state(qtbot, ready, "ready")
    assert seen == {threading.get_ident()}


def test_the_gui_goes_on_while_loading_and_a_second_pick_waits(qtbot, worker, watcher, script) -> None:
    """R132."""
    script.load_delay = 0.3
    ticks: list[float] = []
    timer = QTimer()
    timer.timeout.connect(lambda: ticks.append(time.monotonic()))
    timer.start(20)
    worker.load("first", None)
    worker.load("second", "draft")
    assert worker.state == "loading"
    wait_for_state(qtbot, worker, "ready")
    timer.stop()
    assert script.named("load") == [("first", None), ("second", "draft")]
    assert script.most_loading == 1
    assert watcher.states == ["loading", "ready"]
    assert len(ticks) > 10


def test_a_failed_load_leaves_the_pair_in_use(qtbot, ready, watcher, script) -> None:
    loaded: list[object] = []
    ready.loaded.connect(loaded.append)
    script.fail_load = "config.json: no model_type"
    ready.load("broken", None)
    wait_for_state(qtbot, ready, "failed")
    assert watcher.failures == ["config.json: no model_type"]
    assert loaded == []
    script.rounds = 2
    ready.run("x", Settings())
    wait_for_state(qtbot, ready, "ready")
    assert len(watcher.rounds()) == 2


def test_loading_can_be_cancelled(qtbot, worker, watcher, script) -> None:
    script.load_delay = 30.0
    script.load_steps = 1000
    worker.load("a", None)
    worker.load("b", None)
    qtbot.waitUntil(lambda: bool(script.named("load")), timeout=2000)
    worker.stop()
    assert worker.state == "stopping"
    wait_for_state(qtbot, worker, "idle")
    assert script.named("load") == [("a", None)], "the load that waited is dropped too"
    assert watcher.failures == []


def test_stop_ends_a_run_as_cancelled(qtbot, ready, watcher, script) -> None:
    script.round_delay = 0.005
    ready.run("x", Settings())
    qtbot.waitUntil(lambda: len(watcher.rounds()) > 3, timeout=2000)
    ready.stop()
    assert ready.state == "stopping"
    wait_for_state(qtbot, ready, "ready")
    qtbot.waitUntil(lambda: bool(watcher.ends()), timeout=2000)
    assert watcher.ends()[0].finish_reason == "cancelled"
    assert watcher.failures == []
    assert len(watcher.rounds()) == len(script.named("round")), "every round that was made has arrived"


def test_stop_during_prefill(qtbot, ready, watcher, script) -> None:
    """R138."""
    script.prefill_delay, script.prefill_chunks = 0.02, 1000
    ready.run("x", Settings())
    qtbot.waitUntil(lambda: bool(script.named("start")), timeout=2000)
    ready.stop()
    wait_for_state(qtbot, ready, "ready")
    qtbot.waitUntil(lambda: bool(watcher.ends()), timeout=2000)
    assert watcher.ends()[0].finish_reason == "cancelled"
    assert watcher.rounds() == []


def test_run_at_once_after_stop_keeps_the_runs_apart(qtbot, ready, watcher, script) -> None:
    """R138: the old run ends as stopped, its late rounds stay its own, its end leaves the new one's state."""
    script.round_delay = 0.005
    ready.run("old", Settings())
    qtbot.waitUntil(lambda: len(watcher.rounds()) > 2, timeout=2000)
    ready.stop()
    ready.run("new", Settings(), pause_after=4)
    wait_for_state(qtbot, ready, "paused")
    qtbot.waitUntil(lambda: len(watcher.rounds(3)) == 4, timeout=2000)
    numbers = [number for number, _ in watcher.items]
    assert numbers == sorted(numbers)
    assert set(numbers) == {2, 3}
    assert watcher.states[2:] == ["running", "stopping", "running", "paused"]
    assert [record.index for record in watcher.rounds(3)] == [0, 1, 2, 3]
    ready.stop()
    wait_for_state(qtbot, ready, "ready")


def test_pause_holds_and_step_is_exactly_one_round(qtbot, ready, watcher, script) -> None:
    script.round_delay = 0.002
    ready.run("x", Settings())
    qtbot.waitUntil(lambda: len(watcher.rounds()) > 2, timeout=2000)
    ready.pause()
    wait_for_state(qtbot, ready, "paused")
    count = len(script.named("round"))
    assert holds(qtbot, lambda: len(script.named("round")) == count)
    for more in (1, 2, 3):
        ready.step()
        qtbot.waitUntil(lambda more=more: len(watcher.rounds()) == count + more, timeout=2000)
        assert holds(qtbot, lambda more=more: len(script.named("round")) == count + more, 40)
    ready.step()
    ready.step()
    qtbot.waitUntil(lambda: len(watcher.rounds()) == count + 5, timeout=2000)
    assert ready.state == "paused"
    ready.resume()
    assert ready.state == "running"
    qtbot.waitUntil(lambda: len(watcher.rounds()) > count + 8, timeout=2000)


def test_a_run_may_begin_with_a_single_step(qtbot, ready, watcher, script) -> None:
    ready.run("x", Settings(), pause_after=1)
    wait_for_state(qtbot, ready, "paused")
    assert holds(qtbot, lambda: len(script.named("round")) == 1)


def test_pause_taken_back_and_asked_again(qtbot, ready, watcher, script) -> None:
    ready.run("x", Settings(), pause_after=2)
    wait_for_state(qtbot, ready, "paused")
    ready.resume()
    ready.pause()
    wait_for_state(qtbot, ready, "paused")
    ready.resume()
    ready.pause()
    ready.resume()
    assert holds(qtbot, lambda: ready.state == "running")


def test_stop_from_pause(qtbot, ready, watcher) -> None:
    ready.run("x", Settings(), pause_after=1)
    wait_for_state(qtbot, ready, "paused")
    ready.stop()
    wait_for_state(qtbot, ready, "ready")


def test_live_changes_come_with_the_next_round(qtbot, ready, watcher, script) -> None:
    ready.run("x", Settings(), pause_after=1)
    wait_for_state(qtbot, ready, "paused")
    ready.change(stochastic=True)
    ready.change(rewind="legacy-rewind")
    ready.step()
    qtbot.waitUntil(lambda: len(script.named("round")) == 2, timeout=2000)
    assert script.named("round") == [({},), ({"stochastic": True, "rewind": "legacy-rewind"},)]
    with pytest.raises(SettingsError, match="max_tokens"):
        ready.change(max_tokens=3)


def test_the_pace_holds_and_a_slow_wait_gives_way(qtbot, ready, watcher, script) -> None:
    """At one round an hour the second one comes only by a step, a change of pace, or never (stop)."""
    ready.set_pace(3600)
    ready.run("x", Settings())
    qtbot.waitUntil(lambda: len(watcher.rounds()) == 1, timeout=2000)
    assert holds(qtbot, lambda: len(script.named("round")) == 1)
    ready.pause()
    wait_for_state(qtbot, ready, "paused")
    ready.step()
    qtbot.waitUntil(lambda: len(watcher.rounds()) == 2, timeout=2000)
    ready.resume()
    assert holds(qtbot, lambda: len(script.named("round")) == 2)
    ready.set_pace(0)
    qtbot.waitUntil(lambda: len(watcher.rounds()) > 20, timeout=2000)
    ready.set_pace(3600)
    count = len(script.named("round")) + 1
    assert holds(qtbot, lambda: len(script.named("round")) <= count)
    ready.stop()
    wait_for_state(qtbot, ready, "ready")


@pytest.mark.allow_log("the run failed")
def test_exceptions_always_end_the_run(qtbot, ready, watcher, script, caplog) -> None:
    """R137: a fault in the worker is told, the recorded run gets its end, and the next run works."""
    script.fail_at_round = 3
    ready.run("x", Settings())
    wait_for_state(qtbot, ready, "failed")
    qtbot.waitUntil(lambda: bool(watcher.ends()), timeout=2000)
    assert watcher.failures == ["RuntimeError: the verify pass broke"]
    assert watcher.ends()[0].finish_reason == "error"
    assert len(watcher.rounds()) == 3
    assert "the verify pass broke" in caplog.text
    caplog.clear()
    script.fail_at_round, script.rounds = -1, 2
    ready.run("x", Settings())
    wait_for_state(qtbot, ready, "ready")


def test_what_the_user_can_mend_is_said_in_the_engine_s_words(qtbot, ready, watcher, script) -> None:
    script.fail_start = "prompt must be non-empty"
    ready.run("", Settings())
    wait_for_state(qtbot, ready, "failed")
    assert watcher.failures == ["prompt must be non-empty"]
    assert watcher.items == []


def test_an_end_by_error_is_a_failure(qtbot, ready, watcher, script) -> None:
    script.end_by_error = 2
    ready.run("x", Settings())
    wait_for_state(qtbot, ready, "failed")
    assert watcher.failures == ["non-finite logits at position 3 (target)"]


@pytest.mark.parametrize("seed", [2**32 - 1, 2**40, MAX_SEED])
def test_large_seeds_reach_the_engine_unchanged(qtbot, ready, script, seed) -> None:
    """R140."""
    script.rounds = 1
    ready.run("x", Settings(seed=seed))
    wait_for_state(qtbot, ready, "ready")
    assert script.named("start")[0][1].seed == seed


@pytest.mark.parametrize("when", ["idle", "loading", "prefill", "running", "slow pace", "paused", "stopping"])
def test_shutdown_in_every_state(qtbot, script, when) -> None:
    worker = Worker(lambda: FakeRoom(script))
    if when == "loading":
        script.load_delay, script.load_steps = 60, 1000
    if when == "prefill":
        script.prefill_delay, script.prefill_chunks = 0.01, 10_000
    if when == "slow pace":
        worker.set_pace(3600)
    if when != "idle":
        worker.load("a", None)
    if when not in ("idle", "loading"):
        wait_for_state(qtbot, worker, "ready")
        worker.run("x", Settings(), pause_after=1 if when == "paused" else None)
        qtbot.wait(30)
    if when == "stopping":
        worker.stop()
    assert worker.shutdown(timeout=2.0)
    assert script.calls[-1] == ("close",)
    with pytest.raises(RuntimeError, match="closing"):
        worker.run("x", Settings())


@pytest.fixture
def unwatched(qtbot, worker: Worker) -> Worker:
    """A ready worker that nobody drains."""
    worker.load("a", "b")
    wait_for_state(qtbot, worker, "ready")
    return worker


def test_the_drain_keeps_to_its_budget_and_loses_nothing(qtbot, unwatched, script) -> None:
    ready = unwatched
    script.rounds = 200
    ready.run("x", Settings())
    wait_for_state(qtbot, ready, "ready")
    items: list[Delivery] = []
    calls = 0
    while ready.waiting:
        calls += 1
        items += ready.drain(0.0)
    assert calls == 202
    assert [type(item) for _, item in items] == [RunHeader] + [Round] * 200 + [RunEnd]


def test_one_wake_up_for_many_rounds(qtbot, unwatched, script) -> None:
    """A signal for every round would flood the GUI's queue."""
    ready = unwatched
    script.rounds = 500
    wakes: list[int] = []
    ready.arrived.connect(lambda: wakes.append(1))
    ready.run("x", Settings())
    wait_for_state(qtbot, ready, "ready")
    assert len(wakes) == 1


def test_the_gate_refuses_nothing_but_rounds_beyond_its_allowance() -> None:
    parked: list[int] = []
    gate = RunGate(rounds=2, on_parked=lambda: parked.append(1))
    assert gate.pass_boundary()
    assert gate.pass_boundary()
    assert gate.pausing
    assert not gate.parked
    gate.stop()
    assert not gate.pass_boundary()
    assert parked == []


def test_a_run_waits_for_the_file_says_so_once_and_still_stops(qtbot, ready, watcher, script) -> None:
    said: list[str] = []
    ready.noted.connect(said.append)
    behind = [False]
    ready.must_wait = lambda: behind[0]
    ready.run("a prompt", Settings(max_tokens=-1))
    qtbot.waitUntil(lambda: len(watcher.rounds()) > 3)
    behind[0] = True
    qtbot.waitUntil(lambda: bool(said))
    held = len(watcher.rounds())
    qtbot.wait(80)
    assert len(watcher.rounds()) <= held + 1
    behind[0] = False
    qtbot.waitUntil(lambda: len(watcher.rounds()) > held + 3)
    behind[0] = True
    qtbot.waitUntil(lambda: len(said) == 2)
    ready.stop()
    wait_for_state(qtbot, ready, "ready")
    assert said[0].startswith("The run waits for the disk")
