"""Tokenizers that are damaged, or made to fill the memory, are refused in words; endless chat templates are stopped."""

from __future__ import annotations

import base64
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from gguf_files import network_metadata, random_weights, tensors_of, tokenizer_metadata, write_gguf
from model_folders import LLAMA, byte_level_tokenizer, edit_json, sentencepiece_tokenizer, write_folder
from transformers import PreTrainedTokenizerFast

from engine import tokenizer as tokenizer_module
from engine.model_files import LoadError
from engine.models import load_model
from engine.tokenizer import make_chat, make_encoder
from engine.tokenizer_files import check_tokenizer


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny", eos_token_id=256)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "tiny"))


def replace(content: str, pattern: dict[str, str] | None = None) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern or {"String": "a"}, "content": content}


def sequence(kind: str, step: Any, times: int) -> dict[str, Any]:
    return {"type": "Sequence", kind: [step] * times}


BOS = {"SpecialToken": {"id": "x", "type_id": 0}}
TEXT = {"Sequence": {"id": "A", "type_id": 0}}


def template(ids: int, times: int) -> dict[str, Any]:
    special = {"x": {"id": "x", "ids": [1] * ids, "tokens": ["x"] * ids}}
    return {"type": "TemplateProcessing", "single": [BOS] * times + [TEXT], "pair": [TEXT], "special_tokens": special}


@pytest.mark.parametrize(
    ("name", "part", "words"),
    [
        ("normalizer", sequence("normalizers", replace("aa"), 40), "1.1e+12 times as long"),
        ("normalizer", replace("b" * 2000), "2e+03 times as long"),
        ("normalizer", replace("bbb", {"Regex": ""}) | {"content": "b" * 1000}, "1e+03 times as long"),
        ("normalizer", sequence("normalizers", {"type": "Prepend", "prepend": "aaaaaaaaa"}, 4), "1e+04 times"),
        ("pre_tokenizer", sequence("pretokenizers", sequence("pretokenizers", replace("aa"), 20), 1), "1.05e+06 times"),
        ("decoder", sequence("decoders", replace("aa"), 40), "its decoder could make a text"),
        ("decoder", sequence("decoders", replace("a" * 900), 900), "its decoder could make a text"),
        ("post_processor", template(600, 2), "puts 1200 ids around a text"),
        ("post_processor", sequence("processors", template(300, 1), 4), "puts 1200 ids around a text"),
    ],
)
def test_a_tokenizer_that_makes_texts_endless(folder: Path, name: str, part: Any, words: str) -> None:
    edit_json(folder / "tokenizer.json", **{name: part})
    with pytest.raises(LoadError, match=r"tokenizer\.json: its") as caught:
        check_tokenizer(folder)
    assert words in str(caught.value)


def test_usual_tokenizers_and_parts_of_odd_form_pass(folder: Path) -> None:
    sentencepiece_tokenizer().save(str(folder / "tokenizer.json"))
    check_tokenizer(folder)
    byte_level_tokenizer(bos=True).save(str(folder / "tokenizer.json"))
    check_tokenizer(folder)
    deep: Any = replace("aa")
    for _ in range(300):
        deep = sequence("normalizers", deep, 1)
    for part in (
        5,
        [],
        [replace("aa")] * 99,
        deep,
        {"type": "Replace"},
        {"type": "Sequence", "normalizers": [1, None]},
    ):
        edit_json(folder / "tokenizer.json", normalizer=part)
        check_tokenizer(folder)
    for part in (template(1, 1) | {"special_tokens": 5}, {"single": [{"SpecialToken": {"id": 3}}, 7, "A"]}):
        edit_json(folder / "tokenizer.json", post_processor=part)
        check_tokenizer(folder)


@pytest.mark.parametrize(
    ("charsmap", "words"),
    [(b"\x01", "can't be read"), ((4).to_bytes(4, "little") + b"\0\0\0\x80", "doesn't work")],
    ids=["reading", "encoding"],
)
def test_a_panic_of_the_library_is_an_error_like_any_other(folder: Path, charsmap: bytes, words: str) -> None:
    part = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    edit_json(folder / "tokenizer.json", normalizer=part)
    with pytest.raises(LoadError, match="library gave up") as caught:
        load_model(folder)
    assert f"The tokenizer in {folder} {words}" in str(caught.value)


def test_a_pattern_that_gives_up_on_a_text_refuses_the_text() -> None:
    description = json.loads(byte_level_tokenizer().to_str())
    endless = {"type": "Split", "pattern": {"Regex": r"((a+)+)+$"}, "behavior": "Isolated", "invert": False}
    description["pre_tokenizer"] = endless
    wrapped: Any = PreTrainedTokenizerFast(
        tokenizer_object=type(byte_level_tokenizer()).from_str(json.dumps(description))
    )
    encode = make_encoder(wrapped, 999)
    assert len(encode("the")) == 3
    with pytest.raises(ValueError, match="library gave up"):
        encode("a" * 40 + "b")


def templated(text: str) -> Any:
    chat = make_chat(PreTrainedTokenizerFast(tokenizer_object=byte_level_tokenizer(), chat_template=text))
    assert chat is not None
    return lambda: chat([{"role": "user", "content": "hi"}])


LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize("text", [LOOP, "{% for a in range(9999) %}{{ range(99999)|sum }}{% endfor %}"])
def test_an_endless_template_is_stopped_and_not_tried_again(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    chat = templated(text)
    monkeypatch.setattr(tokenizer_module, "CHAT_SECONDS", 0.05)
    before = sys.gettrace()
    with pytest.raises(ValueError, match=r"can't be applied: it was stopped after 0\.05 seconds"):
        chat()
    assert sys.gettrace() is before
    monkeypatch.setattr(tokenizer_module, "CHAT_SECONDS", 1e9)
    with pytest.raises(ValueError, match=r"stopped after 0\.05 seconds"):
        chat()


def test_a_template_that_says_too_much_or_has_no_memory_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="it makes 20,000,000 characters"):
        templated("{{ 'a' * 20000000 }}")()
    with pytest.raises(ValueError, match="MemoryError"):
        templated("{{ 'a' * 2 ** 62 }}")()


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ raise_exception.__globals__['__builtins__'].open('/etc/passwd').read() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}",
        "{{ messages.append(1) }}",
    ],
)
def test_a_template_reaches_neither_files_nor_the_program(text: str) -> None:
    with pytest.raises(ValueError, match="chat template can't be applied"):
        templated(text)()


def test_a_panic_over_the_vocabulary_of_a_gguf_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        pass

    PanicException.__module__ = "pyo3_runtime"

    def panic(*arguments: object) -> None:
        raise PanicException("index out of bounds")

    tokenizer = byte_level_tokenizer()
    arguments = {**LLAMA, "vocab_size": tokenizer.get_vocab_size(), "head_dim": 8}
    metadata = network_metadata(arguments) | tokenizer_metadata(tokenizer)
    path = write_gguf(tmp_path / "m.gguf", metadata, tensors_of(arguments, random_weights(arguments), "F16"))
    monkeypatch.setattr("engine.gguf_tokenizer._add_tokens", panic)
    words = r"can't be rebuilt \(ValueError: The tokenizer's library gave up: index out of bounds\)"
    with pytest.raises(LoadError, match=words):
        load_model(path)
