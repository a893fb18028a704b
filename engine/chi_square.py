"""The chi-square experiment at work: an acceptance rule over hundreds of verify rounds at once, counted step by step.

One token at a time through the round loop, 12,000 tokens take many seconds. Here every logit is the same behind any
prefix, so whole rounds are independent, and one vectorised graph decides hundreds of them: by the engine's own
rules, from its own filter chain, with the keys that the round loop has for the same seed. (The drafts may be others:
MLX draws from one row in another way than from many.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from engine.acceptance import RULES, Rule, Verification
from engine.backend import mx
from engine.goodness import Counts, Experiment, Goodness, closed_forms, goodness_of_fit
from engine.randomness import ACCEPT, DRAFT, REPLACE, RoundKeys, mix
from engine.sampling import filter_logits, probabilities

STEP = 256
"""Rounds of one step."""

PROBES = 400
"""Trials of the support probe."""


class _GivenKeys(RoundKeys):
    """A round's keys as lazy arrays: REPLACE keys (k + 1, 2), accept draws (k,)."""

    def __init__(self, u: mx.array, replace: mx.array) -> None:
        super().__init__(0, 0)
        self._u, self._replace = u, replace

    def uniforms(self, purpose: int, count: int) -> mx.array:
        assert purpose == ACCEPT
        return self._u[:count]

    def keys(self, purpose: int, count: int) -> mx.array:
        assert purpose == REPLACE
        return self._replace[:count]


Decided = tuple[mx.array, mx.array]


def decide_rounds(
    rule: Rule,
    drafted: mx.array,
    u: mx.array,
    keys: mx.array,
    target: mx.array,
    q: mx.array,
    draft_scores: mx.array,
) -> Decided:
    """(count (n,), token (n,)) of n rounds, lazy: how many drafts each keeps, and the token behind them.

    `drafted` (n, k) ids; `u` (n, k) accept draws; `keys` (n, k + 1, 2) of the replacement draws; and by position the
    same in every round: `target` (V,) log-weights of p, `q` (V,), `draft_scores` (V,) the drafter's processed logits.
    """
    return _decider(rule.id, drafted.shape[1])(drafted, u, keys, target, q, draft_scores)


@lru_cache(maxsize=64)
def _decider(rule: str, k: int) -> Callable[..., Decided]:
    decide = RULES[rule].decide

    def one(drafted: mx.array, u: mx.array, keys: mx.array, target: mx.array, q: mx.array, scores: mx.array) -> Decided:
        # vmap mistakes what doesn't depend on an argument that it maps over.
        nothing = (drafted[:1] * 0).astype(mx.float32)[:, None]
        rows = mx.repeat(target[None] + nothing, k + 1, axis=0)
        q_rows = mx.repeat(q[None] + nothing, k, axis=0)
        score_rows = mx.repeat(scores[None] + nothing, k, axis=0)
        verdict = decide(Verification(drafted, rows, q_rows, _GivenKeys(u, keys), rows, score_rows))
        return verdict.count, verdict.token

    return mx.vmap(one, in_axes=(0, 0, 0, None, None, None))


class RoundDraws:
    """The random keys of rounds `first` to `first + rounds - 1`, host arrays: what the round loop itself would use."""

    def __init__(self, seed: int, first: int, rounds: int, k: int) -> None:
        self.seed, self.first, self.rounds, self.k = seed, first, rounds, k
        self.draft = self._table(DRAFT, k)
        self.accept = self._table(ACCEPT, k)
        self.replace = self._table(REPLACE, k + 1)

    def _table(self, purpose: int, count: int) -> mx.array:
        """Keys (rounds, count, 2), as `RoundKeys.keys` makes them for each round."""
        rounds = np.arange(self.first, self.first + self.rounds, dtype=np.uint64)
        hashes = cast(Any, mix)(self.seed, rounds[:, None], purpose, np.arange(count, dtype=np.uint64))
        return mx.array(np.stack([hashes >> np.uint64(32), hashes & np.uint64(0xFFFFFFFF)], axis=-1).astype(np.uint32))

    def uniforms(self) -> mx.array:
        """The accept draws (rounds, k)."""
        flat = mx.vmap(lambda key: mx.random.uniform(key=key))(self.accept.reshape(-1, 2))
        return flat.reshape(self.rounds, self.k)

    def drafts(self, log_weights: mx.array) -> mx.array:
        """Draws (rounds, k) from log-weights (V,)."""
        keys = self.draft.reshape(-1, 2)
        rows = mx.repeat(log_weights[None], keys.shape[0], axis=0)
        drawn = mx.vmap(lambda row, key: mx.random.categorical(row, key=key))(rows, keys)
        return drawn.reshape(self.rounds, self.k)


class ChiSquareRun:
    """One experiment, step by step.

    `observed` (V,): tokens counted so far; `tested` and `accepted`: drafts; `outside`: emitted tokens, bonus tokens
    included, that p gives probability 0. `target_weights`, `draft_weights` (V,): log-weights of p and q;
    `draft_scores` (V,): the drafter's processed logits.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.forms = closed_forms(experiment)
        self.observed: Counts = np.zeros(len(self.forms.p), np.int64)
        self.rounds = self.tested = self.accepted = self.outside = 0
        target, draft = (
            mx.array([logits], dtype=mx.float32) for logits in (experiment.target_logits, experiment.draft_logits)
        )
        self.target_weights = filter_logits(target, experiment.target_sampler)[0]
        self.draft_weights = filter_logits(draft, experiment.draft_sampler)[0]
        self.q = probabilities(self.draft_weights)
        self.draft_scores = draft[0]

    @property
    def n(self) -> int:
        """Tokens counted so far."""
        return int(self.observed.sum())

    @property
    def done(self) -> bool:
        return self.n >= self.experiment.samples

    def draws(self, rounds: int = STEP) -> RoundDraws:
        """The keys of the next rounds; experiments of one seed and k that are in step may share them."""
        return RoundDraws(self.experiment.seed, self.rounds, rounds, self.experiment.k)

    def step(self, draws: RoundDraws | None = None) -> None:
        """Play the next rounds and count their tokens, as many as are wanted; one host sync."""
        draws = self.draws() if draws is None else draws
        experiment, k = self.experiment, self.experiment.k
        if (draws.seed, draws.first, draws.k) != (experiment.seed, self.rounds, k):
            raise ValueError(f"expected the draws from round {self.rounds}, got those from {draws.first}")
        drafted = draws.drafts(self.draft_weights)
        rule = RULES[experiment.rule]
        count, token = decide_rounds(
            rule, drafted, draws.uniforms(), draws.replace, self.target_weights, self.q, self.draft_scores
        )
        mx.eval(drafted, count, token)
        self._count(np.array(drafted), np.array(count), np.array(token))

    def _count(self, drafted: Counts, count: Counts, token: Counts) -> None:
        """Take rounds of drafts (n, k), kept drafts (n,) and tokens behind them (n,), up to the last one wanted."""
        n, k = drafted.shape
        places = np.arange(k + 1)
        tokens = np.concatenate([drafted, token[:, None]], axis=1).astype(np.int64)
        tokens[np.arange(n), count] = token
        emitted = places <= count[:, None]
        counted = emitted & (places < k) if self.experiment.counts_positions else emitted  # no test gives the bonus
        wanted = self.experiment.samples - self.n
        needed = int(np.searchsorted(np.cumsum(counted.sum(axis=1)), wanted)) + 1
        tokens, emitted, counted, count = tokens[:needed], emitted[:needed], counted[:needed], count[:needed]
        p = self.forms.p
        self.observed = self.observed + np.bincount(tokens[counted][:wanted], minlength=len(p))
        self.outside += int((p[tokens[emitted]] == 0).sum())
        self.rounds += n
        self.accepted += int(count.sum())
        self.tested += int(np.minimum(count + 1, k).sum())

    def result(self) -> Goodness:
        """The test of what was counted so far; final once `done`. Before that it is a look, not a test."""
        return goodness_of_fit(self.observed, self.forms.p, self.outside)


def run_experiment(experiment: Experiment, rounds: int = STEP) -> Iterator[ChiSquareRun]:
    """Run to the end, yielding the run after each step of so many rounds."""
    for runs in run_side_by_side([experiment], rounds):
        yield runs[0]


def run_side_by_side(experiments: Sequence[Experiment], rounds: int = STEP) -> Iterator[list[ChiSquareRun]]:
    """Run experiments of one seed and k in step, on the same draws, yielding all after each step until all are done."""
    runs = [ChiSquareRun(experiment) for experiment in experiments]
    while going := [run for run in runs if not run.done]:
        draws = going[0].draws(rounds)
        for run in going:
            run.step(draws)
        yield runs


def support_probe(rule: str, trials: int = PROBES) -> int:
    """How many of so many tokens outside the target's support a rule accepts: 0, or it isn't lossless.

    What counting can't find, since it takes a draw of probability next to 0: in one half of the trials u is 0, in the
    other a scripted drafter gives its token a q that half precision rounds to 0. The target is the toy's, filtered to
    two tokens; k is 1.
    """
    run = ChiSquareRun(Experiment(rule=rule, target_top_k=2, k=1))
    draws, half = run.draws(trials), trials // 2
    outside = np.flatnonzero(run.forms.p == 0)
    drafted = mx.array(outside[np.arange(trials) % len(outside), None].astype(np.uint32))
    scripted = mx.log(mx.array(np.where(run.forms.p > 0, run.forms.p, 1e-9), dtype=mx.float32))
    accepted = 0
    for part, u, scores in (
        (slice(half), mx.zeros((trials, 1)), run.draft_weights),
        (slice(half, None), draws.uniforms(), scripted),
    ):
        q = probabilities(scores)
        count, _ = decide_rounds(
            RULES[rule], drafted[part], u[part], draws.replace[part], run.target_weights, q, scores
        )
        accepted += int(np.array(mx.sum(count)))
    return accepted
