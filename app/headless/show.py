"""`draftscope show`: what a recorded session holds, as text: its runs, one run summed up, or one round in detail."""

from __future__ import annotations

import argparse
import datetime
import math
from collections.abc import Iterator
from typing import Any

from app.format import (
    NOTHING,
    comparison,
    duration,
    plural,
    probability,
    rate,
    significant,
    visible_string,
    visible_text,
)
from app.headless.pair import describe
from app.headless.recordings import DAMAGED, check_round, chosen_run, loaded, opened, runs_of
from app.headless.terminal import harmless, table
from engine.alternatives import EXPECTED
from engine.compare import rules_of
from engine.evidence import Meter, why_no_losslessness_meter
from engine.recording import RecordedRun
from engine.rounds import CachePositions, Draft, Round
from engine.session_file import StoredRun
from engine.session_reader import SessionReader
from engine.settings import Settings
from engine.statistics import ratio, summary_line, wilson_interval
from engine.text import Vocabulary

_LONGEST = 600
"""Characters of a prompt or text that are shown."""

_SHOWN_APART = {"temperature", "seed", "num_draft_tokens", "max_tokens", "draft_sampler"}


def show(options: argparse.Namespace) -> int:
    """Print the list, the run or the round that was asked for; returns the exit code. Raises UserError."""
    with opened(options.file) as reader:
        if options.run is None and options.round is None:
            return _show_list(reader)
        stored = chosen_run(reader, options.run)
        run = loaded(reader, stored)
        if options.round is None:
            lines = _run_lines(run, stored)
        else:
            check_round(run, stored.id, options.round)
            lines = _round_lines(run, stored.id, run[options.round])
        _print(lines)
    return DAMAGED if run.damage is not None else 0


def _print(lines: Iterator[str]) -> None:
    print(harmless("\n".join(lines)), flush=True)


# The list


def _show_list(reader: SessionReader) -> int:
    rows, damaged = [], False
    runs = runs_of(reader)
    for stored in runs:
        run = loaded(reader, stored)
        damaged |= run.damage is not None
        rows.append(_list_row(run, stored))
    header = ("run", "begun", "rule", "target", "draft", "T", "k", "rounds", "tokens", "acceptance", "drift", "end")
    lines = [f"{reader.path}: {plural(len(rows), 'run')}", "", table(header, rows, left=5)]
    if len(runs) == 1:
        lines += ["", f"More: draftscope show {reader.path} --run {runs[0].id}"]
    _print(iter(lines))
    return DAMAGED if damaged or reader.left_out else 0


def _list_row(run: RecordedRun, stored: StoredRun) -> tuple[str, ...]:
    header = run.header
    fork = "" if stored.parent is None else f" (run {stored.parent}, round {stored.fork_round})"
    return (
        f"{stored.id}{fork}",
        _when(stored.begun),
        " then ".join(map(visible_string, rules_of(run))) or NOTHING,
        visible_string(header.target.name),
        NOTHING if header.draft is None else visible_string(header.draft.name),
        f"{header.settings.sampler.temperature:g}",
        str(header.settings.num_draft_tokens),
        str(len(run)),
        str(len(run.tokens)),
        rate(run.statistics.per_position_acceptance),
        NOTHING if run.first_drift is None else f"from round {run.first_drift}",
        "damaged" if run.damage is not None else "none" if run.end is None else visible_string(run.end.finish_reason),
    )


def _when(seconds: float) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
    except (OverflowError, ValueError, OSError):  # no date of this machine's calendar
        return NOTHING


# One run


def _run_lines(run: RecordedRun, stored: StoredRun) -> Iterator[str]:
    header, end, settings = run.header, run.end, run.header.settings
    fork = "" if stored.parent is None else f", forked from run {stored.parent} at round {stored.fork_round}"
    yield f"run {stored.id}, begun {_when(stored.begun)}{fork}"
    yield from _facts(
        ("target", describe(header.target)),
        ("draft", "none" if header.draft is None else f"{describe(header.draft)}, drafter {header.drafter}"),
        ("backend", header.backend),
        (
            "asked for",
            f"T {settings.sampler.temperature:g}, k {settings.num_draft_tokens}, seed {header.seed}, "
            f"at most {plural(settings.max_tokens, 'token') if settings.max_tokens >= 0 else 'as many tokens as fit'}",
        ),
        ("settings", _changed_settings(settings)),
        *(("notice", notice) for notice in header.notices),
        ("prompt", _cut(header.prompt)),
        ("text", _cut(header.vocabulary.decode(run.tokens) if end is None else end.text)),
        ("end", "none: it was cut off, or still goes" if end is None else f"{end.finish_reason}: {end.notice}"),
        *((("damage", run.damage),) if run.damage is not None else ()),
    )
    if not len(run):
        yield "It holds no round."
        return
    last = run[-1]
    diagnostics = bool(run.statistics.closed_forms)
    yield from _facts(
        ("rule", f"{' then '.join(rules_of(run))} ({last.rule_label}): {last.rule_reason}"),
        ("summary", summary_line(run.statistics, last.rule, last.rule_label, diagnostics)),
        ("acceptance", _interval(run.statistics.accepted, run.statistics.positions_tested)),
        ("tokens a round", significant(run.statistics.tokens_per_round)),
        ("speed", _speed(run)),
        ("drift", _drift(run)),
        ("invariants", _invariants(run)),
        ("losslessness meter", _meter(run.meters.losslessness, why_no_losslessness_meter(last.rule))),
        ("proposal meter", _meter(run.meters.proposal, run.why_no_proposal_meter(last.rule))),
        ("accept identity", f"z {significant(run.identity.z)}, {plural(run.identity.n, 'test')}"),
        *((("expected tokens", _expected(run)),) if run.alternatives.rounds else ()),
        *(
            (
                "content check",
                f"behind round {c.round}: main {c.main_difference:.2g}, draft {significant(c.draft_difference, 2)}",
            )
            for c in run.content_checks
        ),
        *(("mark", f"round {number}: {note}") for number, note in run.marks.items()),
    )
    yield ""
    yield from _by_position(run)


def _facts(*pairs: tuple[str, str]) -> Iterator[str]:
    for name, value in pairs:
        yield f"{name + ':':<20}{visible_string(value)}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def _changed_settings(settings: Settings) -> str:
    """What isn't the default."""
    given, usual = settings.as_dict(), Settings().as_dict()
    parts = [f"{n} {v}" for n, v in given.items() if n not in _SHOWN_APART and v != usual[n]]
    if settings.draft_sampler is not None:
        parts.append(f"the drafter samples for itself, T {settings.draft_sampler.temperature:g}")
    return ", ".join(parts) or "otherwise the defaults"


def _interval(accepted: int, tested: int) -> str:
    found = wilson_interval(accepted, tested)
    shown = "" if found is None else f", 95 % [{found[0]:.4f}, {found[1]:.4f}]"
    return rate(ratio(accepted, tested), tested) + shown


def _speed(run: RecordedRun) -> str:
    seconds = float(run.column("seconds").sum()) if run.end is None else run.end.seconds
    each = ratio(len(run.tokens), seconds)
    shown = significant(each if each is not None and math.isfinite(each) else None)
    return f"{plural(len(run.tokens), 'token')} in {duration(seconds)}: {shown} a second"


def _drift(run: RecordedRun) -> str:
    if run.first_drift is None:
        return "0 in every round"
    return f"from round {run.first_drift} on; {run.column('drift')[-1]} at the end"


def _invariants(run: RecordedRun) -> str:
    failures = run.invariants.failures
    found = [
        f"{name} fails from round {f.first_round} on, in {plural(f.count, 'round')} ({f.how})"
        for name, f in failures.items()
    ]
    return "; ".join(found) or "all hold in every round"


def _meter(meter: Meter, note: str | None) -> str:
    if note is not None:
        return note
    if not meter.n:
        return "not recorded: it needs diagnostics"
    alarm = "no alarm" if meter.alarm_at is None else f"ALARM at token {meter.alarm_at}"
    return f"{alarm}; log10 evidence {significant(meter.log10_evidence)} after {plural(meter.n, 'token')}"


def _expected(run: RecordedRun) -> str:
    parts = [f"{name} {significant(run.alternatives.tokens_per_round(name))}" for name in EXPECTED]
    return f"a round: {', '.join(parts)}"


def _by_position(run: RecordedRun) -> Iterator[str]:
    statistics = run.statistics
    rows = [
        (str(at + 1), str(reached), str(accepted), _interval(accepted, reached))
        for at, (reached, accepted) in enumerate(zip(statistics.reached, statistics.accepted_at, strict=False))
    ]
    if rows:
        yield table(("position", "tested", "accepted", "acceptance"), rows)
    yield f"Rounds are numbered from 0 to {len(run) - 1}; --round N shows one."


# One round


def _round_lines(run: RecordedRun, name: int, record: Round) -> Iterator[str]:
    vocabulary = run.header.vocabulary
    lossless = "lossless" if record.distribution_preserving else "NOT LOSSLESS"
    yield f"round {record.index} of run {name} (0 to {len(run) - 1})"
    changed = ", ".join(f"{setting} {value}" for setting, value in record.changed.items())
    yield from _facts(
        ("rule", f"{record.rule} ({record.rule_label}), {lossless}: {record.rule_reason}"),
        *((("changed", changed),) if changed else ()),
        *((("forced", record.forced),) if record.forced else ()),
        ("context", f"{plural(record.context_length, 'token')} before the round"),
        ("time", f"{duration(record.timings.total)} as the host saw it"),
        *((("mark", run.marks[record.index]),) if record.index in run.marks else ()),
    )
    yield ""
    if record.drafts:
        header = ("pos", "drafted", "id", "q(d)", "p(d)", "u", "test", "fate", "Σ min", "Σ p·q")
        rows = [_draft_row(at, draft, record.rule, vocabulary) for at, draft in enumerate(record.drafts)]
        yield table(header, rows, left=2)
    else:
        yield "Nothing was drafted (k = 0)."
    yield ""
    emitted = [
        (str(e.position + 1), visible_text(vocabulary, e.token), str(e.token), e.source, probability(e.probability))
        for e in record.emitted
    ]
    yield table(("pos", "emitted", "id", "source", "drawn with"), emitted, left=2)
    yield ""
    caches: list[tuple[str, CachePositions]] = [("main", record.main_cache)]
    if record.draft_cache is not None:
        caches.append(("draft", record.draft_cache))
    names = ("cache", "before", "forwarded", "trim asked", "trim done", "replayed", "holds", "expected", "first wrong")
    yield table(names, [_cache_row(kind, cache) for kind, cache in caches])
    yield f"debt {record.debt}, drift {record.drift}"


def _draft_row(at: int, draft: Draft, rule: str, vocabulary: Vocabulary) -> tuple[str, ...]:
    return (
        str(at + 1),
        visible_text(vocabulary, draft.token),
        str(draft.token),
        probability(draft.q),
        probability(draft.p),
        probability(draft.u),
        _test(draft, rule, vocabulary),
        draft.fate,
        rate(draft.sum_min),
        rate(draft.sum_prod),
    )


def _test(draft: Draft, rule: str, vocabulary: Vocabulary) -> str:
    """The comparison that decided, written so that it reads true."""
    if draft.u is not None and rule == "block":
        return _compared("u", draft.u, "h", draft.threshold)
    if draft.threshold is not None:
        return _compared("u·q", draft.threshold, "p", draft.p)
    return NOTHING if draft.match is None else f"d = {visible_text(vocabulary, draft.match)} ?"


def _compared(left: str, a: float | None, right: str, b: float | None) -> str:
    shown = comparison(a, b)
    sign = "?" if a is None or b is None else "<=" if a <= b else ">"
    return f"{left} {shown[0]} {sign} {right} {shown[1]}"


def _cache_row(name: str, cache: CachePositions) -> tuple[str, ...]:
    def listed(values: tuple[int, ...]) -> str:
        return ", ".join(map(str, values))

    wrong: Any = NOTHING if cache.first_wrong is None else cache.first_wrong
    numbers = (
        cache.start,
        cache.forwarded,
        listed(cache.trim_asked),
        listed(cache.trim_done),
        cache.replayed,
        cache.end,
    )
    return (name, *map(str, (*numbers, cache.expected_end, wrong)))
