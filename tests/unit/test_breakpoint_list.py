"""Breakpoints: every kind is met by the rounds that have it and by no other; conditions joined; what is kept."""

from __future__ import annotations

import dataclasses
import json
from itertools import pairwise

import numpy as np
import pytest

from engine.breakpoint_kinds import KINDS, ROLLING, escaped, unescaped
from engine.breakpoints import Breakpoint, Checker, Condition
from engine.columns import outcome_of
from engine.generator import SpeculativeGenerator
from engine.rounds import Coordinates, Round, RunHeader
from engine.settings import Settings
from engine.toy import toy_pair


def run(count: int = 60, **settings: object) -> tuple[RunHeader, list[Round]]:
    options = {"max_tokens": -1, "seed": 3, "diagnostics": True, **settings}
    generator = SpeculativeGenerator(toy_pair(), Settings(**options), stochastic=True)
    header = generator.start("the cat")
    source = generator.rounds()
    return header, [next(source) for _ in range(count)]


@pytest.fixture(scope="module")
def plain() -> tuple[RunHeader, list[Round]]:
    return run()


def hits(made: tuple[RunHeader, list[Round]], *conditions: Condition) -> list[int]:
    checker, point = Checker(made[0]), Breakpoint(conditions)
    return [record.index for record in made[1] if checker.see(record, (point,)) is not None]


def met_tests(record: Round) -> list:
    return [draft for draft in record.drafts if draft.fate != "ignored"]


def test_outcomes(plain) -> None:
    wanted = {
        "rejection": lambda r: r.rejected_at is not None,
        "recovered": lambda r: any(e.source == "recovered" for e in r.emitted),
        "accepted-all": lambda r: outcome_of(r) == "accepted-all",
    }
    for kind, holds in wanted.items():
        expected = [record.index for record in plain[1] if holds(record)]
        assert 0 < len(expected) < len(plain[1]), kind
        assert hits(plain, Condition(kind)) == expected, kind
    for kind in ("degenerate", "drift", "invariant", "alarm"):
        assert hits(plain, Condition(kind)) == [], kind


def test_a_degenerate_fallback(plain) -> None:
    header, records = plain
    at = next(record.index for record in records if record.rejected_at is not None)
    emitted = (*records[at].emitted[:-1], dataclasses.replace(records[at].emitted[-1], source="degenerate-fallback"))
    records = [*records[:at], dataclasses.replace(records[at], emitted=emitted), *records[at + 1 :]]
    assert hits((header, records), Condition("degenerate")) == [at]
    assert at not in hits((header, records), Condition("recovered"))


def test_drift_is_met_where_it_changes_and_an_invariant_wherever_it_fails() -> None:
    made = run(rewind="drop-debt")
    drift = [0, *(record.drift for record in made[1])]
    changed = [at for at, (was, now) in enumerate(pairwise(drift)) if now not in (0, was)]
    assert 1 < len(changed) < len(made[1])
    assert hits(made, Condition("drift")) == changed
    assert hits(made, Condition("invariant"))[0] <= changed[0]


def test_tokens_and_text(plain) -> None:
    header, records = plain
    rounds_of = {
        token: [r.index for r in records if any(e.token == token for e in r.emitted)]
        for token in range(len(header.vocabulary))
    }
    token, expected = min(rounds_of.items(), key=lambda item: abs(len(item[1]) - len(records) // 2))
    assert 0 < len(expected) < len(records)
    assert hits(plain, Condition("token", token)) == expected
    word = header.vocabulary.text_of(token)
    assert hits(plain, Condition("text", word)) == [
        r.index for r in records if word in header.vocabulary.decode(e.token for e in r.emitted)
    ]
    assert hits(plain, Condition("text", "no such words")) == []


@pytest.mark.parametrize(("kind", "name", "sign"), [("p", "p", 1), ("q", "q", 1), ("p", "p", -1), ("q", "q", -1)])
def test_probabilities_of_tested_drafts_only(plain, kind: str, name: str, sign: int) -> None:
    value = float(np.median([getattr(draft, name) for record in plain[1] for draft in met_tests(record)]))
    expected = [
        record.index for record in plain[1] if any(sign * getattr(d, name) < sign * value for d in met_tests(record))
    ]
    assert 0 < len(expected) < len(plain[1])
    assert hits(plain, Condition(f"{kind}-{'below' if sign > 0 else 'above'}", value)) == expected


def test_conditions_of_drafts_meet_at_one_and_the_same_draft(plain) -> None:
    pairs = [(draft.p, draft.q, record.index) for record in plain[1] for draft in met_tests(record)]
    p, q = (float(np.median([pair[at] for pair in pairs])) for at in (0, 1))
    expected = sorted({index for at_p, at_q, index in pairs if at_p < p and at_q > q})
    apart = set(hits(plain, Condition("p-below", p))) & set(hits(plain, Condition("q-above", q)))
    found = hits(plain, Condition("p-below", p), Condition("q-above", q))
    assert found == expected
    assert set(found) < apart, "there must be rounds with both, but at different drafts"


def test_and_needs_all(plain) -> None:
    rejected = hits(plain, Condition("rejection"))
    assert hits(plain, Condition("rejection"), Condition("round-from", 30)) == [at for at in rejected if at >= 30]
    assert hits(plain, Condition("round", rejected[0]), Condition("rejection")) == rejected[:1]
    assert hits(plain, Condition("round", rejected[0]), Condition("accepted-all")) == []


def test_rolling_acceptance_is_met_by_the_round_that_takes_it_below(plain) -> None:
    fates: list[bool] = []
    rates: list[float | None] = []
    for record in plain[1]:
        fates += [draft.fate == "accepted" for draft in met_tests(record)]
        rates.append(sum(fates[-ROLLING:]) / ROLLING if len(fates) >= ROLLING else None)
    value = float(np.median([rate for rate in rates if rate is not None]))
    expected = [
        at
        for at, (was, now) in enumerate(pairwise([None, *rates]))
        if now is not None and now < value and (was is None or was >= value)
    ]
    assert expected, "the rate must cross the value"
    assert len(expected) < sum(rate is not None and rate < value for rate in rates)
    assert hits(plain, Condition("rolling-below", value)) == expected


def skewed(made: tuple[RunHeader, list[Round]], which: str) -> list[Round]:
    """The rounds with coordinates that are no uniforms in one of the meters."""
    rng, changed = np.random.default_rng(1), []
    for record in made[1]:
        sizes = {"u_ratio": len(record.emitted), "u_p": len(record.emitted), "u_proposal": record.k}
        arrays = {name: rng.random(size).astype(np.float32) * 0.999 for name, size in sizes.items()}
        arrays[which] **= 2
        changed.append(dataclasses.replace(record, coordinates=Coordinates(**arrays)))
    return changed


@pytest.mark.parametrize("which", ["u_ratio", "u_p", "u_proposal"])
def test_a_meter_alarm_is_met_once_whenever_it_is_asked_for(plain, which: str) -> None:
    from engine.recording import RecordedRun

    records, recorded = skewed(plain, which), RecordedRun(plain[0])
    tripped = []
    meters = (recorded.meters.losslessness, recorded.meters.proposal)
    for record in records:
        before = [meter.alarm_at for meter in meters]
        recorded.append(record)
        if [meter.alarm_at for meter in meters] != before:
            tripped.append(record.index)
    assert len(tripped) == 1
    assert tripped[0] > 2
    assert hits((plain[0], records), Condition("alarm")) == tripped
    for late, expected in ((tripped[0] - 1, tripped), (tripped[0] + 1, [])):
        checker, point, found = Checker(plain[0]), Breakpoint((Condition("alarm"),)), []
        for record in records:
            hit = checker.see(record, (point,) if record.index >= late else ())
            found += [record.index] if hit is not None else []
        assert found == expected, "evidence counts from the run's beginning, not from when it is asked for"


def test_what_is_not_enabled_is_not_met_and_reasons_name_what_was(plain) -> None:
    header, records = plain
    off = Breakpoint((Condition("rejection"),), enabled=False)
    on = Breakpoint((Condition("recovered"),))
    more = Breakpoint((Condition("round-from", 0),))
    assert all(Checker(header).see(record, (off,)) is None for record in records)
    at = next(record for record in records if any(e.source == "recovered" for e in record.emitted))
    hit = Checker(header).see(at, (off, on, more))
    assert hit is not None
    assert hit.breakpoints == (on, more)
    assert hit.why == f"breakpoint 'recovered token' hit in round {at.index}, and 1 more"


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("nothing", None, "nothing is none of"),
        ("rejection", 3, "expected no value"),
        ("token", None, "expected a whole number from 0"),
        ("token", -1, "expected a whole number from 0"),
        ("token", 1.5, "expected a whole number from 0"),
        ("round", True, "expected a whole number from 0"),
        ("text", "", "expected a text"),
        ("p-below", "x", "expected a number from 0 to 1"),
        ("p-below", 1.01, "expected a number from 0 to 1"),
        ("q-above", float("nan"), "expected a number from 0 to 1"),
    ],
)
def test_bad_conditions_are_refused_in_words(kind: str, value: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Condition(kind, value)


SAMPLES = {"": None, "whole": 7, "share": 0.25, "text": 'a "b"\n'}


def test_every_kind_is_kept_and_comes_back() -> None:
    for kind in KINDS.values():
        point = Breakpoint((Condition(kind.id, SAMPLES[kind.value]), Condition("rejection")), enabled=False)
        assert Breakpoint.from_plain(json.loads(json.dumps(point.to_plain()))) == point
        assert "\n" not in point.title
        assert point.title.endswith(" and any rejection")
        assert (kind.of_round is None) != (kind.of_draft is None)
    assert Breakpoint((Condition("text", 'a "b"\n'),)).title == 'text "a "b"\\n" emitted'


@pytest.mark.parametrize("plain", [None, {}, {"conditions": []}, {"conditions": [["x"]]}, {"conditions": [[1, 2]]}])
def test_what_is_no_breakpoint_is_refused(plain: object) -> None:
    with pytest.raises(ValueError, match=r"expected|needs"):
        Breakpoint.from_plain(plain)


@pytest.mark.parametrize("text", ["a", "\n", "\\n", "\\", "\\\\", "a\tb\r\\x", ""])
def test_escapes_come_back(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert "\n" not in escaped(text)
