"""What would have come of a recorded position with another u, temperature or rule; no models and no MLX.

A record keeps the largest probabilities of a position, not all. Another temperature is exact where the whole vocabulary
was kept and no filter was on, else an approximation, and said to be one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.rounds import Distributions, Floats, Ids, Round
from engine.rules import RULE_TABLE
from engine.settings import SettingsError

RULES = ("sampler-match", "stochastic", "argmax-vs-argmax", "resample-from-p")
"""The rules whose test needs one position alone."""


@dataclass(frozen=True)
class WhatIf:
    """The test of a draft under changed circumstances, and what could be emitted instead.

    `accepted`: None where the rule's draw can't be repeated without the models; `probability` is the chance that the
    draft is accepted. `threshold` is u q(d), compared with `p`; None for rules without u. `ids` and `replacement`
    (n,): the distribution of the token at a rejection, over the tokens that were kept; `rest`: its mass elsewhere.
    `approximate` says why the numbers aren't exact, None where they are.
    """

    rule: str
    p: float
    q: float | None
    u: float | None
    threshold: float | None
    accepted: bool | None
    probability: float
    ids: Ids
    replacement: Floats
    rest: float
    approximate: str | None


def what_if(
    record: Round,
    position: int,
    *,
    rule: str | None = None,
    u: float | None = None,
    temperature_ratio: float = 1.0,
) -> WhatIf:
    """The test of draft `position` (from 0), with what is given in place of what was recorded.

    `temperature_ratio`: new temperature over old, for p and q alike. Raises SettingsError for a rule that can't be
    tried here, a u outside [0, 1), a ratio that is no number above 0, or a record without distributions.
    """
    rule = record.rule if rule is None else rule
    if rule not in RULES:
        raise SettingsError(f"rule: expected one of {', '.join(RULES)}, got {rule!r}")
    if u is not None and not 0 <= u < 1:
        raise SettingsError(f"u: expected a number in [0, 1), got {u!r}")
    if not 0 < temperature_ratio < np.inf:
        raise SettingsError(f"temperature: expected a number above 0, got {temperature_ratio!r} times the recorded one")
    if not 0 <= position < record.k:
        raise SettingsError(f"position: expected one of the {record.k} drafts of the round, got {position}")
    if not record.distributions:
        raise SettingsError("the round was recorded without its distributions")
    draft, seen = record.drafts[position], record.distributions[position]
    p, rest_p = _tempered(seen.p, temperature_ratio)
    q, rest_q = (None, 0.0) if seen.q is None else _tempered(seen.q, temperature_ratio)
    if RULE_TABLE[rule].needs_q and q is None:
        raise SettingsError(f"{rule}: the drafter reported no q")
    at = int(np.flatnonzero(seen.ids == draft.token)[0])
    return _decide(rule, seen, at, p, q, (rest_p, rest_q), draft.u if u is None else u, temperature_ratio)


def _decide(
    rule: str,
    seen: Distributions,
    at: int,
    p: Floats,
    q: Floats | None,
    rests: tuple[float, float],
    u: float | None,
    ratio: float,
) -> WhatIf:
    p_d, q_d = float(p[at]), None if q is None else float(q[at])
    threshold, accepted = None, None
    replacement, rest = p, rests[0]
    if rule in ("stochastic", "resample-from-p"):
        assert q is not None
        assert q_d is not None
        probability = 0.0 if p_d <= 0 else 1.0 if q_d <= p_d else p_d / q_d
        if u is not None:
            threshold = u * q_d
            accepted = p_d > 0 and threshold <= p_d
        if rule == "stochastic":
            weights, beyond = np.maximum(p - q, 0), max(rests[0] - rests[1], 0.0)
            total = float(weights.sum()) + beyond
            if total > 0:
                replacement, rest = weights / np.float32(total), beyond / total
    elif rule == "argmax-vs-argmax":
        best = int(np.argmax(p))
        accepted, probability = at == best, float(at == best)
        replacement, rest = np.eye(len(p), dtype=np.float32)[best], 0.0
    else:
        probability = p_d
    return WhatIf(
        rule, p_d, q_d, u, threshold, accepted, probability, seen.ids, replacement, rest, _why_approximate(seen, ratio)
    )


def _tempered(values: Floats, ratio: float) -> tuple[Floats, float]:
    """(values at the new temperature, mass of the tokens that weren't kept), summing to 1.

    What wasn't kept is taken for one lump, whose share changes as a token's would: an approximation.
    """
    rest = max(1.0 - float(values.sum()), 0.0)
    if rest < 1e-6:
        rest = 0.0
    if ratio == 1:
        return values, rest
    every = np.append(values.astype(np.float64), rest)
    with np.errstate(divide="ignore"):
        logs = np.log(every) / ratio
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    return weights[:-1].astype(np.float32), float(weights[-1])


def _why_approximate(seen: Distributions, ratio: float) -> str | None:
    reasons = []
    if len(seen.ids) < seen.vocab_size:
        reasons.append(f"only {len(seen.ids)} of {seen.vocab_size} tokens were kept")
    if ratio != 1 and seen.p_support < seen.vocab_size:
        reasons.append("a filter was on, and would have cut elsewhere")
    return "; ".join(reasons) or None
