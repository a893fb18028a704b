"""What would have come of a recorded position with another u, temperature or rule; no models and no MLX.

A record keeps the largest probabilities of a position, not all. At the recorded temperature its numbers are exact. At
another one they are where the whole vocabulary was kept and no filter was on; else they are called approximate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.rounds import Distributions, Draft, Floats, Ids, Round
from engine.rules import RULE_TABLE
from engine.settings import SettingsError

RULES = ("stochastic", "sampler-match", "argmax-vs-argmax", "resample-from-p")
"""The rules whose test needs one position alone."""

WITH_U = ("stochastic", "resample-from-p")
"""Those of them that draw a u."""

_SAMPLER_MATCH = ("sampler-match", "sampler-match-no-proposal-distribution")
_OTHER_RESIDUAL = ("block", "raw-q")
"""Rules under which a record's residual isn't norm(relu(p - q))."""

NO_RESIDUAL = 1e-6
"""`engine.verification.NO_RESIDUAL`, which can't be had without MLX."""


@dataclass(frozen=True)
class WhatIf:
    """The test of a draft under changed circumstances, and what could be emitted instead.

    `accepted`: None where the rule's draw can't be repeated without the models; `probability` is the chance that the
    draft is accepted. `threshold` is u q(d), compared with `p`; None for rules without u. `match`: the token that the
    draft is compared with, for rules that do, where it is known. `token`: what is emitted at the position; None where
    a draw decides that can't be repeated. `ids` and `replacement` (n,): the distribution of the token at a rejection,
    over the tokens that were kept; `rest`: its mass elsewhere. `approximate` says why the numbers of the test aren't
    exact, `draw_approximate` why those of the replacement aren't; None where they are.
    """

    rule: str
    p: float
    q: float | None
    u: float | None
    threshold: float | None
    accepted: bool | None
    probability: float
    match: int | None
    token: int | None
    ids: Ids
    replacement: Floats
    rest: float
    approximate: str | None
    draw_approximate: str | None


@dataclass(frozen=True)
class _Case:
    """One position with p and q at the temperatures asked for. `at`: where the draft stands in the kept tokens."""

    record: Round
    position: int
    rule: str
    u: float | None
    seen: Distributions
    at: int
    p: Floats
    q: Floats | None
    rests: tuple[float, float]
    ratios: tuple[float, float]

    @property
    def draft(self) -> Draft:
        return self.record.drafts[self.position]

    @property
    def is_as_drawn(self) -> bool:
        """Whether p and q are the recorded ones, so that what was drawn would be drawn again."""
        return self.ratios == (1.0, 1.0)


def what_if(
    record: Round,
    position: int,
    *,
    rule: str | None = None,
    u: float | None = None,
    temperature_ratio: float = 1.0,
    draft_ratio: float | None = None,
) -> WhatIf:
    """The test of draft `position` (from 0), with what is given in place of what was recorded.

    `temperature_ratio`: new temperature over old, for p; `draft_ratio` for q, None: the same. The draft stays what it
    was. Raises SettingsError for a rule that can't be tried here, a u outside [0, 1), a ratio that is no number above
    0 or one for a greedy target, or a record without distributions, without the draft in them, or with damaged ones.
    """
    rule = _usual(record.rule) if rule is None else rule
    ratios = (temperature_ratio, temperature_ratio if draft_ratio is None else draft_ratio)
    if rule not in RULES:
        raise SettingsError(f"rule: expected one of {', '.join(RULES)}, got {rule!r}")
    if u is not None and not (0 <= u < 1 and np.float32(u) < 1):
        raise SettingsError(f"u: expected a number in [0, 1), got {u!r}")
    for ratio in ratios:
        if not 0 < ratio < np.inf:
            raise SettingsError(f"temperature: expected a number above 0, got {ratio!r} times the recorded one")
    if record.rule == "greedy-argmax" and temperature_ratio != 1:
        raise SettingsError("temperature: the target's sampler was greedy, whose p says nothing of other temperatures")
    if not 0 <= position < record.k:
        raise SettingsError(f"position: expected one of the {record.k} drafts of the round, got {position}")
    if len(record.distributions) <= position:
        raise SettingsError("the round was recorded without its distributions")
    draft, seen = record.drafts[position], record.distributions[position]
    found = np.flatnonzero(seen.ids == draft.token)
    if not len(found):
        raise SettingsError("the draft isn't among the tokens that were kept")
    p, rest_p = _tempered(seen.p, ratios[0], _rest(seen, seen.p))
    q, rest_q = (None, 0.0) if seen.q is None else _tempered(seen.q, ratios[1], _rest(seen, seen.q))
    if not all(np.isfinite(values).all() for values in (p, q) if values is not None):
        raise SettingsError("the probabilities kept at this position are damaged")
    if RULE_TABLE[rule].needs_q and q is None:
        raise SettingsError(f"{rule}: the drafter reported no q")
    u = draft.u if u is None else u
    return _decide(_Case(record, position, rule, u, seen, int(found[0]), p, q, (rest_p, rest_q), ratios))


def _usual(rule: str) -> str:
    return "sampler-match" if rule in _SAMPLER_MATCH else rule


def _decide(case: _Case) -> WhatIf:
    """The test, and what it leads to. In float32, as the engine tests: the product in double may fall otherwise."""
    rule, p, q = case.rule, case.p, case.q
    p_d, q_d = p[case.at], None if q is None else q[case.at]
    threshold, match, accepted = None, None, None
    if rule in WITH_U:
        assert q_d is not None
        probability = 0.0 if p_d <= 0 else 1.0 if q_d <= p_d else float(p_d) / float(q_d)
        if case.u is not None:
            product = np.float32(case.u) * np.float32(q_d)
            threshold, accepted = float(product), bool(p_d > 0 and product <= p_d)
        else:
            accepted = _told(case, rule)
    elif rule == "argmax-vs-argmax":
        match = int(case.seen.ids[int(np.argmax(p))])
        accepted, probability = match == case.draft.token, float(match == case.draft.token)
    else:
        match, probability = _fresh(case), float(p_d)
        accepted = None if match is None else match == case.draft.token
    replacement, rest, why = _replacement(case)
    return WhatIf(
        rule=rule,
        p=float(p_d),
        q=None if q_d is None else float(q_d),
        u=case.u,
        threshold=threshold,
        accepted=accepted,
        probability=probability,
        match=match,
        token=_token(case, accepted, match),
        ids=case.seen.ids,
        replacement=replacement,
        rest=rest,
        approximate=_why_approximate(case, rule in WITH_U),
        draw_approximate=why,
    )


def _replacement(case: _Case) -> tuple[Floats, float, str | None]:
    """What the token at a rejection is drawn from: over the kept tokens, its mass elsewhere, and why it isn't exact."""
    p, q, seen, (rest_p, rest_q) = case.p, case.q, case.seen, case.rests
    if case.rule == "argmax-vs-argmax":
        return np.eye(len(p), dtype=np.float32)[int(np.argmax(p))], 0.0, None
    if case.rule != "stochastic":
        return p, rest_p, _why_approximate(case, False)
    assert q is not None
    if case.is_as_drawn and seen.residual is not None and case.record.rule not in _OTHER_RESIDUAL:
        if (seen.residual_mass or 0.0) > NO_RESIDUAL:
            return seen.residual, _rest(seen, seen.residual), None
        return p, rest_p, None  # p = q: the degenerate fallback
    weights, beyond = np.maximum(p - q, 0), max(rest_p - rest_q, 0.0)
    total = float(weights.sum()) + beyond
    why = _why_approximate(case, True)
    if why is None and rest_p + rest_q > 0:
        why = _kept(seen)
    if total <= NO_RESIDUAL:
        return p, rest_p, why
    return weights / np.float32(total), beyond / total, why


def _told(case: _Case, rule: str) -> bool | None:
    """What Diagnostics found out of a rule's test at the position, with the round's own draws; None if it didn't."""
    seen = case.record.counterfactual
    kept = None if seen is None or not case.is_as_drawn else seen.accepted(rule)
    return None if kept is None or case.position > kept else case.position < kept


def _fresh(case: _Case) -> int | None:
    """The fresh draw from p at the position, where the record tells it: it is one and the same under every rule."""
    if case.is_as_drawn and case.record.rule in _SAMPLER_MATCH and case.draft.match is not None:
        return case.draft.match
    is_draft, seen = _told(case, "sampler-match"), case.record.counterfactual
    if is_draft is None or seen is None:
        return None
    return case.draft.token if is_draft else seen.token("sampler-match")


def _token(case: _Case, accepted: bool | None, match: int | None) -> int | None:
    """What would be emitted at the position. A draw has a key of its own at each position, whatever u is."""
    if accepted is None:
        return None
    if accepted:
        return case.draft.token
    if match is not None:
        return match
    if not case.is_as_drawn:
        return None
    if case.rule == "resample-from-p":
        return _fresh(case)
    record = case.record
    if record.rule == "stochastic" and not record.forced and record.rejected_at == case.position:
        return next((e.token for e in record.emitted if e.position == case.position), None)
    if _told(case, "stochastic") is False and record.counterfactual is not None:
        return record.counterfactual.token("stochastic")
    return None


def _tempered(values: Floats, ratio: float, rest: float) -> tuple[Floats, float]:
    """(values at the new temperature, mass of the tokens that weren't kept), summing to 1.

    What wasn't kept is taken for one lump, whose share changes as a token's would: an approximation.
    """
    if ratio == 1:
        return values, rest
    every = np.append(values.astype(np.float64), rest)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(every) / ratio
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
    return weights[:-1].astype(np.float32), float(weights[-1])


def _why_approximate(case: _Case, uses_q: bool) -> str | None:
    """Why p, and q where it is used, aren't the models' own at the temperatures asked for."""
    seen, reasons = case.seen, []
    changed = [(seen.p, seen.p_support)] if case.ratios[0] != 1 else []
    if uses_q and seen.q is not None and case.ratios[1] != 1:
        changed.append((seen.q, seen.q_support or 0))
    if not _is_whole(seen) and any(np.count_nonzero(kept) < support for kept, support in changed):
        reasons.append(_kept(seen))
    if any(support < seen.vocab_size for _, support in changed):
        reasons.append("a filter was on, and would have cut elsewhere")
    return "; ".join(reasons) or None


def _is_whole(seen: Distributions) -> bool:
    return len(seen.ids) >= seen.vocab_size


def _rest(seen: Distributions, values: Floats) -> float:
    """The mass of the tokens that weren't kept; a float32 sum can't tell less than a millionth from nothing."""
    rest = 0.0 if _is_whole(seen) else 1.0 - float(values.sum(dtype=np.float64))
    return rest if rest >= 1e-6 else 0.0


def _kept(seen: Distributions) -> str:
    return f"only {len(seen.ids)} of {seen.vocab_size} tokens were kept"
