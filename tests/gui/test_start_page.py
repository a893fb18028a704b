"""The start page: its ways in, what it says of the next run and of the computer."""

from __future__ import annotations

import importlib.metadata

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel, QPushButton
from pytestqt.qtbot import QtBot

from app.bundled import BundledPair, bundled_pair
from app.next_rule import EXPLANATIONS, next_rule
from app.notices import notices
from app.panels.start_page import StartPage
from app.samples import samples
from app.session import Session
from engine.recording import OpenedSession
from engine.settings import SamplerSettings, Settings
from tests.gui.fake_engine import Script
from tests.gui.windows import Opener


def _button(window: object, words: str) -> QPushButton:
    buttons = window.start_page.findChildren(QPushButton)  # type: ignore[attr-defined]
    return next(b for b in buttons if words in (b.text(), b.accessibleName()))


@pytest.mark.parametrize(
    ("words", "loads", "rewind"),
    [("Run", "load", "correct"), ("Run Toy", "load_toy", "correct"), ("Run with Bug", "load", "legacy-rewind")],
)
def test_each_way_loads_its_pair_and_runs(
    qtbot: QtBot, open_window: Opener, words: str, loads: str, rewind: str
) -> None:
    script = Script(rounds=3)
    window = open_window(script)
    qtbot.mouseClick(_button(window, words), Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window.session.view.run is not None and window.session.view.run.end is not None)
    assert len(script.named(loads)) == 1
    ((prompt, settings),) = script.named("start")
    assert settings.rewind == rewind
    assert prompt
    assert window.start_page.isHidden()
    shown = window.arrangement.workspace
    behind = {"residual", "meters", "what-if"}
    assert all(window.docks[name].isVisible() for name in shown.docks if name not in behind)


def test_the_page_stays_until_the_first_round(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window(Script(load_delay=0.1, prefill_delay=0.05, rounds=2))
    window.actions_by_name["run"].trigger()
    qtbot.waitUntil(lambda: window.session.state == "loading")
    assert window.start_page.isVisible()
    assert not _button(window, "Run Toy").isEnabled() or window.session.can("load") is None
    qtbot.waitUntil(lambda: window.session.progress is not None)
    assert window.status.progress.isVisible()
    qtbot.waitUntil(lambda: window.start_page.isHidden())
    run = window.session.view.run
    assert run is not None
    assert len(run) >= 1
    qtbot.waitUntil(lambda: run.end is not None)


def test_what_is_known_before_mlx_is_loaded_says_so(open_window: Opener) -> None:
    window = open_window()
    assert window.session.backend == ""
    facts = window.start_page.facts()
    assert facts["MLX"] == importlib.metadata.version("mlx")
    assert facts["BLAS"] == "known once MLX is loaded"
    pair = bundled_pair()
    assert isinstance(pair, BundledPair)
    assert facts["Bundled pair"] == f"✓ found, one vocabulary of {pair.vocab_size}"


def test_what_the_worker_tells_is_shown(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window()
    window.session.warm_up()
    qtbot.waitUntil(lambda: window.session.backend != "")
    assert window.start_page.facts()["MLX"] == "0.0.0, CPU"
    assert window.start_page.facts()["BLAS"] == "✓ no BLAS at all"


def test_a_slow_blas_is_marked(open_window: Opener) -> None:
    window = open_window()
    window.session._on_described("0.0.0", "CPU, reference BLAS (slow): install libopenblas0-pthread")
    assert window.start_page.facts()["BLAS"].startswith("▲ reference BLAS (slow): install")


def test_the_sizes_are_those_of_the_files() -> None:
    pair = bundled_pair()
    assert isinstance(pair, BundledPair)
    assert pair.target_parameters > 2 * pair.draft_parameters > 100_000


@pytest.mark.parametrize(
    ("settings", "rule", "mend"),
    [
        (Settings(), "sampler-match", "Turn Stochastic on"),
        (Settings(stochastic=True), "stochastic", "Turn Stochastic off"),
        (Settings(stochastic=True, kill_switch=True), "sampler-match", "Turn kill switch off"),
        (Settings(stochastic=True, drafter="no-q"), "sampler-match-no-proposal-distribution", "Turn Stochastic off"),
        (Settings(sampler=SamplerSettings(temperature=0)), "greedy-argmax", "Turn Stochastic on"),
    ],
)
def test_the_next_run_names_its_rule_with_the_reason(
    open_window: Opener, settings: Settings, rule: str, mend: str
) -> None:
    window = open_window()
    window.session.configure(settings=settings)
    decided = next_rule(settings)
    assert decided is not None
    assert decided[0] == rule
    assert window.start_page.next_run_text() == f"Rule {rule}, because {decided[1]}."
    assert window.start_page.mend.text() == mend
    assert rule in EXPLANATIONS


def test_the_cards_button_changes_the_toggles(qtbot: QtBot, open_window: Opener) -> None:
    import engine.acceptance  # noqa: F401

    window = open_window()
    qtbot.mouseClick(window.start_page.mend, Qt.MouseButton.LeftButton)
    assert window.session.settings.stochastic
    assert window.actions_by_name["stochastic"].isChecked()
    assert "Rule stochastic" in window.start_page.next_run_text()


def test_a_rule_that_the_engine_refuses_is_said(open_window: Opener) -> None:
    import engine.acceptance  # noqa: F401

    window = open_window()
    window.session.configure(settings=Settings(rule="greedy-argmax"))
    assert window.start_page.next_run_text().startswith("No run is possible: rule: greedy-argmax needs temperature 0")


@pytest.mark.parametrize("size", [(1440, 900), (1024, 700)])
def test_every_label_has_room_for_its_text(qtbot: QtBot, open_window: Opener, size: tuple[int, int]) -> None:
    window = open_window(size=size)
    qtbot.wait(20)
    for label in window.start_page.findChildren(QLabel):
        assert label.textFormat() == Qt.TextFormat.PlainText
        if label.text() and label.isVisible():
            need = label.heightForWidth(label.width()) if label.wordWrap() else label.sizeHint().height()
            assert label.height() >= need, label.text()
            if not label.wordWrap():
                assert label.width() >= label.sizeHint().width(), label.text()
    bar = window.start_page.verticalScrollBar()
    assert bar.maximum() == 0, "the whole page is on screen"


def test_the_banner_warns_of_what_the_next_run_wont_do(open_window: Opener) -> None:
    window = open_window()
    assert notices(window.session) == []
    window.session.configure(settings=Settings(kill_switch=True, stochastic=True, rewind="legacy-rewind"))
    assert [n.act for n in window.banner.notices()] == ["kill_switch_off", "rewind_correct"]
    for _ in range(2):
        line = window.banner._lines[0]
        assert line.button is not None
        line.button.click()
    assert window.banner.notices() == []
    assert not window.session.settings.kill_switch
    assert window.session.settings.rewind == "correct"


def test_the_samples_open_without_models(open_window: Opener) -> None:
    found = samples()
    assert [sample.path.stem for sample in found] == ["stochastic", "sampler-match", "drift", "fork"]
    window = open_window()
    for button in window.start_page.findChildren(QPushButton):
        if button.text() == "Open" and button.accessibleDescription() == found[2].title:
            button.click()
    assert not window._is_starting
    run = window.session.view.run
    assert run is not None
    assert run.first_drift is not None
    assert run.header.settings.rewind == "legacy-rewind"
    assert window.session.open_recording(found[3].path)
    fork = window.session.view.run
    assert fork is not None
    assert fork.parent is not None
    assert fork.parent[1] == 10


def test_the_samples_say_nothing_of_the_machine_that_made_them(open_window: Opener) -> None:
    for sample in samples():
        opened = OpenedSession(sample.path)
        for run in opened.runs:
            assert run.damage is None
            assert run.end is not None
            assert len(run) > 10
            assert [model.path for model in (run.header.target, run.header.draft) if model is not None] == ["", ""]
            assert list(run)
        opened.close()


def test_models_of_ones_own_that_are_loaded_are_what_it_runs(qtbot: QtBot, session: Session) -> None:
    page = StartPage(session)
    qtbot.addWidget(page)
    button, asked = page.primary, []
    page.run_bundled.connect(lambda: asked.append("bundled"))
    page.run_loaded.connect(lambda: asked.append("loaded"))
    button.click()
    assert button.accessibleDescription() == "Run the bundled pair"
    session.load("/models/one", "/models/two")
    qtbot.waitUntil(lambda: session.state == "ready", timeout=5000)
    assert button.accessibleDescription() == "Run the models that are loaded"
    button.click()
    assert asked == ["bundled", "loaded"]
    session.load()
    qtbot.waitUntil(lambda: button.accessibleDescription() == "Run the bundled pair", timeout=5000)
