"""Input fields that hold a value or say what is wrong with their text; nothing is rounded, clipped or guessed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QAbstractSpinBox, QComboBox, QLineEdit, QWidget

from app import theme
from engine.settings import MAX_SEED, SamplerSettings, Settings, SettingsError

Check = Callable[[Any], object]


def sentence(problem: str) -> str:
    """A refusal, written to stand behind a name or a colon, as a sentence of its own."""
    return f"{problem[:1].upper()}{problem[1:]}."


class FieldError(SettingsError):
    """The text of a field can't be read; the message says what was expected and what came."""


def sampler_check(name: str) -> Check:
    """A check of one sampler setting alone, by the engine's own validation."""
    return lambda value: SamplerSettings(**{name: value})


def settings_check(name: str) -> Check:
    """A check of one run setting alone, by the engine's own validation."""
    return lambda value: Settings(**{name: value})


def number_text(value: float) -> str:
    """The shortest text that reads back as the same number."""
    text = repr(value)
    return text.removesuffix(".0")


class Marked:
    """What every field with text shares: it reads its value, and shows in place what is wrong with it."""

    def _set_up(self, label: str, about: str) -> None:
        self.label, self.about = label, about
        self._reason: str | None = None
        self.setAccessibleName(label)  # type: ignore[attr-defined]
        self.setFont(theme.mono_font(0.92))  # type: ignore[attr-defined]

    def problem(self) -> str | None:
        """What is wrong with the text, or None."""
        try:
            self.value()  # type: ignore[attr-defined]
        except SettingsError as error:
            return f"{self.label}: {str(error).partition(': ')[2] or error}"
        return None

    def set_reason(self, reason: str | None) -> None:
        """Enable the field (None), or disable it with the reason in its tooltip."""
        self._reason = reason
        self.setEnabled(reason is None)  # type: ignore[attr-defined]
        self.refresh()

    def refresh(self) -> None:
        """Mark the field if its text can't be used; the tooltip says what it is for, then what is wrong."""
        problem = self.problem()
        theme.mark(self, "invalid", problem is not None)  # type: ignore[arg-type]
        lines = [self.about]
        if problem is not None:
            lines.append(problem.replace("<", "‹"))
        if self._reason is not None:
            lines.append(f"Not now: {self._reason}")
        self.setToolTip("\n".join(lines))  # type: ignore[attr-defined]


class NumberField(QAbstractSpinBox, Marked):
    """A whole or decimal number with step arrows; `words` are names for values, such as "off" for 0."""

    edited = Signal()

    def __init__(
        self,
        label: str,
        about: str,
        check: Check,
        *,
        whole: bool = False,
        step: float = 1,
        least: float | None = 0,
        most: float | None = None,
        words: Mapping[str, float] | None = None,
        characters: int = 4,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._whole, self._step, self._least, self._most = whole, step, least, most
        self._words, self._check, self._characters = dict(words or {}), check, characters
        self._set_up(label, about)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.DefaultContextMenu)
        self.lineEdit().setTextMargins(5, 0, 0, 0)
        self.lineEdit().textChanged.connect(self._on_text)

    def value(self) -> int | float:
        """The number. Raises FieldError or SettingsError."""
        text = self.text().strip()
        if text in self._words:
            return self._words[text]
        kind = "a whole number" if self._whole else "a number"
        try:
            value = int(text) if self._whole else float(text)
        except ValueError:
            either = "".join(f' or "{word}"' for word in self._words)
            raise FieldError(f"{self.label}: expected {kind}{either}, got {text!r}") from None
        self._check(value)
        return value

    def set_value(self, value: int | float) -> None:
        word = next((word for word, meant in self._words.items() if meant == value), None)
        self.lineEdit().setText(word if word is not None else number_text(value))

    def stepBy(self, steps: int) -> None:
        try:
            value = self.value()
        except SettingsError:
            return
        wanted = value + steps * self._step
        wanted = max(wanted, self._least) if self._least is not None else wanted
        wanted = min(wanted, self._most) if self._most is not None else wanted
        if self._whole and value == -1 and steps > 0:
            wanted = 1  # from "no limit" over the 0 that means nothing
        self.set_value(int(wanted) if self._whole else round(wanted, 9))
        self.lineEdit().selectAll()

    def stepEnabled(self) -> QAbstractSpinBox.StepEnabledFlag:
        both = QAbstractSpinBox.StepEnabledFlag.StepUpEnabled | QAbstractSpinBox.StepEnabledFlag.StepDownEnabled
        try:
            value = self.value()
        except SettingsError:
            return QAbstractSpinBox.StepEnabledFlag.StepNone
        if self._least is not None and value <= self._least:
            return QAbstractSpinBox.StepEnabledFlag.StepUpEnabled
        if self._most is not None and value >= self._most:
            return QAbstractSpinBox.StepEnabledFlag.StepDownEnabled
        return both

    def sizeHint(self) -> QSize:
        metrics, text = self.fontMetrics(), self.text()
        width = metrics.horizontalAdvance("0") * self._characters
        if text in self._words:
            width = max(width, metrics.horizontalAdvance(text))
        return QSize(width + 25, theme.line_height() + 10)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def wheelEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        # A wheel that passes over a field on its way must not change a setting.
        if self.hasFocus():
            super().wheelEvent(event)
        else:
            event.ignore()

    def _on_text(self) -> None:
        self.updateGeometry()
        self.refresh()
        self.edited.emit()


class TextField(QLineEdit, Marked):
    """One line that `read` turns into a value and `write` back into text."""

    edited = Signal()

    def __init__(
        self,
        label: str,
        about: str,
        read: Callable[[str], Any],
        write: Callable[[Any], str],
        characters: int = 12,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._read, self._write, self._characters = read, write, characters
        self._set_up(label, about)
        self.textChanged.connect(self._on_text)

    def value(self) -> Any:
        """What the text means. Raises FieldError or SettingsError."""
        return self._read(self.text())

    def set_value(self, value: Any) -> None:
        self.setText(self._write(value))
        self.setCursorPosition(0)

    def sizeHint(self) -> QSize:
        width = self.fontMetrics().horizontalAdvance("0") * self._characters
        return QSize(width + 2 * 8, theme.line_height() + 10)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def _on_text(self) -> None:
        self.refresh()
        self.edited.emit()


class ChoiceField(QComboBox, Marked):
    """One of a few named values; a compact field is as wide as the one chosen, not as the longest."""

    edited = Signal()

    def __init__(
        self,
        label: str,
        about: str,
        choices: Sequence[str | tuple[str, Any]],
        parent: QWidget | None = None,
        *,
        compact: bool = False,
    ) -> None:
        super().__init__(parent)
        self._compact = compact
        self._set_up(label, about)
        for choice in choices:
            text, value = choice if isinstance(choice, tuple) else (choice, choice)
            self.addItem(text, value)
        # The list shows whole texts, however narrow the field is.
        self.view().setMinimumWidth(self._widest() + 3 * theme.em())
        self.currentIndexChanged.connect(self._on_index)
        self.refresh()

    def value(self) -> Any:
        return self.currentData()

    def set_value(self, value: Any) -> None:
        index = self.findData(value)
        if index < 0:
            # A value that this list doesn't have is shown as it is, not silently replaced.
            self.addItem(str(value), value)
            index = self.count() - 1
        self.setCurrentIndex(index)

    def _widest(self) -> int:
        metrics = self.fontMetrics()
        return max((metrics.horizontalAdvance(self.itemText(i)) for i in range(self.count())), default=0)

    def sizeHint(self) -> QSize:
        width = self.fontMetrics().horizontalAdvance(self.currentText()) if self._compact else self._widest()
        return QSize(width + 31, theme.line_height() + 10)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def wheelEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        event.ignore()

    def _on_index(self) -> None:
        self.updateGeometry()
        self.edited.emit()


def read_seed(text: str) -> int | None:
    """ "auto" or a whole number of 64 bits, also as 0x…. Raises FieldError."""
    text = text.strip()
    if text.lower() in ("auto", ""):
        return None
    try:
        seed = int(text, 0)
    except ValueError:
        seed = -1
    if not 0 <= seed <= MAX_SEED:
        raise FieldError(f'seed: expected "auto" or a whole number from 0 to 2^64 - 1, got {text!r}')
    return seed


def write_seed(seed: int | None) -> str:
    return "auto" if seed is None else str(seed)


def read_bias(text: str) -> tuple[tuple[int, float], ...]:
    """`id:value, id:value`. Raises FieldError."""
    pairs = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        token, _, bias = part.partition(":")
        try:
            pairs.append((int(token), float(bias)))
        except ValueError:
            raise FieldError(f"bias: expected id:value, id:value, …, got {part!r}") from None
    SamplerSettings(logit_bias=tuple(pairs))
    return tuple(pairs)


def write_bias(pairs: Sequence[tuple[int, float]]) -> str:
    return ", ".join(f"{token}:{number_text(bias)}" for token, bias in pairs)


def read_stop(text: str) -> tuple[str, ...]:
    """Strings in double quotes, set apart by commas, with JSON's escapes. Raises FieldError."""
    if not text.strip():
        return ()
    wrong = FieldError(f'stop: expected texts in double quotes, such as "\\n\\n", "END", got {text!r}')
    try:
        strings = json.loads(f"[{text}]")
    except ValueError:
        raise wrong from None
    if not all(isinstance(string, str) for string in strings):
        raise wrong
    Settings(stop=tuple(strings))
    return tuple(strings)


def write_stop(strings: Sequence[str]) -> str:
    return ", ".join(json.dumps(string) for string in strings)
