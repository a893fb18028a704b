"""What must hold of both caches after every round, each a named invariant with PASS or FAIL; no MLX, from records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.rewinds import draft_trim, main_trim
from engine.rounds import CachePositions, Round


@dataclass(frozen=True)
class Invariant:
    """`broken(record, debt)`, with the debt before the round, says how it is broken; None where it holds."""

    id: str
    title: str
    broken: Callable[[Round, int], str | None]


def _of_main(test: Callable[[CachePositions, Round], str | None]) -> Callable[[Round, int], str | None]:
    return lambda record, debt: test(record.main_cache, record)


def _of_draft(test: Callable[[CachePositions, Round], str | None]) -> Callable[[Round, int], str | None]:
    return lambda record, debt: None if record.draft_cache is None else test(record.draft_cache, record)


def _position(cache: CachePositions, record: Round) -> str | None:
    if set(cache.layers_end) == {cache.expected_end}:
        return None
    stands = ", ".join(map(str, cache.layers_end))
    return f"stands at {stands}, the law says {cache.expected_end}"


def _layers(cache: CachePositions, record: Round) -> str | None:
    if len(cache.layers_end) == 1 and len(cache.trim_done) <= 1:
        return None
    return f"layers stand at {', '.join(map(str, cache.layers_end))}"


def _done(cache: CachePositions, record: Round) -> str | None:
    if set(cache.trim_done) <= set(cache.trim_asked):
        return None
    done = ", ".join(map(str, cache.trim_done))
    return f"asked to take off {cache.trim_asked[0]}, took off {done}"


def _main_asked(record: Round, debt: int) -> str | None:
    return _asked(record.main_cache, main_trim(record.k, len(record.emitted)))


def _draft_asked(record: Round, debt: int) -> str | None:
    if record.draft_cache is None:
        return None
    return _asked(record.draft_cache, draft_trim(record.k, len(record.emitted)) if record.k else 0)


def _asked(cache: CachePositions, lawful: int) -> str | None:
    if set(cache.trim_asked) == {lawful}:
        return None
    return f"asked to take off {cache.trim_asked[0]}, the law says {lawful}"


def _content(cache: CachePositions, record: Round) -> str | None:
    return None if cache.first_wrong is None else f"position {cache.first_wrong} doesn't hold the committed token"


def _debt_fed(record: Round, debt: int) -> str | None:
    cache = record.draft_cache
    if cache is None or not record.k or cache.forwarded == record.k + debt:
        return None
    return f"{debt} owed, {cache.forwarded - record.k} fed"


def _support(record: Round, debt: int) -> str | None:
    wrong = next((e for e in record.emitted if e.probability == 0), None)
    return None if wrong is None else f"token {wrong.token} was emitted with probability 0"


INVARIANTS = (
    Invariant("main-trim-law", "main trim is the law's", _main_asked),
    Invariant("draft-trim-law", "draft trim is the law's", _draft_asked),
    Invariant("main-trim-done", "main trim was done", _of_main(_done)),
    Invariant("draft-trim-done", "draft trim was done", _of_draft(_done)),
    Invariant("debt-fed", "owed tokens were fed", _debt_fed),
    Invariant("main-position", "main stands where the law says", _of_main(_position)),
    Invariant("draft-position", "draft stands where the law says", _of_draft(_position)),
    Invariant("main-layers", "main layers agree", _of_main(_layers)),
    Invariant("draft-layers", "draft layers agree", _of_draft(_layers)),
    Invariant("main-content", "main holds the committed tokens", _of_main(_content)),
    Invariant("draft-content", "draft holds the committed tokens", _of_draft(_content)),
    Invariant("support", "no token of probability 0 was emitted", _support),
)
"""In the order of cause and effect: what a trim did comes before where the cache stands and what it holds."""


def broken_invariants(record: Round, debt: int) -> Iterator[tuple[Invariant, str]]:
    """(invariant, how) of each that the round breaks; `debt`: tokens owed to the draft cache before the round."""
    for invariant in INVARIANTS:
        if (how := invariant.broken(record, debt)) is not None:
            yield invariant, how


@dataclass(frozen=True)
class Failures:
    """When an invariant failed: the first round and how, and in how many rounds."""

    first_round: int
    how: str
    count: int


class InvariantLog:
    """The failures of a run, by invariant."""

    def __init__(self) -> None:
        self.failures: dict[str, Failures] = {}
        self.first_round: int | None = None
        self._debt = 0

    def state(self) -> dict[str, Any]:
        """JSON-ready."""
        failures = {name: [f.first_round, f.how, f.count] for name, f in self.failures.items()}
        return {"failures": failures, "first_round": self.first_round, "debt": self._debt}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a `state`."""
        first = state["first_round"]
        self.failures = {str(n): Failures(int(a), str(how), int(c)) for n, (a, how, c) in state["failures"].items()}
        self.first_round, self._debt = None if first is None else int(first), int(state["debt"])

    def add(self, record: Round) -> bool:
        """Take the next round; True if it breaks any."""
        broken = False
        for invariant, how in broken_invariants(record, self._debt):
            before = self.failures.get(invariant.id)
            self.failures[invariant.id] = (
                Failures(record.index, how, 1)
                if before is None
                else Failures(before.first_round, before.how, before.count + 1)
            )
            broken = True
        self._debt = record.debt
        if broken and self.first_round is None:
            self.first_round = record.index
        return broken
