"""What is told of a model before it is loaded is what it then is, and what won't fit is said beforehand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from gguf_files import KINDS, write_model
from model_folders import edit_json, write_folder, write_json

from engine import model_summary
from engine.backend import is_cpu, mx, tree_flatten
from engine.model_files import LoadError
from engine.model_summary import TooLargeError, describe_source, fits, in_gib, memory_of_machine
from engine.models import load_model, load_pair


def packed_folder(place: Path) -> Path:
    import mlx_lm.utils

    source = write_folder(place, vocab_size=320)
    network, config = mlx_lm.utils.load_model(source)
    network, config = mlx_lm.utils.quantize_model(network, config, group_size=32, bits=4)
    mlx_lm.utils.save_model(source, network)
    write_json(source / "config.json", config)
    return source


@pytest.mark.parametrize("kind", ["folder", "sharded", "packed", "Q4_1", "Q8_0", "F16", "F32"])
def test_a_summary_is_what_the_model_then_is(tmp_path: Path, kind: str) -> None:
    if kind == "packed":
        place = packed_folder(tmp_path / "m")
    elif kind in ("folder", "sharded"):
        place = write_folder(tmp_path / "m", shards=2 if kind == "sharded" else 1)
    else:
        place = write_model(tmp_path / "m.gguf", KINDS["llama"], kind, token_embd="Q8_0" if kind == "Q4_1" else kind)
    told = describe_source(place, is_cpu())
    model = load_model(place)
    info = model.info
    assert (told.architecture, told.parameters, told.layers) == (info.model_type, info.parameters, info.layers)
    assert (told.vocab_size, told.context_length) == (info.vocab_size, info.context_length)
    assert told.weight_bytes == sum(array.nbytes for _, array in tree_flatten(model.network.parameters()))
    cache = model.make_cache()
    mx.eval(model.network(mx.array([[1, 2, 3]]), cache=cache))
    held = sum(array.nbytes / array.shape[2] for layer in cache for array in (layer.keys, layer.values))
    assert told.cache_bytes_per_token == held
    assert told.memory_bytes(100) == told.weight_bytes + 100 * held
    assert told.memory_bytes() == told.memory_bytes(512) == told.usual_bytes
    words = {"packed": "4-bit, groups of 32", "Q4_1": "Q4_1, Q8_0", "Q8_0": "Q8_0"}
    assert told.quantization == words.get(kind, "none")


def test_a_long_context_does_not_decide(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    edit_json(folder / "config.json", max_position_embeddings=1_000_000)
    told = describe_source(folder, True)
    assert told.cache_bytes_per_token is not None
    assert told.usual_bytes == told.weight_bytes + 4096 * told.cache_bytes_per_token
    assert told.memory_bytes() == told.weight_bytes + 1_000_000 * told.cache_bytes_per_token


def test_the_nested_configuration_of_a_language_model_is_read(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    part = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 9}
    edit_json(folder / "config.json", num_hidden_layers=None, vocab_size=None, text_config=part)
    told = describe_source(folder, False)
    assert (told.layers, told.vocab_size, told.cache_bytes_per_token) == (2, 9, 2 * 2 * 4 * 8 * 2)


def test_what_does_not_fit_is_refused_before_it_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, file = write_folder(tmp_path / "m"), write_model(tmp_path / "n.gguf", KINDS["llama"], "Q8_0")
    needed = [describe_source(place, is_cpu()).usual_bytes for place in (folder, file)]
    monkeypatch.setattr(model_summary, "memory_of_machine", lambda: (2**40, int(sum(needed) / 0.9) - 2))
    with pytest.raises(TooLargeError, match=r"m and n\.gguf need about .* are free: they would not fit\."):
        load_pair(folder, file)
    assert load_pair(folder, folder).draft is not None  # one copy
    assert load_pair(folder, file, allow_large=True).draft is not None
    monkeypatch.setattr(model_summary, "memory_of_machine", lambda: (2**40, needed[0]))
    with pytest.raises(TooLargeError, match=r"m needs about .* free: it would not fit"):
        load_model(folder)
    assert load_model(folder, allow_large=True).info.name == "m"


def test_a_verdict_names_both_figures(tmp_path: Path) -> None:
    told = describe_source(write_folder(tmp_path / "m"), True)
    verdict = fits([told, told], 2**33)
    assert verdict.fits
    assert (verdict.needed_bytes, verdict.free_bytes) == (2 * told.usual_bytes, 2**33)
    assert verdict.words == f"m and m need about {in_gib(2 * told.usual_bytes)} of memory, 8.0 GiB are free."
    total, free = memory_of_machine()
    assert 0 < free <= total


@pytest.mark.parametrize(
    ("size", "words"), [(0, "0.1 MiB"), (300_000, "0.3 MiB"), (2**21, "2 MiB"), (2**31, "2.0 GiB")]
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert in_gib(size) == words


def test_damaged_files_are_refused_here_too(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m")
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-1])
    with pytest.raises(LoadError, match="is incomplete"):
        describe_source(folder, True)


def test_describing_and_listing_need_no_mlx(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from engine.local_models import local_models\n"
        "from engine.model_summary import describe_source, fits\n"
        "print(fits([describe_source(place, True) for place in sys.argv[1:]]).fits, len(local_models(True)))\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('mlx', 'mlx_lm', 'transformers', 'torch')])"
    )
    places = [write_folder(tmp_path / "m"), write_model(tmp_path / "n.gguf", KINDS["llama"], "Q4_0")]
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, places)], cwd=root, capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines() == ["True 2", "[]"], done.stderr
