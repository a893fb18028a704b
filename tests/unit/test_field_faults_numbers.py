"""Faults of the field in numbers: rows that are no distribution, and greedy streams in half precision."""

from __future__ import annotations

import numpy as np
import pytest
from field_models import GREEDY, fixed, run, tiny_llama

from engine.backend import mx
from engine.models import Pair
from engine.settings import SamplerSettings
from engine.toy import PositionModel, toy_model


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize("row", [[np.nan] * 4, [1, np.nan, 5, 2], [np.inf, 0, 0, 0], [-np.inf] * 4])
def test_r154_r155_a_row_that_is_no_distribution_stops_the_run_before_its_token(
    row: list[float], temperature: float
) -> None:
    logits = np.tile([0.0, 9, 0, 0], (6, 1))
    logits[3] = row
    model, sound = toy_model(PositionModel(logits), list("abcd")), fixed([0.01, 0.97, 0.01, 0.01])
    for pair, who in ((Pair(model, None), "target"), (Pair(sound, model), "draft")):
        sampler = SamplerSettings(temperature=temperature)
        generator, rounds = run(pair, [1], sampler=sampler, max_tokens=20, stochastic=True)
        assert generator.end is not None
        told = (generator.end.finish_reason, generator.end.notice)
        assert told == ("error", f"non-finite logits at step 3 ({who})")
        # The target alone had emitted three; the drafter met the row in its first round.
        assert len(generator.tokens) == len(rounds) == (3 if who == "target" else 0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_r162_the_greedy_stream_is_plain_decoding_or_parts_at_a_tie(dtype: str) -> None:
    """Widths 1 and k + 1 round differently in half precision: the gap of the two largest logits must then be tiny."""
    target, draft = tiny_llama(1, dtype=dtype), tiny_llama(2, dtype=dtype)
    for first in (3, 4, 5):
        prompt = [first, 5, 7]
        plain, rounds = run(Pair(target, None), prompt, sampler=GREEDY, max_tokens=24, diagnostics=True)
        for mate in (draft, target):
            generator, _ = run(Pair(target, mate), prompt, sampler=GREEDY, max_tokens=24)
            if generator.tokens == plain.tokens:
                continue
            assert dtype != "float32"
            pairs = zip(generator.tokens, plain.tokens, strict=True)
            at = next(i for i, (a, b) in enumerate(pairs) if a != b)
            row = target.network(mx.array([[*prompt, *plain.tokens[:at]]]), cache=target.make_cache())[0, -1]
            best = np.sort(np.array(row.astype(mx.float32)))[-2:]
            assert best[1] - best[0] < 0.1, (first, at)
        assert len(rounds) == 24
