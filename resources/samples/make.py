"""Makes the sample recordings beside it: `python resources/samples/make.py`, from a clone with Draftscope installed.

On another machine the last digits of the logits differ, and then the tokens may.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from engine.forks import fork_note, settings_before
from engine.generator import SpeculativeGenerator
from engine.models import bundled_pair
from engine.recording import RecordedRun, Recording
from engine.rounds import RunHeader
from engine.session_file import SUFFIX
from engine.session_writer import SessionWriter
from engine.settings import SamplerSettings, Settings

FOLDER = Path(__file__).parent
PROMPT = "It is a truth universally acknowledged, that"
STOCHASTIC = Settings(seed=1, max_tokens=80, stochastic=True, diagnostics=True, top_n=10)
SAMPLES: dict[str, dict[str, Any]] = {
    "stochastic": {},
    "sampler-match": {"stochastic": False},
    "drift": {"rewind": "legacy-rewind"},
}
FORK_AT = 10


def main() -> None:
    """Write every sample anew."""
    pair = bundled_pair()
    for name, changes in SAMPLES.items():
        settings = dataclasses.replace(STOCHASTIC, **changes)
        recording = _recording(name)
        _record(recording, SpeculativeGenerator(pair, settings, stochastic=settings.stochastic))
        _close(recording)
    recording = _recording("fork")
    first = _record(recording, SpeculativeGenerator(pair, STOCHASTIC, stochastic=True))
    warm = dataclasses.replace(STOCHASTIC, sampler=SamplerSettings(temperature=1.2))
    _fork(recording, SpeculativeGenerator(pair, warm, stochastic=True), first)
    _close(recording)


def _recording(name: str) -> Recording:
    path = FOLDER / f"{name}{SUFFIX}"
    path.unlink(missing_ok=True)
    recording = Recording()
    recording.writer = SessionWriter(path)
    return recording


def _record(recording: Recording, generator: SpeculativeGenerator) -> RecordedRun:
    run = recording.begin(_without_folders(generator.start(PROMPT)))
    _follow(run, generator)
    return run


def _fork(recording: Recording, generator: SpeculativeGenerator, first: RecordedRun) -> None:
    rounds = [first[number] for number in range(FORK_AT)]
    header = _without_folders(generator.fork(first.header, rounds))
    note = fork_note(FORK_AT, settings_before(first.header.settings, rounds), generator.settings, None)
    run = recording.begin(dataclasses.replace(header, notices=(*header.notices, note)), (first, FORK_AT))
    for record in rounds:
        run.append(record)
    _follow(run, generator)


def _without_folders(header: RunHeader) -> RunHeader:
    """A sample says nothing of the machine that it was made on."""
    assert header.draft is not None
    target, draft = (dataclasses.replace(info, path="") for info in (header.target, header.draft))
    return dataclasses.replace(header, target=target, draft=draft)


def _follow(run: RecordedRun, generator: SpeculativeGenerator) -> None:
    for record in generator.rounds():
        run.append(record)
    assert generator.end is not None
    run.finish(generator.end)


def _close(recording: Recording) -> None:
    assert recording.writer is not None
    recording.writer.close()
    if recording.writer.failure is not None:
        raise SystemExit(recording.writer.failure)


if __name__ == "__main__":
    main()
