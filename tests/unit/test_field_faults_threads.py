"""Faults of the field with threads and seeds: draws depend on the seed alone, whoever makes them and when."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import pytest
from field_models import GREEDY, run

from engine.backend import mx
from engine.generator import SpeculativeGenerator
from engine.settings import SamplerSettings, Settings
from engine.toy import toy_pair

T = TypeVar("T")
Seen = tuple[list[int], list[float | None]]
RULES = {
    "stochastic": (True, SamplerSettings()),
    "sampler-match": (False, SamplerSettings()),
    "greedy": (False, GREEDY),
}


def elsewhere(work: Callable[[], T]) -> T:
    """What `work` gives on a thread of its own, which leaves nothing of MLX behind."""
    found: list[T] = []

    def target() -> None:
        found.append(work())
        mx.clear_streams()

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    return found[0]


def seen_of(seed: int, rule: str) -> Seen:
    """Tokens and accept draws of a run."""
    stochastic, sampler = RULES[rule]
    generator, rounds = run(toy_pair(), [0, 1], stochastic=stochastic, sampler=sampler, seed=seed, max_tokens=25)
    return generator.tokens, [draft.u for record in rounds for draft in record.drafts]


@pytest.mark.parametrize("rule", RULES)
def test_r127_a_seed_draws_the_same_on_every_thread(rule: str) -> None:
    here = seen_of(7, rule)
    mx.random.seed(7)  # of this thread alone, and of no matter
    assert elsewhere(lambda: seen_of(7, rule)) == here
    assert elsewhere(lambda: (mx.random.seed(1), seen_of(7, rule))[1]) == here
    if rule == "stochastic":
        assert [u for u in here[1] if u is not None][:3] != pytest.approx([0.0777, 0.1745, 0.8326], abs=1e-4)
        assert elsewhere(lambda: seen_of(8, rule)) != here


@pytest.mark.parametrize("rule", RULES)
def test_r130_what_ran_before_changes_nothing(rule: str) -> None:
    """Seed 42, another prompt without a seed, seed 42 again, by one generator and by others."""
    stochastic, sampler = RULES[rule]
    settings = Settings(sampler=sampler, seed=42, max_tokens=20)
    generator = SpeculativeGenerator(toy_pair(), settings, stochastic=stochastic)

    def tokens(prompt: list[int]) -> list[int]:
        generator.start(prompt)
        list(generator.rounds())
        return generator.tokens

    first = tokens([0, 1])
    tokens([5, 4, 3])
    run(toy_pair(), [2, 2], sampler=sampler, seed=None, max_tokens=5)
    mx.random.uniform(shape=(5,))
    assert tokens([0, 1]) == first
