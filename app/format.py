"""Numbers, times and token text as a person reads them; the same spelling in every panel. No Qt."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator

from engine.text import Vocabulary

NOTHING = "-"
"""What stands where a value is undefined or was not recorded."""

_MARKS = {" ": "·", "\n": "↵", "\t": "→"}
_INVISIBLE = frozenset("\u034f\u115f\u1160\u2800\u3164\uffa0")
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})


def _tidy(text: str) -> str:
    """`1.2e-05` as `1.2e-5`, and no decimal point without decimals."""
    mantissa, separator, exponent = text.partition("e")
    return mantissa.removesuffix(".") + (f"e{int(exponent)}" if separator else "")


def probability(value: float | None) -> str:
    """Four decimals, so that points line up in a column; `1.2e-5` below 0.001, `0` only for an exact zero."""
    if value is None or math.isnan(value):
        return NOTHING
    if value == 0:
        return "0"
    return _tidy(f"{value:.1e}") if abs(value) < 0.001 else f"{value:.4f}"


def significant(value: float | None, digits: int = 4) -> str:
    """So many significant digits, trailing zeros kept: `0.02137`, `0.5630`, `12346`; below 0.001 `1.200e-5`."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    if 10**digits <= abs(value) < 1e15:
        return f"{value:.0f}"
    return _tidy(f"{value:.{digits - 1}e}" if abs(value) < 0.001 else f"{value:#.{digits}g}")


def comparison(left: float | None, right: float | None, digits: int = 4) -> tuple[str, str]:
    """Both numbers with as many digits as it takes to tell them apart, so that a written-out test reads true.

    Two float32 numbers that differ do so within 9 digits; equal ones keep `digits`.
    """
    if left is not None and right is not None and left != right:
        while digits < 17 and significant(left, digits) == significant(right, digits):
            digits += 1
    return significant(left, digits), significant(right, digits)


def rate(value: float | None, count: int | None = None) -> str:
    """A rate to four decimals, with its sample size if given: `0.8193 (n 83)`."""
    shown = f"{value:.4f}" if value is not None and not math.isnan(value) else NOTHING
    return shown if count is None else f"{shown} (n {count})"


def duration(seconds: float | None) -> str:
    """A time of three digits with its unit: `812 µs`, `3.42 ms`, `1.25 s`, `2 min 05 s`."""
    if seconds is None or math.isnan(seconds) or math.isinf(seconds):
        return NOTHING
    if abs(seconds) >= 59.95:
        minutes, rest = divmod(round(seconds), 60)
        return f"{minutes} min {rest:02d} s"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "µs")):
        scaled = seconds * factor
        if abs(scaled) >= 0.9995 or unit == "µs":
            decimals = 0 if abs(scaled) >= 99.95 else 1 if abs(scaled) >= 9.995 else 2
            return f"{scaled:.{decimals}f} {unit}"
    raise AssertionError("unreachable")


def count(value: int) -> str:
    """A whole number; thousands are set apart from 10,000 on."""
    return f"{value:,}" if abs(value) >= 10_000 else str(value)


def millions(parameters: int) -> str:
    """`134.5 M`, `4.3 M`, `0.6 M`, `1.2 B`; nothing for a model without parameters."""
    if parameters <= 0:
        return ""
    for least, factor, unit in ((999.95e6, 1e9, "B"), (1e5, 1e6, "M"), (1e2, 1e3, "k")):
        if parameters >= least:
            return f"{parameters / factor:.1f} {unit}"
    return str(parameters)


def plural(number: int, noun: str) -> str:
    """`1 round`, `2 rounds`."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def _visible(character: str, is_first: bool) -> tuple[str, bool]:
    """One character as it is shown, and whether that is a mark standing for it rather than itself."""
    if character in _MARKS:
        return _MARKS[character], True
    category = unicodedata.category(character)
    is_selector = 0xFE00 <= ord(character) <= 0xFE0F
    if category in _ESCAPED_CATEGORIES or character in _INVISIBLE or (is_selector and is_first):
        return f"<U+{ord(character):04X}>", True
    if category[0] == "M" and is_first:
        return "◌" + character, False
    return character, False


def visible_runs(vocabulary: Vocabulary, token: int) -> tuple[tuple[str, bool], ...]:
    """A token's visible text in runs of (text, is a mark): marks are painted dim, so that a real `·` differs."""
    text = vocabulary.text_of(token)
    if vocabulary.kind(token) == "unused":
        return ((text, True),)
    runs: list[tuple[str, bool]] = []
    for shown, is_mark in _each_visible(text):
        if runs and runs[-1][1] == is_mark:
            runs[-1] = (runs[-1][0] + shown, is_mark)
        else:
            runs.append((shown, is_mark))
    return tuple(runs)


def _each_visible(text: str) -> Iterator[tuple[str, bool]]:
    follows_mark = True
    for character in text:
        shown, is_mark = _visible(character, follows_mark)
        yield shown, is_mark
        follows_mark = is_mark


def visible_text(vocabulary: Vocabulary, token: int) -> str:
    """A token's text with nothing invisible in it: space `·`, newline `↵`, tab `→`, the rest as `<U+2028>`."""
    return "".join(text for text, _ in visible_runs(vocabulary, token))


def visible_string(text: str) -> str:
    """Any untrusted text with nothing invisible in it, on one line; ordinary spaces stay spaces."""
    return "".join(" " if shown == "·" and is_mark else shown for shown, is_mark in _each_visible(text))


def token_bytes(vocabulary: Vocabulary, token: int) -> str:
    """A token's bytes in hexadecimal: `20 74 68 65`; `-` for a special or unused id."""
    if vocabulary.kind(token) in ("special", "unused"):
        return NOTHING
    return vocabulary.pieces[token].hex(" ")
