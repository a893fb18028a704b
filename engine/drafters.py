"""Drafters: what proposes the tokens of a round, and the distribution that each was really drawn from."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.backend import mx
from engine.caches import Cache
from engine.models import LanguageModel
from engine.penalties import preprocess_logits, preprocessing_active, xtc_active
from engine.randomness import DRAFT, DRAFT_XTC, RoundKeys
from engine.sampling import draw, filter_logits, probabilities
from engine.settings import SamplerSettings


@dataclass(frozen=True)
class Proposal:
    """k drafted tokens, lazy: ids (k,), the model's logits and processed logits (k, V), and q (k, V) or None.

    `coins` (k,): XTC's coins where it is on. `weights` (k, V): the log-weights of the draws; None for a greedy drafter.
    q comes from the call that made the draw, never from a later one. There may be fewer drafts than were asked for.
    """

    tokens: mx.array
    logits: mx.array | None
    processed: mx.array | None
    q: mx.array | None
    coins: mx.array | None = None
    weights: mx.array | None = None


def no_proposal() -> Proposal:
    """The proposal of a round with k = 0."""
    return Proposal(mx.zeros((0,), dtype=mx.uint32), None, None, None)


class Drafter(Protocol):
    """What proposes tokens. A drafter without a network has no `model` and no `cache`, and owes nothing."""

    settings: SamplerSettings
    reports_q: bool

    @property
    def model(self) -> LanguageModel | None: ...

    @property
    def cache(self) -> Cache | None: ...

    def propose(self, context: Sequence[int], owed: int, k: int, prefix: mx.array | None, keys: RoundKeys) -> Proposal:
        """Draft at most k >= 1 tokens behind `context`, of which the cache lacks the last and `owed` before it.

        `prefix`: the history that penalties count.
        """


class ModelDrafter:
    """A network with sampler settings and a cache of its own.

    Picks: `sample` draws from q; `greedy` takes the argmax, so its q is one-hot; `no-q` draws but reports no q.
    """

    def __init__(self, model: LanguageModel, pick: str, settings: SamplerSettings, cache: Cache) -> None:
        self.model, self.cache = model, cache
        self.settings = dataclasses.replace(settings, temperature=0.0) if pick == "greedy" else settings
        self.reports_q = pick != "no-q"

    def forward(self, ids: mx.array) -> mx.array:
        """Logits (1, V) behind the last of ids (n,); the cache grows by n."""
        return self.cache.forward(ids)[:, -1, :]

    def propose(self, context: Sequence[int], owed: int, k: int, prefix: mx.array | None, keys: RoundKeys) -> Proposal:
        """Draft k tokens; the first pass takes the owed tokens and y."""
        settings = self.settings
        tokens: list[mx.array] = []
        rows: list[mx.array] = []
        processed: list[mx.array] = []
        log_weights: list[mx.array] = []
        coins = keys.uniforms(DRAFT_XTC, k) if xtc_active(settings) else None
        ids = mx.array(list(context[len(context) - 1 - owed :]), dtype=mx.uint32)
        for position in range(k):
            logits = self.forward(ids)
            coin = None if coins is None else coins[position : position + 1]
            drafted = mx.concatenate(tokens) if tokens and preprocessing_active(settings) else None
            scores = preprocess_logits(logits, settings, prefix, drafted, coin)
            if settings.is_greedy:  # the argmax needs no distribution
                ids = draw(scores, settings, None)
            else:
                log_weights.append(filter_logits(scores, settings, coin))
                ids = draw(log_weights[-1], settings, keys.key(DRAFT, position))
            mx.async_eval(ids)
            tokens.append(ids)
            rows.append(logits)
            processed.append(scores)
        scores = mx.concatenate(processed)
        logits = scores if not preprocessing_active(settings) else mx.concatenate(rows)
        weights = mx.concatenate(log_weights) if log_weights else None
        q = None
        if self.reports_q:
            q = probabilities(filter_logits(scores, settings, coins) if weights is None else weights)
        return Proposal(mx.concatenate(tokens), logits, scores, q, coins, weights)
