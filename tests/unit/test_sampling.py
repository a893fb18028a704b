"""The filter chain: known values in both orders, ties, properties, and that draws follow the distribution it gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy import stats

from engine.backend import mx
from engine.penalties import preprocess_logits
from engine.rounds import STAGES
from engine.sampling import (
    draw,
    effective_token_distribution,
    filter_logits,
    filter_stages,
    probabilities,
    row_sums_and_maxima,
    sample_token_with_distribution,
    unusable,
)
from engine.settings import SamplerSettings, SettingsError

P = (0.5, 0.25, 0.15, 0.1)


@pytest.fixture
def tracing() -> Iterator[None]:
    """Let `mx.compile` trace, which raises where something is evaluated on the way."""
    mx.enable_compile()
    yield
    mx.disable_compile()


def chain(p: tuple[float, ...] = P, temperature: float = 1.0, **settings: Any) -> np.ndarray:
    logits = mx.array(np.log(np.array([p])).astype(np.float32))
    return np.array(probabilities(filter_logits(logits, SamplerSettings(temperature=temperature, **settings))))[0]


def support(*args: Any, **settings: Any) -> set[int]:
    return set(np.flatnonzero(chain(*args, **settings)).tolist())


def test_top_k_then_top_p_never_masks_everything() -> None:
    """R14: top-p works on shares of what top-k left."""
    assert support(temperature=0.01, top_k=1, top_p=0.8) == {0}
    assert support(top_k=2, top_p=0.8) == {0, 1}
    assert support(top_k=2, top_p=0.66) == {0}  # 0.5 is 2/3 of what is left
    assert support(top_k=3, top_p=0.01) == {0}
    assert support(top_p=1e-300) == {0}


@pytest.mark.parametrize("top_k", [0, 4, 5, 151936])
@pytest.mark.parametrize("order", ["temperature-first", "mlx-lm"])
def test_top_k_of_the_whole_vocabulary_is_off(top_k: int, order: str) -> None:
    """R15."""
    np.testing.assert_allclose(chain(top_k=top_k, chain_order=order), P, rtol=1e-6)


@pytest.mark.parametrize("top_p", [0.0, 1.0, 1.5])
def test_top_p_at_its_edges_is_off(top_p: float) -> None:
    """R17."""
    assert support(top_p=top_p) == {0, 1, 2, 3}
    assert support((1 - 1e-7, 5e-8, 5e-8), top_p=top_p) == {0, 1, 2}


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({"top_p": 0.5}, {0, 1}),
        ({"top_p": 0.51}, {0, 1, 2}),
        ({"top_k": 3}, {0, 1, 2}),
        ({"top_k": 3, "min_p": 1.0}, {0, 1, 2}),
        ({"min_p": 1.0}, {0, 1, 2, 3}),
    ],
)
@pytest.mark.parametrize("order", ["temperature-first", "mlx-lm"])
def test_ties_go_to_the_lower_id(settings: dict[str, Any], kept: set[int], order: str) -> None:
    """R20: exactly as many as the setting says, by id; min-p includes equality."""
    assert support((0.25,) * 4, chain_order=order, **settings) == kept


def test_float32_rounding_does_not_decide_the_nucleus() -> None:
    """m of n equal tokens have the mass m / n, whatever the sum of their float32 values says."""
    for n in range(3, 24):
        for m in range(1, n):
            assert support((1 / n,) * n, top_p=m / n) == set(range(m)), (m, n)


def test_ties_at_the_edge_only() -> None:
    assert support((0.1, 0.2, 0.2, 0.3, 0.2), top_k=3) == {1, 2, 3}
    assert support((0.1, 0.2, 0.2, 0.3, 0.2), top_p=0.5) == {1, 3}
    assert support((0.25,) * 4, top_k=3, top_p=0.6) == {0, 1}
    assert support((0.25,) * 4, top_k=3, top_p=0.6, chain_order="mlx-lm") == {0, 1, 2}


@pytest.mark.parametrize(
    ("order", "nucleus", "likely"),
    [("temperature-first", {0, 1}, {0, 1, 2}), ("mlx-lm", {0}, {0, 1})],
)
def test_temperature_before_or_behind_the_filters(order: str, nucleus: set[int], likely: set[int]) -> None:
    """R21."""
    tempered = chain(temperature=2.0, chain_order=order)
    np.testing.assert_allclose(tempered, [0.3701, 0.2617, 0.2027, 0.1655], atol=5e-5)
    assert support(temperature=2.0, top_p=0.5, chain_order=order) == nucleus
    assert support(temperature=2.0, min_p=0.5, chain_order=order) == likely


@pytest.mark.parametrize(("min_p", "kept"), [(0.3, {0, 1, 2}), (0.5, {0, 1}), (1.0, {0})])
def test_min_p_keeps_equality(min_p: float, kept: set[int]) -> None:
    """R25."""
    assert support(min_p=min_p) == kept


def test_min_p_one_leaves_the_argmax_of_every_position() -> None:
    """R28: all rows of a verify pass are filtered alike."""
    logits = mx.array(np.random.default_rng(0).normal(size=(5, 50)).astype(np.float32))
    p = np.array(probabilities(filter_logits(logits, SamplerSettings(temperature=1.5, min_p=1.0))))
    assert (p.argmax(-1) == np.array(logits).argmax(-1)).all()
    assert ((p > 0).sum(-1) == 1).all()


def test_every_stage_is_shown_as_it_was_filtered() -> None:
    """R25: names and distributions of the stages, each renormalised."""
    logits = mx.log(mx.array([P]))
    settings = SamplerSettings(temperature=0.5, top_k=3, top_p=0.9, min_p=0.5)
    stages = filter_stages(logits, settings)
    assert [name for name, _ in stages] == ["raw", "temperature", "top-k", "top-p", "min-p"]
    shown = {name: np.array(probabilities(weights))[0] for name, weights in stages}
    np.testing.assert_allclose(shown["raw"], P, rtol=1e-6)
    squares = np.square(P)
    np.testing.assert_allclose(shown["temperature"], squares / squares.sum(), rtol=1e-5)
    np.testing.assert_allclose(shown["top-k"][:3], squares[:3] / squares[:3].sum(), rtol=1e-5)
    np.testing.assert_allclose(shown["top-p"], [0.8, 0.2, 0, 0], rtol=1e-5)
    np.testing.assert_allclose(shown["min-p"], [1, 0, 0, 0])


@pytest.mark.parametrize("temperature", [-1.0, float("inf"), float("nan")])
def test_a_temperature_out_of_range_is_refused(temperature: float) -> None:
    """R27, R161."""
    with pytest.raises(SettingsError, match="temperature"):
        SamplerSettings(temperature=temperature)


@pytest.mark.parametrize("temperature", [1e-3, 1e-4, 1e-5, 1e-6])
@pytest.mark.parametrize("order", ["temperature-first", "mlx-lm"])
def test_a_tiny_temperature_in_half_precision_is_greedy(temperature: float, order: str) -> None:
    """R158: all 300 draws are id 0."""
    logits = mx.log(mx.array([[0.5, 0.3, 0.2]])).astype(mx.float16)
    settings = SamplerSettings(temperature=temperature, chain_order=order)
    log_weights = filter_logits(logits, settings)
    assert log_weights.dtype == mx.float32
    tokens = draw(mx.broadcast_to(log_weights, (300, 3)), settings, mx.random.key(1))
    assert not np.array(tokens).any()
    np.testing.assert_allclose(np.array(probabilities(log_weights))[0], [1, 0, 0])


@pytest.mark.parametrize("temperature", [100.0, 1e6, 3e38])
def test_a_huge_temperature_flattens_the_support_alone(temperature: float) -> None:
    """R161: about 1/3 each, and a masked token stays masked."""
    logits = mx.concatenate([mx.log(mx.array([[0.5, 0.3, 0.2]])), mx.array([[-mx.inf]])], axis=-1)
    p = np.array(probabilities(filter_logits(logits, SamplerSettings(temperature=temperature))))[0]
    np.testing.assert_allclose(p, [1 / 3, 1 / 3, 1 / 3, 0], atol=5e-3)


@pytest.mark.parametrize("greedy", [{"temperature": 0.0}, {"temperature": 9e-6}, {"temperature": 1.0, "top_k": 1}])
def test_greedy_gives_one_hot_without_randomness(greedy: dict[str, Any]) -> None:
    settings = SamplerSettings(**greedy)
    token, p = sample_token_with_distribution(mx.array([[1.0, 3, 3, 2]]), settings, None, None)
    assert token.tolist() == [1]
    assert p.tolist() == [[0, 1, 0, 0]]


def test_a_draw_needs_a_key() -> None:
    with pytest.raises(ValueError, match="key"):
        draw(mx.zeros((1, 3)), SamplerSettings(), None)


def judged(rows: mx.array) -> list[bool]:
    sums, maxima = row_sums_and_maxima(rows)
    return unusable(np.array(sums).ravel().tolist(), np.array(maxima).ravel().tolist())


def test_unusable_rows_are_named_and_nan_is_not_hidden() -> None:
    """R155."""
    nan, inf = float("nan"), float("inf")
    rows = mx.array([[nan] * 4, [1, nan, 5, 2], [1, inf, 0, 2], [inf, -inf, 0, 1], [-inf] * 4, [-inf, -inf, 0, -inf]])
    assert judged(rows) == [True, True, True, True, True, False]
    for settings in ({"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.1}, {"temperature": 0.0}, {"top_k": 2, "top_p": 0.9}):
        assert judged(filter_logits(rows, SamplerSettings(**settings)))[:2] == [True, True], settings


def test_xtc_stands_before_or_inside_the_chain() -> None:
    xtc = {"temperature": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.2}
    logits = mx.log(mx.array([P]))
    for order in ("temperature-first", "mlx-lm"):
        settings = SamplerSettings(chain_order=order, **xtc)
        acts = effective_token_distribution(logits, settings, None, mx.array([0.4]))
        rests = effective_token_distribution(logits, settings, None, mx.array([0.5]))
        np.testing.assert_allclose(np.array(acts)[0], [0, 0.5, 0.3, 0.2], rtol=1e-5)
        np.testing.assert_allclose(np.array(rests)[0], P, rtol=1e-5)
    inside = SamplerSettings(chain_order="mlx-lm", top_p=0.7, **xtc)
    assert [name for name, _ in filter_stages(logits, inside, mx.array([0.4]))] == ["raw", "top-p", "xtc"]
    with pytest.raises(ValueError, match="coin"):
        filter_logits(logits, inside)


def random_settings(rng: np.random.Generator, vocab_size: int) -> dict[str, Any]:
    def maybe(value: float, off: float = 0.0) -> float:
        return value if rng.random() < 0.6 else off

    return {
        "temperature": float(rng.choice([0.0, 0.01, 0.3, 0.7, 1.0, 1.5, 20.0])),
        "top_k": int(maybe(rng.integers(1, vocab_size + 3))),
        "top_p": float(maybe(rng.random() * 1.05)),
        "min_p": float(maybe(rng.random())),
        "chain_order": str(rng.choice(["temperature-first", "mlx-lm"])),
    }


def reference(row: np.ndarray, settings: SamplerSettings) -> tuple[set[int], np.ndarray]:
    """The chain in float64, token by token down the sorted row: the support and the distribution."""
    kept = sorted(range(row.size), key=lambda x: (-row[x], x))
    logits = row.astype(np.float64)
    if settings.is_greedy:
        return {kept[0]}, np.eye(row.size)[kept[0]]

    def shares(factor: float) -> np.ndarray:
        weights = np.exp((logits[kept] - logits[kept[0]]) * factor)
        return weights / weights.sum()

    first = settings.chain_order == "temperature-first"
    factor = 1 / settings.temperature if first else 1.0
    for stage in ("top-k", "top-p", "min-p") if first else ("top-p", "min-p", "top-k"):
        if stage == "top-k" and settings.top_k:
            kept = kept[: settings.top_k]
        elif stage == "top-p" and 0 < settings.top_p < 1:
            kept = kept[: int(np.searchsorted(np.cumsum(shares(factor)), settings.top_p)) + 1]
        elif stage == "min-p":
            kept = kept[: int((shares(factor) >= settings.min_p * shares(factor)[0]).sum())]
    p = np.zeros(row.size)
    p[kept] = shares(1 / settings.temperature)
    return set(kept), p


@pytest.mark.parametrize("vocab_size", [1, 2, 6, 200])
def test_random_settings_keep_the_laws(vocab_size: int) -> None:
    """Against the reference; never empty; the argmax stays; sums to 1; the last stage is the result."""
    rng = np.random.default_rng(vocab_size)
    for trial in range(120):
        rows = rng.normal(size=(3, vocab_size)) * rng.choice([0.3, 3.0, 15.0])
        if trial % 2:
            rows = np.round(rows)  # many exact ties
        rows = rows.astype(np.float32)
        settings = SamplerSettings(**random_settings(rng, vocab_size))
        log_weights = filter_logits(mx.array(rows), settings)
        stages = filter_stages(mx.array(rows), settings)
        p = np.array(probabilities(log_weights))
        assert {name for name, _ in stages} <= set(STAGES)
        assert mx.array_equal(stages[-1][1], log_weights).item()
        assert not any(judged(log_weights))
        assert (p[np.arange(3), rows.argmax(-1)] > 0).all()
        np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-5)
        for row in range(3):
            kept, expected = reference(rows[row], settings)
            assert set(np.flatnonzero(np.isfinite(np.array(log_weights[row]))).tolist()) == kept, settings
            np.testing.assert_allclose(p[row], expected, rtol=2e-4, atol=1e-7, err_msg=str(settings))


def test_mlx_lms_order_equals_mlx_lm_where_nothing_ties() -> None:
    # Only here: engine.backend must load the BLAS before MLX is imported.
    from mlx_lm import sample_utils

    rng = np.random.default_rng(3)
    for _ in range(60):
        row = mx.array(rng.normal(size=(1, 64)).astype(np.float32) * 3)
        settings = SamplerSettings(
            temperature=float(rng.choice([0.5, 0.7, 1.3])),
            top_p=float(rng.uniform(0.3, 0.99)),
            min_p=float(rng.uniform(0.001, 0.2)),
            top_k=int(rng.integers(2, 63)),
            chain_order="mlx-lm",
        )
        theirs = row - mx.logsumexp(row, axis=-1, keepdims=True)
        theirs = sample_utils.apply_top_p(theirs, settings.top_p)
        theirs = sample_utils.apply_min_p(theirs, settings.min_p)
        theirs = mx.softmax(sample_utils.apply_top_k(theirs, settings.top_k) / settings.temperature, axis=-1)
        ours = probabilities(filter_logits(row, settings))
        assert np.array_equal(np.array(ours) > 0, np.array(theirs) > 0)
        np.testing.assert_allclose(np.array(ours), np.array(theirs), rtol=1e-4)


DRAWS = 20_000
GOODNESS = [
    {"temperature": 0.7},
    {"temperature": 1.5, "top_k": 4},
    {"temperature": 1.0, "top_p": 0.85},
    {"temperature": 0.9, "min_p": 0.2},
    {"temperature": 1.3, "top_k": 5, "top_p": 0.9, "min_p": 0.05},
    {"temperature": 1.3, "top_k": 5, "top_p": 0.9, "min_p": 0.05, "chain_order": "mlx-lm"},
    {"temperature": 1.0, "presence_penalty": 0.7, "repetition_penalty": 1.2},
    {"temperature": 1.0, "xtc_probability": 0.5, "xtc_threshold": 0.1},
]


@pytest.mark.parametrize("settings", GOODNESS, ids=str)
def test_draws_follow_the_distribution_that_comes_with_them(settings: dict[str, Any]) -> None:
    """Pearson's chi-square at alpha 1e-4; the same test rejects a temperature that is a seventh off."""
    logits, sampler = mx.array([[2.0, 1, 0.5, 0, -0.5, -1]]), SamplerSettings(**settings)
    history, coin = mx.array([0, 2, 0], dtype=mx.int32), mx.array([0.25])
    _, p = sample_token_with_distribution(logits, sampler, history, mx.random.key(1), coin)
    assert mx.array_equal(p, effective_token_distribution(logits, sampler, history, coin)).item()
    # The same row many times over, since rows of one call would be neighbours in one stream.
    log_weights = filter_logits(preprocess_logits(logits, sampler, history, None, coin), sampler, coin)
    token = draw(mx.broadcast_to(log_weights, (DRAWS, 6)), sampler, mx.random.key(11))
    row = np.array(p[0], dtype=np.float64)
    counts = np.bincount(np.array(token), minlength=6)
    inside = row > 0
    assert counts[~inside].sum() == 0

    def rejected(expected: np.ndarray) -> bool:
        expected = expected[inside] / expected[inside].sum()
        return bool(stats.chisquare(counts[inside], expected * DRAWS).pvalue < 1e-4)

    assert not rejected(row)
    assert rejected(row ** (7 / 8))


def test_a_token_is_drawn_from_the_distribution_returned_with_it() -> None:
    logits = mx.broadcast_to(mx.array([2.0, 1, 0.5, 0, -0.5, -1]), (DRAWS, 6))
    settings = SamplerSettings(temperature=1.3, top_k=4)
    token, p = sample_token_with_distribution(logits, settings, None, mx.random.key(5))
    counts, expected = np.bincount(np.array(token), minlength=6), np.array(p[0], dtype=np.float64) * DRAWS
    assert counts[4:].sum() == 0
    assert stats.chisquare(counts[:4], expected[:4] / expected.sum() * DRAWS).pvalue > 1e-4


def test_the_callers_logits_are_never_written_to() -> None:
    logits = mx.array([[0.5, 2.0, 1.0, 1.0]])
    before = np.array(logits)
    for order in ("temperature-first", "mlx-lm"):
        out = filter_logits(logits, SamplerSettings(top_k=2, top_p=0.6, min_p=0.2, chain_order=order))
        assert not np.array_equal(np.array(out), before)
    assert np.array_equal(np.array(logits), before)


@pytest.mark.parametrize("order", ["temperature-first", "mlx-lm"])
def test_nothing_is_evaluated_on_the_way(order: str, tracing: None) -> None:
    settings = SamplerSettings(
        temperature=0.8, top_k=3, top_p=0.9, min_p=0.05, chain_order=order, xtc_probability=0.5, presence_penalty=0.1
    )

    def build(logits: mx.array, key: mx.array, coins: mx.array) -> tuple[mx.array, ...]:
        history = mx.argmax(logits, axis=-1).astype(mx.int32)
        token, p = sample_token_with_distribution(logits, settings, history, key, coins)
        return token, p, *row_sums_and_maxima(logits)

    inputs = (mx.array([[0.5, 2, 1, 1, 0], [1, 0.1, 0.2, 3, 2]]), mx.random.key(2), mx.array([0.1, 0.9]))
    assert mx.compile(build)(*inputs)[1].shape == (2, 5)  # traced, not compiled: nothing asks for the values
    with pytest.raises(ValueError, match="eval"):
        mx.compile(lambda x: x * x.max().item())(inputs[0])


def test_with_only_a_temperature_on_the_chain_is_one_scale() -> None:
    logits = mx.array([[0.5, 2.0, 1.0]])
    assert [name for name, _ in filter_stages(logits, SamplerSettings(temperature=0.7))] == ["raw", "temperature"]
    assert [name for name, _ in filter_stages(logits, SamplerSettings(temperature=1.0))] == ["raw"]
    np.testing.assert_allclose(
        np.array(filter_logits(logits, SamplerSettings(temperature=0.5))), np.array(logits) * 2, rtol=1e-6
    )
