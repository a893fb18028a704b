"""Models of the Hugging Face Hub: those in its local cache, without the network; and downloads that the user asked for.

No MLX. Only `download_plan` and `download_model` use the network, and only for an id that the user confirmed.
"""

from __future__ import annotations

import fnmatch
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.model_files import (
    WEIGHT_PATTERN,
    LoadError,
    Progress,
    in_short,
    looks_like_hub_id,
    report,
)

HUB_PATTERNS = ("*.json", WEIGHT_PATTERN, "tokenizer.model", "*.tiktoken", "*.txt", "*.jinja")
"""What a download fetches: weights, configuration and tokenizer, no code and no pickle."""


@dataclass(frozen=True)
class DownloadPlan:
    """What a download would fetch: its revision, (file name, bytes) of each, and how many bytes are still to come."""

    hub_id: str
    revision: str
    files: tuple[tuple[str, int], ...]
    missing_bytes: int

    @property
    def total_bytes(self) -> int:
        """Bytes of all files, those that are in the cache too."""
        return sum(size for _, size in self.files)


def cache_folder() -> Path:
    """Where the Hub's client keeps what it has fetched."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def cached_snapshot(hub_id: str) -> Path | None:
    """The folder of a model in the local cache: its main branch, else what was fetched last; None: not there."""
    if not looks_like_hub_id(hub_id):
        return None
    repository = cache_folder() / ("models--" + hub_id.strip().replace("/", "--"))
    try:
        places = sorted((repository / "snapshots").iterdir(), key=lambda place: place.stat().st_mtime, reverse=True)
    except OSError:
        return None
    try:
        main = (repository / "refs" / "main").read_text().strip()
    except (OSError, ValueError):
        main = ""
    places.sort(key=lambda place: place.name != main)
    return next((place for place in places if place.is_dir() and any(place.iterdir())), None)


def _checked(hub_id: str) -> str:
    hub_id = hub_id.strip()
    if not looks_like_hub_id(hub_id):
        raise LoadError(f"Expected a Hugging Face id such as owner/name, got {hub_id!r}.")
    return hub_id


def download_plan(hub_id: str) -> DownloadPlan:
    """What `download_model` would fetch, with sizes; asks the Hub, fetches nothing. Raises LoadError."""
    hub_id = _checked(hub_id)
    from huggingface_hub import HfApi, try_to_load_from_cache

    try:
        info = HfApi().model_info(hub_id, files_metadata=True)
    except Exception as error:  # network, or a repository that isn't there
        raise LoadError(f"{hub_id} can't be looked up ({in_short(error)}).") from error
    revision = str(info.sha)
    files = tuple(
        sorted(
            (file.rfilename, int(file.size or 0))
            for file in info.siblings or ()
            if any(fnmatch.fnmatch(file.rfilename, pattern) for pattern in HUB_PATTERNS)
        )
    )
    if not any(fnmatch.fnmatch(name, WEIGHT_PATTERN) for name, _ in files):
        raise LoadError(f"{hub_id} has no weights that Draftscope fetches: expected {WEIGHT_PATTERN}.")
    missing = sum(
        size for name, size in files if not isinstance(try_to_load_from_cache(hub_id, name, revision=revision), str)
    )
    return DownloadPlan(hub_id, revision, files, missing)


def download_model(hub_id: str, progress: Progress | None = None) -> Path:
    """Fetch a model into the Hub's cache; returns the folder. Files that are there already are not fetched again.

    `progress` is told MiB, and can cancel between two pieces; files that came whole are kept for the next attempt.
    """
    report(progress, f"Looking up {_checked(hub_id)}")
    plan = download_plan(hub_id)
    _check_disk(plan)
    from huggingface_hub import hf_hub_download, snapshot_download

    counter = _Counter(plan, progress)
    try:
        with _without_xet():
            for name, size in plan.files:
                counter.start(size)
                hf_hub_download(plan.hub_id, name, revision=plan.revision, tqdm_class=_bar_class(counter.add))
                counter.finish()
            # All is there: this only looks whether it is complete, and notes it as the main branch.
            return Path(
                snapshot_download(plan.hub_id, allow_patterns=[name for name, _ in plan.files], tqdm_class=_bar_class())
            )
    except LoadError:
        raise
    except Exception as error:  # network, disk, or a repository that is closed
        raise LoadError(f"{plan.hub_id} can't be downloaded ({in_short(error)}).") from error


def _check_disk(plan: DownloadPlan) -> None:
    place = cache_folder()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if plan.missing_bytes > free:
        raise LoadError(
            f"{plan.hub_id} needs {plan.missing_bytes >> 20} MiB on the disk of {place}, where {free >> 20} are free."
        )


def _bar_class(add: Callable[[int], None] | None = None) -> Any:
    """A progress bar for the Hub's client that shows nothing; what it is told goes to `add`."""
    from tqdm import tqdm

    class Bar(tqdm):
        def __init__(self, *values: Any, **options: Any) -> None:
            super().__init__(*values, **{**options, "disable": True})
            self.update(options.get("initial") or 0)

        def update(self, n: float | None = 1) -> None:
            if add is not None:
                add(int(n or 0))

    return Bar


@contextmanager
def _without_xet() -> Iterator[None]:
    """Plain HTTP: the Xet transfer runs in a library's own threads, which a progress function can't stop."""
    from huggingface_hub import constants

    before = constants.HF_HUB_DISABLE_XET
    constants.HF_HUB_DISABLE_XET = True
    try:
        yield
    finally:
        constants.HF_HUB_DISABLE_XET = before


class _Counter:
    """Bytes over all files of a download, told to the progress function."""

    def __init__(self, plan: DownloadPlan, progress: Progress | None) -> None:
        self._plan, self._progress = plan, progress
        self._finished = self._size = self._come = 0

    def start(self, size: int) -> None:
        self._size, self._come = size, 0
        self._tell()

    def finish(self) -> None:
        self._finished += self._size
        self._come = 0
        self._tell()

    def add(self, count: int) -> None:
        self._come += count
        self._tell()

    def _tell(self) -> None:
        done = self._finished + min(self._come, self._size)
        report(self._progress, f"Downloading {self._plan.hub_id} (MiB)", done >> 20, self._plan.total_bytes >> 20)
