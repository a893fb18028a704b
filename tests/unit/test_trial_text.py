"""The trial as data: what it says of every kind of round, what is marked approximate, and what a fork would change."""

from __future__ import annotations

import dataclasses
import warnings

import numpy as np
import pytest
from fakes import fake_run

from app.panels.trial_text import ALMOST, ForkWish, Trial, Wish, spoken_trial, temperature_at, trial, trial_table
from engine.forks import Forced, fork_note
from engine.offline import RULES
from engine.recording import RecordedRun
from engine.rounds import Round
from engine.settings import SamplerSettings


def a_rejection(run: RecordedRun, at: int = 1) -> Round:
    return next(record for record in run if record.rejected_at == at)


def cells(made: Trial) -> dict[str, tuple[object, object]]:
    """name: (recorded, tried), a token where there is one, else the text."""

    def value(cell: object) -> object:
        token, text = cell.token, cell.text  # type: ignore[attr-defined]
        return text if token is None else token

    return {line.name: (value(line.was), value(line.tried)) for line in made.lines}


@pytest.fixture(scope="module")
def run() -> RecordedRun:
    return fake_run(40)


def test_nothing_tried_is_the_record_twice(run: RecordedRun) -> None:
    told = 0
    for record in run:
        for position in range(record.k):
            made = trial(run, record, position, Wish())
            draft = record.drafts[position]
            assert not made.approximate
            assert made.fork is None
            if draft.fate == "ignored":
                assert cells(made)["the draft is"] == ("not tested", "not known")
                assert any("if the round had come this far" in note for note in made.notes)
                continue
            told += 1
            assert not any(line.changed for line in made.lines), (record.index, position)
            assert cells(made)["the draft is"] == (draft.fate, draft.fate)
            assert (made.u, made.recorded_u, made.rule) == (draft.u, draft.u, "stochastic")
    assert told > 60


def test_another_u_turns_the_verdict_and_offers_a_decree(run: RecordedRun) -> None:
    record = a_rejection(run)
    draft = record.drafts[1]
    made = trial(run, record, 1, Wish(u=0.0))
    found = cells(made)
    assert found["the draft is"] == ("rejected", "accepted")
    assert found["emits"] == (record.emitted[1].token, draft.token)
    assert found["u"] == (f"{draft.u:.4f}", "0")
    assert not made.approximate
    assert made.fork == ForkWish(None, None, "accept", 1)
    assert made.share == pytest.approx((draft.p or 0) / (draft.q or 1))
    again = trial(run, record, 1, Wish(u=0.9999))
    assert cells(again)["the draft is"] == ("rejected", "rejected")
    assert cells(again)["emits"][1] == record.emitted[1].token, "its draw doesn't hang on u"
    assert again.fork is None, "nothing would be another"
    accepted = next(r for r in run if r.accepted and (r.drafts[0].p or 1) < 0.99 * (r.drafts[0].q or 0))
    turned = trial(run, accepted, 0, Wish(u=0.9999))
    assert turned.fork == ForkWish(None, None, "reject", 0)
    assert cells(turned)["emits"][1] == "a new draw"


def narrowed(run: RecordedRun, record: Round, support: int | None = None) -> Round:
    """A round of which part of the vocabulary was kept, or that a filter cut."""
    made = []
    for data in record.distributions:
        size = data.vocab_size + 1000
        cut = size if support is None else support
        made.append(dataclasses.replace(data, vocab_size=size, p_support=cut, q_support=data.q_support and cut))
    return dataclasses.replace(record, distributions=tuple(made))


def test_another_temperature_is_approximate_by_sign_and_in_words_where_it_is(run: RecordedRun) -> None:
    record = narrowed(run, a_rejection(run))
    made = trial(run, record, 1, Wish(temperature=1.4))
    seen = record.distributions[1]
    assert made.approximate == f"Only {len(seen.ids)} of {seen.vocab_size} tokens were kept."
    found = cells(made)
    assert found["T"] == ("0.7", "1.4")
    for name in ("u·q(d)", "≤ p(d)?", "q(d)", "P(accept)", "the draft is"):
        assert str(found[name][1]).startswith(ALMOST), name
        assert not str(found[name][0]).startswith(ALMOST), name
    assert all(text.startswith(ALMOST) for _, _, text in made.draws)
    assert made.fork == ForkWish(None, 1.4, None, 1)
    assert any("might have proposed another" in note for note in made.notes)
    filtered = trial(run, narrowed(run, record, support=4), 1, Wish(temperature=1.4))
    assert filtered.approximate == "A filter was on, and would have cut elsewhere."
    for wish in (Wish(), Wish(u=0.5), Wish(rule="sampler-match"), Wish(rule="resample-from-p")):
        exact = trial(run, record, 1, wish)
        assert not exact.approximate, wish
        assert ALMOST not in "".join(str(cell) for cell in exact.lines), wish


def test_where_only_the_replacement_is_approximate_the_test_carries_no_sign(run: RecordedRun) -> None:
    record = dataclasses.replace(narrowed(run, a_rejection(run)), rule="block")
    made = trial(run, record, 1, Wish(rule="stochastic", u=0.1))
    assert made.approximate.startswith("What replaces it: only")
    assert not any(line.tried.text.startswith(ALMOST) for line in made.lines)
    assert all(text.startswith(ALMOST) for _, _, text in made.draws)
    assert "block can't be tried at one position alone." in made.notes


def test_a_drafter_with_a_sampler_of_its_own_keeps_its_q(run: RecordedRun) -> None:
    settings = dataclasses.replace(run.header.settings, draft_sampler=SamplerSettings(temperature=0.5))
    other = RecordedRun(dataclasses.replace(run.header, settings=settings))
    record = a_rejection(run)
    made = trial(other, record, 1, Wish(temperature=1.4))
    assert cells(made)["q(d)"][0] == str(cells(made)["q(d)"][1]).removeprefix(ALMOST)
    assert cells(trial(run, record, 1, Wish(temperature=1.4)))["q(d)"][0] != cells(made)["q(d)"]
    assert any("keeps its q" in note for note in made.notes)


def test_other_rules_are_offered_with_what_they_compare(run: RecordedRun) -> None:
    record = a_rejection(run)
    seen = record.distributions[1]
    made = trial(run, record, 1, Wish(rule="argmax-vs-argmax"))
    best = int(seen.ids[np.argmax(seen.p)])
    assert cells(made)["is it"] == ("-", best)
    assert cells(made)["emits"][1] == best
    assert made.share is None
    assert "draws no u" in made.why_no_u
    assert made.fork == ForkWish("argmax-vs-argmax", None, None, 1)
    drawn = trial(run, record, 1, Wish(rule="sampler-match", u=0.3))
    assert cells(drawn)["the draft is"][1] == "not known"
    assert any("isn't in the record" in note for note in drawn.notes)
    assert drawn.fork == ForkWish("sampler-match", None, None, 1), "a u that is not drawn decrees nothing"
    assert tuple(name for name, _ in made.rules) == RULES
    assert not any(why for _, why in made.rules)


def test_a_run_without_q_offers_the_rules_that_need_none() -> None:
    run = fake_run(20, rule="sampler-match-no-proposal-distribution")
    record = a_rejection(run, 0)
    made = trial(run, record, 0, Wish())
    assert made.rule == "sampler-match"
    assert {name for name, why in made.rules if why} == {"stochastic", "resample-from-p"}
    assert made.fork is None
    assert not any(line.changed for line in made.lines)
    assert cells(made)["emits"] == (record.emitted[0].token, record.emitted[0].token), "the fresh draw is the recorded"
    assert "reported no q" in trial(run, record, 0, Wish(rule="stochastic")).reason


@pytest.mark.parametrize(
    ("change", "position", "words"),
    [
        ({"drafts": ()}, 0, "drafted nothing"),
        ({}, 4, "behind the drafts"),
        ({"distributions": ()}, 0, "without its distributions"),
        ({"rule": "greedy-argmax"}, 0, "greedy"),
        ({"rule_reason": "this round can't be read: the block is damaged", "drafts": ()}, 0, "block is damaged."),
    ],
)
def test_where_nothing_can_be_tried_it_says_why(
    run: RecordedRun, change: dict[str, object], position: int, words: str
) -> None:
    record = dataclasses.replace(run[3], **change)  # type: ignore[arg-type]
    made = trial(run, record, position, Wish(u=0.5))
    assert words in made.reason
    assert not made.lines
    assert spoken_trial(made) == made.reason
    assert trial_table(run, made) == [["trial", "recorded", "tried"]]


def test_nonsense_in_a_file_is_a_reason_or_a_dash(run: RecordedRun) -> None:
    record = a_rejection(run)
    data = record.distributions[1]
    for values in (np.nan, np.inf, -1.0):
        bad = dataclasses.replace(data, p=np.full_like(data.p, values), q=np.full_like(data.p, values))
        made = dataclasses.replace(record, distributions=(bad,) * 5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for wish in (Wish(), Wish(temperature=2.0), Wish(rule="argmax-vs-argmax")):
                told = trial(run, made, 1, wish)
                assert told.reason or told.lines
    cold = RecordedRun(
        dataclasses.replace(
            run.header, settings=dataclasses.replace(run.header.settings, sampler=SamplerSettings(temperature=0))
        )
    )
    assert "emperature" in trial(cold, record, 1, Wish(temperature=1.0)).reason
    assert trial(cold, record, 1, Wish()).lines


def test_a_forks_first_rounds_have_the_temperature_of_where_they_were_made(run: RecordedRun) -> None:
    before = run.header.settings
    after = dataclasses.replace(before, sampler=SamplerSettings(temperature=1.2))
    note = fork_note(10, before, after, Forced(0, "reject"))
    fork = RecordedRun(dataclasses.replace(run.header, settings=after, notices=(note,)))
    assert [temperature_at(fork, index) for index in (0, 9, 10, 30)] == [0.7, 0.7, 1.2, 1.2], "by its note alone"
    fork.parent = (run, 10)
    assert [temperature_at(fork, index) for index in (0, 9, 10, 30)] == [0.7, 0.7, 1.2, 1.2]
    last = RecordedRun(dataclasses.replace(fork.header, notices=(note, fork_note(20, after, after, None))))
    last.parent = (fork, 20)
    assert [temperature_at(last, index) for index in (9, 10, 19, 20)] == [0.7, 1.2, 1.2, 1.2]
    fork.parent = (last, 50)  # a file may say anything
    assert temperature_at(last, 3) in (0.7, 1.2)


def test_what_is_listed_adds_up_and_is_copied_in_full(run: RecordedRun) -> None:
    record = a_rejection(run)
    made = trial(run, record, 1, Wish(rule="resample-from-p"))
    values = [value for _, value, _ in made.draws]
    assert values == sorted(values, reverse=True)
    assert sum(values) + float(made.rest) == pytest.approx(1, abs=1e-3)
    assert made.others == record.distributions[1].vocab_size - len(values)
    table = trial_table(run, made)
    assert table[0] == [f"round {record.index}, position 2", "recorded", "tried"]
    assert ["rule", "stochastic", "resample-from-p"] in [list(line) for line in table]
    assert np.float32(table[-2][2]) == np.float32(values[-1])


def test_a_decreed_round_says_so(run: RecordedRun) -> None:
    record = dataclasses.replace(a_rejection(run), forced="forced reject at position 2")
    assert "decreed: forced reject at position 2." in " ".join(trial(run, record, 1, Wish()).notes)
