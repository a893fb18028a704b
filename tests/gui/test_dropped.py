"""What is dropped onto the window goes where its kind belongs, or is refused with words."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QLineEdit, QPlainTextEdit, QWidget

from app.dialogs.model_chooser import ModelChooser
from app.dropped import MAY_BE_DROPPED, MODEL, RECORDING, REFUSED, what_was_dropped
from app.main_window import MainWindow
from tests.gui.windows import Opener

SAMPLE = Path(__file__).parents[2] / "resources/samples/stochastic.draftscope"


def files(*paths: Path | str) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    data.setText("\n".join(map(str, paths)))  # as file managers do: a field would take it
    return data


def text(words: str) -> QMimeData:
    data = QMimeData()
    data.setText(words)
    return data


def remote(url: str) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl(url)])
    return data


def drop(target: QWidget, data: QMimeData) -> tuple[bool, bool]:
    """Let Qt deliver a drag and its drop; whether either was accepted."""
    left, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    actions = Qt.DropAction.CopyAction | Qt.DropAction.MoveAction
    with warnings.catch_warnings():
        # From PySide6 6.12 on it wants a QPointF, which those before don't take.
        warnings.simplefilter("ignore", DeprecationWarning)
        enter = QDragEnterEvent(QPoint(4, 4), actions, data, left, keys)
    enter.ignore()
    QApplication.sendEvent(target, enter)
    event = QDropEvent(QPointF(4, 4), actions, data, left, keys)
    event.ignore()
    QApplication.sendEvent(target, event)
    assert not event.isAccepted() or event.dropAction() == Qt.DropAction.CopyAction
    return enter.isAccepted(), event.isAccepted()


def text_field(window: MainWindow) -> QLineEdit:
    """A field that takes text which is dropped into it."""
    fields = [field for field in window.findChildren(QLineEdit) if field.isEnabled() and not field.isReadOnly()]
    return next(field for field in fields if field.acceptDrops() and field.validator() is None)


@pytest.mark.parametrize(
    ("name", "kind"), [("a.draftscope", RECORDING), ("A.DraftScope", RECORDING), ("m.gguf", MODEL), ("M.GGUF", MODEL)]
)
def test_a_file_is_known_by_its_suffix(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    path.touch()
    found = what_was_dropped(files(path))
    assert (found.kind, found.path, found.why) == (kind, path, "")


def test_a_folder_is_a_model_whatever_its_name(tmp_path: Path) -> None:
    for name in ("model", "a b%20c", "x.draftscope"):
        (tmp_path / name).mkdir()
        found = what_was_dropped(files(tmp_path / name))
        assert (found.kind, found.path) == (MODEL, tmp_path / name)


def test_anything_else_is_refused_with_what_may_be_dropped(tmp_path: Path) -> None:
    other, twin = tmp_path / "<b>x.txt", tmp_path / "a.draftscope"
    other.touch()
    twin.touch()
    cases = {
        "neither a recording nor a model": files(other),
        "<b>x.txt": files(other),
        "2 things": files(twin, twin),
        "doesn't exist": files(tmp_path / "gone.draftscope"),
        "https://example.org/a.draftscope is no file of this computer": remote("https://example.org/a.draftscope"),
        "Text was dropped": text("/a.draftscope"),
        "is no file": QMimeData(),
    }
    for words, data in cases.items():
        found = what_was_dropped(data)
        assert found.kind == REFUSED
        assert words in found.why
        assert found.why.endswith(MAY_BE_DROPPED)


def test_a_recording_is_opened_wherever_it_is_dropped(open_window: Opener) -> None:
    window = open_window()
    field = text_field(window)
    before = field.text()
    plot = window.docks["acceptance"].widget().findChild(QWidget)
    for number, target in enumerate((window, field, window.docks["stream"].widget(), plot), 1):
        while not target.acceptDrops():  # as Qt looks for who takes a drop
            target = target.parentWidget()
        assert drop(target, files(SAMPLE)) == (True, True)
        assert len(window.session.opened) == number
    assert field.text() == before
    assert window.session.view.run is window.session.opened[-1].runs[-1]


def test_no_plot_keeps_a_drop_from_the_window(open_window: Opener) -> None:
    window = open_window(show=False)
    takers = [child for child in window.findChildren(QWidget) if child.acceptDrops() and not child.isWindow()]
    fields = [child for child in takers if isinstance(child, QLineEdit | QPlainTextEdit)]
    assert fields
    viewports = [child for child in takers if isinstance(child.parentWidget(), QPlainTextEdit)]
    assert set(takers) == {*fields, *viewports}


def test_a_text_field_keeps_text(open_window: Opener) -> None:
    window = open_window()
    field = text_field(window)
    field.clear()
    drop(field, text("words"))
    assert "words" in field.text()
    assert window.dialogs.errors is None


def shown_error(window: MainWindow) -> str:
    assert window.dialogs.errors is not None
    assert window.dialogs.errors.textFormat() == Qt.TextFormat.PlainText
    return window.dialogs.errors.text()


def test_a_models_folder_fills_the_chooser(open_window: Opener, tmp_path: Path) -> None:
    window = open_window()
    drop(window, files(tmp_path))
    dialog = window.dialogs.by_name["models"]
    assert isinstance(dialog, ModelChooser)
    assert dialog.isVisible()
    assert dialog.target.where.text() == str(tmp_path)
    assert dialog.drafter.text() == "requantized:4", "the bundled draft model would not fit"
    assert window.session.worker.state == "idle", "nothing is loaded before it is confirmed"


def test_what_cannot_be_used_is_said(open_window: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    window = open_window()
    drop(window, text("words"))
    assert MAY_BE_DROPPED in shown_error(window)
    monkeypatch.setattr(window.session, "can", lambda action: "A run stands." if action == "load" else None)
    drop(window, files(tmp_path))
    assert "A run stands." in shown_error(window)
    assert "models" not in window.dialogs.by_name
