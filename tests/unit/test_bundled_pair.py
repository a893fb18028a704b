"""The bundled pair: its size, its overlap on text it hasn't seen, and the engine's promises on a real pair."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from engine.backend import mx
from engine.generator import SpeculativeGenerator
from engine.models import Pair, bundled_pair, bundled_pair_folders
from engine.sampling import probabilities
from engine.settings import SamplerSettings, Settings

PROMPT = "It is a truth universally acknowledged, that"
HELD_OUT = Path(__file__).parents[1] / "data" / "held_out.txt"


@pytest.fixture(scope="module")
def pair() -> Pair:
    return bundled_pair()


@pytest.fixture(scope="module")
def held_out_logits(pair: Pair) -> list[tuple[mx.array, mx.array]]:
    """Both models' logits on blocks of 500 tokens."""
    ids = pair.target.encode(HELD_OUT.read_text(encoding="utf-8"))[:2000]
    blocks = [mx.array(ids[start : start + 500])[None] for start in range(0, len(ids), 500)]
    assert pair.draft is not None
    return [(pair.target.network(block)[0], pair.draft.network(block)[0]) for block in blocks]


def run(pair: Pair, settings: Settings, stochastic: bool) -> SpeculativeGenerator:
    generator = SpeculativeGenerator(pair, settings, stochastic=stochastic)
    generator.start(PROMPT)
    for _ in generator.rounds():
        pass
    return generator


def test_both_folders_together_fit_in_12_megabytes() -> None:
    sizes = [file.stat().st_size for folder in bundled_pair_folders() for file in Path(folder).iterdir()]
    assert 1e6 < sum(sizes) <= 12e6


def test_mlx_lm_loads_both() -> None:
    from mlx_lm import load

    for folder in bundled_pair_folders():
        model, tokenizer = load(str(folder))
        assert tokenizer.decode(tokenizer.encode(PROMPT)) == PROMPT
        assert len(model.layers) > 0


def test_pieces_look_like_words(pair: Pair) -> None:
    pieces = [pair.target.vocabulary.text_of(token) for token in pair.target.encode(PROMPT)]
    assert {" is", " truth", " that", ","} <= set(pieces)
    assert "".join(pieces) == PROMPT


def test_overlap_on_held_out_text(held_out_logits: list[tuple[mx.array, mx.array]]) -> None:
    sums = [
        float(mx.mean(mx.sum(mx.minimum(probabilities(t / 0.7), probabilities(d / 0.7)), axis=-1)).item())
        for t, d in held_out_logits
    ]
    assert 0.5 <= np.mean(sums) <= 0.85


def plain_greedy(pair: Pair, tokens: int) -> tuple[list[int], list[float]]:
    """mlx-lm's plain decoding, and the gap between its two best log-probabilities at each token."""
    from mlx_lm.generate import generate_step

    ids, gaps = [], []
    prompt = mx.array(pair.target.encode(PROMPT))
    for token, logprobs in generate_step(prompt, pair.target.network, max_tokens=tokens):
        best = np.sort(np.array(logprobs).ravel())[-2:]
        ids.append(int(token))
        gaps.append(float(best[1] - best[0]))
    return ids, gaps


@pytest.mark.parametrize("k", [1, 4])
def test_temperature_0_is_the_targets_own_greedy_stream(pair: Pair, k: int) -> None:
    settings = Settings(sampler=SamplerSettings(temperature=0), num_draft_tokens=k, max_tokens=80, seed=0, record=False)
    tokens = run(pair, settings, stochastic=True).tokens
    plain, gaps = plain_greedy(pair, 80)
    first = next((i for i, (a, b) in enumerate(zip(tokens, plain, strict=True)) if a != b), None)
    assert first is None or gaps[first] < 1e-3, f"first difference at {first}, top-2 gap {gaps[first or 0]}"


def test_a_stochastic_run_accepts_longer_and_sits_at_its_ceiling(pair: Pair) -> None:
    runs = {
        stochastic: run(pair, Settings(max_tokens=256, seed=1234, diagnostics=True), stochastic)
        for stochastic in (True, False)
    }
    assert runs[True].rule.id == "stochastic"
    assert runs[False].rule.id == "sampler-match"
    longer, shorter = runs[True].statistics, runs[False].statistics
    assert (longer.mean_accepted_len or 0) > (shorter.mean_accepted_len or 0)
    assert runs[True].host_syncs == longer.rounds
    for counted, closed in ((longer, longer.closed_form_sum_min), (shorter, shorter.closed_form_sum_prod)):
        interval = stats.binomtest(counted.accepted, counted.positions_tested).proportion_ci(0.999, method="wilson")
        assert closed is not None
        assert interval.low <= closed <= interval.high


def differences(pair: Pair, stochastic: bool) -> Iterator[float]:
    for seed in range(10):
        rates = []
        for rewind in ("correct", "legacy-rewind"):
            settings = Settings(max_tokens=60, seed=seed, record=False, rewind=rewind)
            rates.append(run(pair, settings, stochastic).statistics.per_position_acceptance or 0.0)
        yield rates[0] - rates[1]


@pytest.mark.parametrize("stochastic", [True, False])
def test_legacy_rewind_costs_acceptance(pair: Pair, stochastic: bool) -> None:
    """The 95 % interval of the difference over ten seeds lies above 0."""
    found = np.array(list(differences(pair, stochastic)))
    assert found.mean() - stats.t.ppf(0.975, 9) * found.std(ddof=1) / np.sqrt(10) > 0
