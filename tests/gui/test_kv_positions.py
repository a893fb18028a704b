"""The KV positions: the verdict on the drift, columns or bars, and choosing rounds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fakes import FakeRounds, end_run, fake_header, fake_run
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QColor, QFontMetrics

from app import theme
from app.panels.kv_positions import BARS, CELLS, EMPTY, KvPositionsPanel, bars, cell_text, layers_agree, longest
from app.panels.round_axis import AxisMap, RoundAxis
from app.view import View
from engine.recording import RecordedRun


@pytest.fixture
def panel(qtbot, view: View) -> KvPositionsPanel:
    panel = KvPositionsPanel(view)
    qtbot.addWidget(panel)
    panel.resize(1440, 60)
    panel.show()
    return panel


def verdict(panel: KvPositionsPanel) -> str:
    return panel.title_widgets()[0].text()  # type: ignore[attr-defined]


def red_columns(panel: KvPositionsPanel) -> list[int]:
    image, red = panel.grab().toImage(), QColor(panel._colours.danger)
    y = panel.height() - QFontMetrics(panel._mono).height() - 2
    return [x for x in range(panel._axis.gutter, image.width()) if image.pixelColor(x, y) == red]


def test_without_a_run(panel, view) -> None:
    assert (panel.title_context(), verdict(panel)) == ("", "")
    assert panel.spoken() == EMPTY
    panel.grab()
    panel.tip(700)


def test_a_run_without_drift(panel, view) -> None:
    view.show_run(fake_run(26, distributions=False))
    assert panel.title_context() == CELLS
    assert verdict(panel) == "✓ drift 0 in all 26 rounds"
    end = view.round.main_cache.end
    assert f"main {end} of {end} expected" in panel.spoken()
    assert panel.spoken().endswith("all layers agree")


def test_drift_here_and_at_the_end(panel, view) -> None:
    run = fake_run(20, distributions=False, legacy=True)
    view.show_run(run)
    view.select(4)
    assert verdict(panel) == f"▲ drift {run[4].drift} here, {run[19].drift} in the last round"
    end_run(run)
    view.notify_advanced()
    assert verdict(panel) == f"▲ drift {run[4].drift} here, {run[19].drift} at the end"
    assert panel.title_context() == BARS


def test_bars_grow_with_the_drift_and_are_bounded(panel, view) -> None:
    view.show_run(fake_run(3000, distributions=False, legacy=True))
    axis = RoundAxis.for_view(view).map(panel.width())
    assert len(axis.bucket_starts()) <= axis.right - axis.left + 1
    # The drift of a drifting run only grows, so the last column is the tallest.
    red = red_columns(panel)
    assert red
    assert max(red) >= axis.right - 3


def test_many_rounds_without_drift_leave_bars_empty(panel, view) -> None:
    view.show_run(fake_run(3000, distributions=False))
    assert panel.title_context() == BARS
    assert red_columns(panel) == []


def test_a_click_selects_the_round_under_it(panel, view, qtbot) -> None:
    view.show_run(fake_run(26, distributions=False))
    axis = RoundAxis.for_view(view).map(panel.width())
    qtbot.mouseClick(panel, Qt.MouseButton.LeftButton, pos=QPoint(round(axis.centre(7)), 20))
    assert (view.round_index, view.live) == (7, False)
    qtbot.mouseClick(panel, Qt.MouseButton.LeftButton, pos=QPoint(20, 20))
    assert view.round_index == 7


def test_a_drafter_without_a_cache(panel, view) -> None:
    run = RecordedRun(fake_header())
    run.append(dataclasses.replace(FakeRounds(distributions=False).next(), draft_cache=None))
    view.show_run(run)
    assert "the drafter has no cache" in verdict(panel)
    assert "draft: no cache" in panel.spoken()
    panel.grab()
    assert "draft: no cache" in panel.tip(10)


def test_a_refed_round_and_layers_that_disagree(panel, view) -> None:
    run, source = RecordedRun(fake_header()), FakeRounds(distributions=False)
    run.append(source.next())
    record = source.next()
    draft = dataclasses.replace(record.draft_cache, refed=3, layers_end=(4, 5))
    main = dataclasses.replace(record.main_cache, replayed=2)
    run.append(dataclasses.replace(record, draft_cache=draft, main_cache=main))
    view.show_run(run)
    assert not layers_agree(run[1])
    assert "layers disagree · replayed 2 + 0" in panel.spoken()
    assert "draft: 3 tokens forwarded anew" in panel.tip(10)
    assert "main: can't be trimmed: put back from a snapshot, 2 kept tokens replayed" in panel.tip(10)
    panel.grab()


def test_cell_text() -> None:
    main = FakeRounds(distributions=False).next().main_cache
    assert cell_text(dataclasses.replace(main, forwarded=5, trim_done=(2,))) == ("+5", "-2")
    assert cell_text(dataclasses.replace(main, forwarded=5, trim_done=(0,))) == ("+5", "")
    assert cell_text(None) == ("", "")


def test_the_main_cache_off_is_said(panel, view) -> None:
    run = RecordedRun(fake_header())
    record = FakeRounds(distributions=False).next()
    run.append(dataclasses.replace(record, main_cache=dataclasses.replace(record.main_cache, end=3)))
    view.show_run(run)
    assert verdict(panel) == "▲ the main cache is off since round 0"


def test_bars_that_touch_and_are_as_tall_are_one() -> None:
    lefts = np.array([0, 2, 4, 6, 9, 12])
    rights = np.array([2, 4, 6, 8, 11, 14])
    assert bars(lefts, rights, np.array([3, 3, 0, 3, 3, 5])) == [(0, 4, 3), (6, 8, 3), (9, 11, 3), (12, 14, 5)]
    assert bars(lefts, rights, np.zeros(6, np.int64)) == []


@pytest.mark.parametrize("total", [1, 7, 300, 5000])
def test_all_edges_are_the_edges_of_each(total: int) -> None:
    axis = AxisMap(315, 1430, 0.0, float(total), (1430 - 315) / total, total)
    indices = np.arange(total)
    lefts, rights = axis.all_edges(indices)
    assert list(zip(lefts.tolist(), rights.tolist(), strict=True)) == [axis.edges(i) for i in range(total)]


def test_a_cache_that_holds_too_much_sets_the_scale_of_the_bars() -> None:
    record = fake_run(3)[2]
    assert record.draft_cache is not None
    long = dataclasses.replace(record.draft_cache, end=record.main_cache.end + 50)
    assert longest(dataclasses.replace(record, draft_cache=long)) == long.end
    assert longest(dataclasses.replace(record, draft_cache=None)) == record.main_cache.end


def test_a_low_panel_says_all_in_one_row(panel, view) -> None:
    run = fake_run(20, distributions=False, legacy=True)
    view.show_run(run)
    view.select(4)
    assert panel.minimumSizeHint().height() < 2 * theme.line_height()
    assert not panel.is_one_row
    panel.resize(1440, panel.minimumSizeHint().height())
    assert panel.is_one_row
    record, main = run[4], run[4].main_cache
    assert panel.words(record, 2000) == [
        (f"main {main.end} of {main.end}", False),
        (f"draft {record.draft_cache.end} of {record.draft_cache.expected_end}", True),
        (f"▲ drift {record.drift}", True),
    ]
    widths = [
        QFontMetrics(panel._ui).horizontalAdvance("  ".join(text for text, _ in panel.words(record, room)))
        for room in (400, 190, 140, 100)
    ]
    assert all(width <= room for width, room in zip(widths, (400, 190, 140, 100), strict=True))
    assert widths == sorted(set(widths), reverse=True)
    assert panel.words(record, 10) == [(f"▲ drift {record.drift}", True)], "drift is never left out"
    assert panel.words(dataclasses.replace(record, drift=0, draft_cache=None), 2000)[-1] == ("drift 0", False)


def red_pixels(panel: KvPositionsPanel) -> int:
    image, red = panel.grab().toImage(), QColor(panel._colours.danger)
    beside = range(panel._axis.gutter, image.width())
    return sum(image.pixelColor(x, y) == red for x in beside for y in range(image.height()))


def test_a_low_panel_shows_the_drift_of_each_round(panel, view) -> None:
    panel.resize(1440, panel.minimumSizeHint().height())
    for rounds in (20, 1500):
        view.show_run(fake_run(rounds, distributions=False))
        assert red_pixels(panel) == 0
        view.show_run(fake_run(rounds, distributions=False, legacy=True))
        assert red_pixels(panel) > 0
        assert panel.title_context() == BARS
