"""A run of the toy that is recorded step by step, as another program would."""

from __future__ import annotations

import time
from pathlib import Path

from engine.generator import SpeculativeGenerator
from engine.recording import Recording
from engine.session_writer import SessionWriter
from engine.settings import Settings
from engine.toy import toy_pair


class Writing:
    """A run of the toy that is recorded step by step."""

    def __init__(self, path: Path, max_tokens: int = 120) -> None:
        self.recording = Recording()
        self.recording.writer = SessionWriter(path)
        settings = Settings(seed=4, max_tokens=max_tokens, diagnostics=True, stochastic=True)
        self.generator = SpeculativeGenerator(toy_pair(), settings)
        self.run = self.recording.begin(self.generator.start([0, 1, 2]))
        self._rounds = self.generator.rounds()

    def go_on(self, rounds: int) -> None:
        """So many rounds more, all in the file."""
        for _ in range(rounds):
            self.run.append(next(self._rounds))
        self.commit()

    def finish(self) -> None:
        for record in self._rounds:
            self.run.append(record)
        assert self.generator.end is not None
        self.run.finish(self.generator.end)
        self.commit()

    def commit(self) -> None:
        self.run.flush()
        while self.recording.writer.waiting:
            time.sleep(0.001)
        assert self.recording.writer.failure is None

    def close(self) -> None:
        """Let go of the file."""
        self.run.close()
        self.recording.writer.close()
