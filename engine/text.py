"""Token ids and their text: pieces as bytes, exact decoding, and text that streams in whole characters."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

PIECE_KINDS = ("text", "byte", "special", "unused")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What every token id stands for; plain Python, safe to hand to another thread.

    `pieces`: the bytes of each id as they stand in running text (b" the"). `special`: ids of control tokens,
    which add nothing to the text. `names`: printable names of the special tokens, by id. `sentencepiece`: pieces come
    from a SentencePiece vocabulary that puts a space before the first word of a text.
    """

    pieces: tuple[bytes, ...]
    special: frozenset[int]
    names: dict[int, str]
    end_ids: frozenset[int]
    sentencepiece: bool = False

    def __len__(self) -> int:
        return len(self.pieces)

    def kind(self, token: int) -> str:
        """`text`, `byte` (not whole UTF-8 by itself), `special`, or `unused` (an id without a piece)."""
        if token in self.special:
            return "special"
        if not 0 <= token < len(self.pieces) or not self.pieces[token]:
            return "unused"
        try:
            self.pieces[token].decode("utf-8")
        except UnicodeDecodeError:
            return "byte"
        return "text"

    def text_of(self, token: int) -> str:
        """The piece as text: a special token's name, `<0xE2>` for bytes that are no whole character alone."""
        kind = self.kind(token)
        if kind == "special":
            return self.names.get(token, f"<{token}>")
        if kind == "unused":
            return f"<unused {token}>"
        piece = self.pieces[token]
        return piece.decode("utf-8") if kind == "text" else "".join(f"<0x{byte:02X}>" for byte in piece)

    def decode(self, tokens: Iterable[int]) -> str:
        """The running text of these tokens; special tokens add nothing, broken UTF-8 shows as U+FFFD.

        A first space is kept, since text may stand before it.
        """
        stream = TextStream(self)
        return "".join([stream.add(token) for token in tokens]) + stream.finish()

    def whole_text(self, tokens: Iterable[int]) -> str:
        """These tokens as a text of their own: without the space that the vocabulary puts before its first word."""
        text = self.decode(tokens)
        return text.removeprefix(" ") if self.sentencepiece else text


class TextStream:
    """Decodes token by token; a character split over tokens appears once its last byte has come."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, token: int) -> str:
        """The text that this token completes, "" while a character is unfinished."""
        special = token in self._vocabulary.special or not 0 <= token < len(self._vocabulary.pieces)
        return "" if special else self._decoder.decode(self._vocabulary.pieces[token])

    def copy(self) -> TextStream:
        """Another stream that goes on from here."""
        other = TextStream(self._vocabulary)
        other._decoder.setstate(self._decoder.getstate())
        return other

    @property
    def unfinished(self) -> str:
        """What `finish` would give; the stream stays as it is."""
        return self._decoder.getstate()[0].decode("utf-8", "replace")

    def finish(self) -> str:
        """What is left at the end: U+FFFD for an unfinished character, else ""."""
        return self._decoder.decode(b"", final=True)


def toy_vocabulary(words: Sequence[str], end_ids: Iterable[int] = ()) -> Vocabulary:
    """A vocabulary of whole words, for the models with fixed logits."""
    return Vocabulary(tuple(word.encode() for word in words), frozenset(), {}, frozenset(end_ids))
