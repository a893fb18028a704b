"""The stop conditions: met by the round that does it, not by one that merely goes on from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.breakpoints import STOP_CONDITIONS
from engine.generator import SpeculativeGenerator
from engine.rounds import Round
from engine.settings import Settings
from engine.toy import toy_pair


def rounds(count: int = 20, **faults: str) -> list[Round]:
    generator = SpeculativeGenerator(toy_pair(), Settings(max_tokens=-1, seed=3, **faults), stochastic=True)
    generator.start("the cat")
    source: Iterator[Round] = generator.rounds()
    return [next(source) for _ in range(count)]


def reasons(records: list[Round], condition: str) -> dict[int, str]:
    """Why to stop, by the round that meets the condition."""
    pairs = zip(records, [None, *records], strict=False)
    found = {record.index: STOP_CONDITIONS[condition].met(record, before) for record, before in pairs}
    return {index: why for index, why in found.items() if why is not None}


@pytest.mark.parametrize("condition", STOP_CONDITIONS)
def test_a_lawful_run_meets_none(condition: str) -> None:
    assert reasons(rounds(), condition) == {}


def test_drift_is_met_where_it_changes() -> None:
    records = rounds(40, rewind="drop-debt")
    drift = [0, *(record.drift for record in records)]
    changed = [index for index in range(40) if drift[index + 1] not in (0, drift[index])]
    stays = [index for index in range(40) if drift[index + 1] == drift[index] != 0]
    assert len(changed) > 1
    assert stays, "a drift that stays must be among them, or this tells nothing"
    assert list(reasons(records, "drift")) == changed
    first = changed[0]
    assert reasons(records, "drift")[first] == f"drift went from 0 to {drift[first + 1]} in round {first}"


def test_a_drift_that_is_mended_is_no_drift() -> None:
    records = rounds(3, rewind="legacy-rewind")
    mended = rounds(1)[0]
    assert STOP_CONDITIONS["drift"].met(mended, records[-1]) is None


@pytest.mark.parametrize(
    ("faults", "title"),
    [
        ({"rewind": "legacy-rewind"}, "draft trim is the law's"),
        ({"rewind": "drop-debt"}, "owed tokens were fed"),
        ({"rewind": "no-trim"}, "draft trim was done"),
        ({"main_rewind": "no-trim"}, "main trim was done"),
    ],
)
def test_the_broken_invariant_is_named_with_its_round(faults: dict[str, str], title: str) -> None:
    found = reasons(rounds(**faults), "invariant")
    index, why = next(iter(found.items()))
    assert why.startswith(f"invariant '{title}' failed in round {index}")
    assert why.endswith(", and 2 more")


def test_the_debt_before_the_round_decides() -> None:
    """Without the round before it, nothing was owed, so that its debt isn't missed."""
    records = rounds(rewind="drop-debt")
    index, _ = next(iter(reasons(records, "invariant").items()))
    alone = STOP_CONDITIONS["invariant"].met(records[index], None)
    assert alone is not None
    assert "owed tokens" not in alone
