"""What must hold of both caches after every round: PASS or FAIL, the first failing round, how, and how often."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from app.format import count, plural
from app.panels.rows_table import Cell, Column, Row
from app.panels.table_panel import TablePanel
from app.view import View
from engine.invariants import INVARIANTS, Invariant, broken_invariants
from engine.recording import RecordedRun
from engine.rewinds import draft_trim, main_trim
from engine.rounds import Round

EMPTY = "Press Run: after every round both caches are held against the rewind law; what holds is listed here."
PAGE = "ledger.md"
COLUMNS = (
    Column("result", "result", "PASS: it held in every round so far", 7),
    Column("invariant", "invariant", "What must hold after every round", 26, grows=True),
    Column("here", "here", "In the round under the cursor", 14, rank=1),
    Column("since", "since", "The first failing round; press it to go there", 4, right=True),
    Column("rounds", "n", "In how many rounds it failed", 3, right=True, rank=2),
)


class InvariantsPanel(TablePanel):
    """`3 fail, 10 pass in 35 rounds` in the title; failures first below, each of which leads to its first round."""

    empty = EMPTY
    lines = 14

    def __init__(self, view: View, parent: QWidget | None = None) -> None:
        self._shown: list[Invariant] = []
        super().__init__(view, "invariants", "Invariants", COLUMNS, (PAGE, "what the invariants say"), parent)
        self.table.row_pressed.connect(self._go)

    def words(self, run: RecordedRun, record: Round) -> str:
        asked = [invariant for invariant in INVARIANTS if applies(run, invariant)]
        failed = sum(invariant.id in run.invariants.failures for invariant in asked)
        words = f"▲ {failed} fail, {len(asked) - failed} pass" if failed else f"all {len(asked)} pass"
        return f"{words} in {plural(len(run), 'round')}"

    def rows(self, run: RecordedRun, record: Round) -> list[Row]:
        failures, index = run.invariants.failures, self._view.round_index
        self._shown = sorted(INVARIANTS, key=lambda invariant: invariant.id not in failures)  # stable
        debt = run[index - 1].debt if index > 0 else 0
        here = {invariant.id: how for invariant, how in broken_invariants(record, debt)}
        return [invariant_row(run, invariant, index, here.get(invariant.id)) for invariant in self._shown]

    def _go(self, row: int, column: int) -> None:
        run = self._view.run
        failure = run.invariants.failures.get(self._shown[row].id) if run is not None else None
        if failure is not None:
            self._view.select(failure.first_round)


def applies(run: RecordedRun, invariant: Invariant) -> bool:
    """Whether there is what the invariant speaks of: a run without a drafter's cache has nothing to say of it."""
    drafts = [run.header.drafting, *(drafting for _, drafting in run.taken_over)]
    has_draft = any(drafting.model is not None for drafting in drafts)
    if has_draft and len(run) and not run.taken_over:
        has_draft = run[0].draft_cache is not None
    return has_draft or not invariant.id.startswith(("draft-", "debt-"))


def invariant_row(run: RecordedRun, invariant: Invariant, index: int, how: str | None) -> Row:
    """One invariant; `how` it fails in the round under the cursor, None where it holds."""
    failure, nothing = run.invariants.failures.get(invariant.id), Cell("")
    title = Cell(invariant.title[:1].upper() + invariant.title[1:], mono=False)
    if not applies(run, invariant):
        no = Cell("the drafter has no cache", "text2", mono=False)
        return Row((Cell("–", "text2"), Cell(title.text, "text2", mono=False), no, nothing, nothing))
    here = Cell(numbers(run, invariant, index), "text2" if how is None else "danger", mono=False)
    if failure is None:
        return Row((Cell("PASS", "accepted", mono=False, bold=True, glyph="check"), title, here, nothing, nothing))
    cells = (
        Cell("FAIL", "danger", mono=False, bold=True, glyph="cross"),
        title,
        here,
        Cell(str(failure.first_round), "danger", link=True),
        Cell(count(failure.count)),
    )
    lines = [f"First in round {failure.first_round}: {failure.how}"]
    lines += [f"In round {index}, under the cursor: {how or 'it holds'}"]
    return Row(cells, "danger_tint", tip="\n".join([f"Failed in {plural(failure.count, 'round')}", *lines]))


def numbers(run: RecordedRun, invariant: Invariant, index: int) -> str:
    """What the invariant compares in a round: `32 of 32`, or what fails it: `trim 4, law 3`."""
    record, header = run[index], run.header
    name, _, kind = invariant.id.partition("-")
    cache = record.main_cache if name == "main" else record.draft_cache
    k, e = record.k, len(record.emitted)
    if cache is None and invariant.id != "support":
        return "no cache"
    if invariant.id == "support" or cache is None:
        return f"{sum(emitted.probability != 0 for emitted in record.emitted)} of {e}"
    if invariant.id == "debt-fed":
        debt = run[index - 1].debt if index else 0
        return f"{debt} owed, {cache.forwarded - k} fed" if k else f"{debt} owed"
    if kind == "trim-law":
        law = main_trim(k, e) if name == "main" else draft_trim(k, e) if k else 0
        return f"trim {cache.trim_asked[0]}, law {law}"
    if kind == "trim-done":
        return f"{', '.join(map(str, cache.trim_done)) or '0'} of {cache.trim_asked[0]}"
    if kind == "layers":
        model = header.target if name == "main" else run.drafting_at(index).model or header.target
        apart = len(cache.layers_end) > 1
        return f"at {', '.join(map(str, cache.layers_end))}" if apart else f"{model.layers} of {model.layers}"
    if kind == "content" and cache.first_wrong is not None:
        return f"wrong from {cache.first_wrong}"
    return f"{', '.join(map(str, cache.layers_end))} of {cache.expected_end}"
