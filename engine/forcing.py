"""Verdicts by decree, for what-if runs: a draft accepted or rejected whatever its test said, or a token of choice."""

from __future__ import annotations

from dataclasses import replace

from engine.acceptance import Rule
from engine.backend import mx
from engine.forks import Forced
from engine.verification import Verdict, Verification, draw_replacement, leading


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
