"""Models of the Hub's cache are found without the network; downloads tell their size, and can be stopped."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gguf_files import KINDS, write_model
from model_folders import write_folder

from engine.hub import HUB_PATTERNS, cached_snapshot, download_model, download_plan
from engine.local_models import local_models
from engine.model_files import LoadError, looks_like_hub_id, model_path
from engine.models import load_model, load_pair

CHILD = Path(__file__).with_name("hub_child.py")


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    from huggingface_hub import constants

    place = tmp_path / "hub"
    place.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(place))
    return place


def put(cache: Path, hub_id: str, files: Path, revision: str = "aaa", main: str | None = "aaa") -> Path:
    """A model as the Hub's client keeps it: links in the snapshot to blobs."""
    repository = cache / ("models--" + hub_id.replace("/", "--"))
    snapshot = repository / "snapshots" / revision
    for part in ("blobs", "refs"):
        (repository / part).mkdir(parents=True, exist_ok=True)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(files.iterdir())):
        shutil.copy(file, repository / "blobs" / f"{revision}{number}")
        (snapshot / file.name).symlink_to(f"../../blobs/{revision}{number}")
    if main is not None:
        (repository / "refs" / "main").write_text(main)
    return snapshot


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("models") / "tiny")


def test_an_id_is_looked_up_in_the_cache(cache: Path, folder: Path) -> None:
    place = put(cache, "owner/some-model", folder)
    assert model_path(" owner/some-model ") == cached_snapshot("owner/some-model") == place
    pair = load_pair("owner/some-model", "owner/some-model")
    assert pair.target.info.name == "owner/some-model"
    assert "same model" in pair.notices[0]
    with pytest.raises(LoadError, match="no model owner/other in the Hugging Face cache"):
        load_model("owner/other")


def test_a_folder_of_that_name_comes_first(
    cache: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(cache, "owner/some-model", folder)
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, tmp_path / "owner" / "some-model")
    assert model_path("owner/some-model") == tmp_path / "owner" / "some-model"


def test_the_main_branch_counts_else_what_came_last(cache: Path, folder: Path) -> None:
    first = put(cache, "owner/name", folder, "aaa", "bbb")
    second = put(cache, "owner/name", folder, "bbb", None)
    third = put(cache, "owner/name", folder, "ccc", None)
    for age, place in enumerate((third, second, first)):
        os.utime(place, (1e9 - age, 1e9 - age))
    assert cached_snapshot("owner/name") == second
    (cache / "models--owner--name" / "refs" / "main").unlink()
    assert cached_snapshot("owner/name") == third
    assert cached_snapshot("../owner") is None


def test_what_is_on_this_machine_is_listed(cache: Path, folder: Path, tmp_path: Path) -> None:
    put(cache, "owner/whole", folder)
    broken = put(cache, "owner/broken", folder)
    (broken / "config.json").unlink()
    files = tmp_path / "files"
    files.mkdir()
    write_model(files / "m.Q8_0.gguf", KINDS["llama"], "Q8_0")
    put(cache, "owner/one-gguf", files)
    write_model(files / "m.Q4_0.gguf", KINDS["llama"], "Q4_0")
    two = put(cache, "owner/two-gguf", files)
    (cache / "models--owner--none" / "refs").mkdir(parents=True)
    found = {model.name: model for model in local_models(on_cpu=True)}
    assert list(found)[:2] == ["bundled target", "bundled draft"]
    assert set(found) - {"bundled target", "bundled draft"} == {
        "owner/whole",
        "owner/broken",
        "owner/one-gguf",
        str(two / "m.Q4_0.gguf"),
        str(two / "m.Q8_0.gguf"),
    }
    whole = found["owner/whole"]
    assert (whole.kind, whole.architecture, whole.problem) == ("cache", "llama", "")
    assert whole.file_bytes == sum(file.stat().st_size for file in folder.iterdir())
    assert "config.json is missing" in found["owner/broken"].problem
    assert found["owner/one-gguf"].kind == "gguf"
    for name in set(found) - {"bundled target", "bundled draft", "owner/broken"}:
        assert load_model(name).info.layers == 2


def test_no_cache_is_no_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "none"))
    assert [model.kind for model in local_models(on_cpu=True)] == ["bundled", "bundled"]


def download(served: Path, cache: Path, limit: int) -> dict[str, Any]:
    """What `download_model` did, in a process that may reach a hub on this machine."""
    done = subprocess.run(
        [sys.executable, str(CHILD), str(served), str(cache), str(limit)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    first, second = map(json.loads, done.stdout.splitlines())
    return first | second


def test_a_download_tells_its_size_takes_no_code_and_can_be_stopped(folder: Path, tmp_path: Path) -> None:
    served, cache = Path(shutil.copytree(folder, tmp_path / "served")), tmp_path / "hub"
    for name in ("evil.py", "pytorch_model.bin", "README.md"):
        (served / name).write_text("no")
    (served / "model-extra.safetensors").write_bytes(bytes(25_000_000))
    wanted = {name: (served / name).stat().st_size for name in os.listdir(folder)} | {
        "model-extra.safetensors": 25_000_000
    }
    stopped = download(served, cache, 11)
    assert dict(stopped["plan"]) == wanted
    assert stopped["missing"] == sum(wanted.values())
    assert stopped["outcome"] == "LoadCancelledError: Loading was cancelled."
    assert 0 < stopped["missing after"] < stopped["missing"]
    whole = download(served, cache, 0)
    assert set(os.listdir(whole["outcome"])) == set(wanted)
    assert whole["outcome"] == whole["kept"]
    assert whole["missing after"] == 0
    assert set(whole["fetched"]) < set(wanted), "what had come whole was fetched again"
    counts = [done for _, done, _ in whole["stages"]]
    assert counts == sorted(counts)
    assert whole["stages"][-1] == ["Downloading owner/name (MiB)", counts[-1], counts[-1]]
    assert download(served, cache, 0)["fetched"] == []


def test_what_can_not_be_downloaded_is_said(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    import huggingface_hub

    class Info:
        sha = "abc"
        siblings = ()

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", lambda *_, **__: Info())
    with pytest.raises(LoadError, match="some/model has no weights that Draftscope fetches"):
        download_plan("some/model")

    class File:
        rfilename, size = "model.safetensors", 2**60

    Info.siblings = (File(),)  # type: ignore[assignment]
    with pytest.raises(LoadError, match=r"some/model needs 1099511627776 MiB on the disk of .*, where \d+ are free"):
        download_model("some/model")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no such repository")

    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", fail)
    with pytest.raises(LoadError, match=r"no/body can't be looked up \(OSError: no such repository\)"):
        download_model("no/body")
    with pytest.raises(LoadError, match="Expected a Hugging Face id"):
        download_model("/etc/passwd")


def test_patterns_and_ids() -> None:
    assert not any(pattern.endswith((".py", ".bin", ".pt", ".pth")) or pattern == "*" for pattern in HUB_PATTERNS)
    assert looks_like_hub_id("owner/name-1.0")
    assert not looks_like_hub_id("../name")
