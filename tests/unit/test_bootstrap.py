"""The bootstrap: as many rounds as there are, in blocks, repeatable, and as wide as theory says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.bootstrap import block_length, interval, resampled_sums


def test_every_draw_takes_as_many_rounds_as_there_are() -> None:
    for n in (1, 2, 7, 50, 333):
        rows = np.stack([np.ones(n), np.arange(n)], axis=1).astype(float)
        sums = resampled_sums(rows, 0, resamples=50)
        assert sums.shape == (50, 2)
        assert set(sums[:, 0]) == {n}


def test_blocks_are_neighbours() -> None:
    n = 64
    assert block_length(n) == 4
    for times in resampled_sums(np.eye(n), 0, resamples=40):
        drawn = set(np.flatnonzero(times).tolist())
        assert all({(at - 1) % n, (at + 1) % n} & drawn for at in drawn)
        assert times.sum() == n


def test_it_repeats_itself_and_tells_runs_apart() -> None:
    rows = np.random.default_rng(1).random((60, 3))
    assert np.array_equal(resampled_sums(rows, 0), resampled_sums(rows, 0))
    assert not np.array_equal(resampled_sums(rows, 0), resampled_sums(rows, 1))
    assert not np.array_equal(resampled_sums(rows, 0), resampled_sums(rows, 0, seed=5))


def test_independent_rounds_give_the_width_of_the_normal_interval() -> None:
    rows = np.random.default_rng(3).normal(size=(1000, 1))
    found = interval(resampled_sums(rows, 0)[:, 0] / len(rows))
    assert found is not None
    assert found[1] - found[0] == pytest.approx(2 * 1.96 * rows.std() / math.sqrt(len(rows)), rel=0.15)
    assert found[0] < rows.mean() < found[1]


def test_rounds_that_hang_together_give_a_wider_one() -> None:
    random = np.random.default_rng(4)
    together = np.repeat(random.normal(size=100), 10)[:, None]

    def width(rows: np.ndarray) -> float:
        found = interval(resampled_sums(rows, 0)[:, 0])
        assert found is not None
        return found[1] - found[0]

    assert width(together) > 1.7 * width(random.permutation(together))


def test_nothing_gives_nothing() -> None:
    assert resampled_sums(np.zeros((0, 2)), 0).tolist() == np.zeros((1000, 2)).tolist()
    assert interval(np.array([np.nan, np.inf])) is None
    assert interval(np.array([np.nan, 2.0, 2.0])) == (2.0, 2.0)
