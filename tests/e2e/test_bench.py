"""`draftscope bench`: what its contestants do, that the streams agree, and what it prints; never how fast they are."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from app.headless import bench
from app.headless.bench_contestants import ForwardsAlone, MlxLmPlain, MlxLmSpeculative, Ours, top_two_gap
from engine.backend import mx
from engine.models import Pair
from engine.settings import SamplerSettings, Settings
from engine.toy import TableModel, fixed_logits, toy_model, toy_pair
from tests.e2e.headless import command

Capture = pytest.CaptureFixture[str]
PROMPT = [0, 1, 2, 3]
CYCLE = np.eye(6, dtype=np.float32)[[1, 2, 3, 4, 5, 0]] * 9
QUICK = ("--toy", "--repeats", "2", "-n", "20", "--rounds", "6")


def walking_pair() -> Pair:
    """A target that walks a cycle, and a drafter that agrees after half of the six tokens."""
    draft = np.roll(CYCLE, 1, axis=1)
    draft[:3] = CYCLE[:3]
    return Pair(toy_model(TableModel(CYCLE)), toy_model(TableModel(draft)))


def ours(pair: Pair, temperature: float = 0.0, **fields: Any) -> Ours:
    sampler = SamplerSettings(temperature=temperature)
    return Ours(pair, Settings(**{"sampler": sampler, "max_tokens": 40, "seed": 1, "record": False, **fields}))


def run(contestant: Any) -> list[int]:
    """Sizes of the rounds."""
    contestant.start(PROMPT)
    sizes, before = [], 0
    while contestant.step():
        sizes.append(len(contestant.tokens) - before)
        before = len(contestant.tokens)
    return sizes


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    patch = pytest.MonkeyPatch()
    printed: list[dict[str, Any]] = []
    patch.setattr(bench, "print_json", printed.append)
    try:
        from app.cli import main

        assert main(["bench", *QUICK, "--json"]) == 0
    finally:
        patch.undo()
    return printed[0]


def test_a_round_of_mlx_lm_is_a_round_of_ours() -> None:
    pair = walking_pair()
    sizes = run(ours(pair, num_draft_tokens=4))
    theirs = MlxLmSpeculative(pair, 4, 40, 0.0, 1)
    assert run(theirs) == sizes
    assert len(set(sizes)) > 1
    assert len(theirs.tokens) == 40


def test_all_streams_agree_at_temperature_0() -> None:
    pair = walking_pair()
    contestants = [ours(pair), MlxLmSpeculative(pair, 4, 40, 0.0, 1), MlxLmPlain(pair, 40, 0.0, 1)]
    for contestant in contestants:
        run(contestant)
    assert [c.tokens for c in contestants] == [[(4 + i) % 6 for i in range(40)]] * 3


def test_mlx_lm_samples_at_a_temperature_and_repeats_with_its_seed() -> None:
    pair = toy_pair()
    first, second, other = (MlxLmSpeculative(pair, 4, 40, 0.7, seed) for seed in (1, 1, 2))
    for contestant in (first, second, other):
        run(contestant)
    assert first.tokens == second.tokens != other.tokens
    assert len(set(first.tokens)) > 2


@pytest.mark.parametrize("make", [lambda p: MlxLmSpeculative(p, 4, 40, 0.7, 1), lambda p: MlxLmPlain(p, 40, 0.7, 1)])
def test_a_waiting_generator_of_mlx_lm_leaves_the_stream_as_it_was(make: Any) -> None:
    before = mx.default_stream(mx.default_device())
    contestant = make(toy_pair())
    contestant.start(PROMPT)
    contestant.step()
    assert mx.default_stream(mx.default_device()) == before
    contestant.step()
    assert mx.default_stream(mx.default_device()) == before


def test_by_turns_they_do_what_they_do_alone() -> None:
    pair = toy_pair()
    alone = [run(ours(pair, 0.7)), run(MlxLmSpeculative(pair, 4, 40, 0.0, 1))]
    both: list[Any] = [ours(pair, 0.7), MlxLmSpeculative(pair, 4, 40, 0.0, 1)]
    for contestant in both:
        contestant.start(PROMPT)
    counts: list[list[int]] = [[0], [0]]
    while [contestant.step() for contestant in both].count(True):
        for contestant, seen in zip(both, counts, strict=True):
            if len(contestant.tokens) > seen[-1]:
                seen.append(len(contestant.tokens))
    assert [np.diff(seen).tolist() for seen in counts] == alone


@pytest.mark.parametrize("k", [1, 4])
def test_the_passes_alone_are_those_of_the_round(k: int) -> None:
    calls: dict[str, list[list[int]]] = {"target": [], "draft": []}

    def watched(name: str, model: Any) -> Any:
        network = model.network

        def call(inputs: mx.array, cache: Any = None) -> mx.array:
            calls[name].append(np.array(inputs)[0].tolist())
            return network(inputs, cache=cache)

        return dataclasses.replace(model, network=call)

    plain = toy_pair()
    assert plain.draft is not None
    pair = Pair(watched("target", plain.target), watched("draft", plain.draft))
    followed = ours(pair, 0.7, num_draft_tokens=k, stochastic=True)
    alone = ForwardsAlone(pair, followed)
    alone.start(PROMPT)
    followed.start(PROMPT)
    widths = set()
    for seen in calls.values():
        seen.clear()
    while followed.step():
        in_round = {name: list(seen) for name, seen in calls.items()}
        for seen in calls.values():
            seen.clear()
        assert alone.step() > 0
        assert calls == in_round
        widths.add(len(calls["draft"][0]) if calls["draft"] else 0)
        for seen in calls.values():
            seen.clear()
        record = followed.last
        assert record is not None
        assert record.draft_cache is not None
        positions = [cache.position for cache in alone._caches]
        assert positions == [record.main_cache.end, record.draft_cache.end]
    assert {1, 2} <= widths


def test_ratios_of_known_times() -> None:
    times = bench.Times()
    for ours_took, theirs_took in ((1.0, 2.0), (1.0, 4.0), (2.0, 6.0)):
        times.add("ours", ours_took, 1)
        times.add("theirs", theirs_took, 1)
    found = times.ratio("ours", "theirs")
    assert found == pytest.approx({"median": 3.0, "low": 2.2, "high": 3.8})
    assert times.ratio("theirs", "ours")["median"] == pytest.approx(1 / 3)


def test_a_difference_is_noted_with_its_gap() -> None:
    made = bench.Bench(toy_pair(), [PROMPT], 4, 3, 6, 0.7, 1)
    bench._compare(made, "off", [0, 0, 1], [0, 0, 1], PROMPT)
    assert made.differences == []
    for _ in range(2):
        bench._compare(made, "off", [0, 1, 1], [0, 0, 1], PROMPT)
    [one] = made.differences
    assert (one["contestant"], one["prompt"], one["token"]) == ("off", 0, 1)
    assert one["top_two_gap"] == pytest.approx(1.0)  # the toy's two largest logits are 2 and 1
    assert top_two_gap(toy_model(fixed_logits((3, 3, 0, 0, 0, 0))), PROMPT) == 0


def test_the_object_has_what_was_promised(found: dict[str, Any]) -> None:
    assert set(found["ratios"]) == {"off_vs_mlx_lm", "on_vs_off", "diagnostics_vs_off", "stochastic_vs_sampler_match"}
    spreads = [
        *found["ratios"].values(),
        *found["end_to_end"]["ratios"].values(),
        *found["per_round"]["ratios"].values(),
    ]
    for spread in spreads:
        assert 0 < spread["low"] <= spread["median"] <= spread["high"]
    assert found["samples"] == 2
    assert found["host_syncs_per_round"] == 1
    assert len(found["host_syncs_per_round_by_contestant"]) == 9
    assert 0 < found["outside_forward_share"] < 1
    assert found["end_to_end"]["streams_agree"] is True
    assert set(found["end_to_end"]["tokens_per_second"]) == {
        "off",
        "on",
        "diagnostics",
        bench.MLX_LM,
        bench.MLX_LM_PLAIN,
    }
    assert len(found["per_round"]["milliseconds"]) == 7
    assert found["per_round"]["rounds"] == 4


def test_a_ratio_above_1_means_that_the_first_is_faster() -> None:
    made = bench.Bench(toy_pair(), [PROMPT], 4, 20, 6, 0.7, 1)
    seconds = {"off": 2.0, "on": 3.0, "diagnostics": 5.0, bench.MLX_LM: 7.0, bench.MLX_LM_PLAIN: 11.0}
    for name, value in seconds.items():
        made.end_to_end.add(name, value, 1.0)
    for rule, factor in (("sampler-match", 13.0), ("stochastic", 17.0)):
        for name in bench.RECORDS:
            made.per_round.add(f"{rule} {name}", factor * seconds[name], 1.0)
    made.per_round.add(bench.MLX_LM, 19.0, 1.0)
    chosen, whole, each = ({name: r["median"] for name, r in found.items()} for found in bench._ratios(made))
    assert chosen == pytest.approx(
        {
            "off_vs_mlx_lm": 7 / 2,
            "on_vs_off": 2 / 3,
            "diagnostics_vs_off": 2 / 5,
            "stochastic_vs_sampler_match": 13 / 17,
        }
    )
    assert whole["off_vs_mlx_lm_plain"] == pytest.approx(11 / 2)
    assert each["off_vs_mlx_lm"] == pytest.approx(19 / 26)
    assert each["stochastic_on_vs_off"] == pytest.approx(2 / 3)


def test_the_report_is_printed(capsys: Capture) -> None:
    done = command(capsys, "bench", *QUICK)
    assert done.code == 0
    for line in ("contestant", "mlx-lm speculative", "stochastic_vs_sampler_match", "Host syncs a round: 1."):
        assert line in done.out
    assert "all streams agree" in done.out
    assert "repeat 2 of 2" in done.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--repeats 0", "repeats: expected a whole number >= 1, got 0"),
        ("--rounds 2", "rounds: expected a whole number >= 3, got 2"),
        ("-k 0", "num_draft_tokens: expected a whole number >= 1, got 0"),
        ("-n 0", "max_tokens"),
        ("--temp 0", "temperature: expected one above 0"),
        ("--temp -1", "temperature"),
        ("--seed -1", "seed"),
        ("--prompt dog", "doesn't know 'dog'"),
        ("--prompt=", "the prompt must be non-empty"),
        ("--target /nowhere", "give --target and --draft"),
        ("--drafter prompt-lookup", "needs a network that draws from its q, not prompt-lookup:3"),
        ("--drafter self,greedy", "needs a network that draws from its q, not self,greedy"),
        ("--drafter dropped:0", "drafter: dropped:0-0: six-word toy target has no layers"),
    ],
)
def test_bad_input_is_refused_in_one_line(capsys: Capture, options: str, words: str) -> None:
    done = command(capsys, "bench", "--toy", *options.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert words in done.err


def test_runs_longer_than_the_context_are_refused(capsys: Capture) -> None:
    done = command(capsys, "bench", "-n", "2000")
    assert (done.code, done.out) == (2, "")
    assert "context holds 1024" in done.err


def test_a_draft_made_of_the_target_is_timed_as_a_draft_model_is(capsys: Capture) -> None:
    done = command(capsys, "bench", "--drafter", "dropped:1-2", "--repeats", "1", "-n", "4", "--rounds", "3")
    assert done.code == 0
    assert "draft bundled target, layers 1-2 dropped" in done.err + done.out
    assert "all streams agree" in done.out


def test_a_pair_that_mlx_lm_cannot_speculate_with_is_refused_by_its_cache(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlx_lm.models.cache import ArraysCache

    pair = toy_pair()
    info = dataclasses.replace(pair.target.info, cache_type="ArraysCache")
    recurrent = dataclasses.replace(pair.target, info=info, make_cache=lambda: [ArraysCache(2)])
    monkeypatch.setattr(bench, "load_with_draft", lambda options, command: dataclasses.replace(pair, target=recurrent))
    done = command(capsys, "bench", *QUICK)
    assert (done.code, done.out) == (2, "")
    assert "can't speculate with six-word toy target: its cache (ArraysCache) can't be trimmed" in done.err
