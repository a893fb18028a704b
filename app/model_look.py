"""What can be known of models before they are loaded: what they are, what a drafter costs, whether a pair can fit.

From the headers of their files alone; neither Qt nor MLX, so that any thread may look.
"""

from __future__ import annotations

import dataclasses
import os
import re
from dataclasses import dataclass
from pathlib import Path

from app.format import millions
from engine import model_files
from engine.drafter_kinds import Drafter
from engine.gguf import read_gguf
from engine.hub import cached_snapshot
from engine.model_files import LoadError
from engine.model_summary import Fit, ModelSummary, describe_source, fits, in_gib
from engine.weight_files import check_weights

TOY_WORDS = 6

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|blk)\.(\d{1,6})\.")
_MLP = re.compile(r"\.(?:mlp|feed_forward)\.|\.ffn_(?:gate|up|down)\.")
_ATTENTION = re.compile(r"\.(?:self_attn|attention)\.|\.attn_(?:q|k|v|output)\.")
_MLX_GROUP = 64  # weights that share a scale where a configuration doesn't tell


@dataclass(frozen=True)
class Parts:
    """Numbers of weights: of each layer, and of the matrices that can be rounded, in all and by where they belong."""

    layers: tuple[int, ...] = ()
    matrices: int = 0
    mlp: int = 0
    attention: int = 0

    def rounded(self, modules: str) -> int:
        """How many weights a requantized drafter has anew."""
        return {"mlp": self.mlp, "attention": self.attention}.get(modules, self.matrices)


@dataclass(frozen=True)
class Look:
    """One model, looked at. `problem`: why it can't be loaded; `missing`: the Hub's id that isn't here whole."""

    place: str
    summary: ModelSummary | None = None
    parts: Parts = Parts()
    problem: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Cost:
    """What a drafter made of the target is: as a summary (None: no model), and in a sentence; or why it can't be."""

    summary: ModelSummary | None
    words: str
    problem: str = ""


def look_at(place: str, on_cpu: bool) -> Look:
    """Read the headers of a folder, a GGUF file or a cached id; never raises for what a person may have typed."""
    try:
        summary = describe_source(model_files.model_path(place), on_cpu)
        parts = _gguf_parts(summary.path) if summary.kind == "gguf" else _folder_parts(summary.path)
        return Look(place, summary, parts)
    except LoadError as error:
        # Also what a download that was cancelled left in the cache can be fetched.
        is_id = model_files.looks_like_hub_id(place) and not os.path.exists(place)
        fetched = is_id and cached_snapshot(place) is not None
        return Look(place, problem="" if is_id and not fetched else str(error), missing=place.strip() if is_id else "")


def look_at_toy() -> Look:
    """The toy, which has no files."""
    toy = ModelSummary(Path("6-token toy"), "toy", "fixed logits", 0, 0, TOY_WORDS, None, "none", 0, 0, None)
    return Look("toy", toy)


def _gguf_parts(path: Path) -> Parts:
    tensors = read_gguf(path).tensors
    return _parts({name: (tensor.size, len(tensor.shape) == 2) for name, tensor in tensors.items()})


def _folder_parts(folder: Path) -> Parts:
    entry = model_files.read_config(folder).get("quantization")
    group = entry.get("group_size") if isinstance(entry, dict) else None
    group = group if type(group) is int and 0 < group < 2**20 else _MLX_GROUP
    tensors = check_weights(folder)
    sizes = {}
    for name, tensor in tensors.items():
        stem, _, part = name.rpartition(".")
        scales = tensors.get(f"{stem}.scales")
        if part in ("scales", "biases") and f"{stem}.weight" in tensors:
            continue
        is_packed = part == "weight" and tensor.dtype == "U32" and scales is not None
        sizes[name] = (scales.size * group if is_packed and scales else tensor.size, len(tensor.shape) == 2)
    return _parts(sizes)


def _parts(sizes: dict[str, tuple[int, bool]]) -> Parts:
    layers: dict[int, int] = {}
    matrices = mlp = attention = 0
    for name, (size, is_matrix) in sizes.items():
        if match := _LAYER.search(name):
            layers[int(match[1])] = layers.get(int(match[1]), 0) + size
        if is_matrix:
            matrices += size
            mlp += size if _MLP.search(name) else 0
            attention += size if _ATTENTION.search(name) else 0
    return Parts(tuple(layers[number] for number in sorted(layers)), matrices, mlp, attention)


def cost_of(drafter: Drafter, target: Look, on_cpu: bool) -> Cost:
    """What a drafter that isn't the pair's draft model takes, beside the target."""
    if drafter.kind.network == "none":
        return Cost(None, "No model: its drafts cost no forward pass and no memory.")
    summary, parts = target.summary, target.parts
    if summary is None:
        return Cost(None, "Its cost is known once the target is.")
    named = dataclasses.replace(summary, path=Path(drafter.text.partition(",")[0]), file_bytes=0, weight_bytes=0)
    size = millions(summary.parameters)
    if drafter.kind.id == "self":
        return Cost(named, f"{size} parameters, the target's own. Every draft agrees, so nothing gets faster.")
    if drafter.kind.id == "dropped":
        return _dropped(drafter, named, parts)
    count = parts.rounded(drafter.modules)
    scale = 4 if on_cpu else 2
    weight_bytes = count * drafter.bits // 8 + count // drafter.group * 2 * scale
    made = dataclasses.replace(
        named, weight_bytes=weight_bytes, quantization=f"{drafter.bits}-bit, groups of {drafter.group}"
    )
    rest = "" if drafter.modules == "all" else f" {millions(count)} of them are rounded, the rest is shared."
    return Cost(made, f"{size} parameters in {drafter.bits} bits, about {in_gib(weight_bytes)} more in memory.{rest}")


def _dropped(drafter: Drafter, named: ModelSummary, parts: Parts) -> Cost:
    total = named.layers or len(parts.layers)
    if total and drafter.last >= total:
        return Cost(None, "", f"{drafter.text}: expected layers from 0 to {total - 1}, all that the target has.")
    gone = drafter.last - drafter.first + 1
    if total and gone >= total:
        return Cost(None, "", f"{drafter.text}: that leaves the target no layer.")
    left = named.parameters - sum(parts.layers[drafter.first : drafter.last + 1])
    per_layer = named.cache_bytes_per_token
    made = dataclasses.replace(
        named,
        parameters=left,
        layers=total - gone,
        cache_bytes_per_token=per_layer * (total - gone) // total if per_layer and total else per_layer,
    )
    return Cost(
        made,
        f"{total - gone} of {total} layers, {millions(left)} of {millions(named.parameters)} parameters, shared with "
        "the target: its cache alone takes memory.",
    )


def memory_fit(target: Look, draft: ModelSummary | None, free_bytes: int | None = None) -> Fit | None:
    """Whether both fit into the free memory together; None while the target isn't known, or for what has no files."""
    if target.summary is None or target.summary.kind == "toy":
        return None
    same = draft is not None and draft.path == target.summary.path
    return fits([target.summary] if draft is None or same else [target.summary, draft], free_bytes)
