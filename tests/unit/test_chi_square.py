"""The chi-square experiment: its numbers by hand, its tokens against the round loop's, and what it accepts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.acceptance import RULES
from engine.backend import mx
from engine.chi_square import (
    PROBES,
    ChiSquareRun,
    RoundDraws,
    decide_rounds,
    run_experiment,
    run_side_by_side,
    support_probe,
)
from engine.generator import SpeculativeGenerator
from engine.goodness import ALPHA, ARMS, Experiment, Goodness, closed_forms, goodness_of_fit
from engine.randomness import ACCEPT, DRAFT, REPLACE, RoundKeys
from engine.settings import SamplerSettings, Settings, SettingsError
from engine.toy import toy_pair

THRESHOLD = 25.7448
RIGHT = ("sampler-match", "stochastic", "block")


def play(rule: str, samples: int, seed: int = 1, **more: object) -> ChiSquareRun:
    *_, last = run_experiment(Experiment(rule=rule, samples=samples, seed=seed, **more), rounds=1024)  # type: ignore[arg-type]
    return last


def fit(rule: str, samples: int, seed: int = 1, **more: object) -> Goodness:
    return play(rule, samples, seed, **more).result()


def test_the_closed_forms_of_the_toy_are_those_of_the_laws() -> None:
    forms = closed_forms(Experiment())
    found = (forms.sum_min, forms.sum_prod, forms.p_argmax_q, forms.q_argmax_p)
    assert found == pytest.approx((0.7053, 0.3438, 0.6867, 0.4004), abs=5e-5)
    wrong = {rule: closed_forms(Experiment(rule=rule)).expected_statistic(4000) for rule in ARMS}
    assert wrong["stochastic"] == pytest.approx(5)
    assert wrong["argmax-vs-argmax"] == pytest.approx(4000 * (1 / 0.6867 - 1), rel=1e-3)
    assert wrong["resample-from-p"] == pytest.approx(5 + 4000 * 0.0334, rel=0.01)


@pytest.mark.parametrize("rule", [rule for rule in ARMS if rule != "block"])
def test_what_a_rule_emits_and_accepts_is_its_closed_form(rule: str) -> None:
    run = play(rule, 12_000)
    emitted, n = run.forms.emitted, run.n
    assert n == 12_000
    if run.experiment.counts_positions:
        assert n <= run.tested < n + run.experiment.k, "one token for every tested position, and no bonus"
    error = np.abs(run.observed / n - emitted)
    assert (error <= 4.5 * np.sqrt(emitted * (1 - emitted) / n) + 1e-9).all()
    acceptance = run.forms.acceptance
    assert abs(run.accepted / run.tested - acceptance) < 4.5 * math.sqrt(acceptance * (1 - acceptance) / run.tested)


@pytest.mark.parametrize("rule", ["stochastic", "block", "resample-from-p", "argmax-vs-argmax", "raw-q"])
def test_it_keeps_the_drafts_that_the_round_loop_keeps(rule: str) -> None:
    settings = Settings(sampler=SamplerSettings(temperature=0.7), rule=rule, max_tokens=150, seed=7, record=False)
    generator = SpeculativeGenerator(toy_pair(), settings, stochastic=False)
    generator.start("the cat")
    rounds = [record for record in generator.rounds() if record.k == 4]
    run = ChiSquareRun(Experiment(rule=rule, seed=7))
    draws = run.draws(len(rounds))
    drafted = mx.array([[draft.token for draft in record.drafts] for record in rounds])
    count, _ = decide_rounds(
        RULES[rule], drafted, draws.uniforms(), draws.replace, run.target_weights, run.q, run.draft_scores
    )
    accepted = [record.accepted for record in rounds[:-1]]  # the last one may be cut
    assert np.array(count).tolist()[:-1] == accepted
    assert len(set(accepted)) > 2


@pytest.mark.parametrize("rule", RIGHT)
@pytest.mark.parametrize("k", [1, 4])
def test_a_lossless_rule_passes_at_12000_tokens(rule: str, k: int) -> None:
    found = fit(rule, 12_000, k=k)
    assert (found.n, found.dof) == (12_000, 5)
    assert found.threshold == pytest.approx(THRESHOLD, abs=5e-5)
    assert found.statistic is not None
    assert found.statistic < THRESHOLD
    assert not found.rejected


@pytest.mark.parametrize("rule", ["resample-from-p", "argmax-vs-argmax", "raw-q"])
def test_a_biased_rule_is_rejected_at_4000_positions(rule: str) -> None:
    run = play(rule, 4000)
    found = run.result()
    assert found.n == 4000
    assert found.rejected_by_statistic
    assert found.statistic == pytest.approx(run.forms.expected_statistic(4000), rel=0.35)
    assert found.p_value is not None
    assert found.p_value < ALPHA


def test_over_20_seeds_right_rules_are_rejected_at_most_once() -> None:
    found = [fit(rule, 12_000, seed) for seed in range(100, 120) for rule in RIGHT]
    assert sum(result.rejected for result in found) <= 1
    mean = float(np.mean([result.statistic for result in found if result.statistic is not None]))
    assert 5 - 4 * math.sqrt(10 / len(found)) < mean < 5 + 4 * math.sqrt(10 / len(found)), "not chi-square distributed"


@pytest.mark.parametrize("rule", [*RIGHT, "resample-from-p"])
def test_a_filtered_target_is_never_left(rule: str) -> None:
    run = play(rule, 1500, target_top_k=2)
    assert run.outside == run.result().support_violations == 0
    assert run.tested > run.accepted
    assert run.result().dof == 1


def test_only_the_missing_support_check_accepts_what_the_target_cannot_emit() -> None:
    found = {rule: support_probe(rule) for rule in ARMS}
    assert found == {rule: PROBES if rule == "missing-support-check" else 0 for rule in ARMS}


def test_one_token_outside_the_support_rejects_whatever_the_statistic() -> None:
    p = np.array([0.5, 0.5, 0.0])
    assert not goodness_of_fit(np.array([500, 500, 0]), p).rejected
    found = goodness_of_fit(np.array([500, 500, 1]), p)
    assert (found.support_violations, found.dof) == (1, 1)
    assert found.rejected
    assert not found.rejected_by_statistic
    assert goodness_of_fit(np.array([500, 500, 0]), p, outside=2).rejected


def test_the_statistic_is_pearsons() -> None:
    found = goodness_of_fit(np.array([60, 40]), np.array([0.5, 0.5]))
    assert found.statistic == pytest.approx(4)
    assert found.p_value == pytest.approx(0.0455, abs=5e-5)
    assert found.threshold == pytest.approx(15.1367, abs=5e-5)


def test_small_cells_are_pooled_and_named() -> None:
    p = np.array([0.9, 0.06, 0.03, 0.01])
    found = goodness_of_fit(np.array([90, 6, 3, 1]), p)
    assert (found.pooled, found.dof) == ((1, 2, 3), 1) or (found.pooled, found.dof) == ((2, 3), 2)
    assert found.expected[list(found.pooled)].sum() >= 5
    assert goodness_of_fit(np.array([900, 60, 30, 10]), p).pooled == ()
    none = goodness_of_fit(np.array([1, 0]), np.array([0.5, 0.5]))
    assert (none.dof, none.statistic, none.p_value, none.rejected) == (0, None, None, False)


def test_the_same_seed_gives_the_same_counts_and_another_one_others() -> None:
    counts = [play("stochastic", 600, seed).observed.tolist() for seed in (3, 3, 4)]
    assert counts[0] == counts[1] != counts[2]


def test_side_by_side_is_as_alone() -> None:
    experiments = [Experiment(rule=rule, samples=2000) for rule in ("argmax-vs-argmax", "stochastic", "block")]
    *_, together = run_side_by_side(experiments)
    assert [run.n for run in together] == [2000] * 3
    alone = [list(run_experiment(experiment))[-1].observed.tolist() for experiment in experiments]
    assert [run.observed.tolist() for run in together] == alone
    with pytest.raises(ValueError, match="from round 0, got those from 256"):
        ChiSquareRun(experiments[0]).step(RoundDraws(1, 256, 1, 4))


def test_its_keys_are_the_rounds_own() -> None:
    seed = 2**64 - 3
    draws = RoundDraws(seed, 5, 3, 2)
    keys = [RoundKeys(seed, index) for index in (5, 6, 7)]
    for purpose, table, count in ((DRAFT, draws.draft, 2), (ACCEPT, draws.accept, 2), (REPLACE, draws.replace, 3)):
        assert np.array(table).tolist() == [np.array(key.keys(purpose, count)).tolist() for key in keys]
    assert np.array(draws.uniforms()).tolist() == [np.array(key.uniforms(ACCEPT, 2)).tolist() for key in keys]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"rule": "greedy-argmax"}, "rule: expected one of sampler-match"),
        ({"samples": 0}, "samples: expected a whole number from 1"),
        ({"seed": -1}, "seed: expected a whole number from 0"),
        ({"k": 0}, "k: expected a whole number from 1"),
        ({"temperature": 0.0}, "greedy"),
        ({"target_top_k": 1}, "greedy"),
        ({"temperature": -1.0}, "temperature: expected a finite number"),
        ({"target_logits": (1.0,)}, "logits: expected 2 to 64"),
        ({"target_logits": (1.0, math.nan, 0, 0, 0, 0)}, "target_logits: expected numbers"),
        ({"draft_logits": (1.0, math.inf, 0, 0, 0, 0)}, "draft_logits: expected numbers"),
    ],
)
def test_what_cannot_be_tested_is_refused_in_words(wrong: dict[str, object], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Experiment(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("logits", [(1000, *[-1000] * 5), (200, 0, 0, 0, 0, 0)])
def test_a_target_that_can_emit_one_token_alone_is_refused(logits: tuple[float, ...]) -> None:
    with pytest.raises(SettingsError, match="two tokens at least"):
        Experiment(target_logits=logits)


def test_a_believed_q_of_nothing_divides_nothing(recwarn: pytest.WarningsRecorder) -> None:
    never = (-1000.0, 1.3, 0.2, 0.6, -0.3, -0.8)
    forms = closed_forms(Experiment(rule="raw-q", draft_logits=never))
    assert forms.emitted.sum() == pytest.approx(1)
    assert 0 < forms.acceptance <= 1
    assert not recwarn.list
