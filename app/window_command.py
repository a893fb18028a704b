"""Opens the window as the command line asks, runs it to its end, and saves its picture where one is wanted."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

from engine.session_writer import refusal
from engine.settings import SamplerSettings, Settings, SettingsError
from engine.switches import diagnostics_from_environment, stochastic_from_environment

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

    from app.main_window import MainWindow
    from app.session import Session

log = logging.getLogger("draftscope.app")

GRAB_SIZE = (1440, 900)
_SETTLE_MS = 400  # for layouts and paints that panels put off
_MOST_STEPS = 500  # rounds to look for a rejection in


def open_window(
    options: argparse.Namespace,
    engine: Callable[[], Any] | None = None,
    on_open: Callable[[Session, MainWindow], None] | None = None,
) -> int:
    """The window's whole life; returns the exit code.

    For tests: `engine` stands in for app.worker.EngineRoom, `on_open` is called once the window shows.
    """
    problem = _display_problem(options)
    if problem is None and options.record is not None:
        options.record = options.record.expanduser()
        refused = refusal(options.record)
        problem = None if refused is None else f"--record: {refused}"
    if problem is None and options.system is not None and not options.chat:
        problem = "--system goes with --chat: without a chat template nobody says it"
    if problem is None:
        try:
            settings = run_settings(options)
        except SettingsError as error:
            problem = str(error)
    if problem is not None:
        print(f"draftscope: {problem}", file=sys.stderr)
        return 2
    try:
        from PySide6.QtWidgets import QApplication
    except ImportError as error:
        print(f"draftscope: Qt can't be loaded ({error}); {_LIBRARIES}", file=sys.stderr)
        return 1
    application = QApplication.instance() or QApplication(["draftscope"])
    assert isinstance(application, QApplication)
    return _live(application, options, settings, engine, on_open)


_LIBRARIES = (
    "on Debian or Ubuntu it needs: sudo apt install libegl1 libgl1 libxkbcommon0 libxkbcommon-x11-0 libdbus-1-3 "
    "libfontconfig1 libxcb-cursor0"
)


def _display_problem(options: argparse.Namespace) -> str | None:
    """Qt aborts the process where there is no display, so look before; a picture needs none."""
    if not sys.platform.startswith("linux") or os.environ.get("QT_QPA_PLATFORM"):
        return None
    if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        return None
    if options.grab:
        log.info("no display: the picture is drawn off screen")
        os.environ["QT_QPA_PLATFORM"] = "offscreen"
        return None
    return (
        "no display was found (DISPLAY and WAYLAND_DISPLAY are not set). Start it on a desktop; `draftscope run` "
        "and `draftscope --run --grab FILE.png` need no display."
    )


def run_settings(options: argparse.Namespace) -> Settings:
    """The run that the options ask for. Raises SettingsError."""
    given = vars(options)

    def chosen(**names: str) -> dict[str, Any]:
        return {field: given[option] for field, option in names.items() if given[option] is not None}

    sampler = chosen(temperature="temp", top_k="top_k", top_p="top_p", min_p="min_p")
    fields = chosen(
        num_draft_tokens="num_draft_tokens",
        max_tokens="max_tokens",
        seed="seed",
        rewind="rewind",
        stochastic="stochastic",
        kill_switch="kill_switch",
        diagnostics="diagnostics",
        drafter="drafter",
    )
    fields = {**_first_switches(options.run, fields), **fields}
    settings = Settings(sampler=SamplerSettings(**sampler), **fields)
    if options.grab and options.after is not None and options.max_tokens is None:
        # The limit must not end the run before the rounds that were asked for.
        enough = (options.after + 1) * (settings.num_draft_tokens + 1)
        fields["max_tokens"] = max(settings.max_tokens, enough)
    return Settings(sampler=SamplerSettings(**sampler), **fields)


def _first_switches(run: bool, given: dict[str, Any]) -> dict[str, bool]:
    """Where the toggles stand at first: the environment's word, and with --run what shows most."""
    environment = stochastic_from_environment()
    return {
        "stochastic": run or environment is True,
        "kill_switch": environment is False and not given.get("stochastic"),
        "diagnostics": run or diagnostics_from_environment(),
    }


def _live(
    application: QApplication,
    options: argparse.Namespace,
    settings: Settings,
    engine: Callable[[], Any] | None,
    on_open: Callable[[Session, MainWindow], None] | None,
) -> int:
    from PySide6.QtCore import QSettings, QTimer

    from app import theme
    from app.recorder import Recorder
    from app.session import TEACHING_PACE, Session
    from app.settings_store import SettingsStore
    from app.worker import EngineRoom

    application.setApplicationName("draftscope")
    application.setOrganizationName("draftscope")
    application.setApplicationDisplayName("Draftscope")
    with tempfile.TemporaryDirectory(prefix="draftscope-") as scratch:
        # A picture shows the program as it comes, not one person's layout, and leaves no trace in it.
        own = QSettings(f"{scratch}/settings.ini", QSettings.Format.IniFormat) if options.grab else None
        store = SettingsStore(own)
        theme.apply(application, options.theme or store.theme or "system")
        recorder = None if options.grab and options.record is None else Recorder(options.record, parent=application)
        session = Session(EngineRoom if engine is None else engine, recorder=recorder)
        wakeup = _Interrupts(application)
        hook = sys.excepthook
        sys.excepthook = partial(_tell_of_fault, session)
        code = 1
        try:
            pace = TEACHING_PACE if options.run and not options.grab else 0.0
            session.set_pace(pace if options.pace is None else options.pace)
            session.configure(options.prompt, settings, chat=options.chat, system=options.system)
            from app.main_window import MainWindow

            window = MainWindow(session, store)
            if options.workspace is not None:
                window.use_workspace(options.workspace)
            picture = _Picture(application, session, window, options) if options.grab else None
            size = options.size or (GRAB_SIZE if options.grab else None)
            if size is not None:
                window.resize(*size)
            window.show()
            # After the first paint: importing MLX competes for the interpreter.
            QTimer.singleShot(0, session, lambda: _begin(session, options))
            if not options.grab:
                QTimer.singleShot(0, window, window.recordings.offer_unfinished)
            if on_open is not None:
                on_open(session, window)
            code = 0 if wakeup.asked else application.exec()
            if picture is not None:
                picture.finished = True
            window.close()
        finally:
            sys.excepthook = hook
            wakeup.close()
            if not session.shutdown():
                _leave(code)
        return code


def _tell_of_fault(
    session: Session, kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """A fault in a slot must not stay on a terminal that nobody sees; the window goes on."""
    log.critical("a fault in the window", exc_info=(kind, error, trace))
    session.message.emit("error", f"A fault in the window: {kind.__name__}: {error}. The log has the details.")


def _begin(session: Session, options: argparse.Namespace) -> None:
    from app.worker import BUNDLED

    target, draft = options.target or BUNDLED, options.draft
    if draft is None and options.target is None:
        draft = BUNDLED
    own = options.target is not None or options.draft is not None
    given = {"drafter": options.drafter, "unpack": options.unpack, "allow_large": options.allow_large}
    how = {name: value for name, value in given.items() if value}
    if options.toy:
        how = {name: value for name, value in how.items() if name == "drafter"}
    pause_after = options.after if options.grab and not options.while_running else None
    if options.open is not None:
        session.open_recording(options.open)
    session.warm_up()
    if options.run and options.toy:
        session.run_toy(pause_after, **how)
    elif options.run:
        session.run_pair(target, draft, pause_after, **how)
    elif options.toy:
        session.load_toy(**how)
    elif own:
        session.load(target, draft, **how)


def _leave(code: int) -> None:
    """End the process although the engine is busy in one long call; there is nothing on disk left to write."""
    log.warning("the engine is still busy; leaving it")
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _Interrupts:
    """Ctrl-C and SIGTERM close the window: Python sees a signal only once Qt hands control back to it."""

    def __init__(self, application: QApplication) -> None:
        from PySide6.QtCore import QSocketNotifier

        self._application = application
        self.asked = False
        """Whether a signal has come, maybe before there was an event loop to end."""
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._old_fd = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        self._old = {number: signal.signal(number, self._quit) for number in (signal.SIGINT, signal.SIGTERM)}
        self._notifier = QSocketNotifier(self._ours.fileno(), QSocketNotifier.Type.Read)
        self._notifier.activated.connect(self._woken)

    def _woken(self) -> None:
        self._ours.recv(64)  # by now the handler below has run

    def _quit(self, number: int, _frame: object) -> None:
        log.info("signal %s: closing", number)
        self.asked = True
        # Not quit(): a dialog that is open would refuse it.
        self._application.exit(0)

    def close(self) -> None:
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(self._old_fd)
        for number, handler in self._old.items():
            signal.signal(number, handler)
        self._ours.close()
        self._theirs.close()


class _Picture:
    """Waits for what the picture shall show, saves it, and ends the program."""

    def __init__(
        self, application: QApplication, session: Session, window: MainWindow, options: argparse.Namespace
    ) -> None:
        self._application, self._session, self._window, self._options = application, session, window, options
        self._steps = 0
        self._due = False
        self.finished = False
        session.message.connect(self._on_message)
        session.state_changed.connect(self._on_state)
        session.described.connect(self._look)
        session.view.advanced.connect(self._look)

    def _on_message(self, kind: str, text: str) -> None:
        if kind == "error":
            self._end(1, text)
        else:
            self._note(text)

    def _on_state(self, state: str) -> None:
        if state == "failed":
            self._end(1, self._session.failure or "the run failed")
        else:
            self._look()

    def _look(self) -> None:
        if self._due or self.finished or not self._is_there():
            return
        self._due = True
        self._select()
        from PySide6.QtCore import QTimer

        QTimer.singleShot(_SETTLE_MS, self._window, self._save)

    def _is_there(self) -> bool:
        session, options = self._session, self._options
        run = session.view.run
        if not options.run:
            wanted = "ready" if options.toy or options.target or options.draft else "idle"
            return session.state == wanted and bool(session.backend)
        if run is None:
            return False
        if run.end is not None:
            return session.state == "ready"
        if options.while_running:
            return options.after is not None and len(run) >= options.after
        if session.state != "paused":
            return False
        if options.until_rejection and run[-1].rejected_at is None and self._steps < _MOST_STEPS:
            if len(run) >= options.after + self._steps:
                self._steps += 1
                session.step_round()
            return False
        return True

    def _select(self) -> None:
        run, wanted = self._session.view.run, self._options.select
        if wanted is None or run is None:
            return
        if wanted == "rejection":
            wanted = next(((i, None) for i in reversed(range(len(run))) if run[i].rejected_at is not None), None)
            if wanted is None:
                self._note("no draft was rejected, so the cursor stays at the end")
                return
        index, position = wanted
        if index >= len(run):
            self._end(1, f"--select: there is no round {index}, the run has {len(run)}")
            return
        view = self._session.view
        view.select(index, None if position == -1 else position)
        if position not in (None, -1) and view.position != position:
            last = view.last_position(run[index]) + 1
            self._end(1, f"--select: round {index} has positions 1 to {last}, got {position + 1}")

    def _save(self) -> None:
        if self.finished:
            return
        run, options = self._session.view.run, self._options
        if run is not None and options.run and options.after is not None and len(run) < options.after:
            self._note(f"the run ended after {len(run)} rounds, before the {options.after} asked for")
        self._window.toast.hide()
        picture = self._window.grab()
        wanted = options.size or GRAB_SIZE
        got = self._window.width(), self._window.height()
        if got != wanted:
            self._note(f"the window is {got[0]}x{got[1]}, not {wanted[0]}x{wanted[1]}: it can't be smaller")
        if picture.save(options.grab):
            self._end(0)
        else:
            self._end(1, f"--grab: {options.grab} can't be written; expected the path of a .png file")

    def _note(self, text: str) -> None:
        print(f"draftscope: {text}", file=sys.stderr)

    def _end(self, code: int, text: str = "") -> None:
        if self.finished:
            return
        self.finished = True
        if text:
            self._note(text)
        self._application.exit(code)
