"""The recording: order, columns, where a token lies, and the word for each round's outcome."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from engine.columns import COLUMNS, OUTCOMES, Columns, outcome_of, outline_of
from engine.recording import RecordedRun, Recording
from engine.rounds import SOURCES, CachePositions, Draft, Emitted, ModelInfo, Round, RunHeader, Timings
from engine.settings import Settings
from engine.text import toy_vocabulary


def header(run_id: int = 0) -> RunHeader:
    model = ModelInfo("toy", "", "toy", 0, 0, 3, None, "float32", "none")
    vocabulary = toy_vocabulary([" a", " b", " c"])
    return RunHeader(run_id, model, None, "sample", vocabulary, " a", (0,), Settings(seed=1), 1, "CPU")


def a_round(
    index: int, fates: Sequence[str], then: str | None, *, drift: int = 0, tokens: Sequence[int] = (7, 8, 9, 10, 11)
) -> Round:
    drafts = tuple(Draft(tokens[i], fate, sum_min=0.5, sum_prod=0.25) for i, fate in enumerate(fates))
    kept = sum(fate == "accepted" for fate in fates)
    emitted = [Emitted(tokens[i], "accepted", i) for i in range(kept)]
    if then is not None:
        emitted.append(Emitted(tokens[-1], then, kept))
    main = CachePositions(10, 5, (0,), (0,), 15, 15, (15,))
    draft = CachePositions(10, 4, (0,), (0,), 14 - drift, 14, (14 - drift,))
    timings = Timings(0.25, 0.5, 0.125, 0.125)
    return Round(
        index, 1, "stochastic", "", "", True, drafts, tuple(emitted), main, draft, debt=1, drift=drift, timings=timings
    )


YES, NO, UNTESTED = "accepted", "rejected", "ignored"


@pytest.mark.parametrize(
    ("fates", "then", "outcome"),
    [
        ((), "target-draw", "plain"),
        ((), "greedy", "plain"),
        ((YES, YES), "bonus", "accepted-all"),
        ((YES, NO, UNTESTED), "recovered", "rejected"),
        ((NO,), "target-draw", "rejected"),
        ((NO,), "greedy", "rejected"),
        ((YES, NO), "degenerate-fallback", "degenerate"),
        ((YES, UNTESTED), None, "ended"),
        ((YES, YES), None, "ended"),
    ],
)
def test_each_round_has_its_outcome(fates: tuple[str, ...], then: str | None, outcome: str) -> None:
    assert outcome_of(a_round(0, fates, then)) == outcome
    assert outcome in OUTCOMES


def test_rounds_come_back_by_index_and_in_order() -> None:
    run = RecordedRun(header())
    rounds = [a_round(i, (YES, NO), "recovered") for i in range(5)]
    for record in rounds:
        run.append(record)
    assert len(run) == 5
    assert list(run) == rounds
    assert run[3] is rounds[3]
    assert run.statistics.rounds == 5
    assert run.statistics.accepted == 5


def test_a_round_out_of_order_is_refused() -> None:
    run = RecordedRun(header())
    run.append(a_round(0, (YES,), "bonus"))
    for wrong in (0, 2):
        with pytest.raises(ValueError, match=f"round {wrong} came where round 1 was expected"):
            run.append(a_round(wrong, (YES,), "bonus"))
    assert len(run) == 1
    assert len(run.tokens) == 2


def test_columns_hold_each_rounds_numbers() -> None:
    run = RecordedRun(header())
    run.append(a_round(0, (YES, NO, UNTESTED), "recovered"))
    run.append(a_round(1, (YES, YES), "bonus", drift=2))
    expected = {
        "k": [3, 2],
        "tested": [2, 2],
        "accepted": [1, 2],
        "emitted": [2, 3],
        "first_token": [0, 2],
        "drift": [0, 2],
        "debt": [1, 1],
        "main_end": [15, 15],
        "main_expected": [15, 15],
        "draft_end": [14, 12],
        "draft_expected": [14, 14],
        "sum_min": [1.0, 1.0],
        "sum_prod": [0.5, 0.5],
        "outcome": [OUTCOMES.index("rejected"), OUTCOMES.index("accepted-all")],
        "seconds": [1.0, 1.0],
        "emitted_meter": [0.0, 0.0],
        "drafted_meter": [0.0, 0.0],
        "main_wrong": [-1, -1],
        "draft_wrong": [-1, -1],
        "broken": [1, 1],
        "refed": [0, 0],
        "last_source": [SOURCES.index("recovered"), SOURCES.index("bonus")],
        "rejected_token": [run[0].drafts[1].token, -1],
    }
    assert set(expected) == set(COLUMNS)
    for name, values in expected.items():
        assert run.column(name).tolist() == values, name
        assert run.column(name).dtype == COLUMNS[name]


def test_a_round_without_closed_forms_has_none_in_its_columns() -> None:
    run = RecordedRun(header())
    bare = a_round(0, (YES,), "bonus")
    run.append(dataclasses.replace(bare, drafts=(Draft(7, YES),)))
    run.append(a_round(1, (), "target-draw"))
    assert np.isnan(run.column("sum_min")).all()
    assert np.isnan(run.column("sum_prod")).all()


def test_columns_that_a_file_lacks_are_known_to_be_absent() -> None:
    run = RecordedRun(header())
    run.append(a_round(0, (YES, NO), "recovered"))
    names = [name for name in COLUMNS if name != "rejected_token"]
    data, made = run._columns.to_bytes(0), Columns(1)
    made.fill(0, 1, data[: 8 * len(names)], names)
    assert made.absent == {"rejected_token"}
    assert made["rejected_token"].tolist() == [0]
    assert run.has_column("rejected_token")


@pytest.mark.parametrize(
    ("name", "value"), [("emitted", -1), ("last_source", len(SOURCES)), ("last_source", -2), ("rejected_token", 2**31)]
)
def test_columns_that_cells_are_made_by_hold_nothing_else(name: str, value: int) -> None:
    columns = Columns()
    columns.append(dict.fromkeys(COLUMNS, 0) | {name: value})
    with pytest.raises(ValueError, match=name):
        Columns(1).fill(0, 1, columns.to_bytes(0), list(COLUMNS))


def test_a_drafter_without_a_cache_stands_nowhere() -> None:
    run = RecordedRun(header())
    run.append(dataclasses.replace(a_round(0, (YES,), "bonus"), draft_cache=None))
    assert run.column("draft_end").tolist() == run.column("draft_expected").tolist() == [0]


def test_columns_grow_and_can_not_be_written() -> None:
    run = RecordedRun(header())
    for i in range(700):  # past two doublings of the columns
        run.append(a_round(i, (YES,) * (i % 4), "bonus" if i % 4 else "target-draw"))
    assert run.column("k").tolist() == [i % 4 for i in range(700)]
    assert run.column("first_token").tolist() == [sum(j % 4 + 1 for j in range(i)) for i in range(700)]
    with pytest.raises(ValueError, match="read-only"):
        run.column("k")[0] = 9
    run.append(a_round(700, (YES,), "bonus"))  # a view that was handed out doesn't lock the column
    assert run.column("k")[-1] == 1


def test_every_token_is_found_in_its_round() -> None:
    run = RecordedRun(header())
    for i, accepted in enumerate((0, 3, 1, 0, 4, 2)):
        run.append(a_round(i, (YES,) * accepted, "bonus" if accepted else "target-draw"))
    places = [(record.index, j) for record in run for j in range(len(record.emitted))]
    assert [run.locate(i) for i in range(len(run.tokens))] == places
    for i, (index, inside) in enumerate(places):
        assert run[index].emitted[inside].token == run.tokens[i]
    for outside in (-1, len(run.tokens)):
        with pytest.raises(IndexError):
            run.locate(outside)


def test_a_last_round_that_emits_nothing_hides_no_token() -> None:
    run = RecordedRun(header())
    run.append(a_round(0, (YES,), "bonus"))
    run.append(a_round(1, (UNTESTED,), None))
    assert run.locate(1) == (0, 1)


def test_the_first_drift_is_remembered() -> None:
    run = RecordedRun(header())
    for i, drift in enumerate((0, 0, 2, 0, 4)):
        run.append(a_round(i, (NO,), "recovered", drift=drift))
    assert run.first_drift == 2


def test_each_run_is_apart() -> None:
    recording = Recording()
    first, second = recording.begin(header(1)), recording.begin(header(2))
    first.append(a_round(0, (YES,), "bonus"))
    assert recording.runs == [first, second]
    assert (len(first), len(second)) == (1, 0)
    assert second.tokens == []
    assert second.column("k").size == 0


def test_an_outline_from_columns_is_that_of_the_round() -> None:
    run = RecordedRun(header())
    fates = [((), "target-draw"), ((YES, NO, UNTESTED), "recovered"), ((NO,), "greedy"), ((YES, YES), "bonus")]
    fates += [((YES, NO), "degenerate-fallback"), ((YES, UNTESTED), None), ((UNTESTED,), None)]
    for index, (round_fates, then) in enumerate(fates):
        run.append(a_round(index, round_fates, then, drift=index))
    rounds = list(run)
    run._rounds = []  # nothing to look at
    for record in rounds:
        outline = run.outline(record.index)
        assert outline == outline_of(record)
        assert (outline.k, outline.tested, outline.accepted) == (record.k, record.tested, record.accepted)
        assert outcome_of(outline) == outcome_of(record)
    run._columns.absent = frozenset({"last_source"})
    run._rounds = rounds
    assert run.outline(1) == outline_of(rounds[1])
