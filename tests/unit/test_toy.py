"""The toys give the logits, positions and words they promise, and their caches never wait for ids."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from engine.backend import mx
from engine.toy import (
    DRAFT_LOGITS,
    TARGET_LOGITS,
    WORDS,
    PositionModel,
    TableModel,
    ToyCache,
    fixed_logits,
    toy_model,
    toy_pair,
)


def softmax(logits: tuple[float, ...], temperature: float) -> np.ndarray:
    weights = np.exp(np.array(logits) / temperature)
    return weights / weights.sum()


def test_the_pairs_closed_forms_are_those_of_the_lessons() -> None:
    p, q = softmax(TARGET_LOGITS, 0.7), softmax(DRAFT_LOGITS, 0.7)
    assert np.minimum(p, q).sum() == pytest.approx(0.7053, abs=5e-5)
    assert (p * q).sum() == pytest.approx(0.3438, abs=5e-5)
    assert p[q.argmax()] == pytest.approx(0.6867, abs=5e-5)
    assert q[p.argmax()] == pytest.approx(0.4004, abs=5e-5)


def test_toy_pair_gives_its_logits_at_every_position() -> None:
    pair = toy_pair(layers=3)
    assert pair.draft is not None
    assert pair.notices == ()
    for model, logits in ((pair.target, TARGET_LOGITS), (pair.draft, DRAFT_LOGITS)):
        cache = model.make_cache()
        out = model.network(mx.array([[0, 5, 3]]), cache=cache)
        assert out.shape == (1, 3, 6)
        assert out.dtype == mx.float32
        np.testing.assert_array_equal(np.array(out)[0], np.tile(np.float32(logits), (3, 1)))
        assert [layer.offset for layer in cache] == [3, 3, 3]
        assert model.info.layers == 3
        assert model.vocab_size == 6
        assert model.context_length is None
        assert model.end_ids == frozenset()


def test_encode_splits_on_white_space_and_names_what_it_knows() -> None:
    model = toy_pair().target
    ids = model.encode(" the cat\n sat\ton a mat ")
    assert ids == [0, 1, 2, 3, 4, 5]
    assert model.vocabulary.decode(ids) == "".join(WORDS)
    assert model.encode("") == model.encode("  ") == []
    with pytest.raises(ValueError, match=r"the, cat, sat, on, a, mat.*'dog'"):
        model.encode("the dog")


def test_table_model_follows_the_previous_token() -> None:
    table = np.arange(9, dtype=np.float32).reshape(3, 3)
    out = TableModel(table)(mx.array([[2, 0, 1]]))
    np.testing.assert_array_equal(np.array(out)[0], table[[2, 0, 1]])
    with pytest.raises(ValueError, match=r"expected shape \(V, V\), got \(2, 3\)"):
        TableModel(np.zeros((2, 3)))


def test_position_model_follows_the_cache() -> None:
    table = np.eye(4, dtype=np.float32)[:3]
    model = PositionModel(table)
    cache = [ToyCache(), ToyCache()]
    np.testing.assert_array_equal(np.array(model(mx.array([[1, 1]]), cache=cache))[0], table[[0, 1]])
    np.testing.assert_array_equal(np.array(model(mx.array([[1, 1]]), cache=cache))[0], table[[2, 0]])
    for layer in cache:
        layer.trim(3)
    np.testing.assert_array_equal(np.array(model(mx.array([[1]]), cache=cache))[0], table[[1]])


def test_cache_trims_across_chunks_and_keeps_the_ids() -> None:
    cache = ToyCache()
    for chunk in ([1, 2, 3], [4], [5, 6]):
        cache.feed(mx.array([chunk]))
    assert cache.trim(0) == 0
    assert cache.tokens() == [1, 2, 3, 4, 5, 6]
    assert cache.trim(1) == 1
    assert cache.tokens() == [1, 2, 3, 4, 5]
    assert cache.trim(3) == 3
    assert cache.tokens() == [1, 2]
    cache.feed(mx.array([[9]]))
    assert cache.tokens() == [1, 2, 9]
    assert cache.offset == 3
    assert cache.trim(10) == 3
    assert cache.tokens() == []
    assert cache.offset == 0
    assert cache.state == []


def test_cache_never_evaluates_the_ids_it_is_fed() -> None:
    """An array left lazy by a thread that has ended can't be evaluated: whatever tries, raises."""
    made: list[mx.array] = []
    thread = threading.Thread(target=lambda: made.append(mx.array([[1, 2, 3]]) + 1))
    thread.start()
    thread.join()
    cache = ToyCache()
    cache.feed(made[0])
    out = fixed_logits(TARGET_LOGITS)(made[0], cache=[cache])
    assert cache.trim(4) == 4
    assert cache.offset == 2
    assert out.shape == (1, 3, 6)
    with pytest.raises(RuntimeError, match="Stream"):
        cache.tokens()


def test_words_must_match_the_logits() -> None:
    with pytest.raises(ValueError, match="expected 2, one for each logit, got 3"):
        toy_model(fixed_logits([0.0, 1.0]), ["a", "b", "c"])
