"""The table of faults, and which instrument is seen to trip under each, on the toy and on a model that has a memory."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from engine.evidence import Meters
from engine.faults import CURES, FAULT_TABLE, INSTRUMENTS, FaultWatch, why_blind, why_unseen
from engine.generator import SpeculativeGenerator
from engine.models import Pair
from engine.recording import RecordedRun
from engine.rewinds import REWIND_TABLE
from engine.rounds import Round, RunEnd, RunHeader
from engine.rules import RULE_TABLE
from engine.settings import LIVE_FIELDS, MAX_SEED, SamplerSettings, Settings
from engine.successive_runs import successive_runs
from engine.toy import TableModel, toy_model, toy_pair

BASE = Settings(
    sampler=SamplerSettings(temperature=1.0), stochastic=True, diagnostics=True, seed=4, max_tokens=120, top_n=1
)


def generator(settings: Settings, pair: Pair | None = None) -> SpeculativeGenerator:
    return SpeculativeGenerator(pair or toy_pair(), settings, stochastic=settings.stochastic)


def watched(settings: Settings, changes: dict[int, dict[str, object]] | None = None, pair: Pair | None = None):
    """(run, watch) of a run with live changes before some rounds."""
    made = generator(settings, pair)
    run, watch = RecordedRun(made.start([0, 1, 2])), FaultWatch()
    watch.begin(run)
    rounds = made.rounds()
    for index in range(10_000):
        if changes and index in changes:
            made.change(**changes[index])
        if (record := next(rounds, None)) is None:
            break
        run.append(record)
        if index % 3 == 0:
            watch.follow()
    watch.follow()
    return run, watch


def test_the_table_holds_every_reference_rule_and_every_rewind_fault() -> None:
    assert set(FAULT_TABLE) == {
        *(name for name, info in RULE_TABLE.items() if info.is_reference),
        *(name for name, how in REWIND_TABLE.items() if how.is_fault),
        "main-stale-trim",
        "main-no-trim",
    }
    for fault in FAULT_TABLE.values():
        assert fault.setting in LIVE_FIELDS
        assert fault.is_on(BASE.with_live(fault.changes))
        assert not fault.is_on(BASE.with_live(fault.changes).with_live(fault.cure))
        assert fault.cure == {fault.setting: CURES[fault.setting]}
        assert fault.imitates.endswith(".")
        assert fault.seen
        assert fault.lossless == (fault.setting == "rewind")
        assert {name for name in INSTRUMENTS if why_blind(fault, name) is None} == set(fault.watchers)


@pytest.mark.parametrize("name", ["legacy-rewind", "no-trim", "stale-trim", "drop-debt", "main-no-trim"])
def test_a_cache_fault_is_named_in_the_first_round_in_which_it_acts(name: str) -> None:
    fault = FAULT_TABLE[name]
    on_at = 6
    run, watch = watched(BASE, {on_at: fault.changes})
    found = watch.watched[name]
    assert found.since_round == on_at
    first = run.invariants.first_round
    assert first is not None
    assert first >= on_at
    assert found.first is not None
    assert found.first.instrument == "invariant"
    assert found.first.round == first
    assert found.first.tokens == sum(len(run[i].emitted) for i in range(on_at, first + 1))
    assert found.first.how.startswith("main-" if name.startswith("main") else ("draft-", "debt-"))
    assert not {trip.instrument for trip in found.trips} & {"losslessness meter", "proposal meter"}
    drifted = [trip for trip in found.trips if trip.instrument == "drift"]
    assert bool(drifted) == (run.first_drift is not None and not name.startswith("main"))
    if drifted:
        assert drifted[0].round == run.first_drift


def test_counts_before_and_since_add_up_and_a_fault_switched_off_stays_readable() -> None:
    fault = FAULT_TABLE["legacy-rewind"]
    run, watch = watched(BASE, {5: fault.changes, 15: fault.cure})
    found = watch.watched["legacy-rewind"]
    assert (found.since_round, found.until) == (5, 15)
    assert found.before == (sum(r.accepted for r in list(run)[:5]), sum(r.tested for r in list(run)[:5]))
    assert found.since == (sum(r.accepted for r in list(run)[5:15]), sum(r.tested for r in list(run)[5:15]))
    assert found.tokens == sum(len(r.emitted) for r in list(run)[5:15])
    assert found.first is not None


def test_a_biased_rule_trips_the_meter_at_its_own_token() -> None:
    run, watch = watched(BASE.with_live({"rule": "argmax-vs-argmax"}))
    found, alarm = watch.watched["argmax-vs-argmax"], run.meters.losslessness.alarm_at
    assert alarm is not None
    assert found.first is not None
    assert (found.first.instrument, found.first.tokens) == ("losslessness meter", alarm)
    later, switched = watched(BASE, {4: {"rule": "argmax-vs-argmax"}})
    before = sum(len(r.emitted) for r in list(later)[:4])
    trip = switched.watched["argmax-vs-argmax"].first
    assert trip is not None
    assert trip.tokens == later.meters.losslessness.alarm_at - before


def test_raw_q_trips_the_proposal_meter() -> None:
    drafting = SamplerSettings(temperature=1.0, top_k=2)
    run, watch = watched(dataclasses.replace(BASE, rule="raw-q", draft_sampler=drafting, max_tokens=300))
    names = [trip.instrument for trip in watch.watched["raw-q"].trips]
    assert "proposal meter" in names
    assert run.meters.proposal.alarm_at is not None


def test_a_rule_that_gave_way_is_not_in_force() -> None:
    _, watch = watched(BASE.with_live({"rule": "resample-from-p", "kill_switch": True}))
    assert watch.watched == {}
    assert "kill switch" in str(why_unseen(FAULT_TABLE["resample-from-p"], BASE.with_live({"kill_switch": True})))


def test_a_right_run_trips_nothing() -> None:
    run, watch = watched(BASE)
    assert watch.watched == {}
    assert watch.rounds == len(run)


def test_a_meter_that_tripped_before_is_not_the_later_faults() -> None:
    _, watch = watched(
        dataclasses.replace(BASE, rule="argmax-vs-argmax", max_tokens=200), {60: {"rule": "resample-from-p"}}
    )
    later = watch.watched["resample-from-p"]
    assert later.late == ("losslessness meter",)
    assert later.trips == []


def test_following_in_turns_says_whether_some_are_left() -> None:
    made = generator(BASE)
    run, watch = RecordedRun(made.start([0])), FaultWatch()
    for record in made.rounds():
        run.append(record)
    watch.begin(run)
    assert watch.follow(most=7)
    assert watch.rounds == 7
    assert not watch.follow()
    assert watch.rounds == len(run)
    assert FaultWatch().follow() is False


def test_runs_one_after_another_share_their_meters_and_count_as_one() -> None:
    ending = TableModel(np.zeros((6, 6)))
    pair = Pair(toy_model(ending, end_ids=(5,)), toy_model(TableModel(np.zeros((6, 6)))))
    meters, watch = Meters(), FaultWatch()
    run: RecordedRun | None = None
    headers, ends, emitted, rounds = [], [], 0, 0
    settings = dataclasses.replace(BASE, seed=MAX_SEED, rule="resample-from-p")
    for item in successive_runs(lambda asked: generator(asked, pair), settings, [0, 1], 60):
        if isinstance(item, RunHeader):
            headers.append(item)
            run = RecordedRun(item)
            run.meters = meters
            watch.begin(run)
        elif isinstance(item, Round):
            assert run is not None
            run.append(item)
            watch.follow()
            emitted += len(item.emitted)
            rounds += 1
        else:
            assert isinstance(item, RunEnd)
            ends.append(item.finish_reason)
    assert emitted == 60
    assert [header.seed for header in headers][:3] == [MAX_SEED, 0, 1]
    assert len(ends) == len(headers)
    assert set(ends[:-1]) == {"stop"}
    assert watch.rounds == rounds
    assert meters.losslessness.n == 60
    assert watch.watched["resample-from-p"].tokens == 60


def test_successive_runs_end_where_nothing_comes_or_a_run_fails() -> None:
    broken = Pair(toy_model(TableModel(np.full((6, 6), np.nan))), toy_model(TableModel(np.zeros((6, 6)))))
    items = list(successive_runs(lambda asked: generator(asked, broken), BASE, [0], 50))
    assert [type(item) for item in items] == [RunHeader, RunEnd]
    assert items[-1].finish_reason == "error"
