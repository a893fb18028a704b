"""Text streams in whole characters, whatever the pieces are, and every id has a printable name."""

from __future__ import annotations

import itertools
import random

import pytest

from engine.text import TextStream, Vocabulary, toy_vocabulary


def vocabulary(*pieces: bytes, special: dict[int, str] | None = None) -> Vocabulary:
    names = special or {}
    return Vocabulary(pieces, frozenset(names), names, frozenset(names))


def stream(vocab: Vocabulary, tokens: list[int]) -> list[str]:
    text = TextStream(vocab)
    return [text.add(token) for token in tokens] + [text.finish()]


def test_a_split_emoji_appears_with_its_last_byte() -> None:
    vocab = vocabulary(b"\xf0", b"\x9f", b"\x99", b"\x82")
    assert stream(vocab, [0, 1, 2, 3]) == ["", "", "", "🙂", ""]
    assert [vocab.text_of(token) for token in range(4)] == ["<0xF0>", "<0x9F>", "<0x99>", "<0x82>"]
    assert [vocab.kind(token) for token in range(4)] == ["byte"] * 4


@pytest.mark.parametrize("text", ["e\u0301x", "🏳\ufe0f\u200d🌈 flag", "한국어 नमस्ते", "\u2028\x00\r\n\xa0"])
def test_pieces_cut_anywhere_join_to_the_text(text: str) -> None:
    data, cuts = text.encode(), random.Random(1)
    for _ in range(50):
        at = sorted({0, len(data), *(cuts.randrange(len(data) + 1) for _ in range(4))})
        vocab = vocabulary(*(data[a:b] for a, b in itertools.pairwise(at)))
        tokens = list(range(len(vocab)))
        assert "".join(stream(vocab, tokens)) == text == vocab.decode(tokens)


def test_a_leading_space_stays() -> None:
    assert vocabulary(b" lead").decode([0]) == " lead"
    assert vocabulary(b" ", b" lead").decode([0, 1]) == "  lead"


def test_special_tokens_add_nothing_even_after_half_a_character() -> None:
    vocab = vocabulary(b"\xf0\x9f", b"<end>", b"ok", special={1: "<｜end▁of▁sentence｜>"})
    assert vocab.decode([2, 1]) == "ok"
    assert vocab.decode([0, 1]) == "\ufffd"
    assert vocab.text_of(1) == "<｜end▁of▁sentence｜>"
    assert vocab.kind(1) == "special"


def test_a_lone_continuation_byte_becomes_a_replacement_mark() -> None:
    vocab = vocabulary(b"\x9f", b"ok", b"\xff", b"b")
    assert stream(vocab, [0, 1]) == ["\ufffd", "ok", ""]
    assert vocab.decode([2, 3]) == "\ufffdb"


def test_an_unfinished_character_is_shown_at_the_end() -> None:
    assert stream(vocabulary(b"a\xe2\x82"), [0]) == ["a", "\ufffd"]


def test_ids_without_a_piece_have_names_and_no_text() -> None:
    vocab = vocabulary(b"a", b"", special={2: "<s>"})
    assert [vocab.kind(token) for token in (0, 1, 2, 3, -1)] == ["text", "unused", "special", "unused", "unused"]
    assert vocab.text_of(1) == "<unused 1>"
    assert vocab.text_of(99) == "<unused 99>"
    assert vocab.decode([0, 1, 99, -1, 0]) == "aa"


def test_markup_stays_as_it_is() -> None:
    words = ["<b>x</b>", "<img src=x>", "\x00", "\u2028"]
    vocab = toy_vocabulary(words, end_ids=[3])
    assert [vocab.text_of(token) for token in range(4)] == words
    assert vocab.decode(range(4)) == "".join(words)
    assert vocab.end_ids == {3}
