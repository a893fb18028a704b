"""Colour schemes, fonts and the icons that follow them."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QFontMetrics, QIcon, QPalette, QTextLayout
from PySide6.QtWidgets import QApplication

from app import icons, theme


@pytest.fixture(autouse=True)
def light(qapp: QApplication):
    theme.apply(qapp, "light")
    yield
    theme.apply(qapp, "light")


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(first: str, second: str) -> float:
    high, low = sorted((_luminance(first), _luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_a_scheme_reaches_palette_and_sheet_and_is_told_once(qapp: QApplication) -> None:
    told = []
    connection = theme.notifier.changed.connect(lambda: told.append(theme.current().dark))
    theme.apply(qapp, "dark")
    theme.apply(qapp, "dark")
    theme.notifier.changed.disconnect(connection)
    assert told == [True]
    assert qapp.palette().color(QPalette.ColorRole.Base).name().upper() == theme.DARK.base
    assert theme.DARK.accent in qapp.styleSheet()
    assert theme.LIGHT.accent not in qapp.styleSheet()


def test_an_unknown_scheme_is_refused(qapp: QApplication) -> None:
    with pytest.raises(ValueError, match="sepia"):
        theme.apply(qapp, "sepia")


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK])
def test_the_sheet_leaves_no_placeholder_and_names_files_that_exist(colours: theme.Palette) -> None:
    sheet = theme.style_sheet(colours)
    assert "@" not in sheet
    pictures = re.findall(r'url\("([^"]+)"\)', sheet)
    assert pictures
    assert all(Path(picture).is_file() for picture in pictures)


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK])
def test_pictures_of_the_sheet_use_the_palette_alone(colours: theme.Palette) -> None:
    tokens = {value for value in vars(colours).values() if isinstance(value, str)}
    folder = Path(str(files("resources"))) / "icons" / ("dark" if colours.dark else "light")
    for picture in folder.glob("*.svg"):
        assert set(re.findall(r"#[0-9A-Fa-f]{6}", picture.read_text())) <= tokens, picture.name


@pytest.mark.parametrize("colours", [theme.LIGHT, theme.DARK])
def test_inks_can_be_read_on_what_lies_behind_them(colours: theme.Palette) -> None:
    for outcome in (colours.accepted, colours.rejected, colours.recovered, colours.bonus, colours.target_draw):
        for back in (colours.base, colours.window, colours.selection, outcome.tint):
            assert _contrast(outcome.ink, back) >= 4.5
    for back in (colours.base, colours.window, colours.banner, colours.button):
        assert _contrast(colours.text, back) >= 4.5
    assert _contrast(colours.on_accent, colours.accent) >= 4.5


def test_sizes_come_from_the_font(qapp: QApplication) -> None:
    assert theme.ui_font().pixelSize() == theme.em()
    assert theme.line_height() >= QFontMetrics(theme.ui_font()).height()
    assert theme.mono_font(0.2).pixelSize() >= 9
    metrics = QFontMetrics(theme.mono_font())
    assert metrics.horizontalAdvance("iiii") == metrics.horizontalAdvance("MMMM")


def _glyphs(text: str) -> list[int]:
    layout = QTextLayout(text, theme.mono_font())
    layout.beginLayout()
    layout.createLine()
    layout.endLayout()
    return [glyph for run in layout.glyphRuns() for glyph in run.glyphIndexes()]


def test_the_fixed_font_joins_no_characters(qapp: QApplication) -> None:
    assert _glyphs("!=<=->") == [glyph for character in "!=<=->" for glyph in _glyphs(character)]


def test_every_icon_draws_something_at_every_scale(qapp: QApplication) -> None:
    blank = icons.QPixmap(16, 16)
    blank.fill(theme.LIGHT.base)
    for name in icons.NAMES:
        for ratio in (1.0, 1.5, 2.0):
            picture = icons.pixmap(name, theme.LIGHT.text, 16, ratio).toImage()
            assert picture.width() == round(16 * ratio)
            inked = sum(
                picture.pixelColor(x, y).alpha() > 100 for x in range(picture.width()) for y in range(picture.height())
            )
            assert inked > 8, name


def test_icons_take_the_ink_asked_for_and_the_disabled_one() -> None:
    made = icons.icon("stop", theme.LIGHT.danger, 16)
    middle = made.pixmap(QSize(16, 16), 1.0).toImage().pixelColor(8, 8).name().upper()
    off = made.pixmap(QSize(16, 16), 1.0, QIcon.Mode.Disabled).toImage().pixelColor(8, 8).name().upper()
    assert (middle, off) == (theme.LIGHT.danger, theme.LIGHT.disabled)


def test_the_application_icon_is_there_at_every_size() -> None:
    assert {size.width() for size in icons.application_icon().availableSizes()} == {16, 32, 64, 128, 256}
