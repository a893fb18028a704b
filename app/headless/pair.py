"""Loads the pair that the options name; the first place of a headless command that imports MLX."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from app.format import count
from app.headless.request import UserError, model_folders
from engine.rounds import ModelInfo
from engine.settings import SettingsError

if TYPE_CHECKING:
    from engine.models import Pair


@contextmanager
def mendable() -> Iterator[None]:
    """Turns what the engine refuses into a UserError."""
    try:
        from engine.generator import PromptError
        from engine.model_files import LoadError
    except ImportError as error:  # engine.backend words it when MLX is missing
        raise UserError(str(error)) from error
    try:
        yield
    except (SettingsError, PromptError, LoadError) as error:
        raise UserError(str(error)) from error


def load(options: argparse.Namespace) -> Pair:
    """The toy, the given folders, or the bundled pair. Raises UserError."""
    target, draft = model_folders(options)
    with mendable():
        from engine.models import bundled_pair, load_pair
        from engine.toy import toy_pair

        if options.toy:
            return toy_pair()
        return bundled_pair() if target is None else load_pair(target, draft)


def describe(info: ModelInfo) -> str:
    """One model in words, with its size."""
    return f"{info.name} ({count(info.parameters)} parameters, {info.model_type}, {info.dtype})"
