"""The chi-square experiment as plain numbers: what is asked, what must come out, and the test; no MLX.

A rule gets a target and a drafter over a few tokens, with the same logits behind every prefix. Then every emitted
token of a lossless rule is an independent draw from p, and Pearson's statistic against p follows a chi-square
distribution. What a rule really emits at a tested position has a closed form here too, so the test's power is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, chdtri

from engine.rules import RULE_TABLE
from engine.settings import MAX_SEED, SamplerSettings, SettingsError
from engine.toy_tables import DRAFT_LOGITS, TARGET_LOGITS

ALPHA = 1e-4
"""How often a right rule may be rejected."""

LEAST_EXPECTED = 5.0
"""Cells of which fewer tokens are expected are pooled: below it the statistic isn't chi-square distributed."""

ARMS = (
    "sampler-match",
    "stochastic",
    "block",
    "resample-from-p",
    "argmax-vs-argmax",
    "missing-support-check",
    "raw-q",
)
"""The rules that can be put to the test: right ones, then wrong ones."""

MOST_TOKENS = 64
MOST_DRAFTS = 32
MOST_SAMPLES = 10_000_000

Vector = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What is put to the test. Raises SettingsError.

    `samples`: emitted tokens, or tested positions for a rule that is wrong on purpose: a bonus token has met
    no test. Temperature holds for both models; `target_top_k` filters the target alone, so that the drafter
    proposes what the target can't emit (0: off).
    """

    rule: str = "stochastic"
    samples: int = 12_000
    seed: int = 1
    k: int = 4
    temperature: float = 0.7
    target_logits: tuple[float, ...] = TARGET_LOGITS
    draft_logits: tuple[float, ...] = DRAFT_LOGITS
    target_top_k: int = 0

    def __post_init__(self) -> None:
        if self.rule not in ARMS:
            raise SettingsError(f"rule: expected one of {', '.join(ARMS)}, got {self.rule!r}")
        _require_whole("samples", self.samples, 1, MOST_SAMPLES)
        _require_whole("seed", self.seed, 0, MAX_SEED)
        _require_whole("k", self.k, 1, MOST_DRAFTS)
        size = len(self.target_logits)
        if not 2 <= size <= MOST_TOKENS or len(self.draft_logits) != size:
            raise SettingsError(
                f"logits: expected 2 to {MOST_TOKENS} for the target and as many for the draft, "
                f"got {size} and {len(self.draft_logits)}"
            )
        for name, logits in (("target_logits", self.target_logits), ("draft_logits", self.draft_logits)):
            wrong = next((value for value in logits if not abs(value) <= 1000), None)
            if wrong is not None:
                raise SettingsError(f"{name}: expected numbers from -1000 to 1000, got {wrong!r}")
        if self.target_sampler.is_greedy:
            raise SettingsError(
                "temperature, target_top_k: expected a temperature above 0 and no top-k of 1, "
                "since nothing can be tested of a greedy target, which emits one token alone"
            )
        target = np.asarray(self.target_logits, np.float64)
        if np.count_nonzero(_softmax(_largest(target, self.target_top_k) / self.temperature)) < 2:
            raise SettingsError(
                "target_logits: expected two tokens at least that the target can emit, got one: "
                "the others' probability is 0 in float32, so nothing can be tested"
            )

    @property
    def target_sampler(self) -> SamplerSettings:
        return SamplerSettings(temperature=self.temperature, top_k=self.target_top_k)

    @property
    def draft_sampler(self) -> SamplerSettings:
        return SamplerSettings(temperature=self.temperature)

    @property
    def counts_positions(self) -> bool:
        """Whether tested positions are counted in place of emitted tokens."""
        return RULE_TABLE[self.rule].is_reference


def _require_whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise SettingsError(f"{name}: expected a whole number from {least} to {most}, got {value!r}")


@dataclass(frozen=True)
class ClosedForms:
    """The experiment's distributions (V,) and what follows from them, in float64.

    `emitted`: the distribution of what the rule emits at a tested position. `acceptance`: how often it accepts there.
    """

    p: Vector
    q: Vector
    emitted: Vector
    acceptance: float
    sum_min: float
    sum_prod: float
    p_argmax_q: float
    q_argmax_p: float

    def expected_statistic(self, n: int) -> float:
        """Mean of Pearson's statistic over n tested positions, no cell pooled; V - 1 for a right rule."""
        p, e = self.p[self.p > 0], self.emitted[self.p > 0]
        return float(np.sum(e * (1 - e) / p) + n * np.sum((e - p) ** 2 / p))


def closed_forms(experiment: Experiment) -> ClosedForms:
    """What an experiment must come to, if its rule does what its name says."""
    target, draft = np.array(experiment.target_logits), np.array(experiment.draft_logits)
    p = _softmax(_largest(target, experiment.target_top_k) / experiment.temperature)
    q = _softmax(draft / experiment.temperature)
    least = np.minimum(p, q)
    emitted, acceptance = p, float(least.sum())
    rule = experiment.rule
    if rule == "sampler-match":
        acceptance = float(p @ q)
    elif rule == "block":
        acceptance = math.nan  # its test isn't one position's
    elif rule == "argmax-vs-argmax":
        emitted, acceptance = np.eye(len(p))[p.argmax()], float(q[p.argmax()])
    elif rule == "resample-from-p":
        emitted = least + (1 - acceptance) * p
    elif rule == "raw-q":
        believed = _softmax(draft)
        kept = np.minimum(q, np.divide(q * p, believed, out=q.copy(), where=believed > 0))
        acceptance, rest = float(kept.sum()), np.maximum(p - believed, 0)
        emitted = kept + (1 - acceptance) * (rest / rest.sum() if rest.sum() > 0 else p)
    return ClosedForms(
        p, q, emitted, acceptance, float(least.sum()), float(p @ q), float(p[q.argmax()]), float(q[p.argmax()])
    )


def _softmax(logits: Vector) -> Vector:
    weights = np.exp(logits - logits.max())
    shares = np.asarray(weights / weights.sum(), np.float64)
    # What float32 can't tell from 0 is outside the support, for the engine and so for the test.
    return np.where(shares.astype(np.float32) > 0, shares, 0.0)


def _largest(logits: Vector, count: int) -> Vector:
    """Logits with all but the `count` largest at -inf, ties by lower id; 0: all stay."""
    if not 0 < count < len(logits):
        return logits
    kept = np.full_like(logits, -np.inf)
    chosen = np.argsort(-logits, kind="stable")[:count]
    kept[chosen] = logits[chosen]
    return kept


@dataclass(frozen=True)
class Goodness:
    """Pearson's test of counts against p.

    `observed`, `expected` (V,): tokens by id. `statistic`, `p_value`, `threshold` None where fewer than two cells are
    left to compare (`dof` 0). `pooled`: ids whose cells were put together, since too few of them were expected.
    `support_violations`: tokens that p gives probability 0; they are in no cell, and not one is tolerated.
    """

    n: int
    observed: Counts
    expected: Vector
    dof: int
    statistic: float | None
    threshold: float | None
    p_value: float | None
    pooled: tuple[int, ...]
    support_violations: int

    @property
    def rejected(self) -> bool:
        """Whether the counts don't come from p, by the statistic or by a token outside its support."""
        return self.rejected_by_statistic or self.support_violations > 0

    @property
    def rejected_by_statistic(self) -> bool:
        return self.statistic is not None and self.threshold is not None and self.statistic > self.threshold


def goodness_of_fit(observed: Counts, p: Vector, outside: int = 0) -> Goodness:
    """Test counts (V,) of independent draws against the distribution p (V,). Source: Pearson 1900.

    `outside`: emitted tokens outside the support, among them those that weren't counted.
    """
    n = int(observed.sum())
    inside = p > 0
    expected = n * p
    pooled = _too_small(expected, inside)
    cells = [i for i in np.flatnonzero(inside).tolist() if i not in pooled]
    seen, wanted = [*observed[cells].tolist()], [*expected[cells].tolist()]
    if pooled:
        seen.append(int(observed[list(pooled)].sum()))
        wanted.append(float(expected[list(pooled)].sum()))
    violations = max(int(observed[~inside].sum()), outside)
    dof = len(seen) - 1
    if dof < 1 or n == 0:
        return Goodness(n, observed, expected, 0, None, None, None, pooled, violations)
    statistic = float(sum((o - e) ** 2 / e for o, e in zip(seen, wanted, strict=True)))
    p_value = float(chdtrc(dof, statistic))
    return Goodness(
        n, observed, expected, dof, statistic, float(chdtri(dof, ALPHA)), p_value, tuple(pooled), violations
    )


def _too_small(expected: Vector, inside: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    """Ids to pool: those of too few expected tokens, and so many of the next smallest that together they suffice."""
    order = [i for i in np.argsort(expected, kind="stable").tolist() if inside[i]]
    pooled: list[int] = []
    total = 0.0
    for i in order:
        if expected[i] >= LEAST_EXPECTED and (not pooled or total >= LEAST_EXPECTED):
            break
        pooled.append(i)
        total += float(expected[i])
    return tuple(sorted(pooled)) if len(pooled) > 1 else ()
