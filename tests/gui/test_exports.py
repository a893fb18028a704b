"""Exports from the window: what is offered, what is written, and every way in which it can fail."""

from __future__ import annotations

import csv
import io
import json
import os
import threading
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QFileDialog, QMenu

from app import theme
from app.dialogs import exports
from app.dialogs.export_data import KINDS, PANEL, ROUND, RUN, file_name, kinds_of, text_steps
from app.dialogs.export_dialog import PRIVATE, ExportDialog, Wanted
from app.dialogs.export_picture import SCALE
from app.headless.chart import LINES, chart
from app.main_window import MainWindow
from app.recorder import Recorder
from app.run_sources import Source, opener
from engine.export import FORMATS
from engine.recording import RecordedRun
from engine.session_file import SUFFIX
from tests.gui.fake_engine import Script
from tests.gui.fakes import end_run, fake_run
from tests.gui.test_recordings import recorded_file
from tests.gui.windows import Opener, show_run


def shown(qtbot, open_window: Opener, rounds: int = 20, **options: Any) -> MainWindow:
    window = open_window(Script(), **options)
    run = fake_run(rounds)
    end_run(run)
    show_run(window, run)
    qtbot.wait(20)  # for the docks' layout
    return window


def kind(name: str, of: str) -> Any:
    return next(kind for kind in KINDS if (kind.id, kind.of) == (name, of))


def wanted(name: str, of: str = RUN, panel: str = "", full: bool = False, scheme: str | None = None) -> Wanted:
    return Wanted(kind(name, of), panel, full, scheme)


def export(qtbot, window: MainWindow, asked: Wanted, path: Path) -> Path:
    """Write it as if the dialogs had been answered."""
    made = window.exports.prepared(asked)
    assert made is not None
    with qtbot.waitSignal(window.exports.said, timeout=10_000) as told:
        window.exports.write(path, made[1])
    assert told.args[0].startswith(f"Exported to {path} (")
    return path


def failure(qtbot, window: MainWindow, asked: Wanted, path: Path) -> str:
    made = window.exports.prepared(asked)
    assert made is not None
    with qtbot.waitSignal(window.exports.failed, timeout=10_000) as told:
        window.exports.write(path, made[1])
    assert window.dialogs.errors is not None
    assert window.dialogs.errors.text() == told.args[0]
    return told.args[0]


def test_every_format_of_the_engine_can_be_had_from_the_window() -> None:
    assert {kind.id for kind in KINDS if kind.of != PANEL} == set(FORMATS)
    assert [kind.id for kind in kinds_of(PANEL)] == ["png", "svg"]


def test_names_are_fit_for_any_file_system() -> None:
    assert file_name(kind("csv", RUN), "run 3") == "run-3.csv"
    assert file_name(kind("csv-positions", RUN), "run 3") == "run-3-positions.csv"
    assert file_name(kind("html", ROUND), "../<b>", 4) == "b-round-4.html"
    assert file_name(kind("svg", PANEL), "run 1", panel="p and q") == "run-1-p-and-q.svg"
    assert file_name(kind("json", RUN), "…") == "summary.json"


def test_the_dialog_offers_run_round_and_panels(qtbot, open_window: Opener) -> None:
    window = open_window(Script())
    action = window.actions_by_name["export"]
    assert not action.isEnabled()
    assert "There are no rounds yet" in action.toolTip()
    run = fake_run(20)
    show_run(window, run)
    window.session.view.select(7)
    action.trigger()
    dialog = window.exports.dialog
    assert isinstance(dialog, ExportDialog)
    texts = [dialog.what.itemText(at) for at in range(dialog.what.count())]
    assert texts[0].startswith("The run: Run 1: stochastic")
    assert texts[1] == "Round 7, the selected one"
    assert "Picture of Acceptance" in texts
    assert "Picture of Timeline" in texts
    assert not any("Meters" in text for text in texts), "it isn't in sight"
    assert dialog.full.isVisible()
    assert not dialog.scheme.isVisible()
    assert PRIVATE in dialog.about.text()
    dialog.full.setChecked(True)
    assert dialog.wanted() == wanted("jsonl", full=True)
    dialog.format.setCurrentIndex(dialog.format.findText("Summary, JSON"))
    assert not dialog.full.isVisible()
    assert dialog.wanted() == wanted("json")
    dialog.what.setCurrentIndex(1)
    assert dialog.wanted() == wanted("html", ROUND)
    dialog.what.setCurrentIndex(texts.index("Picture of Timeline"))
    assert dialog.scheme.isVisible()
    dialog.scheme.setCurrentIndex(2)
    assert dialog.wanted() == wanted("png", PANEL, "timeline", scheme="dark")
    dialog.ok.click()
    asked = window.exports.dialog
    assert isinstance(asked, QFileDialog)
    assert asked.defaultSuffix() == "png"
    assert asked.acceptMode() == QFileDialog.AcceptMode.AcceptSave
    assert not asked.testOption(QFileDialog.Option.DontConfirmOverwrite)
    window.exports.close()
    assert window.exports.dialog is None


def test_texts_hold_the_run(qtbot, open_window: Opener, tmp_path: Path) -> None:
    window = shown(qtbot, open_window)
    run = window.session.view.run
    assert run is not None
    window.session.view.select(7)
    lines = export(qtbot, window, wanted("jsonl"), tmp_path / "a.jsonl").read_text().splitlines()
    assert [json.loads(line)["index"] for line in lines] == list(range(20))
    full = export(qtbot, window, wanted("jsonl", full=True), tmp_path / "b.jsonl").read_text()
    assert len(full) > 2 * sum(map(len, lines))
    rows = list(csv.DictReader(io.StringIO(export(qtbot, window, wanted("csv"), tmp_path / "a.csv").read_text())))
    assert [row["accepted"] for row in rows] == [str(record.accepted) for record in run]
    found = json.loads(export(qtbot, window, wanted("json"), tmp_path / "a.json").read_text())
    assert found["runs"][0]["completion_tokens"] == len(run.tokens)
    page = export(qtbot, window, wanted("html", ROUND), tmp_path / "a.html").read_text()
    assert "<title>Round 7 of run 1</title>" in page
    assert "<img" not in page
    (line,) = export(qtbot, window, wanted("jsonl", ROUND), tmp_path / "c.jsonl").read_text().splitlines()
    assert json.loads(line)["index"] == 7
    assert not list(tmp_path.glob("*.part"))


def test_pictures_are_drawn_in_either_scheme(qtbot, open_window: Opener, tmp_path: Path) -> None:
    window = shown(qtbot, open_window)
    panel = window.docks["acceptance"].widget()
    data = {
        scheme: export(qtbot, window, wanted("png", PANEL, "acceptance", scheme=scheme), tmp_path / f"{scheme}.png")
        for scheme in (None, "light", "dark")
    }
    images = {scheme: QImage(str(path)) for scheme, path in data.items()}
    assert images[None].width() == panel.width() * SCALE
    assert images[None].height() > panel.height() * SCALE
    assert images[None] == images["light"]
    assert images[None] != images["dark"]
    assert images["dark"].pixelColor(4, images["dark"].height() - 4).lightness() < 60
    assert not theme.current().dark
    assert theme.scheme() == "light"


def test_drawings_are_sound_and_hold_text_as_text(qtbot, open_window: Opener, tmp_path: Path) -> None:
    window = shown(qtbot, open_window)
    for name in ("acceptance", "timeline", "kv", "distributions", "residual", "round", "stream"):
        check_drawing(export(qtbot, window, wanted("svg", PANEL, name), tmp_path / f"{name}.svg"))


def check_drawing(path: Path) -> None:
    """Well-formed, with text, and nothing in it that acts or is loaded from elsewhere."""
    root = ElementTree.parse(path).getroot()
    tags = {element.tag.split("}")[1] for element in root.iter()}
    assert {"g", "text"} <= tags
    assert not tags & {"script", "a", "b", "img", "foreignObject"}
    for element in root.iter():
        for key, value in element.attrib.items():
            assert not key.lower().startswith("on")
            assert not key.endswith("href") or value.startswith(("#", "data:image/"))


def test_the_charts_of_a_comparison_are_a_picture_too(qtbot, open_window: Opener, tmp_path: Path) -> None:
    window = shown(qtbot, open_window)
    other = fake_run(30, seed=2)
    window.session.recording.runs.append(other)
    window.actions_by_name["compare_runs"].trigger()
    compare = window.dialogs.by_name["compare"]
    qtbot.waitUntil(lambda: compare.charts.isVisible(), timeout=10_000)  # type: ignore[attr-defined]
    path = export(qtbot, window, wanted("svg", PANEL, "compare"), tmp_path / "a.svg")
    assert "A: stochastic, target" in path.read_text()
    compare.close()
    assert window.exports.prepared(wanted("svg", PANEL, "compare")) is None


def test_what_cannot_be_written_is_said(qtbot, open_window: Opener, tmp_path: Path) -> None:
    window = shown(qtbot, open_window)
    text = failure(qtbot, window, wanted("csv"), tmp_path / "nowhere" / "a.csv")
    assert text.startswith("The export failed:")
    assert "can't be written (No such file or directory)" in text
    window.dialogs.errors.close()  # type: ignore[union-attr]
    assert "is a folder" in failure(qtbot, window, wanted("csv"), tmp_path)


def test_a_recording_in_use_is_never_written_over(qtbot, open_window: Opener, tmp_path: Path) -> None:
    window = open_window(Script(), recorder=Recorder(folder=tmp_path / "sessions"))
    path = recorded_file(tmp_path / f"a{SUFFIX}")
    window.session.open_recording(path)
    before = path.read_bytes()
    assert "is a recording in use" in failure(qtbot, window, wanted("csv"), path)
    assert path.read_bytes() == before
    window.dialogs.errors.close()  # type: ignore[union-attr]
    path.write_bytes(before[:5000])  # cut while it is open: what is read anew is damaged
    text = failure(qtbot, window, wanted("csv"), tmp_path / "a.csv")
    assert text.startswith("The export failed:")
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_that_nobody_reads_does_not_hold_up_the_end(qtbot, open_window: Opener, tmp_path: Path) -> None:
    window = open_window(Script())
    window.session.open_recording(recorded_file(tmp_path / f"a{SUFFIX}"))
    os.mkfifo(tmp_path / "pipe")
    assert "is no plain file" in failure(qtbot, window, wanted("csv"), tmp_path / "pipe")
    assert not window.exports.jobs


def test_an_opened_run_is_exported_under_its_number(qtbot, open_window: Opener, tmp_path: Path) -> None:
    window = open_window(Script())
    window.session.open_recording(recorded_file(tmp_path / f"a{SUFFIX}"))
    lines = export(qtbot, window, wanted("jsonl"), tmp_path / "a.jsonl").read_text().splitlines()
    assert len(lines) == 20
    assert json.loads(lines[0])["run"] == 1


def test_a_panel_that_has_gone_is_not_drawn(qtbot, open_window: Opener) -> None:
    window = shown(qtbot, open_window)
    window.docks["timeline"].hide()
    with qtbot.waitSignal(window.exports.failed) as told:
        window.exports.choose_file(wanted("png", PANEL, "timeline"))
    assert "isn't shown any more" in told.args[0]


def test_one_file_is_written_once_at_a_time_and_closing_leaves_no_half(
    qtbot, open_window: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window = shown(qtbot, open_window)
    entered, path = threading.Event(), tmp_path / "a.csv"

    def endless(*arguments: Any) -> Any:
        def steps(job: Any, report: Any) -> Iterator[Any]:
            entered.set()
            while not job.cancelled:
                threading.Event().wait(0.005)
            yield from ()

        return steps

    made = window.exports.prepared(wanted("csv"))
    assert made is not None
    window.exports.write(path, endless)
    assert entered.wait(5)
    with qtbot.waitSignal(window.exports.failed) as told:
        window.exports.write(path, made[1])
    assert "is being written" in told.args[0]
    window.close()
    assert not window.dialogs.side_thread.busy
    assert not list(tmp_path.glob("a.csv*"))


def test_a_cancelled_export_leaves_no_half_and_says_nothing(tmp_path: Path) -> None:
    class Room:
        cancelled = True

    path = tmp_path / "a.jsonl"
    steps = text_steps("jsonl", opener(Source("", fake_run(5), None)), 1, None, False, path)
    assert list(steps(Room(), lambda done, total: None)) == []
    assert list(tmp_path.iterdir()) == []


def test_the_menu_of_runs_leads_to_the_comparison(qtbot, open_window: Opener) -> None:
    window = shown(qtbot, open_window)
    menu = QMenu(window)
    window._fill_runs(menu)
    assert menu.actions()[-1] is window.actions_by_name["compare_runs"]
    menu.deleteLater()


@pytest.mark.parametrize("name", LINES)
def test_a_chart_is_drawn_without_a_window(qtbot, qapp, name: str) -> None:
    run: RecordedRun = fake_run(20)
    data = chart(run, name, "png", "dark")
    image = QImage.fromData(data)
    assert image.width() > 1000
    assert image.pixelColor(6, image.height() - 6) == theme.DARK.base or image.pixelColor(6, 60).lightness() < 60
    assert chart(run, name, "svg", "light").startswith(b"<?xml")


def test_a_size_is_told_in_units_that_fit(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for size, words in ((7, "7 bytes"), (1500, "1.5 kB"), (250_000, "250 kB"), (3_400_000, "3.4 MB")):
        path.write_bytes(b"x" * size)
        assert exports._size(path) == words
