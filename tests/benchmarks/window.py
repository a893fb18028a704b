"""How much work the window does for each frame at full speed, and what it costs the engine.

    python -m tests.benchmarks.window [--rounds 10000] [--bundled]

GUI work is the CPU time of the GUI thread between two looks, 33 ms apart. The engine's speed is compared with the same
run without a window, in a process of its own. Figures depend on the machine and on what else it does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import numpy as np

FRAME = 33  # ms

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


def main() -> None:
    """Run and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10000)
    parser.add_argument("--bundled", action="store_true", help="the bundled pair, in many runs, instead of the toy")
    options = parser.parse_args()
    before = headless(options)

    from PySide6.QtCore import QTimer
    from PySide6.QtWidgets import QApplication

    from app import theme
    from app.main_window import MainWindow
    from app.session import Session
    from engine.settings import Settings

    application = QApplication(sys.argv)
    theme.apply(application, "light")
    session = Session()
    window = MainWindow(session)
    window.resize(1440, 900)
    window.show()
    tokens = 900 if options.bundled else -1
    session.configure(None, Settings(max_tokens=tokens, seed=1, stochastic=True, diagnostics=True))
    session.set_pace(0.0)
    frames: list[tuple[int, float]] = []
    state = {"cpu": time.thread_time(), "seconds": 0.0, "done": 0, "last": time.perf_counter()}

    def look() -> None:
        now, cpu = time.perf_counter(), time.thread_time()
        count = sum(len(run) for run in session.recording.runs)
        if session.state == "running" and count > state["done"]:
            frames.append((count, (cpu - state["cpu"]) * 1e3))
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
    timer.start(FRAME)
    session.run_pair() if options.bundled else session.run_toy()
    application.exec()
    window.close()
    session.shutdown()
    after = headless(options)

    counts, work = np.array([f[0] for f in frames]), np.array([f[1] for f in frames])

    def work_of(low: int, high: int) -> dict[str, float]:
        chosen = work[(counts > low) & (counts <= high)]
        return {"median_ms": float(np.median(chosen)), "p95_ms": float(np.quantile(chosen, 0.95)), "n": len(chosen)}

    in_window = state["done"] / state["seconds"]
    result = {
        "gui_work_per_frame": {
            "all": work_of(0, 10**9),
            "first_tenth": work_of(100, options.rounds // 10),
            "last_tenth": work_of(options.rounds * 9 // 10, 10**9),
        },
        "rounds_per_second": {"window": in_window, "headless": [before, after]},
        "window_over_headless": in_window / ((before + after) / 2),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
