"""What is observed of a round beside its verdict: closed forms, and the part of p, q and the residual that is kept.

Everything here is lazy and goes through the round's one host sync; the host then makes plain records of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.acceptance import Verdict, Verification, residual
from engine.backend import mx
from engine.drafters import Proposal
from engine.rounds import Distributions, Floats
from engine.sampling import filter_stages, probabilities
from engine.settings import SamplerSettings

Arrays = dict[str, mx.array]
Host = dict[str, npt.NDArray[Any]]


def closed_forms(p: mx.array, q: mx.array) -> Arrays:
    """By position (k,), for p, q (k, V): sum min, sum product, p(argmax q), q(argmax p), both entropies in nats."""

    def at(rows: mx.array, best: mx.array) -> mx.array:
        return mx.take_along_axis(rows, mx.argmax(best, axis=-1, keepdims=True), axis=-1)[:, 0]

    return {
        "sum_min": mx.sum(mx.minimum(p, q), axis=-1),
        "sum_prod": mx.sum(p * q, axis=-1),
        "p_argmax_q": at(p, q),
        "q_argmax_p": at(q, p),
        "p_entropy": entropy(p),
        "q_entropy": entropy(q),
    }


def entropy(p: mx.array) -> mx.array:
    """Entropy of each row in nats, 0 log 0 = 0."""
    return -mx.sum(p * mx.log(mx.maximum(p, 1e-38)), axis=-1)


@dataclass(frozen=True)
class Observation:
    """What to read back after the sync, and the names of the stages that were on."""

    arrays: Arrays
    p_stages: tuple[str, ...]
    q_stages: tuple[str, ...]
    vocab_size: int


def observe(
    v: Verification,
    verdict: Verdict,
    proposal: Proposal,
    target: tuple[mx.array, mx.array, mx.array | None, SamplerSettings],
    drafting: SamplerSettings | None,
    top_n: int,
    diagnostics: bool,
) -> Observation:
    """Collect the arrays of a record.

    `target`: the target's logits and processed logits (k + 1, V), XTC's coins or None, and its sampler's settings.
    `drafting`: the drafter's settings. Stages are kept with diagnostics on, and under greedy settings.
    """
    logits, processed, coins, sampler = target
    k, vocab_size = v.k, processed.shape[-1]
    n, whole = min(top_n, vocab_size), top_n >= vocab_size
    q = v.q if k else None
    chosen = [_largest(processed, n)]
    if not whole:
        chosen.append(mx.broadcast_to(verdict.token.astype(mx.int32), (k + 1, 1)))
    if k and not whole:
        behind = mx.zeros((1, 1), dtype=mx.int32) + verdict.token.astype(mx.int32)
        chosen.append(mx.concatenate([v.drafted.astype(mx.int32)[:, None], behind]))
    arrays: Arrays = {}
    if q is not None and proposal.processed is not None:
        rest = tested_residual(v, verdict, q)
        mass = mx.sum(rest, axis=-1)
        for rows in () if whole else (_largest(proposal.processed, n), _largest(rest, n)):
            chosen.append(mx.concatenate([rows, rows[-1:]]))
        arrays |= {"residual_mass": mass, "residual_support": mx.sum(rest > 0, axis=-1)}
        arrays |= {"q_support": mx.sum(q > 0, axis=-1)}
        if diagnostics:
            arrays |= closed_forms(v.p[:k], q)
    ids = mx.concatenate(chosen, axis=-1)
    if "residual_mass" in arrays:
        arrays["residual"] = mx.take_along_axis(rest, ids[:k], axis=-1)
    arrays |= {"ids": ids, "p": mx.take_along_axis(v.p, ids, axis=-1), "p_support": mx.sum(v.p > 0, axis=-1)}
    p_stages: tuple[str, ...] = ()
    q_stages: tuple[str, ...] = ()
    if diagnostics or sampler.is_greedy:
        p_stages = _keep_stages(arrays, "p", logits, processed, sampler, coins, ids)
    if q is not None and proposal.processed is not None:
        arrays["q"] = mx.take_along_axis(q, ids[:k], axis=-1)
        if drafting is not None and proposal.logits is not None and (diagnostics or drafting.is_greedy):
            q_stages = _keep_stages(arrays, "q", proposal.logits, proposal.processed, drafting, proposal.coins, ids[:k])
    return Observation(arrays, p_stages, q_stages, vocab_size)


def tested_residual(v: Verification, verdict: Verdict, q: mx.array) -> mx.array:
    """relu(p - q) (k, V) as the rule in force draws from it: `block` scales p, `raw-q` takes another q."""
    p = v.p[: v.k]
    if verdict.block_p is not None:
        p = mx.concatenate([mx.ones((1,)), verdict.block_p[:-1]])[:, None] * p
    return residual(p, q if verdict.believed_q is None else verdict.believed_q)


def _largest(rows: mx.array, n: int) -> mx.array:
    """Ids (rows, n) int32 of each row's n largest values, in no order."""
    if n == rows.shape[-1]:
        return mx.broadcast_to(mx.arange(n, dtype=mx.int32), rows.shape)
    return mx.argpartition(-rows, kth=n - 1, axis=-1)[:, :n].astype(mx.int32)


def _keep_stages(
    arrays: Arrays,
    name: str,
    logits: mx.array,
    processed: mx.array,
    settings: SamplerSettings,
    coins: mx.array | None,
    ids: mx.array,
) -> tuple[str, ...]:
    """Add the chosen ids' probabilities after every stage but the last, which is the final distribution itself."""
    stages = filter_stages(processed, settings, coins)
    if processed is not logits:
        stages.insert(0, ("logits", logits.astype(mx.float32)))
    for stage, weights in stages[:-1]:
        arrays[f"{name}:{stage}"] = mx.take_along_axis(probabilities(weights), ids, axis=-1)
    return tuple(stage for stage, _ in stages)


def distributions(seen: Observation, host: Host, k: int) -> tuple[Distributions, ...]:
    """One record for each of the k drafted positions and for the one behind them."""
    return tuple(_distribution(seen, host, row, row < k and "q" in host) for row in range(len(host["ids"])))


def _distribution(seen: Observation, host: Host, row: int, has_q: bool) -> Distributions:
    ids, first = np.unique(host["ids"][row], return_index=True)
    p: Floats = host["p"][row][first]
    q: Floats | None = host["q"][row][first] if has_q else None
    order = np.lexsort((ids, -(p if q is None else np.maximum(p, q))))
    first, p = first[order], p[order]
    q = None if q is None else q[order]

    def stages(name: str, final: Floats, names: tuple[str, ...]) -> tuple[tuple[str, Floats], ...]:
        kept = [(stage, host[f"{name}:{stage}"][row][first]) for stage in names[:-1]]
        return (*kept, (names[-1], final)) if names else ()

    mass = float(host["residual_mass"][row]) if q is not None else None
    rest = host["residual"][row][first] if q is not None else None
    return Distributions(
        ids=ids[order].astype(np.int32),
        p=p,
        q=q,
        residual=rest / mass if rest is not None and mass else rest,
        residual_mass=mass,
        p_stages=stages("p", p, seen.p_stages),
        q_stages=stages("q", q, seen.q_stages) if q is not None else (),
        vocab_size=seen.vocab_size,
        p_support=int(host["p_support"][row]),
        q_support=int(host["q_support"][row]) if q is not None else None,
        residual_support=int(host["residual_support"][row]) if q is not None else None,
    )


def value_at(record: Distributions, values: Floats | None, token: int) -> float | None:
    """A token's value in one of the record's rows, None if it isn't among the ids kept."""
    if values is None:
        return None
    found = np.flatnonzero(record.ids == token)
    return float(values[found[0]]) if found.size else None
