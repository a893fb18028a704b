"""The workspaces: what each shows, that each is kept as it was left, and what only the Debug one offers."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot
from test_run_to import PROMPT, SETTINGS
from toy_runs import toy_run

from app.__main__ import parser
from app.main_window import MainWindow
from app.panels.cache_ledger import CacheLedgerPanel
from app.panels.log import LogPanel
from app.panels.rounds_table import RoundsTablePanel
from app.session import Session
from app.workspaces import WORKSPACES
from tests.gui.fakes import fake_run
from tests.gui.windows import Opener, show_run, store_in


def shown(window: MainWindow) -> set[str]:
    return {name for name, dock in window.docks.items() if not dock.isHidden()}


def in_sight(window: MainWindow, name: str) -> bool:
    return not window.docks[name].widget().visibleRegion().isEmpty()


@pytest.fixture
def debug(open_window: Opener) -> MainWindow:
    window = open_window()
    window.use_workspace("debug")
    show_run(window, toy_run(rewind="legacy-rewind"))
    return window


def test_each_shows_its_docks_and_its_button(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    show_run(window, fake_run(6))
    buttons = {button.text(): button for button in window.controls.workspaces.buttons}
    assert list(buttons) == [workspace.title for workspace in WORKSPACES.values()]
    for name in ("debug", "inspect", "debug"):
        workspace = WORKSPACES[name]
        qtbot.mouseClick(buttons[workspace.title], Qt.MouseButton.LeftButton)
        assert shown(window) == set(workspace.docks)
        assert [text for text, button in buttons.items() if button.isChecked()] == [workspace.title]
        assert window.actions_by_name[f"workspace_{name}"].isChecked()
        assert all(in_sight(window, front) for front in workspace.front)


def test_a_workspace_chosen_before_the_first_round(debug: MainWindow) -> None:
    assert shown(debug) == set(WORKSPACES["debug"].docks)


def test_what_only_a_debugger_needs(open_window: Opener) -> None:
    window = open_window()
    show_run(window, fake_run(6))
    rounds = window.docks["rounds"].widget()
    assert isinstance(rounds, RoundsTablePanel)
    for name, debugging in (("debug", True), ("inspect", False)):
        window.use_workspace(name)
        assert window.controls.buttons["run_to_drift"].isVisible() == debugging
        assert window.controls.buttons["run_to_failure"].isVisible() == debugging
        shown_columns = rounds.shown_columns()
        assert ("drift" in shown_columns, "sum_min" in shown_columns) == (debugging, not debugging)


def test_each_is_kept_as_it_was_left(open_window: Opener, tmp_path: Path) -> None:
    window = open_window()
    show_run(window, fake_run(6))
    window.docks["residual"].close()
    window.use_workspace("debug")
    window.docks["layers"].close()
    window.use_workspace("inspect")
    inspect = set(WORKSPACES["inspect"].docks) - {"residual"}
    debug = set(WORKSPACES["debug"].docks) - {"layers"}
    assert shown(window) == inspect
    window.use_workspace("debug")
    assert shown(window) == debug
    window.close()
    assert store_in(tmp_path).workspace == "debug"
    again = open_window()
    show_run(again, fake_run(6))
    assert shown(again) == debug
    again.use_workspace("inspect")
    assert shown(again) == inspect
    again.actions_by_name["reset_layout"].trigger()
    assert shown(again) == set(WORKSPACES["inspect"].docks)
    again.use_workspace("debug")
    assert shown(again) == debug, "the other one was not reset"


def test_the_default_is_not_kept(open_window: Opener, tmp_path: Path) -> None:
    window = open_window()
    show_run(window, fake_run(6))
    for name in ("debug", "inspect", "debug"):
        window.use_workspace(name)
    window.close()
    store = store_in(tmp_path)
    assert (store.docks("inspect"), store.docks("debug")) == (None, None)


def test_a_narrow_window_has_the_layers_behind_the_invariants(open_window: Opener) -> None:
    window = open_window(size=(1024, 700))
    window.use_workspace("debug")
    show_run(window, toy_run(40, rewind="legacy-rewind"))
    assert window.docks["layers"] in window.tabifiedDockWidgets(window.docks["invariants"])
    assert in_sight(window, "invariants")
    assert not in_sight(window, "layers")
    ledger = window.docks["ledger"].widget()
    assert isinstance(ledger, CacheLedgerPanel)
    assert ledger.only.isChecked()
    window.resize(1440, 900)
    assert window.docks["layers"] not in window.tabifiedDockWidgets(window.docks["invariants"])


def test_nothing_of_the_toolbar_is_squeezed(open_window: Opener) -> None:
    window = open_window(size=(1024, 700))
    for name in WORKSPACES:
        window.use_workspace(name)
        row = window.controls.first_row
        assert row.line.minimumSize().width() <= row.width()


def test_the_log_is_a_dock_once_there_are_docks(open_window: Opener) -> None:
    window = open_window()
    window.actions_by_name["messages"].trigger()
    assert window.dialogs.by_name["log"].isVisible(), "there are no docks before the first round"
    window.dialogs.by_name["log"].close()
    show_run(window, fake_run(6))
    window.log.add("info", "a line with a <b>tag</b> and a \u2028 separator")
    window.actions_by_name["messages"].trigger()
    assert in_sight(window, "log")
    panel = window.docks["log"].widget()
    assert isinstance(panel, LogPanel)
    assert panel.text.toPlainText().endswith("a line with a <b>tag</b> and a <U+2028> separator")
    assert panel.title_context() == "1 line"


def test_what_comes_from_behind_a_tab_is_up_to_date(debug: MainWindow) -> None:
    """A panel that nobody sees is left behind while rounds stream in."""
    log, invariants = debug.docks["log"], debug.docks["invariants"]
    log.raise_()
    assert not in_sight(debug, "invariants")
    run = debug.session.view.run
    assert run is not None
    for record in list(toy_run(30, rewind="legacy-rewind"))[20:]:
        run.append(record)
    debug.session.view.notify_advanced(seconds=60.0)
    assert not debug.session.view.behind
    assert "20 rounds" in invariants.widget().title_context(), "it was refreshed where nobody could see it"
    invariants.raise_()
    assert "30 rounds" in invariants.widget().title_context()


def test_every_dock_of_it_has_help_and_a_name(debug: MainWindow) -> None:
    for name in ("ledger", "layers", "invariants", "log"):
        panel = debug.docks[name].widget()
        assert panel.accessibleName()
        panel.help.click()
        viewer = debug.dialogs.by_name["help"]
        assert viewer.list.currentItem().text() == "Cache ledger, layers and invariants"
        viewer.close()


def test_run_to_and_check_from_the_window(qtbot: QtBot, tmp_path: Path) -> None:
    session = Session()
    window = MainWindow(session, store_in(tmp_path))
    qtbot.addWidget(window)
    window.resize(1440, 900)
    window.use_workspace("debug")
    window.show()
    act = window.actions_by_name
    ledger = window.docks["ledger"].widget()
    assert isinstance(ledger, CacheLedgerPanel)
    assert not act["check_contents"].isEnabled()
    session.load_toy()
    qtbot.waitUntil(lambda: session.state == "ready", timeout=60_000)
    window.controls.set_settings(SETTINGS)
    window.controls.set_prompt(PROMPT)
    session.configure(PROMPT, SETTINGS)
    session.change(rewind="legacy-rewind")
    assert act["run_to_failure"].isEnabled()
    act["run_to_failure"].trigger()
    qtbot.waitUntil(lambda: session.state == "paused", timeout=5000)
    run = session.view.run
    assert run is not None
    assert run.invariants.first_round == len(run) - 1
    assert f"failed in round {len(run) - 1}" in window.status.items["state"].text()
    assert "3 invariants" in window.status.items["invariants"].text()
    assert ledger.check_button.isEnabled()
    assert ledger.check_button.text() == "Check contents"
    ledger.check_button.click()
    assert not ledger.check_button.isEnabled()
    qtbot.waitUntil(ledger.check.isVisible, timeout=5000)
    assert ledger.check.text().startswith(f"Contents behind round {len(run) - 1}")
    qtbot.waitUntil(ledger.check_button.isEnabled, timeout=5000)
    ledger.every.setValue(2)
    assert session.check_every == 2
    act["run_to_drift"].trigger()
    qtbot.waitUntil(lambda: session.state == "paused" and "drift went" in session.why_paused, timeout=5000)
    window.close()
    assert session.shutdown()


def test_the_command_line_chooses_one() -> None:
    assert parser().parse_args(["--workspace", "debug"]).workspace == "debug"
    assert parser().parse_args([]).workspace is None
    with pytest.raises(SystemExit):
        parser().parse_args(["--workspace", "teach"])
