"""One sitting at the program: ties the worker, the recording and the view together, and says what may be done now."""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from app.headless.request import DEFAULT_PROMPT, TOY_PROMPT, chat_prompt
from app.jobs import Job, Steps
from app.model_choice import TOY, Chosen
from app.recorder import Recorder
from app.run_sources import place_in
from app.samples import samples
from app.view import View
from app.worker import BUNDLED, EngineRoom, Fork, PairSummary, Worker
from engine.breakpoints import Breakpoint, Hit
from engine.forks import Forced, fork_note
from engine.recording import BATCH_SECONDS, OpenedSession, RecordedRun, Recording
from engine.rounds import ContentCheck, Round, RunHeader
from engine.run_copy import FirstRounds, RunCopy, place_of
from engine.session_file import SessionFileError
from engine.settings import Settings, SettingsError

log = logging.getLogger("draftscope.app")

FRAME = 0.033  # seconds between two drains at least
LONGEST_FRAME = 0.1  # and at most, however long painting takes
LIGHT = 0.001  # seconds of taking rounds in that leave room for panels in the same frame
PAUSE_PER_WORK = 8  # a frame of cost c comes every 8 c at most, which leaves the interpreter to the engine
WORK_BUDGET = 0.006  # seconds of work in a frame for taking rounds in and refreshing panels, one of them at least
DRAIN_BUDGET = 0.005  # seconds of these for taking rounds in at most
TEACHING_PACE = 1.0  # seconds between rounds

LOADING = "The models are still loading."
STANDING = "A run stands: stop it first."
NO_RUN = "No run is going."
NO_CACHES = "No run has left caches to check: press Run."
NOTHING_RECORDED = "Nothing has been recorded yet: press Run."
NO_ROUNDS = "There are no rounds yet: press Run."

# For every action the states that refuse it, with the reason. An action that isn't named for a state is possible.
_REFUSALS: dict[str, dict[str, str]] = {
    "run": {"loading": LOADING, "running": STANDING, "paused": STANDING},
    "continue": dict.fromkeys(("idle", "loading", "ready", "running", "stopping", "failed"), "No run is paused."),
    "pause": {
        **dict.fromkeys(("idle", "loading", "ready", "failed"), NO_RUN),
        "paused": "The run is paused already.",
        "stopping": "The run is stopping.",
    },
    "toggle_pause": {
        **dict.fromkeys(("idle", "loading", "ready", "failed"), NO_RUN),
        "stopping": "The run is stopping.",
    },
    "stop": {**dict.fromkeys(("idle", "ready", "failed"), NO_RUN), "stopping": "Stopping already."},
    "step": {"loading": LOADING, "running": "Pause first: a step is one round out of a pause."},
    "run_to": {"loading": LOADING},
    "check": {
        "idle": NO_CACHES,
        "loading": LOADING,
        "running": "Pause first: a check comes between two rounds.",
        "stopping": "The run is stopping.",
        "failed": "The run failed, so its caches can't be used.",
    },
    "load": {"running": STANDING, "paused": STANDING},
    "fork": {"loading": LOADING, "running": STANDING, "paused": STANDING, "stopping": "The run is stopping."},
    "edit": dict.fromkeys(
        ("running", "paused"), "A run's own settings stay as they are while it stands: stop it first."
    ),
    "change": {},
    "pace": {},
    "navigate": {},
    "save": {},
    "close": {},
}
_REFUSALS["run_to_drift"] = _REFUSALS["run_to"]
_REFUSALS["job"] = {"loading": LOADING, "running": STANDING, "paused": STANDING, "stopping": "The run is stopping."}
_NOT_IN_A_JOB = ("run", "fork", "step", "run_to", "run_to_drift", "check", "load", "job")
_NEEDS_ROUNDS = ("navigate", "fork")
ACTIONS = tuple(_REFUSALS)
"""What `Session.can` knows: run, continue (F5 in a pause), pause, toggle_pause, stop (also a loading), step, run_to (a
stop condition), run_to_drift, check (what the caches hold), load (other models), fork (a recorded run), edit (what is
fixed for a run, models, prompt), change (live settings), pace, navigate, save (the recording), close, job (a lab's work
on the engine's thread)."""


class Session(QObject):
    """Glue between Worker, Recording and View; what the window calls and listens to.

    Signals: `state_changed` (a state of the worker; when a run is over, all its rounds were recorded before);
    `pair_changed`; `message` (kind, text): "error" for what the user can mend, "notice" for the
    rest, plain text; `progress_changed` (see `progress`); `memory_changed`; `configured` (`prompt` or `settings` of
    the next run were set by `configure`); `described` (see `backend`); `run_ended` (the RecordedRun);
    `check_changed` (a check of the caches' contents was asked for, or is over; or how often they come was set);
    `breakpoints_hit` (the RecordedRun and a Hit; its round was recorded before).
    """

    state_changed = Signal(str)
    pair_changed = Signal()
    message = Signal(str, str)
    progress_changed = Signal()
    memory_changed = Signal()
    configured = Signal()
    described = Signal()
    run_ended = Signal(object)
    check_changed = Signal()
    breakpoints_hit = Signal(object, object)
    _mark_refused = Signal(str)

    def __init__(
        self,
        engine: Callable[[], Any] = EngineRoom,
        parent: QObject | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        super().__init__(parent)
        self.recording = Recording()
        self.recorder = recorder
        """Keeps the runs in a file; None: they are kept in memory alone."""
        if recorder is not None:
            recorder.recording = self.recording
        self._mark_refused.connect(self._on_noted)
        self.opened: list[OpenedSession] = []
        self.view = View(self)
        self.worker = Worker(engine, self)
        self.worker.must_wait = self._must_wait
        self.state = self.worker.state
        self.pair: PairSummary | None = None
        self.mlx_version, self.backend = "", ""
        self.prompt = DEFAULT_PROMPT
        self.chat, self.system = False, ""
        """Whether the target's chat template goes around the prompt, and what it says as the system."""
        self.settings = Settings()
        self.pace = 0.0
        self.check_every = 0
        self.progress: tuple[str, int, int] | None = None
        """(what, done, total) of a job under way; total 0: unknown."""
        self.failure = ""
        """What failed last, until something else goes well."""
        self.load_failure = ""
        """What was told of the load that failed last."""
        self.asked = Chosen()
        """The models that were asked for last, whether they came or not."""
        self.live_settings: Settings | None = None
        """The settings in force in the newest round of the newest run."""
        """What isn't what was asked, in plain sentences."""
        self.memory_text = ""
        self._memory: tuple[int, int] | None = None
        self._then: Callable[[], None] | None = None
        self._prompt_before_toy: str | None = None
        self._recorded: tuple[int, RecordedRun] | None = None
        self._forked: tuple[RecordedRun, int] | None = None
        self._job: Job | None = None
        self._began = 0.0
        self._ended = 0.0
        self._next_frame = 0.0
        self._put_off = False
        self._shut_down = False
        self._frame_timer = QTimer(self)
        self._frame_timer.setSingleShot(True)
        self._frame_timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._frame_timer.timeout.connect(self._frame)
        self._painted_timer = QTimer(self)
        self._painted_timer.setSingleShot(True)
        self._painted_timer.timeout.connect(self._painted)
        self._file_timer = QTimer(self)  # the file is never further behind, though no further round comes
        self._file_timer.setSingleShot(True)
        self._file_timer.setInterval(int(BATCH_SECONDS * 1000))
        self._file_timer.timeout.connect(self.flush)
        self.worker.arrived.connect(self._on_arrived)
        self.worker.state_changed.connect(self._on_state)
        self.worker.loaded.connect(self._on_loaded)
        self.worker.load_failed.connect(self._on_load_failed)
        self.worker.run_failed.connect(self._on_failed)
        self.worker.change_refused.connect(self._on_refused)
        self.worker.progress.connect(self._on_progress)
        self.worker.described.connect(self._on_described)
        self.worker.checked.connect(self._on_checked)
        self.worker.noted.connect(self._on_noted)
        self.worker.job_changed.connect(self._on_job)

    # What may be done.

    def can(self, action: str) -> str | None:
        """None if the action (one of ACTIONS) is possible now, else the reason why not: for the tooltip."""
        reason = _REFUSALS[action].get(self.state)
        job = self.worker.job
        if job is not None and action in _NOT_IN_A_JOB:
            return f"{job.title} is at work: stop it first."
        if job is not None and action == "stop":
            return None
        if reason is None and action in _NEEDS_ROUNDS and (self.view.run is None or not len(self.view.run)):
            return NO_ROUNDS
        if reason is None and action == "check":
            reason = self._why_no_check()
        if reason is None and action == "fork":
            reason = self._why_no_fork()
        if action == "save" and not self.recording.runs:
            return NOTHING_RECORDED
        if reason is None and action == "run_to_drift":
            return self._why_no_drift()
        return reason

    def _why_no_drift(self) -> str | None:
        """What has no draft cache can't drift."""
        kind = self.settings.drafter_kind.kind
        if kind.network == "none":
            return f"The drafter, {kind.title}, has no cache, so nothing can drift."
        if kind.network == "draft" and self.pair is not None and self.pair.draft is None:
            return "There is no drafter, so nothing can drift."
        return None

    def _why_no_fork(self) -> str | None:
        """Only the models that recorded a run can go on with it."""
        assert self.view.run is not None
        header, pair = self.view.run.header, self.pair
        # A drafter that is made of the target, or has no model, comes with the settings.
        is_of_pair = header.settings.drafter_kind.kind.network == "draft"
        wanted = [header.target.name, header.draft.name if header.draft is not None and is_of_pair else None]
        loaded = None
        if pair is not None:
            loaded = [pair.target.name, pair.draft.name if pair.draft is not None and is_of_pair else None]
        if loaded == wanted:
            return None
        names = " and ".join(name for name in wanted if name is not None)
        return f"Load the models that recorded this run first: {names}."

    def _why_no_check(self) -> str | None:
        if self.worker.checking:
            return "A check is under way."
        return None if self.state == "paused" or self.worker.can_check else NO_CACHES

    def _may(self, action: str) -> bool:
        reason = self.can(action)
        if reason is not None:
            self.message.emit("notice", reason)
        return reason is None

    @property
    def pausing(self) -> bool:
        """A pause stands, or was asked for and comes at the next round boundary."""
        return self.worker.pausing

    @property
    def why_paused(self) -> str:
        """The stop condition that the round before the pause met, in words; "" without one."""
        return self.worker.why_paused

    # What is done.

    def configure(
        self,
        prompt: str | None = None,
        settings: Settings | None = None,
        chat: bool | None = None,
        system: str | None = None,
    ) -> None:
        """Set what the next run takes where `start_run` or `step_round` aren't told otherwise."""
        self.prompt = self.prompt if prompt is None else prompt
        self.settings = self.settings if settings is None else settings
        self.chat = self.chat if chat is None else chat
        self.system = self.system if system is None else system
        self.configured.emit()

    def whole_prompt(self) -> str:
        """The text that is encoded: the prompt, within the chat template where it is asked for and there is one.

        Raises ValueError where the template doesn't take these messages.
        """
        chat = self.pair.chat if self.pair is not None else None
        return chat_prompt(chat, self.prompt, self.system) if self.chat and chat is not None else self.prompt

    def warm_up(self) -> None:
        """Let the worker import MLX, so that `backend` is known and loading starts sooner."""
        self.worker.warm_up()

    def load(self, target: str = BUNDLED, draft: str | None = BUNDLED, **options: Any) -> None:
        """Load models: paths, ids of the local cache, or BUNDLED (the default); options as in `EngineRoom.load`."""
        if self._may("load"):
            self._then = None
            self.asked = Chosen(target, draft, **options)
            self.worker.load(target, draft, **options)

    def load_toy(self, **options: Any) -> None:
        """Load the 6-token toy."""
        if self._may("load"):
            self._then = None
            self.asked = Chosen(TOY, TOY, **options)
            self.worker.load_toy(**options)

    def start_run(
        self,
        prompt: str | None = None,
        settings: Settings | None = None,
        pause_after: int | None = None,
        until: str | None = None,
    ) -> None:
        """Run; without a pair the bundled one is loaded first.

        `pause_after`: pause after so many rounds; `until`: behind the one that meets this stop condition.
        """
        if not self._may("run"):
            return
        self.prompt = self.prompt if prompt is None else prompt
        self.settings = self.settings if settings is None else settings
        if self.pair is None:
            self.worker.load(BUNDLED, BUNDLED)
            self._then = lambda: self._run(pause_after, until)
        else:
            self._run(pause_after, until)

    def run_pair(
        self,
        target: str = BUNDLED,
        draft: str | None = BUNDLED,
        pause_after: int | None = None,
        **options: Any,
    ) -> None:
        """Load this pair, then run `prompt` with `settings`."""
        if self._may("load"):
            self.asked = Chosen(target, draft, **options)
            self.worker.load(target, draft, **options)
            self._then = lambda: self._run(pause_after)

    def run_toy(self, pause_after: int | None = None, **options: Any) -> None:
        """Load the toy, then run `prompt` with `settings`."""
        if self._may("load"):
            self.asked = Chosen(TOY, TOY, **options)
            self.worker.load_toy(**options)
            self._then = lambda: self._run(pause_after)

    def fork(self, run: RecordedRun, at: int, settings: Settings, forced: Forced | None = None) -> None:
        """Go on from a recorded run as it stood before round `at`, as a run of its own, with these settings.

        `forced`: what is to happen in that round, whatever its test says.
        """
        if not self._may("fork"):
            return
        try:
            note = fork_note(at, run.settings_before(at), settings, forced)
        except (SessionFileError, SettingsError) as error:
            self.message.emit("error", f"The run can't be forked: {error}.")
            return
        self._forked = (run, at)
        rounds = FirstRounds(RunCopy(run, place_in(self, run)), at)
        self.worker.run("", settings, fork=Fork(run.header, rounds, forced, note))

    def toggle_pause(self) -> None:
        """Pause at the next round boundary, or go on."""
        if self._may("toggle_pause"):
            if self.worker.pausing:
                self.worker.resume()
            else:
                self.worker.pause()

    def step_round(self, prompt: str | None = None, settings: Settings | None = None) -> None:
        """One round out of a pause; without a run, start one that pauses after its first round."""
        if not self._may("step"):
            return
        if self.state == "paused":
            self.worker.step()
        else:
            self.start_run(prompt, settings, pause_after=1)

    def run_to(self, condition: str, prompt: str | None = None, settings: Settings | None = None) -> None:
        """Go on, or start a run, until a round meets a condition of `engine.breakpoints`; pause right behind it."""
        if not self._may("run_to"):
            return
        if self.state in ("running", "paused"):
            self.worker.run_to(condition)
        else:
            self.start_run(prompt, settings, until=condition)

    def check_contents(self) -> None:
        """Compare the logits of both caches with those of fresh ones; the result comes into the recording."""
        if self._may("check"):
            self.worker.check()
            self.check_changed.emit()

    def set_check_every(self, rounds: int) -> None:
        """Check the caches' contents behind every so many rounds; 0: only when asked."""
        if rounds != self.check_every:
            self.check_every = rounds
            self.worker.set_check_every(rounds)
            self.check_changed.emit()

    def set_breakpoints(self, breakpoints: Sequence[Breakpoint]) -> None:
        """Pause behind rounds that meet one of these, in the run that stands and in later ones."""
        self.worker.set_breakpoints(breakpoints)

    def start_job(self, title: str, steps: Steps) -> Job | None:
        """Have the engine's thread work at something else than a run (see `Job`); None if that can't be now."""
        if not self._may("job"):
            return None
        job = self._job = self.worker.start_job(title, steps)
        job.progressed.connect(self._on_job_progress)
        self._set_progress((title, 0, 0))
        return job

    def stop(self) -> None:
        """End the run at the next round boundary; ends a loading or a job too."""
        if self._may("stop"):
            self._then = None
            if self.worker.job is not None:
                self.worker.job.cancel()
            else:
                self.worker.stop()

    def change(self, **live: Any) -> None:
        """Change live settings (engine.settings.LIVE_FIELDS): of the run that stands, and of the next."""
        try:
            settings = self.settings.with_live(live)
            self.worker.change(**live)
        except SettingsError as error:
            self.message.emit("error", str(error))
            return
        self.configure(settings=settings)

    def set_pace(self, seconds_between_rounds: float) -> None:
        """Least seconds from one round's beginning to the next; 0 is full speed."""
        self.pace = seconds_between_rounds
        self.worker.set_pace(seconds_between_rounds)

    def shutdown(self, timeout: float = 5.0) -> bool:
        """Stop everything; False if the worker is still busy after `timeout` seconds."""
        self._then = None
        self._shut_down = True
        self._frame_timer.stop()
        self._painted_timer.stop()
        self._file_timer.stop()
        ended = self.worker.shutdown(timeout)
        self._take_in(math.inf)
        self.flush()
        if self.recorder is not None:
            self.recorder.close()
        for run in self.recording.runs:
            run.close()
        for opened in self.opened:
            opened.close()
        return ended

    def open_recording(self, path: Path) -> bool:
        """Show the last run of a recorded session; False, with a message, if it can't be read."""
        is_sample = any(_is_one_file(path, sample.path) for sample in samples())
        try:
            session = OpenedSession(path, "a sample stays as it comes" if is_sample else "")
        except SessionFileError as error:
            self.message.emit("error", f"The recording can't be opened: {error}.")
            return False
        if {stored.id for stored in session.stored} <= self._recorded_into(path):
            session.close()
            self.message.emit("notice", f"{path.name} is what this window records into: its runs are under Go > Runs.")
            self.view.show_run(self.recording.runs[-1])
            return True
        self.opened.append(session)
        kept = f"Marks and notes in {path.name} are kept for this sitting only"
        session.marks.on_refused = lambda why: self._mark_refused.emit(f"{kept}: {why}.")
        for damage in (*session.damage, *(run.damage for run in session.runs)):
            if damage is not None:
                self.message.emit("notice", f"{path.name}: {damage}")
        self.view.show_run(session.runs[-1])
        return True

    def _recorded_into(self, path: Path) -> set[int]:
        """Numbers of this sitting's own runs in a file."""
        if self.recording.writer is None or self.recording.writer.failure is not None:
            return set()  # another file may have taken its name
        places = [place for run in self.recording.runs if (place := place_of(run)) is not None]
        return {number for file, number in places if _is_one_file(file, path)}

    def siblings(self) -> list[RecordedRun]:
        """All runs of the recording that the run shown belongs to, oldest first."""
        shown = self.view.run
        for opened in self.opened:
            if any(run is shown for run in opened.runs):
                return opened.runs
        return self.recording.runs

    def flush(self) -> None:
        """Hand every recorded round to the file."""
        self._file_timer.stop()
        if self._recorded is not None:
            self._recorded[1].flush()

    # What the worker tells.

    def _on_state(self, state: str) -> None:
        if state not in ("running", "stopping"):
            # Whoever hears of the pause or the end shall find the rounds before it recorded.
            try:
                self._take_in(math.inf)
                self.flush()
                self.view.serve()
            except Exception as error:  # the state must be told whatever a record did
                log.exception("what came with the state %s couldn't be taken in", state)
                self.message.emit("error", f"A round couldn't be recorded: {error}. The log has the details.")
        if state != "stopping":
            self.failure = self.worker.failure if state == "failed" else ""
        if state not in ("loading", "running", "stopping"):
            self._set_progress(None)
        self.state = state
        self.state_changed.emit(state)
        if state == "ready" and self._then is not None:
            then, self._then = self._then, None
            then()
        elif state in ("idle", "failed"):
            self._then = None

    def _run(self, pause_after: int | None, until: str | None = None) -> None:
        self._forked = None
        try:
            prompt = self.whole_prompt()
        except ValueError as error:
            self.message.emit("error", f"Nothing was run: {error}")
            return
        self.worker.run(prompt, self.settings, pause_after, until)

    def _on_checked(self, failure: str) -> None:
        if failure:
            self.set_check_every(0)
            self.message.emit("error", f"The caches' contents can't be checked: {failure}")
        self._take_in(DRAIN_BUDGET)
        self.check_changed.emit()

    def _on_job(self) -> None:
        over, self._job = self._job, self.worker.job
        if self._job is None:
            self._set_progress(None)
            self._refresh_memory()
        self.state_changed.emit(self.state)  # the state stays, but not what may be done
        if over is not None and over.failure:
            self.message.emit("error", f"{over.title} failed.\n\n{over.failure}")

    def _on_job_progress(self, done: int, total: int) -> None:
        if self.worker.job is not None:
            self._set_progress((self.worker.job.title, done, total))

    def _must_wait(self) -> bool:
        """Asked on the worker's thread: whether the file is too far behind for another round."""
        writer = self.recording.writer
        return writer is not None and writer.is_behind

    def _on_noted(self, text: str) -> None:
        self.message.emit("notice", text)

    def _on_loaded(self, pair: PairSummary) -> None:
        self.pair = pair
        self.live_settings = None
        self.backend = pair.backend
        if pair.drafter and pair.drafter != self.settings.drafter:
            self.configure(settings=dataclasses.replace(self.settings, drafter=pair.drafter))
        self._fit_prompt(pair)
        self.pair_changed.emit()
        self._refresh_memory()

    def _fit_prompt(self, pair: PairSummary) -> None:
        """The toy can read its own few words only: give it a prompt, and give the old one back after it."""
        if pair.target.model_type == "toy":
            try:
                pair.encode(self.prompt)
            except ValueError as error:
                if self.prompt != DEFAULT_PROMPT:
                    self.message.emit("notice", f"{error} The prompt is now: {TOY_PROMPT}")
                self._prompt_before_toy = self.prompt
                self.configure(prompt=TOY_PROMPT)
        elif self._prompt_before_toy is not None:
            before, self._prompt_before_toy = self._prompt_before_toy, None
            if self.prompt == TOY_PROMPT:
                self.configure(prompt=before)

    def _on_failed(self, text: str) -> None:
        self.failure = text
        self.message.emit("error", text)

    def _on_load_failed(self, text: str) -> None:
        if self.pair is not None:
            models = [self.pair.target, *([self.pair.draft] if self.pair.draft is not None else [])]
            text = f"{text}\n\nWhat was loaded before stays in use: {' and '.join(model.name for model in models)}."
        self.load_failure = text
        self._on_failed(text)

    def _on_refused(self, text: str) -> None:
        self.message.emit("error", text)

    def _on_progress(self, what: str, done: int, total: int) -> None:
        over = total > 0 and done >= total
        self._set_progress(None if over or self.state not in ("loading", "running") else (what, done, total))

    def _set_progress(self, progress: tuple[str, int, int] | None) -> None:
        if progress != self.progress:
            self.progress = progress
            self.progress_changed.emit()

    def _on_described(self, version: str, backend: str) -> None:
        self.mlx_version, self.backend = version, backend
        self.described.emit()

    # Frames: they follow what arrives, so nothing ticks while nothing happens.

    def _on_arrived(self) -> None:
        if self._shut_down:
            return
        if not self._frame_timer.isActive() and not self._painted_timer.isActive():
            wait = self._next_frame - time.perf_counter()
            self._frame_timer.start(max(0, int(wait * 1000)))

    def _frame(self) -> None:
        self._began = time.perf_counter()
        # In a pause or after a quiet time nothing competes: all panels are refreshed at once.
        hurried = self.state == "running" and self._began - self._ended < 2 * LONGEST_FRAME
        if not self._take_in(DRAIN_BUDGET, hurried):
            self.view.serve(WORK_BUDGET if hurried else None)
        self._painted_timer.start(0)  # comes after the paints that were asked for

    def _painted(self) -> None:
        self._ended = time.perf_counter()
        cost = self._ended - self._began
        self._next_frame = self._began + min(max(FRAME, PAUSE_PER_WORK * cost), LONGEST_FRAME)
        if self.worker.waiting or self.view.behind:
            self._on_arrived()

    def _take_in(self, budget: float, hurried: bool = False) -> bool:
        """Record what has arrived and tell the view at most once; True if so. Hurried, not all panels take part."""
        began = time.thread_time()
        advanced = False
        ended, hits = [], []
        for run_id, item in self.worker.drain(budget):
            if isinstance(item, RunHeader):
                if self.recorder is not None:
                    self.recording.writer = self.recorder.start()
                parent, self._forked = self._forked, None
                self._recorded = (run_id, self.recording.begin(item, parent))
                self.live_settings = item.settings
                self.view.show_run(self._recorded[1])
                continue
            if self._recorded is None or self._recorded[0] != run_id:
                raise RuntimeError(f"an item of run {run_id} came without its run's header")
            run = self._recorded[1]
            if isinstance(item, Round):
                self._record(run, item)
            elif isinstance(item, ContentCheck):
                run.add_check(item)
            elif isinstance(item, Hit):
                hits.append((run, item))
            else:
                run.finish(item)
                ended.append(run)
            advanced = advanced or run is self.view.run
        self._refresh_memory()
        if advanced:
            spent = time.thread_time() - began
            # A frame takes rounds in or refreshes panels, not both; but panels don't wait for two frames.
            self._put_off = hurried and not ended and spent > LIGHT and not self._put_off
            over = ended or not hurried
            self.view.notify_advanced(None if over else 0.0 if self._put_off else max(WORK_BUDGET - spent, 1e-9))
        for met in hits:
            self.breakpoints_hit.emit(*met)
        for run in ended:
            self.run_ended.emit(run)
        return advanced

    def _record(self, run: RecordedRun, record: Round) -> None:
        run.append(record)
        if not self._file_timer.isActive() and not self._shut_down:
            self._file_timer.start()
        if record.changed and self.live_settings is not None:
            self.live_settings = self.live_settings.with_live(record.changed)

    # What is shown of it.

    def _refresh_memory(self) -> None:
        if self.worker.memory != self._memory:
            self._memory = self.worker.memory
            active, cache = self._memory
            self.memory_text = f"MLX {_mebibytes(active)} + {_mebibytes(cache)} cache"
            self.memory_changed.emit()


def _is_one_file(a: Path, b: Path) -> bool:
    try:
        return a.samefile(b)
    except OSError:
        return False


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.1f} MiB"
