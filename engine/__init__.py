"""The speculative decoding engine. Importing it is cheap: MLX comes with the first name that needs it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.generator import SpeculativeGenerator
    from engine.models import bundled_pair, load_pair
    from engine.rounds import Round, RunEnd, RunHeader
    from engine.settings import SamplerSettings, Settings
    from engine.toy import toy_pair

__all__ = [
    "Round",
    "RunEnd",
    "RunHeader",
    "SamplerSettings",
    "Settings",
    "SpeculativeGenerator",
    "bundled_pair",
    "load_pair",
    "toy_pair",
]

_HOMES = {
    "Round": "rounds",
    "RunEnd": "rounds",
    "RunHeader": "rounds",
    "SamplerSettings": "settings",
    "Settings": "settings",
    "SpeculativeGenerator": "generator",
    "bundled_pair": "models",
    "load_pair": "models",
    "toy_pair": "toy",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value  # the next access finds it without this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
