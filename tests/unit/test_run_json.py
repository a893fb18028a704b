"""The JSON of a run: complete, strict, and held against the laws by the validator, which must notice a fault."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import pytest

from engine.generator import SpeculativeGenerator
from engine.recording import RecordedRun, Recording
from engine.run_json import run_object
from engine.settings import SamplerSettings, Settings
from engine.toy import toy_pair
from tests.validate_run import check

RULE = ("stochastic", "modified rejection sampling", "Stochastic is on")


def recorded(**fields: Any) -> RecordedRun:
    settings = Settings(**{"max_tokens": 30, "seed": 5, "stochastic": True, "diagnostics": True, **fields})
    generator = SpeculativeGenerator(toy_pair(layers=2), settings, stochastic=settings.stochastic)
    run = Recording().begin(generator.start([0, 1, 2]))
    for record in generator.rounds():
        run.append(record)
    run.end = generator.end
    return run


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return run_object(recorded(), RULE, "full")


def test_it_is_strict_json_and_lawful(found: dict[str, Any]) -> None:
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again == found
    assert list(check(again)) == []


def test_it_says_what_ran(found: dict[str, Any]) -> None:
    run = recorded()
    assert (found["rule"], found["rule_label"], found["rule_reason"]) == RULE
    assert found["settings"]["seed"] == 5
    assert found["settings"]["temperature"] == 0.7
    assert found["models"]["draft"]["name"] == run.header.draft.name if run.header.draft else False
    assert found["prompt_tokens"] == [0, 1, 2]
    assert found["tokens"] == run.tokens
    assert found["text"] == run.header.vocabulary.decode(run.tokens)
    assert found["finish_reason"] == "length"
    assert "30 tokens" in found["finish_notice"]
    assert found["summary"].startswith("[Speculative acceptance] rule=stochastic ")
    seconds = sum(r.timings.total for r in run)
    assert run.end is not None
    assert seconds == pytest.approx(run.end.seconds)
    timings = found["timings"]
    assert timings["tokens_per_second"] == pytest.approx(30 / timings["seconds"])
    assert sum(timings["by_part"].values()) == pytest.approx(timings["seconds"])


def test_statistics_carry_their_samples(found: dict[str, Any]) -> None:
    statistics = found["statistics"]
    low, high = statistics["per_position_acceptance_interval"]
    assert 0 < low < statistics["per_position_acceptance"] < high < 1
    positions = statistics["acceptance_by_draft_position"]
    assert [p["position"] for p in positions] == [1, 2, 3, 4]
    assert sum(p["reached"] for p in positions) == statistics["positions_tested"]
    assert sum(p["accepted"] for p in positions) == statistics["accepted"]
    assert statistics["closed_form_positions"] == statistics["positions_tested"]


def test_rounds_hold_the_test_with_its_numbers(found: dict[str, Any]) -> None:
    tested = [d for r in found["rounds"] for d in r["drafted"] if d["fate"] != "ignored"]
    assert {d["fate"] for d in tested} == {"accepted", "rejected"}
    for draft in tested:
        assert draft["threshold"] == pytest.approx(draft["u"] * draft["q"], rel=1e-6)
        assert (draft["fate"] == "accepted") == (draft["threshold"] <= draft["p"])
        assert draft["sum_min"] == pytest.approx(0.7053, abs=1e-4)
        assert draft["sum_prod"] == pytest.approx(0.3438, abs=1e-4)
    first = found["rounds"][0]
    assert first["drafted"][0]["text"] in (" the", " cat", " sat", " on", " a", " mat")
    assert first["main"]["layers_end"] == [first["main"]["end"]]


def test_full_rounds_hold_the_distributions(found: dict[str, Any]) -> None:
    first = found["rounds"][0]
    assert len(first["distributions"]) == first["k"] + 1
    for d in first["distributions"][:-1]:
        assert sorted(d["ids"]) == list(range(6))
        assert sum(d["p"]) == pytest.approx(1)
        assert sum(d["q"]) == pytest.approx(1)
        assert sum(d["residual"]) == pytest.approx(1)
        assert d["p_stages"]["temperature"] == d["p"]
    assert first["distributions"][-1]["q"] is None


def test_details_are_left_out_unless_asked_for() -> None:
    run = recorded()
    assert "rounds" not in run_object(run, RULE)
    assert "distributions" not in run_object(run, RULE, "plain")["rounds"][0]


def test_what_is_undefined_is_null() -> None:
    run = recorded(num_draft_tokens=0, max_tokens=3)
    statistics = run_object(run, RULE)["statistics"]
    for name in (
        "per_position_acceptance",
        "acceptance_rate",
        "closed_form_sum_min",
        "per_position_acceptance_interval",
    ):
        assert statistics[name] is None
    assert statistics["mean_accepted_len"] == 0.0


def test_numbers_that_json_cannot_hold_are_null() -> None:
    run = recorded(max_tokens=3)
    assert run.end is not None
    run.end = dataclasses.replace(run.end, seconds=float("inf"))
    found = run_object(run, RULE)
    assert found["timings"]["seconds"] is None
    json.dumps(found, allow_nan=False)


def test_a_run_without_a_round() -> None:
    generator = SpeculativeGenerator(toy_pair(), Settings(seed=1), stochastic=False)
    run = Recording().begin(generator.start([0, 1], lambda done, total: True))
    run.end = generator.end
    found = run_object(run, ("sampler-match", "fresh target draw", ""), "plain")
    assert found["finish_reason"] == "cancelled"
    assert found["tokens"] == found["rounds"] == []
    assert found["timings"]["tokens_per_second"] is None
    assert found["statistics"]["tokens_per_round"] is None
    assert list(check(json.loads(json.dumps(found, allow_nan=False)))) == []


def test_a_run_that_has_not_ended_is_refused() -> None:
    run = recorded()
    run.end = None
    with pytest.raises(ValueError, match="hasn't ended"):
        run_object(run, RULE)


def test_drift_is_summed_up() -> None:
    found = run_object(recorded(rewind="legacy-rewind", sampler=SamplerSettings(temperature=1.0)), RULE, "plain")
    drifts = [r["drift"] for r in found["rounds"]]
    assert found["final_drift"] == found["max_abs_drift"] == drifts[-1] > 0
    assert found["first_drift_round"] == 0


@pytest.mark.parametrize(
    "harm",
    [
        lambda run: run["tokens"].append(1),
        lambda run: run.update(host_syncs=len(run["rounds"]) + 1),
        lambda run: run.update(final_drift=1),
        lambda run: run["statistics"].update(accepted=0),
        lambda run: run["rounds"][1]["main"].update(end=0),
        lambda run: run["rounds"][1]["draft"].update(start=0),
        lambda run: run["rounds"][0]["drafted"][0].update(u=1.0),
        lambda run: run["rounds"][0]["drafted"][0].update(sum_min=0.1, sum_prod=0.2),
        lambda run: run["settings"].update(kill_switch=True),
        lambda run: run["settings"].update(temperature=0),
    ],
)
def test_the_validator_notices(found: dict[str, Any], harm: Any) -> None:
    harmed = copy.deepcopy(found)
    harm(harmed)
    assert list(check(harmed)) != []
