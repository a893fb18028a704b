"""What leaves a round: the emitted tokens up to what ends the run, their sources, the drafts' fates, and the text."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from engine.text import TextStream, Vocabulary


class TextSoFar:
    """The text of a run, with everything held back that might still become part of a stop string."""

    def __init__(self, vocabulary: Vocabulary, stop: Sequence[str]) -> None:
        self._stream, self._stop = TextStream(vocabulary), tuple(stop)
        self._text = ""
        self._closed = False
        self._unfinished = ""  # how `close` showed a character whose last bytes may still come

    def copy(self) -> TextSoFar:
        """As it is now, for what comes to be taken back."""
        other = copy(self)
        other._stream = self._stream.copy()
        return other

    def add(self, token: int) -> str | None:
        """Take a token; returns the stop string that it completed, if any, and cuts the text before it."""
        fresh = self._stream.add(token)
        searched = max(len(self._text) - max(map(len, self._stop), default=1) + 1, 0)
        self._text += fresh
        found = [(at, s) for s in self._stop if (at := self._text.find(s, searched)) >= 0]
        if not found:
            return None
        at, string = min(found)
        self._text = self._text[:at]
        self._closed = True
        return string

    @property
    def visible(self) -> str:
        """The text without a tail that could be the beginning of a stop string, until the run has ended."""
        if self._closed or not self._stop:
            return self._text
        longest = min(max(map(len, self._stop)) - 1, len(self._text))
        for length in range(longest, 0, -1):
            tail = self._text[len(self._text) - length :]
            if any(s.startswith(tail) for s in self._stop):
                return self._text[: len(self._text) - length]
        return self._text

    def close(self) -> None:
        """No more tokens come: show what was held back."""
        if not self._closed:
            self._unfinished = self._stream.unfinished
            self._text += self._unfinished
            self._closed = True

    def reopen(self) -> None:
        """Go on after an end, also within a character."""
        self._text = self._text.removesuffix(self._unfinished)
        self._unfinished = ""
        self._closed = False


def keep_emitted(
    tokens: Sequence[int], room: int | None, end_ids: frozenset[int], text: TextSoFar
) -> tuple[list[int], str]:
    """(tokens kept, why the run stops or ""): up to an end-of-sequence token, a stop string, or `room` tokens."""
    kept: list[int] = []
    for token in tokens:
        if room is not None and len(kept) == room:
            break
        kept.append(token)
        if token in end_ids:
            return kept, f"End-of-sequence token {token}."
        if (string := text.add(token)) is not None:
            return kept, f"Stop string {string!r}."
    return kept, ""


def fates_of(k: int, count: int, emitted: int) -> list[str]:
    """accepted..., rejected, ignored...; drafts behind the token that ended the run are ignored, too."""
    accepted = min(count, emitted)
    tested = k if emitted > count else accepted
    return ["accepted" if i < accepted else "rejected" if i == count and i < tested else "ignored" for i in range(k)]


def source_of(position: int, count: int, k: int, on_rejection: str, degenerate: bool) -> str:
    """Where an emitted token came from; position counts within the round, `count` drafts were kept."""
    if position < count:
        return "accepted"
    if k == 0:
        return "target-draw"
    if count == k:
        return "bonus"
    return "degenerate-fallback" if degenerate else on_rejection
