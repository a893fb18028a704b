"""The recording of runs: the one source that every panel reads, live or replayed.

The counters and columns of a run are kept whole; its rounds are in memory, or in a session file with only the newest
in memory too. One thread appends whole rounds and reads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.alternatives import Alternatives
from engine.columns import COLUMNS, OUTCOMES, Columns, row_of
from engine.evidence import AcceptIdentity, Meter, Meters, why_no_proposal_meter
from engine.filed_rounds import FiledRounds
from engine.invariants import InvariantLog
from engine.ledger import Ledger, lawful_ledger, ledger_after
from engine.rounds import CachePositions, ContentCheck, Emitted, Round, RunEnd, RunHeader, Timings
from engine.session_file import Batch, SessionFileError, SessionReader, SessionWriter, StoredRun, Strip
from engine.statistics import Statistics

BATCH_ROUNDS = 256
BATCH_SECONDS = 0.5
"""The file is at most so far behind: a batch is posted at whichever comes first."""


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
        self.marks: dict[int, str] = {}
        self.parent: tuple[RecordedRun, int] | None = None
        """The run that this one forked from, and before which round; its rounds up to there are this run's too."""
        self.damage: str | None = None
        """Why the run ends before its time: what came behind couldn't be read."""
        self._rounds: list[Round] | FiledRounds = []
        self._columns = Columns()
        self._keeper: Keeper | None = None

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
        self._meter(record)
        row = row_of(record) | {
            "first_token": len(self.tokens),
            "emitted_meter": self.meters.losslessness.log10_evidence,
            "drafted_meter": self.meters.proposal.log10_evidence,
            "broken": self.invariants.add(record),
        }
        self._columns.append(row)
        self._rounds.append(record)
        self.tokens += [e.token for e in record.emitted]
        self.statistics.add(record)
        if record.drift != 0 and self.first_drift is None:
            self.first_drift = count
        if self._keeper is not None:
            self._keeper.keep(self)

    def finish(self, end: RunEnd) -> None:
        """Take the end of the run; a run that goes on ends again."""
        self.end = end
        if self._keeper is not None:
            self._keeper.keep(self, everything=True)
            self._keeper.writer.finish(self._keeper.run, end)

    def add_check(self, found: ContentCheck) -> None:
        """Take a check of the caches' contents."""
        self.content_checks.append(found)
        if self._keeper is not None:
            self._keeper.writer.check(self._keeper.run, found)

    def mark(self, number: int, note: str | None) -> None:
        """Mark a round with a note, which may be empty; None takes the mark away."""
        if note is None:
            self.marks.pop(number, None)
        else:
            self.marks[number] = note
        if self._keeper is not None:
            self._keeper.writer.mark(self._keeper.run, number, note)

    def keep_in(self, writer: SessionWriter) -> None:
        """Write the run into a session file as it goes; to be called before its first round."""
        forked = None
        if self.parent is not None and (keeper := self.parent[0]._keeper) is not None and keeper.writer is writer:
            forked = keeper.run
        at = None if self.parent is None else self.parent[1]
        self._keeper = Keeper(writer, writer.begin(self.header, forked, at))
        self._rounds = FiledRounds(self._keeper.read, self._keeper.committed)

    def flush(self) -> None:
        """Post all that the file lacks: for a pause, or when nobody knows what comes."""
        if self._keeper is not None:
            self._keeper.keep(self, everything=True)

    def close(self) -> None:
        """Let go of the file; rounds that are in it alone can't be read any more."""
        if self._keeper is not None:
            self._keeper.close()

    def state(self) -> dict[str, Any]:
        """What the meters and counters have added up, JSON-ready."""
        return {
            "statistics": self.statistics.state(),
            "first_drift": self.first_drift,
            "losslessness": self.meters.losslessness.state(),
            "proposal": self.meters.proposal.state(),
            "identity": self.identity.state(),
            "alternatives": self.alternatives.state(),
            "invariants": self.invariants.state(),
        }

    def strip(self, start: int, meters: tuple[int, int]) -> Strip:
        """The rounds from `start` on as a strip; `meters`: tokens that either meter had seen before."""
        first = int(self._columns["first_token"][start])
        curves = (self.meters.losslessness.curve(meters[0]), self.meters.proposal.curve(meters[1]))
        tokens = np.asarray(self.tokens[first:], "<i4").tobytes()
        columns = self._columns.to_bytes(start)
        return Strip(start, len(self) - start, columns, tokens, *(c.astype("<f4").tobytes() for c in curves))

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
        return self._columns[name]

    def has_column(self, name: str) -> bool:
        """Whether the column is known: a file of an earlier version may lack it, which makes it 0 throughout."""
        return name not in self._columns.absent

    def locate(self, token_index: int) -> tuple[int, int]:
        """(round index, index within the round's emitted tokens) of an emitted token."""
        if not 0 <= token_index < len(self.tokens):
            raise IndexError(f"token {token_index} of {len(self.tokens)}")
        firsts = self.column("first_token")
        at = int(np.searchsorted(firsts, token_index, side="right")) - 1
        return at, token_index - int(firsts[at])


class Keeper:
    """Hands a run's rounds to the writer in batches, and gets old ones back from the file."""

    def __init__(self, writer: SessionWriter, run: int) -> None:
        self.writer, self.run = writer, run
        self._posted = 0
        self._meters = (0, 0)
        self._since = time.monotonic()
        self._reader: SessionReader | None = None

    def keep(self, run: RecordedRun, everything: bool = False) -> None:
        """Post the rounds that came since the last batch, once they are enough or old enough."""
        new = len(run) - self._posted
        late = time.monotonic() - self._since >= BATCH_SECONDS
        if self.writer.failure is not None or not new or not (everything or late or new >= BATCH_ROUNDS):
            return
        rounds = tuple(run[number] for number in range(self._posted, len(run)))
        self.writer.post(Batch(self.run, rounds, run.strip(self._posted, self._meters), run.state()))
        self._posted, self._since = len(run), time.monotonic()
        self._meters = (run.meters.losslessness.n, run.meters.proposal.n)

    def committed(self) -> int:
        return self.writer.committed(self.run)

    def close(self) -> None:
        """Old rounds can't be read any more."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def read(self, number: int) -> Round:
        """An old round. Raises SessionFileError."""
        if self._reader is None or self._reader.path != self.writer.path:  # the file may have moved
            self.close()
            self._reader = SessionReader(self.writer.path)
        return self._reader.round(self.run, number)


def stored_run(reader: SessionReader, stored: StoredRun, patient: bool = False) -> RecordedRun:
    """A run of a session file, ready for panels; one that can't be read is empty, and `damage` says why.

    The reader must stay open, on this thread, for as long as rounds are read. A round that can't be read raises
    SessionFileError; `patient`: one that says so stands in its place, with the tokens that are known.
    """
    run = RecordedRun(stored.header)
    try:
        strips = list(reader.strips(stored.id))
        _restore(run, strips, stored, reader.columns)
        run.content_checks, run.marks = reader.checks(stored.id), reader.marks(stored.id)
    except (SessionFileError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        run = RecordedRun(stored.header)
        run.damage = f"This run can't be shown: {error}"
    count = len(run._columns)

    def read(number: int) -> Round:
        try:
            return reader.round(stored.id, number)
        except SessionFileError as error:
            if not patient:
                raise
            run.damage = f"Round {number} can't be read: {error}"
            return _unreadable(run, number, str(error))

    run._rounds = FiledRounds(read, lambda: count, count)
    run.end = stored.end
    return run


def _unreadable(run: RecordedRun, number: int, why: str) -> Round:
    """What the columns know of a round whose record is damaged."""
    row = {name: int(run.column(name)[number]) for name, kind in COLUMNS.items() if kind is np.int64}
    first, emitted = row["first_token"], row["emitted"]
    tokens = run.tokens[first : first + emitted]

    def cache(end: int, expected: int) -> CachePositions:
        return CachePositions(end, 0, (0,), (0,), end, expected, (end,))

    return Round(
        index=number,
        context_length=len(run.header.prompt_tokens) + first,
        rule="sampler-match",
        rule_label="not known",
        rule_reason=f"this round can't be read: {why}",
        distribution_preserving=False,
        drafts=(),
        emitted=tuple(Emitted(token, "target-draw", position) for position, token in enumerate(tokens)),
        main_cache=cache(row["main_end"], row["main_expected"]),
        draft_cache=None if run.header.draft is None else cache(row["draft_end"], row["draft_expected"]),
        debt=row["debt"],
        drift=row["drift"],
        timings=Timings(0.0, 0.0, 0.0, 0.0),
    )


def _restore(run: RecordedRun, strips: list[Strip], stored: StoredRun, names: list[str]) -> None:
    """Fill a run with its strips and the state behind them. Raises ValueError and the like for what doesn't fit."""
    count = 0
    for strip in strips:
        if strip.first != count or strip.count <= 0 or len(strip.columns) != 8 * strip.count * len(names):
            raise ValueError(f"round {count} is missing")
        count += strip.count
    run._columns = Columns(count)
    for strip in strips:
        run._columns.fill(strip.first, strip.count, strip.columns, names)
    run.tokens = np.frombuffer(b"".join(strip.tokens for strip in strips), "<i4").tolist()
    emitted, firsts = run._columns["emitted"], run._columns["first_token"]
    if len(run.tokens) != int(emitted.sum()) or not np.array_equal(firsts, np.cumsum(emitted) - emitted):
        raise ValueError("the tokens aren't the rounds' tokens")
    if not np.isin(run._columns["outcome"], range(len(OUTCOMES))).all():
        raise ValueError("a round has an unknown outcome")
    if (state := stored.state) is None:
        if count:
            raise ValueError("its counters are missing")
        return
    run.statistics.restore(state["statistics"])
    run.first_drift = None if state["first_drift"] is None else int(state["first_drift"])
    _restore_meter(run.meters.losslessness, state["losslessness"], [s.emitted_curve for s in strips])
    _restore_meter(run.meters.proposal, state["proposal"], [s.drafted_curve for s in strips])
    run.identity.restore(state["identity"])
    run.alternatives.restore(state["alternatives"])
    run.invariants.restore(state["invariants"])
    if run.statistics.rounds != count or run.statistics.emitted != len(run.tokens):
        raise ValueError("its counters aren't those of its rounds")


def _restore_meter(meter: Meter, state: dict[str, Any], curves: list[bytes]) -> None:
    meter.restore(state, np.frombuffer(b"".join(curves), "<f4"))


class OpenedSession:
    """A recorded session, opened to be looked at: its `runs`, oldest first, and where they forked from.

    Raises SessionFileError if it can't be read, or has no runs. It must be used on the thread that opened it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = SessionReader(path)
        try:
            with self._reader.snapshot():
                self.stored = self._reader.runs()
                if not self.stored:
                    raise SessionFileError(f"{path} has no runs")
                self.runs = [stored_run(self._reader, stored, patient=True) for stored in self.stored]
            by_id = {stored.id: run for stored, run in zip(self.stored, self.runs, strict=True)}
            for stored, run in zip(self.stored, self.runs, strict=True):
                if stored.parent in by_id and stored.fork_round is not None:
                    run.parent = by_id[stored.parent], stored.fork_round
        except BaseException:
            self._reader.close()
            raise

    def close(self) -> None:
        """Old rounds can't be read any more."""
        self._reader.close()


class Recording:
    """All runs of one sitting, oldest first, in memory or, once `writer` is set, in a session file."""

    def __init__(self) -> None:
        self.runs: list[RecordedRun] = []
        self.writer: SessionWriter | None = None

    def begin(self, header: RunHeader, parent: tuple[RecordedRun, int] | None = None) -> RecordedRun:
        """Start a new run; it becomes the last of `runs`. `parent`: what it forks from, and before which round."""
        run = RecordedRun(header)
        run.parent = parent
        if self.writer is not None and self.writer.failure is None:
            run.keep_in(self.writer)
        self.runs.append(run)
        return run
