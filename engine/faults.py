"""The faults that can be switched on by hand, in one table, and which instrument sees each of them; no MLX."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.evidence import Meter, why_no_losslessness_meter
from engine.invariants import broken_invariants
from engine.recording import RecordedRun
from engine.rewinds import REWIND_TABLE
from engine.rounds import Round
from engine.rules import RULE_TABLE
from engine.settings import MAIN_REWINDS, REWINDS, Settings

GROUPS = {
    "rule": "Rules that are not lossless",
    "rewind": "Rewind of the draft cache: the output stays the target's own, acceptance is what falls",
    "main_rewind": "Rewind of the main cache: not lossless, since p itself is corrupted",
}
"""By the live setting that switches a fault on; its cure is `auto` or `correct`."""

CURES = {"rule": "auto", "rewind": "correct", "main_rewind": "correct"}

INSTRUMENTS = ("invariant", "drift", "losslessness meter", "proposal meter")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """`setting` and `value`: what switches it on. `imitates`: one sentence on the mistake, `seen`: where it was met.

    `watchers`: the instruments that can see it; `why_blind` says why the others can't.
    """

    id: str
    setting: str
    value: str
    title: str
    imitates: str
    seen: str
    lossless: bool
    watchers: tuple[str, ...]

    @property
    def changes(self) -> dict[str, Any]:
        """The live settings that switch it on."""
        return {self.setting: self.value}

    @property
    def cure(self) -> dict[str, Any]:
        """The live settings that switch it off."""
        return {self.setting: CURES[self.setting]}

    def is_on(self, settings: Settings) -> bool:
        """Whether it is asked for."""
        return bool(getattr(settings, self.setting) == self.value)


_METERS = ("losslessness meter", "proposal meter")

_RULES = {
    "argmax-vs-argmax": Fault(
        id="argmax-vs-argmax",
        setting="rule",
        value="argmax-vs-argmax",
        title="compares argmax with argmax",
        imitates="A draft is kept iff it is the target's argmax, whatever the temperature: the text is a greedy one.",
        seen="Gemma 4's MTP verify path and DFlash's round loop, mlxcel #902 and #992",
        lossless=False,
        watchers=("losslessness meter",),
    ),
    "resample-from-p": Fault(
        id="resample-from-p",
        setting="rule",
        value="resample-from-p",
        title="draws from p after a rejection",
        imitates="A rejection draws from p instead of the residual, so what the drafter likes comes too often.",
        seen="the naive implementation; what the tests of mlxcel #992 are held against",
        lossless=False,
        watchers=("losslessness meter",),
    ),
    "missing-support-check": Fault(
        id="missing-support-check",
        setting="rule",
        value="missing-support-check",
        title="tests u·q ≤ p without p > 0",
        imitates="Where q(d) underflows to 0 the test reads 0 ≤ 0, and a token that p rules out is accepted.",
        seen="mlxcel #992, in half precision",
        lossless=False,
        watchers=("invariant",),
    ),
    "raw-q": Fault(
        id="raw-q",
        setting="rule",
        value="raw-q",
        title="tests with q before temperature and filters",
        imitates="The q in the test is the softmax of the drafter's logits, not what the draft was drawn from.",
        seen="a kind of transformers #32867, where q wasn't what was drawn from",
        lossless=False,
        watchers=_METERS,
    ),
}


def _rewind(setting: str, name: str) -> Fault:
    how, is_main = REWIND_TABLE[name], setting == "main_rewind"
    if is_main:
        imitates = {
            "stale-trim": "The trim is the round before's, so the target attends to tokens that were rejected or lost.",
            "no-trim": "Rejected tokens stay in the target's cache, as when a wrapped window ignores its trim.",
        }[name]
    else:
        imitates = how.imitates
    return Fault(
        id=f"main-{name}" if is_main else name,
        setting=setting,
        value=name,
        title=how.title,
        imitates=imitates,
        seen=how.seen,
        lossless=not is_main,
        watchers=("invariant",) if is_main else ("invariant", "drift"),
    )


FAULT_TABLE = {
    fault.id: fault
    for fault in (
        *(_RULES[name] for name, info in RULE_TABLE.items() if info.is_reference),
        *(_rewind("rewind", name) for name in REWINDS if name != "correct"),
        *(_rewind("main_rewind", name) for name in MAIN_REWINDS if name != "correct"),
    )
}
"""By id: rules, rewinds of the draft cache, and of the main cache (`main-...`)."""


@dataclass(frozen=True)
class Trip:
    """An instrument that tripped under a fault: in which round, after how many emitted tokens, and how, in words."""

    instrument: str
    round: int
    tokens: int
    how: str


@dataclass
class Watched:
    """One fault in a run: since which round it acts, until which (None: still), and what tripped since, first first.

    `before` and `since`: (accepted, tested) up to the fault, and under it. `late`: meters that had tripped before it.
    `tokens`: emitted under it.
    """

    since_round: int
    tokens: int
    until: int | None
    trips: list[Trip]
    before: tuple[int, int]
    since: tuple[int, int]
    late: tuple[str, ...]

    @property
    def first(self) -> Trip | None:
        """What tripped first."""
        return self.trips[0] if self.trips else None


class FaultWatch:
    """Which faults act in a run, round by round, and which instruments see them.

    `begin` takes a run; `follow` what it has new. Several runs one after another count as one, if they share their
    meters. Costs what is new.
    """

    def __init__(self) -> None:
        self.watched: dict[str, Watched] = {}
        self.rounds = 0
        self._accepted = self._tested = 0
        self._metered = self._drafted = 0  # tokens that the meters have seen
        self._run: RecordedRun | None = None
        self._taken = 0
        self._debt = 0
        self._settings: Settings | None = None
        self._rule = ""

    def begin(self, run: RecordedRun) -> None:
        """Go on with another run, from its first round."""
        self._run, self._taken, self._debt, self._settings = run, 0, 0, run.header.settings

    def follow(self, most: int | None = None) -> bool:
        """Take in what the run has new, `most` rounds of it; whether some are left."""
        run = self._run
        if run is None:
            return False
        until = len(run) if most is None else min(len(run), self._taken + most)
        while self._taken < until:
            self._add(run[self._taken], run)
            self._taken += 1
        return self._taken < len(run)

    def _add(self, record: Round, run: RecordedRun) -> None:
        assert self._settings is not None
        if record.changed:
            self._settings = self._settings.with_live(record.changed)
        if record.changed or record.rule != self._rule or record.index == 0:
            self._rule = record.rule
            self._switch(record, run, self._settings)
        if record.coordinates is not None:
            self._metered += len(record.emitted)
            found = record.coordinates.u_proposal
            if found is not None and run.why_no_proposal_meter(record.rule) is None:
                self._drafted += len(found)
        broken = {invariant.id: how for invariant, how in broken_invariants(record, self._debt)}
        self._debt = record.debt
        self._accepted += record.accepted
        self._tested += record.tested
        for name, watched in self.watched.items():
            if watched.until is None:
                watched.tokens += len(record.emitted)
                accepted, tested = watched.since
                watched.since = (accepted + record.accepted, tested + record.tested)
                watched.trips += self._new_trips(FAULT_TABLE[name], watched, record, run, broken)
        self.rounds += 1

    def _switch(self, record: Round, run: RecordedRun, settings: Settings) -> None:
        """Note which faults begin or end with this round."""
        for name, fault in FAULT_TABLE.items():
            # A rule by hand gives way to the kill switch and to a greedy target, so what ran is what counts.
            acts = record.rule == name if fault.setting == "rule" else fault.is_on(settings)
            watched = self.watched.get(name)
            if acts and (watched is None or watched.until is not None):
                late = tuple(which for which, meter, seen in self._meters(run) if _tripped(meter, seen))
                counts = (self._accepted, self._tested)
                self.watched[name] = Watched(self.rounds, 0, None, [], counts, (0, 0), late)
            elif not acts and watched is not None and watched.until is None:
                watched.until = self.rounds

    def _meters(self, run: RecordedRun) -> Iterator[tuple[str, Meter, int]]:
        """(name, meter, tokens that it has seen of the rounds taken in)."""
        yield "losslessness meter", run.meters.losslessness, self._metered
        yield "proposal meter", run.meters.proposal, self._drafted

    def _new_trips(
        self, fault: Fault, watched: Watched, record: Round, run: RecordedRun, broken: dict[str, str]
    ) -> Iterator[Trip]:
        have = {trip.instrument for trip in watched.trips}
        prefixes = {"rule": ("support",), "rewind": ("draft-", "debt-"), "main_rewind": ("main-",)}[fault.setting]
        name = next((name for name in broken if name.startswith(prefixes)), None)
        if "invariant" not in have and name is not None:
            yield Trip("invariant", self.rounds, watched.tokens, f"{name}: {broken[name]}")
        if "drift" not in have and fault.setting == "rewind" and record.drift:
            yield Trip("drift", self.rounds, watched.tokens, f"drift {record.drift}")
        for which, meter, seen in self._meters(run):
            if which not in have and which not in watched.late and _tripped(meter, seen):
                # The meter knows the very token; the proposal meter's are drafted ones, so the round counts.
                back = seen - (meter.alarm_at or seen) if which == "losslessness meter" else 0
                yield Trip(
                    which, self.rounds, watched.tokens - back, f"evidence reached 10⁴ at its token {meter.alarm_at}"
                )


def _tripped(meter: Meter, seen: int) -> bool:
    return meter.alarm_at is not None and meter.alarm_at <= seen


_RARE = "it acts only at u = 0, or where q(d) is rounded to 0, which a drafted token hardly ever meets"


def why_blind(fault: Fault, instrument: str) -> str | None:
    """Why an instrument can't see a fault, as the rest of a sentence; None if it can."""
    if instrument in fault.watchers:
        return None
    if instrument == "invariant" or (instrument == "drift" and fault.setting == "rule"):
        return "the caches are right"
    if instrument == "drift":
        return "drift is the draft cache's"
    if fault.setting == "rewind":
        return "every draft is tested with the q that it was drawn from, so the output stays the target's own"
    if instrument == "proposal meter":
        return "the drafts do come from q"
    if fault.setting == "main_rewind":
        return "it compares with the p that was computed, and that is what this corrupts"
    return _RARE


def why_unseen(fault: Fault, settings: Settings) -> str | None:
    """Why no instrument can be expected to see a fault under these settings; None if one can."""
    if fault.setting == "rule":
        if (reason := why_not_in_force(settings)) is not None:
            return reason
        if fault.id == "missing-support-check":
            return _RARE
        if not settings.diagnostics:
            return "Diagnostics is off, so no meter runs"
        if fault.id == "raw-q" and _draws_raw(settings):
            return "the drafter's temperature is 1 and nothing filters it, so its raw q is its q"
    elif settings.num_draft_tokens == 0:
        return "k is 0: nothing is drafted, so nothing is rewound"
    return None


def why_not_in_force(settings: Settings) -> str | None:
    """Why a rule asked for by hand wouldn't run."""
    if settings.sampler.is_greedy:
        return why_no_losslessness_meter("greedy-argmax")
    return "the kill switch beats every rule asked for by hand" if settings.kill_switch else None


def _draws_raw(settings: Settings) -> bool:
    drafting = settings.drafting
    return drafting.temperature == 1 and not drafting.top_k and not 0 < drafting.top_p < 1 and not drafting.min_p
