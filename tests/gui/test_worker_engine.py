"""The worker with the real engine and the toy: the thread changes nothing, and nothing of MLX leaves it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from app.headless.request import TOY_PROMPT
from app.session import Session
from engine.recording import RecordedRun
from engine.rounds import Round
from engine.settings import SamplerSettings, Settings

RULES = {
    "stochastic": Settings(stochastic=True, diagnostics=True, seed=42, max_tokens=60),
    "sampler-match": Settings(diagnostics=True, seed=42, max_tokens=60),
    "greedy-argmax": Settings(sampler=SamplerSettings(temperature=0.0), seed=42, max_tokens=60),
}


@pytest.fixture
def session(qtbot) -> Iterator[Session]:
    made = Session()
    made.load_toy()
    qtbot.waitUntil(lambda: made.state == "ready", timeout=60_000)
    yield made
    assert made.shutdown()


def run_to_the_end(qtbot, session: Session, prompt: str, settings: Settings) -> RecordedRun:
    with qtbot.waitSignal(session.run_ended, timeout=20_000) as ended:
        session.start_run(prompt, settings)
    qtbot.waitUntil(lambda: session.state == "ready", timeout=2000)
    run: RecordedRun = ended.args[0]
    return run


def plain(value: Any) -> Any:
    """Everything of a record but its timings, comparable by ==; refuses what isn't plain Python or NumPy."""
    if dataclasses.is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.name != "timings"}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    assert value is None or isinstance(value, str | int | float | bool), f"{type(value)} left the engine's thread"
    return value


def rounds_of(run: RecordedRun) -> list[Any]:
    return [plain(record) for record in run]


@pytest.mark.parametrize("rule", RULES)
def test_a_seed_gives_the_same_run_whatever_ran_before(qtbot, session, rule) -> None:
    """R130."""
    first = run_to_the_end(qtbot, session, TOY_PROMPT, RULES[rule])
    other = run_to_the_end(qtbot, session, "mat a on", dataclasses.replace(RULES[rule], seed=7))
    again = run_to_the_end(qtbot, session, TOY_PROMPT, RULES[rule])
    assert {record.rule for record in first} == {rule}
    assert rounds_of(first) == rounds_of(again)
    assert rule == "greedy-argmax" or rounds_of(first) != rounds_of(other)


@pytest.mark.parametrize("rule", RULES)
def test_the_window_records_what_a_script_records(qtbot, session, rule) -> None:
    """R127: keys are explicit, so the worker's thread and this one draw the same u's."""
    from engine.generator import SpeculativeGenerator
    from engine.toy import toy_pair

    shown = run_to_the_end(qtbot, session, TOY_PROMPT, RULES[rule])
    generator = SpeculativeGenerator(toy_pair(), RULES[rule], stochastic=RULES[rule].stochastic)
    generator.start(TOY_PROMPT)
    headless: list[Round] = list(generator.rounds())
    assert rounds_of(shown) == [plain(record) for record in headless]
    assert shown.end is not None
    assert generator.end is not None
    assert shown.end.text == generator.end.text


def test_pausing_stepping_and_pacing_change_no_token(qtbot, session) -> None:
    settings = RULES["stochastic"]
    straight = run_to_the_end(qtbot, session, TOY_PROMPT, settings)
    session.start_run(TOY_PROMPT, settings, pause_after=2)
    qtbot.waitUntil(lambda: session.state == "paused", timeout=5000)
    session.step_round()
    qtbot.waitUntil(lambda: len(session.view.run) == 3, timeout=5000)
    with qtbot.waitSignal(session.run_ended, timeout=20_000):
        session.set_pace(0.01)
        session.toggle_pause()
    assert rounds_of(session.view.run) == rounds_of(straight)


def test_a_live_change_is_in_the_record_of_the_next_round(qtbot, session) -> None:
    session.start_run(TOY_PROMPT, dataclasses.replace(RULES["stochastic"], max_tokens=-1), pause_after=2)
    qtbot.waitUntil(lambda: session.state == "paused", timeout=5000)
    for live in ({"kill_switch": True}, {"rewind": "legacy-rewind"}, {"diagnostics": False}, {"kill_switch": False}):
        session.change(**live)
        count = len(session.view.run)
        session.step_round()
        qtbot.waitUntil(lambda count=count: len(session.view.run) == count + 1, timeout=5000)
        assert session.view.run[-1].changed == live
    rules = [record.rule for record in session.view.run]
    assert rules == ["stochastic"] * 2 + ["sampler-match"] * 3 + ["stochastic"]
    session.stop()


def test_a_live_change_that_the_engine_refuses_leaves_the_run_as_it_was(qtbot, session) -> None:
    told: list[tuple[str, str]] = []
    session.message.connect(lambda kind, text: told.append((kind, text)))
    session.start_run(TOY_PROMPT, dataclasses.replace(RULES["stochastic"], max_tokens=-1), pause_after=1)
    qtbot.waitUntil(lambda: session.state == "paused", timeout=5000)
    session.change(rule="no-such-rule")
    session.step_round()
    qtbot.waitUntil(lambda: len(session.view.run) == 2, timeout=5000)
    assert told[0][0] == "error"
    assert "no-such-rule" in told[0][1]
    assert session.state == "paused"
    assert session.view.run[-1].rule == "stochastic"
    session.stop()


@pytest.mark.parametrize("prompt", ["", "a word that it never saw"])
def test_a_prompt_that_can_not_be_run_is_told_and_mended(qtbot, session, prompt) -> None:
    told: list[tuple[str, str]] = []
    session.message.connect(lambda kind, text: told.append((kind, text)))
    session.start_run(prompt, RULES["stochastic"])
    qtbot.waitUntil(lambda: session.state == "failed", timeout=5000)
    assert len(told) == 1
    assert told[0][0] == "error"
    assert len(told[0][1]) > 10
    assert session.recording.runs == []
    run_to_the_end(qtbot, session, TOY_PROMPT, RULES["stochastic"])


def test_memory_comes_from_mlx(qtbot, session) -> None:
    assert session.worker.memory[0] > 0
    assert session.memory_text.startswith("MLX ")
