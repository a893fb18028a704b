"""p and q: which tokens are shown, the rest's mass, the axes, the stages, and what copying gives."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fakes import fake_header, fake_run
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QWheelEvent

from app import theme
from app.panels import bars
from app.panels.bars import BarOptions, BarRow, BarRows, BarTable, make_scale
from app.panels.distributions import (
    EMPTY,
    NOT_RECORDED,
    WIDE,
    DistributionsPanel,
    identity,
    offered_stages,
    rest_of,
    stage_values,
)
from app.theme import LIGHT
from app.view import View
from engine.recording import RecordedRun
from engine.rounds import Distributions, Round


@pytest.fixture
def panel(qtbot, view: View) -> DistributionsPanel:
    panel = DistributionsPanel(view)
    qtbot.addWidget(panel)
    panel.resize(650, 260)
    panel.show()
    return panel


def rejected_round(run: RecordedRun) -> int:
    return next(r.index for r in run if r.rejected_at is not None)


def one_round(record: Round) -> RecordedRun:
    """A run of this round alone."""
    run = RecordedRun(fake_header())
    run.append(dataclasses.replace(record, index=0))
    return run


def test_drafted_and_emitted_tokens_are_there_however_few_are_shown(view: View, panel: DistributionsPanel) -> None:
    run = fake_run(40)
    view.show_run(run)
    BarOptions.for_view(view).set_top_n(5)
    beyond = 0
    for record in run:
        for position in range(record.k):
            view.select(record.index, position)
            tokens = [row.token for row in panel.content().rows]
            drafted = record.drafts[position].token
            emitted = [e.token for e in record.emitted if e.position == position]
            assert drafted in tokens
            assert set(emitted) <= set(tokens)
            first_five = record.distributions[position].ids[:5].tolist()
            assert tokens[:5] == first_five
            beyond += drafted not in first_five
    assert beyond > 3, "the test needs drafts outside the first five"


def test_a_whole_vocabulary_is_shown_in_part_and_its_rest_summed(
    view: View, panel: DistributionsPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bars, "MOST_ROWS", 4)
    n = len(fake_header().vocabulary.pieces)
    p = np.linspace(2.0, 0.0, n, dtype=np.float32) / np.float32(n)
    seen = Distributions(
        ids=np.arange(n, dtype=np.int32),
        p=p,
        q=p,
        residual=np.zeros(n, np.float32),
        residual_mass=0.0,
        p_stages=(),
        q_stages=(),
        vocab_size=n,
        p_support=n - 1,
        q_support=n - 1,
        residual_support=0,
    )
    behind = dataclasses.replace(seen, q=None, residual=None, residual_mass=None, q_support=None)
    record = next(record for record in fake_run(10) if record.k == 4)
    view.show_run(one_round(dataclasses.replace(record, distributions=(*(seen,) * 4, behind))))
    BarOptions.for_view(view).set_top_n(None)
    view.select(0, 1)
    rows = panel.content().rows
    loose = [row for row in rows if not row.pinned]
    assert 4 <= len(loose) <= 6 < n
    assert rows[-1].values[0] == pytest.approx(1 - sum(row.values[0] or 0.0 for row in loose), abs=1e-5)


def test_others_hold_exactly_the_rest(view: View, panel: DistributionsPanel) -> None:
    run = fake_run(10)
    view.show_run(run)
    view.select(rejected_round(run))
    rows = panel.content().rows
    others = rows[-1]
    assert others.hollow
    assert others.pinned
    assert others.label == f"{len(run.header.vocabulary) - (len(rows) - 1)} others"
    for side in (0, 1):
        assert sum(row.values[side] for row in rows) == pytest.approx(1.0, abs=1e-6)


def test_a_rest_without_support_is_zero_and_never_negative() -> None:
    shown = np.array([0.7, 0.2, 0.1, 0.0], np.float32)
    assert rest_of(shown, 3) == 0.0
    assert rest_of(np.array([0.7, 0.3000001], np.float32), None) == 0.0
    assert rest_of(shown[:2], 3) == pytest.approx(0.1, abs=1e-6)


def test_the_drafted_row_and_the_drawn_row_have_their_tints(view: View, panel: DistributionsPanel) -> None:
    run = fake_run(10)
    view.show_run(run)
    index = rejected_round(run)
    view.select(index)
    record, position = run[index], view.position
    rows = {row.token: row for row in panel.content().rows}
    drafted = rows[record.drafts[position].token]
    drawn = rows[next(e.token for e in record.emitted if e.position == position)]
    assert (drafted.tint, drafted.glyph) == (LIGHT.selection, "cross")
    assert (drawn.tint, drawn.glyph) == (LIGHT.recovered.tint, "again")


def test_the_bonus_position_has_p_alone(view: View, panel: DistributionsPanel) -> None:
    run = fake_run(60)
    view.show_run(run)
    index = next(r.index for r in run if r.emitted[-1].source == "bonus")
    view.select(index, 4)
    assert panel.title_name() == "p, position 5"
    assert panel.content().columns == ("p",)
    assert all(len(row.values) == 1 for row in panel.content().rows)
    view.select(index, 0)
    assert panel.title_name() == "p and q, position 1"
    assert panel.content().columns == ("p", "q")


def test_a_drafter_without_q_is_said(view: View, panel: DistributionsPanel) -> None:
    view.show_run(fake_run(5, rule="sampler-match-no-proposal-distribution"))
    view.select(0, 0)
    assert panel.title_name() == "p, position 1"
    assert "reports no q" in panel.title_context()


def test_the_identity_shows_both_recorded_numbers(view: View, panel: DistributionsPanel) -> None:
    run = fake_run(10)
    view.show_run(run)
    view.select(0, 0)
    draft, mass = run[0].drafts[0], run[0].distributions[0].residual_mass
    assert panel.title_context() == f"Σ min = {draft.sum_min:#.4g}", "the title of the residual beside it tells Z"
    told: list[str] = []
    panel.title_changed.connect(lambda: told.append(panel.title_context()))
    panel.resize(theme.em() * WIDE, 260)
    assert told == [f"Σ min = {draft.sum_min:#.4g} = 1 − Z, Z = {mass:#.4g}"]
    panel.resize(650, 260)
    behind = next(r for r in run if r.rejected_at is None)
    view.select(behind.index, behind.k)
    assert panel.title_context() == "behind the drafts"
    wrong = dataclasses.replace(run[0].drafts[0], sum_min=0.123)
    run._rounds[0] = dataclasses.replace(run[0], drafts=(wrong, *run[0].drafts[1:]))
    view.select(0, 0)
    assert "≠ 1 − Z" in panel.title_context(), "what disagrees is told in full"
    run._rounds[0] = dataclasses.replace(run[0], drafts=(draft, *run[0].drafts[1:]))
    view.select(0, 0)
    assert panel.content().foot.startswith("Σ min(p, q) = ")
    assert identity(0.7361, 0.2639) == ("Σ min(p, q) = 0.7361 = 1 − Z, Z = 0.2639", False)
    text, bad = identity(0.7, 0.2639)
    assert bad
    assert "≠" in text
    assert "Diagnostics" in identity(None, 0.2639)[0]


def test_stages_offered_and_stood_in_for(view: View, panel: DistributionsPanel) -> None:
    run = fake_run(3)
    record = run[0]
    data = record.distributions[0]
    warm, cut = data.p * np.float32(0.5), data.p * np.float32(0.25)
    p_stages = (("raw", warm), ("temperature", cut), ("top-k", data.p))
    q_stages = (("raw", data.q * np.float32(0.125)),)
    changed = dataclasses.replace(data, p_stages=p_stages, q_stages=q_stages)
    view.show_run(one_round(dataclasses.replace(record, distributions=(changed, *record.distributions[1:]))))
    view.select(0, 0)
    assert offered_stages(changed) == ["final", "raw", "temperature", "top-k"]
    panel.set_stage("temperature")
    first = panel.content().rows[0]
    assert first.values == pytest.approx((float(cut[0]), float(data.q[0]) * 0.125))
    assert "q has no temperature: shown after raw" in panel.title_context()
    assert "p has no" not in panel.title_context()
    assert "final: Σ min" in panel.title_context()
    panel.set_stage("final")
    assert panel.content().rows[0].values == pytest.approx((float(data.p[0]), float(data.q[0])))
    assert "shown after" not in panel.title_context()


def test_the_stand_in_is_an_earlier_stage_in_the_order_they_ran() -> None:
    final, early, late = (np.array([v], np.float32) for v in (1.0, 2.0, 3.0))
    order = ["final", "raw", "top-p", "min-p", "temperature"]
    stages = (("raw", early), ("temperature", late))
    assert stage_values(stages, final, order, "min-p")[1] == "raw"
    assert stage_values(stages, final, order, "temperature")[1] == "temperature"
    assert stage_values((("temperature", late),), final, order, "raw")[1] == "final"


def test_log_axis_with_zeros_is_finite_and_leaves_them_without_a_bar() -> None:
    scale = make_scale([0.0, 0.5, 2e-6, None, float("nan")], log=True)
    assert scale.low == pytest.approx(1e-6)
    assert scale.high == pytest.approx(1.0)
    assert scale.share(0.0) == 0.0
    assert scale.share(None) == 0.0
    assert scale.share(float("nan")) == 0.0
    assert make_scale([0.5], log=False).share(-0.1) == 0.0
    assert 0 < scale.share(2e-6) < scale.share(1e-3) < scale.share(0.5) < 1
    for values in ([], [0.0], [0.0, 0.0], [1.0], [1e-30], [1e-300, 1.0]):
        for log in (False, True):
            axis = make_scale(values, log)
            assert np.isfinite([axis.low, axis.high, *axis.ticks]).all()
            assert axis.low < axis.high
            assert 1 < len(axis.ticks) < 12
            assert all(0 <= axis.share(value) <= 1 for value in values)


def test_log_axis_is_painted_with_bars_and_a_note(qtbot) -> None:
    rows = BarRows()
    qtbot.addWidget(rows)
    rows.resize(500, 200)
    made = (BarRow((0.5,), ("0.5",), "a"), BarRow((0.0,), ("0",), "b"), BarRow((0.001,), ("1e-3",), "c"))
    lengths = {}
    for log in (False, True):
        rows.set_table(BarTable(rows=made, columns=("p",), inks=("#0072B2",), log=log))
        image = rows.grab().toImage()
        blue = QColor("#0072B2").rgb()
        height, head = rows.row_height, rows.header_height
        lengths[log] = [
            sum(image.pixel(x, head + i * height + height // 2) == blue for x in range(image.width())) for i in range(3)
        ]
    assert lengths[False][1] == lengths[True][1] == 0
    assert lengths[False][2] <= 2, "0.001 is next to nothing on a linear axis"
    assert 0 < lengths[True][2] < lengths[True][0]


def test_what_does_not_fit_is_said_and_scrolls(qtbot) -> None:
    rows = BarRows()
    qtbot.addWidget(rows)
    made = [BarRow((0.1,), ("0.1",), f"row {i}", marked=i == 9) for i in range(10)]
    made.append(BarRow((0.2,), ("0.2",), "others", pinned=True))
    rows.set_table(BarTable(rows=tuple(made), columns=("p",), inks=("#0072B2",)))
    line = theme.line_height()
    rows.resize(400, rows.header_height + 11 * line + 4)
    assert rows.visible_rows() == (made, "")
    rows.resize(400, rows.header_height + 6 * line + 2)
    shown, hint = rows.visible_rows()
    assert [r.label for r in shown] == ["row 0", "row 1", "row 2", "row 9", "others"], "the marked row is moved up"
    assert hint.startswith("+6 more rows")
    seen = {r.label for r in shown}
    for _ in range(10):
        spin = QWheelEvent(
            QPointF(9, 9), QPointF(9, 9), QPoint(), QPoint(0, -120), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        rows.wheelEvent(spin)
        seen |= {r.label for r in rows.visible_rows()[0]}
    assert seen == {r.label for r in made}
    assert rows.visible_rows()[0][-1].label == "others"


def test_copying_gives_the_numbers_in_full(view: View, panel: DistributionsPanel, qtbot) -> None:
    run = fake_run(10)
    view.show_run(run)
    view.select(rejected_round(run))
    data = view.round.distributions[view.position]
    qtbot.keyClick(panel, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    lines = [line.split("\t") for line in QGuiApplication.clipboard().text().split("\n")]
    assert lines[0][:4] == ["id", "token", "p", "q"]
    assert len(lines) == len(panel.content().rows) + 1
    for index, line in enumerate(lines[1:-1]):
        assert int(line[0]) == data.ids[index]
        assert np.float32(line[2]) == data.p[index]
        assert np.float32(line[3]) == data.q[index]
    assert {len(line) for line in lines} == {5}, "no token text breaks the table"


def test_empty_states_say_what_will_be_here(view: View, panel: DistributionsPanel) -> None:
    assert panel.content().sentence == EMPTY
    view.show_run(fake_run(3, distributions=False))
    assert panel.content().sentence == NOT_RECORDED
    view.show_run(fake_run(3))
    assert panel.content().sentence == ""
    view.show_run(None)
    assert panel.content().sentence == EMPTY


def test_title_controls_reach_the_panel(view: View, panel: DistributionsPanel) -> None:
    view.show_run(fake_run(5))
    _, axis, top, stage = panel.title_widgets()
    assert [top.itemText(i) for i in range(top.count())] == ["top 5", "top 10", "top 15", "top 20", "all kept"]
    top.activated.emit(0)
    assert BarOptions.for_view(view).top_n == 5
    axis.chosen.emit(1)
    assert panel.content().log
    stage.activated.emit(1)
    assert "final: " in panel.title_context() or view.position == view.round.k


def test_a_hidden_panel_keeps_its_title_and_catches_up(view: View, panel: DistributionsPanel) -> None:
    run = fake_run(10)
    view.show_run(run)
    view.select(0, 0)
    before = panel.content()
    panel.hide()
    view.select(1, 1)
    assert panel.title_name() == "p and q, position 2"
    assert panel.content() is before, "nothing is built while hidden"
    panel.show()
    assert panel.content().rows[0].token == run[1].distributions[1].ids[0]
