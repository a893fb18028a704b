"""Recorded runs for other programs: JSON lines, CSV, and a summary of each run. A round at a time, so any length fits.

The summary has the fields of NVIDIA AIPerf's per-request record of speculative decoding, and llama.cpp's two counts.
JSON is strict: what is undefined is null. CSV leaves it empty, and its text is safe to open in a spreadsheet. No MLX.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from engine.columns import outcome_of
from engine.recording import RecordedRun
from engine.rounds import CachePositions, Draft, Emitted, Round
from engine.run_json import round_object, strict
from engine.statistics import ratio
from engine.text import Vocabulary

FORMATS = ("jsonl", "csv", "csv-positions", "json", "html")
"""What a recording can become; `html` is one round, by `engine.round_page`."""

NumberedRuns = Iterable[tuple[int, RecordedRun]]
"""Runs with their numbers in the file."""


def export(kind: str, runs: NumberedRuns, number: int | None = None, distributions: bool = False) -> Iterator[str]:
    """The text of an export in pieces, for a kind in FORMATS but `html`; of all rounds, or of round `number` alone.

    `distributions`: also the largest probabilities of every position, in `jsonl`. Raises ValueError for another kind,
    IndexError for a round that a run doesn't have, SessionFileError for one that can't be read.
    """
    if kind == "jsonl":
        return jsonl(runs, number, distributions)
    if kind == "csv":
        return _csv(ROUND_COLUMNS, ([_round_row(*found)] for found in _each(runs, number)))
    if kind == "csv-positions":
        return _csv(POSITION_COLUMNS, (_position_rows(*found) for found in _each(runs, number)))
    if kind == "json":
        return iter([json.dumps({"runs": [summary(*numbered) for numbered in runs]}, allow_nan=False) + "\n"])
    raise ValueError(f"expected one of {', '.join(FORMATS)}, got {kind!r}")


def _each(runs: NumberedRuns, number: int | None) -> Iterator[tuple[int, RecordedRun, Round]]:
    for name, run in runs:
        for index in range(len(run)) if number is None else (number,):
            yield name, run, run[index]


# JSON lines


def jsonl(runs: NumberedRuns, number: int | None = None, distributions: bool = False) -> Iterator[str]:
    """A round a line: the number of its run, then what `run_json.round_object` holds."""
    for name, run, record in _each(runs, number):
        found = {"run": name} | round_object(record, run.header.vocabulary, distributions)
        yield json.dumps(strict(found), allow_nan=False) + "\n"


# The summary


def summary(name: int, run: RecordedRun) -> dict[str, Any]:
    """One run in the shape of AIPerf's `SpecDecodeAcceptanceRecord`; None where undefined.

    There a step is one verify pass with drafts, and `mean_acceptance_length` is 1 + accepted / steps: it counts one
    token more for each step, also for one in which the run ended before a recovered or bonus token came, so it may
    stand above our own `tokens_per_round`. `draft_acceptance_rate` is accepted / drafted, our `acceptance_rate`.
    `acceptance_histogram` maps a count of accepted drafts to the number of steps with so many, without empty ones;
    its keys are strings in JSON. Rounds with k = 0 are no steps.
    Sources: docs.nvidia.com/aiperf/reference/per-request-speculative-decoding-acceptance and AIPerf's
    src/aiperf/common/models/spec_decode_models.py; `draft_n`, `draft_n_accepted`: the timings of llama.cpp's server.
    """
    drafted, accepted = run.column("k"), run.column("accepted")
    steps = drafted > 0
    drafted, accepted = drafted[steps], accepted[steps]
    counts, times = np.unique(accepted, return_counts=True)
    header, end = run.header, run.end
    proposed, kept = int(drafted.sum()), int(accepted.sum())
    mean = ratio(kept, len(drafted))
    return {
        "run": name,
        "engine": "draftscope",
        "mean_acceptance_length": None if mean is None else 1 + mean,
        "draft_acceptance_rate": ratio(kept, proposed),
        "acceptance_histogram": {str(count): int(n) for count, n in zip(counts.tolist(), times.tolist(), strict=True)},
        "num_accepted_draft_tokens": kept,
        "num_draft_tokens": proposed,
        "num_spec_steps": len(drafted),
        "num_spec_tokens": header.settings.num_draft_tokens,
        "completion_tokens": len(run.tokens),
        "per_step_accepted": accepted.tolist(),
        "per_step_drafted": drafted.tolist(),
        "draft_n": proposed,
        "draft_n_accepted": kept,
        "rounds": len(run),
        "prompt_tokens": len(header.prompt_tokens),
        "target": header.target.name,
        "draft": None if header.draft is None else header.draft.name,
        "drafter": header.drafter,
        "temperature": header.settings.sampler.temperature,
        "seed": header.seed,
        "rule": run[-1].rule if len(run) else None,
        "finish_reason": None if end is None else end.finish_reason,
        "damage": run.damage,
    }


# CSV

ROUND_COLUMNS = (
    *("run", "round", "context_length", "rule", "k", "tested", "accepted", "emitted", "outcome", "tokens", "text"),
    *("sum_min", "sum_prod", "debt", "drift", "main_end", "main_expected", "draft_end", "draft_expected"),
    *("draft_seconds", "verify_seconds", "decide_seconds", "rewind_seconds"),
    *("log10_losslessness", "log10_proposal", "broken_invariant", "forced"),
)

_DRAFT_FIELDS = tuple(field.name for field in dataclasses.fields(Draft) if field.name not in ("token", "fate"))

POSITION_COLUMNS = (
    *("run", "round", "position", "rule", "drafted", "drafted_text", "fate"),
    *_DRAFT_FIELDS,
    *("emitted", "emitted_text", "source", "probability"),
)

FORMULA = ("=", "+", "-", "@", "'", "\t", "\r", "＝", "＋", "－", "＠")
"""How a cell begins that a spreadsheet may take for a formula, white space apart; and the quote that guards it."""


def safe_cell(value: Any) -> Any:
    """A cell that no spreadsheet runs: text that could be a formula gets a quote (') before it, which the spreadsheet
    hides and every other reader takes off. Numbers stay; None and what isn't finite become empty."""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(FORMULA) or value.lstrip().startswith(FORMULA) else value
    return "" if value is None or (isinstance(value, float) and not math.isfinite(value)) else value


def _csv(header: Sequence[str], groups: Iterable[Iterable[Sequence[Any]]]) -> Iterator[str]:
    """The header, then a piece for each group of rows."""
    yield _csv_text([header])
    for group in groups:
        yield _csv_text([[safe_cell(value) for value in row] for row in group])


def _csv_text(rows: Iterable[Sequence[Any]]) -> str:
    piece = io.StringIO()
    csv.writer(piece, lineterminator="\n").writerows(rows)
    return piece.getvalue()


def _round_row(name: int, run: RecordedRun, record: Round) -> list[Any]:
    vocabulary, at = run.header.vocabulary, record.index
    tokens = [e.token for e in record.emitted]
    timings = record.timings

    def column(of: str) -> float:
        return float(run.column(of)[at])

    def ends(cache: CachePositions | None) -> list[int | None]:
        return [None, None] if cache is None else [cache.end, cache.expected_end]

    return [
        *(name, at, record.context_length, record.rule, record.k, record.tested, record.accepted, len(tokens)),
        *(outcome_of(record), " ".join(map(str, tokens)), "".join(map(vocabulary.text_of, tokens))),
        *(column("sum_min"), column("sum_prod"), record.debt, record.drift),
        *(*ends(record.main_cache), *ends(record.draft_cache)),
        *(timings.draft, timings.verify, timings.decide, timings.rewind),
        *(column("emitted_meter"), column("drafted_meter"), int(column("broken")), record.forced or None),
    ]


def _position_rows(name: int, run: RecordedRun, record: Round) -> Iterator[list[Any]]:
    """A row for each drafted position, and one for a token that was emitted behind the drafts; from 1."""
    vocabulary = run.header.vocabulary
    emitted = {e.position: e for e in record.emitted}
    behind = sorted(position for position in emitted if not 0 <= position < record.k)
    for at in (*range(record.k), *behind):
        draft = record.drafts[at] if 0 <= at < record.k else None
        yield [
            *(name, record.index, at + 1, record.rule),
            *_draft_cells(draft, vocabulary),
            *_emitted_cells(emitted.get(at), vocabulary),
        ]


def _draft_cells(draft: Draft | None, vocabulary: Vocabulary) -> list[Any]:
    if draft is None:
        return [None] * (3 + len(_DRAFT_FIELDS))
    values = [getattr(draft, field) for field in _DRAFT_FIELDS]
    return [draft.token, vocabulary.text_of(draft.token), draft.fate, *values]


def _emitted_cells(emitted: Emitted | None, vocabulary: Vocabulary) -> list[Any]:
    if emitted is None:
        return [None] * 4
    return [emitted.token, vocabulary.text_of(emitted.token), emitted.source, emitted.probability]
