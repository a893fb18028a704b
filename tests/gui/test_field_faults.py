"""Faults of the field in the window: what is typed, shown and copied, and an engine that fails under it."""

from __future__ import annotations

import dataclasses
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pyqtgraph as pg
import pytest
from fakes import fake_header, fake_run
from PySide6.QtGui import QGuiApplication, Qt
from pytestqt.qtbot import QtBot

from app.format import visible_text
from app.headless.request import TOY_PROMPT
from app.headless.show import _speed
from app.panels.acceptance import AcceptancePanel
from app.panels.rounds_model import RoundsModel
from app.panels.rounds_table import RoundsTablePanel
from app.panels.text_end import text_end
from app.panels.token_cells import ACCEPTED, cells_of
from app.panels.token_stream import TokenStreamPanel
from app.session import Session
from app.status_bar import StatusBar
from app.view import View
from app.worker import EngineRoom
from engine.recording import RecordedRun
from engine.rounds import RunEnd
from engine.settings import SamplerSettings, Settings
from engine.text import Vocabulary, toy_vocabulary
from tests.gui.fake_engine import FakeRoom, Script
from tests.gui.windows import Opener, show_run

GREEDY = SamplerSettings(temperature=0.0)


@pytest.fixture
def session(qtbot: QtBot, script: Script) -> Iterator[Session]:
    made = Session(lambda: FakeRoom(script))
    yield made
    assert made.shutdown()


def spoken_run(words: Sequence[str], answer: Sequence[int], *, k: int = 4, stop: tuple[str, ...] = ()) -> RecordedRun:
    """A run of the real engine whose target says `answer` and drafts for itself."""
    from engine.generator import SpeculativeGenerator
    from engine.models import Pair
    from engine.toy import PositionModel, toy_model

    table = [[9.0 if token == wanted else 0.0 for token in range(len(words))] for wanted in answer]
    model = toy_model(PositionModel(table), words)
    settings = Settings(sampler=GREEDY, seed=1, max_tokens=len(answer), num_draft_tokens=k, stop=stop)
    generator = SpeculativeGenerator(Pair(model, model), settings)
    run = RecordedRun(generator.start([0]))
    for record in generator.rounds():
        run.append(record)
    run.end = generator.end
    return run


def test_r71_the_k_that_is_typed_reaches_the_engine(qtbot: QtBot, open_window: Opener, script: Script) -> None:
    window = open_window(script)
    field = window.controls.fields["num_draft_tokens"]
    field.selectAll()
    qtbot.keyClicks(field, "5")
    qtbot.keyClick(field, Qt.Key.Key_Return)
    script.rounds = 3
    window.actions_by_name["run"].trigger()
    qtbot.waitUntil(lambda: bool(script.named("start")), timeout=5000)
    assert script.named("start")[0][1].num_draft_tokens == 5
    qtbot.waitUntil(lambda: window.session.state == "ready", timeout=5000)


# Text


@pytest.mark.parametrize("k", [0, 2, 4])
def test_r64_the_rounds_table_shows_where_the_text_ended(k: int) -> None:
    run = spoken_run([" ha", " ho", " hi"], [1, 0, 0, 0, 2, 2], k=k, stop=(" ha ha ha",))
    assert run.tokens == [1, 0, 0, 0]
    assert run.end is not None
    assert (run.end.finish_reason, run.end.text) == ("stop", " ho")
    found = text_end(run)
    assert found is not None
    assert (found.tokens, found.cut) == (3, " ha ha ha")
    model = RoundsModel()
    model.set_run(run)
    behind = [model.behind_the_text(record) for record in run]
    assert sum(behind) == 3
    assert [len(record.emitted) - b for record, b in zip(run, behind, strict=True)] == {
        0: [1, 0, 0, 0],
        2: [1, 0],
        4: [1],
    }[k]
    assert 'the text ends before " ha ha ha"' in model.tip(len(run) - 1)


@pytest.mark.parametrize(
    ("words", "answer", "stop", "tokens", "cut"),
    [
        (["x", "al", "pha be", "ta ga", "mma on", "."], [1, 2, 3, 4, 5], "beta gamma", 3, "beta gamma on"),
        (["x", "a🙂b", "c"], [1, 2, 1], "🙂b", 1, "🙂b"),
        (["x", "a", "aa", "b"], [1, 1, 2, 3, 1], "aab", 2, "aab"),
    ],
)
def test_r64_a_token_may_be_cut_within(words: list[str], answer: list[int], stop: str, tokens: int, cut: str) -> None:
    run = spoken_run(words, answer, stop=(stop,))
    found = text_end(run)
    assert found is not None
    assert (found.tokens, found.cut) == (tokens, cut)
    assert run.end is not None
    assert run.end.text + cut == run.header.vocabulary.decode(run.tokens)


def test_r64_a_text_that_holds_all_its_tokens_has_no_such_end(qtbot: QtBot) -> None:
    for stop in ((), ("nothing of the kind",)):
        run = spoken_run([" ha", " ho"], [1, 0, 1, 0, 1], stop=stop)
        assert text_end(run) is None
        run.end = dataclasses.replace(run.end, finish_reason="stop")  # type: ignore[type-var]
        assert text_end(run) is None, "an end-of-sequence token, or a file that says nonsense"


def test_r64_the_end_is_drawn_once_it_is_known(qtbot: QtBot, view: View) -> None:
    run = spoken_run([" ha", " ho", " hi"], [1, 0, 0, 0, 2, 2], stop=(" ha ha ha",), k=0)
    end, run.end = run.end, None
    panel = RoundsTablePanel(view)
    qtbot.addWidget(panel)
    panel.resize(700, 200)
    panel.show()
    view.show_run(run)
    view.select(0)
    before = panel.table.viewport().grab().toImage()
    view.notify_advanced()
    assert panel.table.viewport().grab().toImage() == before
    run.end = end
    view.notify_advanced()
    after = panel.table.viewport().grab().toImage()
    assert after != before
    panel.table.forget_pictures()
    assert panel.table.viewport().grab().toImage() == after


def test_r64_the_text_that_is_copied_ends_before_the_stop_string(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window()
    copy = window.actions_by_name["copy_text"]
    for stop, text in (((" ha ha ha",), " ho"), ((" ho",), ""), ((), " ho ha ha ha hi")):
        run = spoken_run([" ha", " ho", " hi"], [1, 0, 0, 0, 2], stop=stop)
        show_run(window, run)
        qtbot.waitUntil(copy.isEnabled, timeout=2000)
        copy.trigger()
        assert QGuiApplication.clipboard().text() == text
    run.end = RunEnd("error", "given up", "", "", 0, 0.0)
    copy.trigger()
    assert QGuiApplication.clipboard().text() == " ho ha ha ha hi"


HOSTILE = ["<b>x</b> & <eos>", "a\u2028b", "c\u00a0d", "e\r\nf", "\x00", "<img src=x>", "&amp;"]


def test_r109_text_is_shown_literally_and_copied_unaltered(qtbot: QtBot, view: View) -> None:
    run = spoken_run(HOSTILE, [*range(len(HOSTILE)), 0])
    panel = TokenStreamPanel(view)
    qtbot.addWidget(panel)
    panel.show()
    view.show_run(run)
    panel.copy()
    assert QGuiApplication.clipboard().text() == run.header.prompt + "".join(HOSTILE) + HOSTILE[0]
    shown = [visible_text(run.header.vocabulary, token) for token in range(len(HOSTILE))]
    assert shown[0] == "<b>x</b>·&·<eos>"
    assert shown[1:3] == ["a<U+2028>b", "c<U+00A0>d"]
    assert shown[4:] == ["<U+0000>", "<img·src=x>", "&amp;"]
    model = RoundsModel()
    model.set_run(run)
    assert not any(Qt.mightBeRichText(model.tip(row)) for row in range(len(run)))
    assert "<b>x</b>·&·<eos>" in model.text(0, "text")


def test_r98_bytes_that_are_no_text_yet_are_shown_as_bytes() -> None:
    face = Vocabulary(tuple(bytes([byte]) for byte in "🙂".encode()), frozenset(), {}, frozenset())
    assert [visible_text(face, token) for token in range(4)] == ["<0xF0>", "<0x9F>", "<0x99>", "<0x82>"]
    assert visible_text(toy_vocabulary(["🙂"]), 0) == "🙂"


# Figures


def test_r82_only_accepted_drafts_are_coloured_as_such() -> None:
    for rule in ("stochastic", "sampler-match", "greedy-argmax"):
        run = fake_run(40, rule, distributions=False)
        cells = cells_of(run, 0, len(run), True)
        assert (cells.kind == ACCEPTED).sum() == run.statistics.accepted > 0
    never = RecordedRun(fake_header())
    for record in fake_run(400, distributions=False):
        if record.accepted == 0:
            never.append(dataclasses.replace(record, index=len(never)))
    assert len(never) > 5
    assert not (cells_of(never, 0, len(never), True).kind == ACCEPTED).any()


@pytest.mark.parametrize("seconds", [0.0, 1e-320, 0.004])
def test_r84_a_very_short_run_has_a_finite_speed_or_none(open_window: Opener, seconds: float) -> None:
    window = open_window()
    short = fake_run(1, k=0)
    part = dataclasses.replace(short[0].timings, draft=seconds, verify=0.0, decide=0.0, rewind=0.0)
    run = RecordedRun(short.header)
    run.append(dataclasses.replace(short[0], timings=part))
    show_run(window, run)
    (bar,) = window.findChildren(StatusBar)
    text = bar.items["speed"].text()
    assert re.fullmatch(r"-|\d+", text.removesuffix(" tok/s")), text
    assert (text == "- tok/s") == (seconds < 1e-300)
    assert re.search(r": (-|[\d.]+) a second$", _speed(run))


def test_r84_a_run_stopped_before_its_first_token_has_figures_of_nothing(open_window: Opener, qtbot: QtBot) -> None:
    window = open_window()
    run = RecordedRun(fake_header())
    run.end = RunEnd("cancelled", "Stopped.", "", "", 0, 0.0)
    show_run(window, run)
    (bar,) = window.findChildren(StatusBar)
    assert bar.items["speed"].text() == ""
    for text in (item.text() for item in bar.items.values()):
        assert "nan" not in text.lower()
        assert "inf" not in text.lower()


def test_r145_curves_are_set_on_the_main_thread_alone(
    qtbot: QtBot, session: Session, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    points: list[int] = []
    set_data = pg.PlotCurveItem.setData

    def noted(self: Any, *args: Any, **options: Any) -> Any:
        threads.add(threading.get_ident())
        points.append(len(args[0]) if args else 0)
        return set_data(self, *args, **options)

    monkeypatch.setattr(pg.PlotCurveItem, "setData", noted)
    panel = AcceptancePanel(session.view)
    qtbot.addWidget(panel)
    panel.resize(900, 140)
    panel.show()
    script.rounds = 500
    with qtbot.waitSignal(session.run_ended, timeout=20_000):
        session.start_run("x", Settings())
    qtbot.waitUntil(lambda: max(points) >= 500, timeout=5000)
    assert threads == {threading.get_ident()}
    assert script.threads != threads


# A model that fails under the window


class Failing:
    """A network that fails at a pass, once."""

    def __init__(self, network: Any) -> None:
        self.network, self.left = network, -1

    def __call__(self, *args: Any, **options: Any) -> Any:
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("the device was lost")
        return self.network(*args, **options)


class FailingRoom(EngineRoom):
    """The real engine with the toy, one of whose networks fails as told."""

    failing: dict[str, Failing]

    def load_toy(self, drafter: str = "") -> Any:
        from engine.models import Pair
        from engine.toy import toy_pair

        pair = toy_pair()
        assert pair.draft is not None
        self.failing = {"target": Failing(pair.target.network), "draft": Failing(pair.draft.network)}
        target = dataclasses.replace(pair.target, network=self.failing["target"])
        return self._take(Pair(target, dataclasses.replace(pair.draft, network=self.failing["draft"])), drafter)


@pytest.mark.parametrize("who", ["target", "draft"])
@pytest.mark.allow_log("round [23] failed")
def test_a_model_that_fails_in_a_run_is_told_and_the_window_runs_again(qtbot: QtBot, who: str) -> None:
    rooms: list[FailingRoom] = []

    def room() -> FailingRoom:
        rooms.append(FailingRoom())
        return rooms[0]

    session = Session(room)
    told: list[tuple[str, str]] = []
    session.message.connect(lambda kind, text: told.append((kind, text)))
    try:
        session.load_toy()
        qtbot.waitUntil(lambda: session.state == "ready", timeout=60_000)
        settings = Settings(stochastic=True, seed=3, max_tokens=40, num_draft_tokens=2)
        session.start_run(TOY_PROMPT, settings, pause_after=2)
        qtbot.waitUntil(lambda: session.state == "paused", timeout=5000)
        rooms[0].failing[who].left = 1
        session.toggle_pause()
        qtbot.waitUntil(lambda: session.state == "failed", timeout=5000)
        assert told == [("error", "RuntimeError('the device was lost')")]
        kept = session.recording.runs[0]
        assert len(kept) == 2
        assert kept.end is not None
        assert kept.end.finish_reason == "error"
        assert "the device was lost" in kept.end.notice
        assert kept.end.text == kept.header.vocabulary.decode(kept.tokens)
        assert session.failure == "RuntimeError('the device was lost')"
        with qtbot.waitSignal(session.run_ended, timeout=20_000) as ended:
            session.start_run(TOY_PROMPT, settings)
        again = ended.args[0]
        assert again.end.finish_reason == "length"
        assert len(again.tokens) == 40
        assert again.tokens[: len(kept.tokens)] == kept.tokens, "the same seed"
        assert len(session.recording.runs) == 2
    finally:
        assert session.shutdown()
