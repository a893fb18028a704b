"""The host part of the meters: evidence that a stream isn't what it should be, and accepted minus predicted.

Under a right rule the U of `engine.meters` are independent uniforms. Binned, their Dirichlet-multinomial likelihood
against the uniform one is a martingale that starts at 1: it may be watched all the time, and it ever reaches the
threshold with probability 1 / threshold at most (Ville's inequality). The mean of several such martingales is one.
"""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from engine.alternatives import Counterfactual
from engine.rules import RULE_TABLE

if TYPE_CHECKING:
    from engine.rounds import Draft, Round

BINS = 10
ALPHA = 0.5
"""Prior count of each bin."""

ALARM = 1e4
"""Evidence at which a meter trips: at most one right run in ten thousand ever gets there."""


_LN_10, _LOG10_ALARM = math.log(10), math.log10(ALARM)


class Meter:
    """Evidence of a stream of U, each token seen in one or more orders.

    `n`: tokens so far. `counts`: by order and bin. `alarm_at`: the number of tokens at which the evidence first
    reached ALARM; it stays, whatever comes later.
    """

    def __init__(self, orders: int = 1) -> None:
        self.n = 0
        self.counts = [[0] * BINS for _ in range(orders)]
        self.alarm_at: int | None = None
        self._log = [0.0] * orders  # natural logarithm of each order's martingale
        self._curve = array("f")

    def add(self, *u: float) -> None:
        """Take the next token's U, one for each order. Raises ValueError for another number of them, or for NaN."""
        if len(u) != len(self.counts):
            raise ValueError(f"expected {len(self.counts)} coordinates, one for each order, got {len(u)}")
        places = [bin_of(value) for value in u]
        for order, place in enumerate(places):
            counts = self.counts[order]
            self._log[order] += math.log(BINS * (counts[place] + ALPHA) / (self.n + BINS * ALPHA))
            counts[place] += 1
        self.n += 1
        evidence = self.log10_evidence
        self._curve.append(evidence)
        if self.alarm_at is None and evidence >= _LOG10_ALARM:
            self.alarm_at = self.n

    @property
    def log10_evidence(self) -> float:
        """log10 of E, the mean over the orders; 0 before the first token."""
        if len(self._log) == 1:
            return self._log[0] / _LN_10
        most = max(self._log)
        mean = sum(math.exp(value - most) for value in self._log) / len(self._log)
        return (most + math.log(mean)) / _LN_10

    @property
    def log10_by_order(self) -> tuple[float, ...]:
        """log10 of each order's own evidence: which of them tells."""
        return tuple(value / _LN_10 for value in self._log)

    def state(self) -> dict[str, Any]:
        """Everything but the curve, JSON-ready."""
        return {"n": self.n, "counts": self.counts, "alarm_at": self.alarm_at, "log": self._log}

    def restore(self, state: dict[str, Any], curve: npt.NDArray[np.float32]) -> None:
        """Take over a `state` and its curve. Raises ValueError for what is none of this meter."""
        orders = len(self.counts)
        counts = [[int(count) for count in row] for row in state["counts"]]
        n, alarm_at = int(state["n"]), state["alarm_at"]
        if len(counts) != orders or len(state["log"]) != orders or any(len(row) != BINS for row in counts):
            raise ValueError("the state isn't this meter's")
        if any(sum(row) != n or min(row) < 0 for row in counts) or len(curve) != n:
            raise ValueError("the meter's counts don't add up")
        self.n, self.counts, self.alarm_at = n, counts, None if alarm_at is None else int(alarm_at)
        self._log = [float(value) for value in state["log"]]
        self._curve = array("f", curve.astype(np.float32).tolist())

    def curve(self, start: int = 0) -> npt.NDArray[np.float32]:
        """log10 E behind each token, those before `start` left out; a copy."""
        return np.array(self._curve[start:], dtype=np.float32)


def bin_of(u: float) -> int:
    """The bin of U, rounding beyond [0, 1) included. Raises ValueError for NaN and infinity."""
    if not math.isfinite(u):
        raise ValueError(f"a coordinate must be a finite number, got {u}")
    return min(max(int(u * BINS), 0), BINS - 1)


class Meters:
    """The two meters of a run: emitted tokens under p (orders p / q and p), and drafted tokens under q."""

    def __init__(self) -> None:
        self.losslessness = Meter(orders=2)
        self.proposal = Meter(orders=1)

    def add(self, emitted: int, u_ratio: npt.ArrayLike, u_p: npt.ArrayLike, u_proposal: npt.ArrayLike | None) -> None:
        """Take a round: how many tokens it emitted, and the arrays of `engine.meters.meter_coordinates`.

        Rows behind the emitted tokens are left out. All drafts count for the proposal meter, also the ignored ones:
        which of them were tested depends on what they were.
        """
        both = zip(np.asarray(u_ratio).tolist(), np.asarray(u_p).tolist(), strict=True)
        for (by_ratio, by_p), _ in zip(both, range(emitted), strict=False):
            self.losslessness.add(by_ratio, by_p)
        for u in [] if u_proposal is None else np.asarray(u_proposal).tolist():
            self.proposal.add(u)


def why_no_losslessness_meter(rule: str) -> str | None:
    """Why the losslessness meter says nothing under this rule, or None where it applies."""
    if rule == "greedy-argmax":
        return "not applicable: the target's sampler is greedy, so nothing is drawn from p"
    return None


def why_no_proposal_meter(rule: str, reports_q: bool, one_hot_q: bool) -> str | None:
    """Why the proposal meter says nothing about this drafter under this rule, or None where it applies."""
    if not reports_q:
        return "not applicable: the drafter reports no q"
    if one_hot_q and rule != "raw-q":
        return "not applicable: the drafter takes its argmax, so nothing is drawn from q"
    return None


class AcceptIdentity:
    """Accepted minus predicted, standardised: near a standard normal after many tests if the rule does what it says.

    It takes the closed form of the rule in force: the variance of a test is s (1 - s). Under `block` a whole round is
    compared, and its squared difference stands for the variance. Not valid under continuous watching.
    """

    def __init__(self) -> None:
        self.n = 0
        self.difference = 0.0
        self.variance = 0.0

    @property
    def z(self) -> float | None:
        """sum(accepted - s) / sqrt(variance), None where the variance is 0."""
        return self.difference / math.sqrt(self.variance) if self.variance > 0 else None

    def state(self) -> dict[str, Any]:
        """JSON-ready."""
        return {"n": self.n, "difference": self.difference, "variance": self.variance}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a `state`."""
        self.n = int(state["n"])
        self.difference, self.variance = float(state["difference"]), float(state["variance"])

    def add_test(self, accepted: bool, s: float) -> None:
        """Take one tested draft and the probability that it was to be accepted with."""
        s = min(max(s, 0.0), 1.0)
        self.n += 1
        self.difference += accepted - s
        self.variance += s * (1 - s)

    def add_round(self, accepted: int, expected: float) -> None:
        """Take one round of block verification: drafts kept, before any end of the run cut them, and sum_i P_i."""
        self.n += 1
        self.difference += accepted - expected
        self.variance += (accepted - expected) ** 2

    def add(self, record: Round, seen: Counterfactual | None = None) -> None:
        """Take a round by its rule; what has no closed form, or wasn't recorded with diagnostics, is left out.

        `seen`: the round's counterfactual, without which a round of `block` is left out.
        """
        name = RULE_TABLE[record.rule].closed_form
        if name == "block":
            if seen is not None and (accepted := seen.accepted("block")) is not None:
                self.add_round(accepted, float(seen.block_p.sum()))
            return
        for draft in record.drafts:
            s = predicted(draft, name)
            if draft.fate != "ignored" and s is not None:
                self.add_test(draft.fate == "accepted", s)


def predicted(draft: Draft, closed_form: str | None) -> float | None:
    """The probability that a rule's closed form (see `RuleInfo`) gives to this test, None where it isn't known."""
    return None if closed_form in (None, "block") else getattr(draft, str(closed_form))
