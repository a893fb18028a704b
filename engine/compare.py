"""Two recorded runs laid side by side: where their tokens part, and whether their counters differ by more than noise.

Behind the first differing token nothing can be compared token by token, only counters can. No MLX.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from engine.compare_counters import Counter, Verdict, compare_counters
from engine.first_difference import FirstDifference, Side, first_difference, model_of, same_tokens
from engine.recording import RecordedRun
from engine.text import Vocabulary


@dataclass(frozen=True)
class Comparison:
    """Two runs side by side. `aligned`: tokens from the start that are the same; `first` is None if all are.

    `settings`: (name, a, b) of every setting that isn't the same. `warnings`: what to bear in mind, in sentences.
    """

    lengths: tuple[int, int]
    aligned: int
    first: FirstDifference | None
    counters: tuple[Counter, ...]
    verdict: Verdict
    settings: tuple[tuple[str, Any, Any], ...]
    warnings: tuple[str, ...]


def compare(a: RecordedRun, b: RecordedRun) -> Comparison:
    """Lay run b beside run a. Raises SessionFileError if a round that it needs can't be read from its file."""
    aligned = same_tokens(a, b)
    comparable = a.header.vocabulary.pieces == b.header.vocabulary.pieces
    ended = aligned == len(a.tokens) == len(b.tokens)
    first = None if ended or not comparable else first_difference(a, b, aligned)
    counters, verdict = compare_counters(a, b)
    lengths = len(a.tokens), len(b.tokens)
    settings = tuple(_different_settings(a, b))
    return Comparison(
        lengths, aligned if comparable else 0, first, counters, verdict, settings, tuple(_warnings(a, b, comparable))
    )


# What to bear in mind


def _different_settings(a: RecordedRun, b: RecordedRun) -> Iterator[tuple[str, Any, Any]]:
    x, y = a.header.settings.as_dict(), b.header.settings.as_dict()
    for name in x:
        if x[name] != y.get(name):
            yield name, x[name], y.get(name)


def rules_of(run: RecordedRun) -> tuple[str, ...]:
    """The rule of the first round, and that of the last if it is another; () without rounds."""
    return tuple(dict.fromkeys(run[at].rule for at in (0, -1))) if len(run) else ()


def _warnings(a: RecordedRun, b: RecordedRun, comparable: bool) -> Iterator[str]:
    x, y = a.header, b.header
    rules = rules_of(a), rules_of(b)
    if not comparable:
        yield "The vocabularies aren't the same, so tokens can't be aligned; only the counters are compared."
    if x.prompt_tokens != y.prompt_tokens:
        yield "The prompts aren't the same: tokens and counters belong to different texts."
    if model_of(x.target) != model_of(y.target):
        yield f"The targets aren't the same: {x.target.name} and {y.target.name}."
    if model_of(x.draft) != model_of(y.draft):
        names = [info.name if info is not None else "none" for info in (x.draft, y.draft)]
        yield f"The draft models aren't the same: {names[0]} and {names[1]}."
    if x.seed == y.seed and rules[0] != rules[1]:
        yield (
            "Equal seeds don't give equal tokens across rules: each rule spends the same draws on another question, "
            "so the texts part early even where both are lossless."
        )
    for name, run, used in (("A", a, rules[0]), ("B", b, rules[1])):
        if len(used) > 1:
            yield f"The rule changed within run {name}: its counters mix {' and '.join(used)}."
        if run.damage is not None:
            yield f"Run {name} is damaged: {run.damage}"
        elif run.end is None:
            yield f"Run {name} has no end: it was cut off, or still goes."
        elif run.end.finish_reason == "error":
            yield f"Run {name} failed: {run.end.notice}"
    if bool(a.statistics.closed_forms) != bool(b.statistics.closed_forms):
        yield "Only one of the runs had diagnostics on, so the closed forms can't be compared."
    yield (
        "Two runs are two texts: neighbouring rounds resemble each other, and another seed gives another text. For a "
        "finding about rules or models, run many seeds (draftscope ab)."
    )


# As JSON


def comparison_object(found: Comparison, vocabularies: tuple[Vocabulary, Vocabulary]) -> dict[str, Any]:
    """JSON-ready, None where undefined. `vocabularies` of both runs give the tokens their text."""
    first = found.first
    return {
        "tokens": {"a": found.lengths[0], "b": found.lengths[1], "same_from_the_start": found.aligned},
        "first_difference": None
        if first is None
        else {
            "token_index": first.index,
            "cause": first.cause,
            "differing": list(first.differing),
            "top_2_gap": _finite(first.gap),
            "largest_difference_of_p_and_q": _finite(first.difference),
            "a": _side_object(first.a, vocabularies[0]),
            "b": _side_object(first.b, vocabularies[1]),
            "words": " ".join(first.sentences),
        },
        "counters": [_counter_object(counter) for counter in found.counters],
        "more_than_noise": found.verdict.more_than_noise,
        "verdict": found.verdict.words,
        "different_settings": [{"name": name, "a": a, "b": b} for name, a, b in found.settings],
        "warnings": list(found.warnings),
    }


def _counter_object(counter: Counter) -> dict[str, Any]:
    found = dataclasses.asdict(counter) | {"difference": counter.difference}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _side_object(side: Side | None, vocabulary: Vocabulary) -> dict[str, Any] | None:
    """`position` counts from 1, as it is shown everywhere."""
    if side is None:
        return None
    draft = side.draft
    drafted = None
    if draft is not None:
        names = ("fate", "p", "q", "u", "threshold", "match", "block_p", "block_h")
        drafted = {"token": draft.token, "text": vocabulary.text_of(draft.token)}
        drafted |= {name: getattr(draft, name) for name in names}
    emitted = dataclasses.asdict(side.emitted) | {"text": vocabulary.text_of(side.emitted.token)}
    emitted.pop("position")
    return {
        "round": side.round,
        "position": side.position + 1,
        "rule": side.rule,
        "drafted": drafted,
        "emitted": emitted,
    }


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value
