"""What importing costs, and what an installed program carries."""

from __future__ import annotations

import fnmatch
import json
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path

import pytest

import resources as data

ROOT = Path(__file__).parents[2]
CONTRACTS = [
    "engine",
    "engine.settings",
    "engine.rounds",
    "engine.recording",
    "engine.statistics",
    "engine.text",
    "engine.goodness",
]


def modules_after(*names: str) -> set[str]:
    code = f"import sys, json; import {', '.join(names)}; print(json.dumps(sorted(sys.modules)))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(json.loads(child.stdout))


def test_what_the_window_imports_of_the_engine_brings_neither_mlx_nor_qt() -> None:
    loaded = modules_after(*CONTRACTS)
    assert set(CONTRACTS) <= loaded
    assert not {name for name in loaded if name.split(".")[0] in ("mlx", "mlx_lm", "transformers", "PySide6", "app")}


def test_the_window_itself_opens_before_mlx_is_loaded() -> None:
    loaded = modules_after("app.__main__", "app.window_command", "app.worker", "app.session")
    assert not {name for name in loaded if name.split(".")[0] in ("mlx", "mlx_lm", "transformers")}


def test_the_engine_with_mlx_brings_no_qt() -> None:
    loaded = modules_after("engine.generator", "engine.models", "engine.toy")
    assert "mlx.core" in loaded
    assert not {name for name in loaded if name.split(".")[0] in ("PySide6", "pyqtgraph", "app")}


def packaged(path: str) -> bool:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = patterns["tool"]["setuptools"]["package-data"]["resources"]
    return any(fnmatch.fnmatch(path, pattern.replace("**/", "*")) for pattern in patterns)


def test_every_resource_is_packaged() -> None:
    folder = ROOT / "resources"
    files = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    kept = [name for name in files if not name.startswith("models/work/") and "__pycache__" not in name]
    assert {name for name in kept if not packaged(name)} == {"__init__.py", "models/train.py", "samples/make.py"}
    assert not packaged("models/target/model.bin"), "the patterns take anything"


@pytest.mark.parametrize("model", ["target", "draft"])
def test_the_bundled_models_are_found_and_small(model: str) -> None:
    folder = resources.files(data) / "models" / model
    names = {item.name for item in folder.iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= names


def test_the_bundled_pair_weighs_at_most_12_mb() -> None:
    weights = list((ROOT / "resources" / "models").glob("*/*.safetensors"))
    assert len(weights) == 2
    assert sum(path.stat().st_size for path in weights) <= 12e6


def test_the_help_is_found() -> None:
    names = {item.name for item in (resources.files(data) / "help").iterdir()}
    assert {"index.md", "rules.md", "window.md", "script.md", "headless.md", "rewind.md", "settings.md"} <= names
