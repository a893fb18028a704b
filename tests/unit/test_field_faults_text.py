"""Faults of the field in text: characters over tokens, spaces, lone bytes, NUL and special tokens in any place."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import pytest
from field_models import GREEDY
from model_folders import END, byte_level_tokenizer, sentencepiece_tokenizer
from tokenizers import Tokenizer, decoders, models

from engine.generator import SpeculativeGenerator
from engine.models import LanguageModel, Pair
from engine.settings import Settings
from engine.text import TextStream, Vocabulary
from engine.tokenizer import build_vocabulary
from engine.toy import PositionModel, toy_model

TEXTS = ["e\u0301x", "🏳\ufe0f\u200d🌈🙂", "한국어 नमस्ते", " lead  lead", "\x00\u2028\xa0\r\n", "a<b>&amp;</b>"]


@functools.cache
def tokenizer_of(kind: str) -> tuple[Any, Vocabulary]:
    from transformers import PreTrainedTokenizerFast

    tokenizer = byte_level_tokenizer() if kind == "byte-level" else sentencepiece_tokenizer()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    return wrapped, build_vocabulary(wrapped, tokenizer.get_vocab_size(), [])


def pieces_of(vocabulary: Vocabulary, tokens: Sequence[int]) -> list[str]:
    """What each token adds to the stream, and what is left at the end."""
    stream = TextStream(vocabulary)
    return [stream.add(token) for token in tokens] + [stream.finish()]


def spoken(vocabulary: Vocabulary, model_tokens: Sequence[int], end_ids: frozenset[int] = frozenset()) -> LanguageModel:
    """A model that answers the prompt [0] with these tokens, in that order."""
    table = [[9.0 if token == wanted else 0.0 for token in range(len(vocabulary))] for wanted in model_tokens]
    model = toy_model(PositionModel(table), [""] * len(vocabulary))
    vocabulary = Vocabulary(vocabulary.pieces, vocabulary.special, vocabulary.names, end_ids, vocabulary.sentencepiece)
    return LanguageModel(model.network, model.info, vocabulary, lambda text: [0], model.make_cache)


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_r98_an_emoji_over_four_tokens_comes_once_and_whole(kind: str) -> None:
    _, vocabulary = tokenizer_of(kind)
    ids = [byte + (3 if kind == "sentencepiece" else 0) for byte in "🙂".encode()]
    assert pieces_of(vocabulary, ids) == ["", "", "", "🙂", ""]
    assert [vocabulary.text_of(token) for token in ids] == ["<0xF0>", "<0x9F>", "<0x99>", "<0x82>"]
    assert [vocabulary.kind(token) for token in ids] == ["byte"] * 4


def test_r98_in_a_run_nothing_broken_is_shown_and_going_on_completes_the_character() -> None:
    """A limit inside a character shows U+FFFD; the tokens that follow turn it into the character."""
    _, vocabulary = tokenizer_of("byte-level")
    model = spoken(vocabulary, [*"a🙂b".encode()])
    generator = SpeculativeGenerator(Pair(model, model), Settings(sampler=GREEDY, seed=1, max_tokens=6))
    generator.start([0])
    seen = [generator.text for _ in generator.rounds()]
    assert generator.end is not None
    assert generator.end.text == "a🙂b"
    assert all("a🙂b".startswith(text) for text in seen)
    generator = SpeculativeGenerator(Pair(model, model), Settings(sampler=GREEDY, seed=1, max_tokens=3))
    generator.start([0])
    list(generator.rounds())
    assert generator.end is not None
    assert generator.end.text == "a\ufffd"
    generator.proceed(3)
    list(generator.rounds())
    assert generator.end.text == "a🙂b" == vocabulary.decode(generator.tokens)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_r100_pieces_join_to_the_tokenizers_own_full_decode(kind: str, text: str) -> None:
    """Combining characters, joiners, leading spaces, NUL: nothing twice, nothing lost."""
    tokenizer, vocabulary = tokenizer_of(kind)
    ids = tokenizer.encode(text)
    joined = "".join(pieces_of(vocabulary, ids))
    assert joined == vocabulary.decode(ids)
    full = tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert vocabulary.whole_text(ids) == full
    assert joined == (" " if kind == "sentencepiece" else "") + text


def test_r101_leading_spaces_are_those_of_the_text() -> None:
    """A text of its own loses the one space that SentencePiece puts before it; an answer continues and keeps all."""
    _, bpe = tokenizer_of("byte-level")
    tokenizer, spm = tokenizer_of("sentencepiece")
    lead = [bpe.pieces.index(b" lead")]
    assert bpe.decode(lead) == bpe.whole_text(lead) == " lead"
    pieces = tokenizer.convert_tokens_to_ids(["▁", "▁lead"])
    assert spm.whole_text(pieces) == " lead"
    assert spm.whole_text([1, *pieces]) == " lead"
    assert spm.decode(pieces) == "  lead"
    model = spoken(spm, [*pieces, 0])
    generator = SpeculativeGenerator(Pair(model, None), Settings(sampler=GREEDY, seed=1, max_tokens=2))
    header = generator.start(pieces)
    assert header.prompt == " lead"
    assert tokenizer.encode(header.prompt, add_special_tokens=False) == pieces


def test_r101_a_vocabulary_that_puts_no_space_first_loses_none() -> None:
    from transformers import PreTrainedTokenizerFast

    def first_space(decoder: Any) -> Vocabulary:
        tokenizer = Tokenizer(models.BPE({"▁": 0, "a": 1, "▁a": 2}, [("▁", "a")]))
        tokenizer.decoder = decoder
        wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
        vocabulary = build_vocabulary(wrapped, 3, [])
        assert vocabulary.whole_text([2, 1, 2]) == wrapped.decode([2, 1, 2], clean_up_tokenization_spaces=False)
        return vocabulary

    plain = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    assert first_space(decoders.Sequence(plain)).whole_text([2]) == " a"
    assert first_space(decoders.Sequence([*plain, decoders.Strip(" ", 1, 0)])).whole_text([2]) == "a"
    assert first_space(decoders.Metaspace(prepend_scheme="never")).whole_text([2]) == " a"
    assert first_space(decoders.Metaspace(prepend_scheme="always")).whole_text([2]) == "a"


@pytest.mark.parametrize("before", [[], [0xF0, 0x9F]])
def test_r103_an_end_token_with_full_width_bars_is_no_text(before: list[int]) -> None:
    tokenizer, vocabulary = tokenizer_of("byte-level")
    assert END == "<｜end▁of▁sentence｜>"
    end = tokenizer.convert_tokens_to_ids(END)
    model = spoken(vocabulary, [*b"ok", *before, end, *b"leaked"], frozenset({end}))
    generator = SpeculativeGenerator(Pair(model, model), Settings(sampler=GREEDY, seed=1, num_draft_tokens=8))
    generator.start([0])
    list(generator.rounds())
    assert generator.end is not None
    assert generator.end.finish_reason == "stop"
    assert generator.end.text == "ok" + "\ufffd" * bool(before)
    assert generator.tokens[-1] == end
    assert vocabulary.text_of(end) == END


def test_special_tokens_add_nothing_in_any_place() -> None:
    """Not even between the bytes of one character, as in the tokenizer's own decode."""
    tokenizer, vocabulary = tokenizer_of("byte-level")
    end = tokenizer.convert_tokens_to_ids(END)
    face = list("🙂".encode())
    for place in range(5):
        ids = [*b"a", *face[:place], end, *face[place:], *b"b"]
        assert "".join(pieces_of(vocabulary, ids)) == "a🙂b" == tokenizer.decode(ids, skip_special_tokens=True)


def test_r106_a_lone_byte_becomes_one_mark_and_text_follows() -> None:
    _, bpe = tokenizer_of("byte-level")
    tokenizer, spm = tokenizer_of("sentencepiece")
    assert pieces_of(bpe, [0x9F, *b"ok"]) == ["\ufffd", "o", "k", ""]
    ids = tokenizer.convert_tokens_to_ids(["<0xFF>", "b"])
    assert pieces_of(spm, ids) == ["\ufffd", "b", ""]
    assert tokenizer.decode(ids) == "\ufffdb"
    assert spm.text_of(ids[0]) == "<0xFF>"


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_random_ids_join_to_their_bytes(kind: str) -> None:
    """Whatever the ids: the pieces make the text of all bytes together, and none is shown before it is whole."""
    tokenizer, vocabulary = tokenizer_of(kind)
    numbers = random.Random(7)
    for _ in range(300):
        ids = [numbers.randrange(-1, len(vocabulary) + 2) for _ in range(numbers.randrange(1, 14))]
        known = [token for token in ids if 0 <= token < len(vocabulary) and token not in vocabulary.special]
        whole = b"".join(vocabulary.pieces[token] for token in known).decode("utf-8", "replace")
        pieces = pieces_of(vocabulary, ids)
        assert "".join(pieces) == whole == vocabulary.decode(ids)
        for count in range(len(ids)):
            assert whole.startswith("".join(pieces[:count]))
        # An added token that is no special one is taken apart into bytes by the tokenizer's own decoder.
        if kind == "byte-level" and tokenizer.convert_tokens_to_ids("<café>") not in ids:
            inside = [token for token in ids if 0 <= token < len(vocabulary)]
            assert tokenizer.decode(inside, skip_special_tokens=True, clean_up_tokenization_spaces=False) == whole


@pytest.mark.parametrize("kind", ["byte-level", "sentencepiece"])
def test_every_id_has_a_printable_name_and_bytes_where_it_is_no_text_yet(kind: str) -> None:
    _, vocabulary = tokenizer_of(kind)
    for token, piece in enumerate(vocabulary.pieces):
        name = vocabulary.text_of(token)
        assert name
        assert "\ufffd" not in name
        if vocabulary.kind(token) == "byte":
            assert name == "".join(f"<0x{byte:02X}>" for byte in piece)
        elif vocabulary.kind(token) == "text":
            assert name.encode() == piece
