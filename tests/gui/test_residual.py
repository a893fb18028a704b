"""The residual: its rows, its mass, the drawn token, and every reason why there is none."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from fakes import fake_header, fake_run

from app.panels.bars import BarOptions
from app.panels.distributions import NOT_RECORDED
from app.panels.residual import DEGENERATE, EMPTY, NO_RESIDUAL, ResidualPanel, mass_text
from app.theme import LIGHT
from app.view import View
from engine.recording import RecordedRun
from engine.rounds import Round


@pytest.fixture
def panel(qtbot, view: View) -> ResidualPanel:
    panel = ResidualPanel(view)
    qtbot.addWidget(panel)
    panel.resize(440, 260)
    panel.show()
    return panel


def show(view: View, record: Round, position: int) -> None:
    run = RecordedRun(fake_header())
    run.append(dataclasses.replace(record, index=0))
    view.show_run(run)
    view.select(0, position)


def rejected(run: RecordedRun) -> Round:
    return next(r for r in run if r.rejected_at is not None)


def test_rows_are_the_largest_and_the_drawn_one(view: View, panel: ResidualPanel) -> None:
    run = fake_run(40)
    view.show_run(run)
    BarOptions.for_view(view).set_top_n(5)
    beyond = 0
    for record in run:
        if record.rejected_at is None:
            continue
        view.select(record.index)
        data = record.distributions[record.rejected_at]
        loose = [row for row in panel.content().rows if not row.pinned]
        largest = np.sort(data.residual)[::-1][:5]
        assert [row.values[0] for row in loose[:5]] == pytest.approx(largest.tolist())
        drawn = [row for row in loose if row.note == "drawn"]
        assert [row.token for row in drawn] == [record.emitted[-1].token]
        assert drawn[0].tint == LIGHT.recovered.tint
        beyond += len(loose) > 5
        assert sum(row.values[0] for row in panel.content().rows) == pytest.approx(1.0, abs=1e-5)
        others = panel.content().rows[-1]
        assert others.label == f"{data.residual_support - len(loose)} others"
    assert beyond, "the test needs a drawn token outside the first five"


def test_the_title_shows_z_and_the_identity(view: View, panel: ResidualPanel) -> None:
    record = rejected(fake_run(20))
    show(view, record, record.rejected_at)
    mass = record.distributions[record.rejected_at].residual_mass
    assert panel.title_context() == mass_text(mass, record.drafts[record.rejected_at].sum_min)
    assert mass_text(0.2639, 0.7361) == "relu(p − q)/Z, Z = 0.2639 = 1 − Σ min, Σ min = 0.7361"
    assert mass_text(0.2639, None) == "relu(p − q)/Z, Z = 0.2639"
    assert "≠" in mass_text(0.2639, 0.5)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("sampler-match", "sampler-match emits x, a fresh draw from p"),
        ("greedy-argmax", "greedy-argmax emits the target's argmax"),
    ],
)
def test_rules_that_draw_from_elsewhere_are_named(view: View, panel: ResidualPanel, rule: str, words: str) -> None:
    record = rejected(fake_run(20, rule=rule))
    show(view, record, record.rejected_at)
    assert words in panel.title_context()
    assert words in panel.content().foot
    assert not any(row.note for row in panel.content().rows)


def test_accepted_and_untested_drafts_are_told_apart(view: View, panel: ResidualPanel) -> None:
    record = next(r for r in fake_run(60) if r.rejected_at in (1, 2))
    show(view, record, 0)
    assert "the draft was accepted" in panel.title_context()
    show(view, record, record.k - 1)
    assert "this draft was not tested" in panel.title_context()


def test_no_residual_behind_the_drafts_and_without_q(view: View, panel: ResidualPanel) -> None:
    record = next(r for r in fake_run(60) if r.emitted[-1].source == "bonus")
    show(view, record, record.k)
    assert "behind the drafts" in panel.content().sentence
    show(view, fake_run(1, rule="sampler-match-no-proposal-distribution")[0], 0)
    assert "reports no q" in panel.content().sentence
    show(view, fake_run(1, k=0)[0], 0)
    assert "without a draft" in panel.content().sentence


def test_an_empty_residual_is_said_and_so_is_the_fallback(view: View, panel: ResidualPanel) -> None:
    record = rejected(fake_run(20))
    position = record.rejected_at
    data = record.distributions[position]
    same = dataclasses.replace(data, residual=np.zeros_like(data.p), residual_mass=0.0, residual_support=0)
    changed = (*record.distributions[:position], same, *record.distributions[position + 1 :])
    record = dataclasses.replace(record, distributions=changed)
    show(view, record, position)
    assert panel.content().sentence == NO_RESIDUAL
    assert panel.title_context() == "Z = 0: empty"
    fallback = dataclasses.replace(record.emitted[-1], source="degenerate-fallback")
    show(view, dataclasses.replace(record, emitted=(*record.emitted[:-1], fallback)), position)
    assert panel.content().sentence == DEGENERATE


def test_empty_states(view: View, panel: ResidualPanel) -> None:
    assert panel.content().sentence == EMPTY
    view.show_run(fake_run(3, distributions=False))
    assert panel.content().sentence == NOT_RECORDED
    view.show_run(None)
    assert panel.content().sentence == EMPTY
    assert panel.title_context() == ""


def test_rules_with_another_residual_name_it_and_compare_its_mass_with_nothing(
    view: View, panel: ResidualPanel
) -> None:
    record = next(r for r in fake_run(60) if r.rejected_at == 1)
    drafts = tuple(dataclasses.replace(d, block_p=0.25, block_h=0.5) for d in record.drafts)
    show(view, dataclasses.replace(record, rule="block", drafts=drafts), 1)
    context = panel.title_context()
    assert context.startswith("relu(P·p − q)/S, S = ")
    assert "P = 0.2500 of the drafts before" in context
    assert "Σ min" not in context
    show(view, dataclasses.replace(record, rule="block", drafts=drafts), 0)
    assert "P = 1.000" in panel.title_context()
    show(view, dataclasses.replace(record, rule="raw-q"), 1)
    assert panel.title_context().startswith("relu(p − q′)/Z")
    assert "Σ min" not in panel.title_context()
