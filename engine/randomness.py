"""Explicit random keys: one for each (seed, round, purpose, position), never MLX's thread-local global state."""

from __future__ import annotations

from engine.backend import mx

DRAFT, ACCEPT, REPLACE, METER, XTC, DRAFT_XTC = range(6)
"""Purposes. REPLACE: the recovered, bonus or fresh target draw. METER: coins of meters, which change no stream."""

_MASK = 2**64 - 1

_categorical_rows = mx.compile(mx.vmap(lambda row, key: mx.random.categorical(row, key=key)))


def mix(*parts: int, state: int = 0) -> int:
    """A 64-bit hash of whole numbers, order included; `state`: the hash of those that come before.

    Source: the finaliser of SplitMix64 (Steele et al. 2014).
    """
    for part in parts:
        state = (state + part + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


class RoundKeys:
    """The keys of one round."""

    def __init__(self, seed: int, round_index: int) -> None:
        self._state = mix(seed, round_index)

    def key(self, purpose: int, position: int) -> mx.array:
        """The key (2,) uint32 of one draw; positions count from 0."""
        return mx.random.key(mix(purpose, position, state=self._state))

    def keys(self, purpose: int, count: int) -> mx.array:
        """The keys of positions 0..count-1, shape (count, 2)."""
        hashes = [mix(purpose, position, state=self._state) for position in range(count)]
        return mx.array([[h >> 32, h & 0xFFFFFFFF] for h in hashes], dtype=mx.uint32).reshape(count, 2)

    def uniforms(self, purpose: int, count: int) -> mx.array:
        """One uniform draw in [0, 1) for each position, shape (count,) float32."""
        if count == 0:
            return mx.zeros((0,))
        return mx.vmap(lambda key: mx.random.uniform(key=key))(self.keys(purpose, count))

    def categorical(self, purpose: int, log_weights: mx.array) -> mx.array:
        """One draw for each row of log-weights (n, V), with the key of its position. Returns (n,) uint32."""
        keys = self.keys(purpose, log_weights.shape[0])
        return _categorical_rows(log_weights, keys)
