"""Where a run pauses right behind a round: conditions to run to, and breakpoints; no MLX, from records alone."""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.breakpoint_kinds import KINDS, ROLLING, Seen, Value, drift_news, escaped, invariant_news
from engine.evidence import Meter, Meters, why_no_proposal_meter
from engine.rounds import Round, RunHeader


@dataclass(frozen=True)
class StopCondition:
    """`met(record, before)` says why to stop behind a round, or None to go on; `before`: the round before it, or None.

    `title`: what a run is let go on to, in words. The reason names the round.
    """

    id: str
    title: str
    met: Callable[[Round, Round | None], str | None]


STOP_CONDITIONS = {
    condition.id: condition
    for condition in (
        StopCondition("drift", "a round that changes the drift to something other than 0", drift_news),
        StopCondition("invariant", "a round that breaks an invariant", invariant_news),
    )
}
"""By id. Where a round breaks several invariants, the first in the order of cause and effect is named."""


@dataclass(frozen=True)
class Condition:
    """One kind with its value. Raises ValueError, in words for a person, for what is unknown or has no such value."""

    kind: str
    value: Value = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind} is none of {', '.join(KINDS)}")
        problem = _problem(KINDS[self.kind].value, self.value)
        if problem:
            raise ValueError(f"{KINDS[self.kind].name}: expected {problem}")

    @property
    def title(self) -> str:
        """`token 42 emitted`."""
        shown = f'"{escaped(self.value)}"' if isinstance(self.value, str) else str(self.value)
        return KINDS[self.kind].title.replace("{}", shown)


def _problem(sort: str, value: Value) -> str:
    """What was expected, "" if it came."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if sort == "":
        return "" if value is None else "no value"
    if sort == "text":
        return "" if isinstance(value, str) and value else "a text"
    if sort == "whole":
        return "" if number and isinstance(value, int) and value >= 0 else "a whole number from 0"
    assert sort == "share"
    fits = isinstance(value, int | float) and number and math.isfinite(value) and 0 <= value <= 1
    return "" if fits else "a number from 0 to 1"


@dataclass(frozen=True)
class Breakpoint:
    """Conditions that must all hold in one round; those of drafts, at one and the same tested draft."""

    conditions: tuple[Condition, ...]
    enabled: bool = True

    def __post_init__(self) -> None:
        if not self.conditions:
            raise ValueError("a breakpoint needs a condition")

    @property
    def title(self) -> str:
        """`recovered token and p(d) < 0.01`."""
        return " and ".join(condition.title for condition in self.conditions)

    @property
    def round(self) -> int | None:
        """The number of the one round that it can be met in, None if there may be others."""
        numbers = [c.value for c in self.conditions if c.kind == "round"]
        return numbers[0] if numbers and isinstance(numbers[0], int) else None

    def asks(self, kind: str) -> bool:
        """Whether a condition is of this kind."""
        return any(condition.kind == kind for condition in self.conditions)

    def met(self, seen: Seen) -> bool:
        """Whether to pause behind this round, if enabled."""
        of_draft = []
        for condition in self.conditions:
            kind = KINDS[condition.kind]
            if kind.of_draft is not None:
                of_draft.append((kind.of_draft, condition.value))
            elif kind.of_round is not None and not kind.of_round(seen, condition.value):
                return False
        tested = (draft for draft in seen.record.drafts if draft.fate != "ignored")
        return not of_draft or any(all(test(draft, value) for test, value in of_draft) for draft in tested)  # type: ignore[arg-type]

    def to_plain(self) -> dict[str, Any]:
        """JSON-ready; `from_plain` takes it back."""
        return {"conditions": [[c.kind, c.value] for c in self.conditions], "enabled": self.enabled}

    @staticmethod
    def from_plain(plain: Any) -> Breakpoint:
        """Raises ValueError for what is no breakpoint."""
        if not isinstance(plain, dict) or not isinstance(plain.get("conditions"), list):
            raise ValueError("expected a breakpoint with conditions")
        pairs = plain["conditions"]
        if not all(isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs):
            raise ValueError("expected a kind and a value for each condition")
        return Breakpoint(tuple(Condition(kind, value) for kind, value in pairs), plain.get("enabled") is not False)


@dataclass(frozen=True)
class Hit:
    """The breakpoints that a round met."""

    round: int
    breakpoints: tuple[Breakpoint, ...]

    @property
    def why(self) -> str:
        """Why the run pauses, for the status bar."""
        more = f", and {len(self.breakpoints) - 1} more" if len(self.breakpoints) > 1 else ""
        return f"breakpoint '{self.breakpoints[0].title}' hit in round {self.round}{more}"


class Checker:
    """Holds one run's rounds against breakpoints, in order, on the thread that runs it.

    It must see every round, whether or not there are breakpoints: meters and rolling acceptance add up.
    """

    def __init__(self, header: RunHeader) -> None:
        self._header = header
        self._settings = header.settings
        self._meters = Meters()
        # Coordinates that no meter has taken yet: evidence costs more than all else here, and is seldom asked for.
        self._u_ratio, self._u_p, self._u_proposal = array("f"), array("f"), array("f")
        self._tests: deque[bool] = deque(maxlen=ROLLING)
        self._rate: float | None = None
        self._before: Round | None = None

    def see(self, record: Round, breakpoints: Sequence[Breakpoint] = ()) -> Hit | None:
        """Take the next round; gives the enabled breakpoints that it meets, if any."""
        before, rate = self._before, self._rate
        self._before = record
        if record.changed:
            self._settings = self._settings.with_live(record.changed)
        self._tests.extend(draft.fate == "accepted" for draft in record.drafts if draft.fate != "ignored")
        self._rate = sum(self._tests) / ROLLING if len(self._tests) == ROLLING else None
        enabled = [point for point in breakpoints if point.enabled]
        quiet = self._quiet_meters() if any(point.asks("alarm") for point in enabled) else []
        self._take_coordinates(record)
        tripped = bool(quiet) and len(self._quiet_meters()) < len(quiet)
        if not enabled:
            return None
        seen = Seen(record, before, self._header, tripped, (self._rate, rate))
        met = tuple(point for point in enabled if point.met(seen))
        return Hit(record.index, met) if met else None

    def _take_coordinates(self, record: Round) -> None:
        found, settings = record.coordinates, self._settings
        if found is None:
            return
        emitted = len(record.emitted)
        self._u_ratio.extend(found.u_ratio[:emitted].tolist())
        self._u_p.extend(found.u_p[:emitted].tolist())
        asked = why_no_proposal_meter(record.rule, settings.reports_q, settings.one_hot_q) is None
        if asked and found.u_proposal is not None:
            self._u_proposal.extend(found.u_proposal.tolist())

    def _quiet_meters(self) -> list[Meter]:
        """The meters that haven't reached their alarm with the rounds so far."""
        for by_ratio, by_p in zip(self._u_ratio, self._u_p, strict=True):
            self._meters.losslessness.add(by_ratio, by_p)
        for u in self._u_proposal:
            self._meters.proposal.add(u)
        for waiting in (self._u_ratio, self._u_p, self._u_proposal):
            del waiting[:]
        return [meter for meter in (self._meters.losslessness, self._meters.proposal) if meter.alarm_at is None]
