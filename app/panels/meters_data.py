"""What the Meters panel says, apart from how it is painted: a reading of a run's meters, in numbers and words."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from app.format import NOTHING, count, significant
from app.panels.title_controls import Table, exact
from engine.evidence import ALARM, BINS, Meter, why_no_losslessness_meter
from engine.recording import RecordedRun
from engine.rules import RULE_TABLE

ALARM_LOG = math.log10(ALARM)


@dataclass(frozen=True, slots=True)
class MeterReading:
    """One meter so far. `orders` name the histograms `counts`; `reason`: why it says nothing, "" where it does.

    `log10`: of the evidence E; `log10_by_order`: of each order's own. `blind`: a fault is on that it can't see.
    """

    name: str
    noun: str
    orders: tuple[str, ...]
    n: int
    counts: tuple[tuple[int, ...], ...]
    log10: float
    log10_by_order: tuple[float, ...]
    alarm_at: int | None
    reason: str
    blind: bool = False

    @property
    def verdict(self) -> str:
        """`▲ alarm at token 34`, or that there is none."""
        if self.alarm_at is not None:
            return f"▲ alarm at {self.noun} token {count(self.alarm_at)}"
        return self.reason or ("blind: main cache fault" if self.blind else "no alarm")


@dataclass(frozen=True, slots=True)
class IdentityReading:
    """Accepted minus predicted; `z` None where it is undefined. `unit`: what `n` counts. `formula` with its numbers."""

    z: float | None
    n: int
    unit: str
    formula: str

    @property
    def text(self) -> str:
        """`z 0.4213 · n 345 tests · not valid under continuous watching`."""
        z = NOTHING if self.z is None else f"{self.z:+.2f}"
        return f"z {z} · n {count(self.n)} {self.unit} · not valid under continuous watching"


@dataclass(frozen=True, slots=True)
class MetersReading:
    """All instruments of a run. `missing`: emitted tokens that no meter saw, since Diagnostics was off."""

    losslessness: MeterReading
    proposal: MeterReading
    identity: IdentityReading
    missing: int

    @property
    def meters(self) -> tuple[MeterReading, MeterReading]:
        return self.losslessness, self.proposal


def evidence(log10: float) -> str:
    """E by its logarithm, which may be too large for a number: `3.2e-9`, `0.8312`, `1.4e512`."""
    if -3 <= log10 < 4:
        return significant(10**log10, 3)
    exponent = math.floor(log10)
    mantissa = f"{10 ** (log10 - exponent):.1f}"
    return f"1.0e{exponent + 1}" if mantissa == "10.0" else f"{mantissa}e{exponent}"


def read_meters(run: RecordedRun) -> MetersReading | None:
    """The meters of a run; None before its first round, and where Diagnostics was off in all of them."""
    if not len(run):
        return None
    rule = run[-1].rule
    emitted = _read("Losslessness", "emitted", ("p/q", "p"), run.meters.losslessness, why_no_losslessness_meter(rule))
    # Only a fault of the main cache makes a right rule's round not lossless.
    blind = not run[-1].distribution_preserving and not RULE_TABLE[rule].is_reference
    emitted = dataclasses.replace(emitted, blind=blind)
    drafted = _read("Proposal", "drafted", ("q",), run.meters.proposal, _why_no_proposals(run, rule))
    greedy = why_no_losslessness_meter(rule) is not None
    if not emitted.n and not greedy:
        return None
    missing = 0 if greedy else len(run.tokens) - emitted.n
    return MetersReading(emitted, drafted, _identity(run, rule), missing)


def _why_no_proposals(run: RecordedRun, rule: str) -> str | None:
    if rule == "greedy-argmax" and run.why_no_proposal_meter(rule) is None:
        return "not applicable: under a greedy target no draws are looked at"
    if run.drafting_at(len(run)).drafter == "none":
        return "not applicable: there is no drafter"
    found = run.why_no_proposal_meter(rule)
    if found is None and not run.meters.proposal.n:
        return "not applicable: nothing was drafted"
    return found


def _read(name: str, noun: str, orders: tuple[str, ...], meter: Meter, reason: str | None) -> MeterReading:
    return MeterReading(
        name=name,
        noun=noun,
        orders=orders,
        n=meter.n,
        counts=tuple(tuple(counts) for counts in meter.counts),
        log10=meter.log10_evidence,
        log10_by_order=meter.log10_by_order,
        alarm_at=meter.alarm_at,
        reason="" if meter.n else reason or "",
    )


_FORMS = {"sum_prod": "Σ p·q", "sum_min": "Σ min(p, q)", "q_argmax_p": "q(argmax p)", "block": "Σ P_i"}


def _identity(run: RecordedRun, rule: str) -> IdentityReading:
    identity, form = run.identity, RULE_TABLE[rule].closed_form
    unit = "rounds" if form == "block" else "tests"
    if form is None:
        return IdentityReading(identity.z, identity.n, unit, f"no closed form is kept for {rule}")
    spread = "Σ (accepted − Σ P_i)²" if form == "block" else "Σ s(1 − s)"
    formula = (
        f"z = Σ (accepted − s) / √({spread}), s = {_FORMS[form]}: "
        f"{significant(identity.difference)} / √{significant(identity.variance)}"
    )
    return IdentityReading(identity.z, identity.n, unit, formula)


def thin(curve: npt.NDArray[np.float32], columns: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """(token numbers from 1, values) of a curve, no more than two a column: each column's least and largest."""
    n = len(curve)
    if n <= 2 * columns:
        return np.arange(1, n + 1), curve
    starts = np.unique(np.linspace(0, n, columns, endpoint=False).astype(np.int64))
    ends = np.append(starts[1:], n)
    low, high = np.minimum.reduceat(curve, starts), np.maximum.reduceat(curve, starts)
    # The last column ends where the evidence stands now.
    values = np.append(np.stack([low, high], axis=1).reshape(-1), curve[-1])
    return np.append(np.repeat((starts + ends + 1) // 2, 2), n), values


def meters_table(run: RecordedRun | None, reading: MetersReading | None) -> Table:
    """All numbers: a line for each order with its bins, then the accept identity."""
    head = ["instrument", "order", "n", "log10 evidence", "alarm at token", *(f"bin {b + 1}" for b in range(BINS))]
    lines = [[*head, "note"]]
    if run is None or reading is None:
        return lines
    for meter in reading.meters:
        alarm = "" if meter.alarm_at is None else str(meter.alarm_at)
        if meter.reason:
            lines.append([meter.name.lower(), "", str(meter.n), "", "", *[""] * BINS, meter.reason])
            continue
        for order, counts, log10 in zip(meter.orders, meter.counts, meter.log10_by_order, strict=True):
            bins = [str(number) for number in counts]
            lines.append([meter.name.lower(), f"by {order}", str(meter.n), exact(log10), "", *bins, ""])
        lines.append(
            [meter.name.lower(), "mean of its orders", str(meter.n), exact(meter.log10), alarm, *[""] * BINS, ""]
        )
    identity = reading.identity
    lines.append(["accept identity z", "", str(identity.n), exact(identity.z), "", *[""] * BINS, identity.formula])
    return lines
