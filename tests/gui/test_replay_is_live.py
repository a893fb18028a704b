"""Replay shows exactly what live showed: every panel's data and picture, in each round, of a run and its recording."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PySide6.QtCore import QAbstractItemModel, QModelIndex, QObject, QSize, Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QAbstractButton, QAbstractItemView, QComboBox, QLabel, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app.main_window import PANELS
from app.view import View
from engine.generator import SpeculativeGenerator
from engine.recording import OpenedSession, RecordedRun, Recording
from engine.rounds import Round
from engine.session_writer import SessionWriter
from engine.settings import Settings
from engine.toy import toy_pair

OF_THE_SITTING = {"log", "breakpoints", "faults"}
"""They show what was said and asked for, not the run."""

ROUNDS = 24
CHANGES: dict[int, dict[str, Any]] = {
    5: {"stochastic": False},
    8: {"stochastic": True, "rule": "block"},
    11: {"rule": "auto", "rewind": "legacy-rewind"},
    15: {"rewind": "correct"},
    17: {"diagnostics": False},
    19: {"diagnostics": True, "drafter": "no-q"},
    21: {"drafter": "sample", "rule": "resample-from-p"},
}
"""Live settings that change behind these rounds, so that one run goes through several rules, drift and its repair."""

OF_ONE_ROUND = ("round", "distributions", "residual", "layers")
"""Panels whose data is the same for a round whether others came behind it or not."""

OF_THE_MOMENT = {"_moves", "_stride", "_held", "_laid", "_widths", "_pictures", "_sizes"}
"""Attributes that tell how often or how fast something was looked at, or that are room for more."""

PICTURES = (0, 9, 13, 23)
"""Rounds that pictures are compared in, too."""

Data = dict[str, Any]


class Panels:
    """All panels that show a run, on one view."""

    def __init__(self, qtbot: QtBot) -> None:
        self.view = View()
        self.panels: dict[str, QWidget] = {}
        for name, (_, make) in PANELS.items():
            if name not in OF_THE_SITTING:
                panel = self.panels[name] = make(self.view)
                qtbot.addWidget(panel)
                panel.resize(QSize(900, 420))
                panel.show()

    def data(self, names: Sequence[str] = ()) -> dict[str, Data]:
        """What is shown by all panels, or by these."""
        self.view.serve()
        return {name: shown_by(self.panels[name]) for name in names or self.panels}

    def pictures(self) -> dict[str, QImage]:
        return {name: panel.grab().toImage() for name, panel in self.panels.items()}


def shown_by(panel: QWidget) -> Data:
    """What a panel says, in its title, its controls, its tables, and what it paints by."""
    found: Data = {}
    for name in ("title_name", "title_context", "spoken"):
        if hasattr(panel, name):
            found[name] = getattr(panel, name)()
    found |= {f"panel {what}": text for what, text in _words(panel)}
    for kind in (QLabel, QLineEdit, QAbstractButton, QComboBox):
        for number, widget in enumerate(panel.findChildren(kind)):
            found |= {f"{kind.__name__} {number} {what}": text for what, text in _words(widget)}
    for number, model in enumerate(_models(panel)):
        found[f"table {number}"] = list(_rows(model))
    found["attributes"] = _plain(vars(panel), 0)
    return found


def _words(widget: QWidget) -> Iterator[tuple[str, Any]]:
    yield "spoken", (widget.accessibleName(), widget.accessibleDescription())
    yield "there", (widget.isHidden(), widget.isEnabled())
    if isinstance(widget, QLabel | QLineEdit | QAbstractButton):
        yield "text", widget.text()
    if isinstance(widget, QAbstractButton):
        yield "checked", widget.isChecked()
    if isinstance(widget, QComboBox):
        yield "choices", ([widget.itemText(i) for i in range(widget.count())], widget.currentIndex())


def _models(panel: QWidget) -> list[QAbstractItemModel]:
    views = [view.model() for view in panel.findChildren(QAbstractItemView)]
    return [model for model in dict.fromkeys(views) if model is not None]


def _rows(model: QAbstractItemModel) -> Iterator[list[Any]]:
    for row in range(model.rowCount(QModelIndex())):
        cells = (model.index(row, column) for column in range(model.columnCount(QModelIndex())))
        yield [cell.data(Qt.ItemDataRole.DisplayRole) for cell in cells]


def _plain(value: Any, depth: int) -> Any:
    """The plain data in a value; what belongs to Qt, to the run, or to the drawing of text is left out."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if isinstance(value, np.ndarray):
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, dict):
        return {str(k): _plain(v, depth + 1) for k, v in value.items() if str(k) not in OF_THE_MOMENT}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name), depth + 1) for f in dataclasses.fields(value)}
    kind = type(value)
    if (
        depth > 6
        or isinstance(value, QObject | RecordedRun | View)
        or not kind.__module__.startswith(("app.", "engine."))
    ):
        return kind.__name__
    return _plain(getattr(value, "__dict__", {}), depth + 1)


@contextmanager
def lived_and_replayed(qtbot: QtBot, path: Path, rounds: int) -> Iterator[tuple[Panels, Panels, list[dict[str, Data]]]]:
    """The panels of a run that was shown while it went, those of its recording, and what the first showed meanwhile."""
    live, replayed, meanwhile = Panels(qtbot), Panels(qtbot), []
    recording = Recording()
    recording.writer = SessionWriter(path)
    settings = Settings(max_tokens=-1, seed=3, diagnostics=True, stochastic=True)
    generator = SpeculativeGenerator(toy_pair(), settings, stochastic=True)
    run = recording.begin(generator.start("the cat"))
    live.view.show_run(run)
    for record in itertools.islice(generator.rounds(), rounds):
        run.append(record)
        live.view.notify_advanced()
        meanwhile.append(live.data(OF_ONE_ROUND))
        generator.change(**CHANGES.get(record.index, {}))
    run.flush()
    recording.writer.close()
    opened = OpenedSession(path)
    replayed.view.show_run(opened.runs[0])
    yield live, replayed, meanwhile
    opened.close()
    run.close()


def differing(before: Mapping[str, Data], after: Mapping[str, Data]) -> list[str]:
    """`panel: what` of all that isn't the same."""
    found = []
    for name, data in before.items():
        keys = data.keys() | after[name].keys()
        found += [f"{name}: {key}" for key in sorted(keys) if data.get(key) != after[name].get(key)]
    return found


def test_replay_shows_exactly_what_live_showed(qtbot: QtBot, tmp_path: Path) -> None:
    with lived_and_replayed(qtbot, tmp_path / "a.draftscope", ROUNDS) as (live, replayed, meanwhile):
        rules = {record.rule for record in replayed.view.run}
        assert {"stochastic", "sampler-match", "block", "resample-from-p"} <= rules
        assert replayed.view.run.first_drift == 12
        for index in range(ROUNDS):
            live.view.select(index)
            replayed.view.select(index)
            shown = replayed.data()
            assert differing(live.data(), shown) == [], f"round {index}"
            assert differing(meanwhile[index], shown) == [], f"round {index}, against when it was the newest"
        for index in PICTURES:
            live.view.select(index)
            replayed.view.select(index)
            before, after = live.pictures(), replayed.pictures()
            assert [name for name in before if before[name] != after[name]] == [], f"pictures of round {index}"


def first_draft(record: Round, **fields: Any) -> Round:
    return dataclasses.replace(record, drafts=(dataclasses.replace(record.drafts[0], **fields), *record.drafts[1:]))


def halved(record: Round, name: str) -> Round:
    seen = record.distributions[0]
    half = dataclasses.replace(seen, **{name: getattr(seen, name) / 2})
    return dataclasses.replace(record, distributions=(half, *record.distributions[1:]))


def moved(record: Round) -> Round:
    return dataclasses.replace(record, main_cache=dataclasses.replace(record.main_cache, end=3, layers_end=(3,)))


OTHERWISE: tuple[tuple[str, Callable[[Round], Round], set[str]], ...] = (
    ("u", lambda record: first_draft(record, u=0.123), {"round"}),
    ("token", lambda record: first_draft(record, token=(record.drafts[0].token + 1) % 6), {"round"}),
    ("p", lambda record: halved(record, "p"), {"distributions"}),
    ("residual", lambda record: halved(record, "residual"), {"residual"}),
    ("position", moved, {"layers", "kv"}),
    ("emitted", lambda record: dataclasses.replace(record, emitted=record.emitted[:-1]), {"round"}),
    ("other rules", lambda record: dataclasses.replace(record, counterfactual=None), {"what-if"}),
)
COLUMNS_OTHERWISE = (("accepted", {"acceptance"}), ("outcome", {"timeline"}), ("last_source", {"stream", "rounds"}))


def test_what_is_replayed_otherwise_is_noticed(qtbot: QtBot, tmp_path: Path) -> None:
    with lived_and_replayed(qtbot, tmp_path / "a.draftscope", 3) as (live, replayed, _):
        run = replayed.view.run
        record = run[1]
        live.view.select(1, 0)
        live_data = live.data()

        def noticed() -> set[str]:
            """The panels that differ, everything having been shown anew."""
            replayed.view.show_run(None)
            replayed.view.show_run(run)
            replayed.view.select(1, 0)
            return {found.partition(":")[0] for found in differing(live_data, replayed.data())}

        assert noticed() == set()
        for what, change, panels in OTHERWISE:
            run._rounds._recent[1] = change(record)
            assert panels <= noticed(), what
        run._rounds._recent[1] = record
        for column, panels in COLUMNS_OTHERWISE:
            run._columns._arrays[column][1] -= 1
            assert panels <= noticed(), column
            run._columns._arrays[column][1] += 1
        assert noticed() == set()
