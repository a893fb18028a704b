"""The acceptance rules against closed forms, and by goodness of fit with shown power."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats

from engine.acceptance import (
    RULES,
    Rule,
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


def chi_square(tokens: list[int]) -> float:
    """Pearson's statistic of emitted tokens against the toy target."""
    counts = np.bincount(tokens, minlength=6)
    return float(((counts - len(tokens) * P) ** 2 / (len(tokens) * P)).sum())


def emitted(stochastic: bool, k: int, tokens: int) -> SpeculativeGenerator:
    settings = Settings(seed=20, max_tokens=tokens, num_draft_tokens=k, record=False)
    generator = SpeculativeGenerator(toy_pair(), settings, stochastic=stochastic)
    generator.start([0])
    for _ in generator.rounds():
        pass
    return generator


def test_the_threshold_is_the_quantile_it_claims_to_be() -> None:
    assert stats.chi2.isf(1e-4, 5) == pytest.approx(THRESHOLD, abs=1e-4)


@pytest.mark.parametrize("stochastic", [True, False])
@pytest.mark.parametrize("k", [4, 1])
def test_emitted_tokens_follow_the_target(stochastic: bool, k: int) -> None:
    tokens = distribution_samples() // (1 if k == 4 else 2)
    generator = emitted(stochastic, k, tokens)
    assert generator.rule.id == ("stochastic" if stochastic else "sampler-match")
    assert len(generator.tokens) == tokens
    assert chi_square(generator.tokens) < THRESHOLD


@dataclass
class Trials:
    tokens: list[int]
    accepted: int


def verify(rule: Rule, positions: int, q_row: np.ndarray | None = None) -> Trials:
    """One verify position after another, each with a draft from q: the first emitted token of each."""
    target = mx.log(mx.array(P.astype(np.float32)))[None]
    q = mx.array((Q if q_row is None else q_row).astype(np.float32))[None]
    tokens, accepted = [], 0
    for index in range(positions):
        keys = RoundKeys(7, index)
        drafted = mx.random.categorical(mx.log(q), key=keys.key(DRAFT, 0))
        verdict = rule.decide(Verification(drafted, mx.concatenate([target, target]), q, keys))
        mx.eval(verdict.count, verdict.token, drafted)
        kept = int(verdict.count.item())
        accepted += kept
        tokens.append(int(drafted.item()) if kept else int(verdict.token.item()))
    return Trials(tokens, accepted)


def test_the_statistic_has_the_power_to_reject_wrong_rules() -> None:
    n = 4000
    right = verify(RULES["stochastic"], n)
    naive, biased = verify(RULES["resample-from-p"], n), verify(RULES["argmax-vs-argmax"], n)
    assert chi_square(right.tokens) < THRESHOLD
    expected = np.minimum(P, Q) + (1 - np.minimum(P, Q).sum()) * P
    noncentral = 5 + n * ((expected - P) ** 2 / P).sum()
    assert chi_square(naive.tokens) > THRESHOLD
    assert chi_square(naive.tokens) == pytest.approx(noncentral, rel=0.5)
    assert chi_square(biased.tokens) == pytest.approx(n * (1 / P.max() - 1), rel=0.1)
    # and the accept rates sit at their closed forms: 5 standard errors
    for trials, rate in ((right, np.minimum(P, Q).sum()), (biased, Q[P.argmax()])):
        assert trials.accepted / n == pytest.approx(rate, abs=5 * np.sqrt(rate * (1 - rate) / n))


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


@pytest.mark.parametrize(("stochastic", "closed_form"), [(True, 0.7053), (False, 0.3438)])
def test_measured_acceptance_sits_at_its_closed_form(stochastic: bool, closed_form: float) -> None:
    statistics = emitted(stochastic, 4, 6000).statistics
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
    p, n = np.array([0.6, 0.4], np.float32), 3000
    target = mx.log(mx.array(np.stack([p, p])))

    def first_token_share(q: list[float]) -> float:
        kept = []
        for index in range(n):
            v = Verification(mx.array([0], dtype=mx.uint32), target, mx.array([q]), RoundKeys(1, index))
            verdict = reject_and_resample(v)
            kept.append(0 if int(verdict.count.item()) else int(verdict.token.item()))
        return kept.count(0) / n

    assert first_token_share([1.0, 0.0]) == pytest.approx(0.6, abs=0.045)
    assert first_token_share([0.8, 0.2]) == pytest.approx(0.75, abs=0.045)


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
