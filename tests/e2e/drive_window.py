"""A child process: opens the window as the command does and acts on it step by step, as a quick hand would.

    python -m tests.e2e.drive_window {fake|real} STEPS [window options]

STEPS are separated by commas: an action of the session (run, toy, load, slow, pause, step, stop; slow: ten rounds a
second), `state=NAME`, `rounds=N`, `asked` (wait; the last for a question), `sleep=MS`, `random=SEED` (80 random
clicks), `close` (the window's own), `quit`.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator

from PySide6.QtCore import QCoreApplication, QObject, QTimer
from PySide6.QtWidgets import QMessageBox, QWidget

from app.__main__ import parser
from app.session import Session
from app.window_command import open_window
from app.worker import EngineRoom
from tests.gui.fake_engine import FakeRoom, Script

SLOW = Script(load_delay=0.2, load_steps=200, prefill_delay=0.01, prefill_chunks=10, round_delay=0.002)


class Hand(QObject):
    """Does one step after the other on the GUI thread; a wait is looked at every few milliseconds."""

    def __init__(self, session: Session, window: QWidget, steps: list[str]) -> None:
        super().__init__()
        self._session, self._window = session, window
        self._program = self._work(steps)
        self._timer = QTimer(self)
        self._timer.setInterval(2)
        self._timer.timeout.connect(self._next)
        self._timer.start()

    def _next(self) -> None:
        if next(self._program, "over") == "over":
            self._timer.stop()
            print("all steps done", flush=True)

    def _actions(self) -> dict[str, Callable[[], object]]:
        session = self._session
        return {
            "run": session.start_run,
            "toy": session.load_toy,
            "run-toy": session.run_toy,
            "load": session.load,
            "slow": lambda: session.set_pace(0.1),
            "pause": session.toggle_pause,
            "step": session.step_round,
            "stop": session.stop,
            "close": self._window.close,
            "quit": QCoreApplication.quit,
        }

    def _work(self, steps: list[str]) -> Iterator[None]:
        actions = self._actions()
        for step in steps:
            name, _, value = step.partition("=")
            if name == "state":
                yield from self._until(lambda value=value: self._session.state == value)
            elif name == "rounds":
                yield from self._until(lambda value=value: self._rounds() >= int(value))
            elif name == "sleep":
                yield from self._sleep(int(value))
            elif name == "asked":
                yield from self._until(lambda: self._window.findChild(QMessageBox) is not None)
            elif name == "random":
                yield from self._click_about(random.Random(value))
            else:
                actions[name]()
                yield

    def _rounds(self) -> int:
        return len(self._session.view.run) if self._session.view.run is not None else 0

    def _until(self, holds: Callable[[], bool]) -> Iterator[None]:
        while not holds():
            yield

    def _sleep(self, milliseconds: int) -> Iterator[None]:
        over: list[bool] = []
        QTimer.singleShot(milliseconds, self, lambda: over.append(True))
        yield from self._until(lambda: bool(over))

    def _click_about(self, dice: random.Random) -> Iterator[None]:
        actions = self._actions()
        names = [name for name in actions if name not in ("close", "quit")]
        for _ in range(80):
            actions[dice.choice(names)]()
            if dice.random() < 0.4:
                yield from self._sleep(dice.choice((0, 3, 20)))


def main(kind: str, steps: str, *options: str) -> int:
    hands: list[Hand] = []
    engine: Callable[[], object] = EngineRoom if kind == "real" else lambda: FakeRoom(SLOW)
    return open_window(
        parser().parse_args(options),
        engine,
        lambda session, window: hands.append(Hand(session, window, steps.split(","))),
    )


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
