"""Every kind of cache as target and as draft: what can't be trimmed is put back and replayed, or refused by name.

R numbers are rows of the table of bug reports.
"""

from __future__ import annotations

import dataclasses
import importlib
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_folders import write_folder
from tiny_networks import ARCHITECTURES, PROMPT, RESTORED, TRIMMED, WINDOW, often_wrong, plain_decoding, tiny_model

from engine import caches
from engine.backend import mx
from engine.cache_layers import as_it_is, refused_caches, why_not_restorable
from engine.caches import Cache
from engine.codec import Reader, encode, layout_of
from engine.forks import settings_before
from engine.generator import PromptError, SpeculativeGenerator
from engine.invariants import broken_invariants
from engine.model_files import LoadError
from engine.models import LanguageModel, Pair, load_pair
from engine.recording import RecordedRun
from engine.rounds import CachePositions, Round
from engine.settings import SamplerSettings, Settings, SettingsError

GREEDY = SamplerSettings(temperature=0.0)
TIE = 1e-3  # a smaller gap between the two largest is a tie in float32; R50's rows allow 1e-2
_models: dict[str, LanguageModel] = {}


def model(name: str) -> LanguageModel:
    """The tiny model of that name, made once."""
    if name not in _models:
        _models[name] = tiny_model(name)
    return _models[name]


def generator_of(target: LanguageModel, draft: LanguageModel | None, **settings: Any) -> SpeculativeGenerator:
    settings = {"sampler": GREEDY, "seed": 1, "max_tokens": 64, "record": False} | settings
    generator = SpeculativeGenerator(Pair(target, draft), Settings(**settings))
    generator.start(PROMPT)
    return generator


def run(
    target: LanguageModel, draft: LanguageModel | None, **settings: Any
) -> tuple[SpeculativeGenerator, list[Round]]:
    generator = generator_of(target, draft, **settings)
    rounds = list(generator.rounds())
    assert generator.end is not None
    assert generator.end.finish_reason == "length", generator.end.notice
    assert generator.host_syncs == len(rounds)
    return generator, rounds


def parts_at(tokens: list[int], plain: tuple[list[int], list[float]], tie: float = TIE) -> int | None:
    """Where a stream leaves plain decoding, None where it doesn't, or does so at a tie."""
    for index, (ours, theirs, gap) in enumerate(zip(tokens, *plain, strict=True)):
        if ours != theirs:
            return None if gap < tie else index
    return None


def goes_wrong_unrestored(
    monkeypatch: pytest.MonkeyPatch, target: LanguageModel, plain: tuple[list[int], list[float]], **settings: Any
) -> bool:
    """Whether it shows where a cache that was to go back stays as it is, rejected tokens and all (mlx-lm #1423).

    A window's own position gives it away; recurrent state has none, so that only the text is another one.
    """
    monkeypatch.setattr(caches, "as_it_is", lambda layer: layer)
    generator = generator_of(target, often_wrong(target), max_tokens=len(plain[0]), **settings)
    list(generator.rounds())
    assert generator.end is not None
    if generator.end.finish_reason == "error":
        return "the rewind law says" in generator.end.notice
    return parts_at(generator.tokens, plain) is not None


# Equal to plain decoding


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_greedy_speculation_is_plain_decoding(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R46, R48: 4 windows of text, with a drafter of the same kind that is often wrong."""
    target, tokens = model(name), 4 * WINDOW
    plain = plain_decoding(target, tokens)
    assert len(set(plain[0])) > 10
    generator, rounds = run(target, often_wrong(target), max_tokens=tokens)
    assert parts_at(generator.tokens, plain) is None
    assert 0.1 < generator.statistics.accepted / generator.statistics.positions_tested < 0.9
    for cache in ("main_cache", "draft_cache"):
        assert (sum(getattr(record, cache).replayed for record in rounds) > 10) == (name in RESTORED)
    if name in RESTORED:
        assert goes_wrong_unrestored(monkeypatch, target, plain)


@pytest.mark.parametrize(("target", "draft"), [("llama", "mamba"), ("qwen3_next", "llama"), ("gemma3_text", "rwkv7")])
def test_target_and_draft_may_be_of_different_kinds(target: str, draft: str) -> None:
    generator, rounds = run(model(target), model(draft), max_tokens=40, num_draft_tokens=3)
    assert parts_at(generator.tokens, plain_decoding(model(target), 40)) is None
    assert any(record.main_cache.replayed for record in rounds) == (target in RESTORED)
    assert any(record.draft_cache and record.draft_cache.replayed for record in rounds) == (draft in RESTORED)


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("k", [2, 4])
def test_r46_a_window_that_wraps(size: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In mlx-lm the streams part at index 3, 1, 11 and 9."""
    from mlx_lm.models.cache import RotatingKVCache

    target = tiny_model("llama", make_cache=lambda: [RotatingKVCache(size) for _ in range(2)])
    plain = plain_decoding(target, 40)
    generator, rounds = run(target, often_wrong(target), max_tokens=40, num_draft_tokens=k)
    assert parts_at(generator.tokens, plain) is None
    # Until it is full it is trimmed; from then on nothing is.
    for record in rounds:
        cache = record.main_cache
        full = cache.start + cache.forwarded > size
        assert bool(cache.replayed) == (full and cache.trim_asked[0] > 0)
        assert cache.replayed in (0, cache.end - cache.start)
    assert goes_wrong_unrestored(monkeypatch, target, plain, num_draft_tokens=k)


def test_r48_a_hybrid_skips_nothing_and_says_how_it_goes_back() -> None:
    generator, _ = run(model("qwen3_next"), often_wrong(model("qwen3_next")), max_tokens=20)
    header = generator.header
    assert header is not None
    assert (
        "Rewound by snapshot and replay: the target's ArraysCache, the draft's ArraysCache can't be trimmed, "
        "so a rejection costs a further pass over the kept tokens."
    ) in header.notices
    assert [(layer.type, layer.trimmable) for layer in header.main_layers] == [
        ("ArraysCache", False),
        ("KVCache", True),
    ]
    plain = generator_of(model("llama"), model("qwen3")).header
    assert plain is not None
    assert not plain.notices
    gemma = generator_of(model("gemma3_text"), None).header
    assert gemma is not None
    assert "the target's RotatingKVCache (once its window of 16 is full) can't be trimmed" in " ".join(gemma.notices)
    assert gemma.main_layers[0].window == WINDOW


@pytest.mark.parametrize("name", ["gemma3_text", "mamba", "qwen3_next"])
def test_caches_hold_what_fresh_ones_would(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def generator() -> SpeculativeGenerator:
        sampler = SamplerSettings(temperature=1.0)
        return generator_of(model(name), often_wrong(model(name)), sampler=sampler, stochastic=True, max_tokens=30)

    checked, unchecked = generator(), generator()
    for record in checked.rounds():
        if record.index % 3 == 2 or checked.end is not None:
            found = checked.check_contents()
            assert found.draft_difference is not None
            assert max(found.main_difference, found.draft_difference) < 1e-3
    list(unchecked.rounds())
    assert checked.tokens == unchecked.tokens  # the checks left no trace
    monkeypatch.setattr(caches, "as_it_is", lambda layer: layer)
    wrong = generator()
    list(wrong.rounds())
    assert wrong.end is not None
    assert wrong.end.finish_reason == "error" or wrong.check_contents().main_difference > 0.05


# The law, faults, repairs, forks, failures


def test_r43_both_caches_stand_where_the_law_says_whatever_is_accepted() -> None:
    """k = 4, prompt of 4 tokens: main takes off 4, 3, 2, 1, 0, draft 3, 2, 1, 0, 0 for 0 to 4 accepted."""
    seen = {}
    for name in ("llama", "qwen3_next"):
        generator, rounds = run(model(name), often_wrong(model(name), tenths=3), max_tokens=60)
        held = len(PROMPT)
        for record in rounds:
            main, draft = record.main_cache, record.draft_cache
            assert draft is not None
            held += len(record.emitted)
            assert set(main.layers_end) == {held - 1}
            assert set(draft.layers_end) == {held - 1 - record.debt}
            assert record.debt == (record.k > 0 and len(record.emitted) > record.k)
            if record.k == 4 and record is not rounds[-1]:
                seen[record.accepted] = (main.trim_done, draft.trim_done)
            assert not list(broken_invariants(record, 0 if record.index == 0 else rounds[record.index - 1].debt))
        assert generator.statistics.rounds == len(rounds)
    assert seen == {a: ((4 - a,), (max(3 - a, 0),)) for a in range(5)}


def test_r56_every_layer_goes_back() -> None:
    target = tiny_model("llama", num_hidden_layers=3)
    rejected = often_wrong(target, tenths=10)
    generator, rounds = run(target, rejected, max_tokens=8)
    assert all(record.accepted == 0 for record in rounds)
    assert all(len(record.main_cache.layers_end) == 1 for record in rounds)
    assert generator._caches.main.positions() == (len(PROMPT) + 7,) * 3
    # A layer that is forgotten ends the run, and is named by its position.
    generator = generator_of(target, rejected)
    generator._caches.main.layers[1].trim = lambda tokens: 0
    next(generator.rounds())
    assert generator.end is not None
    assert generator.end.finish_reason == "error"
    assert "main cache stands at (4, 8, 4)" in generator.end.notice


FAULTS = ("legacy-rewind", "drop-debt", "stale-trim", "no-trim")


@pytest.mark.parametrize(
    ("name", "fault"), [*(("recurrent_gemma", fault) for fault in FAULTS), ("gemma3_text", "no-trim")]
)
def test_faults_go_wrong_as_they_do_in_plain_caches_and_are_repaired(name: str, fault: str) -> None:
    other = {"main_rewind": fault} if fault in ("stale-trim", "no-trim") else {}
    generator = generator_of(model(name), often_wrong(model(name), tenths=3), max_tokens=-1)
    assert generator.header is not None
    recorded = RecordedRun(generator.header)
    rounds = generator.rounds()

    def go_on(until: Callable[[Round], bool]) -> Round:
        for record in itertools.islice(rounds, 40):
            recorded.append(record)
            ledger = recorded.ledger(record.index)
            assert list(ledger.main) == generator._caches.main.held
            assert generator._caches.drafter is not None
            assert generator._caches.draft is not None
            assert list(ledger.draft or ()) == generator._caches.draft.held
            for positions in (record.main_cache, record.draft_cache):
                assert positions is not None
                assert set(positions.layers_end) == {positions.end}
            if until(record):
                break
        return recorded[-1]

    def is_wrong(record: Round) -> bool:
        assert record.draft_cache is not None
        main = record.main_cache.first_wrong is not None
        return record.draft_cache.first_wrong is not None and main == bool(other)

    assert go_on(lambda record: record.index == 4).main_cache.first_wrong is None
    generator.change(rewind=fault, **other)
    wrong = go_on(is_wrong)
    assert is_wrong(wrong)
    generator.change(rewind="correct", main_rewind="correct")
    right = go_on(lambda record: record.index == wrong.index + 3)
    assert right.draft_cache is not None
    assert right.draft_cache.first_wrong is right.main_cache.first_wrong is None
    found = generator.check_contents()
    assert found.draft_difference is not None
    assert max(found.main_difference, found.draft_difference) < 1e-3
    assert generator.host_syncs == len(recorded)


@pytest.mark.parametrize("name", ["gemma3_text", "recurrent_gemma", "qwen3_next"])
def test_a_fork_repeats_the_run_with_its_faults_and_repairs(name: str) -> None:
    def records(generator: SpeculativeGenerator, first: int) -> list[Round]:
        found = []
        for number, record in enumerate(generator.rounds(), start=first):
            found.append(record)
            if number == 4:
                generator.change(rewind="legacy-rewind", main_rewind="no-trim")
            elif number == 8:
                generator.change(rewind="correct", main_rewind="correct")
        return found

    def bare(rounds: list[Round]) -> list[Any]:
        return [(r.index, r.drafts, r.emitted, r.main_cache, r.draft_cache, r.debt) for r in rounds]

    settings = {"sampler": SamplerSettings(temperature=1.0), "stochastic": True, "record": True, "max_tokens": 32}
    pair = Pair(model(name), often_wrong(model(name)))
    original = generator_of(pair.target, pair.draft, **settings)
    header, rounds = original.header, records(original, 0)
    assert header is not None
    assert any(record.main_cache.replayed for record in rounds)
    assert any(record.main_cache.refed for record in rounds)
    for at in (3, 11):
        assert at < len(rounds)
        again = SpeculativeGenerator(pair, settings_before(header.settings, rounds[:at]))
        again.fork(header, rounds[:at])
        assert bare(records(again, at)) == bare(rounds[at:])
        assert again.tokens == original.tokens


@pytest.mark.parametrize("name", ["gemma3_text", "qwen3_next"])
@pytest.mark.allow_log("round 6 failed")
def test_a_round_that_fails_leaves_both_caches_at_the_last_good_one(name: str) -> None:
    target, draft, failing = model(name), often_wrong(model(name)), False

    def network(ids: mx.array, cache: list[Any] | None = None) -> mx.array:
        logits = target.network(ids, cache=cache)
        if failing:
            raise RuntimeError("injected")
        return logits

    generator = generator_of(dataclasses.replace(target, network=network), draft, max_tokens=-1)
    rounds = generator.rounds()
    for _ in range(6):
        record = next(rounds)
    failing = True
    assert list(rounds) == []
    failing = False
    assert generator.end is not None
    assert "injected" in generator.end.notice
    assert generator._caches.drafter is not None
    assert record.draft_cache is not None
    both = (generator._caches.main, record.main_cache), (generator._caches.draft, record.draft_cache)
    for cache, positions in both:
        assert cache is not None
        assert cache.positions() == (positions.end,) * len(cache.layers)
        fresh = target.make_cache()
        target.network(mx.array([cache.held]), cache=fresh)
        ids = mx.array([7])
        expected, found = target.network(ids[None], cache=fresh)[0, -1], cache.forward(ids)[0, -1]
        if cache is generator._caches.main:
            assert float(mx.abs(expected - found).max()) < 1e-3
        else:
            assert int(mx.argsort(expected)[-2]) in [int(i) for i in mx.argsort(found)[-3:]]


# Snapshots


@pytest.mark.parametrize("name", ["mamba", "gemma3_text"])
def test_a_snapshot_copies_nothing_and_stays_as_it_was(name: str) -> None:
    cache = Cache(model(name))
    for _ in cache.feed(list(range(WINDOW + 4))):
        pass
    before = mx.get_active_memory()
    cache.remember(1)
    assert mx.get_active_memory() == before
    kept = cache._snapshot
    assert kept is not None
    assert kept.position == WINDOW + 4
    held = {number: _numbers(layer.state) for number, layer in kept.layers.items()}
    # In place, token by token, and many at once.
    for ids in ([1], [2], [3, 4, 5]):
        mx.eval(cache.forward(mx.array(ids)))
    changed = {number: _numbers(cache.layers[number].state) for number in kept.layers}
    for number, layer in kept.layers.items():
        assert all(np.array_equal(a, b) for a, b in zip(_numbers(layer.state), held[number], strict=True))
        assert any(not np.array_equal(a, b) for a, b in zip(changed[number], held[number], strict=True))


def _numbers(state: Any) -> list[Any]:
    """Every array of a state, on the host."""
    if isinstance(state, mx.array):
        return [np.array(state)]
    return [found for part in state for found in _numbers(part)] if isinstance(state, list | tuple) else []


def test_a_window_that_will_not_wrap_is_trimmed_without_a_snapshot() -> None:
    cache = Cache(model("gemma3_text"))
    for _ in cache.feed(range(WINDOW - 5)):
        pass
    cache.remember(5)
    assert cache._snapshot is None
    cache.remember(6)
    assert cache._snapshot is not None
    cache.forward(mx.array([1, 2, 3, 4, 5]))
    cache.hold([1, 2, 3, 4, 5])
    assert cache.trim(4) == caches.Trimmed((4,) * 3, 0)
    assert cache.positions() == (WINDOW - 4,) * 3


def test_what_lies_before_the_snapshot_is_read_anew() -> None:
    cache = Cache(model("mamba"))
    ids = list(range(20))
    for _ in cache.feed(ids):
        pass
    cache.remember(2)
    assert (cache.within_reach(20), cache.within_reach(12)) == (20, 0)
    assert cache.trim(8) == caches.Trimmed((8, 8), 12)
    assert cache.held == ids[:12]
    fresh = model("mamba").make_cache()
    model("mamba").network(mx.array([ids[:12]]), cache=fresh)
    for ours, theirs in zip(cache.layers, fresh, strict=True):
        assert all(
            np.allclose(a, b, atol=1e-4) for a, b in zip(_numbers(ours.state), _numbers(theirs.state), strict=True)
        )


def test_caches_that_can_not_go_back_are_refused_by_name() -> None:
    from mlx_lm.models.cache import ArraysCache, CacheList, ChunkedKVCache, KVCache, RotatingKVCache

    class Odd:
        def is_trimmable(self) -> bool:
            return False

    taken = [KVCache(), ArraysCache(2), CacheList(KVCache(), RotatingKVCache(8)), ChunkedKVCache(8)]
    assert refused_caches(taken) == []
    assert refused_caches([Odd(), *taken]) == ["Odd (it has no state)"]
    (reason,) = refused_caches([RotatingKVCache(8, keep=4)])
    assert reason.startswith("RotatingKVCache (it keeps its first 4 tokens")


@pytest.mark.parametrize("name", ["mamba", "gemma3_text"])
def test_folders_are_loaded_or_refused_before_a_token(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Beside:
        """A cache without a state."""

        def is_trimmable(self) -> bool:
            return False

    folder = write_folder(tmp_path / "odd", **{**ARCHITECTURES[name], "model_type": name, "vocab_size": 271})
    pair = load_pair(folder, folder)
    assert {"ArraysCache", "RotatingKVCache"} & set(pair.target.info.cache_type.split(", "))
    assert run(pair.target, pair.draft, max_tokens=12)[0].tokens == plain_decoding(pair.target, 12)[0]
    kind = importlib.import_module(f"mlx_lm.models.{name}")
    monkeypatch.setattr(kind.Model, "make_cache", lambda self: [Beside(), Beside()])
    with pytest.raises(
        LoadError, match=r"odd: its cache can be neither trimmed nor put back.* Beside \(it has no state"
    ):
        load_pair(folder, None)


def test_lists_of_caches_are_kept_with_all_that_they_hold() -> None:
    from mlx_lm.models.cache import CacheList, KVCache, RotatingKVCache

    layer = CacheList(KVCache(), RotatingKVCache(4))
    row = mx.ones((1, 1, 1, 8))
    for part in layer.caches:
        part.update_and_fetch(row, row)
    kept = as_it_is(layer)
    for part in layer.caches:
        part.update_and_fetch(2 * row, 2 * row)
    assert [part.offset for part in kept.caches] == [1, 1]
    assert [float(part.keys[..., :2, :].sum()) for part in kept.caches] == [8.0, 8.0]


def test_a_network_with_state_beside_its_cache_is_found_out() -> None:
    beside: list[float] = []

    def network(ids: mx.array, cache: list[Any]) -> mx.array:
        beside.append(1.0)
        return model("mamba").network(ids, cache=cache) + len(beside)

    def sound(ids: mx.array, cache: list[Any]) -> mx.array:
        return model("mamba").network(ids, cache=cache)

    assert why_not_restorable(sound, model("mamba").make_cache()) is None
    assert "ArraysCache (a snapshot of it doesn't" in (why_not_restorable(network, model("mamba").make_cache()) or "")


def test_records_of_before_there_were_replays_are_read() -> None:
    layout = layout_of(CachePositions)
    layout["CachePositions"].remove("replayed")
    text, arrays = encode(CachePositions(3, 5, (2,), (2,), 6, 6, (6,), 0, None, 0))
    older = text.rpartition(",")[0] + "]"
    assert Reader(layout).decode(CachePositions, older, arrays).replayed == 0
    newer = encode(CachePositions(3, 5, (2,), (2,), 6, 6, (6,), 0, None, 3))
    assert Reader(layout_of(CachePositions)).decode(CachePositions, *newer).replayed == 3


# Quantized keys and values


def quantizable(name: str) -> LanguageModel:
    """With heads of 32 values, which MLX's smallest group divides."""
    sizes: dict[str, dict[str, int]] = {"llama": {"num_attention_heads": 2}}
    return _models.setdefault(f"{name} 32", tiny_model(name, **{"head_dim": 32, **sizes.get(name, {})}))


@pytest.mark.parametrize("name", ["llama", "qwen3", "qwen3_next"])
@pytest.mark.parametrize("bits", [8, 3])
def test_r50_quantized_keys_and_values_as_in_plain_decoding(name: str, bits: int) -> None:
    target = quantizable(name)
    plain = plain_decoding(target, 48, kv_bits=bits, kv_group_size=32, quantized_kv_start=0)
    generator, _ = run(target, often_wrong(target), max_tokens=48, kv_bits=bits, kv_group_size=32)
    assert parts_at(generator.tokens, plain, tie=1e-2) is None
    assert generator.statistics.accepted < generator.statistics.positions_tested
    if bits == 3:  # the dense stream is another one
        assert parts_at(generator.tokens, plain_decoding(target, 48), tie=1e-2) is not None
    assert generator.header is not None
    for layers in (generator.header.main_layers, generator.header.draft_layers):
        kinds = [layer.type for layer in layers if layer.type != "ArraysCache"]
        assert set(kinds) == {"QuantizedKVCache"}
        packed = next(layer for layer in layers if layer.type in kinds)
        assert packed.note == f"{bits} bits in groups of 32"
        assert packed.bytes_per_token is not None


def test_r50_a_later_start_is_met_before_the_pass_that_would_cross_it() -> None:
    target, start = quantizable("llama"), 20
    generator = generator_of(target, often_wrong(target), kv_bits=4, kv_group_size=32, kv_start=start, max_tokens=40)
    assert generator.header is not None
    assert generator.header.main_layers[0].type == "KVCache"
    assert generator.header.main_layers[0].note == "4 bits from 20 tokens on"
    crossed = {}
    for record in generator.rounds():
        assert generator._caches.drafter is not None
        for side, cache, at in (
            ("main", generator._caches.main, record.main_cache),
            ("draft", generator._caches.draft, record.draft_cache),
        ):
            assert cache is not None
            assert at is not None
            quantized = all(layer.type == "QuantizedKVCache" for layer in cache.describe())
            if side == "main":  # one pass a round: its end decides
                assert quantized == (bool(crossed.get(side)) or at.start + at.forwarded > start)
            crossed[side] = quantized
    assert crossed == {"main": True, "draft": True}
    found = generator.check_contents()
    assert found.draft_difference is not None
    assert max(found.main_difference, found.draft_difference) < 0.05


def test_a_fork_of_a_run_with_quantized_keys_and_values_repeats_it() -> None:
    pair = Pair(quantizable("qwen3_next"), often_wrong(quantizable("qwen3_next")))
    settings = {"sampler": SamplerSettings(temperature=1.0), "stochastic": True, "record": True, "max_tokens": 30}
    original = generator_of(pair.target, pair.draft, kv_bits=4, kv_group_size=32, kv_start=12, **settings)
    rounds = list(original.rounds())
    assert original.header is not None
    for at in (1, 8):
        again = SpeculativeGenerator(pair, original.settings)
        again.fork(original.header, rounds[:at])
        assert [(r.emitted, r.drafts, r.main_cache) for r in again.rounds()] == [
            (r.emitted, r.drafts, r.main_cache) for r in rounds[at:]
        ]


def test_a_check_before_the_start_quantizes_nothing() -> None:
    target = quantizable("llama")
    generator = generator_of(target, often_wrong(target), kv_bits=4, kv_group_size=32, kv_start=len(PROMPT))
    found = generator.check_contents()
    assert found.main_difference < 0.05
    assert {layer.type for layer in generator._caches.main.describe()} == {"KVCache"}
    assert generator._caches.main.quantized_at is None


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("gemma3_text", {}, "MLX can't quantize RotatingKVCache, its sliding window"),
        ("mamba", {}, r"its cache \(ArraysCache\) holds no keys and values"),
        ("llama", {"kv_group_size": 64}, "its head size 16 isn't a multiple of the group size 64. Leave"),
        ("recurrent_gemma", {}, "MLX can't quantize RotatingKVCache"),
    ],
)
@pytest.mark.parametrize("side", ["target", "draft"])
def test_what_can_not_be_quantized_is_refused_in_words_before_the_run(
    name: str, settings: dict[str, int], words: str, side: str
) -> None:
    sound = quantizable("llama")
    pair = Pair(model(name), sound) if side == "target" else Pair(sound, model(name))
    if "kv_group_size" in settings:
        pair = Pair(model(name), None)
        side = "target"
    with pytest.raises(SettingsError, match=f"kv_bits: the {side} tiny {name} .* in 8 bits: {words}"):
        SpeculativeGenerator(pair, Settings(**{"kv_bits": 8, "kv_group_size": 32, **settings}))


def test_the_group_size_that_would_do_is_named() -> None:
    with pytest.raises(
        SettingsError, match=r"head size 32 isn't a multiple of the group size 128 \(kv_group_size 32 would"
    ):
        SpeculativeGenerator(Pair(quantizable("llama"), None), Settings(kv_bits=8, kv_group_size=128))


def test_bits_that_do_not_fill_a_word_are_tried_before_the_run() -> None:
    """MLX packs 5 bits of 128 values into 20 words, mlx-lm makes room for 21."""
    target = tiny_model("llama", head_dim=128)
    with pytest.raises(SettingsError, match="MLX can't do it"):
        SpeculativeGenerator(Pair(target, None), Settings(kv_bits=5, kv_group_size=32))
    SpeculativeGenerator(Pair(target, None), Settings(kv_bits=4, kv_group_size=32))


@pytest.mark.parametrize("wrong", [{"kv_bits": 7}, {"kv_bits": -1}, {"kv_group_size": 16}, {"kv_start": -1}])
def test_quantization_settings_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(SettingsError, match=f"{next(iter(wrong))}: expected"):
        Settings(**wrong)


# What isn't offered


def test_r52_a_run_recorded_without_a_drafter_goes_on_with_its_own_caches() -> None:
    """Nothing is loaded from a cache file: a fork builds both caches; of other models it is refused in words."""
    generator, rounds = run(model("llama"), None, max_tokens=6, record=True)
    assert generator.header is not None
    other = SpeculativeGenerator(Pair(model("llama"), model("qwen3")), generator.settings)
    with pytest.raises(PromptError, match="the run was recorded with the draft model left out"):
        other.fork(generator.header, rounds)


def test_r54_no_size_of_a_cache_is_offered(capsys: pytest.CaptureFixture[str]) -> None:
    from app.cli import run_parser

    assert not [field.name for field in dataclasses.fields(Settings) if "max_kv" in field.name]
    with pytest.raises(SystemExit):
        run_parser().parse_args(["--max-kv-size", "32"])
    assert "--max-kv-size" in capsys.readouterr().err


def test_trimmed_models_keep_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(layer: Any) -> Any:
        raise AssertionError("a snapshot was taken")

    kept: Callable[[Any], Any] = never
    monkeypatch.setattr(caches, "as_it_is", kept)
    for name in TRIMMED:
        assert not [r for r in run(model(name), often_wrong(model(name)), max_tokens=12)[1] if r.main_cache.replayed]
