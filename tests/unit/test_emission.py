"""Fates and sources of a round, and what ends it, on small scripts."""

from __future__ import annotations

import pytest

from engine.emission import TextSoFar, fates_of, keep_emitted, source_of
from engine.text import toy_vocabulary


@pytest.mark.parametrize(
    ("k", "count", "emitted", "fates"),
    [
        (4, 1, 2, "accepted rejected ignored ignored"),
        (4, 0, 1, "rejected ignored ignored ignored"),
        (4, 4, 5, "accepted accepted accepted accepted"),
        (4, 4, 4, "accepted accepted accepted accepted"),
        # The run ended inside the accepted drafts: the one that would have been rejected met no test.
        (4, 3, 2, "accepted accepted ignored ignored"),
        (4, 2, 2, "accepted accepted ignored ignored"),
        (0, 0, 1, ""),
    ],
)
def test_fates(k: int, count: int, emitted: int, fates: str) -> None:
    assert fates_of(k, count, emitted) == fates.split()


@pytest.mark.parametrize(
    ("position", "count", "k", "degenerate", "source"),
    [
        (0, 2, 4, False, "accepted"),
        (2, 2, 4, False, "recovered"),
        (2, 2, 4, True, "degenerate-fallback"),
        (4, 4, 4, True, "bonus"),
        (0, 0, 0, False, "target-draw"),
    ],
)
def test_sources(position: int, count: int, k: int, degenerate: bool, source: str) -> None:
    assert source_of(position, count, k, "recovered", degenerate) == source


def test_what_ends_a_round() -> None:
    vocabulary = toy_vocabulary([" ha", " ho", "."])
    assert keep_emitted([0, 1, 0], None, frozenset({1}), TextSoFar(vocabulary, ()))[0] == [0, 1]
    assert keep_emitted([0, 1, 0], 2, frozenset(), TextSoFar(vocabulary, ())) == ([0, 1], "")
    text = TextSoFar(vocabulary, (" ha ha ha",))
    kept, why = keep_emitted([1, 0, 0, 0, 2], None, frozenset(), text)
    assert kept == [1, 0, 0, 0]
    assert "' ha ha ha'" in why
    assert text.visible == " ho"


def test_a_possible_beginning_of_a_stop_string_is_held_back_until_the_end() -> None:
    text = TextSoFar(toy_vocabulary(["ABC", "DEF", "G", "x"]), ("DEFGHIJ",))
    shown = []
    for token in (0, 1, 2):
        assert text.add(token) is None
        shown.append(text.visible)
    assert shown == ["ABC", "ABC", "ABC"]
    text.add(3)
    assert text.visible == "ABCDEFGx"
    text.add(1)
    assert text.visible == "ABCDEFGx"
    text.close()
    assert text.visible == "ABCDEFGxDEF"
