"""An engine without MLX in place of app.worker.EngineRoom: it is slow or fails as told, and keeps a log."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from app.worker import PairSummary, Progress
from engine.rounds import ContentCheck, Round, RunEnd, RunHeader
from engine.settings import Settings
from engine.statistics import Statistics
from tests.gui.fakes import FakeRounds, fake_header, fake_model, fake_vocabulary


@dataclass
class Script:
    """What the fake engine does, shared by the test and the worker thread. Delays in seconds."""

    load_delay: float = 0.0
    load_steps: int = 4
    prefill_delay: float = 0.0
    prefill_chunks: int = 3
    round_delay: float = 0.0
    rounds: int = 1_000_000
    fail_load: str = ""
    fail_start: str = ""
    fail_at_round: int = -1
    end_by_error: int = -1
    fail_check: str = ""
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    threads: set[int] = field(default_factory=set)
    loading: int = 0
    most_loading: int = 0

    def note(self, *call: Any) -> None:
        self.threads.add(threading.get_ident())
        self.calls.append(call)

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]


class FakeGenerator:
    """The interface of SpeculativeGenerator over FakeRounds."""

    def __init__(self, script: Script, settings: Settings) -> None:
        self._script, self._settings = script, settings
        self._changed: dict[str, Any] = {}
        self._cancelled = False
        self.end: RunEnd | None = None
        self.header: RunHeader | None = None
        self.statistics = Statistics()
        self.host_syncs = 0
        self.check_syncs = 0

    def start(self, prompt: str, progress: Callable[[int, int], bool] | None = None) -> RunHeader:
        self._script.note("start", prompt, self._settings)
        if self._script.fail_start:
            raise ValueError(self._script.fail_start)
        total = self._script.prefill_chunks
        for done in range(1, total + 1):
            time.sleep(self._script.prefill_delay)
            if progress is not None and progress(done, total):
                self._cancelled = True
                break
        header = fake_header("stochastic", self._settings.num_draft_tokens, run_id=0)
        self.header = dataclasses.replace(header, prompt=prompt, settings=self._settings)
        return self.header

    def rounds(self) -> Iterator[Round]:
        source = FakeRounds(seed=self._settings.seed or 0, distributions=False)
        while not self._cancelled and self.statistics.rounds < self._script.rounds:
            if self.statistics.rounds == self._script.fail_at_round:
                raise RuntimeError("the verify pass broke")
            if self.statistics.rounds == self._script.end_by_error:
                self._finish("error", "non-finite logits at position 3 (target)")
                return
            time.sleep(self._script.round_delay)
            self._script.note("round", dict(self._changed))
            record = dataclasses.replace(source.next(), changed=self._changed)
            self._changed = {}
            self.statistics.add(record)
            self.host_syncs += 1
            yield record
        self._finish("cancelled" if self._cancelled else "length", "stopped" if self._cancelled else "that was all")

    def _finish(self, reason: str, notice: str) -> None:
        self.end = RunEnd(reason, notice, self.summary(), "", self.host_syncs, 0.0)

    def check_contents(self) -> ContentCheck:
        self._script.note("check", self.statistics.rounds)
        if self._script.fail_check:
            raise ValueError(self._script.fail_check)
        return ContentCheck(self.statistics.rounds - 1, 1e-6, 2e-6, 3, 0.01)

    def change(self, **live: Any) -> None:
        self._changed = {**self._changed, **live}

    def cancel(self) -> None:
        self._cancelled = True

    def summary(self) -> str:
        return f"[Speculative acceptance] rounds={self.statistics.rounds}"


class FakeRoom:
    """Takes EngineRoom's place: `Worker(engine=lambda: FakeRoom(script))`."""

    def __init__(self, script: Script) -> None:
        self._script = script
        script.note("open")

    def describe(self) -> tuple[str, str]:
        return "0.0.0", "CPU, no BLAS at all"

    def load(self, target: str, draft: str | None, progress: Progress, **options: Any) -> PairSummary:
        self._script.loading += 1
        self._script.most_loading = max(self._script.most_loading, self._script.loading)
        self._script.note("load", target, draft)
        self._script.note("options", options)
        try:
            steps = self._script.load_steps
            for step in range(steps):
                if progress("Loading", step, steps):
                    raise ValueError("loading was cancelled")
                time.sleep(self._script.load_delay / steps)
            if self._script.fail_load:
                raise ValueError(self._script.fail_load)
        finally:
            self._script.loading -= 1
        return self._pair(target)

    def load_toy(self, **options: Any) -> PairSummary:
        self._script.note("load_toy")
        return self._pair("toy")

    def _pair(self, name: str) -> PairSummary:
        def encode(text: str) -> list[int]:
            if name == "toy" and "the" not in text.split():
                raise ValueError("The toy knows only few words.")
            return list(range(len(text.split())))

        target, draft = fake_model(name, 2_200_000, 4), fake_model(name, 400_000, 2)
        if name == "toy":
            target = dataclasses.replace(target, model_type="toy")
        return PairSummary(target, draft, fake_vocabulary(), (), "CPU, no BLAS at all", encode)

    def generator(self, settings: Settings) -> FakeGenerator:
        return FakeGenerator(self._script, settings)

    def memory_bytes(self) -> tuple[int, int]:
        return 2**20, 2**21

    def close(self) -> None:
        self._script.note("close")
