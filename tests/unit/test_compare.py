"""Comparing runs: the token that parts them, the coin behind it, and whether a difference is more than noise."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
from made_runs import made_header, made_round, made_run, seen

from engine.compare import Comparison, compare, comparison_object
from engine.first_difference import FirstDifference
from engine.generator import SpeculativeGenerator
from engine.recording import RecordedRun
from engine.rounds import Draft
from engine.settings import SamplerSettings, Settings
from engine.toy import toy_pair


def toy(**settings: Any) -> RecordedRun:
    fields = {"seed": 1, "max_tokens": 60, "diagnostics": True} | settings
    generator = SpeculativeGenerator(toy_pair(), Settings(**fields), stochastic=fields.get("stochastic", False))
    run = RecordedRun(generator.start([0, 1, 2]))
    for record in generator.rounds():
        run.append(record)
    assert generator.end is not None
    run.finish(generator.end)
    return run


def parted(found: Comparison) -> FirstDifference:
    assert found.first is not None
    return found.first


def place(run: RecordedRun, index: int) -> tuple[int, int]:
    """(round, index within it) of a token, by walking."""
    for record in run:
        if index < len(record.emitted):
            return record.index, index
        index -= len(record.emitted)
    raise AssertionError


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 8, 13])
def test_the_first_differing_coin_of_stochastic_against_sampler_match(seed: int) -> None:
    a, b = toy(seed=seed, stochastic=True), toy(seed=seed)
    found = compare(a, b)
    first = parted(found)
    index = next(at for at, (x, y) in enumerate(zip(a.tokens, b.tokens, strict=True)) if x != y)
    assert (first.index, found.aligned) == (index, index)
    assert first.cause == "draws"
    assert first.differing == ("rule",)
    assert first.difference is not None
    for side, run in ((first.a, a), (first.b, b)):
        assert side is not None
        number, within = place(run, index)
        emitted = run[number].emitted[within]
        assert (side.round, side.position, side.emitted) == (number, emitted.position, emitted)
        assert side.draft == (run[number].drafts[emitted.position] if emitted.position < run[number].k else None)
    assert first.a is not None
    if first.a.draft is not None:
        coin = first.a.draft
        assert coin.u is not None
        assert coin.q is not None
        assert coin.p is not None
        assert (coin.u * coin.q <= coin.p) == (coin.fate == "accepted")
        assert f"u {coin.u:.4g}" in first.sentences[1]
        assert f"p {coin.p:.4g}, q {coin.q:.4g}" in first.sentences[1]
    assert any("Equal seeds don't give equal tokens across rules" in words for words in found.warnings)


def test_block_names_its_own_test() -> None:
    found = parted(compare(toy(rule="block", seed=3), toy(seed=3)))
    assert found.a is not None
    assert found.a.rule == "block"
    assert found.a.draft is None or " h " in found.sentences[1]


def test_equal_runs_have_no_difference() -> None:
    found = compare(toy(), toy())
    assert found.first is None
    assert found.aligned == 60
    assert found.settings == ()
    assert not any("Equal seeds" in words for words in found.warnings)


def test_a_run_that_is_the_beginning_of_another() -> None:
    short, long = toy(max_tokens=20), toy(max_tokens=40)
    first = parted(compare(short, long))
    assert (first.index, first.cause, first.a) == (20, "ended", None)
    assert first.b is not None
    assert parted(compare(long, short)).b is None


@pytest.mark.parametrize(
    ("changes", "cause", "differing"),
    [
        ({"seed": 2}, "draws", ("seed",)),
        ({"num_draft_tokens": 2}, "draws", ("num_draft_tokens",)),
        ({"drafter": "greedy"}, "draws", ("drafter",)),
        ({"draft_sampler": SamplerSettings(temperature=2.0)}, "draws", ("draft sampler",)),
        ({"sampler": SamplerSettings(temperature=1.5)}, "inputs", ("sampler", "draft sampler")),
        ({"stochastic": True, "seed": 9}, "draws", ("rule", "seed")),
    ],
)
def test_what_was_not_the_same_is_named(changes: dict[str, Any], cause: str, differing: tuple[str, ...]) -> None:
    first = parted(compare(toy(max_tokens=120), toy(max_tokens=120, **changes)))
    assert (first.cause, first.differing) == (cause, differing)
    assert all(name in first.sentences[0] for name in (differing if cause == "draws" else differing[:1]))


def greedy(raw: list[float], token: int, **fields: Any) -> RecordedRun:
    header = made_header(sampler=SamplerSettings(temperature=0), **fields)
    one_hot = [float(at == token) for at in range(4)]
    first = made_round(0, [], [(3, "greedy")], rule="greedy-argmax", distributions=(seen([0, 0, 0, 1]),))
    kept = seen(one_hot, raw=raw)
    return made_run(
        header, [first, made_round(1, [], [(token, "greedy")], rule="greedy-argmax", distributions=(kept,))]
    )


def test_a_greedy_difference_is_numeric_up_to_a_small_gap_and_a_fault_beyond() -> None:
    first = parted(compare(greedy([0.40001, 0.39999, 0.1, 0.1], 0), greedy([0.4, 0.40001, 0.1, 0.1], 1)))
    assert (first.index, first.cause, first.differing) == (1, "numeric", ())
    assert first.gap == pytest.approx(np.log(0.40001 / 0.4), rel=0.02)
    assert first.sentences[0] == "numeric: top-2 gap 2e-05."
    far = parted(compare(greedy([0.5, 0.3, 0.1, 0.1], 0), greedy([0.3, 0.5, 0.1, 0.1], 1)))
    assert far.cause == "fault"
    assert "top-2 gap is 0.5" in far.sentences[0]
    # Half precision explains more.
    near = [greedy([0.401, 0.4, 0.1, 0.09], 0), greedy([0.4, 0.401, 0.1, 0.09], 1)]
    assert parted(compare(*near)).cause == "fault"
    half = dataclasses.replace(near[0].header.target, dtype="float16")
    for run in near:
        run.header = dataclasses.replace(run.header, target=half)
    assert parted(compare(*near)).cause == "numeric"


def test_greedy_runs_may_differ_in_seed_rounds_and_drafter() -> None:
    a = greedy([0.40001, 0.39999, 0.1, 0.1], 0)
    b = greedy([0.39999, 0.40001, 0.1, 0.1], 1, seed=7, num_draft_tokens=0)
    assert parted(compare(a, b)).cause == "numeric"


def coin(
    u: float, p: list[float], q: list[float], *, accepted: bool, recorded: bool = True, **fields: Any
) -> RecordedRun:
    fate = "accepted" if accepted else "rejected"
    draft = Draft(1, fate, q=q[1], p=p[1], u=u, threshold=u * q[1])
    emitted = [(1, "accepted"), (3, "bonus")] if accepted else [(2, "recovered")]
    kept = (seen(p, q), seen(p)) if recorded else ()
    return made_run(made_header(), [made_round(0, [draft], emitted, distributions=kept, **fields)])


P, Q = [0.25, 0.25, 0.25, 0.25], [0.0, 1.0, 0.0, 0.0]


def test_a_coin_that_fell_on_the_edge_is_numeric() -> None:
    nudged = [0.25, 0.249999, 0.250001, 0.25]
    first = parted(compare(coin(0.25, P, Q, accepted=True), coin(0.25, nudged, Q, accepted=False)))
    assert (first.cause, first.differing) == ("numeric", ())
    assert first.difference == pytest.approx(1e-6, rel=0.1)
    assert "differ by at most 1e-06" in first.sentences[0]


def test_with_the_same_inputs_more_than_rounding_is_a_fault() -> None:
    other = [0.25, 0.05, 0.45, 0.25]
    first = parted(compare(coin(0.25, P, Q, accepted=True), coin(0.25, other, Q, accepted=False)))
    assert first.cause == "fault"
    assert first.difference == pytest.approx(0.2, rel=1e-5)
    unequal = parted(compare(coin(0.2, P, Q, accepted=True), coin(0.9, P, Q, accepted=False)))
    assert unequal.cause == "fault"
    assert "u is not" in unequal.sentences[0]
    same = parted(compare(coin(0.25, P, Q, accepted=True), coin(0.25, P, Q, accepted=False)))
    assert same.cause == "fault"
    assert "the same" in same.sentences[0]
    blind = [coin(0.25, P, Q, accepted=yes, recorded=False) for yes in (True, False)]
    assert parted(compare(*blind)).cause == "unknown"


def test_rounds_that_part_before_the_tokens_do_are_where_the_cause_is_looked_for() -> None:
    """The drafts differ in round 0 by q's rounding; both are rejected, and the tokens part in round 1."""
    runs = []
    for drafted, q, then in ((1, [0.0, 0.500001, 0.499999, 0.0], 0), (2, [0.0, 0.499999, 0.500001, 0.0], 2)):
        p = [0.0, 0.0, 0.0, 1.0]
        draft = Draft(drafted, "rejected", q=0.5, p=0.0, u=0.5, threshold=0.25)
        first = made_round(0, [draft], [(3, "recovered")], distributions=(seen(p, q), seen(p)))
        second = made_round(1, [], [(then, "target-draw")], distributions=(seen([0.5, 0.0, 0.5, 0.0]),))
        runs.append(made_run(made_header(), [first, second]))
    first = parted(compare(*runs))
    assert (first.index, first.cause) == (1, "numeric")
    assert "round 0, position 1" in first.sentences[0]
    assert first.difference == pytest.approx(2e-6, rel=0.1)


@pytest.mark.parametrize("fields", [{"changed": {"rewind": "no-trim"}}, {"forced": "forced accept at position 1"}])
def test_an_intervention_is_named(fields: dict[str, Any]) -> None:
    first = parted(compare(coin(0.25, P, Q, accepted=True, **fields), coin(0.25, P, Q, accepted=False)))
    assert first.cause == "inputs"
    assert "intervened at round 0" in first.sentences[0]
    assert any(str(value) in first.sentences[0] for value in (*fields.values(), "rewind = no-trim"))


def test_a_corrupt_main_cache_is_named() -> None:
    runs = []
    for token, wrong in ((1, None), (2, 3)):
        first = made_round(0, [], [(0, "target-draw")])
        first = dataclasses.replace(first, main_cache=dataclasses.replace(first.main_cache, first_wrong=wrong))
        runs.append(made_run(made_header(), [first, made_round(1, [], [(token, "target-draw")])]))
    first_difference = parted(compare(*runs))
    assert (first_difference.cause, first_difference.differing) == ("inputs", ("contents of the main cache",))


def test_mismatches_are_said() -> None:
    run = made_run(made_header(), [made_round(0, [], [(1, "target-draw")])])
    other = made_run(made_header(prompt_tokens=(1, 2)), [made_round(0, [], [(2, "target-draw")])])
    found = compare(run, other)
    assert parted(found).cause == "inputs"
    assert any("prompts aren't the same" in words for words in found.warnings)
    bigger = dataclasses.replace(run.header.target, name="bigger")
    found = compare(run, made_run(made_header(target=bigger), [made_round(0, [], [(2, "target-draw")])]))
    assert "The targets aren't the same: target and bigger." in found.warnings
    elsewhere = dataclasses.replace(run.header.target, path="/elsewhere")
    found = compare(run, made_run(made_header(target=elsewhere), [made_round(0, [], [(1, "target-draw")])]))
    assert not any("targets" in words for words in found.warnings)
    found = compare(run, made_run(made_header((" x", " y", " z", " w")), [made_round(0, [], [(2, "target-draw")])]))
    assert found.first is None
    assert found.aligned == 0
    assert any("tokens can't be aligned" in words for words in found.warnings)


def test_an_unfinished_a_failed_and_a_damaged_run_are_said() -> None:
    run = made_run(made_header(), [made_round(0, [], [(1, "target-draw")])])
    unfinished = RecordedRun(made_header())
    assert any("B has no end" in words for words in compare(run, unfinished).warnings)
    assert run.end is not None
    run.end = dataclasses.replace(run.end, finish_reason="error", notice="Boom.")
    assert "Run A failed: Boom." in compare(run, unfinished).warnings
    unfinished.damage = "torn"
    assert "Run B is damaged: torn" in compare(run, unfinished).warnings


def test_the_table_holds_the_runs_own_counters() -> None:
    a, b = toy(stochastic=True, max_tokens=150), toy(max_tokens=150, rewind="legacy-rewind")
    table = {counter.name: counter for counter in compare(a, b).counters}
    for name, value in a.statistics.as_dict().items():
        other = getattr(b.statistics, name)
        assert (table[name].a, table[name].b) == (pytest.approx(value), pytest.approx(other)), name
        assert table[name].difference == pytest.approx(other - value)
    for name in ("per_position_acceptance", "tokens_per_round", "mean_accepted_len", "acceptance_rate"):
        counter = table[name]
        assert counter.a is not None
        assert counter.a_interval is not None
        assert counter.a_interval[0] < counter.a < counter.a_interval[1]
    for at, (reached, accepted) in enumerate(zip(a.statistics.reached, a.statistics.accepted_at, strict=True)):
        assert table[f"acceptance_at_position_{at + 1}"].a == pytest.approx(accepted / reached)
    assert table["first_drift_round"].a is None
    assert table["first_drift_round"].b == b.first_drift
    assert table["max_abs_drift"].b == np.abs(b.column("drift")).max()
    assert table["closed_form_sum_min"].a_interval == pytest.approx((0.7053, 0.7053), abs=1e-4)
    assert compare(a, b) == compare(a, b)


def test_a_rule_that_accepts_more_is_more_than_noise_and_a_seed_is_not() -> None:
    runs = [toy(seed=seed, max_tokens=150, diagnostics=False) for seed in range(8)]
    better = [toy(seed=seed, max_tokens=150, stochastic=True, diagnostics=False) for seed in range(4)]
    for a, b in zip(runs, better, strict=False):
        verdict = compare(a, b).verdict
        assert verdict.more_than_noise
        assert "more than noise" in verdict.words
        assert "no more" not in verdict.words
    alarms = [compare(runs[i], runs[j]).verdict.more_than_noise for i in range(8) for j in range(i)]
    assert None not in alarms
    assert sum(map(bool, alarms)) <= 6, "5 % of 28 are 1.4"


def test_too_little_to_tell() -> None:
    short = compare(toy(max_tokens=20), toy(max_tokens=20, stochastic=True)).verdict
    assert short.more_than_noise is None
    assert "too few to tell" in short.words
    plain = compare(toy(num_draft_tokens=0), toy()).verdict
    assert plain.more_than_noise is None
    assert "no acceptance to compare" in plain.words


def test_the_object_is_strict_json() -> None:
    a, b = toy(stochastic=True), toy()
    made = comparison_object(compare(a, b), (a.header.vocabulary, b.header.vocabulary))
    again = json.loads(json.dumps(made, allow_nan=False))
    assert again == made
    first = again["first_difference"]
    assert first["a"]["position"] >= 1
    assert first["a"]["emitted"]["text"] != first["b"]["emitted"]["text"]
    assert again["different_settings"] == [{"name": "stochastic", "a": True, "b": False}]
    empty = RecordedRun(made_header())
    made = comparison_object(compare(empty, empty), (empty.header.vocabulary, empty.header.vocabulary))
    assert json.loads(json.dumps(made, allow_nan=False))["first_difference"] is None
