"""What the other rules would have made of a round: their own verdicts, expectations that hold, and careful advice."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest
from many_rounds import Table, many_rounds, random_table
from test_block import expected_counts

from engine.acceptance import RULES, Verdict, Verification
from engine.alternatives import (
    COMPARED,
    EXPECTED,
    FEW_ROUNDS,
    GREEDY_DRAFTING,
    Alternatives,
    Counterfactual,
    acceptance_probabilities,
    advice,
    read_counterfactual,
)
from engine.backend import mx
from engine.counterfactuals import counterfactuals
from engine.diagnostics import closed_forms
from engine.randomness import RoundKeys
from engine.rounds import Draft

PAIR = np.random.default_rng(12)
TARGET, DRAFT = random_table(PAIR, 5), random_table(PAIR, 5)


def verification(index: int, q: bool = True, scores: bool = True) -> Verification:
    random = np.random.default_rng(index)
    k = 1 + index % 4
    rows, proposed = random.dirichlet(np.ones(6), k + 1), random.dirichlet(np.ones(6), k)
    drafted = [int(random.choice(6, p=row)) for row in proposed]
    return Verification(
        mx.array(drafted, dtype=mx.uint32),
        mx.log(mx.array(rows.astype(np.float32))),
        mx.array(proposed.astype(np.float32)) if q else None,
        RoundKeys(5, index),
        draft_scores=mx.log(mx.array(proposed.astype(np.float32))) * 1.3 if scores else None,
    )


def lazy(v: Verification, rule: str, verdict: Verdict) -> dict[str, mx.array]:
    forms = closed_forms(v.p[: v.k], v.q) if v.q is not None else {}
    return counterfactuals(v, rule, verdict, forms)


def looked_at(v: Verification, rule: str = "stochastic") -> Counterfactual:
    found = lazy(v, rule, RULES[rule].decide(v))
    mx.eval(found)
    seen = read_counterfactual({name: np.array(value) for name, value in found.items()})
    assert seen is not None
    return seen


def test_every_rule_is_tried_with_the_same_draws() -> None:
    different = 0
    for index in range(20):
        seen = looked_at(verification(index))
        for rule in COMPARED:
            alone = RULES[rule].decide(verification(index))
            assert seen.accepted(rule) == alone.count.item()
            assert seen.token(rule) == alone.token.item()
        different += len(set(zip(seen.counts.tolist(), seen.tokens.tolist(), strict=True))) > 1
        block = RULES["block"].decide(verification(index))
        assert block.block_p is not None
        assert block.block_h is not None
        assert seen.block_p.tolist() == block.block_p.tolist()
        assert seen.block_h.tolist() == block.block_h.tolist()
    assert different > 10


def test_the_verdict_in_force_is_taken_as_it_is() -> None:
    v = verification(3)
    verdict = dataclasses.replace(RULES["stochastic"].decide(v), count=mx.array(77))
    found = lazy(v, "stochastic", verdict)
    assert found["other_counts"].tolist()[COMPARED.index("stochastic")] == 77


def test_without_q_or_drafts_there_is_nothing() -> None:
    v = verification(1, q=False)
    assert lazy(v, "sampler-match", RULES["sampler-match"].decide(v)) == {}
    empty = Verification(mx.zeros((0,), dtype=mx.uint32), mx.zeros((1, 6)), mx.zeros((0, 6)), RoundKeys(1, 1))
    assert counterfactuals(empty, "stochastic", RULES["stochastic"].decide(empty), {}) == {}
    assert read_counterfactual({}) is None


def test_raw_q_is_left_out_where_its_scores_are_unknown() -> None:
    seen = looked_at(verification(2, scores=False))
    assert seen.accepted("raw-q") is None
    assert seen.token("raw-q") is None
    assert seen.accepted("resample-from-p") is not None
    assert looked_at(verification(2)).accepted("raw-q") is not None


def expectations(p: Table, q: Table, k: int, n: int = 20000) -> npt.NDArray[np.float32]:
    """(n, len(EXPECTED)) of n rounds."""
    return many_rounds(
        RULES["stochastic"].decide, p, q, k, n, seed=9, also=lambda v, verdict: lazy(v, "stochastic", verdict)
    ).also["other_expected"]


@pytest.mark.parametrize("name", [name for name in EXPECTED if name != GREEDY_DRAFTING])
def test_the_expectations_mean_is_the_rules_own(name: str) -> None:
    n, k = 20000, 3
    expected = expectations(TARGET, DRAFT, k)[:, EXPECTED.index(name)]
    counts = many_rounds(RULES[name].decide, TARGET, DRAFT, k, n, seed=10).count
    error = np.sqrt((expected.var() + counts.var()) / n)
    assert expected.mean() == pytest.approx(counts.mean(), abs=4.5 * error)
    assert expected.std() < counts.std() or name == "block"


def test_the_expectations_mean_is_the_closed_form() -> None:
    one_by_one, together, _ = expected_counts(TARGET, DRAFT, 3)
    found = expectations(TARGET, DRAFT, 3)
    for name, exact in (("stochastic", one_by_one), ("block", together)):
        values = found[:, EXPECTED.index(name)]
        assert values.mean() == pytest.approx(exact, abs=4.5 * values.std() / np.sqrt(len(values)))


def test_greedy_drafting_is_estimated_exactly_where_no_context_matters() -> None:
    p, q = TARGET[0], DRAFT[0]
    found = expectations(p, q, 3, 10)[:, EXPECTED.index(GREEDY_DRAFTING)]
    share = p[q.argmax()]
    assert found == pytest.approx(share + share**2 + share**3, rel=1e-5)
    counts = many_rounds(RULES["stochastic"].decide, p, q, 3, 20000, one_hot=True).count
    assert counts.mean() == pytest.approx(found[0], abs=4.5 * counts.std() / np.sqrt(20000))


def test_a_position_shows_every_rules_probability() -> None:
    seen = looked_at(verification(3))
    draft = Draft(1, "accepted", sum_min=0.6, sum_prod=0.3, p_argmax_q=0.5, q_argmax_p=0.4)
    found = {name: value for name, _, value in acceptance_probabilities(draft, seen, 2)}
    assert found == {
        "sampler-match": 0.3,
        "stochastic": 0.6,
        "block": pytest.approx(seen.block_h[2]),
        GREEDY_DRAFTING: 0.5,
        "argmax-vs-argmax": 0.4,
    }
    assert acceptance_probabilities(Draft(1, "accepted"), None, 0)[2][2] is None


def one_round(**expected: float) -> Counterfactual:
    values = [expected.get(name.replace("-", "_"), 0.5) for name in EXPECTED]
    none = np.zeros(len(COMPARED), np.int32)
    return Counterfactual(none, none, np.array(values, np.float32), np.ones(2, np.float32), np.ones(2, np.float32))


def over(match: float, stochastic: float, greedy: float, rounds: int = 400, noise: float = 0.2) -> Alternatives:
    random, seen = np.random.default_rng(1), Alternatives()
    for _ in range(rounds):
        shift = random.normal(0, 1)  # what makes a round good is good for every rule
        own = random.normal(0, noise, 3)
        seen.add(
            one_round(
                sampler_match=match + shift + own[0],
                stochastic=stochastic + shift + own[1],
                greedy_drafting=greedy + shift + own[2],
            )
        )
    return seen


def test_means_gains_and_their_errors() -> None:
    seen = Alternatives()
    assert seen.tokens_per_round("block") is None
    assert seen.gain("block", "stochastic") is None
    for block, stochastic in ((1.0, 0.5), (2.0, 1.0), (2.5, 2.0)):
        seen.add(one_round(block=block, stochastic=stochastic))
    seen.add(None)
    assert seen.rounds == 3
    assert seen.tokens_per_round("block") == pytest.approx(1 + 5.5 / 3)
    gain = seen.gain("block", "stochastic")
    assert gain is not None
    differences = np.array([0.5, 1.0, 0.5])
    assert gain == pytest.approx((differences.mean(), differences.std(ddof=1) / np.sqrt(3)))
    assert one_round(block=1.5).expected_tokens("block") == 2.5


def test_the_advice_fits_the_numbers() -> None:
    assert "nothing to compare" in advice(Alternatives())
    assert "too few rounds" in advice(over(1, 3, 1, rounds=FEW_ROUNDS - 1))
    assert advice(over(1, 3, 1, rounds=1)).startswith("Over 1 round a round is worth")
    worth = advice(over(1, 1.5, 1.1))
    assert "is worth 2.02 tokens without Stochastic, 2.50 with it" in worth
    assert "worth it, by 24 %, and better than a greedy drafter" in worth
    assert "about as well" in advice(over(1, 1.5, 1.5))
    assert "let the drafter be greedy" in advice(over(1, 1.5, 2))
    assert "no clear difference" in advice(over(1, 1, 1))
    # A gain that the noise could have made, and a certain one that is too small to pay
    assert "no clear difference" in advice(over(1, 1.05, 1, noise=2))
    assert "no clear difference" in advice(over(1, 1.01, 1, noise=0))
    for sentence in (worth, advice(Alternatives())):
        assert sentence.count(". ") == 0
        assert sentence.endswith(".")
