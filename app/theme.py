"""Colours, fonts and sizes: the one place that decides how things look, in light and in dark.

Widgets take part in the style sheet by dynamic properties: `primary` (the one filled button of a page), `segment`
(checkable tool buttons that stand side by side as one control), `fault` (asked-for fault: amber field), `invalid`
(input that can't be used: red field). Set them by `mark`, which also repaints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontInfo, QFontMetrics, QPalette
from PySide6.QtWidgets import QApplication, QWidget

SCHEMES = ("system", "light", "dark")


@dataclass(frozen=True)
class Outcome:
    """Colours of one outcome: `fill` for areas and lines, `ink` for glyphs and words, `tint` behind them."""

    fill: str
    ink: str
    tint: str
    glyph: str


@dataclass(frozen=True)
class Palette:
    """The colour tokens of one scheme."""

    dark: bool
    window: str
    base: str
    alternate: str
    button: str
    code: str
    line: str
    grid: str
    text: str
    text2: str
    disabled: str
    accent: str
    on_accent: str
    selection: str
    banner: str
    banner_line: str
    danger: str
    danger_tint: str
    accepted: Outcome
    rejected: Outcome
    recovered: Outcome
    bonus: Outcome
    target_draw: Outcome
    p: str
    q: str
    sum_prod: str
    sum_prod_ink: str
    rolling: str
    band: str


LIGHT = Palette(
    dark=False,
    window="#ECEDEF",
    base="#FFFFFF",
    alternate="#F6F7F8",
    button="#F8F9FA",
    code="#F2F3F5",
    line="#C3C7CD",
    grid="#E3E5E8",
    text="#1B1D20",
    text2="#545A63",
    disabled="#868C95",
    accent="#4A53A6",
    on_accent="#FFFFFF",
    selection="#DFE2F4",
    banner="#FFF0C7",
    banner_line="#D5A100",
    danger="#B3261E",
    danger_tint="#F9E3E1",
    accepted=Outcome("#009E73", "#006B4C", "#DDF1EA", "✓"),
    rejected=Outcome("#D55E00", "#A84300", "#FBE6DA", "✗"),
    recovered=Outcome("#E69F00", "#7A5300", "#FCEFD3", "↻"),
    bonus=Outcome("#0072B2", "#005A8D", "#DCEBF5", "+"),
    target_draw=Outcome("#545A63", "#545A63", "#F2F3F5", "◇"),
    p="#0072B2",
    q="#56B4E9",
    sum_prod="#CC79A7",
    sum_prod_ink="#8C3D6B",
    rolling="#6A717B",
    band="#E4E6EA",
)

DARK = Palette(
    dark=True,
    window="#2B2D31",
    base="#1D1F22",
    alternate="#232528",
    button="#36393E",
    code="#2F3236",
    line="#464A51",
    grid="#303338",
    text="#E6E8EB",
    text2="#A9AFB8",
    disabled="#7C828C",
    accent="#A6AEF2",
    on_accent="#15171C",
    selection="#363B5C",
    banner="#41360F",
    banner_line="#8F7200",
    danger="#FF8C83",
    danger_tint="#45241F",
    accepted=Outcome("#009E73", "#3CC79B", "#16352B", "✓"),
    rejected=Outcome("#D55E00", "#FF9150", "#41271A", "✗"),
    recovered=Outcome("#E69F00", "#F2B53A", "#3D3117", "↻"),
    bonus=Outcome("#2C8FD0", "#6DBAF0", "#162F43", "+"),
    target_draw=Outcome("#A9AFB8", "#A9AFB8", "#2F3236", "◇"),
    p="#2C8FD0",
    q="#9BD3F5",
    sum_prod="#CC79A7",
    sum_prod_ink="#E3A3C7",
    rolling="#A0A7B1",
    band="#33363B",
)


class Notifier(QObject):
    """`changed`: the palette is another one now; `current()` gives it."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._watching = False

    def watch_system(self, app: QApplication) -> None:
        """Follow the system's colour scheme from now on; a second call does nothing."""
        if not self._watching:
            self._watching = True
            app.styleHints().colorSchemeChanged.connect(self._follow_system)

    def _follow_system(self) -> None:
        app = QApplication.instance()
        if isinstance(app, QApplication):
            _use(app, _wanted_palette(app))


notifier = Notifier()

# A system that names no font of its own gives an alias; then the first installed of these is taken.
_ALIASES = frozenset({"", "sans serif", "sans", "sans-serif", "monospace", "mono"})
_UI_FAMILIES = ("Inter", "Cantarell", "Noto Sans", "DejaVu Sans")
_MONO_FAMILIES = ("JetBrains Mono", "SF Mono", "Menlo", "DejaVu Sans Mono", "Noto Sans Mono")
_ALIAS_PIXELS = 13
_LEAST_PIXELS = 9

_current = LIGHT
_scheme = "system"


def current() -> Palette:
    """The palette in use."""
    return _current


def scheme() -> str:
    """What was asked for: system, light or dark."""
    return _scheme


def _system_font(kind: QFontDatabase.SystemFont, preferred: tuple[str, ...]) -> QFont:
    font = QFontDatabase.systemFont(kind)
    if font.family().lower() in _ALIASES:
        installed = set(QFontDatabase.families())
        family = next((name for name in preferred if name in installed), None)
        if family is not None:
            font = QFont(family)
        font.setPixelSize(_ALIAS_PIXELS)
    return font


@lru_cache(maxsize=1)
def _base_ui_font() -> QFont:
    return _system_font(QFontDatabase.SystemFont.GeneralFont, _UI_FAMILIES)


@lru_cache(maxsize=1)
def _base_mono_font() -> QFont:
    font = _system_font(QFontDatabase.SystemFont.FixedFont, _MONO_FAMILIES)
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setFixedPitch(True)
    # Ligatures would join the characters of a token, and of a written-out test.
    font.setFeature(QFont.Tag("calt"), 0)
    font.setFeature(QFont.Tag("liga"), 0)
    return font


@lru_cache(maxsize=1)
def em() -> int:
    """Pixel size of the application font."""
    return QFontInfo(_base_ui_font()).pixelSize()


@lru_cache(maxsize=1)
def line_height() -> int:
    """Height in pixels of one line of the application font."""
    return math.ceil(QFontMetrics(ui_font()).height())


def _sized(base: QFont, scale: float, weight: int) -> QFont:
    font = QFont(base)
    font.setPixelSize(max(round(em() * scale), _LEAST_PIXELS))
    font.setWeight(QFont.Weight(weight))
    return font


@lru_cache(maxsize=64)
def ui_font(scale: float = 1.0, weight: int = 400) -> QFont:
    """The system's font at `scale` em. Don't change the font returned: it is shared."""
    return _sized(_base_ui_font(), scale, weight)


@lru_cache(maxsize=64)
def mono_font(scale: float = 1.0, weight: int = 400) -> QFont:
    """The system's fixed-pitch font at `scale` em, without ligatures. Don't change the font returned: it is shared."""
    return _sized(_base_mono_font(), scale, weight)


def mark(widget: QWidget, name: str, value: bool) -> None:
    """Set a dynamic property that the style sheet looks at, and restyle the widget if it changed."""
    if bool(widget.property(name)) == value:
        return
    widget.setProperty(name, value)
    widget.style().unpolish(widget)
    widget.style().polish(widget)
    widget.update()


def apply(app: QApplication, wanted: str) -> None:
    """Use a colour scheme: "system", "light" or "dark". Tells `notifier.changed` if the palette is another one."""
    global _scheme
    if wanted not in SCHEMES:
        raise ValueError(f"colour scheme: expected one of {SCHEMES}, got {wanted!r}")
    _scheme = wanted
    if app.style().name().lower() != "fusion":
        app.setStyle("Fusion")
    app.setFont(ui_font())
    hints = app.styleHints()
    notifier.watch_system(app)
    schemes = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark, "system": Qt.ColorScheme.Unknown}
    hints.setColorScheme(schemes[wanted])
    _use(app, _wanted_palette(app))


@contextmanager
def borrowed(palette: Palette) -> Iterator[None]:
    """Have panels paint in another palette within, as for a picture; Qt's own widgets keep theirs, which is quicker."""
    global _current
    before = _current
    try:
        if palette is not before:
            _current = palette
            notifier.changed.emit()
        yield
    finally:
        if palette is not before:
            _current = before
            notifier.changed.emit()


def _wanted_palette(app: QApplication) -> Palette:
    if _scheme != "system":
        return DARK if _scheme == "dark" else LIGHT
    return DARK if app.styleHints().colorScheme() == Qt.ColorScheme.Dark else LIGHT


def _use(app: QApplication, palette: Palette) -> None:
    global _current
    changed = palette is not _current
    _current = palette
    app.setPalette(qt_palette(palette))
    sheet = style_sheet(palette)
    if app.styleSheet() != sheet:
        app.setStyleSheet(sheet)
    if changed:
        notifier.changed.emit()


def qt_palette(colours: Palette) -> QPalette:
    """The tokens in Qt's roles."""
    role, palette = QPalette.ColorRole, QPalette()
    for name, colour in {
        role.Window: colours.window,
        role.WindowText: colours.text,
        role.Base: colours.base,
        role.AlternateBase: colours.alternate,
        role.Text: colours.text,
        role.PlaceholderText: colours.text2,
        role.Button: colours.button,
        role.ButtonText: colours.text,
        role.BrightText: colours.danger,
        role.Highlight: colours.selection,
        role.HighlightedText: colours.text,
        role.Accent: colours.accent,
        role.Link: colours.accent,
        role.LinkVisited: colours.accent,
        role.ToolTipBase: colours.base,
        role.ToolTipText: colours.text,
        role.Light: colours.button,
        role.Midlight: colours.grid,
        role.Mid: colours.line,
        role.Dark: colours.line,
        role.Shadow: colours.line,
    }.items():
        palette.setColor(name, QColor(colour))
    for name in (role.WindowText, role.Text, role.ButtonText, role.HighlightedText, role.PlaceholderText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, QColor(colours.disabled))
    palette.setColor(QPalette.ColorGroup.Disabled, role.Base, QColor(colours.window))
    return palette


def style_sheet(colours: Palette) -> str:
    """The small style sheet over Fusion: flat, one-pixel lines, sizes from the font."""
    values = {name: value for name, value in vars(colours).items() if isinstance(value, str)}
    icons = files("resources") / "icons" / ("dark" if colours.dark else "light")
    values |= {"icons": str(icons).replace("\\", "/"), "fault_ink": colours.recovered.ink}
    values |= {"field": str(line_height() + 8), "button_height": str(line_height() + 8), "tick": str(em())}
    values |= {"row": str(line_height() + 4), "thumb": str(em())}
    sheet = _SHEET
    for name, value in values.items():
        sheet = sheet.replace(f"@{name}@", value)
    return sheet


_SHEET = """
QToolTip { background: @base@; color: @text@; border: 1px solid @line@; padding: 3px 5px; }

QPushButton {
    background: @button@; color: @text@; border: 1px solid @line@; border-radius: 4px;
    padding: 0 9px; min-height: @button_height@px;
}
QPushButton:hover { background: @selection@; }
QPushButton:checked { background: @selection@; border-color: @accent@; }
QPushButton:pressed { background: @selection@; border-color: @accent@; }
QPushButton:focus { border-color: @accent@; }
QPushButton:disabled { color: @disabled@; background: @window@; }
QPushButton[primary="true"] { background: @accent@; color: @on_accent@; border-color: @accent@; font-weight: 600; }
QPushButton[primary="true"]:focus { border-color: @text@; }
QPushButton[primary="true"]:disabled { background: @window@; color: @disabled@; border-color: @line@; }

QToolButton { background: transparent; color: @text@; border: 1px solid transparent; border-radius: 4px; padding: 3px; }
QToolButton:hover { background: @selection@; }
QToolButton:pressed, QToolButton:focus { border-color: @accent@; }
QToolButton:checked { background: @button@; border-color: @line@; }
QToolButton:disabled { color: @disabled@; }
QToolButton[primary="true"] { background: @accent@; color: @on_accent@; border-color: @accent@; font-weight: 600; }
QToolButton[primary="true"]:focus { border-color: @text@; }
QToolButton[primary="true"]:disabled { background: transparent; color: @disabled@; border-color: @line@; }
QToolButton[segment="true"] {
    background: @button@; border: 1px solid @line@; border-radius: 0; padding: 1px 6px;
}
QToolButton[segment="true"]:checked {
    background: @accent@; color: @on_accent@; border-color: @accent@; font-weight: 600;
}

QLineEdit, QPlainTextEdit, QTextBrowser, QAbstractSpinBox, QComboBox {
    background: @base@; color: @text@; border: 1px solid @line@; border-radius: 4px;
    selection-background-color: @selection@; selection-color: @text@;
}
QLineEdit, QAbstractSpinBox, QComboBox { padding: 0 6px; min-height: @field@px; }
QLineEdit:focus, QPlainTextEdit:focus, QTextBrowser:focus, QAbstractSpinBox:focus, QComboBox:focus {
    border-color: @accent@;
}
QLineEdit:disabled, QPlainTextEdit:disabled, QAbstractSpinBox:disabled, QComboBox:disabled {
    background: @window@; color: @disabled@;
}
QLineEdit[fault="true"], QComboBox[fault="true"], QAbstractSpinBox[fault="true"] {
    background: @banner@; border-color: @banner_line@; color: @fault_ink@;
}
QLineEdit[invalid="true"], QPlainTextEdit[invalid="true"], QComboBox[invalid="true"],
QAbstractSpinBox[invalid="true"] { background: @danger_tint@; border-color: @danger@; }

QAbstractSpinBox { padding-right: 16px; }
QAbstractSpinBox QLineEdit, QComboBox QLineEdit { border: none; background: transparent; padding: 0; min-height: 0; }
QAbstractSpinBox::up-button {
    subcontrol-origin: border; subcontrol-position: top right; width: 15px; border: none; background: transparent;
}
QAbstractSpinBox::down-button {
    subcontrol-origin: border; subcontrol-position: bottom right; width: 15px; border: none; background: transparent;
}
QAbstractSpinBox::up-button { margin-top: 4px; }
QAbstractSpinBox::down-button { margin-bottom: 4px; }
QAbstractSpinBox::up-arrow { image: url("@icons@/spin-up.svg"); width: 7px; height: 5px; }
QAbstractSpinBox::down-arrow { image: url("@icons@/spin-down.svg"); width: 7px; height: 5px; }
QAbstractSpinBox::up-arrow:disabled, QAbstractSpinBox::up-arrow:off { image: url("@icons@/spin-up-off.svg"); }
QAbstractSpinBox::down-arrow:disabled, QAbstractSpinBox::down-arrow:off { image: url("@icons@/spin-down-off.svg"); }

QComboBox { padding-right: 1px; }
QComboBox::drop-down {
    subcontrol-origin: border; subcontrol-position: center right; width: 19px; border: none; background: transparent;
}
QComboBox::down-arrow { image: url("@icons@/chevron-down.svg"); width: 9px; height: 6px; }
QComboBox::down-arrow:disabled { image: url("@icons@/chevron-down-off.svg"); }
QComboBox QAbstractItemView {
    background: @base@; color: @text@; border: 1px solid @line@; outline: none;
    selection-background-color: @selection@; selection-color: @text@;
}
QComboBox QAbstractItemView::item { min-height: @row@px; }

QCheckBox { spacing: 6px; color: @text@; }
QCheckBox:disabled { color: @disabled@; }
QCheckBox::indicator {
    width: @tick@px; height: @tick@px; border: 1px solid @text2@; border-radius: 3px; background: @base@;
}
QCheckBox::indicator:hover, QCheckBox:focus { border-color: @accent@; }
QCheckBox::indicator:checked {
    background: @accent@; border-color: @accent@; image: url("@icons@/tick.svg");
}
QCheckBox::indicator:disabled { border-color: @line@; background: @window@; }
QCheckBox::indicator:checked:disabled { image: url("@icons@/tick-off.svg"); }

QMenuBar { background: @window@; color: @text@; border: none; }
QMenuBar::item { padding: 3px 9px; background: transparent; border-radius: 4px; }
QMenuBar::item:selected { background: @selection@; }
QMenu { background: @base@; color: @text@; border: 1px solid @line@; padding: 4px 0; }
QMenu::item { padding: 4px 22px 4px 26px; }
QMenu::item:selected { background: @selection@; }
QMenu::item:disabled { color: @disabled@; }
QMenu::indicator {
    width: @tick@px; height: @tick@px; margin-left: 7px; border: 1px solid @text2@; border-radius: 3px;
    background: @base@;
}
QMenu::indicator:checked { background: @accent@; border-color: @accent@; image: url("@icons@/tick.svg"); }
QMenu::indicator:disabled { border-color: @line@; background: @window@; }
QMenu::indicator:checked:disabled { image: url("@icons@/tick-off.svg"); }
QMenu::separator { height: 1px; background: @grid@; margin: 4px 0; }

QHeaderView { background: @alternate@; border: none; }
QHeaderView::section {
    background: @alternate@; color: @text2@; border: none; border-bottom: 1px solid @line@; padding: 0 6px;
}
QTableView, QListView, QTreeView { background: @base@; alternate-background-color: @alternate@; border: none; }
QAbstractItemView { outline: none; }
QTableView::indicator {
    width: @tick@px; height: @tick@px; border: 1px solid @text2@; border-radius: 3px; background: @base@;
}
QTableView::indicator:checked { background: @accent@; border-color: @accent@; image: url("@icons@/tick.svg"); }
QTableCornerButton::section { background: @alternate@; border: none; }

QScrollBar:vertical { background: transparent; width: 9px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 9px; margin: 0; }
QScrollBar::handle { background: @line@; border-radius: 3px; margin: 1px; }
QScrollBar::handle:vertical { min-height: 24px; }
QScrollBar::handle:horizontal { min-width: 24px; }
QScrollBar::handle:hover { background: @disabled@; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }

QMainWindow::separator { background: @window@; width: 4px; height: 4px; }
QMainWindow::separator:hover { background: @accent@; }
QSplitter::handle { background: @window@; }
QSplitter::handle:hover { background: @accent@; }
QDockWidget { border: none; }
QStatusBar { background: @window@; color: @text@; border-top: 1px solid @line@; }
QStatusBar::item { border: none; }
QToolBar { background: @window@; border: none; }

QTabBar { background: transparent; }
QTabBar::tab {
    background: @window@; color: @text2@; border: 1px solid @line@; padding: 2px 7px; margin: 0;
}
QTabBar::tab:selected { background: @base@; color: @text@; font-weight: 600; }
QTabWidget::pane { border: 1px solid @line@; }

QSlider::groove:horizontal { height: 3px; background: @line@; border-radius: 1px; }
QSlider::sub-page:horizontal { background: @accent@; border-radius: 1px; }
QSlider::handle:horizontal {
    width: @thumb@px; margin: -6px 0; border: 1px solid @text2@; background: @button@; border-radius: 4px;
}
QSlider::handle:horizontal:hover, QSlider::handle:horizontal:focus { border-color: @accent@; }

QProgressBar { background: @base@; border: 1px solid @line@; border-radius: 4px; text-align: center; color: @text@; }
QProgressBar::chunk { background: @selection@; border-radius: 3px; }
"""
