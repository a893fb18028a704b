"""Pieces and ids made from Hugging Face tokenizers are those of the tokenizer, with spaces and bytes kept."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from model_folders import END, byte_level_tokenizer, sentencepiece_tokenizer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from engine.text import TextStream, Vocabulary
from engine.tokenizer import build_vocabulary, make_encoder, tokenizer_kind


def wrap(tokenizer: Tokenizer) -> object:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def vocabulary_of(tokenizer: Tokenizer, surplus: int = 0) -> Vocabulary:
    return build_vocabulary(wrap(tokenizer), tokenizer.get_vocab_size() + surplus, [])


TEXTS = [" lead the lead", "e\u0301x", "🏳\ufe0f\u200d🌈 🙂", "한국어\n\tNUL\x00\u2028", "  two  spaces "]


@pytest.mark.parametrize("text", TEXTS)
def test_byte_level_pieces_join_to_the_text(text: str) -> None:
    tokenizer = byte_level_tokenizer()
    vocab = vocabulary_of(tokenizer)
    stream = TextStream(vocab)
    ids = tokenizer.encode(text).ids
    assert "".join([stream.add(token) for token in ids]) + stream.finish() == text == tokenizer.decode(ids)


def test_byte_level_kinds_and_names() -> None:
    tokenizer = byte_level_tokenizer()
    vocab = vocabulary_of(tokenizer, surplus=3)
    assert vocab.decode([tokenizer.token_to_id("Ġlead")]) == " lead"
    assert [vocab.text_of(byte) for byte in "🙂".encode()] == ["<0xF0>", "<0x9F>", "<0x99>", "<0x82>"]
    end, added = tokenizer.token_to_id(END), tokenizer.token_to_id("<café>")
    assert (vocab.kind(end), vocab.text_of(end), vocab.decode([end])) == ("special", END, "")
    assert (vocab.kind(added), vocab.decode([added])) == ("text", "<café>")
    assert vocab.kind(len(vocab) - 1) == "unused"
    assert not vocab.sentencepiece
    assert vocab.decode([0xF0, end]) == "\ufffd"
    assert vocab.decode([0x9F, *b"ok"]) == "\ufffdok"


def test_sentencepiece_keeps_spaces_and_bytes() -> None:
    tokenizer = sentencepiece_tokenizer()
    vocab = vocabulary_of(tokenizer)
    ids = [tokenizer.token_to_id(piece) for piece in ("▁", "▁lead", "<0xFF>", "b")]
    assert vocab.decode(ids[:2]) == "  lead"
    assert vocab.decode(ids[1:2]) == " lead"
    assert vocab.decode(ids[2:]) == "\ufffdb"
    assert vocab.text_of(ids[2]) == "<0xFF>"
    assert [vocab.kind(token) for token in (0, 1, 2)] == ["special"] * 3
    assert vocab.sentencepiece
    assert vocab.decode(tokenizer.encode("lead 🙂").ids) == " lead 🙂"


def test_other_kinds_are_decoded_by_themselves() -> None:
    words = {"[UNK]": 0, "a": 1, "play": 2, "##ing": 3}
    tokenizer = Tokenizer(models.WordPiece(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    assert tokenizer_kind(wrap(tokenizer)) == "other"
    vocab = vocabulary_of(tokenizer)
    assert vocab.decode([2, 3]) == " playing"


def test_bos_comes_once_and_no_end_follows() -> None:
    tokenizer = byte_level_tokenizer(bos=True)
    encode = make_encoder(wrap(tokenizer), tokenizer.get_vocab_size())
    bos = tokenizer.token_to_id("<s>")
    assert encode("the") == encode("<s>the") == [bos, *b"the"]
    assert encode("") == [bos]
    llama = sentencepiece_tokenizer()
    assert make_encoder(wrap(llama), llama.get_vocab_size())("lead") == llama.encode("lead").ids
    plain = make_encoder(wrap(byte_level_tokenizer()), 999)
    assert plain("") == []
    assert plain("the") == [*b"the"]


def test_encode_refuses_what_the_model_has_no_id_for() -> None:
    tokenizer = byte_level_tokenizer()
    encode = make_encoder(wrap(tokenizer), 256)
    assert encode("abc") == [*b"abc"]
    with pytest.raises(ValueError, match="logits for 256 ids only"):
        encode(" lead")
    with pytest.raises(ValueError, match="Character 1 of the text is half a surrogate pair"):
        encode("a\ud83d")


def test_encode_runs_on_one_thread_at_a_time() -> None:
    class Shy:
        busy = False
        overlaps = 0

        def encode(self, text: str, **options: object) -> list[int]:
            self.overlaps += self.busy
            self.busy = True
            time.sleep(0.002)
            self.busy = False
            return [*text.encode()]

    shy = Shy()
    encode = make_encoder(shy, 256)
    threads = [threading.Thread(target=encode, args=("the",)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shy.overlaps == 0


def test_a_long_text_is_encoded_whole_and_without_a_warning() -> None:
    from transformers import PreTrainedTokenizerFast
    from transformers.utils import logging as their_logging

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    level = their_logging.get_verbosity()
    their_logging.set_verbosity_warning()
    their_logging.add_handler(handler)
    try:
        limited = PreTrainedTokenizerFast(tokenizer_object=byte_level_tokenizer(), model_max_length=8)
        assert len(make_encoder(limited, 999)("x" * 100)) == 100
    finally:
        their_logging.remove_handler(handler)
        their_logging.set_verbosity(level)
    assert lines == []
