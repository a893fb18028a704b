"""What is dropped onto the window: one place decides by its kind what happens, or says what may be dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QTextEdit, QWidget

from engine.session_file import SUFFIX

RECORDING, MODEL, REFUSED = "recording", "model", "refused"
MODEL_FILE = ".gguf"

MAY_BE_DROPPED = f"Drop a recording ({SUFFIX}), the folder of a model, or a {MODEL_FILE} file, one at a time."
_EVENTS = (QEvent.Type.DragEnter, QEvent.Type.DragMove, QEvent.Type.Drop)


@dataclass(frozen=True)
class Dropped:
    """What came: `kind` and, unless REFUSED, its `path`; else `why`, in words."""

    kind: str
    path: Path = Path()
    why: str = ""


def what_was_dropped(data: QMimeData) -> Dropped:
    """Decide by kind. Nothing is opened: whether a file is what its name says is for its reader to tell."""
    urls = data.urls()
    if len(urls) > 1:
        return _refused(f"{len(urls)} things were dropped at once.")
    if not urls:
        return _refused("Text was dropped." if data.hasText() else "What was dropped is no file.")
    return _of_url(urls[0])


def _of_url(url: QUrl) -> Dropped:
    if not url.isLocalFile():
        return _refused(f"{url.toDisplayString()[:200]} is no file of this computer.")
    path = Path(url.toLocalFile())
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError) as error:
        return _refused(f"{path} can't be looked at: {error}.")
    if is_folder:
        return Dropped(MODEL, path)
    if not is_file:
        return _refused(f"{path} doesn't exist, or is no plain file.")
    suffix = path.suffix.lower()
    if suffix in (SUFFIX, MODEL_FILE):
        return Dropped(RECORDING if suffix == SUFFIX else MODEL, path)
    return _refused(f"{path.name} is neither a recording nor a model.")


def _refused(why: str) -> Dropped:
    return Dropped(REFUSED, why=f"{why} {MAY_BE_DROPPED}")


class WindowDrops(QObject):
    """Takes what is dropped anywhere in a window. Signals: `recording`, `model` (a Path), `refused` (plain text).

    Text fields keep the text that is dropped into them; a file is for the window there too.
    """

    recording = Signal(object)
    model = Signal(object)
    refused = Signal(str)

    def __init__(self, window: QWidget) -> None:
        """To be made once the window's own widgets are there."""
        super().__init__(window)
        window.setAcceptDrops(True)
        window.installEventFilter(self)
        for child in window.findChildren(QWidget):
            if not child.acceptDrops() or child.isWindow():
                continue
            if _is_text_field(child):
                child.installEventFilter(self)
            else:
                child.setAcceptDrops(False)  # plots would take what they have no use for

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() not in _EVENTS or not isinstance(event, QDropEvent):
            return False
        if isinstance(watched, QWidget) and not watched.isWindow() and not event.mimeData().hasUrls():
            return False
        event.setDropAction(Qt.DropAction.CopyAction)  # never a move: the file stays where it is
        event.accept()
        if event.type() == QEvent.Type.Drop:
            self.take(event.mimeData())
        return True

    def take(self, data: QMimeData) -> None:
        """Tell what it is."""
        found = what_was_dropped(data)
        if found.kind == REFUSED:
            self.refused.emit(found.why)
        else:
            tell: Callable[[Path], None] = {RECORDING: self.recording, MODEL: self.model}[found.kind].emit
            tell(found.path)


def _is_text_field(widget: QWidget) -> bool:
    parent = widget.parentWidget()
    return isinstance(widget, QLineEdit | QPlainTextEdit | QTextEdit) or isinstance(parent, QPlainTextEdit | QTextEdit)
