"""What stands in the token stream: a cell for each token of the prompt and of the rounds, made from a run's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.recording import RecordedRun
from engine.rounds import SOURCES

PROMPT_ROUND = -1

KINDS = ("prompt", "accepted", "recovered", "bonus", "target-draw", "greedy", "degenerate-fallback", "rejected")
PROMPT, ACCEPTED, REJECTED = KINDS.index("prompt"), KINDS.index("accepted"), KINDS.index("rejected")
_KIND_OF_SOURCE = np.array([*(KINDS.index(source) for source in SOURCES), ACCEPTED])  # -1: nothing was emitted

_NEEDED = ("last_source", "rejected_token")
"""Columns without which the rounds themselves must be looked at."""

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """Cells in reading order, a column each. `kind`: index into KINDS; `glued`: a pair with the next one."""

    round: Ints
    position: Ints
    token: Ints
    kind: Ints
    glued: npt.NDArray[np.bool_]


def prompt_cells(tokens: Sequence[int]) -> Cells:
    """A cell for each token of the prompt."""
    count = len(tokens)
    rounds, kinds = np.full(count, PROMPT_ROUND), np.full(count, PROMPT)
    return Cells(rounds, np.arange(count), np.array(tokens, np.int64), kinds, np.zeros(count, np.bool_))


def cells_of(run: RecordedRun, first: int, behind: int, with_rejected: bool) -> Cells:
    """The cells of rounds `first` up to `behind`; a rejected draft stands right before what replaced it."""
    if not all(run.has_column(name) for name in _NEEDED):
        return _cells_of_records(run, first, behind, with_rejected)
    emitted = run.column("emitted")[first:behind]
    ends = np.cumsum(emitted)
    starts, count = ends - emitted, int(emitted.sum())
    before = int(run.column("first_token")[first]) if count else 0
    tokens = np.array(run.tokens[before : before + count], np.int64)
    rounds = np.repeat(np.arange(first, behind), emitted)
    positions = np.arange(count) - np.repeat(starts, emitted)
    kinds, glued = np.full(count, ACCEPTED), np.zeros(count, np.bool_)
    some = emitted > 0
    kinds[ends[some] - 1] = _KIND_OF_SOURCE[run.column("last_source")[first:behind]][some]
    if not with_rejected:
        return Cells(rounds, positions, tokens, kinds, glued)
    accepted, rejected = run.column("accepted")[first:behind], run.column("rejected_token")[first:behind]
    replaced = (rejected >= 0) & (accepted >= 0) & (accepted < emitted)
    places = (starts + accepted)[replaced]
    return Cells(
        np.insert(rounds, places, rounds[places]),
        np.insert(positions, places, positions[places]),
        np.insert(tokens, places, rejected[replaced]),
        np.insert(kinds, places, REJECTED),
        np.insert(glued, places, True),
    )


def _cells_of_records(run: RecordedRun, first: int, behind: int, with_rejected: bool) -> Cells:
    """The same from the rounds themselves: a file of an earlier version has too few columns."""
    rows: list[tuple[int, int, int, int, bool]] = []
    for index in range(first, behind):
        record = run[index]
        rejected_at = record.rejected_at if with_rejected else None
        for emitted in record.emitted:
            if emitted.position == rejected_at:
                rows.append((index, rejected_at, record.drafts[rejected_at].token, REJECTED, True))
            rows.append((index, emitted.position, emitted.token, KINDS.index(emitted.source), False))
    numbers, positions, tokens, kinds, glued = np.array(rows, np.int64).reshape(-1, 5).T
    return Cells(numbers, positions, tokens, kinds, glued.astype(np.bool_))
