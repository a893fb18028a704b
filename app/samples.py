"""The recordings that come with the program: to be looked at without any model."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from engine.session_file import SUFFIX


@dataclass(frozen=True)
class Sample:
    """A recording: what it is called, what there is to see, where it lies."""

    title: str
    about: str
    path: Path


_SAMPLES = (
    ("stochastic", "The right rule", "Modified rejection sampling."),
    ("sampler-match", "The rule it replaces", "The same run under sampler-match."),
    ("drift", "A rewind bug", "legacy-rewind: the cache drifts."),
    ("fork", "A fork", "Warmer from round 10 on."),
)


def samples() -> list[Sample]:
    """Those of this installation."""
    folder = Path(str(files("resources"))) / "samples"
    found = [Sample(title, about, folder / f"{name}{SUFFIX}") for name, title, about in _SAMPLES]
    return [sample for sample in found if sample.path.is_file()]
