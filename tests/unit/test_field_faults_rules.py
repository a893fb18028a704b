"""Faults of the field in acceptance and its figures: which rule ran, what q was, and what is counted."""

from __future__ import annotations

import numpy as np
import pytest
from field_models import GREEDY, fixed, fixed_pair, run, tiny_pair
from many_rounds import many_rounds
from scipy import stats

from engine.acceptance import RULES, Verification
from engine.backend import mx
from engine.models import Pair
from engine.randomness import RoundKeys
from engine.sampling import filter_logits
from engine.settings import SamplerSettings
from engine.toy import TableModel, toy_model

ONE = SamplerSettings(temperature=1.0)


def test_r01_a_greedy_draft_is_one_hot_in_the_run_itself() -> None:
    """p = (.6, .4), a drafter of softmax (.8, .2) that takes its argmax: accepted with .6, emitted as p has it."""
    pair = fixed_pair([0.6, 0.4], [0.8, 0.2])
    generator, rounds = run(pair, stochastic=True, drafter="greedy", sampler=ONE, num_draft_tokens=1, max_tokens=400)
    assert {(draft.token, draft.q) for record in rounds for draft in record.drafts} == {(0, 1.0)}
    n = generator.statistics.positions_tested
    spread = 4.5 * np.sqrt(0.24 / n)
    assert generator.statistics.per_position_acceptance == pytest.approx(0.6, abs=spread)
    assert np.mean([token == 0 for token in generator.tokens]) == pytest.approx(0.6, abs=spread)


@pytest.mark.parametrize(
    ("rule", "passes"), [("stochastic", True), ("sampler-match", True), ("argmax-vs-argmax", False)]
)
def test_r03_matching_argmaxes_at_a_temperature_shows_in_the_emitted_tokens(rule: str, passes: bool) -> None:
    weights = np.exp(np.array([2.0, 1, 0, 0, 0, 0]) / 0.7)
    p = weights / weights.sum()
    counts = np.bincount(many_rounds(RULES[rule].decide, p, np.full(6, 1 / 6), 1, 4000).first(), minlength=6)
    assert (stats.chisquare(counts, 4000 * p).statistic < 25.74) == passes


@pytest.mark.parametrize(
    ("settings", "stochastic", "named"),
    [
        ({}, True, "stochastic"),
        ({}, False, "sampler-match"),
        ({"drafter": "no-q"}, True, "sampler-match-no-proposal-distribution"),
        ({"rule": "argmax-vs-argmax"}, True, "argmax-vs-argmax"),
        ({"kill_switch": True}, True, "sampler-match"),
        ({"sampler": GREEDY}, True, "greedy-argmax"),
    ],
)
def test_r09_the_rule_that_ran_is_the_one_that_is_named(settings: dict, stochastic: bool, named: str) -> None:  # type: ignore[type-arg]
    generator, rounds = run(tiny_pair(), [3, 5], stochastic=stochastic, max_tokens=6, **settings)
    assert {record.rule for record in rounds} == {named}
    assert all(record.rule_reason for record in rounds)
    assert generator.end is not None
    assert f"rule={named} " in generator.end.summary
    # Its traces: only the stochastic test draws a u, only the matching ones compare with a token.
    tested = [draft for record in rounds for draft in record.drafts if draft.fate != "ignored"]
    assert all((draft.u is not None) == (named == "stochastic") for draft in tested)
    assert all((draft.match is not None) == (named != "stochastic") for draft in tested)


def test_r05_a_target_that_drafts_for_itself_leaves_an_empty_residual_and_no_nan() -> None:
    model = fixed([0.25] * 4)
    generator, rounds = run(
        Pair(model, model), stochastic=True, diagnostics=True, sampler=ONE, max_tokens=60, drafter="self"
    )
    assert generator.statistics.per_position_acceptance == 1.0
    assert {e.source for record in rounds for e in record.emitted} == {"accepted", "bonus"}
    for record in rounds:
        for draft in record.drafts:
            assert draft.sum_min == 1.0
        for seen in record.distributions[: record.k]:
            assert seen.residual_mass == 0.0
            assert seen.residual_support == 0
            assert seen.residual is not None
            assert not seen.residual.any()
            assert np.isfinite(seen.residual).all()
    assert "nan" not in generator.summary()


def test_r07_a_q_that_half_precision_loses_accepts_nothing_outside_the_support() -> None:
    """top-k 2 keeps {0, 1}; q(2) = 1e-9 is 0 in float16, so u q <= p alone would read 0 <= 0."""
    target = filter_logits(mx.array([[2.0, 1.0, 0.5]] * 2), SamplerSettings(temperature=1.0, top_k=2))
    q = mx.array([[0.5, 0.5, 1e-9]]).astype(mx.float16)
    assert float(q[0, 2]) == 0.0
    draft = mx.array([2], dtype=mx.uint32)
    found = [RULES["stochastic"].decide(Verification(draft, target, q, RoundKeys(3, index))) for index in range(400)]
    mx.eval([(verdict.count, verdict.token) for verdict in found])
    assert {int(verdict.count) for verdict in found} == {0}
    assert {int(verdict.token) for verdict in found} <= {0, 1}
    naive = RULES["missing-support-check"].decide(Verification(draft, target, q, RoundKeys(3, 0)))
    assert int(naive.count) == 1, "without p > 0 it is accepted"


def test_r11_at_temperature_0_the_argmax_decides_and_not_p_against_q() -> None:
    """q(a) = .2 is q's largest and p(a) = .3 is above it, but p's argmax is b."""
    p, q = [0.3, 0.5, 0.2, 0, 0, 0, 0], [0.2, 0.14, 0.14, 0.13, 0.13, 0.13, 0.13]
    generator, rounds = run(fixed_pair(p, q), sampler=GREEDY, max_tokens=12)
    assert {draft.token for record in rounds for draft in record.drafts} == {0}
    assert generator.statistics.accepted == 0
    alone, _ = run(Pair(fixed(p), None), sampler=GREEDY, max_tokens=12)
    assert generator.tokens == alone.tokens == [1] * 12


# Figures


def walk(*answer: int, size: int = 8) -> TableModel:
    """The first words in this order."""
    table = np.zeros((size, size), np.float32)
    for before, after in zip((0, *answer[:-1]), answer, strict=True):
        table[before, after] = 9
    return TableModel(table)


def test_r61_r78_drafts_behind_the_end_are_neither_shown_nor_counted() -> None:
    """Drafts d1 d2 EOS d4 d5 and a bonus, all as the target has them: three tokens, not six."""
    words = [f" {n}" for n in range(8)]
    target = toy_model(walk(1, 2, 7, 4, 5, 6), words, end_ids=[7])
    target.network.table[7, 4] = 9
    generator, (record,) = run(Pair(target, target), sampler=GREEDY, num_draft_tokens=5, max_tokens=50)
    assert generator.tokens == [1, 2, 7] == [e.token for e in record.emitted]
    assert [draft.fate for draft in record.drafts] == ["accepted"] * 3 + ["ignored"] * 2
    s = generator.statistics
    assert (s.emitted, s.accepted, s.positions_tested, s.proposed) == (3, 3, 3, 5)
    assert generator.end is not None
    assert (generator.end.finish_reason, generator.end.text) == ("stop", " 1 2")


def test_r76_nothing_behind_the_first_rejection_counts() -> None:
    """Tests [T, F, T, T] of one round of a run."""
    target = toy_model(walk(1, 2, 3, 4, 5), words := [f" {n}" for n in range(8)])
    draft = toy_model(walk(1, 6, 3, 4, 5), words)
    draft.network.table[6, 3] = 9
    _, (record, *_) = run(Pair(target, draft), sampler=GREEDY, max_tokens=5)
    assert [d.token for d in record.drafts] == [1, 6, 3, 4]
    assert [d.fate for d in record.drafts] == ["accepted", "rejected", "ignored", "ignored"]
    assert [e.token for e in record.emitted] == [1, 2]
    assert (record.accepted, record.tested, record.k) == (1, 2, 4)


def test_r80_drafted_is_what_was_drafted() -> None:
    """7 tokens, k 4, a drafter that is always right: DDDD. and DD."""
    model = fixed([0.1, 0.9])
    generator, rounds = run(Pair(model, model), sampler=GREEDY, max_tokens=7)
    flags = "".join("D" if e.source == "accepted" else "." for record in rounds for e in record.emitted)
    assert flags == "DDDD.DD"
    s = generator.statistics
    assert (s.proposed, s.accepted, s.positions_tested, s.rounds) == (6, 6, 6, 2)


def test_r82_a_drafter_that_never_matches_is_credited_with_no_token() -> None:
    generator, rounds = run(tiny_pair(), [3, 5, 7, 9], sampler=GREEDY, max_tokens=24)
    assert {e.source for record in rounds for e in record.emitted} == {"greedy", "target-draw"} - (
        {"target-draw"} if all(record.k for record in rounds) else set()
    )
    assert generator.statistics.accepted == 0
    assert generator.statistics.proposed > 60
