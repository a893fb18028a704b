"""The window: menus, controls, banner, start page, the docks of the Inspect layout, and the status bar."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QActionGroup, QCloseEvent, QGuiApplication, QMouseEvent, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QDockWidget,
    QMainWindow,
    QMenu,
    QMenuBar,
    QStatusBar,
    QVBoxLayout,
    QWidget,
)

from app import icons, theme
from app.actions import ACTIONS, MENUS, make_actions, restyle, set_possible
from app.breakpoint_list import BreakpointList
from app.controls import Controls
from app.dialogs.exports import Exports
from app.dialogs.help_viewer import help_pages
from app.dock_title import DockTitle
from app.dropped import WindowDrops
from app.following import Following
from app.labs.faults import FaultLabPanel
from app.layout import Arrangement
from app.messages import MessageLog, Toast
from app.model_choice import PLAIN_DRAFTER, TOY, Chosen, drafts_without_model, models_words, with_newest
from app.navigation import Navigation
from app.notices import ACTIONS_OF, CHANGES, notices
from app.panels.acceptance import AcceptancePanel
from app.panels.banner import Banner
from app.panels.breakpoints import BreakpointsPanel
from app.panels.cache_layers import CacheLayersPanel
from app.panels.cache_ledger import CacheLedgerPanel
from app.panels.counterfactuals import TRIAL, CounterfactualsPanel
from app.panels.distributions import DistributionsPanel
from app.panels.invariants import InvariantsPanel
from app.panels.kv_positions import KvPositionsPanel
from app.panels.log import LogPanel
from app.panels.meters import MetersPanel
from app.panels.residual import ResidualPanel
from app.panels.round_detail import RoundDetailPanel
from app.panels.rounds_table import RoundsTablePanel
from app.panels.start_page import StartPage
from app.panels.timeline import TimelinePanel
from app.panels.token_stream import TokenStreamPanel
from app.recording_dialogs import RecordingDialogs
from app.session import Session
from app.settings_store import SettingsStore
from app.status_bar import StatusBar
from app.turns import in_sight
from app.view import View
from app.window_breakpoints import WindowBreakpoints
from app.window_dialogs import WindowDialogs
from app.worker import BUNDLED
from app.workspaces import WORKSPACES, Workspace
from engine.recording import RecordedRun
from engine.settings import SettingsError

log = logging.getLogger("draftscope.app")

PANELS: dict[str, tuple[str, Callable[[View], QWidget]]] = {
    "rounds": ("Rounds", RoundsTablePanel),
    "stream": ("Token stream", TokenStreamPanel),
    "round": ("Round", RoundDetailPanel),
    "distributions": ("p and q", DistributionsPanel),
    "residual": ("Residual", ResidualPanel),
    "meters": ("Meters", MetersPanel),
    "what-if": ("What if", CounterfactualsPanel),
    "ledger": ("Cache ledger", CacheLedgerPanel),
    "layers": ("Cache layers", CacheLayersPanel),
    "invariants": ("Invariants", InvariantsPanel),
    "log": ("Log", LogPanel),
    "faults": ("Fault lab", FaultLabPanel),
    "kv": ("KV positions", KvPositionsPanel),
    "acceptance": ("Acceptance", AcceptancePanel),
    "timeline": ("Timeline", TimelinePanel),
    "breakpoints": ("Breakpoints", BreakpointsPanel),
}

DRAWN = ("acceptance", "timeline", "kv", "distributions", "residual", "meters", "round", "what-if", "ledger", "stream")
"""Docks that can be exported as pictures; the others are tables and lists, which can be copied."""


class _Bottom(QStatusBar):
    """Qt's status bar with nothing of its own: its layout would set the items apart from the edges."""

    def __init__(self, status: StatusBar) -> None:
        super().__init__()
        self.setSizeGripEnabled(False)
        self.setFixedHeight(status.height())
        self._status = status
        status.setParent(self)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._status.setGeometry(self.rect())

    def paintEvent(self, event: QPaintEvent) -> None:
        pass


class MainWindow(QMainWindow):
    """The one window of a session."""

    def __init__(self, session: Session, store: SettingsStore | None = None) -> None:
        super().__init__()
        self.session = session
        self.store = store if store is not None else SettingsStore()
        self.setWindowTitle("Draftscope")
        self.setWindowIcon(icons.application_icon())
        self.setDockNestingEnabled(True)
        self.setAnimated(False)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        self.log = MessageLog(self)
        self.actions_by_name = make_actions(self)
        self.controls = Controls(session, self.actions_by_name)
        self.banner = Banner()
        self.start_page = StartPage(session)
        self.status = StatusBar(session)
        self.docks: dict[str, QDockWidget] = {}
        self.navigation = Navigation(session.view, self)
        self.dialogs = WindowDialogs(session, self.controls, self.log, self, self.store)
        self.recordings = RecordingDialogs(session, self)
        self.exports = Exports(session, self.dialogs.side_thread, self._drawn, self)
        self.breakpoints = WindowBreakpoints(session, BreakpointList(session, self.store, self), self)
        self._make_top()
        self.setCentralWidget(self.start_page)
        self._make_docks()
        self.arrangement = Arrangement(self, self.docks, self._dock_height, self._first_workspace())
        self._make_bottom()
        self.toast = Toast(self)
        self._make_menus()
        self.drops = WindowDrops(self)
        self.following = Following(session, self)
        self._connect()
        room = self.screen().availableSize()
        self.resize(QSize(theme.em() * 110, theme.line_height() * 56).boundedTo(room))
        self.setMinimumSize(QSize(theme.em() * 60, theme.line_height() * 32))
        chosen = self.store.theme
        if chosen is not None and theme.scheme() == "system":
            self._use_theme(chosen)
        self._check_theme()
        geometry = self.store.geometry()
        if geometry is not None:
            self.restoreGeometry(geometry)
        self.start_page.setFocus()
        self.refresh()

    # What it is made of.

    def _make_top(self) -> None:
        """Menu bar, toolbars and banner stand in one widget over everything, as wide as the window."""
        top = QWidget()
        column = QVBoxLayout(top)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self._menu_bar = QMenuBar(top)
        for widget in (self._menu_bar, self.controls, self.banner):
            column.addWidget(widget)
        self._top = top
        self.setMenuWidget(top)

    def _make_bottom(self) -> None:
        self.setStatusBar(_Bottom(self.status))

    def _make_docks(self) -> None:
        for name, (title, make) in PANELS.items():
            dock = QDockWidget(title, self)
            dock.setObjectName(f"dock-{name}")
            dock.setAllowedAreas(Qt.DockWidgetArea.AllDockWidgetAreas)
            panel = make(self.session.view)
            dock.setWidget(panel)
            dock.setTitleBarWidget(DockTitle(dock, panel))
            self.docks[name] = dock
            self.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, dock)
            dock.hide()
            # Qt brings a dock from behind a tab without showing it: what waited for sight has it now.
            dock.visibilityChanged.connect(self._on_dock_seen)

    def _first_workspace(self) -> Workspace:
        return WORKSPACES.get(self.store.workspace or "inspect", WORKSPACES["inspect"])

    def _on_dock_seen(self, seen: bool) -> None:
        if seen:
            self.session.view.serve()

    def _make_menus(self) -> None:
        menus = {name: self._menu_bar.addMenu(name) for name in MENUS}
        submenus: dict[str, QMenu] = {}
        for spec in ACTIONS:
            menu = menus[spec.menu]
            if spec.after:
                menu.addSeparator()
            if spec.submenu is not None:
                if spec.submenu not in submenus:
                    submenus[spec.submenu] = menu.addMenu(spec.submenu)
                menu = submenus[spec.submenu]
            menu.addAction(self.actions_by_name[spec.name])
            # A menu's action holds its shortcut only where its menu bar is shown; the window always is.
            self.addAction(self.actions_by_name[spec.name])
        toggles = [dock.toggleViewAction() for dock in self.docks.values()]
        first = menus["Window"].actions()[0]
        menus["Window"].insertActions(first, toggles)
        for action in toggles:
            action.setMenuRole(action.MenuRole.NoRole)
        runs = menus["Go"].addMenu("Runs")
        runs.aboutToShow.connect(lambda: self._fill_runs(runs))
        themes = QActionGroup(self)
        for scheme in theme.SCHEMES:
            themes.addAction(self.actions_by_name[f"theme_{scheme}"])
        spaces = QActionGroup(self)
        for name in WORKSPACES:
            spaces.addAction(self.actions_by_name[f"workspace_{name}"])
        self.actions_by_name["help"].setVisible(bool(help_pages()))

    def _fill_runs(self, menu: QMenu) -> None:
        self.recordings.fill_runs(menu)
        menu.addSeparator()
        menu.addAction(self.actions_by_name["compare_runs"])

    def _connect(self) -> None:
        for name, action in self.actions_by_name.items():
            act = self.handler(name)
            if act is not None:
                action.triggered.connect(act)
        session, view = self.session, self.session.view
        session.state_changed.connect(self._on_state)
        session.described.connect(self._refresh_banner)
        session.configured.connect(self._refresh_banner)
        session.configured.connect(self._refresh_title)
        session.pair_changed.connect(self._on_pair)
        session.message.connect(self._on_message)
        session.run_ended.connect(self._on_run_ended)
        if session.recorder is not None:
            session.recorder.failed.connect(self._refresh_banner)
            session.recorder.saved.connect(self._refresh_banner)
        view.advanced.connect(self._on_advanced)
        view.run_changed.connect(self._on_run_changed)
        view.cursor_moved.connect(self._refresh_live)
        self.banner.pressed.connect(self._on_notice)
        self.controls.edited.connect(self._refresh_banner)
        self.controls.models_wanted.connect(self._load)
        self.controls.chooser_wanted.connect(self.dialogs.choose_models)
        self.controls.prompt_editor_wanted.connect(self.dialogs.edit_prompt)
        self.status.cancel_wanted.connect(session.stop)
        self.toast.details_wanted.connect(self._do_messages)
        self.navigation.said.connect(self.toast.show_message)
        self.breakpoints.said.connect(self.toast.show_message)
        self.recordings.said.connect(self.toast.show_message)
        self.exports.said.connect(self._on_exported)
        self.exports.failed.connect(self.dialogs.show_error)
        self.dialogs.models_chosen.connect(self._load)
        page = self.start_page
        page.run_bundled.connect(self._run_bundled)
        page.run_loaded.connect(self._do_run)
        page.run_toy.connect(self._run_toy)
        page.watch_bug.connect(self._watch_bug)
        page.choose_models.connect(self.dialogs.choose_models)
        page.change_wanted.connect(self._change)
        page.open_sample.connect(self.session.open_recording)
        page.open_recording.connect(self.recordings.open_recording)
        self.following.changed.connect(self._refresh_banner)
        self.following.said.connect(self.toast.show_message)
        self.drops.recording.connect(self.session.open_recording)
        self.drops.model.connect(self._on_model_dropped)
        self.drops.refused.connect(self.dialogs.show_error)
        self._connect_panels()
        theme.notifier.changed.connect(self._restyle)

    def _connect_panels(self) -> None:
        """What panels may ask of the window, and those that need Diagnostics are told whether it is on."""
        for dock in self.docks.values():
            panel = dock.widget()
            if hasattr(panel, "help_wanted"):
                panel.help_wanted.connect(self.dialogs.help_page)
            if hasattr(panel, "change_wanted"):
                panel.change_wanted.connect(self._change)
            if hasattr(panel, "follow_breakpoints"):
                panel.follow_breakpoints(self.breakpoints.points)
        self.session.configured.connect(self._tell_diagnostics)
        self._tell_diagnostics()
        ledger, log_panel = self.docks["ledger"].widget(), self.docks["log"].widget()
        assert isinstance(ledger, CacheLedgerPanel)
        assert isinstance(log_panel, LogPanel)
        ledger.set_check_action(self.actions_by_name["check_contents"])
        ledger.every_wanted.connect(self.session.set_check_every)
        self.session.check_changed.connect(self._on_check)
        log_panel.follow(self.log)
        rounds, breakpoints = self.docks["rounds"].widget(), self.docks["breakpoints"].widget()
        assert isinstance(rounds, RoundsTablePanel)
        assert isinstance(breakpoints, BreakpointsPanel)
        rounds.keep_filters(self.store)
        rounds.row_actions = [self.actions_by_name[name] for name in ("mark_round", "note", "toggle_breakpoint")]
        breakpoints.add_wanted.connect(self.breakpoints.new_breakpoint)
        breakpoints.edit_wanted.connect(self.breakpoints.edit)
        faults = self.docks["faults"].widget()
        assert isinstance(faults, FaultLabPanel)
        faults.follow(self.session)
        timeline = self.docks["timeline"].widget()
        assert isinstance(timeline, TimelinePanel)
        timeline.follow_runs(self.session.siblings)
        timeline.room_changed.connect(self._on_room)
        self._what_if().fork_wanted.connect(self.recordings.fork_with)
        self._show_workspace()

    def _on_model_dropped(self, path: Path) -> None:
        reason = self.session.can("load")
        if reason is None:
            self.dialogs.choose_target(path)
        else:
            self.dialogs.show_error(f"{path.name} can't be loaded now. {reason}")

    def _on_check(self) -> None:
        self.docks["ledger"].widget().set_every(self.session.check_every)  # type: ignore[attr-defined]
        set_possible(self.actions_by_name["check_contents"], self.session.can("check"))

    def _tell_diagnostics(self) -> None:
        for dock in self.docks.values():
            panel = dock.widget()
            if hasattr(panel, "set_diagnostics"):
                panel.set_diagnostics(self.session.settings.diagnostics)

    def handler(self, name: str) -> Callable[[], None] | None:
        """What does the action of this name; None: its checked state says all, and the controls listen to it."""
        own = getattr(self, f"_do_{name}", None)
        for holder in (self.navigation, self.dialogs, self.breakpoints, self.recordings):
            own = own or getattr(holder, name, None)
        return own

    # What is possible, and what is shown.

    def refresh(self) -> None:
        """Follow the session's state in every action."""
        for spec in ACTIONS:
            if spec.needs is None:
                continue
            reason = self.session.can(spec.needs)
            if spec.name == "run" and self.session.can("continue") is None:
                reason = None
            set_possible(self.actions_by_name[spec.name], reason)
        self._what_if().set_fork_reason(self.session.can("fork"))
        for dock in self.docks.values():
            dock.toggleViewAction().setEnabled(not self._is_starting)
            dock.toggleViewAction().setToolTip("Panels come with the first round." if self._is_starting else "")
        self._refresh_live()
        self._refresh_banner()

    @property
    def _is_starting(self) -> bool:
        """The start page stands in the docks' place."""
        return not self.start_page.isHidden()

    def _refresh_live(self) -> None:
        self.actions_by_name["live"].setChecked(self.session.view.live and self.session.view.run is not None)

    def _refresh_banner(self) -> None:
        self.banner.show_notices([*notices(self.session), *self.following.notices()])

    def _restyle(self) -> None:
        restyle(self.actions_by_name)
        for dock in self.docks.values():
            panel = dock.widget()
            if hasattr(panel, "restyle"):
                panel.restyle(theme.current())

    def _on_state(self, state: str) -> None:
        if state == "failed" and self.session.pair is None:
            self.controls.set_chosen(Chosen())
        self.refresh()

    def _on_pair(self) -> None:
        pair = self.session.pair
        if pair is not None and pair.asked is not None:
            # Of several loads that wait for each other, this is the one that is over.
            asked = Chosen(*pair.asked)
            self.controls.set_chosen(asked)
            self._remember(asked)
        else:
            self.controls.set_chosen(self.session.asked)
        self._refresh_title()
        self._refresh_banner()

    def _remember(self, asked: Chosen) -> None:
        """Keep a pair that isn't the bundled one, with the drafter that it is used with, for the chooser."""
        drafter = self.session.settings.drafter
        used = replace(asked, drafter=drafter if drafts_without_model(drafter) else None)
        if used != Chosen():
            self.store.recent_pairs = with_newest(self.store.recent_pairs, used)

    def _refresh_title(self) -> None:
        pair = self.session.pair
        if pair is not None:
            self.setWindowTitle(f"Draftscope: {models_words(pair, self.session.settings)[0]}")

    def _on_run_changed(self) -> None:
        self._show_docks_with_rounds()
        self.refresh()

    def _on_advanced(self) -> None:
        self._show_docks_with_rounds()
        if not self.actions_by_name["first_round"].isEnabled():
            self.refresh()
        self._refresh_banner()

    def _on_message(self, kind: str, text: str) -> None:
        self.log.add(kind, text)
        if kind == "error":
            self.dialogs.show_error(text, self.session.asked if text == self.session.load_failure else None)
        else:
            self.toast.show_message(text)

    def _on_run_ended(self, run: RecordedRun) -> None:
        if run.end is not None:
            self.log.add("info", f"{run.end.finish_reason}: {run.end.notice}")
            self.log.add("info", run.end.summary)
            if run.end.finish_reason in ("stop", "length"):
                self.toast.show_message(run.end.summary or run.end.notice)
        self.docks["timeline"].widget().tree.refresh()  # type: ignore[attr-defined]  # another run may be shown
        self.refresh()

    # Docks.

    def _show_docks_with_rounds(self) -> None:
        run = self.session.view.run
        if self._is_starting and run is not None and len(run):
            self._show_docks()

    def _show_docks(self) -> None:
        self.start_page.hide()
        for name in self.arrangement.workspace.docks:
            self.docks[name].show()
        self.arrangement.start(self.store.docks(self.arrangement.workspace.id))
        self.docks["rounds"].widget().setFocus()
        self.refresh()

    def _what_if(self) -> CounterfactualsPanel:
        panel = self.docks["what-if"].widget()
        assert isinstance(panel, CounterfactualsPanel)
        return panel

    def _on_room(self) -> None:
        self.arrangement.follow()

    def _dock_height(self) -> int:
        return self.height() - self._top.height() - self.statusBar().height()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.arrangement.follow()
        self.toast.follow()

    def event(self, event: QEvent) -> bool:
        if isinstance(event, QMouseEvent) and event.type() == QEvent.Type.MouseButtonPress:
            self.arrangement.pressed(event.position().toPoint())
        return super().event(event)

    # Runs and models.

    def _problem(self) -> bool:
        problem = self.controls.problem()
        if problem is not None:
            self._on_message("error", f"Nothing was run, because a field can't be used.\n\n{problem}")
        return problem is not None

    def _take_settings(self) -> None:
        self.session.configure(self.controls.prompt(), self.controls.settings())

    def _run_pair(self, wanted: Chosen) -> None:
        if self._problem():
            return
        self._take_settings()
        if wanted.target == TOY:
            self.session.run_toy(**wanted.options())
        else:
            self.session.run_pair(wanted.target, wanted.draft, **wanted.options())

    def _with_draft(self, source: str) -> Chosen:
        """A whole pair by its name: a drafter that needs no draft model gives way to the pair's own."""
        own = drafts_without_model(self.session.settings.drafter)
        return Chosen(source, source, PLAIN_DRAFTER if own else None)

    def _run_bundled(self) -> None:
        self._run_pair(self._with_draft(BUNDLED))

    def _run_toy(self) -> None:
        self._run_pair(self._with_draft(TOY))

    def _watch_bug(self) -> None:
        self._change({"rewind": "legacy-rewind"})
        self._run_bundled()

    def _load(self, wanted: Chosen) -> None:
        if wanted.target == TOY:
            self.session.load_toy(**wanted.options())
        else:
            self.session.load(wanted.target, wanted.draft, **wanted.options())

    def _change(self, live: dict[str, object]) -> None:
        try:
            self.session.change(**live)
        except SettingsError as error:
            self._on_message("error", str(error))

    def _on_notice(self, act: str) -> None:
        if act in ACTIONS_OF:
            self.actions_by_name[act].trigger()
        else:
            self._change(CHANGES[act])

    # The actions, by the table's names.

    def _do_run(self) -> None:
        if self.session.can("continue") is None:
            self.session.toggle_pause()
        elif not self._problem():
            self.session.start_run(self.controls.prompt(), self.controls.settings())

    def _do_pause(self) -> None:
        self.session.toggle_pause()

    def _do_stop(self) -> None:
        self.session.stop()

    def _do_step(self) -> None:
        if self.session.state == "paused":
            self.session.view.follow_tail()
            self.session.step_round()
        elif not self._problem():
            self.session.step_round(self.controls.prompt(), self.controls.settings())

    def _do_new_seed(self) -> None:
        self.controls.new_seed()

    def _do_load_bundled(self) -> None:
        self._load(self._with_draft(BUNDLED))

    def _do_load_toy(self) -> None:
        self._load(self._with_draft(TOY))

    def _do_copy_text(self) -> None:
        run = self.session.view.run
        if run is not None:
            # A stop string was emitted, but is no part of the text.
            text = run.header.vocabulary.decode(run.tokens)
            if run.end is not None and run.end.finish_reason == "stop":
                text = run.end.text
            QGuiApplication.clipboard().setText(text)
            self.toast.show_message("The emitted text is on the clipboard.")

    def _do_copy_summary(self) -> None:
        run = self.session.view.run
        if run is None or run.end is None:
            self.toast.show_message("The run hasn't ended: its summary line comes with its end.")
            return
        QGuiApplication.clipboard().setText(run.end.summary)
        self.toast.show_message("The summary line is on the clipboard.")

    def _do_theme_system(self) -> None:
        self._use_theme("system")

    def _do_theme_light(self) -> None:
        self._use_theme("light")

    def _do_theme_dark(self) -> None:
        self._use_theme("dark")

    def _use_theme(self, scheme: str) -> None:
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        theme.apply(app, scheme)
        self.store.theme = scheme
        self._check_theme()

    def _check_theme(self) -> None:
        self.actions_by_name[f"theme_{theme.scheme()}"].setChecked(True)

    def use_workspace(self, name: str) -> None:
        """Show another workspace, as it was left."""
        before = self.arrangement.workspace
        if name != before.id:
            self.store.save_layout(None, self.arrangement.kept(), before.id)
            self.arrangement.switch(WORKSPACES[name], self.store.docks(name))
            self.store.workspace = name
        self._show_workspace()

    def _show_workspace(self) -> None:
        name = self.arrangement.workspace.id
        self.actions_by_name[f"workspace_{name}"].setChecked(True)
        self.controls.show_debugging(name == "debug")
        rounds = self.docks["rounds"].widget()
        assert isinstance(rounds, RoundsTablePanel)
        rounds.prefer("drift" if name == "debug" else "sum_min")

    def _do_workspace_inspect(self) -> None:
        self.use_workspace("inspect")

    def _do_workspace_debug(self) -> None:
        self.use_workspace("debug")

    def _do_messages(self) -> None:
        """The log's dock; before the first round, when there are no docks yet, a dialog."""
        if self._is_starting:
            self.dialogs.messages()
        else:
            self.docks["log"].show()
            self.docks["log"].raise_()

    def _do_filter_rounds(self) -> None:
        rounds = self.docks["rounds"]
        rounds.show()
        rounds.raise_()
        rounds.widget().focus_filter()  # type: ignore[attr-defined]

    def _do_try_test(self) -> None:
        panel = self._what_if()
        panel.show_page(TRIAL)
        self.docks["what-if"].show()
        self.docks["what-if"].raise_()
        panel.trial.coin.setFocus()

    def _do_fault_lab(self) -> None:
        self.docks["faults"].show()
        self.docks["faults"].raise_()

    def _run_to(self, condition: str) -> None:
        if self.session.state in ("running", "paused"):
            self.session.view.follow_tail()
            self.session.run_to(condition)
        elif not self._problem():
            self.session.run_to(condition, self.controls.prompt(), self.controls.settings())

    def _do_run_to_drift(self) -> None:
        self._run_to("drift")

    def _do_run_to_failure(self) -> None:
        self._run_to("invariant")

    def _do_check_contents(self) -> None:
        self.session.check_contents()

    def _do_reset_layout(self) -> None:
        self.store.forget_docks(self.arrangement.workspace.id)
        if not self._is_starting:
            self.arrangement.reset()

    def _do_export(self) -> None:
        self.exports.open()

    def _drawn(self) -> list[tuple[str, str, QWidget]]:
        """What can become a picture: every panel in sight that draws."""
        panels = {name: self.docks[name].widget() for name in DRAWN}
        # Qt calls a dock behind a tab visible as well, but nothing of it is seen.
        names = [name for name, panel in panels.items() if in_sight(panel)]
        found = [(name, self.docks[name].windowTitle(), panels[name]) for name in names]
        charts = self.dialogs.compared_charts()
        return found if charts is None else [*found, ("compare", "Comparison", charts)]

    def _on_exported(self, text: str) -> None:
        self.log.add("info", text)
        self.toast.show_message(text)

    def _do_close(self) -> None:
        self.close()

    def _do_quit(self) -> None:
        self.close()

    def closeEvent(self, event: QCloseEvent) -> None:
        self.following.close()
        self.arrangement.close()
        self.store.save_layout(self.saveGeometry(), self.arrangement.kept(), self.arrangement.workspace.id)
        self.dialogs.close_all()
        self.breakpoints.close()
        self.recordings.close()
        self.exports.close()
        self.log.close()
        super().closeEvent(event)
