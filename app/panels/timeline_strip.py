"""The timeline's strip: outcomes of all rounds in view as one picture, whatever their number. NumPy and QImage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from PySide6.QtGui import QColor, QImage

from app.panels.round_axis import AxisMap
from app.theme import Palette
from engine.columns import OUTCOMES
from engine.recording import RecordedRun

Counts = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

CLASSES: tuple[tuple[str, ...], ...] = (("accepted-all",), ("plain", "ended"), ("rejected",), ("degenerate",))
"""Outcomes that share a colour, from below: what matters more stands above."""

_CLASS_OF = np.array([next(at for at, names in enumerate(CLASSES) if name in names) for name in OUTCOMES], np.int8)

LEAST = (0, 1, 2, 4)
"""Pixels that a class keeps where it has any round at all, however few among how many."""

HATCH = 5
"""Pixels from one line of the rejected rounds' hatch to the next."""


@dataclass(frozen=True)
class Tally:
    """What the cells hold: one round each, or all rounds that begin in one pixel.

    `starts` (n,): first round of each. `counts` (4, n): rounds by class. `drift` (n,): whether there is any.
    """

    starts: Counts
    counts: Counts
    drift: Mask


def tally(run: RecordedRun, axis: AxisMap) -> Tally:
    """Count the rounds in view, cell by cell."""
    low, high = axis.visible()
    starts = axis.bucket_starts()
    if not len(starts):
        return Tally(starts, np.zeros((len(CLASSES), 0), np.int64), np.zeros(0, bool))
    outcome, off = run.column("outcome")[low:high], run.column("drift")[low:high] != 0
    place = _CLASS_OF[outcome]
    counts = [np.add.reduceat(place == at, starts - low, dtype=np.int64) for at in range(len(CLASSES))]
    return Tally(starts, np.array(counts), np.logical_or.reduceat(off, starts - low))


def heights(counts: Counts, room: int) -> Counts:
    """Pixels of each class in each cell (4, n), together `room`: by share, but what matters is never lost."""
    total = np.maximum(counts.sum(0), 1)
    tall = np.zeros_like(counts)
    left = np.full(counts.shape[1], room)
    for place in range(len(CLASSES) - 1, 0, -1):
        wanted = np.maximum(np.rint(counts[place] / total * room).astype(np.int64), LEAST[place])
        tall[place] = np.where(counts[place] > 0, np.minimum(wanted, left), 0)
        left = left - tall[place]
    # What is left belongs to full acceptance; without any, rounding is made up for by what there is most of.
    rest = np.where(counts[0] > 0, 0, counts.argmax(0))
    tall[rest, np.arange(counts.shape[1])] += left
    return tall


def picture(told: Tally, axis: AxisMap, room: int, drift: int, colours: Palette) -> QImage:
    """The strip, as wide as the axis and `room` high; `drift`: pixels at the top that belong to drift, 0 for none."""
    width = axis.right - axis.left
    pixels = np.full((room, width), _rgb(colours.base), np.uint32)
    if len(told.starts):
        lefts, rights = axis.all_edges(told.starts)
        lefts, rights = lefts - axis.left, rights - axis.left
        if axis.cell < 1:
            rights = np.append(lefts[1:], lefts[-1] + 1)
        elif axis.cell >= 4:
            rights = rights - 1
        x = np.arange(width)
        owner = np.searchsorted(lefts, x, side="right") - 1
        shown = (owner >= 0) & (x < rights[owner])
        _fill(pixels, told, owner, shown, drift, colours)
    image = QImage(pixels.data, width, room, 4 * width, QImage.Format.Format_RGB32)
    return image.copy()  # the array dies with this call


def _fill(pixels: npt.NDArray[np.uint32], told: Tally, owner: Counts, shown: Mask, drift: int, ink: Palette) -> None:
    room, width = pixels.shape
    gap = 1 if drift else 0
    tall = heights(told.counts, room - drift - gap)
    tops = room - np.cumsum(tall, axis=0)  # of each class, counted from above
    y, x = np.arange(room)[:, None], np.arange(width)[None, :]
    below = np.full(len(told.starts), room)
    slanted, level = (x + y) % HATCH == 0, y % 3 == 0
    base, faint = _rgb(ink.base), _mixed(ink.rejected.fill, ink.base)
    fills = (ink.accepted.fill, ink.target_draw.fill, ink.rejected.fill, ink.recovered.fill)
    for place, fill in enumerate(fills):
        area = shown & (y >= tops[place][owner]) & (y < below[owner])
        pixels[area] = _rgb(fill)
        if place == 2:
            pixels[area & slanted] = faint
        elif place == 3:
            # A thin one is told from the orange below it by a gap, a cell of its own by stripes.
            thin = tall[place][owner] < 8
            pixels[area & np.where(thin, y == below[owner] - 1, level)] = base
        below = tops[place]
    if drift:
        pixels[shown & told.drift[owner] & (y < drift)] = _rgb(ink.danger)


def _rgb(name: str) -> int:
    return QColor(name).rgb()


def _mixed(one: str, other: str) -> int:
    """The colour half way between two."""
    a, b = QColor(one), QColor(other)
    return QColor((a.red() + b.red()) // 2, (a.green() + b.green()) // 2, (a.blue() + b.blue()) // 2).rgb()
