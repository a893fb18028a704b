"""Acceptance: the interval against scipy, growing sums against plain ones, the shared axis, the plot's edge cases."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fakes import FakeRounds, fake_header, fake_run
from PySide6.QtCore import QEvent, QObject, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QMenu
from scipy.stats import binomtest

from app import theme
from app.panels.acceptance import AcceptancePanel
from app.panels.acceptance_data import AcceptanceData, thin_extremes
from app.panels.round_axis import AxisMap, RoundAxis
from app.theme import DARK, LIGHT
from app.view import View
from engine.recording import RecordedRun
from engine.statistics import wilson_band, wilson_interval


@pytest.fixture
def panel(qtbot, view: View) -> AcceptancePanel:
    panel = AcceptancePanel(view)
    qtbot.addWidget(panel)
    panel.resize(1200, 130)
    panel.show()
    return panel


def long_run(rounds: int, **options: bool) -> RecordedRun:
    return fake_run(rounds, distributions=False, **options)


# Numbers


def test_the_band_is_the_wilson_interval_of_scipy_and_of_the_engine() -> None:
    trials = np.array([1, 1, 5, 83, 83, 83, 10_000])
    successes = np.array([0, 1, 2, 0, 68, 83, 7_321])
    low, high = wilson_band(successes, trials)
    for s, n, a, b in zip(successes.tolist(), trials.tolist(), low, high, strict=True):
        known = binomtest(s, n).proportion_ci(0.95, "wilson")
        assert (a, b) == pytest.approx((known.low, known.high), abs=1e-12)
        assert (a, b) == pytest.approx(wilson_interval(s, n), abs=1e-12)
    assert all(np.isnan(end).all() for end in wilson_band([0], [0]))


@pytest.mark.parametrize("step", [1, 7, 1000])
@pytest.mark.parametrize("window", [5, 20])
def test_growing_sums_equal_plain_ones(step: int, window: int) -> None:
    whole = long_run(600)
    data, run = AcceptanceData(window), RecordedRun(fake_header())
    for index, record in enumerate(whole):
        run.append(record)
        if index % step == 0:
            data.take_in(run)
    data.take_in(run)
    tested = [r.tested for r in whole]
    accepted = [r.accepted for r in whole]
    for at in (0, 1, 4, 5, 19, 20, 255, 256, 257, 599):
        reading, since = data.reading(at), max(0, at + 1 - window)
        assert reading.cumulative == pytest.approx(sum(accepted[: at + 1]) / sum(tested[: at + 1]))
        assert reading.rolling == pytest.approx(sum(accepted[since : at + 1]) / sum(tested[since : at + 1]))
        assert reading.rolling_tested == sum(tested[since : at + 1])
        drafts = [d for r in list(whole)[: at + 1] for d in r.drafts if d.fate != "ignored"]
        assert reading.sum_min == pytest.approx(sum(d.sum_min for d in drafts) / len(drafts))
        assert reading.sum_prod == pytest.approx(sum(d.sum_prod for d in drafts) / len(drafts))
        assert (reading.tested, reading.closed, reading.rounds) == (len(drafts), len(drafts), at + 1)
        assert reading.tokens_per_round == pytest.approx(sum(len(r.emitted) for r in list(whole)[: at + 1]) / (at + 1))
        assert reading.mean_accepted_len == pytest.approx(sum(accepted[: at + 1]) / (at + 1))


def test_closed_forms_count_only_the_rounds_that_have_them() -> None:
    run, plain, full = RecordedRun(fake_header()), FakeRounds(distributions=False, diagnostics=False), FakeRounds()
    for index in range(10):
        record = plain.next() if index < 6 else full.next()
        run.append(dataclasses.replace(record, index=index))
    data = AcceptanceData()
    data.take_in(run)
    assert data.reading(5).sum_min is None
    late = [d for r in list(run)[6:] for d in r.drafts if d.fate != "ignored"]
    assert data.reading(9).sum_min == pytest.approx(sum(d.sum_min for d in late) / len(late))
    assert data.reading(9).closed == len(late) < data.reading(9).tested


def test_rounds_without_drafts_leave_the_rates_undefined(view: View, panel: AcceptancePanel) -> None:
    view.show_run(long_run(8, k=0))
    rows = {row.name: row for row in panel._legend.rows()}
    assert (rows["cumulative"].value, rows["cumulative"].n) == ("-", "n 0")
    assert rows["tokens per round"].value == "1.0000"
    assert "now" not in panel.title_context()
    panel.grab()


def test_thinning_keeps_every_peak() -> None:
    values = np.full(1000, 0.5)
    values[[37, 511]] = 0.0, 1.0
    x, y = thin_extremes(values, 0, np.arange(0, 1000, 10))
    assert len(x) == len(y) == 200
    assert (y.min(), y.max()) == (0.0, 1.0)
    assert x[y == 0.0] == 30
    assert x[y == 1.0] == 510


def test_work_follows_what_is_new(view: View, panel: AcceptancePanel, monkeypatch: pytest.MonkeyPatch) -> None:
    run, source = long_run(5000), FakeRounds(distributions=False)
    view.show_run(run)
    handled: list[int] = []
    plain = np.cumsum
    monkeypatch.setattr(np, "cumsum", lambda values, *a, **k: handled.append(len(values)) or plain(values, *a, **k))
    for _ in range(3):
        run.append(dataclasses.replace(source.next(), index=len(run)))
    view.notify_advanced()
    assert handled
    assert max(handled) <= 5, "only three new rounds (and k + 1 draft counts) may be summed"
    room = panel._plot.width()
    for name, curve in panel._plot.curves.items():
        assert 0 < len(curve.getData()[0]) <= 2 * room, name


# The plot


def test_curves_hold_the_run_and_are_updated_in_place(view: View, panel: AcceptancePanel) -> None:
    run = long_run(26)
    view.show_run(run)
    before = list(panel._plot.getPlotItem().items)
    x, y = panel._plot.curves["cumulative"].getData()
    assert x.tolist() == list(range(26))
    assert y[-1] == pytest.approx(run.statistics.per_position_acceptance)
    source = FakeRounds(distributions=False)
    run.append(dataclasses.replace(source.next(), index=26))
    view.notify_advanced()
    assert panel._plot.getPlotItem().items == before
    assert len(panel._plot.curves["cumulative"].getData()[0]) == 27


def test_an_empty_run_after_a_long_one_clears_the_plot(view: View, panel: AcceptancePanel) -> None:
    view.show_run(long_run(50))
    assert len(panel._plot.curves["cumulative"].getData()[0]) == 50
    for empty in (RecordedRun(fake_header()), None):
        view.show_run(empty)
        for curve in (*panel._plot.curves.values(), panel._plot.band):
            x, _ = curve.getData()
            assert x is None or len(x) == 0
        assert panel._legend.rows() == ()
        assert panel.title_context() == ""
        panel.grab()


def test_a_run_of_one_round_shows_markers_in_a_finite_range(view: View, panel: AcceptancePanel) -> None:
    view.show_run(long_run(1))
    panel.grab()
    ((x0, x1), (y0, y1)) = panel._plot.getPlotItem().getViewBox().viewRange()
    assert np.isfinite([x0, x1, y0, y1]).all()
    assert x0 < 0 < x1
    assert y0 <= 0 < 1 <= y1
    assert len(panel._plot.dot.data) == 1
    assert len(panel._plot.singles.data) == 4


def test_range_stays_fixed_whatever_comes(view: View, panel: AcceptancePanel) -> None:
    ranges = set()
    for run in (long_run(3), long_run(26, legacy=True), long_run(2000)):
        view.show_run(run)
        ranges.add(tuple(panel._plot.getPlotItem().getViewBox().viewRange()[1]))
    assert len(ranges) == 1


def test_pens_are_thin_and_follow_the_theme(view: View, panel: AcceptancePanel) -> None:
    view.show_run(long_run(10))
    for colours in (DARK, LIGHT):
        panel.restyle(colours)
        pens = panel._plot.pens
        assert pens["cumulative"].color().name().upper() == colours.text.upper()
        assert pens["sum_prod"].color().name().upper() == colours.sum_prod.upper()
        assert {pen.widthF() for pen in pens.values()} == {1.0}
        assert pens["sum_min"].dashPattern() == [6, 3]
        assert pens["sum_prod"].dashPattern() == [8, 3, 2, 3]


def test_legend_follows_the_cursor(view: View, panel: AcceptancePanel) -> None:
    run = long_run(26)
    view.show_run(run)
    assert ", now " in panel.title_context()
    view.select(9)
    rows = {row.name: row for row in panel._legend.rows()}
    tested = sum(r.tested for r in list(run)[:10])
    value = sum(r.accepted for r in list(run)[:10]) / tested
    assert (rows["cumulative"].value, rows["cumulative"].n) == (f"{value:.4f}", f"n {tested}")
    low, high = wilson_interval(value * tested, tested)
    assert panel.title_context().endswith(f"here {low:.4f} – {high:.4f}")
    spot = panel._plot.dot.data[0]
    assert (spot["x"], spot["y"]) == pytest.approx((9, value))
    panel.set_window(20)
    assert "rolling, 20 rounds" in {row.name for row in panel._legend.rows()}


def test_by_draft_position_conditional_and_unconditional(view: View, panel: AcceptancePanel) -> None:
    run = long_run(80)
    view.show_run(run)
    panel.show_by_position(True)
    rows = panel._positions.content().rows
    assert len(rows) == 4
    for place, row in enumerate(rows):
        fates = [r.drafts[place].fate for r in run]
        reached = sum(f != "ignored" for f in fates)
        hits = sum(f == "accepted" for f in fates)
        assert row.values == pytest.approx((hits / reached, hits / len(fates)))
        assert row.cells == (f"{hits / reached:.4f}", str(reached), f"{hits / len(fates):.4f}", "80")
    assert not panel._plot.isVisible()
    panel.show_by_position(False)
    assert panel._plot.isVisible()
    assert not panel._positions.isVisible()


def test_drafts_at_a_position_are_counted_when_k_changes() -> None:
    run = RecordedRun(fake_header())
    for index, k in enumerate([4, 0, 2, 2, 1]):
        run.append(dataclasses.replace(FakeRounds(k=k, distributions=False).next(), index=index))
    once, by_one = AcceptanceData(), AcceptanceData()
    once.take_in(run)
    partial = RecordedRun(fake_header())
    for record in run:
        partial.append(record)
        by_one.take_in(partial)
    assert once.drafted_at == by_one.drafted_at == [4, 3, 1, 1]


def test_copying_gives_every_round(view: View, panel: AcceptancePanel, qtbot) -> None:
    run = long_run(30)
    view.show_run(run)
    qtbot.keyClick(panel, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    lines = [line.split("\t") for line in QGuiApplication.clipboard().text().split("\n")]
    assert len(lines) == 31
    assert {len(line) for line in lines} == {9}
    assert float(lines[-1][3]) == pytest.approx(run.statistics.per_position_acceptance)
    panel.show_by_position(True)
    panel.copy()
    assert len(QGuiApplication.clipboard().text().split("\n")) == 5


# The axis


@pytest.mark.parametrize("rounds", [1, 26, 300, 5000])
def test_plot_and_axis_agree_to_the_pixel(view: View, panel: AcceptancePanel, rounds: int) -> None:
    view.show_run(long_run(rounds))
    panel.grab()
    mapping = RoundAxis.for_view(view).map(panel.width())
    box = panel._plot.getPlotItem().getViewBox()
    for index in {0, rounds // 2, rounds - 1}:
        scene = box.mapViewToScene(QPointF(index, 0.5))
        x = panel._plot.mapFromScene(scene).x() + panel._plot.x()
        assert abs(x - mapping.centre(index)) <= 1, index
    assert mapping.x(rounds) <= mapping.right + 0.01


def test_a_click_puts_the_cursor_on_the_round_below_it(view: View, panel: AcceptancePanel, qtbot) -> None:
    view.show_run(long_run(26))
    mapping = RoundAxis.for_view(view).map(panel.width())
    for index in (0, 7, 25):
        x = round(mapping.centre(index)) - panel._plot.x()
        place = QPointF(x, 40).toPoint()
        qtbot.mouseClick(panel._plot.viewport(), Qt.MouseButton.LeftButton, pos=place)
        assert view.round_index == index
        assert not view.live


def test_buckets_hold_every_round_once() -> None:
    for total in (1, 99, 1000, 12_345):
        mapping = AxisMap(40, 540, 0.0, float(total), min(500 / total, 52.0), total)
        starts = mapping.bucket_starts()
        assert starts[0] == 0
        assert (np.diff(starts) > 0).all()
        assert len(starts) <= min(total, 501)
        pixels = [int((start - mapping.first) * mapping.cell) for start in starts.tolist()]
        assert len(set(pixels)) == len(pixels) or mapping.cell >= 1


def test_every_pixel_of_the_axis_is_a_round(view: View) -> None:
    axis = RoundAxis.for_view(view)
    assert RoundAxis.for_view(view) is axis
    assert axis.map(1000).round_at(500) is None
    for rounds in (1, 26, 5000):
        view.show_run(long_run(rounds))
        mapping = axis.map(1000)
        found = [mapping.round_at(x) for x in range(0, 1000, 3)]
        assert found[0] == 0
        assert found[-1] == rounds - 1
        assert found == sorted(found)
        assert all(mapping.round_at(mapping.centre(i)) == i for i in {0, rounds // 3, rounds - 1})


def test_ticks_are_round_numbers_that_do_not_collide(view: View) -> None:
    axis = RoundAxis.for_view(view)
    for rounds in (1, 26, 35, 100, 777, 10_000):
        view.show_run(long_run(min(rounds, 800)))
        mapping = dataclasses.replace(axis.map(1200), total=rounds, span=float(rounds), cell=min(850 / rounds, 52.0))
        ticks = mapping.ticks()
        assert ticks[0] == 0
        steps = set(np.diff(ticks).tolist())
        assert len(steps) <= 1
        if steps:
            step = steps.pop()
            assert str(step).rstrip("0") in {"1", "2", "5"}
            assert step * mapping.cell > theme.em() * (len(str(rounds)) + 1)


def test_zoom_keeps_the_round_under_the_pointer_and_the_cursor_in_view(view: View) -> None:
    axis, run = RoundAxis.for_view(view), long_run(500)
    view.show_run(run)
    before = axis.map(1200)
    x = before.centre(200)
    axis.zoom(200.5, 0.25)
    after = axis.map(1200)
    assert after.span == pytest.approx(125)
    assert after.centre(200) == pytest.approx(x, abs=0.5)
    view.select(450)
    low, high = axis.map(1200).visible()
    assert low <= 450 < high
    axis.zoom(450, 100)
    assert axis.map(1200).visible() == (0, 500)
    axis.zoom(100, 0.1)
    view.show_run(long_run(30))
    assert axis.map(1200).visible() == (0, 30), "another run is shown whole"


def test_the_gutter_moves_the_plot(view: View, panel: AcceptancePanel) -> None:
    view.show_run(long_run(20))
    RoundAxis.for_view(view).set_gutter(250)
    assert panel._legend.width() == 250
    assert panel._plot.x() == 250


def test_the_plots_own_menu_never_shows(panel: AcceptancePanel) -> None:
    panel.resize(800, 200)
    panel.show()
    menus = panel.findChildren(QMenu)
    assert menus
    assert not any(menu.isVisible() for menu in menus)


def test_the_plot_is_painted_once_a_change(qtbot, view: View, panel: AcceptancePanel) -> None:
    run, source = RecordedRun(fake_header()), FakeRounds()
    view.show_run(run)
    for _ in range(60):  # so many that the axis moves with each further one
        run.append(source.next())
    view.notify_advanced()
    QApplication.processEvents()
    paints: list[int] = []

    class Paints(QObject):
        def eventFilter(self, watched: QObject, event: QEvent) -> bool:
            if event.type() == QEvent.Type.Paint:
                paints.append(len(run))
            return False

    watch = Paints(panel)
    panel._plot.viewport().installEventFilter(watch)
    for _ in range(5):
        run.append(source.next())
        view.notify_advanced()
        for _ in range(3):
            QApplication.processEvents()
    view.select(2)
    for _ in range(3):
        QApplication.processEvents()
    assert paints == [61, 62, 63, 64, 65, 65]


def test_rules_without_a_token_wise_prediction_are_named(view: View, panel: AcceptancePanel) -> None:
    run = RecordedRun(fake_header())
    for record in fake_run(5):
        run.append(dataclasses.replace(record, rule="block"))
    view.show_run(run)
    assert panel.title_context().startswith("Σ min and Σ p·q don't predict block; ")
    view.show_run(fake_run(5))
    assert "predict" not in panel.title_context()


# Another run laid over


def test_a_reference_run_is_dotted_over_the_one_shown_and_named(qtbot, panel: AcceptancePanel, view: View) -> None:
    run, other = long_run(40), long_run(25)
    view.show_run(run)
    assert panel._plot.over.getData()[0] is None or not len(panel._plot.over.getData()[0])
    view.show_reference(other, "rewind = correct")
    x, y = panel._plot.over.getData()
    assert x.tolist() == list(range(25))
    assert y[-1] == pytest.approx(other.statistics.per_position_acceptance)
    row = next(row for row in panel._legend.rows() if row.name == "rewind = correct, cum.")
    assert row.value == f"{other.statistics.per_position_acceptance:.4f}"
    assert row.n == f"n {other.statistics.positions_tested}"
    assert "dotted: same pair, prompt and seed, rewind = correct" in panel.title_context()
    view.select(3)
    row = next(row for row in panel._legend.rows() if row.name == "rewind = correct, cum.")
    assert row.n == f"n {sum(other[i].tested for i in range(4))}"
    view.show_run(long_run(10))
    assert not len(panel._plot.over.getData()[0])
    assert "dotted" not in panel.title_context()
    assert not any("cum." in row.name for row in panel._legend.rows())


@pytest.mark.parametrize("known", [1600, 1200])
def test_a_panel_that_is_behind_can_be_resized(view: View, panel: AcceptancePanel, known: int) -> None:
    """With more rounds than pixels, of which some weren't taken in yet."""
    run = fake_run(known, distributions=False)
    source = FakeRounds(distributions=False)
    for _ in range(known):
        source.next()
    panel.resize(900, 200)
    view.show_run(run)
    for _ in range(20):
        run.append(source.next())
    view.notify_advanced(0.0)
    panel.resize(880, 200)
    QApplication.processEvents()
    view.serve()
    assert panel._plot.curves["cumulative"].getData()[0][-1] == known + 19
