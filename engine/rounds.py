"""The records that leave the engine: plain Python and NumPy, immutable, no mx.array anywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.alternatives import Counterfactual
from engine.settings import Settings
from engine.text import Vocabulary

Floats = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int32]

FATES = ("accepted", "rejected", "ignored")
SOURCES = ("accepted", "recovered", "bonus", "target-draw", "degenerate-fallback", "greedy")
FINISH_REASONS = ("stop", "length", "cancelled", "error")
STAGES = ("logits", "raw", "temperature", "top-k", "top-p", "min-p", "xtc")
"""Names of the chain's stages. `logits`: before the penalties; `raw`: softmax of the processed logits. A record
holds `raw`, the stages that are on, in the order they ran, and always the final distribution, apart."""


@dataclass(frozen=True, slots=True)
class Distributions:
    """p and q at one position, for the tokens that matter; both over the same ids.

    `ids` (n,) int32: the union of the largest of p, of q and of the residual, the drafted and the emitted token;
    largest max(p, q) first. `p`, `q`, `residual` (n,) float32; `residual` is relu(p - q) / `residual_mass`.
    q and the residual are None where the drafter reports no q, or behind the drafts (the bonus position).
    `p_stages`, `q_stages`: (name, values (n,)) of every stage that was on, in the order they ran.
    `p_support`, `q_support`, `residual_support`: how many tokens of the vocabulary have a probability above 0.
    """

    ids: Ids
    p: Floats
    q: Floats | None
    residual: Floats | None
    residual_mass: float | None
    p_stages: tuple[tuple[str, Floats], ...]
    q_stages: tuple[tuple[str, Floats], ...]
    vocab_size: int
    p_support: int
    q_support: int | None
    residual_support: int | None


@dataclass(frozen=True, slots=True)
class Draft:
    """One drafted token, the test it met, and its fate. What the rule doesn't need may be None.

    `threshold` is u * q(d), compared with p(d). `match` is the token that d was compared with: the fresh
    target draw under sampler-match, the argmax under greedy-argmax. The closed forms need diagnostics and q.
    Under `block`, whose test is u <= h, `threshold` is h_i; `block_p` and `block_h` are its P_i and h_i.
    """

    token: int
    fate: str
    q: float | None = None
    p: float | None = None
    u: float | None = None
    threshold: float | None = None
    match: int | None = None
    sum_min: float | None = None
    sum_prod: float | None = None
    p_argmax_q: float | None = None
    q_argmax_p: float | None = None
    p_entropy: float | None = None
    q_entropy: float | None = None
    block_p: float | None = None
    block_h: float | None = None


@dataclass(frozen=True, slots=True)
class Emitted:
    """One emitted token. `position` counts the round's positions from 0; the bonus stands at position k.

    `probability` is what it was drawn with: p, or the residual's for a recovered token; None if not recorded.
    """

    token: int
    source: str
    position: int
    probability: float | None = None


@dataclass(frozen=True, slots=True)
class CachePositions:
    """Where one cache stood in a round, in tokens held.

    `trim_asked` and `trim_done` hold one number a layer, or a single one where all layers agree.
    `layers_end` likewise: where every layer ended. `refed`: tokens forwarded anew to repair a drifted cache
    after the rewind was set back to correct, before this round's drafts. `first_wrong`: the first position that
    doesn't hold the committed token after the round, or holds one too many; None if the cache is right.
    `replayed`: kept tokens that were forwarded again at the rewind, behind a snapshot of what can't be trimmed.
    """

    start: int
    forwarded: int
    trim_asked: tuple[int, ...]
    trim_done: tuple[int, ...]
    end: int
    expected_end: int
    layers_end: tuple[int, ...]
    refed: int = 0
    first_wrong: int | None = None
    replayed: int = 0


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where a round's tokens fell in the distributions that they should come from, for the meters: see `engine.meters`.

    `u_ratio`, `u_p` (emitted,): emitted tokens under p, ordered by p / q and by p. `u_proposal` (k,): drafted tokens
    under q, None without a q.
    """

    u_ratio: Floats
    u_p: Floats
    u_proposal: Floats | None


@dataclass(frozen=True, slots=True)
class ContentCheck:
    """The next-token logits behind a round, from the caches in use and from fresh ones over the same tokens.

    `round`: the last round before it, -1 before the first. `main_difference`, `draft_difference`: the largest absolute
    difference; the draft's is None without a drafter. `syncs`: what it cost, beside the rounds' own. Numerics alone
    give about 1e-5 in float32.
    """

    round: int
    main_difference: float
    draft_difference: float | None
    syncs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds as the host observed them: building the drafts, waiting for the round's one sync, and the rest.

    MLX is lazy: `draft` is the time to build and launch the draft passes, not the time they took.
    """

    draft: float
    verify: float
    decide: float
    rewind: float

    @property
    def total(self) -> float:
        return self.draft + self.verify + self.decide + self.rewind


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is shown of a model. `context_length` None: the config names none.

    `digest`: SHA-256 of its configuration and tokenizer files, "" for a model without files.
    """

    name: str
    path: str
    model_type: str
    parameters: int
    layers: int
    vocab_size: int
    context_length: int | None
    dtype: str
    cache_type: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class LayerInfo:
    """A layer of a cache: its class, and what a token takes, None if not known.

    `trimmable`: whether tokens can always be taken off it; else it is put back from a snapshot, and fed the kept tokens
    again. `note`: what else is to be said, in words. `window`: the tokens that a sliding window holds at most.
    """

    type: str
    trimmable: bool
    bytes_per_token: float | None = None
    note: str = ""
    window: int | None = None


@dataclass(frozen=True, slots=True)
class Drafting:
    """What drafts: the drafter's text ("none": plain decoding), its network, if it has one, and its cache's layers."""

    drafter: str
    model: ModelInfo | None
    layers: tuple[LayerInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """One draft-and-verify round. Round numbers count from 0; draft positions are shown from 1.

    `context_length`: tokens before this round, prompt included. `rule_label` is the rule's label in brackets,
    `rule_reason` one plain sentence. `changed`: live settings that changed at this round, by name.
    `distributions`: one for each drafted token, then one for the position behind them; empty if not recorded.
    `coordinates` and `counterfactual`: with diagnostics on, where they apply. `draft_cache` is None for a drafter
    without a cache. `text_end`: characters of the run's text after this round. `forced`: the decree that overruled
    the round's verdict, in words. `drafting`: what drafts from this round on, where another drafter took over.
    """

    index: int
    context_length: int
    rule: str
    rule_label: str
    rule_reason: str
    distribution_preserving: bool
    drafts: tuple[Draft, ...]
    emitted: tuple[Emitted, ...]
    main_cache: CachePositions
    draft_cache: CachePositions | None
    debt: int
    drift: int
    timings: Timings
    distributions: tuple[Distributions, ...] = ()
    changed: dict[str, Any] = field(default_factory=dict)
    text_end: int = 0
    forced: str = ""
    coordinates: Coordinates | None = None
    counterfactual: Counterfactual | None = None
    drafting: Drafting | None = None

    @property
    def k(self) -> int:
        """Tokens drafted."""
        return len(self.drafts)

    @property
    def tested(self) -> int:
        return sum(d.fate != "ignored" for d in self.drafts)

    @property
    def accepted(self) -> int:
        return sum(d.fate == "accepted" for d in self.drafts)

    @property
    def rejected_at(self) -> int | None:
        """Position (from 0) of the rejected draft, or None."""
        return next((i for i, d in enumerate(self.drafts) if d.fate == "rejected"), None)


@dataclass(frozen=True, slots=True)
class RunHeader:
    """What is known before the first round. `seed` is the one in use, drawn if none was given.

    `notices`: anything that isn't what was asked, in plain sentences, for the banner.
    """

    run_id: int
    target: ModelInfo
    draft: ModelInfo | None
    drafter: str
    vocabulary: Vocabulary
    prompt: str
    prompt_tokens: tuple[int, ...]
    settings: Settings
    seed: int
    backend: str
    notices: tuple[str, ...] = ()
    main_layers: tuple[LayerInfo, ...] = ()
    draft_layers: tuple[LayerInfo, ...] = ()

    @property
    def drafting(self) -> Drafting:
        """What drafts in the first round."""
        return Drafting(self.drafter, self.draft, self.draft_layers)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended: `finish_reason` is stop, length, cancelled or error; `notice` says why in words.

    `check_syncs`: what content checks cost, beside `host_syncs`.
    """

    finish_reason: str
    notice: str
    summary: str
    text: str
    host_syncs: int
    seconds: float
    check_syncs: int = 0
