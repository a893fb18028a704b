"""The tokenizer's files of a model's folder: are they there, and how much longer can a tokenizer.json make a text.

Damage or malice can make one letter fill the memory; the library that reads the file neither asks nor stops. No MLX.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from engine.model_files import LoadError, contents_of, read_json

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tiktoken.model", "vocab.json", "vocab.txt", "*.tiktoken")
MAX_GROWTH = 1000.0
"""Times that the steps before or behind a tokenizer may multiply a text's bytes; the usual ones stay below 10."""
MAX_ADDED = 1000
"""Ids that may be put around a text; BOS and EOS are 2."""

_PARTS = ("normalizers", "pretokenizers", "decoders", "processors")
_DEPTH = 100  # steps within steps; what is deeper, the library that reads it refuses


def check_tokenizer(folder: Path) -> None:
    """Raise LoadError if no file of the folder can be a tokenizer, or tokenizer.json is broken or without bounds."""
    if not any(any(folder.glob(pattern)) for pattern in TOKENIZER_FILES):
        raise LoadError(f"tokenizer not found in {folder}: expected tokenizer.json, {contents_of(folder)}.")
    path = folder / "tokenizer.json"
    if path.exists():
        _check_growth(path, read_json(path))


def _check_growth(place: Path, tokenizer: dict[str, Any]) -> None:
    for name in ("normalizer", "pre_tokenizer", "decoder"):
        growth = _growth(tokenizer.get(name))
        if growth > MAX_GROWTH:
            raise LoadError(
                f"{place}: its {name} could make a text {growth:.3g} times as long, where at most {MAX_GROWTH:g} times "
                "are allowed. The file is damaged, or meant to fill the memory."
            )
    added = _added(tokenizer.get("post_processor"))
    if added > MAX_ADDED:
        raise LoadError(f"{place}: its post_processor puts {added} ids around a text: expected at most {MAX_ADDED}.")


def _steps(part: Any) -> list[Any]:
    found = [part[name] for name in _PARTS if isinstance(part.get(name), list)] if isinstance(part, dict) else []
    return [step for steps in found for step in steps]


def _size(value: Any) -> int:
    return len(value.encode("utf-8", "replace")) if isinstance(value, str) else 0


def _growth(part: Any, depth: int = 0) -> float:
    """An upper bound of the length of what comes out over what goes in, both in bytes."""
    if not isinstance(part, dict) or depth > _DEPTH:
        return 1.0
    content = _size(part.get("content"))
    if part.get("type") == "Replace":
        pattern = part.get("pattern")
        plain = _size(pattern.get("String")) if isinstance(pattern, dict) else 0
        return max(content / plain, 1.0) if plain else 1.0 + content  # a pattern may match before every letter
    if part.get("type") == "Prepend":
        return 1.0 + _size(part.get("prepend"))
    return min(math.prod((_growth(step, depth + 1) for step in _steps(part)), start=1.0), 1e300)


def _added(part: Any, depth: int = 0) -> int:
    """Ids that a post-processor puts around a text."""
    if not isinstance(part, dict) or depth > _DEPTH:
        return 0
    known, template = part.get("special_tokens"), part.get("single")
    total = sum(_added(step, depth + 1) for step in _steps(part))
    if not isinstance(known, dict) or not isinstance(template, list):
        return total
    for piece in template:
        name = piece.get("SpecialToken") if isinstance(piece, dict) else None
        entry = known.get(name["id"]) if isinstance(name, dict) and isinstance(name.get("id"), str) else None
        ids = entry.get("ids") if isinstance(entry, dict) else None
        total += len(ids) if isinstance(ids, list) else 0
    return total
