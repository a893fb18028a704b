"""The fold-out below the toolbars: penalties, the drafter's own sampler, and what is seldom changed in a run."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QCheckBox, QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app import theme
from app.drafter_field import DrafterField
from app.fields import (
    ChoiceField,
    NumberField,
    TextField,
    read_bias,
    read_stop,
    sampler_check,
    settings_check,
    write_bias,
    write_stop,
)
from app.next_rule import is_reference
from engine.recording_size import in_bytes, round_bytes, size_words
from engine.settings import CHAIN_ORDERS, KV_BITS, KV_GROUPS, MAIN_REWINDS, RULE_CHOICES, Settings

Field = NumberField | TextField | ChoiceField | DrafterField


def _rules() -> list[tuple[str, str]]:
    """(text, rule) of every choice; those that are wrong on purpose, which come last, say so."""
    return [(f"{rule}, not lossless" if is_reference(rule) else rule, rule) for rule in RULE_CHOICES]


def _window(name: str) -> NumberField:
    return NumberField(
        "window",
        "How many tokens back it looks; all: the whole history",
        sampler_check(name),
        whole=True,
        step=16,
        words={"all": 0},
        characters=4,
    )


def _label(text: str, *, heading: bool = False) -> QLabel:
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setFont(theme.ui_font(0.92, 600 if heading else 400))
    if not heading:
        label.setForegroundRole(label.palette().ColorRole.PlaceholderText)
    return label


class MoreSettings(QWidget):
    """Fields by the setting's name in `fields`; the drafter's own have "draft." before it.

    `overflow` is a row for what the toolbar has no room for.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("More settings")
        self.fields: dict[str, Field] = {}
        self.penalize_prompt = QCheckBox("prompt counts")
        self.penalize_prompt.setToolTip("The history that penalties look back on begins with the prompt")
        self.as_target = QCheckBox("samples as the target")
        self.as_target.setToolTip("The drafter's temperature and filters are the target's")
        self.full_vocabulary = QCheckBox("keep all tokens")
        self.overflow = QHBoxLayout()
        self.overflow.setSpacing(10)
        columns = QHBoxLayout()
        columns.setSpacing(22)
        for title, rows in (
            ("Penalties", self._penalties()),
            ("DRY", self._dry()),
            ("XTC, order, KV cache", self._chain()),
            ("Drafter", self._drafter()),
            ("Run", self._run()),
        ):
            columns.addLayout(self._column(title, rows))
        columns.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(8, 6, 8, 8)
        layout.setSpacing(6)
        layout.addLayout(self.overflow)
        layout.addLayout(columns)

    def _column(self, title: str, rows: list[tuple[str, list[QWidget]]]) -> QGridLayout:
        grid = QGridLayout()
        grid.setHorizontalSpacing(6)
        grid.setVerticalSpacing(3)
        grid.addWidget(_label(title, heading=True), 0, 0, 1, 3)
        for index, (name, widgets) in enumerate(rows, start=1):
            if name:
                grid.addWidget(_label(name), index, 0)
            first = 1 if name else 0
            for column, widget in enumerate(widgets, start=first):
                if len(widgets) > 1:
                    grid.addWidget(widget, index, column)
                elif isinstance(widget, NumberField):
                    grid.addWidget(widget, index, column, 1, 3 - column, Qt.AlignmentFlag.AlignLeft)
                else:
                    grid.addWidget(widget, index, column, 1, 3 - column)
        grid.setRowStretch(len(rows) + 1, 1)
        return grid

    def _keep(self, name: str, field: Field) -> Field:
        self.fields[name] = field
        return field

    def _number(self, name: str, label: str, about: str, off: float | None = None, **options: object) -> Field:
        words = {} if off is None else {"off": off}
        options = {"step": 0.1, "characters": 4, "words": words, **options}
        return self._keep(name, NumberField(label, about, sampler_check(name), **options))  # type: ignore[arg-type]

    def _penalties(self) -> list[tuple[str, list[QWidget]]]:
        def pair(kind: str, about: str, off: float, least: float | None) -> list[QWidget]:
            name = f"{kind}_penalty"
            strength = self._number(name, kind, about, off, least=least)
            return [strength, self._keep(f"{kind}_window", _window(f"{kind}_window"))]

        bias = TextField("bias", "Added to the logits of these ids: id:value, id:value, …", read_bias, write_bias, 14)
        return [
            ("repetition", pair("repetition", "Divides the logits of tokens that the history holds", 1.0, 0.1)),
            (
                "frequency",
                pair("frequency", "Taken off once for every time that the history holds the token", 0.0, None),
            ),
            ("presence", pair("presence", "Taken off once if the history holds the token", 0.0, None)),
            ("bias", [self._keep("logit_bias", bias)]),
            ("", [self.penalize_prompt]),
        ]

    def _dry(self) -> list[tuple[str, list[QWidget]]]:
        return [
            ("strength", [self._number("dry_multiplier", "DRY strength", "Penalty on going on with a repeat", 0.0)]),
            ("base", [self._number("dry_base", "DRY base", "Grows with every repeated token; 1 or more", least=1)]),
            (
                "allowed",
                [
                    self._number(
                        "dry_allowed_length",
                        "DRY allowed length",
                        "Repeats shorter than this are free",
                        whole=True,
                        step=1,
                    )
                ],
            ),
            ("window", [self._keep("dry_window", _window("dry_window"))]),
        ]

    def _chain(self) -> list[tuple[str, list[QWidget]]]:
        about = "How often the likeliest tokens are left out, so that others come up"
        order = ChoiceField("chain order", "The order in which temperature and filters work", CHAIN_ORDERS)
        return [
            ("probability", [self._number("xtc_probability", "XTC probability", about, 0.0, most=1)]),
            (
                "threshold",
                [
                    self._number(
                        "xtc_threshold",
                        "XTC threshold",
                        "Tokens at least this likely may be left out",
                        most=0.5,
                        step=0.05,
                    )
                ],
            ),
            ("order", [self._keep("chain_order", order)]),
            *self._quantized(),
        ]

    def _quantized(self) -> list[tuple[str, list[QWidget]]]:
        bits = ChoiceField(
            "KV bits",
            "Keep the keys and values of both models in so many bits",
            [("off" if bits == 0 else str(bits), bits) for bits in KV_BITS],
        )
        group = ChoiceField(
            "KV group size",
            "Values that share a scale; heads must be a multiple of it",
            [(str(g), g) for g in KV_GROUPS],
        )
        start = NumberField(
            "KV start",
            "Dense up to so many tokens; quantized before a pass would go beyond",
            settings_check("kv_start"),
            whole=True,
            step=64,
            characters=5,
        )
        return [
            ("KV bits", [self._keep("kv_bits", bits), self._keep("kv_group_size", group)]),
            ("KV start", [self._keep("kv_start", start)]),
        ]

    def _drafter(self) -> list[tuple[str, list[QWidget]]]:
        def own(name: str, label: str, about: str, **options: object) -> Field:
            field = NumberField(label, about, sampler_check(name), **options)  # type: ignore[arg-type]
            return self._keep(f"draft.{name}", field)

        off = {"words": {"off": 0}}
        return [
            ("kind", [self._keep("drafter", DrafterField())]),
            ("", [self.as_target]),
            (
                "T, top-k",
                [
                    own("temperature", "drafter's temperature", "The drafter's temperature", step=0.1),
                    own("top_k", "drafter's top-k", "Keep the k likeliest tokens of q", whole=True, **off),
                ],
            ),
            (
                "top-p, min-p",
                [
                    own("top_p", "drafter's top-p", "Keep the smallest set of this mass", step=0.05, **off),
                    own(
                        "min_p", "drafter's min-p", "Keep tokens down to this share of the likeliest", step=0.05, **off
                    ),
                ],
            ),
        ]

    def _run(self) -> list[tuple[str, list[QWidget]]]:
        def count(name: str, label: str, about: str, step: int) -> Field:
            options = {"whole": True, "step": step, "least": 1, "characters": 5}
            return self._keep(name, NumberField(label, about, settings_check(name), **options))  # type: ignore[arg-type]

        rule = ChoiceField(
            "rule", "auto: by Stochastic, kill switch and temperature; an id: that rule", _rules(), compact=True
        )
        rule.insertSeparator(rule.findData(next(choice for choice in RULE_CHOICES if is_reference(choice))))
        rewind = ChoiceField(
            "main rewind",
            "How the main cache goes back; all but correct are faults that corrupt p itself, so they aren't lossless",
            MAIN_REWINDS,
        )
        kept = count("top_n", "tokens kept", "Likeliest tokens of p and q that a record keeps", 4)
        about = 'Texts that end the run, in double quotes: "\\n\\n", "END"'
        return [
            ("rule", [self._keep("rule", rule)]),
            ("main rewind", [self._keep("main_rewind", rewind)]),
            ("stop texts", [self._keep("stop", TextField("stop", about, read_stop, write_stop, 12))]),
            ("prefill, kept", [count("prefill_chunk", "prefill chunk", "Prompt tokens read in one pass", 64), kept]),
            ("", [self.full_vocabulary]),
        ]

    def show_size(self, settings: Settings, vocab_size: int | None, has_draft: bool) -> None:
        """Say what keeping all tokens takes, before anybody runs it; `vocab_size` None: no models are loaded."""
        about = "Keep p and q of all tokens in every round, so that another temperature is exact in What if"
        text = "keep all tokens"
        if vocab_size is None:
            about += "\nIts size is known once the models are loaded"
        else:
            text = f"keep all: {in_bytes(round_bytes(settings, vocab_size, has_draft))} a round"
            about += f"\n{size_words(settings, vocab_size, has_draft)}"
        self.full_vocabulary.setText(text)
        self.full_vocabulary.setToolTip(about)
        self.full_vocabulary.setAccessibleName(text)
        self.full_vocabulary.setAccessibleDescription(about)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, painter = theme.current(), QPainter(self)
        painter.fillRect(self.rect(), QColor(colours.alternate))
        painter.fillRect(0, 0, self.width(), 1, QColor(colours.line))
        painter.fillRect(0, self.height() - 1, self.width(), 1, QColor(colours.line))
