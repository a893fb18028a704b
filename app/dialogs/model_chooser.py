"""Choosing target and draft: the bundled ones, the toy, a folder, or a Hugging Face id that is typed and confirmed."""

from __future__ import annotations

import re
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QGridLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.model_choice import NOTHING, TOY, Chosen
from app.worker import BUNDLED, HUB_PREFIX

FOLDER, HUB = "folder", "hub"
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def _plain(text: str) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    return label


class _Source(QWidget):
    """One model: where it comes from, and its folder or id. Signals: `changed`."""

    changed = Signal()

    def __init__(self, role: str, kinds: tuple[tuple[str, str], ...]) -> None:
        super().__init__()
        self.role = role
        self.kind = QComboBox()
        self.kind.setAccessibleName(f"{role}: where it comes from")
        for text, key in kinds:
            self.kind.addItem(text, key)
        self.where = QLineEdit()
        self.where.setAccessibleName(f"{role}: folder or id")
        self.browse = QPushButton("Browse…")
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        label = _plain(role)
        label.setMinimumWidth(theme.em() * 4)
        self.kind.setFixedWidth(theme.em() * 13)
        grid.addWidget(label, 0, 0)
        grid.addWidget(self.kind, 0, 1)
        grid.addWidget(self.where, 0, 2)
        grid.addWidget(self.browse, 0, 3)
        grid.setColumnStretch(2, 1)
        self.kind.currentIndexChanged.connect(self._on_kind)
        self.where.textChanged.connect(self.changed)
        self.browse.clicked.connect(self._on_browse)
        self._on_kind()

    def set(self, key: str | None) -> None:
        """Show a source."""
        kind, where = key or NOTHING, ""
        if kind.startswith(HUB_PREFIX):
            kind, where = HUB, kind.removeprefix(HUB_PREFIX)
        elif kind not in (BUNDLED, TOY, NOTHING):
            kind, where = FOLDER, kind
        self.kind.setCurrentIndex(max(self.kind.findData(kind), 0))
        self.where.setText(where)

    def key(self) -> str | None:
        """The source as the worker takes it; None: no model."""
        kind, where = self.kind.currentData(), self.where.text().strip()
        if kind == NOTHING:
            return None
        if kind == HUB:
            return HUB_PREFIX + where
        return str(Path(where).expanduser()) if kind == FOLDER else str(kind)

    def is_hub(self) -> bool:
        return self.isEnabled() and self.kind.currentData() == HUB

    def problem(self) -> str | None:
        """Why it can't be loaded as it stands, or None."""
        kind, where = self.kind.currentData(), self.where.text().strip()
        if not self.isEnabled():
            return None
        if kind == FOLDER:
            if not where:
                return f"{self.role}: choose a folder with an MLX model (config.json and .safetensors files)."
            folder = Path(where).expanduser()
            if not (folder / "config.json").is_file():
                return f"{self.role}: expected a folder with a config.json, got {folder}"
        if kind == HUB and not _HUB_ID.fullmatch(where):
            return f"{self.role}: expected an id such as mlx-community/Llama-3.2-1B-Instruct-4bit, got {where!r}"
        return None

    def _on_kind(self) -> None:
        kind = self.kind.currentData()
        self.where.setEnabled(kind in (FOLDER, HUB))
        self.where.setPlaceholderText({FOLDER: "/path/to/model", HUB: "owner/name"}.get(kind, ""))
        self.browse.setEnabled(kind == FOLDER)
        self.changed.emit()

    def _on_browse(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, f"{self.role}: folder of an MLX model", self.where.text())
        if folder:
            self.where.setText(folder)


class ModelChooser(QDialog):
    """Accepted, `chosen()` says what to load."""

    def __init__(self, chosen: Chosen, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Choose Models")
        own = (("folder", FOLDER), ("Hugging Face id", HUB))
        self.target = _Source("Target", (("bundled", BUNDLED), ("6-token toy", TOY), *own))
        self.draft = _Source("Draft", (("bundled", BUNDLED), *own, ("none: plain decoding", NOTHING)))
        about = _plain("Both must be MLX models with the same tokenizer. Nothing in a model's folder is executed.")
        about.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        about.setWordWrap(True)
        self.confirm = QCheckBox("Yes, download from huggingface.co what isn't on this computer yet")
        self.said = _plain("")
        self.said.setWordWrap(True)
        self.said.setMinimumHeight(2 * theme.line_height())
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel)
        self.ok = buttons.button(QDialogButtonBox.StandardButton.Ok)
        self.ok.setText("Load")
        theme.mark(self.ok, "primary", True)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.setSpacing(10)
        for widget in (about, self.target, self.draft, self.confirm, self.said, buttons):
            layout.addWidget(widget)
        self.target.set(chosen.target)
        self.draft.set(None if chosen.draft is None else BUNDLED if chosen.draft == TOY else chosen.draft)
        for source in (self.target, self.draft):
            source.changed.connect(self.refresh)
        self.confirm.toggled.connect(self.refresh)
        self.resize(theme.em() * 56, self.sizeHint().height())
        self.refresh()

    def chosen(self) -> Chosen:
        """The pair to load."""
        target = self.target.key() or BUNDLED
        return Chosen(TOY, TOY) if target == TOY else Chosen(target, self.draft.key())

    def refresh(self) -> None:
        """Say what is missing; without it nothing can be loaded."""
        self.draft.setEnabled(self.target.kind.currentData() != TOY)
        hub = self.target.is_hub() or self.draft.is_hub()
        self.confirm.setVisible(hub)
        problem = self.target.problem() or self.draft.problem()
        if problem is None and hub and not self.confirm.isChecked():
            problem = "A Hugging Face id may need the network: confirm it first."
        for source in (self.target, self.draft):
            theme.mark(source.where, "invalid", source.problem() is not None and bool(source.where.text()))
        self.said.setText(problem or "")
        self.ok.setEnabled(problem is None)
