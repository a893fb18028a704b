"""What is known of the bundled pair without loading it: where it lies and how large it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from app.format import millions


@dataclass(frozen=True)
class BundledPair:
    """Parameters of the two models and the size of their one vocabulary."""

    target_parameters: int
    draft_parameters: int
    vocab_size: int


@cache
def bundled_pair() -> BundledPair | str:
    """The pair, or in words why it can't be found."""
    models = Path(str(files("resources"))) / "models"
    try:
        sizes = [_parameters(models / role / "model.safetensors") for role in ("target", "draft")]
        vocab_size = json.loads((models / "target" / "config.json").read_text())["vocab_size"]
    except (OSError, ValueError, KeyError) as error:
        return f"not found: {error}"
    return BundledPair(sizes[0], sizes[1], vocab_size)


def _parameters(weights: Path) -> int:
    """Parameters of a safetensors file, by the shapes in its header."""
    with weights.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    total = 0
    for name, entry in header.items():
        if name != "__metadata__":
            count = 1
            for side in entry["shape"]:
                count *= side
            total += count
    return total


def names() -> tuple[str, str]:
    """What the boxes of the toolbar call the two models."""
    pair = bundled_pair()
    if isinstance(pair, str):
        return "bundled", "bundled"
    return f"bundled {millions(pair.target_parameters)}", f"bundled {millions(pair.draft_parameters)}"
