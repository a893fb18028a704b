"""The page before the first run: ways to begin, what the next run will do, and what is known of this computer."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app import icons, theme
from app.actions import BY_NAME, key_text
from app.bundled import BundledPair, bundled_pair
from app.format import count, millions
from app.next_rule import EXPLANATIONS, next_rule
from app.samples import samples
from app.session import Session
from app.worker import BUNDLED
from engine.session_file import SUFFIX

_HINTS = (
    ("run", "run"),
    ("step", "next round"),
    ("next_position", "next position"),
    ("next_rejection", "next rejection"),
    ("shortcuts", "all shortcuts"),
)


def _label(text: str = "", scale: float = 1.0, weight: int = 400, quiet: bool = False) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setFont(theme.ui_font(scale, weight))
    if quiet:
        label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
    return label


_BUNDLED = "Run the bundled pair"


class Card(QWidget):
    """A frame with round corners around rows; `split` draws lines between them."""

    def __init__(self, split: bool = False) -> None:
        super().__init__()
        self._split = split
        self._rows: list[QWidget] = []
        self._inside = QVBoxLayout(self)
        self._inside.setContentsMargins(1, 1, 1, 1)
        self._inside.setSpacing(1 if split else 0)

    def add(self, row: QWidget) -> None:
        """One more row below the others."""
        self._rows.append(row)
        self._inside.addWidget(row)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme.current().line), 1))
        painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1).toRectF().translated(0.5, 0.5), 5, 5)
        for row in self._rows[1:] if self._split else ():
            painter.fillRect(1, row.geometry().top() - 1, self.width() - 2, 1, QColor(theme.current().line))


class _Icon(QWidget):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        side = round(theme.em() * 1.4)
        self.setFixedSize(side, side)

    def paintEvent(self, event: QPaintEvent) -> None:
        side = self.width()
        picture = icons.pixmap(self._name, theme.current().text2, side, self.devicePixelRatioF())
        QPainter(self).drawPixmap(0, 0, picture)


class KeyCap(QWidget):
    """A key as it is printed on a keyboard."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key
        self.setFont(theme.mono_font(0.85))
        self.setAccessibleName(key)
        width = max(self.fontMetrics().horizontalAdvance(key) + 10, theme.line_height() + 2)
        self.setFixedSize(width, theme.line_height() + 4)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(colours.line), 1))
        painter.setBrush(QColor(colours.button))
        painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1).toRectF().translated(0.5, 0.5), 3, 3)
        painter.setPen(QColor(colours.text))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self._key)


class RunButton(QPushButton):
    """The page's one filled button; its key stands beside its words, smaller."""

    def __init__(self, words: str, key: str) -> None:
        super().__init__()
        self._words, self._key = words, key
        self.setAccessibleName(words)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        colours, painter = theme.current(), QPainter(self)
        painter.setPen(QColor(colours.on_accent if self.isEnabled() else colours.disabled))
        large, small = theme.ui_font(1.0, 600), theme.mono_font(0.85)
        painter.setFont(large)
        words = painter.fontMetrics().horizontalAdvance(self._words)
        painter.setFont(small)
        key = painter.fontMetrics().horizontalAdvance(self._key)
        left = (self.width() - words - 7 - key) // 2
        middle = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft
        painter.drawText(QRect(left + words + 7, 0, key + 4, self.height()), middle, self._key)
        painter.setFont(large)
        painter.drawText(QRect(left, 0, words + 4, self.height()), middle, self._words)


class StartPage(QScrollArea):
    """Signals: `run_bundled`, `run_loaded`, `run_toy`, `watch_bug`, `choose_models`, `open_recording`; `open_sample`
    (its path); `change_wanted` (live settings to set)."""

    run_bundled = Signal()
    run_loaded = Signal()
    run_toy = Signal()
    watch_bug = Signal()
    choose_models = Signal()
    open_sample = Signal(object)
    open_recording = Signal()
    change_wanted = Signal(dict)

    def __init__(self, session: Session, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._change: dict[str, object] = {}
        self._starters: list[QPushButton] = []
        self._words: dict[QPushButton, tuple[QLabel, QLabel]] = {}
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Start")
        page = QWidget()
        page.setBackgroundRole(QPalette.ColorRole.Base)
        page.setAutoFillBackground(True)
        self._outer = QVBoxLayout(page)
        self._outer.addStretch(1)
        self._outer.addLayout(self._heading())
        self._outer.addSpacing(theme.line_height())
        self._outer.addLayout(self._columns())
        self._outer.addStretch(2)
        self._outer.addWidget(self._hints())
        self.setWidget(page)
        for signal in (session.state_changed, session.configured, session.described, session.pair_changed):
            signal.connect(self.refresh)
        theme.notifier.changed.connect(self.refresh)
        self.refresh()

    def _heading(self) -> QVBoxLayout:
        column = QVBoxLayout()
        column.setSpacing(4)
        column.addWidget(_label("Draftscope", 2.0, 600))
        column.addWidget(_label("See what a drafter proposed, what the target kept, and why.", 1.15, quiet=True))
        return column

    def _columns(self) -> QHBoxLayout:
        left, right = QVBoxLayout(), QVBoxLayout()
        for column in (left, right):
            column.setSpacing(theme.line_height() // 2)
        left.addWidget(_label("Start", 1.0, 600))
        left.addWidget(self._ways())
        left.addSpacing(theme.line_height() // 2)
        left.addWidget(_label("The next run", 1.0, 600))
        left.addWidget(self._next_run())
        left.addStretch(1)
        right.addWidget(_label("This computer", 1.0, 600))
        right.addWidget(self._computer())
        right.addSpacing(theme.line_height() // 2)
        right.addWidget(_label("Recordings, no model needed", 1.0, 600))
        right.addWidget(self._recordings())
        right.addStretch(1)
        columns = QHBoxLayout()
        columns.setSpacing(round(theme.em() * 2.6))
        columns.addLayout(left, 5)
        columns.addLayout(right, 3)
        return columns

    def _ways(self) -> Card:
        card = Card(split=True)
        pair = bundled_pair()
        about = "The pair that comes with the program was not found in this installation."
        if isinstance(pair, BundledPair):
            sizes = f"{millions(pair.target_parameters)} and a draft of {millions(pair.draft_parameters)}"
            about = f"A target of {sizes} parameters, already installed."
        self.primary = RunButton("Run", key_text(BY_NAME["run"]))
        theme.mark(self.primary, "primary", True)
        rows: tuple[tuple[str, str, str, QPushButton, Callable[[], None]], ...] = (
            ("play", _BUNDLED, about, self.primary, self._on_primary),
            (
                "dice",
                "Run the 6-token toy",
                "Fixed logits over six words: every probability can be checked by hand.",
                QPushButton("Run Toy"),
                self.run_toy.emit,
            ),
            (
                "bug",
                "Watch a rewind bug",
                "Runs with legacy-rewind on: the draft cache drifts, acceptance falls.",
                QPushButton("Run with Bug"),
                self.watch_bug.emit,
            ),
            (
                "chip",
                "Choose your own models",
                "Folders, GGUF files or Hugging Face ids, with a draft model or without.",
                QPushButton("Choose…"),
                self.choose_models.emit,
            ),
        )
        self._about_bundled = about
        for icon, title, text, button, act in rows:
            button.clicked.connect(act)
            button.setAccessibleDescription(title)
            button.setFixedWidth(round(theme.em() * 8.6))
            self._starters.append(button)
            card.add(self._way(icon, title, text, button))
        return card

    def _way(self, icon: str, title: str, about: str, button: QPushButton) -> QWidget:
        row = QWidget()
        line = QHBoxLayout(row)
        line.setContentsMargins(15, 11 if icon else 6, 15, 11 if icon else 6)
        line.setSpacing(14)
        words = QVBoxLayout()
        words.setSpacing(3)
        name = _label(title, 1.0, 600)
        words.addWidget(name)
        text = _label(about, 0.96, quiet=True)
        text.setWordWrap(True)
        self._words[button] = name, text
        words.addWidget(text)
        if icon:
            line.addWidget(_Icon(icon))
        else:
            button.setFixedWidth(round(theme.em() * 6))
        line.addLayout(words, 1)
        line.addWidget(button)
        return row

    def _recordings(self) -> Card:
        card = Card(split=True)
        for sample in samples():
            button = QPushButton("Open")
            button.setAccessibleDescription(sample.title)
            button.clicked.connect(lambda _=False, path=sample.path: self.open_sample.emit(path))
            card.add(self._way("", sample.title, sample.about, button))
        other = QPushButton("Open…")
        other.setAccessibleDescription("Your own recording")
        other.clicked.connect(lambda: self.open_recording.emit())
        card.add(self._way("", "Your own", f"Any {SUFFIX} file.", other))
        return card

    def _next_run(self) -> Card:
        card = Card()
        row = QWidget()
        line = QHBoxLayout(row)
        line.setContentsMargins(15, 11, 15, 11)
        line.setSpacing(14)
        words = QVBoxLayout()
        words.setSpacing(3)
        first = QHBoxLayout()
        first.setSpacing(0)
        self._rule_before, self._rule, self._rule_after = _label("Rule "), _label(), _label()
        self._rule.setFont(theme.mono_font(0.96))
        for part in (self._rule_before, self._rule, self._rule_after):
            first.addWidget(part)
        first.addStretch(1)
        self._explanation = _label("", 0.96, quiet=True)
        self._explanation.setWordWrap(True)
        words.addLayout(first)
        words.addWidget(self._explanation)
        self.mend = QPushButton()
        self.mend.clicked.connect(self._on_mend)
        line.addLayout(words, 1)
        line.addWidget(self.mend)
        card.add(row)
        return card

    def _computer(self) -> Card:
        card = Card()
        box = QWidget()
        grid = QGridLayout(box)
        grid.setContentsMargins(15, 11, 15, 11)
        grid.setHorizontalSpacing(theme.em() * 2)
        grid.setVerticalSpacing(theme.line_height() // 2)
        grid.setColumnStretch(1, 1)
        self._facts: dict[str, QLabel] = {}
        for row, name in enumerate(("MLX", "BLAS", "Bundled pair")):
            grid.addWidget(_label(name, quiet=True), row, 0, Qt.AlignmentFlag.AlignTop)
            value = self._facts[name] = _label()
            value.setWordWrap(True)
            value.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
            grid.addWidget(value, row, 1)
        card.add(box)
        return card

    def _hints(self) -> QWidget:
        box = _Ruled()
        line = QHBoxLayout(box)
        line.setContentsMargins(0, 12, 0, 0)
        line.setSpacing(6)
        for name, words in _HINTS:
            line.addWidget(KeyCap(key_text(BY_NAME[name])))
            line.addWidget(_label(words, 1.0, quiet=True))
            line.addSpacing(16)
        line.addStretch(1)
        return box

    # What it says.

    def facts(self) -> dict[str, str]:
        """The lines of "This computer"."""
        return {name: label.text() for name, label in self._facts.items()}

    def next_run_text(self) -> str:
        """What "The next run" says."""
        return self._rule_before.text() + self._rule.text() + self._rule_after.text()

    def refresh(self) -> None:
        """Follow the session."""
        self._refresh_facts()
        self._refresh_rule()
        self._refresh_primary()
        reason = self._session.can("load")
        if self._session.state == "stopping":
            reason = "A run is stopping."
        for button in self._starters:
            can = button is not self.primary or self._own is not None or isinstance(bundled_pair(), BundledPair)
            button.setEnabled(reason is None and can)
            button.setToolTip(reason or "")

    @property
    def _own(self) -> str | None:
        """The models that are loaded, in words; None where they are the bundled pair, or where there are none."""
        session = self._session
        if session.pair is None or session.asked.target == BUNDLED:
            return None
        draft = session.pair.draft
        return session.pair.target.name + (f" with {draft.name}" if draft is not None else "")

    def _on_primary(self) -> None:
        (self.run_bundled if self._own is None else self.run_loaded).emit()

    def _refresh_primary(self) -> None:
        title, about = self._words[self.primary]
        own = self._own
        title.setText(_BUNDLED if own is None else "Run the models that are loaded")
        about.setText(self._about_bundled if own is None else f"{own}.")
        self.primary.setAccessibleDescription(title.text())

    def _refresh_facts(self) -> None:
        session, pair = self._session, bundled_pair()
        backend = session.backend
        version = session.mlx_version or _installed_version()
        device, _, library = backend.partition(", ")
        self._facts["MLX"].setText(f"{version}, {device}" if backend else version)
        if not backend:
            self._facts["BLAS"].setText("known once MLX is loaded")
        else:
            self._facts["BLAS"].setText(f"{'▲' if 'slow' in library else '✓'} {library or device}")
        found = f"✓ found, one vocabulary of {count(pair.vocab_size)}" if isinstance(pair, BundledPair) else f"▲ {pair}"
        self._facts["Bundled pair"].setText(found)

    def _refresh_rule(self) -> None:
        settings = self._session.settings
        rule, reason = next_rule(settings)
        self._rule_before.setText("Rule " if rule else "No run is possible: ")
        self._rule.setText(rule)
        self._rule_after.setText(f", because {reason}." if rule else reason)
        self._explanation.setText(EXPLANATIONS.get(rule, ""))
        if settings.kill_switch:
            words, self._change = "Turn kill switch off", {"kill_switch": False}
        else:
            words = f"Turn Stochastic {'off' if settings.stochastic else 'on'}"
            self._change = {"stochastic": not settings.stochastic}
        self.mend.setText(words)

    def _on_mend(self) -> None:
        self.change_wanted.emit(self._change)

    def resizeEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        super().resizeEvent(event)
        widest = theme.em() * 86
        side = max((self.width() - widest) // 2, theme.em() * 2)
        narrow = self.height() < theme.line_height() * 40
        self._outer.setContentsMargins(side, 8 if narrow else 20, side, 12 if narrow else 24)

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 90, theme.line_height() * 40)

    def minimumSizeHint(self) -> QSize:
        return QSize(theme.em() * 40, theme.line_height() * 12)


class _Ruled(QWidget):
    """A row with a thin line above."""

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(0, 0, self.width(), 1, QColor(theme.current().grid))


def _installed_version() -> str:
    try:
        return importlib.metadata.version("mlx")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
