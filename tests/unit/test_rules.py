"""The table of rules: what it says holds, and the decision's order."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from app.next_rule import EXPLANATIONS, next_rule
from engine.acceptance import RULES
from engine.acceptance import acceptance_rule as rule_with_test
from engine.rounds import SOURCES, Draft
from engine.rules import RULE_TABLE, acceptance_rule
from engine.settings import RULE_CHOICES, SamplerSettings, Settings, SettingsError

REFERENCES = ("argmax-vs-argmax", "resample-from-p", "missing-support-check", "raw-q")


def test_the_table_is_complete_and_speaks_plainly() -> None:
    assert set(RULES) == set(RULE_TABLE)
    # Every rule but the fall-back can be asked for by hand.
    assert set(RULE_CHOICES) - {"auto"} == set(RULE_TABLE) - {"sampler-match-no-proposal-distribution"}
    fields = {field.name for field in dataclasses.fields(Draft)}
    for name, info in RULE_TABLE.items():
        assert info.id == name
        assert " " not in name
        assert info.on_rejection in SOURCES
        assert info.closed_form in {*fields, "block", None}
        assert info.sentence.endswith(".")
        assert {f.name: getattr(RULES[name], f.name) for f in dataclasses.fields(info)} == dataclasses.asdict(info)


def test_what_is_wrong_on_purpose_is_called_so_everywhere() -> None:
    assert tuple(name for name, info in RULE_TABLE.items() if info.is_reference) == REFERENCES
    for name, info in RULE_TABLE.items():
        assert info.distribution_preserving != (name in REFERENCES)
        assert info.label.startswith("not lossless") == (name in REFERENCES)
        assert info.sentence.startswith("Not lossless") == (name in REFERENCES)
        assert info.only_by_hand == (name in (*REFERENCES, "block"))


def decide(
    greedy: bool = False,
    stochastic: bool = False,
    kill: bool = False,
    reports_q: bool = True,
    asked: str = "auto",
    one_hot: bool = False,
) -> tuple[str, str]:
    found, reason = acceptance_rule(
        greedy_target=greedy,
        stochastic=stochastic,
        kill_switch=kill,
        reports_q=reports_q,
        asked=asked,
        one_hot_q=one_hot,
    )
    return found.id, reason


@pytest.mark.parametrize(
    ("greedy", "stochastic", "kill", "reports_q", "asked", "one_hot", "rule"),
    [
        (True, True, True, True, "auto", False, "greedy-argmax"),
        (True, False, False, False, "stochastic", False, "greedy-argmax"),
        (True, False, False, True, "block", False, "greedy-argmax"),
        (False, False, False, True, "auto", False, "sampler-match"),
        (False, True, True, True, "auto", False, "sampler-match"),
        (False, True, True, True, "stochastic", False, "sampler-match"),
        (False, True, True, True, "block", False, "sampler-match"),
        (False, True, False, True, "sampler-match", False, "sampler-match"),
        (False, True, False, False, "auto", False, "sampler-match-no-proposal-distribution"),
        (False, False, False, False, "auto", False, "sampler-match"),
        (False, False, False, False, "block", False, "sampler-match-no-proposal-distribution"),
        (False, True, False, True, "auto", False, "stochastic"),
        (False, True, False, True, "auto", True, "stochastic"),
        (False, False, False, True, "stochastic", False, "stochastic"),
        (False, False, False, True, "block", False, "block"),
        (False, True, False, True, "block", True, "stochastic"),
        (False, False, False, True, "resample-from-p", True, "resample-from-p"),
        (False, False, False, False, "argmax-vs-argmax", False, "argmax-vs-argmax"),
        (False, False, False, False, "raw-q", False, "sampler-match-no-proposal-distribution"),
    ],
)
def test_the_rule_decision_table(
    greedy: bool, stochastic: bool, kill: bool, reports_q: bool, asked: str, one_hot: bool, rule: str
) -> None:
    found, reason = decide(greedy, stochastic, kill, reports_q, asked, one_hot)
    assert found == rule
    assert reason


@pytest.mark.parametrize("asked", REFERENCES)
def test_greedy_targets_and_the_kill_switch_beat_the_reference_rules(asked: str) -> None:
    assert decide(asked=asked) == (asked, "asked for by name; it is wrong on purpose")
    assert decide(asked=asked, kill=True)[0] == "sampler-match"
    assert decide(asked=asked, greedy=True)[0] == "greedy-argmax"


def test_only_the_hand_leads_to_a_rule_that_is_only_by_hand() -> None:
    flags = (False, True)
    for greedy in flags:
        for stochastic in flags:
            for kill in flags:
                for reports_q in flags:
                    for one_hot in flags:
                        found, _ = decide(greedy, stochastic, kill, reports_q, "auto", one_hot)
                        assert not RULE_TABLE[found].only_by_hand


def test_block_gives_way_where_the_drafter_takes_its_argmax_and_says_so() -> None:
    found, reason = decide(asked="block", one_hot=True)
    assert found == "stochastic"
    assert "block was asked for" in reason


@pytest.mark.parametrize("asked", ["greedy-argmax", "sampler-match-no-proposal-distribution", "nonsense"])
def test_rules_that_cannot_be_asked_for_are_refused(asked: str) -> None:
    with pytest.raises(SettingsError, match="rule"):
        decide(stochastic=True, asked=asked)


def test_the_rule_with_its_test_is_the_same_decision() -> None:
    options = {"greedy_target": False, "stochastic": True, "kill_switch": False, "reports_q": True}
    found, reason = rule_with_test(**options, asked="block", one_hot_q=True)
    assert (found.id, reason) == decide(asked="block", one_hot=True)
    assert found is RULES["stochastic"]


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        (Settings(), "sampler-match"),
        (Settings(rule="block"), "block"),
        (Settings(rule="block", drafter="greedy"), "stochastic"),
        (Settings(rule="block", draft_sampler=SamplerSettings(temperature=0)), "stochastic"),
        (Settings(rule="raw-q", drafter="no-q"), "sampler-match-no-proposal-distribution"),
        (Settings(rule="greedy-argmax"), ""),
    ],
)
def test_the_window_asks_the_same_function(settings: Settings, rule: str) -> None:
    found, reason = next_rule(settings)
    assert found == rule
    assert reason
    assert not rule or EXPLANATIONS[rule] == RULE_TABLE[rule].sentence


def test_the_decision_needs_no_mlx() -> None:
    code = "import sys, app.next_rule, engine.rules; sys.exit(any(n.split('.')[0] == 'mlx' for n in sys.modules))"
    child = subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[2])
    assert child.returncode == 0
