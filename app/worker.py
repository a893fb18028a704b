"""The engine's one thread: it alone imports MLX, loads the models and runs them; only finished records leave it."""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from queue import SimpleQueue
from typing import Any, NamedTuple

from PySide6.QtCore import QObject, Qt, Signal

from app.jobs import Job, Steps
from app.run_gate import RunGate
from engine.breakpoints import STOP_CONDITIONS, Breakpoint, Checker, Hit
from engine.forks import Forced
from engine.rounds import ContentCheck, ModelInfo, Round, RunEnd, RunHeader
from engine.run_copy import FirstRounds
from engine.settings import Settings
from engine.text import Vocabulary

log = logging.getLogger("draftscope.worker")

STATES = ("idle", "loading", "ready", "running", "paused", "stopping", "failed")
BUNDLED = "bundled"
"""As `target` and `draft` of `load`: the pair that comes with the program."""
Progress = Callable[[str, int, int], bool]
"""Told of (stage, done, total), total 0 where unknown; returns True to cancel."""

_REPORT_EVERY = 0.25  # seconds between two looks at MLX's memory
_PROGRESS_EVERY = 0.05  # seconds between two reports of progress


@dataclasses.dataclass(frozen=True)
class PairSummary:
    """What the window knows of a loaded pair; holds no model. `encode` and `chat` may be called on any thread.

    `chat`: see `engine.models.LanguageModel`. `asked`: the two models as they were asked for; None for the toy.
    `drafter`: the one that was asked for with the pair, "" for none. `layer_sizes`: parameters of the target's layers.
    """

    target: ModelInfo
    draft: ModelInfo | None
    vocabulary: Vocabulary
    notices: tuple[str, ...]
    backend: str
    encode: Callable[[str], list[int]]
    chat: Callable[[Sequence[dict[str, str]]], str] | None = None
    asked: tuple[str, str | None] | None = None
    drafter: str = ""
    layer_sizes: tuple[int, ...] = ()


class Delivery(NamedTuple):
    """One item of a run on its way to the GUI thread, with the id that its run's header carries."""

    run_id: int
    item: RunHeader | Round | RunEnd | ContentCheck | Hit


@dataclasses.dataclass(frozen=True)
class Fork:
    """A recorded run to go on from: its header, its first rounds, and what is to happen in the next round.

    `rounds` are read on the worker thread, and closed there. `note`: one sentence on where it forked and what was
    changed.
    """

    header: RunHeader
    rounds: FirstRounds
    forced: Forced | None
    note: str


class EngineRoom:
    """The engine as the worker uses it. Made, used and closed on the worker thread; tests put others in its place."""

    def __init__(self) -> None:
        self._pair: Any = None

    def describe(self) -> tuple[str, str]:
        """(MLX version, device and BLAS)."""
        from engine.backend import describe_backend, mlx_version

        return mlx_version(), describe_backend()

    def load(
        self,
        target: str,
        draft: str | None,
        progress: Progress,
        *,
        drafter: str = "",
        unpack: bool = False,
        allow_large: bool = False,
    ) -> PairSummary:
        """Load a pair; it takes the place of the one before only if all went well, the making of `drafter` too."""
        from engine.models import bundled_pair_folders, load_pair

        def place(name: str, role: int) -> str:
            return str(bundled_pair_folders()[role]) if name == BUNDLED else name

        drafting = None if draft is None else place(draft, 1)
        pair = load_pair(place(target, 0), drafting, progress, unpack=unpack, allow_large=allow_large)
        return self._take(pair, drafter, progress)

    def load_toy(self, drafter: str = "") -> PairSummary:
        """Take the 6-token toy."""
        from engine.toy import toy_pair

        return self._take(toy_pair(), drafter)

    def _take(self, pair: Any, drafter: str = "", progress: Progress | None = None) -> PairSummary:
        from engine.backend import describe_backend, mx

        if drafter:
            from engine.drafting import draft_network
            from engine.model_files import report

            report(progress, f"Making the drafter {drafter}")
            draft_network(pair, drafter)
        self._pair = pair
        mx.clear_cache()  # what the pair before held
        target, draft = pair.target, pair.draft
        return PairSummary(
            target.info,
            draft.info if draft is not None else None,
            target.vocabulary,
            tuple(pair.notices),
            describe_backend(),
            target.encode,
            target.chat,
            layer_sizes=_layer_sizes(target.network),
        )

    def generator(self, settings: Settings) -> Any:
        """A SpeculativeGenerator over the loaded pair; the window's toggles decide, not the environment."""
        from engine.generator import SpeculativeGenerator

        if self._pair is None:
            raise ValueError("No models are loaded: choose a pair first.")
        return SpeculativeGenerator(self._pair, settings, stochastic=settings.stochastic)

    def memory_bytes(self) -> tuple[int, int]:
        """(active, cache) bytes of MLX."""
        from engine.backend import memory_bytes

        return memory_bytes()

    def close(self) -> None:
        """Let go of the models and of the thread's streams; without the latter a process may abort at exit."""
        import sys

        self._pair = None
        if "engine.backend" in sys.modules:
            from engine.backend import mx

            if hasattr(mx, "clear_streams"):
                mx.clear_streams()


def _layer_sizes(network: Any) -> tuple[int, ...]:
    """Parameters of each layer; empty for a network whose layers aren't known by that name."""
    from mlx_lm.utils import get_total_parameters

    layers = getattr(getattr(getattr(network, "network", network), "model", None), "layers", None)
    return tuple(int(get_total_parameters(layer)) for layer in layers) if isinstance(layers, list) else ()


def plain_message(error: BaseException) -> str:
    """What a person is told of an exception; the engine's own messages stand for themselves."""
    return str(error) if isinstance(error, ValueError) and str(error) else f"{type(error).__name__}: {error}"


class Worker(QObject):
    """Owns the engine's thread. Commands are called, and signals come, on the GUI thread; nothing here blocks it.

    Signals: `state_changed` (one of STATES), `loaded` (PairSummary), `load_failed`, `run_failed` (plain text),
    `change_refused` (plain text: the engine wouldn't have a live change; the run goes on as it was),
    `progress` (what, done, total), `described` (MLX version, device and BLAS), `arrived` (the deque isn't empty
    any more: call `drain`), `checked` (a content check that was asked for is over; what it failed of, or ""),
    `noted` (what became of a stop condition that didn't pause the run), `job_changed` (`job` is another one, or
    none). They are emitted by the GUI thread whatever they are connected to.
    `failure`: what the last command failed of. `memory`: (active, cache) bytes of MLX as the thread last saw it.
    `checking`: a content check is asked for and not over. `can_check`: a run ended whose caches are still there.
    """

    state_changed = Signal(str)
    loaded = Signal(object)
    load_failed = Signal(str)
    run_failed = Signal(str)
    change_refused = Signal(str)
    progress = Signal(str, object, object)  # object: Qt's int has 32 bits, these may be bytes
    described = Signal(str, str)
    arrived = Signal()
    checked = Signal(str)
    noted = Signal(str)
    job_changed = Signal()

    _posted = Signal(str, object)
    _woken = Signal()

    def __init__(self, engine: Callable[[], Any] = EngineRoom, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = "idle"
        self.failure = ""
        self.memory = (0, 0)
        self._engine = engine
        self._pace = 0.0
        self._check_every = 0
        self._breakpoints: tuple[Breakpoint, ...] = ()
        self.checking = False
        self.can_check = False
        self._kept: _Run | None = None  # the worker thread's: the last run, for checks of its caches
        self._pair_loaded = False
        self.job: Job | None = None
        self._command = 0  # number of the last command; only its outcome decides the state
        self._gate: RunGate | None = None
        self._loads: dict[int, threading.Event] = {}  # loads not yet over, with their cancel flags
        self._commands: SimpleQueue[Callable[[Any], None] | None] = SimpleQueue()
        self._out: deque[Delivery] = deque()
        self.must_wait: Callable[[], bool] = lambda: False
        """Asked on the worker's thread before a round is handed over: whether it must wait."""
        self._wake_sent = threading.Event()
        self._closing = threading.Event()
        self._posted.connect(self._on_posted, Qt.ConnectionType.QueuedConnection)
        self._woken.connect(self.arrived, Qt.ConnectionType.QueuedConnection)
        # A daemon, so that a main thread that dies of an exception isn't held back; shutdown() joins it.
        self._thread = threading.Thread(target=self._serve, name="draftscope-engine", daemon=True)
        self._thread.start()

    # Commands, GUI thread.

    @property
    def pausing(self) -> bool:
        """A pause stands or is on its way in the run that goes."""
        return self.state in ("running", "paused") and self._gate is not None and self._gate.pausing

    def warm_up(self) -> None:
        """Import MLX now; `described` says what was found, `load_failed` why it failed."""
        self._commands.put(self._do_describe)

    def load(self, target: str, draft: str | None, **options: Any) -> None:
        """Load a pair by paths, cached ids or BUNDLED; loads never run side by side. For the options see EngineRoom."""
        told = {"asked": (target, draft), "drafter": options.get("drafter", "")}
        self._queue_load(
            lambda room, progress: dataclasses.replace(room.load(target, draft, progress, **options), **told)
        )

    def load_toy(self, **options: Any) -> None:
        """Load the 6-token toy."""
        told = {"drafter": options.get("drafter", "")}
        self._queue_load(lambda room, progress: dataclasses.replace(room.load_toy(**options), **told))

    def run(
        self,
        prompt: str | Sequence[int],
        settings: Settings,
        pause_after: int | None = None,
        until: str | None = None,
        fork: Fork | None = None,
    ) -> None:
        """Start a run; it pauses after `pause_after` rounds, or behind the one that meets the condition `until`.

        A run that is stopping ends first. `fork`: the recorded run to go on from; it has the prompt.
        """
        self._refuse_in("running", "paused", "loading")
        self._refuse_in_job()
        number = self._next_command()
        self._gate = RunGate(
            pace=self._pace,
            rounds=pause_after,
            until=until,
            check_every=self._check_every,
            on_parked=partial(self._post, "parked", number),
        )
        self._gate.breakpoints = self._breakpoints
        self.can_check = False
        self._commands.put(partial(self._do_run, number, self._gate, prompt, settings, fork))
        self._enter("running")

    def change(self, **live: Any) -> None:
        """Change live settings of the run from its next round on. Raises SettingsError for others."""
        Settings().with_live(live)
        if self._gate is not None:
            self._gate.change(live)

    def pause(self) -> None:
        """Pause at the next round boundary."""
        if self._gate is not None and self.state == "running":
            self._gate.pause()

    def resume(self) -> None:
        """Go on, or take back a pause that hasn't come yet."""
        if self._gate is not None and self.state in ("running", "paused"):
            self._gate.go()
            self._enter("running")

    def run_to(self, condition: str) -> None:
        """Go on until a round meets a stop condition (engine.breakpoints), and pause right behind it."""
        if self._gate is not None and self.state in ("running", "paused"):
            self._gate.go(until=condition)
            self._enter("running")

    @property
    def why_paused(self) -> str:
        """What the round before the pause met, or "" where a hand asked for the pause."""
        return self._gate.why if self._gate is not None and self.state == "paused" else ""

    def check(self) -> None:
        """Check what the caches hold: in a pause, or where `can_check`; `checked` says that it is over."""
        if self.state == "paused" and self._gate is not None:
            self.checking = True
            self._gate.ask_check()
        elif self.state == "ready" and self.can_check:
            self.checking = True
            self._commands.put(self._do_check)

    def set_check_every(self, rounds: int) -> None:
        """Check what the caches hold behind every so many rounds, 0: never; takes effect at once."""
        self._check_every = rounds
        if self._gate is not None:
            self._gate.check_every = rounds

    def set_breakpoints(self, breakpoints: Sequence[Breakpoint]) -> None:
        """Pause behind rounds that meet one of these; holds from the next round on."""
        self._breakpoints = tuple(breakpoints)
        if self._gate is not None:
            self._gate.breakpoints = self._breakpoints

    def step(self) -> None:
        """From a pause: exactly one round (the state stays `paused`). While running: pause after the next round."""
        if self._gate is not None and self.state in ("running", "paused"):
            self._gate.step()

    def stop(self) -> None:
        """End the run at the next round boundary, or the loading at its next report."""
        if self._gate is not None and self.state in ("running", "paused"):
            self._gate.stop()
            self._enter("stopping")
        elif self.state == "loading":
            for cancelled in self._loads.values():
                cancelled.set()
            self._enter("stopping")

    def start_job(self, title: str, steps: Steps) -> Job:
        """Run a job on the engine's thread: one at a time, and only while no run and no loading goes."""
        self._refuse_in("running", "paused", "stopping", "loading")
        self._refuse_in_job()
        self.job = Job(title, steps, self)
        self.job.over.connect(self._on_job_over)
        self._commands.put(partial(self._do_job, self.job))
        self.job_changed.emit()
        return self.job

    def set_pace(self, seconds_between_rounds: float) -> None:
        """Least seconds from one round's beginning to the next; 0 is full speed. Takes effect at once."""
        self._pace = seconds_between_rounds
        if self._gate is not None:
            self._gate.set_pace(seconds_between_rounds)

    def shutdown(self, timeout: float = 5.0) -> bool:
        """Stop everything and join the thread; False if it is still busy after `timeout` seconds. May be repeated."""
        if not self._closing.is_set():
            self._closing.set()
            if self._gate is not None:
                self._gate.stop()
            if self.job is not None:
                self.job.close()
            for cancelled in self._loads.values():
                cancelled.set()
            self._commands.put(None)
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def drain(self, budget_seconds: float) -> Iterator[Delivery]:
        """Take what has arrived, in order, until nothing is left or the time, the caller's work included, is up."""
        self._wake_sent.clear()
        until = time.perf_counter() + budget_seconds
        while self._out:
            yield self._out.popleft()
            if time.perf_counter() >= until:
                return

    @property
    def waiting(self) -> int:
        """Items that have arrived and weren't drained."""
        return len(self._out)

    # The state, GUI thread.

    def _next_command(self) -> int:
        self._command += 1
        return self._command

    def _refuse_in(self, *states: str) -> None:
        if self._closing.is_set() or self.state in states:
            raise RuntimeError(f"not possible while {'closing' if self._closing.is_set() else self.state}")

    def _refuse_in_job(self) -> None:
        if self.job is not None:
            raise RuntimeError(f"not possible during a job: {self.job.title}")

    def _on_job_over(self) -> None:
        job, self.job = self.job, None
        if job is not None:
            job.deleteLater()
        self.job_changed.emit()

    def _queue_load(self, load: Callable[[Any, Progress], PairSummary]) -> None:
        self._refuse_in("running", "paused")
        self._refuse_in_job()
        number = self._next_command()
        cancelled = self._loads[number] = threading.Event()
        self._commands.put(partial(self._do_load, number, cancelled, load))
        self._enter("loading")

    def _enter(self, state: str) -> None:
        if state != self.state:
            self.state = state
            self.state_changed.emit(state)

    def _on_posted(self, kind: str, payload: Any) -> None:
        if self._closing.is_set():
            return
        if kind == "progress":
            self.progress.emit(*payload)
        elif kind == "refused":
            self.change_refused.emit(payload)
        elif kind == "described":
            self.described.emit(*payload)
        elif kind == "parked":
            current = payload == self._command and self._gate is not None and self._gate.parked
            if current and self.state == "running":
                self._enter("paused")
        elif kind == "load over":
            self._after_load(*payload)
        elif kind == "checked":
            self._after_check(payload)
        elif kind == "noted":
            self.noted.emit(payload)
        elif kind == "run over":
            number, failure, kept = payload
            self.can_check = kept and number == self._command
            self._finish(number, failure, self.run_failed)
            if self.checking:
                self._after_check("")  # the run was stopped before its turn came
        else:
            raise ValueError(kind)

    def _after_load(self, number: int, pair: PairSummary | None, failure: str | None) -> None:
        self._loads.pop(number, None)
        self._pair_loaded = self._pair_loaded or pair is not None
        if pair is not None:
            self.can_check = False
            self.loaded.emit(pair)
        self._finish(number, failure, self.load_failed)

    def _after_check(self, failure: str) -> None:
        self.checking = False
        self.checked.emit(failure)

    def _finish(self, number: int, failure: str | None, failed: Any) -> None:
        # A newer command has set a state of its own; the older one's end must not disturb it.
        self.failure = failure or ""
        if number == self._command:
            self._enter("failed" if failure else "ready" if self._pair_loaded else "idle")
        if failure:
            failed.emit(failure)

    # The worker thread.

    def _serve(self) -> None:
        room = None
        try:
            room = self._engine()
            while (command := self._commands.get()) is not None:
                command(room)
                del command  # it may hold a generator's arrays, which must die on this thread
        except Exception:
            log.exception("the engine's thread ended by a fault of its own")
            self._post("load over", (self._command, None, "The engine's thread ended; see the log."))
        finally:
            self._kept = None  # its arrays must die on this thread
            if room is not None:
                room.close()

    def _post(self, kind: str, payload: Any) -> None:
        if not self._closing.is_set():
            self._posted.emit(kind, payload)

    def _wait_for_the_file(self) -> None:
        """Let what keeps the rounds catch up, which is said once each time; a stop isn't held up."""
        said = False
        while self.must_wait() and not self._closing.is_set() and not (self._gate is not None and self._gate.stopping):
            if not said:
                self._post("noted", "The run waits for the disk: rounds come faster than they can be recorded.")
                said = True
            time.sleep(0.005)

    def _deliver(self, run_id: int, item: RunHeader | Round | RunEnd | ContentCheck | Hit) -> None:
        if isinstance(item, Round):
            self._wait_for_the_file()
        self._out.append(Delivery(run_id, item))
        # One signal per drain, not per round: a queued signal costs ten times a deque's append.
        if not self._wake_sent.is_set() and not self._closing.is_set():
            self._wake_sent.set()
            self._woken.emit()

    def _do_describe(self, room: Any) -> None:
        try:
            self._post("described", room.describe())
        except Exception as error:
            log.exception("MLX could not be loaded")
            self._post("load over", (0, None, plain_message(error)))

    def _do_load(self, number: int, cancelled: threading.Event, load: Callable[..., PairSummary], room: Any) -> None:
        reporter = _Progress(self._post, cancelled)
        pair, failure = None, None
        try:
            if not cancelled.is_set():
                reporter.report("Loading", 0, 0)
                self._post("described", room.describe())
                pair = load(room, reporter.report)
                self._kept = None
                self.memory = room.memory_bytes()
        except Exception as error:
            # A loader that was told to stop raises an error of its own; the flag tells it from others.
            if cancelled.is_set():
                log.info("loading was cancelled")
            else:
                log.log(_level(error), "loading failed", exc_info=True)
                failure = plain_message(error)
        self._post("load over", (number, pair, failure))

    def _do_run(
        self,
        number: int,
        gate: RunGate,
        prompt: str | Sequence[int],
        settings: Settings,
        fork: Fork | None,
        room: Any,
    ) -> None:
        failure = self._kept = None
        if not gate.stopping:
            run = _Run(number, gate, partial(self._deliver, number), self._post)
            try:
                if fork is None:
                    run.start(room, prompt, settings)
                else:
                    with closing(fork.rounds):
                        run.fork(room, fork, settings)
                for _ in run.rounds():
                    self._look_at_memory(room, run)
                failure = run.finish()
                self._kept = run if run.can_check else None
            except Exception as error:
                log.log(_level(error), "the run failed", exc_info=True)
                failure = plain_message(error)
                run.abandon(failure)
            self.memory = room.memory_bytes() if run.header is not None else self.memory
        self._post("run over", (number, failure, self._kept is not None))

    def _do_job(self, job: Job, room: Any) -> None:
        failure = job.work(room)
        self.memory = room.memory_bytes()
        job.tell_end(failure)

    def _do_check(self, room: Any) -> None:
        failure = self._kept.check() if self._kept is not None else ""
        self.memory = room.memory_bytes()
        self._post("checked", failure)

    def _look_at_memory(self, room: Any, run: _Run) -> None:
        now = time.monotonic()
        if now - run.looked >= _REPORT_EVERY:
            run.looked = now
            self.memory = room.memory_bytes()


def _level(error: BaseException) -> int:
    """What the user can mend is no fault of the program."""
    return logging.INFO if isinstance(error, ValueError) else logging.ERROR


class _Progress:
    """Reports progress to the GUI thread, not too often, and ends the job when it was cancelled."""

    def __init__(self, post: Callable[[str, Any], None], cancelled: threading.Event) -> None:
        self._post, self._cancelled = post, cancelled
        self._last = -1.0

    def report(self, what: str, done: int, total: int) -> bool:
        now = time.monotonic()
        if now - self._last >= _PROGRESS_EVERY or done == total:
            self._last = now
            self._post("progress", (what, done, total))
        return self._cancelled.is_set()


class _Run:
    """One run on the worker thread, from its generator to its end."""

    def __init__(
        self, run_id: int, gate: RunGate, deliver: Callable[..., None], post: Callable[[str, Any], None]
    ) -> None:
        self.run_id, self.gate, self.deliver, self.post = run_id, gate, deliver, post
        self.header: RunHeader | None = None
        self.looked = 0.0
        self.can_check = False
        self._generator: Any = None
        self._checker: Checker | None = None
        self._before: Round | None = None
        self._began = time.perf_counter()

    def start(self, room: Any, prompt: str | Sequence[int], settings: Settings) -> None:
        """Prefill. Raises what the engine raises for a prompt or settings that can't be run."""
        self._generator = room.generator(settings)
        header = self._generator.start(prompt, self._prefilled)
        self.header = dataclasses.replace(header, run_id=self.run_id)
        self._checker = Checker(self.header)
        self.deliver(self.header)

    def fork(self, room: Any, fork: Fork, settings: Settings) -> None:
        """Repeat the recorded rounds, and deliver them as this run's own first ones."""
        self._generator = room.generator(settings)
        header = self._generator.fork(fork.header, fork.rounds, fork.forced, self._repeated)
        notices = (*header.notices, fork.note)
        self.header = dataclasses.replace(header, run_id=self.run_id, notices=notices)
        self._checker = Checker(self.header)
        self.deliver(self.header)
        for record in fork.rounds:
            self.deliver(record)
            self._checker.see(record)
            self._before = record

    def _repeated(self, done: int, total: int) -> bool:
        self.post("progress", ("Repeating the recorded rounds", done, total))
        return self.gate.stopping

    def _prefilled(self, done: int, total: int) -> bool:
        self.post("progress", ("Reading the prompt", done, total))
        return self.gate.stopping

    def rounds(self) -> Iterator[Round]:
        """Deliver round after round until the run ends by itself or is stopped."""
        source = self._generator.rounds()
        while self._generator.end is None:
            if not self.gate.pass_boundary(self._check_as_asked):
                self._generator.cancel()
            for changes in self.gate.take_changes():
                self._change(changes)
            record = next(source, None)
            if record is None:
                return
            self.deliver(record)
            self._check_breakpoints(record)
            self.gate.watch(record, self._before)
            self._before, self.can_check = record, True
            self._check_in_turn(record)
            yield record

    def _check_breakpoints(self, record: Round) -> None:
        hit = self._checker.see(record, self.gate.breakpoints) if self._checker is not None else None
        if hit is not None:
            self.deliver(hit)
            self.gate.break_for(hit.why)

    def check(self) -> str:
        """Check what both caches hold, and deliver the result; gives what it failed of, or ""."""
        try:
            self.deliver(self._generator.check_contents())
        except Exception as error:
            log.log(_level(error), "the check of the caches' contents failed", exc_info=True)
            return plain_message(error)
        return ""

    def _check_as_asked(self) -> None:
        self.post("checked", self.check())

    def _check_in_turn(self, record: Round) -> None:
        every, end = self.gate.check_every, self._generator.end
        failed = end is not None and end.finish_reason == "error"
        if every and (record.index + 1) % every == 0 and not failed and (failure := self.check()):
            self.gate.check_every = 0
            self.post("checked", failure)

    def _change(self, changes: dict[str, Any]) -> None:
        try:
            self._generator.change(**changes)
        except ValueError as error:
            self.post("refused", plain_message(error))

    def finish(self) -> str | None:
        """Deliver the end; returns what failed, if the engine says so."""
        # A check behind the last round came after the generator had drawn its sums.
        end: RunEnd = dataclasses.replace(self._generator.end, check_syncs=self._generator.check_syncs)
        self.deliver(end)
        gate = self.gate
        if gate.broke and not gate.stopping:
            self.post("noted", f"The run ended with the round behind which it would have paused: {gate.why}.")
        elif gate.why and not gate.stopping:
            self.post("noted", f"The run ended with the round that was run to: {gate.why}.")
        elif gate.until is not None and not gate.stopping:
            self.post("noted", f"The run ended without {STOP_CONDITIONS[gate.until].title}.")
        failed = end.finish_reason == "error"
        self.can_check = self.can_check and not failed
        return end.notice if failed else None

    def abandon(self, failure: str) -> None:
        """Close the recorded run after an exception: a header that went out gets its end."""
        if self.header is None:
            return
        seconds = time.perf_counter() - self._began
        self.deliver(RunEnd("error", failure, "", "", self._generator.host_syncs, seconds))
