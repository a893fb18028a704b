"""What every acceptance rule works with: the round that it sees, the verdict that it gives, the replacement draw.

Letters as in `engine.acceptance`: p the target's effective distribution, q the drafter's, u uniform in [0, 1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from engine.backend import mx
from engine.randomness import ACCEPT, REPLACE, RoundKeys
from engine.sampling import probabilities

NO_RESIDUAL = 1e-6
"""A residual mass up to this is float32 rounding of p = q: there is nothing to draw from."""


@dataclass(frozen=True)
class Verification:
    """What a rule sees of a round, all of it lazy; what is derived from it is built once and shared.

    `drafted` (k,) ids; `target` (k + 1, V) log-weights of p, one row behind each prefix; `q` (k, V) float32, what each
    draft was really drawn from, or None; `keys` of this round. `scores` (k + 1, V): the target's processed logits,
    whose argmax a greedy test takes without building a distribution. `draft_scores` (k, V): the drafter's processed
    logits, before its temperature and filters, which only the rule `raw-q` reads.
    """

    drafted: mx.array
    target: mx.array
    q: mx.array | None
    keys: RoundKeys
    scores: mx.array | None = None
    draft_scores: mx.array | None = None

    @property
    def k(self) -> int:
        return int(self.drafted.shape[0])

    @cached_property
    def p(self) -> mx.array:
        """(k + 1, V) float32."""
        return probabilities(self.target)

    @cached_property
    def u(self) -> mx.array:
        """The accept draws (k,), the same for every rule."""
        return self.keys.uniforms(ACCEPT, self.k)

    @cached_property
    def fresh(self) -> mx.array:
        """A draw from p at each position (k + 1,) uint32, the same for every rule."""
        return self.keys.categorical(REPLACE, self.target)

    @cached_property
    def p_drafted(self) -> mx.array:
        """p of each draft (k,)."""
        return self.at_drafts(self.p)

    @cached_property
    def q_drafted(self) -> mx.array:
        """q of each draft (k,)."""
        return self.at_drafts(self.given_q())

    def at_drafts(self, rows: mx.array) -> mx.array:
        """The drafted tokens' values in rows (>= k, V): shape (k,)."""
        return mx.take_along_axis(rows[: self.k], self.drafted[:, None].astype(mx.int32), axis=-1)[:, 0]

    def given_q(self) -> mx.array:
        """q, for a rule that can't do without. Raises ValueError."""
        if self.q is None:
            raise ValueError("this rule needs the drafter's distribution q")
        return self.q

    def with_q(self, q: mx.array) -> Verification:
        """The same round with another q (k, V); p and the draws are shared with this one."""
        other = replace(self, q=q)
        other.__dict__.update(p=self.p, u=self.u, p_drafted=self.p_drafted)
        return other


@dataclass(frozen=True)
class Verdict:
    """A rule's answer, lazy: each draft's own test (k,), how many drafts are kept (), and the token that follows ().

    `degenerate` (): the residual was empty, the token is a draw from p. `u`, `threshold`, `match` (k,), `p`, `q` (k,):
    the numbers of the test, where the rule has them. Under `block`, `passed` is the kept prefix, `block_p` and
    `block_h` (k,) are its P_i and h_i, and `threshold` is h_i. `believed_q` (k, V): what the rule took for q, where
    that isn't what the drafts were drawn from.
    """

    passed: mx.array
    count: mx.array
    token: mx.array
    degenerate: mx.array | None = None
    u: mx.array | None = None
    threshold: mx.array | None = None
    match: mx.array | None = None
    p: mx.array | None = None
    q: mx.array | None = None
    block_p: mx.array | None = None
    block_h: mx.array | None = None
    believed_q: mx.array | None = None


def leading(passed: mx.array) -> mx.array:
    """How many drafts pass before the first that fails, shape ()."""
    return mx.sum(mx.cumprod(passed.astype(mx.int32)))


def residual(p: mx.array, q: mx.array) -> mx.array:
    """relu(p - q), not normalised; rows of any shape (..., V)."""
    return mx.maximum(p - q, 0)


def nothing_drafted(v: Verification) -> Verdict:
    """The verdict of a round with k = 0: a draw from p."""
    token, _ = draw_replacement(v, mx.array(0))
    return Verdict(mx.zeros((0,), dtype=mx.bool_), mx.array(0), token)


def draw_replacement(v: Verification, count: mx.array, scale: mx.array | None = None) -> tuple[mx.array, mx.array]:
    """(token, degenerate): a draw from the residual behind `count` kept drafts.

    Behind the last draft nothing was proposed: q = 0 there, the residual is p itself, and the draw is the bonus.
    `scale` (k + 1,): the factor of p in the residual relu(scale p - q), by position; None: 1.
    """
    p = mx.take(v.p, count, axis=0)
    q = p * 0 if v.k == 0 or v.q is None else mx.take(v.q, mx.minimum(count, v.k - 1), axis=0)
    weights = residual(p if scale is None else mx.take(scale, count) * p, mx.where(count < v.k, q, 0))
    degenerate = mx.sum(weights) <= NO_RESIDUAL
    weights = mx.where(degenerate, p, weights)
    key = mx.take(v.keys.keys(REPLACE, v.k + 1), count, axis=0)
    return mx.random.categorical(mx.log(weights), key=key), degenerate
