"""MLX, imported once and with a fast BLAS beneath it: the only module that imports `mlx.core`.

On Linux MLX's wheel brings the reference BLAS, which is 25 to 75 times slower in float32 than OpenBLAS or MKL;
one that is loaded globally before MLX takes its place. `DRAFTSCOPE_BLAS=PATH` in the environment loads that
library instead of looking for one, `DRAFTSCOPE_BLAS=none` keeps the reference BLAS.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import sys
from pathlib import Path

# Names the loader knows: Debian/Ubuntu, Fedora (pthreads build first), FlexiBLAS, oneMKL, BLIS.
_NAMES = (
    "libopenblas.so.0",
    "libopenblasp.so.0",
    "libflexiblas.so.3",
    "libmkl_rt.so.3",
    "libmkl_rt.so.2",
    "libblis.so.4",
)
_BRANDS = {"openblas": "OpenBLAS", "flexiblas": "FlexiBLAS", "mkl": "MKL", "blis": "BLIS"}
_HINT = "install libopenblas0-pthread (Debian, Ubuntu) or openblas-threads (Fedora)"
TINY = 10_000_000
_blas_threads: int | None = None  # what OpenBLAS had before `fit_blas_threads` first set it
_CACHE_LIMIT = 512 * 2**20  # bytes of freed buffers that MLX keeps for reuse


class _DlInfo(ctypes.Structure):
    _fields_ = [
        ("file_name", ctypes.c_char_p),
        ("file_base", ctypes.c_void_p),
        ("symbol_name", ctypes.c_char_p),
        ("symbol_base", ctypes.c_void_p),
    ]


def _candidates() -> list[str]:
    """Library names, then full paths below the Python environment (the `mkl` wheel, conda)."""
    folder = Path(sys.prefix, "lib")
    return [*_NAMES, *(str(folder / name) for name in _NAMES if (folder / name).exists())]


def _load_blas() -> str | None:
    """Load a fast BLAS into the global scope; returns what a person should know, or None if all went well."""
    if not sys.platform.startswith("linux") or _serving_blas() is not None:
        return None
    asked = os.environ.get("DRAFTSCOPE_BLAS", "").strip()
    if asked.lower() == "none":
        return "as DRAFTSCOPE_BLAS=none asks"
    if "mlx.core" in sys.modules:
        return "MLX was imported before engine.backend could load a faster one"
    for name in [asked] if asked else _candidates():
        try:
            library = ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            if asked:
                return f"DRAFTSCOPE_BLAS={asked} could not be loaded ({error})"
            continue
        if hasattr(library, "cblas_sgemm"):
            return None
        if asked:
            return f"DRAFTSCOPE_BLAS={asked} has no cblas_sgemm"
    return _HINT


def _serving_blas() -> str | None:
    """The file whose `cblas_sgemm` every later library gets, by the dynamic loader's own word; None: no global one."""
    scope = ctypes.CDLL(None)
    if not hasattr(scope, "cblas_sgemm"):
        return None
    info = _DlInfo()
    address = ctypes.cast(scope.cblas_sgemm, ctypes.c_void_p)
    if not scope.dladdr(address, ctypes.byref(info)) or not info.file_name:
        return None
    return os.fsdecode(info.file_name)


_blas_notice = _load_blas()

try:
    import mlx.core as mx
    import mlx.nn as nn
    from mlx.utils import tree_flatten
except ImportError as error:
    _package = "mlx" if sys.platform == "darwin" else '"mlx[cpu]"'
    raise ImportError(
        f"MLX can't be imported ({error}). Draftscope needs it to run models: pip install {_package}"
    ) from error

mx.set_cache_limit(_CACHE_LIMIT)


def fit_blas_threads(parameters: int) -> None:
    """Give OpenBLAS one thread for models of fewer than TINY parameters, and all it had for larger ones.

    Tiny products gain nothing from a second thread, which waits busily and takes a core from Python: on two cores a
    round of the bundled pair took 8 ms with one thread and 9.5 ms with two. OPENBLAS_NUM_THREADS overrules.
    """
    global _blas_threads
    if not is_cpu() or "OPENBLAS_NUM_THREADS" in os.environ or _blas_name() != _BRANDS["openblas"]:
        return
    library = ctypes.CDLL(_serving_blas())
    if _blas_threads is None:
        _blas_threads = int(library.openblas_get_num_threads())
    library.openblas_set_num_threads(1 if parameters < TINY else _blas_threads)


def _thread_words() -> str:
    """How many threads OpenBLAS has, where that was decided here and isn't all of them."""
    if _blas_threads is None:
        return ""
    threads = int(ctypes.CDLL(_serving_blas()).openblas_get_num_threads())
    return "" if threads == _blas_threads else f", {threads} thread"


def mlx_version() -> str:
    """The installed version of MLX."""
    return importlib.metadata.version("mlx")


def _blas_name() -> str:
    if sys.platform == "darwin":
        return "Accelerate"
    path = _serving_blas() if sys.platform.startswith("linux") else None
    if path is None or _blas_notice is not None:
        return "reference BLAS (slow)" + (f": {_blas_notice}" if _blas_notice else "")
    name = Path(path).name
    return next((brand for part, brand in _BRANDS.items() if part in name), name)


def describe_backend() -> str:
    """Device and BLAS in use, and what would help: "CPU, OpenBLAS", "GPU, Metal", "CPU, reference BLAS (slow): ..."."""
    if mx.default_device().type == mx.DeviceType.gpu:
        return "GPU, Metal" if mx.metal.is_available() else "GPU, CUDA"
    return f"CPU, {_blas_name()}{_thread_words()}"


def is_cpu() -> bool:
    """True if the default device is the CPU, where only float32 is fast."""
    return bool(mx.default_device().type == mx.DeviceType.cpu)


def memory_bytes() -> tuple[int, int]:
    """(bytes in use by arrays, bytes kept in the buffer cache for reuse), as MLX counts them."""
    return mx.get_active_memory(), mx.get_cache_memory()


__all__ = ["describe_backend", "fit_blas_threads", "is_cpu", "memory_bytes", "mlx_version", "mx", "nn", "tree_flatten"]
