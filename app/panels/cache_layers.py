"""Every layer of both caches in the cursor's round: what the law wanted trimmed, what was, and where it stands."""

from __future__ import annotations

from typing import Any

from PySide6.QtWidgets import QWidget

from app.format import NOTHING, count
from app.panels.rows_table import Cell, Column, Row
from app.panels.table_panel import TablePanel
from app.view import View
from engine.recording import RecordedRun
from engine.rewinds import draft_trim, main_trim
from engine.rounds import CachePositions, Round

EMPTY = "Press Run: where every layer of both caches stands, and what was trimmed off it, is listed here."
PAGE = "ledger.md"
COLUMNS = (
    Column("cache", "cache", "main: the target's; draft: the drafter's", 5),
    Column("layer", "layer", "Number of the layer, from 0", 4, right=True),
    Column("type", "type", "Class of the layer's cache", 7, grows=True, rank=2),
    Column("before", "before", "Tokens held before the round", 5, right=True, rank=6),
    Column("forwarded", "forwarded", "Tokens that the round forwarded", 3, right=True, rank=5),
    Column("law", "law", "Tokens to take off by the rewind law", 3, right=True),
    Column("asked", "asked", "Tokens that the engine asked the layer to take off", 3, right=True),
    Column("done", "done", "Tokens that the layer took off", 3, right=True),
    Column("position", "after", "Tokens held after the rewind", 5, right=True),
    Column("expected", "expected", "Tokens that the rewind law wants held", 5, right=True),
    Column("drift", "drift", "Expected minus held", 4, right=True, rank=3),
    Column(
        "trimmable",
        "goes back",
        "trimmed, or restored from a snapshot; + 2: then 2 kept tokens were replayed",
        11,
        rank=1,
    ),
    Column("bytes", "bytes", "What the layer's tokens take", 8, right=True, rank=4),
)


def of_layer(values: tuple[int, ...], layer: int) -> int:
    """A layer's value where equal ones are recorded once; 0 without any."""
    return values[layer] if layer < len(values) and len(values) > 1 else values[0] if values else 0


class CacheLayersPanel(TablePanel):
    """The law of both caches in the title, a row for every layer below."""

    empty = EMPTY

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        super().__init__(view, "cache-layers", "Cache layers", COLUMNS, (PAGE, "what the layers show"), parent)

    def words(self, run: RecordedRun, record: Round) -> str:
        k, e = record.k, len(record.emitted)
        draft = f", draft max(k − e, 0) = {draft_trim(k, e)}" if record.draft_cache is not None and k else ""
        return f"round {record.index}: main k + 1 − e = {main_trim(k, e)}{draft}"

    def rows(self, run: RecordedRun, record: Round) -> list[Row]:
        return layer_rows(run, record)


def layer_rows(run: RecordedRun, record: Round) -> list[Row]:
    """One row a layer, main first; what breaks the law is red, in words and by an arrow's sign."""
    header, rows = run.header, []
    k, e = record.k, len(record.emitted)
    caches = [("main", header.target, record.main_cache, main_trim(k, e))]
    drafting = run.drafting_at(record.index)
    if drafting.model is not None and record.draft_cache is not None:
        caches.append(("draft", drafting.model, record.draft_cache, draft_trim(k, e) if k else 0))
    for name, model, cache, law in caches:
        known: tuple[Any, ...] = header.main_layers if name == "main" else drafting.layers
        for layer in range(model.layers):
            info = known[layer] if layer < len(known) else None
            rows.append(_row(name, layer, model.cache_type, info, cache, law))
    if drafting.drafter != "none" and record.draft_cache is None:
        rest = (Cell(NOTHING, "text2"),) * (len(COLUMNS) - 3)
        words = Cell("the drafter has no cache", "text2", mono=False)
        rows.append(Row((Cell("draft", mono=False), Cell(NOTHING, "text2"), words, *rest)))
    return rows


def way_back(info: Any, cache: CachePositions, short: bool = False) -> str:
    """How a layer went back in the round, or would: `restored, 2 replayed`, in short `restored + 2`."""
    trims = getattr(info, "trimmable", None)
    if trims is None:
        return NOTHING
    number = count(cache.replayed)
    again = "" if not cache.replayed else f" + {number}" if short else f", {number} replayed"
    if trims:
        return f"trimmed{again}"
    if again:
        return f"restored{again}"
    window = getattr(info, "window", None)
    if window is None or not any(cache.trim_done):
        return "by snapshot"
    return "trimmed" if short else "trimmed, the window isn't full yet"


def _row(name: str, layer: int, kind: str, info: Any, cache: CachePositions, law: int) -> Row:
    asked, done = of_layer(cache.trim_asked, layer), of_layer(cache.trim_done, layer)
    stands = of_layer(cache.layers_end, layer)
    drift = cache.expected_end - stands
    wrong = asked != law or done != asked or drift != 0

    def number(value: int, bad: bool = False) -> Cell:
        return Cell(count(value), "danger" if bad else "text", bold=bad)

    size, window = getattr(info, "bytes_per_token", None), getattr(info, "window", None)
    held = stands if window is None else min(stands, window)
    cells = (
        Cell(name, mono=False),
        Cell(str(layer)),
        Cell(str(getattr(info, "type", kind)), "text2", mono=False),
        number(cache.start),
        number(cache.forwarded),
        number(law),
        number(asked, asked != law),
        number(done, done != asked),
        number(stands, drift != 0),
        number(cache.expected_end),
        number(drift, drift != 0),
        Cell(way_back(info, cache, short=True), "text2", mono=False),
        Cell(NOTHING if size is None else count(round(held * size)), "text2"),
    )
    tip = [
        f"Layer {layer} of the {name} cache",
        f"{cells[2].text}, goes back: {way_back(info, cache)}, bytes: {cells[12].text}",
        *([note] if (note := getattr(info, "note", "")) else []),
        f"{cache.start} + {cache.forwarded} - {done} = {stands}, expected {cache.expected_end}",
    ]
    return Row(cells, "danger_tint" if wrong else None, tip="\n".join(tip))
