"""What a comparison of two runs says in words, in the window and on the command line. No Qt, no MLX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.format import NOTHING, comparison, plural, significant, visible_text
from app.headless.terminal import table
from engine.compare import Comparison, rules_of
from engine.compare_counters import Counter, Verdict
from engine.first_difference import Side
from engine.recording import RecordedRun
from engine.text import Vocabulary


def report(found: Comparison, described: Sequence[str], names: Sequence[str]) -> str:
    """All of a comparison in lines: who, settings, first difference, counters, verdict, warnings."""
    lines = [f"{side}: {name}: {what}" for side, name, what in zip("AB", names, described, strict=True)]
    lines += settings_lines(found)
    lines += ["", *first_lines(found), "", _counters(found.counters), "", found.verdict.words, *found.warnings]
    return "\n".join(lines)


def settings_lines(found: Comparison) -> list[str]:
    """Every setting that isn't the same."""
    return [f"setting {name}: {_value(a)} in A, {_value(b)} in B" for name, a, b in found.settings]


def described(run: RecordedRun) -> str:
    """A run in one line: rule, models, what it was asked, and its length. Raises SessionFileError."""
    header = run.header
    draft = "no draft" if header.draft is None else f"draft {header.draft.name}"
    settings = header.settings
    return (
        f"{' then '.join(rules_of(run)) or 'no rule'}, target {header.target.name}, {draft}, T "
        f"{settings.sampler.temperature:g}, k {settings.num_draft_tokens}, seed {header.seed}, "
        f"{plural(len(run), 'round')}, {plural(len(run.tokens), 'token')}"
    )


def _value(value: Any) -> str:
    return "the target's" if value is None else str(value)


def first_lines(found: Comparison) -> list[str]:
    """Where the tokens part, why, and what happened on each side; nothing where they can't be aligned."""
    first = found.first
    if first is None:
        return [f"All {plural(found.lengths[0], 'token')} are the same."] if found.aligned else []
    if first.cause == "ended":
        return list(first.sentences)
    why, *sides = first.sentences
    same = plural(first.index, "token") if first.index else "none"
    return [
        f"Same from the start: {same}. Token {first.index} (from 0) is the first that differs.",
        why,
        *(f"  {side}" for side in sides),
    ]


def _counters(counters: tuple[Counter, ...]) -> str:
    header = ("", "A", "95 %", "B", "95 %", "B - A", "95 %")
    return table(header, [counter_cells(counter) for counter in counters])


def counter_cells(counter: Counter) -> tuple[str, ...]:
    """Name, A and its interval, B and its interval, B - A and its interval."""

    def span(interval: tuple[float, float] | None) -> str:
        return "" if interval is None else f"[{_end(interval[0])}, {_end(interval[1])}]"

    def number(value: float | None) -> str:
        return NOTHING if value is None else str(value) if isinstance(value, int) else significant(value)

    return (
        counter.name,
        number(counter.a),
        span(counter.a_interval),
        number(counter.b),
        span(counter.b_interval),
        number(counter.difference),
        span(counter.difference_interval),
    )


def _end(value: float) -> str:
    """Of an interval: four digits, two where zeros stand before them."""
    return f"{value:.4g}" if abs(value) >= 0.001 else f"{value:.2g}"


def written_test(side: Side, vocabulary: Vocabulary) -> str:
    """The test at the first difference, written out."""
    draft = side.draft
    if draft is None:
        return "nothing drafted"
    if draft.u is not None and side.rule == "block" and draft.block_h is not None:
        left, right = comparison(draft.u, draft.block_h)
        return f"u {left} {'≤' if draft.u <= draft.block_h else '>'} h {right}"
    if draft.threshold is not None and draft.p is not None:
        left, right = comparison(draft.threshold, draft.p)
        return f"u·q {left} {'≤' if draft.threshold <= draft.p else '>'} p {right}"
    if draft.match is not None:
        kind = "argmax" if "argmax" in side.rule else "fresh draw"
        return f"{kind}: {visible_text(vocabulary, draft.match)}"
    return NOTHING


def is_beyond_noise(counter: Counter, verdict: Verdict) -> bool:
    """Whether the interval of the difference leaves 0 out, between runs that are long enough for a verdict."""
    found = counter.difference_interval
    return verdict.more_than_noise is not None and found is not None and (found[0] > 0 or found[1] < 0)
