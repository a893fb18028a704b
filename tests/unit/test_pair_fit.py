"""Whether two models fit: ids compared by what they stand for, widths made equal, the gap behind them never drawn."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from engine.backend import mx
from engine.generator import SpeculativeGenerator
from engine.model_files import LoadError
from engine.models import LanguageModel, Pair
from engine.pair_fit import fit_pair
from engine.settings import SamplerSettings, Settings
from engine.toy import fixed_logits, toy_model

REAL = 60


def model(width: int, real: int = REAL, *, high: float = 0.0, name: str = "model") -> LanguageModel:
    """Random logits over `width` ids, of which the first `real` stand for something; those behind get `high`."""
    logits = np.random.default_rng(width).normal(size=width)
    logits[real:] = high
    made = toy_model(fixed_logits(logits), [f" w{n}" for n in range(width)], name=name)
    pieces = tuple(f" w{n}".encode() if n < real else b"" for n in range(width))
    vocabulary = dataclasses.replace(made.vocabulary, pieces=pieces)
    return dataclasses.replace(made, vocabulary=vocabulary, encode=lambda text: [0] * len(text))


def special(made: LanguageModel, names: dict[int, str]) -> LanguageModel:
    pieces = tuple(b"" if n in names else piece for n, piece in enumerate(made.vocabulary.pieces))
    vocabulary = dataclasses.replace(made.vocabulary, pieces=pieces, names=names, special=frozenset(names))
    return dataclasses.replace(made, vocabulary=vocabulary)


@pytest.mark.parametrize(("target_width", "draft_width"), [(72, 64), (64, 72)])
def test_padded_logits_are_cut_to_the_common_width_and_the_gap_is_never_drawn(
    target_width: int, draft_width: int
) -> None:
    """Case R90: 152,064 logits against 151,936 of one tokenizer."""
    target, draft, notices = fit_pair(model(target_width, high=9.0), model(draft_width, high=9.0))
    assert target.vocab_size == draft.vocab_size == len(target.vocabulary) == len(draft.vocabulary) == 64
    assert len(notices) == 1
    assert f"logits for {target_width} and {draft_width} ids of one tokenizer: both are cut to 64" in notices[0]
    generator = SpeculativeGenerator(
        Pair(target, draft), Settings(seed=1, max_tokens=60, top_n=100, sampler=SamplerSettings(temperature=1.0))
    )
    generator.start([1, 2, 3])
    rounds = list(generator.rounds())
    assert generator.end is not None
    assert generator.end.finish_reason == "length"
    assert max(generator.tokens) < 64
    for record in rounds:
        for seen in record.distributions:
            assert seen.ids.max() < 64
            assert seen.p.sum() == pytest.approx(1, abs=1e-5)


def test_ids_that_the_drafts_logits_lack_have_q_0() -> None:
    target, draft, notices = fit_pair(model(64, 64), model(60))
    assert target.vocab_size == draft.vocab_size == 64
    assert "what the draft lacks has q = 0" in notices[0]
    logits = np.array(draft.network(mx.array([[1]]), cache=draft.make_cache()))[0, 0]
    assert np.isneginf(logits[60:]).all()
    assert np.isfinite(logits[:60]).all()
    generator = SpeculativeGenerator(Pair(target, draft), Settings(seed=2, max_tokens=80, top_n=64), stochastic=True)
    generator.start([1])
    rounds = list(generator.rounds())
    assert max(generator.tokens) >= 60, "the target's own ids are emitted all the same"
    assert max(d.token for r in rounds for d in r.drafts) < 60
    for record in rounds:
        for seen in record.distributions[:-1]:
            assert seen.q is not None
            assert seen.q[seen.ids >= 60].sum() == 0


def test_equal_widths_are_left_alone() -> None:
    target, draft = model(64), model(64, name="other")
    assert fit_pair(target, draft) == (target, draft, ())


@pytest.mark.parametrize("swapped", [(3, 7), (59, 0)])
def test_other_tokenizers_of_one_size_are_refused_with_the_first_id_that_differs(swapped: tuple[int, int]) -> None:
    """Case R92: two vocabularies of one size, entries shuffled."""
    target, draft = model(64, name="ours"), model(64, name="theirs")
    pieces = list(draft.vocabulary.pieces)
    one, two = swapped
    pieces[one], pieces[two] = pieces[two], pieces[one]
    draft = dataclasses.replace(draft, vocabulary=dataclasses.replace(draft.vocabulary, pieces=tuple(pieces)))
    first, other = min(swapped), max(swapped)
    with pytest.raises(LoadError) as refused:
        fit_pair(target, draft)
    assert f"id {first} is ' w{first}' in the target and ' w{other}' in the draft" in str(refused.value)
    assert "'ours'" in str(refused.value)
    assert "'theirs'" in str(refused.value)


def test_a_hole_in_one_of_the_two_is_another_tokenizer() -> None:
    target, draft = model(64), model(64)
    pieces = tuple(b"" if n == 5 else piece for n, piece in enumerate(draft.vocabulary.pieces))
    draft = dataclasses.replace(draft, vocabulary=dataclasses.replace(draft.vocabulary, pieces=pieces))
    with pytest.raises(LoadError, match="id 5 is ' w5' in the target and '<unused 5>' in the draft"):
        fit_pair(target, draft)


def test_special_tokens_of_one_alone_are_named() -> None:
    """Case R94's kind: allowed, with a warning that names them."""
    same = {0: "<s>", 1: "</s>"}
    target = special(model(64, 63), same | {n: f"<tool {n}>" for n in range(55, 63)})
    draft = special(model(64, 55), same)
    _, _, notices = fit_pair(target, draft)
    assert len(notices) == 1
    assert "Special in the target's tokenizer only: <tool 55>, <tool 56>" in notices[0]
    assert "<tool 60> and 2 more;" in notices[0]
    _, _, notices = fit_pair(draft, target)
    assert "Special in the draft's tokenizer only" in notices[0]
