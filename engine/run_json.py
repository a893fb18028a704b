"""A run as one JSON-ready object: header, settings, statistics, end and, if wanted, every round."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from engine.rounds import CachePositions, Draft, Round, RunEnd, RunHeader
from engine.settings import Settings
from engine.statistics import Statistics


def run_as_json(
    header: RunHeader,
    settings: Settings,
    rule: str,
    tokens: Sequence[int],
    statistics: Statistics,
    end: RunEnd,
    rounds: Sequence[Round],
    with_rounds: bool,
) -> dict[str, Any]:
    """`settings` are those in force at the end; the seed is the one in use. None stands for every undefined value."""
    drifts = [record.drift for record in rounds]
    result: dict[str, Any] = {
        "settings": {**settings.as_dict(), "seed": header.seed},
        "rule": rule,
        "target": dataclasses.asdict(header.target),
        "draft": None if header.draft is None else dataclasses.asdict(header.draft),
        "drafter": header.drafter,
        "backend": header.backend,
        "notices": list(header.notices),
        "prompt": header.prompt,
        "prompt_tokens": list(header.prompt_tokens),
        "tokens": list(tokens),
        "text": end.text,
        "finish_reason": end.finish_reason,
        "notice": end.notice,
        "host_syncs": end.host_syncs,
        "seconds": end.seconds,
        "tokens_per_second": len(tokens) / end.seconds if end.seconds > 0 else None,
        "max_abs_drift": max(map(abs, drifts), default=0),
        "final_drift": drifts[-1] if drifts else 0,
        "statistics": statistics.as_dict(),
        "summary": end.summary,
    }
    if with_rounds:
        result["rounds"] = [round_as_json(record) for record in rounds]
    return result


def round_as_json(record: Round) -> dict[str, Any]:
    """One round; positions count tokens held, timings are seconds as the host observed them."""
    return {
        "index": record.index,
        "context_length": record.context_length,
        "rule": record.rule,
        "rule_reason": record.rule_reason,
        "k": record.k,
        "changed": record.changed,
        "drafted": [_draft(draft) for draft in record.drafts],
        "emitted": [dataclasses.asdict(token) for token in record.emitted],
        "main": _positions(record.main_cache),
        "draft": None if record.draft_cache is None else _positions(record.draft_cache),
        "debt": record.debt,
        "drift": record.drift,
        "timings": dataclasses.asdict(record.timings),
    }


def _draft(draft: Draft) -> dict[str, Any]:
    return dataclasses.asdict(draft)


def _positions(cache: CachePositions) -> dict[str, Any]:
    return dataclasses.asdict(cache)
