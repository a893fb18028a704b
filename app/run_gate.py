"""Where a run waits between rounds: pause, step, pace, stop and live changes meet the round loop here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from engine.breakpoints import STOP_CONDITIONS, Breakpoint
from engine.rounds import Round


class RunGate:
    """One run's round boundary. The GUI thread sets it, the worker thread passes it; no call blocks the GUI.

    `on_parked` is called on the worker thread each time the run comes to stand in a pause. Times are seconds
    of time.monotonic(). `until`: the id of the stop condition that the run goes on to (`engine.breakpoints`), None
    without one; `why`: what met it, "" before; anything that lets the run go on, or pauses it by hand, forgets both.
    `breakpoints`: what the rounds are held against. `broke`: it was one of them that paused the run.
    `check_every`: a content check is due behind every so many rounds; 0: never.
    """

    def __init__(
        self,
        *,
        pace: float = 0.0,
        rounds: int | None = None,
        until: str | None = None,
        check_every: int = 0,
        on_parked: Callable[[], None],
    ) -> None:
        self._changed = threading.Condition()
        self._allowance = rounds  # rounds that may still begin; None: no limit
        self._pace = pace
        self._last: float | None = None  # when the last round began
        self._stopping = False
        self._parked = False
        self._changes: list[dict[str, Any]] = []
        self._check_asked = False
        self.until = until
        self.why = ""
        self.broke = False
        self.breakpoints: tuple[Breakpoint, ...] = ()
        self.check_every = check_every
        self._on_parked = on_parked

    @property
    def stopping(self) -> bool:
        return self._stopping

    @property
    def pausing(self) -> bool:
        """A pause stands or is asked for (also behind the rounds of a step)."""
        return self._allowance is not None

    @property
    def parked(self) -> bool:
        """The run stands at the boundary, and no round is allowed."""
        with self._changed:
            return self._parked and self._allowance == 0

    def pause(self) -> None:
        """Begin no further round."""
        self._set(allowance=0)

    def go(self, until: str | None = None) -> None:
        """Take a pause back; with a stop condition until a round meets it."""
        self._set(allowance=None, until=until)

    def step(self) -> None:
        """Allow one round (one more, if rounds are allowed already), then pause."""
        with self._changed:
            self._allowance = (self._allowance or 0) + 1
            self.until, self.why, self.broke = None, "", False
            self._changed.notify_all()

    def stop(self) -> None:
        """End the run at the boundary; final."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def set_pace(self, seconds: float) -> None:
        """Least time from the beginning of one round to the next; holds at once, also for a wait under way."""
        with self._changed:
            self._pace = seconds
            self._changed.notify_all()

    def change(self, changes: dict[str, Any]) -> None:
        """Leave live changes for the next round."""
        with self._changed:
            self._changes.append(changes)

    def ask_check(self) -> None:
        """Have the caches' contents checked at the boundary, also in a pause."""
        with self._changed:
            self._check_asked = True
            self._changed.notify_all()

    def watch(self, record: Round, before: Round | None) -> None:
        """Worker thread, behind a round: pause there if it meets the stop condition."""
        until = self.until
        why = None if until is None else STOP_CONDITIONS[until].met(record, before)
        if why is None:
            return
        with self._changed:
            if self.until == until:  # unless a hand was quicker
                self._allowance, self.until, self.why = 0, None, why

    def break_for(self, why: str) -> None:
        """Worker thread, behind a round: pause there whatever was asked for, since it met a breakpoint."""
        with self._changed:
            self._allowance, self.until, self.why, self.broke = 0, None, why, True

    def pass_boundary(self, check: Callable[[], None] | None = None) -> bool:
        """Worker thread: wait until a round may begin; False if the run shall end instead.

        `check` is called, without holding up the GUI's calls, whenever a content check is asked for.
        """
        while not (passed := self._wait(check is not None)) and self._check_asked and check is not None:
            self._check_asked = False
            check()
        return passed

    def _wait(self, may_check: bool) -> bool:
        """True: a round may begin; False: the run shall end, or a check comes first."""
        with self._changed:
            while not self._stopping:
                if self._check_asked and may_check:
                    return False
                if self._allowance == 0:
                    self._park()
                    self._changed.wait()
                    continue
                wait = self._time_left()
                if wait <= 0:
                    break
                self._changed.wait(wait)
            self._parked = False
            if self._stopping:
                self._check_asked = False
                return False
            if self._allowance:
                self._allowance -= 1
            self._last = time.monotonic()
            return True

    def take_changes(self) -> list[dict[str, Any]]:
        """Worker thread: the live changes since the last call, oldest first."""
        with self._changed:
            taken, self._changes = self._changes, []
        return taken

    def _set(self, allowance: int | None, until: str | None = None) -> None:
        with self._changed:
            self._allowance = allowance
            self.until, self.why, self.broke = until, "", False
            # Forgetting the old stop lets a pause that follows at once be reported anew.
            self._parked = self._parked and allowance == 0
            self._changed.notify_all()

    def _park(self) -> None:
        if not self._parked:
            self._parked = True
            self._on_parked()

    def _time_left(self) -> float:
        # A step is asked for by hand, so it does not wait for the pace.
        if self._last is None or self._allowance is not None:
            return 0.0
        return self._last + self._pace - time.monotonic()
