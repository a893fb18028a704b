"""`draftscope run`: one run, its text as it comes, and the summary line or one JSON object at the end."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from types import FrameType

from app.cli import read_prompt, settings_of
from app.headless.models import load
from engine.rounds import Round


def run(options: argparse.Namespace) -> int:
    """Run and print. Returns the exit code."""
    settings, prompt = settings_of(options), read_prompt(options)
    from engine.generator import SpeculativeGenerator
    from engine.run_json import run_as_json

    generator = SpeculativeGenerator(load(options), settings, stochastic=settings.stochastic)
    interrupted = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.append(number)
        generator.cancel()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        header = generator.start(prompt, lambda done, total: bool(interrupted))
        for notice in header.notices:
            print(f"note: {notice}", file=sys.stderr)
        rounds: list[Round] = []
        shown = 0
        for record in generator.rounds():
            rounds.append(record)
            if not options.json:
                shown = _show(generator.text, shown)
    finally:
        signal.signal(signal.SIGINT, before)
    end = generator.end
    assert end is not None
    if options.json:
        result = run_as_json(
            header,
            generator.settings,
            generator.rule.id,
            generator.tokens,
            generator.statistics,
            end,
            rounds,
            options.rounds,
        )
        print(json.dumps(result, allow_nan=False))
        print(end.summary, file=sys.stderr)
    else:
        _show(end.text, shown)
        print(f"\n{end.summary}")
    if end.finish_reason == "error":
        print(f"draftscope run: {end.notice}", file=sys.stderr)
        return 1
    return 130 if interrupted else 0


def _show(text: str, shown: int) -> int:
    """Print what is new of the text; returns how much of it is shown now."""
    fresh = text[shown:]
    sys.stdout.write(_harmless(fresh) if sys.stdout.isatty() else fresh)
    sys.stdout.flush()
    return len(text)


def _harmless(text: str) -> str:
    """Control characters spelled out, so that a model's text can't steer the terminal."""
    return "".join(c if c in "\n\t" or (c >= " " and not "\x7f" <= c <= "\x9f") else f"\\x{ord(c):02x}" for c in text)
