"""Running to a stop condition, and checking the caches' contents: exactly behind a round, and no token changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from test_worker_engine import plain
from toy_runs import toy_run

from app.session import Session
from engine.recording import RecordedRun
from engine.settings import Settings

SETTINGS = Settings(stochastic=True, diagnostics=True, seed=3, max_tokens=-1)
PROMPT = "the cat"


@pytest.fixture
def session(qtbot) -> Iterator[Session]:
    made = Session()
    made.load_toy()
    qtbot.waitUntil(lambda: made.state == "ready", timeout=60_000)
    yield made
    assert made.shutdown()


def settings(**changed: object) -> Settings:
    return dataclasses.replace(SETTINGS, **changed)


def wait(qtbot, session: Session, state: str) -> RecordedRun:
    qtbot.waitUntil(lambda: session.state == state, timeout=20_000)
    run = session.view.run
    assert run is not None
    return run


def check(qtbot, session: Session) -> None:
    session.check_contents()
    qtbot.waitUntil(lambda: not session.worker.checking, timeout=5000)


@pytest.mark.parametrize("fault", ["legacy-rewind", "drop-debt", "no-trim"])
def test_a_run_pauses_right_behind_the_first_broken_invariant(qtbot, session, fault: str) -> None:
    known = toy_run(rewind=fault)
    first = known.invariants.first_round
    assert first is not None
    session.run_to("invariant", PROMPT, settings(rewind=fault))
    run = wait(qtbot, session, "paused")
    assert len(run) == first + 1
    title = {"legacy-rewind": "draft trim is the law's", "drop-debt": "owed tokens were fed"}
    title["no-trim"] = "draft trim was done"
    assert session.why_paused.startswith(f"invariant '{title[fault]}' failed in round {first}")
    qtbot.wait(50)
    assert len(run) == first + 1, "no round begins behind it"
    session.stop()
    wait(qtbot, session, "ready")


def test_from_a_pause_it_goes_on_to_the_next_one(qtbot, session) -> None:
    known = toy_run(60, rewind="drop-debt")
    drift = [0, *(record.drift for record in known)]
    changes = [index for index in range(60) if drift[index + 1] not in (0, drift[index])]
    session.start_run(PROMPT, settings(rewind="drop-debt"), pause_after=1)
    run = wait(qtbot, session, "paused")
    assert session.why_paused == ""
    for index in changes[:3]:
        session.run_to("drift")
        assert session.state == "running"
        wait(qtbot, session, "paused")
        assert len(run) == index + 1
        assert session.why_paused == f"drift went from {drift[index]} to {drift[index + 1]} in round {index}"
    session.step_round()
    qtbot.waitUntil(lambda: len(run) == changes[2] + 2, timeout=5000)
    assert session.why_paused == "", "the pause behind a step is another one"
    session.stop()
    wait(qtbot, session, "ready")


def test_a_fault_turned_on_in_a_run_is_run_to(qtbot, session) -> None:
    session.start_run(PROMPT, SETTINGS, pause_after=5)
    run = wait(qtbot, session, "paused")
    session.change(rewind="legacy-rewind")
    session.run_to("invariant")
    wait(qtbot, session, "paused")
    assert run.invariants.first_round == len(run) - 1 >= 5
    session.stop()
    wait(qtbot, session, "ready")


def test_an_end_without_it_is_told(qtbot, session, messages) -> None:
    session.run_to("drift", PROMPT, settings(max_tokens=12))
    wait(qtbot, session, "ready")
    assert messages == [("notice", "The run ended without a round that changes the drift to something other than 0.")]


def test_an_end_in_the_round_that_meets_it_is_told(qtbot, session, messages) -> None:
    known = toy_run(rewind="legacy-rewind")
    first = known.invariants.first_round
    emitted = sum(len(record.emitted) for record in list(known)[: first + 1])
    session.run_to("invariant", PROMPT, settings(rewind="legacy-rewind", max_tokens=emitted))
    run = wait(qtbot, session, "ready")
    assert len(run) == first + 1
    assert messages[0][1].startswith("The run ended with the round that was run to: invariant '")


def test_a_pause_or_a_stop_by_hand_takes_it_back(qtbot, session, messages) -> None:
    session.set_pace(0.01)
    session.run_to("invariant", PROMPT, SETTINGS)
    qtbot.waitUntil(lambda: session.view.run is not None and len(session.view.run) > 2, timeout=5000)
    session.toggle_pause()
    wait(qtbot, session, "paused")
    assert session.why_paused == ""
    session.change(rewind="legacy-rewind")
    session.set_pace(0)
    before = len(session.view.run)
    session.toggle_pause()
    qtbot.waitUntil(lambda: len(session.view.run) > before + 10, timeout=5000)
    assert session.state == "running", "Continue goes on over any condition"
    session.run_to("invariant")
    wait(qtbot, session, "paused")
    session.stop()
    wait(qtbot, session, "ready")
    assert messages == []


def test_without_a_drafter_nothing_can_drift(session) -> None:
    assert session.can("run_to_drift") is None
    session.pair = dataclasses.replace(session.pair, draft=None)
    assert session.can("run_to_drift") == "There is no drafter, so nothing can drift."
    assert session.can("run_to") is None
    session.configure(settings=Settings(drafter="requantized:4"))
    assert session.can("run_to_drift") is None, "a drafter made of the target has a cache"
    session.configure(settings=Settings(drafter="prompt-lookup:3"))
    assert "has no cache" in (session.can("run_to_drift") or "")


def test_checks_in_a_pause_and_after_the_end_change_no_token(qtbot, session) -> None:
    asked = settings(max_tokens=60)
    session.start_run(PROMPT, asked)
    straight = wait(qtbot, session, "ready")
    session.start_run(PROMPT, asked, pause_after=3)
    run = wait(qtbot, session, "paused")
    check(qtbot, session)
    assert (session.state, [found.round for found in run.content_checks]) == ("paused", [2])
    session.toggle_pause()
    wait(qtbot, session, "ready")
    check(qtbot, session)
    assert [found.round for found in run.content_checks] == [2, len(run) - 1]
    assert [plain(record) for record in run] == [plain(record) for record in straight]
    assert all(found.main_difference < 1e-3 for found in run.content_checks)
    assert run.end.host_syncs == straight.end.host_syncs == len(run)
    assert run.end.check_syncs == run.content_checks[0].syncs > 0


def test_every_so_many_rounds(qtbot, session) -> None:
    session.set_check_every(4)
    session.start_run(PROMPT, settings(max_tokens=60, rewind="legacy-rewind"))
    run = wait(qtbot, session, "ready")
    assert [found.round for found in run.content_checks] == list(range(3, len(run), 4))
    assert run.end.host_syncs == len(run)
    assert run.end.check_syncs == sum(found.syncs for found in run.content_checks)
    session.set_check_every(0)
    session.start_run(PROMPT, settings(max_tokens=20))
    assert wait(qtbot, session, "ready").content_checks == []


def test_what_can_be_checked_when(qtbot, session) -> None:
    assert session.can("check") == "No run has left caches to check: press Run."
    session.start_run(PROMPT, SETTINGS, pause_after=1)
    assert session.can("check") == "Pause first: a check comes between two rounds."
    wait(qtbot, session, "paused")
    assert session.can("check") is None
    session.check_contents()
    assert session.can("check") == "A check is under way."
    session.stop()  # its turn may not come any more; that is no reason to wait for it
    wait(qtbot, session, "ready")
    qtbot.waitUntil(lambda: not session.worker.checking, timeout=5000)
    assert session.can("check") is None
    session.load_toy()
    wait(qtbot, session, "ready")
    assert session.can("check") == "No run has left caches to check: press Run.", "its models are gone"


def test_a_check_that_fails_is_told_and_the_run_goes_on(qtbot) -> None:
    from tests.gui.fake_engine import FakeRoom, Script

    script = Script(fail_check="a layer has no state", rounds=30)
    session = Session(lambda: FakeRoom(script))
    told: list[tuple[str, str]] = []
    session.message.connect(lambda kind, text: told.append((kind, text)))
    session.set_check_every(10)
    session.start_run("x", Settings())
    qtbot.waitUntil(lambda: session.state == "ready" and session.view.run is not None, timeout=5000)
    assert told == [("error", "The caches' contents can't be checked: a layer has no state")]
    assert len(session.view.run) == 30
    assert (session.check_every, script.named("check")) == (0, [(10,)]), "it isn't asked again and again"
    assert session.shutdown()
