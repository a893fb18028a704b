"""The Meters panel: what it reads of a run, what it says without numbers, and what it asks of the window."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fakes import FakeRounds, fake_header, fake_run
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.panels.meters import EMPTY, NEEDS, PAGE, MetersPanel
from app.panels.meters_data import evidence, meters_table, read_meters, thin
from app.panels.need_diagnostics import ON
from app.view import View
from engine.evidence import BINS
from engine.recording import RecordedRun
from engine.rounds import Coordinates, Round
from engine.settings import Settings
from tests.gui.windows import Opener, show_run


def metered(record: Round, u: np.ndarray, drafted: np.ndarray | None) -> Round:
    """A round with these places of its tokens."""
    u = u.astype(np.float32)
    return dataclasses.replace(record, coordinates=Coordinates(u, u, drafted))


def metered_run(rounds: int = 60, *, low: float = 0.0, rule: str = "stochastic", **options: object) -> RecordedRun:
    """Emitted tokens fall into [low, 1), drafted ones anywhere: above 0 that is a wrong rule's doing."""
    random, source = np.random.default_rng(1), FakeRounds(rule, distributions=False)
    header = fake_header(rule)
    run = RecordedRun(dataclasses.replace(header, settings=dataclasses.replace(header.settings, **options)))
    for _ in range(rounds):
        record = source.next()
        emitted = low + (1 - low) * random.random(len(record.emitted))
        run.append(metered(record, emitted, random.random(record.k).astype(np.float32)))
    return run


@pytest.fixture
def panel(qtbot: QtBot, view: View) -> MetersPanel:
    panel = MetersPanel(view)
    qtbot.addWidget(panel)
    panel.resize(450, 240)
    panel.show()
    return panel


def test_a_right_run_trips_nothing(view: View, panel: MetersPanel) -> None:
    run = metered_run()
    view.show_run(run)
    reading = panel.reading()
    assert reading is not None
    emitted, drafted = reading.meters
    assert (emitted.n, drafted.n) == (len(run.tokens), sum(record.k for record in run))
    assert [sum(counts) for counts in (*emitted.counts, *drafted.counts)] == [emitted.n, emitted.n, drafted.n]
    assert (emitted.alarm_at, drafted.alarm_at) == (None, None)
    assert panel.title_context() == f"no alarm; n {emitted.n} emitted, {drafted.n} drafted, whole run"
    assert reading.missing == 0


def test_an_alarm_is_named_with_its_token_and_stays(view: View, panel: MetersPanel) -> None:
    run = metered_run(low=0.4)
    view.show_run(run)
    reading = panel.reading()
    assert reading is not None
    at = run.meters.losslessness.alarm_at
    assert at is not None
    assert reading.losslessness.verdict == f"▲ alarm at emitted token {at}"
    assert panel.title_context().startswith(f"losslessness: ▲ alarm at emitted token {at}; n ")
    assert reading.proposal.alarm_at is None
    view.select(0)
    assert panel.reading() == reading, "the cursor has no say"


def test_what_does_not_apply_says_why(view: View, panel: MetersPanel) -> None:
    view.show_run(fake_run(3, rule="greedy-argmax"))
    reading = panel.reading()
    assert reading is not None
    assert "greedy" in reading.losslessness.reason
    assert "not applicable" in reading.proposal.reason
    assert panel.title_context() == "not applicable"
    view.show_run(metered_run(3, rule="sampler-match-no-proposal-distribution", drafter="no-q"))
    reading = panel.reading()
    assert reading is not None
    assert reading.losslessness.n
    assert reading.proposal.reason == "not applicable: the drafter reports no q"
    view.show_run(metered_run(3, drafter="greedy"))
    assert "argmax" in str(panel.reading().proposal.reason)


def test_it_says_that_it_cannot_see_a_fault_of_the_main_cache(view: View, panel: MetersPanel) -> None:
    run, source = metered_run(3), metered_run(4)
    run.append(dataclasses.replace(source[3], distribution_preserving=False))
    view.show_run(run)
    assert panel.reading().losslessness.verdict == "blind: main cache fault"
    assert panel.title_context().startswith("p itself is wrong, which no meter can see; ")
    assert panel.reading().proposal.verdict == "no alarm"
    wrong = RecordedRun(run.header)
    wrong.append(dataclasses.replace(source[0], rule="raw-q", distribution_preserving=False))
    view.show_run(wrong)
    assert panel.reading().losslessness.verdict == "no alarm"


def test_without_diagnostics_it_offers_them(qtbot: QtBot, view: View, panel: MetersPanel) -> None:
    assert panel.reading() is None
    assert not panel._needed.isVisible(), EMPTY
    view.show_run(fake_run(3, diagnostics=False))
    assert panel._needed.isVisible()
    assert panel._needed.text() == NEEDS
    with qtbot.waitSignal(panel.change_wanted) as asked:
        qtbot.mouseClick(panel._needed.button, Qt.MouseButton.LeftButton)
    assert asked.args == [{"diagnostics": True}]
    panel.set_diagnostics(True)
    assert panel._needed.text() == ON
    assert not panel._needed.button.isVisible()
    view.show_run(metered_run(2))
    assert not panel._needed.isVisible()


def test_tokens_that_no_meter_saw_are_counted(view: View, panel: MetersPanel) -> None:
    run = metered_run(5)
    before, source = len(run.tokens), FakeRounds(distributions=False, diagnostics=False)
    for _ in range(5):
        source.next()
    run.append(source.next())
    view.show_run(run)
    assert panel.title_context().endswith(f"; {len(run.tokens) - before} tokens without Diagnostics")


def test_the_identity_has_its_numbers(view: View, panel: MetersPanel) -> None:
    run = metered_run(30)
    view.show_run(run)
    identity = panel.reading().identity
    assert identity.n == sum(record.tested for record in run)
    assert identity.text.startswith(f"z {run.identity.z:+.2f} · n {identity.n} tests")
    assert "not valid under continuous watching" in identity.text
    assert "Σ min(p, q)" in identity.formula
    block = RecordedRun(fake_header())
    for record in run:
        block.append(dataclasses.replace(record, rule="block"))
    assert read_meters(block).identity.unit == "rounds"
    assert read_meters(block).identity.text.startswith("z - ")


def test_everything_can_be_copied(view: View, panel: MetersPanel) -> None:
    run = metered_run(20)
    view.show_run(run)
    lines = panel.table()
    assert {len(line) for line in lines} == {len(lines[0])}
    assert [line[1] for line in lines[1:]] == ["by p/q", "by p", "mean of its orders", "by q", "mean of its orders", ""]
    assert sum(int(cell) for cell in lines[1][5 : 5 + BINS]) == run.meters.losslessness.n
    assert float(lines[3][3]) == pytest.approx(run.meters.losslessness.log10_evidence)
    assert len(meters_table(None, None)) == 1


@pytest.mark.parametrize(
    ("log10", "text"),
    [(0, "1.00"), (-8.5, "3.2e-9"), (3.99, "9772"), (4, "1.0e4"), (512.15, "1.4e512"), (-4.00001, "1.0e-4")],
)
def test_evidence_of_any_size_can_be_read(log10: float, text: str) -> None:
    assert evidence(log10) == text


def test_a_long_curve_keeps_its_extremes_and_its_end() -> None:
    curve = np.random.default_rng(3).normal(0, 1, 100_000).astype(np.float32)
    curve[54_321], curve[12_345] = 40, -40
    tokens, values = thin(curve, 200)
    assert len(tokens) == len(values) <= 2 * 200 + 1
    assert (values.max(), values.min(), values[-1], tokens[-1]) == (40, -40, curve[-1], len(curve))
    assert (np.diff(tokens) >= 0).all()
    short, same = thin(curve[:50], 200)
    assert (short[0], short[-1]) == (1, 50)
    assert same.tolist() == curve[:50].tolist()


@pytest.mark.parametrize("size", [(450, 240), (790, 150), (240, 90), (60, 20)])
@pytest.mark.parametrize("low", [0.0, 0.4])
def test_it_can_be_painted_at_any_size(view: View, panel: MetersPanel, size: tuple[int, int], low: float) -> None:
    panel.resize(*size)
    view.show_run(metered_run(40, low=low))
    assert not panel.grab().isNull()


def test_the_window_opens_its_page_and_turns_diagnostics_on(qtbot: QtBot, open_window: Opener) -> None:
    window = open_window()
    window.session.change(diagnostics=False)
    show_run(window, fake_run(6, diagnostics=False))
    panel = window.docks["meters"].widget()
    window.docks["meters"].raise_()
    qtbot.waitUntil(panel._needed.button.isVisible)
    qtbot.mouseClick(panel._needed.button, Qt.MouseButton.LeftButton)
    assert window.session.settings.diagnostics
    assert window.actions_by_name["diagnostics"].isChecked()
    assert panel._needed.text() == ON
    for dock, page in (("meters", PAGE), ("what-if", "what-if.md")):
        window.docks[dock].raise_()
        button = window.docks[dock].widget().title_widgets()[-1]
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
        viewer = window.dialogs.by_name["help"]
        assert viewer._pages[viewer.list.currentRow()].name == page


def test_the_status_bar_marks_what_is_not_lossless(open_window: Opener) -> None:
    window = open_window()
    item = window.status.items["rule"]
    window.session.configure(settings=Settings(rule="raw-q"))
    assert item.text() == "rule=raw-q ▲ not lossless"
    window.session.configure(settings=Settings(main_rewind="no-trim"))
    assert item.text() == "rule=sampler-match ▲ not lossless"
    window.session.configure(settings=Settings(rule="block"))
    assert item.text() == "rule=block"
    run = RecordedRun(fake_header())
    run.append(dataclasses.replace(fake_run(1)[0], rule="argmax-vs-argmax", distribution_preserving=False))
    show_run(window, run)
    assert item.text() == "rule=argmax-vs-argmax ▲ not lossless"
