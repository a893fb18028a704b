"""Block verification: lossless by enumeration and by goodness of fit, and never worse than testing one by one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from many_rounds import Decide, Table, TrialKeys, many_rounds, random_table
from scipy import stats

from engine.acceptance import RULES, Verdict, Verification, draw_replacement, reject_and_resample
from engine.backend import mx
from engine.block import keep_probabilities, prefix_weights, verify_block
from engine.randomness import ACCEPT, REPLACE, RoundKeys

P2, Q2 = np.array([1 / 3, 2 / 3]), np.array([2 / 3, 1 / 3])


@dataclass
class Paths:
    """All drafted paths behind token 0 and what the engine makes of them, by path (n, ...)."""

    drafted: npt.NDArray[np.int64]
    chance: npt.NDArray[np.float64]
    ratio: npt.NDArray[np.float64]
    weight: npt.NDArray[np.float64]
    keep: npt.NDArray[np.float64]

    def count_chances(self) -> npt.NDArray[np.float64]:
        """(n, k + 1): how likely each count is, given the path: the longest prefix that passes is kept."""
        n, k = self.keep.shape
        found = np.zeros((n, k + 1))
        left = np.ones(n)
        for i in range(k, 0, -1):
            found[:, i] = left * self.keep[:, i - 1]
            left = left * (1 - self.keep[:, i - 1])
        found[:, 0] = left
        return found


def all_paths(p: Table, q: Table, k: int) -> Paths:
    size = p.shape[-1]
    p, q = np.broadcast_to(p, (size, size)), np.broadcast_to(q, (size, size))
    drafted = np.array(list(itertools.product(range(size), repeat=k)))
    before = np.concatenate([np.zeros((len(drafted), 1), int), drafted], axis=1)
    p_d, q_d = p[before[:, :k], drafted], q[before[:, :k], drafted]
    weight = prefix_weights(mx.array(p_d.astype(np.float32)), mx.array(q_d.astype(np.float32)))
    rows_p, rows_q = mx.array(p[before].astype(np.float32)), mx.array(q[before[:, :k]].astype(np.float32))
    keep = mx.vmap(keep_probabilities)(weight, rows_p, rows_q)
    ratio = np.divide(p_d, q_d, out=np.zeros_like(p_d), where=q_d > 0)
    return Paths(drafted, q_d.prod(axis=1), ratio, np.array(weight, np.float64), np.array(keep, np.float64))


def expected_counts(p: Table, q: Table, k: int) -> tuple[float, float, float]:
    """Expected accepted drafts: token-wise, block by its counts, block by sum P_i."""
    paths = all_paths(p, q, k)
    one_by_one = np.cumprod(np.minimum(paths.ratio, 1), axis=1).sum(axis=1)
    together = paths.count_chances() @ np.arange(k + 1)
    return tuple(float(paths.chance @ values) for values in (one_by_one, together, paths.weight.sum(axis=1)))  # type: ignore[return-value]


def test_the_expected_lengths_of_the_papers_toy() -> None:
    one_by_one, together, by_weights = expected_counts(P2, Q2, 2)
    assert one_by_one == pytest.approx(10 / 9, abs=1e-6)
    assert together == pytest.approx(11 / 9, abs=1e-6)
    assert by_weights == pytest.approx(11 / 9, abs=1e-6)
    n = 40000
    for decide, expected in ((reject_and_resample, 10 / 9), (verify_block, 11 / 9)):
        counts = many_rounds(decide, P2, Q2, 2, n).count
        assert counts.mean() == pytest.approx(expected, abs=4.5 * counts.std() / np.sqrt(n))


@pytest.mark.parametrize("k", [1, 2, 3])
def test_it_never_keeps_fewer_than_one_by_one(k: int) -> None:
    random = np.random.default_rng(k)
    gains = []
    for _ in range(40):
        p, q = random_table(random, 3), random_table(random, 3)
        one_by_one, together, by_weights = expected_counts(p, q, k)
        assert together == pytest.approx(by_weights, abs=1e-5)
        gains.append(together - one_by_one)
    assert min(gains) > -1e-5
    assert (max(gains) > 0.01) == (k > 1)  # alone, a draft is tested as ever


def exact_output(p: Table, q: Table, k: int) -> npt.NDArray[np.float64]:
    """The distribution (V,) * (k + 1) of the k + 1 tokens behind token 0, what isn't emitted drawn from p later."""
    size = p.shape[-1]
    paths = all_paths(p, q, k)
    found = np.zeros((size,) * (k + 1))
    for drafted, chance, weight, counts in zip(
        paths.drafted, paths.chance, paths.weight, paths.count_chances(), strict=True
    ):
        for count in range(k + 1):
            context = int(drafted[count - 1]) if count else 0
            scale = 1.0 if count in (0, k) else weight[count - 1]
            rest = np.maximum(scale * p[context] - (q[context] if count < k else 0), 0)
            if counts[count] < 1e-9 or rest.sum() == 0:
                continue
            tail = rest / rest.sum()
            for _ in range(k - count):
                tail = tail[..., None] * p.reshape((1,) * (tail.ndim - 1) + p.shape)
            found[tuple(drafted[:count])] += chance * counts[count] * tail
    return found


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_output_is_the_targets_own_exactly(k: int) -> None:
    random = np.random.default_rng(10 + k)
    for _ in range(8):
        p, q = random_table(random, 3), random_table(random, 3)
        wanted = p[0]
        for _ in range(k):
            wanted = wanted[..., None] * p.reshape((1,) * (wanted.ndim - 1) + p.shape)
        assert exact_output(p, q, k) == pytest.approx(wanted, abs=2e-6)


def chi_squares(decide: Decide, n: int) -> tuple[float, float]:
    """(p-value by single tokens, p-value by bigrams) of the first tokens emitted behind token 0."""
    random = np.random.default_rng(3)
    size = 4
    p, q = random_table(random, size, 2.0), random_table(random, size, 0.7)
    rounds = many_rounds(decide, p, q, 3, n)
    pairs = rounds.emitted()[:, :2]
    # Where the round ended with one token, the next one is drawn from p, as the rounds to come would.
    later = np.array([random.choice(size, p=p[first]) for first in pairs[:, 0]])
    pairs[:, 1] = np.where(pairs[:, 1] < 0, later, pairs[:, 1])
    singles = np.bincount(pairs[:, 0], minlength=size)
    bigrams = np.bincount(pairs[:, 0] * size + pairs[:, 1], minlength=size * size)
    expected = (p[0][:, None] * p).reshape(-1)
    return tuple(
        float(stats.chisquare(seen, n * wanted).pvalue) for seen, wanted in ((singles, p[0]), (bigrams, expected))
    )  # type: ignore[return-value]


def unscaled(v: Verification) -> Verdict:
    """Broken: the residual without P_i."""
    verdict = verify_block(v)
    return replace(verdict, token=draw_replacement(v, verdict.count)[0])


def too_generous(v: Verification) -> Verdict:
    """Broken: P_i in the place of h_i."""
    verdict = verify_block(v)
    assert verdict.block_p is not None
    count = mx.max(mx.where(v.u <= verdict.block_p, mx.arange(1, v.k + 1), 0))
    one = mx.ones((1,))
    token, _ = draw_replacement(v, count, mx.concatenate([one, verdict.block_p[:-1], one]))
    return replace(verdict, count=count, token=token)


def test_emitted_tokens_and_bigrams_follow_the_target() -> None:
    n = 20000
    assert min(chi_squares(verify_block, n)) > 1e-4
    assert min(chi_squares(reject_and_resample, n)) > 1e-4
    # and the same test rejects two ways to get it wrong; the first one shows in the bigrams alone
    singles, bigrams = chi_squares(unscaled, n)
    assert singles > 1e-4
    assert bigrams < 1e-8
    assert min(chi_squares(too_generous, n)) < 1e-8


def test_with_a_one_hot_q_it_is_the_token_wise_test() -> None:
    random = np.random.default_rng(4)
    p = random_table(random, 4, 2.0)
    q = np.eye(4)[[1, 2, 3, 0]]
    paths = all_paths(p, q, 3)
    taken = paths.chance > 0
    kept = np.cumprod(paths.ratio[taken], axis=1)
    token_wise = np.concatenate([np.ones((1, 1)), kept], axis=1)
    token_wise[:, :-1] -= token_wise[:, 1:]
    assert paths.count_chances()[taken] == pytest.approx(token_wise, abs=1e-6)
    rounds = many_rounds(verify_block, p, q, 3, 20000, one_hot=True)
    seen = np.bincount(rounds.first(), minlength=4)
    assert stats.chisquare(seen, 20000 * p[0]).pvalue > 1e-4


def verdict_of(p: list[list[float]], q: list[list[float]], drafted: list[int], u: float) -> Verdict:
    k = len(drafted)
    keys = TrialKeys({ACCEPT: mx.full((k,), u)}, {REPLACE: mx.zeros((k + 1, 2), dtype=mx.uint32)})
    return verify_block(Verification(mx.array(drafted, dtype=mx.uint32), mx.log(mx.array(p)), mx.array(q), keys))


def test_nothing_is_kept_at_u_0_where_h_is_0() -> None:
    for q_drafted in (0.5, 0.0):  # 0: it underflowed
        q = [1 - q_drafted, q_drafted]
        verdict = verdict_of([[1.0, 0.0]] * 3, [q, q], [1, 0], u=0.0)
        assert verdict.block_p is not None
        assert verdict.block_p.tolist() == [0, 0]
        assert (verdict.count.item(), verdict.token.item()) == (0, 0)


def test_equal_distributions_leave_no_surplus_and_are_always_kept() -> None:
    row = [0.25, 0.75]
    verdict = verdict_of([row] * 4, [row] * 3, [0, 1, 0], u=1 - 2**-24)
    assert verdict.block_p is not None
    assert verdict.block_h is not None
    assert verdict.block_p.tolist() == verdict.block_h.tolist() == [1, 1, 1]
    assert verdict.count.item() == 3
    assert not verdict.degenerate.item()  # type: ignore[union-attr]


def test_what_the_verdict_records() -> None:
    """k = 2 of the paper's toy, by hand: d = (0, 1): P = (1/2, 1); S_1 = relu(1/6 - 2/3) + relu(1/3 - 1/3) = 0."""
    verdict = verdict_of([P2.tolist()] * 3, [Q2.tolist()] * 2, [0, 1], u=0.4)
    assert verdict.block_p is not None
    assert verdict.block_h is not None
    assert verdict.block_p.tolist() == pytest.approx([0.5, 1.0])
    assert verdict.block_h.tolist() == pytest.approx([0.0, 1.0], abs=1e-6)
    assert verdict.threshold is verdict.block_h
    # The second passes, so the first is kept with it.
    assert verdict.passed.tolist() == [True, True]
    assert verdict.count.item() == 2
    # d = (0, 0): P = (1/2, 1/4), and u = 0.4 passes neither.
    verdict = verdict_of([P2.tolist()] * 3, [Q2.tolist()] * 2, [0, 0], u=0.4)
    assert verdict.passed.tolist() == [False, False]
    assert verdict.token.item() == 1  # all that relu(p - q) holds


def test_without_drafts_it_draws_from_p() -> None:
    rounds = many_rounds(RULES["block"].decide, P2, Q2, 1, 20000)
    assert np.bincount(rounds.first())[0] / 20000 == pytest.approx(1 / 3, abs=0.015)
    empty = Verification(mx.zeros((0,), dtype=mx.uint32), mx.log(mx.array([[0.0, 1.0]])), None, RoundKeys(1, 0))
    verdict = verify_block(empty)
    assert (verdict.count.item(), verdict.token.item()) == (0, 1)
