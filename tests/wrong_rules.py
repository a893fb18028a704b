"""Rules that are wrong on purpose: a test of losslessness that can't see them has no power."""

from __future__ import annotations

from engine.acceptance import Rule, Verdict, Verification, draw_replacement, leading
from engine.backend import mx
from engine.randomness import ACCEPT, REPLACE


def _argmax(v: Verification) -> Verdict:
    best = mx.argmax(v.target, axis=-1)
    passed = v.drafted == best[: v.k]
    count = leading(passed)
    return Verdict(passed, count, mx.take(best, count), match=best[: v.k])


def _resample_from_p(v: Verification) -> Verdict:
    assert v.q is not None
    u = v.keys.uniforms(ACCEPT, v.k)
    p, q = v.at_drafts(v.p), v.at_drafts(v.q)
    passed = (p > 0) & (u * q <= p)
    count = leading(passed)
    fresh = v.keys.categorical(REPLACE, v.target)
    return Verdict(passed, count, mx.take(fresh, count), u=u, threshold=u * q, p=p, q=q)


def _without_support(v: Verification) -> Verdict:
    assert v.q is not None
    u = v.keys.uniforms(ACCEPT, v.k)
    p, q = v.at_drafts(v.p), v.at_drafts(v.q)
    p, q = p.astype(mx.float16).astype(mx.float32), q.astype(mx.float16).astype(mx.float32)
    passed = u * q <= p
    count = leading(passed)
    token, degenerate = draw_replacement(v, count)
    return Verdict(passed, count, token, degenerate, u=u, threshold=u * q, p=p, q=q)


ARGMAX_VS_ARGMAX = Rule("argmax-vs-argmax", "argmax at every temperature", False, _argmax, "greedy")
RESAMPLE_FROM_P = Rule("resample-from-p", "rejections draw from p", False, _resample_from_p, "recovered", needs_q=True)
MISSING_SUPPORT_CHECK = Rule("missing-support-check", "no p(d) > 0", False, _without_support, "recovered", needs_q=True)
