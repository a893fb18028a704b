"""The recording of runs: the one source that every panel reads, live or replayed.

The counters and columns of a run are kept whole; its rounds are in memory, or in a session file with only the newest
in memory too. One thread appends whole rounds and reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.alternatives import Alternatives
from engine.columns import COLUMNS, Columns, Outline, outline_from, outline_of, row_of
from engine.evidence import AcceptIdentity, Meter, Meters, why_no_proposal_meter
from engine.file_marks import FileMarks
from engine.filed_rounds import FiledRounds, weight
from engine.forks import settings_before
from engine.invariants import InvariantLog
from engine.ledger import Ledger, lawful_ledger, ledger_after
from engine.mending import counts_agree, held_of, recounted, rounds_in_words, unreadable_round
from engine.rounds import ContentCheck, Drafting, Round, RunEnd, RunHeader
from engine.session_file import Batch, SessionFileError, StoredRun, Strip
from engine.session_reader import SessionReader
from engine.session_writer import SessionWriter
from engine.settings import Settings, SettingsError
from engine.statistics import Statistics

BATCH_ROUNDS = 256
BATCH_SECONDS = 0.5
BATCH_BYTES = 2**25
"""The file is at most so far behind: a batch is posted at whichever comes first."""


_MAX_LOOKED_UP = 1000  # changes of the settings, and of the drafter, that are looked up in a file


class RecordedRun:
    """One run: header, rounds, their columns, running statistics, and the end once it has come."""

    def __init__(self, header: RunHeader) -> None:
        self.header = header
        self.end: RunEnd | None = None
        self.statistics = Statistics()
        self.tokens: list[int] = []
        self.taken_over: list[tuple[int, Drafting]] = []
        """Where another drafter took over, and which."""
        self.changes: list[tuple[int, dict[str, Any]]] | None = []
        """The live settings that changed, by round; None: only the rounds themselves tell."""
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
        self._file_marks: tuple[FileMarks, int] | None = None

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
        if record.drafting is not None:
            self.taken_over.append((record.index, record.drafting))
        if record.changed and self.changes is not None:
            self.changes.append((record.index, dict(record.changed)))
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
        elif self._file_marks is not None:
            marks, run = self._file_marks
            marks.mark(run, number, note)

    def keep_in(self, writer: SessionWriter) -> None:
        """Write the run into a session file as it goes, with all that it holds in memory."""
        forked = None
        if self.parent is not None and (keeper := self.parent[0]._keeper) is not None and keeper.writer is writer:
            forked = keeper.run
        at = None if self.parent is None else self.parent[1]
        self._keeper = Keeper(writer, writer.begin(self.header, forked, at))
        rounds = list(self._rounds)
        self._rounds = FiledRounds(self._keeper.read, self._keeper.committed, 0, self.unreadable)
        for record in rounds:
            self._rounds.append(record)
        if rounds or self.end is not None or self.content_checks or self.marks:
            self._keeper.repeat(self)

    def repeat_in(self, writer: SessionWriter) -> list[int]:
        """Enter what a failure kept from the writer's file; returns the rounds that aren't in memory any more."""
        if self._keeper is None or self._keeper.writer is not writer:
            self.keep_in(writer)
            return []
        return self._keeper.repeat(self)

    def in_memory(self, number: int) -> Round | None:
        """A round that needs no file, or None."""
        return self._rounds.in_memory(number) if isinstance(self._rounds, FiledRounds) else self._rounds[number]

    def unreadable(self, number: int, error: SessionFileError) -> Round:
        """What stands in the place of a round that can't be read."""
        return unreadable_round(self.header, self._columns, self.tokens, number, str(error))

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
            "taken_over": [number for number, _ in self.taken_over],
            "changes": None if self.changes is None else [number for number, _ in self.changes],
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
        if self.taken_over and (drafter := self.taken_over[-1][1].drafter) != "none":
            try:
                settings = settings.with_live({"drafter": drafter})
            except SettingsError as error:
                return f"not applicable: this version doesn't know the {error}"
        return why_no_proposal_meter(rule, settings.reports_q, settings.one_hot_q)

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

    def settings_before(self, number: int) -> Settings:
        """The settings in force before a round.

        Reads all rounds before it where a file doesn't tell which of them changed any. Raises SessionFileError, or
        SettingsError for changes that can't be.
        """
        if self.changes is None:
            return settings_before(self.header.settings, (self[at] for at in range(number)))
        changed: dict[str, Any] = {}
        for at, change in self.changes:
            changed |= change if at < number else {}
        return self.header.settings.with_live(changed)

    def drafting_at(self, number: int) -> Drafting:
        """What drafted in a round."""
        before = [drafting for at, drafting in self.taken_over if at <= number]
        return before[-1] if before else self.header.drafting

    def outline(self, number: int) -> Outline:
        """What a table tells of a round, without reading it unless the columns are an earlier version's."""
        if self.has_column("last_source") and self.has_column("rejected_token"):
            return outline_from(self._columns, self.tokens, number)
        return outline_of(self[number])

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
        self._posted = self._bytes = 0
        self._meters_at = {0: (0, 0)}
        """Tokens that either meter had seen, by the number of rounds posted."""
        self._since = self._came = time.monotonic()
        self._reader: SessionReader | None = None

    def keep(self, run: RecordedRun, everything: bool = False) -> None:
        """Post the rounds that came since the last batch, once they are enough, large enough or old enough."""
        new = len(run) - self._posted
        if self.writer.failure is not None or not new:
            return
        self._bytes += weight(run[-1])
        now, came = time.monotonic(), self._came
        self._came = now
        # Where rounds are slow the next one may come late, and this one mustn't wait for it.
        late = now - self._since >= BATCH_SECONDS or now - came >= BATCH_SECONDS / 2
        if everything or late or new >= BATCH_ROUNDS or self._bytes >= BATCH_BYTES:
            self._post(run)

    def _post(self, run: RecordedRun) -> list[int]:
        """Post all that is new; returns the rounds that aren't in memory, of which the columns alone are posted."""
        start, numbers = self._posted, range(self._posted, len(run))
        found = {number: run.in_memory(number) for number in numbers}
        rounds = tuple(record for record in found.values() if record is not None)
        self.writer.post(Batch(self.run, rounds, run.strip(start, self._meters_at[start]), run.state(), self._bytes))
        self._posted, self._bytes, self._since = len(run), 0, time.monotonic()
        self._meters_at[len(run)] = (run.meters.losslessness.n, run.meters.proposal.n)
        return [number for number, record in found.items() if record is None]

    def repeat(self, run: RecordedRun) -> list[int]:
        """Enter anew what the file may lack, behind a failure; returns the rounds that aren't in memory any more."""
        self.close()
        self._posted = self.writer.committed(self.run)
        self.writer.restore(self.run, run.end, run.content_checks, run.marks)
        return self._post(run) if len(run) > self._posted else []

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
            self._reader = self.writer.reader()
        return self._reader.round(self.run, number)


def stored_run(reader: SessionReader, stored: StoredRun, patient: bool = False) -> RecordedRun:
    """A run of a session file, ready for panels; one that can't be read is empty, and `damage` says why.

    The reader must stay open, on this thread, for as long as rounds are read. A round that can't be read raises
    SessionFileError; `patient`: one that says so stands in its place, with the tokens that are known.
    """
    run = RecordedRun(stored.header)
    damage = list(stored.damage)
    with reader.snapshot():
        try:
            held = held_of(reader, stored.id, _rounds_told(stored))
            run._columns, run.tokens = held.columns, held.tokens
            damage += held.damage
            damage += _restore(run, stored.state, held.curves, partial(reader.round, stored.id))
            if held.damage or _rounds_told(stored) != len(held.columns):
                run.changes = None  # there are rounds of which nothing was told
        except (SessionFileError, ValueError, TypeError, OverflowError) as error:
            run = RecordedRun(stored.header)
            damage = [f"This run can't be shown: {error}"]
        for what, read in (("content_checks", reader.checks), ("marks", reader.marks)):
            try:
                setattr(run, what, read(stored.id))
            except SessionFileError as error:
                damage.append(f"Its {what.replace('_', ' ')} can't be read: {error}")
    if damage:
        run.damage = f"{'. '.join(damage)}."
    count = len(run._columns)

    def stand_in(number: int, error: SessionFileError) -> Round:
        run.damage = f"Round {number} can't be read: {error}"
        return run.unreadable(number, error)

    run._rounds = FiledRounds(
        lambda number: reader.round(stored.id, number), lambda: len(run), count, stand_in if patient else None
    )
    run.end = stored.end
    return run


def _rounds_told(stored: StoredRun) -> int | None:
    """How many rounds a run's counters speak of; None where they are damaged."""
    if stored.state is None:
        return None if stored.damage else 0
    statistics = stored.state.get("statistics")
    found = statistics.get("rounds") if isinstance(statistics, dict) else None
    return found if type(found) is int else None


def _restore(
    run: RecordedRun,
    state: dict[str, Any] | None,
    curves: tuple[bytes, bytes] | None,
    read: Callable[[int], Round],
) -> list[str]:
    """Give a run, whose columns it has, its counters and meters; returns what was damaged, which is left out."""
    if state is None and not len(run._columns):
        return []
    state = {} if state is None else state
    curves_of = {} if curves is None else dict(zip(("losslessness", "proposal"), curves, strict=True))
    damage = []

    def part(restore: Callable[[], None], instead: Callable[[], None], words: str) -> None:
        try:
            restore()
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, IndexError, SessionFileError):
            instead()
            damage.append(words)

    def counters() -> None:
        run.statistics.restore(state["statistics"])
        if not counts_agree(run.statistics, run._columns):
            raise ValueError("they aren't those of the rounds")

    def changes() -> None:
        numbers = state.get("changes")
        if numbers is not None and not isinstance(numbers, list):
            raise ValueError("no list of rounds")
        run.changes = None
        if numbers is not None and len(numbers) <= _MAX_LOOKED_UP:
            run.changes = [(number, dict(read(number).changed)) for number in numbers]

    def taken_over() -> None:
        numbers = state.get("taken_over", [])
        if not isinstance(numbers, list) or len(numbers) > _MAX_LOOKED_UP:
            raise ValueError("no list of rounds")
        found = ((number, read(number).drafting) for number in numbers)
        run.taken_over = [(number, drafting) for number, drafting in found if drafting is not None]

    def meter(name: str) -> Callable[[], None]:
        one: Meter = getattr(run.meters, name)
        return lambda: one.restore(state[name], np.frombuffer(curves_of[name], "<f4"))

    def anew(owner: Any, name: str, make: Callable[[], Any]) -> Callable[[], None]:
        return lambda: setattr(owner, name, make())

    counted = "its counters were counted anew from its rounds"
    part(counters, anew(run, "statistics", lambda: recounted(run._columns)), counted)
    orders = {"losslessness": 2, "proposal": 1}
    for name, number in orders.items():
        fresh = anew(run.meters, name, partial(Meter, number))
        part(meter(name), fresh, f"its {name} meter is left out")
    others: list[tuple[str, Callable[[], Any], str]] = [
        ("identity", AcceptIdentity, "its accept identity"),
        ("alternatives", Alternatives, "its expected tokens by rule"),
        ("invariants", InvariantLog, "its list of broken invariants"),
    ]
    for name, kind, words in others:
        part(partial(_restore_part, getattr(run, name), state, name), anew(run, name, kind), f"{words} is left out")
    part(taken_over, lambda: None, "the drafter is taken to be the first one throughout")
    part(changes, lambda: setattr(run, "changes", None), "where its settings changed is left to the rounds")
    drifting = np.flatnonzero(run._columns["drift"])
    run.first_drift = int(drifting[0]) if drifting.size else None
    return [f"What it had added up is damaged: {'; '.join(damage)}"] if damage else []


def _restore_part(part: Any, state: dict[str, Any], name: str) -> None:
    part.restore(state[name])


class OpenedSession:
    """A recorded session, opened to be looked at: its `runs`, oldest first, and where they forked from.

    `marks` writes marks and notes on its rounds into the file, unless `no_marks` says why they stay in memory.
    `damage`: runs that couldn't be read at all, in sentences. Raises SessionFileError if the file can't be read, or has
    no runs. It must be used on the thread that opened it.
    """

    def __init__(self, path: Path, no_marks: str = "") -> None:
        self.path = path
        self._reader = SessionReader(path)
        try:
            with self._reader.snapshot():
                self.stored = self._reader.runs()
                if not self.stored:
                    raise SessionFileError(f"{path} has no runs")
                self.runs = [stored_run(self._reader, stored, patient=True) for stored in self.stored]
            self.damage = tuple(self._reader.left_out)
            self.marks = FileMarks(path, no_marks)
            for stored, run in zip(self.stored, self.runs, strict=True):
                run._file_marks = self.marks, stored.id
            by_id = {stored.id: run for stored, run in zip(self.stored, self.runs, strict=True)}
            for stored, run in zip(self.stored, self.runs, strict=True):
                if stored.parent in by_id and stored.fork_round is not None:
                    run.parent = by_id[stored.parent], stored.fork_round
        except OSError as error:
            self._reader.close()
            raise SessionFileError(f"{path} can't be read: {error.strerror}") from error
        except BaseException:
            self._reader.close()
            raise

    def close(self) -> None:
        """Old rounds can't be read any more; marks that wait are written first."""
        self.marks.close()
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

    def repeat(self) -> str:
        """Enter into the writer's file all that a failure kept from it; says which rounds are lost, "" without any."""
        lost = []
        assert self.writer is not None
        for number, run in enumerate(self.runs, 1):
            if missing := run.repeat_in(self.writer):
                lost.append(f"{rounds_in_words(missing)} of run {number}")
        return "; ".join(lost)
