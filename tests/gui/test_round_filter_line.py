"""The filter over the rounds table: errors underlined and explained, rows that match, live, and saved filters."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import FakeRounds, fake_header, fake_run
from PySide6.QtGui import Qt

from app.panels.filter_line import MOST, FilterLine, guide
from app.panels.rounds_table import EMPTY, NO_MATCH, RoundsTablePanel
from app.view import View
from engine.columns import outline_of
from engine.recording import RecordedRun
from engine.round_filter import NUMBERS, WORDS, parse
from tests.gui.windows import store_in


@pytest.fixture
def panel(qtbot, view: View) -> RoundsTablePanel:
    panel = RoundsTablePanel(view)
    qtbot.addWidget(panel)
    panel.resize(320, 300)
    panel.show()
    return panel


@pytest.fixture
def line(qtbot) -> FilterLine:
    line = FilterLine()
    qtbot.addWidget(line)
    line.resize(400, 80)
    line.show()
    return line


def shown(panel: RoundsTablePanel) -> list[int]:
    return [panel.model.number(row) for row in range(panel.model.rowCount())]


def wavy(line: FilterLine) -> list[int]:
    """Columns of the edit that hold some red between its borders; the wave's edges are smoothed."""
    image = line.edit.grab().toImage()

    def is_red(x: int, y: int) -> bool:
        ink = image.pixelColor(x, y)
        return ink.red() - ink.green() > 60

    inner = range(3, image.height() - 3)
    return [x for x in range(3, image.width() - 3) if any(is_red(x, y) for y in inner)]


def test_an_error_is_underlined_where_it_is_and_explained(line: FilterLine) -> None:
    told = []
    line.changed.connect(told.append)
    line.set_line("outcome:rejected")
    assert len(told) == 1
    assert wavy(line) == []
    assert line.words.isHidden()
    line.set_line("outcome:rejected acepted<2 drift!=0")
    assert len(told) == 1, "the filter that was understood stays"
    assert line.words.isVisible()
    assert line.words.text().startswith("acepted is none of round, k, tested")
    assert (line.error.start, line.error.end) == (17, 24)
    wave = wavy(line)
    for position, x in ((17, wave[0]), (24, wave[-1])):
        line.edit.setCursorPosition(position)
        assert abs(line.edit.cursorRect().center().x() - x) < 4
    line.set_line("outcome:rejected accepted<2")
    assert len(told) == 2
    assert wavy(line) == []
    assert line.words.isHidden()


def test_typing_is_used_after_a_while_and_enter_at_once(qtbot, line: FilterLine) -> None:
    told = []
    line.changed.connect(told.append)
    qtbot.keyClicks(line.edit, "k=4")
    assert told == []
    qtbot.waitUntil(lambda: len(told) == 1, timeout=2000)
    assert told[0].line == "k=4"
    line.edit.clear()
    qtbot.keyClicks(line.edit, "k=")
    with qtbot.assertNotEmitted(line.left):
        qtbot.keyClick(line.edit, Qt.Key.Key_Return)
    assert line.error is not None
    assert len(told) == 1
    with qtbot.waitSignal(line.left, timeout=1000):
        qtbot.keyClick(line.edit, Qt.Key.Key_Escape)
    assert told[1:] == [None]
    assert line.edit.text() == ""


def test_only_rounds_that_match_have_rows(panel: RoundsTablePanel, view: View) -> None:
    run = fake_run(180)
    view.show_run(run)
    panel.filter.set_line("outcome:rejected accepted<1")
    expected = [r.index for r in run if r.rejected_at is not None and r.accepted < 1]
    assert 0 < len(expected) < 180
    assert shown(panel) == expected
    assert panel.title_context() == f"{len(expected)} of 180"
    for row, number in enumerate(expected):
        assert panel.model.text(row, "index") == str(number)
        assert panel.model.record(row) == outline_of(run[number])
        assert panel.model.row_of(number) == row
    assert panel.model.copied([0, 1]).split("\n")[1].startswith(f"{expected[0]}\t")
    panel.filter.set_line("")
    assert shown(panel) == list(range(180))
    assert panel.title_context() == "180 of 180"


def test_rows_and_the_cursor_agree(qtbot, panel: RoundsTablePanel, view: View) -> None:
    run = fake_run(180)
    view.show_run(run)
    view.select(100)
    panel.filter.set_line("outcome:rejected")
    numbers = shown(panel)
    panel.table.setCurrentIndex(panel.model.index(5, 1))
    assert view.round_index == numbers[5]
    qtbot.keyClick(panel.table, Qt.Key.Key_Down)
    assert view.round_index == numbers[6]
    missing = next(number for number in range(60, 180) if number not in numbers)
    view.select(missing)
    assert view.round_index == missing, "the table doesn't choose another"
    assert panel.selected_rows() == []
    assert panel.delegate.cursor_row == -1
    near = panel.model.row_from(missing)
    assert panel.table.viewport().rect().contains(panel.table.visualRect(panel.model.index(near, 1)))
    view.select(numbers[3])
    assert panel.selected_rows() == [3]


def test_it_stays_live_and_tests_new_rounds_only(panel: RoundsTablePanel, view: View, monkeypatch) -> None:
    run, source = RecordedRun(fake_header()), FakeRounds(distributions=False)
    view.show_run(run)
    panel.filter.set_line("outcome:rejected")
    wanted, starts = panel.model.filter, []
    real = type(wanted).matches

    def counted(self, run, start=0):
        starts.append(start)
        return real(self, run, start)

    monkeypatch.setattr(type(wanted), "matches", counted)
    for _ in range(60):
        run.append(source.next())
        view.notify_advanced()
    assert starts == sorted(set(starts)), "every round is looked at once"
    assert starts[-1] == 59
    assert shown(panel) == [r.index for r in run if r.rejected_at is not None]
    bar = panel.table.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0


def test_a_round_that_is_left_out_is_no_reason_to_choose_another(qtbot, panel: RoundsTablePanel, view: View) -> None:
    run, source = RecordedRun(fake_header()), FakeRounds(distributions=False)
    while len(run) < 40 or run[len(run) - 1].rejected_at is not None:
        run.append(source.next())
    view.show_run(run)
    last = len(run) - 1
    panel.filter.set_line("outcome:rejected")
    numbers = shown(panel)
    assert last not in numbers
    panel.activateWindow()
    panel.filter.edit.setFocus()
    qtbot.waitUntil(panel.filter.edit.hasFocus)
    panel.table.setFocus()
    assert panel.table.hasFocus()
    assert (view.live, view.round_index) == (True, last)
    qtbot.keyClick(panel.table, Qt.Key.Key_Down)
    assert (view.live, view.round_index) == (True, last), "there is none below"
    qtbot.keyClick(panel.table, Qt.Key.Key_Up)
    assert view.round_index == numbers[-1]
    missing = next(number for number in range(10, last) if number not in numbers)
    view.select(missing)
    qtbot.keyClick(panel.table, Qt.Key.Key_Down)
    assert view.round_index == next(number for number in numbers if number > missing)


def test_nothing_that_matches_says_so(panel: RoundsTablePanel, view: View) -> None:
    assert panel.table.sentence == EMPTY
    view.show_run(fake_run(20))
    panel.filter.set_line("drift!=0")
    assert panel.model.rowCount() == 0
    assert panel.table.sentence == NO_MATCH
    assert panel.title_context() == "0 of 20"
    assert not panel.grab().isNull()
    view.show_run(None)
    assert panel.table.sentence == EMPTY
    view.show_run(fake_run(20, legacy=True))
    assert shown(panel) == list(range(20)), "the filter stays for another run"


def test_marks_are_drawn_and_filtered_at_once(panel: RoundsTablePanel, view: View) -> None:
    view.show_run(fake_run(12))
    view.select(0)
    before = panel.grab().toImage()
    view.mark(4, "look")
    assert panel.grab().toImage() != before
    assert "marked: look" in panel.model.tip(4)
    panel.filter.set_line("marked:yes")
    assert shown(panel) == [4]
    view.mark(7, "")
    assert shown(panel) == [4, 7]
    view.mark(4, None)
    assert shown(panel) == [7]
    panel.filter.set_line("")
    view.mark(7, None)
    assert panel.grab().toImage() == before


def test_escape_in_the_table_clears_the_filter(qtbot, panel: RoundsTablePanel, view: View) -> None:
    view.show_run(fake_run(20))
    panel.filter.set_line("k=4")
    panel.focus_filter()
    assert panel.filter.edit.selectedText() == "k=4"
    panel.table.setFocus()
    qtbot.keyClick(panel.table, Qt.Key.Key_Escape)
    assert (panel.filter.edit.text(), panel.model.filter) == ("", None)


def test_filters_are_saved_picked_and_deleted(line: FilterLine, tmp_path) -> None:
    store = store_in(tmp_path)
    line.keep_in(store)
    told = []
    line.changed.connect(told.append)

    def entry(text: str, menu=None):
        return next(a for a in (menu or line.menu()).actions() if a.text() == text)

    assert not entry("Save This Filter").isEnabled()
    line.set_line("k=")
    assert not entry("Save This Filter").isEnabled(), "a line that isn't understood isn't kept"
    for text in ("k=4", 'text:"a&b"'):
        line.set_line(text)
        entry("Save This Filter").trigger()
    assert store_in(tmp_path).filters == ["k=4", 'text:"a&b"']
    assert not entry("Save This Filter").isEnabled(), "it is there"
    entry("k=4").trigger()
    assert line.edit.text() == "k=4"
    assert told[-1].line == "k=4"
    deleting = entry("Delete").menu()
    entry('text:"a&&b"', deleting).trigger()
    assert store.filters == ["k=4"]
    for number in range(MOST + 3):
        line.set_line(f"round={number}")
        line.save()
    assert store.filters == [f"round={number}" for number in range(3, MOST + 3)]


def test_the_tooltip_names_all_that_can_be_asked(line: FilterLine) -> None:
    assert all(name in guide() for name in (*NUMBERS, *WORDS))
    assert not Qt.mightBeRichText(guide())


def test_many_rounds_are_filtered_by_the_columns_alone() -> None:
    """What a filter reads of the run: columns and tokens; asking for a round would fail."""
    run = fake_run(50, distributions=False)
    expected = {
        text: parse(text).matches(run).tolist() for text in ("outcome:rejected", "token:3", 'text:"the"', "k=4")
    }
    run._rounds = [None] * 50
    for text, numbers in expected.items():
        assert parse(text).matches(run).tolist() == numbers
        assert np.array_equal(parse(text).matches(run, 20), [number for number in numbers if number >= 20])
