"""The counters of two recorded runs side by side, each rate with its interval and that of the difference."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from engine.alternatives import FEW_ROUNDS
from engine.bootstrap import Values, interval, resampled_sums
from engine.recording import RecordedRun

Interval = tuple[float, float] | None

_RATES = {
    "per_position_acceptance": ("accepted", "tested"),
    "acceptance_rate": ("accepted", "k"),
    "mean_accepted_len": ("accepted", "rounds"),
    "tokens_per_round": ("emitted", "rounds"),
    "closed_form_sum_min": ("sum_min", "closed"),
    "closed_form_sum_prod": ("sum_prod", "closed"),
    "tokens_per_second": ("emitted", "seconds"),
}
"""Names and definitions of `engine.statistics.Statistics`, as sums over rounds."""


@dataclass(frozen=True)
class Counter:
    """One line of the table; None where undefined. Counts are exact, so only rates have intervals, of 95 %.

    `difference` is b - a.
    """

    name: str
    a: float | None
    b: float | None
    a_interval: Interval = None
    b_interval: Interval = None
    difference_interval: Interval = None

    @property
    def difference(self) -> float | None:
        return None if self.a is None or self.b is None else self.b - self.a


@dataclass(frozen=True)
class Verdict:
    """Whether the difference in per-position acceptance is more than noise; None: it can't be told."""

    more_than_noise: bool | None
    words: str


def compare_counters(a: RecordedRun, b: RecordedRun) -> tuple[tuple[Counter, ...], Verdict]:
    """The whole table, and the verdict on per-position acceptance; the same runs always give the same numbers."""
    both = (a, b)
    found = [_plain(n, getattr(a.statistics, name), getattr(b.statistics, name)) for n, name in _COUNTS.items()]
    sums = [_sums(run) for run in both]
    drawn = [resampled_sums(rows, stream) for stream, (_, rows) in enumerate(sums)]
    names = [column for column, _ in sums]
    depth = max(len(run.statistics.reached) for run in both)
    rates = _RATES | {
        f"acceptance_at_position_{at + 1}": (f"accepted_{at}", f"reached_{at}") for at in range(min(depth, MOST_DEPTH))
    }
    for rate, (over, under) in rates.items():
        exact = [_rate(rows.sum(axis=0)[None], n, over, under)[0] for n, (_, rows) in zip(names, sums, strict=True)]
        left, right = (_rate(rows, n, over, under) for n, rows in zip(names, drawn, strict=True))
        plain = _plain(rate, float(exact[0]), float(exact[1]))
        found.append(
            replace(
                plain,
                a_interval=interval(left),
                b_interval=interval(right),
                difference_interval=interval(right - left),
            )
        )
    one, other = _others(a), _others(b)
    found += [_plain(name, one[name], other[name]) for name in one]
    acceptance = next(counter for counter in found if counter.name == "per_position_acceptance")
    return tuple(found), _verdict(acceptance, a, b)


_COUNTS = {
    "rounds": "rounds",
    "proposed": "proposed",
    "positions_tested": "positions_tested",
    "accepted": "accepted",
    "emitted": "emitted",
    "degenerate_fallbacks": "degenerate",
}

MOST_DEPTH = 32
"""Acceptance is shown for so many draft positions at most."""


def _plain(name: str, a: float | None, b: float | None) -> Counter:
    a, b = (None if value is None or not math.isfinite(value) else value for value in (a, b))
    return Counter(name, a, b)


def _sums(run: RecordedRun) -> tuple[list[str], Values]:
    """Names of the columns, and what each round adds to them (rounds, columns)."""
    columns = {
        name: run.column(name).astype(np.float64)
        for name in ("k", "tested", "accepted", "emitted", "sum_min", "sum_prod", "seconds")
    }
    known = np.isfinite(columns["sum_min"]) & np.isfinite(columns["sum_prod"])
    columns["closed"] = np.where(known, columns["tested"], 0.0)
    for name in ("sum_min", "sum_prod"):
        columns[name] = np.where(known, columns[name], 0.0)
    columns["seconds"] = np.where(np.isfinite(columns["seconds"]), columns["seconds"], 0.0)
    columns["rounds"] = np.ones(len(run))
    # A round's fates are accepted..., rejected, ignored...: two counts say them all.
    for at in range(min(len(run.statistics.reached), MOST_DEPTH)):
        columns[f"reached_{at}"] = (columns["tested"] > at).astype(np.float64)
        columns[f"accepted_{at}"] = (columns["accepted"] > at).astype(np.float64)
    return list(columns), np.stack(list(columns.values()), axis=1)


def _rate(sums: Values, names: list[str], over: str, under: str) -> Values:
    """One quotient a row of sums (rows, columns); NaN where it is undefined."""
    if over not in names:
        return np.full(len(sums), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        values: Values = sums[:, names.index(over)] / sums[:, names.index(under)]
    return np.where(np.isfinite(values), values, np.nan)


def _others(run: RecordedRun) -> dict[str, float | None]:
    """What has no interval: drift, invariants, the accept identity, the meters."""
    emitted, drafted = run.meters.losslessness, run.meters.proposal
    return {
        "max_abs_drift": int(np.abs(run.column("drift")).max(initial=0)),
        "first_drift_round": run.first_drift,
        "broken_invariants": len(run.invariants.failures),
        "accept_identity_z": run.identity.z,
        "losslessness_log10_evidence": emitted.log10_evidence if emitted.n else None,
        "proposal_log10_evidence": drafted.log10_evidence if drafted.n else None,
    }


def _verdict(acceptance: Counter, a: RecordedRun, b: RecordedRun) -> Verdict:
    n = [run.statistics.positions_tested for run in (a, b)]
    if acceptance.a is None or acceptance.b is None or acceptance.difference_interval is None:
        return Verdict(None, "One of the runs tested no draft, so there is no acceptance to compare.")
    low, high = acceptance.difference_interval
    numbers = (
        f"Per-position acceptance is {acceptance.a:.4f} in A (n {n[0]}) and {acceptance.b:.4f} in B (n {n[1]}): "
        f"B - A = {acceptance.b - acceptance.a:+.4f}, 95 % interval [{low:+.4f}, {high:+.4f}] "
        "by a bootstrap over rounds"
    )
    if min(len(a), len(b)) < FEW_ROUNDS:
        return Verdict(None, f"{numbers}: with fewer than {FEW_ROUNDS} rounds on a side, too few to tell.")
    if low > 0 or high < 0:
        return Verdict(True, f"{numbers}: more than noise.")
    return Verdict(False, f"{numbers}: no more than noise.")
