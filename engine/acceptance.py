"""The acceptance rules: which drafts are kept, what is emitted instead, and the one function that decides the rule.

p is the target's effective distribution, q the drafter's, u a uniform draw in [0, 1).

Why `sampler-match` is lossless: every emitted token is a fresh draw x from p; the test only finds out whether
the draft was the same token.

Why `stochastic` is lossless for any q. A draft d ~ q is kept with probability min(1, p(d) / q(d)), so token x is
emitted as a kept draft with probability q(x) min(1, p(x) / q(x)) = min(p(x), q(x)). A rejection has probability
1 - sum min(p, q) = sum relu(p - q) =: Z, and then x is drawn from relu(p - q) / Z. Together:

    min(p(x), q(x)) + Z * relu(p(x) - q(x)) / Z = p(x).

Sources: Leviathan et al. 2023, Chen et al. 2023.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from engine.backend import mx
from engine.randomness import ACCEPT, REPLACE, RoundKeys
from engine.sampling import probabilities
from engine.settings import RULE_CHOICES, SettingsError

NO_RESIDUAL = 1e-6
"""A residual mass up to this is float32 rounding of p = q: there is nothing to draw from."""


@dataclass(frozen=True)
class Verification:
    """What a rule sees of a round, all of it lazy.

    `drafted` (k,) ids; `target` (k + 1, V) log-weights of p, one row behind each prefix; `q` (k, V) float32, what each
    draft was really drawn from, or None; `keys` of this round. `scores` (k + 1, V): the target's processed logits,
    whose argmax a greedy test takes without building a distribution.
    """

    drafted: mx.array
    target: mx.array
    q: mx.array | None
    keys: RoundKeys
    scores: mx.array | None = None

    @property
    def k(self) -> int:
        return int(self.drafted.shape[0])

    @cached_property
    def p(self) -> mx.array:
        """(k + 1, V) float32."""
        return probabilities(self.target)

    def at_drafts(self, rows: mx.array) -> mx.array:
        """The drafted tokens' values in rows (>= k, V): shape (k,)."""
        return mx.take_along_axis(rows[: self.k], self.drafted[:, None].astype(mx.int32), axis=-1)[:, 0]


@dataclass(frozen=True)
class Verdict:
    """A rule's answer, lazy: each draft's own test (k,), how many drafts are kept (), and the token that follows ().

    `degenerate` (): the residual was empty, the token is a draw from p. `u`, `threshold`, `match` (k,), `p`, `q` (k,):
    the numbers of the test, where the rule has them.
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


def leading(passed: mx.array) -> mx.array:
    """How many drafts pass before the first that fails, shape ()."""
    return mx.sum(mx.cumprod(passed.astype(mx.int32)))


def residual(p: mx.array, q: mx.array) -> mx.array:
    """relu(p - q), not normalised; rows of any shape (..., V)."""
    return mx.maximum(p - q, 0)


def match_argmax(v: Verification) -> Verdict:
    """greedy-argmax: keep d iff it is the target's argmax; emit that argmax."""
    return _match(v, mx.argmax(v.target if v.scores is None else v.scores, axis=-1))


def match_target_draw(v: Verification) -> Verdict:
    """sampler-match: keep d iff it is the fresh draw x from p; emit x."""
    return _match(v, v.keys.categorical(REPLACE, v.target))


def _match(v: Verification, wanted: mx.array) -> Verdict:
    passed = v.drafted == wanted[: v.k]
    count = leading(passed)
    return Verdict(passed, count, mx.take(wanted, count), match=wanted[: v.k])


def reject_and_resample(v: Verification) -> Verdict:
    """stochastic: keep d iff p(d) > 0 and u q(d) <= p(d); on rejection draw from norm(relu(p - q))."""
    if v.k == 0:  # nothing was proposed: the draw from p is all there is
        token, _ = draw_replacement(v, mx.array(0))
        return Verdict(mx.zeros((0,), dtype=mx.bool_), mx.array(0), token)
    if v.q is None:
        raise ValueError("the stochastic rule needs the drafter's distribution q")
    u = v.keys.uniforms(ACCEPT, v.k)
    p, q = v.at_drafts(v.p), v.at_drafts(v.q)
    threshold = u * q
    # Without p > 0 a q(d) that underflowed to 0 would read 0 <= 0. The product never divides by a tiny q.
    passed = (p > 0) & (threshold <= p)
    count = leading(passed)
    token, degenerate = draw_replacement(v, count)
    return Verdict(passed, count, token, degenerate, u=u, threshold=threshold, p=p, q=q)


def draw_replacement(v: Verification, count: mx.array) -> tuple[mx.array, mx.array]:
    """(token, degenerate): a draw from the residual behind `count` kept drafts.

    Behind the last draft nothing was proposed: q = 0 there, the residual is p itself, and the draw is the bonus.
    """
    p = mx.take(v.p, count, axis=0)
    q = p * 0 if v.k == 0 or v.q is None else mx.take(v.q, mx.minimum(count, v.k - 1), axis=0)
    weights = residual(p, mx.where(count < v.k, q, 0))
    degenerate = mx.sum(weights) <= NO_RESIDUAL
    weights = mx.where(degenerate, p, weights)
    key = mx.take(v.keys.keys(REPLACE, v.k + 1), count, axis=0)
    return mx.random.categorical(mx.log(weights), key=key), degenerate


@dataclass(frozen=True)
class Rule:
    """One acceptance rule: its stable id, its label in brackets, its test, and what a rejection's token is called."""

    id: str
    label: str
    distribution_preserving: bool
    decide: Callable[[Verification], Verdict]
    on_rejection: str
    needs_q: bool = False


RULES = {
    rule.id: rule
    for rule in (
        Rule("greedy-argmax", "greedy target sampler", True, match_argmax, "greedy"),
        Rule("sampler-match", "fresh target draw", True, match_target_draw, "target-draw"),
        Rule("stochastic", "modified rejection sampling", True, reject_and_resample, "recovered", needs_q=True),
        Rule(
            "sampler-match-no-proposal-distribution",
            "drafter reported no proposal distribution",
            True,
            match_target_draw,
            "target-draw",
        ),
    )
}


def acceptance_rule(
    *, greedy_target: bool, stochastic: bool, kill_switch: bool, reports_q: bool, asked: str = "auto"
) -> tuple[Rule, str]:
    """The rule in force and why: the one place that decides.

    In this order: greedy target; kill switch, or not opted in; no proposal distribution; stochastic. `asked` is a
    rule named by hand. Raises SettingsError for one that can't be asked for.
    """
    if asked not in RULE_CHOICES:
        raise SettingsError(
            f"rule: expected one of {', '.join(RULE_CHOICES)}; got {asked!r}, which this version doesn't have"
        )
    if greedy_target:
        return RULES["greedy-argmax"], "the target's sampler is greedy (temperature 0 or top-k 1)"
    if asked == "greedy-argmax":
        raise SettingsError("rule: greedy-argmax needs temperature 0 or top-k 1, for the output to stay lossless")
    if kill_switch:
        return RULES["sampler-match"], "the kill switch is on"
    if asked == "sampler-match":
        return RULES["sampler-match"], "asked for by name"
    if not stochastic and asked != "stochastic":
        return RULES["sampler-match"], "Stochastic is off"
    if not reports_q:
        return RULES["sampler-match-no-proposal-distribution"], "the drafter reports no proposal distribution q"
    return RULES["stochastic"], "Stochastic is on" if asked == "auto" else "asked for by name"
