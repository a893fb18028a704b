"""The layers: the law of the round under the cursor, what was done, and the red rows."""

from __future__ import annotations

import dataclasses

import pytest
from toy_runs import toy_run

from app.panels.cache_layers import COLUMNS, CacheLayersPanel, layer_rows, of_layer, way_back
from app.view import View
from engine.rounds import LayerInfo

KEYS = [column.key for column in COLUMNS]


@pytest.fixture
def panel(qtbot, view: View) -> CacheLayersPanel:
    panel = CacheLayersPanel(view)
    qtbot.addWidget(panel)
    panel.resize(900, 300)
    panel.show()
    return panel


def cells(panel: CacheLayersPanel, row: int) -> dict[str, str]:
    return dict(zip(KEYS, panel.table.texts(row), strict=True))


def test_every_layer_of_both_caches(panel: CacheLayersPanel, view: View) -> None:
    run = toy_run(rewind="legacy-rewind")
    view.show_run(run)
    view.select(6)
    record, header = run[6], run.header
    assert panel.table.row_count() == header.target.layers + header.draft.layers
    k, e = record.k, len(record.emitted)
    main, draft = cells(panel, 0), cells(panel, header.target.layers)
    assert (main["cache"], draft["cache"]) == ("main", "draft")
    assert main["law"] == main["asked"] == main["done"] == str(k + 1 - e)
    assert draft["law"] == str(max(k - e, 0))
    assert draft["asked"] == str(record.draft_cache.trim_asked[0]) != draft["law"]
    assert draft["drift"] == str(record.drift) != "0"
    assert (draft["position"], draft["expected"]) == (str(record.draft_cache.end), str(record.draft_cache.expected_end))
    assert panel.table.row(0).tint is None
    assert panel.table.row(header.target.layers).tint == "danger_tint"
    assert panel.title_context() == (f"round 6: main k + 1 − e = {k + 1 - e}, draft max(k − e, 0) = {max(k - e, 0)}")


def test_layers_that_disagree_are_told_apart() -> None:
    run = toy_run(3)
    target = dataclasses.replace(run.header.target, layers=2)
    run.header = dataclasses.replace(run.header, target=target)
    cache = run[2].main_cache
    apart = dataclasses.replace(cache, layers_end=(cache.end, cache.end + 1), trim_done=(1, 0), trim_asked=(1,))
    rows = layer_rows(run, dataclasses.replace(run[2], main_cache=apart))
    assert rows[1].tint == "danger_tint"
    assert rows[1].cells[KEYS.index("drift")].text == "-1"
    assert rows[1].cells[KEYS.index("done")].text == "0"


@pytest.mark.parametrize("wrong", ["asked", "done", "position"])
def test_any_number_that_is_wrong_makes_its_row_red(wrong: str) -> None:
    run = toy_run(3)
    cache = run[2].main_cache
    law = cache.trim_asked[0]
    changed = {
        "asked": {"trim_asked": (law + 1,), "trim_done": (law + 1,)},
        "done": {"trim_done": (law + 1,)},
        "position": {"layers_end": (cache.end + 1,)},
    }[wrong]
    row = layer_rows(run, dataclasses.replace(run[2], main_cache=dataclasses.replace(cache, **changed)))[0]
    assert row.tint == "danger_tint"
    red = {key for key, cell in zip(KEYS, row.cells, strict=True) if cell.ink == "danger"}
    assert red == {wrong} | ({"drift"} if wrong == "position" else set())


def test_what_a_layer_is_comes_with_the_header() -> None:
    run = toy_run(3)
    run.header = dataclasses.replace(run.header, main_layers=())  # as an older recording's
    row = layer_rows(run, run[2])[0]
    assert row.cells[KEYS.index("bytes")].text == row.cells[KEYS.index("trimmable")].text == "-"
    assert row.cells[KEYS.index("type")].text == run.header.target.cache_type
    known = LayerInfo(type="RotatingKVCache", trimmable=False, bytes_per_token=16)
    run.header = dataclasses.replace(run.header, main_layers=(known,))
    row = layer_rows(run, run[2])[0]
    assert row.cells[KEYS.index("type")].text == "RotatingKVCache"
    assert row.cells[KEYS.index("trimmable")].text == "by snapshot"
    assert row.cells[KEYS.index("bytes")].text == str(16 * run[2].main_cache.end)


def test_how_a_layer_went_back_is_said() -> None:
    window = LayerInfo("RotatingKVCache", False, 8.0, "a window of 3 tokens", 3)
    whole, cache = LayerInfo("KVCache", True, 8.0), toy_run(3)[2].main_cache
    trimmed = dataclasses.replace(cache, trim_done=(2,))
    kept, again = dataclasses.replace(cache, trim_done=(0,)), dataclasses.replace(trimmed, replayed=4)
    assert [way_back(window, at) for at in (kept, trimmed, again)] == [
        "by snapshot",
        "trimmed, the window isn't full yet",
        "restored, 4 replayed",
    ]
    assert [way_back(whole, at) for at in (kept, again)] == ["trimmed", "trimmed, 4 replayed"]
    assert way_back(None, again) == "-"
    run = toy_run(3)
    run.header = dataclasses.replace(run.header, main_layers=(window,))
    row = layer_rows(run, dataclasses.replace(run[2], main_cache=again))[0]
    assert row.cells[KEYS.index("trimmable")].text == "restored + 4"
    assert "goes back: restored, 4 replayed" in row.tip
    assert row.cells[KEYS.index("bytes")].text == "24"
    assert "a window of 3 tokens" in row.tip


def test_one_number_stands_for_layers_that_agree() -> None:
    assert [of_layer((7,), layer) for layer in (0, 5)] == [7, 7]
    assert [of_layer((7, 8), layer) for layer in (0, 1)] == [7, 8]
    assert of_layer((), 0) == 0


def test_a_drafter_without_a_cache_is_named(panel: CacheLayersPanel, view: View) -> None:
    run = toy_run(3)
    run._rounds = [dataclasses.replace(record, draft_cache=None) for record in run]
    view.show_run(run)
    assert "the drafter has no cache" in panel.table.texts(panel.table.row_count() - 1)
    assert "draft" not in panel.title_context()


def test_columns_give_way_to_a_narrow_panel(panel: CacheLayersPanel, view: View) -> None:
    view.show_run(toy_run(3))
    assert panel.table.shown() == KEYS
    panel.resize(345, 300)
    shown = panel.table.shown()
    assert {"cache", "layer", "law", "asked", "done", "position", "expected"} <= set(shown)
    assert "bytes" not in shown
    widths = sum(panel.table.columnWidth(KEYS.index(key)) for key in shown)
    assert widths <= panel.table.viewport().width()
    assert len(panel.table.table()[0]) == len(KEYS), "copying keeps every column"


def test_without_a_run(panel: CacheLayersPanel) -> None:
    assert panel.title_context() == ""
    assert not panel.table.isVisible()
    panel.grab()
