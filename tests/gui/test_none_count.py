"""The binding must not lose references to None: PySide6 6.12 on CPython 3.11 does, and the interpreter dies of it."""

from __future__ import annotations

import sys

import pytest
from PySide6.QtWidgets import QLabel


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal from Python 3.12 on: its count never moves")
def test_void_calls_keep_the_count_of_none(qtbot) -> None:
    label = QLabel()
    qtbot.addWidget(label)
    label.setText("0")
    before = sys.getrefcount(None)
    for _ in range(1000):
        label.setText("1")
    assert abs(sys.getrefcount(None) - before) < 100
