"""The tree of a session's runs: which lane each has, where it branches off, and what it is called. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.format import plural, significant
from engine.forks import told_changes
from engine.recording import RecordedRun
from engine.rules import RULE_TABLE
from engine.settings import Settings

MOST_LANES = 300
"""Runs that get a lane: the newest, and the one shown."""

_SHORT = {"temperature": "T", "num_draft_tokens": "k", "max_tokens": "max", "top_k": "top-k", "top_p": "top-p"}
_SHORT |= {"min_p": "min-p", "main_rewind": "main rewind", "kill_switch": "kill switch"}


@dataclass(frozen=True, slots=True)
class Lane:
    """One run's lane. Lanes stand in the order in which they are drawn, a fork below what it forked from.

    `number`: the run's in its session, from 1. `start`: its first round that no other lane holds, where it branches
    off. `origin`: the lane it branches off, None for a run of its own or one whose origin isn't here. `depth`: how
    many lanes it stands to the right of. `crossed`: rounds at which forks of lanes above branch off to lanes below.
    `branches`: rounds at which forks of this lane do. `forked`: (number of the run it was made from, the round).
    """

    run: RecordedRun
    number: int
    start: int
    origin: int | None
    depth: int
    crossed: tuple[int, ...] = ()
    branches: tuple[int, ...] = ()
    forked: tuple[int | None, int] | None = None


def lanes(runs: Sequence[RecordedRun], shown: RecordedRun | None) -> tuple[Lane, ...]:
    """The lanes of a session's runs, oldest first, MOST_LANES of them at most.

    Forks of a lane stand from the latest round to the earliest, so that no line crosses a lane.
    """
    kept = list(range(max(len(runs) - MOST_LANES, 0), len(runs)))
    numbers = {id(run): at for at, run in enumerate(runs)}
    if shown is not None and (at := numbers.get(id(shown), len(runs))) < (kept[0] if kept else 0):
        kept[0] = at
    here = set(kept)
    places = {at: _branch(runs, numbers, here, at) for at in kept}
    children: dict[int | None, list[int]] = {}
    for at in kept:
        children.setdefault(places[at][0], []).append(at)
    for origin, forks in children.items():
        if origin is not None:
            forks.sort(key=lambda at: (-places[at][1], at))
    made: list[Lane] = []
    rows: dict[int, int] = {}
    # (run, depth): a stack, since forks of forks may go deeper than calls may.
    waiting = [(at, 0) for at in reversed(children.get(None, []))]
    open_forks: list[tuple[int, int]] = []  # (run, round) of every fork whose lane is still to come
    while waiting:
        at, depth = waiting.pop()
        open_forks = [entry for entry in open_forks if entry[0] != at]
        crossed = tuple(sorted({round_ for _, round_ in open_forks}))
        forks = children.get(at, [])
        origin, start = places[at]
        rows[at] = len(made)
        made.append(
            Lane(
                run=runs[at],
                number=at + 1,
                start=start,
                origin=None if origin is None else rows[origin],
                depth=depth,
                crossed=crossed,
                branches=tuple(sorted({places[fork][1] for fork in forks})),
                forked=_forked(runs, numbers, at),
            )
        )
        open_forks += [(fork, places[fork][1]) for fork in forks]
        waiting += [(fork, depth + 1) for fork in reversed(forks)]
    return tuple(made)


def _branch(runs: Sequence[RecordedRun], numbers: dict[int, int], here: set[int], at: int) -> tuple[int | None, int]:
    """(the run that a run's lane branches off, at which round).

    A fork before the round where its origin forked itself shares rounds with that one's origin: it branches off there.
    """
    parent = runs[at].parent
    if parent is None:
        return None, 0
    origin, start = parent
    seen = {at}
    while origin.parent is not None and start <= origin.parent[1] and numbers.get(id(origin)) not in seen:
        seen.add(numbers.get(id(origin), -1))
        origin = origin.parent[0]
    found = numbers.get(id(origin))
    # What comes later can't be an origin, whatever a file says.
    return (found if found is not None and found in here and found < at else None), start


def _forked(runs: Sequence[RecordedRun], numbers: dict[int, int], at: int) -> tuple[int | None, int] | None:
    parent = runs[at].parent
    if parent is None:
        return None
    found = numbers.get(id(parent[0]))
    return (None if found is None else found + 1), parent[1]


def lane_name(run: RecordedRun) -> str:
    """What sets a run apart: for a fork what was changed, `T 0.7 → 1.2`; else its rule and temperature."""
    if run.parent is not None:
        changed = told_changes(run.header.notices)
        return ", ".join(_short(part) for part in changed.split(", ")) if changed else "fork"
    settings = run.header.settings
    return f"{asked_rule(settings)}, T {settings.sampler.temperature:g}"


def asked_rule(settings: Settings) -> str:
    """The rule that a run's settings ask for, by its id."""
    if settings.sampler.is_greedy:
        return "greedy-argmax"
    if settings.kill_switch:
        return "sampler-match"
    if settings.rule in RULE_TABLE:
        return settings.rule
    return "stochastic" if settings.stochastic else "sampler-match"


def _short(change: str) -> str:
    name, space, rest = change.partition(" ")
    rest = {"False → True": "on", "True → False": "off"}.get(rest, rest)
    if name == "max_tokens":
        rest = " → ".join("no limit" if value == "-1" else value for value in rest.split(" → "))
    return f"{_SHORT.get(name, name)}{space}{rest}"


def lane_state(run: RecordedRun) -> str:
    """How far a run is: ended, and how, or not yet; or why it can't be shown."""
    if run.damage is not None:
        return run.damage
    return "no end recorded" if run.end is None else f"ended: {run.end.finish_reason}"


def lane_lines(lane: Lane) -> list[str]:
    """All there is to say of a lane, line by line, for its tooltip."""
    run, lines = lane.run, []
    if lane.forked is not None:
        number, at = lane.forked
        origin = "a run that isn't here" if number is None else f"run {number}"
        lines.append(f"forked from {origin} before round {at}: {told_changes(run.header.notices) or 'not recorded'}")
    settings = run.header.settings
    rule, temperature = asked_rule(settings), significant(settings.sampler.temperature, 3)
    lines.append(f"{rule}, T {temperature}, k {settings.num_draft_tokens}, seed {run.header.seed}")
    rate = run.statistics.acceptance_rate
    lines.append(
        f"{plural(len(run), 'round')}, {plural(len(run.tokens), 'token')}"
        + ("" if rate is None else f", {rate:.4f} of the tested drafts accepted")
    )
    if run.first_drift is not None:
        lines.append(f"drift from round {run.first_drift} on")
    return [*lines, lane_state(run)]
