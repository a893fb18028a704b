"""The lazy part of the meters: where each emitted and drafted token fell in the distribution that it should come from.

U = F(x-) + v p(x) is uniform in [0, 1) if x is a draw from p, whatever the context: the randomized probability integral
transform. F adds up p over the tokens in an order that is fixed before the draw, and v is a coin of its own. A wrong
rule breaks this in some orders and not in others; `engine.evidence` keeps the evidence.
"""

from __future__ import annotations

from engine.backend import mx
from engine.randomness import METER
from engine.verification import Verdict, Verification


def coordinates(p: mx.array, key: mx.array, tokens: mx.array, coins: mx.array) -> mx.array:
    """U (n,) of tokens (n,) under p (n, V), in ascending order of `key` (n, V), ties by id; coins (n,) in [0, 1).

    No sort is needed: F(x-) is the mass of the tokens whose key is smaller, or equal with a lower id.
    """
    at = tokens[:, None].astype(mx.int32)
    own = mx.take_along_axis(key, at, axis=-1)
    before = (key < own) | ((key == own) & (mx.arange(p.shape[-1]) < at))
    mass = mx.sum(mx.where(before, p, 0), axis=-1)
    return mass + coins * mx.take_along_axis(p, at, axis=-1)[:, 0]


def ratio_key(p: mx.array, q: mx.array) -> mx.array:
    """p / q (n, V), rounded once; infinite where only q is 0, and 0 outside the support of p."""
    return mx.where(p > 0, p / q, 0)


def meter_coordinates(v: Verification, verdict: Verdict) -> dict[str, mx.array]:
    """U of a round's tokens, lazy; the coins are the meters' own, so no other draw changes.

    "u_ratio" and "u_p" (k + 1,): emitted tokens under p, ordered by p / q (by p where the position has no q) and by p;
    what stands behind the last emitted token means nothing. "u_proposal" (k,), where there is a q: all drafted tokens
    under q, ordered by q. q is what the rule took for it.
    """
    k, q = v.k, v.q if verdict.believed_q is None else verdict.believed_q
    coins = v.keys.uniforms(METER, 2 * k + 1)
    places = mx.arange(k + 1)
    drafted = mx.concatenate([v.drafted, mx.zeros((1,), dtype=v.drafted.dtype)])
    tokens = mx.where(places < verdict.count, drafted, verdict.token.astype(drafted.dtype))
    emitted = coins[: k + 1]
    by_p = coordinates(v.p, v.p, tokens, emitted)
    if q is None or k == 0:
        return {"u_ratio": by_p, "u_p": by_p}
    by_ratio = coordinates(v.p[:k], ratio_key(v.p[:k], q), tokens[:k], emitted[:k])
    return {
        "u_ratio": mx.concatenate([by_ratio, by_p[k:]]),
        "u_p": by_p,
        "u_proposal": coordinates(q, q, v.drafted, coins[k + 1 :]),
    }
