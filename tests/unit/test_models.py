"""Folders load where they can be used, and are refused in words that say what to mend where they can't."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_folders import (
    END,
    LLAMA,
    byte_level_tokenizer,
    edit_json,
    sentencepiece_tokenizer,
    write_folder,
    write_json,
)

from engine.backend import is_cpu, memory_bytes, mx, tree_flatten
from engine.model_files import LoadCancelledError, LoadError
from engine.model_summary import describe_source
from engine.models import (
    bundled_pair_folders,
    load_model,
    load_model_folder,
    load_pair,
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny", eos_token_id=256)


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "tiny"))


def refusal(*places: str | os.PathLike[str]) -> str:
    """What a person reads when this folder, or this pair, is asked for."""
    with pytest.raises(LoadError) as caught:
        load_pair(*places) if len(places) > 1 else load_model_folder(*places)
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def test_a_folder_becomes_a_model(folder: Path) -> None:
    stages: list[tuple[str, int, int]] = []
    model = load_model_folder(folder, lambda *stage: stages.append(stage))
    size = byte_level_tokenizer().get_vocab_size()
    assert model.vocab_size == len(model.vocabulary) == size
    assert model.context_length == 512
    assert (model.info.name, model.info.path) == ("tiny", str(folder))
    assert (model.info.layers, model.info.cache_type, model.info.model_type) == (2, "KVCache", "llama")
    assert model.info.dtype == ("float32" if is_cpu() else "float16")
    attention = 32 * 32 * 2 + 32 * 16 * 2
    assert model.info.parameters == size * 32 + 2 * (attention + 3 * 32 * 64 + 2 * 32) + 32
    cache = model.make_cache()
    logits = model.network(mx.array([model.encode(" lead")]), cache=cache)
    assert logits.shape == (1, 1, size)
    assert [layer.offset for layer in cache] == [1, 1]
    assert [stage[0] for stage in stages] == ["Reading tiny", "Loading tiny (MiB)"]


def on_a_thread(work: Callable[[], Any]) -> Any:
    out: list[Any] = []

    def run() -> None:
        out.append(work())
        mx.clear_streams()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return out[0]


def test_loading_and_running_work_on_another_thread(folder: Path) -> None:
    def work() -> tuple[int, ...]:
        target = load_pair(folder, None).target
        logits = target.network(mx.array([[1, 2]]), cache=target.make_cache())
        return np.array(logits.astype(mx.float32)).shape

    assert on_a_thread(work) == (1, 2, byte_level_tokenizer().get_vocab_size())


def test_nothing_that_was_loaded_is_left_lazy(folder: Path) -> None:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    edit_json(folder / "config.json", rope_scaling={**scaling, "original_max_position_embeddings": 64})
    flat: Any = tree_flatten(dict(on_a_thread(lambda: load_model_folder(folder).network)))
    assert any(name.endswith("_freqs") for name, _ in flat)
    for _, array in flat:
        if isinstance(array, mx.array):
            memoryview(array)  # raises for an array that was left lazy on the other thread


def test_loading_needs_no_network(folder: Path) -> None:
    code = (
        "import socket, sys\n"
        "def refuse(*a, **k): raise SystemExit('a connection was tried')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "from engine.models import load_pair\n"
        "print(load_pair(sys.argv[1], None).target.info.name)"
    )
    env = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=root, env=env, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("tiny\n", 0), done.stderr


def test_progress_can_cancel(folder: Path) -> None:
    with pytest.raises(LoadCancelledError):
        load_model_folder(folder, lambda stage, done, total: stage.startswith("Loading"))


@pytest.mark.parametrize("form", ["{}", "file://{}", "'{}'", " {} ", "~/tiny"])
def test_paths_are_taken_as_people_write_them(folder: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load_model_folder(form.format(folder)).info.path == str(folder)


def test_a_file_address_may_be_encoded(folder: Path, tmp_path: Path) -> None:
    moved = folder.rename(tmp_path / "a b%")
    assert load_model_folder(moved.as_uri()).info.name == "a b%"


def test_places_that_are_no_folder(folder: Path) -> None:
    assert "no such folder" in refusal(folder / "none")
    assert "is a file: expected the folder" in refusal(folder / "config.json")
    assert "Hugging Face id, download it first" in refusal("mlx-community/Llama-3.2-1B-4bit")
    assert "No model given" in refusal("  ")
    assert "NUL" in refusal("a\0b")
    assert "can't be looked at" in refusal("x" * 5000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", ["config.json", "model_type", "the key is missing"]),
        ('{"model_type": "foo"}', ["config.json", "'foo'", "mlx-lm"]),
        ('{"model_type": "../evil"}', ["config.json", "'../evil'"]),
        ('{"model_type": 3}', ["config.json", "model_type", "found 3"]),
        ('{"model_type": "lla', ["config.json", "can't be read as JSON"]),
        ("[]", ["config.json", "expected a JSON object, found list"]),
        ('{"model_type": "llama"}', ["can't be built", "hidden_size"]),
        (None, ["config.json is missing", "model.safetensors"]),
    ],
)
def test_configurations_that_do_not_serve(folder: Path, text: str | None, words: list[str]) -> None:
    if text is None:
        (folder / "config.json").unlink()
    else:
        (folder / "config.json").write_text(text)
    message = refusal(folder)
    assert all(word in message for word in words), message


def test_code_in_the_folder_is_refused(folder: Path) -> None:
    (folder / "evil.py").write_text("raise SystemExit('ran')")
    edit_json(folder / "config.json", model_file="evil.py")
    assert "Draftscope runs no code that comes with a model" in refusal(folder)
    edit_json(folder / "config.json", model_file=None)
    edit_json(folder / "tokenizer_config.json", tokenizer_class="Evil", auto_map={"AutoTokenizer": ["evil.Evil", None]})
    assert "Draftscope runs no code from a model" in refusal(folder)


def test_weights_under_another_name(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "weights.00.safetensors")
    message = refusal(folder)
    assert "model*.safetensors" in message
    assert "weights.00.safetensors" in message


@pytest.mark.parametrize("index", [True, False])
def test_a_missing_shard_is_named(tmp_path: Path, index: bool) -> None:
    folder = write_folder(tmp_path / "sharded", shards=2)
    assert load_model_folder(folder).info.layers == 2
    (folder / "model-00002-of-00002.safetensors").unlink()
    if not index:
        (folder / "model.safetensors.index.json").unlink()
    assert refusal(folder).endswith("missing shard model-00002-of-00002.safetensors.")


@pytest.mark.parametrize("name", ["../elsewhere.safetensors", "/etc/passwd", "..", "a\\b", 5])
def test_a_weight_map_can_not_leave_the_folder(folder: Path, name: object) -> None:
    write_json(folder / "model.safetensors.index.json", {"weight_map": {"x": name}})
    assert "expected plain names of files in this folder" in refusal(folder)


def test_truncated_and_foreign_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    for kept in (len(data) - 6000, 100, 4, 0):
        weights.write_bytes(data[:kept])
        message = refusal(folder)
        assert "model.safetensors" in message
        assert "incomplete" in message
    weights.write_bytes(b"GGUF" + data)
    assert "model.safetensors is not a safetensors file" in refusal(folder)
    weights.write_bytes((10).to_bytes(8, "little") + b"no json at all")
    assert "broken safetensors header" in refusal(folder)


def test_weights_that_do_not_fit_the_configuration(folder: Path) -> None:
    edit_json(folder / "config.json", num_hidden_layers=3)
    assert "can't be built" in refusal(folder)
    edit_json(folder / "config.json", num_hidden_layers=2, hidden_size=48)
    assert "can't be built" in refusal(folder)


def test_a_folder_name_that_is_a_pattern(folder: Path) -> None:
    assert "Rename the folder" in refusal(folder.rename(folder.with_name("tiny [v2]")))


def test_tokenizers_that_are_not_there(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "kept")
    assert f"tokenizer not found in {folder}" in refusal(folder)
    (folder / "tokenizer.model").write_bytes(b"not sentencepiece")
    assert f"The tokenizer in {folder} can't be read" in refusal(folder)
    (folder / "tokenizer.json").write_text('{"version": "1.0", "mod')
    assert "tokenizer.json can't be read as JSON" in refusal(folder)
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"type": "Nothing"}}')
    assert f"The tokenizer in {folder} can't be read" in refusal(folder)
    (folder / "kept").replace(folder / "tokenizer.json")
    (folder / "tokenizer.model").unlink()
    assert load_model_folder(folder).info.name == "tiny"


def test_end_ids_are_the_union_of_all_three_places(folder: Path) -> None:
    end = byte_level_tokenizer().token_to_id(END)
    edit_json(folder / "config.json", eos_token_id=[1, 106])
    write_json(folder / "generation_config.json", {"eos_token_id": 7})
    assert load_model_folder(folder).end_ids == {1, 106, 7, end}
    edit_json(folder / "config.json", eos_token_id=9, text_config={"eos_token_id": [8]})
    write_json(folder / "generation_config.json", {"eos_token_id": [5, 100000, -1]})
    assert load_model_folder(folder).end_ids == {9, 8, 5, end}
    edit_json(folder / "config.json", eos_token_id="</s>")
    assert "eos_token_id: expected a token id or a list of them, found '</s>'" in refusal(folder)


def test_the_context_length_is_read_where_it_stands(folder: Path) -> None:
    edit_json(folder / "config.json", max_position_embeddings=None, text_config={"max_position_embeddings": 77})
    assert load_model_folder(folder).context_length == 77
    edit_json(folder / "config.json", text_config=None)
    assert load_model_folder(folder).context_length is None


def test_padded_logits_have_unused_ids(tmp_path: Path) -> None:
    size = byte_level_tokenizer().get_vocab_size()
    model = load_model_folder(write_folder(tmp_path / "padded", vocab_size=size + 9))
    assert model.vocab_size == size + 9
    assert model.vocabulary.kind(size) == "unused"
    assert model.vocabulary.decode([size, *b"ok"]) == "ok"


def test_packed_weights_keep_their_bits(tmp_path: Path) -> None:
    import mlx_lm.utils

    source = write_folder(tmp_path / "plain", vocab_size=320)
    network, config = mlx_lm.utils.load_model(source)
    network, config = mlx_lm.utils.quantize_model(network, config, group_size=32, bits=4)
    packed = tmp_path / "packed"
    shutil.copytree(source, packed)
    mlx_lm.utils.save_model(packed, network)
    write_json(packed / "config.json", config)
    info = load_model_folder(packed).info
    assert info.dtype == f"{'float32' if is_cpu() else 'float16'}, 4-bit weights"
    assert info.parameters == load_model_folder(source).info.parameters


def test_a_pair_of_one_family(original: Path, tmp_path: Path) -> None:
    draft = write_folder(tmp_path / "small", num_hidden_layers=1)
    pair = load_pair(original, draft)
    assert pair.draft is not None
    assert (pair.target.info.name, pair.draft.info.name) == ("tiny", "small")
    assert pair.notices == ()
    assert load_pair(original, None).draft is None


def test_the_same_folder_twice_is_said(original: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(original)
    for second in (original, tmp_path / "link"):
        pair = load_pair(original, second)
        assert pair.draft is not None
        assert pair.draft.network is pair.target.network
        assert "same model" in pair.notices[0]


def test_different_tokenizers_of_one_size_are_refused(original: Path, tmp_path: Path) -> None:
    other = byte_level_tokenizer((" lead", " tho"))
    assert other.get_vocab_size() == byte_level_tokenizer().get_vocab_size()
    message = refusal(original, write_folder(tmp_path / "other", other))
    assert f"id {other.token_to_id('Ġtho')} is ' the' in the target and ' tho' in the draft" in message
    assert "'tiny'" in message
    assert "'other'" in message
    message = refusal(original, write_folder(tmp_path / "llama", sentencepiece_tokenizer(), eos="</s>"))
    assert "different tokenizers: id 0 is '\\x00' in the target and '<unk>' in the draft" in message


def test_logits_of_different_widths_are_cut_to_one(original: Path, tmp_path: Path) -> None:
    size = byte_level_tokenizer().get_vocab_size()
    pair = load_pair(original, write_folder(tmp_path / "wide", vocab_size=size + 8))
    assert pair.draft is not None
    assert pair.target.vocab_size == pair.draft.vocab_size == size
    assert f"logits for {size} and {size + 8} ids of one tokenizer: both are cut to {size}" in " ".join(pair.notices)


def test_a_draft_without_bos_is_said(original: Path, tmp_path: Path) -> None:
    target = write_folder(tmp_path / "bos", byte_level_tokenizer(bos=True))
    (notice,) = load_pair(target, original).notices
    assert "BOS" in notice


def test_a_bundled_pair_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("target", "draft"):
        monkeypatch.setattr("importlib.resources.files", lambda package: tmp_path / package)
        with pytest.raises(LoadError, match=f"bundled pair is not in this installation.*{name} is missing"):
            bundled_pair_folders()
        write_folder(tmp_path / "resources" / "models" / name)
    assert load_model_folder(bundled_pair_folders()[1]).info.name == "bundled draft"


def test_a_hub_snapshot_is_called_by_its_id(original: Path, tmp_path: Path) -> None:
    place = tmp_path / "models--owner--some-model" / "snapshots" / "0123abc"
    shutil.copytree(original, place)
    assert load_model_folder(place).info.name == "owner/some-model"
    assert json.loads((place / "config.json").read_text())["model_type"] == LLAMA["model_type"]


def test_the_digest_follows_the_configuration_and_the_tokenizer(original: Path, tmp_path: Path) -> None:
    shutil.copytree(original, tmp_path / "copy")
    first = load_model_folder(original).info.digest
    assert len(first) == 64
    assert load_model_folder(tmp_path / "copy").info.digest == first
    config = tmp_path / "copy" / "config.json"
    config.write_text(config.read_text() + " ")
    assert load_model_folder(tmp_path / "copy").info.digest != first


@pytest.mark.parametrize("kind", ["qwen3_5_mtp", "eagle3", "deepseek_v3-mtp"])
def test_a_head_that_cannot_stand_alone_is_refused_by_name(folder: Path, kind: str) -> None:
    """Case R96."""
    edit_json(folder / "config.json", model_type=kind)
    message = refusal(folder)
    assert repr(kind) in message
    assert "not usable as a stand-alone drafter" in message


def test_models_are_let_go_of_when_they_are_switched(tmp_path: Path) -> None:
    from gguf_files import KINDS, write_model

    size = {"hidden_size": 256, "intermediate_size": 512}  # large against what MLX holds beside
    folder = write_folder(tmp_path / "folder", **size)
    file = write_model(tmp_path / "m.gguf", {**KINDS["llama"], **size}, "Q8_0")
    mx.clear_cache()
    before = sum(memory_bytes())
    least = 1_000_000
    for turn in range(5):
        pair = load_pair(*((folder, file) if turn % 2 else (file, folder)))
        assert pair.draft is not None
        mx.eval(pair.target.network(mx.array([[1, 2]]), cache=pair.target.make_cache()))
        assert memory_bytes()[0] - before > least, "the models are too small to tell"
        held = [weakref.ref(pair.target), weakref.ref(pair.draft), weakref.ref(pair.target.network)]
        del pair
        mx.clear_cache()
        assert all(reference() is None for reference in held)
        assert abs(sum(memory_bytes()) - before) < least / 10


def test_tokenizers_are_let_go_of_with_their_models(tmp_path: Path) -> None:
    from gguf_files import KINDS, write_model

    def tokenizers() -> int:
        gc.collect()
        kinds = ("PreTrainedTokenizerFast", "TokenizersBackend", "TokenizerWrapper")
        return sum(type(thing).__name__ in kinds for thing in gc.get_objects())

    before = tokenizers()
    for place in (write_folder(tmp_path / "folder"), write_model(tmp_path / "m.gguf", KINDS["llama"], "Q8_0")):
        model = load_model(place)
        assert tokenizers() > before
        encode = weakref.ref(model.encode)
        del model
        assert encode() is None
        assert tokenizers() == before


def test_the_chat_template_of_a_folder_is_applied(folder: Path) -> None:
    assert load_model(folder).chat is None
    template = (
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}{% if add_generation_prompt %} >{% endif %}"
    )
    edit_json(folder / "tokenizer_config.json", chat_template=template)
    chat = load_model(folder).chat
    assert chat is not None
    assert chat([{"role": "system", "content": "be"}, {"role": "user", "content": "<b>"}]) == "[system] be[user] <b> >"
    edit_json(folder / "tokenizer_config.json", chat_template="{{ messages.nothing.here }}")
    broken = load_model(folder).chat
    assert broken is not None
    with pytest.raises(ValueError, match="chat template can't be applied"):
        broken([{"role": "user", "content": "hi"}])


def test_a_kind_that_asks_for_a_package_of_its_own_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """mlx-lm's olmo prints what is missing and calls exit()."""
    monkeypatch.setitem(sys.modules, "hf_olmo", None)
    edit_json(folder / "config.json", model_type="olmo")
    assert "can't build a olmo model on this machine: To run olmo install ai2-olmo" in refusal(folder)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["cache", "base", "__init__", "activations"])
def test_a_module_without_a_network_is_no_kind_of_model(folder: Path, name: str) -> None:
    edit_json(folder / "config.json", model_type=name)
    assert f"model_type {name!r} is not one that mlx-lm" in refusal(folder)


def test_a_refusal_that_quotes_a_long_name_is_cut(folder: Path) -> None:
    edit_json(folder / "config.json", eos_token_id="x" * 10**6)
    said = refusal(folder)
    assert 1000 < len(said) < 2100
    assert said.startswith(str(folder))
    assert said.endswith("xxx'.")
    edit_json(folder / "config.json", model_type="x" * 101)
    assert 'expected a model_type such as "llama", but found' in refusal(folder)
    edit_json(folder / "config.json", model_type="x" * 100)
    assert "is not one that mlx-lm" in refusal(folder)


def test_a_window_of_no_length_is_refused(tmp_path: Path) -> None:
    gemma = {"model_type": "gemma3_text", "head_dim": 8, "sliding_window": 0, "sliding_window_pattern": 2}
    folder = write_folder(tmp_path / "gemma", **gemma)
    assert "was loaded but can't run" in refusal(folder)


def test_weights_that_are_no_numbers_are_not_mistaken_for_a_cache_that_can_not_go_back(tmp_path: Path) -> None:
    """Where such a model is run, the run says where the first one came."""
    folder = write_folder(tmp_path / "gemma", model_type="gemma3_text", head_dim=8, sliding_window_pattern=2)
    weights = {name: mx.full(array.shape, float("nan")) for name, array in _weights(folder).items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    assert load_model_folder(folder).info.model_type == "gemma3_text"


def _weights(folder: Path) -> dict[str, mx.array]:
    found: Any = mx.load(str(folder / "model.safetensors"))
    return dict(found)


def test_a_context_length_beyond_all_bounds_is_no_limit(folder: Path) -> None:
    edit_json(folder / "config.json", max_position_embeddings=2**40 - 1)
    assert load_model_folder(folder).context_length == 2**40 - 1
    edit_json(folder / "config.json", max_position_embeddings=10**400)
    assert load_model_folder(folder).context_length is None
    assert describe_source(folder, on_cpu=True).memory_bytes() > 0


def test_loading_a_kind_that_transformers_lacks_says_nothing_of_it(tmp_path: Path) -> None:
    """In a process of its own, where nothing has told that library to be silent."""
    folder = write_folder(
        tmp_path / "rwkv",
        **{"model_type": "rwkv7", "head_dim": 16, "norm_eps": 1e-5, "hidden_size": 32},
        **dict.fromkeys(("a_low_rank_dim", "v_low_rank_dim", "gate_low_rank_dim", "decay_low_rank_dim"), 8),
    )
    script = f"from engine.models import load_model; print(load_model({str(folder)!r}).info.model_type)"
    environment = {name: value for name, value in os.environ.items() if name != "TRANSFORMERS_VERBOSITY"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=environment)
    assert done.stdout == "rwkv7\n", done.stderr
    assert "You are using a model of type" not in done.stderr
