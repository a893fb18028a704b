"""Faults of the field at the limits: counts, ends, prompts, contexts, stop strings, and models that fail in a run."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from field_models import GREEDY, PROMPT, plain_greedy, run, tiny_llama, tiny_pair

from engine.backend import mx
from engine.caches import Cache, CacheError
from engine.generator import PromptError, SpeculativeGenerator
from engine.models import LanguageModel, Pair
from engine.settings import SamplerSettings, Settings, SettingsError
from engine.toy import PositionModel, toy_model, toy_pair

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("field", "value"), [("max_tokens", 0), ("max_tokens", -2), ("num_draft_tokens", -1)])
def test_counts_that_are_none_are_refused_in_words(field: str, value: int) -> None:
    with pytest.raises(SettingsError, match=rf"^{field}: expected a whole number >= .*, got {value}"):
        Settings(**{field: value})


@pytest.mark.parametrize("prompt", [PROMPT[:1], PROMPT])
@pytest.mark.parametrize("k", [0, 1, 4, 99])
@pytest.mark.parametrize("most", [1, 7])
def test_r59_the_count_is_what_was_asked_whatever_k_and_prompt(most: int, k: int, prompt: list[int]) -> None:
    expected = plain_greedy(tiny_llama(1), most, prompt)
    for draft in (tiny_llama(1), tiny_llama(2)):
        pair = Pair(tiny_llama(1), draft)
        generator, rounds = run(pair, prompt, sampler=GREEDY, num_draft_tokens=k, max_tokens=most)
        assert generator.tokens == expected
        assert generator.statistics.emitted == most
        assert generator.end is not None
        assert generator.end.finish_reason == "length"
        left = most
        for record in rounds:
            assert record.k == min(k, left)
            left -= len(record.emitted)


@pytest.mark.parametrize("k", [0, 4, 99])
def test_r57_no_limit_goes_to_the_contexts_end_or_to_a_stop(k: int) -> None:
    generator, _ = run(tiny_pair(16), PROMPT, sampler=GREEDY, num_draft_tokens=k, max_tokens=-1)
    assert generator.end is not None
    assert generator.end.finish_reason == "length"
    assert "16" in generator.end.notice
    assert generator.tokens == plain_greedy(tiny_llama(1), 16 + 1 - len(PROMPT))
    generator = SpeculativeGenerator(toy_pair(), Settings(max_tokens=-1, num_draft_tokens=k, seed=1))
    generator.start([0])
    for record in generator.rounds():
        if record.index == 7:
            generator.cancel()
    assert generator.end is not None
    assert (generator.end.finish_reason, generator.statistics.rounds) == ("cancelled", 8)


@pytest.mark.parametrize("length", [126, 127, 128])
def test_r73_a_prompt_up_to_the_context_runs_and_a_longer_one_is_refused(length: int) -> None:
    generator, _ = run(tiny_pair(128), [3] * length, sampler=GREEDY, max_tokens=-1)
    assert generator.end is not None
    assert generator.end.finish_reason == "length"
    assert len(generator.tokens) == 128 + 1 - length
    with pytest.raises(PromptError, match=r"has 200 tokens, but the target's context holds 128"):
        generator.start([3] * 200)
    generator.start([3])
    next(generator.rounds())


@pytest.mark.parametrize("prompt", ["", " ", [], (), [3, 64], [-1], [2**40], [1.5], ["3"], [None]])
def test_r68_prompts_that_can_not_be_run_leave_the_generator_usable(prompt: Any) -> None:
    target = dataclasses.replace(tiny_llama(1), encode=lambda text: [5] * len(text))
    generator = SpeculativeGenerator(Pair(target, tiny_llama(2)), Settings(sampler=GREEDY, seed=1, max_tokens=3))
    with pytest.raises(PromptError, match=r"non-empty|is blank|outside the vocabulary|no token id"):
        generator.start(prompt)
    generator.start(PROMPT)
    assert len(list(generator.rounds())) == 3
    assert generator.tokens == plain_greedy(tiny_llama(1), 3)


def test_r39_r75_what_would_kill_the_process_is_refused_before_mlx_sees_it() -> None:
    """Ids outside the vocabulary as prompt and as bias, in a process of its own."""
    code = """
import sys
sys.path[:0] = ["tests/unit"]
from field_models import fixed_pair, tiny_pair
from engine.generator import PromptError, SpeculativeGenerator
from engine.settings import SamplerSettings, Settings, SettingsError
for ids in ([3, 70], [3, 9999]):
    try:
        SpeculativeGenerator(tiny_pair(), Settings()).start(ids)
    except PromptError as error:
        print(error)
for token in (4, 9, 1_000_000):
    for who in ("sampler", "draft_sampler"):
        biased = SamplerSettings(logit_bias=((token, 100.0),))
        try:
            SpeculativeGenerator(fixed_pair([0.25] * 4, [0.25] * 4), Settings(**{who: biased}))
        except SettingsError as error:
            print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr)
    lines = done.stdout.splitlines()
    assert lines[:2] == [
        f"prompt token {token} is outside the vocabulary: expected ids below 64" for token in (70, 9999)
    ]
    assert [line.rpartition("got ")[2] for line in lines[2:]] == ["4", "4", "9", "9", "1000000", "1000000"]
    assert all(line.startswith("logit_bias: expected token ids below 4 (the vocabulary)") for line in lines[2:])


@pytest.mark.parametrize("end", [1, 6])
def test_r67_every_end_id_ends_the_run(end: int) -> None:
    logits = np.zeros((3, 8))
    logits[:, [2, 3, end]] = 9 * np.eye(3)
    model = toy_model(PositionModel(logits), [f" {n}" for n in range(8)], end_ids=[1, 6])
    generator, _ = run(Pair(model, model), [0], sampler=GREEDY, max_tokens=50)
    assert generator.tokens == [2, 3, end]
    assert generator.end is not None
    assert (generator.end.finish_reason, generator.end.text) == ("stop", " 2 3")


@pytest.mark.parametrize("stochastic", [True, False])
def test_r71_every_full_round_has_the_k_that_was_set(stochastic: bool) -> None:
    _, rounds = run(toy_pair(), [0], stochastic=stochastic, num_draft_tokens=5, max_tokens=60)
    left = 60
    for record in rounds:
        assert record.k == min(5, left)
        left -= len(record.emitted)


# Stop strings


def told(words: list[str], answer: list[int], *stop: str, k: int = 4, most: int = 50) -> tuple[Any, list[str]]:
    """A run whose target says `answer` and drafts for itself, with what was visible behind each round."""
    table = [[9.0 if token == wanted else 0.0 for token in range(len(words))] for wanted in answer]
    model = toy_model(PositionModel(table), words)
    settings = Settings(sampler=GREEDY, seed=1, max_tokens=most, num_draft_tokens=k, stop=stop)
    generator = SpeculativeGenerator(Pair(model, model), settings)
    generator.start([0])
    shown = []
    for record in generator.rounds():
        shown.append(generator.text)
        assert record.text_end == len(generator.text)
    return generator, shown


@pytest.mark.parametrize("k", [0, 2, 6])
def test_r64_text_and_tokens_end_at_the_token_that_completes_the_stop_string(k: int) -> None:
    generator, shown = told([" ha", " ho", " hi"], [1, 0, 0, 0, 2, 2, 2, 2], " ha ha ha", k=k)
    assert generator.tokens == [1, 0, 0, 0]
    assert generator.statistics.emitted == 4
    assert generator.end.finish_reason == "stop"
    assert "' ha ha ha'" in generator.end.notice
    assert generator.end.text == " ho" == shown[-1]
    assert all(" ho".startswith(text) for text in shown)


@pytest.mark.parametrize(
    ("words", "answer", "stop", "text"),
    [
        (["x", "al", "pha be", "ta ga", "mma", " on"], [1, 2, 3, 4, 5], "beta gamma", "alpha "),
        (["x", "ABC", "DEF", "GHI", "JK"], [1, 2, 3, 4], "DEFGHIJ", "ABC"),
        (["x", "a", "aa", "b"], [1, 1, 2, 3, 1], "aab", "aa"),
    ],
)
@pytest.mark.parametrize("k", [0, 1, 3])
def test_r65_no_part_of_a_stop_string_is_ever_shown(
    words: list[str], answer: list[int], stop: str, text: str, k: int
) -> None:
    generator, shown = told(words, answer, stop, k=k)
    assert generator.end.finish_reason == "stop"
    assert generator.end.text == text
    assert all(text.startswith(part) for part in shown)


def test_what_only_looked_like_a_stop_string_is_shown_in_the_end() -> None:
    generator, shown = told(["x", "ABC", "DEF", "GHI"], [1, 2, 3], "DEFGHIJ", most=3, k=0)
    assert shown == ["ABC", "ABC", "ABCDEFGHI"]
    assert generator.end.finish_reason == "length"


# A model that fails in the middle of a run


class Failing:
    """A network that fails at its n-th pass from now, once, before or behind the pass."""

    def __init__(self, model: LanguageModel) -> None:
        self.inner, self.left, self.before, self.error = model.network, -1, False, RuntimeError("injected")
        self.model = dataclasses.replace(model, network=self)

    def __call__(self, ids: mx.array, cache: Any = None) -> mx.array:
        self.left -= 1
        if self.left == 0 and self.before:
            raise self.error
        logits = self.inner(ids, cache=cache)
        if self.left == 0:
            raise self.error
        return logits


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize(("who", "passes"), [("target", 1), ("target", 3), ("draft", 1), ("draft", 2), ("draft", 4)])
@pytest.mark.allow_log("round 2 failed|round 4 failed")
def test_a_failing_pass_ends_the_run_with_its_rounds_kept(who: str, passes: int, before: bool) -> None:
    target, draft = Failing(tiny_llama(1)), Failing(tiny_llama(2))
    settings = Settings(sampler=SamplerSettings(temperature=0.8), seed=1, max_tokens=16)
    generator = SpeculativeGenerator(Pair(target.model, draft.model), settings, stochastic=True)
    generator.start(PROMPT)
    rounds = generator.rounds()
    kept = [next(rounds), next(rounds)]
    failing = target if who == "target" else draft
    failing.left, failing.before = passes, before
    kept += list(rounds)
    assert generator.end is not None
    assert (generator.end.finish_reason, "injected" in generator.end.notice) == ("error", True)
    assert len(kept) == generator.statistics.rounds == 2 + (passes - 1 if who == "target" else 0)
    emitted = [e.token for record in kept for e in record.emitted]
    assert generator.tokens == emitted
    assert generator.end.text == tiny_llama(1).vocabulary.decode(emitted)
    # Both caches stand where the last good round left them, and hold what they should.
    context = [*PROMPT, *emitted]
    assert kept[-1].draft_cache is not None
    assert generator._caches.main.positions() == (kept[-1].main_cache.end,) * 2
    assert generator._caches.main.held == context[: kept[-1].main_cache.end]
    assert generator._caches.draft is not None
    assert generator._caches.draft.positions() == (kept[-1].draft_cache.end,) * 2
    with pytest.raises(RuntimeError, match="only after it ended without an error"):
        generator.proceed(5)
    # And the same generator runs again, as one that never failed.
    generator.start(PROMPT)
    list(generator.rounds())
    unharmed, _ = run(tiny_pair(), PROMPT, stochastic=True, sampler=settings.sampler, max_tokens=16)
    assert generator.tokens == unharmed.tokens


@pytest.mark.parametrize("who", ["main", "draft"])
@pytest.mark.allow_log("round 3 failed")
def test_a_failure_behind_the_test_takes_its_tokens_back(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rewind fails once the round has emitted: what has no record is in neither tokens nor text."""
    generator = SpeculativeGenerator(tiny_pair(), Settings(sampler=GREEDY, seed=1, max_tokens=12))
    generator.start(PROMPT)
    rounds = generator.rounds()
    kept = [next(rounds) for _ in range(3)]
    cache = generator._caches.main if who == "main" else generator._caches.draft
    assert cache is not None

    def broken(tokens: int) -> Any:
        raise MemoryError("no room")

    monkeypatch.setattr(cache, "trim", broken)
    assert list(rounds) == []
    assert generator.end is not None
    assert (generator.end.finish_reason, generator.end.notice) == ("error", "MemoryError('no room')")
    emitted = [e.token for record in kept for e in record.emitted]
    assert generator.tokens == emitted
    assert generator.end.text == generator.text == tiny_llama(1).vocabulary.decode(emitted)
    for refused in (lambda: generator.proceed(3), generator.check_contents):
        with pytest.raises(RuntimeError):
            refused()
    generator.start(PROMPT)
    list(generator.rounds())
    assert generator.tokens == plain_greedy(tiny_llama(1), 12)


@pytest.mark.allow_log("round 1 failed")
def test_a_cache_that_can_not_be_brought_back_hides_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    target = Failing(tiny_llama(1))
    generator = SpeculativeGenerator(Pair(target.model, None), Settings(sampler=GREEDY, seed=1, max_tokens=30))
    generator.start(PROMPT)
    rounds = generator.rounds()
    next(rounds)

    def stuck(self: Cache, position: int) -> None:
        raise CacheError("a cache could not be brought back")

    target.left = 1
    monkeypatch.setattr(Cache, "return_to", stuck)
    assert list(rounds) == []
    assert generator.end is not None
    assert generator.end.notice == "RuntimeError('injected'); then a cache could not be brought back"


@pytest.mark.parametrize("who", ["target", "draft"])
def test_a_failure_while_reading_the_prompt_leaves_no_run_to_go_on_with(who: str) -> None:
    models = {"target": Failing(tiny_llama(1)), "draft": Failing(tiny_llama(2))}
    pair = Pair(models["target"].model, models["draft"].model)
    generator = SpeculativeGenerator(pair, Settings(sampler=GREEDY, seed=1, max_tokens=5, prefill_chunk=2))
    models[who].left = 2
    with pytest.raises(RuntimeError, match="injected"):
        generator.start(PROMPT)
    assert list(generator.rounds()) == []
    assert generator.end is not None
    assert generator.end.finish_reason == "error"
    generator.start(PROMPT)
    list(generator.rounds())
    assert generator.tokens == plain_greedy(tiny_llama(1), 5)


def test_an_interrupted_round_is_done_again() -> None:
    """Ctrl-C inside a pass goes to the caller; both caches are back, and the run can go on as if nothing had been."""
    target = Failing(tiny_llama(1))
    target.error = KeyboardInterrupt()  # type: ignore[assignment]
    settings = Settings(seed=1, max_tokens=20)
    generator = SpeculativeGenerator(Pair(target.model, tiny_llama(2)), settings, stochastic=True)
    generator.start(PROMPT)
    target.left = 3
    with pytest.raises(KeyboardInterrupt):
        list(generator.rounds())
    assert generator.end is None
    list(generator.rounds())
    unharmed, _ = run(tiny_pair(), PROMPT, stochastic=True, max_tokens=20)
    assert generator.tokens == unharmed.tokens
