"""The tokenizer of a GGUF file, rebuilt from its metadata; vocabularies of other kinds are refused by name.

Sources: llama.cpp's src/llama-vocab.cpp for what the metadata means; the tokenizer.json of the models named here.
"""

from __future__ import annotations

import itertools
from typing import Any

from engine.gguf import GgufFile
from engine.model_files import LoadError, in_short
from engine.tokenizer import panics_told

_SPACE_MARK = "\u2581"
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
_NAMED_ENDS = ("<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "</s>")
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
# How a text is cut before merging, by tokenizer.ggml.pre: every digit alone, GPT-2's pattern, or one of these.
_DIGITS = ("smollm", "starcoder", "refact", "command-r", "codeshell")
_PLAIN = ("gpt-2", "gpt2", "olmo", "jais", "mpt")
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_PATTERNS = {"llama-bpe": r"\p{N}{1,3}", "llama3": r"\p{N}{1,3}", "llama-v3": r"\p{N}{1,3}", "qwen2": r"\p{N}"}
_PATTERNS |= {"deepseek-r1-qwen": r"\p{N}", "stablelm2": r"\p{N}"}
_MAX_PIECE = 1000  # characters of a piece that is merged from others; SentencePiece makes 16 at most by default
_MAX_MERGES = 2**22  # the largest vocabularies have half a million
_WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3")  # a piece that is in the vocabulary is not merged up to


def load_gguf_tokenizer(file: GgufFile) -> Any:
    """A transformers tokenizer with the ids, special tokens, BOS and chat template of the file; raises LoadError."""
    pieces = _pieces(file)
    kind = file.text("tokenizer.ggml.model")
    if kind not in ("gpt2", "llama"):
        raise LoadError(
            f"{file.path}: a vocabulary of the kind {kind!r} can't be read from a GGUF file: expected gpt2 (byte-level "
            "BPE) or llama (SentencePiece). Choose a safetensors copy of the model."
        )
    try:
        with panics_told():
            return _wrapped(file, _byte_level(file, pieces) if kind == "gpt2" else _sentencepiece(file, pieces), kind)
    except LoadError:
        raise
    except Exception as error:  # `tokenizers` raises a bare Exception for merges that its vocabulary doesn't hold
        raise LoadError(f"{file.path}: its tokenizer can't be rebuilt ({in_short(error)}).") from error


def gguf_end_ids(file: GgufFile) -> set[int]:
    """Ids that end a text: those the metadata names, and control tokens of a name that means nothing else."""
    pieces = _pieces(file)
    ends = {_token(file, key, len(pieces)) for key in _END_KEYS}
    return {token for token in ends if token is not None} | {
        token for token, (text, kind) in enumerate(pieces) if kind == _CONTROL and text in _NAMED_ENDS
    }


def _pieces(file: GgufFile) -> list[tuple[str, int]]:
    """(text, type) of every id."""
    texts = _list(file, "tokenizer.ggml.tokens", str)
    kinds = _list(file, "tokenizer.ggml.token_type", int, len(texts))
    seen: set[str] = set()
    for token, text in enumerate(texts):
        if text in seen:
            raise LoadError(f"{file.path}: tokenizer.ggml.tokens: {text!r} stands there twice, again as id {token}.")
        seen.add(text)
    return list(zip(texts, kinds, strict=True))


def _list(file: GgufFile, key: str, kind: type, length: int | None = None) -> list[Any]:
    values = file.metadata.get(key)
    if not isinstance(values, list) or not values or not all(type(value) is kind for value in values):
        raise LoadError(f"{file.path}: {key}: expected a list of {kind.__name__}.")
    if length is not None and len(values) != length:
        raise LoadError(f"{file.path}: {key}: expected {length} entries, found {len(values)}.")
    return values


def _token(file: GgufFile, name: str, size: int) -> int | None:
    key = f"tokenizer.ggml.{name}"
    if key not in file.metadata:
        return None
    token = file.whole(key)
    if not 0 <= token < size:
        raise LoadError(f"{file.path}: {key}: {token} is none of the {size} ids.")
    return token


def _byte_level(file: GgufFile, pieces: list[tuple[str, int]]) -> Any:
    from tokenizers import Tokenizer, decoders, models

    pre = file.text("tokenizer.ggml.pre", "")
    vocab = {text: token for token, (text, kind) in enumerate(pieces) if kind != _UNUSED}
    merges = [tuple(line.split(" ")) for line in _list(file, "tokenizer.ggml.merges", str)]
    if wrong := next((merge for merge in merges if len(merge) != 2), None):
        raise LoadError(f"{file.path}: tokenizer.ggml.merges: expected two pieces, found {' '.join(wrong)!r}.")
    tokenizer = Tokenizer(models.BPE(vocab, merges, ignore_merges=pre in _WHOLE_WORDS))
    tokenizer.pre_tokenizer = _cutter(file, pre)
    tokenizer.decoder = decoders.ByteLevel()
    _add_tokens(tokenizer, pieces)
    return tokenizer


def _cutter(file: GgufFile, pre: str) -> Any:
    from tokenizers import Regex, pre_tokenizers

    if pre in _DIGITS:
        step: Any = pre_tokenizers.Digits(individual_digits=True)
        return pre_tokenizers.Sequence([step, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    if pre in _PLAIN:
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pre in _PATTERNS:
        step = pre_tokenizers.Split(Regex(_CONTRACTIONS + _PATTERNS[pre] + _REST), "isolated")
        return pre_tokenizers.Sequence([step, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    raise LoadError(
        f"{file.path}: tokenizer.ggml.pre {pre!r}: how this vocabulary cuts a text is not known here. Choose a "
        "safetensors copy of the model."
    )


def _sentencepiece(file: GgufFile, pieces: list[tuple[str, int]]) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers

    scores = _list(file, "tokenizer.ggml.scores", float, len(pieces))
    vocab = {text: token for token, (text, kind) in enumerate(pieces) if kind != _UNUSED}
    unknown = _token(file, "unknown_token_id", len(pieces))
    unk = next((text for text, kind in pieces if kind == _UNKNOWN), None) if unknown is None else pieces[unknown][0]
    merges = _merges(file, pieces, scores)
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token=unk, byte_fallback=True, fuse_unk=True))
    prefix = file.flag("tokenizer.ggml.add_space_prefix", True)
    steps: list[Any] = [normalizers.Prepend(_SPACE_MARK)] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", _SPACE_MARK)])
    strip: list[Any] = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE_MARK, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    _add_tokens(tokenizer, pieces)
    return tokenizer


def _merges(file: GgufFile, pieces: list[tuple[str, int]], scores: list[float]) -> list[tuple[str, str]]:
    """Every way to make a piece of two others, best score first; raises LoadError where scores are no order."""
    normal = {text: token for token, (text, kind) in enumerate(pieces) if kind == _NORMAL}
    ranked: list[tuple[float, list[tuple[str, str]]]] = []
    total = 0
    for text, token in normal.items():
        if len(text) > _MAX_PIECE:
            raise LoadError(
                f"{file.path}: tokenizer.ggml.tokens: id {token} has {len(text)} characters, at most {_MAX_PIECE} are "
                "expected."
            )
        ways = [at for at in range(1, len(text)) if text[:at] in normal and text[at:] in normal]
        total += len(ways)
        if total > _MAX_MERGES:
            raise LoadError(f"{file.path}: tokenizer.ggml.tokens: its pieces are made of each other in too many ways.")
        if found := [(text[:at], text[at:]) for at in ways]:
            ranked.append((-scores[token], sorted(found, key=lambda cut: (normal[cut[0]], normal[cut[1]]))))
    ranked.sort(key=lambda entry: entry[0])
    if any(one[0] == after[0] for one, after in itertools.pairwise(ranked)):
        raise LoadError(f"{file.path}: tokenizer.ggml.scores: pieces of equal score leave open which is merged first.")
    return [cut for _, cuts in ranked for cut in cuts]


def _add_tokens(tokenizer: Any, pieces: list[tuple[str, int]]) -> None:
    from tokenizers import AddedToken

    def of(*kinds: int) -> list[Any]:
        return [AddedToken(text, normalized=False) for text, kind in pieces if kind in kinds and text]

    tokenizer.add_special_tokens(of(_CONTROL, _UNKNOWN))
    tokenizer.add_tokens(of(_USER_DEFINED))


def _wrapped(file: GgufFile, tokenizer: Any, kind: str) -> Any:
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    pieces = file.metadata["tokenizer.ggml.tokens"]
    names: dict[str, Any] = {}
    for role in ("bos", "eos", "unknown", "padding"):
        if (token := _token(file, f"{role}_token_id", len(pieces))) is not None:
            names[{"unknown": "unk", "padding": "pad"}.get(role, role) + "_token"] = pieces[token]
    starts = kind == "llama" or file.metadata.get("tokenizer.ggml.pre") in _WHOLE_WORDS
    if file.flag("tokenizer.ggml.add_bos_token", starts) and "bos_token" in names:
        bos = names["bos_token"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[bos, "$A"], special_tokens=[(bos, pieces.index(bos))]
        )
    template = file.metadata.get("tokenizer.chat_template")
    if isinstance(template, str):
        names["chat_template"] = template
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False, **names)
