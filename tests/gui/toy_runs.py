"""Recorded runs of the toy with cache faults, by the real engine: a few rounds, seeded."""

from __future__ import annotations

from typing import Any

from engine.generator import SpeculativeGenerator
from engine.recording import RecordedRun
from engine.settings import Settings
from engine.toy import toy_pair


def toy_run(
    rounds: int = 20, checks: tuple[int, ...] = (), changes: dict[int, dict[str, Any]] | None = None, **settings: Any
) -> RecordedRun:
    """So many rounds; contents are checked behind `checks`, live settings change behind the rounds of `changes`."""
    asked = Settings(max_tokens=-1, seed=3, diagnostics=True, **settings)
    generator = SpeculativeGenerator(toy_pair(), asked, stochastic=True)
    run = RecordedRun(generator.start("the cat"))
    source = generator.rounds()
    for index in range(rounds):
        run.append(next(source))
        if index in checks:
            run.add_check(generator.check_contents())
        generator.change(**(changes or {}).get(index, {}))
    return run
