"""Intervals for what a run's rounds add up to, by drawing rounds anew: no formula knows how they hang together."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]

RESAMPLES = 1000
SEED = 0
LEVEL = 0.95


def block_length(rounds: int) -> int:
    """Neighbouring rounds resemble each other, so they are drawn in blocks; n^(1/3) rounds is the usual length."""
    return max(math.ceil(rounds ** (1 / 3)), 1)


def resampled_sums(rows: Values, stream: int, seed: int = SEED, resamples: int = RESAMPLES) -> Values:
    """Column sums (resamples, columns) of rows (n, columns) drawn with replacement, in blocks that wrap around.

    `stream` tells two runs of one comparison apart. Source: the circular block bootstrap of Politis and Romano 1992.
    """
    n = len(rows)
    found = np.zeros((resamples, rows.shape[1]))
    if not n:
        return found
    length = block_length(n)
    blocks = -(-n // length)
    whole, last = _block_sums(rows, length), _block_sums(rows, n - (blocks - 1) * length)
    random = np.random.default_rng((seed, stream))
    for number in range(resamples):
        starts = random.integers(n, size=blocks)
        found[number] = whole[starts[1:]].sum(axis=0) + last[starts[0]]
    return found


def _block_sums(rows: Values, length: int) -> Values:
    """Sums of the `length` rows from each row on, behind the last one the first comes again."""
    around = np.concatenate([np.zeros((1, rows.shape[1])), rows, rows[:length]]).cumsum(axis=0)
    sums: Values = around[length : length + len(rows)] - around[: len(rows)]
    return sums


def interval(values: Values, level: float = LEVEL) -> tuple[float, float] | None:
    """The middle `level` of resampled values; None if none of them is finite."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return None
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
