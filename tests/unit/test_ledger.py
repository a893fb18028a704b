"""The ledger of a recorded run: the same from the beginning, from a round with a known ledger, and from a right one."""

from __future__ import annotations

import pytest

from engine.generator import SpeculativeGenerator
from engine.ledger import Ledger, ledger_after
from engine.recording import RecordedRun
from engine.settings import Settings
from engine.toy import toy_pair

CHANGES = {4: {"rewind": "legacy-rewind"}, 9: {"rewind": "correct"}, 14: {"main_rewind": "no-trim"}}


@pytest.fixture
def run() -> RecordedRun:
    """Faults that come and go in both caches."""
    generator = SpeculativeGenerator(toy_pair(), Settings(max_tokens=-1, seed=3, diagnostics=True), stochastic=True)
    made = RecordedRun(generator.start("the cat"))
    for record in generator.rounds():
        made.append(record)
        if record.index == 24:
            return made
        generator.change(**CHANGES.get(record.index, {}))
    raise AssertionError


def test_every_way_to_a_ledger_gives_the_same(run: RecordedRun) -> None:
    from_the_start = [ledger_after(run.header, list(run), index) for index in range(-1, len(run))]
    assert [run.ledger(index) for index in range(-1, len(run))] == from_the_start
    for known in (0, 5, 12, 20):
        for index in range(-1, len(run)):
            assert run.ledger(index, (known, from_the_start[known + 1])) == from_the_start[index + 1]


def test_a_known_ledger_is_gone_on_from(run: RecordedRun) -> None:
    """Behind the last round that was right, what is handed in decides: it isn't walked to anew."""
    wrong = run.ledger(18)
    other = Ledger(wrong.committed, wrong.main[:-1], wrong.main_expected, wrong.draft, wrong.draft_expected)
    assert run.ledger(19, (18, other)) != run.ledger(19)


def test_a_right_round_is_known_without_a_walk(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    before = [run.ledger(index) for index in (2, 12)]
    monkeypatch.setattr("engine.ledger._take_off", lambda *_: pytest.fail("walked"))
    assert [run.ledger(index) for index in (2, 12)] == before
