"""Every control reaches the settings of the run, alone; what can't be used is marked and said."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QCheckBox, QComboBox
from pytestqt.qtbot import QtBot

from app import theme
from app.actions import make_actions
from app.controls import Controls
from app.drafter_field import DrafterField
from app.fields import ChoiceField, NumberField, TextField, read_seed, read_stop
from app.model_choice import TOY, Chosen
from app.pace import STEPS, pace_text
from app.session import Session
from engine.recording_size import in_bytes, round_bytes, size_words
from engine.settings import MAX_SEED, RULE_CHOICES, SamplerSettings, Settings, SettingsError
from tests.gui.fake_engine import FakeRoom, Script
from tests.gui.windows import Opener

TYPED: dict[str, tuple[str, Any]] = {
    "num_draft_tokens": ("7", 7),
    "max_tokens": ("33", 33),
    "temperature": ("1.25", 1.25),
    "top_k": ("40", 40),
    "top_p": ("0.9", 0.9),
    "min_p": ("0.05", 0.05),
    "seed": ("18446744073709551615", MAX_SEED),
    "prefill_chunk": ("128", 128),
    "top_n": ("9", 9),
    "kv_start": ("500", 500),
    "repetition_penalty": ("1.3", 1.3),
    "repetition_window": ("17", 17),
    "frequency_penalty": ("-0.5", -0.5),
    "frequency_window": ("18", 18),
    "presence_penalty": ("0.25", 0.25),
    "presence_window": ("all", 0),
    "logit_bias": ("3:-1.5, 7:2", ((3, -1.5), (7, 2.0))),
    "dry_multiplier": ("0.8", 0.8),
    "dry_base": ("2.5", 2.5),
    "dry_allowed_length": ("4", 4),
    "dry_window": ("100", 100),
    "xtc_probability": ("0.5", 0.5),
    "xtc_threshold": ("0.2", 0.2),
    "stop": ('"\\n\\n", "END"', ("\n\n", "END")),
}
CHOSEN = {
    "rewind": "legacy-rewind",
    "main_rewind": "no-trim",
    "rule": "sampler-match",
    "chain_order": "mlx-lm",
    "kv_bits": 4,
    "kv_group_size": 32,
}


@dataclass
class Bench:
    """The controls without their window."""

    session: Session
    actions_by_name: dict[str, QAction]
    controls: Controls


@pytest.fixture
def window(qtbot: QtBot) -> Iterator[Bench]:
    theme.apply(QApplication.instance(), "light")
    session = Session(lambda: FakeRoom(Script()))
    actions = make_actions(session)
    controls = Controls(session, actions)
    qtbot.addWidget(controls)
    controls.resize(1440, 300)
    controls.show()
    yield Bench(session, actions, controls)
    assert session.shutdown()


def _type(qtbot: QtBot, field: NumberField | TextField, text: str) -> None:
    line = field.lineEdit() if isinstance(field, NumberField) else field
    line.clear()
    qtbot.keyClicks(line, text)


def _choose(field: QComboBox, value: object) -> None:
    field.setCurrentIndex(field.findData(value))


def _setting(settings: Settings, name: str) -> Any:
    return getattr(settings.sampler if hasattr(settings.sampler, name) else settings, name)


def _changed(before: Settings, after: Settings) -> set[str]:
    first, second = before.as_dict(), after.as_dict()
    return {name for name in first if first[name] != second[name]}


@pytest.mark.parametrize("name", TYPED)
def test_a_typed_field_changes_its_own_setting_and_no_other(qtbot: QtBot, window: Bench, name: str) -> None:
    before = window.controls.settings()
    text, value = TYPED[name]
    window.actions_by_name["more"].trigger()
    _type(qtbot, window.controls.fields[name], text)
    after = window.controls.settings()
    assert _setting(after, name) == value
    assert _changed(before, after) == {name}
    assert window.session.settings == after, "the next run takes what the fields show"


@pytest.mark.parametrize("name", CHOSEN)
def test_a_chosen_field_changes_its_own_setting_and_no_other(window: Bench, name: str) -> None:
    before = window.controls.settings()
    _choose(window.controls.fields[name], CHOSEN[name])
    after = window.controls.settings()
    assert _changed(before, after) == {name}
    assert _setting(after, name) == CHOSEN[name]
    assert window.session.settings == after


def test_the_drafter_is_picked_or_typed_and_told_once_it_is_whole(qtbot: QtBot, window: Bench) -> None:
    before = window.controls.settings()
    window.actions_by_name["more"].trigger()
    field = window.controls.fields["drafter"]
    assert isinstance(field, DrafterField)
    field.lineEdit().selectAll()
    qtbot.keyClicks(field.lineEdit(), "requantized:")
    assert field.problem() is not None
    assert window.session.settings == before, "half a name is no drafter yet"
    qtbot.keyClicks(field.lineEdit(), "3")
    qtbot.keyClick(field.lineEdit(), Qt.Key.Key_Return)
    assert field.problem() is None
    assert _changed(before, window.session.settings) == {"drafter"}
    assert window.session.settings.drafter == "requantized:3"
    field.setCurrentIndex(field.findText("greedy"))
    field.activated.emit(field.currentIndex())
    assert window.session.settings.drafter == "greedy"


def test_all_tokens_are_kept_where_ticked_and_what_it_takes_is_said_before(window: Bench, qtbot: QtBot) -> None:
    controls, box = window.controls, window.controls.more.full_vocabulary
    assert "once the models are loaded" in box.toolTip()
    with qtbot.waitSignal(window.session.pair_changed):
        window.session.load_toy()
    assert window.session.pair is not None
    settings, vocab_size = controls.settings(), window.session.pair.target.vocab_size
    assert box.text() == f"keep all: {in_bytes(round_bytes(settings, vocab_size))} a round"
    assert size_words(settings, vocab_size) in box.toolTip()
    before = box.text()
    box.setChecked(True)
    assert _changed(settings, controls.settings()) == {"full_vocabulary"}
    assert window.session.settings == controls.settings()
    assert not controls.fields["top_n"].isEnabled()
    window.actions_by_name["diagnostics"].trigger()
    assert box.text() != before
    controls.fields["num_draft_tokens"].set_value(2**40)
    assert "draft fewer" in str(controls.problem())
    controls.set_settings(Settings())
    assert not box.isChecked()
    assert controls.fields["top_n"].isEnabled()


@pytest.mark.parametrize("name", ["stochastic", "kill_switch", "diagnostics"])
def test_a_toggle_changes_its_own_setting_by_click_and_by_menu(qtbot: QtBot, window: Bench, name: str) -> None:
    before = window.controls.settings()
    box = next(b for b in window.controls.findChildren(QCheckBox) if b.text() == window.actions_by_name[name].text())
    qtbot.mouseClick(box, Qt.MouseButton.LeftButton, pos=box.rect().center() - box.rect().center() / 2)
    assert _changed(before, window.controls.settings()) == {name}
    assert window.session.settings == window.controls.settings()
    window.actions_by_name[name].trigger()
    assert window.controls.settings() == before
    assert not box.isChecked()


def test_the_checks_of_the_fold_out(window: Bench) -> None:
    before = window.controls.settings()
    window.controls.more.penalize_prompt.click()
    assert _changed(before, window.controls.settings()) == {"penalize_prompt"}
    window.controls.more.penalize_prompt.click()
    window.controls.more.as_target.click()
    after = window.controls.settings()
    assert _changed(before, after) == {"draft_sampler"}
    assert after.draft_sampler == after.sampler


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [("temperature", "0", 0.0), ("top_k", "2", 2), ("top_p", "0.5", 0.5), ("min_p", "0.1", 0.1)],
)
def test_the_drafters_own_sampler(qtbot: QtBot, window: Bench, name: str, text: str, value: float) -> None:
    controls = window.controls
    assert not controls.fields[f"draft.{name}"].isEnabled()
    assert "as the target" in controls.fields[f"draft.{name}"].toolTip()
    controls.more.as_target.click()
    before = controls.settings()
    _type(qtbot, controls.fields[f"draft.{name}"], text)
    after = controls.settings()
    assert _changed(before, after) == {"draft_sampler"}
    assert after.draft_sampler == dataclasses.replace(before.sampler, **{name: value})
    assert after.sampler == before.sampler


def test_no_setting_is_without_a_control(window: Bench) -> None:
    own = {"penalize_prompt", "full_vocabulary", "draft_sampler", "stochastic", "kill_switch", "diagnostics", "sampler"}
    own.add("record")  # the window always records
    names = {f.name for kind in (Settings, SamplerSettings) for f in dataclasses.fields(kind)}
    assert names - own == {name for name in window.controls.fields if "." not in name}
    assert set(TYPED) | set(CHOSEN) | {"drafter"} == names - own


def test_settings_go_in_and_come_out_the_same(window: Bench) -> None:
    sampler = SamplerSettings(temperature=0.123456789, top_p=1 / 3, logit_bias=((5, -2.25),), dry_window=9, min_p=1e-7)
    wanted = Settings(
        sampler=sampler,
        draft_sampler=dataclasses.replace(sampler, temperature=0.0, top_k=3),
        max_tokens=-1,
        seed=2**63 + 1,
        stop=('"', ", ", "\t"),
        rule="stochastic",
        stochastic=True,
        rewind="legacy-rewind",
    )
    window.controls.set_settings(wanted)
    assert window.controls.settings() == wanted


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("temperature", "-1", "finite number >= 0, got -1"),
        ("temperature", "nan", "finite number >= 0, got nan"),
        ("temperature", "warm", "a number, got 'warm'"),
        ("num_draft_tokens", "1.5", "a whole number, got '1.5'"),
        ("max_tokens", "0", ">= 1, or -1 for no limit, got 0"),
        ("min_p", "1.5", r"[0, 1], got 1.5"),
        ("seed", "18446744073709551616", "0 to 2^64 - 1, got '18446744073709551616'"),
        ("seed", "-1", "0 to 2^64 - 1"),
        ("logit_bias", "3=1", "id:value"),
        ("stop", "END", "double quotes"),
        ("repetition_penalty", "0", "> 0 (1 is off), got 0"),
    ],
)
def test_bad_input_is_marked_and_run_says_why(
    qtbot: QtBot,
    open_window: Opener,
    name: str,
    text: str,
    said: str,
) -> None:
    script = Script()
    window = open_window(script)
    window.actions_by_name["more"].trigger()
    field = window.controls.fields[name]
    _type(qtbot, field, text)
    assert field.property("invalid")
    assert said in field.toolTip()
    assert said in (window.controls.problem() or "")
    with pytest.raises(SettingsError):
        window.controls.settings()
    window.actions_by_name["run"].trigger()
    assert window.dialogs.errors is not None
    assert said in window.dialogs.errors.text()
    assert window.dialogs.errors.textFormat() == Qt.TextFormat.PlainText
    assert script.calls in ([], [("open",)]), "nothing was run"
    field.set_value(_setting(Settings(), name))
    assert not field.property("invalid")
    window.dialogs.errors.close()


def test_markup_in_a_field_stays_text_in_its_tooltip(qtbot: QtBot, window: Bench) -> None:
    field = window.controls.fields["stop"]
    window.actions_by_name["more"].trigger()
    _type(qtbot, field, "<img src=x>")
    assert "<img" not in field.toolTip()
    assert "‹img" in field.toolTip()


def test_arrows_step_and_words_stand_for_values(window: Bench) -> None:
    k, top, most = (window.controls.fields[name] for name in ("num_draft_tokens", "top_k", "max_tokens"))
    assert isinstance(k, NumberField)
    assert isinstance(top, NumberField)
    assert isinstance(most, NumberField)
    k.stepBy(1)
    assert k.value() == 5
    k.stepBy(-9)
    assert k.value() == 0
    assert top.text() == "off"
    top.stepBy(3)
    assert (top.text(), top.value()) == ("3", 3)
    most.set_value(-1)
    assert (most.text(), most.value()) == ("no limit", -1)
    most.stepBy(1)
    assert most.value() == 1


def test_the_fault_tints_its_own_field(window: Bench) -> None:
    rewind = window.controls.fields["rewind"]
    assert not rewind.property("fault")
    _choose(rewind, "legacy-rewind")
    assert rewind.property("fault")
    _choose(rewind, "correct")
    assert not rewind.property("fault")


def test_a_new_seed_is_written_and_differs(window: Bench) -> None:
    seeds = set()
    for _ in range(4):
        window.controls.new_seed()
        seeds.add(window.controls.settings().seed)
    assert len(seeds) == 4
    assert all(seed is not None and 0 <= seed <= MAX_SEED for seed in seeds)


def test_seeds_and_stop_texts_are_read_as_written() -> None:
    assert read_seed(" AUTO ") is None
    assert read_seed("0x10") == 16
    assert read_seed("4294967295") == 4294967295
    assert read_seed(str(2**40)) == 2**40
    assert read_stop('"a, b", "\\u2028"') == ("a, b", "\u2028")
    with pytest.raises(SettingsError):
        read_stop('"a", 3')
    with pytest.raises(SettingsError):
        read_stop('""')


def test_the_rules_offered_are_the_engines(window: Bench) -> None:
    from engine.acceptance import RULES

    field = window.controls.fields["rule"]
    assert isinstance(field, ChoiceField)
    offered = {field.itemData(index): field.itemText(index) for index in range(field.count()) if field.itemText(index)}
    assert tuple(offered) == RULE_CHOICES
    assert offered.keys() - {"auto"} <= set(RULES)
    for rule, text in offered.items():
        wrong = rule != "auto" and not RULES[rule].distribution_preserving
        assert text == (f"{rule}, not lossless" if wrong else rule)
        field.set_value(rule)
        assert bool(field.property("fault")) == wrong


def test_the_prompt_line_and_prompts_that_it_cannot_show(qtbot: QtBot, window: Bench) -> None:
    line = window.controls.prompt_line
    line.clear()
    qtbot.keyClicks(line, "Once upon")
    assert window.controls.prompt() == window.session.prompt == "Once upon"
    written = "two\nlines\u2028 and\u00a0more"
    window.session.configure(prompt=written)
    assert window.controls.prompt() == written
    assert line.isReadOnly()
    assert "editor" in line.toolTip()
    assert "↵" in line.text()
    window.session.configure(prompt="plain")
    assert not line.isReadOnly()
    line.clear()
    qtbot.keyClick(line, Qt.Key.Key_X)
    qtbot.keyClick(line, Qt.Key.Key_Backspace)
    assert "prompt must be non-empty" in (window.controls.problem() or "")
    qtbot.keyClicks(line, "   ")
    assert "prompt is blank: expected text that isn't only white space" in (window.controls.problem() or "")
    assert "The prompt is blank" in line.toolTip()
    assert line.property("invalid")
    qtbot.keyClicks(line, "x")
    assert window.controls.problem() is None
    assert not line.property("invalid")


def test_live_controls_reach_a_run_and_the_rest_is_locked_with_its_reason(qtbot: QtBot, open_window: Opener) -> None:
    script = Script(round_delay=0.002)
    window = open_window(script)
    session, controls = window.session, window.controls
    window.actions_by_name["run"].trigger()
    qtbot.waitUntil(lambda: session.state == "running")
    assert not controls.fields["temperature"].isEnabled()
    assert "stop it first" in controls.fields["temperature"].toolTip()
    assert controls.fields["rewind"].isEnabled()
    for name in ("stochastic", "kill_switch", "diagnostics"):
        window.actions_by_name[name].trigger()
    _choose(controls.fields["rewind"], "legacy-rewind")
    wanted = {"stochastic": True, "kill_switch": True, "diagnostics": True, "rewind": "legacy-rewind"}

    def changes() -> dict[str, Any]:
        return {key: value for (change,) in script.named("round") for key, value in change.items()}

    qtbot.waitUntil(lambda: changes() == wanted)
    window.actions_by_name["stop"].trigger()
    qtbot.waitUntil(lambda: session.state == "ready")
    assert controls.fields["temperature"].isEnabled()
    assert controls.settings().rewind == "legacy-rewind"


def test_the_pace_goes_to_the_session_from_slow_to_full(window: Bench) -> None:
    slider = window.controls.pace.slider
    slider.setValue(0)
    assert window.session.pace == 2.0
    slider.setValue(slider.maximum())
    assert window.session.pace == 0.0
    assert [pace_text(step) for step in (STEPS[0], 1.0, 0.25, 0.0)] == [
        "1 round / 2 s",
        "1 round / s",
        "4 rounds / s",
        "full speed",
    ]


def test_choosing_a_model_asks_for_the_pair(qtbot: QtBot, window: Bench) -> None:
    controls = window.controls
    asked: list[Chosen] = []
    controls.models_wanted.connect(asked.append)
    for box, key in ((controls.target, "toy"), (controls.draft, "none"), (controls.draft, "bundled")):
        box.setCurrentIndex(box.findData(key))
        box.activated.emit(box.findData(key))
    # The last asks for what stands there already.
    assert asked == [Chosen(TOY, TOY), Chosen("bundled", None)]
    with qtbot.waitSignal(controls.chooser_wanted):
        controls.target.activated.emit(controls.target.findData("choose"))


def _shown_in(controls: Controls, name: str) -> str:
    parent = controls.groups[name].parentWidget()
    return "row" if parent is controls.second_row else "fold-out"


def test_narrow_windows_move_fields_into_the_fold_out_in_order(open_window: Opener) -> None:
    window = open_window(size=(1440, 900))
    controls = window.controls
    assert {_shown_in(controls, name) for name in controls.groups} == {"row"}
    window.resize(1024, 700)
    moved = [name for name in controls.groups if _shown_in(controls, name) == "fold-out"]
    assert set(moved) == {"min_p", "top_p", "top_k", "prompt"}
    for name in controls.groups:
        assert controls.groups[name].geometry().right() <= 1024
    window.resize(1440, 900)
    assert {_shown_in(controls, name) for name in controls.groups} == {"row"}


def test_the_prompt_takes_what_the_other_fields_leave(qtbot: QtBot, open_window: Opener) -> None:
    controls = open_window(size=(1440, 900)).controls
    QApplication.processEvents()
    before = controls.prompt_line.width()
    assert before >= controls.prompt_line.fontMetrics().horizontalAdvance("It is a truth universally") + 4
    _choose(controls.fields["rewind"], "legacy-rewind")
    qtbot.waitUntil(lambda: controls.prompt_line.width() < before)
    assert {_shown_in(controls, name) for name in controls.groups} == {"row"}
    _choose(controls.fields["rewind"], "correct")
    qtbot.waitUntil(lambda: controls.prompt_line.width() == before)
    row = controls.second_row
    assert controls.more_button.geometry().right() >= row.width() - 10, "nothing is left over"


@pytest.mark.parametrize("limit", [256, -1])
def test_no_field_is_narrower_than_its_text(open_window: Opener, limit: int) -> None:
    window = open_window(size=(1024, 700))
    window.controls.fields["max_tokens"].set_value(limit)
    window.actions_by_name["more"].trigger()
    QApplication.processEvents()
    for name, field in window.controls.fields.items():
        text = field.currentText() if isinstance(field, ChoiceField) else field.text()
        if name not in ("logit_bias", "stop"):
            assert field.width() >= field.fontMetrics().horizontalAdvance(text) + 20, name
        assert field.visibleRegion().boundingRect().size() == field.size(), f"{name} is cut off"
