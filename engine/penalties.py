"""The steps before the sampler: bias, repetition, DRY, frequency and presence penalties, XTC, on a copy of the logits.

**Histories.** The rows of one call are neighbouring positions of one stream. The last row has seen `prefix` and all of
`drafted`, the row before it one token less, and so on: with k drafts, the k + 1 rows of a verify pass see prefix +
drafted[:0], ..., prefix + drafted[:k], and the single row of a draft step sees prefix + drafted. What `prefix` holds is
the caller's choice: the whole prompt (not only its un-prefilled tail) if `settings.penalize_prompt`, then every token
emitted. Each penalty counts in the last `*_window` tokens of a row's own history, in all of it where the window is 0.
No step waits for a drafted token. DRY reads `prefix` on the host, which is free where the host made it.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from engine.backend import mx
from engine.settings import SamplerSettings

ROUNDING = 1e-6
"""Slack of the comparisons of probabilities, so that float32 rounding doesn't decide what is equal on paper."""

DRY_LIMIT = 1e30
"""The largest DRY penalty: it removes any token, and stays inside float32."""

MOST = 2**31 - 2
"""No history is as long; a length beyond it, which int32 can't hold, counts as this."""


def xtc_active(settings: SamplerSettings) -> bool:
    """Whether a position needs a coin for XTC. Greedy settings draw no randomness, so XTC is off there."""
    return settings.xtc_probability > 0 and not settings.is_greedy


def preprocessing_active(settings: SamplerSettings) -> bool:
    """Whether `preprocess_logits` changes anything but the dtype."""
    return _history_counts(settings) or bool(settings.logit_bias) or settings.dry_multiplier > 0 or _xtc_here(settings)


def preprocess_logits(
    logits: mx.array,
    settings: SamplerSettings,
    prefix: mx.array | None = None,
    drafted: mx.array | None = None,
    xtc_coins: mx.array | None = None,
) -> mx.array:
    """Bias, repetition penalty, DRY, frequency, presence, XTC (in the order temperature-first), in that order.

    `logits` (n, V), any float dtype; never written to. `prefix` (m,) and `drafted` (j,), integer ids below V: see the
    module's text for the row that sees which; `drafted` may be unevaluated, and so may `prefix` unless DRY is on.
    `xtc_coins` (n,) uniform in [0, 1), one per position, needed where `xtc_active`. Returns (n, V) float32, lazily;
    -inf logits stay -inf. Raises SettingsError for a bias outside the vocabulary, ValueError for a missing coin.
    """
    scores = logits.astype(mx.float32)
    if not preprocessing_active(settings):
        return scores
    if settings.logit_bias:
        scores = add_bias(scores, settings)
    if _history_counts(settings) or settings.dry_multiplier > 0:
        scores = _apply_history(scores, settings, prefix, drafted)
    if _xtc_here(settings):
        scores = exclude_top_choices(scores, settings, xtc_coins)
    return scores


def add_bias(scores: mx.array, settings: SamplerSettings) -> mx.array:
    """scores (n, V) float32 plus the bias of each biased id; two biases for one id add up. Raises SettingsError."""
    # MLX doesn't check indices: an id outside the vocabulary would write into foreign memory.
    settings.check_vocabulary(scores.shape[-1])
    ids, values = zip(*settings.logit_bias, strict=True)
    bias = mx.zeros(scores.shape[-1:]).at[mx.array(ids, dtype=mx.int32)].add(mx.array(values, dtype=mx.float32))
    return scores + bias


def exclude_top_choices(scores: mx.array, settings: SamplerSettings, coins: mx.array | float | None) -> mx.array:
    """XTC: where coin < xtc_probability, drop every token more likely than the least likely one at or above threshold.

    `scores` (..., V) float32 log-weights, `coins` (...,) or a number. With fewer than two tokens at or above the
    threshold nothing is dropped, and tokens that tie for least likely all stay. Source: p-e-w, text-generation-webui.
    """
    if coins is None:
        raise ValueError("XTC needs a coin per position, drawn once and shared by the draw and the distribution")
    p = mx.softmax(scores, axis=-1)
    eligible = (p > 0) & (p >= settings.xtc_threshold * (1 - ROUNDING))  # what is ruled out is no choice, at 0 either
    least = mx.min(mx.where(eligible, p, mx.inf), axis=-1, keepdims=True)
    coins = coins if isinstance(coins, mx.array) else mx.array(coins)
    acts = mx.expand_dims(coins < settings.xtc_probability, -1)
    return mx.where(acts & (p > least), -mx.inf, scores)


def repetition(scores: mx.array, counts: mx.array, penalty: float) -> mx.array:
    """Weaken each token that occurred, once however often: logit / penalty if positive, logit * penalty if negative.

    `scores`, `counts` (n, V). Source: Keskar et al. 2019 (CTRL), with the sign-aware form in use since.
    """
    return mx.where(counts > 0, mx.where(scores < 0, scores * penalty, scores / penalty), scores)


def _xtc_here(settings: SamplerSettings) -> bool:
    """mlx-lm's order has XTC among the filters instead."""
    return xtc_active(settings) and settings.chain_order == "temperature-first"


def _history_counts(settings: SamplerSettings) -> bool:
    return settings.repetition_penalty != 1 or settings.frequency_penalty != 0 or settings.presence_penalty != 0


def _apply_history(
    scores: mx.array, settings: SamplerSettings, prefix: mx.array | None, drafted: mx.array | None
) -> mx.array:
    """The four steps that look at the history; nothing to do while it is empty."""
    rows, vocab_size = scores.shape
    parts = [ids.astype(mx.int32) for ids in (prefix, drafted) if ids is not None and ids.size]
    if not parts:
        return scores
    history = mx.concatenate(parts)
    by_window: dict[int, mx.array] = {}

    def counts(window: int) -> mx.array:
        if window not in by_window:
            by_window[window] = window_counts(history, rows, vocab_size, window)
        return by_window[window]

    if settings.repetition_penalty != 1:
        scores = repetition(scores, counts(settings.repetition_window), settings.repetition_penalty)
    if settings.dry_multiplier > 0:
        scores = scores - dry_penalties(prefix, drafted, rows, vocab_size, settings)
    if settings.frequency_penalty != 0:
        scores = scores - settings.frequency_penalty * counts(settings.frequency_window)
    if settings.presence_penalty != 0:
        scores = scores - settings.presence_penalty * (counts(settings.presence_window) > 0)
    return scores


def window_counts(history: mx.array, rows: int, vocab_size: int, window: int) -> mx.array:
    """How often each token occurs in the last `window` tokens (0: all) of each row's history.

    `history` (h,) int32, what the last row has seen; each row before it one token less. Returns (rows, V) float32.
    """
    length = history.shape[0]
    width = min(window, length) if window else length
    ends = np.arange(length - rows + 1, length + 1)
    positions = ends[:, None] - width + np.arange(width)[None, :]
    # Rows near the start have fewer tokens than the window: they count a token 0 times instead.
    weights = mx.array((positions >= 0).astype(np.float32))
    ids = history[mx.array(np.maximum(positions, 0).astype(np.int32))]
    return mx.zeros((rows, vocab_size)).at[mx.arange(rows)[:, None], ids].add(weights)


def dry_penalties(
    prefix: mx.array | None, drafted: mx.array | None, rows: int, vocab_size: int, settings: SamplerSettings
) -> mx.array:
    """What DRY ("don't repeat yourself") takes off each logit, (rows, V) float32; the ids as in `preprocess_logits`.

    A token is penalised if it would prolong a repetition: if the history, inside the window, holds an earlier copy of
    its own last m >= 1 tokens, followed by that token. With the longest such m >= dry_allowed_length the penalty is
    dry_multiplier * dry_base ** (m - dry_allowed_length), at most 1e30. There are no sequence breakers. Source: p-e-w's
    definition as implemented in koboldcpp and llama.cpp. Reads `prefix` on the host.
    """
    extra = 0 if drafted is None else drafted.size
    # Nothing before the first row's window can matter; this bounds the work by the window.
    keep = settings.dry_window + rows if settings.dry_window else 0
    known = np.zeros(0, np.int32) if prefix is None else np.asarray(prefix.astype(mx.int32))
    known = known[-keep:] if keep else known
    length = known.size + extra
    if length < 2:
        return mx.zeros((rows, vocab_size))
    history = mx.array(known) if drafted is None else mx.concatenate([mx.array(known), drafted.astype(mx.int32)])
    matches = _match_lengths(known, history, rows, min(_longest_useful(settings), MOST))

    # Row i ends at ends[i]; a match must lie inside its window, and so must the token after it.
    ends = np.arange(length - rows + 1, length + 1)
    window = min(settings.dry_window, length)
    starts = np.maximum(ends - window, 0) if window else np.zeros(rows, np.int64)
    room = np.maximum(np.arange(length - 1)[None, :] - starts[:, None] + 1, 0)
    matches = mx.minimum(matches[:, :-1], mx.array(room.astype(np.int32)))
    longest = (
        mx.zeros((rows, vocab_size), dtype=mx.int32)
        .at[mx.arange(rows)[:, None], mx.broadcast_to(history[None, 1:], matches.shape)]
        .maximum(matches)
    )
    excess = (longest - min(settings.dry_allowed_length, MOST)).astype(mx.float32)
    log_penalty = math.log(settings.dry_multiplier) + excess * math.log(settings.dry_base)
    penalty = mx.exp(mx.minimum(log_penalty, math.log(DRY_LIMIT)))
    return mx.where((longest > 0) & (excess >= 0), penalty, 0.0)


def _longest_useful(settings: SamplerSettings) -> int:
    """The match length from which on the penalty no longer changes."""
    growth = math.log(settings.dry_base)
    room = math.log(DRY_LIMIT) - math.log(settings.dry_multiplier)
    steps = min(max(room, 0) / growth, 1e9) if growth > 0 else 0
    return max(1, settings.dry_allowed_length + math.ceil(steps))


def _match_lengths(known: npt.NDArray[np.int32], history: mx.array, rows: int, longest: int) -> mx.array:
    """(rows, h) int32: how many tokens ending at position i equal the last tokens of each row's history.

    0 at and behind a row's own last token. Over the ids that the host may not know yet it uses
    match(end, i) = match(end - 1, i - 1) + 1 where the two ids are equal, else 0.
    """
    length = history.shape[0]
    first = max(0, min(known.size, length - rows + 1))  # the first row's history, as far as the host knows it
    start = np.zeros(length, np.int32)
    start[:first] = _suffix_matches(known[:first], longest)
    match = mx.array(start)
    steps = [match]
    places = mx.arange(length)
    for end in range(first, length):
        shifted = mx.concatenate([mx.zeros((1,), dtype=mx.int32), match[:-1]])
        same = (history == history[end]) & (places < end)
        match = mx.where(same, mx.minimum(shifted + 1, longest), 0)
        steps.append(match)
    # Rows whose history is empty have nothing to match.
    empty = [mx.zeros((length,), dtype=mx.int32)] * max(rows - len(steps), 0)
    return mx.stack([*empty, *steps[-rows:]])


def _suffix_matches(ids: npt.NDArray[np.int32], longest: int) -> npt.NDArray[np.int32]:
    """For each position of `ids`, how many tokens ending there equal the last ones (0 at the last), capped."""
    matches = np.zeros(ids.size, np.int32)
    if ids.size < 2:
        return matches
    ends = np.flatnonzero(ids[:-1] == ids[-1])
    length = 1
    while ends.size:
        matches[ends] = length
        if length == longest:
            break
        ends = ends[ends >= length]
        ends = ends[ids[ends - length] == ids[-1 - length]]
        length += 1
    return matches
