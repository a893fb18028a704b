"""What the fault lab says of each fault, and the work of comparing it with its cure; no widgets."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from app.format import count, plural, rate
from app.jobs import Report, Steps
from app.panels.meters_data import evidence
from engine.evidence import ALARM, Meters
from engine.faults import INSTRUMENTS, Fault, Watched, why_blind, why_not_in_force, why_unseen
from engine.rounds import Round, RunEnd, RunHeader
from engine.settings import LIVE_FIELDS, Settings
from engine.statistics import Statistics, wilson_interval

WITH, WITHOUT = "with", "without"
MOST_TOKENS = 400
"""Tokens of a comparison where the run itself has no limit."""

OFF, QUIET, BLIND, TRIPPED = "off", "quiet", "blind", "tripped"


@dataclass(frozen=True, slots=True)
class Said:
    """What stands below a fault: a word that colours it, one line, and one in small."""

    kind: str
    line: str
    more: str = ""


def watchers_line(fault: Fault) -> str:
    """Which instruments can see it."""
    return f"seen by {', '.join(fault.watchers)}"


def blind_lines(fault: Fault) -> list[str]:
    """Which can't, and why."""
    return [f"blind: {name}; {reason}" for name in INSTRUMENTS if (reason := why_blind(fault, name)) is not None]


def said_of(
    fault: Fault, wanted: Settings, running: bool, watched: Watched | None, meters: Meters | None = None
) -> Said:
    """What holds of a fault: `wanted` are the settings as they stand, `watched` what a run has shown of it.

    `meters`: the run's, for what they have gathered before they trip.
    """
    on = fault.is_on(wanted)
    if watched is None:
        if not on:
            return Said(OFF, "")
        if (reason := why_unseen(fault, wanted)) is not None:
            return Said(BLIND, f"blind: {reason}")
        return Said(QUIET, "on: acts from the next round" if running else "on: acts in the next run")
    acts = watched.until is None
    span = (
        f"since round {watched.since_round}"
        if acts
        else f"in rounds {watched.since_round} to {(watched.until or 1) - 1}"
    )
    before = f"{_rate(watched.before)} before, " if watched.before[1] else ""
    rates = f"accepted / tested {before}{_rate(watched.since)} under it"
    if watched.trips:
        first, *rest = watched.trips
        after = f"after {plural(first.tokens, 'token')}, in round {first.round}"
        then = "".join(f"; then {trip.instrument} after {trip.tokens}" for trip in rest)
        return Said(TRIPPED, f"▲ {first.instrument} {after}{then}", f"{first.how} · {rates}")
    if acts and (reason := why_unseen(fault, wanted)) is not None:
        return Said(BLIND, f"blind: {reason}", f"{span}, {plural(watched.tokens, 'token')} · {rates}")
    late = f" ({', '.join(watched.late)} had tripped before)" if watched.late else ""
    if acts and meters is not None and "losslessness meter" in fault.watchers:
        most = max(meters.losslessness.log10_evidence, meters.proposal.log10_evidence)
        rates = f"evidence {evidence(most)} of {count(round(ALARM))} · {rates}"
    return Said(QUIET, f"acting {span}, {plural(watched.tokens, 'token')}: nothing has tripped{late}", rates)


def _rate(counts: tuple[int, int]) -> str:
    accepted, tested = counts
    return rate(accepted / tested if tested else None, tested)


def why_no_comparison(fault: Fault | None, settings: Settings) -> str | None:
    """Why a fault can't be compared with its cure, as a sentence."""
    if fault is None:
        return "Switch a fault on first."
    if fault.setting == "rule" and (reason := why_not_in_force(settings)) is not None:
        return f"{fault.id} wouldn't run: {reason}."
    if settings.num_draft_tokens == 0:
        return "k is 0: nothing is drafted."
    return None


def arm_settings(base: Settings, live: Settings, fault: Fault) -> dict[str, Settings]:
    """Settings of both runs: those of `base` with the live fields of `live`, with the fault and with its cure."""
    kept = {name: getattr(live, name) for name in LIVE_FIELDS}
    tokens = base.max_tokens if base.max_tokens != -1 else MOST_TOKENS
    common = dataclasses.replace(base, max_tokens=tokens, **kept)
    return {WITH: common.with_live(fault.changes), WITHOUT: common.with_live(fault.cure)}


def comparison_work(arms: dict[str, Settings], prompt: str | list[int]) -> Steps:
    """A job that plays both arms, one after the other; yields (arm, header, round or end)."""
    total = sum(settings.max_tokens for settings in arms.values())

    def steps(room: Any, report: Report) -> Iterator[tuple[str, RunHeader | Round | RunEnd]]:
        emitted = 0
        for name, settings in arms.items():
            generator = room.generator(settings)
            yield name, generator.start(prompt)
            for record in generator.rounds():
                emitted += len(record.emitted)
                report(emitted, total)
                yield name, record
            yield name, generator.end

    return steps


def figures(statistics: Statistics) -> tuple[str, str, str]:
    """Acceptance with its n, its 95 % interval, and tokens a round."""
    band = wilson_interval(statistics.accepted, statistics.positions_tested)
    tau = statistics.tokens_per_round
    return (
        rate(statistics.per_position_acceptance, statistics.positions_tested),
        "-" if band is None else f"{band[0]:.4f} – {band[1]:.4f}",
        "-" if tau is None else f"{tau:.3f} (n {count(statistics.rounds)})",
    )
