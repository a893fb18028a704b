"""The token stream: layout, what a click chooses, what copying gives, and following the tail."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from fakes import FakeRounds, fake_header, fake_run, fake_vocabulary
from PySide6.QtCore import QPoint
from PySide6.QtGui import QColor, QGuiApplication, QImage, QPainter, Qt

from app.format import visible_text
from app.panels import chips, token_layout, token_stream
from app.panels.chips import TokenPainter, chip_styles, plain_tip
from app.panels.token_cells import KINDS, Cells, cells_of
from app.panels.token_layout import GAP, TokenLayout
from app.panels.token_stream import TokenStreamPanel
from app.theme import DARK, LIGHT
from app.view import View
from engine.recording import RecordedRun
from engine.rounds import SOURCES, Draft, Emitted


@pytest.fixture
def panel(qtbot, view: View, monkeypatch: pytest.MonkeyPatch) -> TokenStreamPanel:
    """It takes all rounds in at once, however slow the machine is."""
    monkeypatch.setattr(token_stream, "TAKE_IN_SECONDS", 60.0)
    panel = TokenStreamPanel(view)
    qtbot.addWidget(panel)
    panel.resize(700, 120)
    panel.show()
    return panel


def cells(panel: TokenStreamPanel) -> list[tuple[int, int, int, str]]:
    """(round, position, token, kind) of every cell."""
    layout = panel._layout
    return [(*layout.cell(i)[:3], KINDS[layout.cell(i)[3]]) for i in range(layout.count)]


def expected_cells(run: RecordedRun, rejected: bool) -> list[tuple[int, int, int, str]]:
    wanted = [(-1, i, token, "prompt") for i, token in enumerate(run.header.prompt_tokens)]
    for record in run:
        for emitted in record.emitted:
            if rejected and emitted.position == record.rejected_at:
                wanted.append((record.index, emitted.position, record.drafts[emitted.position].token, "rejected"))
            wanted.append((record.index, emitted.position, emitted.token, emitted.source))
    return wanted


def plain_layout(widths: list[int], glued: set[int], width: int) -> list[list[int]]:
    """The rows that greedy breaking gives, found the slow way."""
    rows: list[list[int]] = []
    row: list[int] = []
    x = 0
    for index, cell in enumerate(widths):
        unit = cell + (widths[index + 1] if index in glued else 0)
        begins_unit = index - 1 not in glued
        if row and x + (unit if begins_unit else cell) > width:
            rows.append(row)
            row, x = [], 0
        row.append(index)
        x += cell + (0 if index in glued else GAP)
    return [*rows, row] if row else rows


def add(layout: TokenLayout, index: int, widths: list[int], glued: list[bool] | None = None) -> None:
    """Cells of these widths, each of a round of its own from `index` on."""
    numbers, zeros = np.arange(index, index + len(widths)), np.zeros(len(widths), np.int64)
    pairs = np.array(glued if glued is not None else [False] * len(widths))
    layout.add(Cells(numbers, zeros, numbers, zeros, pairs), np.array(widths, np.int64))


@pytest.mark.parametrize("block", [1, 7, 8192])
@pytest.mark.parametrize("width", [60, 131, 400, 5000])
def test_rows_are_the_same_however_the_cells_came(width: int, block: int, monkeypatch) -> None:
    monkeypatch.setattr(token_layout, "_BLOCK", block)
    rng = np.random.default_rng(3)
    widths = [int(w) for w in rng.integers(5, 28, 400)]
    glued = {int(i) for i in range(0, 398, 7)}
    at_once, by_and_by, resized = TokenLayout(), TokenLayout(), TokenLayout()
    at_once.width = by_and_by.width = width
    resized.width = 77
    pairs = [index in glued for index in range(len(widths))]
    add(at_once, 0, widths, pairs)
    add(resized, 0, widths, pairs)
    first = 0
    for index in range(len(widths)):
        # A pair comes in one go, as a round does.
        if index not in glued:
            add(by_and_by, first, widths[first : index + 1], pairs[first : index + 1])
            by_and_by.lay_rows()
            first = index + 1
    for layout in (at_once, by_and_by, resized):
        layout.lay_rows()
    resized.set_width(width)
    wanted = plain_layout(widths, glued, width)
    for layout in (at_once, by_and_by, resized):
        spans = [layout.row_span(row) for row in range(layout.rows)]
        assert [list(range(first, behind)) for first, behind, _ in spans] == wanted
        for cell in range(len(widths)):
            row = layout.row_of(cell)
            assert cell in wanted[row]
            assert layout.cell_at(row, layout.x_of(cell) + 2) == cell
            assert layout.x_of(cell) + widths[cell] <= width


def test_a_cell_wider_than_the_row_takes_rows_of_its_own() -> None:
    layout = TokenLayout()
    add(layout, 0, [40, 250, 40])
    layout.set_width(100, step=7)
    spans = [layout.row_span(row) for row in range(layout.rows)]
    assert spans == [(0, 1, 0), (1, 2, 0), (1, 2, 98), (1, 2, 196), (2, 3, 0)]
    assert layout.row_of(1) == 1
    assert layout.cell_at(3, 20) == 1
    add(layout, 3, [20])
    layout.lay_rows()
    assert [layout.row_span(row) for row in range(layout.rows)][-1] == (2, 4, 0)


@pytest.mark.parametrize("rejected", [True, False])
@pytest.mark.parametrize("rule", ["stochastic", "sampler-match", "greedy-argmax"])
def test_cells_from_columns_are_those_of_the_rounds(rule: str, rejected: bool) -> None:
    run = fake_run(60, rule, distributions=False)
    plain = dataclasses.replace(run[0], index=60, drafts=(), emitted=(Emitted(3, "target-draw", 0),))
    cut = dataclasses.replace(run[0], index=61, drafts=(Draft(4, "accepted"), Draft(5, "ignored")))
    run.append(plain)
    run.append(dataclasses.replace(cut, emitted=(Emitted(4, "accepted", 0),)))
    run.append(dataclasses.replace(cut, index=62, emitted=(Emitted(4, "accepted", 0), Emitted(9, "bonus", 1))))
    assert run.column("rejected_token").max() > 0
    wanted = expected_cells(run, rejected)[len(run.header.prompt_tokens) :]
    for parts in ([0, len(run)], [0, 1, 2, 17, len(run)]):
        found = []
        for first, behind in itertools.pairwise(parts):
            cells = cells_of(run, first, behind, rejected)
            assert cells.glued.tolist() == [KINDS[kind] == "rejected" for kind in cells.kind]
            columns = (cells.round.tolist(), cells.position.tolist(), cells.token.tolist())
            found += list(zip(*columns, [KINDS[kind] for kind in cells.kind], strict=True))
        assert found == wanted
    run._columns._arrays["accepted"][:2] = (-3, 10**9)  # a damaged file's
    assert len(cells_of(run, 0, len(run), rejected).token) >= len(run.tokens)
    run._columns.absent = frozenset({"rejected_token"})  # as in a file of an earlier version
    run._columns._arrays["rejected_token"][:] = 0
    cells = cells_of(run, 0, len(run), rejected)
    assert list(zip(cells.round, cells.position, cells.token, strict=True)) == [cell[:3] for cell in wanted]
    assert [KINDS[kind] for kind in cells.kind] == [kind for *_, kind in wanted]


def test_a_long_runs_rounds_are_laid_out_without_being_read(panel: TokenStreamPanel, view: View) -> None:
    run = fake_run(120, distributions=False)
    wanted, read = expected_cells(run, rejected=True), []
    get = run._rounds.__getitem__

    class Counted(list):
        def __getitem__(self, number):
            read.append(number)
            return get(number)

    run._rounds = Counted(run._rounds)
    panel.resize(700, 4000)
    view.show_run(run)
    while panel._taken < 120:
        panel._take_in()
    panel.grab()
    assert cells(panel) == wanted
    assert set(read) <= {119, -1}, "the one under the cursor"


def test_every_token_of_the_run_is_there_in_order(panel: TokenStreamPanel, view: View) -> None:
    run = fake_run(40)
    view.show_run(run)
    assert cells(panel) == expected_cells(run, rejected=True)
    panel.title_widgets()[0].setChecked(False)
    assert cells(panel) == expected_cells(run, rejected=False)
    assert panel.title_context() == f"15 prompt, {len(run.tokens)} of 100 emitted"


def test_rounds_that_come_one_by_one_end_up_the_same(qtbot, panel: TokenStreamPanel, view: View) -> None:
    run, source = RecordedRun(fake_header()), FakeRounds()
    view.show_run(run)
    for _ in range(30):
        run.append(source.next())
        view.notify_advanced()
    assert cells(panel) == expected_cells(run, rejected=True)
    assert panel.verticalScrollBar().value() == panel.verticalScrollBar().maximum() > 0


def test_a_long_run_is_taken_in_by_bounded_steps(qtbot, panel: TokenStreamPanel, view: View, monkeypatch) -> None:
    monkeypatch.setattr(token_stream, "TAKE_IN_SECONDS", 0.0)
    run = fake_run(400, distributions=False)
    view.show_run(run)
    assert panel._taken == 8
    qtbot.waitUntil(lambda: panel._taken == 400)
    assert cells(panel) == expected_cells(run, rejected=True)


def test_hidden_it_does_nothing_until_it_is_shown(panel: TokenStreamPanel, view: View) -> None:
    panel.hide()
    view.show_run(fake_run(30))
    assert panel._taken == 0
    assert panel.title_context().startswith("15 prompt")
    panel.show()
    assert panel._taken == 30


def test_click_selects_round_and_position(qtbot, panel: TokenStreamPanel, view: View) -> None:
    view.show_run(fake_run(20))
    view.select(0)
    for cell in range(panel._layout.count):
        round_index, position, _, kind = cells(panel)[cell]
        panel._show_row(panel._layout.row_of(cell))
        qtbot.mouseClick(panel.viewport(), Qt.MouseButton.LeftButton, pos=panel.cell_rect(cell).center())
        if kind != "prompt":
            assert (view.round_index, view.position) == (round_index, position)
            assert not view.live


def test_a_rejected_draft_and_its_replacement_are_one_pair(panel: TokenStreamPanel, view: View) -> None:
    run = fake_run(20)
    view.show_run(run)
    record = next(r for r in run if r.rejected_at is not None)
    view.select(record.index, record.rejected_at)
    first, last = panel._cursor
    assert [kind for *_, kind in cells(panel)[first : last + 1]] == ["rejected", "recovered"]
    assert panel._layout.row_of(first) == panel._layout.row_of(last)


def test_keys_walk_over_all_emitted_tokens(qtbot, panel: TokenStreamPanel, view: View) -> None:
    run = fake_run(12)
    view.show_run(run)
    qtbot.keyClick(panel, Qt.Key.Key_Home)
    seen = [(view.round_index, view.position)]
    for _ in range(len(run.tokens) - 1):
        qtbot.keyClick(panel, Qt.Key.Key_Right)
        seen.append((view.round_index, view.position))
    assert seen == [(r.index, e.position) for r in run for e in r.emitted]
    qtbot.keyClick(panel, Qt.Key.Key_Left)
    assert (view.round_index, view.position) == seen[-2]
    row = panel._layout.row_of(panel._cursor[1])
    qtbot.keyClick(panel, Qt.Key.Key_Up)
    assert panel._layout.row_of(panel._cursor[1]) == row - 1
    qtbot.keyClick(panel, Qt.Key.Key_End)
    assert view.live


def test_copy_gives_the_original_text(qtbot, panel: TokenStreamPanel, view: View) -> None:
    run = fake_run(60, seed=5)
    view.show_run(run)
    clipboard = QGuiApplication.clipboard()
    panel.setFocus()
    panel.copy()
    original = run.header.prompt + run.header.vocabulary.decode(run.tokens)
    assert clipboard.text() == original
    assert {"\n", "\u2028"} <= set(original)
    assert "·" not in original

    kinds = [kind for *_, kind in cells(panel)]
    pair = kinds.index("rejected")
    panel._set_range((pair, pair + 3))
    qtbot.keyClick(panel, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    tokens = [token for _, _, token, kind in cells(panel)[pair : pair + 4] if kind != "rejected"]
    tail = cells(panel)[pair + 3]
    if tail[3] == "rejected":
        tokens.append(cells(panel)[pair + 4][2])
    assert clipboard.text() == run.header.vocabulary.decode(tokens)


def test_a_click_copies_that_token_alone(qtbot, panel: TokenStreamPanel, view: View) -> None:
    run = fake_run(5)
    view.show_run(run)
    view.select(0)
    qtbot.mouseClick(panel.viewport(), Qt.MouseButton.LeftButton, pos=panel.cell_rect(3).center())
    assert panel.copied_text() == run.header.vocabulary.text_of(run.header.prompt_tokens[3])
    qtbot.mouseClick(
        panel.viewport(),
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.ShiftModifier,
        panel.cell_rect(5).center(),
    )
    assert panel.copied_text() == run.header.vocabulary.decode(run.header.prompt_tokens[3:6])


def test_scrolling_up_lets_go_of_the_tail_while_the_run_goes(qtbot, panel: TokenStreamPanel, view: View) -> None:
    run, source = fake_run(60), FakeRounds()
    view.show_run(run)
    bar = panel.verticalScrollBar()
    assert view.live
    assert bar.value() == bar.maximum() > 0
    bar.triggerAction(bar.SliderAction.SliderPageStepSub)
    assert not view.live
    place = bar.value()
    source.index = 60
    run.append(source.next())
    view.notify_advanced()
    assert bar.value() == place < bar.maximum()
    view.follow_tail()
    assert bar.value() == bar.maximum()


def test_resizing_keeps_the_cursor_in_sight(panel: TokenStreamPanel, view: View) -> None:
    view.show_run(fake_run(80))
    view.select(40)
    for width in (300, 900, 200):
        panel.resize(width, 80)
        area = panel.cell_rect(panel._cursor[0])
        assert area.top() >= 0
        assert area.bottom() <= panel.viewport().height()


def test_tooltips_are_plain_text_whatever_the_token(panel: TokenStreamPanel, view: View) -> None:
    run = fake_run(300, distributions=False)
    view.show_run(run)
    panel._take_in()
    tips = [panel.tip(cell) for cell in range(panel._layout.count)]
    assert not any(Qt.mightBeRichText(tip) for tip in tips)
    assert any("<b>x</b>" in tip for tip in tips)
    assert any("<U+2028>" in tip for tip in tips)
    with pytest.raises(ValueError, match="first line"):
        plain_tip("<b>x</b>")


def test_hostile_tokens_have_a_width_and_leave_ink(qtbot) -> None:
    vocabulary, painter = fake_vocabulary(), TokenPainter()
    painter.set_vocabulary(vocabulary)
    for token in range(len(vocabulary)):
        width = painter.chip_width(token, "accepted")
        assert width > 2 * chips.PAD
        image = QImage(width, painter.height - chips.UNDERLINE, QImage.Format.Format_RGB32)
        image.fill(QColor(LIGHT.base))
        device = QPainter(image)
        painter.restyle(LIGHT)
        painter.draw_chip(device, 0, 0, token, "accepted")
        device.end()
        colours = {image.pixel(x, y) for x in range(image.width()) for y in range(image.height())}
        assert len(colours) > 1, visible_text(vocabulary, token)


def test_every_source_and_fate_has_a_look_of_its_own(qtbot) -> None:
    for palette in (LIGHT, DARK):
        styles = chip_styles(palette)
        assert set(SOURCES) | {"prompt", "rejected", "ignored"} == set(styles)
        looks = {(s.underline, s.pattern, s.tint, s.glyph, s.struck, s.ink) for s in styles.values()}
        assert len(looks) == len(styles)
        # Without colour they still differ: pattern, glyph, strike or a fill.
        grey = {(s.underline is None, s.pattern, s.tint is None, s.glyph, s.struck) for s in styles.values()}
        assert len(grey) == len(styles)
    assert {"rejected", "prompt", *SOURCES} == set(KINDS)


def test_painting_every_row_of_every_rule(qtbot, panel: TokenStreamPanel, view: View) -> None:
    for rule in ("stochastic", "sampler-match", "greedy-argmax", "sampler-match-no-proposal-distribution"):
        view.show_run(fake_run(30, rule))
        for width in (30, 90, 700):
            panel.resize(width, 2000)
            assert not panel.grab().isNull()
    view.show_run(None)
    assert panel.title_context() == ""
    assert panel.cell_at(QPoint(10, 10)) is None
    assert not panel.grab().isNull()


@pytest.mark.parametrize("ratio", [1.0, 1.5, 2.0])
def test_a_kept_picture_of_a_chip_is_what_drawing_it_gives(qtbot, ratio: float) -> None:
    painter_of_tokens = TokenPainter()
    painter_of_tokens.set_vocabulary(fake_vocabulary())
    tokens = [0, 9, len(fake_vocabulary()) - 1, len(fake_vocabulary()) - 2]

    def drawn(draw) -> QImage:
        image = QImage(round(1300 * ratio), round(200 * ratio), QImage.Format.Format_RGB32)
        image.setDevicePixelRatio(ratio)
        image.fill(QColor(painter_of_tokens.colours.base))
        painter = QPainter(image)
        for row, kind in enumerate(KINDS):
            for at, token in enumerate(tokens):
                for selected in (False, True):
                    draw(painter, 10 + at * 320 + selected * 160, 3 + row * 24, token, kind, selected)
        painter.end()
        return image

    def anew(painter, x, y, token, kind, selected) -> None:
        painter_of_tokens.draw_chip(painter, x, y, token, kind, selected=selected, framed=False)

    def kept(painter, x, y, token, kind, selected) -> None:
        painter_of_tokens.put_chip(painter, x, y, token, kind, selected=selected)

    for colours in (LIGHT, DARK):
        painter_of_tokens.restyle(colours)
        wanted = drawn(anew)
        assert drawn(kept) == wanted, "drawn for the first time"
        assert drawn(kept) == wanted, "from the pictures"
    assert len(painter_of_tokens._pictures) == (0 if ratio == 1.5 else len(KINDS) * len(tokens) * 2)


def test_no_more_than_so_many_pictures_are_kept(qtbot, monkeypatch) -> None:
    monkeypatch.setattr(chips, "_PICTURE_LIMIT", 5)
    tokens, image = TokenPainter(), QImage(100, 30, QImage.Format.Format_RGB32)
    tokens.set_vocabulary(fake_vocabulary())
    painter = QPainter(image)
    for token in range(12):
        tokens.put_chip(painter, 0, 3, token, "accepted")
        assert len(tokens._pictures) <= 5
    painter.end()
