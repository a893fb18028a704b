"""The round detail: the written-out tests, what the last cell says, and choosing positions."""

from __future__ import annotations

import dataclasses
import re

import pytest
from fakes import FakeRounds, end_run, fake_header, fake_run
from PySide6.QtGui import QGuiApplication, Qt

from app.panels.round_detail import RoundDetailPanel
from app.panels.round_text import Part, copied, counts, draft_cell, emit_cell, how_to_read, tip_lines
from app.view import View
from engine.recording import RecordedRun
from engine.rounds import Draft, Emitted, Round


@pytest.fixture
def panel(qtbot, view: View) -> RoundDetailPanel:
    panel = RoundDetailPanel(view)
    qtbot.addWidget(panel)
    panel.resize(1130, 110)
    panel.show()
    return panel


def words(parts: tuple[Part, ...]) -> str:
    return "".join(part if isinstance(part, str) else f"[{part}]" for part in parts)


def one_round(drafts: list[Draft], emitted: list[Emitted], rule: str = "stochastic") -> Round:
    return dataclasses.replace(
        FakeRounds(rule, k=len(drafts), distributions=False).next(), drafts=tuple(drafts), emitted=tuple(emitted)
    )


def run_of(record: Round, rule: str = "stochastic") -> RecordedRun:
    run = RecordedRun(fake_header(rule))
    run.append(record)
    return run


def test_the_stochastic_test_is_written_out_with_its_numbers() -> None:
    draft = Draft(4, "rejected", q=0.2955, p=0.2237, u=0.9629, threshold=0.9629 * 0.2955)
    test = draft_cell(one_round([draft], [Emitted(1, "recovered", 0, 0.5)]), 0).test
    assert words(test.left) == "0.9629 × 0.2955 = 0.2845"
    assert words(test.right) == "≤ 0.2237 ?"
    assert test.verdict == "no"


def test_every_written_test_reads_true() -> None:
    for record in fake_run(300, distributions=False):
        for position, draft in enumerate(record.drafts):
            test = draft_cell(record, position).test
            if draft.fate == "ignored":
                assert test is None
                continue
            left = float(words(test.left).rsplit("= ", 1)[1])
            right = float(re.search(r"≤ (\S+) \?", words(test.right)).group(1))
            assert (left <= right) == (test.verdict == "yes") == (draft.fate == "accepted")


def test_a_near_tie_is_shown_with_the_digits_that_decide() -> None:
    draft = Draft(4, "rejected", q=0.5, p=0.25, u=0.50002, threshold=0.25001)
    test = draft_cell(one_round([draft], [Emitted(1, "recovered", 0)]), 0).test
    assert (words(test.left), words(test.right)) == ("0.5000 × 0.5000 = 0.25001", "≤ 0.25000 ?")


def test_a_draft_without_target_probability_fails_the_first_condition() -> None:
    draft = Draft(4, "rejected", q=0.5, p=0.0, u=0.0, threshold=0.0)
    test = draft_cell(one_round([draft], [Emitted(1, "recovered", 0)]), 0).test
    assert (words(test.left), words(test.right), test.verdict) == ("p(d) = 0", "> 0 ?", "no")


@pytest.mark.parametrize(("rule", "name"), [("sampler-match", "x"), ("greedy-argmax", "argmax p")])
def test_matching_rules_name_the_token_compared_with(rule: str, name: str) -> None:
    draft = Draft(4, "rejected", q=0.5, p=0.1, match=7)
    test = draft_cell(one_round([draft], [Emitted(7, "target-draw", 0)], rule), 0).test
    assert words(test.left) + " " + words(test.right) == f"d [4] = {name} [7] ?"
    assert test.verdict == "no"
    accepted = dataclasses.replace(draft, fate="accepted", match=4)
    assert draft_cell(one_round([accepted], [Emitted(4, "accepted", 0)], rule), 0).test.verdict == "yes"


def test_untested_positions_say_why() -> None:
    rejected = [Draft(1, "accepted", q=0.5, p=0.5, u=0.1, threshold=0.05)] * 2
    rejected += [Draft(2, "rejected", q=0.5, p=0.1, u=0.9, threshold=0.45), Draft(3, "ignored", q=0.2)]
    record = one_round(rejected, [Emitted(1, "accepted", 0), Emitted(1, "accepted", 1), Emitted(5, "recovered", 2)])
    assert draft_cell(record, 3).notes == ("behind the rejection at 3:", "no test, no u drawn")
    ended = one_round([rejected[0], Draft(3, "ignored", q=0.2)], [Emitted(1, "accepted", 0)])
    assert draft_cell(ended, 1).notes[0] == "behind the token that ended the run:"


def test_a_missing_q_is_named() -> None:
    record = fake_run(1, "sampler-match-no-proposal-distribution")[0]
    cell = draft_cell(record, 0)
    assert cell.notes == ("drafter reported no q",)
    assert not any(number.startswith("q ") for number in cell.numbers)


def test_the_bar_shows_the_test() -> None:
    draft = Draft(4, "rejected", q=0.4, p=0.1, u=0.75, threshold=0.3)
    bar = draft_cell(one_round([draft], [Emitted(1, "recovered", 0)]), 0).bar
    assert (bar.fill, bar.tick, bar.needle) == pytest.approx((0.25, 0.25, 0.75))
    sure = draft_cell(one_round([dataclasses.replace(draft, p=0.6)], [Emitted(4, "accepted", 0)]), 0).bar
    assert (sure.fill, sure.tick) == (1, None)
    zero = Draft(4, "rejected", q=0.0, p=0.1, u=0.5, threshold=0.0)
    assert draft_cell(one_round([zero], [Emitted(1, "recovered", 0)]), 0).bar is None


SUCH = Draft(4, "rejected", q=0.4, p=0.1, u=0.9, threshold=0.36, sum_min=0.75)


@pytest.mark.parametrize(
    ("drafts", "emitted", "headline", "rest"),
    [
        ([SUCH], [Emitted(9, "recovered", 0, 0.563)], "recovered in place of [4]", "Z 0.2500 drawn with 0.5630"),
        ([SUCH], [Emitted(9, "degenerate-fallback", 0, 0.2)], "fallback in place of [4]", "has no mass"),
        ([SUCH], [Emitted(9, "target-draw", 0, 0.2)], "target draw in place of [4]", "compared with"),
        ([SUCH], [Emitted(9, "greedy", 0, 1.0)], "argmax p in place of [4]", "no randomness"),
        ([], [Emitted(9, "target-draw", 0, 0.2)], "target draw", "drawn from p drawn with 0.2000"),
        (
            [SUCH] * 2,
            [Emitted(4, "accepted", 0), Emitted(4, "accepted", 1), Emitted(9, "bonus", 2, 0.3)],
            "bonus",
            "drawn from p at 3",
        ),
        ([SUCH], [Emitted(4, "accepted", 0)], "no further token", "no token was left"),
    ],
)
def test_the_last_cell_says_what_was_emitted_and_from_which_mass(drafts, emitted, headline, rest) -> None:
    record = one_round(drafts, emitted)
    cell = emit_cell(run_of(record), record)
    assert words(cell.headline) == headline
    assert rest in " ".join((*cell.notes, *cell.numbers))


def test_the_last_cell_of_an_ended_run_gives_the_reason() -> None:
    record = one_round([SUCH], [Emitted(4, "accepted", 0)])
    run = run_of(record)
    end_run(run)
    assert emit_cell(run, record).notes == ("length: 100 tokens were asked for.",)


def test_the_title_names_round_test_rule_and_reason(panel: RoundDetailPanel, view: View) -> None:
    view.show_run(fake_run(5, "sampler-match"))
    view.select(3)
    assert panel.title_name() == "Round 3"
    assert "d = x" in panel.title_context()
    right = panel.title_widgets()[0]
    assert right.textFormat() == Qt.TextFormat.PlainText
    assert right.text().endswith("rule sampler-match: Stochastic is off")
    assert not Qt.mightBeRichText(right.toolTip())


@pytest.mark.parametrize(("k", "width"), [(4, 1130), (4, 600), (16, 1130), (1, 300)])
def test_a_click_chooses_the_position(qtbot, panel: RoundDetailPanel, view: View, k: int, width: int) -> None:
    view.show_run(fake_run(12, k=k))
    panel.resize(width, 110)
    for record in view.run:
        view.select(record.index)
        for cell in range(record.k + 1):
            panel._show_cell(cell)
            area = panel.cell_rect(cell)
            assert area.left() >= 0
            assert area.right() <= panel.viewport().width()
            qtbot.mouseClick(panel.viewport(), Qt.MouseButton.LeftButton, pos=area.center())
            wanted = cell if cell < record.k else record.emitted[-1].position
            assert (view.round_index, view.position) == (record.index, wanted)


def test_keys_step_over_positions_and_rounds(qtbot, panel: RoundDetailPanel, view: View) -> None:
    view.show_run(fake_run(12))
    view.select(4, 0)
    qtbot.keyClick(panel, Qt.Key.Key_Right)
    assert (view.round_index, view.position) == (4, 1)
    qtbot.keyClick(panel, Qt.Key.Key_Down)
    assert view.round_index == 5
    qtbot.keyClick(panel, Qt.Key.Key_End)
    assert view.live


@pytest.mark.parametrize("rule", ["stochastic", "sampler-match", "greedy-argmax"])
@pytest.mark.parametrize(("width", "height"), [(1800, 110), (1130, 98), (700, 98), (450, 180)])
def test_the_test_is_never_elided(qtbot, panel: RoundDetailPanel, view: View, rule, width: int, height: int) -> None:
    view.show_run(fake_run(40, rule, quirks=False))
    panel.resize(width, height)
    for record in view.run:
        view.select(record.index)
        room = panel._cell_width(record) - 20
        for position in range(record.tested):
            lines = panel._lines[position]
            text = " ".join(str(piece.part) for line in lines for piece in line)
            assert text.count("?") == 1
            assert text.count("yes") + text.count("no") == 1
            assert all(panel._line_width(line) <= room for line in lines)
            if rule == "stochastic":
                test = draft_cell(record, position).test
                for number in re.findall(r"[\d.]+(?:e-\d+)?", words(test.left[-1:]) + words(test.right)):
                    assert number in text


def test_tooltips_and_copies_hold_everything_as_plain_text(panel: RoundDetailPanel, view: View) -> None:
    run = fake_run(60)
    view.show_run(run)
    for record in run:
        view.select(record.index)
        for cell in range(record.k + 1):
            assert not Qt.mightBeRichText(panel.tip(cell))
        lines = copied(run, record).rstrip("\n").split("\n")
        assert all(line.count("\t") == lines[0].count("\t") for line in lines)
        assert len(lines) - 1 == record.k + (record.emitted[-1].position == record.k)
    panel.copy()
    assert QGuiApplication.clipboard().text() == copied(run, run[-1])


def test_painting_in_every_state(panel: RoundDetailPanel, view: View) -> None:
    assert not panel.grab().isNull()
    for options in ({}, {"k": 16}, {"k": 0}, {"rule": "sampler-match"}, {"diagnostics": False}):
        view.show_run(fake_run(10, **options))
        for width in (panel.minimumSizeHint().width(), 500, 1500):
            panel.resize(width, 100)
            assert not panel.grab().isNull()
    view.show_run(None)
    assert panel.title_name() == "Round"
    assert panel.cell_at(panel.rect().center()) is None


def test_reading_help_and_counts_fit_the_rule() -> None:
    assert "u·q(d) ≤ p(d)" in how_to_read(fake_run(1)[0])
    assert "argmax" in how_to_read(fake_run(1, "greedy-argmax")[0])
    assert "no drafts" in how_to_read(fake_run(1, k=0)[0])
    record = fake_run(1)[0]
    assert counts(record).startswith(f"k 4 · tested {record.tested} · accepted {record.accepted} · rule stochastic")


def by_hand(rule: str, drafts: list[Draft], emitted: list[Emitted]) -> Round:
    return dataclasses.replace(one_round(drafts, emitted), rule=rule, distribution_preserving=rule == "block")


def of_block(fates: str) -> Round:
    """A round of block verification: `a`ccepted, `r`ejected, `i`gnored drafts with falling h."""
    names = {"a": "accepted", "r": "rejected", "i": "ignored"}
    drafts = []
    for at, fate in enumerate(fates):
        tested = {"u": 0.6, "threshold": 0.9 - 0.2 * at} if fate != "i" else {}
        drafts.append(Draft(4, names[fate], q=0.5, p=0.4, block_p=0.8, block_h=0.9 - 0.2 * at, **tested))
    return by_hand("block", drafts, [Emitted(7, "recovered", fates.count("a"))])


def test_block_shows_its_own_test_and_names_a_prefix_that_was_kept_with_a_longer_one() -> None:
    record = of_block("aari")
    assert how_to_read(record).startswith("keep the longest prefix with u ≤ h")
    cells = [draft_cell(record, at) for at in range(4)]
    assert [f"{words(c.test.left)} {words(c.test.right)} {c.test.verdict}" for c in cells[:3]] == [
        "u 0.6000 ≤ h 0.9000 ? yes",
        "u 0.6000 ≤ h 0.7000 ? yes",
        "u 0.6000 ≤ h 0.5000 ? no",
    ]
    assert cells[0].numbers == ("q 0.5000", "p 0.4000", "P 0.8000")
    assert (cells[0].bar.fill, cells[0].bar.needle) == pytest.approx((0.9, 0.6))
    assert cells[3].test is None
    assert cells[3].notes == ("the first 2 are kept:", "u > h here")
    assert [c.verdict for c in cells] == ["accepted", "accepted", "rejected", "not kept"]
    longer = of_block("aaar")
    assert draft_cell(longer, 2).test.verdict == "no"
    assert "kept with a longer prefix" in draft_cell(longer, 2).notes
    emitted = emit_cell(run_of(record), record)
    assert emitted.notes == ("drawn from relu(P·p\u00a0−\u00a0q)/S",)
    assert tip_lines(record, 0)[3:5] == ["P 0.800000", "h 0.900000"]


def test_a_prefix_without_support_has_no_chance() -> None:
    nothing = dataclasses.replace(of_block("r").drafts[0], block_h=0.0, threshold=0.0)
    test = draft_cell(by_hand("block", [nothing], [Emitted(1, "recovered", 0)]), 0).test
    assert (words(test.left), words(test.right), test.verdict) == ("h = 0", "> 0 ?", "no")


def test_rules_that_are_wrong_on_purpose_show_what_they_do() -> None:
    draft = Draft(4, "rejected", q=0.5, p=0.1, match=7)
    record = by_hand("argmax-vs-argmax", [draft], [Emitted(7, "greedy", 0)])
    assert words(draft_cell(record, 0).test.right) == "= argmax p [7] ?"
    assert "d = argmax p" in how_to_read(record)
    assert "rule argmax-vs-argmax, not lossless:" in counts(record)
    unsupported = Draft(4, "accepted", q=1e-9, p=0.0, u=0.5, threshold=0.0)
    record = by_hand("missing-support-check", [unsupported], [Emitted(4, "accepted", 0)])
    assert draft_cell(record, 0).test.verdict == "yes"
    naive = by_hand("resample-from-p", [draft], [Emitted(7, "target-draw", 0)])
    assert emit_cell(run_of(naive), naive).notes == ("drawn from p, not from the residual",)
    believed = by_hand("raw-q", [Draft(4, "rejected", q=0.5, p=0.1, u=0.9, threshold=0.45)], [])
    assert draft_cell(believed, 0).numbers[0] == "q′ 0.5000"
