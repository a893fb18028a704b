"""`draftscope bench`: this engine's speed against mlx-lm's, and what its record and rules cost, side by side."""

from __future__ import annotations

import argparse
import dataclasses
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from app.format import duration, significant
from app.headless.pair import describe, load_with_draft, mendable
from app.headless.request import DEFAULT_PROMPT, TOY_PROMPT, RunError, UserError
from app.headless.terminal import harmless, print_json, say, table
from engine.run_json import model_object
from engine.settings import SamplerSettings, Settings

if TYPE_CHECKING:
    from app.headless.bench_contestants import Contestant
    from engine.models import Pair

PROMPTS = (
    DEFAULT_PROMPT,
    "The sea was calm that morning, and the captain",
    "She had never in her life been so much surprised; for",
)
TOY_PROMPTS = (TOY_PROMPT,)
WARM_UP = 2  # rounds of a comparison that aren't counted: the first pays for the prompt and for new kernels

RECORDS = ("off", "on", "diagnostics")
OF_RULES = ("sampler-match", "stochastic")
MLX_LM = "mlx-lm speculative"
MLX_LM_PLAIN = "mlx-lm plain"


@dataclasses.dataclass
class Times:
    """Seconds by contestant, one number for each prompt and repeat, in step with one another."""

    seconds: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    tokens_per_second: dict[str, list[float]] = dataclasses.field(default_factory=dict)

    def add(self, name: str, seconds: float, tokens_per_second: float) -> None:
        self.seconds.setdefault(name, []).append(seconds)
        self.tokens_per_second.setdefault(name, []).append(tokens_per_second)

    def ratio(self, first: str, second: str) -> dict[str, float]:
        """How many times as fast the first is, of pairs measured together."""
        return spread(np.array(self.seconds[second]) / np.array(self.seconds[first]))


def spread(values: Any) -> dict[str, float]:
    """Median, 10th and 90th percentile."""
    low, median, high = np.percentile(np.asarray(values, dtype=float), [10, 50, 90])
    return {"median": float(median), "low": float(low), "high": float(high)}


@dataclasses.dataclass
class Bench:
    """What is compared, and what has been measured so far."""

    pair: Pair
    prompts: list[list[int]]
    k: int
    max_tokens: int
    rounds: int
    temperature: float
    seed: int
    end_to_end: Times = dataclasses.field(default_factory=Times)
    per_round: Times = dataclasses.field(default_factory=Times)
    outside: list[float] = dataclasses.field(default_factory=list)
    syncs_per_round: dict[str, float] = dataclasses.field(default_factory=dict)
    differences: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def settings(self, temperature: float, max_tokens: int, record: str, rule: str) -> Settings:
        return Settings(
            sampler=SamplerSettings(temperature=temperature),
            num_draft_tokens=self.k,
            max_tokens=max_tokens,
            seed=self.seed,
            stochastic=rule == "stochastic",
            record=record != "off",
            diagnostics=record == "diagnostics",
        )


def bench(options: argparse.Namespace) -> int:
    """Measure, print tables or JSON; returns the exit code. Raises UserError before the first run."""
    for name, least in (("max_tokens", 2), ("rounds", 3), ("repeats", 1), ("num_draft_tokens", 1)):
        if (value := getattr(options, name)) < least:
            raise UserError(f"{name}: expected a whole number >= {least}, got {value}")
    if SamplerSettings(temperature=options.temperature).is_greedy:
        raise UserError(f"temperature: expected one above 0 for the comparison per round, got {options.temperature:g}")
    Settings(seed=options.seed)
    pair = _without_ends(load_with_draft(options, "bench"))
    with mendable():
        made = Bench(
            pair,
            _prompt_ids(pair, options),
            options.num_draft_tokens,
            options.max_tokens,
            options.rounds,
            options.temperature,
            options.seed,
        )
        _check_room(made)
        _check_caches(pair)
        say(_heading(made))
        measure(made, options.repeats)
    if options.json:
        print_json(bench_object(made))
    else:
        print(_report(made))
    return 0


def _without_ends(pair: Pair) -> Pair:
    """mlx-lm's generators leave it to their caller to end a run, so that ours must not end there, either."""
    target = pair.target
    vocabulary = dataclasses.replace(target.vocabulary, end_ids=frozenset())
    return dataclasses.replace(pair, target=dataclasses.replace(target, vocabulary=vocabulary))


def _prompt_ids(pair: Pair, options: argparse.Namespace) -> list[list[int]]:
    prompts = []
    for text in options.prompt or (TOY_PROMPTS if options.toy else PROMPTS):
        try:
            prompts.append(pair.target.encode(text))
        except ValueError as error:
            raise UserError(str(error)) from error
        if not prompts[-1]:
            raise UserError(f"the prompt must be non-empty: expected at least one token, got none from {text!r}")
    return prompts


def _check_room(made: Bench) -> None:
    assert made.pair.draft is not None
    wanted = max(map(len, made.prompts)) + max(made.max_tokens, _most_tokens(made))
    rooms = [model.context_length for model in (made.pair.target, made.pair.draft) if model.context_length is not None]
    if rooms and wanted > min(rooms):
        raise UserError(
            f"the runs need up to {wanted} tokens, but the pair's context holds {min(rooms)}: "
            "lower --max-tokens, --rounds or -k"
        )


def _check_caches(pair: Pair) -> None:
    """Refuse a pair that mlx-lm can't speculate with, before anything is timed."""
    from mlx_lm.models.cache import can_trim_prompt_cache

    for model in (pair.target, pair.draft):
        assert model is not None
        if not can_trim_prompt_cache(model.make_cache()):
            raise UserError(
                f"mlx-lm, which this engine's speed is compared with, can't speculate with {model.info.name}: its "
                f"cache ({model.info.cache_type}) can't be trimmed. Choose a model with plain key-value caches."
            )


def _most_tokens(made: Bench) -> int:
    """Enough for every round of a comparison to draft k tokens."""
    return (made.rounds + 1) * (made.k + 1)


def measure(made: Bench, repeats: int) -> None:
    """Everything, `repeats` times for each prompt; the order of the contestants turns from one to the next."""
    runners = _end_to_end(made)
    for contestant in runners.values():
        contestant.start(made.prompts[0])  # kernels and buffers are made here, not on the clock
        while contestant.step():
            pass
    turn = 0
    for repeat in range(repeats):
        for number, prompt in enumerate(made.prompts):
            _run_end_to_end(made, runners, prompt, turn)
            _run_per_round(made, prompt, turn)
            turn += 1
            say(f"repeat {repeat + 1} of {repeats}, prompt {number + 1} of {len(made.prompts)} done")


def _end_to_end(made: Bench) -> dict[str, Contestant]:
    from app.headless.bench_contestants import MlxLmPlain, MlxLmSpeculative, Ours

    found: dict[str, Contestant] = {
        record: Ours(made.pair, made.settings(0.0, made.max_tokens, record, "sampler-match")) for record in RECORDS
    }
    found[MLX_LM] = MlxLmSpeculative(made.pair, made.k, made.max_tokens, 0.0, made.seed)
    found[MLX_LM_PLAIN] = MlxLmPlain(made.pair, made.max_tokens, 0.0, made.seed)
    return found


def _turned(names: list[str], turn: int) -> list[str]:
    return names[turn % len(names) :] + names[: turn % len(names)]


def _run_end_to_end(made: Bench, runners: dict[str, Contestant], prompt: list[int], turn: int) -> None:
    """Whole runs at temperature 0, prompt included; the speculative ones by turns, a round each.

    The plain one runs by itself: it computes a token ahead, which would fall into the time of whoever comes next.
    """
    for group in ([name for name in runners if name != MLX_LM_PLAIN], [MLX_LM_PLAIN]):
        for name, seconds in _by_turns({name: runners[name] for name in group}, prompt, turn).items():
            made.end_to_end.add(name, seconds, len(runners[name].tokens) / seconds)
            _note_syncs(made, f"{name}, temperature 0", runners[name])
    reference = runners[MLX_LM_PLAIN].tokens
    for name, contestant in runners.items():
        _compare(made, name, contestant.tokens, reference, prompt)


def _by_turns(contestants: dict[str, Contestant], prompt: list[int], turn: int) -> dict[str, float]:
    """Run all to their ends; the seconds that each one took for itself."""
    seconds = dict.fromkeys(contestants, 0.0)
    for name, contestant in contestants.items():
        started = time.perf_counter()
        contestant.start(prompt)
        seconds[name] += time.perf_counter() - started
    going = list(contestants)
    while going:
        turn += 1
        for name in _turned(going, turn):
            started = time.perf_counter()
            went_on = contestants[name].step()
            seconds[name] += time.perf_counter() - started
            if not went_on:
                going.remove(name)
    return seconds


def _note_syncs(made: Bench, name: str, contestant: Contestant) -> None:
    from app.headless.bench_contestants import Ours

    if isinstance(contestant, Ours):
        syncs, rounds = contestant.syncs_and_rounds
        made.syncs_per_round[name] = max(made.syncs_per_round.get(name, 0.0), syncs / rounds)


def _compare(made: Bench, name: str, tokens: list[int], reference: list[int], prompt: list[int]) -> None:
    """At temperature 0 all streams are the target's own; the first difference is noted with how near a tie it is."""
    from app.headless.bench_contestants import top_two_gap

    if len(tokens) != len(reference):
        raise RunError(f"{name} emitted {len(tokens)} tokens at temperature 0, {MLX_LM_PLAIN} {len(reference)}")
    at = next((i for i, (ours, theirs) in enumerate(zip(tokens, reference, strict=True)) if ours != theirs), None)
    if at is not None:
        gap = top_two_gap(made.pair.target, [*prompt, *reference[:at]])
        found = {"contestant": name, "prompt": made.prompts.index(prompt), "token": at, "top_two_gap": gap}
        if found not in made.differences:
            made.differences.append(found)


def _per_round(made: Bench) -> dict[str, Contestant]:
    from app.headless.bench_contestants import MlxLmSpeculative, Ours

    most = _most_tokens(made)
    found: dict[str, Contestant] = {
        f"{rule} {record}": Ours(made.pair, made.settings(made.temperature, most, record, rule))
        for rule in OF_RULES
        for record in RECORDS
    }
    found[MLX_LM] = MlxLmSpeculative(made.pair, made.k, most, made.temperature, made.seed)
    return found


def _run_per_round(made: Bench, prompt: list[int], turn: int) -> None:
    """Rounds at a temperature, all contestants by turns, and after each round of ours its forward passes alone."""
    from app.headless.bench_contestants import ForwardsAlone, Ours

    contestants = _per_round(made)
    followed = contestants["sampler-match off"]
    assert isinstance(followed, Ours)
    alone = ForwardsAlone(made.pair, followed)
    alone.start(prompt)
    for contestant in contestants.values():
        contestant.start(prompt)
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    emitted = dict.fromkeys(contestants, 0)
    forwards: list[float] = []
    for index in range(made.rounds):
        for name in _turned(list(contestants), turn + index):
            before = len(contestants[name].tokens)
            started = time.perf_counter()
            went_on = contestants[name].step()
            spent = time.perf_counter() - started
            if not went_on:
                raise RunError(f"{name} ended after {index} rounds of {made.rounds}")
            passes = alone.step() if name == "sampler-match off" else 0.0
            if index < WARM_UP:
                continue
            seconds[name].append(spent)
            emitted[name] += len(contestants[name].tokens) - before
            if name == "sampler-match off":
                forwards.append(passes)
    for name, times in seconds.items():
        made.per_round.add(name, float(np.median(times)), emitted[name] / sum(times))
        _note_syncs(made, name, contestants[name])
    made.outside.append(1 - float(np.median(forwards)) / float(np.median(seconds["sampler-match off"])))


def _ratios(made: Bench) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(the four that sum it up, all of end to end, all per round)."""
    whole, each = made.end_to_end, made.per_round
    end_to_end = {
        "off_vs_mlx_lm": whole.ratio("off", MLX_LM),
        "on_vs_off": whole.ratio("on", "off"),
        "diagnostics_vs_off": whole.ratio("diagnostics", "off"),
        "off_vs_mlx_lm_plain": whole.ratio("off", MLX_LM_PLAIN),
        "mlx_lm_vs_mlx_lm_plain": whole.ratio(MLX_LM, MLX_LM_PLAIN),
    }
    per_round = {
        "off_vs_mlx_lm": each.ratio("sampler-match off", MLX_LM),
        "on_vs_off": each.ratio("sampler-match on", "sampler-match off"),
        "diagnostics_vs_off": each.ratio("sampler-match diagnostics", "sampler-match off"),
        "stochastic_vs_sampler_match": each.ratio("stochastic off", "sampler-match off"),
        "stochastic_on_vs_off": each.ratio("stochastic on", "stochastic off"),
        "stochastic_diagnostics_vs_off": each.ratio("stochastic diagnostics", "stochastic off"),
    }
    names = ("off_vs_mlx_lm", "on_vs_off", "diagnostics_vs_off")
    chosen = {name: end_to_end[name] for name in names}
    chosen["stochastic_vs_sampler_match"] = per_round["stochastic_vs_sampler_match"]
    return chosen, end_to_end, per_round


def bench_object(made: Bench) -> dict[str, Any]:
    """The JSON object. `ratios`: end to end at temperature 0, but the last one per round; above 1: the first is faster.

    `outside_forward_share`: the share of a sampler-match round without a record that isn't the models' forward passes:
    1 - (time of the same passes alone) / (time of the round), medians of rounds taken by turns.
    """
    from engine.backend import describe_backend

    assert made.pair.draft is not None
    ratios, end_to_end, per_round = _ratios(made)
    outside = spread(made.outside)
    return {
        "models": {"target": model_object(made.pair.target.info), "draft": model_object(made.pair.draft.info)},
        "backend": describe_backend(),
        "num_draft_tokens": made.k,
        "seed": made.seed,
        "prompts": made.prompts,
        "samples": len(made.outside),
        "ratios": ratios,
        "outside_forward_share": outside["median"],
        "outside_forward_share_spread": outside,
        "host_syncs_per_round": max(made.syncs_per_round.values()),
        "host_syncs_per_round_by_contestant": made.syncs_per_round,
        "end_to_end": {
            "temperature": 0.0,
            "max_tokens": made.max_tokens,
            "tokens_per_second": {name: spread(v) for name, v in made.end_to_end.tokens_per_second.items()},
            "ratios": end_to_end,
            "streams_agree": not made.differences,
            "first_differences": made.differences,
        },
        "per_round": {
            "temperature": made.temperature,
            "rounds": made.rounds - WARM_UP,
            "milliseconds": {n: spread(1e3 * np.array(v)) for n, v in made.per_round.seconds.items()},
            "tokens_per_second": {name: spread(v) for name, v in made.per_round.tokens_per_second.items()},
            "ratios": per_round,
        },
    }


def _heading(made: Bench) -> str:
    assert made.pair.draft is not None
    models = f"target {describe(made.pair.target.info)}; draft {describe(made.pair.draft.info)}"
    return f"{models}; k {made.k}; {len(made.prompts)} prompts"


def _cells(values: dict[str, float]) -> tuple[str, str, str]:
    return significant(values["median"]), significant(values["low"]), significant(values["high"])


def _report(made: Bench) -> str:
    found = bench_object(made)
    whole, each = found["end_to_end"], found["per_round"]
    columns = ("median", "10 %", "90 %")
    speeds = [(name, *_cells(v)) for name, v in whole["tokens_per_second"].items()]
    rounds = [(name, *_cells(v)) for name, v in each["milliseconds"].items()]
    agree = "all streams agree" if whole["streams_agree"] else f"streams differ: {whole['first_differences']}"
    parts = [
        f"{_heading(made)}; {found['backend']}; {found['samples']} samples",
        f"\nEnd to end, temperature 0, {made.max_tokens} tokens, tokens a second ({agree})",
        table(("contestant", *columns), speeds),
        f"\nPer round, temperature {made.temperature:g}, {each['rounds']} rounds, milliseconds",
        table(("contestant", *columns), rounds),
        "\nRatios, above 1: the first is faster",
        table(("end to end", *columns), [(name, *_cells(v)) for name, v in whole["ratios"].items()]),
        "",
        table(("per round", *columns), [(name, *_cells(v)) for name, v in each["ratios"].items()]),
        f"\nA sampler-match round takes {duration(each['milliseconds']['sampler-match off']['median'] / 1e3)}; "
        f"{100 * found['outside_forward_share']:.1f} % of it is outside the models' forward passes.",
        f"Host syncs a round: {found['host_syncs_per_round']:g}.",
    ]
    return harmless("\n".join(parts))
