"""Counters, rates and the summary line, against values worked out by hand."""

from __future__ import annotations

import re

import pytest
from scipy import stats

from engine.rounds import CachePositions, Draft, Emitted, Round, Timings
from engine.statistics import Statistics, ratio, summary_line, wilson_interval

FATES = {"A": "accepted", "R": "rejected", ".": "ignored"}
SUMMARY = re.compile(
    r"^\[Speculative acceptance\] rule=[a-z-]+ rounds=\d+ proposed=\d+ positions_tested=\d+ accepted=\d+ "
    r"per_position_acceptance=(-|\d\.\d{4}) acceptance_rate=(-|\d\.\d{4}) mean_accepted_len=(-|\d+\.\d{4})"
    r"( closed_form_sum_min=(-|\d\.\d{4}) closed_form_sum_prod=(-|\d\.\d{4}))?"
    r" \([a-z-]+ \([A-Za-z ]+\)\)$"
)


def a_round(fates: str, then: str | None, index: int = 0, forms: tuple[float, float] | None = None) -> Round:
    """A round from a letter a draft (A accepted, R rejected, . ignored) and the source of the token behind them."""
    low, high = forms or (None, None)
    drafts = tuple(Draft(i, FATES[f], sum_min=high, sum_prod=low) for i, f in enumerate(fates))
    emitted = [Emitted(i, "accepted", i) for i, f in enumerate(fates) if f == "A"]
    if then is not None:
        emitted.append(Emitted(9, then, len(emitted)))
    cache = CachePositions(0, 0, (0,), (0,), 0, 0, (0,))
    timings = Timings(0.0, 0.0, 0.0, 0.0)
    return Round(index, 0, "stochastic", "", "", True, drafts, tuple(emitted), cache, None, 0, 0, timings)


def counted(*rounds: Round) -> Statistics:
    statistics = Statistics()
    for record in rounds:
        statistics.add(record)
    return statistics


def test_nothing_behind_the_first_rejection_counts_as_tested() -> None:
    s = counted(a_round("AR..", "recovered"))  # the test alone would say yes, no, yes, yes
    assert (s.accepted, s.positions_tested, s.proposed, s.emitted) == (1, 2, 4, 2)
    assert s.acceptance_rate == 0.25
    assert s.per_position_acceptance == 0.5


def test_drafts_behind_an_end_of_sequence_token_do_not_count() -> None:
    s = counted(a_round("AAA..", None))  # the third is the end-of-sequence token
    assert (s.emitted, s.accepted, s.positions_tested, s.proposed) == (3, 3, 3, 5)
    assert s.mean_accepted_len == s.tokens_per_round == 3.0


def test_proposed_is_what_was_drafted_not_rounds_times_k() -> None:
    # 7 tokens at most, k 4, a drafter that is always right: DDDD. then DD, of which no bonus is left.
    s = counted(a_round("AAAA", "bonus"), a_round("AA", None, 1))
    assert (s.rounds, s.proposed, s.accepted, s.positions_tested, s.emitted) == (2, 6, 6, 6, 7)
    assert s.tokens_per_round == 3.5


def test_a_drafter_that_never_matches_is_credited_with_nothing() -> None:
    s = counted(*(a_round("R...", "target-draw", i) for i in range(5)))
    assert (s.accepted, s.positions_tested, s.proposed, s.emitted) == (0, 5, 20, 5)
    assert s.per_position_acceptance == 0.0
    assert s.tokens_per_round == 1.0


def test_acceptance_by_position_is_conditional_on_being_reached() -> None:
    s = counted(a_round("AAR.", "recovered"), a_round("R", "recovered", 1), a_round("AAAA", "bonus", 2))
    assert s.reached == [3, 2, 2, 1]
    assert s.accepted_at == [2, 2, 1, 1]
    assert sum(s.reached) == s.positions_tested
    assert sum(s.accepted_at) == s.accepted


def test_closed_forms_average_over_tested_positions_only() -> None:
    s = counted(a_round("AR..", "recovered", 0, (0.2, 0.6)), a_round("R...", "recovered", 1, (0.5, 0.9)))
    assert s.closed_forms == 3
    assert s.closed_form_sum_min == pytest.approx((0.6 + 0.6 + 0.9) / 3)
    assert s.closed_form_sum_prod == pytest.approx((0.2 + 0.2 + 0.5) / 3)


def test_rounds_without_closed_forms_leave_the_average_alone() -> None:
    s = counted(a_round("A", "bonus", 0, (0.1, 0.4)), a_round("A", "bonus", 1))
    assert s.closed_forms == 1
    assert s.closed_form_sum_min == 0.4


def test_degenerate_fallbacks_are_counted() -> None:
    assert counted(a_round("R", "degenerate-fallback"), a_round("R", "recovered", 1)).degenerate == 1


def test_rates_of_an_empty_run_are_undefined_and_exported_as_null() -> None:
    exported = Statistics().as_dict()
    rates = ["per_position_acceptance", "acceptance_rate", "mean_accepted_len", "tokens_per_round"]
    assert {exported[name] for name in [*rates, "closed_form_sum_min", "closed_form_sum_prod"]} == {None}
    assert (exported["rounds"], exported["emitted"]) == (0, 0)
    assert ratio(3, 0) is None
    assert ratio(0, 3) == 0.0


def test_plain_rounds_leave_the_acceptance_undefined() -> None:
    s = counted(a_round("", "target-draw"), a_round("", "target-draw", 1))
    assert s.per_position_acceptance is None
    assert s.acceptance_rate is None
    assert (s.mean_accepted_len, s.tokens_per_round) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "trials"), [(0, 1), (1, 1), (0, 40), (40, 40), (46, 195), (9_999, 10_000)])
def test_the_wilson_interval_is_scipys(successes: int, trials: int) -> None:
    expected = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert wilson_interval(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_there_is_no_interval_without_trials() -> None:
    assert wilson_interval(0, 0) is None


@pytest.mark.parametrize("diagnostics", [False, True])
def test_the_summary_line_has_its_shape(diagnostics: bool) -> None:
    full = counted(a_round("AR..", "recovered", 0, (0.2, 0.6)), a_round("AAAA", "bonus", 1, (0.3, 0.7)))
    for statistics in (Statistics(), full):
        line = summary_line(statistics, "stochastic", "modified rejection sampling", diagnostics)
        assert SUMMARY.match(line), line
        assert ("closed_form" in line) == diagnostics


def test_the_summary_line_of_a_known_run() -> None:
    s = Statistics(rounds=153, proposed=612, positions_tested=195, accepted=46)
    assert summary_line(s, "stochastic", "modified rejection sampling", False) == (
        "[Speculative acceptance] rule=stochastic rounds=153 proposed=612 positions_tested=195 accepted=46 "
        "per_position_acceptance=0.2359 acceptance_rate=0.0752 mean_accepted_len=0.3007 "
        "(stochastic (modified rejection sampling))"
    )
