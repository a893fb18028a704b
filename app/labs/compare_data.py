"""What the comparison window shows of two runs, read and computed off the GUI thread; bounded, however long they are.

No widgets: the window gives the sources and takes a `Compared`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.jobs import Report, Steps
from app.labs.compare_words import described
from app.panels.acceptance_data import AcceptanceData
from app.run_titles import titles
from engine.compare import Comparison, compare
from engine.recording import RecordedRun, stored_run
from engine.run_copy import Place, RunCopy
from engine.session_file import SessionFileError, SessionReader
from engine.statistics import wilson_interval
from engine.text import Vocabulary

Values = npt.NDArray[np.float64]

BEFORE, AFTER = 24, 40
"""Tokens that are shown before the first difference, and from it on."""

CURVE_POINTS = 1200
"""Points of a curve at most."""

MOST_RUNS = 200
"""Runs of one file that are offered at most, the newest."""


class StoppedError(Exception):
    """The job was cancelled."""


@dataclass(frozen=True, eq=False)
class Source:
    """A run that can be compared: one that the window knows (`run`), or one of a file (`place`), or both."""

    title: str
    run: RecordedRun | None
    place: Place | None

    def is_same(self, other: Source) -> bool:
        """Whether both are one run."""
        if self.run is not None and other.run is not None:
            return self.run is other.run
        if self.place is None or other.place is None or self.place[1] != other.place[1]:
            return False
        with contextlib.suppress(OSError):
            return self.place[0].samefile(other.place[0])
        return self.place[0] == other.place[0]


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


# Reading


@contextlib.contextmanager
def opened_place(place: Place, check: Callable[[], None]) -> Iterator[RecordedRun]:
    """A run of a file. Raises SessionFileError."""
    reader = _Reader(place[0], check)
    try:
        stored = next((run for run in reader.runs() if run.id == place[1]), None)
        if stored is None:
            raise SessionFileError(f"{place[0]} has no run {place[1]}")
        yield stored_run(reader, stored)
    finally:
        reader.close()


class _Reader(SessionReader):
    """Asks before each round whether to go on."""

    def __init__(self, path: Path, check: Callable[[], None]) -> None:
        super().__init__(path)
        self._check = check

    def round(self, run: int, number: int) -> Any:
        self._check()
        return super().round(run, number)


Opener = Callable[[Callable[[], None]], contextlib.AbstractContextManager[RecordedRun]]
"""Given a check, which may raise StoppedError, opens a run on the thread that it is called on."""


def opener(source: Source) -> Opener:
    """To be called on the GUI thread: a run that the window knows is copied as it stands now."""
    if source.run is None:
        assert source.place is not None
        place = source.place
        return lambda check: opened_place(place, check)
    checks: list[Callable[[], None]] = []
    kept = RunCopy(source.run, source.place, lambda: checks[-1]())

    @contextlib.contextmanager
    def opened(check: Callable[[], None]) -> Iterator[RecordedRun]:
        checks.append(check)
        try:
            yield kept.run
        finally:
            kept.close()

    return opened


def checker(job: Any) -> Callable[[], None]:
    """Raises StoppedError once the job is cancelled."""

    def check() -> None:
        if job.cancelled:
            raise StoppedError

    return check


def list_steps(path: Path) -> Steps:
    """A job that gives the list of a file's runs as Sources."""

    def steps(job: Any, report: Report) -> Iterator[list[Source]]:
        try:
            reader = _Reader(path, checker(job))
            try:
                stored = reader.runs()[-MOST_RUNS:]
                if not stored:
                    raise ValueError(f"{path} holds no run")
                # A round that can't be read costs its run its rule in the list, no more.
                runs = [stored_run(reader, entry, patient=True) for entry in stored]
                lines = titles(runs)
                yield [
                    Source(f"{path.name}: {title}", None, (path, entry.id))
                    for (title, _), entry in zip(lines, stored, strict=True)
                ]
            finally:
                reader.close()
        except SessionFileError as error:
            raise ValueError(str(error)) from error
        except StoppedError:
            return

    return steps


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
            yield Shown(emitted.token, emitted.source, number, emitted.position)
            low += 1
        number, within = number + 1, 0


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


def band_of(curve: Curve) -> tuple[float, float] | None:
    """The 95 % Wilson interval of the whole run."""
    if curve.rate is None:
        return None
    return wilson_interval(round(curve.rate * curve.n), curve.n)


def drift_words(drift: npt.NDArray[np.int64]) -> str:
    """A strip in words."""
    off = np.flatnonzero(drift)
    if not off.size:
        return f"0 in all {len(drift)} rounds" if len(drift) else "no rounds"
    return f"{int(drift[-1])} at the end, first in round {int(off[0])}"
