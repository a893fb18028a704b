"""`draftscope lab`: verdicts, reports and JSON of both labs, and what they refuse."""

from __future__ import annotations

import pytest

from engine.faults import FAULT_TABLE, INSTRUMENTS
from engine.goodness import ARMS
from tests.e2e.headless import child, command, lawful

THRESHOLD = 25.7448


@pytest.mark.parametrize("rule", ["sampler-match", "stochastic", "block"])
def test_a_lossless_rule_is_accepted(capsys, rule) -> None:
    found = command(capsys, "lab", "chi-square", "--rule", rule, "--samples", "12000", "--seed", "1", "--json").object
    assert found["rejected"] is False
    assert found["statistic"] < THRESHOLD
    assert found["threshold"] == pytest.approx(THRESHOLD, abs=1e-4)
    assert (found["dof"], found["n"], found["support_violations"]) == (5, 12_000, 0)
    assert sum(found["observed"]) == 12_000
    assert sum(found["expected"]) == pytest.approx(12_000)
    assert 1e-4 < found["p_value"] < 1
    assert found["lossless"] is True
    assert found["counts"] == "emitted tokens"


@pytest.mark.parametrize(("rule", "expected"), [("resample-from-p", 139.7), ("argmax-vs-argmax", 1825.13)])
def test_a_biased_rule_is_rejected_at_4000_positions(capsys, rule, expected) -> None:
    found = command(capsys, "lab", "chi-square", "--rule", rule, "--samples", "4000", "--seed", "1", "--json").object
    assert found["rejected_by"] == ["statistic"]
    assert found["expected_statistic"] == pytest.approx(expected, abs=0.1)
    assert found["statistic"] == pytest.approx(expected, rel=0.35)
    assert (found["n"], found["counts"]) == (4000, "tested positions")


def test_the_missing_support_check_is_rejected_by_the_forced_trials(capsys) -> None:
    arguments = ("--rule", "missing-support-check", "--samples", "1500", "--target-top-k", "2", "--json")
    found = command(capsys, "lab", "chi-square", *arguments).object
    assert found["rejected_by"] == ["support"]
    assert found["support_probe"] == {"trials": 400, "accepted": 400}
    assert found["dof"] == 1


def test_the_report_says_the_same_in_words(capsys) -> None:
    done = command(capsys, "lab", "chi-square", "--rule", "argmax-vs-argmax", "--samples", "4000")
    assert done.code == 0
    assert "chi-square 1825.13 (1825.1 expected), 5 degrees of freedom, threshold 25.7448" in done.out
    assert done.out.rstrip().endswith("rejected by the statistic")


def test_logits_temperature_and_k_are_taken(capsys) -> None:
    options = ("--target-logits", "-1,0,1", "--draft-logits", "0,1,0", "--temp", "1", "-k", "2", "--samples", "3000")
    found = command(capsys, "lab", "chi-square", *options, "--json").object
    assert found["experiment"]["target_logits"] == [-1, 0, 1]
    assert found["dof"] == 2
    assert found["expected"] == pytest.approx([3000 * p for p in (0.09003, 0.24473, 0.66524)], rel=1e-3)
    assert not found["rejected"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("chi-square", "--rule", "greedy-argmax"), "rule: expected one of sampler-match"),
        (("chi-square", "--samples", "0"), "samples: expected a whole number"),
        (("chi-square", "--temp", "0"), "greedy"),
        (("chi-square", "--target-logits", "1,x"), "--target-logits: expected numbers such as"),
        (("chi-square", "--target-logits", "1,2"), "logits: expected 2 to 64"),
        (("faults", "--fault", "gremlin"), "choose one of argmax-vs-argmax"),
        (("faults", "--fault", "raw-q", "--temp", "0"), "raw-q wouldn't run"),
        (("faults", "--fault", "no-trim", "-n", "0"), "--max-tokens: expected"),
        (("faults",), "--fault"),
        ((), "LAB"),
    ],
)
def test_bad_input_is_refused_in_one_line(capsys, arguments, says) -> None:
    done = command(capsys, "lab", *arguments)
    assert done.code == 2
    assert done.out == ""
    assert says in done.err
    assert done.err.count("\n") == 1


def faults(capsys, *arguments: str) -> dict:
    done = command(capsys, "lab", "faults", "--json", *arguments)
    assert done.code == 0, done.err
    return done.object


def instrument(found: dict, name: str) -> dict:
    return next(entry for entry in found["instruments"] if entry["name"] == name)


def test_a_rewind_fault_is_seen_at_once_and_costs_acceptance(capsys) -> None:
    found = faults(capsys, "--fault", "legacy-rewind", "--seed", "3", "-n", "200")
    assert (found["tripped"], found["at_round"], found["blind"]) == ("invariant", 0, None)
    assert instrument(found, "drift")["tripped"]
    assert not instrument(found, "losslessness meter")["tripped"]
    assert "target's own" in instrument(found, "losslessness meter")["blind"]
    without, faulty = found["without"], found["with_fault"]
    assert faulty["per_position_acceptance"] < without["per_position_acceptance"]
    for counts in (without, faulty):
        low, high = counts["interval_95"]
        assert low < counts["per_position_acceptance"] < high
        assert counts["emitted"] == 200
    assert found["lossless"] is True


def test_a_biased_rule_trips_the_losslessness_meter(capsys) -> None:
    found = faults(capsys, "--fault", "argmax-vs-argmax", "--seed", "1", "-n", "120")
    assert found["tripped"] == "losslessness meter"
    assert 5 <= found["at_token"] <= 60
    assert (found["with_fault"]["rule"], found["without"]["rule"]) == ("argmax-vs-argmax", "stochastic")
    assert found["lossless"] is False


def test_a_main_cache_fault_is_not_lossless_and_the_meters_are_blind_to_it(capsys) -> None:
    found = faults(capsys, "--fault", "main-no-trim", "--seed", "1", "-n", "100")
    assert (found["lossless"], found["tripped"]) == (False, "invariant")
    assert found["how"].startswith("main-trim-done")
    assert "corrupts" in instrument(found, "losslessness meter")["blind"]


def test_a_fault_that_nothing_sees_says_why(capsys) -> None:
    found = faults(capsys, "--fault", "missing-support-check", "-n", "60", "--toy")
    assert found["tripped"] is None
    assert "u = 0" in found["blind"]
    assert {entry["name"] for entry in found["instruments"]} == set(INSTRUMENTS)
    assert all(entry["blind"] for entry in found["instruments"])


def test_the_toy_goes_on_in_further_runs_only_where_one_ends(capsys) -> None:
    found = faults(capsys, "--fault", "resample-from-p", "--toy", "--seed", "5", "-n", "150")
    assert found["seeds"] == [5]
    assert found["with_fault"]["emitted"] == found["without"]["emitted"] == 150


def test_the_report_is_plain(capsys) -> None:
    done = command(capsys, "lab", "faults", "--fault", "drop-debt", "--toy", "-n", "60")
    assert done.code == 0
    assert done.out.startswith("drop-debt: forgets the owed token (the output stays the target's own)")
    assert "95 % interval" in done.out


def test_the_help_names_every_rule_and_fault_and_needs_no_mlx() -> None:
    chi, faulty = child("lab", "chi-square", "--help"), child("lab", "faults", "--help")
    assert chi.code == faulty.code == 0
    words = {"".join(done.out.split()) for done in (chi, faulty)}
    assert all(any(name.replace("-", "") in text.replace("-", "") for text in words) for name in (*ARMS, *FAULT_TABLE))


def test_a_run_checks_the_contents_every_so_many_rounds(capsys) -> None:
    arguments = ("run", "--json", "--toy", "-n", "40", "--seed", "2", "--content-check", "3")
    done = command(capsys, *arguments)
    found = done.object
    lawful(capsys, *arguments[2:])
    checked = [check["round"] for check in found["content_checks"]]
    assert checked == list(range(2, found["statistics"]["rounds"], 3))
    assert found["check_syncs"] == sum(check["syncs"] for check in found["content_checks"]) > 0
    assert max(check["main_difference"] for check in found["content_checks"]) < 1e-4
    assert done.err.count("content check behind round") == len(checked)
    assert command(capsys, *arguments[:-2], "--content-check", "-1").code == 2


def test_a_run_takes_the_main_caches_rewind(capsys) -> None:
    done = command(
        capsys, "run", "--json", "--toy", "-n", "30", "--seed", "2", "--main-rewind", "no-trim", "--stochastic"
    )
    found = done.object
    assert found["settings"]["main_rewind"] == "no-trim"
    assert "not lossless: main cache no-trim" in found["summary"]
