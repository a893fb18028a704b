"""Faults of the field in filters, tried in whole runs: what is shown is what was drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from field_models import GREEDY, fixed, fixed_pair, run

from engine.generator import SpeculativeGenerator
from engine.models import Pair
from engine.settings import SamplerSettings, Settings

P = [0.5, 0.25, 0.15, 0.1]


@pytest.mark.parametrize(("top_p", "kept"), [(0.5, 2), (0.51, 3), (0.0, 4)])
def test_r20_the_count_that_is_shown_is_that_of_the_tokens_drawn(top_p: float, kept: int) -> None:
    sampler = SamplerSettings(temperature=1.0, top_p=top_p)
    generator, rounds = run(fixed_pair([0.25] * 4, [0.25] * 4), sampler=sampler, stochastic=True, max_tokens=60)
    assert set(generator.tokens) == set(range(kept))
    for record in rounds:
        for seen in record.distributions:
            assert seen.p_support == kept == (seen.p > 0).sum()
            assert seen.q is None or seen.q_support == kept


@pytest.mark.parametrize(
    ("order", "shown", "last"),
    [
        ("temperature-first", ["raw", "temperature", "min-p"], {0, 1, 2}),
        ("mlx-lm", ["raw", "min-p", "temperature"], {0, 1}),
    ],
)
def test_r21_r25_stages_are_shown_in_the_order_they_ran(order: str, shown: list[str], last: set[int]) -> None:
    sampler = SamplerSettings(temperature=2.0, min_p=0.5, chain_order=order)
    generator, rounds = run(
        fixed_pair(P, P), sampler=sampler, stochastic=True, diagnostics=True, max_tokens=40, num_draft_tokens=2
    )
    for record in rounds:
        for seen in record.distributions:
            assert [name for name, _ in seen.p_stages] == shown
            stages = dict(seen.p_stages)
            by_id = np.argsort(seen.ids)
            assert stages["raw"][by_id] == pytest.approx(P, abs=1e-6)
            assert (stages[shown[-1]] == seen.p).all(), "the last stage is what was drawn from"
            assert set(seen.ids[seen.p > 0].tolist()) == last
    assert set(generator.tokens) == last


def test_r28_filters_and_biases_hold_for_verified_tokens_too() -> None:
    """min-p 1 at temperature 1.5, the target drafts for itself, k 4, 200 tokens."""
    model = fixed(P)
    everywhere = SamplerSettings(temperature=1.5, min_p=1.0)
    quick = {"max_tokens": 200, "record": False}
    generator, _ = run(Pair(model, model), sampler=everywhere, stochastic=True, **quick)
    assert set(generator.tokens) == {0}
    target_alone = {"sampler": everywhere, "draft_sampler": SamplerSettings(temperature=1.5)}
    generator, rounds = run(Pair(model, model), stochastic=True, **quick, **target_alone)
    assert set(generator.tokens) == {0}
    assert {d.token for record in rounds for d in record.drafts} == {0, 1, 2, 3}, "the drafter proposes others"
    barred = SamplerSettings(temperature=1.5, logit_bias=((0, -1000.0),))
    free = SamplerSettings(temperature=1.5)
    for stochastic in (True, False):
        generator, _ = run(Pair(model, model), sampler=barred, draft_sampler=free, stochastic=stochastic, **quick)
        assert 0 not in generator.tokens


def test_r15_a_top_k_beyond_the_vocabulary_says_that_it_has_no_effect() -> None:
    for top_k in (4, 5, 151936):
        sampler = SamplerSettings(temperature=1.0, top_k=top_k)
        header = SpeculativeGenerator(fixed_pair(P, P), Settings(sampler=sampler, seed=1)).start([0])
        assert any(f"top-k {top_k} has no effect on the target" in notice for notice in header.notices)
    assert not SpeculativeGenerator(fixed_pair(P, P), Settings(sampler=GREEDY, seed=1)).start([0]).notices
