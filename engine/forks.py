"""Forks of a recorded run: the settings in force at a round, what may be decreed there, and a note on both; no MLX."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.rounds import Round
from engine.settings import Settings, SettingsError

DECREES = ("accept", "reject", "token")


@dataclass(frozen=True)
class Forced:
    """What is to happen at a position (from 0) of one round, if the round gets there: `decree` is one of DECREES.

    "token" rejects the draft there, or stands for the bonus behind the last one, and emits `token`. Raises
    SettingsError.
    """

    position: int
    decree: str
    token: int | None = None

    def __post_init__(self) -> None:
        if self.decree not in DECREES:
            raise SettingsError(f"forced: expected one of {', '.join(DECREES)}, got {self.decree!r}")
        if self.position < 0:
            raise SettingsError(f"forced: expected a position from 0 on, got {self.position}")
        if (self.token is None) == (self.decree == "token"):
            raise SettingsError(f"forced: {self.decree} {'needs a' if self.token is None else 'takes no'} token")

    def __str__(self) -> str:
        behind = f" {self.token}" if self.token is not None else ""
        return f"forced {self.decree}{behind} at position {self.position + 1}"


def settings_before(settings: Settings, rounds: Iterable[Round]) -> Settings:
    """The settings in force behind these rounds of a run that was begun with `settings`."""
    changed: dict[str, Any] = {}
    for record in rounds:
        changed |= record.changed
    return settings.with_live(changed)


def fork_note(at: int, before: Settings, after: Settings, forced: Forced | None) -> str:
    """One sentence on where a run forked and what was changed: `Forked before round 10: temperature 0.7 → 1.`"""
    old, new = before.as_dict(), after.as_dict()
    changes = [f"{name} {_value(old[name])} → {_value(new[name])}" for name in new if new[name] != old[name]]
    changes += [str(forced)] if forced is not None else []
    return f"Forked before round {at}: {', '.join(changes) or 'nothing changed'}."


def told_changes(notices: Iterable[str]) -> str:
    """What the last `fork_note` among a run's notices says was changed: `temperature 0.7 → 1`; "" without a note."""
    told = _last_note(notices)
    return "" if told is None else told[1]


def temperature_before(notices: Iterable[str], index: int) -> float | None:
    """The temperature that round `index` of a fork was made at, if its last `fork_note` says that it was another one.

    The rounds before the fork were made by the run that it came from, with that one's settings.
    """
    told = _last_note(notices)
    if told is None or index >= told[0]:
        return None
    found = re.search(r"(?:^|, )temperature (\S+) → ", told[1])
    try:
        return None if found is None else float(found.group(1))
    except ValueError:
        return None


def _last_note(notices: Iterable[str]) -> tuple[int, str] | None:
    """(round, changes)."""
    notes = [found for notice in notices if (found := _NOTE.fullmatch(notice)) is not None]
    return (int(notes[-1].group(1)), notes[-1].group(2)) if notes else None


_NOTE = re.compile(r"Forked before round (\d{1,9}): (.*)\.", re.DOTALL)


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
