"""An mlx-lm network with the weights of a GGUF file, packed ones kept packed.

The bytes are read here and not by `mx.load`: that opens the file for writing, reads it whole without a word of
progress, turns BF16 into half precision, and (MLX 0.32.4) unpacks Q4_K wrongly.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from engine.backend import is_cpu, mx, nn
from engine.gguf import PACKED_BITS, GgufFile, GgufTensor
from engine.gguf_config import ROPE_FACTORS, check_shapes, network_config, rotated_heads, weight_names
from engine.model_files import LoadError

GROUP = 32  # weights that share a scale, in every packed type that is kept
_SCALE_BYTES = {"Q4_0": 2, "Q4_1": 4, "Q8_0": 2}


class UnpackingError(LoadError):
    """The file has types that would have to be unpacked, which was not allowed."""


class StretchedRope(nn.Module):  # type: ignore[name-defined]
    """Rotary embedding whose wavelengths are multiplied by factors, as Llama 3.1 and later have it."""

    def __init__(self, base: float, factors: mx.array) -> None:
        super().__init__()
        self.dims = 2 * factors.size
        self._freqs = factors * mx.power(base, mx.arange(0, self.dims, 2) / self.dims)

    def __call__(self, x: mx.array, offset: Any = 0) -> mx.array:
        return mx.fast.rope(x, self.dims, traditional=False, base=None, scale=1.0, offset=offset, freqs=self._freqs)


def build_network(
    file: GgufFile, progress: Callable[[int, int], None], unpack: bool
) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    """(network, its configuration, notices); `progress` is told (bytes read, bytes in all). Raises LoadError.

    On the CPU everything that isn't packed is float32. `unpack` allows types that MLX can't hold packed.
    """
    config = network_config(file)
    names = weight_names(file, config)
    check_shapes(file, config, names)
    others = file.unpacked_types
    if others and not unpack:
        raise UnpackingError(
            f"{file.path}: tensors of type {', '.join(others)} can't be held packed, as {', '.join(PACKED_BITS)} can. "
            "Choose another file of the model, or allow it to be unpacked, which takes more memory."
        )
    dtype = _float_type(file)
    module: Any = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    network = module.Model(module.ModelArgs.from_dict(config))
    config["quantization"] = _pack_modules(file, names, network)
    weights = _read(file, config, names, dtype, progress)
    if ROPE_FACTORS in file.tensors:
        _stretch(file, config, network)
    network.eval()
    network.load_weights(list(weights.items()))
    notices = (f"{file.path.name}: {', '.join(others)} unpacked to {str(dtype).rpartition('.')[2]}.",) if others else ()
    return network, config, notices


def _float_type(file: GgufFile) -> mx.Dtype:
    """What scales, norms and unpacked weights are held in."""
    matrices = {tensor.type for tensor in file.tensors.values() if len(tensor.shape) > 1}
    if is_cpu() or matrices == {"F32"}:
        return mx.float32
    return mx.bfloat16 if "BF16" in matrices else mx.float16


def _pack_modules(file: GgufFile, names: dict[str, str], network: Any) -> dict[str, Any] | None:
    """Put quantized modules where the file has packed weights; the configuration's entry for them."""
    bits = {
        ours.rpartition(".")[0]: PACKED_BITS[file.tensors[name].type]
        for name, ours in names.items()
        if file.tensors[name].type in PACKED_BITS
    }
    if not bits:
        return None
    usual = Counter(bits.values()).most_common(1)[0][0]
    entries: dict[str, Any] = {"group_size": GROUP, "bits": usual}
    for path, count in bits.items():
        if count != usual:
            entries[path] = {"group_size": GROUP, "bits": count}

    modules = dict(network.named_modules())
    if bad := [path for path in bits if not hasattr(modules.get(path), "to_quantized")]:
        raise LoadError(f"{file.path}: {bad[0]} is packed, which a {file.architecture} network has no place for.")

    def choose(path: str, module: Any) -> bool | dict[str, int]:
        return {"group_size": GROUP, "bits": bits[path]} if path in bits else False

    quantize: Any = nn.quantize  # type: ignore[attr-defined]
    quantize(network, group_size=GROUP, bits=usual, class_predicate=choose)
    return entries


def _read(
    file: GgufFile, config: dict[str, Any], names: dict[str, str], dtype: mx.Dtype, progress: Callable[[int, int], None]
) -> dict[str, mx.array]:
    """Every weight by mlx-lm's name, evaluated."""
    total, done = sum(file.tensors[name].nbytes for name in names), 0
    weights: dict[str, mx.array] = {}
    with file.path.open("rb") as stream:
        for name, ours in names.items():
            progress(done, total)
            tensor = file.tensors[name]
            heads = rotated_heads(config, ours)
            for part, array in _parts(_bytes(file, stream, tensor), tensor, dtype).items():
                weights[f"{ours.rpartition('.')[0]}.{part}"] = _halves(array, heads) if heads else array
            mx.eval([weights[key] for key in list(weights)[-3:]])
            done += tensor.nbytes
    progress(done, total)
    return weights


def _bytes(file: GgufFile, stream: BinaryIO, tensor: GgufTensor) -> np.ndarray:
    stream.seek(tensor.start)
    data = stream.read(tensor.nbytes)
    if len(data) < tensor.nbytes:
        raise LoadError(f"{file.path} has become shorter while it was read.")
    return np.frombuffer(data, np.uint8)


def _parts(data: np.ndarray, tensor: GgufTensor, dtype: mx.Dtype) -> dict[str, mx.array]:
    """weight or bias, and scales and biases of a packed weight, from the bytes in the file."""
    part = tensor.name.rpartition(".")[2]
    if tensor.type in PACKED_BITS:
        return _packed(data, tensor, dtype)
    if tensor.type == "BF16":
        array = mx.array(data.view("<u2")).view(mx.bfloat16)
    elif tensor.type in ("F16", "F32"):
        array = mx.array(data.view("<f2" if tensor.type == "F16" else "<f4"))
    else:
        array = mx.array(_unpacked(data, tensor))
    return {part: array.reshape(tensor.shape).astype(dtype)}


def _packed(data: np.ndarray, tensor: GgufTensor, dtype: mx.Dtype) -> dict[str, mx.array]:
    """MLX's layout of a packed weight: codes in 32-bit words, the first lowest; weight = scale * code + bias."""
    rows, width = tensor.shape
    blocks = data.reshape(rows * width // GROUP, -1)
    head = _SCALE_BYTES[tensor.type]
    floats = blocks[:, :head].copy().view("<f2").astype(np.float32)
    codes = blocks[:, head:]
    if tensor.type == "Q8_0":
        words, zero = codes ^ 0x80, 128  # from -128..127 to 0..255
    else:
        # A byte holds codes n and n + 16 of its group; MLX wants neighbours together.
        loose = np.concatenate([codes & 15, codes >> 4], axis=1)
        words, zero = loose[:, 0::2] | loose[:, 1::2] << 4, 8
    scales = floats[:, 0]
    biases = floats[:, 1] if tensor.type == "Q4_1" else -zero * scales
    return {
        "weight": mx.array(np.ascontiguousarray(words).view("<u4").reshape(rows, -1)),
        "scales": mx.array(scales.reshape(rows, -1)).astype(dtype),
        "biases": mx.array(biases.reshape(rows, -1)).astype(dtype),
    }


def _unpacked(data: np.ndarray, tensor: GgufTensor) -> np.ndarray:
    """Weights of any other type, float32; raises LoadError for one that the `gguf` package doesn't unpack."""
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    try:
        return dequantize(data.reshape(tensor.shape[0], -1), GGMLQuantizationType[tensor.type])
    except (NotImplementedError, KeyError) as error:
        raise LoadError(f"Tensor {tensor.name!r} of type {tensor.type} can't be unpacked.") from error


def _halves(array: mx.array, heads: int) -> mx.array:
    """Rows of queries or keys with each head's halves together, where the file has them interleaved."""
    return array.reshape(heads, array.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(array.shape)


def _stretch(file: GgufFile, config: dict[str, Any], network: Any) -> None:
    with file.path.open("rb") as stream:
        tensor = file.tensors[ROPE_FACTORS]
        factors = _parts(_bytes(file, stream, tensor), tensor, mx.float32)["weight"].reshape(-1)
    for layer in network.layers:
        layer.self_attn.rope = StretchedRope(config["rope_theta"], factors)
