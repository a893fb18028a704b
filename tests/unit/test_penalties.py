"""The pre-sampler steps against values worked out by hand and against plain loops over each row's own history."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.backend import mx
from engine.penalties import preprocess_logits, preprocessing_active, xtc_active
from engine.sampling import effective_token_distribution
from engine.settings import SamplerSettings, SettingsError

LOGITS = [2.0, -1.0, 0.0, 3.0]


@pytest.fixture
def tracing() -> Iterator[None]:
    """Let `mx.compile` trace, which raises where something is evaluated on the way."""
    mx.enable_compile()
    yield
    mx.disable_compile()


def ids(*tokens: int) -> mx.array:
    return mx.array(tokens, dtype=mx.int32)


def processed(history: list[int], logits: list[float] = LOGITS, **settings: object) -> list[float]:
    row = preprocess_logits(mx.array([logits]), SamplerSettings(**settings), ids(*history))
    return np.array(row)[0].tolist()


def test_nothing_on_gives_the_same_numbers_as_float32() -> None:
    settings = SamplerSettings()
    out = preprocess_logits(mx.array([LOGITS], dtype=mx.bfloat16), settings, ids(0, 1))
    assert not preprocessing_active(settings)
    assert out.dtype == mx.float32
    assert out.tolist() == [LOGITS]


def test_repetition_penalty_is_sign_aware() -> None:
    """R30: a negative logit must not be rewarded."""
    assert processed([0, 0, 1], repetition_penalty=1.5) == pytest.approx([4 / 3, -1.5, 0, 3])


def test_repetition_penalty_acts_once_a_token() -> None:
    """R34: three occurrences count as one."""
    assert processed([0, 0, 0], repetition_penalty=2.0)[0] == pytest.approx(1.0)


@pytest.mark.parametrize(("window", "expected"), [(20, [-3, -3, -2, -2]), (128, [-3] * 4), (0, [-3] * 4)])
def test_repetition_window_is_the_one_set(window: int, expected: list[int]) -> None:
    """R31: tokens 0..3 last occurred 10, 20, 25 and 45 tokens back."""
    history = [4] * 60
    for token, back in enumerate((10, 20, 25, 45)):
        history[-back] = token
    out = processed(history, [-2.0] * 5, repetition_penalty=1.5, repetition_window=window)
    assert out[:4] == pytest.approx(expected)


def test_frequency_and_presence_penalties_are_wired() -> None:
    """R35: frequency counts occurrences, presence doesn't."""
    assert processed([0, 0, 1], frequency_penalty=1.0) == [0, -2, 0, 3]
    assert processed([0, 0, 1], presence_penalty=1.0) == [1, -2, 0, 3]
    assert processed([0, 0, 1], presence_penalty=-1.0) == [3, 0, 0, 3]


@pytest.mark.parametrize("token", [4, 9, 1_000_000])
def test_a_bias_outside_the_vocabulary_is_refused(token: int) -> None:
    """R39: MLX would write out of bounds."""
    settings = SamplerSettings(logit_bias=((token, 100.0),))
    with pytest.raises(SettingsError, match="logit_bias"):
        settings.check_vocabulary(4)
    with pytest.raises(SettingsError, match=r"below 4 .*got " + str(token)):
        preprocess_logits(mx.array([LOGITS]), settings, None)


def test_biases_add_up() -> None:
    assert processed([], logit_bias=((1, 2.0), (3, -1.0), (1, 0.5))) == [2, 1.5, 0, 2]


def test_the_prompt_counts_if_it_is_in_the_prefix() -> None:
    """R41: at the first token of the prompt "a a a a" the caller's prefix alone decides."""
    whole = processed([0, 0, 0, 0], presence_penalty=5.0, frequency_penalty=1.0)
    assert whole == [2 - 5 - 4, -1, 0, 3]
    assert processed([], presence_penalty=5.0, frequency_penalty=1.0) == LOGITS


def test_the_order_is_bias_then_repetition_then_the_rest() -> None:
    """Bias makes the logit -1 positive first, so the penalty divides it."""
    out = processed([1], logit_bias=((1, 3.0),), repetition_penalty=2.0, frequency_penalty=0.25, presence_penalty=0.5)
    assert out[1] == pytest.approx((-1 + 3) / 2 - 0.25 - 0.5)


PENALTIES = {
    "repetition": {"repetition_penalty": 1.7, "repetition_window": 5},
    "frequency": {"frequency_penalty": 0.4, "frequency_window": 3},
    "presence": {"presence_penalty": 0.6, "presence_window": 0},
    "dry": {"dry_multiplier": 0.8, "dry_allowed_length": 1, "dry_window": 7},
    "dry-whole": {"dry_multiplier": 0.8, "dry_allowed_length": 2},
    "all": {
        "logit_bias": ((2, 0.5),),
        "repetition_penalty": 1.3,
        "dry_multiplier": 0.5,
        "frequency_penalty": 0.2,
        "presence_penalty": 0.3,
    },
}


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("known", [0, 1, 2, 9])
def test_each_row_has_its_own_history(name: str, known: int) -> None:
    """The rows of a verify pass equal single rows given prefix + drafted[:i], whoever holds the ids."""
    rng = np.random.default_rng(known)
    settings = SamplerSettings(**PENALTIES[name])
    logits = mx.array(rng.normal(size=(5, 4)).astype(np.float32))
    history = rng.integers(0, 2, known + 4).tolist()
    together = preprocess_logits(logits, settings, ids(*history[:known]), ids(*history[known:]).astype(mx.uint32))
    all_known = preprocess_logits(logits, settings, ids(*history))
    for row in range(5):
        seen = history[: known + row]
        alone = preprocess_logits(logits[row : row + 1], settings, ids(*seen) if seen else None)
        drafting = preprocess_logits(logits[row : row + 1], settings, ids(*seen[:known]), ids(*seen[known:]))
        for other in (together[row], all_known[row], drafting[0]):
            np.testing.assert_allclose(np.array(other), np.array(alone[0]), rtol=1e-6)
    if known == 9:
        assert not np.array_equal(np.array(together), np.array(logits))


def dry_by_loops(history: list[int], vocab_size: int, multiplier: float, base: float, allowed: int) -> np.ndarray:
    """The definition, read literally: for each earlier place, how far it matches the end, and what came next."""
    longest = np.zeros(vocab_size, int)
    for place in range(len(history) - 1):
        length = 0
        while length <= place and history[place - length] == history[-1 - length]:
            length += 1
        longest[history[place + 1]] = max(longest[history[place + 1]], length)
    return np.where((longest > 0) & (longest >= allowed), multiplier * base ** (longest - float(allowed)), 0)


def test_dry_equals_its_definition() -> None:
    rng = np.random.default_rng(4)
    penalised = 0
    for _ in range(60):
        history = rng.integers(0, rng.integers(1, 5), 30).tolist()
        allowed, window, split = int(rng.integers(0, 5)), int(rng.choice([0, 5, 12, 100])), int(rng.integers(0, 31))
        settings = SamplerSettings(dry_multiplier=0.8, dry_base=1.75, dry_allowed_length=allowed, dry_window=window)
        out = preprocess_logits(mx.zeros((1, 6)), settings, ids(*history[:split]), ids(*history[split:]))
        expected = -dry_by_loops(history[-window:], 6, 0.8, 1.75, allowed)
        np.testing.assert_allclose(np.array(out)[0], expected, rtol=1e-5)
        penalised += bool(expected.any())
    assert 20 < penalised < 60


def test_dry_by_hand() -> None:
    """After 1 2 3 4 1 2 3 the token 4 would prolong a repetition of length 3."""
    out = processed([1, 2, 3, 4, 1, 2, 3], [0.0] * 6, dry_multiplier=0.8, dry_base=1.75, dry_allowed_length=2)
    assert out == pytest.approx([0, 0, 0, 0, -0.8 * 1.75, 0])


def test_dry_stays_finite_on_a_long_repetition() -> None:
    for multiplier in (5.0, 1e60):
        out = processed([0] * 1500, dry_multiplier=multiplier, dry_base=4.0)
        assert np.isfinite(out).all()
        assert out[0] < -9e29
        assert out[1:] == LOGITS[1:]


XTC = {"xtc_probability": 0.5, "xtc_threshold": 0.2}


@pytest.mark.parametrize(
    ("coin", "kept"), [(0.0, {1, 2, 3}), (0.499, {1, 2, 3}), (0.5, {0, 1, 2, 3}), (0.9, {0, 1, 2, 3})]
)
def test_xtc_acts_where_the_coin_is_below_its_probability(coin: float, kept: set[int]) -> None:
    """At threshold 0.2 the tokens 0 and 1 are eligible, and 1 is the less likely: it stays."""
    row = mx.log(mx.array([[0.5, 0.25, 0.15, 0.1]]))
    out = preprocess_logits(row, SamplerSettings(**XTC), None, None, mx.array([coin]))
    assert set(np.flatnonzero(np.isfinite(np.array(out)[0]))) == kept


def test_xtc_has_a_coin_for_each_row_and_counts_the_threshold_itself() -> None:
    rows = mx.log(mx.array([[0.5, 0.25, 0.15, 0.1]] * 2))
    out = preprocess_logits(
        rows, SamplerSettings(xtc_probability=0.5, xtc_threshold=0.25), None, None, mx.array([0.1, 0.7])
    )
    assert np.isfinite(np.array(out)).tolist() == [[False, True, True, True], [True] * 4]


def test_xtc_drops_nothing_without_a_second_choice() -> None:
    row = mx.log(mx.array([[0.7, 0.1, 0.1, 0.1]]))
    out = preprocess_logits(row, SamplerSettings(**XTC), None, None, mx.array([0.0]))
    assert np.isfinite(np.array(out)).all()


def test_xtc_at_threshold_0_keeps_the_least_likely_of_what_can_be_drawn() -> None:
    settings = SamplerSettings(temperature=1.0, xtc_probability=1.0, xtc_threshold=0.0)
    for weights, kept in (([0.0, 1.0], {1}), ([0.0, 0.6, 0.0, 0.4], {3}), ([0.5, 0.3, 0.2], {2})):
        row = preprocess_logits(mx.log(mx.array([weights])), settings, None, None, mx.array([0.0]))
        assert set(np.flatnonzero(np.isfinite(np.array(row)[0])).tolist()) == kept


def test_xtc_needs_its_coin_and_is_off_for_a_greedy_sampler() -> None:
    with pytest.raises(ValueError, match="coin"):
        preprocess_logits(mx.array([LOGITS]), SamplerSettings(**XTC))
    greedy = SamplerSettings(temperature=0.0, **XTC)
    assert not xtc_active(greedy)
    assert preprocess_logits(mx.array([LOGITS]), greedy).tolist() == [LOGITS]


EVERYTHING = {**PENALTIES["all"], **XTC}


def test_the_callers_logits_are_never_written_to() -> None:
    logits = mx.array([LOGITS] * 3)
    before = np.array(logits)
    out = preprocess_logits(logits, SamplerSettings(**EVERYTHING), ids(0, 1, 0, 1), ids(0, 1), mx.zeros((3,)))
    mx.eval(out)
    assert not np.array_equal(np.array(out), before)
    assert np.array_equal(np.array(logits), before)


def test_no_step_waits_for_a_drafted_token(tracing: None) -> None:
    settings = SamplerSettings(**EVERYTHING)
    prefix = ids(0, 1, 0, 1)

    def build(logits: mx.array, drafted: mx.array, coins: mx.array) -> mx.array:
        return preprocess_logits(logits, settings, prefix, drafted, coins)

    inputs = (mx.array([LOGITS] * 3), ids(0, 1), mx.array([0.1, 0.9, 0.2]))
    assert mx.compile(build)(*inputs).shape == (3, 4)  # traced, not compiled: nothing asks for the values
    with pytest.raises(ValueError, match="eval"):
        mx.compile(lambda x: x * x.max().item())(inputs[0])


def test_dropped_logits_stay_dropped() -> None:
    row = [-np.inf, 1.0, 2.0, -np.inf]
    out = processed([0, 1, 3, 0, 1], row, repetition_penalty=1.5, dry_multiplier=1.0, frequency_penalty=1.0)
    assert out[0] == out[3] == -np.inf
    assert np.isfinite(out[1:3]).all()


def test_the_distribution_sees_the_history() -> None:
    settings = SamplerSettings(temperature=1.0, presence_penalty=1.0)
    p = effective_token_distribution(mx.array([LOGITS]), settings, ids(3))
    expected = np.exp([2.0, -1.0, 0.0, 2.0])
    np.testing.assert_allclose(np.array(p)[0], expected / expected.sum(), rtol=1e-6)
