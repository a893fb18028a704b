"""The whole vocabulary in a record: what it takes is told beforehand to the byte, and what-if is exact with it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from engine.codec import encode
from engine.generator import SpeculativeGenerator
from engine.models import bundled_pair
from engine.offline import what_if
from engine.recording_size import check_size, round_bytes, run_bytes, size_words
from engine.rounds import Round
from engine.settings import SamplerSettings, Settings, SettingsError
from engine.toy import toy_pair


def first_round(**settings: Any) -> tuple[Settings, Round]:
    wanted = Settings(seed=3, max_tokens=20, full_vocabulary=True, top_n=1, **settings)
    generator = SpeculativeGenerator(toy_pair(), wanted, stochastic=wanted.stochastic)
    generator.start([0, 1, 2])
    return wanted, next(generator.rounds())


@pytest.mark.parametrize("diagnostics", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"stochastic": True, "num_draft_tokens": 2},
        {"rule": "block"},
        {"num_draft_tokens": 0},
        {"drafter": "no-q"},
        {"drafter": "greedy"},
        {"sampler": SamplerSettings(temperature=0.0)},
        {"sampler": SamplerSettings(temperature=1.0)},
        {"sampler": SamplerSettings(top_k=3, top_p=0.9, min_p=0.01, presence_penalty=0.5)},
        {"sampler": SamplerSettings(xtc_probability=0.5, top_k=6)},
        {"sampler": SamplerSettings(xtc_probability=0.5, chain_order="mlx-lm")},
        {"draft_sampler": SamplerSettings(temperature=0.0, logit_bias=((1, 0.5),))},
    ],
)
def test_the_announced_size_is_the_arrays_of_a_round(settings: dict[str, Any], diagnostics: bool) -> None:
    wanted, record = first_round(**settings, diagnostics=diagnostics)
    assert record.k == wanted.num_draft_tokens
    alone = dataclasses.replace(record, coordinates=None, counterfactual=None)
    assert round_bytes(wanted, 6) == len(encode(alone)[1])
    assert all(sorted(seen.ids.tolist()) == list(range(6)) for seen in record.distributions)


def test_the_announced_size_grows_with_the_run_and_is_told_in_words() -> None:
    settings = Settings(full_vocabulary=True, num_draft_tokens=4, max_tokens=256)
    each = round_bytes(settings, 50_000)
    assert each == 4 * 50_000 * (4 * 4 + 2)
    assert run_bytes(settings, 50_000) == (52 * each, 256 * each)
    assert size_words(settings, 50_000) == "About 3.6 MB a round, 187 MB to 922 MB for 256 tokens."
    assert "no limit" in size_words(dataclasses.replace(settings, max_tokens=-1), 50_000)
    assert round_bytes(settings, 50_000, has_draft=False) == 4 * 50_000 * 2


def test_rounds_that_no_file_could_hold_are_refused_in_words() -> None:
    settings = Settings(full_vocabulary=True, num_draft_tokens=64)
    with pytest.raises(SettingsError, match="draft fewer"):
        check_size(settings, 150_000)
    check_size(dataclasses.replace(settings, full_vocabulary=False), 150_000)
    check_size(dataclasses.replace(settings, num_draft_tokens=8), 150_000)


def test_with_the_whole_vocabulary_another_temperature_is_exact_on_a_real_pair() -> None:
    pair, approximate = bundled_pair(), []
    for whole in (False, True):
        rounds = []
        for temperature in (0.7, 1.4):
            sampler = SamplerSettings(temperature=temperature)
            settings = Settings(seed=1, max_tokens=8, sampler=sampler, full_vocabulary=whole)
            generator = SpeculativeGenerator(pair, settings, stochastic=True)
            generator.start("It is a truth universally acknowledged, that")
            rounds.append(next(generator.rounds()))
            assert generator.host_syncs == 1
        found = what_if(rounds[0], 0, rule="sampler-match", temperature_ratio=2.0)
        approximate.append(found.approximate)
        if whole:
            warm = rounds[1].distributions[0]
            assert len(warm.ids) == warm.vocab_size
            ours = np.zeros(warm.vocab_size)
            theirs = np.zeros(warm.vocab_size)
            ours[found.ids], theirs[warm.ids] = found.replacement, warm.p
            assert ours == pytest.approx(theirs, abs=2e-6)
    assert approximate[0] is not None
    assert approximate[1] is None
