"""What the comparison window shows of two runs, read and computed off the GUI thread; bounded, however long they are.

No widgets: the window gives the sources and takes a `Compared`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.format import plural
from app.jobs import Report, Steps
from app.labs.compare_words import described
from app.panels.acceptance_data import AcceptanceData
from app.run_sources import Opener, StoppedError, checker
from engine.compare import Comparison, compare
from engine.recording import RecordedRun
from engine.rounds import SOURCES
from engine.session_file import SessionFileError
from engine.text import Vocabulary

Values = npt.NDArray[np.float64]

BEFORE, AFTER = 24, 40
"""Tokens that are shown before the first difference, and from it on."""

CURVE_POINTS = 1200
"""Points of a curve at most."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An emitted token in the streams: its id, source, and where it was emitted."""

    token: int
    source: str
    round: int
    position: int


@dataclass(frozen=True)
class Streams:
    """Both streams from token `first` on, aligned by index; `differs`: the index of the first difference."""

    first: int
    a: tuple[Shown, ...]
    b: tuple[Shown, ...]
    differs: int | None


@dataclass(frozen=True)
class Curve:
    """Cumulative acceptance at some rounds, NaN where undefined, with its Wilson band; `rate` and `n` at the end."""

    rounds: int
    x: Values
    rate_at: Values
    low: Values
    high: Values
    rate: float | None
    n: int


@dataclass(frozen=True)
class Compared:
    """All that the window shows. `parted`: the round of the first difference on either side."""

    found: Comparison
    described: tuple[str, str]
    vocabularies: tuple[Vocabulary, Vocabulary]
    streams: Streams | None
    curves: tuple[Curve, Curve]
    drift: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    parted: tuple[int | None, int | None]
    running: tuple[bool, bool]


# The work


def compare_steps(a: Opener, b: Opener) -> Steps:
    """A job that gives one Compared."""

    def steps(job: Any, report: Report) -> Iterator[Compared]:
        check = checker(job)
        try:
            report(0, 3)
            with a(check) as left:
                check()
                report(1, 3)
                with b(check) as right:
                    check()
                    report(2, 3)
                    yield compared(left, right)
                    report(3, 3)
        except SessionFileError as error:
            raise ValueError(str(error)) from error
        except StoppedError:
            return

    return steps


# What is shown


def compared(a: RecordedRun, b: RecordedRun) -> Compared:
    """Lay b beside a. Raises SessionFileError."""
    found = compare(a, b)
    first = found.first
    sides = (None, None) if first is None else (first.a, first.b)
    return Compared(
        found,
        (described(a), described(b)),
        (a.header.vocabulary, b.header.vocabulary),
        streams_of(a, b, found),
        (curve_of(a), curve_of(b)),
        (np.array(a.column("drift")), np.array(b.column("drift"))),
        tuple(None if side is None else side.round for side in sides),  # type: ignore[arg-type]
        (is_running(a), is_running(b)),
    )


def is_running(run: RecordedRun) -> bool:
    """Whether more may come: a run that has no end, and isn't damaged."""
    return run.end is None and run.damage is None


def streams_of(a: RecordedRun, b: RecordedRun, found: Comparison) -> Streams | None:
    """The tokens around the first difference, or the last ones where there is none; None where none can be aligned."""
    if a.header.vocabulary.pieces != b.header.vocabulary.pieces:
        return None
    differs = None if found.first is None else found.first.index
    longest = max(found.lengths)
    low = max((longest if differs is None else differs + AFTER) - BEFORE - AFTER, 0)
    high = min(low + BEFORE + AFTER, longest)
    return Streams(low, tuple(_shown(a, low, high)), tuple(_shown(b, low, high)), differs)


def _shown(run: RecordedRun, low: int, high: int) -> Iterator[Shown]:
    high = min(high, len(run.tokens))
    if low >= high:
        return
    number, within = run.locate(low)
    while low < high:
        for emitted in run[number].emitted[within:][: high - low]:
            yield Shown(emitted.token, known_source(emitted.source), number, emitted.position)
            low += 1
        number, within = number + 1, 0


def known_source(source: str) -> str:
    """A source that can be drawn: a file may hold any text."""
    return source if source in SOURCES else "target-draw"


def curve_of(run: RecordedRun) -> Curve:
    """Cumulative acceptance, thinned evenly: a running average hides no peak between its points."""
    data = AcceptanceData()
    data.take_in(run)
    count = data.taken
    index = np.unique(np.linspace(0, count - 1, min(count, CURVE_POINTS)).round().astype(np.int64))
    low, high = data.band(index) if count else (np.empty(0), np.empty(0))
    rates = data.cumulative(index) if count else np.empty(0)
    counted = run.statistics
    return Curve(
        count,
        index.astype(np.float64),
        rates,
        low,
        high,
        counted.per_position_acceptance,
        counted.positions_tested,
    )


def rate_at(curve: Curve, number: int) -> tuple[int, float] | None:
    """(round, rate) at the last point up to a round; None where there is none."""
    at = int(np.searchsorted(curve.x, number, side="right")) - 1
    if at < 0 or number >= curve.rounds or np.isnan(curve.rate_at[at]):
        return None
    return int(curve.x[at]), float(curve.rate_at[at])


def drift_buckets(drift: npt.NDArray[np.int64], pixels: int, rounds: int) -> npt.NDArray[np.int64]:
    """For each of `pixels` columns over `rounds` rounds the drift farthest from 0 of its rounds, so that none hides."""
    found = np.zeros(max(pixels, 0), np.int64)
    if not len(found) or not rounds or not len(drift):
        return found
    edges = (np.arange(len(found) + 1) * rounds) // len(found)
    low = np.minimum(edges[:-1], len(drift))
    high = np.minimum(np.maximum(edges[1:], edges[:-1] + 1), len(drift))
    some = low < high
    for at in np.flatnonzero(some):
        part = drift[low[at] : high[at]]
        found[at] = part[np.abs(part).argmax()]
    return found


def drift_words(drift: npt.NDArray[np.int64]) -> str:
    """A strip in words."""
    off = np.flatnonzero(drift)
    if not off.size:
        return f"0 in all {plural(len(drift), 'round')}" if len(drift) else "no rounds"
    return f"{int(drift[-1])} at the end, first in round {int(off[0])}"
