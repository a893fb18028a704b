"""Recorded runs made by hand: every number in them is the test's own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.recording import RecordedRun
from engine.rounds import CachePositions, Distributions, Draft, Emitted, ModelInfo, Round, RunEnd, RunHeader, Timings
from engine.settings import SamplerSettings, Settings
from engine.text import Vocabulary, toy_vocabulary

WORDS = (" a", " b", " c", " d")
_MODEL = ModelInfo("target", "/models/target", "toy", 0, 0, 4, None, "float32", "none")


def made_header(words: Sequence[str] = WORDS, *, sampler: SamplerSettings | None = None, **fields: Any) -> RunHeader:
    """A header; `fields` go to the settings where they have them, else to the header."""
    named = {field.name for field in dataclasses.fields(Settings)}
    settings = Settings(
        **{"seed": 1, "sampler": sampler or SamplerSettings()} | {n: fields.pop(n) for n in [*fields] if n in named}
    )
    vocabulary: Vocabulary = fields.pop("vocabulary", None) or toy_vocabulary(words)
    header = RunHeader(
        0,
        _MODEL,
        dataclasses.replace(_MODEL, name="draft"),
        "sample",
        vocabulary,
        " a",
        (0,),
        settings,
        settings.seed or 0,
        "CPU",
    )
    return dataclasses.replace(header, **fields)


def seen(p: Sequence[float], q: Sequence[float] | None = None, raw: Sequence[float] | None = None) -> Distributions:
    """Distributions over the whole vocabulary of len(p)."""

    def row(values: Sequence[float]) -> Any:
        return np.array(values, np.float32)

    stages = () if raw is None else (("raw", row(raw)), ("temperature", row(p)))
    ids = np.arange(len(p), dtype=np.int32)
    kept = None if q is None else row(q)
    return Distributions(ids, row(p), kept, None, None, stages, (), len(p), len(p), None, None)


def made_round(
    index: int, drafts: Sequence[Draft], emitted: Sequence[tuple[int, str]], *, rule: str = "stochastic", **fields: Any
) -> Round:
    """A round: `emitted` are (token, source), at positions from 0 on."""
    cache = CachePositions(0, 1, (0,), (0,), 1, 1, (1,))
    behind = tuple(Emitted(token, source, at, 0.5) for at, (token, source) in enumerate(emitted))
    made = Round(
        index,
        1,
        rule,
        "label",
        "why",
        True,
        tuple(drafts),
        behind,
        cache,
        cache,
        0,
        0,
        Timings(0.25, 0.5, 0.125, 0.125),
    )
    return dataclasses.replace(made, **fields)


def made_run(header: RunHeader, rounds: Sequence[Round]) -> RecordedRun:
    """An ended run of these rounds."""
    run = RecordedRun(header)
    for record in rounds:
        run.append(record)
    run.finish(RunEnd("length", "Enough.", "summary", header.vocabulary.decode(run.tokens), len(run), 1.0))
    return run
