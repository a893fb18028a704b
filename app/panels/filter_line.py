"""The filter line over the rounds: what isn't understood is underlined and explained; lines can be saved."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, QEvent, QObject, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QInputMethodEvent, QKeyEvent, QPalette, QTextCharFormat
from PySide6.QtWidgets import QHBoxLayout, QLabel, QLineEdit, QMenu, QToolButton, QVBoxLayout, QWidget

from app import theme
from app.settings_store import SettingsStore
from engine.round_filter import NUMBERS, WORDS, FilterError, RoundFilter, parse

WAIT_MS = 150
"""After the last key, before the line is used: a word half written is no error yet."""

PLACEHOLDER = "Filter: outcome:rejected accepted<2"
MOST = 20
"""Filters that are kept."""


def guide() -> str:
    """All that can be asked for, as a tooltip."""
    lines = ["Only rounds for which all conditions hold; a minus turns one round", ""]
    lines += [f"{name} < <= = != >= >  {about}" for name, about in NUMBERS.items()]
    lines += [f"{name}:  {about}" for name, about in WORDS.items()]
    return "\n".join(lines)


class FilterLine(QWidget):
    """An edit line with a menu of saved filters, and the error below it.

    Signals: `changed` (a RoundFilter, None without conditions); while a line isn't understood, the last one that was
    stays. `left`: Escape was pressed, or Enter: back to the rounds.
    """

    changed = Signal(object)
    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._store: SettingsStore | None = None
        self._used = ""
        self.error: FilterError | None = None
        self.edit = QLineEdit()
        self.edit.setObjectName("filter")
        self.edit.setAccessibleName("Filter the rounds")
        self.edit.setPlaceholderText(PLACEHOLDER)
        self.edit.setToolTip(guide())
        self.edit.setMaxLength(1000)
        self.edit.installEventFilter(self)
        self.menu_button = QToolButton()
        self.menu_button.setText("▾")
        self.menu_button.setToolTip("Saved filters")
        self.menu_button.setAccessibleName("Saved filters")
        self.menu_button.clicked.connect(self._on_menu)
        self.words = QLabel()
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.words.setWordWrap(True)
        self.words.setFont(theme.ui_font(0.92))
        self.words.hide()
        line = QHBoxLayout()
        line.setContentsMargins(0, 0, 0, 0)
        line.setSpacing(2)
        line.addWidget(self.edit, 1)
        line.addWidget(self.menu_button)
        column = QVBoxLayout(self)
        column.setContentsMargins(6, 4, 4, 4)
        column.setSpacing(2)
        column.addLayout(line)
        column.addWidget(self.words)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(WAIT_MS)
        self._timer.timeout.connect(self.use)
        self.edit.textEdited.connect(self._timer.start)
        theme.notifier.changed.connect(self.restyle)
        self.restyle()

    def keep_in(self, store: SettingsStore) -> None:
        """Offer and save filters there."""
        self._store = store

    def restyle(self) -> None:
        """Use the palette in use."""
        palette = self.words.palette()
        palette.setColor(QPalette.ColorRole.WindowText, QColor(theme.current().danger))
        self.words.setPalette(palette)
        self._underline()

    def set_line(self, line: str) -> None:
        """Use another line at once."""
        self.edit.setText(line)
        self.use()

    def use(self) -> None:
        """Use the line as it stands."""
        self._timer.stop()
        line = self.edit.text()
        self.error = None
        try:
            made: RoundFilter | None = parse(line)
        except FilterError as error:
            self.error, made = error, None
        self._explain()
        if self.error is None and line != self._used:
            self._used = line
            self.changed.emit(made if made is not None and made.conditions else None)

    def _explain(self) -> None:
        error = self.error
        text = str(error) if error is not None else ""
        self.words.setText(text)
        self.words.setVisible(bool(text))
        self.edit.setAccessibleDescription(text)
        theme.mark(self.edit, "invalid", error is not None)
        self._underline()

    def _underline(self) -> None:
        """A wave under the part that isn't understood; Qt's line edit takes formats only from an input method."""
        attributes = []
        if self.error is not None:
            wave = QTextCharFormat()
            wave.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
            wave.setUnderlineColor(QColor(theme.current().danger))
            start, length = self.error.start, max(self.error.end - self.error.start, 1)
            kind = QInputMethodEvent.AttributeType.TextFormat
            attributes.append(QInputMethodEvent.Attribute(kind, start - self.edit.cursorPosition(), length, wave))
        QCoreApplication.sendEvent(self.edit, QInputMethodEvent("", attributes))

    # Saved filters

    def saved(self) -> list[str]:
        return self._store.filters if self._store is not None else []

    def _on_menu(self) -> None:
        menu = self.menu()
        menu.popup(self.menu_button.mapToGlobal(QPoint(0, self.menu_button.height())))

    def menu(self) -> QMenu:
        """Save the line, use one that was saved, or delete one."""
        menu, saved = QMenu(self), self.saved()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        line = self.edit.text().strip()
        save = menu.addAction("Save This Filter", self.save)
        save.setEnabled(bool(line) and self.error is None and line not in saved and self._store is not None)
        menu.addSeparator()
        for kept in saved:
            # An ampersand would be read as a mark of the key.
            menu.addAction(kept.replace("&", "&&")).setData(("use", kept))
        if saved:
            deleting = menu.addMenu("Delete")
            for kept in saved:
                deleting.addAction(kept.replace("&", "&&")).setData(("delete", kept))
        else:
            menu.addAction("No filter was saved").setEnabled(False)
        menu.triggered.connect(self._on_chosen)
        return menu

    def _on_chosen(self, action: QObject) -> None:
        data = action.data()  # type: ignore[attr-defined]
        if data is None:
            return
        what, line = data
        if what == "use":
            self.set_line(line)
        elif self._store is not None:
            self._store.filters = [kept for kept in self.saved() if kept != line]

    def save(self) -> None:
        """Keep the line; the oldest goes where there are too many."""
        line = self.edit.text().strip()
        self.use()
        if self._store is not None and line and self.error is None:
            self._store.filters = [*(kept for kept in self.saved() if kept != line), line][-MOST:]

    # Keys

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            if event.key() == Qt.Key.Key_Escape:
                self.set_line("")
                self.left.emit()
                return True
            if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Down):
                self.use()
                if self.error is None:
                    self.left.emit()
                return True
        return super().eventFilter(watched, event)
