"""The environment switches, read once per process."""

from __future__ import annotations

import os
from functools import cache

from engine.settings import SettingsError

STOCHASTIC = "MLXCEL_SPECULATIVE_STOCHASTIC_ACCEPT"
DIAGNOSTICS = "MLXCEL_SPECULATIVE_ACCEPT_DIAG"
DISTRIBUTION_SAMPLES = "MLXCEL_SPEC_DIST_SAMPLES"

_SPELLINGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def parse_switch(name: str, value: str | None) -> bool | None:
    """True, False, or None if unset; case and white space don't matter. Raises SettingsError for anything else."""
    if value is None:
        return None
    word = value.strip().lower()
    if word not in _SPELLINGS:
        raise SettingsError(f"{name}: expected one of {', '.join(_SPELLINGS)}, or unset; got {value!r}")
    return _SPELLINGS[word]


@cache
def stochastic_from_environment() -> bool | None:
    """True opts in to `stochastic`, False is the kill switch, None: unset."""
    return parse_switch(STOCHASTIC, os.environ.get(STOCHASTIC))


@cache
def diagnostics_from_environment() -> bool:
    """Whether the closed forms are computed for every rule."""
    return bool(parse_switch(DIAGNOSTICS, os.environ.get(DIAGNOSTICS)))


def distribution_samples() -> int:
    """Tokens drawn by the distribution tests, 12,000 unless set."""
    value = os.environ.get(DISTRIBUTION_SAMPLES, "12000")
    if not value.strip().isdecimal() or int(value) < 1:
        raise SettingsError(f"{DISTRIBUTION_SAMPLES}: expected a whole number >= 1, got {value!r}")
    return int(value)
