"""The prompt over several lines and its chat template, with what is encoded and its number of tokens."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QKeyEvent, QPalette
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.fields import sentence
from app.format import count
from app.headless.request import chat_prompt, prompt_problem
from engine.text import Vocabulary

_WAIT_MS = 150
_MOST_SHOWN = 20_000  # tokens of what is encoded


def encoded_text(vocabulary: Vocabulary, ids: Sequence[int]) -> str:
    """The text of these ids with special tokens by their names, which decoding leaves out."""
    parts: list[str] = []
    for is_special, run in itertools.groupby(ids, key=lambda token: vocabulary.kind(token) == "special"):
        tokens = list(run)
        parts += [vocabulary.text_of(token) for token in tokens] if is_special else [vocabulary.decode(tokens)]
    return "".join(parts)


Chat = Callable[[Sequence[dict[str, str]]], str]


class PromptEditor(QDialog):
    """Accepted, `prompt()` is what was written, `uses_chat()` and `system()` what goes around it.

    `encode` None: no model is loaded, so tokens can't be counted. `chat` None: the tokenizer has no chat template.
    """

    def __init__(
        self,
        prompt: str,
        encode: Callable[[str], list[int]] | None,
        parent: QWidget | None = None,
        *,
        chat: Chat | None = None,
        vocabulary: Vocabulary | None = None,
        use_chat: bool = False,
        system: str = "",
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Prompt")
        self._encode, self._chat, self._vocabulary = encode, chat, vocabulary
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
        self._make_chat(use_chat, system)
        layout.addWidget(self.edit, 3)
        layout.addWidget(self.chat_box)
        said = QHBoxLayout()
        said.addWidget(self.system_label)
        said.addWidget(self.system_line)
        layout.addLayout(said)
        layout.addWidget(self.encoded_label)
        layout.addWidget(self.encoded, 2)
        for widget in (self.tokens, buttons):
            layout.addWidget(widget)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_WAIT_MS)
        self._timer.timeout.connect(self.count_now)
        for changed in (self.edit.textChanged, self.system_line.textChanged):
            changed.connect(self._timer.start)
        self.chat_box.toggled.connect(self._on_chat)
        self.resize(theme.em() * 56, theme.line_height() * 28)
        self.count_now()

    def _make_chat(self, use_chat: bool, system: str) -> None:
        self.chat_box = QCheckBox("Put it into the target's chat template")
        self.chat_box.setChecked(use_chat)
        why = "The target's tokenizer has no chat template." if self._encode is not None else "No model is loaded yet."
        self.chat_box.setToolTip(
            "The text is sent as what a user says, with what the system says before it" if self._chat else why
        )
        self.chat_box.setEnabled(self._chat is not None or use_chat)
        self.system_label = QLabel("The system says")
        self.system_label.setTextFormat(Qt.TextFormat.PlainText)
        self.system_label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.system_line = QLineEdit(system)
        self.system_label.setBuddy(self.system_line)
        self.system_line.setPlaceholderText("nothing, or what the template has of its own")
        self.system_line.setAccessibleName("System prompt")
        self.encoded_label = QLabel("What is encoded, special tokens by their names:")
        self.encoded_label.setTextFormat(Qt.TextFormat.PlainText)
        self.encoded_label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.encoded = QPlainTextEdit()
        self.encoded.setReadOnly(True)
        self.encoded.setAccessibleName("What is encoded")
        self.encoded.setFont(theme.mono_font(0.92))
        self.encoded.setTabChangesFocus(True)
        for widget in (self.encoded_label, self.encoded):
            widget.setVisible(self._encode is not None and self._vocabulary is not None)
        self._show_system(use_chat)

    def _show_system(self, shown: bool) -> None:
        for widget in (self.system_label, self.system_line):
            widget.setVisible(shown)

    def _on_chat(self, on: bool) -> None:
        self._show_system(on)
        self.count_now()

    def uses_chat(self) -> bool:
        """Whether the chat template is asked for."""
        return self.chat_box.isChecked()

    def system(self) -> str:
        """What the system says."""
        return self.system_line.text()

    def _whole(self) -> str:
        """The text that is encoded. Raises ValueError."""
        if self.uses_chat() and self._chat is not None:
            return chat_prompt(self._chat, self.prompt(), self.system())
        return self.prompt()

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
            ids: list[int] = []
            try:
                ids = self._encode(self._whole())
                tokens = f"{count(len(ids))} tokens"
            except ValueError as error:
                tokens = str(error)
            lacking = ". The target has no chat template: the text goes as it stands"
            without = lacking if self.uses_chat() and self._chat is None else ""
            self.tokens.setText(f"{tokens}, {count(len(text))} characters{without}")
            if self._vocabulary is not None:
                self.encoded.setPlainText(encoded_text(self._vocabulary, ids[:_MOST_SHOWN]))

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
