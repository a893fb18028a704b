"""MLX comes in by one door, with the BLAS that it says it has, and `import engine` doesn't open it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.backend import describe_backend, is_cpu, memory_bytes, mlx_version, mx

ROOT = Path(__file__).parents[2]
linux_cpu = pytest.mark.skipif(
    not (sys.platform.startswith("linux") and is_cpu()),
    reason="only MLX for the Linux CPU takes a BLAS from outside",
)


def child(code: str, **environment: str) -> str:
    env = {name: value for name, value in os.environ.items() if name != "DRAFTSCOPE_BLAS"} | environment
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


DESCRIBE = "from engine.backend import describe_backend; print(describe_backend())"


def test_only_backend_imports_mlx() -> None:
    """mlx_lm imports MLX too, so elsewhere it may be imported inside functions only."""
    early = re.compile(r"^(import|from) mlx\b|^(import|from) mlx_lm\b|^\s+(import|from) mlx\b", re.MULTILINE)
    files = [path for room in ("app", "engine", "tests") for path in (ROOT / room).rglob("*.py")]
    assert len(files) > 10
    assert [str(path) for path in files if path.name != "backend.py" and early.search(path.read_text("utf-8"))] == []


@linux_cpu
def test_the_blas_named_is_the_one_in_the_process() -> None:
    loaded = Path("/proc/self/maps").read_text()
    outside = {Path(name).name for name in re.findall(r"/\S*\.so\S*", loaded) if ".libs" not in name}
    openblas = any(name.startswith("libopenblas") for name in outside)
    assert ("OpenBLAS" in describe_backend()) == openblas


@linux_cpu
def test_a_blas_can_be_named_or_declined_in_the_environment() -> None:
    assert child(DESCRIBE, DRAFTSCOPE_BLAS="none") == "CPU, reference BLAS (slow): as DRAFTSCOPE_BLAS=none asks\n"
    assert "DRAFTSCOPE_BLAS=/no/such.so could not be loaded" in child(DESCRIBE, DRAFTSCOPE_BLAS="/no/such.so")


@linux_cpu
def test_the_help_is_named_when_no_fast_blas_is_found() -> None:
    hidden = "import ctypes\nfind = ctypes.CDLL\n"
    hidden += "def none(name, *a, **k):\n    if name is None: return find(name, *a, **k)\n    raise OSError\n"
    out = child(f"{hidden}ctypes.CDLL = none\n{DESCRIBE}")
    assert "reference BLAS (slow): install libopenblas0-pthread" in out


@linux_cpu
def test_an_mlx_imported_before_is_not_taken_for_fast() -> None:
    assert "reference BLAS (slow): MLX was imported before" in child(f"import mlx.core\n{DESCRIBE}")


def test_importing_the_engine_leaves_mlx_alone() -> None:
    code = "import sys, engine\nengine.Settings(), engine.RunEnd\nprint('mlx.core' in sys.modules)\n"
    code += "engine.toy_pair\nprint('mlx.core' in sys.modules, 'toy_pair' in dir(engine))"
    assert child(code) == "False\nTrue True\n"
    assert "AttributeError: module 'engine' has no attribute 'nothing'" in child("import engine; engine.nothing")


def test_a_missing_mlx_is_said_in_words() -> None:
    out = child("import sys\nsys.modules['mlx.core'] = None\nimport engine.backend")
    assert re.search(r"ImportError: MLX can't be imported .*Draftscope needs it to run models: pip install", out)


def test_device_version_and_memory() -> None:
    assert describe_backend().startswith("CPU, " if is_cpu() else "GPU, ")
    assert re.match(r"\d+\.\d+", mlx_version())
    held = mx.zeros((256, 1024))
    mx.eval(held)
    assert memory_bytes()[0] >= held.nbytes


@linux_cpu
def test_a_tiny_model_gets_one_blas_thread_and_a_larger_one_all_of_them() -> None:
    if not describe_backend().startswith("CPU, OpenBLAS") or (os.cpu_count() or 1) < 2:
        pytest.skip("OpenBLAS with several threads isn't the BLAS in use")
    code = "from engine.backend import describe_backend as d, fit_blas_threads as fit, TINY\n"
    code += "print(d()); fit(TINY - 1); print(d()); fit(TINY); print(d())"
    lines = child(f"import os; os.environ.pop('OPENBLAS_NUM_THREADS', None)\n{code}").splitlines()
    assert lines == ["CPU, OpenBLAS", "CPU, OpenBLAS, 1 thread", "CPU, OpenBLAS"]
    assert child(code, OPENBLAS_NUM_THREADS="2").splitlines() == ["CPU, OpenBLAS"] * 3
