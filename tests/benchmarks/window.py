"""How much work the window does for each frame at full speed, and what it costs the engine.

    python -m tests.benchmarks.window [--rounds 10000] [--bundled]

`gui_work_per_frame` is all CPU time of the GUI thread from one frame's beginning (taking rounds in, refreshing panels,
painting) to the next one's, whatever it went to. `gui_cpu_share` is that thread's CPU time over the time that passed.
`panel_refreshes_per_second`: a frame gives a turn only to as many panels as its budget allows. The engine's speed is
compared in two ways: `frames_over_no_frames`, in this process, by seconds with frames and seconds in which rounds only
queue up, in turn, which other load on the machine hits alike; and `window_over_headless`, with the same run without a
window, in a process of its own before and after, which is fair on an idle machine alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np

if TYPE_CHECKING:
    from app.session import Session

LOOK = 33  # ms between two looks at how far the run is
PHASE = 2.0  # seconds with frames, and then without
SETTLING = 0.4  # seconds after these in which frames take in what has queued up, and aren't counted

HEADLESS = """
import json, sys, time
from engine import Settings, SpeculativeGenerator, bundled_pair, toy_pair
bundled, rounds = sys.argv[1] == "True", int(sys.argv[2])
pair = bundled_pair() if bundled else toy_pair()
settings = Settings(max_tokens=900 if bundled else -1, seed=1, stochastic=True, diagnostics=True)
generator = SpeculativeGenerator(pair, settings, stochastic=True)
done, spent = 0, 0.0
while done < rounds:
    generator.start("It is a truth universally acknowledged, that" if bundled else "the cat sat on")
    began = time.perf_counter()
    for record in generator.rounds():
        done += 1
        if done >= rounds:
            break
    spent += time.perf_counter() - began
print(done / spent)
"""


def headless(options: argparse.Namespace) -> float:
    """Rounds a second without a window."""
    command = [sys.executable, "-c", HEADLESS, str(options.bundled), str(min(options.rounds, 1500))]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


class Frames:
    """Every frame of a session as it is made: (rounds recorded, milliseconds of CPU, seconds) until the next one."""

    def __init__(self, session: Session) -> None:
        self.seen: list[tuple[int, float, float]] = []
        self._session = session
        self.held = False
        self._from = 0.0
        self._last: tuple[float, float] | None = None
        session._frame_timer.timeout.disconnect()
        session._frame_timer.timeout.connect(self._begin)

    def rounds(self) -> int:
        """Rounds recorded in all runs."""
        return sum(len(run) for run in self._session.recording.runs)

    def hold(self, held: bool) -> None:
        """Make no frames, or go on as if they had come all the while."""
        self.held, self._last = held, None
        if not held:
            self._session._ended = time.perf_counter()
            self._from = self._session._ended + SETTLING
            self._session._on_arrived()

    def _begin(self) -> None:
        if self.held:
            return
        cpu, now = time.thread_time(), time.perf_counter()
        if self._last is not None and self._session.state == "running" and self._last[1] > self._from:
            self.seen.append((self.rounds(), (cpu - self._last[0]) * 1e3, now - self._last[1]))
        self._last = cpu, now
        self._session._frame()


class Phases:
    """Rounds made with frames and without, in turn. A phase in which a run began or ended doesn't count."""

    def __init__(self, frames: Frames, session: Session) -> None:
        self.speeds: dict[bool, list[float]] = {True: [], False: []}
        self._frames, self._session = frames, session
        self._began, self._made, self._runs = time.perf_counter(), 0, 0

    def look(self) -> None:
        """Change over when it is time."""
        now, session = time.perf_counter(), self._session
        seconds = now - self._began
        if seconds < PHASE:
            return
        made, runs = self._frames.rounds() + session.worker.waiting, len(session.recording.runs)
        if session.state == "running" and runs == self._runs and made > self._made:
            self.speeds[not self._frames.held].append((made - self._made) / seconds)
        self._frames.hold(not self._frames.held)
        self._began, self._made, self._runs = now, made, runs

    def median(self, with_frames: bool) -> float:
        """Rounds a second; NaN where no phase was long enough."""
        speeds = self.speeds[with_frames]
        return float(np.median(speeds)) if speeds else float("nan")


def count_turns(turns: Counter[str]) -> None:
    """Count what each panel's turns are."""
    from app.turns import Turns

    give = Turns._give

    def counted(self: Turns, member: Any) -> None:
        widget = member.widget()
        turns["the rest" if widget is None else widget.objectName()] += 1
        give(self, member)

    Turns._give = counted  # type: ignore[method-assign]


def main() -> None:
    """Run and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10000)
    parser.add_argument("--bundled", action="store_true", help="the bundled pair, in many runs, instead of the toy")
    options = parser.parse_args()
    before = headless(options)

    from PySide6.QtCore import QSettings, QTimer
    from PySide6.QtWidgets import QApplication

    from app import theme
    from app.main_window import MainWindow
    from app.session import Session
    from app.settings_store import SettingsStore
    from engine.settings import Settings

    application = QApplication(sys.argv)
    theme.apply(application, "light")
    session = Session()
    # The layout as it comes, whatever a person has made of it.
    scratch = tempfile.TemporaryDirectory()
    store = SettingsStore(QSettings(f"{scratch.name}/settings.ini", QSettings.Format.IniFormat))
    window = MainWindow(session, store)
    window.resize(1440, 900)
    window.show()
    tokens = 900 if options.bundled else -1
    session.configure(None, Settings(max_tokens=tokens, seed=1, stochastic=True, diagnostics=True))
    session.set_pace(0.0)
    frames = Frames(session)
    phases = Phases(frames, session)
    turns = Counter[str]()
    count_turns(turns)
    state = {"cpu": time.thread_time(), "seconds": 0.0, "busy": 0.0, "done": 0, "last": time.perf_counter()}

    def look() -> None:
        now, cpu = time.perf_counter(), time.thread_time()
        count = frames.rounds()
        phases.look()
        if session.state == "running" and not frames.held:
            state["busy"] += cpu - state["cpu"]
            state["seconds"] += now - state["last"]
        state["done"] = count
        state["cpu"], state["last"] = cpu, now
        if count >= options.rounds:
            session.stop()
            application.quit()
        elif session.state == "ready":
            session.run_pair() if options.bundled else session.run_toy()

    timer = QTimer()
    timer.timeout.connect(look)
    timer.start(LOOK)
    session.run_pair() if options.bundled else session.run_toy()
    application.exec()
    window.close()
    session.shutdown()
    after = headless(options)

    counts, work, gaps = (np.array(column) for column in zip(*frames.seen, strict=True))

    def work_of(low: int, high: int) -> dict[str, float]:
        chosen = work[(counts > low) & (counts <= high)]
        return {"median_ms": float(np.median(chosen)), "p95_ms": float(np.quantile(chosen, 0.95)), "n": len(chosen)}

    with_frames, without = phases.median(True), phases.median(False)
    result = {
        "gui_work_per_frame": {
            "all": work_of(0, 10**9),
            "first_tenth": work_of(100, options.rounds // 10),
            "last_tenth": work_of(options.rounds * 9 // 10, 10**9),
        },
        "frames_per_second": float(1 / np.mean(gaps[gaps < 1])),
        "gui_cpu_share": state["busy"] / state["seconds"],
        "panel_refreshes_per_second": {name: number / state["seconds"] for name, number in sorted(turns.items())},
        "rounds_per_second": {"frames": with_frames, "no_frames": without, "headless": [before, after]},
        "phases": len(phases.speeds[True]) + len(phases.speeds[False]),
        "frames_over_no_frames": with_frames / without,
        "window_over_headless": with_frames / ((before + after) / 2),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
