"""Small model folders and tokenizers, made on the spot, for the tests of loading."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from engine.backend import mx, tree_flatten
from engine.tokenizer import byte_alphabet

END = "<｜end▁of▁sentence｜>"  # with the full-width bars that some models use

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}


def byte_level_tokenizer(words: tuple[str, ...] = (" lead", " the"), bos: bool = False) -> Tokenizer:
    """256 bytes (ids 0 to 255 by value), the merges that lead to `words`, then END, <s> and the plain <café>."""
    chars = {byte: char for char, byte in byte_alphabet().items()}
    vocab = {chars[byte]: byte for byte in range(256)}
    merges: list[tuple[str, str]] = []
    for word in words:
        left = chars[word.encode()[0]]
        for byte in word.encode()[1:]:
            pair = (left, chars[byte])
            left = "".join(pair)
            if left not in vocab:
                vocab[left] = len(vocab)
                merges.append(pair)
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(END, normalized=False), AddedToken("<s>", normalized=False)])
    tokenizer.add_tokens([AddedToken("<café>", normalized=False)])
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"<s> $A {END}",
            special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("<s>", END)],
        )
    return tokenizer


def sentencepiece_tokenizer() -> Tokenizer:
    """In the manner of Llama 2: <unk> <s> </s>, 256 byte tokens, letters, and a few merges; BOS before a text."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2} | {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    for piece in ("▁", *"leadbok", "▁l", "▁le", "▁lea", "▁lead"):
        vocab[piece] = len(vocab)
    merges = [("▁", "l"), ("▁l", "e"), ("▁le", "a"), ("▁lea", "d")]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in ("<unk>", "<s>", "</s>")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def network_of(arguments: dict[str, Any]) -> Any:
    """An mlx-lm network with random weights."""
    module = importlib.import_module(f"mlx_lm.models.{arguments['model_type']}")
    return module.Model(module.ModelArgs.from_dict(arguments))


def write_folder(
    folder: Path,
    tokenizer: Tokenizer | None = None,
    *,
    shards: int = 1,
    dtype: str = "float16",
    eos: str | None = END,
    **config: Any,
) -> Path:
    """Write an mlx-lm folder with random weights; `config` adds to or overrides the arguments of LLAMA."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = tokenizer or byte_level_tokenizer()
    arguments = {**LLAMA, "vocab_size": tokenizer.get_vocab_size(), **config}
    flat: Any = tree_flatten(network_of(arguments).parameters())
    weights = {name: array.astype(getattr(mx, dtype)) for name, array in flat}
    names = sorted(weights)
    if shards == 1:
        mx.save_safetensors(str(folder / "model.safetensors"), weights)
    else:
        weight_map = {}
        for n in range(shards):
            file = f"model-{n + 1:05d}-of-{shards:05d}.safetensors"
            mx.save_safetensors(str(folder / file), {name: weights[name] for name in names[n::shards]})
            weight_map |= dict.fromkeys(names[n::shards], file)
        write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})
    write_json(folder / "config.json", arguments)
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": eos})
    return folder


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def edit_json(path: Path, **changes: Any) -> None:
    """Set keys of a JSON object in a file; None removes one."""
    value = json.loads(path.read_text(encoding="utf-8")) | changes
    write_json(path, {key: entry for key, entry in value.items() if entry is not None})
