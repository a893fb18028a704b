"""What can be known of a model's folder without MLX: is it whole, and what does its configuration say."""

from __future__ import annotations

import hashlib
import json
import os
import re
import reprlib
import stat
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

WEIGHT_PATTERN = "model*.safetensors"
GGUF_SUFFIX = ".gguf"
CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length", "n_ctx")
LAYER_KEYS = ("num_hidden_layers", "n_layers", "n_layer", "num_layers")
TEXT_CONFIGS = ("text_config", "llm_config", "language_config")

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_MAX_KIND = 100  # characters of a model_type
_MAX_TEXT = 2000  # characters
_MAX_CONTEXT = 2**40  # tokens; what a configuration names beyond is no limit
_MAX_JSON = 512 * 2**20  # bytes; the largest tokenizer.json take some 40 MiB


class LoadError(ValueError):
    """A model or a pair can't be used; the text says what was expected, what was found, and what to do.

    A text that quotes a name of many pages is cut in its middle.
    """

    def __init__(self, text: str) -> None:
        half = _MAX_TEXT // 2
        super().__init__(text if len(text) <= _MAX_TEXT else f"{text[:half]} ... {text[-half:]}")


class LoadCancelledError(LoadError):
    """The progress function asked to stop."""


Progress = Callable[[str, int, int], object]
"""Called with (what is being done, done, total); total 0: unknown. Returning True cancels the loading."""


def report(progress: Progress | None, stage: str, done: int = 0, total: int = 0) -> None:
    """Tell a progress function how far it is; raises LoadCancelledError if it asks to stop."""
    if progress is not None and progress(stage, done, total) is True:
        raise LoadCancelledError("Loading was cancelled.")


def in_short(error: BaseException) -> str:
    """A foreign library's error in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}{'...' if len(text) > 300 else ''}"


def looks_like_hub_id(text: str) -> bool:
    """True for `owner/name`, the form of a Hugging Face id."""
    return _HUB_ID.fullmatch(text.strip()) is not None


def path_of(place: str | os.PathLike[str]) -> Path:
    """A path as people write it, made whole: quoted, with "~", or as a file:// address. Raises LoadError."""
    text = os.fspath(place).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    if text.lower().startswith("file:"):
        try:
            text = urllib.request.url2pathname(urllib.parse.urlsplit(text).path)
        except ValueError as error:
            raise LoadError(f"{text}: is no file address ({error}).") from error
    if not text:
        raise LoadError("No model given: expected the path of a folder or a .gguf file.")
    if "\0" in text:
        raise LoadError("The path holds a NUL character.")
    try:
        return Path(text).expanduser().absolute()
    except (OSError, RuntimeError) as error:  # no home for ~user
        raise LoadError(f"{text}: can't be looked at ({error}).") from error


def model_path(place: str | os.PathLike[str]) -> Path:
    """The folder or GGUF file that is meant: by its path, or by the id of a model in the Hub's local cache.

    A folder without config.json that holds one GGUF file stands for the file. No network. Raises LoadError.
    """
    path = path_of(place)
    try:
        if not path.exists():
            path = _cached(os.fspath(place), path)
        return _gguf_within(path) if path.is_dir() else _file(path)
    except OSError as error:  # a name too long, no permission
        raise LoadError(f"{path}: can't be looked at ({error.strerror}).") from error


def _cached(text: str, path: Path) -> Path:
    from engine.hub import cached_snapshot

    if not looks_like_hub_id(text):
        raise LoadError(f"{path}: no such folder or file.")
    if (folder := cached_snapshot(text)) is None:
        raise LoadError(
            f"{path}: no such folder, and no model {text.strip()} in the Hugging Face cache. If this is a Hugging Face "
            "id, download it first."
        )
    return folder


def _gguf_within(folder: Path) -> Path:
    files = sorted(folder.glob("*" + GGUF_SUFFIX))
    if (folder / "config.json").exists() or not files:
        return folder
    if len(files) > 1:
        raise LoadError(f"{folder} holds several GGUF files: give the path of one ({contents_of(folder)}).")
    return files[0]


def _file(path: Path) -> Path:
    if path.suffix.lower() != GGUF_SUFFIX:
        raise LoadError(
            f"{path} is a file: expected the folder that holds config.json and {WEIGHT_PATTERN}, or a {GGUF_SUFFIX} "
            "file."
        )
    return path


def file_size(path: Path) -> int:
    """Bytes of a file, or of what a link leads to; raises LoadError for what isn't there or is no plain file."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        link = path.is_symlink()
        what = f"is a link to {os.readlink(path)}, which isn't there" if link else f"can't be read ({error})"
        raise LoadError(f"{path} {what}. {'Download it again.' if link else ''}".rstrip()) from error
    if not stat.S_ISREG(status.st_mode):
        raise LoadError(f"{path} is not a plain file.")
    return status.st_size


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; raises LoadError for anything else."""
    try:
        if file_size(path) > _MAX_JSON:
            raise LoadError(f"{path} is too large: at most {_MAX_JSON >> 20} MiB are read.")
        value = json.loads(path.read_bytes())
    except LoadError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise LoadError(f"{path} can't be read as JSON: {error}.") from error
    if not isinstance(value, dict):
        raise LoadError(f"{path}: expected a JSON object, found {type(value).__name__}.")
    return value


def contents_of(folder: Path) -> str:
    """What a folder holds, in words."""
    names = sorted(entry.name for entry in folder.iterdir())
    if not names:
        return "the folder is empty"
    return "found " + ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def read_config(folder: Path) -> dict[str, Any]:
    """config.json, checked for what every model needs; raises LoadError, also for a model that brings code."""
    path = folder / "config.json"
    if not os.path.lexists(path):
        raise LoadError(f"{folder}: config.json is missing ({contents_of(folder)}).")
    config = read_json(path)
    kind = config.get("model_type")
    if not isinstance(kind, str) or not 0 < len(kind) <= _MAX_KIND:
        came = f"found {reprlib.repr(kind)}" if "model_type" in config else "the key is missing"
        raise LoadError(f'{path}: expected a model_type such as "llama", but {came}.')
    if config.get("model_file") is not None:
        raise LoadError(
            f"{path}: model_file asks to run {config['model_file']!r} from the folder. "
            "Draftscope runs no code that comes with a model."
        )
    return config


def check_layers(folder: Path, config: dict[str, Any], tensors: Collection[str]) -> None:
    """Raise LoadError if the configuration counts more layers than there are tensors, before they are built."""
    for part in _configs(config):
        for key in LAYER_KEYS:
            value = part.get(key)
            if value is not None and (type(value) is not int or not 1 <= value <= len(tensors)):
                raise LoadError(
                    f"{folder / 'config.json'}: {key}: expected a whole number that fits {len(tensors)} tensors, "
                    f"found {str(value)[:40]}."
                )


def _configs(config: dict[str, Any]) -> list[dict[str, Any]]:
    """The configuration and the nested one of its language model, where there is one."""
    return [config, *(config[name] for name in TEXT_CONFIGS if isinstance(config.get(name), dict))]


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a configuration that speaks of the language model."""
    return next((part for part in _configs(config) if any(key in part for key in LAYER_KEYS)), config)


def context_length(config: dict[str, Any]) -> int | None:
    """The most tokens the configuration speaks of; None: it names no limit."""
    for part in _configs(config):
        for key in CONTEXT_KEYS:
            value = part.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value if value < _MAX_CONTEXT else None
    return None


def _ids(value: Any, place: str) -> set[int]:
    values = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(token, int) and not isinstance(token, bool) for token in values):
        raise LoadError(f"{place}: eos_token_id: expected a token id or a list of them, found {value!r}.")
    return {token for token in values if token >= 0}  # some configurations write -1 for none


def end_ids(folder: Path, config: dict[str, Any]) -> set[int]:
    """Every id that config.json (nested parts too) or generation_config.json calls an end; raises LoadError."""
    found: set[int] = set()
    for part in _configs(config):
        found |= _ids(part.get("eos_token_id"), str(folder / "config.json"))
    generation = folder / "generation_config.json"
    if generation.exists():
        found |= _ids(read_json(generation).get("eos_token_id"), str(generation))
    return found


def digest(folder: Path) -> str:
    """SHA-256, in hex, over the names and contents of what decides a model's shape and its text; not the weights."""
    found = hashlib.sha256()
    for name in ("config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json"):
        path = folder / name
        if path.is_file():
            found.update(name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()
