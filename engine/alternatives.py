"""What the other rules would have made of a round, as the host keeps it; added up over a run, and what to do then."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from engine.rules import RULE_TABLE

if TYPE_CHECKING:
    from engine.rounds import Draft

COMPARED = ("sampler-match", "stochastic", "block", *(name for name, info in RULE_TABLE.items() if info.is_reference))
"""The rules that are tried on each round's drafts, with the same random draws."""

GREEDY_DRAFTING = "greedy-drafting"
"""Not a rule but another drafter: one that takes its argmax, under either token-wise lossless rule."""

EXPECTED = ("sampler-match", "stochastic", "block", GREEDY_DRAFTING, "argmax-vs-argmax")
"""What has an expected number of tokens a round."""

FEW_ROUNDS = 50
"""Fewer rounds than this are called too few for advice."""

HARDLY = 0.01
"""A smaller relative gain is called none: the other rule costs passes over the vocabulary."""

Values = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One round under every rule, with the same drafts, u's and keys; counts aren't cut where a run ends.

    `counts`, `tokens` (len(COMPARED),): drafts kept and the token behind them; -1 for a rule that couldn't be tried.
    `expected` (len(EXPECTED),): expected drafts kept, averaged over the accept draws along the drafted path, so that
    its mean over rounds is the rule's own. Under greedy drafting it is an estimate: the contexts are the sampled ones.
    `block_p`, `block_h` (k,): block verification's P_i and h_i.
    """

    counts: Ids
    tokens: Ids
    expected: Values
    block_p: Values
    block_h: Values

    def accepted(self, rule: str) -> int | None:
        """Drafts that the rule would have kept; None if it couldn't be tried. Raises ValueError for another name."""
        count = int(self.counts[COMPARED.index(rule)])
        return None if count < 0 else count

    def token(self, rule: str) -> int | None:
        """The token that the rule would have emitted behind them."""
        return None if self.accepted(rule) is None else int(self.tokens[COMPARED.index(rule)])

    def expected_tokens(self, name: str) -> float:
        """Expected tokens of the round, the one behind the kept drafts included, for a name in EXPECTED."""
        return float(self.expected[EXPECTED.index(name)]) + 1


def read_counterfactual(host: Mapping[str, npt.NDArray[Any]]) -> Counterfactual | None:
    """The record of the evaluated arrays of `engine.counterfactuals`; None where there were none."""
    if "other_counts" not in host:
        return None
    return Counterfactual(
        counts=host["other_counts"].astype(np.int32),
        tokens=host["other_tokens"].astype(np.int32),
        expected=host["other_expected"].astype(np.float32),
        block_p=host["block_p"].astype(np.float32),
        block_h=host["block_h"].astype(np.float32),
    )


def acceptance_probabilities(
    draft: Draft, seen: Counterfactual | None, position: int
) -> tuple[tuple[str, str, float | None], ...]:
    """(rule or GREEDY_DRAFTING, formula, probability that a draft is accepted here); None where it isn't known.

    `position` of the draft counts from 0. Block's h_i is the chance that the drafts up to here are kept, if none of
    the longer prefixes is.
    """
    h = None if seen is None else float(seen.block_h[position])
    return (
        ("sampler-match", "Σ p·q", draft.sum_prod),
        ("stochastic", "Σ min(p, q)", draft.sum_min),
        ("block", "h", h),
        (GREEDY_DRAFTING, "p(argmax q)", draft.p_argmax_q),
        ("argmax-vs-argmax", "q(argmax p)", draft.q_argmax_p),
    )


@dataclass
class Alternatives:
    """Expected tokens a round under each rule, over one or more runs."""

    rounds: int = 0
    _sums: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(len(EXPECTED)))
    _products: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros((len(EXPECTED), len(EXPECTED))))

    def add(self, seen: Counterfactual | None) -> None:
        """Take a round; one without drafts or without q tells nothing."""
        if seen is None:
            return
        self.rounds += 1
        values = seen.expected.astype(np.float64)
        self._sums += values
        self._products += np.outer(values, values)

    def state(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"rounds": self.rounds, "sums": self._sums.tolist(), "products": self._products.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a `state`. Raises ValueError for one of other rules."""
        sums, products = np.array(state["sums"], np.float64), np.array(state["products"], np.float64)
        if sums.shape != self._sums.shape or products.shape != self._products.shape:
            raise ValueError("the state compares other rules")
        self.rounds, self._sums, self._products = int(state["rounds"]), sums, products

    def tokens_per_round(self, name: str) -> float | None:
        """Mean expected tokens of the rounds that had drafts, for a name in EXPECTED; None without any."""
        return float(self._sums[EXPECTED.index(name)]) / self.rounds + 1 if self.rounds else None

    def gain(self, name: str, over: str) -> tuple[float, float] | None:
        """(difference of tokens a round, its standard error as if rounds were independent); None below 2 rounds."""
        if self.rounds < 2:
            return None
        a, b, n = EXPECTED.index(name), EXPECTED.index(over), self.rounds
        mean = float(self._sums[a] - self._sums[b]) / n
        squares = float(self._products[a, a] + self._products[b, b] - 2 * self._products[a, b]) / n
        return mean, math.sqrt(max(squares - mean * mean, 0.0) / (n - 1))

    def is_clear(self, name: str, over: str) -> bool:
        """Whether one is better by more than 3 standard errors (neighbouring rounds resemble each other) and HARDLY."""
        found, base = self.gain(name, over), self.tokens_per_round(over)
        return found is not None and base is not None and found[0] > max(3 * found[1], HARDLY * base)


def advice(seen: Alternatives) -> str:
    """One plain sentence: is Stochastic worth it on this pair, or should the drafter just be greedy?"""
    n = seen.rounds
    match, stochastic, greedy = (
        seen.tokens_per_round(name) for name in ("sampler-match", "stochastic", GREEDY_DRAFTING)
    )
    if match is None or stochastic is None or greedy is None:
        return "No round so far had drafts with a q, so there is nothing to compare."
    numbers = (
        f"a round is worth {match:.2f} tokens without Stochastic, {stochastic:.2f} with it, "
        f"and about {greedy:.2f} with a greedy drafter"
    )
    over = f"Over {n} round{'' if n == 1 else 's'}"
    if n < FEW_ROUNDS:
        return f"{over} {numbers}: too few rounds to tell."
    if seen.is_clear(GREEDY_DRAFTING, "stochastic"):
        return f"{over} {numbers}: let the drafter be greedy, either rule then accepts the same."
    if not seen.is_clear("stochastic", "sampler-match"):
        return f"{over} {numbers}: Stochastic makes no clear difference on this pair."
    worth = f"Stochastic is worth it, by {100 * (stochastic / match - 1):.0f} %"
    if seen.is_clear("stochastic", GREEDY_DRAFTING):
        return f"{over} {numbers}: {worth}, and better than a greedy drafter."
    return f"{over} {numbers}: {worth}; a greedy drafter would do about as well."
