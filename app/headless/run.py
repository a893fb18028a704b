"""`draftscope run`: one run, its text streamed as it comes, or the whole of it as JSON."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from typing import TYPE_CHECKING, Any

from app.headless.pair import describe, load, mendable
from app.headless.record import STOPPED, Record, announce_size, recorded_in
from app.headless.request import check_chat, in_chat, prompt_of, run_settings
from app.headless.terminal import TextOut, on_interrupt, print_json, say
from engine.recording import RecordedRun, Recording
from engine.rounds import ContentCheck, RunEnd, RunHeader
from engine.settings import Settings
from engine.toy_tables import BLIND, TOY

if TYPE_CHECKING:
    from engine.generator import SpeculativeGenerator

EXIT_CODES = {"stop": 0, "length": 0, "error": 1, "cancelled": 130}


def run(options: argparse.Namespace) -> int:
    """Run as asked; returns the exit code. Raises UserError before the first round."""
    settings, prompt = run_settings(options), prompt_of(options)
    check_chat(options)
    with recorded_in(options.record) as record:
        code = _run(options, settings, prompt, record)
    return STOPPED if code == 0 and record.stopped else code


def _run(options: argparse.Namespace, settings: Settings, prompt: str | list[int], record: Record) -> int:
    started = time.perf_counter()
    pair = load(options)
    loaded = time.perf_counter()
    with mendable():
        from engine.drafting import drafts_at_all
        from engine.generator import SpeculativeGenerator

        generator = SpeculativeGenerator(pair, settings, stochastic=settings.stochastic)
        if settings.full_vocabulary:
            has_draft = drafts_at_all(pair, settings.drafter)
            announce_size(settings, pair.target.vocab_size, has_draft, options.record)
        with on_interrupt(generator.cancel):
            header = generator.start(in_chat(pair.target.chat, prompt, options))
            seconds = {"load_seconds": loaded - started, "prefill_seconds": time.perf_counter() - loaded}
            _tell_header(header)
            out = None if options.json else TextOut(sys.stdout)
            recorded = _follow(generator, header, out, options.content_check, record)
    end = recorded.end
    assert end is not None
    if out is not None:
        out.line(end.summary)
    else:
        say(end.summary)
        print_json(_object(recorded, generator, options, seconds))
    if end.finish_reason in ("error", "cancelled"):
        say(f"draftscope run: {end.finish_reason}: {end.notice}")
    return EXIT_CODES[end.finish_reason]


def _follow(
    generator: SpeculativeGenerator,
    header: RunHeader,
    out: TextOut | None,
    check_every: int,
    record_in: Record,
) -> RecordedRun:
    """Every round to its end: streamed to `out`, else recorded; the caches' contents checked every so many rounds.

    `record_in`: what keeps the run in a session file beside it.
    """
    recorded, filed = Recording().begin(header), record_in.begin(header)
    kept = [run for run in (recorded, filed) if run is not None]
    try:
        for record in generator.rounds():
            if record.index == 0:
                say(f"rule: {record.rule} ({record.rule_label}): {record.rule_reason}")
            for run in kept if out is None else kept[1:]:
                run.append(record)
            record_in.keep_up()
            if out is not None:
                out.show(generator.text)
            failed = generator.end is not None and generator.end.finish_reason == "error"
            if check_every and (record.index + 1) % check_every == 0 and not failed:
                found = generator.check_contents()
                for run in kept:
                    run.add_check(found)
                _tell_check(found, header)
    finally:
        for run in kept:
            run.finish(_end(generator, run))
    if out is not None:
        out.show(generator.text)
    return recorded


def _end(generator: SpeculativeGenerator, run: RecordedRun) -> RunEnd:
    """How the run ended, also where the program is stopped within it."""
    notice, seconds = "The program was stopped within the run.", float(run.column("seconds").sum())
    stopped = RunEnd("cancelled", notice, generator.summary(), generator.text, generator.host_syncs, seconds)
    # A check behind the last round comes after the end.
    return dataclasses.replace(generator.end or stopped, check_syncs=generator.check_syncs)


def _tell_check(check: ContentCheck, header: RunHeader) -> None:
    if header.target.model_type == TOY:
        say(f"content check behind round {check.round}: {BLIND}")
        return
    draft = "" if check.draft_difference is None else f", draft {check.draft_difference:.2g}"
    say(f"content check behind round {check.round}: largest difference main {check.main_difference:.2g}{draft}")


def _tell_header(header: RunHeader) -> None:
    """Who runs, with which seed, and anything that isn't what was asked."""
    named = "no drafter" if header.drafter == "none" else f"drafter {header.drafter}"
    drafting = f"{'no draft' if header.draft is None else f'draft {describe(header.draft)}'}, {named}"
    k = header.settings.num_draft_tokens
    say(f"target {describe(header.target)}; {drafting}, k {k}; seed {header.seed}; {header.backend}")
    for notice in header.notices:
        say(f"notice: {notice}")


def _object(
    recorded: RecordedRun, generator: SpeculativeGenerator, options: argparse.Namespace, seconds: dict[str, float]
) -> dict[str, Any]:
    from engine.run_json import run_object

    rule = generator.rule
    reason = recorded[len(recorded) - 1].rule_reason if len(recorded) else ""
    found = run_object(recorded, (rule.id, rule.label, reason), options.rounds)
    found["timings"] |= seconds
    return found
