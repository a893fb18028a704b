"""Makes the drafter that is asked for, and the network that it needs: the pair's own, one of the target, or none."""

from __future__ import annotations

from collections.abc import Callable

from engine.caches import Cache
from engine.drafter_kinds import DrafterError, parse_drafter
from engine.drafters import Drafter, ModelDrafter
from engine.models import LanguageModel, Pair
from engine.prompt_lookup import PromptLookup
from engine.self_drafts import self_draft
from engine.settings import Settings, SettingsError


def draft_network(pair: Pair, drafter: str) -> LanguageModel | None:
    """The network that a drafter drafts with; None if it needs none, or the pair has no draft model.

    One made of the target is made once for a pair. Raises SettingsError where it can't be made.
    """
    asked = parse_drafter(drafter)
    if asked.kind.network == "draft":
        return pair.draft
    if asked.kind.network == "none":
        return None
    if asked.network not in pair.self_drafts:
        try:
            pair.self_drafts[asked.network] = self_draft(pair.target, asked)
        except DrafterError as error:
            raise SettingsError(f"drafter: {error}") from error
    return pair.self_drafts[asked.network]


def drafts_at_all(pair: Pair, drafter: str) -> bool:
    """Whether a drafter proposes anything: the pair's own model may be missing."""
    return parse_drafter(drafter).kind.network != "draft" or pair.draft is not None


def make_drafter(pair: Pair, settings: Settings, make_cache: Callable[[LanguageModel], Cache]) -> Drafter | None:
    """The drafter of `settings`, with an empty cache; None: plain decoding. Raises SettingsError."""
    asked = settings.drafter_kind
    if asked.kind.network == "none":
        one_hot = asked.pick == "one-hot"
        return PromptLookup(asked.ngram, pair.target.vocab_size, settings.drafting, one_hot)
    network = draft_network(pair, settings.drafter)
    return None if network is None else ModelDrafter(network, asked.pick, settings.drafting, make_cache(network))
