"""Where one model comes from: a line to type, paste, drop or choose into, with what is found on this computer."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QObject, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QComboBox, QFileDialog, QLabel, QLineEdit, QMenu, QPushButton, QWidget

from app import theme
from app.dropped import MODEL, what_was_dropped
from app.model_choice import TOY
from app.worker import BUNDLED
from engine.model_files import GGUF_SUFFIX

WORDS = {BUNDLED: "bundled", TOY: "6-token toy"}
"""What stands in the line for what has no path."""

_FILES = f"GGUF files (*{GGUF_SUFFIX});;All files (*)"
_DROPS = (QEvent.Type.DragEnter, QEvent.Type.DragMove, QEvent.Type.Drop)


class SourceField(QComboBox):
    """A path, a file:// address, or an id, in `where`. Signals: `changed`; `refused` (plain text: it can't be dropped).

    `role`: whose model it is, as the beginning of a sentence.
    """

    changed = Signal()
    refused = Signal(str)

    def __init__(self, role: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.role = role
        self.setEditable(True)
        self.setInsertPolicy(QComboBox.InsertPolicy.NoInsert)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        about = f"{role}: the path of a folder or a {GGUF_SUFFIX} file, or a Hugging Face id such as owner/name"
        self.setAccessibleName(f"{role}: where it comes from")
        self.setToolTip(about)
        self.where = QLineEdit()
        self.where.setAccessibleName(f"{role}: path or id")
        self.where.setPlaceholderText(f"path of a folder or a {GGUF_SUFFIX} file, or owner/name")
        self.setLineEdit(self.where)
        self.setCompleter(None)  # type: ignore[arg-type]  # Qt's would put the first line of the list in the place of what is typed
        self.where.installEventFilter(self)
        self.setAcceptDrops(True)
        self.where.textChanged.connect(self.changed)
        self.activated.connect(self._on_activated)
        self.setMinimumWidth(theme.em() * 14)

    def sizeHint(self) -> QSize:
        return QSize(theme.em() * 30, theme.line_height() + 10)

    def offer(self, choices: Sequence[tuple[str, str]]) -> None:
        """Fill the list with (words, key); what stands in the line stays."""
        text = self.where.text()
        with QSignalBlocker(self), QSignalBlocker(self.where):
            self.clear()
            for words, key in choices:
                self.addItem(words, key)
            self.setCurrentIndex(-1)
            self.where.setText(text)
        self.view().setMinimumWidth(theme.em() * 40)
        self.view().setTextElideMode(Qt.TextElideMode.ElideMiddle)

    def set(self, key: str | None) -> None:
        """Show a source by its key; None leaves the line empty."""
        text = WORDS.get(key, key) if key is not None else ""
        if text != self.where.text():
            self.where.setText(text)
            self.where.setCursorPosition(0)

    def key(self) -> str:
        """What stands there, as it is loaded by."""
        text = self.where.text().strip()
        return next((key for key, words in WORDS.items() if text in (key, words)), text)

    def wheelEvent(self, event) -> None:  # type: ignore[no-untyped-def]
        event.ignore()

    def _on_activated(self, index: int) -> None:
        key = self.itemData(index)
        self.setCurrentIndex(-1)
        self.set(key)
        self.changed.emit()

    # What is dropped: a file is taken whole, and text goes where Qt puts it.

    def event(self, event: QEvent) -> bool:
        return self._take(event) or super().event(event)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        return self._take(event) or super().eventFilter(watched, event)

    def _take(self, event: QEvent) -> bool:
        if event.type() not in _DROPS or not isinstance(event, QDropEvent) or not event.mimeData().hasUrls():
            return False
        event.setDropAction(Qt.DropAction.CopyAction)
        event.accept()
        if event.type() == QEvent.Type.Drop:
            found = what_was_dropped(event.mimeData())
            if found.kind == MODEL:
                self.set(str(found.path))
            else:
                self.refused.emit(found.why or "A recording is opened by dropping it onto the window.")
        return True


class BrowseButton(QPushButton):
    """Asks for a folder or for a file, without holding the program up, and fills a SourceField with it."""

    def __init__(self, field: SourceField) -> None:
        super().__init__("Browse…")
        self._field = field
        self.setAccessibleName(f"{field.role}: browse")
        menu = QMenu(self)
        menu.addAction("Folder…").triggered.connect(self._folder)
        menu.addAction(f"GGUF File (*{GGUF_SUFFIX})…").triggered.connect(self._file)
        self.setMenu(menu)

    def _folder(self) -> None:
        self._ask(QFileDialog.FileMode.Directory, f"{self._field.role}: Folder of a Model")

    def _file(self) -> None:
        self._ask(QFileDialog.FileMode.ExistingFile, f"{self._field.role}: GGUF File").setNameFilter(_FILES)

    def _ask(self, mode: QFileDialog.FileMode, title: str) -> QFileDialog:
        dialog = QFileDialog(self.window(), title)
        dialog.setFileMode(mode)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self._field.set)
        dialog.open()
        return dialog


def row_label(text: str, buddy: QWidget) -> QLabel:
    """The name of a row, in front of its field."""
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setForegroundRole(label.palette().ColorRole.PlaceholderText)
    label.setBuddy(buddy)
    return label
