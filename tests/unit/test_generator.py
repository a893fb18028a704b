"""The round loop: positions after every outcome, ends at every place, greedy equality, syncs, errors, determinism."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine.backend import mx
from engine.generator import PromptError, SpeculativeGenerator
from engine.models import Pair
from engine.rounds import Round
from engine.settings import RULE_CHOICES, SamplerSettings, Settings, SettingsError
from engine.toy import PositionModel, TableModel, toy_model, toy_pair

CYCLE = np.eye(6, dtype=np.float32)[[1, 2, 3, 4, 5, 0]] * 9  # token t is followed by t + 1
GREEDY = SamplerSettings(temperature=0.0)
Words = tuple(" " + word for word in "abcdef")


COMPARED = ("drafts", "emitted", "main_cache", "draft_cache", "debt", "text_end")


def run(generator: SpeculativeGenerator, prompt: str | Sequence[int] = (0, 1, 2, 3)) -> list[Round]:
    generator.start(prompt)
    return list(generator.rounds())


def cycle_pair(draft_table: np.ndarray, end_ids: Sequence[int] = (), layers: int = 1, **options: Any) -> Pair:
    """A target that walks a cycle of six tokens, and any drafter."""
    target = toy_model(TableModel(CYCLE), Words, end_ids=end_ids, layers=layers, **options)
    return Pair(target, toy_model(TableModel(draft_table), Words, layers=layers))


def scripted_pair(accepted: int, k: int = 4, layers: int = 2) -> Pair:
    """Position models: the draft agrees on the first `accepted` drafts of a first round at context 4."""
    wanted = np.eye(6, dtype=np.float32)[np.arange(40) % 6] * 9
    other = np.roll(wanted, 1, axis=1)
    table = wanted.copy()
    table[3 + accepted] = other[3 + accepted]
    return Pair(
        toy_model(PositionModel(wanted), Words, layers=layers), toy_model(PositionModel(table), Words, layers=layers)
    )


def draft_of_mistakes(right: int) -> np.ndarray:
    """A drafter that agrees with the cycle after `right` of the six tokens."""
    table = np.roll(CYCLE, 1, axis=1)
    table[:right] = CYCLE[:right]
    return table


@pytest.mark.parametrize("accepted", range(5))
def test_positions_after_every_number_of_accepted_drafts(accepted: int) -> None:
    generator = SpeculativeGenerator(scripted_pair(accepted), Settings(sampler=GREEDY, max_tokens=20, seed=0))
    generator.start([5, 5, 5, 5])
    record = next(generator.rounds())
    r = 4 - accepted
    assert record.accepted == accepted
    assert record.main_cache.trim_asked == (r,)
    assert record.main_cache.trim_done == (r,)
    assert record.main_cache.end == 4 + accepted + 1 - 1
    assert record.draft_cache is not None
    assert record.draft_cache.trim_asked == (max(r - 1, 0),)
    assert record.debt == (1 if accepted == 4 else 0)
    assert record.draft_cache.end == record.main_cache.end - record.debt
    assert record.draft_cache.layers_end == (record.draft_cache.end,)


@pytest.mark.parametrize("stochastic", [True, False])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_rewind_law_holds_over_200_rounds(stochastic: bool, k: int) -> None:
    generator = SpeculativeGenerator(
        toy_pair(layers=3), Settings(seed=5, max_tokens=-1, num_draft_tokens=k), stochastic=stochastic
    )
    generator.start([0, 1, 2, 3])
    held, debt = 3, 0
    for count, record in enumerate(generator.rounds()):
        assert record.main_cache.start == held
        assert record.draft_cache is not None
        assert record.draft_cache.start == held - debt
        assert record.draft_cache.forwarded == debt + k
        held, debt = held + len(record.emitted), record.debt
        assert record.main_cache.end == held
        assert record.draft_cache.end == held - debt
        assert record.drift == 0
        assert len(record.drafts) == k
        if count == 199:
            generator.cancel()
    assert generator.end is not None
    assert generator.end.finish_reason == "cancelled"
    assert [layer.offset for layer in generator._caches.main.layers] == [held] * 3
    # The caches hold the committed tokens themselves, not only as many.
    context = [0, 1, 2, 3, *generator.tokens]
    assert generator._caches.main.layers[2].tokens() == context[:held]
    assert generator._caches.drafter is not None
    assert generator._caches.draft.layers[1].tokens() == context[: held - debt]


def test_legacy_rewind_falls_behind_in_every_round() -> None:
    settings = Settings(seed=5, max_tokens=200, rewind="legacy-rewind")
    records = run(SpeculativeGenerator(toy_pair(), settings, stochastic=True))
    drifts = [0, *(record.drift for record in records)]
    for record, before, after in zip(records, drifts, drifts[1:], strict=False):
        if record is not records[-1]:
            assert after - before == (1 if record.accepted in (0, 4) else 2)


def test_going_back_to_the_correct_rewind_repairs_the_draft_cache() -> None:
    generator = SpeculativeGenerator(
        toy_pair(), Settings(seed=5, max_tokens=60, rewind="legacy-rewind"), stochastic=True
    )
    generator.start([0, 1, 2])
    rounds = generator.rounds()
    for _ in range(5):
        record = next(rounds)
    assert record.drift > 0
    assert record.draft_cache is not None
    wrong = record.draft_cache.first_wrong
    assert wrong is not None
    generator.change(rewind="correct")
    record = next(rounds)
    assert record.changed == {"rewind": "correct"}
    assert record.drift == 0
    assert record.draft_cache is not None
    assert record.draft_cache.refed == record.context_length - 1 - wrong  # no more than what was wrong
    assert record.draft_cache.first_wrong is None
    assert all(later.draft_cache is not None and later.draft_cache.refed == 0 for later in rounds)


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("right", [6, 1, 0])
def test_greedy_equals_the_targets_own_stream(k: int, right: int) -> None:
    pair = cycle_pair(draft_of_mistakes(right))
    records = run(SpeculativeGenerator(pair, Settings(sampler=GREEDY, num_draft_tokens=k, max_tokens=40, seed=0)))
    tokens = [e.token for record in records for e in record.emitted]
    assert tokens == [(4 + i) % 6 for i in range(40)]
    assert {record.rule for record in records} == {"greedy-argmax"}
    if right == 0:
        assert not any(e.source == "accepted" for record in records for e in record.emitted)
    if right == 6:
        assert {e.source for record in records[:-1] for e in record.emitted} == {"accepted", "bonus"}


@pytest.mark.parametrize("place", range(6))
def test_an_end_of_sequence_token_at_every_place(place: int) -> None:
    """With all drafts accepted, EOS ends the run at its own place; what stands behind it is ignored."""
    end = (4 + place) % 6
    settings = Settings(sampler=GREEDY, max_tokens=30, seed=0)
    generator = SpeculativeGenerator(cycle_pair(CYCLE, end_ids=[end]), settings)
    records = run(generator)
    assert generator.end is not None
    assert generator.end.finish_reason == "stop"
    assert generator.tokens == [(4 + i) % 6 for i in range(place + 1)]
    assert generator.statistics.emitted == place + 1
    last = records[-1]
    assert last.main_cache.end == 4 + place
    assert last.draft_cache is not None
    assert last.draft_cache.end == 4 + place - last.debt
    if place < 4:
        assert [d.fate for d in last.drafts] == ["accepted"] * (place + 1) + ["ignored"] * (3 - place)
        assert generator.statistics.positions_tested == place + 1
    # Going on behind it keeps the caches, the debt and the stream.
    generator.proceed(5)
    list(generator.rounds())
    assert generator.tokens[: place + 2] == [(4 + i) % 6 for i in range(place + 2)]
    assert max(abs(r.drift) for r in records) == 0


@pytest.mark.parametrize("limit", range(1, 13))
def test_the_token_limit_at_every_place_and_going_on(limit: int) -> None:
    settings = Settings(sampler=GREEDY, max_tokens=limit, seed=0)
    generator = SpeculativeGenerator(cycle_pair(CYCLE), settings)
    records = run(generator)
    assert generator.end is not None
    assert generator.end.finish_reason == "length"
    assert len(generator.tokens) == limit
    assert sum(record.k for record in records) == generator.statistics.proposed
    generator.proceed(7)
    more = list(generator.rounds())
    assert generator.tokens == [(4 + i) % 6 for i in range(limit + 7)]
    assert all(record.drift == 0 for record in more)


def test_proposals_of_the_last_round_are_counted_as_drafted() -> None:
    records = run(SpeculativeGenerator(cycle_pair(CYCLE), Settings(sampler=GREEDY, max_tokens=7, seed=0)))
    assert [record.k for record in records] == [4, 2]
    assert sum(record.accepted for record in records) == 6
    assert sum(record.tested for record in records) == 6
    assert [e.source for e in records[-1].emitted] == ["accepted", "accepted"]


@pytest.mark.parametrize("stochastic", [True, False])
@pytest.mark.parametrize("k", [0, 1, 5, 8])
def test_every_full_round_has_k_proposals(k: int, stochastic: bool) -> None:
    settings = Settings(num_draft_tokens=k, max_tokens=40, seed=2)
    records = run(SpeculativeGenerator(toy_pair(), settings, stochastic=stochastic))
    assert sum(len(record.emitted) for record in records) == 40
    assert {record.k for record in records[:-1]} <= {k, *range(k)}
    assert all(record.k == k for record in records if record.context_length + k <= 4 + 40 - k)
    if k == 0:
        assert [record.debt for record in records] == list(range(1, 41))
        assert {e.source for record in records for e in record.emitted} == {"target-draw"}


def everything_on(**more: Any) -> Settings:
    sampler = SamplerSettings(
        temperature=0.9,
        top_k=5,
        top_p=0.95,
        min_p=0.01,
        repetition_penalty=1.1,
        frequency_penalty=0.1,
        presence_penalty=0.1,
        xtc_probability=0.3,
        logit_bias=((1, 0.5),),
    )
    return Settings(sampler=sampler, seed=77, max_tokens=60, diagnostics=True, **more)


@pytest.mark.parametrize("drafter", ["sample", "greedy", "no-q"])
@pytest.mark.parametrize("rule", sorted({*RULE_CHOICES} - {"greedy-argmax"}))
def test_one_host_sync_a_round_with_everything_on(drafter: str, rule: str) -> None:
    generator = SpeculativeGenerator(toy_pair(), everything_on(drafter=drafter, rule=rule), stochastic=True)
    records = run(generator)
    assert generator.host_syncs == len(records)
    assert all(record.coordinates is not None for record in records)
    assert all((record.counterfactual is None) == (drafter == "no-q" or not record.k) for record in records)


def test_the_engine_waits_nowhere_but_in_its_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counter can't be trusted alone: count what MLX is asked to evaluate."""
    calls = []
    evaluate = mx.eval
    monkeypatch.setattr(mx, "eval", lambda *arrays: calls.append(1) or evaluate(*arrays))
    generator = SpeculativeGenerator(toy_pair(), everything_on(), stochastic=True)
    generator.start([0])  # one token: nothing to prefill
    calls.clear()
    records = list(generator.rounds())
    assert len(calls) == len(records)


def test_same_seed_same_record_inspected_or_not() -> None:
    def tokens(**changes: Any) -> list[int]:
        generator = SpeculativeGenerator(toy_pair(), dataclasses.replace(everything_on(), **changes), stochastic=True)
        run(generator)
        return generator.tokens

    plain = tokens()
    assert tokens() == plain  # meters and counterfactuals are on
    run(SpeculativeGenerator(toy_pair(), everything_on(), stochastic=False), (1, 1))
    mx.random.seed(5)
    assert tokens() == plain
    assert tokens(record=False) == plain
    assert tokens(diagnostics=False) == plain
    assert tokens(seed=78) != plain


def test_records_of_two_runs_are_equal_but_for_the_timings() -> None:
    def bare(record: Round) -> tuple[Any, ...]:
        found = record.coordinates
        assert found is not None
        meters = (found.u_ratio.tolist(), found.u_p.tolist())
        return (*(getattr(record, name) for name in COMPARED), meters)

    first, second = (
        [bare(record) for record in run(SpeculativeGenerator(toy_pair(), everything_on(), stochastic=True))]
        for _ in range(2)
    )
    assert first == second


def test_nothing_of_mlx_is_in_a_record() -> None:
    def look(value: Any) -> None:
        assert not isinstance(value, mx.array)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            for field in dataclasses.fields(value):
                look(getattr(value, field.name))
        elif isinstance(value, dict | tuple | list):
            for item in value.values() if isinstance(value, dict) else value:
                look(item)

    for record in run(SpeculativeGenerator(toy_pair(), everything_on(), stochastic=True)):
        look(record)


def test_live_changes_take_effect_at_the_next_round_and_are_recorded() -> None:
    generator = SpeculativeGenerator(toy_pair(), Settings(seed=4, max_tokens=200), stochastic=False)
    generator.start([0])
    rounds = generator.rounds()
    assert next(rounds).rule == "sampler-match"
    generator.change(stochastic=True, diagnostics=True)
    record = next(rounds)
    assert record.rule == "stochastic"
    assert record.changed == {"stochastic": True, "diagnostics": True}
    assert record.drafts[0].sum_min is not None
    generator.change(kill_switch=True)
    record = next(rounds)
    assert (record.rule, record.changed) == ("sampler-match", {"kill_switch": True})
    assert "kill switch" in record.rule_reason
    assert next(rounds).changed == {}
    with pytest.raises(SettingsError):
        generator.change(num_draft_tokens=2)


def test_a_distribution_record_holds_together() -> None:
    generator = SpeculativeGenerator(toy_pair(), everything_on(), stochastic=True)
    for record in run(generator):
        assert len(record.distributions) == record.k + 1
        for position, seen in enumerate(record.distributions):
            assert seen.p.sum() == pytest.approx(1, abs=1e-5)  # six tokens: all are kept
            assert sorted(seen.ids.tolist()) == sorted(set(seen.ids.tolist()))
            if position == record.k:
                assert seen.q is None
                continue
            draft = record.drafts[position]
            assert seen.q is not None
            assert seen.residual is not None
            assert seen.residual_mass == pytest.approx(1 - draft.sum_min, abs=1e-5)
            assert draft.p == seen.p[seen.ids == draft.token][0]
            assert draft.q == seen.q[seen.ids == draft.token][0]
            assert [name for name, _ in seen.p_stages] == ["logits", "raw", "temperature", "top-k", "top-p", "min-p"]
        for token in record.emitted:
            if token.source == "recovered":
                assert token.probability is not None
                assert token.probability > 0


def bad_pair(row: int, value: float, who: str) -> Pair:
    """Fine logits but for one row, by position in the cache."""
    table = np.zeros((40, 6), np.float32)
    broken = table.copy()
    broken[row] = value
    models = {"target": table, "draft": table, who: broken}
    return Pair(*(toy_model(PositionModel(models[name]), Words) for name in ("target", "draft")))


@pytest.mark.parametrize("value", [np.nan, -np.inf, np.inf])
@pytest.mark.parametrize("who", ["target", "draft"])
def test_non_finite_logits_stop_the_run_and_name_the_position(value: float, who: str) -> None:
    generator = SpeculativeGenerator(bad_pair(6, value, who), Settings(seed=1, max_tokens=30, num_draft_tokens=1))
    records = run(generator)
    assert generator.end is not None
    assert generator.end.finish_reason == "error"
    assert generator.end.notice == f"non-finite logits at step 3 ({who})"
    assert len(generator.tokens) in (2, 3)
    # Both caches stand at the last good round.
    assert generator._caches.main.position == 3 + len(generator.tokens)
    assert records[-1].main_cache.end == generator._caches.main.position


@pytest.mark.parametrize("who", ["target", "draft"])
def test_a_bias_that_overflows_behind_the_temperature_stops_the_run(who: str) -> None:
    biased = SamplerSettings(temperature=0.7, logit_bias=((0, 3e38),))
    plain = SamplerSettings(temperature=0.7)
    sampler, drafting = (biased, plain) if who == "target" else (plain, biased)
    settings = Settings(seed=1, max_tokens=20, diagnostics=True, sampler=sampler, draft_sampler=drafting)
    generator = SpeculativeGenerator(toy_pair(), settings, stochastic=True)
    assert run(generator) == []
    assert generator.end is not None
    assert generator.end.finish_reason == "error"
    assert f"non-finite logits at step 0 ({who})" in generator.end.notice


@pytest.mark.allow_log("round 2 failed")
def test_an_exception_inside_a_round_leaves_the_caches_at_the_last_good_one() -> None:
    pair, broken = toy_pair(layers=2), False

    def network(*args: Any, **options: Any) -> mx.array:
        logits = pair.target.network(*args, **options)
        if broken:
            raise MemoryError("no room")
        return logits

    target = dataclasses.replace(pair.target, network=network)
    generator = SpeculativeGenerator(Pair(target, pair.draft), Settings(seed=1, max_tokens=30), stochastic=True)
    generator.start([0, 1])
    rounds = generator.rounds()
    next(rounds)
    record = next(rounds)
    broken = True
    assert list(rounds) == []
    assert generator.end is not None
    assert (generator.end.finish_reason, generator.end.notice) == ("error", "MemoryError('no room')")
    assert generator._caches.main.positions() == (record.main_cache.end,) * 2
    assert generator._caches.drafter is not None
    assert record.draft_cache is not None
    assert generator._caches.draft.positions() == (record.draft_cache.end,) * 2


@pytest.mark.parametrize(
    ("prompt", "words"), [("", "non-empty"), (" ", "is blank"), ([], "non-empty"), ([3, 70], "70"), ([3, -1], "-1")]
)
def test_prompts_that_cannot_be_run_are_refused(prompt: str | list[int], words: str) -> None:
    generator = SpeculativeGenerator(toy_pair(), Settings(seed=1, max_tokens=3))
    with pytest.raises(PromptError, match=words):
        generator.start(prompt)
    assert run(generator)  # and the generator can be used all the same


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers() -> None:
    generator = SpeculativeGenerator(cycle_pair(CYCLE, context_length=8), Settings(seed=1))
    with pytest.raises(PromptError, match=r"9 tokens.*holds 8"):
        generator.start([0] * 9)


def test_the_context_ends_the_run_with_both_numbers() -> None:
    generator = SpeculativeGenerator(cycle_pair(CYCLE, context_length=16), Settings(sampler=GREEDY, seed=1))
    records = run(generator)
    assert generator.end is not None
    assert generator.end.finish_reason == "length"
    assert "16" in generator.end.notice
    assert len(generator.tokens) == 16 + 1 - 4
    assert all(record.main_cache.end <= 16 for record in records)


def test_past_the_drafts_context_plain_decoding_goes_on() -> None:
    target = toy_model(TableModel(CYCLE), Words)
    pair = Pair(target, toy_model(TableModel(CYCLE), Words, context_length=10))
    records = run(SpeculativeGenerator(pair, Settings(sampler=GREEDY, seed=1, max_tokens=30)))
    assert [e.token for r in records for e in r.emitted] == [(4 + i) % 6 for i in range(30)]
    assert records[-1].k == 0
    assert all(r.draft_cache is not None and r.draft_cache.start + r.draft_cache.forwarded <= 10 for r in records)


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_prefill_in_chunks_reports_and_can_be_cancelled(chunk: int) -> None:
    generator = SpeculativeGenerator(toy_pair(), Settings(seed=1, max_tokens=5, prefill_chunk=chunk))
    seen: list[tuple[int, int]] = []
    generator.start([0] * 8, lambda done, total: bool(seen.append((done, total))))
    assert seen[0] == (0, 14)
    assert seen[-1] == (14, 14)
    assert generator._caches.main.position == 7
    assert len(list(generator.rounds())) > 0
    generator.start([0] * 8, lambda done, total: done >= min(chunk, 7))
    assert generator.end is not None
    assert generator.end.finish_reason == "cancelled"
    assert list(generator.rounds()) == []


def test_a_stop_string_over_token_borders_is_never_shown() -> None:
    generator = SpeculativeGenerator(cycle_pair(CYCLE), Settings(sampler=GREEDY, seed=1, max_tokens=30, stop=("a b",)))
    generator.start([0, 1])
    shown = []
    for record in generator.rounds():
        shown.append(generator.text)
        assert record.text_end == len(generator.text)
    assert generator.end is not None
    assert generator.end.finish_reason == "stop"
    assert generator.tokens[-1] == 1
    assert generator.end.text == " c d e f "
    assert all(" c d e f ".startswith(text) for text in shown)


def test_the_summary_line_and_an_end_without_rounds() -> None:
    generator = SpeculativeGenerator(toy_pair(), Settings(seed=1, diagnostics=True), stochastic=True)
    generator.start([0])
    generator.cancel()
    assert list(generator.rounds()) == []
    assert generator.end is not None
    assert "per_position_acceptance=- " in generator.end.summary
    records = run(generator)
    assert records
    assert generator.summary().startswith("[Speculative acceptance] rule=stochastic rounds=")
    assert generator.summary().endswith("(stochastic (modified rejection sampling))")
    assert "closed_form_sum_min=0.7053" in generator.summary()


def test_a_missing_seed_is_drawn_and_recorded() -> None:
    generator = SpeculativeGenerator(toy_pair(), Settings(max_tokens=30))
    first = generator.start([0])
    list(generator.rounds())
    tokens = generator.tokens
    again = SpeculativeGenerator(toy_pair(), first.settings)
    run(again, [0])
    assert again.tokens == tokens
    assert generator.start([0]).seed != first.seed


def test_notices_say_what_is_not_as_asked() -> None:
    pair = toy_pair()
    plain = SpeculativeGenerator(pair, Settings(seed=1, num_draft_tokens=0)).start([0])
    assert any("k is 0" in notice for notice in plain.notices)
    alone = SpeculativeGenerator(Pair(pair.target, None), Settings(seed=1, max_tokens=5))
    assert any("No draft model" in notice for notice in alone.start([0]).notices)
    assert [record.draft_cache for record in alone.rounds()] == [None] * 5
    wide = Settings(seed=1, sampler=SamplerSettings(top_k=6))
    assert any("no effect" in notice for notice in SpeculativeGenerator(pair, wide).start([0]).notices)
    assert SpeculativeGenerator(pair, Settings(seed=1)).start([0]).notices == ()


def test_a_bias_outside_the_vocabulary_is_refused_before_the_run() -> None:
    sampler = SamplerSettings(logit_bias=((9, 100.0),))
    with pytest.raises(SettingsError, match="below 6"):
        SpeculativeGenerator(toy_pair(), Settings(sampler=sampler))


def test_the_recorded_residual_is_the_one_that_the_rule_draws_from() -> None:
    """Under block verification p counts for what its prefix has left: relu(P p - q)."""
    settings = Settings(seed=5, max_tokens=120, rule="block")
    scaled = 0
    for record in run(SpeculativeGenerator(toy_pair(), settings, stochastic=True)):
        weight = 1.0
        for draft, seen in zip(record.drafts, record.distributions, strict=False):
            assert seen.q is not None
            assert seen.residual is not None
            rest = np.maximum(np.float32(weight) * seen.p - seen.q, 0)
            assert seen.residual_mass == pytest.approx(rest.sum(), abs=1e-6)
            if rest.sum() > 1e-3:
                assert seen.residual == pytest.approx(rest / rest.sum(), abs=1e-5)
                scaled += weight < 0.99
            assert draft.block_p is not None
            weight = draft.block_p
    assert scaled > 10
