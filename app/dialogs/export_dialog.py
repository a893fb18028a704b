"""Asks what to export: the run, the selected round, or a panel as a picture; and in which format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QCheckBox, QComboBox, QDialog, QDialogButtonBox, QFormLayout, QLabel, QVBoxLayout, QWidget

from app import theme
from app.dialogs.export_data import PANEL, ROUND, RUN, Kind, kinds_of
from app.format import count

PRIVATE = "It holds the prompt and the text: look at it before you send it."
_SCHEMES = (("as in the window", None), ("light", "light"), ("dark", "dark"))


@dataclass(frozen=True)
class Wanted:
    """What was chosen. `panel`: the name of a dock, for a picture. `scheme`: its colours, None: those in use."""

    kind: Kind
    panel: str
    full: bool
    scheme: str | None


class ExportDialog(QDialog):
    """Accepted, `wanted()` says what was chosen. `panels`: (name, title) of every dock that is in sight."""

    def __init__(
        self, run: str, rounds: int, number: int, panels: Sequence[tuple[str, str]], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Export")
        self.what = QComboBox()
        self.what.setAccessibleName("What to export")
        self.what.addItem(f"The run: {run}, {count(rounds)} rounds", (RUN, ""))
        if number >= 0:
            self.what.addItem(f"Round {number}, the selected one", (ROUND, ""))
        for name, title in panels:
            self.what.addItem(f"Picture of {title}", (PANEL, name))
        self.format = QComboBox()
        self.format.setAccessibleName("Format")
        self.scheme = QComboBox()
        self.scheme.setAccessibleName("Colours of the picture")
        for words, scheme in _SCHEMES:
            self.scheme.addItem(words, scheme)
        self.full = QCheckBox("with the largest probabilities of each position")
        self.full.setAccessibleName("Largest probabilities")
        self.about = QLabel()
        self.about.setTextFormat(Qt.TextFormat.PlainText)
        self.about.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        self.about.setWordWrap(True)
        self._lay_out()
        self.what.currentIndexChanged.connect(self._on_what)
        self.format.currentIndexChanged.connect(self._refresh)
        self._on_what()

    def _lay_out(self) -> None:
        self._form = QFormLayout()
        self._form.setLabelAlignment(Qt.AlignmentFlag.AlignRight)
        self._form.addRow("What", self.what)
        self._form.addRow("Format", self.format)
        self._form.addRow("Colours", self.scheme)
        self._form.addRow("", self.full)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel)
        self.ok = buttons.button(QDialogButtonBox.StandardButton.Save)
        self.ok.setText("Export…")
        theme.mark(self.ok, "primary", True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addLayout(self._form)
        layout.addWidget(self.about)
        layout.addWidget(buttons)
        self.about.setMinimumHeight(3 * theme.line_height())
        self.about.setAlignment(Qt.AlignmentFlag.AlignTop)
        self.setMinimumWidth(theme.em() * 32)

    def wanted(self) -> Wanted:
        """The choice."""
        _, panel = self.what.currentData()
        return Wanted(self.format.currentData(), panel, self._asks_full() and self.full.isChecked(), self._scheme())

    def _scheme(self) -> str | None:
        scheme: str | None = self.scheme.currentData()
        return scheme if self.what.currentData()[0] == PANEL else None

    def _asks_full(self) -> bool:
        kind: Kind | None = self.format.currentData()
        return kind is not None and kind.id == "jsonl"

    def _on_what(self) -> None:
        before = self.format.currentText()
        self.format.blockSignals(True)
        self.format.clear()
        for kind in kinds_of(self.what.currentData()[0]):
            self.format.addItem(kind.words, kind)
        self.format.setCurrentIndex(max(self.format.findText(before), 0))
        self.format.blockSignals(False)
        self._refresh()

    def _refresh(self) -> None:
        what, kind = self.what.currentData()[0], self.format.currentData()
        self._form.setRowVisible(self.scheme, what == PANEL)
        self._form.setRowVisible(self.full, self._asks_full())
        private = "" if kind.id == "json" else f" {PRIVATE}"
        self.about.setText(f"{kind.about}{private if what != PANEL else ''}")
