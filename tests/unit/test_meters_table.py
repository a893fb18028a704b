"""The tables that the meters' benchmark writes into the help: their numbers, and that the page holds all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.settings import MAIN_REWINDS, REWINDS
from engine.toy import toy_pair
from tests.benchmarks import meters
from tests.benchmarks.meters import FAULTS, HEADING, PAGE, RIGHT, TOY_PROMPTS, fault_row, quantile, tables, watch, write


def test_quantiles_are_order_statistics_and_beyond_the_limit_where_too_few_tripped() -> None:
    row = {"tokens": [30, None, 10, 20], "limit": 5000}
    assert [quantile(row, share) for share in (0.25, 0.5, 0.75, 0.9)] == ["10", "20", "30", "> 5,000"]


def test_a_wrong_rule_is_watched_to_its_alarm_and_a_right_one_to_the_limit() -> None:
    wrong = watch(toy_pair(), TOY_PROMPTS, {"rule": "argmax-vs-argmax"}, 1, 400)
    assert wrong.first == wrong.alarms["losslessness"] == wrong.tokens < 100
    assert wrong.alarms["proposal"] is None
    assert wrong.most >= 4
    right = watch(toy_pair(), TOY_PROMPTS, {"rule": "stochastic"}, 1, 400)
    assert (right.first, right.tokens, right.first_broken) == (None, 400, None)


def test_a_broken_cache_is_named_with_its_round() -> None:
    seen = watch(toy_pair(), TOY_PROMPTS, {"rule": "stochastic", "rewind": "legacy-rewind"}, 1, 60)
    assert seen.first_broken == 0


def test_the_tables_replace_the_section_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "meters.md"
    page.write_text(f"# Meters\n\nbefore\n\n{HEADING}\n\nold\n\n## Sources\n\nbehind\n", encoding="utf-8")
    monkeypatch.setattr(meters, "PAGE", page)
    tripped, unseen = FAULTS[0], next(fault for fault in FAULTS if fault.why)
    rows = {
        f"faults/toy/{fault.name}": fault_row(fault, "six-word toy", toy_pair, TOY_PROMPTS, range(1, 3), 100)
        for fault in (tripped, unseen)
    }
    write(rows)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"# Meters\n\nbefore\n\n{HEADING}\n\nMade by")
    assert text.endswith("\n\n## Sources\n\nbehind\n")
    assert "old" not in text
    assert f"| {tripped.name} | six-word toy | 2 | 2 | losslessness |" in text
    assert unseen.why in text
    assert tables(rows) in text


def test_the_help_page_holds_a_row_for_every_fault_and_every_right_rule() -> None:
    page = PAGE.read_text(encoding="utf-8")
    measured = page[page.index(HEADING) :]
    for fault in FAULTS:
        assert measured.count(f"| {fault.name} | ") == fault.toy + fault.bundled, fault.name
    for rule in RIGHT:
        assert measured.count(f"| `{rule}` | ") == 3, rule
    assert {fault.settings["rewind"] for fault in FAULTS if "rewind" in fault.settings} == set(REWINDS) - {"correct"}
    of_main = {fault.settings["main_rewind"] for fault in FAULTS if "main_rewind" in fault.settings}
    assert of_main == set(MAIN_REWINDS) - {"correct"}
