"""What is said before the first round: prompts and models that can't be run, and what isn't what was asked."""

from __future__ import annotations

import math
import operator
import reprlib
from collections.abc import Sequence
from typing import SupportsIndex

from engine.cache_layers import kv_quantization, why_not_quantizable
from engine.drafting import draft_network, drafts_at_all
from engine.models import LanguageModel, Pair
from engine.rounds import ModelInfo, RunHeader
from engine.settings import Settings, SettingsError


class PromptError(ValueError):
    """The prompt can't be run; the text says why."""


def prompt_ids(target: LanguageModel, prompt: str | Sequence[int]) -> list[int]:
    """The ids of a prompt, text or ids. Raises PromptError for one that can't be run."""
    try:
        ids = target.encode(prompt) if isinstance(prompt, str) else [_token_id(token) for token in prompt]
    except ValueError as error:
        raise PromptError(str(error)) from error
    if isinstance(prompt, str) and prompt and not prompt.strip():
        raise PromptError(f"the prompt is blank: expected text that isn't only white space, got {reprlib.repr(prompt)}")
    if not ids:
        raise PromptError("prompt must be non-empty: expected at least one token, got none")
    wrong = next((token for token in ids if not 0 <= token < target.vocab_size), None)
    if wrong is not None:
        raise PromptError(f"prompt token {wrong} is outside the vocabulary: expected ids below {target.vocab_size}")
    room = target.context_length
    if room is not None and len(ids) > room:
        raise PromptError(f"the prompt has {len(ids)} tokens, but the target's context holds {room}: shorten it")
    return ids


def _token_id(token: object) -> int:
    if not isinstance(token, SupportsIndex):
        raise PromptError(f"the prompt holds {token!r}, which is no token id: expected whole numbers")
    return operator.index(token)


def notices_of(pair: Pair, settings: Settings) -> list[str]:
    """What isn't what was asked, in plain sentences."""
    found = []
    draft, vocab_size = draft_network(pair, settings.drafter), pair.target.vocab_size
    if not drafts_at_all(pair, settings.drafter):
        found.append("No draft model: plain decoding, nothing is speculated.")
    elif settings.num_draft_tokens == 0:
        unused = f"the draft model {draft.info.name}" if draft is not None else settings.drafter_kind.kind.title
        found.append(f"k is 0: plain decoding, {unused} isn't used.")
    elif draft is not None and (draft.context_length or math.inf) < (pair.target.context_length or 0):
        found.append(
            f"The draft's context ({draft.context_length}) is shorter than the target's "
            f"({pair.target.context_length}): past it, plain decoding goes on."
        )
    if draft is not None and draft is not pair.draft:
        found += draft.notices
    for sampler, who in ((settings.sampler, "target"), (settings.drafting, "draft")):
        if sampler.top_k >= vocab_size:
            found.append(f"top-k {sampler.top_k} has no effect on the {who}: the vocabulary is {vocab_size}.")
    return list(dict.fromkeys(found))


def check_kv_quantization(pair: Pair, settings: Settings) -> None:
    """Raise SettingsError if the keys and values of a model of the pair can't be kept as the settings want.

    Tries it on both models, on the thread that loaded them.
    """
    wanted = kv_quantization(settings)
    for who, model in (("target", pair.target), ("draft", draft_network(pair, settings.drafter))):
        if wanted is None or model is None:
            continue
        network = model.network
        reason = why_not_quantizable(lambda ids, cache, n=network: n(ids, cache=cache), model.make_cache, wanted)  # type: ignore[misc]
        if reason is not None:
            raise SettingsError(
                f"kv_bits: the {who} {model.info.name} can't keep its keys and values in {wanted.bits} bits: {reason}. "
                "Leave kv_bits at 0, or choose another group size or model"
            )


def check_models(pair: Pair, header: RunHeader) -> None:
    """Raise PromptError if the run was recorded with other models than these."""
    models: list[tuple[str, ModelInfo | None, ModelInfo | None]] = [("target", pair.target.info, header.target)]
    if header.settings.drafter_kind.kind.network == "draft":  # others are made of the target, or need no model
        models.append(("draft", pair.draft.info if pair.draft is not None else None, header.draft))
    for who, info, recorded in models:
        if (info and _identity(info)) != (recorded and _identity(recorded)):
            raise PromptError(
                f"the run was recorded with the {who} {recorded.name if recorded else 'model left out'}: "
                f"load it first; loaded is {info.name if info else 'none'}"
            )


def _identity(info: ModelInfo) -> tuple[str, int, int, str]:
    return info.name, info.parameters, info.vocab_size, info.digest
