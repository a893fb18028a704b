"""Which models the two boxes of the toolbar name, and what choosing one of their lines asks for."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QComboBox, QWidget

from app import theme
from app.fields import ChoiceField
from app.worker import BUNDLED, PairSummary
from engine.rounds import ModelInfo

TOY = "toy"
OTHER = "choose"
NOTHING = "none"


@dataclass(frozen=True)
class Chosen:
    """A pair by where its models come from: BUNDLED, TOY, a folder, or a Hugging Face id with its prefix.

    `draft` None: plain decoding.
    """

    target: str = BUNDLED
    draft: str | None = BUNDLED


def millions(parameters: int) -> str:
    """`4.3 M`, `0.6 M`, `1.2 B`; nothing for a model without parameters."""
    if parameters <= 0:
        return ""
    for factor, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if parameters >= factor / 10:
            return f"{parameters / factor:.1f} {unit}"
    return str(parameters)


def shown_name(model: ModelInfo) -> str:
    """A model's name with its size, unless the name tells it."""
    size = millions(model.parameters)
    name = "bundled" if model.name.startswith("bundled") else model.name
    return name if not size or size in name else f"{name} {size}"


class ModelBox(ChoiceField):
    """A box of models. Signals: `chosen` (the line's key), only by hand."""

    chosen = Signal(str)

    def __init__(self, role: str, about: str, parent: QWidget | None = None) -> None:
        super().__init__(role, about, (), parent)
        self._role = role
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.setMaximumWidth(theme.em() * 13)
        self.setFont(theme.ui_font(0.92))
        self.activated.connect(self._on_activated)

    def show_choices(self, bundled: str, current: str | None, name: str, allow_nothing: bool) -> None:
        """Fill the box: the bundled model first, the current one chosen by its key."""
        with QSignalBlocker(self):
            self.clear()
            self.addItem(bundled, BUNDLED)
            self.addItem("6-token toy", TOY)
            if allow_nothing:
                self.addItem("none: plain decoding", NOTHING)
            key = NOTHING if current is None else current
            if self.findData(key) < 0:
                self.addItem(name, key)
            self.addItem("Choose…", OTHER)
            self.setCurrentIndex(self.findData(key))
        for index in range(self.count()):
            self.setItemData(index, None, Qt.ItemDataRole.ToolTipRole)
        self.updateGeometry()

    def sizeHint(self):  # type: ignore[no-untyped-def]
        size = super().sizeHint()
        # As wide as what is shown, not as the longest line of the list.
        size.setWidth(min(self.fontMetrics().horizontalAdvance(self.currentText()) + 31, theme.em() * 13))
        return size

    def _on_activated(self, index: int) -> None:
        self.chosen.emit(self.itemData(index))


def current_models(pair: PairSummary | None, asked: Chosen) -> tuple[str, str]:
    """Names of the two models for the boxes: of the pair loaded, else of what was asked for."""
    if pair is not None:
        return shown_name(pair.target), shown_name(pair.draft) if pair.draft is not None else "none"
    return asked.target.rpartition("/")[2], (asked.draft or "none").rpartition("/")[2]
