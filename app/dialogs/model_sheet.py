"""What the two models are, side by side, and the verdict on them: tables and sentences of the model chooser."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QLabel, QTableWidget, QTableWidgetItem, QVBoxLayout, QWidget

from app import theme
from app.format import visible_string
from app.panels.table_style import dress
from engine.model_summary import ModelSummary, shown_rows

ROWS = tuple(
    name
    for name, _ in shown_rows(ModelSummary(*(None,) * 2, "", 0, 0, 0, 0, "", 0, 0, 0))  # type: ignore[arg-type]
)
"""The names of the rows, whatever the model."""

GOOD, BAD, CARE, BUSY = "✓", "✗", "▲", "…"
"""Marks before a sentence of the verdict."""

_LONGEST = 600  # characters of a sentence
_NOTHING = "-"


class ModelSheet(QTableWidget):
    """One row a property, one column a model."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(len(ROWS), 3, parent)
        dress(self)
        self.setStyleSheet("QTableView::item { padding: 0 6px; }")
        self.setAccessibleName("What the models are")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setAlternatingRowColors(True)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.setHorizontalHeaderLabels(["", "target", "drafter"])
        self.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        for row, name in enumerate(ROWS):
            for column in range(3):
                self.setItem(row, column, QTableWidgetItem(name if column == 0 else _NOTHING))
        height = self.horizontalHeader().height() + len(ROWS) * (theme.line_height() + 4) + 2 * self.frameWidth()
        self.setFixedHeight(height)

    def show_model(self, column: int, model: ModelSummary | None) -> None:
        """Fill the column of the target (1) or the drafter (2)."""
        values = dict(shown_rows(model)) if model is not None else {}
        if model is not None and model.kind == "toy":
            values |= {"parameters": "none", "layers": "none", "context length": "no limit"}
            values |= dict.fromkeys(("size on disk", "weights in memory", "memory with a full context"), "nothing")
        elif model is not None and not model.file_bytes:
            values["size on disk"] = "nothing"
        if model is not None and not model.weight_bytes and model.kind != "toy":
            values["weights in memory"] = "the target's"
        for row, name in enumerate(ROWS):
            text = visible_string(values.get(name, _NOTHING))
            item = self._cell(row, column)
            item.setText(text)
            item.setToolTip(text.replace("<", "‹") if len(text) > 24 else "")

    def _cell(self, row: int, column: int) -> QTableWidgetItem:
        item = self.item(row, column)
        assert item is not None
        return item

    def text(self, name: str, column: int) -> str:
        """What stands in a row."""
        return self._cell(ROWS.index(name), column).text()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        first = theme.em() * 15
        rest = self.viewport().width() - first
        for column, width in enumerate((first, rest // 2, rest - rest // 2)):
            self.setColumnWidth(column, width)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.matches(QKeySequence.StandardKey.Copy):
            rows = sorted({index.row() for index in self.selectedIndexes()}) or range(len(ROWS))
            lines = ["\t".join(self._cell(row, column).text() for column in range(3)) for row in rows]
            QGuiApplication.clipboard().setText("\n".join(lines))
            return
        super().keyPressEvent(event)


class Verdict(QWidget):
    """Sentences, each behind its mark; what is bad is in red."""

    def __init__(self, lines: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._labels: list[QLabel] = []
        self._said: tuple[tuple[str, str], ...] = ()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(2)
        for _ in range(lines):
            label = QLabel()
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            self._labels.append(label)
            self._layout.addWidget(label)
        self._layout.addStretch(1)
        self.setMinimumHeight(lines * (theme.line_height() + 2))
        theme.notifier.changed.connect(self._restyle)

    def say(self, sentences: Sequence[tuple[str, str]]) -> None:
        """Show (mark, sentence), as many as there are lines at most."""
        self._said = tuple(sentences)[: len(self._labels)]
        for label, (mark, text) in zip(self._labels, (*self._said, *((("", ""),) * len(self._labels))), strict=False):
            shown = visible_string(text if len(text) <= _LONGEST else text[:_LONGEST] + "…")
            label.setText(f"{mark} {shown}" if text else "")
            label.setVisible(bool(text))
        self._restyle()

    def text(self) -> str:
        """All sentences, one a line."""
        return "\n".join(f"{mark} {text}" for mark, text in self._said)

    def _restyle(self) -> None:
        colours = theme.current()
        inks = {BAD: colours.danger, CARE: colours.recovered.ink, BUSY: colours.text2}
        for label, (mark, _) in zip(self._labels, self._said, strict=False):
            label.setStyleSheet(f"color: {inks.get(mark, colours.text)};")
