"""The pace slider: from one round every two seconds, for teaching, to full speed."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSlider, QWidget

from app import theme

STEPS = (2.0, 1.5, 1.0, 0.75, 0.5, 0.33, 0.25, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01, 0.0)
"""Least seconds from one round to the next at each place of the slider; 0 is full speed."""


def pace_text(seconds: float) -> str:
    """`1 round / 2 s`, `4 rounds / s`, `full speed`."""
    if seconds <= 0:
        return "full speed"
    if seconds >= 1:
        return f"1 round / {'' if seconds == 1 else f'{seconds:g} '}s"
    return f"{1 / seconds:.3g} rounds / s" if seconds < 0.6 else f"{1 / seconds:.2g} rounds / s"


class PaceSlider(QWidget):
    """Signals: `changed` (seconds between rounds), only by hand."""

    changed = Signal(float)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._seconds = 0.0
        self._word = QLabel("Pace")
        self._word.setForegroundRole(self.palette().ColorRole.PlaceholderText)
        self.slider = QSlider(Qt.Orientation.Horizontal)
        self.slider.setRange(0, len(STEPS) - 1)
        self.slider.setPageStep(3)
        self.slider.setAccessibleName("Pace")
        self.slider.setToolTip("How fast rounds follow each other: at the left one every 2 s, at the right full speed")
        self.slider.setFixedWidth(theme.em() * 8)
        self._word.setBuddy(self.slider)
        self._value = QLabel()
        self._value.setFont(theme.mono_font(0.85))
        metrics = QFontMetrics(theme.mono_font(0.85))
        self._value.setFixedWidth(max(metrics.horizontalAdvance(pace_text(step)) for step in STEPS) + 2)
        for label in (self._word, self._value):
            label.setTextFormat(Qt.TextFormat.PlainText)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        for widget in (self._word, self.slider, self._value):
            layout.addWidget(widget)
        self.slider.valueChanged.connect(self._on_slider)
        self.set_seconds(0.0)

    @property
    def seconds(self) -> float:
        return self._seconds

    def set_seconds(self, seconds: float) -> None:
        """Show a pace; one that the slider has no place for is written out all the same."""
        self._seconds = seconds
        nearest = min(range(len(STEPS)), key=lambda i: abs(STEPS[i] - seconds))
        with QSignalBlocker(self.slider):
            self.slider.setValue(nearest)
        self._value.setText(pace_text(seconds))

    def set_compact(self, compact: bool, bare: bool = False) -> None:
        """Leave the word away, and make the slider shorter; bare: the value goes, too."""
        self._word.setVisible(not compact)
        self._value.setVisible(not bare)
        self.slider.setFixedWidth(theme.em() * (3 if bare else 5 if compact else 8))
        inner = self.layout()
        if inner is not None:
            inner.activate()  # who asks at once for the room that it needs must not be told the old one

    def _on_slider(self, place: int) -> None:
        self._seconds = STEPS[place]
        self._value.setText(pace_text(self._seconds))
        self.changed.emit(self._seconds)
