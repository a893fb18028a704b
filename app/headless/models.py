"""Which pair a command runs on."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.cli import UsageError

if TYPE_CHECKING:
    from engine.models import Pair


def load(options: argparse.Namespace) -> Pair:
    """The toy, the folders that were named, or the bundled pair. Raises LoadError, UsageError."""
    if options.toy:
        if options.target or options.draft:
            raise UsageError("--toy: expected no --target or --draft beside it")
        from engine.toy import toy_pair

        return toy_pair()
    from engine.models import bundled_pair, load_pair

    if options.target is None:
        if options.draft is not None:
            raise UsageError("--draft: expected a --target, too; its tokenizer must be the same")
        return bundled_pair()
    return load_pair(options.target, options.draft)
