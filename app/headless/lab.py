"""`draftscope lab`: a rule's goodness of fit, and which instrument sees a fault, as a report or as JSON."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.format import NOTHING, rate, significant
from app.headless.pair import load_with_draft, mendable
from app.headless.request import RunError, UserError, prompt_of
from app.headless.terminal import harmless, print_json, table
from engine.evidence import Meters
from engine.faults import FAULT_TABLE, INSTRUMENTS, Fault, FaultWatch, Watched, why_blind, why_not_in_force, why_unseen
from engine.goodness import ALPHA, Experiment
from engine.recording import RecordedRun
from engine.rounds import Round, RunHeader
from engine.rules import RULE_TABLE
from engine.settings import SamplerSettings, Settings
from engine.statistics import Statistics, wilson_interval
from engine.successive_runs import successive_runs

if TYPE_CHECKING:
    from engine.chi_square import ChiSquareRun
    from engine.models import Pair

_STEP = 1024


def lab(options: argparse.Namespace) -> int:
    """Run the lab that was asked for; returns the exit code. Raises UserError, SettingsError or RunError."""
    return chi_square(options) if options.lab == "chi-square" else faults(options)


# The chi-square lab


def chi_square(options: argparse.Namespace) -> int:
    """Put a rule to the test."""
    experiment = Experiment(
        rule=options.rule,
        samples=options.samples,
        seed=options.seed,
        k=options.num_draft_tokens,
        temperature=options.temperature,
        target_top_k=options.target_top_k,
        **_logits(options),
    )
    with mendable():
        from engine.chi_square import PROBES, run_experiment, support_probe

        *_, run = run_experiment(experiment, _STEP)
        found = {"trials": PROBES, "accepted": support_probe(experiment.rule)}
    if options.json:
        print_json(_chi_square_object(run, found))
    else:
        print(_chi_square_report(run, found))
    return 0


def _logits(options: argparse.Namespace) -> dict[str, tuple[float, ...]]:
    given = {"target_logits": options.target_logits, "draft_logits": options.draft_logits}
    return {name: _numbers(name, text) for name, text in given.items() if text is not None}


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.replace(",", " ").split())
    except ValueError:
        option = f"--{name.replace('_', '-')}"
        raise UserError(f"{option}: expected numbers such as 2,1,0.5,0,-0.5,-1, got {text!r}") from None


def _chi_square_object(run: ChiSquareRun, probe: dict[str, int]) -> dict[str, Any]:
    experiment, forms, found = run.experiment, run.forms, run.result()
    reasons = [
        *(["statistic"] if found.rejected_by_statistic else []),
        *(["support"] if found.support_violations or probe["accepted"] else []),
    ]
    acceptance = None if experiment.rule == "block" else forms.acceptance
    return {
        "experiment": dataclasses.asdict(experiment),
        "lossless": RULE_TABLE[experiment.rule].distribution_preserving,
        "counts": "tested positions" if experiment.counts_positions else "emitted tokens",
        "n": found.n,
        "observed": found.observed.tolist(),
        "expected": found.expected.tolist(),
        "statistic": found.statistic,
        "expected_statistic": forms.expected_statistic(found.n),
        "dof": found.dof,
        "pooled": list(found.pooled),
        "alpha": ALPHA,
        "threshold": found.threshold,
        "p_value": found.p_value,
        "support_violations": found.support_violations,
        "support_probe": probe,
        "rejected": bool(reasons),
        "rejected_by": reasons,
        "rounds": run.rounds,
        "positions_tested": run.tested,
        "accepted": run.accepted,
        "closed_form_acceptance": acceptance,
        "sum_min": forms.sum_min,
        "sum_prod": forms.sum_prod,
        "p_argmax_q": forms.p_argmax_q,
        "q_argmax_p": forms.q_argmax_p,
    }


def _chi_square_report(run: ChiSquareRun, probe: dict[str, int]) -> str:
    found, made = run.result(), _chi_square_object(run, probe)
    rows = [
        [str(i), f"{run.forms.p[i]:.4f}", str(found.observed[i]), f"{found.expected[i]:.1f}"]
        for i in range(len(found.observed))
    ]
    verdict = f"rejected by the {' and the '.join(made['rejected_by'])}" if made["rejected"] else "not rejected"
    statistic = NOTHING if found.statistic is None else f"{found.statistic:.2f}"
    threshold = NOTHING if found.threshold is None else f"{found.threshold:.4f}"
    p_value = NOTHING if found.p_value is None else f"{found.p_value:.3g}"
    return "\n".join(
        (
            table(["token", "p", "observed", "expected"], rows, left=0),
            "",
            f"rule {run.experiment.rule}: {found.n} {made['counts']}, k {run.experiment.k}, seed {run.experiment.seed}",
            f"chi-square {statistic} ({made['expected_statistic']:.1f} expected), {found.dof} degrees of freedom, "
            f"threshold {threshold}, p-value {p_value}",
            f"outside the support: {found.support_violations} emitted; in forced trials {probe['accepted']} of "
            f"{probe['trials']} accepted",
            verdict,
        )
    )


# The fault lab


@dataclass
class _Arm:
    """One of the two runs: its counts, and what its meters and its watch found."""

    statistics: Statistics
    watch: FaultWatch
    meters: Meters
    header: RunHeader
    rule: str
    seeds: list[int]


def faults(options: argparse.Namespace) -> int:
    """Run with a fault and without it."""
    fault = FAULT_TABLE.get(options.fault)
    if fault is None:
        raise UserError(f"--fault: {options.fault!r} is no fault known here; choose one of {', '.join(FAULT_TABLE)}")
    if options.max_tokens < 1:
        raise UserError(f"--max-tokens: expected a whole number >= 1, got {options.max_tokens}")
    settings, prompt = fault_settings(options), prompt_of(options)
    if fault.setting == "rule" and (reason := why_not_in_force(settings)) is not None:
        raise UserError(f"--fault: {fault.id} wouldn't run: {reason}")
    pair = load_with_draft(options, "lab faults")
    with mendable():
        arms = {
            name: _play(pair, settings.with_live(live), prompt, options.max_tokens)
            for name, live in (("with_fault", fault.changes), ("without", fault.cure))
        }
    made = _faults_object(fault, pair, settings, arms, options)
    if options.json:
        print_json(made)
    else:
        print(_faults_report(fault, made))
    return 0


def fault_settings(options: argparse.Namespace) -> Settings:
    """The settings of both runs, the fault apart: the stochastic rule, with diagnostics. Raises SettingsError."""
    sampler = SamplerSettings(temperature=options.temperature)
    drafting = None if options.draft_top_k is None else dataclasses.replace(sampler, top_k=options.draft_top_k)
    k: dict[str, Any] = {}
    if options.num_draft_tokens is not None:
        k["num_draft_tokens"] = options.num_draft_tokens
    return Settings(
        sampler=sampler, draft_sampler=drafting, seed=options.seed, stochastic=True, diagnostics=True, top_n=1, **k
    )


def _play(pair: Pair, settings: Settings, prompt: str | list[int], tokens: int) -> _Arm:
    """Runs until so many tokens are emitted. Raises RunError for one that fails."""
    from engine.generator import SpeculativeGenerator

    statistics, watch, meters = Statistics(), FaultWatch(), Meters()
    seeds: list[int] = []
    header: RunHeader | None = None
    run: RecordedRun | None = None
    rule = ""

    def generator(asked: Settings) -> SpeculativeGenerator:
        return SpeculativeGenerator(pair, asked, stochastic=asked.stochastic)

    for item in successive_runs(generator, settings, prompt, tokens):
        if isinstance(item, RunHeader):
            run = RecordedRun(item)
            run.meters = meters  # all runs count as one
            watch.begin(run)
            seeds.append(item.seed)
            header = header or item
        elif isinstance(item, Round):
            assert run is not None
            run.append(item)
            watch.follow()
            statistics.add(item)
            rule = item.rule
        elif item.finish_reason == "error":
            raise RunError(f"a run ended by an error: {item.notice}")
    assert header is not None
    return _Arm(statistics, watch, meters, header, rule, seeds)


def _counts(arm: _Arm) -> dict[str, Any]:
    s = arm.statistics
    interval = wilson_interval(s.accepted, s.positions_tested)
    return {"rule": arm.rule, **s.as_dict(), "interval_95": None if interval is None else list(interval)}


def _instrument(name: str, fault: Fault, watched: Watched | None, arm: _Arm, settings: Settings) -> dict[str, Any]:
    """What one instrument said of the fault; where it said nothing, why."""
    trip = next((t for t in watched.trips if t.instrument == name), None) if watched is not None else None
    reason = None
    if trip is None:
        reason = why_blind(fault, name) or why_unseen(fault, settings)
    meter = {"losslessness meter": arm.meters.losslessness, "proposal meter": arm.meters.proposal}.get(name)
    return {
        "name": name,
        "tripped": trip is not None,
        "at_token": trip.tokens if trip is not None else None,
        "at_round": trip.round if trip is not None else None,
        "how": trip.how if trip is not None else None,
        "log10_evidence": meter.log10_evidence if meter is not None else None,
        "blind": reason,
    }


def _faults_object(
    fault: Fault, pair: Pair, settings: Settings, arms: dict[str, _Arm], options: argparse.Namespace
) -> dict[str, Any]:
    faulty, draft = arms["with_fault"], pair.draft
    assert draft is not None
    watched = faulty.watch.watched.get(fault.id)
    first = watched.first if watched is not None else None
    instruments = [_instrument(name, fault, watched, faulty, settings) for name in INSTRUMENTS]
    in_force = settings.with_live(fault.changes)
    return {
        "fault": fault.id,
        "title": fault.title,
        "imitates": fault.imitates,
        "seen": fault.seen,
        "lossless": fault.lossless,
        "target": pair.target.info.name,
        "draft": draft.info.name,
        "seed": options.seed,
        "seeds": faulty.seeds,
        "prompt": faulty.header.prompt,
        "settings": {**in_force.as_dict(), "max_tokens": options.max_tokens},
        "tripped": first.instrument if first is not None else None,
        "at_token": first.tokens if first is not None else None,
        "at_round": first.round if first is not None else None,
        "how": first.how if first is not None else None,
        "blind": (why_unseen(fault, settings) or _quiet(faulty)) if first is None else None,
        "instruments": instruments,
        "with_fault": _counts(faulty),
        "without": _counts(arms["without"]),
    }


def _quiet(arm: _Arm) -> str:
    return f"nothing tripped in {arm.statistics.emitted} tokens: the fault may not have acted, or the run is too short"


def _faults_report(fault: Fault, made: dict[str, Any]) -> str:
    kind = "the output stays the target's own" if fault.lossless else "not lossless"
    lines = [f"{fault.id}: {fault.title} ({kind})", fault.imitates, f"Seen: {fault.seen}.", ""]
    rows = []
    for found in made["instruments"]:
        said = f"token {found['at_token']}, round {found['at_round']}" if found["tripped"] else "no"
        rows.append([found["name"], said, found["how"] or found["blind"] or ""])
    lines += [table(["instrument", "tripped", ""], rows, left=3), ""]
    if made["tripped"] is None:
        lines += [f"blind: {made['blind']}", ""]
    rows = []
    for name in ("with_fault", "without"):
        counts = made[name]
        low, high = counts["interval_95"] or (None, None)
        rows.append(
            [
                name.replace("_", " "),
                counts["rule"],
                rate(counts["per_position_acceptance"], counts["positions_tested"]),
                f"{rate(low)} – {rate(high)}",
                significant(counts["tokens_per_round"]),
            ]
        )
    lines.append(table(["run", "rule", "per-position acceptance", "95 % interval", "tokens a round"], rows, left=2))
    return harmless("\n".join(lines))
