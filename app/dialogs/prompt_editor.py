"""The prompt over several lines, with its number of tokens while one writes."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QPalette
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from app import theme
from app.fields import sentence
from app.format import count
from app.headless.request import prompt_problem

_WAIT_MS = 150


class PromptEditor(QDialog):
    """Accepted, `prompt()` is what was written; `encode` None: no model is loaded, so tokens can't be counted."""

    def __init__(self, prompt: str, encode: Callable[[str], list[int]] | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Prompt")
        self._encode = encode
        self.edit = QPlainTextEdit()
        self.edit.setAccessibleName("Prompt")
        self.edit.setFont(theme.mono_font(1.0))
        self.edit.setTabChangesFocus(True)
        self.edit.setPlainText(prompt)
        self.edit.installEventFilter(self)
        # What the text box made of a text nobody touched is not what was written.
        self._original, self._shown = prompt, self._raw()
        self.tokens = QLabel()
        self.tokens.setTextFormat(Qt.TextFormat.PlainText)
        self.tokens.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.tokens.setWordWrap(True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = buttons.button(QDialogButtonBox.StandardButton.Ok)
        theme.mark(self.ok, "primary", True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        for widget in (self.edit, self.tokens, buttons):
            layout.addWidget(widget)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_WAIT_MS)
        self._timer.timeout.connect(self.count_now)
        self.edit.textChanged.connect(self._timer.start)
        self.resize(theme.em() * 50, theme.line_height() * 20)
        self.count_now()

    def _raw(self) -> str:
        # toPlainText would turn no-break spaces into spaces.
        return self.edit.document().toRawText().replace("\u2029", "\n")

    def prompt(self) -> str:
        """The text, unchanged where nothing was typed."""
        raw = self._raw()
        return self._original if raw == self._shown else raw

    def count_now(self) -> None:
        """Say how many tokens the text has, or why it has none."""
        text = self.prompt()
        blank = prompt_problem(text)
        self.ok.setEnabled(blank is None)
        theme.mark(self.edit, "invalid", blank is not None)
        if blank is not None:
            self.tokens.setText(sentence(blank))
        elif self._encode is None:
            self.tokens.setText(f"{count(len(text))} characters; tokens are counted once a model is loaded.")
        else:
            try:
                tokens = f"{count(len(self._encode(text)))} tokens"
            except ValueError as error:
                tokens = str(error)
            self.tokens.setText(f"{tokens}, {count(len(text))} characters")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
            if enter and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                if self.ok.isEnabled():
                    self.accept()
                return True
            if enter and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                # Qt would put a U+2028 there, which nobody sees.
                self.edit.insertPlainText("\n")
                return True
        return super().eventFilter(watched, event)
