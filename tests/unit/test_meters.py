"""The meters: uniform under right rules, a martingale by enumeration, tripped by the mistakes they are there for."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from many_rounds import Table, many_rounds, random_table
from scipy import stats
from scipy.special import gammaln

from engine.acceptance import RULES, Verdict, Verification
from engine.alternatives import COMPARED, Counterfactual
from engine.backend import mx
from engine.evidence import (
    ALPHA,
    BINS,
    AcceptIdentity,
    Meter,
    Meters,
    bin_of,
    why_no_losslessness_meter,
    why_no_proposal_meter,
)
from engine.generator import SpeculativeGenerator
from engine.meters import coordinates, meter_coordinates, ratio_key
from engine.randomness import METER, RoundKeys
from engine.rounds import Round
from engine.settings import Settings
from engine.toy import toy_pair


def sorted_coordinates(p: Table, key: Table, tokens: npt.NDArray[np.int64], coins: Table) -> list[float]:
    """The same by sorting."""
    found = []
    for row, keys, token, coin in zip(p, key, tokens, coins, strict=True):
        order = np.lexsort((np.arange(len(row)), keys))
        place = int(np.flatnonzero(order == token)[0])
        found.append(float(row[order[:place]].sum() + coin * row[token]))
    return found


def test_coordinates_need_no_sort() -> None:
    random = np.random.default_rng(1)
    p, q = (random.dirichlet(np.full(20, 0.5), 50).astype(np.float32) for _ in range(2))
    tokens, coins = random.integers(0, 20, 50), random.random(50, np.float32)
    ties = np.round(p, 1)
    for key in (p, p / q, ties):
        found = coordinates(mx.array(p), mx.array(key), mx.array(tokens), mx.array(coins))
        assert found.tolist() == pytest.approx(sorted_coordinates(p, key, tokens, coins), abs=1e-5)


def test_tokens_outside_a_support_have_keys_too() -> None:
    key = ratio_key(mx.array([[0.0, 0.5, 0.5, 0.0]]), mx.array([[0.5, 0.0, 0.5, 0.0]]))
    assert key.tolist() == [[0.0, np.inf, 1.0, 0.0]]


PAIR = np.random.default_rng(2)
TARGET, DRAFT = random_table(PAIR, 8), random_table(PAIR, 8)
EMITTED = ("u_ratio", "u_p")


def seen_by_meters(rule: str, n: int, p: Table, q: Table, k: int, scores: Table | None = None) -> dict[str, Table]:
    """U of all emitted tokens by order (by id, too), and of all drafted ones, of n rounds in a row."""

    def also(v: Verification, verdict: Verdict) -> dict[str, mx.array]:
        found = meter_coordinates(v, verdict)
        ids = mx.broadcast_to(mx.arange(p.shape[-1]), v.p.shape)
        drafted = mx.concatenate([v.drafted, v.drafted[:1]])
        tokens = mx.where(mx.arange(k + 1) < verdict.count, drafted, verdict.token)
        return found | {"u_id": coordinates(v.p, ids, tokens, v.keys.uniforms(METER, k + 1))}

    rounds = many_rounds(RULES[rule].decide, p, q, k, n, seed=5, draft_scores=scores, also=also)
    there = rounds.emitted() >= 0
    return {name: u.reshape(-1) if name == "u_proposal" else u[there] for name, u in rounds.also.items()}


@pytest.mark.parametrize("rule", ["sampler-match", "stochastic", "block"])
def test_under_a_right_rule_every_order_is_uniform(rule: str) -> None:
    for u in seen_by_meters(rule, 4000, TARGET, DRAFT, 3).values():
        assert len(u) > 4000
        assert stats.kstest(u, "uniform").pvalue > 1e-4


@functools.cache
def many_contexts(n: int) -> tuple[Table, Table, Table]:
    """A pair of 32 tokens with another p and q in every round (n, 1, 32), and the drafter's scores: T 1, top-k 4."""
    random = np.random.default_rng(8)
    target = random.normal(0, 2, (n, 1, 32))
    scores = target + random.normal(0, 1, (n, 1, 32))
    cut = np.where(scores >= np.sort(scores, axis=-1)[..., -4:-3], scores, -np.inf)
    p, q = (np.exp(x) / np.exp(x).sum(axis=-1, keepdims=True) for x in (target, cut))
    size = (n, 32, 32)
    return np.broadcast_to(p, size), np.broadcast_to(q, size), np.broadcast_to(scores, size)


def alarms(rule: str, n: int = 1500) -> dict[str, int | None]:
    p, q, scores = many_contexts(n)
    found = {}
    for name, us in seen_by_meters(rule, n, p, q, 1, scores).items():
        meter = Meter()
        for u in us.tolist():
            meter.add(u)
        found[name] = meter.alarm_at
    return found


def test_each_mistake_trips_the_meter_that_is_there_for_it() -> None:
    naive = alarms("resample-from-p")
    assert naive["u_ratio"] is not None
    assert naive["u_id"] is None  # the deviations of different contexts cancel
    biased = alarms("argmax-vs-argmax")
    assert biased["u_p"] is not None
    assert biased["u_p"] < 100
    assert alarms("raw-q")["u_proposal"] is not None
    for rule in ("sampler-match", "stochastic", "block"):
        assert set(alarms(rule).values()) == {None}


def test_the_coins_are_the_meters_own() -> None:
    """Reading the coordinates changes no verdict, and drafted and emitted tokens have coins of their own."""

    class Watched(RoundKeys):
        asked: list[tuple[int, int]]

        def uniforms(self, purpose: int, count: int) -> mx.array:
            self.asked.append((purpose, count))
            return super().uniforms(purpose, count)

    keys = Watched(3, 1)
    keys.asked = []
    rows = mx.full((3, 4), 0.25)
    v = Verification(mx.array([0, 0], dtype=mx.uint32), mx.log(rows), rows[:2], keys)
    verdict = RULES["stochastic"].decide(v)
    keys.asked.clear()
    found = meter_coordinates(v, verdict)
    assert keys.asked == [(METER, 5)]
    # All weights are equal: U is (id + coin) / 4.
    coins = (4 * mx.concatenate([found["u_p"][:2], found["u_proposal"]])).tolist()
    assert coins == pytest.approx([keys.uniforms(METER, 5)[i].item() for i in (0, 1, 3, 4)])


def test_without_q_there_is_one_order_and_no_proposal_meter() -> None:
    rows = mx.log(mx.array([[0.2, 0.8]] * 3))
    for drafted in ([0, 1], []):
        v = Verification(mx.array(drafted, dtype=mx.uint32), rows[: len(drafted) + 1], None, RoundKeys(3, 1))
        found = meter_coordinates(v, RULES["sampler-match"].decide(v))
        assert found.keys() == {"u_ratio", "u_p"}
        assert found["u_ratio"].tolist() == found["u_p"].tolist()
        assert found["u_p"].shape == (len(drafted) + 1,)


def fed(meter: Meter, rows: Table) -> Meter:
    for row in rows.tolist():
        meter.add(*row)
    return meter


def test_the_evidence_is_the_closed_form() -> None:
    us = np.random.default_rng(4).beta(1, 1.2, (300, 2))
    meter = fed(Meter(orders=2), us)
    logs = []
    for order in range(2):
        n = np.histogram(us[:, order], BINS, (0, 1))[0]
        assert meter.counts[order] == n.tolist()
        prior = BINS * ALPHA
        likelihood = gammaln(prior) - gammaln(prior + n.sum()) + (gammaln(ALPHA + n) - gammaln(ALPHA)).sum()
        logs.append(likelihood + n.sum() * np.log(BINS))
    assert meter.log10_by_order == pytest.approx([x / np.log(10) for x in logs])
    assert meter.log10_evidence == pytest.approx((np.logaddexp(*logs) - np.log(2)) / np.log(10))
    assert meter.curve()[-1] == pytest.approx(meter.log10_evidence)
    assert meter.curve(290).tolist() == meter.curve()[290:].tolist()


def test_the_evidence_is_a_martingale() -> None:
    """The mean of E over what the next token can be is E, whatever was before."""
    for seed in range(5):
        past = np.random.default_rng(seed).random((3 + 20 * seed, 2))
        before = fed(Meter(orders=2), past).log10_evidence
        after = [
            10 ** fed(Meter(orders=2), np.vstack([past, [[i / 10 + 0.05, j / 10 + 0.05]]])).log10_evidence
            for i in range(BINS)
            for j in range(BINS)
        ]
        assert np.mean(after) == pytest.approx(10**before, rel=1e-9)


def test_the_alarm_stays() -> None:
    meter = Meter()
    while meter.alarm_at is None:
        meter.add(0.99)
    tripped = meter.alarm_at
    assert meter.n == tripped
    assert meter.log10_evidence >= 4 > meter.curve()[-2]
    fed(meter, np.random.default_rng(0).random((20000, 1)))
    assert meter.log10_evidence < 4
    assert meter.alarm_at == tripped


def test_the_evidence_has_no_largest_value() -> None:
    meter = fed(Meter(orders=2), np.full((2000, 2), 0.5))
    assert 1900 < meter.log10_evidence < 2000


@pytest.mark.parametrize(("u", "place"), [(0.0, 0), (0.1, 1), (0.99999, 9), (1.0, 9), (1.000001, 9), (-1e-9, 0)])
def test_rounding_stays_in_the_bins(u: float, place: int) -> None:
    assert bin_of(u) == place


def test_what_is_no_coordinate_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        Meter().add(float("nan"))
    with pytest.raises(ValueError, match="one for each order"):
        Meter(orders=2).add(0.5)


def test_a_rounds_arrays_count_as_far_as_it_emitted() -> None:
    meters = Meters()
    meters.add(2, np.array([0.1, 0.2, 9.0]), np.array([0.3, 0.4, np.nan]), np.array([0.5, 0.6]))
    meters.add(1, np.array([0.1]), np.array([0.3]), None)
    assert (meters.losslessness.n, meters.proposal.n) == (3, 2)
    assert meters.losslessness.counts[0][1:3] == [2, 1]
    assert meters.losslessness.counts[1][3:5] == [2, 1]


def test_where_a_meter_does_not_apply_it_says_why() -> None:
    assert "greedy" in str(why_no_losslessness_meter("greedy-argmax"))
    assert all(why_no_losslessness_meter(rule) is None for rule in RULES if rule != "greedy-argmax")
    assert why_no_proposal_meter("stochastic", reports_q=True, one_hot_q=False) is None
    assert why_no_proposal_meter("raw-q", reports_q=True, one_hot_q=True) is None
    assert "argmax" in str(why_no_proposal_meter("stochastic", reports_q=True, one_hot_q=True))
    assert "no q" in str(why_no_proposal_meter("stochastic", reports_q=False, one_hot_q=False))


def test_accepted_minus_predicted_is_near_normal_for_right_predictions_only() -> None:
    random = np.random.default_rng(6)
    zs, off = [], []
    for _ in range(300):
        right, wrong = AcceptIdentity(), AcceptIdentity()
        for s in random.random(200):
            accepted = bool(random.random() < s)
            right.add_test(accepted, s)
            wrong.add_test(accepted, s * 0.8)
        zs.append(right.z)
        off.append(wrong.z)
    assert stats.kstest(zs, "norm").pvalue > 1e-3
    assert np.mean(off) > 3


def test_certain_tests_have_no_z() -> None:
    identity = AcceptIdentity()
    assert identity.z is None
    identity.add_test(True, 1.0)
    identity.add_test(False, 0.0)
    assert identity.z is None
    assert identity.n == 2
    identity.add_test(True, 0.5)
    assert identity.z == pytest.approx(1.0)


def toy_rounds(rule: str) -> list[Round]:
    settings = Settings(seed=2, max_tokens=400, rule=rule, diagnostics=True)
    generator = SpeculativeGenerator(toy_pair(), settings, stochastic=False)
    generator.start([0])
    return list(generator.rounds())


@pytest.mark.parametrize("rule", ["stochastic", "sampler-match", "argmax-vs-argmax", "resample-from-p"])
def test_a_record_is_compared_with_the_closed_form_of_its_rule(rule: str) -> None:
    """The toy's four closed forms lie far apart, so the wrong one would show."""
    rounds, identity = toy_rounds(rule), AcceptIdentity()
    for record in rounds:
        identity.add(record)
    assert identity.n == sum(record.tested for record in rounds)
    assert identity.z is not None
    assert abs(identity.z) < 4


def test_a_round_of_block_needs_its_counterfactual() -> None:
    record, identity = toy_rounds("block")[0], AcceptIdentity()
    identity.add(record)
    assert identity.n == 0
    none = np.full(len(COMPARED), 3, np.int32)  # kept, as far as the rule is concerned, whatever ended the run
    weights = np.array([1.0, 0.5], np.float32)
    identity.add(record, Counterfactual(none, none, np.zeros(5, np.float32), weights, weights))
    assert (identity.n, identity.difference, identity.variance) == (1, 1.5, 2.25)
    assert identity.z == 1.0


def rounds_of_block(decide: Callable[[Verification], Verdict]) -> AcceptIdentity:
    def also(v: Verification, verdict: Verdict) -> dict[str, mx.array]:
        return {"weight": mx.sum(RULES["block"].decide(v).block_p)}

    rounds = many_rounds(decide, TARGET, DRAFT, 3, 4000, also=also)
    identity = AcceptIdentity()
    for accepted, expected in zip(rounds.count.tolist(), rounds.also["weight"].tolist(), strict=True):
        identity.add_round(accepted, expected)
    return identity


def test_under_block_a_round_is_compared_with_the_sum_of_its_weights() -> None:
    z = rounds_of_block(RULES["block"].decide).z
    assert z is not None
    assert abs(z) < 4
    token_wise = rounds_of_block(RULES["stochastic"].decide).z
    assert token_wise is not None
    assert token_wise < -5
