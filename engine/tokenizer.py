"""From a Hugging Face tokenizer to what the program uses: token pieces as bytes, and a plain `encode`."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from engine.text import Vocabulary

Chat = Callable[[Sequence[dict[str, str]]], str]
"""From messages (role, content) to a text that ends where the answer begins; raises ValueError if they don't fit."""

CHAT_SECONDS = 2.0
"""What a chat template may take; those of real models take a few milliseconds."""
MAX_CHAT = 2**24
"""Characters that a chat template may make of the messages."""

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE_MARK = "\u2581"  # SentencePiece's visible space


def byte_alphabet() -> dict[str, int]:
    """The character that stands for each byte in byte-level BPE vocabularies. Source: GPT-2's encoder."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + n): byte for n, byte in enumerate(others)}


_BYTES = byte_alphabet()


@contextmanager
def panics_told() -> Iterator[None]:
    """Raise a ValueError where a library written in Rust panics, which is no Exception and ends a thread unheard."""
    try:
        yield
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise ValueError(f"The tokenizer's library gave up: {str(error)[:200]}") from error


def _byte_level_piece(token: str) -> bytes:
    if all(char in _BYTES for char in token):
        return bytes(_BYTES[char] for char in token)
    return token.encode()


def _sentencepiece_piece(token: str) -> bytes:
    if match := _BYTE_TOKEN.fullmatch(token):
        return bytes.fromhex(match[1])
    return token.replace(_SPACE_MARK, " ").encode()


def _decoder_parts(tokenizer: Any) -> list[dict[str, Any]]:
    """The steps of the tokenizer's decoder, flattened; empty for a tokenizer without a description of itself."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None or not hasattr(backend, "to_str"):
        return []
    decoder = json.loads(backend.to_str()).get("decoder") or {}
    return [decoder, *decoder.get("decoders", ())]


def tokenizer_kind(tokenizer: Any) -> str:
    """`byte-level`, `sentencepiece`, or `other`: how the strings of the vocabulary stand for bytes."""
    parts = _decoder_parts(tokenizer)
    types = {part.get("type") for part in parts}
    if "ByteLevel" in types:
        return "byte-level"
    marks = [part.get("pattern") for part in parts if part.get("type") == "Replace"]
    if types & {"ByteFallback", "Metaspace"} or {"String": _SPACE_MARK} in marks:
        return "sentencepiece"
    return "other"


def _puts_space_first(tokenizer: Any) -> bool:
    """Whether the tokenizer puts a space before a text, and takes it away when it decodes one."""
    return any(
        (part.get("type") == "Strip" and part.get("start", 0) > 0)
        or (part.get("type") == "Metaspace" and part.get("prepend_scheme", "always") != "never")
        for part in _decoder_parts(tokenizer)
    )


def _decoded_piece(tokenizer: Any) -> Callable[[int], bytes]:
    """Pieces by the tokenizer's own decoding, behind a plain token so that no leading space is trimmed."""
    anchor = tokenizer.encode("a", add_special_tokens=False)
    before = tokenizer.decode(anchor, clean_up_tokenization_spaces=False)

    def piece(token: int) -> bytes:
        text: str = tokenizer.decode([*anchor, token], clean_up_tokenization_spaces=False)
        return text.removeprefix(before).encode()

    return piece


def build_vocabulary(tokenizer: Any, vocab_size: int, end_ids: Iterable[int]) -> Vocabulary:
    """What each of the `vocab_size` ids stands for; ids that the tokenizer lacks (padded logits) are unused."""
    kind = tokenizer_kind(tokenizer)
    added = {int(token): entry for token, entry in tokenizer.added_tokens_decoder.items()}
    names = {token: str(entry.content) for token, entry in added.items() if entry.special and token < vocab_size}
    decoded = _decoded_piece(tokenizer) if kind == "other" else None
    pieces = [b""] * vocab_size
    for text, token in tokenizer.get_vocab().items():
        if token >= vocab_size or token in names:
            continue
        if token in added:
            pieces[token] = str(added[token].content).encode()
        elif decoded is not None:
            pieces[token] = decoded(token)
        else:
            pieces[token] = _byte_level_piece(text) if kind == "byte-level" else _sentencepiece_piece(text)
    end = frozenset(token for token in end_ids if 0 <= token < vocab_size)
    spaced = kind == "sentencepiece" and _puts_space_first(tokenizer)
    return Vocabulary(tuple(pieces), frozenset(names), names, end, sentencepiece=spaced)


def make_encoder(tokenizer: Any, vocab_size: int) -> Callable[[str], list[int]]:
    """A function from text to ids, safe on any thread.

    What the tokenizer puts before a text (BOS) comes exactly once, also where the text begins with it; what it
    puts behind (EOS) is left out, since the model is to go on. Raises ValueError for text that has no UTF-8,
    and for an id that the logits lack.
    """
    lock = threading.Lock()  # transformers changes the tokenizer's state while it encodes

    def ids_of(text: str, special: bool) -> list[int]:
        with lock, panics_told():
            return list(tokenizer.encode(text, add_special_tokens=special, verbose=False))

    plain, full = ids_of("a", False), ids_of("a", True)
    starts = [at for at in range(len(full)) if full[at : at + len(plain)] == plain]
    prefix = full[: starts[0]] if starts else []

    def encode(text: str) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"Character {error.start} of the text is half a surrogate pair, not a character") from None
        ids = ids_of(text, False)
        if ids[: len(prefix)] != prefix:
            ids = prefix + ids
        if ids and max(ids) >= vocab_size:
            raise ValueError(f"The tokenizer gives id {max(ids)}, but the model has logits for {vocab_size} ids only")
        return ids

    return encode


class _TooLong(ValueError):
    """A chat template went on for longer than it may."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise _TooLong in what this thread runs within, where it takes longer; a debugger's trace waits meanwhile."""
    until, before = time.monotonic() + seconds, sys.gettrace()

    def look(frame: FrameType, event: str, argument: object) -> Any:
        if time.monotonic() > until:
            raise _TooLong(f"it was stopped after {seconds:g} seconds")
        return look if frame.f_code.co_filename == "<template>" else None  # loops there may call nothing

    sys.settrace(look)
    try:
        yield
    finally:
        sys.settrace(before)


def make_chat(tokenizer: Any) -> Chat | None:
    """The tokenizer's chat template as a function, safe on any thread; None if it has none.

    Jinja's sandbox keeps a template from files and from the program, but not from going on for ever: that is stopped,
    and such a template isn't tried again.
    """
    if not getattr(tokenizer, "chat_template", None):
        return None
    lock = threading.Lock()
    endless: list[str] = []

    def chat(messages: Sequence[dict[str, str]]) -> str:
        if endless:
            raise ValueError(endless[0])
        try:
            with lock, _at_most(CHAT_SECONDS):
                text = str(tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=True))
        except Exception as error:  # a template is a program of its own, and may raise whatever it likes
            why = " ".join(str(error).split())[:300] or type(error).__name__
            words = f"The model's chat template can't be applied: {why}"
            if isinstance(error, _TooLong):
                endless.append(words)
            raise ValueError(words) from error
        if len(text) > MAX_CHAT:
            raise ValueError(
                f"The model's chat template can't be applied: it makes {len(text):,} characters, at most {MAX_CHAT:,} "
                "are taken"
            )
        return text

    return chat
