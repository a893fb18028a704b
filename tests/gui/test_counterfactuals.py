"""The What-if panel: its rows against what was recorded, its reasons, and what it asks of the window."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fakes import fake_header, fake_run
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from app.format import visible_text
from app.panels.counterfactuals import NEEDS, NOT_HERE, CounterfactualsPanel, row_tip
from app.panels.what_if_text import ORDER, rule_rows, run_rows
from app.view import View
from engine.alternatives import COMPARED, EXPECTED, GREEDY_DRAFTING, Counterfactual, advice
from engine.recording import RecordedRun
from engine.rounds import Round
from engine.rules import RULE_TABLE


def seen(k: int, **changes: object) -> Counterfactual:
    """Rule number i keeps i drafts, k at most, and token 40 + i behind them."""
    numbers = np.arange(len(COMPARED), dtype=np.int32)
    values = {
        "counts": np.minimum(numbers, k),
        "tokens": 40 + numbers,
        "expected": np.linspace(0.5, 2.5, len(EXPECTED)).astype(np.float32),
        "block_p": np.full(k, 0.8, np.float32),
        "block_h": np.full(k, 0.6, np.float32),
    }
    return Counterfactual(**(values | changes))  # type: ignore[arg-type]


def tried_run(rounds: int = 60, rule: str = "stochastic") -> RecordedRun:
    run = RecordedRun(fake_header())
    for record in fake_run(rounds, distributions=False):
        run.append(dataclasses.replace(record, rule=rule, counterfactual=seen(record.k)))
    return run


@pytest.fixture
def panel(qtbot: QtBot, view: View) -> CounterfactualsPanel:
    panel = CounterfactualsPanel(view)
    qtbot.addWidget(panel)
    panel.resize(450, 360)
    panel.show()
    return panel


def rejected_second(run: RecordedRun) -> Round:
    return next(record for record in run if record.rejected_at == 1)


def test_every_rule_has_its_probability_its_drafts_and_its_token(view: View, panel: CounterfactualsPanel) -> None:
    run = tried_run()
    record = rejected_second(run)
    view.show_run(run)
    view.select(record.index, 1)
    shown, draft = panel.shown(), record.drafts[1]
    assert shown is not None
    rows = {row.rule: row for row in shown.rules}
    assert tuple(rows) == ORDER
    wanted = {
        "sampler-match": draft.sum_prod,
        "stochastic": draft.sum_min,
        "block": pytest.approx(0.6),
        GREEDY_DRAFTING: draft.p_argmax_q,
        "argmax-vs-argmax": draft.q_argmax_p,
        "resample-from-p": draft.sum_min,
        "missing-support-check": draft.sum_min,
        "raw-q": None,
    }
    assert {rule: row.probability for rule, row in rows.items()} == wanted
    for at, rule in enumerate(COMPARED):
        kept = min(at, record.k)
        assert rows[rule].kept == kept
        assert rows[rule].tokens == (*(d.token for d in record.drafts[:kept]), 40 + at)
    assert rows[GREEDY_DRAFTING].kept is None
    assert [row.rule for row in shown.rules if row.in_force] == ["stochastic"]
    vocabulary = run.header.vocabulary
    texts = " ".join(visible_text(vocabulary, token) for token in rows["block"].tokens)
    assert row_tip(rows["block"], vocabulary).endswith(f"\nand emits {texts}")
    wrong = {rule for rule, info in RULE_TABLE.items() if info.is_reference}
    assert {row.rule for row in shown.rules if not row.lossless} == wrong
    assert panel.title_context().startswith(f"round {record.index}, position 2 under every rule")
    assert f"stochastic accepts {draft.sum_min:.4f}" in panel.accessibleDescription()


def test_behind_the_drafts_nothing_is_tested(view: View, panel: CounterfactualsPanel) -> None:
    run = tried_run()
    record = next(r for r in run if r.emitted[-1].source == "bonus")
    view.show_run(run)
    view.select(record.index, record.k)
    shown = panel.shown()
    assert shown is not None
    assert not shown.tested
    assert {row.probability for row in shown.rules} == {None}
    assert shown.rules[0].tokens


def test_a_rule_that_could_not_be_tried_says_so() -> None:
    record = rejected_second(tried_run())
    counts = seen(record.k).counts.copy()
    counts[-1] = -1
    row = rule_rows(dataclasses.replace(record, counterfactual=seen(record.k, counts=counts)), 0)[-1]
    assert (row.rule, row.kept, row.tokens) == (COMPARED[-1], None, ())


def test_the_run_adds_up_to_expected_tokens_and_advice(view: View, panel: CounterfactualsPanel) -> None:
    run = tried_run()
    view.show_run(run)
    shown = panel.shown()
    assert shown is not None
    assert [row.tokens for row in shown.totals] == pytest.approx(np.linspace(1.5, 3.5, len(EXPECTED)).tolist())
    assert shown.title == "Expected tokens a round, 60 rounds with drafts"
    assert shown.advice == advice(run.alternatives)
    assert "An estimate" in row_tip(next(row for row in run_rows(run) if row.rule == GREEDY_DRAFTING))


def test_where_nothing_was_tried_it_says_why(qtbot: QtBot, view: View, panel: CounterfactualsPanel) -> None:
    assert panel.shown() is None
    for run, words in (
        (fake_run(3, rule="greedy-argmax"), "sampler is greedy"),
        (fake_run(3, rule="sampler-match-no-proposal-distribution"), "reports no q"),
        (fake_run(3, k=0), "drafted nothing"),
    ):
        view.show_run(run)
        assert words in panel.shown().reason
        assert not panel.shown().rules
        assert not panel._needed.isVisible()
    view.show_run(fake_run(3, diagnostics=False))
    assert panel.shown() is None
    assert panel._needed.text() == NEEDS
    with qtbot.waitSignal(panel.change_wanted) as asked:
        qtbot.mouseClick(panel._needed.button, Qt.MouseButton.LeftButton)
    assert asked.args == [{"diagnostics": True}]


def test_a_round_without_diagnostics_keeps_the_runs_figures(view: View, panel: CounterfactualsPanel) -> None:
    run = tried_run(20)
    run.append(fake_run(21, distributions=False)[20])
    view.show_run(run)
    shown = panel.shown()
    assert shown is not None
    assert (shown.reason, shown.rules) == (NOT_HERE, ())
    assert shown.totals


def test_both_tables_can_be_copied(view: View, panel: CounterfactualsPanel) -> None:
    run = tried_run()
    view.show_run(run)
    view.select(rejected_second(run).index, 1)
    lines = panel.table()
    assert [line[0] for line in lines] == [
        "rule", *(row.name for row in panel.shown().rules),
        "rule", "sampler-match", "stochastic", "block", "greedy drafting (an estimate)", "argmax-vs-argmax",
    ]  # fmt: skip
    assert lines[2][:3] == ["stochastic", "yes", "yes"]
    assert float(lines[2][4]) == pytest.approx(rejected_second(run).drafts[1].sum_min)


@pytest.mark.parametrize("size", [(450, 360), (790, 150), (240, 90), (60, 20)])
def test_it_can_be_painted_at_any_size_and_its_rows_found(
    view: View, panel: CounterfactualsPanel, size: tuple[int, int]
) -> None:
    panel.resize(*size)
    view.show_run(tried_run())
    assert not panel.grab().isNull()
    sheet = panel.sheet
    names = {row.rule for y in range(sheet.height()) if (row := sheet.row_at(QPoint(10, y))) is not None}
    assert names == set(ORDER)
    assert sheet.minimumHeight() <= sheet.height()


def test_a_row_is_found_where_it_stands(view: View, panel: CounterfactualsPanel) -> None:
    view.show_run(tried_run())
    sheet = panel.sheet
    found = [sheet.row_at(QPoint(10, round((at + 0.5) * sheet._row))) for at in range(10)]
    rules = [None if row is None else row.rule for row in found]
    assert rules == [None, *ORDER[:4], None, *ORDER[4:]], "a heading above, and one above what isn't lossless"
