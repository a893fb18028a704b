"""The lazy part of the counterfactuals: every rule's verdict on the same round, and the tokens each could expect."""

from __future__ import annotations

from collections.abc import Mapping

from engine.acceptance import RULES
from engine.alternatives import COMPARED, EXPECTED, GREEDY_DRAFTING
from engine.backend import mx
from engine.verification import Verdict, Verification


def counterfactuals(v: Verification, rule: str, verdict: Verdict, forms: Mapping[str, mx.array]) -> dict[str, mx.array]:
    """What `read_counterfactual` reads after the sync, lazy; nothing without drafts or without q.

    `rule`, `verdict`: those in force, which aren't decided again. `forms`: `engine.diagnostics.closed_forms` of this
    round. The rules share p, the u's and the fresh draws.
    """
    if v.q is None or v.k == 0:
        return {}
    verdicts = {name: verdict if name == rule else RULES[name].decide(v) for name in COMPARED if _can_try(name, v)}
    missing = mx.array(-1)
    found = [verdicts.get(name) for name in COMPARED]
    expected = expected_accepted(v, verdicts, forms)
    block_p, block_h = verdicts["block"].block_p, verdicts["block"].block_h
    assert block_p is not None
    assert block_h is not None
    return {
        "other_counts": mx.stack([missing if o is None else o.count.astype(mx.int32) for o in found]),
        "other_tokens": mx.stack([missing if o is None else o.token.astype(mx.int32) for o in found]),
        "other_expected": mx.stack([expected[name] for name in EXPECTED]),
        "block_p": block_p,
        "block_h": block_h,
    }


def _can_try(rule: str, v: Verification) -> bool:
    return rule != "raw-q" or v.draft_scores is not None


def expected_accepted(
    v: Verification, verdicts: Mapping[str, Verdict], forms: Mapping[str, mx.array]
) -> dict[str, mx.array]:
    """Expected drafts kept () by name, averaged over the accept draws along the drafted path.

    sum_i w_{i-1} s_i: s_i is the closed form at position i, w_{i-1} the chance that this path gets there, the product
    of the acceptance probabilities of its drafts. Over d ~ q its mean is the rule's own. Under `block` it is
    sum_i P_i. Greedy drafting is sum_i prod_{j <= i} p_j(argmax q_j), on the sampled path: an estimate.
    """

    def along(accepts: mx.array, form: str) -> mx.array:
        return mx.sum(mx.cumprod(accepts.astype(mx.float32), inclusive=False) * forms[form])

    p, q = v.p_drafted, v.q_drafted
    ratio = mx.where(p < q, p / mx.maximum(q, 1e-38), p > 0)
    block = verdicts["block"].block_p
    assert block is not None
    return {
        "sampler-match": along(p, "sum_prod"),
        "stochastic": along(ratio, "sum_min"),
        "block": mx.sum(block),
        GREEDY_DRAFTING: mx.sum(mx.cumprod(forms["p_argmax_q"])),
        "argmax-vs-argmax": along(verdicts["argmax-vs-argmax"].passed, "q_argmax_p"),
    }
