"""What can be had of a recorded run whose file is damaged: its columns, its tokens and its counters.

What one part of the file lacks is taken from another, as far as it is there: columns from the rounds, counters from the
columns. Nothing is guessed, and every damage is told in a sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from engine.columns import COLUMNS, OUTCOMES, Columns, row_of
from engine.invariants import broken_invariants
from engine.rounds import CachePositions, Emitted, Round, RunHeader, Timings
from engine.session_file import SessionFileError, Strip
from engine.session_reader import SessionReader
from engine.statistics import Statistics

MOST_MENDED = 10_000
"""Rounds whose columns are made anew from their records; a run that needs more is shown up to there."""

_BATCH = 256

_DEGENERATE = OUTCOMES.index("degenerate")
_NO_COLUMN = -1
_UNKNOWN = {name: float("nan") if kind is np.float64 else 0 for name, kind in COLUMNS.items()} | dict.fromkeys(
    ("main_wrong", "draft_wrong", "last_source", "rejected_token"), _NO_COLUMN
)
"""The row of a round of which nothing is known."""


@dataclass
class Held:
    """The columns and tokens of a run. `curves`: of both meters, as raw bytes; None where they don't fit together."""

    columns: Columns
    tokens: list[int]
    curves: tuple[bytes, bytes] | None
    damage: list[str] = field(default_factory=list)


@dataclass
class _Piece:
    """Rounds of which a strip, or the rows made from records, say what there is."""

    first: int
    count: int
    columns: bytes
    names: Sequence[str]
    tokens: bytes


def held_of(reader: SessionReader, run: int, rounds: int | None) -> Held:
    """Read a run's strips, and the rounds themselves where strips are damaged.

    `rounds`: how many its counters speak of, None where they are damaged, too.
    """
    strips, damage = _good_strips(reader, run)
    known = sum(strip.count for strip in strips)
    whole = not damage and known == rounds and all(a.first + a.count == b.first for a, b in pairwise(strips))
    whole = whole and (not strips or strips[0].first == 0)
    pieces = [_Piece(s.first, s.count, s.columns, reader.columns, s.tokens) for s in strips]
    if not whole:
        pieces, more = _filled(reader, run, pieces)
        damage += more
    count = sum(piece.count for piece in pieces)
    columns, tokens = Columns(count), b"".join(piece.tokens for piece in pieces)
    for piece in pieces:
        columns.fill(piece.first, piece.count, piece.columns, piece.names)
    firsts = np.cumsum(columns["emitted"]) - columns["emitted"]
    if not np.array_equal(columns["first_token"], firsts):
        columns.replace("first_token", firsts)
        if not damage:
            damage.append("The places of its tokens are damaged, and were counted anew")
    curves = None
    if len(pieces) == len(strips) and not damage:
        curves = b"".join(s.emitted_curve for s in strips), b"".join(s.drafted_curve for s in strips)
    return Held(columns, np.frombuffer(tokens, "<i4").tolist(), curves, damage)


def _good_strips(reader: SessionReader, run: int) -> tuple[list[Strip], list[str]]:
    """Strips that can be believed, in order and without overlap, and what is wrong with the others."""
    found: list[Strip] = []
    damage = []
    end = 0
    try:
        for strip in reader.strips(run):
            if strip.first >= end and _is_good(strip, reader.columns):
                found.append(strip)
                end = strip.first + strip.count
            else:
                damage.append(f"The columns from round {strip.first} on are damaged")
    except SessionFileError as error:
        damage.append(f"The columns from round {end} on can't be read: {error}")
    return found, damage[:3]


def _is_good(strip: Strip, names: Sequence[str]) -> bool:
    if strip.count <= 0 or len(strip.columns) != 8 * strip.count * len(names):
        return False
    columns = Columns(strip.count)
    try:
        columns.fill(0, strip.count, strip.columns, names)
    except ValueError:
        return False
    emitted, outcomes = columns["emitted"], columns["outcome"]
    return bool(
        emitted.min() >= 0
        and len(strip.tokens) == 4 * int(emitted.sum())
        and np.isin(outcomes, range(len(OUTCOMES))).all()
    )


def _filled(reader: SessionReader, run: int, pieces: list[_Piece]) -> tuple[list[_Piece], list[str]]:
    """The pieces with the gaps between and behind them filled from the rounds' own records, as far as that goes."""
    found: list[_Piece] = []
    damage: list[str] = []
    end, mended = 0, 0
    for piece in [*pieces, None]:
        stop = _behind(reader, run, end) if piece is None else piece.first
        if stop > end:
            room = min(stop, end + MOST_MENDED - mended)
            made, unknown = _made_anew(reader, run, end, room)
            mended += made.count
            found.append(made)
            damage += unknown
            if room < stop:
                damage.append(f"Its rounds from {room} on aren't shown: too many columns are damaged")
                return found, damage
        if piece is not None:
            found.append(piece)
            end = piece.first + piece.count
    return found, damage


def _behind(reader: SessionReader, run: int, start: int) -> int:
    """The number behind the last round from `start` on, where no strip is; none behind a gap of a whole batch."""
    last = start - 1
    try:
        for number in reader.round_numbers(run, start, MOST_MENDED + 1):
            if number - last > _BATCH:
                break
            last = number
    except SessionFileError:
        pass  # what could be read of them counts
    return last + 1


def _made_anew(reader: SessionReader, run: int, start: int, stop: int) -> tuple[_Piece, list[str]]:
    """Rows for the rounds [start, stop), made from their records; those that can't be read either are left blank."""
    columns, tokens, unknown, debt = Columns(), [], [], 0
    for number in range(start, stop):
        row: dict[str, float] = dict(_UNKNOWN)
        try:
            record = reader.round(run, number)
        except SessionFileError:
            unknown.append(number)
        else:
            row |= row_of(record)
            row["broken"] = any(True for _ in broken_invariants(record, debt))
            tokens += [e.token for e in record.emitted]
            debt = record.debt
        columns.append(row)
    piece = _Piece(start, stop - start, columns.to_bytes(0), tuple(COLUMNS), np.asarray(tokens, "<i4").tobytes())
    said = [f"The columns of rounds {start} to {stop - 1} were made anew from the rounds"]
    if unknown:
        said.append(f"Nothing can be read of {rounds_in_words(unknown)}")
    return piece, said


def rounds_in_words(numbers: Iterable[int]) -> str:
    """`round 3`, `rounds 3 to 7, 9`; the first few spans of many."""
    spans = list(_spans(sorted(numbers)))
    shown = ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in spans[:8])
    more = f" and {len(spans) - 8} more spans" if len(spans) > 8 else ""
    one = len(spans) == 1 and spans[0][0] == spans[0][1]
    return f"round{'' if one else 's'} {shown}{more}"


def _spans(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if first is None or last is None or number != last + 1:
            if first is not None and last is not None:
                yield first, last
            first = number
        last = number
    if first is not None and last is not None:
        yield first, last


def recounted(columns: Columns) -> Statistics:
    """The counters that the columns add up to: all but the closed forms exactly as they were counted."""
    k, tested, accepted = (columns[name] for name in ("k", "tested", "accepted"))
    has_forms = ~np.isnan(columns["sum_min"]) & ~np.isnan(columns["sum_prod"])

    def by_position(counts: npt.NDArray[np.int64]) -> list[int]:
        """How many rounds got to each position: tested and accepted drafts are the first ones of a round."""
        most = int(min(k.max(initial=0), 4096))
        return [int(np.count_nonzero(counts > position)) for position in range(most)]

    return Statistics(
        rounds=len(columns),
        proposed=int(k.sum()),
        positions_tested=int(tested.sum()),
        accepted=int(accepted.sum()),
        emitted=int(columns["emitted"].sum()),
        degenerate=int(np.count_nonzero(columns["outcome"] == _DEGENERATE)),
        reached=by_position(tested),
        accepted_at=by_position(accepted),
        _sum_min=float(columns["sum_min"][has_forms].sum()),
        _sum_prod=float(columns["sum_prod"][has_forms].sum()),
        _closed_forms=int(tested[has_forms].sum()),
    )


def counts_agree(statistics: Statistics, columns: Columns) -> bool:
    """Whether counters are those of these rounds."""
    anew = recounted(columns)
    names = ("rounds", "proposed", "positions_tested", "accepted", "emitted", "degenerate", "reached", "accepted_at")
    return all(getattr(statistics, name) == getattr(anew, name) for name in names)


def unreadable_round(header: RunHeader, columns: Columns, tokens: Sequence[int], number: int, why: str) -> Round:
    """What the columns know of a round whose record is damaged."""
    row = {name: int(columns[name][number]) for name, kind in COLUMNS.items() if kind is np.int64}
    first, emitted = row["first_token"], row["emitted"]

    def cache(end: int, expected: int) -> CachePositions:
        return CachePositions(end, 0, (0,), (0,), end, expected, (end,))

    return Round(
        index=number,
        context_length=len(header.prompt_tokens) + first,
        rule="sampler-match",
        rule_label="not known",
        rule_reason=f"this round can't be read: {why}",
        distribution_preserving=False,
        drafts=(),
        emitted=tuple(Emitted(t, "target-draw", i) for i, t in enumerate(tokens[first : first + emitted])),
        main_cache=cache(row["main_end"], row["main_expected"]),
        draft_cache=None if header.draft is None else cache(row["draft_end"], row["draft_expected"]),
        debt=row["debt"],
        drift=row["drift"],
        timings=Timings(0.0, 0.0, 0.0, 0.0),
    )
