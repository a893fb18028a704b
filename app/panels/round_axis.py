"""The one round axis that the panels along the bottom share: gutter, and the mapping from rounds to pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QWheelEvent

from app import theme
from app.view import View

Edges = npt.NDArray[np.int64]

LEAST_GUTTER, MOST_GUTTER = 11, 36
"""Limits of the gutter in em."""

LEAST_SPAN = 8
"""Zooming in stops at so many rounds."""


@dataclass(frozen=True, slots=True)
class AxisMap:
    """Rounds to pixels at one width: round r takes [x(r), x(r + 1)).

    `left`, `right`: pixel limits of the axis. `first`: the round at the left end, a fraction while scrolling.
    `span`: rounds that fit between the limits by the zoom. `cell`: pixels a round, capped, so few rounds stand
    at the left. `total`: rounds of the run.
    """

    left: int
    right: int
    first: float
    span: float
    cell: float
    total: int

    def x(self, position: float) -> float:
        """Left edge of a round."""
        return self.left + (position - self.first) * self.cell

    def centre(self, index: float) -> float:
        """Where a round's point stands."""
        return self.x(index + 0.5)

    def edges(self, index: int) -> tuple[int, int]:
        """A round's left and right edge in whole pixels, at least one pixel apart."""
        left = round(self.x(index))
        return left, max(round(self.x(index + 1)), left + 1)

    def all_edges(self, indices: Edges) -> tuple[Edges, Edges]:
        """`edges` of many rounds at once."""
        lefts = np.rint(self.left + (indices - self.first) * self.cell).astype(np.int64)
        rights = np.rint(self.left + (indices + 1 - self.first) * self.cell).astype(np.int64)
        return lefts, np.maximum(rights, lefts + 1)

    def round_at(self, x: float) -> int | None:
        """The round under a pixel, the nearest one beside the ends; None without rounds."""
        if not self.total:
            return None
        low, high = self.visible()
        return min(max(math.floor(self.first + (x - self.left) / self.cell), low), max(high - 1, low))

    def visible(self) -> tuple[int, int]:
        """First round in view, and one behind the last."""
        low = min(max(math.floor(self.first), 0), self.total)
        return low, max(min(math.ceil(self.first + self.span), self.total), low)

    def bucket_starts(self) -> npt.NDArray[np.int64]:
        """First round of each pixel column in view, without columns that begin no round."""
        low, high = self.visible()
        if self.cell >= 1 or low >= high:
            return np.arange(low, high)
        # A column's rounds are those whose left edge falls into it. Looked for from the columns: rounds may be many.
        columns = np.arange(self._column(low), self._column(high - 1) + 1)
        found = np.ceil(self.first + columns / self.cell).astype(np.int64)
        # Division and multiplication may round to either side of a round.
        found -= self._column(found - 1) >= columns
        found += self._column(found) < columns
        return np.unique(np.clip(found, low, high - 1))

    def _column(self, rounds: Any) -> Any:
        """The pixel column, counted from `left`, into which the left edge of a round, or of each, falls."""
        return np.floor((rounds - self.first) * self.cell)

    def ticks(self) -> list[int]:
        """Round numbers to label: round multiples, far enough apart to be read."""
        low, high = self.visible()
        room = max(8 * theme.em(), theme.em() * (len(str(self.total)) + 2)) / self.cell
        step = 10 ** max(math.ceil(math.log10(max(room, 1))) - 1, 0)
        step = next(step * factor for factor in (1, 2, 5, 10, 20) if step * factor >= room)
        return list(range(-(-low // step) * step, high, step))


class RoundAxis(QObject):
    """Gutter width and visible rounds, shared by all panels of one view; get it by `for_view`.

    Signals: `changed`, when the gutter or the zoom is another one. New rounds alone don't tell it: the view does.
    """

    changed = Signal()

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._view = view
        self._gutter = self.usual_gutter
        self._window: tuple[float, float] | None = None
        view.run_changed.connect(self.show_all)
        view.cursor_moved.connect(self._keep_cursor)

    @staticmethod
    def for_view(view: View) -> RoundAxis:
        """The view's axis, made by whoever asks first."""
        found = view.findChild(RoundAxis)
        return found if isinstance(found, RoundAxis) else RoundAxis(view)

    @property
    def gutter(self) -> int:
        """Width in pixels of the legend column at the left, its line included."""
        return self._gutter

    @property
    def usual_gutter(self) -> int:
        """The gutter where nothing stands above it."""
        return round(theme.em() * 24.2)

    def set_gutter(self, width: int) -> None:
        """Make the gutter as wide as what stands above it: but no narrower than its text, nor so wide as to waste."""
        width = min(max(width, theme.em() * LEAST_GUTTER), theme.em() * MOST_GUTTER)
        if width != self._gutter:
            self._gutter = width
            self.changed.emit()

    @property
    def label_room(self) -> int:
        """Pixels between the gutter and round 0, for the labels of a vertical axis."""
        return round(theme.em() * 3.1)

    @property
    def right_room(self) -> int:
        """Pixels between the last round and the right end."""
        return round(theme.em() * 0.77)

    @property
    def widest_cell(self) -> float:
        """Widest cell in pixels: a run of few rounds isn't blown up."""
        return theme.em() * 4.0

    def map(self, width: int) -> AxisMap:
        """The mapping in a panel of this width."""
        total = len(self._view.run) if self._view.run is not None else 0
        first, span = self._window or (0.0, float(max(total, 1)))
        left = self._gutter + self.label_room
        right = max(width - self.right_room, left + 1)
        cell = min((right - left) / span, self.widest_cell)
        return AxisMap(left, right, first, max(span, (right - left) / cell), cell, total)

    # Zoom

    def show_all(self) -> None:
        """Show every round."""
        if self._window is not None:
            self._window = None
            self.changed.emit()

    def zoom(self, about: float, factor: float) -> None:
        """Show `factor` times as many rounds, the one at `about` staying where it is."""
        total = len(self._view.run) if self._view.run is not None else 0
        first, span = self._window or (0.0, float(max(total, 1)))
        wanted = max(span * factor, min(LEAST_SPAN, total))
        if wanted >= total:
            self.show_all()
            return
        share = (about - first) / span
        self._show(about - share * wanted, wanted)

    def scroll(self, by: float) -> None:
        """Move the rounds in view by so many rounds."""
        if self._window is not None:
            self._show(self._window[0] + by, self._window[1])

    def wheel(self, event: QWheelEvent, x: float, width: int) -> None:
        """What a wheel does on the axis: up and down zooms about the pointer, sideways or with Shift scrolls."""
        delta, mapping = event.angleDelta(), self.map(width)
        shifted = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        if delta.x() or shifted:
            self.scroll(-(delta.x() or delta.y()) / 120 * mapping.span / 10)
        elif delta.y():
            self.zoom(mapping.first + (x - mapping.left) / mapping.cell, 0.8 ** (delta.y() / 120))
        event.accept()

    def pick(self, x: float, width: int, scrub: bool = False) -> None:
        """Put the cursor on the round at a pixel; `scrub`: the pointer is dragged there, over an end also, and on."""
        mapping = self.map(width)
        index = mapping.round_at(x)
        beyond = max(x - mapping.right, 0) - max(mapping.left - x, 0)
        if index is not None and scrub and beyond:
            # The rounds follow the cursor, see `_keep_cursor`.
            by = math.copysign(max(abs(beyond) / mapping.cell, 1), beyond)
            index = min(max(index + round(by), 0), mapping.total - 1)
        if index is not None and (index != self._view.round_index or self._view.live):
            (self._view.scrub if scrub else self._view.select)(index)

    def _show(self, first: float, span: float) -> None:
        total = len(self._view.run) if self._view.run is not None else 0
        window = (min(max(first, 0.0), max(total - span, 0.0)), span)
        if window != self._window:
            self._window = window
            self.changed.emit()

    def _keep_cursor(self) -> None:
        """Scroll so that the cursor stays in view, also while it follows the tail."""
        if self._window is None:
            return
        first, span = self._window
        index = self._view.round_index
        if index < first:
            self._show(float(index), span)
        elif index + 1 > first + span:
            self._show(index + 1 - span, span)
