"""Models in the window: loads that wait, fail or bring a drafter; how they are named; chat templates; the command."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from model_folders import write_folder
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QMessageBox
from pytestqt.qtbot import QtBot

from app import window_command
from app.__main__ import parser
from app.dialogs.model_chooser import ModelChooser
from app.dialogs.prompt_editor import PromptEditor, encoded_text
from app.main_window import MainWindow
from app.model_choice import (
    DRAFTER,
    NOTHING,
    TOY,
    Chosen,
    brief_name,
    drafting_words,
    from_plain,
    models_words,
    to_plain,
    with_newest,
)
from app.notices import DRAFTING, notices
from app.session import Session
from app.settings_store import MOST_RECENT
from app.worker import PairSummary
from engine.settings import Settings
from tests.gui.fake_engine import FakeRoom, Script
from tests.gui.fakes import fake_model, fake_vocabulary
from tests.gui.windows import Opener, store_in


def loaded(qtbot: QtBot, window: MainWindow, chosen: Chosen) -> None:
    window._load(chosen)
    qtbot.waitUntil(lambda: window.session.state in ("ready", "failed"), timeout=5000)


def banner(window: MainWindow) -> str:
    return "\n".join(notice.text for notice in window.banner.notices())


def again_button(window: MainWindow) -> Any:
    box = window.dialogs.errors
    assert isinstance(box, QMessageBox)
    return next((button for button in box.buttons() if button.text().startswith("Choose")), None)


def test_the_window_goes_on_while_loading_and_a_second_pick_waits(qtbot: QtBot, open_window: Opener) -> None:
    """R132: no frame is held up, and what is named is what is loaded."""
    script = Script(load_delay=0.3)
    window = open_window(script)
    ticks: list[float] = []
    timer = QTimer()
    timer.timeout.connect(lambda: ticks.append(time.monotonic()))
    timer.start(20)
    names: list[str] = []
    window.session.pair_changed.connect(lambda: names.append(window.controls.chosen.target))
    window._load(Chosen("/models/first", None))
    window._load(Chosen("/models/second", None))
    assert window.session.state == "loading"
    assert window.status.progress.isVisible() or window.session.progress is None
    qtbot.waitUntil(lambda: window.session.state == "ready", timeout=5000)
    timer.stop()
    assert script.named("load") == [("/models/first", None), ("/models/second", None)]
    assert script.most_loading == 1
    assert names == ["/models/first", "/models/second"], "each is named when it comes"
    assert len(ticks) > 10


def test_a_pick_during_a_run_is_refused_in_words(qtbot: QtBot, open_window: Opener) -> None:
    script = Script(round_delay=0.01)
    window = open_window(script)
    loaded(qtbot, window, Chosen("/models/first", None))
    window.session.start_run("a b c")
    qtbot.waitUntil(lambda: window.session.state == "running", timeout=5000)
    said: list[str] = []
    window.session.message.connect(lambda kind, text: said.append(text))
    window._load(Chosen("/models/second", None))
    assert said == ["A run stands: stop it first."]
    assert script.named("load") == [("/models/first", None)]
    window.session.stop()
    qtbot.waitUntil(lambda: window.session.state == "ready", timeout=5000)


def test_a_failed_load_keeps_the_pair_and_its_drafter_and_leads_back(qtbot: QtBot, open_window: Opener) -> None:
    script = Script()
    window = open_window(script)
    loaded(qtbot, window, Chosen("/models/good", None, "requantized:4"))
    assert window.session.settings.drafter == "requantized:4"
    script.fail_load = "/models/bad: no weights"
    loaded(qtbot, window, Chosen("/models/bad", "/models/d", "sample"))
    assert window.session.settings.drafter == "requantized:4", "the drafter comes with the pair, or not at all"
    assert window.controls.chosen.target == "/models/good"
    assert window.dialogs.errors is not None
    text = window.dialogs.errors.text()
    assert text.startswith("/models/bad: no weights")
    assert "What was loaded before stays in use: /models/good" in text
    again_button(window).click()
    dialog = window.dialogs.by_name["models"]
    assert isinstance(dialog, ModelChooser)
    assert dialog.isVisible()
    assert dialog.target.where.text() == "/models/bad"
    assert dialog.draft.where.text() == "/models/d"
    script.rounds = 2
    dialog.reject()
    window.session.start_run("a b")
    qtbot.waitUntil(lambda: window.session.state == "ready" and len(window.session.view.run or ()) == 2, timeout=5000)


def test_other_errors_lead_nowhere(open_window: Opener) -> None:
    window = open_window()
    window.session.message.emit("error", "The disk is full.")
    assert again_button(window) is None
    window.dialogs.errors.accept()


def test_the_chooser_loads_what_was_chosen_and_it_is_remembered(
    qtbot: QtBot, open_window: Opener, tmp_path: Path
) -> None:
    folder = write_folder(tmp_path / "tiny")
    script = Script()
    window = open_window(script)
    window.dialogs.choose_target(folder)
    dialog = window.dialogs.by_name["models"]
    assert isinstance(dialog, ModelChooser)
    dialog.drafter.set("requantized:8", False)
    qtbot.waitUntil(dialog.ok.isEnabled, timeout=5000)
    dialog.ok.click()
    qtbot.waitUntil(lambda: window.session.state == "ready", timeout=5000)
    assert script.named("load") == [(str(folder), None)]
    assert script.named("options") == [({"drafter": "requantized:8"},)]
    assert window.session.settings.drafter == "requantized:8"
    assert window.store.recent_pairs == [[str(folder), None, "requantized:8"]]
    window.dialogs.choose_models()
    again = window.dialogs.by_name["models"]
    assert isinstance(again, ModelChooser)
    assert again.recent.itemText(0) == "tiny, requantized:8"
    assert again.drafter.text() == "requantized:8"
    again.recent.setCurrentIndex(0)
    again.recent.activated.emit(0)
    again.remove.click()
    assert window.store.recent_pairs == []
    again.reject()


def test_pairs_are_remembered_newest_first_and_no_more_than_some(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for number in range(MOST_RECENT + 5):
        store.recent_pairs = with_newest(store.recent_pairs, Chosen(f"/m/{number}", None))
    store.recent_pairs = with_newest(store.recent_pairs, Chosen("/m/9", None))
    kept = from_plain(store_in(tmp_path).recent_pairs)
    assert len(kept) == MOST_RECENT
    assert [pair.target for pair in kept[:2]] == ["/m/9", f"/m/{MOST_RECENT + 4}"]
    assert kept[0] == Chosen(*to_plain(Chosen("/m/9", None)))
    junk: list[Any] = [None, "x", [1, 2, 3], ["", None, None], ["/a", None, "no such drafter"], ["/a", None], {}]
    assert from_plain([*junk, ["/good", None, "self"]]) == [Chosen("/good", None, "self")]


def test_a_drafter_without_a_model_stands_in_the_draft_box(qtbot: QtBot, open_window: Opener) -> None:
    script = Script()
    window = open_window(script)
    loaded(qtbot, window, Chosen("/models/big", None, "requantized:4"))
    box = window.controls.draft
    assert box.currentData() == DRAFTER
    assert box.currentText() == "requantized:4 2.2 M"
    assert "requantized:4 2.2 M" in window.windowTitle()
    window.session.change(drafter="prompt-lookup:3")
    assert box.currentText() == "prompt lookup (no model)"
    assert "prompt lookup (no model)" in window.status.items["models"].text()
    before = len(script.named("load"))
    box.chosen.emit(NOTHING)
    assert window.session.settings.drafter == "sample"
    assert box.currentData() == NOTHING
    assert len(script.named("load")) == before, "the same models stay"
    window.session.change(drafter="self")
    window.actions_by_name["load_bundled"].trigger()
    qtbot.waitUntil(lambda: len(script.named("load")) == before + 1 and window.session.state == "ready", timeout=5000)
    assert window.session.settings.drafter == "sample", "the bundled pair drafts with its own draft model"


def summary(**changes: Any) -> PairSummary:
    pair = PairSummary(
        fake_model("SmolLM2-135M-Instruct.Q4_1", 134_515_008, 30),
        fake_model("bundled draft", 614_880, 2),
        fake_vocabulary(),
        (),
        "CPU, no BLAS at all",
        lambda text: list(range(len(text.split()))),
        layer_sizes=(3_540_096,) * 30,
    )
    return dataclasses.replace(pair, **changes)


@pytest.mark.parametrize(
    ("drafter", "words"),
    [
        ("sample", "bundled 0.6 M"),
        ("prompt-lookup:3", "prompt lookup (no model)"),
        ("requantized:4", "requantized:4 134.5 M"),
        ("dropped:12-17", "dropped:12-17 113.3 M"),
        ("self", "self 134.5 M"),
    ],
)
def test_the_drafter_is_named_with_its_parameters(drafter: str, words: str) -> None:
    """R89."""
    settings = Settings(drafter=drafter)
    assert drafting_words(summary(), settings)[0] == words
    shown, tip = models_words(summary(), settings, 24)
    assert shown == f"SmolLM2-13….Q4_1 134.5 M / {words}"
    assert "134,515,008 parameters" in tip
    idle = models_words(summary(), dataclasses.replace(settings, num_draft_tokens=0))
    assert idle[0].endswith("(k 0: unused)")
    assert "plain decoding" in idle[1]


def test_a_long_name_keeps_its_size() -> None:
    model = fake_model("an-extraordinarily-long-name-of-a-model", 134_515_008, 30)
    assert brief_name(model, 20) == "an-extra…del 134.5 M"
    assert brief_name(fake_model("short", 600_000, 2), 20) == "short 0.6 M"


def test_the_banner_names_what_is_loaded_where_nothing_is_drafted(qtbot: QtBot, open_window: Opener) -> None:
    """R89: a drafter that is missing, unused, or the target itself."""
    window = open_window()
    session = window.session

    def told(pair: PairSummary, **changes: Any) -> str:
        session.pair = pair
        session.configure(settings=dataclasses.replace(Settings(), **changes))
        return "\n".join(notice.text for notice in notices(session) if notice.kind == DRAFTING)

    target = "target SmolLM2-135M-Instruct.Q4_1 (134.5 M parameters)"
    assert told(summary()) == ""
    assert target in told(summary(draft=None))
    assert told(summary(draft=None), drafter="self") == ""
    idle = told(summary(), num_draft_tokens=0)
    assert idle.startswith("k is 0")
    assert f"{target}, draft bundled draft (0.6 M parameters)" in idle
    same = "Target and draft are the same model (x): every draft agrees, no speed-up."
    assert target in told(summary(notices=(same,)))
    session.pair = None


# The chat template.


def template(messages: Sequence[dict[str, str]]) -> str:
    if any("forbidden" in message["content"] for message in messages):
        raise ValueError("The model's chat template can't be applied: forbidden")
    return "".join(f"[{message['role']}]{message['content']}" for message in messages) + "[assistant]"


def test_the_prompt_goes_into_the_template_and_is_shown_as_encoded(qtbot: QtBot) -> None:
    vocabulary = fake_vocabulary()
    end = len(vocabulary) - 1
    encoded: list[str] = []

    def encode(text: str) -> list[int]:
        encoded.append(text)
        return [end, 0, 1, end]

    editor = PromptEditor("hello", encode, chat=template, vocabulary=vocabulary, system="Be brief.")
    qtbot.addWidget(editor)
    editor.show()
    assert encoded[-1] == "hello"
    assert not editor.system_line.isVisible()
    editor.chat_box.setChecked(True)
    assert encoded[-1] == "[system]Be brief.[user]hello[assistant]"
    assert editor.system_line.isVisible()
    assert editor.encoded.toPlainText() == "<|endoftext|> the and<|endoftext|>"
    assert editor.encoded.toPlainText() == encoded_text(vocabulary, [end, 0, 1, end])
    editor.system_line.setText("  ")
    editor.count_now()
    assert encoded[-1] == "[user]hello[assistant]"
    editor.edit.setPlainText("forbidden")
    editor.count_now()
    assert "can't be applied" in editor.tokens.text()
    assert (editor.uses_chat(), editor.system(), editor.prompt()) == (True, "  ", "forbidden")


def test_without_a_template_it_is_said(qtbot: QtBot) -> None:
    editor = PromptEditor("hello", lambda text: [0], vocabulary=fake_vocabulary(), use_chat=True)
    qtbot.addWidget(editor)
    assert "no chat template" in editor.tokens.text()
    other = PromptEditor("hello", lambda text: [0], vocabulary=fake_vocabulary())
    qtbot.addWidget(other)
    assert not other.chat_box.isEnabled()
    assert "no chat template" in other.chat_box.toolTip()


def test_a_run_takes_the_whole_prompt(qtbot: QtBot, open_window: Opener) -> None:
    script = Script(rounds=1)
    window = open_window(script)
    session = window.session
    loaded(qtbot, window, Chosen("/models/big", None))
    session.configure(prompt="hello", chat=True, system="Be brief.")
    assert "has none, so the prompt goes as it stands" in banner(window)
    session.pair = dataclasses.replace(session.pair, chat=template)
    session.configure()
    assert "goes as it stands" not in banner(window)
    session.start_run()
    qtbot.waitUntil(lambda: session.state == "ready" and session.view.run is not None, timeout=5000)
    assert script.named("start")[0][0] == "[system]Be brief.[user]hello[assistant]"
    assert session.prompt == "hello"
    session.configure(prompt="forbidden")
    session.start_run()
    assert window.dialogs.errors is not None
    assert "can't be applied" in window.dialogs.errors.text()
    assert len(script.named("start")) == 1
    window.dialogs.errors.accept()


def test_what_the_editor_was_told_reaches_the_session(open_window: Opener) -> None:
    window = open_window()
    window.session.pair = summary(chat=template)
    window.actions_by_name["edit_prompt"].trigger()
    dialog = window.dialogs.by_name["prompt"]
    assert isinstance(dialog, PromptEditor)
    dialog.chat_box.setChecked(True)
    dialog.system_line.setText("Be brief.")
    dialog.accept()
    assert (window.session.chat, window.session.system) == (True, "Be brief.")
    assert "chat template" in window.controls.prompt_line.toolTip()
    window.session.pair = None


# The command.


@pytest.mark.parametrize(
    ("given", "load", "options"),
    [
        (("--target", "x.gguf", "--drafter", "requantized:4"), ("x.gguf", None), {"drafter": "requantized:4"}),
        (("--target", "x.gguf", "--unpack", "--allow-large"), ("x.gguf", None), {"unpack": True, "allow_large": True}),
        (("--target", "a", "--draft", "b"), ("a", "b"), {}),
        (("--draft", "b"), ("bundled", "b"), {}),
        (("--run", "--drafter", "self"), ("bundled", "bundled"), {"drafter": "self"}),
    ],
)
def test_the_command_opens_the_window_on_any_model(
    qtbot: QtBot, given: tuple[str, ...], load: tuple[str, str | None], options: dict[str, Any]
) -> None:
    script = Script(rounds=1)
    session = Session(lambda: FakeRoom(script))
    asked = parser().parse_args([*given, "--seed", "1"])
    settings = window_command.run_settings(asked)
    session.configure(settings=settings)
    window_command._begin(session, asked)
    qtbot.waitUntil(lambda: bool(script.named("options")), timeout=5000)
    assert script.named("load") == [load]
    assert script.named("options") == [(options,)]
    assert settings.drafter == options.get("drafter", "sample")
    qtbot.waitUntil(lambda: session.state == "ready", timeout=5000)
    assert session.shutdown()


def test_the_command_refuses_a_system_without_a_chat(qapp: QApplication, capsys: pytest.CaptureFixture[str]) -> None:
    assert window_command.open_window(parser().parse_args(["--system", "Be brief."])) == 2
    assert "--system goes with --chat" in capsys.readouterr().err
    assert window_command.open_window(parser().parse_args(["--drafter", "mtp"])) == 2
    assert "mtp" in capsys.readouterr().err


# With the real engine.


@pytest.fixture
def session(qtbot: QtBot) -> Iterator[Session]:
    made = Session()
    yield made
    assert made.shutdown()


def test_a_pair_comes_with_its_drafter_or_not_at_all(qtbot: QtBot, session: Session, tmp_path: Path) -> None:
    folder = str(write_folder(tmp_path / "tiny", num_hidden_layers=3))
    session.load(folder, None, drafter="dropped:1-1")
    qtbot.waitUntil(lambda: session.state in ("ready", "failed"), timeout=60_000)
    assert session.state == "ready", session.failure
    assert session.settings.drafter == "dropped:1-1"
    first = session.pair
    assert first is not None
    assert len(first.layer_sizes) == 3
    assert sum(first.layer_sizes) < first.target.parameters
    size = first.target.parameters - first.layer_sizes[1]
    assert f"{size:,} parameters".replace(",", "") in drafting_words(first, session.settings)[1].replace(",", "")
    for target, drafter in ((folder, "dropped:5-6"), (str(tmp_path / "none"), "self"), (TOY, "self")):
        session.load(target, None, drafter=drafter)
        qtbot.waitUntil(lambda: session.state == "failed", timeout=20_000)
        assert session.pair is first
        assert session.settings.drafter == "dropped:1-1"
        assert "stays in use: tiny" in session.load_failure
    session.start_run("a lead", Settings(drafter="dropped:1-1", max_tokens=4, seed=1))
    qtbot.waitUntil(lambda: session.view.run is not None and session.view.run.end is not None, timeout=20_000)
    header = session.view.run.header
    assert header.draft is not None
    assert header.draft.parameters == size
    qtbot.waitUntil(lambda: session.state == "ready", timeout=5000)
    origin = session.view.run
    assert session.can("fork") is None, "the drafter comes with the settings"
    session.fork(origin, 1, origin.header.settings)
    qtbot.waitUntil(lambda: session.view.run is not origin and session.view.run.end is not None, timeout=20_000)
    assert session.view.run.tokens == origin.tokens
