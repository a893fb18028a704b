"""The models on this machine: the bundled pair, and what lies in the Hub's cache. No MLX, no network."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine import model_files
from engine.hub import cache_folder, cached_snapshot
from engine.model_files import LoadError
from engine.model_summary import ModelSummary, describe_source


@dataclass(frozen=True)
class LocalModel:
    """A model that was found. `name` loads it: an id, "bundled target" aside. `problem`: why it can't be loaded, or "".

    `kind`: "bundled", "cache" (of Hugging Face), or "gguf" (a GGUF file in that cache). `file_bytes`: on disk.
    """

    name: str
    kind: str
    path: Path
    file_bytes: int
    summary: ModelSummary | None
    problem: str = ""

    @property
    def architecture(self) -> str:
        """What kind of network it is, "" where that can't be told."""
        return self.summary.architecture if self.summary is not None else ""


def bundled_folders() -> tuple[Path, Path]:
    """(target, draft): where the pair lies that comes with the program, whether it is there or not."""
    models = Path(str(importlib.resources.files("resources"))) / "models"
    return models / "target", models / "draft"


def local_models(on_cpu: bool) -> list[LocalModel]:
    """Every model found, the bundled pair first; one that can't be loaded is listed with the reason.

    `on_cpu` as in `describe_source`.
    """
    found = [
        _described(f"bundled {folder.name}", "bundled", folder, on_cpu)
        for folder in bundled_folders()
        if folder.is_dir()
    ]
    return found + [model for hub_id in _cached_ids() for model in _cached(hub_id, on_cpu)]


def _cached_ids() -> list[str]:
    try:
        names = sorted(entry.name for entry in cache_folder().iterdir() if entry.name.startswith("models--"))
    except OSError:
        return []  # no cache yet
    ids = [name.removeprefix("models--").replace("--", "/", 1) for name in names]
    return [hub_id for hub_id in ids if model_files.looks_like_hub_id(hub_id)]


def _cached(hub_id: str, on_cpu: bool) -> Iterator[LocalModel]:
    """The model of a cached repository, or each of its GGUF files; nothing for what is no language model."""
    folder = cached_snapshot(hub_id)
    if folder is None:
        return
    files = sorted(folder.glob("*" + model_files.GGUF_SUFFIX))
    if any(folder.glob(model_files.WEIGHT_PATTERN)):
        yield _described(hub_id, "cache", folder, on_cpu)
    for file in files:
        yield _described(str(file) if len(files) > 1 else hub_id, "gguf", file, on_cpu)


def _described(name: str, kind: str, path: Path, on_cpu: bool) -> LocalModel:
    try:
        size = sum(entry.stat().st_size for entry in ([path] if path.is_file() else path.iterdir()) if entry.is_file())
        summary = describe_source(path, on_cpu)
    except LoadError as error:
        return LocalModel(name, kind, path, size, None, str(error))
    except OSError as error:
        return LocalModel(name, kind, path, 0, None, f"can't be read ({error})")
    return LocalModel(name, kind, path, size, summary)
