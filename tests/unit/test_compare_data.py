"""What the comparison window shows: streams around the difference, thinned curves and strips, words; and its jobs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_runs import made_header, made_round, made_run, seen

from app.labs.compare_data import (
    AFTER,
    BEFORE,
    CURVE_POINTS,
    Compared,
    compare_steps,
    compared,
    curve_of,
    drift_buckets,
    drift_words,
    rate_at,
)
from app.labs.compare_words import counter_cells, first_lines, is_beyond_noise, report, settings_lines, written_test
from app.run_sources import Source, list_steps, opener
from engine.recording import RecordedRun, Recording
from engine.rounds import Draft
from engine.session_file import SUFFIX
from engine.session_writer import SessionWriter
from engine.text import toy_vocabulary


def run_of(tokens: list[int], rule: str = "sampler-match", **header: Any) -> RecordedRun:
    """A round a token, no drafts."""
    rounds = [made_round(at, (), [(token, "target-draw")], rule=rule) for at, token in enumerate(tokens)]
    return made_run(made_header(**header), rounds)


def drafted_run(accepted: list[bool]) -> RecordedRun:
    """A round a draft, of these fates."""
    rounds = []
    for at, kept in enumerate(accepted):
        draft = Draft(1, "accepted" if kept else "rejected", q=0.5, p=0.5, u=0.25, threshold=0.125)
        emitted = [(1, "accepted"), (2, "bonus")] if kept else [(2, "recovered")]
        rounds.append(made_round(at, (draft,), emitted))
    return made_run(made_header(), rounds)


class Room:
    """Stands in for the job."""

    cancelled = False


def results(steps: Any, room: Any = None) -> list[Any]:
    return list(steps(room or Room(), lambda done, total: None))


def test_the_streams_stand_around_the_first_difference() -> None:
    tokens = [at % 3 for at in range(200)]
    other = [*tokens[:100], 3, *tokens[101:150]]
    shown = compared(run_of(tokens), run_of(other))
    streams = shown.streams
    assert streams is not None
    assert (streams.first, streams.differs) == (100 - BEFORE, 100)
    assert [token.token for token in streams.a] == tokens[100 - BEFORE : 100 + AFTER]
    assert [token.token for token in streams.b] == other[100 - BEFORE : 100 + AFTER]
    assert [token.round for token in streams.a] == list(range(100 - BEFORE, 100 + AFTER))
    assert shown.parted == (100, 100)


def test_a_stream_that_ends_is_shorter_and_equal_ones_show_their_end() -> None:
    tokens = [at % 3 for at in range(200)]
    shown = compared(run_of(tokens), run_of(tokens[:150]))
    assert shown.streams is not None
    assert shown.streams.differs == 150
    assert len(shown.streams.a) == BEFORE + AFTER
    assert len(shown.streams.b) == BEFORE
    assert shown.parted == (150, None)
    same = compared(run_of(tokens), run_of(tokens)).streams
    assert same is not None
    assert same.differs is None
    assert same.first + len(same.a) == same.first + len(same.b) == 200
    assert len(same.a) == BEFORE + AFTER


def test_rounds_of_several_tokens_are_followed_within() -> None:
    rounds = [made_round(at, (), [(0, "accepted"), (1, "accepted"), (2, "bonus")]) for at in range(30)]
    other = [*rounds[:20], made_round(20, (), [(0, "accepted"), (3, "bonus")])]
    streams = compared(made_run(made_header(), rounds), made_run(made_header(), other)).streams
    assert streams is not None
    assert (streams.first, streams.differs) == (61 - BEFORE, 61)
    first = streams.a[0]
    assert (first.token, first.round, first.position) == ((61 - BEFORE) % 3, (61 - BEFORE) // 3, (61 - BEFORE) % 3)
    assert (streams.b[-1].token, streams.b[-1].round, streams.b[-1].position) == (3, 20, 1)


def test_a_source_that_no_rule_has_can_be_drawn() -> None:
    run = run_of([0, 1])
    run._rounds = [made_round(0, (), [(0, "<b>source")]), run[1]]
    streams = compared(run, run_of([0, 2])).streams
    assert streams is not None
    assert [token.source for token in streams.a] == ["target-draw", "target-draw"]


def test_other_vocabularies_are_not_aligned() -> None:
    other = run_of([0, 1], vocabulary=toy_vocabulary((" x", " b", " c", " d")))
    shown = compared(run_of([0, 1]), other)
    assert shown.streams is None
    assert any("vocabularies aren't the same" in text for text in shown.found.warnings)


def test_a_run_without_rounds_can_be_compared() -> None:
    shown = compared(run_of([]), run_of([1, 2]))
    assert shown.streams is not None
    assert (shown.streams.a, len(shown.streams.b)) == ((), 2)
    assert (shown.curves[0].rounds, shown.curves[0].rate) == (0, None)
    assert drift_words(shown.drift[0]) == "no rounds"
    assert first_lines(shown.found) == ["All 0 tokens of A are the same in the other run, which is longer."]


def test_a_curve_is_thinned_and_keeps_its_ends() -> None:
    fates = [at % 4 != 0 for at in range(5000)]
    curve = curve_of(drafted_run(fates))
    assert len(curve.x) == CURVE_POINTS
    assert (curve.x[0], curve.x[-1]) == (0, 4999)
    assert curve.rate_at[0] == 0
    assert curve.rate_at[-1] == pytest.approx(0.75)
    assert (curve.rate, curve.n) == (0.75, 5000)
    assert (curve.low <= curve.rate_at).all()
    assert (curve.rate_at <= curve.high).all()
    found = rate_at(curve, 4999)
    assert found == (4999, pytest.approx(0.75))
    assert rate_at(curve, 5000) is None


def test_a_strip_hides_no_drift() -> None:
    drift = np.zeros(100_000, np.int64)
    drift[77_777] = -3
    found = drift_buckets(drift, 400, 100_000)
    assert len(found) == 400
    assert found.tolist().count(-3) == 1
    assert np.flatnonzero(found).tolist() == [77_777 * 400 // 100_000]
    assert drift_words(drift) == "0 at the end, first in round 77777"
    few = drift_buckets(np.array([0, 2]), 8, 4)
    assert few.tolist() == [0, 0, 2, 2, 0, 0, 0, 0], "a round as wide as it is, none beyond the run's end"
    assert drift_buckets(drift, 0, 10).tolist() == []


def test_the_words_of_a_test() -> None:
    probabilities = seen([0.25, 0.75], [0.5, 0.5])
    vocabulary = toy_vocabulary((" a", " b"))
    draft = Draft(0, "rejected", q=0.5, p=0.25, u=0.75, threshold=0.375)
    side = compared(
        made_run(made_header(), [made_round(0, (draft,), [(1, "recovered")], distributions=(probabilities,))]),
        made_run(made_header(seed=2), [made_round(0, (), [(0, "target-draw")])]),
    ).found.first
    assert side is not None
    assert side.a is not None
    assert side.b is not None
    assert written_test(side.a, vocabulary) == "u·q 0.3750 > p 0.2500"
    assert written_test(side.b, vocabulary) == "nothing drafted"


def test_a_difference_is_bold_only_beyond_noise() -> None:
    good, bad = drafted_run([True] * 90 + [False] * 10), drafted_run([False] * 90 + [True] * 10)
    few = drafted_run([True] * 9 + [False]), drafted_run([False] * 9 + [True])

    def bold(a: RecordedRun, b: RecordedRun) -> set[str]:
        found = compared(a, b).found
        return {counter.name for counter in found.counters if is_beyond_noise(counter, found.verdict)}

    assert "per_position_acceptance" in bold(good, bad)
    assert "rounds" not in bold(good, bad), "a count has no interval"
    assert bold(good, good) == set()
    assert bold(*few) == set(), "too few to tell"
    counters = {counter.name: counter for counter in compared(good, bad).found.counters}
    assert counter_cells(counters["per_position_acceptance"])[:2] == ("per_position_acceptance", "0.9000")


def test_the_report_holds_settings_difference_and_verdict() -> None:
    shown = compared(run_of([0, 1, 2]), run_of([0, 1, 3], seed=5))
    assert settings_lines(shown.found) == ["setting seed: 1 in A, 5 in B"]
    text = report(shown.found, shown.described, ["one", "two"])
    assert text.startswith("A: one: sampler-match, target target")
    assert "Token 2 (from 0) is the first that differs." in text
    assert shown.found.verdict.words in text


def recorded(path: Path, *runs: list[int]) -> Path:
    recording = Recording()
    recording.writer = SessionWriter(path)
    for tokens in runs:
        run = recording.begin(made_header())
        for record in run_of(tokens):
            run.append(record)
        run.flush()
    recording.writer.close()
    return path


def test_a_file_lists_its_runs_and_two_of_them_are_compared(tmp_path: Path) -> None:
    path = recorded(tmp_path / f"a{SUFFIX}", [0, 1, 2], [0, 1, 3])
    (sources,) = results(list_steps(path))
    assert [source.place for source in sources] == [(path, 1), (path, 2)]
    assert sources[0].title.startswith(f"a{SUFFIX}: Run 1: sampler-match, 3 tokens")
    (shown,) = results(compare_steps(opener(sources[0]), opener(sources[1])))
    assert isinstance(shown, Compared)
    assert shown.found.aligned == 2
    assert shown.running == (True, True)


def test_what_is_wrong_with_a_file_is_said_in_words(tmp_path: Path) -> None:
    path = tmp_path / f"a{SUFFIX}"
    with pytest.raises(ValueError, match="doesn't exist"):
        results(list_steps(path))
    path.write_text("a shopping list " * 100)
    with pytest.raises(ValueError, match="no Draftscope session"):
        results(list_steps(path))
    gone = recorded(tmp_path / f"b{SUFFIX}", [0, 1])
    (sources,) = results(list_steps(gone))
    one, missing = opener(sources[0]), opener(Source("", None, (gone, 7)))
    with pytest.raises(ValueError, match="has no run 7"):
        results(compare_steps(one, missing))
    SessionWriter(tmp_path / f"c{SUFFIX}").close()
    with pytest.raises(ValueError, match="holds no run"):
        results(list_steps(tmp_path / f"c{SUFFIX}"))


def test_a_cancelled_job_ends_without_a_result(tmp_path: Path) -> None:
    path = recorded(tmp_path / f"a{SUFFIX}", [0, 1, 2], [0, 1, 3])
    (sources,) = results(list_steps(path))
    room = Room()
    room.cancelled = True
    assert results(compare_steps(opener(sources[0]), opener(sources[1])), room) == []
    assert results(list_steps(path), room) == []


def test_sources_are_the_same_by_run_or_by_place(tmp_path: Path) -> None:
    run, other = run_of([0]), run_of([0])
    path = recorded(tmp_path / f"a{SUFFIX}", [0])
    assert Source("x", run, None).is_same(Source("y", run, None))
    assert not Source("x", run, None).is_same(Source("x", other, None))
    assert Source("x", run, (path, 1)).is_same(Source("y", None, (tmp_path / "." / f"a{SUFFIX}", 1)))
    assert not Source("x", run, (path, 1)).is_same(Source("y", None, (path, 2)))
    assert not Source("x", run, None).is_same(Source("y", None, (path, 1)))


def test_a_known_run_is_compared_as_it_stood_on_another_thread() -> None:
    run = RecordedRun(made_header())
    for record in run_of([0, 1, 2]):
        run.append(record)
    steps = compare_steps(opener(Source("", run, None)), opener(Source("", run_of([0, 1, 3]), None)))
    for at in range(3, 50):
        run.append(made_round(at, (), [(0, "target-draw")], rule="sampler-match"))
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(results(steps)))
    thread.start()
    thread.join()
    assert found[0].found.lengths == (3, 3)
    assert found[0].running == (True, False)
