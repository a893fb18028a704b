"""What is written to standard output and standard error: safe on a terminal, exact in a pipe; tables; Ctrl+C."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, TextIO

from app.format import visible_string

_KEPT = "\n\t"
# Bidirectional overrides and isolates reorder what a terminal shows of the lines around them.
_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def harmless(text: str) -> str:
    """Text whose control characters, newline and tab apart, are spelled out: ESC as `\\x1b`."""
    return "".join(_spelled(c) for c in text)


def _spelled(character: str) -> str:
    code = ord(character)
    if character not in _KEPT and (code < 0x20 or 0x7F <= code < 0xA0):
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if character in _REORDERING else character


class _Terminal:
    """Whether the line that both streams share on a terminal has been begun by the text, and not ended."""

    begun = False


class TextOut:
    """Streams a text as it grows: as it is into a pipe or file, harmless on a terminal."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._shown, self._last = stream, 0, "\n"
        self._is_terminal = stream.isatty()
        self._safe = harmless if self._is_terminal else str

    def show(self, text: str) -> None:
        """Write what `text` has beyond the part already written."""
        fresh = text[self._shown :]
        if fresh:
            self._stream.write(self._safe(fresh))
            self._stream.flush()
            self._shown, self._last = len(text), fresh[-1]
            _Terminal.begun = self._is_terminal and self._last != "\n"

    def line(self, text: str) -> None:
        """Write a line of its own below the text."""
        begun = _Terminal.begun if self._is_terminal else self._last != "\n"
        self._stream.write(("\n" if begun else "") + text + "\n")
        self._stream.flush()
        self._last, _Terminal.begun = "\n", False


def say(text: str) -> None:
    """One line for a person, on standard error; names of models and files in it can do no harm."""
    begun, _Terminal.begun = _Terminal.begun and sys.stderr.isatty(), False
    print(("\n" if begun else "") + visible_string(text), file=sys.stderr, flush=True)


def print_json(value: dict[str, Any]) -> None:
    """One strict JSON object on standard output. ASCII only, so that any terminal and encoding takes it."""
    print(json.dumps(value, allow_nan=False), flush=True)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Aligned columns, the first `left` ones to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([line(header), line(["-" * w for w in widths]), *map(line, rows)])


@contextmanager
def on_interrupt(action: Callable[[], None]) -> Iterator[None]:
    """Within it the first Ctrl+C calls `action`, a second one raises KeyboardInterrupt. Main thread only."""

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        action()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
