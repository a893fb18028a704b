"""`draftscope models`, and models of every kind given to the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gguf_files import KINDS, write_model
from model_folders import write_folder

from app.cli import main
from engine import model_summary


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


def test_the_models_found_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["bundled", "target"], ["bundled", "draft"]]
    assert lines[-1].startswith("memory: ")
    assert main(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["models"]
    assert [model["name"] for model in listed] == ["bundled target", "bundled draft"]
    assert listed[0]["summary"]["layers"] == 4


def test_one_model_is_described(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", KINDS["llama"], "Q8_0", ffn_down="Q5_0")
    assert main(["models", str(path)]) == 0
    text = capsys.readouterr().out
    assert "quantization                Q5_0, Q8_0" in text
    assert "Q5_0 can't be held packed: loads with --unpack" in text
    assert main(["models", str(path), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert (described["architecture"], described["to_unpack"], described["fits"]) == ("llama", ["Q5_0"], True)
    assert main(["models", str(tmp_path / "none")]) == 2
    assert "no such folder or file" in capsys.readouterr().err


def test_a_run_takes_a_gguf_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", KINDS["llama"], "Q8_0", ffn_down="Q5_0")
    run = ["run", "--target", str(path), "--draft", str(write_folder(tmp_path / "draft")), "-n", "8", "--json"]
    assert main(run) == 2
    assert capsys.readouterr().err.endswith("The option is --unpack.\n")
    assert main([*run, "--unpack"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert "m.gguf: Q5_0 unpacked" in json.dumps(out)


def test_models_that_would_not_fit_are_run_only_if_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_summary, "memory_of_machine", lambda: (2**30, 1000))
    run = ["run", "--target", str(write_folder(tmp_path / "m")), "-n", "2", "--json"]
    assert main(run) == 2
    assert "would not fit" in (error := capsys.readouterr().err)
    assert error.endswith("The option is --allow-large.\n")
    assert main([*run, "--allow-large"]) == 0
