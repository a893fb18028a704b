"""`draftscope models`: which models are on this machine, what they are, and whether they fit into its memory."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from app.format import visible_string
from app.headless.request import UserError
from app.headless.terminal import print_json, table
from engine.local_models import LocalModel, local_models
from engine.model_files import LoadError
from engine.model_summary import ModelSummary, describe_source, fits, in_gib, memory_of_machine, shown_rows


def models(options: argparse.Namespace) -> int:
    """List the models found, or describe one; returns the exit code. Raises UserError for one that can't be read."""
    on_cpu = _is_cpu()
    if options.model is not None:
        try:
            summary = describe_source(options.model, on_cpu)
        except LoadError as error:
            raise UserError(str(error)) from error
        _describe(summary, options.json)
        return 0
    found = local_models(on_cpu)
    if options.json:
        print_json({"models": [_listed(model) for model in found]})
    else:
        _print(found)
    return 0


def _is_cpu() -> bool:
    """Whether models will run on the CPU: everywhere but on a Mac, as long as MLX isn't asked."""
    return sys.platform != "darwin"


def _describe(summary: ModelSummary, as_json: bool) -> None:
    verdict = fits([summary])
    if as_json:
        print_json(_fields(summary) | {"fits": verdict.fits, "free_bytes": verdict.free_bytes})
        return
    print(visible_string(str(summary.path)))
    width = max(len(name) for name, _ in shown_rows(summary))
    for name, value in shown_rows(summary):
        print(f"  {name.ljust(width)}  {visible_string(value)}")
    if summary.to_unpack:
        print(f"{', '.join(summary.to_unpack)} can't be held packed: loads with --unpack, in the memory told here")
    print(visible_string(verdict.words))


def _print(found: list[LocalModel]) -> None:
    if not found:
        print("No models found. Give the path of a folder or a .gguf file to --target.")
        return
    rows = [
        (
            visible_string(model.name),
            model.kind,
            visible_string(model.architecture) or "-",
            in_gib(model.file_bytes),
            in_gib(model.summary.usual_bytes) if model.summary is not None else "-",
        )
        for model in found
    ]
    print(table(("model", "where", "architecture", "on disk", "in memory"), rows, left=3))
    for model in found:
        if model.problem:
            print(visible_string(f"{model.name}: {model.problem}"))
    total, free = memory_of_machine()
    print(f"memory: {in_gib(total)}, {in_gib(free)} free; in memory: with the cache of a text of 4,096 tokens at most")


def _listed(model: LocalModel) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": model.name,
        "where": model.kind,
        "path": str(model.path),
        "file_bytes": model.file_bytes,
        "problem": model.problem or None,
    }
    return entry | {"summary": None if model.summary is None else _fields(model.summary)}


def _fields(summary: ModelSummary) -> dict[str, Any]:
    return {
        "path": str(summary.path),
        "kind": summary.kind,
        "architecture": summary.architecture,
        "parameters": summary.parameters,
        "layers": summary.layers,
        "vocab_size": summary.vocab_size,
        "context_length": summary.context_length,
        "quantization": summary.quantization,
        "to_unpack": list(summary.to_unpack),
        "file_bytes": summary.file_bytes,
        "weight_bytes": summary.weight_bytes,
        "cache_bytes_per_token": summary.cache_bytes_per_token,
        "memory_bytes": summary.memory_bytes(),
        "usual_bytes": summary.usual_bytes,
    }
