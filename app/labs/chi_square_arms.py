"""What the chi-square lab knows of its arms, apart from how it is painted: the work, the readings, the table."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.format import NOTHING, count, significant
from app.jobs import Report, Steps
from app.panels.title_controls import Table, exact
from engine.goodness import ALPHA, ARMS, ClosedForms, Counts, Experiment, Goodness, closed_forms, goodness_of_fit
from engine.rules import RULE_TABLE

FULL_SPEED, WATCH = "full speed", "watch"
_FULL_STEP = 1024
_FRAME = 0.04  # seconds between two steps of a run that is to be watched
_WATCHED_FRAMES = 150  # steps that such a run takes
TOKENS_A_ROUND = 2.5  # about, for the size of a step


@dataclass(frozen=True, slots=True)
class Counted:
    """What one arm has counted so far."""

    rule: str
    observed: Counts
    tested: int
    accepted: int
    outside: int


@dataclass(frozen=True, slots=True)
class Probed:
    """The forced trials of one arm: so many of `trials` tokens outside the support were accepted."""

    rule: str
    accepted: int
    trials: int


def arms_work(experiment: Experiment, pace: str) -> Steps:
    """A job that runs every arm of an experiment side by side; yields a Probed or a tuple of Counted."""

    def steps(room: Any, report: Report) -> Iterator[Probed | tuple[Counted, ...]]:
        from engine.chi_square import PROBES, run_side_by_side, support_probe

        for rule in ARMS:
            yield Probed(rule, support_probe(rule), PROBES)
        rounds = _FULL_STEP
        if pace == WATCH:
            rounds = max(round(experiment.samples / TOKENS_A_ROUND / _WATCHED_FRAMES), 1)
        for runs in run_side_by_side([dataclasses.replace(experiment, rule=rule) for rule in ARMS], rounds):
            began = time.monotonic()
            report(min(run.n for run in runs), experiment.samples)
            yield tuple(
                Counted(run.experiment.rule, run.observed, run.tested, run.accepted, run.outside) for run in runs
            )
            if pace == WATCH:
                time.sleep(max(_FRAME - (time.monotonic() - began), 0))

    return steps


@dataclass(frozen=True)
class ArmReading:
    """One arm as it is shown. `done`: the number of samples is reached, so the verdict holds."""

    rule: str
    lossless: bool
    label: str
    unit: str
    forms: ClosedForms
    found: Goodness
    acceptance: float | None
    tested: int
    probed: Probed | None
    done: bool

    @property
    def outside(self) -> int:
        """Emitted tokens outside the support."""
        return self.found.support_violations

    @property
    def fails(self) -> bool:
        """Whether it is rejected as things stand."""
        return self.found.rejected or (self.probed is not None and self.probed.accepted > 0)

    @property
    def verdict(self) -> str:
        """In words; before the end it is only a look."""
        if self.found.n == 0:
            return "not run"
        if self.probed is not None and self.probed.accepted:
            return "rejected: support"
        if self.outside:
            return "rejected: support"
        if not self.done:
            return "above the threshold" if self.fails else "running"
        if self.fails:
            return "rejected"
        if self.found.statistic is None:
            return "nothing to compare"
        return "passes" if self.lossless else "passes: not seen"

    @property
    def power(self) -> float:
        """The statistic that is expected at this n."""
        return self.forms.expected_statistic(self.found.n)


def read_arm(experiment: Experiment, counted: Counted | None, probed: Probed | None, rule: str) -> ArmReading:
    """One arm's reading."""
    mine = dataclasses.replace(experiment, rule=rule)
    forms, info = closed_forms(mine), RULE_TABLE[rule]
    observed = counted.observed if counted is not None else forms.p.astype(int) * 0
    found = goodness_of_fit(observed, forms.p, counted.outside if counted is not None else 0)
    tested = counted.tested if counted is not None else 0
    return ArmReading(
        rule=rule,
        lossless=info.distribution_preserving,
        label=info.label,
        unit="positions" if mine.counts_positions else "tokens",
        forms=forms,
        found=found,
        acceptance=counted.accepted / tested if counted is not None and tested and rule != "block" else None,
        tested=tested,
        probed=probed,
        done=found.n >= experiment.samples,
    )


COLUMNS = ("n", "χ²", "χ² expected", "p-value", "outside", "forced u")
ABOUT = (
    "Tokens counted: emitted ones, or tested positions for a rule that isn't lossless",
    "Pearson's statistic of what was counted, against p",
    "The statistic to be expected at this n if the rule does what its name says: the test's power",
    "How often a right rule gives a statistic as large as this one",
    "Emitted tokens that p gives probability 0: not one is tolerated",
    "Tokens outside the support that the rule accepted in forced trials: u = 0, and q below half precision",
)


def cells(reading: ArmReading) -> tuple[str, ...]:
    """The numbers of one arm, in the order of COLUMNS."""
    found, probed = reading.found, reading.probed
    started = found.n > 0
    return (
        count(found.n),
        _statistic(found.statistic),
        _statistic(reading.power) if started else NOTHING,
        NOTHING if found.p_value is None else _p_value(found.p_value),
        str(reading.outside) if started else NOTHING,
        NOTHING if probed is None else f"{probed.accepted} of {probed.trials}",
    )


def measures(reading: ArmReading) -> tuple[str, ...]:
    """What each of these numbers is measured by, in a word or two."""
    found = reading.found
    if not found.n:
        return ("",) * len(COLUMNS)
    limit = "" if found.threshold is None else f"limit {found.threshold:.2f}"
    return (reading.unit, limit, f"dof {found.dof}", f"limit {ALPHA:g}", "limit 0", "limit 0")


def _statistic(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}" if value < 9999.995 else count(round(value))


def _p_value(value: float) -> str:
    return "< 1e-300" if value < 1e-300 else significant(value, 3)


def arms_table(experiment: Experiment, readings: list[ArmReading], words: tuple[str, ...]) -> Table:
    """Everything, for the clipboard."""
    head = ["rule", "lossless", "verdict", "n", "unit", "statistic", "expected statistic", "dof", "threshold"]
    head += ["p-value", "outside the support", "forced trials accepted", "forced trials", "acceptance"]
    head += ["closed-form acceptance", "seed", "k", "temperature", "target top-k"]
    head += [f"{kind} {word}" for word in words for kind in ("observed", "expected")]
    lines = [head]
    for reading in readings:
        found, probed = reading.found, reading.probed
        line = [reading.rule, "yes" if reading.lossless else "no", reading.verdict, str(found.n), reading.unit]
        line += [exact(found.statistic), exact(reading.power), str(found.dof), exact(found.threshold)]
        line += [exact(found.p_value), str(reading.outside)]
        line += ["", ""] if probed is None else [str(probed.accepted), str(probed.trials)]
        line += [exact(reading.acceptance), exact(reading.forms.acceptance)]
        line += [str(experiment.seed), str(experiment.k), exact(experiment.temperature), str(experiment.target_top_k)]
        for i in range(len(words)):
            line += [str(int(found.observed[i])), exact(float(found.expected[i]))]
        lines.append(line)
    return lines
