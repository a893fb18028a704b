"""The trial's page: its controls among themselves, what stays while the cursor moves, and what a fork is offered."""

from __future__ import annotations

import dataclasses

import pytest
from fakes import fake_run
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from app.dialogs.fork_dialog import ForkDialog
from app.panels.counterfactuals import RULES, TRIAL, CounterfactualsPanel
from app.panels.trial import EMPTY, NO_CHANGE, NOT_DRAWN, TrialPage
from app.panels.trial_text import ForkWish
from app.theme import LIGHT
from app.view import View
from engine.recording import RecordedRun


@pytest.fixture
def run() -> RecordedRun:
    return fake_run(40)


@pytest.fixture
def panel(qtbot: QtBot, view: View, run: RecordedRun) -> CounterfactualsPanel:
    panel = CounterfactualsPanel(view)
    qtbot.addWidget(panel)
    panel.resize(450, 300)
    panel.show()
    view.show_run(run)
    view.select(rejection(run), 1)
    panel.show_page(TRIAL)
    return panel


@pytest.fixture
def page(panel: CounterfactualsPanel) -> TrialPage:
    return panel.trial


def rejection(run: RecordedRun, after: int = 0) -> int:
    return next(record.index for record in run if record.index >= after and record.rejected_at == 1)


def tried(page: TrialPage, name: str) -> str:
    shown = page.shown()
    assert shown is not None
    return next(line.tried.text for line in shown.lines if line.name == name)


def test_the_page_is_chosen_in_the_title(panel: CounterfactualsPanel) -> None:
    assert panel.page() == TRIAL
    assert panel.trial.isVisible()
    assert not panel.sheet.isVisible()
    assert panel.title_context().endswith("position 2; change u, T or the rule")
    panel.show_page(RULES)
    assert not panel.trial.isVisible()
    assert "under every rule" in panel.title_context() or panel._needed.isVisible()


def test_field_and_slider_are_one_u(page: TrialPage, view: View) -> None:
    record = view.round
    assert record is not None
    drawn = record.drafts[1].u
    assert page.u.value() == pytest.approx(drawn, abs=1e-6)
    assert page.coin.value() == round((drawn or 0) * 1000)
    page.coin.setValue(0)
    assert page.u.value() == 0
    assert tried(page, "the draft is") == "accepted"
    page.u.lineEdit().setText("0.9994")
    assert page.coin.value() == 999
    assert tried(page, "the draft is") == "rejected"
    assert tried(page, "u") == "0.9994"
    assert page.u.text() == "0.9994", "what is typed stays as it is"
    page.u.lineEdit().setText("1.5")
    assert "[0, 1)" in page.u.toolTip()
    assert tried(page, "u") == "0.9994", "what can't be is not tried"


def test_typing_the_recorded_values_is_trying_nothing(page: TrialPage) -> None:
    before = page.u.text()
    page.coin.setValue(3)
    assert page.reset.isEnabled()
    page.u.lineEdit().setText(before)
    assert not page.reset.isEnabled()
    page.temperature.set_value(1.2)
    assert page.reset.isEnabled()
    page.reset.click()
    assert (page.temperature.value(), page.u.text()) == (0.7, before)
    assert not page.reset.isEnabled()


def test_u_stays_behind_and_temperature_and_rule_come_along(page: TrialPage, view: View, run: RecordedRun) -> None:
    page.coin.setValue(3)
    page.temperature.set_value(1.2)
    page.rule.set_value("resample-from-p")
    assert page.words().endswith("tried: u 0.003, T 1.2, resample-from-p")
    view.select(rejection(run, view.round_index + 1), 1)
    record = view.round
    assert record is not None
    assert page.u.value() == pytest.approx(record.drafts[1].u, abs=1e-6)
    assert (page.temperature.value(), page.rule.value()) == (1.2, "resample-from-p")
    view.show_run(fake_run(10))
    view.select(0, 0)
    assert (page.temperature.value(), page.rule.value()) == (0.7, "stochastic")


def test_a_rule_without_u_locks_it_and_says_why(page: TrialPage) -> None:
    page.rule.set_value("argmax-vs-argmax")
    assert not page.u.isEnabled()
    assert not page.coin.isEnabled()
    assert "draws no u" in page.u.toolTip()
    page.rule.set_value("stochastic")
    assert page.u.isEnabled()


def test_an_untested_draft_has_no_u_until_one_is_given(page: TrialPage, view: View) -> None:
    view.select(view.round_index, 3)
    assert page.u.text() == NOT_DRAWN
    assert tried(page, "the draft is") == "not known"
    page.coin.setValue(0)
    assert tried(page, "the draft is") == "accepted"


def test_the_slider_shows_up_to_where_the_draft_is_accepted(page: TrialPage) -> None:
    shown, coin = page.shown(), page.coin
    assert shown is not None
    assert shown.share is not None
    image, bar = coin.grab().toImage(), coin._bar()
    inks = [image.pixelColor(x, bar.bottom()) for x in range(bar.left(), bar.right())]
    green = sum(ink == QColor(LIGHT.accepted.fill) for ink in inks) / len(inks)
    assert green == pytest.approx(shown.share, abs=0.06)
    QTest.mouseClick(coin, Qt.MouseButton.LeftButton, pos=QPoint(round(coin.x_of(0.25)), bar.center().y()))
    assert page.u.value() == pytest.approx(0.25, abs=0.01)
    coin.setFocus()
    QTest.keyClick(coin, Qt.Key.Key_Right)
    assert page.u.value() == pytest.approx(coin.value() / 1000)


def test_where_nothing_can_be_tried_the_page_says_so(panel: CounterfactualsPanel, page: TrialPage, view: View) -> None:
    view.select(next(r.index for r in view.run or () if r.accepted == r.k), 4)
    assert not page.reset.isVisible()
    shown = page.shown()
    assert shown is not None
    assert "behind the drafts" in page.accessibleDescription()
    view.show_run(fake_run(5, k=0))
    assert "drafted nothing" in page.accessibleDescription()
    view.show_run(fake_run(5, distributions=False))
    assert "without its distributions" in page.accessibleDescription()
    view.show_run(None)
    assert page.shown() is None
    assert panel.table() == [["trial"]]
    assert not page.grab().isNull()
    assert EMPTY


def test_a_rule_that_a_run_cannot_have_gives_way_to_its_own(qtbot: QtBot, page: TrialPage, view: View) -> None:
    page.rule.set_value("argmax-vs-argmax")
    run = fake_run(20, rule="sampler-match-no-proposal-distribution")
    view.show_run(run)
    view.select(2, 0)
    assert page.rule.value() == "sampler-match"
    items = [page.rule.model().item(at) for at in range(page.rule.count())]
    assert [item.isEnabled() for item in items] == [False, True, True, False]
    assert items[0].toolTip() == "The drafter reports no q."


@pytest.mark.parametrize("size", [(450, 120), (450, 300), (800, 110), (1200, 400), (260, 200)])
def test_painting_in_every_size_and_state(panel: CounterfactualsPanel, page: TrialPage, size: tuple[int, int]) -> None:
    panel.resize(*size)
    page.temperature.set_value(1.3)
    for rule in ("stochastic", "sampler-match", "argmax-vs-argmax", "resample-from-p"):
        page.rule.set_value(rule)
        image = panel.grab().toImage()
        assert len({image.pixelColor(x, y).rgb() for x in range(0, size[0], 3) for y in range(0, size[1], 3)}) > 3
        assert page.sheet.height() >= page.sheet.minimumHeight()


def test_tips_are_plain_and_whole(page: TrialPage, view: View) -> None:
    shown = page.shown()
    assert shown is not None
    for line in shown.lines:
        tip = page.sheet.line_tip(line)
        assert not Qt.mightBeRichText(tip)
        assert "recorded: " in tip
    assert all(control.accessibleName() or control.text() for control in (page.u, page.coin, page.rule, page.fork))


def test_the_button_asks_for_a_fork_with_what_was_tried(qtbot: QtBot, panel: CounterfactualsPanel, page) -> None:
    assert not page.fork.isEnabled()
    assert NO_CHANGE in page.fork.toolTip()
    page.coin.setValue(0)
    assert page.fork.isEnabled()
    panel.set_fork_reason("Load the models that recorded this run first: a.")
    assert not page.fork.isEnabled()
    assert "Load the models" in page.fork.toolTip()
    panel.set_fork_reason(None)
    page.temperature.set_value(1.5)
    with qtbot.waitSignal(panel.fork_wanted, timeout=1000) as asked:
        page.fork.click()
    assert asked.args == [ForkWish(None, 1.5, "accept", 1)]


def test_the_dialog_takes_a_suggestion(qtbot: QtBot, run: RecordedRun) -> None:
    settings = run.header.settings
    dialog = ForkDialog(settings, run[4], 0)
    qtbot.addWidget(dialog)
    dialog.suggest("block", 1.5, "reject", 2)
    sampler = dataclasses.replace(settings.sampler, temperature=1.5)
    assert dialog.settings() == dataclasses.replace(settings, rule="block", sampler=sampler)
    forced = dialog.forced()
    assert forced is not None
    assert (forced.position, forced.decree) == (2, "reject")
    plain = ForkDialog(settings, run[4], 0)
    qtbot.addWidget(plain)
    plain.suggest(None, None, None, 0)
    assert (plain.settings(), plain.forced()) == (settings, None)
