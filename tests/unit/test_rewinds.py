"""The cache faults and what names them: invariants, in the first round in which a fault acts, ledger and contents."""

from __future__ import annotations

import random
from typing import Any

import pytest

from engine.generator import SpeculativeGenerator
from engine.invariants import INVARIANTS, InvariantLog, broken_invariants
from engine.ledger import ledger_after
from engine.models import bundled_pair
from engine.recording import RecordedRun
from engine.rewinds import REWIND_TABLE, Outcome, draft_trim, main_trim
from engine.rounds import Round
from engine.settings import MAIN_REWINDS, REWINDS, SamplerSettings, Settings
from engine.toy import toy_pair

FAULTS = [("rewind", fault) for fault in REWINDS[1:]] + [("main_rewind", fault) for fault in MAIN_REWINDS[1:]]


def generator_of(**settings: Any) -> SpeculativeGenerator:
    settings.setdefault("seed", 3)
    settings.setdefault("stochastic", True)
    generator = SpeculativeGenerator(toy_pair(layers=2), Settings(**settings))
    generator.start([0, 1, 2, 3])
    return generator


def recorded(generator: SpeculativeGenerator) -> RecordedRun:
    assert generator.header is not None
    run = RecordedRun(generator.header)
    for record in generator.rounds():
        run.append(record)
    run.end = generator.end
    return run


def acts(record: Round, before: Round | None, debt: int, cache: str, fault: str) -> bool:
    """Whether the fault does another thing in this round than the law would."""
    how, k, emitted = REWIND_TABLE[fault], record.k, len(record.emitted)
    if cache == "main_rewind":
        lawful, previous = main_trim(k, emitted), main_trim(before.k, len(before.emitted)) if before else 0
    elif not k:
        return False
    else:
        lawful, previous = draft_trim(k, emitted), draft_trim(before.k, len(before.emitted)) if before else 0
    asked = how.trim(Outcome(k, record.accepted, emitted, lawful, previous))
    return asked != lawful or (asked > 0 and not how.takes_off) or (debt > 0 and not how.feeds_debt)


@pytest.mark.parametrize(("cache", "fault"), FAULTS)
@pytest.mark.parametrize("k", [2, 4])
def test_a_fault_is_named_in_the_first_round_in_which_it_acts(cache: str, fault: str, k: int) -> None:
    run = recorded(generator_of(max_tokens=120, num_draft_tokens=k, **{cache: fault}))
    before, debt, first = None, 0, None
    for record in run:
        if acts(record, before, debt, cache, fault):
            first = record.index
            break
        before, debt = record, record.debt
    assert first is not None, "the run never met what the fault changes"
    assert run.invariants.first_round == first
    named = {name: f.first_round for name, f in run.invariants.failures.items()}
    side = "main" if cache == "main_rewind" else "draft"
    cause = {
        "legacy-rewind": f"{side}-trim-law",
        "stale-trim": f"{side}-trim-law",
        "no-trim": f"{side}-trim-done",
        "drop-debt": "debt-fed",
    }[fault]
    assert named[cause] == first
    assert named[f"{side}-content"] >= first
    # What the other cache does is right.
    other = "draft" if side == "main" else "main"
    assert not [name for name in named if name.startswith(other)]


@pytest.mark.parametrize(("cache", "fault"), FAULTS)
def test_the_ledger_shows_the_first_wrong_position(cache: str, fault: str) -> None:
    generator = generator_of(max_tokens=80, **{cache: fault})
    run = recorded(generator)
    for record in run:
        ledger = run.ledger(record.index)
        for held, expected, positions in (
            (ledger.main, ledger.main_expected, record.main_cache),
            (ledger.draft, ledger.draft_expected, record.draft_cache),
        ):
            assert held is not None
            assert positions is not None
            wanted = ledger.committed[:expected]
            differs = [i for i, (a, b) in enumerate(zip(held, wanted, strict=False)) if a != b]
            right = held == wanted
            first = None if right else differs[0] if differs else min(len(held), len(wanted))
            assert positions.first_wrong == first
            assert len(held) == positions.end
    # The engine's own ledger, and what the toy's caches really hold, say the same.
    assert generator._caches.drafter is not None
    for cache_in_use, held in ((generator._caches.main, ledger.main), (generator._caches.draft, ledger.draft)):
        assert tuple(cache_in_use.held) == held
        assert tuple(cache_in_use.layers[1].tokens()) == held


def test_the_law_is_never_broken_over_random_runs_with_stops_and_continues() -> None:
    chance = random.Random(7)
    checked = 0
    for seed in range(25):
        sampler = SamplerSettings(temperature=chance.choice([0.0, 0.5, 1.0, 1.7]), top_k=chance.choice([0, 0, 2]))
        generator = generator_of(
            sampler=sampler,
            max_tokens=chance.randint(1, 40),
            num_draft_tokens=chance.randint(0, 6),
            stochastic=chance.random() < 0.5,
            rule=chance.choice(["auto", "sampler-match", "block", "resample-from-p"]),
            drafter=chance.choice(["sample", "greedy", "no-q"]),
            seed=seed,
        )
        assert generator.header is not None
        run = RecordedRun(generator.header)
        for _ in range(3):
            for record in generator.rounds():
                run.append(record)
                if chance.random() < 0.05:
                    generator.cancel()
                checked += 1
            assert generator.end is not None
            assert generator.end.finish_reason in ("length", "cancelled")
            generator.proceed(chance.randint(1, 40))
        assert run.invariants.failures == {}
        assert run.first_drift is None
    assert checked > 300


def test_a_broken_law_without_a_fault_ends_the_run_behind_the_round_that_shows_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = generator_of(max_tokens=50)
    rounds = generator.rounds()
    next(rounds)
    monkeypatch.setattr(type(generator._caches.main.layers[1]), "trim", lambda self, n: 0)
    broken = [record for record in rounds if record.main_cache.trim_asked != (0,)]
    assert len(broken) == 1
    assert generator.end is not None
    assert generator.end.finish_reason == "error"
    assert "main cache stands at" in generator.end.notice
    emitted = [e.token for e in broken[0].emitted]
    assert generator.tokens[-len(emitted) :] == emitted  # every token has its round
    assert {i.id for i, _ in broken_invariants(broken[0], 0)} >= {"main-trim-done", "main-position"}


def test_a_fault_of_the_main_cache_is_marked_not_lossless_and_repaired() -> None:
    generator = generator_of(max_tokens=-1)
    rounds = generator.rounds()
    assert next(rounds).distribution_preserving
    generator.change(main_rewind="no-trim")
    for _ in range(6):
        record = next(rounds)
        assert not record.distribution_preserving
        assert "not lossless: main cache no-trim" in record.rule_label
    assert "not lossless: main cache no-trim" in generator.summary()
    assert record.main_cache.first_wrong is not None
    wrong = record.main_cache.first_wrong
    generator.change(main_rewind="correct")
    record = next(rounds)
    assert record.distribution_preserving
    assert record.main_cache.first_wrong is None
    assert record.main_cache.refed == record.context_length - 1 - wrong
    assert generator.header is not None


def test_the_ledger_follows_a_fault_that_comes_and_goes() -> None:
    generator = generator_of(max_tokens=-1)
    assert generator.header is not None
    records = []
    for index, record in enumerate(generator.rounds()):
        records.append(record)
        if index in (3, 9):
            generator.change(rewind="drop-debt", main_rewind="stale-trim")
        elif index in (6, 12):
            generator.change(rewind="correct", main_rewind="correct")
        elif index == 20:
            generator.cancel()
        ledger = ledger_after(generator.header, records, index)
        assert generator._caches.drafter is not None
        assert list(ledger.main) == generator._caches.main.held
        assert list(ledger.draft or ()) == generator._caches.draft.held
    assert records[-1].main_cache.first_wrong is None


@pytest.mark.parametrize("fault", ["correct", "legacy-rewind"])
def test_contents_are_checked_against_fresh_caches(fault: str) -> None:
    generator = SpeculativeGenerator(bundled_pair(), Settings(seed=1, max_tokens=40, rewind=fault, stochastic=True))
    generator.start("The sea was calm that morning, and the captain")
    rounds = generator.rounds()
    for _ in range(6):
        next(rounds)
    before = generator.host_syncs
    ends = (generator._caches.main.positions(), list(generator._caches.main.held))
    found = generator.check_contents()
    assert found.round == 5
    assert found.main_difference < 1e-3
    assert found.draft_difference is not None
    assert (found.draft_difference > 0.1) == (fault == "legacy-rewind")
    assert generator.host_syncs == before
    assert generator.check_syncs == found.syncs > 0
    assert (generator._caches.main.positions(), list(generator._caches.main.held)) == ends
    tokens = list(generator.tokens)
    list(rounds)
    assert generator.end is not None
    assert generator.end.check_syncs == found.syncs
    # The check changes no stream.
    again = SpeculativeGenerator(bundled_pair(), Settings(seed=1, max_tokens=40, rewind=fault, stochastic=True))
    again.start("The sea was calm that morning, and the captain")
    list(again.rounds())
    assert again.tokens == generator.tokens
    assert tokens == again.tokens[: len(tokens)]


def test_the_header_describes_every_layer_of_both_caches() -> None:
    pair = bundled_pair()
    generator = SpeculativeGenerator(pair, Settings(max_tokens=3))
    header = generator.start("The sea was calm that morning")
    assert pair.draft is not None
    for layers, model, cache in (
        (header.main_layers, pair.target, generator._caches.main),
        (header.draft_layers, pair.draft, generator._caches.drafter and generator._caches.draft),
    ):
        assert cache is not None
        assert len(layers) == model.info.layers
        _, heads, _, size = cache.layers[0].keys.shape
        assert {(layer.type, layer.trimmable, layer.bytes_per_token) for layer in layers} == {
            ("KVCache", True, 2.0 * heads * size * 4)
        }
    assert generator_of(max_tokens=1).header.main_layers[0].bytes_per_token is None  # type: ignore[union-attr]


def test_an_invariant_log_keeps_the_first_failure_and_counts() -> None:
    run = recorded(generator_of(max_tokens=60, rewind="no-trim"))
    log, failed = InvariantLog(), [run.invariants.failures["draft-trim-done"]]
    rounds = [record.index for record in run if log.add(record)]
    assert log.failures["draft-trim-done"].first_round == failed[0].first_round
    assert failed[0].count == sum(
        r.draft_cache is not None and r.draft_cache.trim_asked != r.draft_cache.trim_done for r in run
    )
    assert rounds[0] == log.first_round
    assert len({invariant.id for invariant in INVARIANTS}) == len(INVARIANTS)
