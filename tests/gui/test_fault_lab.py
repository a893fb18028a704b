"""The fault lab: switches that reach the run, what it says of each fault, and the comparison with the cure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from PySide6.QtGui import QGuiApplication

from app import theme
from app.labs.fault_words import BLIND, OFF, QUIET, TRIPPED, WITH, WITHOUT, said_of
from app.labs.faults import FaultLabPanel
from app.main_window import MainWindow
from app.session import Session
from engine.faults import FAULT_TABLE
from engine.settings import SamplerSettings, Settings
from tests.gui.fake_engine import FakeRoom, Script

RUN = Settings(
    sampler=SamplerSettings(temperature=1.0), stochastic=True, diagnostics=True, seed=3, max_tokens=-1, rule="auto"
)
PROMPT = "the cat sat on"


@pytest.fixture
def session(qtbot, qapp) -> Iterator[Session]:
    """On the toy, which is small and real."""
    theme.apply(qapp, "light")
    made = Session()
    made.load_toy()
    qtbot.waitUntil(lambda: made.pair is not None and made.state == "ready", timeout=30_000)
    yield made
    assert made.shutdown()


@pytest.fixture
def lab(qtbot, session: Session) -> FaultLabPanel:
    made = FaultLabPanel(session.view)
    qtbot.addWidget(made)
    made.follow(session)
    made.change_wanted.connect(lambda live: session.change(**live))
    made.resize(560, 500)
    made.show()
    return made


def rounds(session: Session) -> int:
    return len(session.view.run or ())


def start(qtbot, session: Session, count: int) -> None:
    session.set_pace(0.002)
    session.start_run(PROMPT, RUN)
    qtbot.waitUntil(lambda: rounds(session) >= count, timeout=20_000)


def stop(qtbot, session: Session) -> None:
    session.stop()
    qtbot.waitUntil(lambda: session.state == "ready", timeout=10_000)


def test_every_fault_has_a_row_with_its_sentence_and_where_it_was_seen(lab) -> None:
    assert list(lab.rows) == list(FAULT_TABLE)
    for fault in FAULT_TABLE.values():
        about = lab.rows[fault.id]._about.text()
        assert fault.imitates in about
        assert fault.seen in about
        assert not lab.rows[fault.id].switch.isChecked()
    assert lab.title_context() == "no fault is on"
    main = [fault for fault in FAULT_TABLE.values() if fault.setting == "main_rewind"]
    assert main
    assert not any(fault.lossless for fault in main)
    assert any("not lossless" in head.text() and "main cache" in head.text() for head in lab._heads)


def test_a_switch_reaches_the_run_that_goes_and_the_meter_trips(qtbot, lab, session) -> None:
    start(qtbot, session, 5)
    lab.rows["argmax-vs-argmax"].switch.click()
    assert session.settings.rule == "argmax-vs-argmax"
    qtbot.waitUntil(lambda: lab.rows["argmax-vs-argmax"].said.kind == TRIPPED, timeout=30_000)
    said = lab.rows["argmax-vs-argmax"].said
    assert said.line.startswith("▲ losslessness meter after ")
    assert "before" in said.more
    assert session.view.run[-1].rule == "argmax-vs-argmax"
    assert lab.title_context() == "on: argmax-vs-argmax"
    lab.rows["argmax-vs-argmax"].switch.click()
    assert session.settings.rule == "auto"
    here = rounds(session)
    qtbot.waitUntil(lambda: rounds(session) > here + 3, timeout=20_000)
    assert session.view.run[-1].rule == "stochastic"
    stop(qtbot, session)
    session.view.serve()
    assert "▲" in lab.rows["argmax-vs-argmax"].said.line, "what has tripped stays readable"


def test_a_rewind_fault_is_named_by_its_invariant_in_its_first_round(qtbot, lab, session) -> None:
    start(qtbot, session, 3)
    lab.rows["legacy-rewind"].switch.click()
    qtbot.waitUntil(lambda: lab.rows["legacy-rewind"].said.kind == TRIPPED, timeout=20_000)
    stop(qtbot, session)
    session.view.serve()
    run = session.view.run
    first = next(record.index for record in run if "rewind" in record.changed)
    said = lab.rows["legacy-rewind"].said
    assert f"invariant after {len(run[first].emitted)} token" in said.line
    assert f"in round {first}" in said.line
    assert "draft-trim-law" in said.more


def test_one_rule_takes_the_others_place_and_other_kinds_stay(lab, session) -> None:
    lab.rows["raw-q"].switch.click()
    lab.rows["resample-from-p"].switch.click()
    lab.rows["no-trim"].switch.click()
    lab.rows["main-no-trim"].switch.click()
    on = [name for name, row in lab.rows.items() if row.switch.isChecked()]
    assert on == ["resample-from-p", "no-trim", "main-no-trim"]
    wanted = session.settings
    assert (wanted.rule, wanted.rewind, wanted.main_rewind) == ("resample-from-p", "no-trim", "no-trim")
    session.change(rewind="correct")
    assert not lab.rows["no-trim"].switch.isChecked(), "the controls' change is followed"


def test_what_is_said_before_a_run_and_where_nothing_can_see() -> None:
    fault, quiet = FAULT_TABLE["resample-from-p"], Settings(rule="resample-from-p", diagnostics=True)
    assert said_of(fault, Settings(), False, None).kind == OFF
    assert said_of(fault, quiet, False, None).line == "on: acts in the next run"
    assert said_of(fault, quiet, True, None).kind == QUIET
    for wanted, word in (
        (dataclasses.replace(quiet, diagnostics=False), "Diagnostics is off"),
        (dataclasses.replace(quiet, kill_switch=True), "kill switch"),
        (dataclasses.replace(quiet, sampler=SamplerSettings(temperature=0.0)), "greedy"),
    ):
        said = said_of(fault, wanted, False, None)
        assert said.kind == BLIND
        assert word in said.line
    missing = FAULT_TABLE["missing-support-check"]
    assert "u = 0" in said_of(missing, Settings(rule=missing.id, diagnostics=True), False, None).line
    raw = Settings(rule="raw-q", diagnostics=True, sampler=SamplerSettings(temperature=1.0))
    assert "raw q is its q" in said_of(FAULT_TABLE["raw-q"], raw, False, None).line


def test_the_comparison_plays_both_runs_and_lays_the_cured_one_over_the_view(qtbot, lab, session) -> None:
    assert not lab.compare.isEnabled()
    assert "Switch a fault on first." in lab.compare.toolTip()
    session.configure(PROMPT, dataclasses.replace(RUN, max_tokens=40))
    lab.rows["argmax-vs-argmax"].switch.click()
    assert lab.compare.isEnabled()
    lab.compare.click()
    assert lab.comparing
    assert session.can("run") == "The comparison with the cure is at work: stop it first."
    qtbot.waitUntil(lambda: not lab.comparing, timeout=30_000)
    runs = lab.comparison.runs
    assert set(runs) == {WITH, WITHOUT}
    assert [runs[arm][0].rule for arm in (WITH, WITHOUT)] == ["argmax-vs-argmax", "stochastic"]
    assert [len(runs[arm].tokens) for arm in (WITH, WITHOUT)] == [40, 40]
    assert runs[WITH].header.seed == runs[WITHOUT].header.seed == 3
    assert runs[WITH].header.prompt_tokens == runs[WITHOUT].header.prompt_tokens
    assert session.view.reference == (runs[WITHOUT], "rule = auto")
    assert lab.comparison.verdict().startswith("difference ")
    assert len(lab.comparison.plot.curves[WITH].getData()[0]) == len(runs[WITH])
    lab.comparison.copy()
    lines = [line.split("\t") for line in QGuiApplication.clipboard().text().split("\n")]
    assert [line[0] for line in lines] == ["arm", WITH, WITHOUT]
    assert len({len(line) for line in lines}) == 1
    lab.hide_comparison.click()
    assert session.view.reference is None
    assert lab.comparison.isHidden()


def test_a_comparison_of_the_run_shown_takes_its_seed_and_prompt(qtbot, lab, session) -> None:
    session.start_run("a mat", dataclasses.replace(RUN, seed=11, max_tokens=30))
    qtbot.waitUntil(lambda: session.view.run is not None and session.view.run.end is not None, timeout=20_000)
    qtbot.waitUntil(lambda: session.state == "ready", timeout=10_000)
    session.configure("the cat", dataclasses.replace(session.settings, seed=99))
    lab.rows["legacy-rewind"].switch.click()
    lab.compare.click()
    qtbot.waitUntil(lambda: not lab.comparing, timeout=30_000)
    cured = lab.comparison.runs[WITHOUT]
    assert cured.header.seed == 11
    assert cured.header.prompt_tokens == session.view.run.header.prompt_tokens
    assert cured.tokens == session.view.run.tokens, "the same run once more"
    session.view.show_run(session.view.run)
    assert session.view.reference is None


def test_a_comparison_can_be_stopped_and_closed_in_the_middle(qtbot, lab, session) -> None:
    session.configure(PROMPT, dataclasses.replace(RUN, max_tokens=100_000))
    lab.rows["no-trim"].switch.click()
    lab.compare.click()
    qtbot.waitUntil(lambda: len(lab.comparison.runs.get(WITH, ())) > 5, timeout=20_000)
    assert lab.compare.text() == "Stop"
    lab.compare.click()
    qtbot.waitUntil(lambda: not lab.comparing, timeout=10_000)
    assert lab._said.text() == "stopped before the end"
    assert session.view.reference is None
    assert session.can("run") is None
    lab.compare.click()
    qtbot.waitUntil(lambda: len(lab.comparison.runs.get(WITH, ())) > 5, timeout=20_000)
    assert session.shutdown(), "closing in the middle"
    lab.hide()


def test_a_long_run_is_looked_through_in_turns(qtbot, qapp, monkeypatch) -> None:
    script = Script(rounds=1500)
    session = Session(lambda: FakeRoom(script))
    session.start_run("a prompt", Settings())
    qtbot.waitUntil(lambda: session.view.run is not None and session.view.run.end is not None, timeout=20_000)
    lab = FaultLabPanel(session.view)
    qtbot.addWidget(lab)
    assert lab._watch.rounds == 0, "nobody sees it"
    looks: list[int] = []
    monkeypatch.setattr("app.labs.faults._SECONDS_A_TURN", 0.0)
    lab._catching_up.timeout.connect(lambda: looks.append(lab._watch.rounds))
    lab.show()
    qtbot.waitUntil(lambda: lab._watch.rounds == 1500, timeout=10_000)
    assert len(looks) > 100
    lab.hide()
    assert not lab._catching_up.isActive()
    assert session.shutdown()


def test_the_window_opens_both_labs_from_its_menu(qtbot, open_window) -> None:
    script = Script(rounds=4)
    window: MainWindow = open_window(script)
    assert not window.actions_by_name["fault_lab"].isEnabled()
    window.actions_by_name["chi_square_lab"].trigger()
    first = window.dialogs.by_name["chi-square"]
    assert first.isVisible()
    window.actions_by_name["chi_square_lab"].trigger()
    assert window.dialogs.by_name["chi-square"] is first, "the one that is open, which may be at work"
    window._run_bundled()
    qtbot.waitUntil(lambda: window.session.view.run is not None and window.session.state == "ready", timeout=20_000)
    window.actions_by_name["fault_lab"].trigger()
    lab = window.docks["faults"].widget()
    assert isinstance(lab, FaultLabPanel)
    assert lab.isVisible()
    lab.rows["drop-debt"].switch.click()
    assert window.session.settings.rewind == "drop-debt"
    assert window.controls.settings().rewind == "drop-debt"


def test_it_is_painted_wide_and_narrow_in_both_schemes(qtbot, qapp, lab, session) -> None:
    lab.rows["legacy-rewind"].switch.click()
    pictures = set()
    for scheme in ("light", "dark"):
        theme.apply(qapp, scheme)
        for width in (420, 1200):
            lab.resize(width, 500)
            qtbot.wait(20)
            pictures.add(lab.grab().toImage().cacheKey())
            wide = lab._box.direction() == lab._box.Direction.LeftToRight
            assert not wide, "there is nothing yet to stand beside the list"
    assert len(pictures) == 4


def test_the_comparison_stands_beside_the_list_where_there_is_room(qtbot, lab, session) -> None:
    session.configure(PROMPT, dataclasses.replace(RUN, max_tokens=20))
    session.change(main_rewind="no-trim")
    row = lab.rows["main-no-trim"]

    def in_sight() -> bool:
        top = row.mapTo(lab.area.viewport(), row.rect().topLeft()).y()
        return 0 <= top <= lab.area.viewport().height() - row.height()

    qtbot.waitUntil(in_sight, timeout=5000)
    lab.compare.click()
    qtbot.waitUntil(lambda: not lab.comparing, timeout=30_000)
    directions = []
    for width in (420, 1200):
        lab.resize(width, 500)
        directions.append(lab._box.direction())
    assert directions == [lab._box.Direction.TopToBottom, lab._box.Direction.LeftToRight]
    lab.hide_comparison.click()
    assert lab._box.direction() == lab._box.Direction.TopToBottom


def test_behind_another_tab_it_waits_and_catches_up_when_it_is_raised(qtbot, open_window) -> None:
    window: MainWindow = open_window(Script(rounds=30))
    window._run_bundled()
    qtbot.waitUntil(lambda: window.session.view.run is not None and window.session.state == "ready", timeout=20_000)
    window.use_workspace("debug")
    lab = window.docks["faults"].widget()
    qtbot.waitUntil(lambda: window.docks["invariants"].widget().isVisible())
    window.docks["invariants"].raise_()
    window.session.view.select(3)
    assert lab._watch.rounds < 30
    window.docks["faults"].raise_()
    qtbot.waitUntil(lambda: lab._watch.rounds == 30, timeout=5000)
