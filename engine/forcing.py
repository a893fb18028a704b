"""Verdicts by decree, for what-if runs: a draft accepted or rejected whatever its test said, or a token of choice."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.acceptance import Rule
from engine.backend import mx
from engine.settings import SettingsError
from engine.verification import Verdict, Verification, draw_replacement, leading

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


def force(v: Verification, verdict: Verdict, rule: Rule, forced: Forced) -> Verdict:
    """The verdict with the decree carried out, lazily; a position behind the drafts changes no test."""
    passed = verdict.passed
    if forced.position < v.k:
        here = mx.arange(v.k) == forced.position
        passed = mx.where(here, forced.decree == "accept", passed)
    count = leading(passed) if v.k else verdict.count
    token, degenerate = verdict.token, verdict.degenerate
    if rule.needs_q and v.k:
        drawn, empty = draw_replacement(v, count)
        token = mx.where(count == verdict.count, token, drawn.astype(token.dtype))
        degenerate = None if degenerate is None else mx.where(count == verdict.count, degenerate, empty)
    elif v.k:
        token = mx.where(count == verdict.count, token, mx.take(v.fresh, count).astype(token.dtype))
    if forced.token is not None:
        token = mx.where(count == forced.position, mx.array(forced.token, dtype=token.dtype), token)
    return replace(verdict, passed=passed, count=count, token=token, degenerate=degenerate)
