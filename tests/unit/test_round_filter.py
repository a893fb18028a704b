"""The filter line: what each condition lets through, and which part of a line isn't understood."""

from __future__ import annotations

import numpy as np
import pytest

from engine.columns import OUTCOMES
from engine.generator import SpeculativeGenerator
from engine.recording import RecordedRun
from engine.round_filter import NUMBERS, FilterError, parse
from engine.settings import Settings
from engine.toy import toy_pair


@pytest.fixture(scope="module")
def run() -> RecordedRun:
    settings = Settings(seed=3, max_tokens=300, diagnostics=True, stochastic=True)
    generator = SpeculativeGenerator(toy_pair(), settings)
    run = RecordedRun(generator.start([0, 1]))
    for record in generator.rounds():
        run.append(record)
        if record.index == 20:
            generator.change(rewind="legacy-rewind", diagnostics=False)
    run.marks = {4: "here", 9: ""}
    return run


def text_of(run: RecordedRun, number: int) -> str:
    return run.header.vocabulary.decode(e.token for e in run[number].emitted)


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ("", lambda r, run: True),
        ("accepted<2", lambda r, run: r.accepted < 2),
        ("accepted>=2  k=4", lambda r, run: r.accepted >= 2 and r.k == 4),
        ("outcome:rejected", lambda r, run: r.rejected_at is not None),
        ("-outcome:rejected", lambda r, run: r.rejected_at is None),
        ("drift!=0", lambda r, run: r.drift != 0),
        ("round>10 round<=12", lambda r, run: 10 < r.index <= 12),
        ('text:" cat sat"', lambda r, run: " cat sat" in text_of(run, r.index)),
        ("token:3", lambda r, run: 3 in [e.token for e in r.emitted]),
        ("marked:yes", lambda r, run: r.index in (4, 9)),
        ("broken=1", lambda r, run: r.index >= 21),
        ("debt>0", lambda r, run: r.debt > 0),
    ],
)
def test_each_condition_lets_through_what_it_says(run: RecordedRun, line: str, holds) -> None:  # type: ignore[no-untyped-def]
    expected = [r.index for r in run if holds(r, run)]
    assert parse(line).matches(run).tolist() == expected
    assert expected
    if line:
        assert len(expected) < len(run)
    assert parse(line).matches(run, start=15).tolist() == [number for number in expected if number >= 15]


def test_closed_forms_are_means_of_the_tested_positions_and_unknown_is_no_number(run: RecordedRun) -> None:
    def mean(number: int) -> float | None:
        values = [d.sum_min for d in run[number].drafts if d.fate != "ignored"]
        return None if None in values or not values else float(np.mean(values))  # type: ignore[arg-type]

    level = 0.7053
    low = [r.index for r in run if (m := mean(r.index)) is not None and m < level + 1e-3]
    assert parse(f"sum_min<{level + 1e-3}").matches(run).tolist() == low
    assert parse("sum_min!=7").matches(run).tolist() == list(range(21))  # later ones have none


@pytest.mark.parametrize(
    ("line", "part", "words"),
    [
        ("accepted<", "accepted<", "expected a condition"),
        ("k=4 rubbish", "rubbish", "expected a condition"),
        ("acepted<2", "acepted", "is none of"),
        ("accepted<two", "two", "expected a number"),
        ("accepted:2", ":", "is a number"),
        ("outcome=rejected", "=", "takes a colon"),
        ("outcome:lost", "lost", "expected one of"),
        ("marked:maybe", "maybe", "yes or no"),
        ("token:-1", "-1", "token id"),
        ("token:99999999999", "99999999999", "token id"),
        ('text:"a"k=4', "k", "expected a space"),
        ('text:"open', 'text:"open', "expected a condition"),
    ],
)
def test_a_part_that_is_not_understood_is_underlined_and_explained(line: str, part: str, words: str) -> None:
    with pytest.raises(FilterError, match=words) as caught:
        parse(line)
    assert line[caught.value.start : caught.value.end] == part


def test_every_number_of_a_filter_is_there(run: RecordedRun) -> None:
    for name in NUMBERS:
        assert parse(f"{name}>=-1e9").matches(run).size > 0
    assert len(OUTCOMES) == len(set(OUTCOMES))
    assert parse(r'text:"\""').matches(run).size == 0


def test_half_of_a_surrogate_pair_is_in_no_text(run: RecordedRun) -> None:
    assert parse("text:\ud83d").matches(run).size == 0
    assert parse("-text:\ud83d").matches(run).size == len(run)
