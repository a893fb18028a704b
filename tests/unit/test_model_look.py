"""What is told of models before they are loaded: sizes of drafters, verdicts on memory and on two tokenizers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from gguf_files import KINDS, write_model
from model_folders import byte_level_tokenizer, sentencepiece_tokenizer, write_folder

from app.format import millions
from app.model_look import cost_of, look_at, look_at_toy, memory_fit
from app.token_names import compare_tokenizers, difference, entries
from engine.backend import nn, tree_flatten
from engine.drafter_kinds import parse_drafter
from engine.drafting import draft_network
from engine.models import load_pair


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny", num_hidden_layers=4)


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("models") / "tiny.gguf", KINDS["llama"], "Q8_0")


def nbytes(module: Any) -> int:
    flat: Any = tree_flatten(module.parameters())
    return sum(array.nbytes for _, array in flat)


@pytest.mark.parametrize("source", ["folder", "gguf"])
@pytest.mark.parametrize(
    ("drafter", "part"),
    [("requantized:4", ""), ("requantized:8:32:mlp", "mlp"), ("requantized:3:32:attention", "self_attn")],
)
def test_the_cost_told_is_the_cost_paid(source: str, drafter: str, part: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(source)
    made = draft_network(load_pair(path, None), drafter)
    assert made is not None
    layers: Any = nn
    network: Any = made.network
    rounded = [
        module
        for name, module in network.named_modules()
        if isinstance(module, layers.QuantizedLinear | layers.QuantizedEmbedding) and part in name
    ]
    told = cost_of(parse_drafter(drafter), look_at(str(path), True), True).summary
    assert told is not None
    assert told.parameters == made.info.parameters
    assert told.layers == made.info.layers
    assert told.weight_bytes == sum(nbytes(module) for module in rounded) > 0


@pytest.mark.parametrize("source", ["folder", "gguf"])
def test_dropped_layers_are_counted(source: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(source)
    made = draft_network(load_pair(path, None), "dropped:1-1")
    told = cost_of(parse_drafter("dropped:1-1"), look_at(str(path), True), True).summary
    assert made is not None
    assert told is not None
    assert (told.parameters, told.layers, told.weight_bytes) == (made.info.parameters, made.info.layers, 0)


def test_what_cannot_be_made_is_said_before_it_is_tried(folder: Path) -> None:
    look = look_at(str(folder), True)
    assert "from 0 to 3" in cost_of(parse_drafter("dropped:2-4"), look, True).problem
    assert "no layer" in cost_of(parse_drafter("dropped:0-3"), look, True).problem
    assert cost_of(parse_drafter("prompt-lookup"), look, True).summary is None
    assert "nothing gets faster" in cost_of(parse_drafter("self"), look, True).words


def test_memory_counts_a_model_that_is_both_once(folder: Path) -> None:
    look = look_at(str(folder), True)
    assert look.summary is not None
    alone, both = memory_fit(look, None), memory_fit(look, look.summary)
    assert alone is not None
    assert both is not None
    assert alone.needed_bytes == both.needed_bytes == look.summary.usual_bytes
    half = cost_of(parse_drafter("dropped:1-1"), look, True).summary
    drafted = memory_fit(look, half)
    assert drafted is not None
    assert look.summary.usual_bytes < drafted.needed_bytes < 2 * look.summary.usual_bytes
    assert memory_fit(look_at_toy(), None) is None


def test_places_as_people_write_them(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R123: whatever is typed works or is answered, and nothing is asked of the network (conftest refuses it)."""
    spaced = write_folder(tmp_path / "my model é")
    monkeypatch.setenv("HOME", str(tmp_path))
    for place in (str(spaced), spaced.as_uri(), "~/my model é", f'"{spaced}"', f" {spaced} "):
        look = look_at(place, True)
        assert look.summary is not None, (place, look.problem)
        assert look.summary.path == spaced
    for place, words in (
        ("", "No model given"),
        (str(folder / "config.json"), "is a file"),
        ("/nowhere/at all", "no such folder"),
        ("a\0b", "NUL"),
        ("x" * 5000, ""),
        ("https://huggingface.co/owner/name", "no such folder"),
        ("../../etc/passwd", ""),
    ):
        look = look_at(place, True)
        assert look.summary is None
        assert look.problem
        assert words in look.problem
        assert not look.missing
    assert look_at("owner/no-such-model", True).missing == "owner/no-such-model"


def test_a_tokenizer_is_compared_by_its_entries(tmp_path: Path, folder: Path, gguf: Path) -> None:
    same = write_folder(tmp_path / "same")
    padded = write_folder(tmp_path / "padded", vocab_size=300)
    other = write_folder(tmp_path / "other", byte_level_tokenizer((" lead", " thy")))
    foreign = write_folder(tmp_path / "foreign", sentencepiece_tokenizer(), eos="</s>")
    assert compare_tokenizers(folder, same, never).agree is True
    assert compare_tokenizers(folder, padded, never).agree is True
    found = compare_tokenizers(folder, other, never)
    assert found.agree is False
    assert "Ġthe" in found.words
    assert "Ġthy" in found.words
    # A GGUF file against a folder: the same entries are found, and quite another tokenizer is told for sure.
    assert compare_tokenizers(folder, gguf, never).agree is True
    assert compare_tokenizers(gguf, foreign, never).agree is False
    (other / "tokenizer.json").write_text("{")
    assert compare_tokenizers(folder, other, never).agree is None
    (other / "tokenizer.json").unlink()
    assert compare_tokenizers(folder, other, never).agree is None


def test_entries_that_one_lacks_do_not_count() -> None:
    assert difference({0: "a", 1: "b"}, {1: "b", 2: "c"}) is None
    found = difference({0: "a", 1: "b", 5: "x"}, {0: "a", 1: "c", 5: "y"})
    assert found == {"id": 1, "ours": "b", "theirs": "c", "differing": 2, "common": 3}


def test_entries_of_a_list_of_scores(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    added = [{"id": 7, "content": "<s>"}]
    file.write_text(json.dumps({"model": {"vocab": [["a", -1.0], ["b", -2.0]]}, "added_tokens": added}))
    assert entries(file) == {0: "a", 1: "b", 7: "<s>"}


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, ""), (50, "50"), (614_880, "0.6 M"), (4_262_144, "4.3 M"), (134_515_008, "134.5 M"), (1_235_814_400, "1.2 B")],
)
def test_parameters_in_few_characters(count: int, words: str) -> None:
    assert millions(count) == words
