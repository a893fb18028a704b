"""The spelling of numbers and tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app import format as spell
from engine.text import Vocabulary


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.22374, "0.2237"),
        (1.0, "1.0000"),
        (0.0, "0"),
        (0.001, "0.0010"),
        (0.00099, "9.9e-4"),
        (1.2345e-5, "1.2e-5"),
        (1e-30, "1.0e-30"),
        (None, "-"),
        (math.nan, "-"),
    ],
)
def test_probability(value: float | None, shown: str) -> None:
    assert spell.probability(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.563, "0.5630"),
        (0.021374, "0.02137"),
        (1.2e-5, "1.200e-5"),
        (0.0005199, "5.199e-4"),
        (0.001, "0.001000"),
        (0, "0"),
        (1234.5, "1234"),
        (123456.7, "123457"),
        (math.inf, "∞"),
        (None, "-"),
    ],
)
def test_significant(value: float | None, shown: str) -> None:
    assert spell.significant(value) == shown


def test_a_written_comparison_never_shows_two_different_numbers_alike() -> None:
    assert spell.comparison(0.28453, 0.2237) == ("0.2845", "0.2237")
    assert spell.comparison(0.28453, 0.28454) == ("0.28453", "0.28454")
    assert spell.comparison(0.25, 0.25) == ("0.2500", "0.2500")
    below = np.float32(0.3)
    above = np.nextafter(below, np.float32(1))
    left, right = spell.comparison(float(below), float(above))
    assert float(left) < float(right)
    assert spell.comparison(None, 0.5) == ("-", "0.5000")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.0008124, "812 µs"),
        (0.0034249, "3.42 ms"),
        (0.012, "12.0 ms"),
        (1.25, "1.25 s"),
        (125, "2 min 05 s"),
        (59.96, "1 min 00 s"),
        (0, "0.00 µs"),
        (math.inf, "-"),
        (None, "-"),
    ],
)
def test_duration(seconds: float | None, shown: str) -> None:
    assert spell.duration(seconds) == shown


def test_rates_carry_their_sample_size() -> None:
    assert spell.rate(0.81928, 83) == "0.8193 (n 83)"
    assert spell.rate(None, 0) == "- (n 0)"
    assert spell.plural(1, "round") == "1 round"
    assert spell.plural(12345, "round") == "12,345 rounds"


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        (b" the", "·the"),
        (b"\n\n", "↵↵"),
        (b"\tx", "→x"),
        (b"<b>x</b>", "<b>x</b>"),
        (b"<img src=x>", "<img·src=x>"),
        (b"\x00", "<U+0000>"),
        ("\u2028".encode(), "<U+2028>"),
        ("\u202eabc".encode(), "<U+202E>abc"),
        ("\u00a0".encode(), "<U+00A0>"),
        ("\ufeff".encode(), "<U+FEFF>"),
        ("\u0301".encode(), "◌\u0301"),
        ("e\u0301".encode(), "e\u0301"),
        (" \u0301".encode(), "·◌\u0301"),
        ("\ufe0f".encode(), "<U+FE0F>"),
        ("❤\ufe0f".encode(), "❤\ufe0f"),
        ("שלום".encode(), "שלום"),
        (b"\xf0\x9f", "<0xF0><0x9F>"),
        (b"", "<unused 0>"),
    ],
)
def test_nothing_in_a_token_is_invisible(piece: bytes, shown: str) -> None:
    assert spell.visible_text(Vocabulary((piece,), frozenset(), {}, frozenset()), 0) == shown


def test_special_names_and_marks() -> None:
    vocabulary = Vocabulary((b"", "·".encode(), b" a"), frozenset({0}), {0: "<|end\n|>"}, frozenset({0}))
    assert spell.visible_text(vocabulary, 0) == "<|end↵|>"
    assert spell.visible_runs(vocabulary, 1) == (("·", False),)
    assert spell.visible_runs(vocabulary, 2) == (("·", True), ("a", False))
    assert spell.visible_text(vocabulary, 99) == "<unused 99>"
    assert spell.visible_string("two words\n\u2028") == "two words↵<U+2028>"
    assert spell.token_bytes(vocabulary, 2) == "20 61"
    assert spell.token_bytes(vocabulary, 0) == "-"
