"""`draftscope ab`: every arm at its closed form, with its spread, and the warning that one short run is noise."""

from __future__ import annotations

from typing import Any

import pytest

from app.headless import ab
from engine.models import Pair
from engine.settings import Settings
from engine.statistics import wilson_interval
from engine.toy import fixed_logits, toy_model, toy_pair
from tests.e2e.headless import command

Capture = pytest.CaptureFixture[str]
ARMS = ["sampler-match", "stochastic", "greedy-drafting", "plain"]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """One comparison on the toy, shared."""
    patch = pytest.MonkeyPatch()
    printed: list[dict[str, Any]] = []
    patch.setattr(ab, "print_json", printed.append)
    try:
        arguments = ["--toy", "--temps", "0,0.7", "--seeds", "3", "-n", "150", "--json"]
        from app.cli import main

        assert main(["ab", *arguments]) == 0
    finally:
        patch.undo()
    return printed[0]


def arm(found: dict[str, Any], name: str, temperature: float) -> dict[str, Any]:
    [one] = [a for a in found["arms"] if (a["arm"], a["temperature"]) == (name, temperature)]
    return one  # type: ignore[no-any-return]


def test_every_arm_ran_at_every_temperature(found: dict[str, Any]) -> None:
    assert [(a["temperature"], a["arm"]) for a in found["arms"]] == [(t, a) for t in (0, 0.7) for a in ARMS]
    assert all(len(a["seeds"]) == 3 and a["emitted"] == 450 for a in found["arms"])
    assert "noise" in found["note"]
    assert found["cancelled"] is False


def test_the_rules_are_named(found: dict[str, Any]) -> None:
    assert {a["rule"] for a in found["arms"] if a["temperature"] == 0} == {"greedy-argmax"}
    rules = [arm(found, name, 0.7)["rule"] for name in ARMS]
    assert rules == ["sampler-match", "stochastic", "sampler-match", "sampler-match"]


@pytest.mark.parametrize(
    ("name", "sum_min", "sum_prod", "acceptance"),
    [
        ("sampler-match", 0.7053, 0.3438, 0.3438),
        ("stochastic", 0.7053, 0.3438, 0.7053),
        ("greedy-drafting", 0.6867, 0.6867, 0.6867),
    ],
)
def test_acceptance_is_the_closed_form(
    found: dict[str, Any], name: str, sum_min: float, sum_prod: float, acceptance: float
) -> None:
    one = arm(found, name, 0.7)
    assert one["closed_form_sum_min"] == pytest.approx(sum_min, abs=1e-4)
    assert one["closed_form_sum_prod"] == pytest.approx(sum_prod, abs=1e-4)
    interval = wilson_interval(one["accepted"], one["positions_tested"], 3.89)
    assert interval is not None
    assert interval[0] <= acceptance <= interval[1]
    low, high = one["per_position_acceptance_interval"]
    assert interval[0] < low < one["per_position_acceptance"] < high < interval[1]


def test_plain_decoding_has_no_acceptance(found: dict[str, Any]) -> None:
    one = arm(found, "plain", 0.7)
    assert one["per_position_acceptance"] is None
    assert one["closed_form_sum_min"] is None
    assert one["tokens_per_round"] == 1
    assert one["between_seeds"]["per_position_acceptance"]["n"] == 0


def test_seeds_add_up_and_spread(found: dict[str, Any]) -> None:
    one = arm(found, "stochastic", 0.7)
    assert [s["seed"] for s in one["seeds"]] == [1, 2, 3]
    for name in ("rounds", "proposed", "positions_tested", "accepted", "emitted"):
        assert sum(s[name] for s in one["seeds"]) == one[name]
    rates = [s["per_position_acceptance"] for s in one["seeds"]]
    spread = one["between_seeds"]["per_position_acceptance"]
    assert (spread["low"], spread["high"], spread["n"]) == (min(rates), max(rates), 3)
    assert len(set(rates)) > 1
    assert spread["sd"] > 0
    assert one["tokens_per_second"] == pytest.approx(450 / sum(s["seconds"] for s in one["seeds"]))


def test_the_spread_of_known_numbers() -> None:
    assert ab.between_seeds([1.0, None, 3.0, 5.0]) == {"n": 3, "mean": 3.0, "sd": 2.0, "low": 1.0, "high": 5.0}
    assert ab.between_seeds([2.0])["sd"] is None
    assert ab.between_seeds([None])["mean"] is None


def test_the_table(capsys: Capture) -> None:
    done = command(capsys, "ab", "--toy", "--temps", "0.7", "--seeds", "7,", "-n", "40", "--rewind", "legacy-rewind")
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split()[:3] == ["arm", "T", "rule"]
    assert [line.split()[0] for line in lines[2:6]] == ARMS
    assert "greedy-drafting: the drafter takes its argmax (q one-hot)" in done.out
    assert ab.NOTE in done.out
    assert "seed 7 done (1 of 1)" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--temps -1", "temperature: expected a finite number >= 0"),
        ("--temps warm", "--temps: expected temperatures"),
        ("--seeds none", "--seeds: expected how many"),
        ("--seeds 5000", "the one seed 5000 is `5000,`"),
        ("-k 0", "expected k >= 1"),
        ("-n 0", "max_tokens"),
        ("--logit-bias 9:1", "token ids below 6"),
        ("--prompt dog", "doesn't know 'dog'"),
    ],
)
def test_bad_input_is_refused_in_one_line(capsys: Capture, options: str, words: str) -> None:
    done = command(capsys, "ab", "--toy", *options.split())
    assert done.code == 2
    assert done.out == ""
    assert words in done.err
    assert len([line for line in done.err.splitlines() if line.startswith("draftscope ab: ")]) == 1


def test_ctrl_c_keeps_what_was_measured(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ab._one_seed
    calls: list[int] = []

    def interrupted(pair: Pair, base: Settings, prompt: Any, cell: ab.Cell, seed: int) -> ab.SeedResult:
        calls.append(seed)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(pair, base, prompt, cell, seed)

    monkeypatch.setattr(ab, "_one_seed", interrupted)
    done = command(capsys, "ab", "--toy", "--temps", "0.7", "--seeds", "2", "-n", "20", "--json")
    assert done.code == 130
    assert done.object["cancelled"] is True
    assert [a["arm"] for a in done.object["arms"]] == ["sampler-match", "stochastic"]
    assert all(a["emitted"] == 20 for a in done.object["arms"])


def test_an_inspection_that_changes_the_stream_is_a_failure(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ab._one_run

    def meddling(pair: Pair, settings: Settings, prompt: Any) -> Any:
        found = whole(pair, settings, prompt)
        if settings.record:
            found[0].tokens[-1] = (found[0].tokens[-1] + 1) % 6
        return found

    monkeypatch.setattr(ab, "_one_run", meddling)
    done = command(capsys, "ab", "--toy", "--seeds", "1", "-n", "9")
    assert done.code == 1
    assert "the inspected run emitted other tokens" in done.err


@pytest.mark.allow_log("round .* failed")
def test_a_run_that_fails_is_a_failure(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = toy_model(fixed_logits((float("nan"),) * 6))
    monkeypatch.setattr("engine.toy.toy_pair", lambda: Pair(broken, toy_pair().draft))
    done = command(capsys, "ab", "--toy", "--seeds", "1", "-n", "9")
    assert done.code == 1
    assert "non-finite logits at step 0 (target)" in done.err


def test_a_draft_made_of_the_target_is_compared_as_a_draft_model_is(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--temps", "0.7", "--seeds", "1", "-n", "8")
    done = command(capsys, "ab", "--drafter", "dropped:1-2", *asked)
    assert done.code == 0
    assert "draft bundled target, layers 1-2 dropped" in done.err
    refused = command(capsys, "ab", "--drafter", "prompt-lookup", *asked)
    assert (refused.code, refused.out) == (2, "")
    assert "ab needs a network that draws from its q, not prompt-lookup:3" in refused.err
