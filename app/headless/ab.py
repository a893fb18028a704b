"""`draftscope ab`: the same pair and prompt under sampler-match, stochastic, greedy drafting and plain decoding."""

from __future__ import annotations

import argparse
import dataclasses
import statistics as spread
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.format import NOTHING, rate, significant
from app.headless.pair import describe, load_with_draft, mendable
from app.headless.request import RunError, UserError, prompt_of, sampler_settings
from app.headless.terminal import harmless, print_json, say, table
from engine.rounds import Round
from engine.run_json import model_object, statistics_object
from engine.settings import Settings
from engine.statistics import Statistics, ratio, wilson_interval

if TYPE_CHECKING:
    from engine.models import Pair

NOTE = (
    "One short run is noise: its tokens follow one path, and neighbouring positions resemble each other, so intervals "
    "are too narrow. Compare arms over many seeds, and look at the spread between them."
)
_MOST_SEEDS = 1000


@dataclass(frozen=True)
class Arm:
    """One way to decode: what it changes of the settings, and what it is, in words."""

    name: str
    what: str
    changes: dict[str, Any]


ARMS = (
    Arm("sampler-match", "sampled drafts, tested against a fresh target draw", {}),
    Arm("stochastic", "sampled drafts, modified rejection sampling", {"stochastic": True}),
    Arm(
        "greedy-drafting",
        "the drafter takes its argmax (q one-hot), tested against a fresh target draw; either lossless rule accepts "
        "such a draft with probability p(argmax q)",
        {"drafter": "greedy"},
    ),
    Arm("plain", "no drafts (k = 0)", {"num_draft_tokens": 0}),
)


@dataclass(frozen=True)
class SeedResult:
    """One seed's counts, and the seconds its rounds took without a record."""

    seed: int
    statistics: Statistics
    seconds: float
    finish_reason: str

    @property
    def tokens_per_second(self) -> float | None:
        return ratio(self.statistics.emitted, self.seconds)


@dataclass
class Cell:
    """One arm at one temperature, over the seeds so far."""

    arm: Arm
    temperature: float
    rule: str = ""
    rule_label: str = ""
    pooled: Statistics = field(default_factory=Statistics)
    results: list[SeedResult] = field(default_factory=list)


def ab(options: argparse.Namespace) -> int:
    """Run all arms, print the table or JSON; returns the exit code. Raises UserError before the first round."""
    temperatures, seeds = parse_temperatures(options.temps), parse_seeds(options.seeds)
    sampler, prompt = sampler_settings(options), prompt_of(options)
    names = ("num_draft_tokens", "max_tokens", "rewind", "prefill_chunk")
    fields = {n: value for n in names if (value := getattr(options, n)) is not None}
    base = Settings(sampler=sampler, **fields)
    if base.num_draft_tokens == 0:
        raise UserError("num_draft_tokens: expected k >= 1, got 0: the arm `plain` is the one without drafts")
    for temperature in temperatures:
        dataclasses.replace(sampler, temperature=temperature)  # refuse a bad one before the models are loaded
    cells = [Cell(arm, temperature) for temperature in temperatures for arm in ARMS]
    pair = load_with_draft(options, "ab")
    assert pair.draft is not None
    say(f"target {describe(pair.target.info)}; draft {describe(pair.draft.info)}; {len(seeds)} seeds")
    cancelled = False
    with mendable():
        try:
            for done in measure(pair, base, prompt, cells, seeds):
                say(done)
        except KeyboardInterrupt:
            cancelled = True
            say("draftscope ab: cancelled; what follows was measured before")
    if options.json:
        print_json(_object(pair, base, prompt, cells, seeds, cancelled))
    else:
        print(_report(cells))
    return 130 if cancelled else 0


def parse_temperatures(text: str) -> list[float]:
    """`0,0.7,1.0`. Raises UserError."""
    try:
        numbers = [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if not numbers:
        raise UserError(f"--temps: expected temperatures such as 0,0.7,1.0, got {text!r}")
    return numbers


def parse_seeds(text: str) -> list[int]:
    """A count N (seeds 1 to N), or a list `7,8,9`; `7,` is the one seed 7. Raises UserError."""
    try:
        numbers = [int(part, 0) for part in text.replace(",", " ").split()]
    except ValueError:
        numbers = []
    if len(numbers) == 1 and "," not in text:
        if numbers[0] > _MOST_SEEDS:
            raise UserError(
                f"--seeds: expected a count up to {_MOST_SEEDS}, got {text}; the one seed {text} is `{text},`"
            )
        numbers = list(range(1, numbers[0] + 1))
    if not numbers:
        raise UserError(f"--seeds: expected how many, such as 5, or a list such as 7,8,9, got {text!r}")
    for seed in numbers:
        Settings(seed=seed)
    return numbers


def measure(pair: Pair, base: Settings, prompt: str | list[int], cells: list[Cell], seeds: list[int]) -> Iterator[str]:
    """Fill the cells, arms within seeds so that a slow minute hits them all; yields a line of progress a seed."""
    warm_up = dataclasses.replace(base, max_tokens=8, record=False)
    _one_run(pair, warm_up, prompt)
    for number, seed in enumerate(seeds):
        for cell in cells:
            cell.results.append(_one_seed(pair, base, prompt, cell, seed))
        yield f"seed {seed} done ({number + 1} of {len(seeds)})"


def _one_seed(pair: Pair, base: Settings, prompt: str | list[int], cell: Cell, seed: int) -> SeedResult:
    """Once without a record for the speed, once with the closed forms for the counts: the same tokens."""
    sampler = dataclasses.replace(base.sampler, temperature=cell.temperature)
    settings = dataclasses.replace(base, sampler=sampler, seed=seed, record=False, **cell.arm.changes)
    timed, _ = _one_run(pair, settings, prompt)
    seen, rounds = _one_run(pair, dataclasses.replace(settings, record=True, diagnostics=True), prompt)
    if timed.tokens != seen.tokens:
        raise RunError(f"seed {seed}, arm {cell.arm.name}: the inspected run emitted other tokens than the timed one")
    for record in rounds:
        cell.pooled.add(record)
    cell.rule, cell.rule_label = seen.rule.id, seen.rule.label
    return SeedResult(seed, seen.statistics, timed.end.seconds, seen.end.finish_reason)


def _one_run(pair: Pair, settings: Settings, prompt: str | list[int]) -> tuple[Any, list[Round]]:
    """A finished generator and its rounds. Raises RunError if the run fails."""
    from engine.generator import SpeculativeGenerator

    generator = SpeculativeGenerator(pair, settings, stochastic=settings.stochastic)
    generator.start(prompt)
    rounds = list(generator.rounds())
    assert generator.end is not None
    if generator.end.finish_reason == "error":
        raise RunError(f"a run failed: {generator.end.notice}")
    return generator, rounds


def between_seeds(values: list[float | None]) -> dict[str, Any]:
    """Mean, standard deviation (None below two seeds), smallest and largest."""
    known = [v for v in values if v is not None]
    if not known:
        return {"n": 0, "mean": None, "sd": None, "low": None, "high": None}
    deviation = spread.stdev(known) if len(known) > 1 else None
    return {"n": len(known), "mean": spread.fmean(known), "sd": deviation, "low": min(known), "high": max(known)}


def _speeds(cell: Cell) -> dict[str, Any]:
    return between_seeds([r.tokens_per_second for r in cell.results])


def _cell_object(cell: Cell) -> dict[str, Any]:
    return {
        "arm": cell.arm.name,
        "what": cell.arm.what,
        "temperature": cell.temperature,
        "rule": cell.rule,
        "rule_label": cell.rule_label,
        **statistics_object(cell.pooled),
        "tokens_per_second": ratio(cell.pooled.emitted, sum(r.seconds for r in cell.results)),
        "between_seeds": {
            "per_position_acceptance": between_seeds([r.statistics.per_position_acceptance for r in cell.results]),
            "mean_accepted_len": between_seeds([r.statistics.mean_accepted_len for r in cell.results]),
            "tokens_per_round": between_seeds([r.statistics.tokens_per_round for r in cell.results]),
            "tokens_per_second": _speeds(cell),
        },
        "seeds": [
            {
                "seed": r.seed,
                "finish_reason": r.finish_reason,
                "seconds": r.seconds,
                "tokens_per_second": r.tokens_per_second,
                **statistics_object(r.statistics),
            }
            for r in cell.results
        ],
    }


def _object(
    pair: Pair, base: Settings, prompt: str | list[int], cells: list[Cell], seeds: list[int], cancelled: bool
) -> dict[str, Any]:
    from engine.backend import describe_backend

    assert pair.draft is not None
    return {
        "note": NOTE,
        "cancelled": cancelled,
        "models": {"target": model_object(pair.target.info), "draft": model_object(pair.draft.info)},
        "notices": list(pair.notices),
        "backend": describe_backend(),
        "settings": base.as_dict(),
        "prompt": prompt,
        "seeds": seeds,
        "arms": [_cell_object(cell) for cell in cells if cell.results],
    }


_HEADER = (
    "arm",
    "T",
    "rule",
    "acceptance (95 %)",
    "n",
    "between seeds",
    "sum min",
    "sum p·q",
    "accepted/round",
    "tokens/round",
    "tokens/s (low..high)",
)


def _report(cells: list[Cell]) -> str:
    measured = [cell for cell in cells if cell.results]
    lines = [table(_HEADER, [_row(cell) for cell in measured], left=3), ""]
    lines += [f"{arm.name}: {arm.what}." for arm in ARMS]
    lines += [
        "acceptance: accepted / tested positions over all seeds; between seeds: smallest..largest, standard deviation.",
        NOTE,
    ]
    return harmless("\n".join(lines))


def _row(cell: Cell) -> tuple[str, ...]:
    s = cell.pooled
    interval = wilson_interval(s.accepted, s.positions_tested)
    band = f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""
    seeds = between_seeds([r.statistics.per_position_acceptance for r in cell.results])
    deviation = "" if seeds["sd"] is None else f", {seeds['sd']:.3f}"
    speeds = _speeds(cell)
    return (
        cell.arm.name,
        f"{cell.temperature:g}",
        cell.rule,
        rate(s.per_position_acceptance) + band,
        str(s.positions_tested),
        NOTHING if seeds["mean"] is None else f"{seeds['low']:.3f}..{seeds['high']:.3f}{deviation}",
        rate(s.closed_form_sum_min),
        rate(s.closed_form_sum_prod),
        rate(s.mean_accepted_len),
        rate(s.tokens_per_round),
        f"{significant(speeds['mean'])} ({significant(speeds['low'], 3)}..{significant(speeds['high'], 3)})",
    )
