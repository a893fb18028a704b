"""Forks: a run that goes on from a recorded round, unchanged or with other settings, or with a verdict by decree."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from engine.forks import Forced, fork_note, settings_before
from engine.generator import PromptError, SpeculativeGenerator
from engine.models import Pair, bundled_pair
from engine.rounds import Round, RunHeader
from engine.settings import SamplerSettings, Settings, SettingsError
from engine.toy import toy_pair

PROMPT = "The sea was calm that morning, and the captain"


def recorded(pair: Pair, prompt: Any, changes: dict[int, dict[str, Any]] | None = None, **settings: Any) -> Any:
    settings = {"seed": 8, "max_tokens": 80, "stochastic": True, "prefill_chunk": 5} | settings
    generator = SpeculativeGenerator(pair, Settings(**settings))
    header = generator.start(prompt)
    rounds = []
    for record in generator.rounds():
        rounds.append(record)
        if record.index in (changes or {}):
            generator.change(**(changes or {})[record.index])
    return header, rounds, generator


def forked(pair: Pair, header: RunHeader, rounds: list[Round], forced: Forced | None = None, **changes: Any) -> Any:
    settings = dataclasses.replace(settings_before(header.settings, rounds), **changes)
    generator = SpeculativeGenerator(pair, settings, stochastic=settings.stochastic)
    generator.fork(header, rounds, forced)
    return generator


def bare(record: Round) -> tuple[Any, ...]:
    return (record.index, record.drafts, record.emitted, record.main_cache, record.draft_cache, record.debt)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"rule": "sampler-match"},
        {"rule": "block", "seed": 3},
        {"rewind": "legacy-rewind"},
        {"rewind": "drop-debt", "main_rewind": "stale-trim"},
        {"sampler": SamplerSettings(temperature=0.0)},
        {"sampler": SamplerSettings(temperature=1.0, top_k=20, presence_penalty=0.4), "num_draft_tokens": 2},
    ],
)
def test_a_fork_that_changes_nothing_repeats_the_run(settings: dict[str, Any]) -> None:
    pair = bundled_pair()
    header, rounds, original = recorded(pair, PROMPT, **settings)
    for at in (0, 1, 10):
        generator = forked(pair, header, rounds[:at])
        again = list(generator.rounds())
        assert [bare(r) for r in again] == [bare(r) for r in rounds[at:]]
        assert generator.tokens == original.tokens
        assert generator.text == original.text
        assert generator.statistics.accepted == original.statistics.accepted
        assert generator.end == dataclasses.replace(
            original.end, host_syncs=generator.host_syncs, seconds=generator.end.seconds
        )


def test_a_fork_behind_a_repair_and_live_changes_repeats_the_run() -> None:
    changes = {3: {"rewind": "legacy-rewind"}, 7: {"rewind": "correct"}, 9: {"stochastic": False}}
    pair = bundled_pair()
    header, rounds, original = recorded(pair, PROMPT, changes)
    assert any(r.draft_cache.refed for r in rounds)
    generator = forked(pair, header, rounds[:12])
    assert [bare(r) for r in generator.rounds()] == [bare(r) for r in rounds[12:]]
    assert generator.tokens == original.tokens


def test_a_fork_with_another_temperature_keeps_the_past_and_changes_what_comes() -> None:
    header, rounds, original = recorded(toy_pair(), [0, 1, 2])
    sampler = dataclasses.replace(header.settings.sampler, temperature=3.0)
    generator = forked(toy_pair(), header, rounds[:10], sampler=sampler, num_draft_tokens=2)
    kept = sum(len(r.emitted) for r in rounds[:10])
    first = next(generator.rounds())
    assert first.index == 10
    assert first.k == 2
    list(generator.rounds())
    assert generator.tokens[:kept] == original.tokens[:kept]
    assert generator.tokens[kept:] != original.tokens[kept:]


@pytest.mark.parametrize("rule", ["stochastic", "sampler-match", "block"])
def test_a_decree_overrules_one_round(rule: str) -> None:
    header, rounds, _ = recorded(toy_pair(), [0, 1, 2], rule=rule)
    at = next(r.index for r in rounds if r.accepted >= 2)
    whole = forked(toy_pair(), header, rounds[:at])
    assert next(whole.rounds()).accepted == rounds[at].accepted
    generator = forked(toy_pair(), header, rounds[:at], Forced(1, "reject"))
    stream = generator.rounds()
    record = next(stream)
    assert record.accepted == 1
    assert record.rejected_at == 1
    assert "forced reject at position 2" in record.rule_label
    assert record.forced == "forced reject at position 2"
    assert not record.distribution_preserving
    after = next(stream)
    assert after.forced == ""
    assert after.distribution_preserving
    chosen = forked(toy_pair(), header, rounds[:at], Forced(1, "token", 5))
    record = next(chosen.rounds())
    assert [e.token for e in record.emitted] == [rounds[at].emitted[0].token, 5]
    at = next(r.index for r in rounds if r.rejected_at == 0 and r.k == 4)
    generator = forked(toy_pair(), header, rounds[:at], Forced(0, "accept"))
    record = next(generator.rounds())
    assert record.drafts[0].fate == "accepted"
    assert record.emitted[0].token == record.drafts[0].token == rounds[at].drafts[0].token


def test_what_cannot_be_decreed_or_forked_is_refused_in_words() -> None:
    for wrong in ((0, "maybe", None), (-1, "accept", None), (0, "token", None), (0, "reject", 3)):
        with pytest.raises(SettingsError, match="forced:"):
            Forced(*wrong)
    header, rounds, _ = recorded(toy_pair(), [0, 1, 2])
    with pytest.raises(SettingsError, match="token id below 6"):
        forked(toy_pair(), header, rounds[:2], Forced(0, "token", 6))
    with pytest.raises(PromptError, match="recorded with the target"):
        forked(bundled_pair(), header, rounds[:2])


def test_a_fork_can_be_cancelled_while_it_repeats_the_rounds() -> None:
    header, rounds, _ = recorded(toy_pair(), [0, 1, 2])
    generator = SpeculativeGenerator(toy_pair(), header.settings)
    generator.fork(header, rounds[:10], progress=lambda done, total: done == 4)
    assert generator.end is not None
    assert generator.end.finish_reason == "cancelled"
    assert list(generator.rounds()) == []


def test_the_note_names_what_was_changed_and_nothing_else() -> None:
    before = Settings(seed=1)
    sampler = dataclasses.replace(before.sampler, temperature=1.25)
    after = dataclasses.replace(before, sampler=sampler, num_draft_tokens=2)
    assert fork_note(10, before, before, None) == "Forked before round 10: nothing changed."
    told = fork_note(3, before, after, Forced(0, "token", 9))
    assert told == (
        "Forked before round 3: temperature 0.7 → 1.25, num_draft_tokens 4 → 2, forced token 9 at position 1."
    )
