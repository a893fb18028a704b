"""The acceptance rules: which drafts are kept, and what is emitted instead.

p is the target's effective distribution, q the drafter's, u a uniform draw in [0, 1).

Why `sampler-match` is lossless: every emitted token is a fresh draw x from p; the test only finds out whether
the draft was the same token.

Why `stochastic` is lossless for any q. A draft d ~ q is kept with probability min(1, p(d) / q(d)), so token x is
emitted as a kept draft with probability q(x) min(1, p(x) / q(x)) = min(p(x), q(x)). A rejection has probability
1 - sum min(p, q) = sum relu(p - q) =: Z, and then x is drawn from relu(p - q) / Z. Together:

    min(p(x), q(x)) + Z * relu(p(x) - q(x)) / Z = p(x).

`block` is in `engine.block`. The rules behind it are wrong on purpose: each imitates a known mistake, for the
instruments that have to find it.

Sources: Leviathan et al. 2023, Chen et al. 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from engine import rules
from engine.backend import mx
from engine.block import verify_block
from engine.rules import RULE_TABLE, RuleInfo
from engine.sampling import probabilities
from engine.verification import Verdict, Verification, draw_replacement, leading, nothing_drafted, residual

__all__ = ["RULES", "Rule", "Verdict", "Verification", "acceptance_rule", "draw_replacement", "leading", "residual"]


def match_argmax(v: Verification) -> Verdict:
    """greedy-argmax: keep d iff it is the target's argmax; emit that argmax."""
    return _match(v, mx.argmax(v.target if v.scores is None else v.scores, axis=-1))


def match_target_draw(v: Verification) -> Verdict:
    """sampler-match: keep d iff it is the fresh draw x from p; emit x."""
    return _match(v, v.fresh)


def _match(v: Verification, wanted: mx.array) -> Verdict:
    passed = v.drafted == wanted[: v.k]
    count = leading(passed)
    return Verdict(passed, count, mx.take(wanted, count), match=wanted[: v.k])


def reject_and_resample(v: Verification) -> Verdict:
    """stochastic: keep d iff p(d) > 0 and u q(d) <= p(d); on rejection draw from norm(relu(p - q))."""
    if v.k == 0:
        return nothing_drafted(v)
    p, q = v.p_drafted, v.q_drafted
    threshold = v.u * q
    # Without p > 0 a q(d) that underflowed to 0 would read 0 <= 0. The product never divides by a tiny q.
    passed = (p > 0) & (threshold <= p)
    count = leading(passed)
    token, degenerate = draw_replacement(v, count)
    return Verdict(passed, count, token, degenerate, u=v.u, threshold=threshold, p=p, q=q)


def match_argmax_always(v: Verification) -> Verdict:
    """argmax-vs-argmax, a mistake: keep d iff it is the argmax of p, and emit that argmax, at every temperature.

    Source: the verify path of Gemma 4's MTP heads, and DFlash's round loop.
    """
    return nothing_drafted(v) if v.k == 0 else _match(v, mx.argmax(v.target, axis=-1))


def resample_from_p(v: Verification) -> Verdict:
    """resample-from-p, a mistake: the stochastic test, but a rejection draws from p instead of the residual."""
    verdict = reject_and_resample(v)
    return verdict if v.k == 0 else replace(verdict, token=mx.take(v.fresh, verdict.count), degenerate=None)


def skip_support_check(v: Verification) -> Verdict:
    """missing-support-check, a mistake: the stochastic test without p(d) > 0, its numbers rounded to float16.

    Half precision is what gives it its chance: where q(d) is rounded to 0, it reads 0 <= 0.
    """
    if v.k == 0:
        return nothing_drafted(v)
    p, q = (values.astype(mx.float16).astype(mx.float32) for values in (v.p_drafted, v.q_drafted))
    threshold = v.u * q
    passed = threshold <= p
    count = leading(passed)
    token, degenerate = draw_replacement(v, count)
    return Verdict(passed, count, token, degenerate, u=v.u, threshold=threshold, p=p, q=q)


def believe_raw_q(v: Verification) -> Verdict:
    """raw-q, a mistake: take the softmax of the drafter's processed logits for q.

    The drafts were drawn behind the drafter's temperature and filters. Raises ValueError without `draft_scores`.
    """
    if v.k == 0:
        return nothing_drafted(v)
    if v.draft_scores is None:
        raise ValueError("raw-q needs the drafter's processed logits")
    believed = probabilities(v.draft_scores.astype(mx.float32))
    return replace(reject_and_resample(v.with_q(believed)), believed_q=believed)


@dataclass(frozen=True, kw_only=True)
class Rule(RuleInfo):
    """One acceptance rule: what the table says of it, and its test."""

    decide: Callable[[Verification], Verdict]


_TESTS = {
    "greedy-argmax": match_argmax,
    "sampler-match": match_target_draw,
    "stochastic": reject_and_resample,
    "sampler-match-no-proposal-distribution": match_target_draw,
    "block": verify_block,
    "argmax-vs-argmax": match_argmax_always,
    "resample-from-p": resample_from_p,
    "missing-support-check": skip_support_check,
    "raw-q": believe_raw_q,
}

RULES = {rule: Rule(**vars(info), decide=_TESTS[rule]) for rule, info in RULE_TABLE.items()}


def acceptance_rule(
    *,
    greedy_target: bool,
    stochastic: bool,
    kill_switch: bool,
    reports_q: bool,
    asked: str = "auto",
    one_hot_q: bool = False,
) -> tuple[Rule, str]:
    """The rule in force, test included, and why; `engine.rules.acceptance_rule` decides. Raises SettingsError."""
    info, reason = rules.acceptance_rule(
        greedy_target=greedy_target,
        stochastic=stochastic,
        kill_switch=kill_switch,
        reports_q=reports_q,
        asked=asked,
        one_hot_q=one_hot_q,
    )
    return RULES[info.id], reason
