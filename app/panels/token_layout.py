"""Where every token of a run stands in the token stream: rows broken greedily, extended without starting over.

Cells and their running sums are arrays, and so are the places where rows would end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from app.panels.token_cells import Cells

GAP = 2
"""Pixels between two cells; none between a rejected draft and what replaced it."""

_COLUMNS: dict[str, type] = {
    "round": np.int32,
    "position": np.int32,
    "token": np.int32,
    "kind": np.int8,
    "width": np.int32,
    "glued": np.bool_,  # no break and no gap before the next cell
    "left": np.int64,  # distance from the first cell, on one endless row
}
_BLOCK = 8192
"""Cells whose row ends are sought at once."""


class TokenLayout:
    """Cells in reading order, and the rows that they form at a width.

    A cell wider than a row takes several rows of its own: `row_offset` tells how many of its pixels came before.
    """

    def __init__(self) -> None:
        self.width = 1
        self.step = 1
        self.clear()

    def clear(self) -> None:
        """Forget all cells and rows."""
        self.count = 0
        self.end = 0
        self._columns: dict[str, npt.NDArray[Any]] = {name: np.zeros(1024, kind) for name, kind in _COLUMNS.items()}
        self._row_cell = np.zeros(256, np.int64)
        self._row_offset = np.zeros(256, np.int64)
        self.rows = 0

    def column(self, name: str) -> npt.NDArray[Any]:
        """One column over all cells."""
        return self._columns[name][: self.count]

    def cell(self, index: int) -> tuple[int, int, int, int, int, bool]:
        """(round, position, token, kind, width, glued) of a cell."""
        names = ("round", "position", "token", "kind", "width")
        numbers = [int(self._columns[name][index]) for name in names]
        return (*numbers, bool(self._columns["glued"][index]))  # type: ignore[return-value]

    def add(self, cells: Cells, widths: npt.NDArray[np.integer]) -> None:
        """Add cells of these widths; call `lay_rows` after the last ones. A pair comes in one call."""
        first, count = self.count, self.count + len(widths)
        while count > len(self._columns["width"]):
            for name, values in self._columns.items():
                self._columns[name] = np.concatenate([values, np.zeros_like(values)])
        columns = self._columns
        for name in ("round", "position", "token", "kind", "glued"):
            columns[name][first:count] = getattr(cells, name)
        columns["width"][first:count] = widths
        steps = np.cumsum(widths + np.where(cells.glued, 0, GAP))
        columns["left"][first:count] = self.end + np.concatenate([[0], steps[:-1]])[: len(steps)]
        self.end += int(steps[-1]) if len(steps) else 0
        self.count = count

    def set_width(self, width: int, step: int = 1) -> None:
        """Break all rows anew at a width; cells wider than it are cut at multiples of `step` pixels."""
        self.width, self.step = max(width, 1), max(step, 1)
        self.rows = 0
        self.lay_rows()

    def lay_rows(self) -> None:
        """Break what isn't in a row yet; only the last row is looked at again."""
        if self.count == 0:
            self.rows = 0
            return
        if self.rows:
            # The last row may have room left; one that shows the rest of a wide cell is begun over with that cell.
            start = int(self._row_cell[self.rows - 1])
            self.rows = int(np.searchsorted(self._row_cell[: self.rows], start, side="left"))
        else:
            start = 0
        while start < self.count:
            base, stops = start, self._row_ends(start)
            while start - base < len(stops):
                stop = stops[start - base]
                if stop <= start:
                    self._add_wide(start)
                    start += 1
                else:
                    self._add_row(start, 0)
                    start = stop

    def _row_ends(self, first: int) -> list[int]:
        """For each cell of a block: the first cell behind the row that it would begin; itself if wider than a row."""
        left, glued = self._columns["left"][first : self.count], self._columns["glued"][first : self.count]
        right = left + self._columns["width"][first : self.count]
        starts = np.arange(min(_BLOCK, len(left)))
        stops = np.searchsorted(right, left[: len(starts)] + self.width, side="right")
        # A pair isn't parted, unless it is too wide for any row.
        parted = (stops < len(left)) & (stops - 1 > starts) & glued[stops - 1]
        found: list[int] = (stops - parted + first).tolist()
        return found

    def _add_wide(self, cell: int) -> None:
        piece = max(self.width // self.step * self.step, 1)
        for offset in range(0, int(self._columns["width"][cell]), piece):
            self._add_row(cell, offset)

    def _add_row(self, cell: int, offset: int) -> None:
        if self.rows == len(self._row_cell):
            self._row_cell = np.concatenate([self._row_cell, np.zeros_like(self._row_cell)])
            self._row_offset = np.concatenate([self._row_offset, np.zeros_like(self._row_offset)])
        self._row_cell[self.rows], self._row_offset[self.rows] = cell, offset
        self.rows += 1

    def row_span(self, row: int) -> tuple[int, int, int]:
        """(first cell, cell behind the last, pixels of the first cell that earlier rows showed)."""
        first = int(self._row_cell[row])
        later = int(self._row_cell[row + 1]) if row + 1 < self.rows else self.count
        return first, max(later, first + 1), int(self._row_offset[row])

    def row_of(self, cell: int) -> int:
        """The (first) row that shows a cell."""
        rows = self._row_cell[: self.rows]
        row = int(np.searchsorted(rows, cell, side="right")) - 1
        return int(np.searchsorted(rows, rows[row], side="left")) if rows[row] == cell else row

    def x_of(self, cell: int) -> int:
        """Distance of a cell from its row's start."""
        return int(self._columns["left"][cell] - self._columns["left"][self._row_cell[self.row_of(cell)]])

    def cell_at(self, row: int, x: int) -> int | None:
        """The cell of a row at a distance from its start, or None beside them."""
        if not 0 <= row < self.rows:
            return None
        first, behind, offset = self.row_span(row)
        if offset:
            return first if 0 <= x + offset < int(self._columns["width"][first]) else None
        left = self._columns["left"]
        place = int(left[first]) + x
        cell = int(np.searchsorted(left[first:behind], place, side="right")) - 1 + first
        if cell < first or place >= int(left[cell] + self._columns["width"][cell]) + GAP:
            return None
        return cell

    def nearest(self, row: int, x: int) -> int:
        """The cell of a row that is nearest to a distance from its start."""
        first, behind, _ = self.row_span(row)
        left = self._columns["left"]
        place = int(left[first]) + x
        return min(max(int(np.searchsorted(left[first:behind], place, side="right")) - 1 + first, first), behind - 1)

    def find(self, round_index: int, position: int) -> int | None:
        """The last cell of a round at this position, else the round's last one before it; None without any."""
        rounds = self.column("round")
        low = int(np.searchsorted(rounds, round_index, side="left"))
        high = int(np.searchsorted(rounds, round_index, side="right"))
        if low == high:
            return None
        within = int(np.searchsorted(self._columns["position"][low:high], position, side="right"))
        return low + max(within - 1, 0)
