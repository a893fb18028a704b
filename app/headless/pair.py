"""Loads the pair that the options name; the first place of a headless command that imports MLX."""

from __future__ import annotations

import argparse
import atexit
import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from app.format import count
from app.headless.request import UserError, drafter_kind, model_folders
from engine.drafter_kinds import parse_drafter
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
    """The toy, the given folders, or what comes with the program. Raises UserError.

    A target of one's own without a draft decodes plainly, and the run's notices say so.
    """
    target, draft = model_folders(options)
    with mendable():
        from engine.gguf_model import UnpackingError
        from engine.model_files import model_path
        from engine.model_summary import TooLargeError
        from engine.models import bundled_pair, bundled_pair_folders, load_pair
        from engine.toy import toy_pair

        for folder in filter(None, (target, draft)):
            model_path(folder)  # before either is loaded, which may take long
        _clear_streams_at_exit()
        if options.toy:
            return toy_pair()
        if target is None and draft is None:
            return bundled_pair()
        place = bundled_pair_folders()[0] if target is None else target
        try:
            return load_pair(place, draft, unpack=options.unpack, allow_large=options.allow_large)
        except TooLargeError as error:
            raise UserError(f"{error} The option is --allow-large.") from error
        except UnpackingError as error:
            raise UserError(f"{error} The option is --unpack.") from error


def load_with_draft(options: argparse.Namespace, command: str) -> Pair:
    """A pair whose draft is the network that --drafter names, for a command that chooses its own picks.

    Raises UserError for a drafter without a network, with a pick, or without its model.
    """
    drafter = parse_drafter(drafter_kind(options.drafter))
    if drafter.kind.network == "none" or drafter.pick != "sample":
        raise UserError(f"--drafter: {command} needs a network that draws from its q, not {drafter.text}")
    if drafter.kind.network == "draft" and (options.target is None) != (options.draft is None):
        raise UserError(f"{command} needs a draft model: give --target and --draft, or a --drafter made of the target")
    pair = load(options)
    with mendable():
        from engine.drafting import draft_network

        return dataclasses.replace(pair, draft=draft_network(pair, drafter.text))


@cache
def _clear_streams_at_exit() -> None:
    """Without it a process sometimes aborts at exit."""
    from engine.backend import mx

    atexit.register(mx.clear_streams)


def describe(info: ModelInfo) -> str:
    """One model in words, with its size."""
    return f"{info.name} ({count(info.parameters)} parameters, {info.model_type}, {info.dtype})"
