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
