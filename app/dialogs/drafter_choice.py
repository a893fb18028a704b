"""What drafts: the draft model, or one of the drafters that need none, with its argument."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, QSize, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLineEdit, QWidget

from app import theme
from engine.drafter_kinds import DRAFTER_TABLE, Drafter, DrafterError, parse_drafter

NONE = "none"
"""No drafter at all: plain decoding."""
MODEL = "model"
_PLAIN = "sample"

_FORMS = {
    "prompt-lookup": ("N", "The longest run of tokens to look for, such as 3"),
    "dropped": ("FIRST-LAST", "The layers to leave out, counted from 0, such as 12-17"),
    "requantized": (
        "BITS[:GROUP[:MODULES]]",
        "Bits (2, 3, 4, 5, 6, 8), how many weights share a scale (32, 64, 128), and which modules (all, mlp, "
        "attention), such as 4:32:mlp",
    ),
}


class DrafterChoice(QWidget):
    """A kind and its argument; `text()` is what the setting `drafter` takes. Signals: `changed`."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.kind = QComboBox()
        self.kind.setAccessibleName("Drafter")
        for kind in DRAFTER_TABLE.values():
            self.kind.addItem(kind.title, kind.id)
        self.kind.addItem("none: plain decoding", NONE)
        self.argument = QLineEdit()
        self.argument.setAccessibleName("The drafter's argument")
        self.argument.setFont(theme.mono_font(0.92))
        self.argument.setFixedWidth(theme.em() * 10)
        self._model_text, self._picks = _PLAIN, dict[str, str]()
        self._layers = 0
        line = QHBoxLayout(self)
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(6)
        line.addWidget(self.kind)
        line.addWidget(self.argument)
        line.addStretch(1)
        self.kind.currentIndexChanged.connect(self._on_kind)
        self.argument.textChanged.connect(self._on_argument)
        self._on_kind()

    def minimumSizeHint(self) -> QSize:
        return self.kind.minimumSizeHint()

    def set(self, text: str, has_draft: bool) -> None:
        """Show a drafter, as `Settings.drafter` has it; `has_draft` False: a pair without a draft model."""
        drafter = parse_drafter(text)
        if drafter.kind.id == MODEL:
            self._model_text = text
            wanted, argument = MODEL if has_draft else NONE, ""
        else:
            wanted, argument = drafter.kind.id, _argument_of(drafter)
            self._picks[wanted] = drafter.text.partition(",")[2]
        with QSignalBlocker(self.kind), QSignalBlocker(self.argument):
            self.kind.setCurrentIndex(self.kind.findData(wanted))
            self.argument.setText(argument)
        self._show_form()
        self.changed.emit()

    def id(self) -> str:
        """The kind chosen, or NONE."""
        kind: str = self.kind.currentData()
        return kind

    def text(self) -> str:
        """The setting's text; it may be none that can be parsed."""
        kind = self.id()
        if kind in (MODEL, NONE):
            return self._model_text
        argument, pick = self.argument.text().strip(), self._picks.get(kind, "")
        return kind + (f":{argument}" if kind in _FORMS else "") + (f",{pick}" if pick else "")

    def drafter(self) -> Drafter | None:
        """The drafter that needs no draft model, taken apart; None for the others and for none. Raises DrafterError."""
        return None if self.id() in (MODEL, NONE) else parse_drafter(self.text())

    def problem(self) -> str:
        """What is wrong with the argument, or ""."""
        try:
            self.drafter()
        except DrafterError as error:
            return f"Drafter: {error}."
        return ""

    def suggest(self, layers: int) -> None:
        """The target's number of layers, for an argument that nobody has written yet."""
        self._layers = layers
        if self.id() == "dropped" and not self.argument.text():
            self.argument.setText(self._usual())

    def _usual(self) -> str:
        kind = self.id()
        if kind == "dropped":
            first = round(self._layers * 0.4)
            # The middle fifth is missed least.
            return f"{first}-{first + max(self._layers // 5, 1) - 1}" if self._layers > 1 else ""
        return {"prompt-lookup": "3", "requantized": "4"}.get(kind, "")

    def _on_kind(self) -> None:
        with QSignalBlocker(self.argument):
            self.argument.setText(self._usual())
        self._show_form()
        self.changed.emit()

    def _on_argument(self) -> None:
        self._show_form()
        self.changed.emit()

    def _show_form(self) -> None:
        form, about = _FORMS.get(self.id(), ("", ""))
        self.argument.setVisible(bool(form))
        self.argument.setPlaceholderText(form)
        self.argument.setToolTip(about)
        self.kind.setToolTip(DRAFTER_TABLE[self.id()].about if self.id() != NONE else "The target decodes alone.")
        theme.mark(self.argument, "invalid", bool(self.problem()))


def _argument_of(drafter: Drafter) -> str:
    return drafter.text.partition(",")[0].partition(":")[2]
