"""Thousands of independent verify rounds in one graph, so that a goodness of fit takes no time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.acceptance import Verdict, Verification
from engine.backend import mx
from engine.randomness import ACCEPT, DRAFT, METER, REPLACE, RoundKeys

Decide = Callable[[Verification], Verdict]
Table = npt.NDArray[Any]


class TrialKeys(RoundKeys):
    """Keys that are given: a uniform draw and a key for each purpose and position."""

    def __init__(self, uniforms: dict[int, mx.array], keys: dict[int, mx.array]) -> None:
        super().__init__(0, 0)
        self._uniforms, self._keys = uniforms, keys

    def uniforms(self, purpose: int, count: int) -> mx.array:
        return self._uniforms[purpose][:count]

    def keys(self, purpose: int, count: int) -> mx.array:
        return self._keys[purpose][:count]


@dataclass
class Rounds:
    """What n rounds came to: drafted (n, k), count (n,), token (n,), and whatever `also` asked for."""

    drafted: npt.NDArray[Any]
    count: npt.NDArray[Any]
    token: npt.NDArray[Any]
    also: dict[str, npt.NDArray[Any]]

    def first(self) -> npt.NDArray[Any]:
        """The first emitted token of each round."""
        return np.where(self.count > 0, self.drafted[:, 0], self.token)

    def emitted(self) -> npt.NDArray[Any]:
        """(n, k + 1) emitted tokens, -1 behind the last one."""
        n, k = self.drafted.shape
        places = np.arange(k + 1)
        padded = np.concatenate([self.drafted, np.zeros((n, 1), self.drafted.dtype)], axis=1).astype(np.int64)
        found = np.where(places < self.count[:, None], padded, -1)
        found[np.arange(n), self.count] = self.token
        return found


def many_rounds(
    decide: Decide,
    p: Table,
    q: Table,
    k: int,
    n: int,
    *,
    seed: int = 1,
    u: float | None = None,
    draft_scores: Table | None = None,
    one_hot: bool = False,
    also: Callable[[Verification, Verdict], dict[str, mx.array]] | None = None,
) -> Rounds:
    """n rounds of k drafts behind token 0.

    p, q (V, V): row t is the distribution behind token t; or (V,), the same behind every token; or (n, V, V), tables
    of its own for every round. `u`: every accept draw. `draft_scores` as q: the drafter's processed logits.
    `one_hot`: the drafter takes the argmax of q.
    """
    size = p.shape[-1]
    scores = q * 0 if draft_scores is None else draft_scores
    tables = [
        mx.array(t if t.ndim == 3 else np.broadcast_to(t, (size, size)), dtype=mx.float32) for t in (p, q, scores)
    ]
    axes = [0 if t.ndim == 3 else None for t in tables]
    random = np.random.default_rng(seed)
    uniforms = mx.array(random.random((n, 3 * k + 2), np.float32)) if u is None else mx.full((n, 3 * k + 2), u)
    keys = mx.array(random.integers(0, 2**32, (n, 2 * k + 1, 2), np.uint32))

    def one(uniform: mx.array, key: mx.array, p: mx.array, q: mx.array, scores: mx.array) -> dict[str, mx.array]:
        # vmap mistakes what doesn't depend on its arguments, so even the first token does.
        context, drafted, rows = key[0, 0] * 0, [], []
        for i in range(k):
            row = q[context]
            row = (mx.arange(size) == mx.argmax(row)).astype(mx.float32) if one_hot else row
            rows.append((context, row))
            context = mx.argmax(row) if one_hot else mx.random.categorical(mx.log(row), key=key[i])
            drafted.append(context)
        seen = mx.stack([c for c, _ in rows] + [context])
        given = TrialKeys({ACCEPT: uniform[:k], METER: uniform[k:]}, {DRAFT: key[:k], REPLACE: key[k:]})
        v = Verification(
            mx.stack(drafted),
            mx.log(p[seen]),
            mx.stack([row for _, row in rows]),
            given,
            draft_scores=None if draft_scores is None else scores[seen[:k]],
        )
        verdict = decide(v)
        more = also(v, verdict) if also is not None else {}
        return {"drafted": v.drafted, "count": verdict.count, "token": verdict.token, **more}

    found = mx.vmap(one, (0, 0, *axes))(uniforms, keys, *tables)
    mx.eval(found)
    host = {name: np.array(value) for name, value in found.items()}
    return Rounds(host.pop("drafted"), host.pop("count"), host.pop("token"), host)


def random_table(random: np.random.Generator, size: int, alpha: float = 0.7) -> Table:
    """(V, V): a distribution behind each token."""
    return random.dirichlet(np.full(size, alpha), size)
