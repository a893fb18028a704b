"""What-if without models: the recorded test again, other temperatures and rules, against the engine's own numbers."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from engine.generator import SpeculativeGenerator
from engine.models import bundled_pair
from engine.offline import what_if
from engine.rounds import Round
from engine.settings import SamplerSettings, Settings, SettingsError
from engine.toy import toy_pair


def rounds_of(temperature: float = 0.7, **more: object) -> list[Round]:
    settings = Settings(sampler=SamplerSettings(temperature=temperature), seed=6, max_tokens=90, stochastic=True)
    generator = SpeculativeGenerator(toy_pair(), dataclasses.replace(settings, **more))  # type: ignore[arg-type]
    generator.start([0, 1, 2])
    return list(generator.rounds())


def test_nothing_changed_repeats_the_recorded_test() -> None:
    tests = 0
    for record in rounds_of():
        for position, draft in enumerate(record.drafts):
            found = what_if(record, position)
            if draft.fate == "ignored":
                assert found.accepted is None  # no u was recorded
                continue
            tests += 1
            assert found.accepted == (draft.fate == "accepted")
            assert (found.p, found.q, found.u) == (draft.p, draft.q, draft.u)
            assert found.threshold == pytest.approx(draft.threshold)
            assert found.approximate is None
            seen = record.distributions[position]
            if draft.fate == "rejected":
                assert found.replacement == pytest.approx(seen.residual, abs=1e-6)
    assert tests > 50


def test_another_u_turns_the_verdict_at_the_ratio_of_p_to_q() -> None:
    record = next(r for r in rounds_of() if r.rejected_at == 0)
    draft = record.drafts[0]
    assert draft.p is not None
    assert draft.q is not None
    ratio = draft.p / draft.q
    assert what_if(record, 0, u=ratio * 0.999).accepted is True
    assert what_if(record, 0, u=min(ratio * 1.001, 0.999)).accepted is False
    assert what_if(record, 0).probability == pytest.approx(ratio)


def test_another_temperature_is_the_models_own_on_a_whole_vocabulary() -> None:
    cold, warm = rounds_of(0.7)[0], rounds_of(1.4)[0]
    order = np.argsort(warm.distributions[0].ids)
    for position in (0,):  # the same context in both runs
        found = what_if(cold, position, temperature_ratio=2.0)
        ours = np.argsort(found.ids)
        again = what_if(warm, position)
        assert found.ids[ours].tolist() == again.ids[order].tolist()
        p = dict(zip(warm.distributions[0].ids.tolist(), warm.distributions[0].p.tolist(), strict=True))
        assert found.p == pytest.approx(p[cold.drafts[0].token], rel=1e-5)
        assert found.approximate is None


def test_rules_differ_as_the_laws_say() -> None:
    record = next(r for r in rounds_of() if r.rejected_at == 0)
    draft, seen = record.drafts[0], record.distributions[0]
    match = what_if(record, 0, rule="sampler-match")
    assert match.accepted is None  # a fresh draw can't be repeated without the models
    assert match.probability == draft.p
    assert match.replacement is seen.p
    greedy = what_if(record, 0, rule="argmax-vs-argmax")
    assert greedy.accepted == (draft.token == seen.ids[np.argmax(seen.p)])
    assert greedy.replacement.max() == 1
    naive = what_if(record, 0, rule="resample-from-p")
    assert naive.accepted == what_if(record, 0).accepted
    assert naive.replacement is seen.p


def test_a_part_of_the_vocabulary_makes_it_approximate_and_adds_up() -> None:
    sampler = SamplerSettings(temperature=0.7, top_k=100)
    settings = Settings(seed=1, max_tokens=12, stochastic=True, top_n=8, sampler=sampler)
    generator = SpeculativeGenerator(bundled_pair(), settings)
    generator.start("The sea was calm")
    for record in generator.rounds():
        for position in range(record.k):
            found = what_if(record, position, temperature_ratio=1.5)
            assert found.approximate is not None
            assert "tokens were kept" in found.approximate
            assert "filter" in found.approximate
            assert float(found.replacement.sum()) + found.rest == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rule": "block"}, "expected one of"),
        ({"u": 1.0}, r"in \[0, 1\)"),
        ({"u": float("nan")}, r"in \[0, 1\)"),
        ({"temperature_ratio": 0.0}, "above 0"),
        ({"temperature_ratio": float("nan")}, "above 0"),
    ],
)
def test_what_cannot_be_tried_is_refused(changes: dict[str, object], words: str) -> None:
    record = rounds_of()[0]
    with pytest.raises(SettingsError, match=words):
        what_if(record, 0, **changes)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="position"):
        what_if(record, 4)
    with pytest.raises(SettingsError, match="without its distributions"):
        what_if(rounds_of(record=False)[0], 0)
    with pytest.raises(SettingsError, match="no q"):
        what_if(rounds_of(drafter="no-q")[0], 0, rule="stochastic")


def bundled_rounds(**settings: object) -> list[Round]:
    asked = Settings(seed=1, max_tokens=40, top_n=8, diagnostics=True, **settings)  # type: ignore[arg-type]
    generator = SpeculativeGenerator(bundled_pair(), asked, stochastic=asked.stochastic)
    generator.start("The sea was calm")
    return list(generator.rounds())


def test_at_its_own_temperature_a_part_of_the_vocabulary_is_exact() -> None:
    rejected = 0
    for record in bundled_rounds(stochastic=True):
        for position, draft in enumerate(record.drafts):
            seen = record.distributions[position]
            assert len(seen.ids) < seen.vocab_size
            found = what_if(record, position)
            assert found.approximate is None
            assert found.draw_approximate is None
            assert found.replacement is seen.residual
            assert float(found.replacement.sum()) + found.rest == pytest.approx(1, abs=1e-5)
            if draft.fate == "rejected":
                rejected += 1
                assert found.token == record.emitted[-1].token
    assert rejected > 3


def test_a_record_whose_residual_is_another_makes_the_replacement_approximate() -> None:
    record = bundled_rounds(rule="block")[0]
    found = what_if(record, 0, rule="stochastic")
    assert found.approximate is None
    assert found.draw_approximate is not None
    assert "tokens were kept" in found.draw_approximate
    naive = what_if(record, 0, rule="resample-from-p")
    assert naive.draw_approximate is None


@pytest.mark.parametrize("stochastic", [True, False])
def test_draws_that_the_record_tells_are_those_of_the_rules_themselves(stochastic: bool) -> None:
    """Every position up to where a rule stops, against what Diagnostics tried with the same draws."""
    known = 0
    for record in bundled_rounds(stochastic=stochastic):
        seen = record.counterfactual
        assert seen is not None
        for rule in ("stochastic", "sampler-match", "resample-from-p", "argmax-vs-argmax"):
            kept = seen.accepted(rule)
            assert kept is not None
            for position in range(min(kept + 1, record.k)):
                found = what_if(record, position, rule=rule)
                assert found.accepted == (position < kept), (record.index, rule, position)
                wanted = record.drafts[position].token if position < kept else seen.token(rule)
                if found.token is None:
                    # The naive rule's draw is the fresh one, which is told only where sampler-match came to it.
                    assert rule == "resample-from-p"
                    continue
                known += 1
                assert found.token == wanted, (record.index, rule, position)
    assert known > 60


def test_another_u_keeps_the_draw_and_another_temperature_does_not() -> None:
    record = next(r for r in rounds_of() if r.rejected_at == 0 and (r.drafts[0].u or 0) < 0.98)
    again = what_if(record, 0, u=0.999)
    assert (again.accepted, again.token) == (False, record.emitted[0].token)
    warm = what_if(record, 0, u=0.999, temperature_ratio=1.0001)
    assert (warm.accepted, warm.token) == (False, None)
    forced = dataclasses.replace(record, forced="forced token 2 at position 1")
    assert what_if(forced, 0).token is None


def test_the_product_is_that_of_float32() -> None:
    record = next(r for r in rounds_of() if r.rejected_at == 0)
    source = np.random.default_rng(3)
    seen, told = record.distributions[0], 0
    at = int(np.flatnonzero(seen.ids == record.drafts[0].token)[0])
    assert seen.q is not None
    for _ in range(2000):
        u, q = np.float32(source.random()), np.float32(source.random())
        p = np.float32(u * q)  # the largest threshold that passes; in double it may lie above p
        p_row, q_row = seen.p.copy(), seen.q.copy()
        p_row[at], q_row[at] = p, q
        made = dataclasses.replace(record, distributions=(dataclasses.replace(seen, p=p_row, q=q_row),) * 5)
        told += float(u) * float(q) > float(p)
        assert what_if(made, 0, u=float(u)).accepted is True
    assert told > 500, "in double precision many of them would fail"


def test_what_follows_the_temperature_is_told_apart() -> None:
    record = rounds_of()[0]
    both, target = what_if(record, 0, temperature_ratio=2.0), what_if(record, 0, temperature_ratio=2.0, draft_ratio=1.0)
    assert target.p == both.p
    assert target.q == what_if(record, 0).q != both.q
    seen = record.distributions[0]
    cut = dataclasses.replace(seen, q_support=3)
    made = dataclasses.replace(record, distributions=(cut,) * 5)
    assert "filter" in (what_if(made, 0, temperature_ratio=2.0).approximate or "")
    assert what_if(made, 0, temperature_ratio=2.0, draft_ratio=1.0).approximate is None
    assert what_if(made, 0, rule="sampler-match", temperature_ratio=2.0).approximate is None, "it takes no q"


def test_a_greedy_record_knows_no_other_temperature_and_a_damaged_one_is_refused() -> None:
    greedy = rounds_of(0.0)[0]
    assert what_if(greedy, 0, rule="argmax-vs-argmax").accepted == (greedy.drafts[0].fate == "accepted")
    with pytest.raises(SettingsError, match="greedy"):
        what_if(greedy, 0, rule="argmax-vs-argmax", temperature_ratio=2.0)
    record = rounds_of()[0]
    seen = record.distributions[0]
    other = dataclasses.replace(seen, ids=seen.ids + 100)
    with pytest.raises(SettingsError, match="isn't among the tokens"):
        what_if(dataclasses.replace(record, distributions=(other,) * 5), 0)
    with pytest.raises(SettingsError, match="without its distributions"):
        what_if(dataclasses.replace(record, distributions=record.distributions[:1]), 1)
    with pytest.raises(SettingsError, match=r"in \[0, 1\)"):
        what_if(record, 0, u=1 - 1e-12)  # 1 in float32


def test_p_equal_to_q_is_drawn_from_p() -> None:
    record = next(r for r in rounds_of() if r.rejected_at == 0)
    seen = record.distributions[0]
    same = dataclasses.replace(seen, q=seen.p, residual=np.zeros_like(seen.p), residual_mass=1e-7)
    made = dataclasses.replace(record, distributions=(same,) * 5)
    assert what_if(made, 0).replacement is seen.p


def test_no_residual_is_called_what_the_engine_calls_so() -> None:
    from engine import offline, verification

    assert offline.NO_RESIDUAL == verification.NO_RESIDUAL


def test_a_whole_vocabulary_leaves_no_rest_however_float32_adds_up() -> None:
    record = next(r for r in rounds_of() if r.rejected_at == 0)
    seen = record.distributions[0]
    assert seen.q is not None
    short = dataclasses.replace(seen, p=seen.p * np.float32(0.9999), q=seen.q * np.float32(0.9999))
    made = dataclasses.replace(record, distributions=(short,) * 5)
    assert what_if(made, 0, rule="resample-from-p").rest == 0
    warm = what_if(made, 0, temperature_ratio=2.0)
    assert warm.rest == 0
    assert warm.approximate is None
    part = dataclasses.replace(short, vocab_size=7)
    again = what_if(dataclasses.replace(record, distributions=(part,) * 5), 0, rule="resample-from-p")
    assert again.rest == pytest.approx(1e-4, rel=0.01)


@pytest.mark.parametrize(("value", "ratio"), [(np.nan, 1.0), (np.inf, 1.0), (0.0, 0.5)])
def test_damaged_probabilities_are_refused(value: float, ratio: float) -> None:
    record = rounds_of()[0]
    seen = record.distributions[0]
    for name in ("p", "q"):
        bad = dataclasses.replace(seen, **{name: np.full_like(seen.p, value)})
        made = dataclasses.replace(record, distributions=(bad,) * 5)
        with pytest.raises(SettingsError, match="damaged"):
            what_if(made, 0, u=0.5, temperature_ratio=ratio)
