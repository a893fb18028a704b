"""The filter chain, written once: it turns processed logits into the distribution, and every draw is made from it.

The stages hand on *log-weights*: float32 logarithms of the probabilities up to a constant per row, -inf outside the
support. A softmax over the vocabulary is slow on a CPU and a draw doesn't need it, so `probabilities` is the one place
that normalises. Every stage works on shares of what the stages before it left, which is renormalising between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from engine.backend import mx
from engine.penalties import ROUNDING, exclude_top_choices, preprocess_logits, xtc_active
from engine.settings import GREEDY_TEMPERATURE, SamplerSettings

_categorical = mx.compile(lambda log_weights, key: mx.random.categorical(log_weights, axis=-1, key=key))
"""Compiled, for the two logarithms a token to be one pass: a quarter less time on a CPU."""

ORDERS = {
    "temperature-first": ("temperature", "top-k", "top-p", "min-p"),
    "mlx-lm": ("top-p", "min-p", "xtc", "top-k", "temperature"),
}
"""The stages of each chain order. In the first one XTC is the last step of `preprocess_logits` instead."""


def filter_logits(logits: mx.array, settings: SamplerSettings, xtc_coin: mx.array | float | None = None) -> mx.array:
    """Processed logits (..., V), any float dtype -> log-weights (..., V) float32, ready for `mx.random.categorical`.

    Greedy settings give 0 at the argmax (the lowest id of a tie) and -inf elsewhere. `xtc_coin` (...,) or a number,
    uniform in [0, 1), is needed where XTC is on in the order mlx-lm. The support is never empty, unless the row is
    `unusable`; NaN comes out as NaN. Lazy; `logits` isn't written to.
    """
    return filter_stages(logits, settings, xtc_coin)[-1][1]


def filter_stages(
    logits: mx.array, settings: SamplerSettings, xtc_coin: mx.array | float | None = None
) -> list[tuple[str, mx.array]]:
    """(name, log-weights (..., V) float32) of "raw" and of every stage that is on, in the order they run.

    The last one is what `filter_logits` returns. Names: `engine.rounds.STAGES`. Arguments as for `filter_logits`.
    """
    weights = logits.astype(mx.float32)
    stages = [("raw", weights)]
    if settings.is_greedy:
        name = "temperature" if settings.temperature < GREEDY_TEMPERATURE else "top-k"
        return [*stages, (name, one_hot(weights))]
    largest = weights  # holds all of the support, for a cheaper sort
    for name in active_stages(settings, weights.shape[-1]):
        if name == "temperature":
            weights = temper(weights, settings.temperature)
            largest = weights
        elif name == "top-k":
            largest = mx.topk(weights, settings.top_k, axis=-1)
            weights = keep_largest(weights, mx.min(largest, axis=-1, keepdims=True), settings.top_k)
        elif name == "top-p":
            weights = nucleus(weights, settings.top_p, largest)
        elif name == "min-p":
            weights = drop_unlikely(weights, settings.min_p)
        else:
            weights = exclude_top_choices(weights, settings, xtc_coin)
        stages.append((name, weights))
    return stages


@lru_cache
def active_stages(settings: SamplerSettings, vocab_size: int) -> tuple[str, ...]:
    """The stages that change anything, in order. Off: top_k 0 or >= V, top_p 0 or >= 1, min_p 0, temperature 1."""
    active = {
        "temperature": settings.temperature != 1,
        "top-k": 0 < settings.top_k < vocab_size,
        "top-p": 0 < settings.top_p < 1,
        "min-p": settings.min_p > 0,
        "xtc": xtc_active(settings),
    }
    return tuple(name for name in ORDERS[settings.chain_order] if active[name])


def temper(weights: mx.array, temperature: float) -> mx.array:
    """weights / temperature; the factor is kept above 0 in float32, since 0 * -inf would be NaN."""
    return weights * max(1 / temperature, 1e-30)


def keep_largest(weights: mx.array, threshold: mx.array, count: mx.array | int) -> mx.array:
    """Keep exactly the `count` largest of each row (..., V), ties by lower id first.

    `threshold` (..., 1) is the smallest value that stays, `count` (..., 1) or a number.
    """
    tied = weights == threshold
    spare = count - mx.sum(weights > threshold, axis=-1, keepdims=True)
    surplus = tied & (mx.cumsum(tied.astype(mx.int32), axis=-1) > spare)
    return mx.where((weights < threshold) | surplus, -mx.inf, weights)


def nucleus(weights: mx.array, top_p: float, largest: mx.array) -> mx.array:
    """Top-p: keep the smallest set, in descending probability and ties by lower id, whose mass is >= top_p.

    `largest` (..., m): the row's m largest log-weights in any order, m enough to hold all of its support. "Equal" is
    meant up to float32 rounding (one part in a million), so that 0.5 counts as 0.5. Source: Holtzman et al. 2020.
    """
    ascending = mx.sort(largest, axis=-1)
    masses = mx.exp(ascending - ascending[..., -1:])
    above = mx.cumsum(masses, axis=-1, reverse=True, inclusive=False)
    total = above[..., :1] + masses[..., :1]
    # A token goes if those above it suffice; the largest has none above it, so it always stays.
    enough = max(top_p * (1 - ROUNDING), 1e-30) * total
    dropped = mx.sum(above >= enough, axis=-1, keepdims=True)
    return keep_largest(weights, mx.take_along_axis(ascending, dropped, axis=-1), ascending.shape[-1] - dropped)


def drop_unlikely(weights: mx.array, min_p: float) -> mx.array:
    """Min-p: keep p >= min_p * max p, equality (up to float32 rounding) included. Source: Nguyen et al. 2024."""
    slack = ROUNDING if min_p < 1 else 0.0
    return mx.where(weights < mx.max(weights, axis=-1, keepdims=True) + (math.log(min_p) - slack), -mx.inf, weights)


def one_hot(weights: mx.array) -> mx.array:
    """0 at the argmax of each row (the lowest id of a tie), -inf elsewhere; NaN at it if the row is unusable."""
    chosen = mx.arange(weights.shape[-1]) == mx.argmax(weights, axis=-1, keepdims=True)
    return mx.where(chosen, weights - mx.max(weights, axis=-1, keepdims=True), -mx.inf)


def probabilities(log_weights: mx.array) -> mx.array:
    """The distribution of log-weights (..., V): float32, each row sums to 1, exactly 0 outside the support."""
    return mx.softmax(log_weights, axis=-1)


def draw(log_weights: mx.array, settings: SamplerSettings, key: mx.array | None) -> mx.array:
    """A token (...,) uint32 from log-weights (..., V). Greedy settings take the argmax and no randomness."""
    if settings.is_greedy:
        return mx.argmax(log_weights, axis=-1)
    if key is None:
        raise ValueError("a draw needs an explicit key")
    return _categorical(log_weights, key)


def row_sums_and_maxima(rows: mx.array) -> tuple[mx.array, mx.array]:
    """What `unusable` reads of rows (..., V): their sums and maxima (...,), lazy and cheap."""
    return mx.sum(rows, axis=-1), mx.max(rows, axis=-1)


def unusable(sums: Iterable[float], maxima: Iterable[float]) -> list[bool]:
    """Which rows nothing can be drawn from, of their sums and maxima: NaN or +inf anywhere, or all -inf."""
    # Not every backend's max passes NaN on; a sum does everywhere.
    return [math.isnan(total) or not math.isfinite(most) for total, most in zip(sums, maxima, strict=True)]


def effective_token_distribution(
    logits: mx.array,
    settings: SamplerSettings,
    history: mx.array | None = None,
    xtc_coins: mx.array | None = None,
) -> mx.array:
    """The effective distribution p (n, V) float32 of the model's own logits (n, V); consumes no randomness.

    `history` (m,) ids: what the last row has seen, each row before it one token less (see `engine.penalties`).
    `xtc_coins` (n,) where `xtc_active`. Greedy settings give the one-hot argmax.
    """
    return probabilities(_prepare(logits, settings, history, xtc_coins))


def sample_token_with_distribution(
    logits: mx.array,
    settings: SamplerSettings,
    history: mx.array | None,
    key: mx.array | None,
    xtc_coins: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """A token (n,) uint32 and the distribution (n, V) float32 that it was drawn from, from one preparation step.

    Arguments as for `effective_token_distribution`; `key` may be None for greedy settings only.
    """
    log_weights = _prepare(logits, settings, history, xtc_coins)
    return draw(log_weights, settings, key), probabilities(log_weights)


def _prepare(
    logits: mx.array, settings: SamplerSettings, history: mx.array | None, xtc_coins: mx.array | None
) -> mx.array:
    return filter_logits(preprocess_logits(logits, settings, history, None, xtc_coins), settings, xtc_coins)
