"""Drafters: their names, prompt lookup, drafts made of the target, and changing from one to another in a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from engine.backend import mx, nn
from engine.drafter_kinds import DRAFTER_TABLE, DrafterError, parse_drafter
from engine.drafting import draft_network
from engine.forks import settings_before
from engine.generator import SpeculativeGenerator
from engine.models import Pair, bundled_pair
from engine.prompt_lookup import NgramIndex
from engine.recording import OpenedSession, RecordedRun, Recording
from engine.rounds import Round
from engine.session_writer import SessionWriter
from engine.settings import SamplerSettings, Settings, SettingsError
from engine.toy import toy_pair

PROMPT = "It is a truth universally acknowledged, that a single man in possession of a good fortune"
GREEDY = SamplerSettings(temperature=0.0)
DRAFTERS = ("prompt-lookup:3", "prompt-lookup:2,one-hot", "self", "requantized:4", "dropped:1-2", "dropped:1-2,greedy")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    yield bundled_pair()
    mx.clear_cache()


def run(pair: Pair, drafter: str, **options: object) -> tuple[SpeculativeGenerator, list[Round]]:
    settings = Settings(drafter=drafter, **({"seed": 3, "max_tokens": 40, "diagnostics": True} | options))  # type: ignore[arg-type]
    generator = SpeculativeGenerator(pair, settings, stochastic=True)
    generator.start(PROMPT)
    return generator, list(generator.rounds())


# Names


@pytest.mark.parametrize(
    ("text", "full", "pick"),
    [
        ("sample", "model", "sample"),
        ("greedy", "model,greedy", "greedy"),
        ("no-q", "model,no-q", "no-q"),
        ("prompt-lookup", "prompt-lookup:3", "no-q"),
        ("prompt-lookup:5,one-hot", "prompt-lookup:5,one-hot", "one-hot"),
        ("dropped:3", "dropped:3-3", "sample"),
        ("dropped:12-17,greedy", "dropped:12-17,greedy", "greedy"),
        ("requantized", "requantized:4", "sample"),
        ("requantized:3:64", "requantized:3:64", "sample"),
        ("requantized:2:32:mlp,no-q", "requantized:2:32:mlp,no-q", "no-q"),
        (" self ", "self", "sample"),
    ],
)
def test_a_drafter_is_read_in_full_and_reads_back(text: str, full: str, pick: str) -> None:
    found = parse_drafter(text)
    assert (found.text, found.pick) == (full, pick)
    assert parse_drafter(found.text) == found


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no kind of drafter"),
        ("ngram", "no kind of drafter"),
        ("mtp:x", "mtp is a kind of drafter that this version can't build"),
        ("self:1", "takes no argument"),
        ("greedy:1", "takes no argument"),
        ("self,loud", "expected one of sample, greedy, no-q"),
        ("prompt-lookup,sample", "expected one of no-q, one-hot"),
        ("prompt-lookup:0", "from 1 to 32"),
        ("prompt-lookup:²", "from 1 to 32"),
        ("dropped", "got no argument"),
        ("dropped:5-3", "from 5 to"),
        ("dropped:-3", "first layer"),
        ("requantized:7", "bits"),
        ("requantized:4:16", "group"),
        ("requantized:4:32:head", "modules"),
        ("requantized:4:32:all:x", "BITS"),
    ],
)
def test_what_is_no_drafter_is_refused_in_words(text: str, words: str) -> None:
    with pytest.raises(DrafterError, match=words):
        parse_drafter(text)
    with pytest.raises(SettingsError, match=r"^drafter: "):
        Settings(drafter=text)


def test_every_kind_says_whether_it_reports_q() -> None:
    assert [Settings(drafter=text).reports_q for text in ("sample", "greedy", "no-q", "self,no-q")] == [
        *(True, True, False, False)
    ]
    assert [Settings(drafter=f"prompt-lookup{pick}").reports_q for pick in ("", ",one-hot")] == [False, True]
    assert Settings(drafter="prompt-lookup,one-hot").one_hot_q
    assert not Settings(drafter="prompt-lookup", sampler=GREEDY).one_hot_q, "a drafter that reports no q has none"
    assert set(DRAFTER_TABLE) == {"model", "prompt-lookup", "dropped", "requantized", "self"}


# Prompt lookup


@pytest.mark.parametrize(
    ("context", "k", "found"),
    [
        ([1, 2, 3, 4, 1, 2], 3, [3, 4, 1]),
        ([1, 2, 3, 9, 2, 3, 8, 1, 2, 3], 2, [9, 2]),  # the longest run that ends here wins over a newer shorter one
        ([7, 5, 7, 6, 7], 1, [6]),  # of equally long ones, the newest
        ([4, 4, 4], 5, [4]),
        ([1, 2, 3], 2, []),
        ([1], 2, []),
    ],
)
def test_the_longest_run_that_stood_before_is_continued(context: list[int], k: int, found: list[int]) -> None:
    assert NgramIndex(3).continuation(context, k) == found


def test_an_index_that_grew_finds_what_a_fresh_one_finds() -> None:
    numbers = np.random.default_rng(5).integers(0, 6, 400).tolist()
    grown = NgramIndex(3)
    for end in range(1, 400):
        assert grown.continuation(numbers[:end], 4) == NgramIndex(3).continuation(numbers[:end], 4)
    other = [*numbers[:20], 9, 1, 2]
    assert grown.continuation(other, 4) == NgramIndex(3).continuation(other, 4), "another text is indexed anew"


def test_a_one_hot_lookup_accepts_with_p_of_its_draft(pair: Pair) -> None:
    _, rounds = run(pair, "prompt-lookup:1,one-hot", max_tokens=60)
    tested = [draft for record in rounds for draft in record.drafts if draft.fate != "ignored"]
    assert len(tested) > 8
    for draft in tested:
        assert draft.q == 1
        assert draft.sum_min == pytest.approx(draft.p, abs=1e-6)
        assert (draft.fate == "accepted") == (draft.u <= draft.p)
    assert {record.rule for record in rounds} == {"stochastic"}
    assert all(record.draft_cache is None and record.debt == 0 and record.drift == 0 for record in rounds)


def test_a_lookup_without_q_falls_back_by_name(pair: Pair) -> None:
    _, rounds = run(pair, "prompt-lookup:1")
    assert {record.rule for record in rounds} == {"sampler-match-no-proposal-distribution"}
    assert any(record.k for record in rounds)
    assert any(record.k == 0 for record in rounds), "where nothing stood before, nothing is drafted"


# Drafts made of the target


def test_the_target_as_its_own_drafter_is_never_rejected(pair: Pair) -> None:
    generator, rounds = run(pair, "self")
    assert generator.statistics.accepted == generator.statistics.proposed > 20
    assert all(d.sum_min == pytest.approx(1, abs=1e-4) for r in rounds for d in r.drafts if d.fate == "accepted")
    assert generator.header is not None
    assert generator.header.draft == pair.target.info


@pytest.mark.parametrize("drafter", DRAFTERS)
def test_at_temperature_0_no_drafter_changes_the_stream(pair: Pair, drafter: str) -> None:
    plain, _ = run(pair, "sample", sampler=GREEDY, num_draft_tokens=0)
    with_it, rounds = run(pair, drafter, sampler=GREEDY)
    assert with_it.tokens == plain.tokens
    assert with_it.host_syncs == len(rounds)


def test_dropped_layers_share_the_targets_weights_and_leave_it_alone(pair: Pair) -> None:
    draft = draft_network(pair, "dropped:1-2")
    assert draft is not None
    assert draft.info.layers == len(draft.make_cache()) == pair.target.info.layers - 2
    assert draft.info.name == "bundled target, layers 1-2 dropped"
    assert draft.info.parameters < pair.target.info.parameters == len_of(pair.target.network)
    kept = [pair.target.network.model.layers[i] for i in (0, 3)]  # type: ignore[attr-defined]
    for ours, theirs in zip(draft.network.model.layers, kept, strict=True):  # type: ignore[attr-defined]
        assert ours.mlp.up_proj.weight is theirs.mlp.up_proj.weight
    assert draft_network(pair, "dropped:1-2,greedy") is draft, "made once for a pair"


def len_of(network: object) -> int:
    return sum(array.size for _, array in nn.utils.tree_flatten(network.parameters()))  # type: ignore[attr-defined]


@pytest.mark.parametrize(("bits", "least"), [(2, 0.02), (4, 0.004), (8, 0.0001)])
def test_requantized_weights_are_off_by_no_more_than_a_step(pair: Pair, bits: int, least: float) -> None:
    draft = draft_network(pair, f"requantized:{bits}:32:mlp")
    assert draft is not None
    for ours, theirs in zip(draft.network.model.layers, pair.target.network.model.layers, strict=True):  # type: ignore[attr-defined]
        part, full = ours.mlp.up_proj, np.array(theirs.mlp.up_proj.weight)
        assert isinstance(part, nn.QuantizedLinear)
        assert not isinstance(ours.self_attn.q_proj, nn.QuantizedLinear), "mlp alone"
        found = np.array(mx.dequantize(part.weight, part.scales, part.biases, group_size=32, bits=bits))
        off = np.abs(found - full).reshape(len(full), -1, 32).max(-1)
        groups = full.reshape(len(full), -1, 32)
        step = (groups.max(-1) - groups.min(-1)) / (2**bits - 1)
        assert (off <= 1.1 * step + 1e-6).all()  # MLX moves the ends of the range so that 0 stays 0
        assert off.max() > least, "they were rounded at all"
    assert not isinstance(pair.target.network.model.layers[0].mlp.up_proj, nn.QuantizedLinear)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("drafter", "words"),
    [
        ("dropped:4", "expected layers below 4, all that bundled target has"),
        ("dropped:0-3", "no layer"),
        ("requantized:4:128:attention", "multiple of 128|nothing"),
    ],
)
def test_a_draft_that_cannot_be_made_is_refused_before_the_run(pair: Pair, drafter: str, words: str) -> None:
    if "128" in drafter:
        pair = dataclasses.replace(pair, target=toy_pair().target, self_drafts={})
        words = "no layers or weights"
    with pytest.raises(SettingsError, match=words):
        SpeculativeGenerator(pair, Settings(drafter=drafter))


# Changing in a run


CHANGES = ("prompt-lookup:2,one-hot", "dropped:1-2", "sample", "requantized:4,greedy", "prompt-lookup:2", "sample")


def changing_run(pair: Pair, **options: object) -> tuple[SpeculativeGenerator, list[Round]]:
    generator = SpeculativeGenerator(pair, Settings(seed=9, max_tokens=60, **options), stochastic=True)  # type: ignore[arg-type]
    generator.start(PROMPT)
    rounds = []
    for number, record in enumerate(generator.rounds()):
        rounds.append(record)
        if number % 3 == 1 and number // 3 < len(CHANGES):
            generator.change(drafter=CHANGES[number // 3])
    return generator, rounds


def test_a_drafter_takes_over_between_two_rounds_with_its_cache_fed(pair: Pair) -> None:
    plain, _ = run(pair, "sample", sampler=GREEDY, num_draft_tokens=0, max_tokens=60)
    generator, rounds = changing_run(pair, sampler=GREEDY)
    assert generator.tokens == plain.tokens
    changed = [record for record in rounds if "drafter" in record.changed]
    assert [record.changed["drafter"] for record in changed] == list(CHANGES)
    for record in changed:
        cache = record.draft_cache
        assert (cache is None) == record.changed["drafter"].startswith("prompt-lookup")
        if cache is not None:
            assert cache.refed == cache.start > 0
            assert record.drift == 0
    assert generator.host_syncs == len(rounds)


@pytest.mark.parametrize("at", [3, 12])
def test_a_fork_behind_changes_of_the_drafter_repeats_the_run(pair: Pair, at: int) -> None:
    generator, rounds = changing_run(pair)
    header = generator.header
    assert header is not None
    in_force = next((r.changed["drafter"] for r in reversed(rounds[:at]) if "drafter" in r.changed), "sample")
    again = SpeculativeGenerator(pair, dataclasses.replace(header.settings, drafter=in_force), stochastic=True)
    again.fork(header, rounds[:at])
    repeated = []
    for record in again.rounds():
        repeated.append(record)
        if "drafter" in rounds[record.index + 1].changed if record.index + 1 < len(rounds) else False:
            again.change(drafter=rounds[record.index + 1].changed["drafter"])
    assert again.tokens == generator.tokens
    assert [r.drafts for r in repeated] == [r.drafts for r in rounds[at:]]
    assert [r.draft_cache for r in repeated] == [r.draft_cache for r in rounds[at:]]


def test_a_fork_may_go_on_with_another_drafter(pair: Pair) -> None:
    generator, rounds = run(pair, "sample", sampler=GREEDY)
    assert generator.header is not None
    again = SpeculativeGenerator(pair, Settings(drafter="dropped:1-2", sampler=GREEDY, max_tokens=40, seed=3))
    header = again.fork(generator.header, rounds[:4])
    assert header.settings.drafter == "sample", "it began with that one"
    first = next(again.rounds())
    assert first.changed == {"drafter": "dropped:1-2"}
    assert [*again.rounds()]
    assert again.tokens == generator.tokens


def test_a_change_that_cannot_be_made_is_refused_and_the_run_goes_on(pair: Pair) -> None:
    generator = SpeculativeGenerator(pair, Settings(seed=1, max_tokens=20), stochastic=True)
    generator.start(PROMPT)
    rounds = generator.rounds()
    next(rounds)
    with pytest.raises(SettingsError, match="expected layers below 4"):
        generator.change(drafter="dropped:1-9")
    assert all(not record.changed for record in rounds)
    assert len(generator.tokens) == 20


def test_the_record_names_what_drafts_in_every_round(pair: Pair, tmp_path: Path) -> None:
    generator, rounds = changing_run(pair)
    assert generator.header is not None
    run = RecordedRun(generator.header)
    for record in rounds:
        run.append(record)
    at = {record.index: record.drafting for record in rounds if record.drafting is not None}
    assert [found.drafter for found in at.values()] == list(CHANGES)
    for record in rounds:
        found = run.drafting_at(record.index)
        assert found.drafter == next((at[n].drafter for n in sorted(at, reverse=True) if n <= record.index), "sample")
        assert (found.model is None) == (record.draft_cache is None)
        if found.model is not None:
            assert len(found.layers) == found.model.layers
    sizes = [None if found.model is None else found.model.layers for found in at.values()]
    assert sizes == [None, 2, 2, 4, None, 2]

    path = tmp_path / "changes.draftscope"
    recording = Recording()
    recording.writer = SessionWriter(path)
    filed = recording.begin(generator.header)
    for record in rounds:
        filed.append(record)
    assert generator.end is not None
    filed.finish(generator.end)
    recording.writer.close()
    with closing(OpenedSession(path)) as opened:
        (stored,) = opened.runs
        assert stored.damage is None
        assert stored.taken_over == run.taken_over
        assert stored.changes == run.changes
        assert [at for at, _ in run.changes or ()] == list(at)
        for number in range(len(rounds) + 1):
            wanted = settings_before(run.header.settings, rounds[:number])
            assert run.settings_before(number) == stored.settings_before(number) == wanted
        stored.changes = None
        assert stored.settings_before(len(rounds)) == wanted, "as in a file that doesn't tell"
        last, drafting = stored.taken_over[-1]
        stored.taken_over[-1] = last, dataclasses.replace(drafting, drafter="magic")
        assert "doesn't know the drafter" in str(stored.why_no_proposal_meter("stochastic"))


@pytest.mark.parametrize("k", [0, 4])
def test_a_new_drafter_reads_the_text_though_a_fault_is_on_or_nothing_is_drafted(pair: Pair, k: int) -> None:
    settings = Settings(seed=2, max_tokens=30, rewind="legacy-rewind", num_draft_tokens=k)
    generator = SpeculativeGenerator(pair, settings, stochastic=True)
    generator.start(PROMPT)
    rounds = generator.rounds()
    debt = next(rounds).debt
    generator.change(drafter="dropped:1-2")
    record = next(rounds)
    assert record.draft_cache is not None
    assert record.draft_cache.refed == record.draft_cache.start == record.context_length - 1 - debt


def test_what_a_model_is_owed_is_forgotten_by_a_drafter_without_a_cache(pair: Pair) -> None:
    generator = SpeculativeGenerator(pair, Settings(seed=2, max_tokens=60, drafter="self"), stochastic=True)
    generator.start(PROMPT)
    rounds = generator.rounds()
    assert next(rounds).debt == 1, "all drafts were accepted"
    generator.change(drafter="prompt-lookup:2")
    assert next(rounds).debt == 0
    generator.change(drafter="self")
    record = next(rounds)
    assert record.draft_cache is not None
    assert record.draft_cache.start == record.context_length - 1


def test_a_drafter_that_reports_no_q_shows_none(pair: Pair) -> None:
    _, rounds = run(pair, "self,no-q")
    assert all(draft.q is None for record in rounds for draft in record.drafts)
    assert all(seen.q is None for record in rounds for seen in record.distributions)
