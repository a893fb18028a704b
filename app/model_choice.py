"""Which models the two boxes of the toolbar name, and what choosing one of their lines asks for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QComboBox, QWidget

from app import theme
from app.dropped import MODEL_FILE
from app.fields import ChoiceField
from app.format import count, millions, visible_string
from app.worker import BUNDLED, PairSummary
from engine.drafter_kinds import DrafterError, parse_drafter
from engine.rounds import ModelInfo
from engine.settings import Settings

TOY = "toy"
OTHER = "choose"
NOTHING = "none"
DRAFTER = "drafter"
"""The line of a drafter that needs no draft model."""
_IN_A_BOX = 21  # characters of a name
PLAIN_DRAFTER = "sample"
"""The setting `drafter` for the pair's own draft model."""


@dataclass(frozen=True)
class Chosen:
    """A pair by where its models come from: BUNDLED, TOY, a path, or a Hugging Face id of the local cache.

    `draft` None: no draft model. `drafter`: as `Settings.drafter`, from the load on; None: the one in use stays.
    `unpack`, `allow_large`: as `engine.models.load_pair`.
    """

    target: str = BUNDLED
    draft: str | None = BUNDLED
    drafter: str | None = None
    unpack: bool = False
    allow_large: bool = False

    def options(self) -> dict[str, Any]:
        """What `Session.load` takes beside the two models, without what is as it always is."""
        given = {"drafter": self.drafter, "unpack": self.unpack, "allow_large": self.allow_large}
        return {name: value for name, value in given.items() if value}


def to_plain(chosen: Chosen) -> list[str | None]:
    """A pair as the settings keep it."""
    return [chosen.target, chosen.draft, chosen.drafter]


def from_plain(pairs: list[Any]) -> list[Chosen]:
    """The pairs among what the settings hold; what is none is left out."""
    fit = [
        pair
        for pair in pairs
        if isinstance(pair, list) and len(pair) == 3 and all(isinstance(part, str | None) for part in pair)
    ]
    return [Chosen(*pair) for pair in fit if pair[0] and (pair[2] is None or _is_drafter(pair[2]))]


def with_newest(pairs: list[Any], newest: Chosen) -> list[Any]:
    """What the settings shall hold once a pair was used: it stands first, and once."""
    plain = to_plain(newest)
    return [plain, *(pair for pair in pairs if pair != plain)]


def short_name(key: str) -> str:
    """A model by its key, without the folders before it."""
    if key in (BUNDLED, TOY):
        return {BUNDLED: "bundled", TOY: "6-token toy"}[key]
    return visible_string(PurePath(key).name.removesuffix(MODEL_FILE) if "/" in key[:1] or "\\" in key else key)


def _is_drafter(text: str) -> bool:
    try:
        parse_drafter(text)
    except DrafterError:
        return False
    return True


def drafts_without_model(drafter: str | None) -> bool:
    """Whether a drafter needs no draft model."""
    return drafter is not None and _is_drafter(drafter) and parse_drafter(drafter).kind.network != "draft"


def drafting_words(pair: PairSummary, settings: Settings) -> tuple[str, str]:
    """What drafts for a loaded pair: in a few words with its parameters, and in a sentence."""
    drafter, target = settings.drafter_kind, pair.target
    if drafter.kind.network == "draft":
        if pair.draft is None:
            return "no drafter", "No draft model: plain decoding."
        return shown_name(pair.draft), f"Drafts: {pair.draft.name}, {count(pair.draft.parameters)} parameters."
    if drafter.kind.network == "none":
        return f"{drafter.kind.title} (no model)", f"Drafts: {drafter.text}, without a model."
    parameters = target.parameters
    if drafter.kind.id == "dropped":
        parameters -= sum(pair.layer_sizes[drafter.first : drafter.last + 1])
    size = millions(parameters)
    known = drafter.kind.id != "dropped" or bool(pair.layer_sizes)
    words = f"{drafter.text} {size}" if size and known else drafter.text
    about = f", {count(parameters)} parameters" if size and known else ""
    return words, f"Drafts: {drafter.text}, made of the target {target.name}{about}."


def models_words(pair: PairSummary, settings: Settings, most: int = 200) -> tuple[str, str]:
    """Target and drafter of a loaded pair: in a few words, and in sentences. Also where k is 0.

    `most`: characters of the target's name at most.
    """
    words, sentence = drafting_words(pair, settings)
    idle = settings.num_draft_tokens == 0 and words != "no drafter"
    target = pair.target
    size = f", {count(target.parameters)} parameters" if target.parameters else ""
    lines = f"Target: {target.name}{size}, {target.dtype}.\n{sentence}"
    return (
        f"{brief_name(target, most)} / {words}{' (k 0: unused)' if idle else ''}",
        visible_lines(f"{lines}\nk is 0: plain decoding, nothing is drafted." if idle else lines),
    )


def visible_lines(text: str) -> str:
    """Untrusted text with its line breaks and nothing else invisible in it, for a tooltip."""
    return "\n".join(visible_string(line).replace("<", "‹") for line in text.split("\n"))


def pair_words(chosen: Chosen) -> str:
    """A pair in one line."""
    drafter = chosen.drafter or ""
    if drafts_without_model(chosen.drafter):
        return f"{short_name(chosen.target)}, {drafter}"
    return f"{short_name(chosen.target)}, {short_name(chosen.draft) if chosen.draft is not None else 'no drafter'}"


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

    def show_choices(
        self, bundled: str, current: str | None, name: str, allow_nothing: bool, drafter: str = ""
    ) -> None:
        """Fill the box: the bundled model first, the current one chosen by its key.

        `drafter`: words for one that needs no draft model, and is in use in the place of any.
        """
        with QSignalBlocker(self):
            self.clear()
            self.addItem(bundled, BUNDLED)
            self.addItem("6-token toy", TOY)
            if allow_nothing:
                self.addItem("none: plain decoding", NOTHING)
            key = DRAFTER if drafter else NOTHING if current is None else current
            name = drafter or name
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


def brief_name(model: ModelInfo, most: int) -> str:
    """`shown_name` in at most so many characters: the middle of the name goes, its size stays."""
    whole = shown_name(model)
    if len(whole) <= most:
        return whole
    size = millions(model.parameters)
    tail = f" {size}" if size else ""
    room = max(most - len(tail) - 1, 4)
    name = model.name
    return f"{name[: room - room // 3]}…{name[len(name) - room // 3 :]}{tail}"


def current_models(pair: PairSummary | None, asked: Chosen) -> tuple[str, str]:
    """Names of the two models for the boxes: of the pair loaded, else of what was asked for."""
    if pair is not None:
        most = _IN_A_BOX
        return brief_name(pair.target, most), brief_name(pair.draft, most) if pair.draft is not None else "none"
    return asked.target.rpartition("/")[2], (asked.draft or "none").rpartition("/")[2]
