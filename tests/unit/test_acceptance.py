"""The acceptance rules against closed forms, and by goodness of fit with shown power."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import pytest
from many_rounds import many_rounds
from scipy import stats

from engine.acceptance import (
    RULES,
    Verdict,
    Verification,
    draw_replacement,
    match_target_draw,
    reject_and_resample,
    residual,
)
from engine.backend import mx
from engine.diagnostics import closed_forms
from engine.generator import SpeculativeGenerator
from engine.randomness import ACCEPT, DRAFT, RoundKeys, mix
from engine.sampling import filter_logits, probabilities
from engine.settings import SamplerSettings, Settings
from engine.switches import distribution_samples
from engine.toy import DRAFT_LOGITS, TARGET_LOGITS, toy_pair

THRESHOLD = 25.7448  # chi-square, 5 degrees of freedom, alpha 1e-4
P = np.exp(np.array(TARGET_LOGITS) / 0.7) / np.exp(np.array(TARGET_LOGITS) / 0.7).sum()
Q = np.exp(np.array(DRAFT_LOGITS) / 0.7) / np.exp(np.array(DRAFT_LOGITS) / 0.7).sum()


def chi_square(tokens: Sequence[int] | np.ndarray) -> float:
    """Pearson's statistic of emitted tokens against the toy target."""
    counts = np.bincount(tokens, minlength=6)
    return float(((counts - len(tokens) * P) ** 2 / (len(tokens) * P)).sum())


@functools.cache
def emitted(rule: str, k: int, tokens: int) -> SpeculativeGenerator:
    settings = Settings(seed=20, max_tokens=tokens, num_draft_tokens=k, record=False, rule=rule)
    generator = SpeculativeGenerator(toy_pair(), settings, stochastic=False)
    generator.start([0])
    for _ in generator.rounds():
        pass
    return generator


def test_the_threshold_is_the_quantile_it_claims_to_be() -> None:
    assert stats.chi2.isf(1e-4, 5) == pytest.approx(THRESHOLD, abs=1e-4)


@pytest.mark.parametrize(
    ("rule", "k"), [("stochastic", 4), ("sampler-match", 4), ("block", 4), ("stochastic", 1), ("sampler-match", 1)]
)
def test_emitted_tokens_follow_the_target(rule: str, k: int) -> None:
    tokens = distribution_samples() // (1 if k == 4 else 2)
    generator = emitted(rule, k, tokens)
    assert generator.rule.id == rule
    assert len(generator.tokens) == tokens
    assert chi_square(generator.tokens) < THRESHOLD


def first_tokens(rule: str, n: int, k: int = 1) -> tuple[np.ndarray, float]:
    """The first token emitted at each of n verify positions of the toy, and the share of first drafts kept."""
    scores = np.array(DRAFT_LOGITS)  # before the temperature
    rounds = many_rounds(RULES[rule].decide, P, Q, k, n, seed=7, draft_scores=scores)
    return rounds.first(), float((rounds.count > 0).mean())


def test_the_statistic_has_the_power_to_reject_wrong_rules() -> None:
    n = 4000
    (right, kept_right), (naive, _), (biased, kept_biased) = (
        first_tokens(rule, n) for rule in ("stochastic", "resample-from-p", "argmax-vs-argmax")
    )
    assert chi_square(right) < THRESHOLD
    expected = np.minimum(P, Q) + (1 - np.minimum(P, Q).sum()) * P
    noncentral = 5 + n * ((expected - P) ** 2 / P).sum()
    assert chi_square(naive) > THRESHOLD
    assert chi_square(naive) == pytest.approx(noncentral, rel=0.5)
    assert chi_square(biased) == pytest.approx(n * (1 / P.max() - 1), rel=0.1)
    # and the accept rates sit at their closed forms: 5 standard errors
    for kept, rate in ((kept_right, np.minimum(P, Q).sum()), (kept_biased, Q[P.argmax()])):
        assert kept == pytest.approx(rate, abs=5 * np.sqrt(rate * (1 - rate) / n))


@pytest.mark.parametrize(
    "rule", ["sampler-match", "stochastic", "block", "argmax-vs-argmax", "resample-from-p", "raw-q"]
)
def test_every_rule_emits_what_the_table_promises(rule: str) -> None:
    tokens, _ = first_tokens(rule, 20000, k=2)
    assert (chi_square(tokens) < THRESHOLD) == RULES[rule].distribution_preserving


def test_raw_q_emits_what_its_mistake_predicts() -> None:
    """d ~ Q tested against R emits Q min(1, P/R) + (what was rejected) relu(P - R) / Z."""
    raw = np.exp(np.array(DRAFT_LOGITS)) / np.exp(np.array(DRAFT_LOGITS)).sum()
    kept = Q * np.minimum(1, P / raw)
    rest = np.maximum(P - raw, 0)
    expected = kept + (1 - kept.sum()) * rest / rest.sum()
    n = 20000
    tokens, share = first_tokens("raw-q", n)
    assert stats.chisquare(np.bincount(tokens, minlength=6), n * expected).pvalue > 1e-4
    assert share == pytest.approx(kept.sum(), abs=5 * np.sqrt(kept.sum() * (1 - kept.sum()) / n))


def test_a_verdict_says_what_raw_q_believed() -> None:
    scores = mx.array([[0.0, 1.0, 0.0]])
    v = Verification(
        mx.array([1], dtype=mx.uint32), mx.zeros((2, 3)), mx.array([[0.0, 1.0, 0.0]]), RoundKeys(1, 0), None, scores
    )
    verdict = RULES["raw-q"].decide(v)
    assert verdict.believed_q is not None
    assert mx.allclose(verdict.believed_q, mx.softmax(scores, axis=-1)).item()
    assert verdict.q is not None
    assert verdict.q.item() == pytest.approx(np.e / (np.e + 2))
    assert RULES["stochastic"].decide(v).believed_q is None
    with pytest.raises(ValueError, match="processed logits"):
        RULES["raw-q"].decide(dataclasses.replace(v, draft_scores=None))


@pytest.mark.parametrize("rule", [name for name, rule in RULES.items() if rule.needs_q and name != "raw-q"])
def test_a_rule_that_needs_q_says_so(rule: str) -> None:
    v = Verification(mx.array([0], dtype=mx.uint32), mx.zeros((2, 3)), None, RoundKeys(1, 0))
    with pytest.raises(ValueError, match="needs the drafter's distribution"):
        RULES[rule].decide(v)


@pytest.mark.parametrize("rule", [name for name in RULES if name != "greedy-argmax"])
def test_without_drafts_every_rule_draws_from_p(rule: str) -> None:
    """Token 1 is the argmax of p = (.4, .6), and isn't all that comes."""
    target = mx.log(mx.array([[0.4, 0.6]]))
    nothing = mx.zeros((0,), dtype=mx.uint32)
    verdicts = [RULES[rule].decide(Verification(nothing, target, None, RoundKeys(3, i))) for i in range(30)]
    mx.eval([verdict.token for verdict in verdicts])
    assert {verdict.token.item() for verdict in verdicts} == {0, 1}
    assert {verdict.count.item() for verdict in verdicts} == {0}


def test_the_toys_closed_forms_are_those_of_the_laws() -> None:
    forms = closed_forms(mx.array(P.astype(np.float32))[None], mx.array(Q.astype(np.float32))[None])
    found = {name: float(value.item()) for name, value in forms.items()}
    assert found["sum_min"] == pytest.approx(0.7053, abs=5e-5)
    assert found["sum_prod"] == pytest.approx(0.3438, abs=5e-5)
    assert found["p_argmax_q"] == pytest.approx(0.6867, abs=5e-5)
    assert found["q_argmax_p"] == pytest.approx(0.4004, abs=5e-5)
    assert found["p_entropy"] == pytest.approx(stats.entropy(P), rel=1e-5)


@pytest.mark.parametrize(
    ("p", "q", "sum_min", "sum_prod", "q_argmax_p"),
    [
        ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], 0.7, 0.29, 0.2),
        ([0.3, 0.25, 0.25, 0.2], [0.95, 0.03, 0.01, 0.01], 0.35, 0.297, 0.95),
    ],
)
def test_closed_forms_of_small_cases(
    p: list[float], q: list[float], sum_min: float, sum_prod: float, q_argmax_p: float
) -> None:
    found = {name: float(value.item()) for name, value in closed_forms(mx.array([p]), mx.array([q])).items()}
    assert found["sum_min"] == pytest.approx(sum_min, abs=1e-6)
    assert found["sum_prod"] == pytest.approx(sum_prod, abs=1e-6)
    assert found["q_argmax_p"] == pytest.approx(q_argmax_p, abs=1e-6)
    tv = float(residual(mx.array(p), mx.array(q)).sum().item())
    assert tv == pytest.approx(1 - sum_min, abs=1e-6)


def test_sum_min_never_falls_below_sum_prod() -> None:
    random = np.random.default_rng(5)
    p, q = (random.dirichlet(np.full(50, a), 500).astype(np.float32) for a in (0.05, 0.5))
    forms = closed_forms(mx.array(p), mx.array(q))
    assert bool(mx.all(forms["sum_min"] >= forms["sum_prod"] - 1e-6).item())


@pytest.mark.parametrize(("rule", "closed_form"), [("stochastic", 0.7053), ("sampler-match", 0.3438)])
def test_measured_acceptance_sits_at_its_closed_form(rule: str, closed_form: float) -> None:
    statistics = emitted(rule, 4, distribution_samples()).statistics
    n = statistics.positions_tested
    assert statistics.per_position_acceptance == pytest.approx(
        closed_form, abs=4.5 * np.sqrt(closed_form * (1 - closed_form) / n)
    )


def test_greedy_drafting_accepts_as_often_as_p_of_argmax_q() -> None:
    for stochastic in (True, False):
        settings = Settings(seed=3, max_tokens=4000, drafter="greedy", record=False)
        generator = SpeculativeGenerator(toy_pair(), settings, stochastic=stochastic)
        generator.start([0])
        for _ in generator.rounds():
            pass
        n = generator.statistics.positions_tested
        assert generator.statistics.per_position_acceptance == pytest.approx(
            0.6867, abs=4.5 * np.sqrt(0.6867 * 0.3133 / n)
        )
        assert chi_square(generator.tokens) < THRESHOLD


def test_a_greedy_draft_is_tested_with_a_one_hot_q() -> None:
    """Testing it with its soft probabilities instead emits [.75, .25]."""
    p, n = np.array([0.6, 0.4]), 20000

    def first_token_share(q: list[float]) -> float:
        def test_with(v: Verification) -> Verdict:
            return reject_and_resample(v.with_q(v.given_q() * 0 + mx.array([q])))

        return float((many_rounds(test_with, p, np.array([1.0, 0.0]), 1, n).first() == 0).mean())

    assert first_token_share([1.0, 0.0]) == pytest.approx(0.6, abs=0.018)
    assert first_token_share([0.8, 0.2]) == pytest.approx(0.75, abs=0.018)


def test_equal_distributions_are_never_rejected() -> None:
    p = mx.full((5, 4), 0.25)
    for index in range(50):
        drafted = mx.array([0, 1, 2, 3], dtype=mx.uint32)
        v = Verification(drafted, mx.log(p), p[:4], RoundKeys(9, index))
        verdict = reject_and_resample(v)
        assert int(verdict.count.item()) == 4
        assert not bool(verdict.degenerate.item())  # the bonus comes from p itself


def test_an_empty_residual_falls_back_to_p_and_says_so() -> None:
    p = mx.array([[0.0, 0.5, 0.5, 0.0]] * 2)
    v = Verification(mx.array([1], dtype=mx.uint32), mx.log(p), p[:1], RoundKeys(4, 0))
    token, degenerate = draw_replacement(v, mx.array(0))
    assert bool(degenerate.item())
    assert int(token.item()) in (1, 2)


def test_the_residual_never_emits_a_token_that_q_covers() -> None:
    p, q = np.array([0.5, 0.3, 0.2, 0.0], np.float32), np.array([0.6, 0.1, 0.2, 0.1], np.float32)
    seen = set()
    for index in range(300):
        v = Verification(
            mx.array([3], dtype=mx.uint32), mx.log(mx.array(np.stack([p, p]))), mx.array(q)[None], RoundKeys(2, index)
        )
        verdict = reject_and_resample(v)
        assert int(verdict.count.item()) == 0
        seen.add(int(verdict.token.item()))
    assert seen == {1}


class ForcedKeys(RoundKeys):
    """Keys whose accept draws are all the same number."""

    def __init__(self, u: float, index: int) -> None:
        super().__init__(11, index)
        self._u = u

    def uniforms(self, purpose: int, count: int) -> mx.array:
        return mx.full((count,), self._u) if purpose == ACCEPT else super().uniforms(purpose, count)


def filtered(p_settings: SamplerSettings) -> mx.array:
    return filter_logits(mx.array([TARGET_LOGITS] * 2), p_settings)


@pytest.mark.parametrize("q_value", [0.3, 0.0])
@pytest.mark.parametrize("u", [None, 0.0])
def test_a_token_outside_the_support_is_never_accepted(q_value: float, u: float | None) -> None:
    target = filtered(SamplerSettings(temperature=0.7, top_k=2))
    q = mx.array([[0.4, 0.3, 0.3 - q_value, q_value, 0.0, 0.0]])
    for index in range(400 if q_value else 200):
        keys = RoundKeys(6, index) if u is None else ForcedKeys(u, index)
        verdict = reject_and_resample(Verification(mx.array([3], dtype=mx.uint32), target, q, keys))
        assert int(verdict.count.item()) == 0
        assert int(verdict.token.item()) in (0, 1)


def test_the_support_tests_have_power() -> None:
    target = filtered(SamplerSettings(temperature=0.7, top_k=2))
    underflowed = mx.array([[0.5, 0.5, 0.0, 0.0, 0.0, 0.0]])
    v = Verification(mx.array([3], dtype=mx.uint32), target, underflowed, RoundKeys(6, 0))
    assert int(RULES["missing-support-check"].decide(v).count.item()) == 1
    soft = mx.array([[0.4, 0.3, 0.0, 0.3, 0.0, 0.0]])
    v = Verification(mx.array([3], dtype=mx.uint32), target, soft, ForcedKeys(0.0, 0))
    assert int(RULES["missing-support-check"].decide(v).count.item()) == 1
    # Testing against the unfiltered p accepts it sooner or later.
    unfiltered = filtered(SamplerSettings(temperature=0.7))
    counts = [
        int(reject_and_resample(Verification(mx.array([3], dtype=mx.uint32), unfiltered, soft, RoundKeys(6, i))).count)
        for i in range(400)
    ]
    assert sum(counts) > 0


def test_filtered_support_is_never_left() -> None:
    settings = Settings(
        sampler=SamplerSettings(temperature=0.7, top_k=2),
        draft_sampler=SamplerSettings(temperature=0.7),
        seed=8,
        max_tokens=1500,
        record=False,
    )
    for stochastic in (True, False):
        generator = SpeculativeGenerator(toy_pair(), settings, stochastic=stochastic)
        generator.start([0])
        for _ in generator.rounds():
            pass
        assert len(generator.tokens) == 1500
        assert set(generator.tokens) == {0, 1}


def test_min_p_holds_for_accepted_tokens_too() -> None:
    sampler = SamplerSettings(temperature=1.5, min_p=1.0)
    generator = SpeculativeGenerator(toy_pair(), Settings(sampler=sampler, seed=1, max_tokens=200), stochastic=True)
    generator.start([3])
    for record in generator.rounds():
        assert {e.token for e in record.emitted} == {0}


def test_the_test_accepts_up_to_the_first_failure_only() -> None:
    """Tests [T, F, T, T] at k 4: one accepted, two tested."""
    target = mx.log(mx.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.5, 0.5]]))
    v = Verification(mx.array([1, 1, 1, 1], dtype=mx.uint32), target, None, RoundKeys(1, 1))
    verdict = match_target_draw(v)
    assert verdict.passed.tolist() == [True, False, True, True]
    assert (int(verdict.count.item()), int(verdict.token.item())) == (1, 0)


def test_a_greedy_target_keeps_its_argmax_only() -> None:
    sampler = SamplerSettings(temperature=0)
    target = filter_logits(mx.log(mx.array([[0.3, 0.5, 0.2]] * 2)), sampler)
    v = Verification(mx.array([0], dtype=mx.uint32), target, mx.array([[0.2, 0.1, 0.7]]), RoundKeys(0, 0))
    verdict = RULES["greedy-argmax"].decide(v)
    assert (int(verdict.count.item()), int(verdict.token.item())) == (0, 1)


def test_keys_are_mlx_keys_of_the_mixed_number() -> None:
    keys = RoundKeys(1234, 5)
    assert mx.array_equal(keys.keys(ACCEPT, 3)[2], mx.random.key(mix(1234, 5, ACCEPT, 2))).item()
    rows = mx.random.normal((3, 50), key=mx.random.key(0))
    drawn = keys.categorical(DRAFT, rows).tolist()
    alone = [mx.random.categorical(rows[i], key=keys.key(DRAFT, i)).item() for i in range(3)]
    assert drawn == alone
    hashes = {mix(s, r, p, i) for s in range(3) for r in range(10) for p in range(6) for i in range(5)}
    assert len(hashes) == 3 * 10 * 6 * 5


def test_probabilities_of_the_toy() -> None:
    p = probabilities(filter_logits(mx.array([TARGET_LOGITS]), SamplerSettings(temperature=0.7)))
    assert np.allclose(np.array(p)[0], P, atol=1e-6)
