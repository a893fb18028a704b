"""p, q and the residual: which rows are shown with which numbers and marks, the sums, the stages, and empty states."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fakes import FakeRounds, fake_header, fake_run
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDockWidget

from app import theme
from app.dock_title import DockTitle
from app.panels.bars import BarOptions, BarRow, make_scale
from app.panels.distributions import (
    EMPTY,
    NOT_RECORDED,
    DistributionsPanel,
    identity,
    offered_stages,
    rest_of,
    stage_values,
)
from app.panels.residual import EMPTY as NO_ROUND
from app.panels.residual import NO_RESIDUAL, ResidualPanel
from app.panels.residual_text import ResidualName
from app.panels.title_controls import TitleCombo
from app.view import View
from engine.recording import RecordedRun
from engine.rounds import Round


@pytest.fixture
def panel(qtbot, view: View) -> DistributionsPanel:
    panel = DistributionsPanel(view)
    qtbot.addWidget(panel)
    panel.resize(676, 260)
    panel.show()
    return panel


@pytest.fixture
def residual(qtbot, view: View) -> ResidualPanel:
    panel = ResidualPanel(view)
    qtbot.addWidget(panel)
    panel.resize(444, 260)
    panel.show()
    return panel


def run_of(record: Round, rule: str = "stochastic") -> RecordedRun:
    run = RecordedRun(fake_header(rule))
    run.append(record)
    return run


def rejecting(run: RecordedRun) -> Round:
    return next(record for record in run if record.rejected_at is not None)


def complete(run: RecordedRun) -> Round:
    return next(record for record in run if record.rejected_at is None)


def row_of(rows: tuple[BarRow, ...], token: int) -> BarRow:
    return next(row for row in rows if row.token == token)


def test_every_position_shows_its_own_numbers_and_adds_up_to_one(panel: DistributionsPanel, view: View) -> None:
    run = fake_run(12)
    view.show_run(run)
    for record in run:
        for position in range(record.k):
            view.select(record.index, position)
            data, rows = record.distributions[position], panel.content().rows
            for row in rows[:-1]:
                at = int(np.flatnonzero(data.ids == row.token)[0])
                assert data.q is not None
                assert row.values == (float(data.p[at]), float(data.q[at]))
            assert rows[-1].pinned
            assert rows[-1].hollow
            assert rows[-1].label == f"{data.vocab_size - len(rows) + 1} others"
            for column in (0, 1):
                assert sum(row.values[column] or 0 for row in rows) == pytest.approx(1, abs=1e-5)


def test_the_drafted_and_the_emitted_token_are_shown_and_marked(panel: DistributionsPanel, view: View) -> None:
    BarOptions.for_view(view).set_top_n(5)
    run = fake_run(60)
    view.show_run(run)
    for record in run:
        view.select(record.index)
        position = view.position
        rows = panel.content().rows
        emitted = next(e for e in record.emitted if e.position == position)
        assert any(w.startswith("emitted") for w in row_of(rows, emitted.token).tip)
        assert row_of(rows, emitted.token).tint is not None
        if position < record.k:
            drafted = row_of(rows, record.drafts[position].token)
            assert f"drafted: {record.drafts[position].fate}" in drafted.tip
            assert drafted.tint == theme.current().selection
        marked = {emitted.token, *(d.token for d in record.drafts[position : position + 1])}
        assert {row.token for row in rows if row.marked} == marked


def test_the_bonus_position_has_p_alone(panel: DistributionsPanel, residual: ResidualPanel, view: View) -> None:
    run = fake_run(40)
    view.show_run(run)
    record = complete(run)
    view.select(record.index, record.k)
    assert panel.content().columns == ("p",)
    assert all(len(row.values) == 1 for row in panel.content().rows)
    assert panel.title_name() == f"p, position {record.k + 1}"
    assert "behind the drafts" in residual.content().sentence


def test_title_names_the_position_and_the_identity(panel: DistributionsPanel, view: View, qtbot) -> None:
    run = fake_run(40)
    view.show_run(run)
    record = rejecting(run)
    with qtbot.waitSignal(panel.title_changed):
        view.select(record.index)
    assert panel.title_name() == f"p and q, position {view.position + 1}"
    assert panel.title_context().startswith("Σ min = 0.")
    assert identity(0.7361, 0.2639) == ("Σ min(p, q) = 0.7361 = 1 − Z, Z = 0.2639", False)
    assert identity(0.7361, 0.2739)[1]
    view.show_run(fake_run(3, diagnostics=False))
    view.select(0, 0)
    assert "Diagnostics adds" in panel.title_context()


def test_zero_is_a_gap_on_a_logarithmic_axis_and_one_hot_has_an_axis(panel: DistributionsPanel, view: View) -> None:
    view.show_run(fake_run(4, "greedy-argmax"))
    BarOptions.for_view(view).set_log(True)
    scale = panel.scale()
    assert scale.log
    assert scale.high == 1.0
    assert scale.share(0.0) == 0.0
    assert 0 < scale.share(scale.low) < scale.share(0.5) < scale.share(1.0) == 1.0
    assert not panel.grab().isNull()
    for log in (False, True):
        for values in ((), (0.0, 0.0), (1.0,), (1e-30,), (float("nan"), 0.5)):
            scale = make_scale(values, log)
            assert scale.high > scale.low
            assert len(scale.ticks) >= 2


def test_a_model_without_a_stage_shows_the_nearest_earlier_one(panel: DistributionsPanel, view: View) -> None:
    record = fake_run(1)[0]
    data = record.distributions[0]
    other = np.full_like(data.p, 0.01)
    data = dataclasses.replace(data, p_stages=(*data.p_stages, ("top-k", other)))
    record = dataclasses.replace(record, distributions=(data, *record.distributions[1:]))
    assert offered_stages(data) == ["final", "raw", "temperature", "top-k"]
    assert data.q is not None
    assert stage_values(data.q_stages, data.q, offered_stages(data), "top-k")[1] == "temperature"
    run = run_of(record)
    view.show_run(run)
    view.select(0, 0)
    panel.set_stage("top-k")
    assert panel.content().rows[0].values[0] == pytest.approx(0.01)
    assert "q has no top-k: shown after temperature" in panel.title_context()
    view.select(0, 1)
    assert panel.content().rows[0].values[0] == float(record.distributions[1].p[0])


def test_rows_that_do_not_fit_are_counted_and_the_rest_stays(panel: DistributionsPanel, view: View) -> None:
    view.show_run(fake_run(10))
    view.select(rejecting(view.run).index)  # type: ignore[arg-type]
    panel.resize(panel.minimumSizeHint())
    shown, hint = panel.visible_rows()
    assert shown[-1].pinned
    total = len(panel.content().rows)
    assert hint.startswith(f"+{total - len(shown)} more row")
    panel.resize(676, 600)
    assert panel.visible_rows() == (list(panel.content().rows), "")


def test_copying_gives_the_rows_in_full_precision(panel: DistributionsPanel, view: View, qtbot) -> None:
    run = fake_run(10)
    view.show_run(run)
    view.select(0, 0)
    qtbot.keyClick(panel, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    lines = [line.split("\t") for line in QGuiApplication.clipboard().text().split("\n")]
    assert lines[0][:4] == ["id", "token", "p", "q"]
    assert len({len(line) for line in lines}) == 1
    data = run[0].distributions[0]
    assert int(lines[1][0]) == data.ids[0]
    assert np.float32(lines[1][2]) == data.p[0]


def test_empty_states_are_one_sentence(panel: DistributionsPanel, residual: ResidualPanel, view: View) -> None:
    assert (panel.content().sentence, residual.content().sentence) == (EMPTY, NO_ROUND)
    view.show_run(fake_run(2, distributions=False))
    assert (panel.content().sentence, residual.content().sentence) == (NOT_RECORDED, NOT_RECORDED)
    view.show_run(fake_run(2, "sampler-match-no-proposal-distribution"))
    view.select(0, 0)
    assert panel.content().columns == ("p",)
    assert "reports no q" in residual.content().sentence
    view.show_run(None)
    assert panel.content().sentence == EMPTY


def test_p_equal_to_q_leaves_no_residual(residual: ResidualPanel, view: View) -> None:
    record = FakeRounds().next()
    data = record.distributions[0]
    data = dataclasses.replace(data, q=data.p, residual=np.zeros_like(data.p), residual_mass=0.0, residual_support=0)
    view.show_run(run_of(dataclasses.replace(record, distributions=(data, *record.distributions[1:]))))
    view.select(0, 0)
    assert residual.content().sentence == NO_RESIDUAL
    assert residual.title_context() == "Z = 0: empty"


def test_the_residual_marks_the_token_drawn_from_it(residual: ResidualPanel, view: View) -> None:
    BarOptions.for_view(view).set_top_n(5)
    run = fake_run(60)
    view.show_run(run)
    seen = 0
    for record in run:
        view.select(record.index)
        recovered = [e for e in record.emitted if e.source == "recovered"]
        if not recovered:
            continue
        seen += 1
        content = residual.content()
        drawn = row_of(content.rows, recovered[0].token)
        assert [row for row in content.rows if row.note == "drawn"] == [drawn]
        assert drawn.values[0] == pytest.approx(recovered[0].probability, abs=1e-6)
        assert sum(row.values[0] or 0 for row in content.rows) == pytest.approx(1, abs=1e-5)
        assert "= 1 − Σ min" in residual.title_context()
        assert content.foot == ""
    assert seen > 5


def test_a_rule_that_draws_from_p_says_that_the_residual_is_not_used(residual: ResidualPanel, view: View) -> None:
    run = fake_run(40, "sampler-match")
    view.show_run(run)
    view.select(rejecting(run).index)
    assert residual.content().rows
    assert not any(row.note for row in residual.content().rows)
    assert "not drawn from: sampler-match" in residual.title_context()


def test_the_rest_is_exactly_zero_where_all_support_is_shown() -> None:
    shown = np.array([0.7, 0.1, 0.2], np.float32)
    assert rest_of(shown, 3) == 0.0
    assert rest_of(shown[:2], 3) == pytest.approx(0.2, abs=1e-6)


def test_the_title_takes_the_controls_and_they_choose(view: View, qtbot) -> None:
    dock = QDockWidget("p and q")
    qtbot.addWidget(dock)
    panel = DistributionsPanel(view)
    dock.setWidget(panel)
    dock.setTitleBarWidget(DockTitle(dock, panel))
    dock.resize(900, 300)
    dock.show()
    view.show_run(fake_run(5))
    view.select(0, 0)
    assert all(control.isVisible() for control in panel.title_widgets())
    top, stage = dock.findChildren(TitleCombo)
    top.chosen.emit(5)
    assert sum(not row.marked and not row.pinned for row in panel.content().rows) <= 5
    assert [stage.itemData(i) for i in range(stage.count())] == ["final", "raw", "temperature"]
    assert top.currentText() == "top 5"


def test_painting_at_any_size(panel: DistributionsPanel, residual: ResidualPanel, view: View) -> None:
    for options in ({}, {"k": 0}, {"rule": "greedy-argmax"}, {"diagnostics": False}):
        view.show_run(fake_run(3, **options))
        for widget in (panel, residual):
            for size in ((60, 20), (widget.minimumSizeHint().width(), widget.minimumSizeHint().height()), (1400, 700)):
                widget.resize(*size)
                assert not widget.grab().isNull()


def test_where_the_residual_is_another_its_mass_is_compared_with_nothing() -> None:
    scaled = ResidualName("relu(P·p − q)", "S", "", False)
    assert identity(0.7361, 0.5, scaled) == ("S = Σ relu(P·p − q) = 0.5000, Σ min(p, q) = 0.7361", False)
    assert identity(None, 0.5, scaled) == ("S = Σ relu(P·p − q) = 0.5000", False)
    assert identity(0.7361, 0.5)[1], "the plain one must be 1 - sum min"
