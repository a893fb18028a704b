"""Fixtures of the window's tests."""

from tests.gui.windows import open_window

__all__ = ["open_window"]
