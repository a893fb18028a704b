"""Fixtures of the window's tests."""

import pytest

from app.view import View
from tests.gui.windows import open_window

__all__ = ["open_window"]


@pytest.fixture
def view(qtbot) -> View:
    return View()
