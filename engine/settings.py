"""What a run is asked to do: sampler and speculation settings, validated once and frozen."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from engine.drafter_kinds import Drafter, DrafterError, parse_drafter

GREEDY_TEMPERATURE = 1e-5
"""Temperatures below this count as 0, for p and for q alike."""

CHAIN_ORDERS = ("temperature-first", "mlx-lm")
"""`temperature-first`: temperature, top-k, top-p, min-p. `mlx-lm`: top-p, min-p, XTC, top-k, temperature."""

REWINDS = ("correct", "legacy-rewind", "drop-debt", "stale-trim", "no-trim")
"""How the draft cache is brought back: by the law, or by a fault, which costs acceptance. See `engine.rewinds`."""

MAIN_REWINDS = ("correct", "stale-trim", "no-trim")
"""How the main cache is: a fault there corrupts p itself."""

RULE_CHOICES = (
    "auto",
    "sampler-match",
    "stochastic",
    "block",
    "greedy-argmax",
    "argmax-vs-argmax",
    "resample-from-p",
    "missing-support-check",
    "raw-q",
)
"""What `rule` may ask for by hand; `engine.rules.acceptance_rule` decides."""

KV_BITS = (0, 2, 3, 4, 5, 6, 8)
KV_GROUPS = (32, 64, 128)
"""What MLX can quantize keys and values to, and in groups of how many."""

LIVE_FIELDS = ("rule", "stochastic", "kill_switch", "diagnostics", "rewind", "main_rewind", "drafter")
"""Fields that may change while a run goes; a change takes effect at the next round."""

MAX_SEED = 2**64 - 1

_FLOAT32_OVER = 2.0**128 - 2.0**103
_FLOAT32_LEAST = 2.0**-126
"""From the first on a number is rounded to infinity in float32; below the second it may count as 0."""


class SettingsError(ValueError):
    """A setting is out of range; the text says what was expected and what came."""


def _require(holds: bool, name: str, expected: str, value: object) -> None:
    if not holds:
        raise SettingsError(f"{name}: expected {expected}, got {value!r}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


def _is_count(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


@dataclass(frozen=True, kw_only=True)
class SamplerSettings:
    """One model's way from logits to a distribution; every default but the temperature means "off".

    Each penalty looks back on the last `*_window` tokens of the history (0: all of it). The history is
    the prompt, if `penalize_prompt`, then the emitted tokens, then the drafts before the position.
    Raises SettingsError for a negative, NaN or infinite setting, and for one that float32 can't hold where the
    logits, which are float32, are calculated with it.
    """

    temperature: float = 0.7
    top_k: int = 0
    top_p: float = 0.0
    min_p: float = 0.0
    chain_order: str = "temperature-first"
    logit_bias: tuple[tuple[int, float], ...] = ()
    repetition_penalty: float = 1.0
    repetition_window: int = 64
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_window: int = 0
    frequency_penalty: float = 0.0
    frequency_window: int = 64
    presence_penalty: float = 0.0
    presence_window: int = 64
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    penalize_prompt: bool = True

    def __post_init__(self) -> None:
        def at_least(name: str, least: float) -> None:
            value = getattr(self, name)
            _require(_is_number(value) and value >= least, name, f"a finite number >= {least}", value)

        def between(name: str, low: float, high: float) -> None:
            value = getattr(self, name)
            _require(_is_number(value) and low <= value <= high, name, f"a number in [{low}, {high}]", value)

        def in_float32(name: str, value: float) -> None:
            _require(abs(value) < _FLOAT32_OVER, name, "a number that float32 holds (up to 3.4028235e+38)", value)

        for name in ("temperature", "top_p", "dry_multiplier"):
            at_least(name, 0)
        between("min_p", 0, 1)
        between("xtc_probability", 0, 1)
        between("xtc_threshold", 0, 0.5)
        at_least("dry_base", 1)
        _require(
            _is_number(self.repetition_penalty) and self.repetition_penalty > 0,
            "repetition_penalty",
            "a finite number > 0 (1 is off)",
            self.repetition_penalty,
        )
        _require(
            self.repetition_penalty >= _FLOAT32_LEAST,
            "repetition_penalty",
            f"a number that float32 holds (from {_FLOAT32_LEAST:.3g})",
            self.repetition_penalty,
        )
        for name in ("frequency_penalty", "presence_penalty"):
            _require(_is_number(getattr(self, name)), name, "a finite number", getattr(self, name))
        for name in ("temperature", "repetition_penalty", "frequency_penalty", "presence_penalty"):
            in_float32(name, getattr(self, name))
        windows = ("repetition_window", "dry_window", "frequency_window", "presence_window")
        for name in ("top_k", "dry_allowed_length", *windows):
            _require(_is_count(getattr(self, name)), name, "a whole number >= 0", getattr(self, name))
        _require(self.chain_order in CHAIN_ORDERS, "chain_order", f"one of {CHAIN_ORDERS}", self.chain_order)
        for token, bias in self.logit_bias:
            _require(_is_count(token), "logit_bias", "token ids >= 0", token)
            _require(_is_number(bias), "logit_bias", f"a finite bias for id {token}", bias)
            in_float32("logit_bias", bias)

    @property
    def is_greedy(self) -> bool:
        """The sampler's own short-circuit: temperature 0 (or below 1e-5), or top_k 1."""
        return self.temperature < GREEDY_TEMPERATURE or self.top_k == 1

    def check_vocabulary(self, vocab_size: int) -> None:
        """Raise SettingsError if a bias names a token id that the vocabulary doesn't have."""
        for token, _ in self.logit_bias:
            _require(token < vocab_size, "logit_bias", f"token ids below {vocab_size} (the vocabulary)", token)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything a run is asked to do. `max_tokens` -1: until an end-of-sequence token or the context ends.

    `drafter`: KIND[:ARGUMENT][,PICK], see `engine.drafter_kinds`. `draft_sampler` None: the drafter samples as the
    target does. `seed` None: one is drawn and recorded.
    `rule` "auto": `acceptance_rule` decides; an id: that rule, asked for by hand. `top_n`: how many tokens
    of each distribution a record keeps; `full_vocabulary`: all of them, for its size see `engine.recording_size`.
    `kv_bits`: both models keep keys and values in so many bits, in groups of `kv_group_size`, once a pass would go
    beyond `kv_start` tokens; 0: as the networks make them. Raises SettingsError.
    """

    sampler: SamplerSettings = field(default_factory=SamplerSettings)
    draft_sampler: SamplerSettings | None = None
    num_draft_tokens: int = 4
    max_tokens: int = 256
    seed: int | None = None
    drafter: str = "sample"
    prefill_chunk: int = 512
    stop: tuple[str, ...] = ()
    record: bool = True
    top_n: int = 24
    full_vocabulary: bool = False
    rule: str = "auto"
    stochastic: bool = False
    kill_switch: bool = False
    diagnostics: bool = False
    rewind: str = "correct"
    main_rewind: str = "correct"
    kv_bits: int = 0
    kv_group_size: int = 64
    kv_start: int = 0

    def __post_init__(self) -> None:
        _require(_is_count(self.num_draft_tokens), "num_draft_tokens", "a whole number >= 0", self.num_draft_tokens)
        _require(
            self.max_tokens == -1 or _is_count(self.max_tokens, 1),
            "max_tokens",
            "a whole number >= 1, or -1 for no limit",
            self.max_tokens,
        )
        _require(
            self.seed is None or (_is_count(self.seed) and self.seed <= MAX_SEED),
            "seed",
            "a whole number from 0 to 2^64 - 1",
            self.seed,
        )
        try:
            parse_drafter(self.drafter)
        except DrafterError as error:
            raise SettingsError(f"drafter: {error}") from error
        _require(self.rewind in REWINDS, "rewind", f"one of {REWINDS}", self.rewind)
        _require(self.main_rewind in MAIN_REWINDS, "main_rewind", f"one of {MAIN_REWINDS}", self.main_rewind)
        _require(_is_count(self.prefill_chunk, 1), "prefill_chunk", "a whole number >= 1", self.prefill_chunk)
        _require(_is_count(self.top_n, 1), "top_n", "a whole number >= 1", self.top_n)
        _require(all(self.stop), "stop", "strings that are not empty", self.stop)
        _require(self.kv_bits in KV_BITS, "kv_bits", f"one of {KV_BITS} (0 is off)", self.kv_bits)
        _require(self.kv_group_size in KV_GROUPS, "kv_group_size", f"one of {KV_GROUPS}", self.kv_group_size)
        _require(_is_count(self.kv_start), "kv_start", "a whole number >= 0", self.kv_start)

    @property
    def drafting(self) -> SamplerSettings:
        """The sampler settings that the drafter really uses."""
        return self.sampler if self.draft_sampler is None else self.draft_sampler

    @property
    def drafter_kind(self) -> Drafter:
        """`drafter`, taken apart."""
        return parse_drafter(self.drafter)

    @property
    def reports_q(self) -> bool:
        """Whether the drafter reports the distribution that it drew from."""
        return self.drafter_kind.reports_q

    @property
    def one_hot_q(self) -> bool:
        """Whether the drafter takes its argmax, so that its q is one-hot."""
        drafter = self.drafter_kind
        return drafter.one_hot_q or (drafter.reports_q and self.drafting.is_greedy)

    def with_live(self, changes: dict[str, Any]) -> Settings:
        """A copy with changed live fields; raises SettingsError for a field that can't change in a run."""
        for name in changes:
            _require(name in LIVE_FIELDS, name, f"one of {LIVE_FIELDS} while a run goes", changes[name])
        return dataclasses.replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Flat and JSON-ready: the sampler's fields stand beside the rest, `draft_sampler` is a dict or None."""
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        sampler, draft = own.pop("sampler"), own.pop("draft_sampler")
        flat = {**dataclasses.asdict(sampler), **own}
        flat["draft_sampler"] = None if draft is None else dataclasses.asdict(draft)
        return flat
