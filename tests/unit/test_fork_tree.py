"""The tree of runs as data: where each lane branches off, that no line crosses a lane, and what a run is called."""

from __future__ import annotations

import random

import pytest
from made_runs import made_header

from app.panels.fork_tree import MOST_LANES, Lane, lane_lines, lane_name, lanes
from engine.forks import Forced, fork_note, told_changes
from engine.recording import RecordedRun
from engine.settings import SamplerSettings, Settings


def run(parent: RecordedRun | None = None, at: int = 0, **fields: object) -> RecordedRun:
    made = RecordedRun(made_header(**fields))
    made.parent = None if parent is None else (parent, at)
    return made


def placed(found: tuple[Lane, ...]) -> list[tuple[int, int, int, int | None]]:
    """(number, start, depth, number of the run whose lane it branches off) of each."""
    return [
        (lane.number, lane.start, lane.depth, None if lane.origin is None else found[lane.origin].number)
        for lane in found
    ]


def test_a_fork_stands_below_its_origin_and_the_latest_first() -> None:
    first = run()
    early, late = run(first, 10), run(first, 20)
    deeper, other = run(early, 15), run()
    found = lanes([first, early, late, deeper, other], first)
    assert placed(found) == [(1, 0, 0, None), (3, 20, 1, 1), (2, 10, 1, 1), (4, 15, 2, 2), (5, 0, 0, None)]
    assert [lane.branches for lane in found] == [(10, 20), (), (15,), (), ()]
    # The line down to run 2 passes run 3, before that begins.
    assert [lane.crossed for lane in found] == [(), (10,), (), (), ()]
    assert [lane.forked for lane in found] == [None, (1, 20), (1, 10), (2, 15), None]


def test_a_fork_of_a_fork_in_the_rounds_of_its_origin_branches_off_there() -> None:
    first = run()
    second = run(first, 10)
    before, at_it, behind = run(second, 5), run(second, 10), run(second, 11)
    runs = [first, second, before, at_it, behind]
    found = {number: (start, origin) for number, start, _, origin in placed(lanes(runs, first))}
    assert found == {1: (0, None), 2: (10, 1), 3: (5, 1), 4: (10, 1), 5: (11, 2)}
    assert next(lane for lane in lanes(runs, first) if lane.number == 3).forked == (2, 5), "said as it was made"


def test_no_line_crosses_a_lane_in_any_tree() -> None:
    source = random.Random(5)
    for _ in range(60):
        runs = [run()]
        for _ in range(source.randrange(1, 40)):
            runs.append(run(source.choice(runs), source.randrange(0, 12)) if source.random() < 0.9 else run())
        found = lanes(runs, None)
        assert sorted(lane.number for lane in found) == list(range(1, len(runs) + 1))
        for row, lane in enumerate(found):
            assert all(at <= lane.start for at in lane.crossed)
            if lane.origin is not None:
                assert found[lane.origin].start < lane.start or found[lane.origin].forked is None
                assert lane.start in found[lane.origin].branches
                assert all(lane.start in found[between].crossed for between in range(lane.origin + 1, row))


def test_many_runs_get_the_newest_lanes_and_the_one_shown() -> None:
    runs = [run() for _ in range(MOST_LANES + 50)]
    numbers = [lane.number for lane in lanes(runs, runs[-1])]
    assert numbers == list(range(51, MOST_LANES + 51))
    assert lanes(runs, runs[3])[0].number == 4
    assert len(lanes(runs, runs[3])) == MOST_LANES
    chain = [run()]
    for at in range(1, 1200):
        chain.append(run(chain[-1], at))  # deeper than calls may nest
    found = lanes(chain, chain[-1])
    assert len(found) == MOST_LANES
    assert found[0].origin is None, "its origin has no lane"
    assert found[0].forked == (900, 900)


def test_a_file_that_says_nonsense_of_its_origins_still_has_all_lanes() -> None:
    one, two = run(), run()
    one.parent, two.parent = (two, 4), (one, 2)
    elsewhere = run(run(), 7)
    found = lanes([one, two, elsewhere], one)
    assert sorted(lane.number for lane in found) == [1, 2, 3]
    last = found[-1]
    assert (last.origin, last.start, last.forked) == (None, 7, (None, 7))
    assert "a run that isn't here" in lane_lines(last)[0]


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"stochastic": True}, "stochastic, T 0.7"),
        ({}, "sampler-match, T 0.7"),
        ({"stochastic": True, "rule": "block"}, "block, T 0.7"),
        ({"stochastic": True, "kill_switch": True}, "sampler-match, T 0.7"),
        ({"sampler": SamplerSettings(temperature=0)}, "greedy-argmax, T 0"),
    ],
)
def test_a_run_is_called_by_its_rule_and_temperature(settings: dict[str, object], name: str) -> None:
    assert lane_name(run(**settings)) == name


def test_a_fork_is_called_by_what_was_changed() -> None:
    before = Settings(seed=1)
    after = Settings(seed=1, sampler=SamplerSettings(temperature=1.2), num_draft_tokens=8, stochastic=True)
    note = fork_note(3, before, after, Forced(1, "reject"))
    fork = run(run(), 3, notices=("something else", note))
    assert lane_name(fork) == "T 0.7 → 1.2, k 4 → 8, stochastic on, forced reject at position 2"
    endless = fork_note(3, before, Settings(seed=1, max_tokens=-1), None)
    assert lane_name(run(run(), 3, notices=(endless,))) == "max 256 → no limit"
    same = run(run(), 3, notices=(fork_note(3, before, before, None),))
    assert lane_name(same) == "nothing changed"
    assert lane_name(run(run(), 3)) == "fork"


def test_the_last_note_counts_and_only_a_note() -> None:
    before, after = Settings(seed=1), Settings(seed=2)
    first, last = fork_note(3, before, after, None), fork_note(5, after, before, None)
    assert told_changes((first, last)) == "seed 2 → 1"
    assert told_changes(("Forked before long: no.", "")) == ""


def test_the_tip_tells_how_far_a_run_got() -> None:
    made = run(stochastic=True)
    assert lane_lines(Lane(made, 1, 0, None, 0)) == [
        "stochastic, T 0.700, k 4, seed 1",
        "0 rounds, 0 tokens",
        "no end recorded",
    ]
    made.damage = "This run can't be shown: its counters are missing"
    made.first_drift = 4
    assert lane_lines(Lane(made, 1, 0, None, 0))[2:] == ["drift from round 4 on", made.damage]
