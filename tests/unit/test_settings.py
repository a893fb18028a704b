"""Settings: what is refused and in which words, what is taken unchanged, and what may change in a run."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest

from engine.settings import LIVE_FIELDS, MAX_SEED, SamplerSettings, Settings, SettingsError

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("temperature", [-1.0, -1e-9, NAN, INF, -INF, "0.7", None, True]),
        ("top_k", [-1, 1.5, NAN, True, "4"]),
        ("top_p", [-0.1, NAN, INF]),
        ("min_p", [-0.1, 1.0001, NAN]),
        ("repetition_penalty", [0.0, -1.1, NAN, INF]),
        ("repetition_window", [-1, 2.0]),
        ("dry_multiplier", [-0.1, NAN, INF]),
        ("dry_base", [0.9, NAN]),
        ("dry_allowed_length", [-1, 1.5]),
        ("dry_window", [-1]),
        ("frequency_penalty", [NAN, INF]),
        ("frequency_window", [-1]),
        ("presence_penalty", [NAN, -INF]),
        ("presence_window", [-1]),
        ("xtc_probability", [-0.1, 1.1, NAN]),
        ("xtc_threshold", [-0.1, 0.51, NAN]),
        ("chain_order", ["", "temperature-last"]),
        ("logit_bias", [((-1, 1.0),), ((2, NAN),), ((2, INF),), ((1.5, 1.0),)]),
    ],
)
def test_a_sampler_setting_out_of_range_is_refused_by_name(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(SettingsError, match=rf"^{name}: expected .+, got "):
            SamplerSettings(**{name: value})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("num_draft_tokens", [-1, 1.5, True]),
        ("max_tokens", [0, -2, 1.5]),
        ("seed", [-1, MAX_SEED + 1, 1.5, "7"]),
        ("rewind", ["", "legacy"]),
        ("prefill_chunk", [0, -1]),
        ("top_n", [0]),
        ("stop", [("",), ("end", "")]),
    ],
)
def test_a_run_setting_out_of_range_is_refused_by_name(name: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(SettingsError, match=rf"^{name}: expected .+, got "):
            Settings(**{name: value})


@pytest.mark.parametrize("seed", [0, 1234, 2**31 - 1, 2**31, 4294967295, 2**40, 2**53 + 1, 2**63, MAX_SEED])
def test_every_seed_up_to_64_bits_is_taken_unchanged(seed: int) -> None:
    settings = Settings(seed=seed)
    assert settings.seed == seed
    assert json.loads(json.dumps(settings.as_dict()))["seed"] == seed


@pytest.mark.parametrize("value", [1e39, -1e39, 2.0**128, 10**400])
def test_what_would_overflow_float32_is_refused(value: float) -> None:
    for name in ("frequency_penalty", "presence_penalty"):
        with pytest.raises(SettingsError, match=rf"^{name}: expected a number that float32 holds .*, got "):
            SamplerSettings(**{name: value})
    with pytest.raises(SettingsError, match=r"^logit_bias: expected a number that float32 holds .*, got "):
        SamplerSettings(logit_bias=((3, value),))
    for name in ("temperature", "repetition_penalty"):
        with pytest.raises(SettingsError, match=rf"^{name}: expected a number that float32 holds .*, got "):
            SamplerSettings(**{name: abs(value)})


def test_a_repetition_penalty_that_float32_takes_for_0_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"^repetition_penalty: expected a number that float32 holds \(from"):
        SamplerSettings(repetition_penalty=1e-39)


def test_the_largest_float32_is_taken() -> None:
    most = float(np.finfo(np.float32).max)
    SamplerSettings(temperature=most, repetition_penalty=most, frequency_penalty=-most, presence_penalty=3.4028235e38)
    SamplerSettings(repetition_penalty=float(np.finfo(np.float32).tiny), logit_bias=((0, most), (1, -most)))
    assert np.isfinite(np.float32(3.4028235e38)), "it is rounded to the largest one"


def test_edge_values_are_taken() -> None:
    SamplerSettings(temperature=100.0, top_k=10**9, top_p=1.5, min_p=1.0, xtc_probability=1.0, xtc_threshold=0.5)
    SamplerSettings(frequency_penalty=-2.0, presence_penalty=-2.0, repetition_penalty=0.5, logit_bias=((0, -100.0),))
    assert Settings(num_draft_tokens=0).num_draft_tokens == 0
    assert Settings(max_tokens=-1).max_tokens == -1, "no limit: until an end-of-sequence token or a stop"
    assert Settings(max_tokens=1).max_tokens == 1


@pytest.mark.parametrize(
    ("given", "greedy"),
    [
        ({"temperature": 0.0}, True),
        ({"temperature": 0}, True),
        ({"temperature": 9.9e-6}, True),
        ({"temperature": 1e-5}, False),
        ({"temperature": 0.7}, False),
        ({"temperature": 1.5, "top_k": 1}, True),
        ({"temperature": 1.5, "top_k": 2}, False),
        ({"temperature": 1.0, "min_p": 1.0}, False),
    ],
)
def test_greedy_is_temperature_0_or_top_k_1(given: dict[str, Any], greedy: bool) -> None:
    assert SamplerSettings(**given).is_greedy is greedy


def test_a_bias_outside_the_vocabulary_is_refused_with_both_numbers() -> None:
    sampler = SamplerSettings(logit_bias=((3, 1.0), (9, 100.0)))
    sampler.check_vocabulary(10)
    with pytest.raises(SettingsError, match=r"logit_bias: expected token ids below 9 .*, got 9"):
        sampler.check_vocabulary(9)


def test_the_drafter_samples_as_the_target_does_unless_told() -> None:
    target = SamplerSettings(temperature=1.5, top_k=3)
    assert Settings(sampler=target).drafting is target
    own = SamplerSettings(temperature=0.0)
    assert Settings(sampler=target, draft_sampler=own).drafting is own


def test_settings_can_not_be_changed_in_place() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().seed = 3  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        SamplerSettings().top_k = 3  # type: ignore[misc]


def test_live_fields_change_in_a_copy() -> None:
    before = Settings(seed=5)
    changes = {"stochastic": True, "kill_switch": True, "diagnostics": True, "rewind": "legacy-rewind"}
    after = before.with_live(changes)
    assert {name: getattr(after, name) for name in changes} == changes
    assert after.seed == 5
    assert before == Settings(seed=5)


def test_a_live_change_is_checked_like_any_other() -> None:
    with pytest.raises(SettingsError, match=r"^rewind: expected"):
        Settings().with_live({"rewind": "backwards"})


@pytest.mark.parametrize("name", sorted({f.name for f in dataclasses.fields(Settings)} - set(LIVE_FIELDS)))
def test_all_other_fields_are_locked_in_a_run(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"^{name}: expected one of .* while a run goes"):
        Settings().with_live({name: getattr(Settings(), name)})


def test_the_flat_form_holds_every_field_and_is_json() -> None:
    settings = Settings(
        sampler=SamplerSettings(temperature=0.7, logit_bias=((3, 1.0),)),
        draft_sampler=SamplerSettings(temperature=0.25),
        stop=("end",),
    )
    flat = json.loads(json.dumps(settings.as_dict()))
    own = {f.name for f in dataclasses.fields(Settings)} - {"sampler"}
    assert set(flat) == own | {f.name for f in dataclasses.fields(SamplerSettings)}
    assert flat["temperature"] == 0.7
    assert flat["draft_sampler"]["temperature"] == 0.25
    assert Settings().as_dict()["draft_sampler"] is None
