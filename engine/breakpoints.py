"""Named conditions under which a run pauses right behind a round, in one table; no MLX, from records alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.invariants import broken_invariants
from engine.rounds import Round


@dataclass(frozen=True)
class StopCondition:
    """`met(record, before)` says why to stop behind a round, or None to go on; `before`: the round before it, or None.

    `title`: what a run is let go on to, in words. The reason names the round.
    """

    id: str
    title: str
    met: Callable[[Round, Round | None], str | None]


def _drift(record: Round, before: Round | None) -> str | None:
    """A drift that merely stays is no news: the round that changed it is."""
    was = before.drift if before is not None else 0
    if record.drift in (0, was):
        return None
    return f"drift went from {was} to {record.drift} in round {record.index}"


def _invariant(record: Round, before: Round | None) -> str | None:
    debt = before.debt if before is not None else 0
    titles = [invariant.title for invariant, _ in broken_invariants(record, debt)]
    if not titles:
        return None
    more = f", and {len(titles) - 1} more" if len(titles) > 1 else ""
    return f"invariant '{titles[0]}' failed in round {record.index}{more}"


STOP_CONDITIONS = {
    condition.id: condition
    for condition in (
        StopCondition("drift", "a round that changes the drift to something other than 0", _drift),
        StopCondition("invariant", "a round that breaks an invariant", _invariant),
    )
}
"""By id. Where a round breaks several invariants, the first in the order of cause and effect is named."""
