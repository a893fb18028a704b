"""The filter line over the rounds: `outcome:rejected accepted<2 drift!=0 text:"the" sum_min<0.3`; no MLX.

Conditions stand side by side and all must hold; a minus before one turns it round. It reads the columns and the
tokens of a run, never the rounds themselves, so that a long run is filtered at once.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from engine.columns import OUTCOMES

if TYPE_CHECKING:
    from engine.recording import RecordedRun

Mask = npt.NDArray[np.bool_]
Condition = Callable[["RecordedRun", slice], Mask]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}

NUMBERS = {
    "round": "number of the round, from 0",
    "k": "tokens drafted",
    "tested": "drafts tested",
    "accepted": "drafts accepted",
    "emitted": "tokens emitted",
    "drift": "expected minus actual position of the draft cache",
    "debt": "tokens owed to the draft cache",
    "sum_min": "Σ min(p, q), mean of the tested positions",
    "sum_prod": "Σ p·q, mean of the tested positions",
    "seconds": "time of the round",
    "broken": "1 where an invariant of the caches is broken",
}
"""What can be compared with < <= = != >= >, and what it means."""

WORDS = {
    "outcome": f"one of {', '.join(OUTCOMES)}",
    "text": "what the round emitted contains this text",
    "token": "the round emitted this token id",
    "marked": "yes or no",
}
"""What is asked for with a colon."""

_CONDITION = re.compile(r'(?P<minus>-?)(?P<name>[a-z_]+)(?P<op><=|>=|!=|<|>|=|:)(?P<value>"(?:[^"\\]|\\.)*"|[^\s"]+)')


class FilterError(ValueError):
    """A part of the line that isn't understood: `start` and `end` say which, the text says what was expected."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.start, self.end = start, end


@dataclass(frozen=True)
class RoundFilter:
    """A parsed line. Without conditions every round matches."""

    line: str
    conditions: tuple[Condition, ...]

    def matches(self, run: RecordedRun, start: int = 0) -> npt.NDArray[np.int64]:
        """Numbers of the rounds from `start` on that match, in order."""
        where = slice(start, len(run))
        found = np.ones(max(len(run) - start, 0), bool)
        for condition in self.conditions:
            found &= condition(run, where)
        return np.flatnonzero(found) + start


def parse(line: str) -> RoundFilter:
    """The filter of a line. Raises FilterError."""
    conditions, at = [], 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        found = _CONDITION.match(line, at)
        if found is None:
            end = next((i for i in range(at, len(line)) if line[i].isspace()), len(line))
            raise FilterError(
                f"expected a condition such as accepted<2 or outcome:rejected, got {line[at:end]}", at, end
            )
        if found.end() < len(line) and not line[found.end()].isspace():
            raise FilterError("expected a space between conditions", found.end(), found.end() + 1)
        condition = _condition(found)
        conditions.append(_turned(condition) if found["minus"] else condition)
        at = found.end()
    return RoundFilter(line, tuple(conditions))


def _condition(found: re.Match[str]) -> Condition:
    name, op, value = found["name"], found["op"], _unquoted(found["value"])
    if name in NUMBERS:
        if op == ":":
            raise FilterError(f"{name} is a number: compare it, as in {name}=2", found.start("op"), found.end("op"))
        try:
            number = float(value)
        except ValueError:
            raise FilterError(f"expected a number, got {value}", found.start("value"), found.end("value")) from None
        return _number_condition(name, _OPERATORS[op], number)
    if name in WORDS:
        if op != ":":
            raise FilterError(f"{name} takes a colon, as in {name}:…", found.start("op"), found.end("op"))
        return _word_condition(name, value, found)
    known = ", ".join([*NUMBERS, *WORDS])
    raise FilterError(f"{name} is none of {known}", found.start("name"), found.end("name"))


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value


def _number_condition(name: str, compare: Callable[[Any, Any], Any], number: float) -> Condition:
    def holds(run: RecordedRun, where: slice) -> Mask:
        if name == "round":
            return np.asarray(compare(np.arange(where.start, where.stop), number))
        values = run.column(name)[where]
        if name in ("sum_min", "sum_prod"):
            tested = run.column("tested")[where]
            values = values / np.where(tested > 0, tested, 1)
            # NaN, where there are no closed forms, is different from every number but doesn't count as that.
            return np.asarray(compare(values, number)) & ~np.isnan(values) & (tested > 0)
        return np.asarray(compare(values, number))

    return holds


def _word_condition(name: str, value: str, found: re.Match[str]) -> Condition:
    start, end = found.span("value")
    if name == "outcome":
        if value not in OUTCOMES:
            raise FilterError(f"expected {WORDS['outcome']}, got {value}", start, end)
        wanted = OUTCOMES.index(value)
        return lambda run, where: run.column("outcome")[where] == wanted
    if name == "marked":
        if value not in ("yes", "no"):
            raise FilterError(f"expected yes or no, got {value}", start, end)
        return lambda run, where: (np.isin(np.arange(where.start, where.stop), list(run.marks))) == (value == "yes")
    if name == "token":
        if not value.isdecimal() or len(value) > 9:
            raise FilterError(f"expected a token id, got {value}", start, end)
        return lambda run, where: _with_token(run, where, int(value))
    return lambda run, where: _with_text(run, where, value)


def _turned(condition: Condition) -> Condition:
    return lambda run, where: ~condition(run, where)


def _with_token(run: RecordedRun, where: slice, token: int) -> Mask:
    """Which rounds emitted the token."""
    first, emitted = run.column("first_token")[where], run.column("emitted")[where]
    if not len(first):
        return np.zeros(0, bool)
    hits = np.asarray(run.tokens[int(first[0]) :]) == token
    before = np.concatenate([[0], np.cumsum(hits)])
    first = first - first[0]
    return np.asarray(before[first + emitted] > before[first])


def _with_text(run: RecordedRun, where: slice, text: str) -> Mask:
    """Which rounds' emitted text contains `text`, whatever tokens it is cut into."""
    # Half of a surrogate pair, such as a text box may give, is in no text.
    vocabulary, wanted = run.header.vocabulary, text.encode(errors="surrogatepass")
    firsts, counts = run.column("first_token")[where], run.column("emitted")[where]

    def piece(token: int) -> bytes:
        if 0 <= token < len(vocabulary.pieces) and token not in vocabulary.special:
            return vocabulary.pieces[token]
        return vocabulary.text_of(token).encode()

    if not firsts.size or not wanted:
        return np.ones(len(firsts), bool)
    tokens = run.tokens[int(firsts[0]) :]
    pieces = {token: piece(token) for token in set(tokens)}
    parts = [pieces[token] for token in tokens]
    text_ends = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    firsts = firsts - firsts[0]
    starts, ends = text_ends[firsts], text_ends[firsts + counts]
    found = np.zeros(len(firsts), bool)
    places = _places(b"".join(parts), wanted)
    rounds = np.searchsorted(starts, places, side="right") - 1
    found[rounds[places + len(wanted) <= ends[rounds]]] = True
    return found


def _places(text: bytes, wanted: bytes) -> npt.NDArray[np.int64]:
    """Where `wanted` begins in `text`."""
    values = np.frombuffer(text, np.uint8)
    places = np.flatnonzero(values[: max(len(values) - len(wanted) + 1, 0)] == wanted[0])
    for at in range(1, len(wanted)):
        places = places[values[places + at] == wanted[at]]
    return places
