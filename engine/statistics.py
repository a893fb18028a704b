"""Counters over rounds, the rates made from them, and the one-line summary."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.rounds import Round


def ratio(numerator: float, denominator: float) -> float | None:
    """numerator / denominator, or None where that is undefined."""
    return numerator / denominator if denominator else None


Z_95 = 1.959963984540054


def wilson_band(
    successes: npt.ArrayLike, trials: npt.ArrayLike, z: float = Z_95
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Low and high end of the Wilson score interval of rates, elementwise; NaN without trials. Source: Wilson 1927."""
    n = np.asarray(trials, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = np.asarray(successes, np.float64) / n
        shrink = 1 + z * z / n
        centre = (rate + z * z / (2 * n)) / shrink
        half = z * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / shrink
    low, high = np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
    return np.where(n > 0, low, np.nan), np.where(n > 0, high, np.nan)


def wilson_interval(successes: float, trials: float, z: float = Z_95) -> tuple[float, float] | None:
    """The Wilson score interval of one rate (95 % by default), or None without trials."""
    if not trials:
        return None
    low, high = wilson_band(successes, trials, z)
    return float(low), float(high)


@dataclass
class Statistics:
    """Running counters of one or more runs; see the properties for the rates, None where undefined."""

    rounds: int = 0
    proposed: int = 0
    positions_tested: int = 0
    accepted: int = 0
    emitted: int = 0
    degenerate: int = 0
    reached: list[int] = field(default_factory=list)
    accepted_at: list[int] = field(default_factory=list)
    _sum_min: float = 0.0
    _sum_prod: float = 0.0
    _closed_forms: int = 0

    def add(self, record: Round) -> None:
        """Count one more round."""
        self.rounds += 1
        self.proposed += record.k
        self.emitted += len(record.emitted)
        self.degenerate += sum(e.source == "degenerate-fallback" for e in record.emitted)
        while len(self.reached) < record.k:
            self.reached.append(0)
            self.accepted_at.append(0)
        for position, draft in enumerate(record.drafts):
            if draft.fate == "ignored":
                continue
            self.positions_tested += 1
            self.reached[position] += 1
            self.accepted += draft.fate == "accepted"
            self.accepted_at[position] += draft.fate == "accepted"
            if draft.sum_min is not None and draft.sum_prod is not None:
                self._sum_min += draft.sum_min
                self._sum_prod += draft.sum_prod
                self._closed_forms += 1

    def state(self) -> dict[str, Any]:
        """Every counter by name, JSON-ready."""
        return asdict(self)

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a `state`. Raises TypeError for unknown counters, ValueError for what is no number."""
        made = Statistics(**state)
        for name, value in asdict(made).items():
            numbers = value if isinstance(value, list) else [value]
            if not all(type(n) in (int, float) and n >= 0 for n in numbers):
                raise ValueError(f"{name} is {value!r}")
            setattr(self, name, value)

    @property
    def per_position_acceptance(self) -> float | None:
        """Accepted / tested: what the closed forms predict."""
        return ratio(self.accepted, self.positions_tested)

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted / proposed: the wrong figure for comparing rules, since a chain stops at its first rejection."""
        return ratio(self.accepted, self.proposed)

    @property
    def mean_accepted_len(self) -> float | None:
        """Accepted / rounds, without the recovered or bonus token."""
        return ratio(self.accepted, self.rounds)

    @property
    def tokens_per_round(self) -> float | None:
        """Emitted / rounds: the literature's tau, or block efficiency."""
        return ratio(self.emitted, self.rounds)

    @property
    def closed_forms(self) -> int:
        """Tested positions whose closed forms were computed."""
        return self._closed_forms

    @property
    def closed_form_sum_min(self) -> float | None:
        return ratio(self._sum_min, self._closed_forms)

    @property
    def closed_form_sum_prod(self) -> float | None:
        return ratio(self._sum_prod, self._closed_forms)

    def as_dict(self) -> dict[str, Any]:
        """Counters and rates by name, None where undefined."""
        names = (
            "rounds proposed positions_tested accepted emitted per_position_acceptance acceptance_rate "
            "mean_accepted_len tokens_per_round closed_form_sum_min closed_form_sum_prod"
        )
        return {name: getattr(self, name) for name in names.split()}


def summary_line(statistics: Statistics, rule: str, label: str, diagnostics: bool) -> str:
    """The line that ends every run: `[Speculative acceptance] rule=... (stochastic (modified rejection sampling))`."""
    names = ["rounds", "proposed", "positions_tested", "accepted"]
    rates = ["per_position_acceptance", "acceptance_rate", "mean_accepted_len"]
    if diagnostics:
        rates += ["closed_form_sum_min", "closed_form_sum_prod"]
    parts = [f"{name}={getattr(statistics, name)}" for name in names]
    parts += [f"{name}={_decimal(getattr(statistics, name))}" for name in rates]
    return f"[Speculative acceptance] rule={rule} {' '.join(parts)} ({rule} ({label}))"


def _decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
