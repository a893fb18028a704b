"""Language models and pairs of them: loading, checking, and what the generator needs of each."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from engine import model_files
from engine.backend import fit_blas_threads, is_cpu, mx, tree_flatten
from engine.cache_layers import refused_caches, why_not_restorable
from engine.gguf import read_gguf
from engine.gguf_model import build_network
from engine.gguf_tokenizer import gguf_end_ids, load_gguf_tokenizer
from engine.hub import download_model as download_model
from engine.local_models import bundled_folders
from engine.model_files import LoadError, Progress, in_short, report
from engine.model_summary import check_fits, describe_source
from engine.pair_fit import fit_pair
from engine.rounds import ModelInfo
from engine.text import Vocabulary
from engine.tokenizer import Chat, build_vocabulary, make_chat, make_encoder, panics_told, tokenizer_kind
from engine.tokenizer_files import check_tokenizer
from engine.weight_files import check_weights

_HEADS = re.compile(r"(?<![a-z])(mtp|eagle|medusa|dflash)(?![a-z])", re.IGNORECASE)
_LOAD_STEP = 128 * 2**20  # bytes of weights evaluated at a time, between two calls of the progress function


class Network(Protocol):
    """A causal network: ids (1, n) to logits (1, n, V), appending its n positions to every layer's cache."""

    def __call__(self, inputs: mx.array, /, cache: list[Any] | None = None) -> mx.array: ...


@dataclass(frozen=True)
class LanguageModel:
    """One model, ready to run on the thread that loaded it.

    `encode` raises ValueError for text that it can't turn into ids, and may be called on any thread.
    `make_cache` gives one fresh cache a layer. `notices`: what isn't as one would expect, in plain sentences.
    `chat`: from messages to the text that the model's chat template makes of them; None where it has no template.
    """

    network: Network
    info: ModelInfo
    vocabulary: Vocabulary
    encode: Callable[[str], list[int]]
    make_cache: Callable[[], list[Any]]
    notices: tuple[str, ...] = ()
    chat: Chat | None = None

    @property
    def vocab_size(self) -> int:
        """V, the width of the logits; ids of the tokenizer are all below it."""
        return self.info.vocab_size

    @property
    def context_length(self) -> int | None:
        """The most tokens the model was made for; None: its config names no limit."""
        return self.info.context_length

    @property
    def end_ids(self) -> frozenset[int]:
        """Ids that end a run."""
        return self.vocabulary.end_ids


@dataclass(frozen=True)
class Pair:
    """A target and, for speculation, a draft of the same vocabulary. `notices`: plain sentences for the banner.

    `self_drafts`: drafts made of the target so far, see `engine.drafting`.
    """

    target: LanguageModel
    draft: LanguageModel | None
    notices: tuple[str, ...] = ()
    self_drafts: dict[str, LanguageModel] = field(default_factory=dict, compare=False)


def _load_tokenizer(folder: Path) -> Any:
    check_tokenizer(folder)
    from mlx_lm.utils import load_tokenizer
    from transformers.utils import logging as their_logging

    their_logging.set_verbosity_error()  # it warns of networks that it would build, which it is never asked to
    try:
        with panics_told():
            return load_tokenizer(folder, {"trust_remote_code": False, "local_files_only": True})
    except Exception as error:  # transformers raises anything, down to a bare Exception
        if "trust_remote_code" in str(error):
            raise LoadError(
                f"The tokenizer in {folder} needs code that comes with it. Draftscope runs no code from a model."
            ) from error
        raise LoadError(f"The tokenizer in {folder} can't be read ({in_short(error)}).") from error


def _is_network(module: str) -> bool:
    """Whether mlx-lm has a module of this name with a network in it. Raises LoadError if it asks for another package.

    What the module prints is kept from standard output, where a command's own result goes.
    """
    name = f"mlx_lm.models.{module}"
    if not module.isidentifier() or module.startswith("__") or importlib.util.find_spec(name) is None:
        return False
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            return hasattr(importlib.import_module(name), "ModelArgs")
    except (ImportError, SystemExit) as error:  # olmo's ends the program where its own package is missing
        why = said.getvalue() or in_short(error)
        raise LoadError(f"mlx-lm can't build a {module} model on this machine: {why.strip()[:300]}") from error


def _check_type(folder: Path, config: dict[str, Any]) -> None:
    """Raise LoadError if mlx-lm has no network of the configuration's model_type."""
    import mlx_lm
    from mlx_lm.utils import MODEL_REMAPPING

    kind = config["model_type"]
    if (head := _HEADS.search(kind)) is not None:
        raise LoadError(
            f"{folder / 'config.json'}: model_type {kind!r} is no whole model: {head.group()} heads draft from another "
            "model's hidden states, so it is not usable as a stand-alone drafter. Choose a model of its own."
        )
    if not _is_network(MODEL_REMAPPING.get(kind, kind)):
        version = mlx_lm.__version__
        raise LoadError(f"{folder / 'config.json'}: model_type {kind!r} is not one that mlx-lm {version} knows.")


def _no_way_back(folder: Path, refused: list[str]) -> str:
    return (
        f"{folder.name}: its cache can be neither trimmed nor put back, which speculation needs: {'; '.join(refused)}. "
        "Choose a model with plain key-value caches, such as Llama or Qwen 3."
    )


def _load_network(folder: Path, progress: Progress | None) -> Any:
    """The network with its weights evaluated on this thread; in float32 on the CPU. Raises LoadError."""
    from mlx_lm.models.cache import make_prompt_cache
    from mlx_lm.utils import load_model

    try:
        network, _ = load_model(folder, lazy=True)
        refused = refused_caches(make_prompt_cache(network))
    except Exception as error:  # whatever a configuration that doesn't fit its network leads to
        raise LoadError(f"The model in {folder} can't be built ({in_short(error)}).") from error
    if refused:
        raise LoadError(_no_way_back(folder, refused))
    if is_cpu():
        network.set_dtype(mx.float32)  # half precision is emulated on the CPU, many times slower
    _evaluate(folder, network, progress)
    return network


def _parameters(network: Any) -> list[mx.array]:
    flat: Any = tree_flatten(network.parameters())
    return [array for _, array in flat]


def _evaluate(folder: Path, network: Any, progress: Progress | None) -> None:
    weights = _parameters(network)
    total, done = sum(array.nbytes for array in weights), 0
    step: list[mx.array] = []
    try:
        for array in weights:
            step.append(array)
            if sum(part.nbytes for part in step) >= _LOAD_STEP:
                report(progress, f"Loading {folder.name} (MiB)", done >> 20, total >> 20)
                mx.eval(step)
                done, step = done + sum(part.nbytes for part in step), []
        report(progress, f"Loading {folder.name} (MiB)", done >> 20, total >> 20)
        mx.eval(network)  # tables outside the parameters too (RoPE), so that nothing lazy leaves this thread
    except RuntimeError as error:
        raise LoadError(f"The weights in {folder} can't be read ({in_short(error)}).") from error


def _logits_width(folder: Path, network: Any, cache: list[Any]) -> int:
    """V, by asking the network; also the proof that it runs."""
    try:
        logits = network(mx.array([[0, 0]]), cache=cache)
        mx.eval(logits)
    except Exception as error:  # a configuration that loads but doesn't run
        raise LoadError(f"The model in {folder} was loaded but can't run ({in_short(error)}).") from error
    if not isinstance(logits, mx.array) or logits.shape[:2] != (1, 2):
        raise LoadError(f"The model in {folder} gives no logits of shape (1, n, V): it is no language model.")
    return int(logits.shape[-1])


def _dtype_name(network: Any, config: dict[str, Any]) -> str:
    """The floating-point type that most weights have, and the bits of packed ones: "float32, 4-bit weights"."""
    sizes: dict[str, int] = {}
    for array in _parameters(network):
        if mx.issubdtype(array.dtype, mx.floating):
            name = str(array.dtype).rpartition(".")[2]
            sizes[name] = sizes.get(name, 0) + array.size
    kind = max(sizes, key=lambda name: sizes[name]) if sizes else "unknown"
    bits = (config.get("quantization") or {}).get("bits")
    return f"{kind}, {bits}-bit weights" if bits else kind


def _display_name(folder: Path) -> str:
    """The folder's or file's name; owner/name for a snapshot of the Hub's cache, and a plain one for our own pair."""
    parts = folder.parts
    if len(parts) > 2 and parts[-2] == "snapshots" and parts[-3].startswith("models--"):
        return parts[-3].removeprefix("models--").replace("--", "/")
    if folder in bundled_folders():
        return f"bundled {folder.name}"
    return folder.name.removesuffix(model_files.GGUF_SUFFIX)


def load_model(
    place: str | os.PathLike[str], progress: Progress | None = None, *, unpack: bool = False, allow_large: bool = False
) -> LanguageModel:
    """Load a folder, a GGUF file, or a model of the Hub's local cache, on the thread where alone it can be run.

    Reads local files only, runs no code from them, and evaluates every weight. `unpack`: take packed types that MLX
    can't hold, at the price of memory. `allow_large`: try it although it won't fit. Raises LoadError.
    """
    path = model_files.model_path(place)
    try:
        if not allow_large:
            check_fits([describe_source(path, is_cpu())])
        return _load_gguf(path, progress, unpack) if path.is_file() else load_model_folder(path, progress)
    except OSError as error:
        raise LoadError(f"{path} can't be read ({error}).") from error


def load_model_folder(path: str | os.PathLike[str], progress: Progress | None = None) -> LanguageModel:
    """Load an mlx-lm folder as `load_model` does. Raises LoadError with a text for the user."""
    folder = model_files.model_path(path)
    report(progress, f"Reading {folder.name}")
    config = model_files.read_config(folder)
    _check_type(folder, config)
    ends = model_files.end_ids(folder, config)
    model_files.check_layers(folder, config, check_weights(folder))
    tokenizer = _load_tokenizer(folder)
    network = _load_network(folder, progress)
    ends |= set(tokenizer.eos_token_ids)
    return _assemble(folder, config, network, tokenizer, ends, model_files.digest(folder))


def _load_gguf(path: Path, progress: Progress | None, unpack: bool) -> LanguageModel:
    report(progress, f"Reading {path.name}")
    file = read_gguf(path)

    def told(done: int, total: int) -> None:
        report(progress, f"Loading {path.name} (MiB)", done >> 20, total >> 20)

    try:
        network, config, notices = build_network(file, told, unpack)
    except (LoadError, MemoryError):
        raise
    except Exception as error:  # whatever weights that don't fit their network lead to
        raise LoadError(f"The model in {path} can't be built ({in_short(error)}).") from error
    tokenizer = load_gguf_tokenizer(file)
    mx.eval(network)
    return _assemble(path, config, network, tokenizer, gguf_end_ids(file), file.digest, notices)


def _assemble(
    place: Path,
    config: dict[str, Any],
    network: Any,
    tokenizer: Any,
    ends: set[int],
    digest: str,
    notices: tuple[str, ...] = (),
) -> LanguageModel:
    from mlx_lm.models.cache import make_prompt_cache
    from mlx_lm.utils import get_total_parameters

    def make_cache() -> list[Any]:
        return list(make_prompt_cache(network))

    cache = make_cache()
    width = _logits_width(place, network, cache)
    try:
        refused = why_not_restorable(lambda ids, layers: network(ids, cache=layers), make_cache())
    except Exception as error:  # such as a window of no length
        raise LoadError(f"The model in {place} was loaded but can't run ({in_short(error)}).") from error
    if refused:
        raise LoadError(_no_way_back(place, [refused]))
    info = ModelInfo(
        name=_display_name(place),
        path=str(place),
        model_type=config["model_type"],
        parameters=int(get_total_parameters(network)),
        layers=len(cache),
        vocab_size=width,
        context_length=model_files.context_length(config),
        dtype=_dtype_name(network, config),
        cache_type=", ".join(dict.fromkeys(type(layer).__name__ for layer in cache)),
        digest=digest,
    )
    try:
        with panics_told():
            vocabulary = build_vocabulary(tokenizer, width, ends)
            encode = make_encoder(tokenizer, width)
    except Exception as error:  # a tokenizer that loads but doesn't work
        raise LoadError(f"The tokenizer in {place} doesn't work ({in_short(error)}).") from error
    if tokenizer_kind(tokenizer) == "other":
        notices += (f"{info.name}: its tokenizer is of no known kind; token texts may lack spaces or bytes.",)
    return LanguageModel(network, info, vocabulary, encode, make_cache, notices, make_chat(tokenizer))


def load_pair(
    target: str | os.PathLike[str],
    draft: str | os.PathLike[str] | None,
    progress: Progress | None = None,
    *,
    unpack: bool = False,
    allow_large: bool = False,
) -> Pair:
    """Load two models as a pair (the same once), or a target alone; options as in `load_model`. Raises LoadError."""
    path = model_files.model_path(target)
    other = None if draft is None else model_files.model_path(draft)
    same = other is not None and os.path.samefile(path, other)
    if not allow_large:
        places = [path] if other is None or same else [path, other]
        check_fits([describe_source(place, is_cpu()) for place in places])
    first = load_model(path, progress, unpack=unpack, allow_large=True)
    fit_blas_threads(first.info.parameters)
    if other is None:
        return Pair(first, None, first.notices)
    second = replace(first, notices=()) if same else load_model(other, progress, unpack=unpack, allow_large=True)
    first, second, fit = fit_pair(first, second)
    return Pair(first, second, first.notices + second.notices + fit)


def bundled_pair_folders() -> tuple[Path, Path]:
    """(target, draft): folders of the pair that comes with the program; raises LoadError if they aren't there."""
    for folder in (folders := bundled_folders()):
        if not folder.is_dir():
            raise LoadError(f"The bundled pair is not in this installation: {folder} is missing.")
    return folders


def bundled_pair(progress: Progress | None = None) -> Pair:
    """Load the pair that comes with the program."""
    return load_pair(*bundled_pair_folders(), progress)
