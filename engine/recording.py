"""The recording of runs: the one source that every panel reads, live or replayed; held in memory for now.

One writer appends whole rounds; readers on the same thread see rounds by index and the columns as arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.alternatives import Alternatives
from engine.evidence import AcceptIdentity, Meters, why_no_proposal_meter
from engine.invariants import InvariantLog
from engine.ledger import Ledger, lawful_ledger, ledger_after
from engine.rounds import ContentCheck, Round, RunEnd, RunHeader
from engine.statistics import Statistics

OUTCOMES = ("plain", "accepted-all", "rejected", "degenerate", "ended")
"""`plain`: k = 0. `ended`: the run's last round, cut short before a recovered or bonus token."""

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
}


def outcome_of(record: Round) -> str:
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


class RecordedRun:
    """One run: header, rounds, their columns, running statistics, and the end once it has come."""

    def __init__(self, header: RunHeader) -> None:
        self.header = header
        self.end: RunEnd | None = None
        self.statistics = Statistics()
        self.tokens: list[int] = []
        self.first_drift: int | None = None
        self.meters = Meters()
        self.identity = AcceptIdentity()
        self.alternatives = Alternatives()
        self.invariants = InvariantLog()
        self.content_checks: list[ContentCheck] = []
        self._rounds: list[Round] = []
        self._columns: dict[str, npt.NDArray[Any]] = {name: np.empty(256, kind) for name, kind in COLUMNS.items()}

    def __len__(self) -> int:
        return len(self._rounds)

    def __iter__(self) -> Iterator[Round]:
        return iter(self._rounds)

    def __getitem__(self, index: int) -> Round:
        return self._rounds[index]

    def append(self, record: Round) -> None:
        """Add the next round; its index must be the number of rounds so far."""
        count = len(self._rounds)
        if record.index != count:
            raise ValueError(f"round {record.index} came where round {count} was expected")
        draft = record.draft_cache
        self._meter(record)
        broken = self.invariants.add(record)
        row = {
            "k": record.k,
            "tested": record.tested,
            "accepted": record.accepted,
            "emitted": len(record.emitted),
            "first_token": len(self.tokens),
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
            "emitted_meter": self.meters.losslessness.log10_evidence,
            "drafted_meter": self.meters.proposal.log10_evidence,
            "main_wrong": _or_none(record.main_cache.first_wrong),
            "draft_wrong": _or_none(draft.first_wrong if draft else None),
            "broken": broken,
        }
        for name, value in row.items():
            if count == len(self._columns[name]):
                self._columns[name] = np.concatenate([self._columns[name], np.empty_like(self._columns[name])])
            self._columns[name][count] = value
        self._rounds.append(record)
        self.tokens += [e.token for e in record.emitted]
        self.statistics.add(record)
        if record.drift != 0 and self.first_drift is None:
            self.first_drift = count

    def _meter(self, record: Round) -> None:
        self.identity.add(record, record.counterfactual)
        self.alternatives.add(record.counterfactual)
        if (found := record.coordinates) is not None:
            asked = self.why_no_proposal_meter(record.rule) is None
            self.meters.add(len(record.emitted), found.u_ratio, found.u_p, found.u_proposal if asked else None)

    def why_no_proposal_meter(self, rule: str) -> str | None:
        """Why the proposal meter says nothing about this run's drafter under a rule, or None where it applies."""
        settings = self.header.settings
        return why_no_proposal_meter(rule, settings.drafter != "no-q", settings.one_hot_q)

    def ledger(self, index: int, known: tuple[int, Ledger] | None = None) -> Ledger:
        """What both caches held behind round `index`; -1: behind the prompt.

        Costs a walk from the last round behind which both were right, or from `known`: a round with its ledger.
        """
        if known is not None and known[0] > index:
            known = None
        right = self._last_right(index)
        if right >= 0 and (known is None or known[0] < right):
            row = {name: int(self._columns[name][right]) for name in COLUMNS if COLUMNS[name] is np.int64}
            committed = self.header.prompt_tokens + tuple(self.tokens[: row["first_token"] + row["emitted"]])
            known = right, lawful_ledger(self.header, committed, row["main_end"], row["draft_end"])
        return ledger_after(self.header, self._rounds, index, known)

    def _last_right(self, index: int) -> int:
        """The last round up to `index` behind which both caches held what they must; -1 without one."""
        column = {name: self._columns[name][: index + 1] for name in COLUMNS}
        right = (column["main_wrong"] < 0) & (column["draft_wrong"] < 0) & (column["drift"] == 0)
        found = np.flatnonzero(right & (column["main_end"] == column["main_expected"]))
        return int(found[-1]) if found.size else -1

    def column(self, name: str) -> npt.NDArray[Any]:
        """A read-only view of one column over all rounds so far; see COLUMNS."""
        view = self._columns[name][: len(self._rounds)]
        view.flags.writeable = False
        return view

    def locate(self, token_index: int) -> tuple[int, int]:
        """(round index, index within the round's emitted tokens) of an emitted token."""
        if not 0 <= token_index < len(self.tokens):
            raise IndexError(f"token {token_index} of {len(self.tokens)}")
        firsts = self.column("first_token")
        at = int(np.searchsorted(firsts, token_index, side="right")) - 1
        return at, token_index - int(firsts[at])


class Recording:
    """All runs of one sitting, oldest first. The seam where a session file will take memory's place."""

    def __init__(self) -> None:
        self.runs: list[RecordedRun] = []

    def begin(self, header: RunHeader) -> RecordedRun:
        """Start a new run; it becomes the last of `runs`."""
        run = RecordedRun(header)
        self.runs.append(run)
        return run
