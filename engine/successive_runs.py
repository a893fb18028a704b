"""Runs of one prompt, one after another, until so many tokens are emitted: what labs and measurements are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from engine.rounds import Round, RunEnd, RunHeader
from engine.settings import MAX_SEED, Settings


def successive_runs(
    generator: Callable[[Settings], Any], settings: Settings, prompt: str | Sequence[int], tokens: int
) -> Iterator[RunHeader | Round | RunEnd]:
    """Yield header, rounds and end of run after run, `tokens` emitted tokens in all.

    `generator` makes a SpeculativeGenerator for settings. The first run has the seed of `settings` (drawn if it is
    None), each further one the next number. Ends early behind a run that failed, was cancelled, or emitted nothing.
    """
    seed = settings.seed
    left = tokens
    while left > 0:
        made = generator(dataclasses.replace(settings, seed=seed, max_tokens=left))
        header = made.start(prompt)
        yield header
        seed = (header.seed + 1) & MAX_SEED
        before = left
        for record in made.rounds():
            left -= len(record.emitted)
            yield record
        yield made.end
        if made.end.finish_reason in ("error", "cancelled") or left == before:
            return
