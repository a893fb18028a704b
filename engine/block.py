"""Block verification: the drafts of a round are tested together, which is lossless and never keeps fewer on average.

P_i is how much of the drafted prefix d_1..d_i the target would have emitted, at most 1: P_0 = 1 and
P_i = min(P_{i-1} p_i(d_i) / q_i(d_i), 1). Behind that prefix the target still has S_i = sum relu(P_i p_{i+1} - q_{i+1})
to emit that no longer draft covers, which is why it is kept with probability h_i = S_i / (S_i + 1 - P_i), and
h_k = P_k. The longest prefix that passes its test is kept, and the token behind it is drawn from
norm(relu(P_i p_{i+1} - q_{i+1})), or from p_{k+1}. On average sum_i P_i drafts are kept. With a one-hot q it is the
token-wise test in other words.

Source: Sun et al. 2024, Block Verification Accelerates Speculative Decoding.
"""

from __future__ import annotations

from engine.backend import mx
from engine.verification import Verdict, Verification, draw_replacement, nothing_drafted, residual


def verify_block(v: Verification) -> Verdict:
    """block: keep the longest prefix with h_i > 0 and u_i <= h_i."""
    if v.k == 0:
        return nothing_drafted(v)
    weight = prefix_weights(v.p_drafted, v.q_drafted)
    h = keep_probabilities(weight, v.p, v.given_q())
    kept = (h > 0) & (v.u <= h)
    count = mx.max(mx.where(kept, mx.arange(1, v.k + 1), 0))
    one = mx.ones((1,))
    # p_{k+1} needs no factor: nothing was proposed there.
    token, degenerate = draw_replacement(v, count, scale=mx.concatenate([one, weight[:-1], one]))
    passed = mx.arange(v.k) < count
    return Verdict(
        passed,
        count,
        token,
        degenerate,
        u=v.u,
        threshold=h,
        p=v.p_drafted,
        q=v.q_drafted,
        block_p=weight,
        block_h=h,
    )


def prefix_weights(p: mx.array, q: mx.array) -> mx.array:
    """P_1..P_k (..., k) of the drafts' own probabilities p, q (..., k)."""
    weights = []
    before = mx.ones(p.shape[:-1])
    for i in range(p.shape[-1]):
        wanted, proposed = before * p[..., i], q[..., i]
        # Divide only where wanted < proposed: then q > 0. A prefix outside the support stays at 0, whatever q is.
        ratio = mx.where(wanted < proposed, wanted / mx.maximum(proposed, 1e-38), 1.0)
        before = mx.where(wanted > 0, ratio, 0.0)
        weights.append(before)
    return mx.stack(weights, axis=-1)


def keep_probabilities(weight: mx.array, p: mx.array, q: mx.array) -> mx.array:
    """h_1..h_k (k,) of P_1..P_k (k,) and the distributions p (k + 1, V) and q (k, V)."""
    inner, k = weight[:-1], weight.shape[0]
    surplus = mx.sum(residual(inner[:, None] * p[1:k], q[1:]), axis=-1)
    missing = 1 - inner
    h = mx.where(missing > 0, surplus / (surplus + missing), 1.0)
    return mx.concatenate([h, weight[-1:]])
