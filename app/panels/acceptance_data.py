"""Acceptance by round as arrays that grow with the run: running sums, rolling rates, the Wilson band. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.recording import RecordedRun
from engine.statistics import wilson_band

Values = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def ratio(numerator: npt.ArrayLike, denominator: npt.ArrayLike) -> Values:
    """Elementwise ratio, NaN where the denominator is 0."""
    below = np.asarray(denominator, np.float64)
    out = np.full(below.shape, np.nan)
    np.divide(np.asarray(numerator, np.float64), below, out=out, where=below > 0)
    return out


class Growing:
    """A float64 array that grows by doubling; `view` gives what it holds."""

    def __init__(self) -> None:
        self._held: Values = np.empty(256)
        self._count = 0

    def extend(self, values: Values) -> None:
        """Append values."""
        wanted = self._count + len(values)
        if wanted > len(self._held):
            self._held = np.concatenate([self._held[: self._count], np.empty(max(wanted, len(self._held)))])
        self._held[self._count : wanted] = values
        self._count = wanted

    @property
    def view(self) -> Values:
        return self._held[: self._count]

    @property
    def last(self) -> float:
        """The newest value, 0 before the first."""
        return float(self._held[self._count - 1]) if self._count else 0.0


SUMS = ("accepted", "tested", "emitted", "sum_min", "sum_prod", "closed")


@dataclass(frozen=True, slots=True)
class Reading:
    """The figures of one round: each a value, None where undefined, and its n."""

    cumulative: float | None
    tested: int
    band: tuple[float, float] | None
    rolling: float | None
    rolling_tested: int
    sum_min: float | None
    sum_prod: float | None
    closed: int
    tokens_per_round: float
    mean_accepted_len: float
    rounds: int


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


class AcceptanceData:
    """Running sums of one run, extended by what is new; the work of a call follows the number of new rounds."""

    def __init__(self, window: int = 5) -> None:
        self.window = window
        self.taken = 0
        self.drafted_at: list[int] = []
        self._sums = {name: Growing() for name in SUMS}
        self._rolling = Growing()

    def take_in(self, run: RecordedRun) -> None:
        """Add the rounds that came since the last call."""
        if self.taken == len(run):
            return
        new = slice(self.taken, len(run))
        tested = run.column("tested")[new].astype(np.float64)
        forms = {name: run.column(name)[new].astype(np.float64) for name in ("sum_min", "sum_prod")}
        known = ~np.isnan(forms["sum_min"]) & ~np.isnan(forms["sum_prod"])
        parts = {
            "accepted": run.column("accepted")[new].astype(np.float64),
            "tested": tested,
            "emitted": run.column("emitted")[new].astype(np.float64),
            "sum_min": np.where(known, forms["sum_min"], 0.0),
            "sum_prod": np.where(known, forms["sum_prod"], 0.0),
            "closed": np.where(known, tested, 0.0),
        }
        for name, values in parts.items():
            held = self._sums[name]
            held.extend(held.last + np.cumsum(values))
        drafted = np.bincount(run.column("k")[new].astype(np.int64))
        # Drafts at position j (from 0): rounds with k > j.
        more = np.cumsum(drafted[::-1])[::-1][1:]
        self.drafted_at += [0] * (len(more) - len(self.drafted_at))
        for position, number in enumerate(more.tolist()):
            self.drafted_at[position] += number
        self._extend_rolling(self.taken, len(run))
        self.taken = len(run)

    def set_window(self, window: int) -> None:
        """Roll over so many rounds."""
        if window != self.window:
            self.window = window
            self._rolling = Growing()
            self._extend_rolling(0, self.taken)

    def _extend_rolling(self, low: int, high: int) -> None:
        self._rolling.extend(ratio(*self._in_window(np.arange(low, high))))

    def _in_window(self, index: Counts) -> tuple[Values, Values]:
        """Accepted and tested in the window that ends with each round."""
        before = index - self.window
        parts = []
        for name in ("accepted", "tested"):
            held = self._sums[name].view
            parts.append(held[index] - np.where(before >= 0, held[np.maximum(before, 0)], 0.0))
        return parts[0], parts[1]

    # By round

    def cumulative(self, index: Counts) -> Values:
        """Accepted / tested up to each round."""
        return ratio(self._sums["accepted"].view[index], self._sums["tested"].view[index])

    def band(self, index: Counts) -> tuple[Values, Values]:
        """95 % Wilson interval of `cumulative`."""
        return wilson_band(self._sums["accepted"].view[index], self._sums["tested"].view[index])

    def closed_form(self, name: str, index: Counts) -> Values:
        """Running average of `sum_min` or `sum_prod` over the tested positions that have it."""
        return ratio(self._sums[name].view[index], self._sums["closed"].view[index])

    @property
    def rolling(self) -> Values:
        """Accepted / tested over the last `window` rounds, for every round."""
        return self._rolling.view

    def reading(self, index: int) -> Reading:
        """Everything at one round."""
        at = np.array([index])
        low, high = self.band(at)
        sums = {name: float(self._sums[name].view[index]) for name in SUMS}
        rounds = index + 1
        return Reading(
            cumulative=_known(self.cumulative(at)[0]),
            tested=int(sums["tested"]),
            band=None if np.isnan(low[0]) else (float(low[0]), float(high[0])),
            rolling=_known(self.rolling[index]),
            rolling_tested=int(self._in_window(at)[1][0]),
            sum_min=_known(self.closed_form("sum_min", at)[0]),
            sum_prod=_known(self.closed_form("sum_prod", at)[0]),
            closed=int(sums["closed"]),
            tokens_per_round=sums["emitted"] / rounds,
            mean_accepted_len=sums["accepted"] / rounds,
            rounds=rounds,
        )


def thin_extremes(values: Values, low: int, starts: Counts) -> tuple[Values, Values]:
    """Two points a bucket, its least and its greatest value, so that thinning hides no peak.

    `values` of the rounds from `low` on; `starts`: first round of each bucket. Gives positions and values.
    """
    with np.errstate(invalid="ignore"):
        least = np.fmin.reduceat(values, starts - low)
        most = np.fmax.reduceat(values, starts - low)
    return np.repeat(starts.astype(np.float64), 2), np.column_stack([least, most]).ravel()
