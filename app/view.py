"""What the panels look at: the run shown, the cursor (round, position) in it, and whether it follows the tail."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, QTimer, Signal, SignalInstance
from PySide6.QtWidgets import QWidget

from app.turns import Refresh, Turns
from engine.recording import RecordedRun
from engine.rounds import Round

FIRST = ("timeline", "rounds-table", "round-detail")
"""Object names of the panels that say which round it is: they come first while the cursor is dragged about."""

PASS_BUDGET = 0.008
"""Seconds of refreshing and painting between two looks at what the person does."""


class View(QObject):
    """One run seen by every panel. Panels read `run`, never the worker.

    Signals: `run_changed` (another run, or none, is shown); `advanced` (rounds were added, or the run ended: at
    most once a frame); `cursor_moved` (round, position or live changed, also by following the tail); `changed` (once
    after any of them: for what shows the whole state anew whichever it was). What costs more than a label doesn't
    listen but joins, see `join`: while rounds stream in, or the cursor is dragged about, it and `changed` come in turn,
    a few a frame.
    `moves`: how often the cursor was moved, by hand or by following the tail. `reference`: a run to lay over the one
    shown, with words for how it differs; another run that is shown drops it.
    """

    run_changed = Signal()
    advanced = Signal()
    cursor_moved = Signal()
    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.run: RecordedRun | None = None
        self.round_index = -1
        self.position = 0
        self.live = True
        self.moves = 0
        self.reference: tuple[RecordedRun, str] | None = None
        self.telling = False
        """Whether signals are just told, after which those that joined are called."""
        self._turns = Turns()
        self._turns.join(self.changed.emit)
        self._since = 0
        self._next_pass = QTimer(self)
        self._next_pass.setSingleShot(True)
        self._next_pass.setInterval(0)
        self._next_pass.timeout.connect(self._pass)

    def join(self, panel: QWidget, refresh: Refresh) -> None:
        """Have a panel's method called after every change: at once, or in its turn while changes stream in.

        It must bring the panel up to date whatever has changed, any number of rounds included. Until then the panel
        may have to paint: from what it knew, not from the view. A panel that is shown refreshes by itself.
        """
        self._turns.join(refresh, panel, panel.objectName() in FIRST)

    @property
    def behind(self) -> bool:
        """Whether a panel in sight waits for its turn."""
        return self._turns.behind

    def serve(self, seconds: float | None = None) -> None:
        """Refresh panels that wait: for about so many seconds, None: all of them."""
        if seconds is None:
            self._next_pass.stop()
        self._turns.serve(seconds)

    def catch_up(self) -> None:
        """Refresh panels that wait in the event loop's next passes, a few in each, until each has had its turn."""
        self._since = self._turns.now
        self._next_pass.start()

    def _pass(self) -> None:
        try:
            left = self._turns.catch_up(self._since, PASS_BUDGET)
        except BaseException:
            self._next_pass.start()  # one panel's fault is told, and keeps no other from its turn
            raise
        if left:
            self._next_pass.start()

    @property
    def round(self) -> Round | None:
        """The round under the cursor, or None before the first one."""
        if self.run is None or not 0 <= self.round_index < len(self.run):
            return None
        return self.run[self.round_index]

    def show_run(self, run: RecordedRun | None) -> None:
        """Show another run, from its tail."""
        self.run = run
        self.reference = None
        self.live = True
        self.round_index, self.position = -1, 0
        self._pin_to_tail()
        self.moves += 1
        self._tell((self.run_changed, self.cursor_moved))

    def show_reference(self, run: RecordedRun | None, words: str = "") -> None:
        """Lay a finished run over the one shown, such as the same with a fault cured; None: lay none."""
        self.reference = None if run is None else (run, words)
        self._tell(())

    def notify_advanced(self, seconds: float | None = None) -> None:
        """Rounds were appended: follow them if live; tell all panels, or as many as `seconds` allow, 0: none yet."""
        moved = self.live and self._pin_to_tail()
        signals = [self.advanced]
        if moved:
            self.moves += 1
            signals.append(self.cursor_moved)
        self._tell(signals, seconds)

    def _tell(self, signals: Sequence[SignalInstance], seconds: float | None = None) -> None:
        self.telling = True
        try:
            for signal in signals:
                signal.emit()
        finally:
            self.telling = False
        self._turns.mark()
        if seconds != 0:
            self.serve(seconds)

    def select(self, round_index: int, position: int | None = None) -> None:
        """Put the cursor on a round and position (None: the decisive one); the tail is no longer followed."""
        if self._put(round_index, position):
            self._tell((self.cursor_moved,))

    def scrub(self, round_index: int, position: int | None = None) -> None:
        """As `select`, where the next move may follow at once, as in a drag: panels come in turn, the round's first.

        They show the newest place by then; places that were left before a panel's turn it never shows.
        """
        if self._put(round_index, position):
            self._tell((self.cursor_moved,), 0.0)
            self.catch_up()

    def _put(self, round_index: int, position: int | None) -> bool:
        if self.run is None or not 0 <= round_index < len(self.run):
            return False
        self.live = False
        self.round_index = round_index
        self.position = self._valid(position)
        self.moves += 1
        return True

    def mark(self, index: int, note: str | None) -> None:
        """Mark a round of the run shown with a note, which may be empty; None takes the mark away."""
        if self.run is not None and 0 <= index < len(self.run):
            self.run.mark(index, note)
            self._tell(())

    def follow_tail(self) -> None:
        """Pin the cursor to the newest round (End)."""
        self.live = True
        self._pin_to_tail()
        self.moves += 1
        self._tell((self.cursor_moved,))

    def step_round(self, by: int, scrub: bool = False) -> None:
        """Move by rounds, within the run; `scrub`: as a key does that is held down."""
        if self.run is not None and len(self.run):
            move = self.scrub if scrub else self.select
            move(min(max(self.round_index + by, 0), len(self.run) - 1))

    def step_position(self, by: int, scrub: bool = False) -> None:
        """Move by positions, on into the next or previous round at an end; `scrub` as in `step_round`."""
        record = self.round
        if record is None or self.run is None:
            return
        wanted, move = self.position + by, self.scrub if scrub else self.select
        if 0 <= wanted <= self.last_position(record):
            move(self.round_index, wanted)
        elif wanted < 0 and self.round_index > 0:
            previous = self.round_index - 1
            move(previous, self.last_position(self.run[previous]))
        elif wanted > 0 and self.round_index + 1 < len(self.run):
            move(self.round_index + 1, 0)

    def _pin_to_tail(self) -> bool:
        last = len(self.run) - 1 if self.run is not None else -1
        if last == self.round_index:
            return False
        self.round_index = last
        self.position = self._valid(None)
        return True

    def _valid(self, position: int | None) -> int:
        record = self.round
        if record is None:
            return 0
        if position is None:
            position = record.rejected_at if record.rejected_at is not None else self.last_position(record)
        return min(max(position, 0), self.last_position(record))

    @staticmethod
    def last_position(record: Round) -> int:
        """The bonus position where a token was emitted there, else the last draft."""
        behind = any(e.position >= record.k for e in record.emitted)
        return record.k if behind else max(record.k - 1, 0)
