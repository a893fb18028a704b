"""A recorded run as one JSON object: what `draftscope run --json` prints."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from engine.alternatives import EXPECTED, Counterfactual
from engine.evidence import why_no_losslessness_meter
from engine.invariants import INVARIANTS
from engine.recording import RecordedRun
from engine.rounds import CachePositions, Coordinates, Distributions, Draft, Emitted, ModelInfo, Round
from engine.statistics import Statistics, ratio, wilson_interval
from engine.text import Vocabulary

DETAILS = ("plain", "full")
"""How much of each round: `full` adds the distributions, the largest probabilities of every position."""


def run_object(run: RecordedRun, rule: tuple[str, str, str], detail: str | None = None) -> dict[str, Any]:
    """The object of an ended run; every value is JSON-ready, an undefined number is None.

    `rule`: id, label and reason of the rule in force at the end. `detail` None leaves the rounds out. Raises
    ValueError for a run that hasn't ended.
    """
    header, end = run.header, run.end
    if end is None:
        raise ValueError("the run hasn't ended")
    drift = run.column("drift")
    found: dict[str, Any] = {
        "settings": header.settings.as_dict(),
        "models": {"target": model_object(header.target), "draft": model_object(header.draft)},
        "drafter": header.drafter,
        "backend": header.backend,
        "notices": list(header.notices),
        "rule": rule[0],
        "rule_label": rule[1],
        "rule_reason": rule[2],
        "prompt": header.prompt,
        "prompt_tokens": list(header.prompt_tokens),
        "tokens": list(run.tokens),
        "text": end.text,
        "finish_reason": end.finish_reason,
        "finish_notice": end.notice,
        "summary": end.summary,
        "host_syncs": end.host_syncs,
        "max_abs_drift": int(np.abs(drift).max(initial=0)),
        "final_drift": int(drift[-1]) if len(drift) else 0,
        "first_drift_round": run.first_drift,
        "statistics": statistics_object(run.statistics),
        "timings": _timings(run, end.seconds),
        "check_syncs": end.check_syncs,
        "content_checks": [dataclasses.asdict(check) for check in run.content_checks],
        "meters": meters_object(run, rule[0]),
        "invariants": invariants_object(run),
    }
    if detail is not None:
        found["rounds"] = [round_object(r, header.vocabulary, detail == "full") for r in run]
    cleaned: dict[str, Any] = strict(found)
    return cleaned


def statistics_object(statistics: Statistics) -> dict[str, Any]:
    """Counters and rates, the 95 % Wilson interval of the acceptance, and acceptance by draft position from 1."""
    by_position = [
        {"position": i + 1, "reached": reached, "accepted": accepted, "acceptance": ratio(accepted, reached)}
        for i, (reached, accepted) in enumerate(zip(statistics.reached, statistics.accepted_at, strict=True))
    ]
    interval = wilson_interval(statistics.accepted, statistics.positions_tested)
    return statistics.as_dict() | {
        "per_position_acceptance_interval": None if interval is None else list(interval),
        "acceptance_by_draft_position": by_position,
        "closed_form_positions": statistics.closed_forms,
        "degenerate_fallbacks": statistics.degenerate,
    }


def meters_object(run: RecordedRun, rule: str) -> dict[str, Any]:
    """Both meters, the accept identity, and the expected tokens a round by rule; `note` says why one doesn't apply."""
    expected = {name: run.alternatives.tokens_per_round(name) for name in EXPECTED}
    notes = (why_no_losslessness_meter(rule), run.why_no_proposal_meter(rule))
    meters = (run.meters.losslessness, run.meters.proposal)
    return {
        **{
            name: {
                "n": meter.n,
                "log10_evidence": meter.log10_evidence,
                "alarm_at": meter.alarm_at,
                "counts": meter.counts,
                "note": note,
            }
            for name, meter, note in zip(("losslessness", "proposal"), meters, notes, strict=True)
        },
        "accept_identity": {"z": run.identity.z, "n": run.identity.n},
        "expected_tokens_per_round": expected if run.alternatives.rounds else None,
    }


def invariants_object(run: RecordedRun) -> list[dict[str, Any]]:
    """Every invariant of the caches: whether it held in all rounds, else where it failed first, how, and how often."""
    found = []
    for invariant in INVARIANTS:
        failed = run.invariants.failures.get(invariant.id)
        found.append(
            {
                "id": invariant.id,
                "title": invariant.title,
                "holds": failed is None,
                "first_round": failed and failed.first_round,
                "how": failed and failed.how,
                "rounds": failed.count if failed else 0,
            }
        )
    return found


def model_object(info: ModelInfo | None) -> dict[str, Any] | None:
    """A model's description by field name."""
    return None if info is None else dataclasses.asdict(info)


def round_object(record: Round, vocabulary: Vocabulary, distributions: bool = False) -> dict[str, Any]:
    """One round; draft positions of `distributions` count from 0, the last stands behind the drafts."""
    found = {
        "index": record.index,
        "context_length": record.context_length,
        "rule": record.rule,
        "rule_label": record.rule_label,
        "rule_reason": record.rule_reason,
        "distribution_preserving": record.distribution_preserving,
        "changed": dict(record.changed),
        "forced": record.forced,
        "k": record.k,
        "drafted": [_draft(draft, vocabulary) for draft in record.drafts],
        "emitted": [_emitted(emitted, vocabulary) for emitted in record.emitted],
        "main": _positions(record.main_cache),
        "draft": None if record.draft_cache is None else _positions(record.draft_cache),
        "debt": record.debt,
        "drift": record.drift,
        "timings": dataclasses.asdict(record.timings),
        "text_end": record.text_end,
    }
    if record.coordinates is not None:
        found["coordinates"] = _arrays(record.coordinates)
    if record.counterfactual is not None:
        found["counterfactual"] = _arrays(record.counterfactual)
    if distributions:
        found["distributions"] = [_distributions(d) for d in record.distributions]
    return found


def _draft(draft: Draft, vocabulary: Vocabulary) -> dict[str, Any]:
    return dataclasses.asdict(draft) | {"text": vocabulary.text_of(draft.token)}


def _emitted(emitted: Emitted, vocabulary: Vocabulary) -> dict[str, Any]:
    return dataclasses.asdict(emitted) | {"text": vocabulary.text_of(emitted.token)}


def _positions(positions: CachePositions) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(positions).items()}


def _arrays(record: Coordinates | Counterfactual) -> dict[str, Any]:
    values = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    return {name: None if value is None else value.tolist() for name, value in values.items()}


def _distributions(d: Distributions) -> dict[str, Any]:
    def listed(values: Any) -> Any:
        return None if values is None else values.tolist()

    return {
        "ids": d.ids.tolist(),
        "p": d.p.tolist(),
        "q": listed(d.q),
        "residual": listed(d.residual),
        "residual_mass": d.residual_mass,
        "p_stages": {name: values.tolist() for name, values in d.p_stages},
        "q_stages": {name: values.tolist() for name, values in d.q_stages},
        "vocab_size": d.vocab_size,
        "p_support": d.p_support,
        "q_support": d.q_support,
        "residual_support": d.residual_support,
    }


def _timings(run: RecordedRun, seconds: float) -> dict[str, Any]:
    """Seconds of all rounds, as the host observed them, and what that makes in tokens a second."""
    parts = (
        {f.name: sum(getattr(r.timings, f.name) for r in run) for f in dataclasses.fields(run[0].timings)}
        if len(run)
        else {}
    )
    return {"seconds": seconds, "tokens_per_second": ratio(len(run.tokens), seconds), "by_part": parts}


def strict(value: Any) -> Any:
    """The same without NaN and infinity, for which JSON has no word: null."""
    if isinstance(value, dict):
        return {key: strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
