"""Weights are taken only where every tensor lies as the headers and the index say, and nothing else is opened."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from model_folders import edit_json, write_folder, write_json

from engine.model_files import LoadError
from engine.models import load_model
from engine.weight_files import check_weights, read_safetensors_header

NAME = "model.layers.0.mlp.up_proj.weight"


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("weights")
    write_folder(place / "plain")
    write_folder(place / "sharded", shards=2)
    return place


@pytest.fixture
def folder(originals: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(originals / "plain", tmp_path / "plain"))


@pytest.fixture
def sharded(originals: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(originals / "sharded", tmp_path / "sharded"))


def refusal(folder: Path) -> str:
    with pytest.raises(LoadError) as caught:
        load_model(folder)
    return str(caught.value)


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_header(path: Path, header: dict[str, Any] | str, body: bytes) -> None:
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def test_the_header_tells_types_shapes_and_sizes(folder: Path) -> None:
    tensor = read_safetensors_header(folder / "model.safetensors")[NAME]
    assert (tensor.dtype, tensor.shape, tensor.nbytes, tensor.size) == ("F16", (64, 32), 4096, 2048)
    assert check_weights(folder)[NAME] == tensor


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dtype": "F64"}, "is of type 'F64', which MLX doesn't read"),
        ({"dtype": ["F16"]}, "is of type ['F16']"),
        ({"dtype": "F32"}, "takes 8192 bytes by its shape and 4096 by its offsets"),
        ({"shape": [64, 33]}, "takes 4224 bytes by its shape"),
        ({"shape": [64, -32]}, "has the shape [64, -32]"),
        ({"shape": [64, True]}, "has the shape [64, True]"),
        ({"shape": [2**31, 32]}, "has the shape"),
        ({"shape": "64"}, "has the shape '64'"),
        ({"data_offsets": [0]}, "has the data_offsets [0]"),
        ({"data_offsets": [4096, 0]}, "has the data_offsets [4096, 0]"),
        ({"data_offsets": [0, 4096.0]}, "has the data_offsets [0, 4096.0]"),
        ({"data_offsets": [0, 4096]}, "overlaps the one before"),
        ({"data_offsets": [10**9, 10**9 + 4096]}, "leaves a hole"),
    ],
)
def test_tensors_that_contradict_themselves_or_the_file(folder: Path, change: dict[str, Any], words: str) -> None:
    path = folder / "model.safetensors"
    header, body = header_of(path)
    first = min((name for name in header if name != "__metadata__"), key=lambda name: header[name]["data_offsets"])
    assert first != NAME, "the tensor of this test must not be the first"
    header[NAME] |= change
    write_header(path, header, body)
    message = refusal(folder)
    assert f"{path} has a broken safetensors header" in message
    assert words in message


def test_headers_of_odd_form(folder: Path) -> None:
    path = folder / "model.safetensors"
    header, body = header_of(path)
    for text, words in (
        ("[1]", "expected an object, found list"),
        (json.dumps({**header, "x": 3}), "'x': expected dtype, shape and data_offsets"),
        ("{" + f'"{NAME}": {{}}, ' + json.dumps(header)[1:], "a name comes twice"),
        ("[" * 100_000, "broken safetensors header"),
    ):
        write_header(path, text, body)
        assert words in refusal(folder)
    write_header(path, header, body + b"more")
    assert f"longer than its header says: {path.stat().st_size - 4} bytes expected" in refusal(folder)


@pytest.mark.parametrize("what", ["lacks", "adds", "moves"])
def test_an_index_must_list_the_tensors_of_the_files(sharded: Path, what: str) -> None:
    index = sharded / "model.safetensors.index.json"
    weight_map = json.loads(index.read_text())["weight_map"]
    file = weight_map[NAME]
    other = ({*weight_map.values()} - {file}).pop()
    if what == "adds":
        weight_map["model.extra"] = file
    elif what == "lacks":
        del weight_map[NAME]
    else:
        weight_map[NAME] = other
    write_json(index, {"weight_map": weight_map})
    message = refusal(sharded)
    assert "model.safetensors.index.json doesn't match the weights" in message
    said = {"adds": f"'model.extra' is in {file} by the index and nowhere by the files"}
    said |= {"lacks": f"is nowhere by the index and in {file} by the files"}
    said |= {"moves": f"'{NAME}' is in {other} by the index and in {file} by the files"}
    assert said[what] in message


def test_a_tensor_may_be_in_one_file_only(sharded: Path) -> None:
    (sharded / "model.safetensors.index.json").unlink()
    assert load_model(sharded).info.layers == 2
    shutil.copy(sharded / "model-00002-of-00002.safetensors", sharded / "model-copy.safetensors")
    assert "is both in model-00002-of-00002.safetensors and in model-copy.safetensors" in refusal(sharded)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "consolidated.00.pth"])
def test_pickled_weights_are_refused_by_name_and_never_opened(folder: Path, name: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(b"cos\nsystem\n(S'exit 1'\ntR.")
    (folder / name).chmod(0)
    message = refusal(folder)
    assert f"the weights are pickled ({name})" in message
    assert "safetensors (model*.safetensors) and GGUF only" in message


def test_links_as_the_hub_keeps_them_are_followed(folder: Path, tmp_path: Path) -> None:
    blobs = tmp_path / "models--owner--name" / "blobs"
    snapshot = tmp_path / "models--owner--name" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, entry in enumerate(sorted(folder.iterdir())):
        entry.rename(blobs / f"{number:064x}")
        (snapshot / entry.name).symlink_to(f"../../blobs/{number:064x}")
    assert load_model(snapshot).info.name == "owner/name"
    for blob in blobs.iterdir():
        if blob.stat().st_size > 10_000:
            blob.unlink()
    assert "is a link to ../../blobs/" in refusal(snapshot)
    assert "which isn't there. Download it again." in refusal(snapshot)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "device", "loop", "dead"])
def test_what_is_no_plain_file_is_not_opened(folder: Path, name: str, kind: str) -> None:
    path = folder / name
    path.unlink()
    make: dict[str, Callable[[], Any]] = {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "device": lambda: path.symlink_to("/dev/zero"),
        "loop": lambda: path.symlink_to(name),
        "dead": lambda: path.symlink_to("nowhere"),
    }
    make[kind]()
    message = refusal(folder)
    assert str(path) in message or "tokenizer not found" in message
    if kind in ("pipe", "folder", "device"):
        assert "is not a plain file" in message


def test_more_layers_than_tensors_are_refused_before_they_are_built(folder: Path) -> None:
    for count in (10**9, 0, -1, 2.0, True, "2", 10**30):
        edit_json(folder / "config.json", num_hidden_layers=count)
        assert "num_hidden_layers: expected a whole number that fits 20 tensors" in refusal(folder)
        with pytest.raises(LoadError, match="num_hidden_layers"):
            load_model(folder, allow_large=True)
