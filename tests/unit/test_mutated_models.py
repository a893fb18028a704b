"""Damaged folders and GGUF files load or are refused in words: a sample of what the benchmark of that name runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "mutated_models.py"


def test_damaged_models_are_refused_in_words() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--count", "150"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "150 cases: " in done.stdout
    assert "refused" in done.stdout
    assert "loaded" in done.stdout
