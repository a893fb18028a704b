"""GGUF files give the networks and tokenizers that they were made from, or are refused in words before use."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf_files import (
    KINDS,
    SIZE,
    TOKENIZER,
    gguf_bytes,
    network_metadata,
    pack,
    random_weights,
    tensors_of,
    tokenizer_metadata,
    unpacked,
    value,
    write_gguf,
    write_model,
)
from model_folders import END, byte_level_tokenizer, network_of, sentencepiece_tokenizer

from engine.backend import is_cpu, mx
from engine.gguf import _TENSOR_TYPES, read_gguf
from engine.gguf_model import UnpackingError
from engine.gguf_tokenizer import gguf_end_ids, load_gguf_tokenizer
from engine.model_files import LoadCancelledError, LoadError
from engine.model_summary import describe_source
from engine.models import LanguageModel, load_model, load_pair
from engine.tokenizer import build_vocabulary, make_encoder


def logits_of(network: Any, ids: list[int]) -> np.ndarray:
    return np.array(network(mx.array([ids])).astype(mx.float32))[0]


def expected_logits(arguments: dict[str, Any], kind: str, ids: list[int]) -> np.ndarray:
    """Of mlx-lm's own network with the original weights, rounded as `kind` rounds them."""
    network = network_of(arguments)
    weights = {
        name: unpacked(pack(array, kind), kind, array.shape) if array.ndim == 2 else array
        for name, array in random_weights(arguments).items()
    }
    network.load_weights([(name, mx.array(array)) for name, array in weights.items()])
    return logits_of(network, ids)


IDS = [5, 200, 77, 77, 3, 140, 9]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("gguf") / "tiny.Q4_0.gguf", KINDS["llama"], "Q4_0")


@pytest.fixture(scope="module")
def model(llama: Path) -> LanguageModel:
    return load_model(llama)


@pytest.mark.skipif(not is_cpu(), reason="compares float32")
@pytest.mark.parametrize("architecture", KINDS)
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0"])
def test_the_network_is_the_one_that_was_written(tmp_path: Path, architecture: str, kind: str) -> None:
    arguments = KINDS[architecture]
    loaded = load_model(write_model(tmp_path / "m.gguf", arguments, kind))
    found = logits_of(loaded.network, IDS)
    np.testing.assert_allclose(found, expected_logits(arguments, kind, IDS), rtol=0, atol=2e-4)
    packed = {name for name, module in loaded.network.named_modules() if hasattr(module, "bits")}
    assert bool(packed) == kind.startswith("Q")
    assert loaded.notices == ()


def test_what_is_known_of_it(llama: Path, model: LanguageModel) -> None:
    info = model.info
    assert (info.name, info.path, info.model_type) == ("tiny.Q4_0", str(llama), "llama")
    assert (info.layers, info.vocab_size, info.context_length) == (2, SIZE, 512)
    assert info.dtype == f"{'float32' if is_cpu() else 'float16'}, 4-bit weights"
    assert (
        info.parameters
        == describe_source(llama, True).parameters
        == sum(a.size for a in random_weights(KINDS["llama"]).values())
    )
    assert len(info.digest) == 64
    assert model.end_ids == {TOKENIZER.token_to_id(END)}
    assert model.chat is None


def test_types_can_be_mixed_and_each_keeps_its_bits(tmp_path: Path) -> None:
    loaded = load_model(write_model(tmp_path / "m.gguf", KINDS["llama"], "Q4_1", token_embd="Q8_0", ffn_up="F16"))
    layer = loaded.network.model.layers[0]
    assert (loaded.network.model.embed_tokens.bits, layer.mlp.down_proj.bits) == (8, 4)
    assert not hasattr(layer.mlp.up_proj, "bits")


def test_types_that_can_not_stay_packed_are_unpacked_only_if_asked(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", KINDS["llama"], "Q8_0", ffn_down="Q5_0")
    assert describe_source(path, True).to_unpack == ("Q5_0",)
    with pytest.raises(UnpackingError, match=r"type Q5_0 can't be held packed, as Q4_0, Q4_1, Q8_0 can"):
        load_model(path)
    loaded = load_model(path, unpack=True)
    assert loaded.notices == (f"m.gguf: Q5_0 unpacked to {'float32' if is_cpu() else 'float16'}.",)
    weights = random_weights(KINDS["llama"])["model.layers.1.mlp.down_proj.weight"]
    found = np.array(loaded.network.model.layers[1].mlp.down_proj.weight.astype(mx.float32))
    np.testing.assert_allclose(found, unpacked(pack(weights, "Q5_0"), "Q5_0", weights.shape), atol=1e-3)


@pytest.mark.skipif(not is_cpu(), reason="compares float32")
def test_stretched_wavelengths_are_those_of_llama_3(tmp_path: Path) -> None:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    arguments = {**KINDS["llama"], "rope_scaling": {**scaling, "original_max_position_embeddings": 64}}
    original = network_of(arguments)
    base = arguments["rope_theta"] ** (np.arange(0, 8, 2) / 8)
    factors = np.array(original.layers[0].self_attn.rope._freqs) / base
    assert factors.max() > 7, "nothing is stretched"
    tensors = tensors_of(arguments, random_weights(arguments), "F32")
    tensors["rope_freqs.weight"] = ((4,), "F32", pack(factors, "F32"))
    path = write_gguf(tmp_path / "m.gguf", network_metadata(arguments) | tokenizer_metadata(TOKENIZER), tensors)
    ids = [*range(0, 250, 2)]
    np.testing.assert_allclose(
        logits_of(load_model(path).network, ids), expected_logits(arguments, "F32", ids), atol=2e-4
    )


def test_a_gguf_file_and_a_folder_make_a_pair(tmp_path: Path, llama: Path) -> None:
    from model_folders import write_folder

    pair = load_pair(llama, write_folder(tmp_path / "folder"))
    assert pair.draft is not None
    assert pair.target.encode(" the") == pair.draft.encode(" the")
    (tmp_path / "link.gguf").symlink_to(llama)
    assert "same model" in load_pair(llama, tmp_path / "link.gguf").notices[0]


def test_a_folder_that_holds_only_a_gguf_file_stands_for_it(tmp_path: Path, llama: Path) -> None:
    (tmp_path / "a.gguf").symlink_to(llama)
    assert load_model(tmp_path).info.name == "a"
    (tmp_path / "b.gguf").symlink_to(llama)
    with pytest.raises(LoadError, match=r"several GGUF files: give the path of one .*a\.gguf, b\.gguf"):
        load_model(tmp_path)


def test_progress_counts_the_bytes_and_can_cancel(llama: Path) -> None:
    stages: list[str] = []
    load_model(llama, lambda stage, done, total: stages.append(stage))
    assert stages[0] == "Reading tiny.Q4_0.gguf"
    assert stages.count("Loading tiny.Q4_0.gguf (MiB)") > 20
    with pytest.raises(LoadCancelledError):
        load_model(llama, lambda stage, done, total: stage.startswith("Loading"))


def test_a_file_that_may_only_be_read_is_read(llama: Path) -> None:
    llama.chmod(0o444)
    assert load_model(llama).info.layers == 2


def test_sizes_of_the_types_are_those_of_llama_cpp() -> None:
    for number, (name, block, nbytes) in _TENSOR_TYPES.items():
        assert GGMLQuantizationType(number).name == name
        assert GGML_QUANT_SIZES[GGMLQuantizationType(number)] == (block, nbytes)


# What the header may say -------------------------------------------------------------------------------------------

METADATA = network_metadata(KINDS["llama"]) | tokenizer_metadata(TOKENIZER)
TENSORS = tensors_of(KINDS["llama"], random_weights(KINDS["llama"]), "Q8_0")


def refusal(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(LoadError) as caught:
        load_model(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"general.architecture": "gemma3"}, "architecture 'gemma3' can't be built"),
        ({"general.architecture": 3}, "general.architecture: expected a string, found 3"),
        ({"llama.block_count": 3}, "3 layers are counted, weights are there for 2"),
        ({"llama.block_count": 2**31 - 1}, "2147483647 layers are counted"),
        ({"llama.block_count": 1}, "'blk.1"),
        ({"llama.block_count": -1}, "expected a whole number from 1 on, found -1"),
        ({"llama.block_count": 2.0}, "expected a whole number, found 2.0"),
        ({"llama.block_count": True}, "expected a whole number, found True"),
        ({"llama.embedding_length": 64}, "expected the shape"),
        ({"llama.embedding_length": None}, "the key llama.embedding_length is missing"),
        ({"llama.attention.head_count": [4, 4]}, "expected a whole number, found a list of 2"),
        ({"llama.attention.head_count": 3}, "3 heads"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "expected a finite number, found nan"),
        ({"llama.rope.freq_base": -1.0}, "must be above 0"),
        ({"llama.rope.dimension_count": 4}, "rope.dimension_count: expected 8, found 4"),
        ({"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0}, "'yarn' with factor 4"),
        ({"llama.expert_count": 8}, "mixture of experts"),
        ({"split.count": 3}, "one of 3 parts"),
        ({"general.alignment": 48}, "expected a power of two from 8 to 65536, found 48"),
        ({"tokenizer.ggml.model": "t5"}, "vocabulary of the kind 't5'"),
        ({"tokenizer.ggml.pre": "other"}, "tokenizer.ggml.pre 'other'"),
        ({"tokenizer.ggml.pre": None}, "tokenizer.ggml.pre ''"),
        ({"tokenizer.ggml.merges": ["a"]}, "expected two pieces, found 'a'"),
        ({"tokenizer.ggml.merges": ["a xyz"]}, "tokenizer can't be rebuilt"),
        ({"tokenizer.ggml.tokens": ["a", "a"]}, "tokenizer.ggml.token_type: expected 2 entries"),
        ({"tokenizer.ggml.eos_token_id": 99999}, "eos_token_id: 99999 is none of the"),
    ],
)
def test_metadata_that_does_not_serve(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    metadata = {key: entry for key, entry in (METADATA | changes).items() if entry is not None}
    assert words in refusal(tmp_path, gguf_bytes(metadata, TENSORS))


def test_tensors_that_do_not_serve(tmp_path: Path) -> None:
    shape, _, data = TENSORS["blk.0.ffn_up.weight"]

    def with_up(*entry: Any) -> str:
        return refusal(tmp_path, gguf_bytes(METADATA, TENSORS | {"blk.0.ffn_up.weight": entry}))

    assert "expected the shape (64, 32), found (32, 64)" in with_up((32, 64), "Q8_0", data)
    assert "not a multiple of 32 as Q8_0 needs" in with_up((64, 33), "Q8_0", data)
    assert "has the shape (0, 32)" in with_up((0, 32), "Q8_0", b"")
    assert "has 5 dimensions" in with_up((1, 1, 1, 64, 32), "Q8_0", data)
    assert "'extra.weight' has no place" in refusal(
        tmp_path, gguf_bytes(METADATA, TENSORS | {"extra.weight": (shape, "Q8_0", data)})
    )
    without = {name: entry for name, entry in TENSORS.items() if name != "blk.1.attn_v.weight"}
    assert "Missing 1 parameters" in refusal(tmp_path, gguf_bytes(METADATA, without))
    norm = {"output_norm.weight": ((32,), "Q8_0", pack(np.ones((1, 32)), "Q8_0"))}
    assert "model.norm is packed" in refusal(tmp_path, gguf_bytes(METADATA, TENSORS | norm))


def test_a_type_of_packing_that_is_not_held_is_named(tmp_path: Path) -> None:
    arguments = {**KINDS["llama"], "hidden_size": 256, "num_hidden_layers": 1}
    tensors = tensors_of(arguments, random_weights(arguments), "Q8_0")
    tensors["blk.0.ffn_up.weight"] = ((64, 256), "IQ2_XXS", bytes(64 * 66))
    data = gguf_bytes(network_metadata(arguments) | tokenizer_metadata(TOKENIZER), tensors)
    assert "tensors of type IQ2_XXS can't be held packed" in refusal(tmp_path, data)
    assert load_model(tmp_path / "bad.gguf", unpack=True).notices[0].startswith("bad.gguf: IQ2_XXS unpacked")


def test_headers_that_contradict_the_file(tmp_path: Path) -> None:
    whole = gguf_bytes(METADATA, TENSORS)
    assert "is not a GGUF file" in refusal(tmp_path, b"GGML" + whole[4:])
    assert "incomplete (3 bytes)" in refusal(tmp_path, whole[:3])
    assert "GGUF version 1 is not supported" in refusal(tmp_path, gguf_bytes(METADATA, TENSORS, version=1))
    assert f"{len(whole)} bytes expected, {len(whole) - 32} found" in refusal(tmp_path, whole[:-32])
    assert "lists 266 strings, which the file has no room for" in refusal(tmp_path, whole[:2000])
    assert "is it incomplete" in refusal(tmp_path, whole[: whole.index(b"blk.1.ffn_up.weight") + 30])
    for place, count in ((8, 2**60), (16, 2**60), (8, 2**64 - 1)):
        assert "the file has no room for" in refusal(
            tmp_path, whole[:place] + struct.pack("<Q", count) + whole[place + 8 :]
        )
    assert "key 1 has 9223372036854775808 bytes" in refusal(
        tmp_path, whole[:24] + struct.pack("<Q", 2**63) + whole[32:]
    )
    nested = struct.pack("<IIQ", 9, 9, 1) + value([1])
    assert "where numbers, strings and plain lists are expected" in refusal(
        tmp_path, gguf_bytes({**METADATA, "x": nested}, TENSORS)
    )
    assert "truth values other than 0 and 1" in refusal(
        tmp_path, gguf_bytes({**METADATA, "x": struct.pack("<IB", 7, 2)}, TENSORS)
    )
    assert "is not UTF-8" in refusal(
        tmp_path, gguf_bytes({**METADATA, "x": struct.pack("<IQ", 8, 1) + b"\xff"}, TENSORS)
    )
    twice = whole.replace(b"blk.1.attn_k.weight", b"blk.1.attn_v.weight")
    assert "'blk.1.attn_v.weight' comes twice" in refusal(tmp_path, twice)
    twice = whole.replace(b"llama.rope.freq_base", b"llama.context_length")
    assert "the key 'llama.context_length' comes twice" in refusal(tmp_path, twice)


def offset_place(whole: bytes, name: bytes, dimensions: int) -> int:
    return whole.index(name) + len(name) + 4 + 8 * dimensions + 4


def test_tensors_that_overlap_or_lie_outside(tmp_path: Path) -> None:
    whole = bytearray(gguf_bytes(METADATA, TENSORS))
    place = offset_place(bytes(whole), b"blk.1.ffn_up.weight", 2)
    for offset, words in ((0, "overlap"), (2**62, "is incomplete"), (33, "not at a multiple of 32")):
        whole[place : place + 8] = struct.pack("<Q", offset)
        assert words in refusal(tmp_path, bytes(whole))
    whole[place - 4 : place] = struct.pack("<I", 77)
    assert "of a type that is not known here (number 77)" in refusal(tmp_path, bytes(whole))


def test_metadata_of_every_kind_is_read(tmp_path: Path) -> None:
    entries = {"a": True, "b": 7, "c": -7, "d": 0.5, "e": "ü", "f": [1, 2], "g": ["x", "yz"], "h": [0.5], "i": []}
    file = read_gguf(write_gguf(tmp_path / "m.gguf", entries, {"t": ((2, 3), "F32", bytes(24))}))
    assert file.metadata == entries
    assert (file.tensors["t"].shape, file.tensors["t"].nbytes) == ((2, 3), 24)


# Tokenizers --------------------------------------------------------------------------------------------------------

TEXTS = [" lead the lead", "e\u0301x 🙂", f"a{END}b<café>c", "  two  spaces ", "it's 12345\n\n x"]


def rebuilt(tmp_path: Path, tokenizer: Any, pre: str = "gpt-2", **changes: Any) -> Any:
    metadata = tokenizer_metadata(tokenizer, pre) | {f"tokenizer.ggml.{key}": entry for key, entry in changes.items()}
    return load_gguf_tokenizer(read_gguf(write_gguf(tmp_path / "t.gguf", metadata, {"t": ((1,), "F32", bytes(4))})))


@pytest.mark.parametrize("original", [byte_level_tokenizer(), sentencepiece_tokenizer()], ids=["bytes", "pieces"])
def test_a_rebuilt_tokenizer_gives_the_same_ids_and_pieces(
    request: pytest.FixtureRequest, tmp_path: Path, original: Any
) -> None:
    from transformers import PreTrainedTokenizerFast

    tokenizer, wrapped = rebuilt(tmp_path, original), PreTrainedTokenizerFast(tokenizer_object=original)
    size = original.get_vocab_size()
    first, second = (build_vocabulary(each, size, []) for each in (tokenizer, wrapped))
    assert first == second
    ours, theirs = make_encoder(tokenizer, size), make_encoder(wrapped, size)
    for text in TEXTS:
        assert ours(text) == theirs(text)
        assert "pieces" in request.node.name or first.decode(ours(text)) == text.replace(END, "")


def test_bos_comes_as_the_metadata_says(tmp_path: Path) -> None:
    bytes_, pieces = byte_level_tokenizer(), sentencepiece_tokenizer()
    bos = bytes_.token_to_id("<s>")
    encode = make_encoder(rebuilt(tmp_path, bytes_, add_bos_token=True), 999)
    assert encode("the") == encode("<s>the") == [bos, *b"the"]
    assert make_encoder(rebuilt(tmp_path, bytes_), 999)("the") == [*b"the"]
    assert make_encoder(rebuilt(tmp_path, pieces), 999)("lead")[0] == 1
    assert make_encoder(rebuilt(tmp_path, pieces, add_bos_token=False), 999)("lead")[0] != 1
    spaced = make_encoder(rebuilt(tmp_path, pieces, add_space_prefix=False, add_bos_token=False), 999)
    assert spaced("lead") == [pieces.token_to_id(letter) for letter in "lead"]


@pytest.mark.parametrize(
    ("pre", "cuts"),
    [
        ("gpt-2", ["a", "Ġ12345", "'s"]),
        ("smollm", ["a", "Ġ", "1", "2", "3", "4", "5", "'s"]),
        ("llama-bpe", ["a", "Ġ", "123", "45", "'s"]),
        ("qwen2", ["a", "Ġ", "1", "2", "3", "4", "5", "'s"]),
    ],
)
def test_texts_are_cut_as_the_vocabulary_wants(tmp_path: Path, pre: str, cuts: list[str]) -> None:
    backend = rebuilt(tmp_path, byte_level_tokenizer(), pre).backend_tokenizer
    assert [cut for cut, _ in backend.pre_tokenizer.pre_tokenize_str("a 12345's")] == cuts


def test_equal_scores_are_no_order(tmp_path: Path) -> None:
    size = sentencepiece_tokenizer().get_vocab_size()
    with pytest.raises(LoadError, match="pieces of equal score"):
        rebuilt(tmp_path, sentencepiece_tokenizer(), scores=[0.0] * size)


def test_pieces_that_would_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(pieces: list[str]) -> str:
        tokens = ["<unk>", *pieces]
        changes = {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [2] + [1] * len(pieces),
            "tokenizer.ggml.scores": [-float(token) for token in range(len(tokens))],
            "tokenizer.ggml.eos_token_id": 0,
        }
        path = write_gguf(tmp_path / "m.gguf", METADATA | changes, {})
        with pytest.raises(LoadError) as caught:
            load_gguf_tokenizer(read_gguf(path))
        return str(caught.value)

    assert "id 2 has 1001 characters, at most 1000 are expected" in refused(["a", "ab" * 500 + "a"])
    monkeypatch.setattr("engine.gguf_tokenizer._MAX_MERGES", 4000)
    assert "its pieces are made of each other in too many ways" in refused(["a" * n for n in range(1, 100)])


def test_ends_and_the_chat_template_come_from_the_metadata(tmp_path: Path, llama: Path) -> None:
    template = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    )
    changes = {"tokenizer.chat_template": template, "tokenizer.ggml.eot_token_id": 7}
    path = write_gguf(tmp_path / "m.gguf", METADATA | changes, TENSORS)
    model = load_model(path)
    assert model.end_ids == gguf_end_ids(read_gguf(path)) == {7, TOKENIZER.token_to_id(END)}
    pieces = [*METADATA["tokenizer.ggml.tokens"]]
    pieces[TOKENIZER.token_to_id("<s>")] = "<|eot_id|>"
    named = write_gguf(tmp_path / "named.gguf", METADATA | {"tokenizer.ggml.tokens": pieces}, TENSORS)
    assert gguf_end_ids(read_gguf(named)) == {TOKENIZER.token_to_id("<s>"), TOKENIZER.token_to_id(END)}
    assert model.chat is not None
    assert model.chat([{"role": "user", "content": "hi"}]) == "<user>hi>"
    bad = load_model(write_gguf(path, METADATA | {"tokenizer.chat_template": "{{ raise_exception('no') }}"}, TENSORS))
    assert bad.chat is not None
    with pytest.raises(ValueError, match="chat template can't be applied: no"):
        bad.chat([{"role": "user", "content": "hi"}])
