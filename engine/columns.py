"""One row of numbers for each round: what charts, strips and filters read without the rounds themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.rounds import SOURCES, Draft, Emitted, Round

OUTCOMES = ("plain", "accepted-all", "rejected", "degenerate", "ended")
"""`plain`: k = 0. `ended`: the run's last round, cut short before a recovered or bonus token."""

MOST_DRAFTS = 4096
"""No more drafts of a round are outlined, whatever its columns say."""

COLUMNS: dict[str, type] = {
    "k": np.int64,
    "tested": np.int64,
    "accepted": np.int64,
    "emitted": np.int64,
    "first_token": np.int64,  # emitted tokens before the round
    "drift": np.int64,
    "debt": np.int64,
    "main_end": np.int64,
    "main_expected": np.int64,
    "draft_end": np.int64,
    "draft_expected": np.int64,
    "sum_min": np.float64,  # added over the tested positions of the round; NaN without closed forms
    "sum_prod": np.float64,
    "outcome": np.int64,  # index into OUTCOMES
    "seconds": np.float64,
    "emitted_meter": np.float64,  # log10 of the losslessness meter's evidence behind the round
    "drafted_meter": np.float64,  # of the proposal meter's
    "main_wrong": np.int64,  # first position that doesn't hold the committed token, -1 if none
    "draft_wrong": np.int64,
    "broken": np.int64,  # 1 where an invariant is broken
    "refed": np.int64,  # tokens forwarded anew to repair either cache
    "last_source": np.int64,  # index into SOURCES of the last emitted token, -1 without one; those before: accepted
    "rejected_token": np.int64,  # the draft that was rejected, behind the accepted ones; -1 without one
}

_BOUNDS = {
    "emitted": (0, 2**31 - 1),
    "last_source": (-1, len(SOURCES) - 1),
    "rejected_token": (-1, 2**31 - 1),
}
"""Smallest and largest value of columns that cells are made by."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What a table tells of a round. `drafts` have their fates alone, and their tokens as far as they are known."""

    index: int
    drafts: tuple[Draft, ...]
    emitted: tuple[Emitted, ...]
    drift: int
    seconds: float

    @property
    def k(self) -> int:
        return len(self.drafts)

    @property
    def tested(self) -> int:
        return sum(draft.fate != "ignored" for draft in self.drafts)

    @property
    def accepted(self) -> int:
        return sum(draft.fate == "accepted" for draft in self.drafts)

    @property
    def rejected_at(self) -> int | None:
        return next((at for at, draft in enumerate(self.drafts) if draft.fate == "rejected"), None)


NO_TOKEN = -1
"""Stands for a draft that was neither emitted nor rejected: columns don't tell it."""


def outline_of(record: Round) -> Outline:
    """The outline of a round that is at hand."""
    drafts = tuple(Draft(d.token if d.fate != "ignored" else NO_TOKEN, d.fate) for d in record.drafts)
    emitted = tuple(Emitted(e.token, e.source, e.position) for e in record.emitted)
    return Outline(record.index, drafts, emitted, record.drift, record.timings.total)


def outline_from(columns: Columns, tokens: Sequence[int], number: int) -> Outline:
    """The same from the columns of its run and the tokens that the run emitted; no round is read."""
    names = ("k", "accepted", "emitted", "first_token", "drift", "last_source", "rejected_token")
    k, accepted, count, first, drift, last, rejected = (int(columns[name][number]) for name in names)
    own = tokens[first : first + count]
    drafts = [Draft(token, "accepted") for token in own[:accepted]]
    drafts += [Draft(rejected, "rejected")] * (rejected >= 0)
    drafts += [Draft(NO_TOKEN, "ignored")] * (min(k, MOST_DRAFTS) - len(drafts))
    emitted = [Emitted(token, "accepted", position) for position, token in enumerate(own)]
    if emitted and last >= 0:
        emitted[-1] = Emitted(own[-1], SOURCES[last], len(own) - 1)
    return Outline(number, tuple(drafts), tuple(emitted), drift, float(columns["seconds"][number]))


def outcome_of(record: Round | Outline) -> str:
    """The one word that colours a round."""
    if any(e.source == "degenerate-fallback" for e in record.emitted):
        return "degenerate"
    if record.rejected_at is not None:
        return "rejected"
    if record.k == 0:
        return "plain"
    return "accepted-all" if record.emitted[-1:] and record.emitted[-1].source == "bonus" else "ended"


def _sum_tested(record: Round, name: str) -> float:
    values = [getattr(d, name) for d in record.drafts if d.fate != "ignored"]
    return float("nan") if not values or None in values else float(sum(values))


def _or_none(value: int | None) -> int:
    return -1 if value is None else value


def row_of(record: Round) -> dict[str, float]:
    """The columns that the round alone decides; the others are the run's."""
    draft, rejected_at = record.draft_cache, record.rejected_at
    return {
        "k": record.k,
        "tested": record.tested,
        "accepted": record.accepted,
        "emitted": len(record.emitted),
        "drift": record.drift,
        "debt": record.debt,
        "main_end": record.main_cache.end,
        "main_expected": record.main_cache.expected_end,
        "draft_end": draft.end if draft else 0,
        "draft_expected": draft.expected_end if draft else 0,
        "sum_min": _sum_tested(record, "sum_min"),
        "sum_prod": _sum_tested(record, "sum_prod"),
        "outcome": OUTCOMES.index(outcome_of(record)),
        "seconds": record.timings.total,
        "main_wrong": _or_none(record.main_cache.first_wrong),
        "draft_wrong": _or_none(draft.first_wrong if draft else None),
        "refed": record.main_cache.refed + (draft.refed if draft else 0),
        "last_source": SOURCES.index(record.emitted[-1].source) if record.emitted else -1,
        "rejected_token": -1 if rejected_at is None else record.drafts[rejected_at].token,
    }


class Columns:
    """The columns of a run: arrays that grow. `absent`: those that a file lacks, which are 0 throughout."""

    def __init__(self, count: int = 0) -> None:
        self._count = count
        self.absent: frozenset[str] = frozenset()
        self._arrays: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(max(count, 256), kind) for name, kind in COLUMNS.items()
        }

    def __len__(self) -> int:
        return self._count

    def append(self, row: dict[str, float]) -> None:
        """Add one row; every column must be in it."""
        for name in COLUMNS:
            if self._count == len(self._arrays[name]):
                self._arrays[name] = np.concatenate([self._arrays[name], np.zeros_like(self._arrays[name])])
            self._arrays[name][self._count] = row[name]
        self._count += 1

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A read-only view of one column."""
        view = self._arrays[name][: self._count]
        view.flags.writeable = False
        return view

    def to_bytes(self, start: int) -> bytes:
        """The rows from `start` on: 8 bytes a number, little-endian, column after column."""
        return b"".join(
            self._arrays[name][start : self._count].astype(np.dtype(kind).newbyteorder("<"), copy=False).tobytes()
            for name, kind in COLUMNS.items()
        )

    def replace(self, name: str, values: npt.NDArray[Any]) -> None:
        """Put other values into one column; one for each row."""
        self._arrays[name][: self._count] = values

    def fill(self, start: int, count: int, data: bytes, names: Sequence[str]) -> None:
        """Put the rows of `to_bytes` where they belong; `names`: the columns that were written, in their order.

        A column that wasn't stays 0, and counts as absent. Raises ValueError for data that doesn't fit, or columns of
        no known name.
        """
        if len(data) != 8 * count * len(names) or not 0 <= start <= start + count <= self._count:
            raise ValueError(f"{len(data)} bytes aren't the columns of {count} rounds")
        if unknown := set(names) - set(COLUMNS):
            raise ValueError(f"unknown columns: {', '.join(sorted(unknown))[:80]}")
        for place, name in enumerate(names):
            part = np.frombuffer(data, np.dtype(COLUMNS[name]).newbyteorder("<"), count, 8 * count * place)
            if count and name in _BOUNDS and not _BOUNDS[name][0] <= part.min() <= part.max() <= _BOUNDS[name][1]:
                raise ValueError(f"{name} of a round isn't between {_BOUNDS[name][0]} and {_BOUNDS[name][1]}")
            self._arrays[name][start : start + count] = part
        self.absent |= set(COLUMNS) - set(names)
