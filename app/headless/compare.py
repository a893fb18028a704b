"""`draftscope compare`: two recorded runs side by side, of one file or of two, as a report or as JSON."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Any

from app.headless.recordings import DAMAGED, chosen_run, loaded, opened, runs_of
from app.headless.request import UserError
from app.headless.terminal import harmless, print_json
from app.labs.compare_words import described, report
from engine.compare import compare as compare_runs
from engine.compare import comparison_object, rules_of
from engine.recording import RecordedRun
from engine.session_reader import SessionReader


def compare(options: argparse.Namespace) -> int:
    """Lay two runs side by side; returns the exit code. Raises UserError."""
    with ExitStack() as stack:
        reader = stack.enter_context(opened(options.file))
        other = reader if options.second is None else stack.enter_context(opened(options.second))
        numbers = _numbers(reader, options)
        stored = chosen_run(reader, numbers[0]), chosen_run(other, numbers[1], "--other")
        if stored[0].id == stored[1].id and reader.path.samefile(other.path):
            raise UserError(f"A and B are the same run, {stored[0].id} of {reader.path}: choose another with --other")
        a, b = loaded(reader, stored[0]), loaded(other, stored[1])
        found = compare_runs(a, b)
        names = [f"run {entry.id} of {source.path}" for entry, source in zip(stored, (reader, other), strict=True)]
        if options.json:
            head = {"a": _run_object(a, names[0]), "b": _run_object(b, names[1])}
            print_json(head | comparison_object(found, (a.header.vocabulary, b.header.vocabulary)))
        else:
            print(harmless(report(found, (described(a), described(b)), names)), flush=True)
    return DAMAGED if a.damage is not None or b.damage is not None else 0


def _numbers(reader: SessionReader, options: argparse.Namespace) -> tuple[int | None, int | None]:
    """Numbers of both runs; within one file the only two need not be named."""
    first, second = options.run, options.other
    if options.second is None and (first is None or second is None):
        held = [run.id for run in runs_of(reader)]
        if len(held) == 1:
            raise UserError(f"{reader.path} holds one run: give a second file to compare it with")
        if len(held) == 2:
            if first is None:
                first = held[1] if second == held[0] else held[0]
            second = next(number for number in held if number != first) if second is None else second
        elif first is None or second is None:
            raise UserError(f"{reader.path} holds {len(held)} runs: choose two with --run N --other M")
    return first, second


def _run_object(run: RecordedRun, name: str) -> dict[str, Any]:
    header = run.header
    return {
        "run": name,
        "target": header.target.name,
        "draft": None if header.draft is None else header.draft.name,
        "rules": list(rules_of(run)),
        "settings": header.settings.as_dict(),
        "rounds": len(run),
        "damage": run.damage,
    }
