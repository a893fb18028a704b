"""How large the rounds of a run are with the whole vocabulary in their records: told, and refused, before the run."""

from __future__ import annotations

import dataclasses

from engine.settings import SamplerSettings, Settings, SettingsError

MOST_ROUND_BYTES = 2**27
"""Larger rounds are refused: half of what one value of a session file may hold."""

_NUMBER = 4
"""Bytes of an id or a probability."""

_PENALTIES = ("repetition_penalty", "dry_multiplier", "frequency_penalty", "presence_penalty", "logit_bias")


def round_bytes(settings: Settings, vocab_size: int, has_draft: bool = True) -> int:
    """Bytes that p, q, the residual and their stages take in a round of k drafts; the rest of it is some 2 KB."""
    k = settings.num_draft_tokens if has_draft else 0
    p = q = 0
    if settings.diagnostics or settings.sampler.is_greedy:
        p = _stages(settings.sampler, vocab_size)
    if settings.reports_q:
        drafting = settings.drafting
        if settings.drafter_kind.one_hot_q:
            drafting = dataclasses.replace(drafting, temperature=0.0)
        q = 2 + (_stages(drafting, vocab_size) if settings.diagnostics or drafting.is_greedy else 0)
    return _NUMBER * vocab_size * (k * (2 + p + q) + 2 + p)


def _stages(sampler: SamplerSettings, vocab_size: int) -> int:
    """How many stages of the chain a record holds, the final one included."""
    usual = SamplerSettings()
    before = any(getattr(sampler, name) != getattr(usual, name) for name in _PENALTIES)
    xtc = sampler.xtc_probability > 0 and not sampler.is_greedy
    before = before or (xtc and sampler.chain_order != "mlx-lm")
    if sampler.is_greedy:
        return 2 + before
    filters = (
        sampler.temperature != 1,
        0 < sampler.top_k < vocab_size,
        0 < sampler.top_p < 1,
        sampler.min_p > 0,
        xtc and sampler.chain_order == "mlx-lm",
    )
    return 1 + sum(filters) + before


def run_bytes(settings: Settings, vocab_size: int, has_draft: bool = True) -> tuple[int, int] | None:
    """(least, most) bytes of a whole run: if every draft is accepted, and if none is; None without a limit."""
    if settings.max_tokens == -1:
        return None
    k, each = settings.num_draft_tokens if has_draft else 0, round_bytes(settings, vocab_size, has_draft)
    return -(-settings.max_tokens // (k + 1)) * each, settings.max_tokens * each


def size_words(settings: Settings, vocab_size: int, has_draft: bool = True) -> str:
    """`About 1.3 MB a round, 68 MB to 340 MB for 256 tokens.`"""
    words = f"About {in_bytes(round_bytes(settings, vocab_size, has_draft))} a round"
    if (found := run_bytes(settings, vocab_size, has_draft)) is None:
        return f"{words}; the run has no limit on its tokens."
    least, most = map(in_bytes, found)
    between = least if least == most else f"{least} to {most}"
    return f"{words}, {between} for {settings.max_tokens} token{'' if settings.max_tokens == 1 else 's'}."


def check_size(settings: Settings, vocab_size: int, has_draft: bool = True) -> None:
    """Raise SettingsError for a full vocabulary that makes rounds too large to be kept, with diagnostics or without."""
    if not settings.full_vocabulary:
        return
    # Diagnostics may come on while the run goes.
    size = round_bytes(dataclasses.replace(settings, diagnostics=True), vocab_size, has_draft)
    if size > MOST_ROUND_BYTES:
        raise SettingsError(
            f"full_vocabulary: expected rounds of at most {in_bytes(MOST_ROUND_BYTES)}, but "
            f"{settings.num_draft_tokens} drafts over {vocab_size} tokens make {in_bytes(size)}: draft fewer, or keep "
            "the likeliest tokens only"
        )


def in_bytes(count: int) -> str:
    """In decimal units, as disks are sold."""
    if count < 1000:
        return f"{count} bytes"
    value, units = count / 1000, ["KB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        units.pop(0)
    return f"{value:.0f} {units[0]}" if value >= 100 else f"{value:.2g} {units[0]}"
