"""How often the meters give a false alarm, and how many tokens each fault goes unseen: the tables of the help page.

    python -m tests.benchmarks.meters RESULTS.json [--part toys bundled] [--seeds 10] [--tokens 5000] [--write]

Every finished row is kept in RESULTS.json and isn't measured again; `--write` puts the tables into
`resources/help/meters.md`. Each measurement is made of many short runs over a list of prompts, its meters adding up
over them. Counterfactuals are left out: they need most of the time and change no stream.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import re
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy import stats

from engine.acceptance import RULES, Verdict, Verification
from engine.backend import mx
from engine.evidence import Meter, Meters
from engine.generator import SpeculativeGenerator
from engine.meters import meter_coordinates
from engine.models import Pair, bundled_pair
from engine.recording import RecordedRun
from engine.rounds import Round
from engine.settings import SamplerSettings, Settings
from engine.toy import toy_pair
from tests.unit.many_rounds import many_rounds, random_table

PAGE = Path(__file__).parents[2] / "resources" / "help" / "meters.md"
HEADING = "## Measured"
METERS = ("losslessness", "proposal")
RIGHT = ("stochastic", "sampler-match", "block")
PROMPTS = (
    "It is a truth universally acknowledged, that",
    "The sea was calm that morning, and the captain",
    "She had never in her life been so much surprised; for",
    "Call me Ishmael. Some years ago",
    "Alice was beginning to get very tired of",
    "The family had long been settled in",
    "He was a very tall old man, with",
    "There was nothing so very remarkable in",
    "My dear, said his lady to him one day,",
    "The whale rose slowly out of the water, and",
)
TOY_PROMPTS = ("the cat sat on", "a mat", "on the mat")
TOKENS_PER_RUN = 200
EARLY = 20.0
"""Evidence that one right run in twenty may reach: 1,000 runs can't show a rate of one in ten thousand."""

RUNS, ROUNDS, VOCABULARY, K = 1000, 250, 32, 4

SAMPLED_FROM_ITS_OWN = "the drafter's q is the one that it drew from, only a worse one"
CORRUPTED = "the meters compare with p as it was computed, and that is what the fault corrupts"


Row = dict[str, Any]
Prompts = tuple[str, ...]


@dataclass(frozen=True)
class Fault:
    """A fault with the settings that turn it on. `why`: the reason why no meter is to be expected to see it."""

    name: str
    settings: dict[str, Any]
    why: str = ""
    toy: bool = True
    bundled: bool = True


def _rule(name: str, why: str = "", **settings: Any) -> Fault:
    return Fault(name, {"rule": name, **settings}, why)


def _draft(**settings: Any) -> dict[str, Any]:
    return {"draft_sampler": SamplerSettings(temperature=1.0, **settings)}


FAULTS = (
    _rule("argmax-vs-argmax"),
    _rule("resample-from-p"),
    Fault("raw-q, drafter with top-k 2", {"rule": "raw-q", **_draft(top_k=2)}),
    Fault("raw-q, drafter with top-k 20", {"rule": "raw-q", **_draft(top_k=20)}, toy=False),
    _rule("missing-support-check", "it acts only where q(d) is below 6e-8 and was drawn all the same"),
    *(
        Fault(f"draft cache: {name}", {"rule": "stochastic", "rewind": name}, SAMPLED_FROM_ITS_OWN, toy=False)
        for name in ("legacy-rewind", "drop-debt", "stale-trim", "no-trim")
    ),
    *(
        Fault(f"main cache: {name}", {"rule": "stochastic", "main_rewind": name}, CORRUPTED, toy=False)
        for name in ("stale-trim", "no-trim")
    ),
)


@dataclass
class Seen:
    """What one seed's runs came to: `alarms` are emitted tokens until each meter tripped, None where it didn't."""

    seed: int
    tokens: int = 0
    alarms: dict[str, int | None] = field(default_factory=lambda: dict.fromkeys(METERS))
    log10: dict[str, float] = field(default_factory=dict)
    most: float = 0.0
    first_broken: int | None = None

    @property
    def first(self) -> int | None:
        """Tokens until any meter tripped."""
        return min((at for at in self.alarms.values() if at is not None), default=None)


def watch(pair: Pair, prompts: Prompts, settings: dict[str, Any], seed: int, limit: int) -> Seen:
    """Run over the prompts until a meter trips, or `limit` tokens were emitted."""
    seen, meters, rounds = Seen(seed), Meters(), 0
    for number, prompt in enumerate(itertools.cycle(prompts)):
        fields = {"sampler": SamplerSettings(temperature=1.0), "num_draft_tokens": K, "top_n": 1, **settings}
        room = min(TOKENS_PER_RUN, limit - seen.tokens)
        wanted = Settings(max_tokens=room, seed=1000 * seed + number, diagnostics=True, **fields)
        generator = SpeculativeGenerator(pair, wanted, stochastic=False)
        run = RecordedRun(generator.start(prompt))
        asked = run.why_no_proposal_meter(wanted.rule) is None
        for record in generator.rounds():
            if seen.first_broken is None and _is_broken(record):
                seen.first_broken = rounds
            rounds += 1
            seen.tokens += len(record.emitted)
            found = record.coordinates
            assert found is not None
            meters.add(len(record.emitted), found.u_ratio, found.u_p, found.u_proposal if asked else None)
            for name in METERS:
                meter: Meter = getattr(meters, name)
                seen.most = max(seen.most, meter.log10_evidence)
                if meter.alarm_at is not None and seen.alarms[name] is None:
                    seen.alarms[name] = seen.tokens
            if seen.first is not None:
                break
        if seen.first is not None or seen.tokens >= limit:
            break
        if generator.end is not None and generator.end.finish_reason == "error":
            raise RuntimeError(generator.end.notice)
    seen.log10 = {name: getattr(meters, name).log10_evidence for name in METERS}
    return seen


def _is_broken(record: Round) -> bool:
    caches = [cache for cache in (record.main_cache, record.draft_cache) if cache is not None]
    return any(cache.first_wrong is not None or cache.end != cache.expected_end for cache in caches)


def many_right_runs(rule: str) -> Row:
    """1,000 runs of a right rule on random pairs of 32 tokens, thousands of rounds in one graph."""

    def also(v: Verification, verdict: Verdict) -> dict[str, mx.array]:
        return meter_coordinates(v, verdict)

    chunk = RUNS // 10
    alarms, tokens, most = dict.fromkeys(METERS, 0), 0, []
    for part in range(10):
        random = np.random.default_rng(part)
        p, q = random_table(random, VOCABULARY), random_table(random, VOCABULARY)
        rounds = many_rounds(RULES[rule].decide, p, q, K, chunk * ROUNDS, seed=part + 1, also=also)
        emitted = rounds.count + 1
        rows = zip(emitted.tolist(), *(rounds.also[n] for n in ("u_ratio", "u_p", "u_proposal")), strict=True)
        for _ in range(chunk):
            meters = Meters()
            for row in itertools.islice(rows, ROUNDS):
                meters.add(*row)
            tokens += meters.losslessness.n
            for name in METERS:
                meter: Meter = getattr(meters, name)
                alarms[name] += meter.alarm_at is not None
                most.append(float(meter.curve().max()))
    return {
        "rule": rule,
        "where": f"random pairs of {VOCABULARY} tokens",
        "runs": RUNS,
        "tokens": tokens,
        "alarms": alarms,
        "early": sum(value >= math.log10(EARLY) for value in most),
        "meters": len(most),
    }


def right_rule(rule: str, place: str, pair: Callable[[], Pair], prompts: Prompts, seeds: range, limit: int) -> Row:
    """The same of runs of the round loop itself."""
    seen = [watch(pair(), prompts, {"rule": rule}, seed, limit) for seed in seeds]
    return {
        "rule": rule,
        "where": place,
        "runs": len(seen),
        "tokens": sum(s.tokens for s in seen),
        "alarms": {name: sum(s.alarms[name] is not None for s in seen) for name in METERS},
        "early": None,
        "seen": [dataclasses.asdict(s) for s in seen],
    }


def measurements(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Row]]]:
    """(key, how to measure it) of every row."""
    seeds = range(1, options.seeds + 1)

    places: list[tuple[str, Callable[[], Pair], Prompts]] = []
    if "toys" in options.part:
        places.append(("six-word toy", toy_pair, TOY_PROMPTS))
        for rule in RIGHT:
            yield f"false alarms/{rule}/random pairs", partial(many_right_runs, rule)
    if "bundled" in options.part:
        places.append(("bundled pair", cache(bundled_pair), PROMPTS))
    for place, make, prompts in places:
        faults = [fault for fault in FAULTS if (fault.toy if place == "six-word toy" else fault.bundled)]
        for fault in faults:
            if not fault.why:
                yield (
                    f"faults/{place}/{fault.name}",
                    partial(fault_row, fault, place, make, prompts, seeds, options.tokens),
                )
        for rule in RIGHT:
            yield (
                f"false alarms/{rule}/{place}",
                partial(right_rule, rule, place, make, prompts, seeds, options.tokens),
            )
        some = range(1, options.unseen_seeds + 1)
        for fault in faults:
            if fault.why:
                yield (
                    f"faults/{place}/{fault.name}",
                    partial(fault_row, fault, place, make, prompts, some, options.tokens),
                )


def fault_row(fault: Fault, place: str, pair: Callable[[], Pair], prompts: Prompts, seeds: range, limit: int) -> Row:
    """Tokens until a meter tripped, for each seed; None where none did."""
    seen = [watch(pair(), prompts, fault.settings, seed, limit) for seed in seeds]
    firsts = [s.first for s in seen]
    names = {name for s in seen for name, at in s.alarms.items() if at is not None}
    return {
        "fault": fault.name,
        "where": place,
        "runs": len(seen),
        "tripped": sum(at is not None for at in firsts),
        "meters": sorted(names),
        "tokens": firsts,
        "limit": limit,
        "within_3000": sum(at is not None and at <= 3000 for at in firsts),
        "first_broken": [s.first_broken for s in seen],
        "why": fault.why,
        "seen": [dataclasses.asdict(s) for s in seen],
    }


def quantile(row: Row, share: float) -> str:
    """An order statistic of the tokens until the alarm; beyond the limit where too few runs tripped."""
    values = sorted(math.inf if at is None else at for at in row["tokens"])
    value = values[min(math.ceil(share * len(values)), len(values)) - 1]
    return f"> {row['limit']:,}" if math.isinf(value) else f"{value:,.0f}"


def tables(results: dict[str, Row]) -> str:
    """The section of the help page."""
    right = [row for key, row in results.items() if key.startswith("false alarms/")]
    faults = [row for key, row in results.items() if key.startswith("faults/")]
    lines = [
        HEADING,
        "",
        f"Made by `python -m tests.benchmarks.meters`, at temperature 1 and k {K}. Each seed goes through a list of "
        f"prompts, {TOKENS_PER_RUN} tokens for each; its meters add up until one trips or the tokens are spent.",
        "",
        "Right rules. The stated rate is at most one false alarm in 10,000 runs for each meter, however long they are. "
        "So few runs can't show so low a rate: beside the alarms stands the upper end of the 95 % interval, and how "
        f"often the evidence ever reached {EARLY:.0f}, which at most 5 % may.",
        "",
        "| rule | on | runs | tokens | alarms: losslessness, proposal | 95 % upper bound a run | ever reached 20 |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in right:
        worst = max(row["alarms"].values())
        bound = stats.beta.ppf(0.975, worst + 1, row["runs"] - worst)
        early = "-" if row["early"] is None else f"{row['early']} of {row['meters']:,}"
        counts = ", ".join(str(row["alarms"][name]) for name in METERS)
        numbers = f"{row['runs']:,} | {row['tokens']:,} | {counts} | {bound:.2g} | {early}"
        lines.append(f"| `{row['rule']}` | {row['where']} | {numbers} |")
    lines += [
        "",
        "Faults: emitted tokens until the first alarm.",
        "",
        "| fault | on | seeds | tripped | meter | median | 90 % |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in faults:
        if row["tripped"]:
            lines.append(
                f"| {row['fault']} | {row['where']} | {row['runs']} | {row['tripped']} | {' and '.join(row['meters'])} "
                f"| {quantile(row, 0.5)} | {quantile(row, 0.9)} |"
            )
    unseen = [row for row in faults if not row["tripped"]]
    if unseen:
        lines += [
            "",
            "Faults that no meter sees:",
            "",
            "| fault | on | seeds | tokens each | why | what names it |",
            "|---|---|---|---|---|---|",
        ]
    for row in unseen:
        broken = [at for at in row["first_broken"] if at is not None]
        named = "nothing here" if len(broken) < row["runs"] else f"the invariants, from round {_span(broken)}"
        lines.append(f"| {row['fault']} | {row['where']} | {row['runs']} | {row['limit']:,} | {row['why']} | {named} |")
    return "\n".join(line if line.startswith("|") else textwrap.fill(line, 120) for line in lines) + "\n"


def _span(values: list[int]) -> str:
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def write(results: dict[str, Row]) -> None:
    """Put the tables in the place of the page's section."""
    page = PAGE.read_text(encoding="utf-8")
    section = re.compile(rf"^{re.escape(HEADING)}\n.*?(?=^## |\Z)", re.DOTALL | re.MULTILINE)
    if not section.search(page):
        raise SystemExit(f"{PAGE} has no section {HEADING!r}")
    PAGE.write_text(section.sub(lambda _: tables(results) + "\n", page), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("results", type=Path)
    parser.add_argument("--part", nargs="*", default=["toys", "bundled"], choices=["toys", "bundled"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--unseen-seeds", type=int, default=3, help="for faults that no meter is expected to see")
    parser.add_argument("--tokens", type=int, default=5000)
    parser.add_argument("--write", action="store_true", help="put the tables into the help page")
    options = parser.parse_args()
    # A mock in its place would keep every array that it is called with.
    with mock.patch("engine.generator.counterfactuals", lambda *_: {}):  # noqa: PT008
        results = measure_all(options)
    if options.write:
        write(results)


def measure_all(options: argparse.Namespace) -> dict[str, Row]:
    """All rows by key, those kept included."""
    results: dict[str, Row] = json.loads(options.results.read_text()) if options.results.exists() else {}
    for key, measure in measurements(options):
        if key in results:
            continue
        began = time.perf_counter()
        results[key] = measure()
        options.results.write_text(json.dumps(results, indent=1))
        short = {name: value for name, value in results[key].items() if name not in ("seen", "why")}
        print(f"{time.perf_counter() - began:7.1f} s  {key}: {short}", flush=True)
    return results


if __name__ == "__main__":
    main()
