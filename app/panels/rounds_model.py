"""The rounds of the run shown as a table model: one row a round that the filter lets through, read when asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from app.format import duration, plural, probability, visible_string, visible_text
from app.panels.chips import plain_tip
from app.panels.text_end import TextEnd, text_end
from engine.columns import Outline, outcome_of
from engine.recording import RecordedRun
from engine.round_filter import RoundFilter
from engine.rounds import Round, RunEnd

Index = QModelIndex | QPersistentModelIndex
_ROOT = QModelIndex()


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `key` names it in settings and tests, `about` is its header's tooltip."""

    key: str
    title: str
    about: str
    right: bool = False


COLUMNS = (
    Column("mark", "", "The round under the cursor, breakpoints and marks"),
    Column("index", "#", "Round number, from 0", right=True),
    Column("drafts", "drafts", "One square a draft: filled accepted, crossed rejected, hollow not tested"),
    Column("drafted", "k", "Tokens drafted", right=True),
    Column("tested", "tested", "Drafts that met a test", right=True),
    Column("accepted", "acc", "Drafts accepted", right=True),
    Column("outcome", "outcome", "How the round ended"),
    Column("last", "last token", "The last token emitted, with its source"),
    Column("text", "emitted text", "All tokens emitted in the round"),
    Column("sum_min", "Σ min", "Mean of sum min(p, q) over the round's tested positions", right=True),
    Column("drift", "drift", "Expected minus actual position of the draft cache", right=True),
    Column("time", "time", "Seconds of the round, seen from the host", right=True),
)
KEYS = tuple(column.key for column in COLUMNS)
_FATE_MARK = {"accepted": "A", "rejected": "R", "ignored": "-"}


def outcome_words(record: Round | Outline) -> str:
    """How a round ended, in a word or two."""
    last = record.emitted[-1].source if record.emitted else ""
    words = {"accepted-all": "all + bonus", "plain": "no drafts", "degenerate": "degenerate", "ended": "run ended"}
    replaced = {"recovered": "recovered", "target-draw": "target draw", "greedy": "argmax"}
    outcome = outcome_of(record)
    return replaced.get(last, "rejected") if outcome == "rejected" else words.get(outcome, outcome)


class RoundsModel(QAbstractTableModel):
    """Rows are rounds, those that `filter` lets through; `sync` makes the rows that have come known."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.run: RecordedRun | None = None
        self.filter: RoundFilter | None = None
        self._rows = 0
        self._told: Outline | None = None
        self._seen = 0  # rounds that were looked at
        self._numbers: npt.NDArray[np.int64] = np.zeros(0, np.int64)  # of the rows, with room to grow; filtered only
        self._text_end: tuple[RunEnd, TextEnd | None] | None = None

    def set_run(self, run: RecordedRun | None) -> None:
        """Show another run."""
        self.beginResetModel()
        self.run, self._told = run, None
        self._start_over()
        self.endResetModel()

    def set_filter(self, wanted: RoundFilter | None) -> None:
        """Let only these rounds through; None: all."""
        self.beginResetModel()
        self.filter = wanted
        self._start_over()
        self.endResetModel()

    def _start_over(self) -> None:
        self._rows = self._seen = 0
        self._rows = self._look_on()

    def _look_on(self) -> int:
        """Look at the rounds that are new, and at no others; gives the number of rows there are now."""
        if self.run is None:
            return 0
        start, self._seen = self._seen, len(self.run)
        if self.filter is None:
            return self._seen
        found = self.filter.matches(self.run, start)
        rows = self._rows + len(found)
        if rows > len(self._numbers):
            self._numbers = np.concatenate([self._numbers[: self._rows], np.zeros(rows + 256, np.int64)])
        self._numbers[self._rows : rows] = found
        return rows

    def sync(self) -> bool:
        """Tell the view about new rows; True if there were any."""
        rows = self._look_on()
        if rows <= self._rows:
            return False
        self.beginInsertRows(QModelIndex(), self._rows, rows - 1)
        self._rows = rows
        self.endInsertRows()
        return True

    def number(self, row: int) -> int:
        """The round of a row."""
        return row if self.filter is None else int(self._numbers[row])

    def row_of(self, number: int) -> int:
        """The row of a round, -1 if it has none."""
        row = self.row_from(number)
        return row if 0 <= row < self._rows and self.number(row) == number else -1

    def row_from(self, number: int) -> int:
        """The first row of that round or a later one; the number of rows if there is none."""
        if self.filter is None:
            return min(number, self._rows)
        return int(np.searchsorted(self._numbers[: self._rows], number))

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else self._rows

    def columnCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(COLUMNS)

    def record(self, row: int) -> Outline | None:
        """What is told of the round of a row; kept for the next cell."""
        if self.run is None or not 0 <= row < self._rows:
            return None
        number = self.number(row)
        if self._told is None or self._told.index != number:
            self._told = self.run.outline(number)
        return self._told

    def text(self, row: int, key: str) -> str:
        """What a cell says, as text."""
        record = self.record(row)
        if record is None or self.run is None:
            return ""
        vocabulary = self.run.header.vocabulary
        match key:
            case "index":
                return str(record.index)
            case "drafts":
                return "".join(_FATE_MARK[draft.fate] for draft in record.drafts) or "-"
            case "drafted":
                return str(record.k)
            case "tested":
                return str(record.tested)
            case "accepted":
                return str(record.accepted)
            case "outcome":
                return outcome_words(record)
            case "last":
                return visible_text(vocabulary, record.emitted[-1].token) if record.emitted else "-"
            case "text":
                return "".join(visible_text(vocabulary, e.token) for e in record.emitted)
            case "sum_min":
                total = float(self.run.column("sum_min")[record.index])
                return probability(total / record.tested if record.tested else math.nan)
            case "drift":
                return str(record.drift)
            case "time":
                return duration(record.seconds)
        return ""

    def behind_the_text(self, record: Round | Outline) -> int:
        """How many of a round's last tokens are part of a stop string, and not of the text."""
        found = self._end_of_text()
        return 0 if found is None or self.run is None else found.of_round(self.run, record.index)

    def _end_of_text(self) -> TextEnd | None:
        if self.run is None or self.run.end is None:
            return None
        if self._text_end is None or self._text_end[0] is not self.run.end:
            self._text_end = self.run.end, text_end(self.run)
        return self._text_end[1]

    def tip(self, row: int) -> str:
        """All of a round in a few lines, as plain text."""
        if self.run is None or not 0 <= row < self._rows:
            return ""
        record = self.run[self.number(row)]
        lines = [
            f"{plural(record.k, 'draft')}, {record.tested} tested, {record.accepted} accepted: {outcome_words(record)}",
            f"rule {record.rule}: {record.rule_reason}",
            f"drift {record.drift}, {duration(record.timings.total)}",
            f"emitted {self.text(row, 'text')}",
        ]
        found = self._end_of_text()
        if found is not None and self.behind_the_text(record):
            lines.append(f'the text ends before "{visible_string(found.cut)}"')
        note = self.run.marks.get(record.index)
        if note is not None:
            lines.append(f"marked: {note}" if note else "marked")
        return plain_tip(f"Round {record.index}", lines)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return self.text(index.row(), COLUMNS[index.column()].key)
        if role == Qt.ItemDataRole.ToolTipRole:
            return self.tip(index.row())
        if role == Qt.ItemDataRole.TextAlignmentRole and COLUMNS[index.column()].right:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation != Qt.Orientation.Horizontal or not 0 <= section < len(COLUMNS):
            return None
        column = COLUMNS[section]
        if role == Qt.ItemDataRole.DisplayRole:
            return column.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return column.about
        if role == Qt.ItemDataRole.TextAlignmentRole:
            side = Qt.AlignmentFlag.AlignRight if column.right else Qt.AlignmentFlag.AlignLeft
            return side | Qt.AlignmentFlag.AlignVCenter
        return None

    def copied(self, rows: list[int]) -> str:
        """Rows as tab-separated text under a header line; emitted text is the original, with \\t and \\n escaped."""
        keys = [key for key in KEYS if key not in ("mark", "last")]
        titles = ["round" if key == "index" else key for key in keys]
        lines = ["\t".join(titles)]
        for row in rows:
            record = self.record(row)
            if record is None or self.run is None:
                continue
            cells = {key: self.text(row, key) for key in keys}
            text = self.run.header.vocabulary.decode(e.token for e in record.emitted)
            cells["text"] = text.translate({92: "\\\\", 9: "\\t", 10: "\\n", 13: "\\r"})
            cells["time"] = f"{record.seconds:.6f}"
            lines.append("\t".join(cells.values()))
        return "\n".join(lines) + "\n"
