"""The timeline: what a cell shows at every width, that nothing that matters is lost, and moving about in it."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import FakeRounds, fake_header, fake_run
from PySide6.QtCore import QPoint, QPointF
from PySide6.QtGui import QColor, QImage, QKeyEvent, Qt, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.breakpoint_list import BreakpointList
from app.panels.round_axis import AxisMap, RoundAxis
from app.panels.timeline import CELLS, EMPTY, SLOTS, TimelinePanel
from app.panels.timeline_strip import CLASSES, LEAST, Tally, heights, picture, tally
from app.theme import DARK, LIGHT
from app.view import View
from engine.columns import OUTCOMES, Columns
from engine.recording import RecordedRun


@pytest.fixture
def panel(qtbot, view: View) -> TimelinePanel:
    panel = TimelinePanel(view)
    qtbot.addWidget(panel)
    panel.resize(1440, 57)
    panel.show()
    return panel


def run_of(outcomes: list[str], drift: list[int] | None = None) -> RecordedRun:
    """A run whose columns say this; its rounds are of no interest."""
    run = fake_run(len(outcomes), distributions=False)
    run._columns._arrays["outcome"][: len(outcomes)] = [OUTCOMES.index(name) for name in outcomes]
    run._columns._arrays["drift"][: len(outcomes)] = drift or [0] * len(outcomes)
    run.first_drift = next((at for at, value in enumerate(drift or []) if value), None)
    return run


class _Unread:
    """Rounds that there are, and that nothing may read."""

    def __init__(self, count: int, newest: object) -> None:
        self.count, self.newest = count, newest

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> object:
        assert index == self.count - 1, f"round {index} was read"
        return self.newest


def long_run(count: int) -> RecordedRun:
    """So many rounds, all accepted, in the columns alone; of the rounds only the one under the cursor is there."""
    run = fake_run(3, distributions=False)
    columns = Columns(count)
    columns._arrays["outcome"][:count] = OUTCOMES.index("accepted-all")
    columns._arrays["k"][:count] = 4
    run._rounds = _Unread(count, run[2])
    run._columns = columns
    return run


def axis_over(count: int, width: int) -> AxisMap:
    return AxisMap(0, width, 0.0, float(count), width / count, count)


def inks(image: QImage, x: int) -> list[str]:
    return [image.pixelColor(x, y).name().upper() for y in range(image.height())]


def test_one_round_among_very_many_is_not_lost() -> None:
    run, width = long_run(100_000), 1000
    outcome, drift = run._columns._arrays["outcome"], run._columns._arrays["drift"]
    outcome[50_050], outcome[70_020], drift[90_090] = OUTCOMES.index("rejected"), OUTCOMES.index("degenerate"), 5
    axis = axis_over(100_000, width)
    told = tally(run, axis)
    assert told.counts.sum() == 100_000
    assert told.starts[500] == 50_000
    image = picture(told, axis, 40, 5, LIGHT)
    green, orange, yellow, red = (LIGHT.accepted.fill, LIGHT.rejected.fill, LIGHT.recovered.fill, LIGHT.danger)
    assert set(inks(image, 500)) >= {green, orange}
    assert yellow in inks(image, 700)
    assert red in inks(image, 900)[:5]
    for x in set(range(0, width, 7)) - {500, 700, 900}:
        assert not {orange, yellow, red} & set(inks(image, x))


def test_heights_are_shares_and_fill_the_room() -> None:
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 50, (len(CLASSES), 400))
    counts[:, rng.random(400) < 0.3] //= 20
    counts = counts[:, counts.sum(0) > 0]
    for room in (12, 40):
        tall = heights(counts, room)
        assert (tall.sum(0) == room).all()
        assert (tall >= 0).all()
        assert (tall[counts == 0] == 0).all()
        for place in (2, 3):
            assert (tall[place][counts[place] > 0] >= LEAST[place]).all()
    shares = heights(counts, 1000) / 1000
    assert np.abs(shares - counts / counts.sum(0)).max() < 0.01


def test_a_cell_of_its_own_has_one_colour() -> None:
    outcomes = ["accepted-all", "rejected", "degenerate", "plain"] * 25
    run = run_of(outcomes)
    axis = axis_over(100, 1000)
    image = picture(tally(run, axis), axis, 30, 0, DARK)
    fills = (DARK.accepted, DARK.rejected, DARK.recovered, DARK.target_draw)
    for index in range(100):
        left, right = axis.edges(index)
        seen = {ink for x in range(left, right) for ink in inks(image, x)}
        assert fills[index % 4].fill in seen
        assert not {other.fill for at, other in enumerate(fills) if at != index % 4} & seen
        assert set(inks(image, right - 1)) == {DARK.base}, "a gap parts the cells"


def test_an_empty_tally_is_an_empty_picture() -> None:
    empty = Tally(np.zeros(0, np.int64), np.zeros((4, 0), np.int64), np.zeros(0, bool))
    image = picture(empty, AxisMap(0, 50, 0.0, 1.0, 50.0, 0), 10, 0, LIGHT)
    assert {ink for x in range(50) for ink in inks(image, x)} == {LIGHT.base}


def test_the_title_says_what_a_cell_is(panel: TimelinePanel, view: View) -> None:
    assert panel.title_context() == ""
    assert panel.spoken() == EMPTY
    panel.grab()
    view.show_run(fake_run(26, distributions=False))
    assert panel.title_context() == SLOTS
    view.show_run(fake_run(26, distributions=False, k=30))
    assert panel.title_context() == CELLS, "thirty slots have no room"
    view.show_run(fake_run(26, distributions=False, k=0))
    assert panel.title_context() == CELLS
    view.show_run(fake_run(200, distributions=False))
    assert panel.title_context() == CELLS
    view.show_run(long_run(100_000))
    assert "rounds a pixel" in panel.title_context()
    assert panel.spoken().startswith("100,000 rounds: 100,000 all accepted, drift in none")
    assert not panel.grab().isNull()


def test_many_rounds_are_told_by_the_pixel(panel: TimelinePanel, view: View) -> None:
    run = fake_run(3000, distributions=False)
    view.show_run(run)
    axis = RoundAxis.for_view(view).map(panel.width())
    assert panel.title_context().startswith(f"{1 / axis.cell:.1f} rounds a pixel")
    tip = panel.tip(axis.left + 10)
    assert tip.startswith("Rounds ")
    low, high = (int(part) for part in tip.partition("\n")[0].removeprefix("Rounds ").split(" to "))
    assert low <= axis.round_at(axis.left + 10) <= high
    rejected = int((run.column("outcome")[low : high + 1] == OUTCOMES.index("rejected")).sum())
    assert (f"{rejected} with a rejection" in tip) == (rejected > 0)


def test_slots_show_the_fates(panel: TimelinePanel, view: View) -> None:
    run = fake_run(26, distributions=False)
    view.show_run(run)
    view.select(0)
    image, axis = panel.grab().toImage(), RoundAxis.for_view(view).map(panel.width())
    green = QColor(LIGHT.accepted.fill)
    for index in range(1, 26):
        left, right = axis.edges(index)
        column = [image.pixelColor((left + right) // 2, y) for y in range(panel.height())]
        runs = sum(a == green != b for a, b in zip(column, [*column[1:], None], strict=True))
        assert runs == run[index].accepted


def test_drift_has_a_strip_of_its_own_in_every_width(panel: TimelinePanel, view: View) -> None:
    red = QColor(LIGHT.danger)
    for rounds in (26, 200, 3000):
        drift = [0] * (rounds // 2) + [2] * (rounds - rounds // 2)
        run = fake_run(rounds, distributions=False)
        run._columns._arrays["drift"][:rounds] = drift
        run.first_drift = rounds // 2
        view.show_run(run)
        view.select(0)
        image, axis = panel.grab().toImage(), RoundAxis.for_view(view).map(panel.width())
        for index in (rounds // 4, rounds - 2):
            x = int(axis.centre(index))
            there = any(image.pixelColor(x, y) == red for y in range(panel.height()))
            assert there == (drift[index] != 0), (rounds, index)


def test_dragging_scrubs_and_goes_on_over_the_end(qtbot, panel: TimelinePanel, view: View) -> None:
    view.show_run(fake_run(3000, distributions=False))
    shared = RoundAxis.for_view(view)
    axis = shared.map(panel.width())
    button, place = Qt.MouseButton.LeftButton, QPoint(int(axis.centre(600)), 20)
    QTest.mousePress(panel, button, pos=place)
    assert view.round_index == axis.round_at(place.x())
    assert not view.behind, "a click is served at once"
    QTest.mouseMove(panel, QPoint(int(axis.centre(2000)), 20))
    assert abs(view.round_index - 2000) <= 3
    assert not view.live
    assert view.behind, "a drag isn't held up by the panels"
    qtbot.waitUntil(lambda: not view.behind)
    QTest.mouseRelease(panel, button, pos=place)
    shared.zoom(100, 0.01)
    first = shared.map(panel.width()).first
    QTest.mousePress(panel, button, pos=QPoint(panel.width() // 2, 20))
    told: list[bool] = []
    shared.changed.connect(lambda: told.append(view.telling))
    QTest.mouseMove(panel, QPoint(panel.width() - 1, 20))
    assert shared.map(panel.width()).first > first
    first = shared.map(panel.width()).first
    QTest.mouseMove(panel, QPoint(shared.gutter + 1, 20))
    QTest.mouseMove(panel, QPoint(shared.gutter, 20))
    assert view.round_index == shared.map(panel.width()).first < first - 1
    assert set(told) == {True}, "the panels follow the cursor, not the axis"
    QTest.mouseRelease(panel, button)
    view.serve()
    QTest.mousePress(panel, button, pos=QPoint(shared.gutter - 5, 20))
    before = view.round_index
    assert view.round_index == before, "the legend chooses nothing"
    QTest.mouseRelease(panel, button)


def test_a_key_that_is_held_down_scrubs(qtbot, panel: TimelinePanel, view: View) -> None:
    view.show_run(fake_run(20, distributions=False))
    view.select(10)
    for key, wanted in ((Qt.Key.Key_Left, 9), (Qt.Key.Key_Right, 10), (Qt.Key.Key_PageUp, 0)):
        for held in (False, True):
            view.select(10 if key != Qt.Key.Key_Right else 9)
            QApplication.sendEvent(panel, QKeyEvent(QKeyEvent.Type.KeyPress, key, Qt.KeyboardModifier(0), "", held))
            assert (view.round_index, view.behind) == (wanted, held)
    view.serve()


@pytest.mark.parametrize("total", [700, 40_001])
def test_a_column_begins_with_the_first_round_whose_edge_falls_into_it(total: int) -> None:
    """Whatever the rounding: by the columns, as it is done, or by the rounds, as it is meant."""
    random = np.random.default_rng(total)
    cells = [*random.uniform(0.01, 1, 20), 0.1, 0.25, 1 / 3, *(1 / random.integers(2, 200, 20)), *[0.3, 0.7, 0.9] * 10]
    for at, cell in enumerate(random.permutation(cells)):
        first = (0.0, random.uniform(0, total - 1), random.integers(total // 2))[at % 3]
        axis = AxisMap(300, 1400, float(first), min(1100 / cell, total - first), float(cell), total)
        low, high = axis.visible()
        columns = np.floor((np.arange(low, high) - axis.first) * axis.cell)
        wanted = low + np.flatnonzero(np.diff(columns, prepend=-np.inf))
        assert np.array_equal(axis.bucket_starts(), wanted), axis


def test_keys_and_wheel(qtbot, panel: TimelinePanel, view: View) -> None:
    view.show_run(fake_run(200, distributions=False))
    view.select(100)
    axis = RoundAxis.for_view(view)
    key = Qt.Key
    qtbot.keyClick(panel, key.Key_Plus)
    zoomed = axis.map(panel.width()).span
    assert zoomed < 200
    centre = panel.rect().center()
    wheel = QWheelEvent(
        QPointF(centre),
        QPointF(panel.mapToGlobal(centre)),
        QPoint(),
        QPoint(0, 120),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    panel.wheelEvent(wheel)
    assert axis.map(panel.width()).span < zoomed
    qtbot.keyClick(panel, key.Key_Minus)
    qtbot.keyClick(panel, key.Key_0)
    assert axis.map(panel.width()).span >= 200
    for pressed, expected in ((key.Key_Left, 99), (key.Key_Right, 100), (key.Key_Home, 0), (key.Key_PageDown, 199)):
        qtbot.keyClick(panel, pressed)
        assert view.round_index == expected
    view.select(3)
    qtbot.keyClick(panel, key.Key_End)
    assert view.live


class _Dots:
    """What the panel asks a BreakpointList for."""

    def __init__(self, rounds: list[int]) -> None:
        self.rounds = rounds

    def dots(self, run: RecordedRun) -> list[int]:
        return self.rounds


@pytest.mark.parametrize("rounds", [26, 200, 3000])
def test_marks_and_breakpoints_are_seen_in_every_width(panel: TimelinePanel, view: View, rounds: int) -> None:
    view.show_run(fake_run(rounds, distributions=False))
    view.select(0)
    axis = RoundAxis.for_view(view).map(panel.width())
    panel.clearFocus()  # its frame has the flags' colour
    accent, red = QColor(LIGHT.accent), QColor(LIGHT.danger)

    def count(ink: QColor, index: int) -> int:
        image, (left, right) = panel.grab().toImage(), axis.edges(index)
        return sum(image.pixelColor(x, y) == ink for x in range(left - 8, right + 8) for y in range(panel.height()))

    assert count(accent, rounds // 2) == count(red, rounds // 3) == 0
    view.mark(rounds // 2, "")
    panel._breakpoints = _Dots([rounds // 3])  # type: ignore[assignment]
    assert count(accent, rounds // 2) > 8
    assert count(red, rounds // 3) > 8
    view.mark(rounds // 2, "<b>why</b>")
    tip = panel.tip(axis.centre(rounds // 2))
    assert not Qt.mightBeRichText(tip)
    assert f"round {rounds // 2} is marked: <b>why</b>" in tip
    assert f"breakpoint: round {rounds // 3}" in panel.tip(axis.centre(rounds // 3))
    view.mark(rounds // 2, None)
    assert count(accent, rounds // 2) == 0


def test_the_strip_is_not_drawn_anew_for_a_moved_cursor(panel: TimelinePanel, view: View) -> None:
    run, source = RecordedRun(fake_header()), FakeRounds(distributions=False)
    for _ in range(200):
        run.append(source.next())
    view.show_run(run)
    panel.grab()
    kept = panel._strip
    view.select(50)
    panel.grab()
    assert panel._strip is kept
    for act in (
        lambda: (run.append(source.next()), view.notify_advanced()),
        lambda: RoundAxis.for_view(view).zoom(50, 0.8),
        lambda: panel.restyle(DARK),
        lambda: panel.resize(900, 57),
    ):
        act()
        panel.grab()
        assert panel._strip is not kept
        kept = panel._strip


@pytest.mark.parametrize("size", [(1440, 57), (1440, 200), (1024, 34), (1024, 20), (300, 20)])
def test_painting_in_every_state(panel: TimelinePanel, view: View, size: tuple[int, int]) -> None:
    panel.resize(*size)
    for options in ({}, {"k": 16}, {"k": 0}, {"legacy": True}, {"rule": "sampler-match"}):
        for rounds in (1, 20, 400):
            view.show_run(fake_run(rounds, distributions=False, **options))
            assert not panel.grab().isNull()
    view.show_run(None)
    assert not panel.grab().isNull()


def test_it_follows_a_list_of_breakpoints(qtbot, panel: TimelinePanel, view: View, tmp_path) -> None:
    from app.session import Session
    from engine.breakpoints import Breakpoint, Condition
    from tests.gui.fake_engine import FakeRoom, Script
    from tests.gui.windows import store_in

    session = Session(lambda: FakeRoom(Script()))
    points = BreakpointList(session, store_in(tmp_path))
    panel.follow_breakpoints(points)
    view.show_run(fake_run(26, distributions=False))
    view.select(0)
    before = panel.grab().toImage()
    points.add(Breakpoint((Condition("round", 7),)))
    assert panel.grab().toImage() != before
    points.enable(0, False)
    assert panel.grab().toImage() == before
    assert session.shutdown()
