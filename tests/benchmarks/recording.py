"""What recording costs: tokens a second with and without a session file, in turns, and how far the file is behind.

    python -m tests.benchmarks.recording [--samples 15] [--tokens 200] [--temp 0.7] [--plain] [--full-vocabulary]

Three arms take turns in one process, in every order: "off" (no record of p and q), "memory" (the record alone)
and "file" (the record, kept in a session file). Each sample is one run of the bundled pair, with a seed that its turn's
other arms share. The ratios are taken turn by turn; shown are their median and its 95 % bootstrap interval. The lag of
the file is taken at each round: rounds and batches that were not committed yet, and the age of the oldest of them.
Beside the tokens a second of the clock stand those of the processor: all threads of the process, the writer's included.
They hold on a loaded machine, too, and tell the most that recording can cost.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.generator import SpeculativeGenerator
from engine.models import Pair, bundled_pair
from engine.recording import BATCH_ROUNDS, BATCH_SECONDS, Recording
from engine.session_writer import SessionWriter
from engine.settings import SamplerSettings, Settings

PROMPT = "It is a truth universally acknowledged, that"
ARMS = ("off", "memory", "file")
RATIOS = (("file", "memory"), ("file", "off"), ("memory", "off"))
GOAL = 0.95


@dataclass
class Lag:
    """The most that a file was behind, over all samples."""

    rounds: int = 0
    batches: int = 0
    seconds: float = 0.0

    def see(self, rounds: int, batches: int, seconds: float) -> None:
        self.rounds, self.batches = max(self.rounds, rounds), max(self.batches, batches)
        self.seconds = max(self.seconds, seconds)


@dataclass
class Found:
    """Tokens a second of each sample, by arm: of the clock, and of the processor."""

    speeds: dict[str, list[float]] = field(default_factory=lambda: {arm: [] for arm in ARMS})
    cpu_speeds: dict[str, list[float]] = field(default_factory=lambda: {arm: [] for arm in ARMS})
    lag: Lag = field(default_factory=Lag)
    bytes_per_round: list[float] = field(default_factory=list)


def sample(pair: Pair, settings: Settings, arm: str, folder: Path, found: Found) -> None:
    """Take one run, from its first round to its last; the file is drained behind the clock, within the CPU's time."""
    recording = Recording()
    path = folder / "a.draftscope"
    if arm == "file":
        recording.writer = SessionWriter(path)
    generator = SpeculativeGenerator(pair, settings, stochastic=settings.stochastic)
    run = recording.begin(generator.start(PROMPT))
    writer, came = recording.writer, []
    gc.collect()  # what the sample before left must not be paid for by this one
    began, began_cpu = time.perf_counter(), time.process_time()
    for record in generator.rounds():
        run.append(record)
        if writer is not None:
            came.append(time.perf_counter())
            safe = writer.committed(1)
            behind = len(came) - safe
            found.lag.see(behind, writer.waiting, came[-1] - came[safe] if behind else 0.0)
    seconds = time.perf_counter() - began
    if writer is not None:
        run.flush()
        writer.close()
        if writer.failure is not None:
            raise SystemExit(f"nothing was measured: {writer.failure}")
        run.close()
        found.bytes_per_round.append(path.stat().st_size / len(came))
        path.unlink()
    found.speeds[arm].append(len(generator.tokens) / seconds)
    found.cpu_speeds[arm].append(len(generator.tokens) / (time.process_time() - began_cpu))


def measure(pair: Pair, settings: Settings, samples: int) -> Found:
    found, orders = Found(), list(itertools.permutations(ARMS))
    with tempfile.TemporaryDirectory(prefix="draftscope-bench-") as folder:
        for arm in ARMS:  # compiled, allocated and read once
            sample(pair, settings, arm, Path(folder), Found())
        for turn in range(samples):
            fields = {f: getattr(settings, f) for f in settings.__dataclass_fields__}
            seeded = Settings(**{**fields, "seed": turn + 1})
            for arm in orders[turn % len(orders)]:
                wanted = seeded if arm != "off" else Settings(**{**fields, "seed": turn + 1, "record": False})
                sample(pair, wanted, arm, Path(folder), found)
    return found


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(median, low and high end of its 95 % bootstrap interval)."""
    drawn = np.random.default_rng(1).choice(np.asarray(values), (4000, len(values)))
    low, high = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return statistics.median(values), float(low), float(high)


def report(found: Found, settings: Settings) -> dict[str, object]:

    def ratios(speeds: dict[str, list[float]]) -> dict[str, tuple[float, float, float]]:
        pairs = {f"{a}_vs_{b}": zip(speeds[a], speeds[b], strict=True) for a, b in RATIOS}
        return {name: median_interval([x / y for x, y in pair]) for name, pair in pairs.items()}

    return {
        "samples": len(found.speeds["off"]),
        "tokens": settings.max_tokens,
        "temperature": settings.sampler.temperature,
        "diagnostics": settings.diagnostics,
        "full_vocabulary": settings.full_vocabulary,
        "load_average": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "tokens_per_second": {arm: median_interval(speeds) for arm, speeds in found.speeds.items()},
        "ratios": ratios(found.speeds),
        "cpu_tokens_per_second": {arm: median_interval(speeds) for arm, speeds in found.cpu_speeds.items()},
        "cpu_ratios": ratios(found.cpu_speeds),
        "goal": {"file_vs_memory": GOAL},
        "lag": {
            "rounds": found.lag.rounds,
            "batches": found.lag.batches,
            "seconds": found.lag.seconds,
            "bounds": {"rounds": BATCH_ROUNDS, "seconds": BATCH_SECONDS},
        },
        "bytes_per_round": statistics.median(found.bytes_per_round),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=15)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--temp", type=float, default=0.7)
    parser.add_argument("--plain", action="store_true", help="without diagnostics")
    parser.add_argument("--full-vocabulary", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    settings = Settings(
        sampler=SamplerSettings(temperature=options.temp),
        max_tokens=options.tokens,
        seed=1,
        stochastic=True,
        diagnostics=not options.plain,
        full_vocabulary=options.full_vocabulary,
    )
    found = report(measure(bundled_pair(), settings, options.samples), settings)
    if options.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        if isinstance(value, dict):
            for inner, number in value.items():
                print(f"{name} {inner}: {_shown(number)}")
        else:
            print(f"{name}: {_shown(value)}")


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"{value[0]:.3f} [{value[1]:.3f}, {value[2]:.3f}]"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
