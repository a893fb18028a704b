"""The window: its table of actions, docks and their layout, notices, status bar, dialogs, and every way to close it."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QRect, Qt, QUrl
from PySide6.QtGui import QGuiApplication, QImage, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLabel, QToolButton
from pytestqt.qtbot import QtBot

from app import theme
from app.actions import ACTIONS, BY_NAME, MENUS
from app.dialogs import help_viewer
from app.dialogs.help_viewer import HelpViewer
from app.dialogs.log_view import LogView
from app.dialogs.prompt_editor import PromptEditor
from app.dialogs.shortcut_sheet import ShortcutSheet
from app.main_window import MainWindow
from app.messages import MessageLog
from app.model_choice import Chosen
from app.notices import CHANGES, DRIFT, KILL_SWITCH, MAIN_REWIND, NOT_LOSSLESS, REWIND, Notice, of_run, pending
from app.panels.banner import Banner
from app.settings_store import SCHEMA, SettingsStore
from app.workspaces import SPLITTER, WORKSPACES
from engine.recording import RecordedRun
from engine.settings import Settings
from tests.gui.fake_engine import Script
from tests.gui.fakes import end_run, fake_header, fake_run
from tests.gui.windows import Opener, show_run, store_in


def _menu_names(window: MainWindow) -> dict[str, list[str]]:
    menus = {}
    for top in window._menu_bar.actions():
        menu = top.menu()
        menus[top.text()] = [action.text() for action in menu.actions() if not action.isSeparator()]
    return menus


# Actions.


def test_names_and_shortcuts_of_the_table_are_unique() -> None:
    assert len(BY_NAME) == len(ACTIONS)
    keys = [QKeySequence(key).toString() for spec in ACTIONS for key in spec.keys]
    assert all(keys)
    assert len(set(keys)) == len(keys)
    assert {spec.menu for spec in ACTIONS} == set(MENUS)


def test_every_entry_does_something(open_window: Opener) -> None:
    window = open_window(show=False)
    for spec in ACTIONS:
        controls_own = spec.name in ("stochastic", "kill_switch", "diagnostics", "more")
        assert controls_own or window.handler(spec.name) is not None, spec.name


def test_menus_hold_the_table_and_the_docks(open_window: Opener) -> None:
    window = open_window(show=False)
    menus = _menu_names(window)
    assert tuple(menus) == MENUS
    for spec in ACTIONS:
        if spec.submenu is None:
            assert spec.text in menus[spec.menu]
    assert menus["Window"][:14] == [
        "Rounds", "Token stream", "Round", "p and q", "Residual", "Meters", "What if",
        "Cache ledger", "Cache layers", "Invariants", "Log", "Fault lab", "KV positions", "Acceptance",
    ]  # fmt: skip


def test_what_is_not_possible_says_why_and_comes_back(open_window: Opener) -> None:
    window = open_window()
    stop, first = window.actions_by_name["stop"], window.actions_by_name["first_round"]
    assert not stop.isEnabled()
    assert window.session.can("stop") in stop.toolTip()
    assert "no rounds yet" in first.toolTip()
    show_run(window, fake_run(5))
    assert first.isEnabled()
    assert "Not now" not in first.toolTip()


def test_run_becomes_continue_in_a_pause_and_goes_on(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window(Script(round_delay=0.001))
    session, run = window.session, window.actions_by_name["run"]
    run.trigger()
    qtbot.waitUntil(lambda: session.state == "running")
    assert not run.isEnabled()
    window.actions_by_name["pause"].trigger()
    qtbot.waitUntil(lambda: session.state == "paused")
    assert run.text() == "Continue"
    assert not window.actions_by_name["pause"].isEnabled()
    before = len(session.view.run)
    window.actions_by_name["step"].trigger()
    qtbot.waitUntil(lambda: len(session.view.run) == before + 1)
    assert session.view.live
    run.trigger()
    qtbot.waitUntil(lambda: session.state == "running" and len(session.view.run) > before + 3)
    window.actions_by_name["stop"].trigger()
    qtbot.waitUntil(lambda: session.state == "ready")
    assert run.text() == "Run"


def test_going_about_rounds_by_keys(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window()
    show_run(window, fake_run(26))
    view = window.session.view
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)

    def press(key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> int:
        qtbot.keyClick(window, key, modifier)
        return view.round_index

    control = Qt.KeyboardModifier.ControlModifier
    assert press(Qt.Key.Key_Home, control) == 0
    assert press(Qt.Key.Key_Right, control) == 1
    assert press(Qt.Key.Key_Left, control) == 0
    rejected = [i for i, record in enumerate(view.run) if record.rejected_at is not None]
    assert press(Qt.Key.Key_Period) == next(i for i in rejected if i > 0)
    assert press(Qt.Key.Key_Period) == [i for i in rejected if i > 0][1]
    assert press(Qt.Key.Key_Comma) == next(i for i in rejected if i > 0)
    assert press(Qt.Key.Key_End, control) == 25
    assert not view.live
    assert press(Qt.Key.Key_End) == 25
    assert view.live
    assert window.actions_by_name["live"].isChecked()
    view.select(3, 0)
    assert not window.actions_by_name["live"].isChecked()
    press(Qt.Key.Key_F11)
    assert (view.round_index, view.position) == (3, 1)


def test_single_letters_type_into_a_field_and_do_not_act(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window()
    show_run(window, fake_run(26))
    window.session.view.select(5)
    line = window.controls.prompt_line
    line.setFocus()
    line.clear()
    qtbot.keyClicks(line, "a, b. c?")
    assert line.text() == "a, b. c?"
    assert window.session.view.round_index == 5


def test_no_further_rejection_is_said(open_window: Opener) -> None:
    window = open_window()
    show_run(window, fake_run(3))
    window.session.view.select(2)
    window.actions_by_name["next_rejection"].trigger()
    assert window.toast.text() == "No draft was rejected after round 2."
    assert window.session.view.round_index == 2


def test_first_drift_is_found(open_window: Opener) -> None:
    window = open_window()
    run = fake_run(10, legacy=True)
    show_run(window, run)
    assert run.first_drift is not None
    window.actions_by_name["first_drift"].trigger()
    assert window.session.view.round_index == run.first_drift


# Docks.


def test_no_dock_is_cut_off_or_lies_over_another(qtbot: QtBot, open_window: Opener) -> None:
    for size in ((1440, 900), (1024, 700)):
        window = open_window(size=size)
        show_run(window, fake_run(26))
        qtbot.wait(50)
        assert (window.width(), window.height()) == size
        visible = [dock for dock in window.docks.values() if not dock.visibleRegion().isEmpty()]
        areas = [QRect(dock.mapTo(window, QPoint(0, 0)), dock.size()) for dock in visible]
        inside = QRect(0, window._top.height(), size[0], size[1] - window._top.height() - window.statusBar().height())
        for i, area in enumerate(areas):
            assert inside.contains(area), visible[i].objectName()
            assert not any(area.intersects(other) for other in areas[:i]), visible[i].objectName()
            least = visible[i].widget().minimumSizeHint()
            assert visible[i].widget().height() >= least.height(), visible[i].objectName()
        assert len(visible) == (8 if size[0] > 1100 else 7)
        window.close()


@pytest.mark.parametrize("size", [(1, 1), (1440, 1), (1, 900)])
def test_no_share_of_a_tiny_window_comes_to_nothing(open_window: Opener, size: tuple[int, int]) -> None:
    window = open_window()
    show_run(window, fake_run(6))
    WORKSPACES["inspect"].share(window, window.docks, *size)  # Qt's complaint would fail the test
    assert {name for name, dock in window.docks.items() if dock.isVisible()} == set(WORKSPACES["inspect"].docks)


def test_the_residual_folds_behind_p_and_q_and_back(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window(size=(1440, 900))
    show_run(window, fake_run(6))
    first, second = window.docks["distributions"], window.docks["residual"]
    assert second not in window.tabifiedDockWidgets(first)
    window.resize(1024, 700)
    assert second in window.tabifiedDockWidgets(first)
    window.resize(1440, 900)
    qtbot.wait(20)
    assert second not in window.tabifiedDockWidgets(first)
    assert not second.visibleRegion().isEmpty()


def test_a_title_shows_name_context_and_controls_and_closes_its_dock(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window()
    show_run(window, fake_run(6))
    dock = window.docks["stream"]
    title = dock.titleBarWidget()
    panel = dock.widget()
    assert title._context.text() == panel.title_context() != ""
    assert panel.geometry().top() >= title.geometry().bottom(), "the title covers nothing of the panel"
    assert all(control.window() is window for control in panel.title_widgets())
    qtbot.mouseClick(title.findChild(QToolButton, "close"), Qt.MouseButton.LeftButton)
    assert dock.isHidden()
    dock.toggleViewAction().trigger()
    assert dock.isVisible()
    qtbot.mouseClick(title.findChild(QToolButton, "float"), Qt.MouseButton.LeftButton)
    assert dock.isFloating()
    window.actions_by_name["reset_layout"].trigger()
    assert not dock.isFloating()


def test_a_layout_is_kept_and_reset(qtbot: QtBot, open_window: Opener, tmp_path: Path) -> None:
    window = open_window()
    show_run(window, fake_run(6))
    window.docks["kv"].close()
    window.close()
    again = open_window()
    show_run(again, fake_run(6))
    assert again.docks["kv"].isHidden()
    again.actions_by_name["reset_layout"].trigger()
    assert again.docks["kv"].isVisible()
    again.close()
    third = open_window()
    show_run(third, fake_run(6))
    assert third.docks["kv"].isVisible()


def _widths(window: MainWindow) -> dict[str, int]:
    QApplication.processEvents()
    return {name: window.docks[name].width() for name in ("rounds", "distributions", "residual")}


def test_the_default_layout_is_the_same_however_the_window_came_to_its_size(
    qtbot: QtBot, open_window: Opener, tmp_path: Path
) -> None:
    window = open_window(size=(1440, 900))
    show_run(window, fake_run(6))
    wanted = _widths(window)
    window.close()
    for sizes in ([(1920, 1080), (1440, 900)], [(1024, 700), (1440, 900)], [(1024, 700)], [(1440, 900)]):
        other = open_window(size=sizes[0])
        show_run(other, fake_run(6))
        for size in sizes[1:]:
            other.resize(*size)
        if other.width() == 1440:
            qtbot.waitUntil(lambda other=other: _widths(other) == wanted)
        other.close()
        assert store_in(tmp_path).docks() is None, "nobody moved anything"


def _drag(qtbot: QtBot, window: MainWindow, by: int) -> None:
    rounds, handle = window.docks["rounds"].geometry(), window.windowHandle()
    start = QPoint(rounds.right() + SPLITTER // 2, rounds.center().y())
    left, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    QTest.mousePress(handle, left, none, start)
    QTest.mouseMove(handle, start + QPoint(by // 2, 0))
    QTest.mouseMove(handle, start + QPoint(by, 0))
    QTest.mouseRelease(handle, left, none, start + QPoint(by, 0))


def test_a_layout_set_by_hand_is_kept_over_narrow_windows(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window(size=(1440, 900))
    show_run(window, fake_run(6))
    before = _widths(window)
    _drag(qtbot, window, 60)
    wanted = _widths(window)
    assert wanted["rounds"] == before["rounds"] + 60
    window.resize(1441, 900)
    qtbot.wait(100)  # as long as the default layout would need to come back
    assert window.docks["rounds"].width() >= wanted["rounds"]
    window.resize(1440, 900)
    window.close()
    narrow = open_window(size=(1024, 700))
    show_run(narrow, fake_run(6))
    assert narrow.docks["residual"] in narrow.tabifiedDockWidgets(narrow.docks["distributions"])
    narrow.close()
    again = open_window(size=(1440, 900))
    show_run(again, fake_run(6))
    assert _widths(again) == wanted


def test_the_first_window_fits_its_screen(open_window: Opener, tmp_path: Path) -> None:
    window = open_window(show=False)
    other = MainWindow(window.session, store_in(tmp_path))
    screen = other.screen().availableSize()
    assert screen.width() < 110 * theme.em(), "the screen of the tests is small enough to tell"
    assert other.width() <= screen.width()
    assert other.height() <= screen.height()
    other.close()
    other.deleteLater()


def test_the_toast_stays_in_its_corner(open_window: Opener) -> None:
    window = open_window()
    window.toast.show_message("one line")
    gap = window.width() - window.toast.geometry().right()
    window.resize(1200, 800)
    assert window.width() - window.toast.geometry().right() == gap


def test_a_layout_of_another_schema_is_forgotten(open_window: Opener, tmp_path: Path) -> None:
    window = open_window()
    show_run(window, fake_run(6))
    window.docks["kv"].close()
    window.close()
    store = store_in(tmp_path)
    assert store.docks() is not None
    store._settings.setValue("schema", SCHEMA + 1)
    store._settings.sync()
    again = open_window()
    assert again.store.docks() is None
    show_run(again, fake_run(6))
    assert again.docks["kv"].isVisible()


def test_rubbish_in_the_settings_is_the_default_layout(open_window: Opener, tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save_layout(None, b"rubbish")  # type: ignore[arg-type]
    store._settings.setValue("layout/geometry", "a text")
    store._settings.setValue("theme", "sepia")
    store._settings.sync()
    window = open_window()
    show_run(window, fake_run(6))
    assert {name for name, dock in window.docks.items() if dock.isVisible()} == set(WORKSPACES["inspect"].docks)


def test_a_theme_is_applied_kept_and_followed_by_icons(qapp: QApplication, open_window: Opener, tmp_path: Path) -> None:
    window = open_window()
    stop = window.actions_by_name["stop"]
    before = stop.icon().cacheKey()
    window.actions_by_name["theme_dark"].trigger()
    assert theme.current().dark
    assert stop.icon().cacheKey() != before
    assert window.actions_by_name["theme_dark"].isChecked()
    assert SettingsStore(store_in(tmp_path)._settings).theme == "dark"
    window.actions_by_name["theme_light"].trigger()
    assert not theme.current().dark


# What is said.


def test_the_banners_lines_their_buttons_and_their_end(qtbot: QtBot) -> None:
    banner = Banner()
    qtbot.addWidget(banner)
    assert banner.isHidden()
    first, second = (
        Notice("Something: is odd."),
        Notice("Kill switch on.", KILL_SWITCH, "Turn it off", "kill_switch_off"),
    )
    banner.show_notices([first, second])
    with qtbot.waitSignal(banner.pressed) as pressed:
        banner._lines[1].button.click()
    assert pressed.args == ["kill_switch_off"]
    banner._lines[0].button.click()
    banner.show_notices([first, second])
    assert banner.notices() == [second]
    banner.show_notices([second])
    banner.show_notices([first, second])
    assert banner.notices() == [first, second], "what went away and came back is news"
    banner.show_notices([Notice(f"{i}") for i in range(5)])
    assert [n.text for n in banner.notices()] == ["0", "1", "3 more: 2 3 4"]
    banner.show_notices([])
    assert banner.isHidden()


def test_a_line_whose_words_change_keeps_its_button(qtbot: QtBot) -> None:
    banner = Banner()
    qtbot.addWidget(banner)
    drift, plain = Notice("Drift 1.", DRIFT, "Go", "first_drift"), Notice("A header's own sentence.")
    banner.show_notices([drift, plain])
    button = banner._lines[0].button
    banner.show_notices([dataclasses.replace(drift, text="Drift 2."), plain])
    assert banner._lines[0].button is button, "a press may be under way"
    assert banner._lines[0].accessibleName() == button.accessibleDescription() == "Drift 2."
    banner._lines[1].button.click()
    banner.show_notices([dataclasses.replace(drift, text="Drift 3."), plain])
    assert [n.text for n in banner.notices()] == ["Drift 3."]


def test_what_was_hidden_stays_hidden_in_other_words(qtbot: QtBot) -> None:
    banner = Banner()
    qtbot.addWidget(banner)
    banner.show_notices([Notice("Rule a is not lossless.", NOT_LOSSLESS)])
    banner._lines[0].button.click()
    banner.show_notices([Notice("Rule b is not lossless.", NOT_LOSSLESS)])
    assert banner.notices() == []


def _kinds(found: list[Notice]) -> dict[str, str]:
    return {notice.kind: notice.act for notice in found}


def test_notices_are_known_by_their_kind_and_cured_by_it(open_window: Opener) -> None:
    window = open_window()
    run = fake_run(9, legacy=True)
    faulty = Settings(rewind="legacy-rewind", main_rewind="no-trim", stochastic=True, rule="raw-q", kill_switch=True)
    assert _kinds(of_run(run, faulty, faulty)) == {
        KILL_SWITCH: "kill_switch_off",
        MAIN_REWIND: "main_rewind_correct",
        REWIND: "rewind_correct",
    }
    assert {notice.act for notice in of_run(run, faulty, Settings())} == {"hide"}, "cured already, from the next round"
    assert _kinds(of_run(run, Settings(), Settings())) == {DRIFT: "first_drift"}
    assert _kinds(pending(Settings(rule="raw-q"))) == {NOT_LOSSLESS: "rule_auto"}
    assert pending(Settings(rule="stochastic")) == []
    wrong = RecordedRun(fake_header())
    wrong.append(dataclasses.replace(fake_run(1)[0], rule="raw-q", distribution_preserving=False))
    (said,) = of_run(wrong, Settings(rule="raw-q"), Settings(rule="raw-q"))
    assert (said.text, said.act) == (
        "Rule raw-q is not lossless: q before its temperature and filters.",
        "rule_auto",
    )
    (said,) = of_run(fake_run(3), Settings(main_rewind="no-trim"), Settings(main_rewind="no-trim"))
    assert said.text.startswith("Not lossless, main cache fault on: no-trim ")
    window.session.configure(settings=faulty)
    for act in CHANGES:
        window._on_notice(act)
    assert window.session.settings == Settings(stochastic=True)


def test_a_sentence_of_a_header_that_begins_like_ours_is_only_a_sentence(open_window: Opener) -> None:
    window = open_window()
    run = fake_run(3)
    run.header = dataclasses.replace(run.header, notices=("Kill switch on: says a model.",))
    assert of_run(run, Settings(), Settings(kill_switch=True)) == [Notice("Kill switch on: says a model.")]
    window.session.live_settings = Settings()
    show_run(window, run)
    assert window.banner.notices() == [Notice("Kill switch on: says a model.")]


def test_a_fault_in_a_run_is_on_the_banner_with_its_cure(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window(Script(round_delay=0.001))
    window.session.configure(settings=Settings(rewind="legacy-rewind"))
    window.actions_by_name["run"].trigger()
    qtbot.waitUntil(lambda: window.session.view.run is not None and len(window.session.view.run) > 2)
    faults = [notice for notice in window.banner.notices() if notice.act == "rewind_correct"]
    assert len(faults) == 1
    assert faults[0].text.startswith("Rewind fault on")
    window.banner.press(faults[0])
    assert window.session.settings.rewind == "correct"
    window.actions_by_name["stop"].trigger()
    qtbot.waitUntil(lambda: window.session.state == "ready")


def test_the_status_bar_says_state_rule_round_and_drift(open_window: Opener) -> None:
    window = open_window()
    items = window.status.items
    assert items["state"].text() == "Idle: no model loaded"
    assert items["drift"].text() == ""
    run = fake_run(26)
    show_run(window, run)
    assert items["rule"].text() == "rule=stochastic"
    assert "Stochastic is on" in items["rule"].toolTip()
    assert items["round"].text() == "round 25 of 0–25"
    assert items["tokens"].text() == f"tokens {len(run.tokens)}/100"
    assert items["drift"].text() == "drift 0"
    seconds = sum(record.timings.total for record in run)
    assert items["speed"].text() == f"{len(run.tokens) / seconds:.0f} tok/s"
    window.session.view.select(3)
    assert items["round"].text() == "round 3 of 0–25"
    show_run(window, fake_run(9, legacy=True))
    assert items["drift"].text().startswith("▲ drift ")
    assert items["drift"]._danger


def test_a_failed_load_is_a_dialog_and_the_window_lives_on(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window(Script(fail_load="no <b>weights</b> in /models/x", rounds=2))
    window.actions_by_name["load_bundled"].trigger()
    qtbot.waitUntil(lambda: window.dialogs.errors is not None)
    assert "<b>weights</b>" in window.dialogs.errors.text()
    assert window.dialogs.errors.textFormat() == Qt.TextFormat.PlainText
    assert window.status.items["state"].text() == "Failed: no <b>weights</b> in /models/x"
    window.dialogs.errors.accept()
    assert window.dialogs.errors is None
    assert window.session.can("load") is None


def test_messages_are_kept_in_the_log_and_shown_there(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window()
    logging.getLogger("draftscope.engine").info("speculative acceptance rule active <b>")
    window.session.message.emit("notice", "one line")
    assert window.toast.text() == "one line"
    qtbot.waitUntil(lambda: any("rule active" in line for line in window.log.lines))
    window.actions_by_name["messages"].trigger()
    view = window.dialogs.by_name["log"]
    assert isinstance(view, LogView)
    assert "info    speculative acceptance rule active <b>" in view.text.toPlainText()
    window.session.message.emit("notice", "another")
    assert "another" in view.text.toPlainText()


def test_the_log_leaves_the_logger_as_it_was(open_window: Opener) -> None:
    logger = logging.getLogger("draftscope")
    level, handlers = logger.level, logger.handlers[:]
    window = open_window()
    assert logger.handlers != handlers
    window.close()
    assert (logger.level, logger.handlers) == (level, handlers)


def test_the_summary_line_of_a_run_is_shown_and_copied(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window()
    run = fake_run(4)
    show_run(window, run)
    end_run(run)
    window.session.run_ended.emit(run)
    assert window.toast.text() == run.end.summary
    assert any(run.end.summary in line for line in window.log.lines)
    window.actions_by_name["copy_summary"].trigger()
    assert QGuiApplication.clipboard().text() == run.end.summary
    window.actions_by_name["copy_text"].trigger()
    assert QGuiApplication.clipboard().text() == run.header.vocabulary.decode(run.tokens)


def test_no_label_of_the_window_takes_rich_text(open_window: Opener) -> None:
    window = open_window()
    show_run(window, fake_run(26))
    for label in window.findChildren(QLabel):
        # pyqtgraph keeps menus of its own, which nothing untrusted reaches.
        if label.window() is window:
            assert label.textFormat() == Qt.TextFormat.PlainText, label.text()


def test_controls_have_names_for_those_who_cannot_see_them(open_window: Opener) -> None:
    window = open_window()
    for button in window.findChildren(QToolButton):
        # Qt's own buttons of tab bars and menus are named by Qt.
        if not button.objectName().startswith("qt_") and not button.objectName().startswith("Scroll"):
            assert button.accessibleName() or button.text(), button.parentWidget()


# Dialogs.


def test_the_prompt_editor_counts_and_gives_back_what_was_written(qtbot: QtBot) -> None:
    written = "no\u00a0break, line\u2028sep, cr\r\nend"
    dialog = PromptEditor(written, lambda text: list(range(len(text.split()))))
    qtbot.addWidget(dialog)
    assert dialog.prompt() == written
    assert dialog.tokens.text().startswith("6 tokens")
    dialog.edit.setPlainText("a\u00a0b")
    dialog.edit.moveCursor(dialog.edit.textCursor().MoveOperation.End)
    qtbot.keyClick(dialog.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(dialog.edit, "c d")
    assert dialog.prompt() == "a\u00a0b\nc d"
    dialog.count_now()
    assert dialog.tokens.text() == "4 tokens, 7 characters"
    for text, words in (("", "The prompt must be non-empty"), (" \n", "The prompt is blank")):
        dialog.edit.setPlainText(text)
        dialog.count_now()
        assert not dialog.ok.isEnabled()
        assert dialog.tokens.text().startswith(words)


def test_the_prompt_editor_says_what_cannot_be_read(qtbot: QtBot) -> None:
    def encode(text: str) -> list[int]:
        raise ValueError("The toy knows only few words.")

    dialog = PromptEditor("x", encode)
    qtbot.addWidget(dialog)
    assert "only few words" in dialog.tokens.text()
    without = PromptEditor("x", None)
    qtbot.addWidget(without)
    assert "once a model is loaded" in without.tokens.text()


def test_the_written_prompt_reaches_the_controls(open_window: Opener) -> None:
    window = open_window()
    window.actions_by_name["edit_prompt"].trigger()
    dialog = window.dialogs.by_name["prompt"]
    assert isinstance(dialog, PromptEditor)
    dialog.edit.setPlainText("one\ntwo")
    dialog.accept()
    assert window.controls.prompt() == window.session.prompt == "one\ntwo"


def test_chosen_models_are_loaded_and_named(qtbot: QtBot, open_window: Opener) -> None:
    script = Script()
    window = open_window(script)
    window._load(Chosen("/models/big", None))
    qtbot.waitUntil(lambda: window.session.pair is not None)
    assert script.named("load") == [("/models/big", None)]
    assert window.controls.target.currentData() == "/models/big"
    assert window.controls.draft.currentText() == "none: plain decoding"
    assert "/models/big" in window.windowTitle()


def test_the_shortcut_sheet_lists_every_key(qtbot: QtBot, open_window: Opener) -> None:
    sheet = ShortcutSheet()
    qtbot.addWidget(sheet)
    caps = [cap.accessibleName() for cap in sheet.findChildren(type(sheet.findChildren(QLabel)[0]).__mro__[-3])]
    shown = {name for name in caps if name}
    wanted = {
        QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText) for spec in ACTIONS for key in spec.keys
    }
    assert wanted <= shown


def test_help_shows_pages_without_html_or_network(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "help").mkdir()
    (tmp_path / "secret.png").write_bytes(b"")
    (tmp_path / "help" / "index.md").write_text(
        "# Start\n\n<b>raw</b> <img src=x> [next](rounds.md) [far](http://a.b/c)\n"
    )
    (tmp_path / "help" / "rounds.md").write_text("# Rounds\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    monkeypatch.setattr(help_viewer, "help_folder", lambda: tmp_path / "help")
    viewer = HelpViewer()
    qtbot.addWidget(viewer)
    assert [viewer.list.item(i).text() for i in range(viewer.list.count())] == ["Start", "Rounds"]
    assert "<b>raw</b>" in viewer.text.toPlainText()
    assert "<img src=x>" in viewer.text.toPlainText()
    viewer.text.anchorClicked.emit(QUrl("rounds.md"))
    assert viewer.list.currentRow() == 1
    viewer.text.anchorClicked.emit(QUrl("http://a.b/c"))
    assert viewer.said.text().endswith("http://a.b/c")
    assert viewer.list.currentRow() == 1
    for name in ("http://a.b/c.png", "../secret.png", "file:///etc/passwd", str(tmp_path / "secret.png")):
        assert viewer.text.loadResource(2, QUrl(name)) is None


def test_help_sets_paragraphs_apart_but_not_the_lines_of_code_and_lists(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "help").mkdir()
    (tmp_path / "help" / "index.md").write_text(
        "# T\n\none\n\ntwo\n\n- first\n- second\n\ncode\n\n    x = 1\n    y = 2\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\nlast\n"
    )
    monkeypatch.setattr(help_viewer, "help_folder", lambda: tmp_path / "help")
    viewer = HelpViewer()
    qtbot.addWidget(viewer)
    viewer.show()
    document = viewer.text.document()
    shape = document.documentLayout()
    boxes, block = {}, document.begin()
    while block.isValid():
        boxes[block.text()] = shape.blockBoundingRect(block)
        block = block.next()

    def gap(above: str, below: str) -> float:
        return boxes[below].top() - boxes[above].bottom()

    assert gap("one", "two") >= theme.line_height() / 2
    assert gap("T", "one") >= theme.line_height() / 2
    assert 0 < gap("first", "second") < gap("one", "two")
    assert gap("x = 1", "y = 2") < 1
    assert gap("2", "last") >= theme.line_height() / 3


def test_a_picture_in_the_help_is_never_wider_than_its_page(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "help").mkdir()
    picture = QImage(3000, 1500, QImage.Format.Format_RGB32)
    picture.fill(0)
    assert picture.save(str(tmp_path / "help" / "wide.png"))
    (tmp_path / "help" / "index.md").write_text("# T\n\n![A wide one](wide.png)\n\nend\n")
    monkeypatch.setattr(help_viewer, "help_folder", lambda: tmp_path / "help")
    viewer = HelpViewer()
    qtbot.addWidget(viewer)
    viewer.show()
    for width in (900, 1300, 700):
        viewer.resize(width, 600)
        QApplication.processEvents()
        assert viewer.text.horizontalScrollBar().maximum() == 0, width
        shape, block = viewer.text.document().documentLayout(), viewer.text.document().begin().next()
        room = viewer.text.viewport().width() - 2 * viewer.text.document().documentMargin()
        height = shape.blockBoundingRect(block.next()).top() - shape.blockBoundingRect(block).top()
        assert 0 < height - room / 2 < 1.5 * theme.line_height()


def test_the_status_bar_says_why_it_failed_and_what_is_loading(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window(Script(fail_load="no weights in /models/x: " + "x" * 500))
    window.actions_by_name["load_bundled"].trigger()
    qtbot.waitUntil(lambda: window.session.state == "failed")
    said = window.status.items["state"].text()
    assert said.startswith("Failed: no weights in /models/x")
    assert said.endswith("…")
    assert window.status.items["state"].sizeHint().width() < 45 * theme.em()
    window.dialogs.errors.accept()
    window.session.state = "loading"
    window.session._set_progress(("Reading big", 0, 0))
    assert window.status.items["state"].text() == "Loading: Reading big"
    window.session._set_progress(("Loading", 0, 0))
    assert window.status.items["state"].text() == "Loading"
    window.session.state = "failed"
    window.session._set_progress(None)


def test_a_column_of_shortcuts_has_one_edge(qtbot: QtBot) -> None:
    sheet = ShortcutSheet()
    qtbot.addWidget(sheet)
    sheet.show()
    edges = [label.mapTo(sheet, QPoint()).x() for label in sheet.findChildren(QLabel) if label.font().weight() == 400]
    assert len(set(edges)) == 3


def test_an_empty_log_says_what_comes_there(qtbot: QtBot) -> None:
    log = MessageLog()
    view = LogView(log)
    qtbot.addWidget(view)
    assert "Nothing was said yet" in view.text.placeholderText()
    log.close()


def test_every_dialog_opens_and_goes_with_the_window(open_window: Opener) -> None:
    window = open_window()
    show_run(window, fake_run(3))
    for name in ("choose_models", "edit_prompt", "messages", "shortcuts", "about", "go_to_round", "help"):
        window.actions_by_name[name].trigger()
        window.actions_by_name[name].trigger()
    assert all(dialog.isVisible() for dialog in window.dialogs.by_name.values())
    window.close()
    assert not any(dialog.isVisible() for dialog in window.dialogs.by_name.values())
