"""Faults of the field in penalties, tried in whole runs: what they count, how far they look back, and what is shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from field_models import PROMPT, fixed, plain_greedy, run, tiny_llama, tiny_pair

from engine.backend import mx
from engine.models import Pair
from engine.settings import SamplerSettings
from engine.toy import toy_pair


def test_r35_penalties_are_seen_in_the_record() -> None:
    """History [0, 0, 1]: logits (2, -1, 0, 3) become (0, -2, 0, 3) by frequency, (1, -2, 0, 3) by presence."""
    logits = np.array([2.0, -1, 0, 3])
    for name, after in (("frequency_penalty", [0.0, -2, 0, 3]), ("presence_penalty", [1.0, -2, 0, 3])):
        sampler = SamplerSettings(temperature=1.0, **{name: 1.0})
        model = fixed(np.exp(logits))
        _, (record, *_) = run(Pair(model, None), [0, 0, 1], sampler=sampler, diagnostics=True, max_tokens=1)
        (seen,) = record.distributions
        by_id, stages = np.argsort(seen.ids), dict(seen.p_stages)
        for stage, expected in (("logits", logits), ("raw", np.array(after))):
            p = np.exp(expected) / np.exp(expected).sum()
            assert stages[stage][by_id] == pytest.approx(p, abs=1e-6)
        assert seen.p[by_id] == pytest.approx(stages["raw"][by_id], abs=1e-6)


def penalised_greedy(tokens: int, penalty: float, window: int) -> list[int]:
    """Row R37's stream written out: one pass a token over the whole text, the penalty by NumPy."""
    model, context = tiny_llama(1), list(PROMPT)
    for _ in range(tokens):
        row = np.array(model.network(mx.array([context]), cache=model.make_cache())[0, -1])
        for token in set(context[-window:]):
            row[token] = row[token] / penalty if row[token] > 0 else row[token] * penalty
        context.append(int(row.argmax()))
    return context[len(PROMPT) :]


@pytest.mark.parametrize("window", [64, 5])
def test_r37_penalties_go_on_behind_the_first_token(window: int) -> None:
    sampler = SamplerSettings(temperature=0.0, repetition_penalty=1.7, repetition_window=window)
    expected = penalised_greedy(24, 1.7, window)
    assert expected != plain_greedy(tiny_llama(1), 24), "the penalty matters"
    for pair in (tiny_pair(), Pair(tiny_llama(1), tiny_llama(1)), Pair(tiny_llama(1), None)):
        generator, _ = run(pair, PROMPT, sampler=sampler, max_tokens=24)
        assert generator.tokens == expected


@pytest.mark.parametrize("k", [0, 4])
def test_r41_whether_the_prompt_counts_is_a_setting_and_the_same_with_drafts(k: int) -> None:
    """Prompt "a a a a", presence 5, the first token: all of the prompt counts, also what was read into the cache."""
    logits = np.array([2.0, -1, 0, 3])
    for counts in (True, False):
        sampler = SamplerSettings(temperature=1.0, presence_penalty=5.0, penalize_prompt=counts)
        model = fixed(np.exp(logits))
        settings = {"sampler": sampler, "num_draft_tokens": k, "max_tokens": 5, "prefill_chunk": 2}
        _, (record, *_) = run(Pair(model, model), [0, 0, 0, 0], stochastic=True, **settings)
        seen = record.distributions[0]
        wanted = logits - [5 * counts, 0, 0, 0]
        assert seen.p[np.argsort(seen.ids)] == pytest.approx(np.exp(wanted) / np.exp(wanted).sum(), abs=1e-6)


ODD = {
    "repetition": {"repetition_penalty": 1.3, "repetition_window": 0},
    "frequency": {"frequency_penalty": 0.5, "frequency_window": 0},
    "presence": {"presence_penalty": -0.5, "presence_window": 0},
    "dry": {"dry_multiplier": 0.8, "dry_window": 0},
    "dry length": {"dry_multiplier": 0.8, "dry_allowed_length": 1000},
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("huge", [2**31 - 1, 2**31, 2**63, 10**30])
def test_a_window_beyond_every_history_is_the_whole_history(name: str, huge: int) -> None:
    def tokens(**changes: Any) -> list[int]:
        sampler = SamplerSettings(temperature=0.9, **{**ODD[name], **changes})
        generator, _ = run(toy_pair(), [0, 1, 2, 0, 1], sampler=sampler, stochastic=True, max_tokens=25)
        assert generator.end is not None
        assert generator.end.finish_reason == "length", generator.end.notice
        return generator.tokens

    window = next(field for field in ODD[name] if field.endswith(("window", "length")))
    assert tokens(**{window: huge}) == tokens()


@pytest.mark.parametrize("window", [1, 7])
def test_an_odd_window_is_the_same_with_and_without_drafts(window: int) -> None:
    sampler = SamplerSettings(
        temperature=0.0,
        repetition_penalty=1.4,
        repetition_window=window,
        frequency_penalty=0.7,
        frequency_window=2 * window + 1,
        presence_penalty=0.3,
        presence_window=window,
        dry_multiplier=0.8,
        dry_allowed_length=1,
        dry_window=window,
    )
    streams = []
    for k in (0, 3):
        generator, _ = run(tiny_pair(), PROMPT, sampler=sampler, num_draft_tokens=k, max_tokens=20)
        streams.append(generator.tokens)
    assert streams[0] == streams[1] != plain_greedy(tiny_llama(1), 20)
