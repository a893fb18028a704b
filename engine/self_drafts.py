"""Drafts made from the target itself: some of its layers left out, or its weights in fewer bits; nothing is loaded."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from engine.backend import mx
from engine.backend import nn as mlx_nn
from engine.drafter_kinds import Drafter, DrafterError
from engine.models import LanguageModel
from engine.pair_fit import FittedWidth

nn: Any = mlx_nn  # MLX's stubs leave its layers out


def self_draft(target: LanguageModel, drafter: Drafter) -> LanguageModel:
    """The network that `drafter` (dropped, requantized or self) makes of the target; shares what it doesn't change.

    Lazy but for the weights that are new. Raises DrafterError where it can't be made.
    """
    if drafter.kind.id == "self":
        return dataclasses.replace(target, notices=())
    fitted = target.network if isinstance(target.network, FittedWidth) else None
    target = target if fitted is None else dataclasses.replace(target, network=fitted.network)
    if not isinstance(target.network, nn.Module):
        raise DrafterError(f"{drafter.text}: {target.info.name} has no layers or weights that could be changed")
    made = _dropped(target, drafter) if drafter.kind.id == "dropped" else _requantized(target, drafter)
    return made if fitted is None else dataclasses.replace(made, network=FittedWidth(made.network, fitted.width))


def _dropped(target: LanguageModel, drafter: Drafter) -> LanguageModel:
    from mlx_lm.models.cache import KVCache, make_prompt_cache

    name, total = target.info.name, target.info.layers
    if not all(type(layer) is KVCache for layer in target.make_cache()):
        raise DrafterError(
            f"{drafter.text}: layers can be left out only of a model whose layers are all alike, with plain key-value "
            f"caches; {name} has {target.info.cache_type}"
        )
    if drafter.last >= total:
        raise DrafterError(f"{drafter.text}: expected layers below {total}, all that {name} has")
    left = total - (drafter.last - drafter.first + 1)
    if left < 1:
        raise DrafterError(f"{drafter.text}: that leaves {name} no layer")
    network = _share(target.network)
    inner: Any = getattr(network, "model", None)
    layers = getattr(inner, "layers", None)
    if not isinstance(layers, list) or len(layers) != total:
        raise DrafterError(f"{drafter.text}: the layers of a {target.info.model_type} model can't be left out")
    inner.layers = layers[: drafter.first] + layers[drafter.last + 1 :]
    made = list(make_prompt_cache(network))
    if len(made) != left:
        raise DrafterError(f"{drafter.text}: {name} would still make {len(made)} caches for {left} layers")
    words = f"layer {drafter.first}" if left == total - 1 else f"layers {drafter.first}-{drafter.last}"
    info = dataclasses.replace(
        target.info, name=f"{name}, {words} dropped", layers=left, parameters=_parameters(network)
    )
    return dataclasses.replace(
        target, network=network, info=info, make_cache=lambda: list(make_prompt_cache(network)), notices=()
    )


def _requantized(target: LanguageModel, drafter: Drafter) -> LanguageModel:
    from mlx_lm.models.cache import make_prompt_cache

    network = _share(target.network)
    chosen = [
        (path, module)
        for path, module in network.named_modules()
        if isinstance(module, nn.Linear | nn.Embedding | nn.QuantizedLinear | nn.QuantizedEmbedding)
        and _belongs(path, drafter.modules)
    ]
    made = {path: new for path, module in chosen if (new := _rounded(module, drafter)) is not None}
    if not made:
        raise DrafterError(
            f"{drafter.text}: nothing of {target.info.name} can be rounded so ({drafter.modules}): a row must be a "
            f"multiple of {drafter.group} values long"
        )
    for path, module in made.items():
        _put(network, path, module)
    mx.eval(network.parameters())
    part = "" if drafter.modules == "all" else f", {drafter.modules}"
    name = f"{target.info.name}, requantized to {drafter.bits} bits in groups of {drafter.group}{part}"
    notices: tuple[str, ...] = ()
    if len(made) < len(chosen):
        notices = (
            f"{drafter.text}: {len(chosen) - len(made)} of {len(chosen)} modules stay as they are, "
            f"their rows are no multiple of {drafter.group} values.",
        )
    info = dataclasses.replace(target.info, name=name, dtype=_bits_words(target.info.dtype, drafter))
    return dataclasses.replace(
        target, network=network, info=info, make_cache=lambda: list(make_prompt_cache(network)), notices=notices
    )


def _share(value: Any) -> Any:
    """A copy of a network's structure over the same arrays: parts of it can be replaced, and the original stays."""
    if isinstance(value, nn.Module):
        made = copy.copy(value)
        for key, part in value.items():
            dict.__setitem__(made, key, _share(part))
        return made
    if isinstance(value, list | tuple):
        return type(value)(_share(part) for part in value)
    return value


def _put(network: Any, path: str, module: Any) -> None:
    """Put a module in the place of another, by its dotted path."""
    *way, last = path.split(".")
    place = network
    for step in way:
        place = place[int(step)] if isinstance(place, list) else place[step]
    place[int(last) if isinstance(place, list) else last] = module


def _belongs(path: str, modules: str) -> bool:
    wanted = {"mlp": ("mlp", "feed_forward"), "attention": ("self_attn", "attention")}.get(modules)
    return wanted is None or any(step in wanted for step in path.split("."))


def _rounded(module: Any, drafter: Drafter) -> Any | None:
    """The module in so many bits, from its full weights; None where a row doesn't split into groups."""
    weight = module.weight
    if isinstance(module, nn.QuantizedLinear | nn.QuantizedEmbedding):
        weight = mx.dequantize(
            weight,
            module.scales,
            module.get("biases"),
            group_size=module.group_size,
            bits=module.bits,
            mode=module.mode,
        )
    if weight.shape[1] % drafter.group:
        return None
    if isinstance(module, nn.Embedding | nn.QuantizedEmbedding):
        plain = nn.Embedding(1, 1)
    else:
        plain = nn.Linear(1, 1, bias="bias" in module)
        if "bias" in module:
            plain.bias = module.bias
    plain.weight = weight
    return plain.to_quantized(group_size=drafter.group, bits=drafter.bits)


def _parameters(network: Any) -> int:
    from mlx_lm.utils import get_total_parameters

    return int(get_total_parameters(network))


def _bits_words(dtype: str, drafter: Drafter) -> str:
    return f"{dtype.partition(',')[0]}, {drafter.bits}-bit weights"
