"""The table of the field's faults in tests/README.md: every row is there once, and every test that it names exists."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NUMBERS = """
    1 3 5 7 9 11 14 15 17 20 21 25 27 28 30 31 34 35 37 39 41 43 46 48 50 52 54 56 57 59 61 64 65 67 68 71 73 75 76 78
    80 82 84 86 89 90 92 94 96 98 100 101 103 106 109 111 113 114 117 118 120 123 125 127 130 132 133 135 137 138 140
    143 145 146 149 151 154 155 158 161 162
"""
ROWS = [f"R{int(number):02d}" for number in NUMBERS.split()]
NODE = re.compile(r"(?:unit|gui|e2e)/test_\w+\.py::test_\w+")
Row = tuple[str, str, str, str]


def rows_of(text: str) -> list[Row]:
    """(row, kind, source, held by) of every line of the table."""
    lines = [line for line in text.splitlines() if re.match(r"\| R\d+ ", line)]
    cells = [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines]
    assert all(len(row) == 4 for row in cells), [row for row in cells if len(row) != 4]
    return cells  # type: ignore[return-value]


@functools.cache
def functions_of(file: str) -> frozenset[str]:
    """The names of a file's test functions, without importing it."""
    path = TESTS / file
    if not path.is_file():
        return frozenset()
    found = ast.parse(path.read_text(encoding="utf-8")).body
    return frozenset(node.name for node in found if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def faults_of(text: str) -> list[str]:
    """What is wrong with a table."""
    rows = rows_of(text)
    found = [row for row, *_ in rows]
    wrong = [f"{row} is missing" for row in ROWS if row not in found]
    wrong += [f"{row} is there {found.count(row)} times" for row in sorted(set(found)) if found.count(row) != 1]
    wrong += [f"{row} is no row" for row in found if row not in ROWS]
    for row, kind, source, held in rows:
        nodes = held.split(", ") if "::" in held else []
        wrong += [f"{row}: an empty cell" for cell in (kind, source, held) if not cell]
        wrong += [f"{row}: {node!r} is no name of a test" for node in nodes if not NODE.fullmatch(node)]
        if not nodes and not held.endswith("."):
            wrong.append(f"{row}: neither a test nor a sentence")
        for file, _, name in (node.partition("::") for node in nodes):
            if name not in functions_of(file):
                wrong.append(f"{row}: there is no {file}::{name}")
    return wrong


@pytest.fixture(scope="module")
def table() -> str:
    return (TESTS / "README.md").read_text(encoding="utf-8")


def test_every_row_is_held_by_tests_that_exist(table: str) -> None:
    assert len(ROWS) == len(set(ROWS)) == 81
    assert faults_of(table) == []
    assert sorted(row for row, *_ in rows_of(table)) == sorted(ROWS)


def test_tests_that_name_a_row_stand_in_its_line(table: str) -> None:
    """A test called test_r64_... holds row R64, and whoever looks the row up finds it."""
    held = {row: cell for row, _, _, cell in rows_of(table)}
    for path in sorted(TESTS.glob("*/test_*.py")):
        file = f"{path.parent.name}/{path.name}"
        for name in functions_of(file):
            rows = re.match(r"test_((?:r\d+_)+)", name)
            for row in rows[1].strip("_").upper().split("_") if rows else ():
                assert row in held, name
                assert path.name in held[row], (row, f"{file}::{name}")


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("| R64 |", "| R65 |", "R64 is missing"),
        ("| R64 |", "| R65 |", "R65 is there 2 times"),
        ("| R64 |", "| R66 |", "R66 is no row"),
        ("test_weights_under_another_name", "test_nothing", "R111: there is no unit/test_models.py::test_nothing"),
        ("unit/test_gguf.py::", "unit/test_none.py::", "R120: there is no unit/test_none.py::"),
        ("| weights under another name |", "|  |", "R111: an empty cell"),
        (
            "| unit/test_models.py::test_weights_under_another_name |",
            "| later |",
            "R111: neither a test nor a sentence",
        ),
        ("| unit/test_models.py::test_weights_under", "| models.py::test_weights_under", "is no name of a test"),
    ],
)
def test_a_table_that_lacks_something_is_noticed(table: str, old: str, new: str, fault: str) -> None:
    assert old in table
    assert any(fault in wrong for wrong in faults_of(table.replace(old, new)))
